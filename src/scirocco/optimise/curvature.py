"""The curvature of U at a point, and the linear change of variables that makes it the identity.

    H = Hessian of U at the mode,    D = diag(H)^(-1/2),    D H D = V Lambda V',    L = D (I + V (Lambda^(-1/2) - I) V')

All of V for up to ``FULL`` parameters, its ``RANK`` largest eigenvalues for up to ``LOW_RANK``, none beyond: then D
alone. For large models the diagonal is that of the prior plus the Fisher information, n/N times the variance of
minibatch gradients: positive, and as cheap as a few steps of a sampler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco.batches import Arrays, Batch, Shards
from scirocco.core.program import QUICK
from scirocco.core.seeds import Purpose, generator
from scirocco.core.types import Array, Params
from scirocco.density import Density, merge
from scirocco.samplers.preconditioned import Scale
from scirocco.target import Target

FULL = 500  # parameters, up to which the whole Hessian is formed
LOW_RANK = 100_000  # parameters, up to which its largest eigenvalues are looked for
RANK = 20
FEW = 8  # parameters, for which Lanczos' method is not worth it
WORK = 1e10  # multiplications that a Hessian may cost: beyond, it is taken on every k-th piece of the data
READING = 10  # times as much for data on disk
PIECES = 16  # of the data at least, or all there are
EXACT = 5000  # parameters, up to which the diagonal of the prior's Hessian is made entry by entry
PROBES = 32  # minibatches for the diagonal of a large model
WEAKEST = 1e-8  # of the largest curvature of a coordinate: the least that one may have
FLAT, RAISED = 1e-6, 1e-2  # of the top eigenvalue: what lies below the one is flat, or bent the wrong way, and raised


class Curvature(NamedTuple):
    """A change of variables and what is known of the curvature that remains after it."""

    scale: Scale
    kind: str
    top: float  # eigenvalue of D H D
    condition: float  # of D H D: the top over the smallest eigenvalue, or over 1 where the smallest is not known
    largest: float  # eigenvalue of L' H L
    flat: int  # directions without positive curvature


def curvature(target: Target, position: Params, held: Params = None, *, seed: int = 0) -> Curvature:
    """The scale of the posterior around ``position``."""
    size = ravel_pytree(position)[0].size
    if size <= FULL:
        return _full(hessian(target, position, held))
    diagonal = np.sqrt(1 / large_diagonal(target, position, held, seed))
    return _low_rank(target, position, held, diagonal, seed)


def hessian(target: Target, position: Params, held: Params = None) -> np.ndarray:
    """The Hessian of U in float64; on an even selection of the data where the whole of it would take long."""
    rows = int(WORK / ravel_pytree(position)[0].size ** 2)
    batches = None if affordable(target, position) else _selection(target, rows)
    total = np.asarray(_prior_hessian(target.density, position, held), np.float64) + target.likelihood_hessian(
        position, held, batches
    )
    return (total + total.T) / 2


def affordable(target: Target, position: Params) -> bool:
    """Whether the Hessian is taken on all data: where they must be read and decoded first, that is what takes long."""
    if isinstance(target.source, Shards):
        return True  # each is worked on where it is
    work = target.size * ravel_pytree(position)[0].size ** 2
    return work <= (WORK if isinstance(target.source, Arrays) else READING * WORK)


@partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _prior_hessian(density: Density, position: Params, held: Params) -> Array:
    flat, unravel = ravel_pytree(position)
    return jax.hessian(lambda x: -density.log_prior(merge(unravel(x), held)))(flat)


def _selection(target: Target, rows: int) -> Iterator[Batch]:
    """About ``rows`` rows of the data, in evenly spread pieces weighted to stand for all of it; or all of it."""
    pieces = -(-target.size // target.pass_rows)
    every = max(1, min(target.size // max(rows, 1), pieces // PIECES))
    chosen = range(every // 2, pieces, every)
    for number, batch in enumerate(target.passes()):
        if number in chosen:
            share = np.float32(pieces / len(chosen))
            yield batch if share == 1 else batch._replace(weights=batch.weights * share)


def _full(h: np.ndarray) -> Curvature:
    if not np.all(np.isfinite(h)):
        raise FloatingPointError("the curvature is not finite at the mode: give a better initial position")
    if not np.max(np.diag(h)) > 0:
        raise FloatingPointError("no direction curves as at a maximum: give a better initial position")
    diagonal = 1 / np.sqrt(_positive(np.diag(h)))
    values, vectors = np.linalg.eigh(diagonal[:, None] * h * diagonal)
    weak = values < FLAT * values[-1]
    raised = np.where(weak, np.maximum(np.abs(values), RAISED), values)
    matrix = (vectors / np.sqrt(raised)) @ vectors.T
    return Curvature(
        Scale(diagonal, matrix), "full", float(raised[-1]), float(raised[-1] / np.min(raised)), 1.0, int(np.sum(weak))
    )


def _positive(diagonal: np.ndarray) -> np.ndarray:
    """Entries without curvature get a small one, so that they may be scaled at all."""
    largest = max(float(np.max(diagonal)), np.finfo(np.float64).tiny)
    return np.maximum(diagonal, WEAKEST * largest)


def large_diagonal(target: Target, position: Params, held: Params, seed: int) -> np.ndarray:
    """Prior curvature, of very many parameters by random signs (exact if it is diagonal), plus the Fisher information
    of minibatches."""
    flat = ravel_pytree(position)[0]
    rows = max(1, min(target.size // 2, 100, target.pass_rows))
    weight = jnp.float32(target.size / rows)

    indices = jnp.arange(rows, dtype=jnp.int32)
    minibatches = islice(target.shuffled(rows, seed), PROBES)
    batches = (Batch(data, weight, indices) for data in minibatches)
    slopes = np.array([np.asarray(_slope(target.density, position, held, b), np.float64) for b in batches])
    fisher = np.var(slopes, axis=0, ddof=1) * rows / target.size
    if flat.size <= EXACT:  # signs would mix parameters of different units, if the prior does
        curved = np.asarray(_prior_diagonal(target.density, position, held), np.float64)
    else:
        rng = generator(seed, Purpose.CURVATURE_SIGNS)
        signs = (2 * rng.integers(2, size=(8, flat.size)) - 1).astype(flat.dtype)
        curved = np.mean(
            [s * np.asarray(_prior_product(target.density, position, held, s), np.float64) for s in signs], axis=0
        )
    return _positive(np.maximum(fisher, 0) + np.maximum(curved, 0))


def _low_rank(target: Target, position: Params, held: Params, diagonal: np.ndarray, seed: int) -> Curvature:
    """The largest eigenvalues of D H D, as far as they are worth a direction of their own."""
    wanted = RANK if diagonal.size <= LOW_RANK else 1
    values, vectors = largest_eigenvalues(target, position, held, Scale(diagonal), wanted, seed)
    top = max(float(values[-1]), 1.0)
    keep = values > 2.0
    if wanted == 1 or not keep.any():
        return Curvature(Scale(diagonal), "diagonal", top, top, top, 0)
    scale = Scale(diagonal, vectors=vectors[:, keep], stretches=1 / np.sqrt(values[keep]))
    return Curvature(scale, "low-rank", top, top, float(values[0]) if keep.all() else 2.0, 0)


def top_curvatures(
    target: Target, positions: Iterable[Params], held: Params, scale: Scale, seed: int
) -> np.ndarray:  # fmt: skip
    """The largest eigenvalue of L' H L at each position, on the same selection of the data."""
    few = _few(target)
    return np.array([largest_eigenvalues(target, place, held, scale, 1, seed, few)[0][-1] for place in positions])


