"""How far means are from the posterior's, by Stein's identity for a field that sees it.

    E f . grad U = T E div f    for the right law and any smooth field f

With f = S e_i and S the inverse of the mean Hessian the left side is the displacement of the mean of x_i on a Gaussian.
But for chains that have settled it vanishes whatever their bias, because their own drift is made of grad U. Where the
posterior is skewed it is not x_i - mean either, but bent,

    S grad U = y + S D^3U[y, y] / 2 + ...,    y = x - mean,    D^3U the third derivative,

so that chains that are too wide or too narrow, each by a little, find their balance at another place. With the field

    f_i = S e_i - S H_i y / 2,    H_i the derivative of the Hessian along S e_i

the left side minus the right one is y_i to third order, and its mean is how far the mean is off:

    shift = S (E grad U - D^3U[M] / 2),    M = E y (S grad U)' - T S

M is how far the virial identity fails in all combinations, and D^3U[M] = sum_jk M_jk grad(d_j d_k U), by forward
differentiation along the eigenvectors of M, at draws on minibatches. S and the draws are of the other half of the
chains: so f does not depend on the points, and of the right law the shift is zero but for chance, whatever its shape.

What is measured of some points is their own shift, that of their Monte Carlo error too; with the difference of their
mean to that of all draws it becomes that of all draws, and most of the chance cancels (it is the control variate of
Mira, Solgi and Imparato 2013).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, count
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco.batches import Batch
from scirocco.bias.virials import BLOCKS, halves
from scirocco.core.program import QUICK
from scirocco.core.seeds import Purpose, generator
from scirocco.core.trees import named_leaves
from scirocco.core.types import Array, Params
from scirocco.density import Density
from scirocco.target import Target

MOST = 500  # parameters
PLACES, FEW = 4, 128  # for each block of points, where third derivatives are taken; one beyond so many parameters
ROWS = 512  # of a minibatch for these


class Shift(NamedTuple):
    """How far means are off, in sds: the estimate, its standard error, and what Monte Carlo error is in it."""

    size: np.ndarray
    error: np.ndarray
    chance: np.ndarray

    @classmethod
    def of(cls, blocks: np.ndarray, means: np.ndarray, variances: np.ndarray) -> Shift:
        """From estimates (block, ...), and the means and variances of chains, (chain, ...)."""
        sd = np.sqrt(np.mean(variances, axis=0) + np.var(means, axis=0))
        sd = np.where(sd > 0, sd, np.inf)  # what never moved has no units to be off by
        # Few blocks and chains say little of each coordinate: none is taken to be less uncertain than the typical one.
        error, chance = (
            np.std(a / sd, axis=0, ddof=1) / np.sqrt(len(a)) if len(a) > 1 else np.full(sd.shape, np.inf)
            for a in (blocks, means)
        )
        return cls(blocks.mean(axis=0) / sd, *(np.maximum(a, np.median(a)) for a in (error, chance)))


def possible(places: np.ndarray, slopes: np.ndarray, spread: np.ndarray, off: float) -> float:
    """The largest shift, in sds, that variances which are off by this share could make, to second order.

    From points and gradients (chain, point, coordinate): what S grad U has beyond a line. If r is the share of its
    variance, the curvatures of that are sqrt(2 r) in length, and the errors of d variances sqrt(d) times that of one.
    """
    y, g = (a.reshape(-1, a.shape[-1]).astype(np.float64) for a in (places, slopes))
    y, g = y - y.mean(axis=0), (g - g.mean(axis=0)) @ spread
    moves = np.ptp(y, axis=0) > 0
    rest = np.var(g - y, axis=0)[moves] / np.var(y, axis=0)[moves]
    return float(np.sqrt(np.max(rest, initial=0.0) * y.shape[1] / 2) * off)


def shifts(
    target: Target, like: Params, places: np.ndarray, slopes: np.ndarray, means: dict[str, np.ndarray],
    spreads: Sequence[np.ndarray], temperature: float = 1.0, seed: int = 0,
) -> dict[str, np.ndarray]:  # fmt: skip
    """How far the ``means`` of all draws of parameters are off, (block, ...) by name.

    From points and gradients (chain, point, coordinate) of positions ``like``; ``spreads`` are S as each half of the
    chains shows it.
    """
    flat, unravel = ravel_pytree(like)
    density, rng, rows = target.density, generator(seed, Purpose.BENDING), min(ROWS, target.size)
    minibatches = chain.from_iterable(target.shuffled(rows, seed, epoch) for epoch in count())
    weight, indices = jnp.float32(target.size / rows), jnp.arange(rows, dtype=jnp.int32)
    centre = places.mean(axis=(0, 1), dtype=np.float64)
    here = unravel(jnp.asarray(centre, flat.dtype))
    each = PLACES if flat.size <= FEW else 1

    def estimate(x: np.ndarray, g: np.ndarray, others: np.ndarray, spread: np.ndarray) -> dict[str, np.ndarray]:
        """Of one block, (point, coordinate)."""
        off = (x - centre).T @ (g @ spread) / len(x) - temperature * spread
        values, vectors = np.linalg.eigh((off + off.T) / 2)
        pairs = ((vectors * values).T.astype(flat.dtype), vectors.T.astype(flat.dtype))
        bent = np.zeros(flat.size)
        for place in others[rng.choice(len(others), each)]:
            batch = Batch(next(minibatches), weight, indices)
            bent += np.asarray(_bent(density, unravel(jnp.asarray(place, flat.dtype)), batch, *pairs), np.float64)
        moved = (spread @ (g.mean(axis=0) - bent / each / 2)).astype(flat.dtype)
        found = _carried(density, here, moved, *pairs, x.astype(flat.dtype))
        return {name: means[name] + np.asarray(v, np.float64) for name, v in found.items()}

    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is not known
        blocks = [estimate(*parts) for parts in _blocks(places, slopes, spreads)]
    return {name: np.stack([block[name] for block in blocks]) for name in blocks[0]}


def _blocks(
    places: np.ndarray, slopes: np.ndarray, spreads: Sequence[np.ndarray]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:  # fmt: skip
    """Points and gradients of each block, and the points and the S of the other half of the chains."""
    both = (halves(places), halves(slopes), reversed(halves(places)), reversed(spreads))
    for x, g, others, spread in zip(*both, strict=True):
        known = others.reshape(-1, others.shape[-1])
        for part in np.array_split(np.arange(x.shape[1]), BLOCKS):
            for one, slope in zip(x[:, part].astype(np.float64), g[:, part].astype(np.float64), strict=True):
                yield one, slope, known, spread


@partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _bent(density: Density, place: Params, batch: Batch, left: Array, right: Array) -> Array:
    """D^3U[M], a gradient, for the sum M of left_k right_k'."""
    flat, unravel = ravel_pytree(place)
    return _second(lambda x: ravel_pytree(density.potential_gradient(unravel(x), None, batch))[0], flat, left, right)


@partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _carried(
    density: Density, centre: Params, moved: Array, left: Array, right: Array, places: Array
) -> dict[str, Array]:  # fmt: skip
    """The shift of positions as one of parameters, less the mean of these at the places.

    A parameter p(x) is shifted by p' shift + p''[M] / 2: its mean depends on the variances of positions as well.
    """
    flat, unravel = ravel_pytree(centre)

    def parameters(x: Array) -> dict[str, Array]:
        return named_leaves(density.parameters(unravel(x)))

    first, second = jax.jvp(parameters, (flat,), (moved,))[1], _second(parameters, flat, left, right)
    own = jax.vmap(parameters)(places)
    return {name: v + second[name] / 2 - jnp.mean(own[name], axis=0) for name, v in first.items()}


def _second(function: Callable[[Array], Any], at: Array, left: Array, right: Array) -> Any:
    """The sum over k of the second derivative along left_k and right_k."""

    def along(total: Any, pair: tuple[Array, Array]) -> tuple[Any, None]:
        u, w = pair
        found = jax.jvp(lambda x: jax.jvp(function, (x,), (u,))[1], (at,), (w,))[1]
        return jax.tree.map(jnp.add, total, found), None

    nothing = jax.tree.map(lambda v: jnp.zeros(v.shape, v.dtype), jax.eval_shape(function, at))
    return jax.lax.scan(along, nothing, (left, right))[0]
