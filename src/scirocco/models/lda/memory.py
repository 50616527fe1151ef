"""Chains in memory: every token's assignment is kept.

``KeptGibbs``: topics given all assignments, then the assignments of a minibatch of documents given the topics,

    phi_k ~ Dirichlet(beta + n_k),        z_di ~ (n_dk + alpha_k) phi_kw

which is a Gibbs scan: exact, however small the minibatch, and parallel over its documents. Topics are drawn only for
the words of the minibatch: the others enter through their total, a single gamma number by additivity.

``CollapsedGibbs`` integrates the topics out (Griffiths and Steyvers 2004): better mixing a sweep, one thread.

Both start from topics found by stochastic expectation maximisation over a part of the data, which is an initial value
like any other: what follows forgets it.
"""

from __future__ import annotations

import numpy as np

from scirocco.core.compiled import over_blocks
from scirocco.core.seeds import Purpose, stream_key
from scirocco.corpora.documents import Documents
from scirocco.counts.estimators import Kept
from scirocco.counts.minibatches import InMemory
from scirocco.models.lda import local
from scirocco.models.lda.priors import learnt_alpha, learnt_beta
from scirocco.models.lda.warm_up import WARM_BATCH, WarmUp
from scirocco.run.checkpoint import part
from scirocco.simplex.exact import draw_gammas

BATCHES = 20  # minibatches in a sweep, unless topics are costly to draw beside so few tokens
ASSIGN_ROUNDS = 3  # of the fixed point of a document's weights


