"""Good topics quickly: stochastic expectation maximisation over minibatches, with expected assignments.

    counts <- (1 - rate) counts + rate (D/n) sum_{d in minibatch} E[n_d],    rate = (10 + step)^-0.7

An initial value like any other: the samplers that start from it forget it. A step costs what its minibatch does,
whatever the vocabulary.
"""

from __future__ import annotations

import numpy as np

from scirocco.core.compiled import over_blocks
from scirocco.core.seeds import Purpose, generator
from scirocco.corpora.documents import Documents
from scirocco.counts.estimators import RunningCounts
from scirocco.models.lda import local

# On 150,000 documents of Wikipedia 5 rounds on minibatches of 500 ended at a perplexity of 1,619 after ten seconds, 10
# rounds on 200 at 1,565; 20 rounds were worse again.
WARM_BATCH = 200  # documents of a minibatch
ROUNDS = 10  # of the fixed point of a document's weights
OFFSET, KAPPA = 10.0, 0.7  # of the rate
PIECES = 8  # of a minibatch, shared out to threads


class WarmUp:
    """The search for good topics, until ``passes`` passes over ``size`` documents are made."""

    def __init__(
        self, tokens: int, size: int, alpha: np.ndarray, beta: np.ndarray, *, seed: int, chain: int, passes: float,
        threads: int | None,
    ) -> None:  # fmt: skip
        self.size, self.threads, self.passes = size, threads, passes
        self.alpha, self.beta = alpha.astype(np.float32), beta
        rng = generator(seed, Purpose.SEARCH_START, chain)
        level = tokens / max(1, beta.size * alpha.size)
        start = rng.gamma(100.0, 0.01, (beta.size, alpha.size)) * level
        self.counts = RunningCounts(start.astype(np.float32))
        self._lookup = np.full(beta.size, -1)
        self.steps, self.work = 0, 0.0

    @property
    def done(self) -> bool:
        """Whether the passes that were wanted are made."""
        return self.work >= self.passes

    def parameter(self, columns: np.ndarray | None = None) -> np.ndarray:
        """The Dirichlet parameter of the topics, words x topics."""
        beta = self.beta if columns is None else self.beta[columns]
        return np.asarray(self.counts.read(columns) + beta[:, None].astype(np.float32))

    def phi(self, columns: np.ndarray | None = None) -> np.ndarray:
        """The topics, words x topics."""
        return np.asarray(self.parameter(columns) / (self.counts.totals + self.beta.sum()), np.float32)

    def step(self, batch: Documents) -> None:
        """Move the counts towards those that a minibatch suggests; a large one is worked through in parts."""
        for first in range(0, batch.size, WARM_BATCH):
            self._move(batch if batch.size <= WARM_BATCH else batch.take(slice(first, first + WARM_BATCH)))

    def stop(self) -> None:
        """Do with what there is."""
        self.passes = min(self.passes, self.work)

    def pack(self) -> dict[str, np.ndarray]:
        """Everything, as arrays."""
        return self.counts.pack() | {"facts": np.array([self.steps, self.work, self.passes])}

    def unpack(self, arrays: dict[str, np.ndarray]) -> None:
        """The inverse of ``pack``."""
        self.counts = RunningCounts.over(arrays)
        steps, self.work, self.passes = map(float, arrays["facts"])
        self.steps = int(steps)

    def _move(self, batch: Documents) -> None:
        columns, places = local.touched(batch.words, self._lookup)
        phi, empty = self.phi(columns), np.empty((0, 0), np.float32)
        # Always the same pieces, so that the sums do not depend on the number of threads.
        borders = np.linspace(0, batch.size, PIECES + 1).astype(int)
        tables = np.zeros((PIECES, len(columns), self.alpha.size), np.float32)

        def work(first: int, last: int) -> None:
            for piece in range(first, last):
                local.expected_counts(
                    borders[piece], borders[piece + 1], batch.starts, places, batch.numbers, phi, self.alpha, ROUNDS,
                    tables[piece], empty,
                )  # fmt: skip

        over_blocks(work, PIECES, self.threads)
        self.counts.add(columns, tables.sum(axis=0) * (self.size / max(1, batch.size)), (OFFSET + self.steps) ** -KAPPA)
        self.steps += 1
        self.work += batch.size / max(1, self.size)
