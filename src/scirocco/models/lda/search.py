"""A start for kept assignments: collapsed Gibbs sampling of a part of the documents that doubles until it has all.

    sweep the first documents  ->  assign as many more, given the topics so far  ->  sweep all of these  ->  ...

Topics form quickly where sweeps are short, and each doubling starts from topics that are nearly right for it. The
documents come in random order. How long a stage is swept is measured on a few documents that are put aside: until some
sweeps improve their prediction by less than a small part of what the last doubling did. To stop earlier would be
cheaper now and dearer later, when the same sweeps cost twice as much. A budget limits the work of each stage alike, so
that the small ones may have many sweeps.

The first stage, which is the cheapest and where topics that share their words may form, is begun several times; the
start with the largest log p(words, assignments) goes on.

From ``PARALLEL`` cells of the table of counts to a block of tokens on, documents are swept in blocks side by side, each
against the counts of all others as they were a quarter of a sweep ago: approximate, and good enough for a start. Blocks
do not depend on the number of threads, and whole numbers are added up, so the bits do not either.

An initial value like any other: the samplers that go on from it forget it.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from scipy.special import gammaln

from scirocco.core.compiled import over_blocks
from scirocco.core.seeds import Purpose, stream_key
from scirocco.counts.estimators import Kept
from scirocco.models.lda import dense, local

FIRST = 0.01  # of the documents, but FEWEST at the least
FEWEST = 50
ASIDE = 300  # documents put aside, but at most a twentieth
CHECKS = 2  # sweeps from look to look at the documents put aside
SMALL = 0.05  # of the gain by the last doubling: a gain from look to look that is not worth more sweeps
MOST, LEAST = 30, 4  # sweeps of a stage
STARTS = 6  # of the first stage, as far as a quarter of the work allows
BLOCKS, QUARTERS = 8, 4
PARALLEL = 4  # tokens of a block for each cell of the table that must be copied for it
ROUNDS = 5  # of the fixed point of the weights of a document put aside


class Doubling:
    """The search of one chain, on the ``kept`` assignments of documents in random order.

    ``starts`` says where the tokens of each document begin; ``alpha`` is padded as the table of counts is; ``passes``
    is the work that the search may cost, in sweeps over all documents.
    """

    def __init__(
        self, kept: Kept, starts: np.ndarray, alpha: np.ndarray, beta: np.ndarray, *, seed: int, chain: int,
        passes: float, threads: int | None,
    ) -> None:  # fmt: skip
        self.kept, self.starts, self.threads, self.passes = kept, starts, threads, passes
        self.alpha, self.beta, self.beta_sum = alpha, beta.astype(np.float32), np.float32(beta.sum())
        self.key = stream_key(seed, Purpose.SEARCH_SWEEPS, chain)
        self.size = starts.size - 1
        self.aside = min(ASIDE, self.size // 20)
        self.goal = min(self.size, max(FEWEST, int(FIRST * self.size)))
        self.have = self.calls = self.quarter = self.sweeps = 0
        self.work = 0.0  # in sweeps over all documents
        self.scores: list[float] = []  # of this stage
        self.best, self.gain = -np.inf, 0.0  # score of the stage before; what the doubling since brought
        self.starts_made, self.likely = 0, -np.inf  # of the first stage; the best log likelihood so far
        self.chosen = np.empty(0, kept.labels.dtype)  # and its labels
        self._aside = _Aside(kept.codes, starts, self.size - self.aside) if self.aside else None
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

    def pack(self) -> dict[str, np.ndarray]:
        """The place in the search; assignments are packed by whoever owns them."""
        place = [self.have, self.goal, self.calls, self.quarter, self.sweeps, self.work, self.passes]
        more = [self.best, self.gain, self.starts_made, self.likely]
        return {"place": np.array([*place, *more]), "scores": np.array(self.scores), "chosen": self.chosen}

    def unpack(self, arrays: dict[str, np.ndarray]) -> None:
        """The inverse of ``pack``."""
        *numbers, self.work, self.passes, self.best, self.gain, made, self.likely = map(float, arrays["place"])
        self.starts_made, self.chosen = int(made), arrays["chosen"].copy()
        self.have, self.goal, self.calls, self.quarter, self.sweeps = map(int, numbers)
        self.scores = arrays["scores"].tolist()

    def _enough(self) -> bool:
        """Whether the stage is over."""
        most = np.clip(self.passes / np.log2(1 / FIRST) * self.size / self.goal, LEAST, MOST)
        if self.sweeps >= most or self._aside is None or self.sweeps % CHECKS:
            return bool(self.sweeps >= most)
        self.scores.append(self._aside.score(self.kept, self.alpha, self.beta, self.beta_sum))
        if len(self.scores) == 1:
            self.gain = self.scores[0] - self.best if np.isfinite(self.best) else 0.0
            return False
        return self.sweeps >= LEAST and self.scores[-1] - self.scores[-2] < SMALL * self.gain

    def _grow(self) -> None:
        """The next stage; the first is begun again, or goes on from its best start."""
        if self.starts_made < STARTS:
            self._compare()
            if self.starts_made < STARTS and self.work < self.passes / 4:
                self.have = self.sweeps = 0
                self.scores = []
                self.kept.table[:], self.kept.totals[:] = 0, 0
                return
            self.starts_made = STARTS
            self._take_best()
        self.best = max(self.scores, default=-np.inf)
        wanted = 2 * self.goal
        self.goal = self.size if wanted > self.size - self.aside else wanted

    def _take_best(self) -> None:
        """The documents of the first stage have the labels of its best start."""
        self.kept.labels[: self.chosen.size] = self.chosen
        self.kept.table[:], self.kept.totals[:] = 0, 0
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
        """Sweep documents ``begin`` to ``end``: at once, or in blocks side by side against frozen counts."""
        kept, tokens = self.kept, int(self.starts[end] - self.starts[begin])
        blocks = int(np.clip(tokens // (PARALLEL * kept.table.size), 1, BLOCKS))
        self.calls += 1
        call, common = self.calls, (self.alpha, self.beta, self.beta_sum, kept.rows, fresh)
        self.work += tokens / max(1, int(self.starts[-1]))

        def run(block: int, low: int, high: int, table: np.ndarray, totals: np.ndarray) -> None:
            dense.sweep_collapsed(
                self.key, call, block, low, high, self.starts, kept.codes, kept.labels, table, totals, *common
            )  # fmt: skip

        if blocks == 1:
            run(0, begin, end, kept.table, kept.totals)
            return
        wanted = np.linspace(self.starts[begin], self.starts[end], blocks + 1)
        borders = np.searchsorted(self.starts, wanted)
        borders[0], borders[-1] = begin, end
        table, totals = kept.table * np.int32(1 - blocks), kept.totals * (1 - blocks)
        lock = threading.Lock()

        def work(first: int, last: int) -> None:
            for block in range(first, last):
                own, sums = kept.table.copy(), kept.totals.copy()
                run(block, int(borders[block]), int(borders[block + 1]), own, sums)
                with lock:
                    np.add(table, own, out=table)
                    np.add(totals, sums, out=totals)

        over_blocks(work, blocks, self.threads)
        kept.table[:], kept.totals[:] = table, totals


def joint_likelihood(kept: Kept, starts: np.ndarray, alpha: np.ndarray, beta: np.ndarray) -> float:
    """log p(words, assignments) of the first documents, up to what does not depend on the assignments."""
    near = np.zeros((starts.size - 1, kept.rows))
    owner = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    np.add.at(near, (owner, kept.labels[: starts[-1]].astype(np.int64)), 1)
    used = np.flatnonzero(kept.used.any(axis=1))
    words = gammaln(kept.used[used] + beta[used, None]) - gammaln(beta[used, None].astype(np.float64))
    totals = gammaln(kept.totals + float(beta.sum(dtype=np.float64)))
    return float(gammaln(near + alpha).sum() + words.sum() - totals.sum())


class _Aside:
    """Documents that were put aside, the last ones, each split into tokens that are seen and others to be predicted."""

    def __init__(self, codes: np.ndarray, starts: np.ndarray, first: int) -> None:
        self.size = starts.size - 1 - first
        self.columns, places = np.unique(codes[starts[first] :], return_inverse=True)
        owner = np.repeat(np.arange(self.size), np.diff(starts[first:]))
        seen = (np.arange(len(owner)) + starts[first] - starts[first:][owner]) % 2 == 0
        self.starts = np.concatenate([[0], np.cumsum(np.bincount(owner[seen], minlength=self.size))])
        self.seen, self.ones = places[seen].astype(np.int32), np.ones(int(seen.sum()), np.int32)
        self.hidden, self.owner = places[~seen], owner[~seen]

    def score(self, kept: Kept, alpha: np.ndarray, beta: np.ndarray, beta_sum: Any) -> float:
        """The mean logarithm of the probability of the hidden tokens, given those that are seen."""
        if not self.hidden.size:
            return 0.0
        phi = (kept.used[self.columns] + beta[self.columns, None]) / (kept.totals + beta_sum).astype(np.float32)
        weights, none = np.empty((self.size, kept.rows), np.float32), np.empty((0, 0), np.float32)
        local.expected_counts(
            0, self.size, self.starts, self.seen, self.ones, phi, alpha[: kept.rows], ROUNDS, none, weights
        )
        weights /= weights.sum(axis=1, keepdims=True)
        return float(np.mean(np.log(np.einsum("ik,ik->i", weights[self.owner], phi[self.hidden]))))
