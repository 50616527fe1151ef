"""The posterior mode: stochastic optimisation to its neighbourhood, then quasi-Newton steps on the full data."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco.batches import Arrays, Batch
from scirocco.target import Target, merge
from scirocco.types import Array, Params


def find_mode(
    target: Target,
    initial: Params,
    *,
    held: Params = None,
    optimizer: Any = None,
    steps: int | None = None,
    batch_size: int = 1000,
    polish: bool | None = None,
    seed: int = 0,
) -> Params:
    """A maximum of the posterior near which ``initial`` lies.

    First ``steps`` (default: two epochs, between 500 and 5,000) of an optax optimiser on minibatch gradients of U/N;
    by default Adam with a cosine decay of its learning rate. Then, if ``polish`` (default: when the data is in
    memory), L-BFGS on the full potential, summed in float64, because the centre of a control variate should lie well
    within a posterior sd of the mode.
    """
    import optax

    rows = min(batch_size, target.size, target.source.resident_rows)
    if steps is None:
        steps = int(np.clip(2 * target.size // rows, 500, 5000))
    if optimizer is None:
        optimizer = optax.adam(optax.cosine_decay_schedule(0.05, max(1, steps)))
    position = _descend(target, initial, held, optimizer, steps, rows, seed)
    if polish is None:
        polish = isinstance(target.source, Arrays)
    return _polish(target, position, held) if polish else position


def _descend(target: Target, initial: Params, held: Params, optimizer: Any, steps: int, rows: int, seed: int) -> Params:
    import optax

    @jax.jit
    def update(position: Params, state: Any, batch: Batch) -> tuple[Params, Any]:
        gradient = jax.tree.map(lambda g: g / target.size, target.potential_gradient(position, held, batch))
        change, state = optimizer.update(gradient, state, position)
        return optax.apply_updates(position, change), state

    position, state = initial, optimizer.init(initial)
    weight, indices = jnp.float32(target.size / rows), jnp.arange(rows, dtype=jnp.int32)
    done = epoch = 0
    while done < steps:
        for data in _minibatches(target, rows, seed, epoch):
            if done == steps:
                break
            position, state = update(position, state, Batch(data, weight, indices))
            done += 1
        epoch += 1
    if not all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(position)):
        raise FloatingPointError(
            "the search for the mode went to infinity: give a centre, a better initial position, or an optimizer with "
            "a smaller learning rate, ControlVariate(options={'optimizer': optax.adam(1e-3)})"
        )
    return position


def _minibatches(target: Target, rows: int, seed: int, epoch: int) -> Any:
    source = target.source
    if isinstance(source, Arrays):
        order = np.random.default_rng(np.random.SeedSequence([seed, 3, epoch])).permutation(source.size)
        for k in range(source.size // rows):
            yield jax.tree.map(lambda a, k=k: a[order[k * rows : (k + 1) * rows]], source.arrays)
    else:
        block = min(source.resident_rows, source.size) // rows * rows
        for b in range(max(1, source.size // block)):
            data = source.block(seed, block, epoch * (source.size // block) + b)  # type: ignore[attr-defined]
            for k in range(block // rows):
                yield jax.tree.map(lambda a, k=k: a[k * rows : (k + 1) * rows], data)


def _polish(target: Target, position: Params, held: Params, iterations: int = 200) -> Params:
    from scipy.optimize import minimize

    flat, unravel = ravel_pytree(position)

    def value_and_gradient(point: np.ndarray) -> tuple[float, np.ndarray]:
        params = unravel(jnp.asarray(point, flat.dtype))
        value, gradient = 0.0, np.zeros(point.shape)
        for batch in target.passes():
            v, g = part(params, batch)
            value, gradient = value + float(v), gradient + np.asarray(g, dtype=np.float64)
        v, g = prior(params)
        return (value + float(v)) / target.size, (gradient + np.asarray(g, dtype=np.float64)) / target.size

    def likelihood(params: Params, batch: Batch) -> Array:
        return -jnp.sum(target.log_likelihoods(merge(params, held), batch.data) * batch.weights)

    @jax.jit
    def part(params: Params, batch: Batch) -> tuple[Array, Array]:
        value, gradient = jax.value_and_grad(likelihood)(params, batch)
        return value, ravel_pytree(gradient)[0]

    @jax.jit
    def prior(params: Params) -> tuple[Array, Array]:
        value, gradient = jax.value_and_grad(lambda p: -target.log_prior(merge(p, held)))(params)
        return value, ravel_pytree(gradient)[0]

    found = minimize(
        value_and_gradient,
        np.asarray(flat, dtype=np.float64),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": iterations, "ftol": 1e-13, "gtol": 1e-9},
    )
    return unravel(jnp.asarray(found.x, flat.dtype)) if np.all(np.isfinite(found.x)) else position