class KeptGibbs:
    """Exact minibatch Gibbs with kept assignments."""

    record_every = 1.0  # passes

    def __init__(
        self, documents: Documents, alpha: np.ndarray, beta: np.ndarray, *, seed: int, chain: int, warm_passes: float,
        batch_size: int | None, threads: int | None, learn: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.documents, self.threads, self.learn = documents, threads, learn
        self.alpha, self.beta = alpha.astype(np.float32), beta
        self.topics = alpha.size
        self.key = stream_key(seed, Purpose.KEPT_SWEEPS, chain)
        self.calls = 0
        self.warm = WarmUp(
            documents.tokens, documents.size, alpha, beta, seed=seed, chain=chain, passes=warm_passes, threads=threads
        )
        self.minibatches = InMemory(documents, min(WARM_BATCH, documents.size), seed=seed, chain=chain)
        self.token_starts = np.concatenate([[0], np.cumsum(documents.lengths)])
        # Every token's word, its topic, and the counts of words x topics.
        words = np.repeat(documents.words, documents.numbers)
        self.kept = Kept(words, rows=self.topics, categories=documents.vocabulary)
        self.phi = np.zeros((documents.vocabulary, self.topics), np.float32)
        self.masses = np.zeros(documents.vocabulary, np.float32)
        if batch_size is None:
            tokens = max(1, documents.tokens)
            pieces = int(np.clip(tokens // max(1, documents.vocabulary * self.topics), 1, BATCHES))
        else:
            pieces = max(1, round(documents.size / batch_size))
        # Borders at equal shares of the tokens, not of the documents, which may differ a lot.
        wanted = np.linspace(0, documents.tokens, pieces + 1)
        self.borders = np.unique(np.searchsorted(self.token_starts, wanted))
        self.borders[0], self.borders[-1] = 0, documents.size
        self.position = self.read = 0
        self.passes = 0.0
        self.assigned = False
        self._columns: dict[int, np.ndarray] = {}

    @property
    def sampling(self) -> bool:
        """Whether the chain samples by now: warm-up and first assignment are over."""
        return self.assigned

    def _call(self) -> int:
        self.calls += 1
        return self.calls

    def step(self) -> None:
        """A minibatch: of the warm-up, the first assignment of everything, or a Gibbs step."""
        if not self.warm.done:
            self.warm.step(self.minibatches.at(self.read).data)
            self.read += 1
            self.passes = self.warm.passes
        elif not self.assigned:
            self._assign()
        else:
            self._resample()
            if self.position == 0:
                self._learn_priors()

    def _learn_priors(self) -> None:
        """After a whole pass, if that is wanted."""
        if "alpha" in self.learn:
            found = learnt_alpha(self.alpha.astype(np.float64), self.token_starts, self.kept.labels)
            self.alpha = found.astype(np.float32)
        if "beta" in self.learn:
            self.beta = learnt_beta(self.beta, self.kept.table)

    def _assign(self) -> None:
        """The first assignment of the tokens of one minibatch, from the topics that were found."""
        d, begin, end = self.documents, self.borders[self.position], self.borders[self.position + 1]
        if self.position == 0:
            self.phi = self.warm.phi()
        weights = np.empty((end - begin, self.topics), np.float32)
        starts, empty = d.starts[begin : end + 1], np.empty((0, 0), np.float32)
        over_blocks(
            lambda first, last: local.expected_counts(
                first, last, starts, d.words, d.numbers, self.phi, self.alpha, ASSIGN_ROUNDS, empty, weights
            ),
            end - begin,
            self.threads,
        )
        call, token_starts = self._call(), self.token_starts[begin : end + 1]
        over_blocks(
            lambda first, last: local.assign(
                self.key, call, first, last, starts, token_starts, d.words, d.numbers, self.phi, weights,
                self.kept.labels,
            ),
            -(-(end - begin) // local.DOCUMENTS),
            self.threads,
        )  # fmt: skip
        self.kept.add(token_starts[0], token_starts[-1])
        self.position = (self.position + 1) % (len(self.borders) - 1)
        self.assigned = self.position == 0

    def pack(self) -> dict[str, np.ndarray]:
        """Assignments, priors, the place in the data; what can be counted again is left out."""
        facts = np.array([self.calls, self.position, self.assigned, self.read, self.passes])
        arrays = {"z": self.kept.labels, "facts": facts, "alpha": self.alpha, "beta": self.beta}
        if self.assigned:
            return arrays
        return arrays | {f"warm/{name}": array for name, array in self.warm.pack().items()}

    def unpack(self, arrays: dict[str, np.ndarray]) -> None:
        """The inverse of ``pack``."""
        self.kept.labels[:], self.alpha, self.beta = (arrays[name] for name in ("z", "alpha", "beta"))
        *numbers, self.passes = map(float, arrays["facts"])
        self.calls, self.position, assigned, self.read = map(int, numbers)
        self.assigned = bool(assigned)
        if self.assigned:
            self.warm.stop()
        else:
            self.warm.unpack(part(arrays, "warm"))
            self.phi = self.warm.phi()
        self.kept.add(0, self.token_starts[-1 if self.assigned else self.borders[self.position]])

    def _resample(self) -> None:
        begin, end = self.borders[self.position], self.borders[self.position + 1]
        self._draw_topics(self.position)
        low, high = self.token_starts[begin], self.token_starts[end]
        old, call = self.kept.labels[low:high].copy(), self._call()
        over_blocks(
            lambda first, last: local.sweep_kept(
                self.key, call, first, last, begin, end, self.token_starts, self.kept.codes, self.kept.labels,
                self.phi, self.masses, self.alpha,
            ),
            -(-(end - begin) // local.DOCUMENTS),
            self.threads,
        )  # fmt: skip
        self.kept.moved(low, old)
        self.position = (self.position + 1) % (len(self.borders) - 1)
        self.passes += (high - low) / max(1, self.documents.tokens)

    def _draw_topics(self, piece: int) -> None:
        """phi for the words of a minibatch, given all assignments; the other words through their totals."""
        if piece not in self._columns:
            low, high = self.token_starts[self.borders[piece]], self.token_starts[self.borders[piece + 1]]
            self._columns[piece] = np.unique(self.kept.codes[low:high])
        columns = self._columns[piece]
        parameter = self.kept.table[columns] + self.beta[columns, None]
        theta = draw_gammas(self.key, self._call(), parameter, self.threads)
        beyond = self.kept.totals + self.beta.sum() - parameter.sum(axis=0)
        rest = draw_gammas(self.key, self._call(), np.maximum(beyond, 0.0), self.threads)
        phi = (theta / (theta.sum(axis=0) + rest)).astype(np.float32)
        self.phi[columns], self.masses[columns] = phi, local.word_masses(phi, self.alpha)

    def draw(self) -> np.ndarray:
        """Topics given all assignments, topics x words."""
        if not self.assigned:
            return self.warm.phi().T
        theta = draw_gammas(self.key, self._call(), self.kept.table + self.beta[:, None], self.threads)
        return np.ascontiguousarray((theta / theta.sum(axis=0)).T, dtype=np.float32)

    def inflation(self) -> np.ndarray | None:
        """Exact: minibatches add no noise."""
        if not self.assigned:
            return None
        return np.ones((self.topics, self.documents.vocabulary))

    def mean(self) -> np.ndarray:
        """The expectation of ``draw``: less noise in averages."""
        if not self.assigned:
            return self.warm.phi().T
        parameter = self.kept.table + self.beta[:, None]
        return (parameter / parameter.sum(axis=0)).T


class CollapsedGibbs(KeptGibbs):
    """Collapsed Gibbs, the exact reference of the literature."""

    def _resample(self) -> None:
        begin, end = self.borders[self.position], self.borders[self.position + 1]
        local.collapsed_sweep(
            self.key, self._call(), begin, end, self.token_starts, self.kept.codes, self.kept.labels, self.kept.table,
            self.kept.totals, self.alpha.astype(np.float64), self.beta, float(self.beta.sum()),
        )  # fmt: skip
        low, high = self.token_starts[begin], self.token_starts[end]
        self.position = (self.position + 1) % (len(self.borders) - 1)
        self.passes += (high - low) / max(1, self.documents.tokens)
