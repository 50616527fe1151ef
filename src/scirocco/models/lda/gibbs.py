"""Chains in memory: every token's assignment is kept.

``KeptGibbs``: topics given all assignments, then the assignments of a minibatch of documents given the topics,

    phi_k ~ Dirichlet(beta + n_k),        z_di ~ (n_dk + alpha_k) phi_kw

which is a Gibbs scan: exact, however small the minibatch, and parallel over its documents. Topics are drawn only for
the words of the minibatch: the others enter through their total, a single gamma number by additivity.

``CollapsedGibbs`` integrates the topics out (Griffiths and Steyvers 2004), within groups of words where there are
tokens enough to share out (``cells``): better mixing a sweep, on a few threads.

Both start from a search (``start.race``), which is an initial value like any other: what follows forgets it.
Documents are kept in a random order, so that a part of them is a random part.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scirocco.core.seeds import Purpose, generator, stream_key
from scirocco.corpora.documents import Documents
from scirocco.counts.chains import PassChain
from scirocco.counts.estimators import KeptCounts
from scirocco.counts.packing import Arrays
from scirocco.models.lda.cells import Cells
from scirocco.models.lda.collapsed import are_many, sweep_collapsed
from scirocco.models.lda.given import CountedTopics, padded_alpha, sweep_given
from scirocco.models.lda.kernels.vector_draw import padded
from scirocco.models.lda.priors import alpha_sums, learnt_alpha, learnt_beta
from scirocco.models.lda.start.race import Race
from scirocco.simplex.exact import draw_gammas

BATCHES = 20  # minibatches in a sweep, unless topics are costly to draw beside so few tokens
RECORD_COST = 6.0  # tenfold the time that a record takes for a cell of the table, over that of a sweep for a token


class KeptGibbs(PassChain, CountedTopics):
    """Exact minibatch Gibbs with kept assignments."""

    search: Race

    def __init__(
        self, documents: Documents, alpha: np.ndarray, beta: np.ndarray, *, seed: int, chain: int, search_passes: float,
        batch_size: int | None, threads: int | None, learn: tuple[str, ...] = (), passes: float = 1.0,
        records: int = 1, assigned: np.ndarray | None = None, groups: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.threads, self.learn = threads, learn
        self.alpha, self.beta = alpha.astype(np.float32), beta
        self.topics, self.width, self.tokens = alpha.size, documents.width, documents.tokens
        self.key = stream_key(seed, Purpose.KEPT_SWEEPS, chain)
        self.order = np.arange(documents.size)
        if assigned is None:
            self.order = generator(seed, Purpose.SEARCH_ORDER, chain).permutation(documents.size)
        shuffled = documents.take(self.order)
        self.token_starts = shuffled.token_starts
        # Every token's word, its topic, and the counts of words x topics.
        self.kept = KeptCounts(
            shuffled.token_words(), rows=self.topics, categories=self.width, width=padded(self.topics)
        )
        self.cells = Cells(
            self.kept.codes, self.token_starts, self.width, 1 if are_many(self.topics) else groups
        )  # fmt: skip
        self.search = Race(
            shuffled, self.kept, self.cells, padded_alpha(self.alpha), beta, seed=seed, chain=chain,
            passes=search_passes, threads=threads,
        )  # fmt: skip
        if assigned is not None:  # the first documents have topics: only the others need a start
            self.kept.labels[: assigned.size] = assigned
            self.kept.add(0, assigned.size)
            self.search.begin_after(int(np.searchsorted(self.token_starts, assigned.size, side="right")) - 1)
        self.phi = np.zeros(self.kept.table.shape, np.float32)
        if batch_size is None:
            pieces = int(np.clip(self.tokens // max(1, self.width * self.topics), 1, BATCHES))
        else:
            pieces = max(1, round(documents.size / batch_size))
        # Borders at equal shares of the tokens, not of the documents, which may differ a lot.
        wanted = np.linspace(0, self.tokens, pieces + 1)
        self.borders = np.unique(np.searchsorted(self.token_starts, wanted))
        self.borders[0], self.borders[-1] = 0, documents.size
        # Passes whose time is ten times that of a record, which goes through all words and topics.
        self._record_cost = RECORD_COST * self.kept.used.size / max(1, self.tokens)
        self._allowed, self._records = passes, records
        self._columns: dict[int, np.ndarray] = {}

    @property
    def counts(self) -> np.ndarray:
        """Of all assignments, words x topics."""
        return self.kept.used

    @property
    def totals(self) -> np.ndarray:
        """Sums of the counts by topic."""
        return self.kept.totals

    @property
    def record_every(self) -> float:
        """Passes from record to record: each may take a tenth of the time, but as many are made as are wanted.

        Without a number of passes, that many are wanted of those made so far, however many that will be; with many
        topics a record may take longer than a pass, and gets half of the time at the most.
        """
        limited = np.isfinite(self._allowed)
        wanted = (self._allowed if limited else self.sampled) / self._records
        if not limited and are_many(self.topics):
            wanted = max(wanted, self._record_cost / 10)
        return max(1.0, min(self._record_cost, wanted))

    def share(self, begin: int, end: int) -> float:
        """By tokens."""
        return float((self.token_starts[end] - self.token_starts[begin]) / max(1, self.tokens))

    def end_pass(self) -> None:
        """Learn the priors, if that is wanted."""
        if "alpha" in self.learn:
            alpha = self.alpha.astype(np.float64)
            sums = alpha_sums(alpha, self.token_starts, self.kept.labels)
            self.alpha = learnt_alpha(alpha, *sums).astype(np.float32)
        if "beta" in self.learn:
            self.beta = learnt_beta(self.beta, self.kept.used)

    def pack_assignments(self) -> Arrays:
        """Assignments and priors."""
        return {"z": self.kept.labels, "alpha": self.alpha, "beta": self.beta}

    def unpack_assignments(self, arrays: Mapping[str, np.ndarray]) -> None:
        """The inverse of ``pack_assignments``; the search counts them."""
        self.kept.labels[:], self.alpha, self.beta = (arrays[name] for name in ("z", "alpha", "beta"))

    def sweep(self, begin: int, end: int) -> None:
        """New topics, then new assignments of documents ``begin`` to ``end``."""
        self._draw_topics(self.position)
        sweep_given(
            self.key, self.next_call, begin, end, self.token_starts, self.kept, self.phi, self.alpha, self.threads
        )  # fmt: skip

    def _draw_topics(self, piece: int) -> None:
        """phi for the words of a minibatch, given all assignments; the other words through their totals."""
        if piece not in self._columns:
            low, high = self.token_starts[self.borders[piece]], self.token_starts[self.borders[piece + 1]]
            self._columns[piece] = np.unique(self.kept.codes[low:high])
        columns = self._columns[piece]
        parameter = self.kept.used[columns] + self.prior[columns]
        theta = draw_gammas(self.key, self.next_call(), parameter, self.threads)
        beyond = self.kept.totals + self.prior.sum(axis=0) - parameter.sum(axis=0)
        rest = draw_gammas(self.key, self.next_call(), np.maximum(beyond, 0.0), self.threads)
        self.phi[columns, : self.topics] = theta / (theta.sum(axis=0) + rest)

    def found(self) -> np.ndarray:
        """What the search has found so far, or the expectation of ``draw``."""
        return self.search.topics() if self.searching else self.mean().astype(np.float32)

    def assignments(self) -> Arrays:
        """The topics of all tokens, once every document has some."""
        return {} if self.searching else {"order": self.order, "topics": self.kept.labels}


class CollapsedGibbs(KeptGibbs):
    """Collapsed Gibbs, the exact reference of the literature."""

    def sweep(self, begin: int, end: int) -> None:
        """New assignments, the topics integrated out."""
        sweep_collapsed(
            self.key,
            self.next_call,
            begin,
            end,
            self.cells,
            self.kept,
            padded_alpha(self.alpha),
            self.beta,
            self.threads,
        )