def _few(target: Target) -> list[Batch]:
    return list(_selection(target, 2000))


def largest_eigenvalues(
    target: Target, position: Params, held: Params, scale: Scale, wanted: int, seed: int,
    selection: list[Batch] | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Those of L' H L and their vectors, in rising order, by Lanczos' method on a selection of the data."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    flat, density = ravel_pytree(position)[0], target.density
    batches = selection or _few(target)

    def multiply(v: np.ndarray) -> np.ndarray:
        scaled = jnp.asarray(scale.forward(v.ravel()), flat.dtype)
        parts = [_prior_product(density, position, held, scaled)]
        parts += [_product(density, position, held, scaled, batch) for batch in batches]
        return np.asarray(scale.transposed(np.sum([np.asarray(part, np.float64) for part in parts], axis=0)))

    if flat.size <= FEW:
        values, vectors = np.linalg.eigh(np.stack([multiply(e) for e in np.eye(flat.size)]))
        return values[-wanted:], vectors[:, -wanted:]
    operator = LinearOperator((flat.size, flat.size), matvec=multiply, dtype=np.float64)
    start = np.random.default_rng(seed).standard_normal(flat.size)
    values, vectors = eigsh(operator, k=wanted, which="LA", v0=start, tol=1e-2)
    return values, vectors


@partial(jax.jit, static_argnums=0)
def _slope(density: Density, position: Params, held: Params, batch: Batch) -> Array:
    return ravel_pytree(density.likelihood_gradient(position, held, batch))[0]


@partial(jax.jit, static_argnums=0)
def _product(density: Density, position: Params, held: Params, v: Array, batch: Batch) -> Array:
    """The Hessian of the likelihood times a vector."""
    flat, unravel = ravel_pytree(position)
    return jax.jvp(lambda x: _slope(density, unravel(x), held, batch), (flat,), (v,))[1]


@partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _prior_product(density: Density, position: Params, held: Params, v: Array) -> Array:
    """The Hessian of the prior times a vector."""
    return _prior_times(density, position, held, v)


@partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _prior_diagonal(density: Density, position: Params, held: Params) -> Array:
    """The diagonal of the Hessian of the prior."""
    flat = ravel_pytree(position)[0]

    def entry(number: Array) -> Array:
        return _prior_times(density, position, held, jnp.zeros_like(flat).at[number].set(1))[number]

    return jax.lax.map(entry, jnp.arange(flat.size), batch_size=64)


def _prior_times(density: Density, position: Params, held: Params, v: Array) -> Array:
    flat, unravel = ravel_pytree(position)
    return jax.jvp(jax.grad(lambda x: -density.log_prior(merge(unravel(x), held))), (flat,), (v,))[1]
