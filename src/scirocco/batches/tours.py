"""Minibatches of chains that travel between the shards of the data.

    leg     tau_s steps, all on minibatches of shard s
    tour    a leg on each shard, in random order
    sum_i f_i ~ N_s / (n q_s) sum_{i in S} f_i,    S: n rows of shard s,    q_s = tau_s / sum_r tau_r

Each step of a tour is on shard s with probability q_s, so that the mean of the estimate over tours is the sum over all
rows, however many rows the shards have and however long the legs are: legs may be as long as the shards are fast. Legs
of different lengths lie on a ring, which each tour enters at a random place, so that no step of it is more often on one
shard than another. The tours of S chains have the same legs, and the next chain is always a leg ahead: with equal legs
they are on S different shards at all times. Where a chain is follows from the seed, its number and the step.
Minibatches are contiguous blocks of the shuffled rows of the shard, at independent places.

Within a leg the difference between the shard's gradient and that of all data is always the same: chains drift, and are
wider than they should be (``Toured``; docs/reference/minibatches.md). Ahn, Shahbaba and Welling (2014), whose chains
choose the next shard anew each time; in a tour the drifts add up to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.batches.base import Batch
from scirocco.batches.draws import Batching, Draw
from scirocco.batches.integers import integers
from scirocco.core.checks import require_count
from scirocco.core.seeds import Purpose, generator
from scirocco.core.types import Array, Data, Key

LONGEST = 100  # steps of the longest leg, by default
BLOCKS = 1024  # of lags, in each of which their correlation is taken as its mean
MIN_BLOCKS = 1000  # as many contiguous blocks as a shard has at least


class Visit(NamedTuple):
    """Where a chain is, and the step before which it leaves."""

    shard: int
    until: int


@dataclass(frozen=True)
class Itinerary:
    """The shards that chains are on, leg by leg of so many ``steps``.

    >>> way = Itinerary(0, (2, 3))
    >>> visits = [way.at(chain=0, step=step) for step in range(10)]
    >>> [visit.shard for visit in visits].count(0), all(visit.until > step for step, visit in enumerate(visits))
    (4, True)
    """

    seed: int
    steps: tuple[int, ...]

    def at(self, chain: int, step: int) -> Visit:
        """Where a chain makes the step after this number of steps."""
        tour, done = divmod(step, self.period)
        order, ends, start = _ring(self, chain, tour)
        place = (start + done) % self.period
        leg = int(np.searchsorted(ends, place, side="right"))
        return Visit(int(order[leg]), min(step + int(ends[leg]) - place, (tour + 1) * self.period))

    @property
    def equal(self) -> bool:
        """Whether all legs are as long."""
        return len(set(self.steps)) == 1

    @property
    def period(self) -> int:
        """Steps of a tour."""
        return sum(self.steps)

    @property
    def frequencies(self) -> np.ndarray:
        """q: the share of steps on each shard."""
        return np.array(self.steps) / self.period


@lru_cache(maxsize=1024)
def _ring(way: Itinerary, chain: int, tour: int) -> tuple[np.ndarray, np.ndarray, int]:
    """The order of the shards on the ring of a tour, where their legs end there, and where the tour begins."""
    together, ahead = divmod(chain, len(way.steps))
    rng = generator(way.seed, Purpose.TOURS, together, tour)
    order = np.roll(rng.permutation(len(way.steps)), -ahead)
    return order, np.cumsum(np.array(way.steps)[order]), 0 if way.equal else int(rng.integers(way.period))


class Toured(float):
    """The noise of tours, for a sampler's law: independent minibatches (infinite) and the correlation between shards.

    What the gradients of two steps, k apart, are off by has the correlation

        rho_k = same_k - c (tour_k - same_k),    tour_k = (1 - k/P)_+,    same_k = (1 - k/tau)_+

    P being the steps of a tour, ``same`` and ``tour`` the probabilities that both are of one leg and of one tour, and c
    such that all correlations add up to nothing. On a ring same_k = tour_k sum_s w_s ((1 - k/tau_s)_+ + (1 - (P -
    k)/tau_s)_+), with ``weights`` w_s for the parts of the variance that are of each shard. It is exact for two shards
    and for legs of one length. ``lags`` has the means of rho over ``stride`` lags each.

    >>> noise = Toured((5, 5, 5), np.ones(3))
    >>> noise, noise.lags[:6].round(2).tolist(), noise.stride
    (inf, [1.0, 0.73, 0.47, 0.2, -0.07, -0.33], 1)
    """

    lags: np.ndarray
    stride: int

    def __new__(cls, steps: tuple[int, ...], weights: np.ndarray) -> Toured:
        """A float with two more facts."""
        new, period = super().__new__(cls, np.inf), sum(steps)
        k, tau = np.arange(period), np.array(steps)[:, None]
        tour, legs = 1 - k / period, np.maximum(1 - k / tau, 0)
        if not Itinerary(0, steps).equal:
            legs = tour * (legs + np.where(k > 0, np.maximum(1 - (period - k) / tau, 0), 0))
        same = weights / np.sum(weights) @ legs
        apart = tour - same
        rho = same - apart * (2 * same.sum() - 1) / max(2 * apart.sum(), np.finfo(float).tiny)
        new.stride = -(-period // BLOCKS)
        new.lags = np.resize(np.append(rho, np.zeros(BLOCKS * new.stride - period)), (BLOCKS, new.stride)).mean(axis=1)
        return new


@dataclass(frozen=True)
class Tours(Batching):
    """Legs of ``steps`` steps on each shard of ``batches.Shards``: one number for all, or one for each.

    By default a leg has as many steps as the shard has minibatches, and where that is more than 100 for the largest
    shard, 100 on it and as many fewer on the others.

    >>> Tours().itinerary(np.array([500, 1000]), batch_size=100, inner=1, seed=0).steps
    (5, 10)
    """

    steps: int | tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.steps is None:
            return
        given = self.steps if isinstance(self.steps, tuple | list) else (self.steps,)
        if not given:
            raise ValueError("steps must be a number, or one for each shard; got none")
        for number in given:
            require_count("steps", number)
        if isinstance(self.steps, list):
            object.__setattr__(self, "steps", tuple(self.steps))

    def itinerary(self, sizes: np.ndarray, batch_size: int, inner: int, seed: int) -> Itinerary:
        """For shards of these sizes, and ``inner`` minibatches a step."""
        if isinstance(self.steps, tuple):
            if len(self.steps) != len(sizes):
                raise ValueError(f"steps must be one for each of the {len(sizes)} shards; got {len(self.steps)}")
            return Itinerary(seed, tuple(map(int, self.steps)))
        if self.steps is not None:
            return Itinerary(seed, (int(self.steps),) * len(sizes))
        minibatches = sizes / (batch_size * inner)
        shorter = min(1.0, LONGEST / float(np.max(minibatches)))
        return Itinerary(seed, tuple(max(1, round(float(m) * shorter)) for m in minibatches))

    def bind(self, total: int, resident: int, batch_size: int, order: np.ndarray | None, ring: bool) -> Draw:
        """Choose the block length; ``resident`` are the rows of the smallest shard."""
        del total, order, ring
        wanted = min(batch_size, -(-MIN_BLOCKS * batch_size // resident))
        return _OnShard(batch_size, next(p for p in range(wanted, batch_size + 1) if batch_size % p == 0))


class Resident(NamedTuple):
    """A shard in memory: its rows, filled up to a common length, and what a minibatch of it counts."""

    rows: Data
    size: Array
    weight: Array


@dataclass(frozen=True)
class _OnShard(Draw[tuple[()]]):
    """Contiguous blocks at independent places on the ring of a shard's rows."""

    batch_size: int
    pieces: int

    @property
    def wrap(self) -> int:  # type: ignore[override]
        return self.batch_size // self.pieces

    def draw(self, key: Key, state: tuple[()], count: Array, data: Data) -> tuple[tuple[()], Batch]:
        del count
        shard: Any = data
        starts = integers(key, (self.pieces,), shard.size)
        places = (starts[:, None] + jnp.arange(self.wrap, dtype=jnp.int32)).reshape(-1)
        if self.pieces == 1:
            rows = jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, starts[0], self.wrap), shard.rows)
        else:
            rows = jax.tree.map(lambda a: a.at[places].get(mode="promise_in_bounds"), shard.rows)
        size = shard.size.astype(jnp.int32)
        return state, Batch(rows, shard.weight, jnp.where(places >= size, places - size, places))
