"""The posterior mode: stochastic optimisation to its neighbourhood, then quasi-Newton steps on the full data."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco.batches import Arrays, Batch
from scirocco.batches.base import row_bytes
from scirocco.core.checks import require_count
from scirocco.core.program import QUICK
from scirocco.core.trees import all_finite
from scirocco.core.types import Array, Params
from scirocco.density import Density, merge
from scirocco.optimise.chart import chart
from scirocco.optimise.curvature import FULL, affordable, curvature
from scirocco.samplers.preconditioned import Scale
from scirocco.target import Sample, Target, require_target

NEWTON = 20  # steps with a fixed curvature at most
CLOSE, NEAR = 1e-3, 0.05  # in posterior sds: the wanted distance to the mode, and one that does
PASSES = 3  # over large data at most, after the first
SAMPLE_BYTES = 64 * 2**20  # of rows in which the mode is looked for before all are,
MANY, ROWS_EACH = 100_000, 1000  # of which there must be as many, and for each parameter,
LARGE = 4  # and data that are so many times larger
BENDS = 2  # times that a step on all data is corrected by the sample


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

    First ``steps`` (default: two epochs, between 500 and 5,000; 0 if ``initial`` is known to be near) of an optax
    optimiser on minibatch gradients of U/N; by default Adam with a cosine decay of its learning rate. Then, if
    ``polish`` (default: when the data is in memory, or there are at most 500 parameters), Newton's method for up to
    500 parameters and L-BFGS beyond, on the full potential summed in float64, because the centre of a control
    variate should lie well within a posterior sd of the mode; of data on disk a few passes, until it does. All but
    the last steps are made on a random sample of 64 MB where the data are far larger or on disk and there are at most
    500 parameters: its mode is a few posterior sds from that of all data, and one of Newton's steps leads there. On a
    manifold the steps go along geodesics, and the polish works in normal coordinates; the mode is that of the
    density on the manifold's own measure. With constraints it is that of the density of the free numbers that
    chains move.
    """
    require_target(target)
    require_count("batch_size", batch_size)
    if target.change:
        moving = target.free(held=tuple(held or ()))
        found = find_mode(
            moving, moving.freed(initial), held=held, optimizer=optimizer, steps=steps, batch_size=batch_size,
            polish=polish, seed=seed,
        )  # fmt: skip
        return moving.to_parameters.parameters(found)
    if steps is not None:
        require_count("steps", steps, least=0)
    rows = min(int(batch_size), target.size, target.source.resident_rows)
    if steps is None:
        steps = int(np.clip(2 * target.size // rows, 500, 5000))
    steps = int(steps)
    if optimizer is None:
        optimizer = _adam(max(1, steps))
    size = ravel_pytree(initial)[0].size
    if polish is None:
        polish = isinstance(target.source, Arrays) or size <= FULL
    sample = _sample(target, size, seed) if polish else None
    position = _descend(sample or target, initial, held, optimizer, steps, rows, seed)
    if polish and not target.geometry.flat:
        around, here = chart(target, position)
        position = target.geometry.exponential(position, _polish(around, here, held))
    elif polish:
        position = _polish(target, position, held, sample)
    return position


def _sample(target: Target, size: int, seed: int) -> Sample | None:
    """Rows in memory to look for the mode in before all are; None where these are too few, or all in memory as well."""
    rows = min(target.size, target.source.resident_rows, SAMPLE_BYTES // row_bytes(target.source.example))
    enough = rows == target.size or rows >= max(MANY, ROWS_EACH * size)
    useful = target.size >= LARGE * rows or not isinstance(target.source, Arrays)
    return Sample.of(target, rows, seed) if enough and useful and size <= FULL and target.geometry.flat else None


def _descend(target: Target, initial: Params, held: Params, optimizer: Any, steps: int, rows: int, seed: int) -> Params:
    position, state = jax.tree.map(jnp.asarray, initial), optimizer.init(initial)
    weight, indices = jax.device_put((np.float32(target.density.size / rows), np.arange(rows, dtype=np.int32)))
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


def _polish(target: Target, position: Params, held: Params, sample: Sample | None = None) -> Params:
    """Newton's method with a curvature that is computed once or twice; where that does not do, L-BFGS before it."""
    if ravel_pytree(position)[0].size > FULL:
        return quasi_newton(target, position, held)
    if sample is not None:
        position = _polish(sample, position, held)
    if sample is not None or not isinstance(target.source, Arrays):
        renew = affordable(target, position)
        position, distance = _newton(target, position, held, PASSES, NEAR, renew=renew, sample=sample)
        if distance < NEAR or (sample is not None and not isinstance(target.source, Arrays)):
            return position
    position, distance = _newton(target, position, held)
    if distance > CLOSE:  # the curvature has changed on the way
        position, distance = _newton(target, position, held)
    return position if distance < NEAR else _newton(target, quasi_newton(target, position, held), held)[0]


def _newton(
    target: Target, position: Params, held: Params, steps: int = NEWTON, close: float = CLOSE, *, renew: bool = False,
    sample: Sample | None = None,
) -> tuple[Params, float]:  # fmt: skip
    """The best position of steps L L' grad U, and its distance from the mode in posterior sds, |L' grad U|.

    U itself is not looked at: near the mode the sum of N log densities no longer tells better from worse. The curvature
    is that at the start, or one taken anew at each place, in the pass that its gradient needs. How it changes on the
    way a ``sample`` tells, for next to nothing: a step from the mode of 1 % of the rows then ends at that of all.
    """
    flat, unravel = ravel_pytree(position)

    def params(point: np.ndarray) -> Params:
        return unravel(jax.device_put(point.astype(flat.dtype)))

    def slope_at(point: np.ndarray, scale: Scale) -> np.ndarray:
        gradient = _vector(target.full_gradient(params(point), held))
        if not np.all(np.isfinite(gradient)):
            raise FloatingPointError
        return np.asarray(scale.transposed(gradient))

    def bend(start: np.ndarray, end: np.ndarray, scale: Scale) -> np.ndarray:
        """What the slope changes by on the way beyond the linear, as the sample has it."""
        assert sample is not None
        linear = sample.likelihood_hessian(params(start), held) @ (end - start)
        here, there = (_vector(sample.full_likelihood_gradient(params(p), held)) for p in (start, end))
        return np.asarray(scale.transposed(there - here - linear))

    point = np.asarray(flat, np.float64)
    try:
        scale = curvature(target, position, held).scale
        slope = slope_at(point, scale)
        for _ in range(steps):
            if np.max(np.abs(slope)) < close:
                break
            trial = point - scale.forward(slope)
            for _ in range(BENDS if sample else 0):
                bent = bend(point, trial, scale)
                if np.linalg.norm(bent) < np.linalg.norm(slope) / 2:
                    trial = point - scale.forward(slope + bent)
            found = curvature(target, params(trial), held).scale if renew else scale
            new = slope_at(trial, found)
            if not np.linalg.norm(new) < np.linalg.norm(slope):
                break
            point, slope, scale = trial, new, found
    except FloatingPointError:  # there is no curvature or slope at the start, or at the end of a step that led far off
        return params(point), np.inf
    return params(point), float(np.max(np.abs(slope)))


def _vector(tree: Params) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def quasi_newton(target: Target, position: Params, held: Params = None, iterations: int = 200) -> Params:
    """The maximum that L-BFGS finds on all data from ``position`` on."""
    from scipy.optimize import minimize

    flat, unravel = ravel_pytree(position)

    def value_and_gradient(point: np.ndarray) -> tuple[float, np.ndarray]:
        params = unravel(jnp.asarray(point, flat.dtype))
        value, gradient = target.summed(likelihood_part, params, held)
        v, g = _prior_part(target.density, params, held)
        size = target.density.size
        return (value + float(v)) / size, (gradient + np.asarray(g, dtype=np.float64)) / size

    found = minimize(
        value_and_gradient,
        np.asarray(flat, dtype=np.float64),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": iterations, "ftol": 1e-13, "gtol": 1e-9},
    )
    return unravel(jnp.asarray(found.x, flat.dtype)) if np.all(np.isfinite(found.x)) else position


@partial(jax.jit, static_argnums=0)
def likelihood_part(density: Density, params: Params, held: Params, batch: Batch) -> tuple[Array, Array]:
    """The potential of a batch and its gradient as a vector, for ``Target.summed``."""

    def potential(params: Params) -> Array:
        return -jnp.sum(density.log_likelihoods(merge(params, held), batch.data) * batch.weights)

    value, gradient = jax.value_and_grad(potential)(params)
    return value, ravel_pytree(gradient)[0]


@partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _prior_part(density: Density, params: Params, held: Params) -> tuple[Array, Array]:
    value, gradient = jax.value_and_grad(lambda p: -density.log_prior(merge(p, held)))(params)
    return value, ravel_pytree(gradient)[0]
