"""The search for a start: more and more rows, and of clusters as many as predict rows put aside best.

    rows       a part of them first, then twice as many, until all are in; new ones join one by one
    clusters   every cluster is split in two at random, and collapsed sweeps let those die that the rows do not support;
               kept if rows put aside are predicted better than before, and then tried again

    moves      before more rows come in, clusters are split and merged until no such move is accepted any more: of few
               rows merges succeed that of many would not

From few clusters collapsed Gibbs hardly ever finds more: a new one must begin with a single row, which its prior does
not predict, and two-way splits of one cluster do not gather what belongs together from several. From too many it comes
down soon. Both end in modes that no sampler leaves in reasonable time, so the start decides, and the one with many
clusters has more probability (measured by taking rows out again one by one, see docs).

A search is an initial value like any other: what follows is the sampler. It begins with one cluster, with rows that
come one by one ("sequential"), in a hundred clusters at random ("random"), or with labels that are given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.core.seeds import Purpose, generator
from scirocco.counts.packing import Arrays, packed, unpack_into
from scirocco.models.dp_mixture.predictive import Snapshot, log_predictive

if TYPE_CHECKING:
    from scirocco.models.dp_mixture.gibbs import Collapsed

STARTS = ("one", "sequential", "random")
RANDOM_CLUSTERS = 100
FIRST_ROWS = 4000
ASIDE, MOST_ASIDE = 0.1, 2000  # rows put aside: a share of all, and how many at most
FEWEST = 200  # rows; with fewer there is nothing to search
SETTLE, TRY = 6, 20  # sweeps after rows came in, after clusters were split
AVERAGED = 5  # the last of them, whose predictions are averaged
SPLIT_FROM = 20  # rows that a cluster must have to be split
FAILURES = 4  # splits of all rows that did not pay, in a row, end it
CLEAR = 1.0  # standard errors that a better prediction must be better by
ROUND, MOVING = 3.0, 0.5  # passes that a round of moves takes the time of; all of them, over those of the search before
QUIET = 10, 2  # moves without success after which no more are tried: so many, and for each cluster

NUMBERS = (
    "work", "passes", "level", "_left", "_failed", "_quiet", "done", "_began", "_trying", "_moving", "_hurry",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Start:
    """Where a search begins: its name, or "given" with the labels of all rows."""

    name: str
    labels: np.ndarray | None = None

    @classmethod
    def of(cls, start: Any) -> Start:
        """What the user wrote."""
        if isinstance(start, Start):
            return start
        return cls(start) if isinstance(start, str) else cls("given", np.asarray(start))

    @property
    def compact(self) -> Start:
        """The same with labels without gaps."""
        if self.labels is None:
            return self
        return Start(self.name, np.unique(self.labels, return_inverse=True)[1].astype(np.int32))

    def taken(self, rows: np.ndarray) -> Start:
        """The same for rows in another order."""
        return self if self.labels is None else Start(self.name, self.labels[rows])


class Search:
    """What ``chain`` does before it samples."""

    def __init__(self, chain: Collapsed, start: Start, *, passes: float) -> None:
        self.chain, self.passes = chain, passes
        self.work = 0.0
        self.done = False
        self._start, self._began = start, False
        aside = min(int(ASIDE * chain.size), MOST_ASIDE) if passes and chain.size >= FEWEST else 0
        self.most = chain.size - aside
        parts = passes > 0 and start.name == "one"
        self.level = min(self.most, FIRST_ROWS) if parts else self.most
        self._left, self._failed, self._quiet = 0, 0, 0  # sweeps to make; splits, moves without success
        self._trying, self._moving, self._hurry = False, False, False
        self._before = np.empty(0, np.int32)  # labels before clusters were split
        self._scores, self._new = np.empty(0), np.empty(0)  # log densities of rows put aside, then and now

    def pace(self, used: float) -> None:
        """A share of the time for the search is used up."""
        self._hurry = self._hurry or used >= 1

    def step(self) -> None:
        """One sweep and what is due after it."""
        if not self._began:
            self._begin()
        elif self._hurry and not self._moving:
            self._give_up()
        elif self._moving:
            self._move()
        elif self._left:
            self._sweep()
            self._left -= 1
        elif self._trying:
            self._judge()
        elif self.work >= self.passes:
            self._bring_in()
        else:
            self._split()

    def _give_up(self) -> None:
        """Time is up: clusters as they were before the last try, and all rows."""
        if self._trying:
            self.chain.clusters.relabel(self._before)
        self._left, self._trying = 0, False
        self._bring_in()

    def _begin(self) -> None:
        self._began = True
        clusters, rng = self.chain.clusters, generator(self.chain.seed, Purpose.MIXTURE_SEARCH, self.chain.chain, 0)
        labels = np.full(self.chain.size, -1, np.int32)
        start = self._start
        if start.labels is not None:
            labels[: self.most] = start.labels[: self.most]
        elif start.name == "one":
            labels[: self.level] = 0
        elif start.name == "random":
            labels[: self.level] = rng.integers(0, min(RANDOM_CLUSTERS, self.level), self.level)
        clusters.relabel(labels)
        self._join(0, self.level)
        self._left = SETTLE if self.passes else 0

    def _join(self, first: int, last: int) -> None:
        """Rows without a cluster find theirs, one by one."""
        labels = self.chain.clusters.labels
        if np.any(labels[first:last] < 0):
            self.chain.sweep_collapsed(first, last, last)
            self.work += (last - first) / self.chain.size

    def _sweep(self) -> None:
        self.chain.sweep_collapsed(0, self.level, self.level)
        self.chain.learn(self.level)
        self.work += self.level / self.chain.size
        if 0 < self._left <= AVERAGED and self.most < self.chain.size:
            found = self._predicted()
            self._new = np.logaddexp(self._new, found) if self._left < AVERAGED else found

    def _predicted(self) -> np.ndarray:
        """log predictive densities of the rows put aside."""
        chain = self.chain
        state = Snapshot.of(chain.clusters.statistics(), chain.clusters.law, chain.partition)
        return log_predictive([state], chain.clusters.rows.take(slice(self.most, chain.size)), chain.threads)

    def _split(self) -> None:
        """Every cluster in two, at random, to see whether that predicts better."""
        clusters = self.chain.clusters
        if self.most == self.chain.size:  # nothing is put aside
            self._bring_in()
            return
        self._before, self._scores = clusters.labels.copy(), self._new
        rng = generator(self.chain.seed, Purpose.MIXTURE_SEARCH, self.chain.chain, self.chain.next_call())
        big = np.append(clusters.tables.sizes >= SPLIT_FROM, False)
        labels = clusters.labels.copy()
        moved = big[labels] & (rng.random(labels.size) < 0.5)
        labels[moved] += clusters.slots
        found = np.unique(labels, return_inverse=True)[1].astype(np.int32)
        clusters.relabel(found - np.int32(np.any(labels < 0)))
        self._left, self._trying = TRY, True

    def _judge(self) -> None:
        self._trying = False
        gain = self._new - self._scores
        if gain.mean() > CLEAR * gain.std() / np.sqrt(gain.size):
            self._failed = 0
            return  # and try again
        self.chain.clusters.relabel(self._before)
        self._new = self._scores
        self._failed += 1
        if self.level < self.most:
            self._begin_moves()
        elif self._failed == FAILURES:
            self._bring_in()

    def _grow(self) -> None:
        """Twice as many rows."""
        before, self.level = self.level, min(self.most, 2 * self.level)
        self._join(before, self.level)
        self._left, self._failed = SETTLE, 0

    def _bring_in(self) -> None:
        """The rows put aside."""
        self._join(self.level, self.chain.size)
        self.level = self.chain.size
        self.passes = max(self.passes, self.work) + MOVING * self.passes
        self._begin_moves()

    def _begin_moves(self) -> None:
        self._moving, self._quiet = self.chain.moves and self.passes > 0 and not self._hurry, 0
        if not self._moving:
            self._go_on()

    def _go_on(self) -> None:
        if self.level < self.most:
            self._grow()
        else:
            self.done = True

    def _move(self) -> None:
        """Moves and a sweep, as long as moves are accepted: few may be all that a round has."""
        chain = self.chain
        moves = chain.affordable_moves(ROUND, self.level)
        accepted = chain.make_moves(moves, turn=chain.calls, size=self.level)
        self._quiet = 0 if accepted else self._quiet + moves
        self._sweep()
        self.work += ROUND * self.level / chain.size
        enough = QUIET[0] + QUIET[1] * chain.clusters.number
        if self._quiet >= enough or self._hurry or self.work >= self.passes:
            self._moving = False
            self._go_on()

    def finish(self) -> None:
        """End with what there is."""
        if self._trying:
            self.chain.clusters.relabel(self._before)
        self._join(0, self.chain.size)
        self.level, self.done = self.chain.size, True

    def pack(self) -> Arrays:
        """Where the search is."""
        return packed(self, NUMBERS) | {"before": self._before, "scores": self._scores, "new": self._new}

    def unpack(self, arrays: Arrays) -> None:
        """The inverse of ``pack``."""
        unpack_into(self, NUMBERS, arrays)
        self._before, self._scores, self._new = (arrays[name] for name in ("before", "scores", "new"))
