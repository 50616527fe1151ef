"""The posterior mode: stochastic optimisation to its neighbourhood, then quasi-Newton steps on the full data."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco.batches import Arrays, Batch
from scirocco.core.checks import require_count
from scirocco.core.program import QUICK
from scirocco.core.trees import all_finite
from scirocco.core.types import Array, Params
from scirocco.optimise.chart import chart
from scirocco.optimise.curvature import FULL, curvature
from scirocco.target import Density, Target, merge, require_target

NEWTON = 20  # steps with a fixed curvature at most
CLOSE, NEAR = 1e-3, 0.05  # in posterior sds: the wanted distance to the mode, and one that does
PASSES = 3  # over data on disk at most, for steps with one curvature


def find_mode(
    target: Target,
    initial: Params,
    *,
    held: Params = None,
    optimizer: Any = None,
    steps: int | float | None = None,
    batch_size: int = 1000,
    polish: bool | None = None,
    seed: int = 0,
) -> Params:
    """A maximum of the posterior near which ``initial`` lies.

    First ``steps`` (default: two epochs, between 500 and 5,000) of an optax optimiser on minibatch gradients of U/N; by
    default Adam with a cosine decay of its learning rate. Then, if ``polish`` (default: when the data is in memory, or
    there are at most 500 parameters), Newton's method for up to 500 parameters and L-BFGS beyond, on the full potential
    summed in float64, because the centre of a control variate should lie well within a posterior sd of the mode; of
    data on disk a few passes, until it does. On a manifold the
    steps go along geodesics, and the polish works in normal coordinates; the mode is that of the density on the
    manifold's own measure.
    """
    require_target(target)
    require_count("batch_size", batch_size)
    if steps is not None:
        require_count("steps", steps)
    rows = min(int(batch_size), target.size, target.source.resident_rows)
    if steps is None:
        steps = int(np.clip(2 * target.size // rows, 500, 5000))
    steps = int(steps)
    if optimizer is None:
        optimizer = _adam(max(1, steps))
    position = _descend(target, initial, held, optimizer, steps, rows, seed)
    if polish is None:
        polish = isinstance(target.source, Arrays) or ravel_pytree(position)[0].size <= FULL
    if polish and not target.geometry.flat:
        around, here = chart(target, position)
        position = target.geometry.exponential(position, _polish(around, here, held))
    elif polish:
        position = _polish(target, position, held)
    return position


def _descend(target: Target, initial: Params, held: Params, optimizer: Any, steps: int, rows: int, seed: int) -> Params:
    position, state = jax.tree.map(jnp.asarray, initial), optimizer.init(initial)
    weight, indices = jax.device_put((np.float32(target.size / rows), np.arange(rows, dtype=np.int32)))
    done = epoch = 0
    while done < steps:
        for data in target.shuffled(rows, seed, epoch):
            if done == steps:
                break
            batch = Batch(data, weight, indices)
            position, state = _update(target.density, optimizer, position, held, state, batch)
            done += 1
        epoch += 1
    if not all_finite(position):
        raise FloatingPointError(
            "the search for the mode went to infinity: give a centre, a better initial position, or an optimizer with "
            "a smaller learning rate, ControlVariate(options={'optimizer': optax.adam(1e-3)})"
        )
    return position


@cache
def _adam(steps: int) -> Any:
    """Adam with a cosine decay; the same object for the same number of steps, so that it is compiled once."""
    import optax

    return optax.adam(optax.cosine_decay_schedule(0.05, steps))


@partial(jax.jit, static_argnums=(0, 1), compiler_options=QUICK)
def _update(
    density: Density, optimizer: Any, position: Params, held: Params, state: Any, batch: Batch
) -> tuple[Params, Any]:  # fmt: skip
    """One step of an optimiser on U/N."""
    import optax

    slope = density.geometry.slope(position, density.potential_gradient(position, held, batch))
    change, state = optimizer.update(jax.tree.map(lambda g: g / density.size, slope), state, position)
    if density.geometry.flat:
        return optax.apply_updates(position, change), state
    return density.geometry.exponential(position, change), state


def _polish(target: Target, position: Params, held: Params) -> Params:
    """Newton's method with a curvature that is computed once or twice; where that does not do, L-BFGS before it."""
    if ravel_pytree(position)[0].size > FULL:
        return quasi_newton(target, position, held)
    if not isinstance(target.source, Arrays):
        return _newton(target, position, held, steps=PASSES, close=NEAR)[0]
    position, distance = _newton(target, position, held)
    if distance > CLOSE:  # the curvature has changed on the way
        position, distance = _newton(target, position, held)
    return position if distance < NEAR else _newton(target, quasi_newton(target, position, held), held)[0]


def _newton(
    target: Target, position: Params, held: Params, steps: int = NEWTON, close: float = CLOSE
) -> tuple[Params, float]:
    """The best position of steps L L' grad U, and its distance from the mode in posterior sds, |L' grad U|.

    U itself is not looked at: near the mode the sum of N log densities no longer tells better from worse.
    """
    flat, unravel = ravel_pytree(position)
    try:
        scale = curvature(target, position, held).scale
    except FloatingPointError:
        return position, np.inf

    def slope_at(point: np.ndarray) -> np.ndarray:
        gradient = target.full_gradient(unravel(jax.device_put(point.astype(flat.dtype))), held)
        return np.asarray(scale.transposed(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(gradient)])))

    point = np.asarray(flat, np.float64)
    slope = slope_at(point)
    for _ in range(steps):
        if np.max(np.abs(slope)) < close:
            break
        trial = point - scale.forward(slope)
        new = slope_at(trial)
        if not np.linalg.norm(new) < np.linalg.norm(slope):
            break
        point, slope = trial, new
    return unravel(jnp.asarray(point, flat.dtype)), float(np.max(np.abs(slope)))


def quasi_newton(target: Target, position: Params, held: Params = None, iterations: int = 200) -> Params:
    """The maximum that L-BFGS finds on all data from ``position`` on."""
    from scipy.optimize import minimize

    flat, unravel = ravel_pytree(position)

    def value_and_gradient(point: np.ndarray) -> tuple[float, np.ndarray]:
        params = unravel(jnp.asarray(point, flat.dtype))
        value, gradient = 0.0, np.zeros(point.shape)
        for batch in target.passes():
            v, g = _likelihood_part(target.density, params, held, batch)
            value, gradient = value + float(v), gradient + np.asarray(g, dtype=np.float64)
        v, g = _prior_part(target.density, params, held)
        return (value + float(v)) / target.size, (gradient + np.asarray(g, dtype=np.float64)) / target.size

    found = minimize(
        value_and_gradient,
        np.asarray(flat, dtype=np.float64),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": iterations, "ftol": 1e-13, "gtol": 1e-9},
    )
    return unravel(jnp.asarray(found.x, flat.dtype)) if np.all(np.isfinite(found.x)) else position


@partial(jax.jit, static_argnums=0)
def _likelihood_part(density: Density, params: Params, held: Params, batch: Batch) -> tuple[Array, Array]:
    def potential(params: Params) -> Array:
        return -jnp.sum(density.log_likelihoods(merge(params, held), batch.data) * batch.weights)

    value, gradient = jax.value_and_grad(potential)(params)
    return value, ravel_pytree(gradient)[0]


@partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _prior_part(density: Density, params: Params, held: Params) -> tuple[Array, Array]:
    value, gradient = jax.value_and_grad(lambda p: -density.log_prior(merge(p, held)))(params)
    return value, ravel_pytree(gradient)[0]
