"""Strata for minibatches: rows whose gradients change more with the parameters are drawn more often.

    c_i = |L' (grad l_i(theta) - grad l_i(mode))|,   theta from the normal law at the mode;   rate of row i ~ c_i

With equal rates the few rows of a rare category make most of the noise of control variates: one minibatch in hundreds
holds one, which then counts N/n times. Their coordinates get rare large kicks, which a chain may not survive.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco.batches import Arrays, Batch, Strata
from scirocco.core.program import QUICK
from scirocco.core.seeds import Purpose, generator
from scirocco.core.types import Array, Params
from scirocco.density import Density
from scirocco.optimise.curvature import WORK
from scirocco.samplers.preconditioned import Scale
from scirocco.target import Target

DRAWS = 2  # of the normal law, at which the rows are compared
USUAL = 0.9  # of the rows: their mean is what the others are compared with
STEP = 4.0  # ratio of the rates of neighbouring strata


def stratify(target: Target, scale: Scale, mode: Params, held: Params, seed: int, batch_size: int) -> Strata | None:
    """Strata by the size of c_i; None if all rows are alike, or if a look at all of them would take too long."""
    size = ravel_pytree(mode)[0].size
    if not isinstance(target.source, Arrays) or target.size * size**2 > WORK or 2 * batch_size > target.size:
        return None
    change = _changes(target, scale, mode, held, seed)
    if not np.all(np.isfinite(change)):  # so far out the model has no gradient
        return None
    usual = np.mean(change[change <= np.quantile(change, USUAL)])
    with np.errstate(divide="ignore"):
        level = np.floor(np.log(np.maximum(change / usual, 1.0)) / np.log(STEP)) if usual > 0 else np.zeros(len(change))
    # Small integers are sorted in linear time.
    found, strata, sizes = np.unique(level.astype(np.int16), return_inverse=True, return_counts=True)
    if len(found) < 2 or len(found) > batch_size // 2:
        return None
    return Strata(strata.astype(np.uint8), _allocated(sizes, STEP**found, batch_size))


def _changes(target: Target, scale: Scale, mode: Params, held: Params, seed: int) -> np.ndarray:
    flat = ravel_pytree(mode)[0]
    phi = generator(seed, Purpose.STRATA_DRAWS).standard_normal((DRAWS, flat.size)).astype(flat.dtype)
    squares = [_squares(target.density, scale, mode, held, phi, batch) for batch in target.passes()]
    return np.sqrt(np.concatenate([np.asarray(part, np.float64) for part in squares])[: target.size])


@partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _squares(density: Density, scale: Scale, mode: Params, held: Params, phi: Array, batch: Batch) -> Array:
    """c_i^2 of each row of a batch, summed over draws."""
    flat, unravel = ravel_pytree(mode)

    def gradients(theta: Array) -> Array:
        each = density.example_gradients(unravel(theta), held, batch.data)
        return jax.vmap(lambda tree: ravel_pytree(tree)[0])(each)

    base = gradients(flat)
    moved = [gradients(flat + scale.forward(phi[k])) - base for k in range(DRAWS)]
    return sum((jnp.sum(jax.vmap(scale.transposed)(change) ** 2, axis=1) for change in moved), start=jnp.zeros(()))


def _allocated(sizes: np.ndarray, rates: np.ndarray, batch_size: int) -> tuple[int, ...]:
    """Rows of each stratum, about proportional to size times rate, at most all and at least one."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.sum(np.minimum(1, middle * rates) * sizes) < batch_size else (low, middle)
    rows = np.clip(np.ceil(np.minimum(1, low * rates) * sizes), 1, sizes).astype(int)
    rows[0] += batch_size - rows.sum()  # the usual rows are many, and pay for what was rounded up
    return tuple(map(int, rows))
