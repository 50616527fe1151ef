"""Good topics quickly: stochastic expectation maximisation over minibatches, with expected assignments.

    counts <- (1 - rate) counts + rate (D/n) sum_{d in minibatch} E[n_d],    rate = (10 + step)^-0.7

A step costs what its minibatch does, whatever the vocabulary. It is over when the passes that were allowed are made, or
when a quarter more steps improve the prediction of documents put aside by less than a hundredth of what all steps did:
expected assignments are not the posterior's, and on short documents more of them makes topics worse again.
"""

from __future__ import annotations

import itertools

import numpy as np

from scirocco.core.compiled import over_blocks
from scirocco.core.seeds import Purpose, generator
from scirocco.corpora.documents import Documents
from scirocco.counts.estimators import RunningCounts
from scirocco.counts.packing import Arrays, packed, unpack_into
from scirocco.models.lda.held_out import HeldOut
from scirocco.models.lda.kernels import sweeps_stream
from scirocco.models.lda.time_limited import TimeLimited

# A minibatch. Of 1,500 to 300,000 tokens, on corpora with documents of 60 to 1,600 tokens and 10 to 200 topics, those
# of 6,000 to 24,000 were best or nearly so at all times: fewer mislead, more are slow.
TOKENS = 12_000
ROUNDS = 10  # of the fixed point of a document's weights
MOST_PRIOR = 0.1  # of a document's tokens, on average: a prior that weighs more would hide its topics
OFFSET, KAPPA = 10.0, 0.7  # of the rate
PIECES = 4  # of a minibatch, shared out to threads
LOOKS = 8  # at documents put aside, before it may end
FIRST_LOOK, SPACING = 10, 1.25  # steps
SMALL = 0.01  # of the gain by all steps: a gain from look to look that is not worth more
NUMBERS = ("steps", "work", "passes")  # that change


class StochasticEM(TimeLimited):
    """The search for good topics, until ``passes`` passes over ``size`` documents are made or ``aside`` says enough."""

    def __init__(
        self, tokens: int, size: int, alpha: np.ndarray, beta: np.ndarray, *, seed: int, chain: int, passes: float,
        threads: int | None, aside: HeldOut | None,
    ) -> None:  # fmt: skip
        self.size, self.threads, self.passes = size, threads, passes
        self.alpha, self.beta = alpha.astype(np.float32), beta
        prior = MOST_PRIOR * tokens / max(1, size) / alpha.sum()
        self._near_alpha = (alpha * min(1.0, prior)).astype(np.float32)
        rng = generator(seed, Purpose.SEARCH_START, chain)
        level = tokens / max(1, beta.size * alpha.size)
        start = rng.gamma(100.0, 0.01, (beta.size, alpha.size)) * level
        self.counts = RunningCounts(start.astype(np.float32))
        self._lookup = np.full(beta.size, -1)
        self.steps, self.work = 0, 0.0
        self.aside, self.scores = aside, np.zeros(0)

    @property
    def done(self) -> bool:
        """Whether the passes that were allowed are made, or more are not worth it."""
        scores = self.scores
        enough = scores.size > LOOKS and scores[-1] - scores[-2] < SMALL * (scores[-1] - scores[0])
        return self.work >= self.passes or bool(enough)

    def parameter(self, columns: np.ndarray | None = None) -> np.ndarray:
        """The Dirichlet parameter of the topics, words x topics."""
        beta = self.beta if columns is None else self.beta[columns]
        return np.asarray(self.counts.read(columns) + beta[:, None].astype(np.float32))

    def phi(self, columns: np.ndarray | None = None) -> np.ndarray:
        """The topics, words x topics."""
        return np.asarray(self.parameter(columns) / (self.counts.totals + self.beta.sum()), np.float32)

    def step(self, batch: Documents) -> None:
        """Move the counts towards those that a minibatch suggests; a large one is worked through in parts."""
        parts = min(batch.size, max(1, round(batch.tokens / TOKENS)))
        borders = np.linspace(0, batch.size, parts + 1).astype(int)
        for low, high in itertools.pairwise(borders):
            self._move(batch if parts == 1 else batch.take(slice(low, high)))

    def stop(self) -> None:
        """Do with what there is."""
        self.passes = min(self.passes, self.work)

    def pack(self) -> Arrays:
        """Everything, as arrays."""
        return self.counts.pack() | packed(self, NUMBERS) | {"scores": self.scores}

    def unpack(self, arrays: Arrays) -> None:
        """The inverse of ``pack``."""
        self.counts = RunningCounts.over(arrays)
        unpack_into(self, NUMBERS, arrays)
        self.scores = arrays["scores"]

    def _move(self, batch: Documents) -> None:
        columns, places = sweeps_stream.touched(batch.words, self._lookup)
        phi, empty = self.phi(columns), np.empty((0, 0), np.float32)
        # Always the same pieces, so that the sums do not depend on the number of threads.
        borders = np.linspace(0, batch.size, PIECES + 1).astype(int)
        tables = np.zeros((PIECES, len(columns), self.alpha.size), np.float32)

        def work(first: int, last: int) -> None:
            for piece in range(first, last):
                sweeps_stream.expected_counts(
                    borders[piece], borders[piece + 1], batch.starts, places, batch.numbers, phi, self._near_alpha,
                    ROUNDS, tables[piece], empty,
                )  # fmt: skip

        over_blocks(work, PIECES, self.threads)
        self.counts.add(columns, tables.sum(axis=0) * (self.size / max(1, batch.size)), (OFFSET + self.steps) ** -KAPPA)
        self.steps += 1
        self.work += batch.size / max(1, self.size)
        if self.aside is not None and self.steps >= FIRST_LOOK * SPACING**self.scores.size:
            self.scores = np.append(self.scores, self.aside.score(self.phi(self.aside.columns), self.alpha))
