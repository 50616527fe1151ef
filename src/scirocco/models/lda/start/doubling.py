"""Good topics from few documents: collapsed Gibbs sampling of a part of them that doubles until it has all.

    sweep the first documents  ->  assign as many more, given the topics so far  ->  sweep all of these  ->  ...

Topics form quickly where sweeps are short, and each doubling starts from topics that are nearly right for it. The
documents come in random order. How long a stage is swept is measured on a few documents that are put aside: until some
sweeps improve their prediction by less than a small part of what the last doubling did. To stop earlier would be
cheaper now and dearer later, when the same sweeps cost twice as much. A budget limits the work of each stage alike, so
that the small ones may have many sweeps.

The first stage, which is the cheapest and where topics that share their words may form, is begun several times; the
start with the largest log p(words, assignments) goes on.

Sweeps are those of the collapsed sampler, on all threads where there are tokens enough (``cells``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

from scirocco.core.compiled import jit
from scirocco.core.seeds import Purpose, stream_key
from scirocco.counts.estimators import KeptCounts
from scirocco.counts.packing import Arrays, packed, unpack_into
from scirocco.models.lda.cells import Cells
from scirocco.models.lda.collapsed import sweep_collapsed
from scirocco.models.lda.held_out import HeldOut

FIRST = 0.01  # of the documents, but FEWEST at the least
FEWEST = 50
CHECKS = 2  # sweeps from look to look at the documents put aside
SMALL = 0.05  # of the gain by the last doubling: a gain from look to look that is not worth more sweeps
MOST_SWEEPS, LEAST_SWEEPS = 30, 4  # sweeps of a stage
SLOWEST = 0.8  # ratio of two gains by doubling that is believed
STARTS = 6  # of the first stage, as far as a quarter of the work allows
QUARTERS = 4
NUMBERS = (
    "have", "goal", "calls", "quarter", "sweeps", "work", "passes", "gain", "starts_made", "likely",
)  # fmt: skip


class Doubling:
    """The search of one chain, on the ``kept`` assignments of documents in random order.

    ``cells`` say how sweeps are shared out; ``alpha`` is padded as the table of counts is; ``passes``
    is the work that it may cost, in sweeps over all documents; the last documents may be ``aside``. The first stage is
    begun up to ``begin`` times (``STARTS`` by default).
    """

    def __init__(
        self, kept: KeptCounts, cells: Cells, alpha: np.ndarray, beta: np.ndarray, *, seed: int, chain: int,
        passes: float, threads: int | None, aside: HeldOut | None, begin: int | None = None,
    ) -> None:  # fmt: skip
        self.kept, self.cells, self.threads, self.passes = kept, cells, threads, passes
        self.starts = starts = cells.starts
        self.alpha, self.beta = alpha, beta
        self.key = stream_key(seed, Purpose.SEARCH_SWEEPS, chain)
        self.size = starts.size - 1
        self.aside = aside
        self.goal = min(self.size, max(FEWEST, int(FIRST * self.size)))
        self.have = self.calls = self.quarter = self.sweeps = 0
        self.work = 0.0  # in sweeps over all documents
        self.scores: list[float] = []  # of this stage
        self.levels: list[float] = []  # the best scores of the stages before
        self.gain = 0.0  # what the last doubling brought
        # Of the first stage; the best log likelihood so far.
        self.starts_made, self.likely = 0 if begin is None else STARTS - begin, -np.inf
        self.chosen = np.empty(0, kept.labels.dtype)  # and its labels
        if passes <= 0:
            self.stop()

    @property
    def done(self) -> bool:
        """Whether all documents are assigned."""
        return self.have == self.size

    def stop(self) -> None:
        """Do with the topics that there are: what is left is assigned."""
        if self.chosen.size:  # between two starts
            self.have = self.goal
            self._take_best()
        self.starts_made = STARTS
        if self.goal < self.size:
            self.goal, self.quarter = self.size, 0

    def sweep(self) -> None:
        """A quarter of a sweep over everything, once all documents are assigned."""
        borders = np.linspace(0, self.size, QUARTERS + 1).astype(int)
        self._run(*borders[self.quarter : self.quarter + 2])
        self.quarter = (self.quarter + 1) % QUARTERS
        self.sweeps += not self.quarter

    def score(self, aside: HeldOut) -> float:
        """How well the topics so far predict documents put aside."""
        kept, columns = self.kept, aside.columns
        phi = (kept.used[columns] + self.beta[columns, None]) / (kept.totals + self.beta.sum())
        return aside.score(phi.astype(np.float32), self.alpha[: kept.rows])

    def outlook(self, aside: HeldOut) -> float:
        """What the score may come to with all documents: gains by doubling fall as the last ones did."""
        score = self.score(aside)
        if len(self.levels) < 3:
            return score
        before, last = np.diff(self.levels[-3:])
        ratio = np.clip(last / before if before > 0 else 0.0, 0.0, SLOWEST)
        doublings = np.log2(self.size / self.goal)
        return score + float(max(0.0, last) * ratio * (1 - ratio**doublings) / (1 - ratio))

    def begin_after(self, documents: int) -> None:
        """So many documents have topics already: only the others are assigned."""
        self.have = documents
        self.stop()

    def step(self) -> None:
        """A quarter of what is to be assigned or swept next."""
        if self.have < self.goal:
            stop = self.have + -(-(self.goal - self.have) // (QUARTERS - self.quarter))
            self._run(self.have, stop, fresh=True)
            self.have = stop
            self.quarter = 0 if self.have == self.goal else self.quarter + 1
            self.sweeps, self.scores = 0, []
            return
        borders = np.linspace(0, self.have, QUARTERS + 1).astype(int)
        self._run(*borders[self.quarter : self.quarter + 2])
        self.quarter = (self.quarter + 1) % QUARTERS
        if not self.quarter:
            self.sweeps += 1
            if self._enough():
                self._grow()

    def pack(self) -> Arrays:
        """The place in the search; assignments are packed by whoever owns them."""
        lists = {"scores": np.array(self.scores), "levels": np.array(self.levels)}
        return packed(self, NUMBERS) | {"chosen": self.chosen} | lists

    def unpack(self, arrays: Arrays) -> None:
        """The inverse of ``pack``."""
        unpack_into(self, NUMBERS, arrays)
        self.chosen = arrays["chosen"].copy()
        self.scores, self.levels = arrays["scores"].tolist(), arrays["levels"].tolist()

    def _enough(self) -> bool:
        """Whether the stage is over."""
        most = np.clip(self.passes / np.log2(1 / FIRST) * self.size / self.goal, LEAST_SWEEPS, MOST_SWEEPS)
        if self.sweeps >= most or self.aside is None or self.sweeps % CHECKS:
            return bool(self.sweeps >= most)
        self.scores.append(self.score(self.aside))
        if len(self.scores) == 1:
            self.gain = self.scores[0] - self.levels[-1] if self.levels else 0.0
            return False
        return self.sweeps >= LEAST_SWEEPS and self.scores[-1] - self.scores[-2] < SMALL * self.gain

    def _grow(self) -> None:
        """The next stage; the first is begun again, or goes on from its best start."""
        if self.starts_made < STARTS:
            self._compare()
            if self.starts_made < STARTS and self.work < self.passes / 4:
                self.have = self.sweeps = 0
                self.scores = []
                self.kept.clear()
                return
            self.starts_made = STARTS
            self._take_best()
        if self.scores:
            self.levels.append(max(self.scores))
        wanted = 2 * self.goal
        self.goal = self.size if wanted > self.size - (self.aside.size if self.aside else 0) else wanted

    def _take_best(self) -> None:
        """The documents of the first stage have the labels of its best start."""
        self.kept.labels[: self.chosen.size] = self.chosen
        self.kept.clear()
        self.kept.add(0, self.chosen.size)
        self.chosen = self.chosen[:0]

    def _compare(self) -> None:
        """Keep the labels of this start if it is the best so far."""
        tokens, kept = int(self.starts[self.have]), self.kept
        likely = joint_likelihood(kept, self.starts[: self.have + 1], self.alpha[: kept.rows], self.beta)
        self.starts_made += 1
        if likely > self.likely:
            self.likely, self.chosen = likely, kept.labels[:tokens].copy()

    def _run(self, begin: int, end: int, *, fresh: bool = False) -> None:
        """Sweep documents ``begin`` to ``end``."""
        self.work += int(self.starts[end] - self.starts[begin]) / max(1, int(self.starts[-1]))
        sweep_collapsed(
            self.key, self._next_call, begin, end, self.cells, self.kept, self.alpha, self.beta, self.threads,
            fresh=fresh,
        )  # fmt: skip

    def _next_call(self) -> int:
        self.calls += 1
        return self.calls


def joint_likelihood(kept: KeptCounts, starts: np.ndarray, alpha: np.ndarray, beta: np.ndarray) -> float:
    """log p(words, assignments) of the first documents, up to what does not depend on the assignments."""
    used = np.flatnonzero(kept.used.any(axis=1))
    words = gammaln(kept.used[used] + beta[used, None]) - gammaln(beta[used, None].astype(np.float64))
    totals = gammaln(kept.totals + float(beta.sum(dtype=np.float64)))
    return _weights_likelihood(starts, kept.labels, alpha) + float(words.sum() - totals.sum())


@jit
def _weights_likelihood(starts: Any, labels: Any, alpha: Any) -> float:
    """log p(assignments), token by token given those before."""
    near, total = np.empty(alpha.size), 0.0
    for d in range(starts.size - 1):
        for k in range(alpha.size):
            near[k] = alpha[k]
        for t in range(starts[d], starts[d + 1]):
            total += np.log(near[labels[t]])
            near[labels[t]] += 1.0
    return total
