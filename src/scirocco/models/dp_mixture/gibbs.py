"""Chains in memory: every row's cluster is kept, and so are the counts of the clusters.

``Collapsed``: weights and parameters integrated out, row by row (``collapsed_kernels``).

``Blocked``: weights and components given all allocations (``given``), then the allocations of a minibatch given them,
which is a Gibbs scan: exact, however small the minibatch, and parallel over its rows.

After every pass come moves that split and merge clusters (``split_merge``), for about ``MOVE_SHARE`` of its time, and
draws of the concentration and, if wanted, of the base measure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scirocco.core.compiled import over_blocks
from scirocco.core.seeds import Purpose, generator, stream_key
from scirocco.corpora.documents import Documents
from scirocco.counts.chains import PassChain
from scirocco.counts.packing import Arrays
from scirocco.models.dp_mixture import collapsed_kernels
from scirocco.models.dp_mixture.blocked_kernels import allocate, draw_levels, move_rows
from scirocco.models.dp_mixture.clusters import Clusters
from scirocco.models.dp_mixture.density import ROWS, Law
from scirocco.models.dp_mixture.given import GivenClusters
from scirocco.models.dp_mixture.partition import PartitionLaw
from scirocco.models.dp_mixture.search import Search, Start
from scirocco.models.dp_mixture.split_merge import MERGED, SPLIT, split_merge

MOVE_SHARE, MOST_MOVES = 0.3, 1000  # of the time of a pass; how many
# Nanoseconds, about: of a row in a pass, and for each cluster; of a row in a scan of a move; of a row that is looked at
# when the members of a move are gathered.
ROW_COST, CLUSTER_COST, MEMBER_COST, LOOK_COST = 30.0, 4.0, 60.0, 10.0
SCANS = (0, 4)  # restricted scans of moves, in turns
BATCHES = 20  # minibatches in a pass of ``Blocked``, unless components are costly to draw beside so few rows


class Collapsed(PassChain, GivenClusters):
    """Collapsed Gibbs, one thread."""

    search: Search
    numbers = (*PassChain.numbers, "move_number")

    def __init__(
        self, rows: Documents, law: Law, counted: np.ndarray, partition: PartitionLaw, *, seed: int, chain: int,
        learn_base: str | None = None, batch_size: int | None = None, moves: bool = True, threads: int | None = None,
        start: str | np.ndarray | Start = "one", search_passes: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.partition, self.counted, self.given_law, self.learn_base = partition, counted, law, learn_base
        self.seed, self.chain, self.threads, self.moves = seed, chain, threads, moves
        self.order = generator(seed, Purpose.MIXTURE_ORDER, chain).permutation(rows.size)
        self.clusters = Clusters(rows.take(self.order), law)
        self.size = rows.size
        self.key, self.move_key = (
            stream_key(seed, purpose, chain) for purpose in (Purpose.MIXTURE_SWEEPS, Purpose.MIXTURE_MOVES)
        )
        self.tally, self.move_number = np.zeros(4, np.int64), 0
        pieces = self._pieces() if batch_size is None else max(1, round(rows.size / batch_size))
        self.borders = np.unique(np.linspace(0, rows.size, pieces + 1).astype(np.int64))
        self.search = Search(self, Start.of(start).taken(self.order), passes=search_passes)

    def _pieces(self) -> int:
        """Minibatches in a pass."""
        return 1

    # Moving.

    def share(self, begin: int, end: int) -> float:
        """By rows."""
        return float((end - begin) / self.size)

    def end_pass(self) -> None:
        """Moves that split and merge clusters, then the priors."""
        if self.moves:
            self.split_and_merge()
        self.learn(self.size)

    def sweep(self, begin: int, end: int) -> None:
        """New allocations of rows ``begin`` to ``end``."""
        self.sweep_collapsed(begin, end, self.size)

    def sweep_collapsed(self, begin: int, end: int, size: int) -> None:
        """The same, weights and parameters integrated out, among ``size`` rows."""
        clusters = self.clusters
        while begin < end:
            clusters.make_room(clusters.number + 2)
            urn = self.partition.urn(size, clusters.slots)
            begin = collapsed_kernels.sweep(
                self.key, self.next_call(), begin, end, clusters.entries, clusters.labels, clusters.law.lean,
                clusters.tables.lean, urn,
            )  # fmt: skip
            if begin < end:
                clusters.make_room(2 * clusters.slots)

    def split_and_merge(self) -> None:
        """Moves for a share of the time of a pass."""
        if not self.move_number:
            self.move_number = self.affordable_moves(MOVE_SHARE, self.size)
        self.make_moves(self.move_number, turn=int(self.sampled), size=self.size)

    def make_moves(self, moves: int, turn: int, size: int) -> int:
        """So many moves of ``size`` rows, with restricted scans as it is their turn; how many were accepted."""
        clusters, scans, before = self.clusters, SCANS[turn % len(SCANS)], self.tally[[SPLIT, MERGED]].sum()
        while moves > 0:
            clusters.make_room(clusters.number + 2)
            urn = self.partition.urn(size, clusters.slots)
            moves -= split_merge(
                self.move_key, self.next_call(), moves, scans, clusters.entries, clusters.labels, clusters.law,
                clusters.tables, urn, self.tally,
            )  # fmt: skip
            if moves:
                clusters.make_room(2 * clusters.slots)
        return int(self.tally[[SPLIT, MERGED]].sum() - before)

    def affordable_moves(self, share: float, size: int) -> int:
        """Moves for a share of the time of a pass over ``size`` rows, as the clusters are.

        While the chain samples their number must not change: it would depend on the state, which biases the chain.
        """
        members = 2 * size / self.clusters.number  # rows of a move, about
        a_pass = size * (ROW_COST + CLUSTER_COST * self.clusters.number)
        a_move = (1 + np.mean(SCANS)) * members * MEMBER_COST + self.size * LOOK_COST
        return int(np.clip(share * a_pass / a_move, 1, MOST_MOVES))

    def finish_search(self) -> None:
        """End it with what it has."""
        if self.searching:
            self.search.finish()

    # Reading.

    def labels(self) -> np.ndarray:
        """Clusters of all rows in their own order, the largest first."""
        found = np.empty(self.size, np.int32)
        found[self.order] = self.clusters.compressed()
        return found

    # Keeping.

    def pack_assignments(self) -> Arrays:
        """Allocations, priors and the tally of the moves."""
        return {
            "z": self.clusters.labels, "slots": np.asarray(self.clusters.slots), "tally": self.tally,
            "base": self.clusters.law.base, "concentration": np.asarray(self.partition.concentration),
            "columns": self.clusters.law.columns,
        }  # fmt: skip

    def unpack_assignments(self, arrays: Mapping[str, np.ndarray]) -> None:
        """The inverse of ``pack_assignments``."""
        self.partition.concentration = float(arrays["concentration"])
        self.tally = arrays["tally"].copy()
        self.clusters.law = self.given_law.with_base(arrays["base"].copy(), self.counted)
        if "columns" in arrays:
            self.clusters.law = self.clusters.law._replace(columns=arrays["columns"].copy())
        # As many slots as there were: when room is short, another stream of random numbers is opened.
        self.clusters.relabel(arrays["z"], int(arrays["slots"]))


class Blocked(Collapsed):
    """Exact minibatch Gibbs given weights and components, on several threads."""

    def _pieces(self) -> int:
        return int(np.clip(self.size // 2000, 1, BATCHES))

    def sweep(self, begin: int, end: int) -> None:
        """Weights and components given all rows, then rows ``begin`` to ``end`` given them."""
        clusters, chosen = self.clusters, np.arange(begin, end)
        rng = generator(self.seed, Purpose.MIXTURE_WEIGHTS, self.chain, self.next_call())
        u = np.zeros(chosen.size)

        def least_slice(weights: np.ndarray) -> float:
            call = self.next_call()
            self._over(chosen, lambda a, b: draw_levels(self.key, call, a, b, chosen, clusters.labels, weights, u))
            return float(u.min())

        given = self.draw_components(rng, least_slice)
        old, call = clusters.labels[begin:end].copy(), self.next_call()
        self._over(
            chosen,
            lambda a, b: allocate(
                self.key, call, a, b, chosen, clusters.entries, clusters.labels, given.proportions, given.rates,
                given.columns, given.profiles, given.weights, u, not self.finite,
            ),
        )  # fmt: skip
        move_rows(clusters.entries, chosen, old, clusters.labels, clusters.tables.lean, clusters.law.lean)

    def _over(self, chosen: np.ndarray, work: Any) -> None:
        over_blocks(work, -(-chosen.size // ROWS), self.threads)
