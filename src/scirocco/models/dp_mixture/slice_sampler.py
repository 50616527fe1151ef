"""The slice sampler with sticks, on all rows or on minibatches (Walker 2007; Papaspiliopoulos 2008; Kalli et al. 2011).

    v_j ~ Beta(1 + m_j, alpha + sum_{l > j} m_l), omega_j = v_j prod_{l < j} (1 - v_l), theta_j ~ Dirichlet(base + n_j)
    alpha ~ Gamma(b1 + Z*, b2 - sum_{j <= Z*} log(1 - v_j)),    Z* the last component with rows
    u_i ~ U(0, omega_{z_i}),    p(z_i = j) proportional to [omega_j > u_i] f(x_i | theta_j)

Components after Z* come from the prior, as many as it takes until sum omega_j > 1 - min u. Sticks and components are
moved by any simplex sampler: ``Exact`` draws them, SCIR, SCIRCV and SGRLD make a step. With allocations that are kept
m and n are counts of all rows, and every step leaves the posterior invariant, however small the minibatch; estimated
ones are those of the minibatch times N/n, the stochastic slice sampler of Baker et al. (2018, thesis B.4).

The source prints the condition on k* reversed, omega_j with v_j in place of v_l, and the sum for alpha up to k*: the
forms above have the law of the enumeration of all partitions. When allocations are kept the totals of gamma weights
are drawn anew before each step, without which the chain is biased.

Sticks in the order of labels mix slowly: labels are switched by the moves 1 and 2 of Papaspiliopoulos and Roberts
(2008), as in PReMiuM,

    components j and k change places                 accepted with  (omega_j / omega_k)^(m_k - m_j)
    j and j + 1 change places, and their sticks too                 (1 - v_{j+1})^m_j / (1 - v_j)^m_{j+1}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from scirocco.core.compiled import jit, over_blocks
from scirocco.core.seeds import Purpose, generator, stream_key
from scirocco.corpora.documents import Documents
from scirocco.counts.estimators import CountEstimator, PlainCounts, chosen_estimator
from scirocco.counts.local import LocalStep
from scirocco.counts.minibatches import InMemory, Minibatch, Minibatches
from scirocco.counts.packing import Arrays, nested, packed, unpack_into
from scirocco.models.dp_mixture.blocked_kernels import allocate, draw_levels, move_rows
from scirocco.models.dp_mixture.clusters import Clusters, Statistics
from scirocco.models.dp_mixture.density import ROWS, Law
from scirocco.models.dp_mixture.engine import MixtureChain
from scirocco.models.dp_mixture.gibbs import Collapsed
from scirocco.models.dp_mixture.partition import DirichletProcess
from scirocco.run.checkpoint import part
from scirocco.simplex import SCIR, SCIRCV, Exact, SimplexSampler, Weights
from scirocco.simplex.base import Counts, State

FIRST_COMPONENTS = 32
SWITCHES = 10  # label-switching moves of either kind, in a step
LEAST_STICK = 1e-300  # a stick that has underflowed
NUMBERS = ("calls", "steps", "searched")  # that change


@jit
def _count_some(rows: Any, chosen: Any, labels: Any, scale: float, table: Any) -> None:
    starts, words, numbers = rows
    for i in chosen:
        if labels[i] >= 0:
            for e in range(starts[i], starts[i + 1]):
                table[words[e], labels[i]] += scale * numbers[e]


class _Numbers:
    """Rows as minibatches see them: by their numbers."""

    def __init__(self, size: int) -> None:
        self.size = size

    def take(self, rows: np.ndarray) -> np.ndarray:
        return rows


class _Part(LocalStep):
    """What a minibatch says of the sticks or of the components, by the labels that its rows have."""

    def __init__(self, chain: SliceSampler, weights: Weights, minibatches: Minibatches, *, sticks: bool) -> None:
        self.chain, self.weights, self.minibatches, self.sticks = chain, weights, minibatches, sticks
        self.state: State = {}  # of the sampler
        self.memory: State = {}  # of the estimator

    def count(self, batch: Minibatch, at: Any = None, *, survey: bool = False) -> tuple[None, np.ndarray]:
        """Rows on this side of each stick and beyond it; or features in each component."""
        del at, survey
        assert batch.rows is not None
        clusters, slots = self.chain.clusters, self.weights.rows
        if self.sticks:
            own = clusters.labels[batch.rows]
            return None, _broken(np.bincount(own[own >= 0], minlength=slots) * float(batch.scale))
        table = np.zeros((clusters.law.base.size, slots))
        _count_some(clusters.entries, batch.rows, clusters.labels, float(batch.scale), table)
        return None, table

    def exact(self) -> Counts:
        """The counts of all rows."""
        tables, slots = self.chain.clusters.tables, self.weights.rows
        if self.sticks:
            return Counts(_broken(tables.sizes[:slots]).T, exact=True)
        return Counts(tables.counts[:, :slots].T, exact=True)

    def everything(self) -> Iterator[Minibatch]:
        """All rows once."""
        return self.minibatches.everything()


def _broken(sizes: np.ndarray) -> np.ndarray:
    """2 x sticks: rows of each component, and of all after it."""
    return np.stack([sizes, sizes[::-1].cumsum()[::-1] - sizes])


class SliceSampler(MixtureChain):
    """One chain; ``sampler`` moves the components, ``stick_sampler`` the sticks.

    ``first`` is a collapsed chain whose search gives the start, ``start`` labels that are given.
    """

    def __init__(
        self, rows: Documents, law: Law, partition: DirichletProcess, *, sampler: SimplexSampler | None = None,
        stick_sampler: SimplexSampler | None = None, kept: bool = True, batch_size: int | None = None, seed: int,
        chain: int, threads: int | None = None, start: Any = None, first: Collapsed | None = None,
    ) -> None:  # fmt: skip
        self.sampler = Exact() if sampler is None else sampler
        self.stick_sampler = self.sampler if stick_sampler is None else stick_sampler
        if kept:  # of exact counts a control variate is the number itself
            self.sampler, self.stick_sampler = (
                SCIR(own.step_size) if isinstance(own, SCIRCV) else own for own in (self.sampler, self.stick_sampler)
            )
        if not kept and isinstance(self.sampler, Exact):
            raise ValueError("exact draws need exact counts: keep the allocations, or take SCIR")
        if law.totals.size != 1 or law.rate or len(law.columns):
            raise ValueError(
                "the slice sampler with sticks moves one Dirichlet vector a cluster: multinomial rows only"
            )
        for own in (self.sampler, self.stick_sampler):
            if isinstance(own, SCIRCV) and own.recentre_every is None:
                raise ValueError("SCIRCV needs recentre_every: the counts that its centre stands for change")
        self.partition, self.kept, self.seed, self.chain, self.threads = partition, kept, seed, chain, threads
        self.clusters, self.size = Clusters(rows, law), rows.size
        self.key = stream_key(seed, Purpose.MIXTURE_SWEEPS, chain)
        self.calls, self.steps, self.searched, self.tally = 0, 0, 0.0, np.zeros(4, np.int64)
        size = rows.size if batch_size is None else min(batch_size, rows.size)
        way = "shuffled" if kept else "independent"
        self.minibatches = InMemory(_Numbers(rows.size), size, way, seed=seed, chain=chain)
        self.first = first
        if start is not None:
            self.clusters.relabel(np.asarray(start, np.int32))
        self.estimators: tuple[CountEstimator, ...] = tuple(
            chosen_estimator(PlainCounts(), s) for s in (self.stick_sampler, self.sampler)
        )
        self.parts = self._made(max(FIRST_COMPONENTS, self.clusters.slots))

    def _made(self, slots: int) -> tuple[_Part, _Part]:
        """Sticks and components given the labels; from the prior where there are none."""
        alpha, law = self.partition.concentration, self.clusters.law
        sticks, components = (
            Weights(
                prior, slots, np.size(prior), seed=self.seed, path=(purpose, self.chain, slots), threads=self.threads
            )
            for prior, purpose in (
                (np.array([1.0, alpha]), Purpose.MIXTURE_STICKS), (law.base, Purpose.MIXTURE_COMPONENTS)
            )
        )  # fmt: skip
        made = (
            _Part(self, sticks, self.minibatches, sticks=True),
            _Part(self, components, self.minibatches, sticks=False),
        )
        self.clusters.make_room(slots)
        for local, sampler in zip(made, (self.stick_sampler, self.sampler), strict=True):
            theta = np.zeros_like(local.weights.theta)
            local.weights.transition(theta, local.weights.prior + local.exact().values.T, 0.0, 1.0)
            local.weights.replace(theta)
            local.state = sampler.start(local.weights)
        return made

    def _grow(self) -> None:
        """Twice as many slots, the new ones from the prior; nothing is remembered of them."""
        old, slots = self.parts, 2 * self.parts[0].weights.rows
        self.parts = self._made(slots)
        for new, before in zip(self.parts, old, strict=True):
            theta = new.weights.theta.copy()
            theta[:, : before.weights.rows] = before.weights.theta
            new.weights.replace(theta)
            new.weights.steps = before.weights.steps
            added = slots - before.weights.rows
            for name, array in before.memory.items():
                own = array.shape[-1] == before.weights.rows and name != "controlled"
                widths = [(0, 0)] * (array.ndim - 1) + [(0, added if own else 0)]
                new.memory[name] = np.pad(array, widths)

    @property
    def searching(self) -> bool:
        """Whether the search for a start goes on."""
        return self.first is not None

    @property
    def sampling(self) -> bool:
        """Whether the chain samples by now."""
        return self.first is None

    def pace(self, taken: float) -> None:
        """So much of the search's time is taken, 1 being all."""
        if self.first is not None:
            self.first.pace(taken)

    @property
    def passes(self) -> float:
        """Rows that were allocated anew, over all."""
        searched = self.searched if self.first is None else self.first.passes
        return searched + self.steps * self.minibatches.batch_size / self.size

    def next_call(self) -> int:
        """The number of the next stream of random numbers."""
        self.calls += 1
        return self.calls

    # Moving.

    def step(self) -> None:
        """A part of the search; or sticks, components and the concentration, then the rows of a minibatch."""
        if self.first is not None:
            self._search(self.first)
            return
        batch = self.minibatches.at(self.steps)
        rng = generator(self.seed, Purpose.MIXTURE_WEIGHTS, self.chain, self.next_call())
        for local, sampler, estimator in zip(
            self.parts, (self.stick_sampler, self.sampler), self.estimators, strict=True
        ):
            if not self.steps:
                for _ in estimator.survey(local, local.memory):
                    pass
            counts = local.exact() if self.kept else estimator.counts(local, batch, local.memory)
            sampler.step(local.weights, counts, local.state)
        if self.kept:
            self._switch_labels(rng)
        self._learn(rng)
        self._renew_empty(rng)
        self._allocate(batch.rows)
        self.steps += 1

    def _search(self, first: Collapsed) -> None:
        first.step()
        if not first.searching:
            self._begin_after(first)

    def finish_search(self) -> None:
        """End it with what it has."""
        if self.first is not None:
            self.first.finish_search()
            self._begin_after(self.first)

    def _begin_after(self, first: Collapsed) -> None:
        """Go on where the search has ended; its streams of random numbers have the same key."""
        self.clusters.relabel(first.labels())
        self.partition.concentration, self.calls = first.partition.concentration, first.calls
        self.first, self.searched = None, first.passes
        self.parts = self._made(max(FIRST_COMPONENTS, self.clusters.slots))

    @property
    def _last(self) -> int:
        """Z*: slots up to the last that has rows."""
        used = self.clusters.used
        return int(used[-1]) + 1 if used.size else 0

    def _sticks(self) -> tuple[np.ndarray, np.ndarray]:
        """v, and log(1 - v)."""
        g = np.maximum(self.parts[0].weights.theta, LEAST_STICK)
        total = g.sum(axis=0)
        return g[0] / total, np.log(g[1]) - np.log(total)

    def weights(self) -> np.ndarray:
        """omega of all slots; what is missing to 1 is that of the others."""
        v, rest = self._sticks()
        return np.asarray(v * np.exp(np.concatenate([[0.0], np.cumsum(rest)[:-1]])))

    def _learn(self, rng: np.random.Generator) -> None:
        if self.partition.prior is not None:
            (b1, b2), last = self.partition.prior, self._last
            self.partition.concentration = float(rng.gamma(b1 + last) / (b2 - self._sticks()[1][:last].sum()))
        self.parts[0].weights.prior = np.array([[1.0], [self.partition.concentration]])

    def _renew_empty(self, rng: np.random.Generator) -> None:
        """Sticks and components after the last with rows, from the prior."""
        last = self._last
        for local in self.parts:
            theta = local.weights.theta
            theta[:, last:] = rng.gamma(np.broadcast_to(local.weights.prior, theta.shape)[:, last:])

    def _allocate(self, chosen: Any) -> None:
        clusters, u = self.clusters, np.zeros(chosen.size)
        blocks = -(-chosen.size // ROWS)
        weights, call = self.weights(), self.next_call()
        over_blocks(
            lambda a, b: draw_levels(self.key, call, a, b, chosen, clusters.labels, weights, u), blocks, self.threads
        )
        least = float(u[clusters.labels[chosen] >= 0].min(initial=1.0))
        while 1 - weights.sum() >= least > 0 and 1 - weights.sum() > 1e-12:
            self._grow()
            weights = self.weights()
        theta = self.parts[1].weights.theta
        components = theta / np.maximum(theta.sum(axis=0), LEAST_STICK)
        old, call = clusters.labels[chosen], self.next_call()
        rates, columns = np.zeros(weights.size), clusters.law.columns  # there are none
        over_blocks(
            lambda a, b: allocate(
                self.key, call, a, b, chosen, clusters.entries, clusters.labels, components, rates, columns,
                clusters.tables.profiles, weights, u, True,
            ),
            blocks, self.threads,
        )  # fmt: skip
        move_rows(clusters.entries, chosen, old, clusters.labels, clusters.tables.lean, clusters.law.lean)

    def _switch_labels(self, rng: np.random.Generator) -> None:
        """Components change places; every slot may be chosen, so that a move and its reverse are as likely."""
        slots, sizes = self.parts[0].weights.rows, self.clusters.tables.sizes.copy()
        v, rest = self._sticks()
        place, stick = np.arange(slots), np.arange(slots)  # what stands in a slot: a component, a stick
        for _ in range(SWITCHES):
            log_omega = np.log(v) + np.concatenate([[0.0], np.cumsum(rest)[:-1]])
            j, k = rng.integers(0, slots, 2)
            if np.log(rng.random()) < (log_omega[j] - log_omega[k]) * (sizes[k] - sizes[j]):
                place[[j, k]], sizes[[j, k]] = place[[k, j]], sizes[[k, j]]
            j = rng.integers(0, slots - 1)
            if np.log(rng.random()) < sizes[j] * rest[j + 1] - sizes[j + 1] * rest[j]:
                for array in (place, stick, sizes, v, rest):
                    array[[j, j + 1]] = array[[j + 1, j]]
        if np.array_equal(place, np.arange(slots)) and np.array_equal(stick, np.arange(slots)):
            return
        self.parts[0].weights.theta[:] = self.parts[0].weights.theta[:, stick]
        self.parts[1].weights.theta[:] = self.parts[1].weights.theta[:, place]
        back = np.empty(slots + 1, np.int32)
        back[place], back[-1] = np.arange(slots), -1
        labels, tables = self.clusters.labels, self.clusters.tables
        labels[:] = back[labels]
        for table in tables:
            table[..., :slots] = table[..., :slots][..., place]

    # Reading.

    def labels(self) -> np.ndarray:
        """Clusters of all rows, the largest first; those never seen are in the first."""
        return np.maximum(self.clusters.compressed(), 0)

    def statistics(self) -> Statistics:
        """Sizes and counts of kept rows; else weights and proportions of components with rows."""
        if self.kept:
            return self.clusters.statistics()
        order = np.argsort(-self.clusters.tables.sizes, kind="stable")[: self.clusters.number]
        theta = self.parts[1].weights.theta[:, order]
        return Statistics.of_features(self.weights()[order], (theta / theta.sum(axis=0)).T)

    # Keeping.

    def pack(self) -> Arrays:
        """Allocations, weights, what samplers and estimators remember."""
        arrays = packed(self, NUMBERS) | {
            "z": self.clusters.labels, "slots": np.asarray(self.parts[0].weights.rows),
            "concentration": np.asarray(self.partition.concentration),
        }  # fmt: skip
        if self.first is not None:
            return arrays | nested(first=self.first.pack())
        sticks, components = (
            nested(weights=local.weights.pack(), state=local.state, memory=local.memory) for local in self.parts
        )
        return arrays | nested(sticks=sticks, components=components)

    def unpack(self, arrays: Arrays) -> None:
        """The inverse of ``pack``."""
        unpack_into(self, NUMBERS, arrays)
        self.partition.concentration = float(arrays["concentration"])
        self.clusters.relabel(arrays["z"])
        before = part(arrays, "first")
        if before:
            assert self.first is not None
            self.first.unpack(before)
            return
        self.first = None
        self.parts = self._made(int(arrays["slots"]))
        for name, local in zip(("sticks", "components"), self.parts, strict=True):
            own = part(arrays, name)
            local.weights.unpack(part(own, "weights"))
            local.state, local.memory = dict(part(own, "state")), dict(part(own, "memory"))
