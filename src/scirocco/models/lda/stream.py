"""Chains from a stream: topics move by a simplex sampler, assignments are drawn anew for each minibatch and forgotten.

    counts_kw = (D/n) sum_{d in minibatch} E[n_dkw | topics],    estimated by Gibbs sweeps on each document

    theta moves by SCIR, SCIRCV or SGRLD given prior beta + counts;    topics phi_k = theta_k / sum_w theta_kw

Baker et al. (2018, 4.1) and Barile and Nemeth (section 3). The local step uses the normalised topics; words that no
document of the minibatch has wait, so a step costs what its minibatch does, whatever the vocabulary.
"""

from __future__ import annotations

import numpy as np

from scirocco.compiled import over_blocks
from scirocco.corpora.documents import Documents
from scirocco.models.lda import local
from scirocco.random import make_key
from scirocco.simplex import SCIRCV, Counts, SimplexSampler, Weights

PIECES = 16  # of a minibatch, shared out to threads; each counts for itself


class StreamChain:
    """A chain of topics that sees documents in minibatches."""

    def __init__(
        self, sampler: SimplexSampler, vocabulary: int, alpha: np.ndarray, beta: np.ndarray, *, seed: int, chain: int,
        sweeps: int, burn_in: int, threads: int | None,
    ) -> None:  # fmt: skip
        self.sampler, self.alpha, self.threads = sampler, alpha.astype(np.float32), threads
        self.sweeps, self.burn_in = sweeps, burn_in
        # Every topic starts near the mean of the prior, a little different from the others.
        self.key, self._centre_key = make_key(seed, chain, 2), make_key(seed, chain, 8)
        start = np.random.default_rng(np.random.SeedSequence([seed, chain, 3])).gamma(
            100.0, 0.01, (alpha.size, vocabulary)
        )
        self.weights = Weights(
            beta, rows=alpha.size, categories=vocabulary, initial=start, seed=seed, path=(chain, 4), threads=threads
        )
        sampler.start(self.weights)
        self._lookup = np.full(vocabulary, -1)
        self.steps = 0

    def step(self, batch: Documents, total: int, larger: Documents | None = None) -> None:
        """One minibatch out of ``total`` documents; ``larger`` is the batch that a new centre is estimated from."""
        if isinstance(self.sampler, SCIRCV) and (larger is not None or self.weights.centre is None):
            seen = larger if larger is not None else batch
            columns, values = self._counts(self._centre_key, seen, total)
            full = np.zeros((self.alpha.size, self._lookup.size))
            full[:, columns] = values
            self.sampler.recentre(self.weights, full, min(1.0, batch.size / total))
        columns, values = self._counts(self.key, batch, total)
        self.sampler.step(self.weights, Counts(values, columns, min(1.0, batch.size / total)))
        self.steps += 1
        if not np.all(np.isfinite(self.weights.totals)):
            raise FloatingPointError(
                f"a weight is no longer finite after minibatch {self.steps:,}: take a smaller step_size, or SCIR, "
                "whose weights cannot diverge"
            )

    def _counts(self, key: np.ndarray, batch: Documents, total: int) -> tuple[np.ndarray, np.ndarray]:
        """Words of the batch and the estimated counts of the whole corpus, topics x words."""
        columns, places = local.touched(batch.words, self._lookup)
        phi = np.ascontiguousarray(self.weights.read(columns).T, dtype=np.float32)
        table, _ = fresh_assignments(
            key, self.steps, batch, places, phi, self.alpha, self.sweeps, self.burn_in, threads=self.threads
        )
        return columns, table.T * (total / batch.size / (self.sweeps - self.burn_in))

    def draw(self) -> np.ndarray:
        """The topics, topics x words."""
        return self.sampler.recorded(self.weights).astype(np.float32)

    mean = draw


def fresh_assignments(
    key: np.ndarray, step: int, documents: Documents, places: np.ndarray, phi: np.ndarray, alpha: np.ndarray,
    sweeps: int, burn_in: int, *, seeds: np.ndarray | None = None, counted: bool = True, weighed: bool = False,
    threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Summed over the sweeps after the burn-in: counts by word and topic, and by document and topic."""
    masses = local.word_masses(phi, alpha)
    borders = np.linspace(0, documents.size, PIECES + 1).astype(int)
    table = np.zeros((PIECES if counted else 0, *phi.shape), np.int32)
    weights = np.zeros((documents.size if weighed else 0, alpha.size), np.int32)
    seeds = np.arange(documents.size) if seeds is None else seeds
    limit = int(documents.lengths.max(initial=1))
    none = np.empty((0, 0), np.int32)

    def work(first: int, last: int) -> None:
        for piece in range(first, last):
            local.sweep_fresh(
                key, step, borders[piece], borders[piece + 1], seeds, documents.starts, places, documents.numbers, phi,
                masses, alpha, sweeps, burn_in, table[piece] if counted else none, weights, limit,
            )  # fmt: skip

    over_blocks(work, PIECES, threads)
    return table.sum(axis=0) if counted else none, weights
