"""The gradient noise of chains that travel between shards, and gradients that do not depend on where the chains are.

    g = grad U + b_s + noise,    b_s = (gradient of shard s) N_s / (q_s N_s) - grad U,    sum_s q_s b_s = 0

The noise within shards has variance V = sum_s q_s V_s and is new at each step. What lies between them, of variance
B = sum_s q_s b_s^2, stays for a leg, and moves the chain by h tau b_s. Of a chain that is slow beside its tours the
variance grows by S (h tau)^2 B / 6, whatever the curvature, legs being equal (``batches.tours.Toured`` for any).

A chain has gone where its shard has drawn it, so that for the virial identity, E (x - mu) grad U = T, gradients must
come from a shard that has nothing to do with it. All of this is measured at the end, on minibatches of all shards,
each where it is.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.batches.shards import Part
from scirocco.batches.tours import Toured
from scirocco.core.executors import Portable
from scirocco.core.keys import Use, as_key, fold
from scirocco.core.program import QUICK
from scirocco.core.seeds import Purpose, generator
from scirocco.core.trees import at_least_single, named_leaves, zeros_like
from scirocco.core.types import Array, Data, Params
from scirocco.gradient.engine import GradientEngine
from scirocco.gradient.feeds import Travelling
from scirocco.gradient.loop import one_chain
from scirocco.gradient.program import ChainState, Program

SHARE = 0.1  # of the run's minibatches, at most, are drawn to measure the noise,
LEAST, LEGS = 64, 10  # and of each shard so many at least, and as many as so many of its legs have at most
AT_ONCE = 8  # points


class TourNoise(NamedTuple):
    """What was measured on all shards, by variable."""

    within: dict[str, np.ndarray]  # V
    between: dict[str, np.ndarray]  # B
    tours: Toured
    slopes: dict[str, np.ndarray]  # (chain, point, ...)


def tour_noise(
    engine: GradientEngine, feed: Travelling, centre: Params, places: dict[str, np.ndarray], chains: int
) -> TourNoise:  # fmt: skip
    """The noise at ``centre``, and gradients at ``places``, (chain, point, ...), for a run of so many ``chains``."""
    kernel, way = engine.kernel, feed.itinerary
    shards, q = len(way.steps), way.frequencies
    afforded = SHARE * engine.total * kernel.inner * chains / shards
    repeats = int(np.clip(afforded, LEAST, max(LEAST, LEGS * max(way.steps) * kernel.inner)))
    names, structure = list(named_leaves(centre)), jax.tree.structure(centre)
    points = [places[name].reshape(-1, *places[name].shape[2:]) for name in names] if places else []
    count = len(points[0]) if points else 0
    homes = generator(kernel.seed, Purpose.TOUR_POINTS).choice(shards, count, p=q)
    where = [np.flatnonzero(homes == s) for s in range(shards)]
    most = max(map(len, where))  # one program serves all shards
    work = []
    for s, own in enumerate(where):
        chosen = np.resize(own, most if len(own) else 0)
        rows = jax.tree.unflatten(structure, [p[chosen] for p in points]) if len(chosen) else None
        work.append((feed.put(s), s * repeats, rows, (shards * repeats + chosen).astype(np.uint32)))
    words, state = engine.probe_words, jax.tree.map(_on_host, one_chain(engine.state, 0))
    sent = Portable((kernel.program, words, state, jax.tree.map(np.asarray, centre), repeats))
    found = feed.source.each_part(partial(_measured, sent), work)
    slopes = {name: np.zeros(p.shape, np.float32) for name, p in zip(names, points, strict=bool(points))}
    for own, (_, _, gradients) in zip(where, found, strict=True):
        for name, values in named_leaves(gradients).items():
            slopes[name][own] = values[: len(own)]
    within, between, parts = {}, {}, np.zeros(shards)
    for name in names:
        means, chance = (np.stack([np.asarray(named_leaves(f[k])[name], np.float64) for f in found]) for k in (0, 1))
        apart = (means - np.tensordot(q, means, 1)) ** 2
        within[name], total = np.tensordot(q, chance, 1), np.tensordot(q, apart, 1)
        between[name] = np.maximum(0, total - np.tensordot(q * (1 - q), chance, 1) / repeats)
        shares = q.reshape(-1, *[1] * total.ndim) * apart / np.where(total > 0, total, 1)
        parts += shares.reshape(shards, -1).sum(axis=1)
    tours = Toured(way.steps, parts if parts.any() else q)
    return TourNoise(
        within, between, tours, {name: slope.reshape(places[name].shape) for name, slope in slopes.items()}
    )


def _on_host(leaf: Any) -> Any:
    return leaf if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else np.asarray(leaf)


def _measured(sent: Portable[Any], part: Part, given: tuple[Any, int, Params, Array]) -> tuple[Params, Params, Params]:
    """Where a shard is: mean and variance of the gradient at the centre, and gradients at places."""
    program, words, state, centre, repeats = sent.value
    put, first, places, numbers = given
    data = put(part)
    mean, variance = _noise(program, words, state, centre, np.uint32(first), np.int32(repeats), data)
    slopes = None if places is None else _slopes(program, words, state, places, numbers, data)
    found: tuple[Params, Params, Params] = jax.tree.map(np.asarray, (mean, variance, slopes))
    return found


def _gradient(program: Program, words: Array, state: ChainState, place: Params, number: Array, data: Data) -> Params:
    key = fold(as_key(words), Use.GRADIENT, number)
    return program.estimate(key, state.estimator, place, state.held, program.draw.fresh(key, data))[0]


@partial(jax.jit, compiler_options=QUICK)
def _noise(
    program: Program, words: Array, state: ChainState, centre: Params, first: Array, repeats: Array, data: Data
) -> tuple[Params, Params]:  # fmt: skip
    """Over so many minibatches, as the marginals of the parameters feel it."""

    def felt(number: Array) -> Params:
        gradient = _gradient(program, words, state, centre, number, data)
        return at_least_single(program.sampler.marginal(program.density.geometry.slope(centre, gradient)))

    def more(number: Array, sums: tuple[Params, Params]) -> tuple[Params, Params]:
        """Welford's sums."""
        mean, squares = sums
        away = jax.tree.map(jnp.subtract, felt(first + number.astype(jnp.uint32)), mean)
        mean = jax.tree.map(lambda m, d: m + d / (number + 1), mean, away)
        return mean, jax.tree.map(lambda s, d: s + d * d * number / (number + 1), squares, away)

    none = zeros_like(jax.eval_shape(felt, first))
    mean, squares = jax.lax.fori_loop(0, repeats, more, (none, none))
    return mean, jax.tree.map(lambda s: s / (repeats - 1), squares)


@partial(jax.jit, compiler_options=QUICK)
def _slopes(program: Program, words: Array, state: ChainState, places: Params, numbers: Array, data: Data) -> Params:
    def one(given: tuple[Params, Array]) -> Params:
        return _gradient(program, words, state, *given, data)

    return jax.lax.map(one, (places, numbers), batch_size=AT_ONCE)
