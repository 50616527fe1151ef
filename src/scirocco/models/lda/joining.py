"""A fitted topic model that goes on: new documents, new words, and streams of minibatches."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from scirocco.core.checks import positive_array, require_count
from scirocco.core.seeds import Purpose, generator
from scirocco.corpora.documents import Documents
from scirocco.counts.minibatches import Minibatch
from scirocco.models.fit_location import FitLocation
from scirocco.models.inputs import refuse_text
from scirocco.models.lda.agreement import Agreement
from scirocco.models.lda.choosing import IN_MEMORY, NATURAL, stream_sampler
from scirocco.models.lda.engine import TOPICS
from scirocco.models.lda.fitting import STREAM_BATCH, fit_topics, named_topics
from scirocco.models.lda.growing import Assignments, grown_topics, widened
from scirocco.models.lda.stream import StreamChain
from scirocco.run.second_half import SecondHalf
from scirocco.simplex import SCIR, SCIRCV, SGRLD

RECORD_STEPS = 10  # calls of partial_fit from record to record
QUICK = 10**6  # weights, so few that a record at each call costs little


class Growing:
    """What ``LDA`` does after ``fit``, or in place of it."""

    # Of the estimator.
    n_topics: int
    sampler: Any
    estimator: Any
    batch_size: int | None
    n_chains: int
    n_draws: int
    sweeps: int
    skip_sweeps: int
    learn_alpha: bool
    learn_beta: bool
    total_documents: int | None
    random_state: Any
    _n_features_out: int
    sampler_: str
    beta_: np.ndarray

    components_: np.ndarray
    posterior_: Any
    word_counts_: np.ndarray
    agreement_: Agreement
    n_features_in_: int
    documents_seen_: int
    _assigned: Assignments | None
    _stream: StreamChain | None
    _recorder: SecondHalf
    _words: np.ndarray

    if TYPE_CHECKING:  # what the estimator has

        @property
        def _threads(self) -> int: ...
        def _documents(self, X: Any, *, reset: bool) -> Documents: ...
        def _settings(self, vocabulary: int) -> tuple[np.ndarray, np.ndarray]: ...
        def _names(self, vocabulary: Any) -> Any: ...
        def _draws(self, most: int, *, one_order: bool = False) -> np.ndarray: ...

    def update(
        self, X: Any, *, vocabulary: Any = None, max_iter: int = 20, max_seconds: float | None = None
    ) -> Self:  # fmt: skip
        """Add documents to a fitted model; its topics keep their numbers, and ``moved_`` says how far each moved.

        ``vocabulary`` names the columns of ``X`` if the model knows its words by name: they may come in any order, and
        new words join with their prior. Without names the columns are those of the model, and further ones are new.
        Where assignments are kept ("gibbs", "collapsed"), the new documents are assigned given the old, and all chains
        go on over all documents for ``max_iter`` passes or ``max_seconds``. Otherwise they are a stream's next
        minibatches.
        """
        check_is_fitted(self)
        require_count("max_iter", max_iter)
        if max_seconds is not None:
            positive_array("max_seconds", max_seconds)
        if len(self.components_) != self.n_topics:
            raise ValueError(f"n_topics is {self.n_topics}, but the model was fitted with {len(self.components_)}")
        refuse_text(X)
        kept = getattr(self, "_assigned", None)
        if kept is None and self.sampler_ in IN_MEMORY:
            raise ValueError("the fit stopped before every document had its topics: fit again, with more time")
        before = self.__dict__.copy()
        try:
            return self._update(X, vocabulary, kept, max_iter, max_seconds)
        except BaseException:
            self.__dict__ = before  # as it was
            raise

    def _update(
        self, X: Any, vocabulary: Any, kept: Assignments | None, max_iter: int, max_seconds: float | None
    ) -> Self:  # fmt: skip
        began = time.perf_counter()
        matrix, names, new = widened(X, vocabulary, self._names(None), self.components_.shape[1])
        documents = Documents.of(matrix)
        before = grown_topics(self.components_, new, self._settings(documents.width)[1], self._per_topic)
        if kept is None:
            self._require_stream()
            self._require_growth(new)
            size = self.batch_size or STREAM_BATCH
            self._grow(names, new)
            for first in range(0, documents.size, size):
                self._follow(documents.take(slice(first, first + size)))
        else:
            alpha, beta = self._settings(documents.width)
            beta = np.full(beta.size, self.beta_[0]) if self.learn_beta else beta
            assigned = kept.in_order()
            whole = assigned.joined(documents)
            self._name(names, documents.width)
            self.word_counts_ = whole.word_counts()
            fit_topics(
                self, whole, self.sampler_, alpha, beta, FitLocation(), passes=max_iter, seconds=max_seconds,
                assigned=assigned, seed=self._next_seed(),
            )  # fmt: skip
            self.documents_seen_ = whole.size
            self._stream = None
        self.moved_ = np.abs(self.components_ - before).sum(axis=1) / 2
        self.seconds_ = time.perf_counter() - began
        return self

    def _next_seed(self) -> int:
        """Another one each time that the model goes on: the numbers of a fit must not come again."""
        self.updates_ = getattr(self, "updates_", 0) + 1
        rng = generator(FitLocation().seed(self.random_state), Purpose.MODEL_UPDATE, self.updates_)
        return int(rng.integers(2**31))

    def _require_growth(self, new: int) -> None:
        """Reject new words where a stream cannot have them, before anything is changed."""
        named = isinstance(self.sampler, str) and self.sampler in ("auto", "scir", "sgrld")
        if new and not (named or isinstance(self.sampler, SCIR | SGRLD)):
            raise ValueError(f"new words need SCIR or SGRLD, whose weights have no memory; got {self.sampler!r}")

    @property
    def _per_topic(self) -> float:
        """Tokens of a topic, on average."""
        return float(self.word_counts_.sum() / self.n_topics)

    def _name(self, names: Any, width: int) -> None:
        """Words and how many there are."""
        self.n_features_in_ = width
        if names is not None:
            known = "vocabulary_" if hasattr(self, "vocabulary_") else "feature_names_in_"
            setattr(self, known, np.asarray(names, dtype=object))

    def _grow(self, names: Any, new: int) -> None:
        """Make room for new words, at their prior, in all that the model has."""
        self._name(names, self.n_features_in_ + new)
        if not new:
            return
        _, beta = self._settings(self.n_features_in_)

        def widen(topics: np.ndarray) -> np.ndarray:
            return grown_topics(topics, new, beta, self._per_topic)

        self.components_ = widen(self.components_)
        self.posterior_ = named_topics(widen(self.posterior_[TOPICS].values), self)
        self.beta_, self.inflation_ = beta, None
        stream = getattr(self, "_stream", None)
        if stream is not None:
            stream.grow(beta[-new:])
            self._words = np.concatenate([self._words, np.zeros(new)])
            self._recorder.change(TOPICS, widen)
        self.word_counts_ = np.concatenate([self.word_counts_, np.zeros(new)])

    def partial_fit(self, X: Any, y: Any = None, *, vocabulary: Any = None) -> Self:
        """One minibatch of a stream. The topics follow a stochastic gradient sampler, by default SCIR.

        After ``fit`` or ``load`` the stream goes on from the topics that were found, and its draws join theirs, which
        are forgotten as it grows. With very many words and topics ``components_`` and ``posterior_`` are brought up to
        date at every tenth call only. ``vocabulary`` names the columns of ``X`` as in ``update``: new words join.
        """
        del y
        fitted = hasattr(self, "components_")
        if vocabulary is not None and fitted:
            refuse_text(X)
            matrix, names, new = widened(X, vocabulary, self._names(None), self.components_.shape[1])
            self._require_stream()
            self._require_growth(new)
            self._grow(names, new)
            return self._follow(Documents.of(matrix))
        documents = self._documents(X, reset=not fitted)
        if vocabulary is not None:
            if len(set(map(str, vocabulary))) < documents.width or len(vocabulary) != documents.width:
                raise ValueError(f"vocabulary must name the {documents.width} columns of X, each once")
            self.vocabulary_ = np.asarray(vocabulary, dtype=object)
        return self._follow(documents)

    def _follow(self, documents: Documents) -> Self:
        """One minibatch."""
        fresh = getattr(self, "_stream", None) is None
        alpha, beta = self._settings(documents.width)
        self._require_stream()
        if fresh:
            self._begin_stream(documents.width, alpha, beta)
        self._assigned = None  # of documents that are no longer all
        self.__dict__.pop("trace_", None)
        stream = self._stream
        assert stream is not None
        same = np.array_equal(stream.alpha, alpha.astype(np.float32))
        if not same or not np.array_equal(stream.weights.prior[:, 0], beta):
            raise ValueError("n_topics, alpha and beta cannot change within a stream: make a new model, or call fit")
        total = self.total_documents or self.documents_seen_ + documents.size
        if total < documents.size:
            raise ValueError(f"total_documents is {total}, but this minibatch alone has {documents.size}")
        self.documents_seen_ += documents.size
        self._words += documents.word_counts()
        stream.step(Minibatch.of(documents, total))
        if stream.steps == 1 or stream.steps % RECORD_STEPS == 0 or stream.weights.theta.size <= QUICK:
            half, topics = self._recorder, stream.draw()
            half.add({TOPICS: topics}, {TOPICS: topics} if half.due else None)
            self.posterior_ = named_topics(half.draws()[TOPICS], self)
            mean = half.mean()[TOPICS]
            self.components_ = mean / mean.sum(axis=1, keepdims=True)
            self.agreement_ = Agreement.of([self.components_], self.posterior_[TOPICS].values)
        self.word_counts_ = self._words.copy()
        self.n_iter_ = self.documents_seen_ / total
        return self

    def _require_stream(self) -> None:
        """Reject what a stream cannot have."""
        if self.estimator != "plain" or (isinstance(self.sampler, str) and self.sampler in NATURAL):
            raise ValueError(
                "partial_fit neither searches for a start nor reads anything twice: give a sampler with its step size, "
                "such as sc.SGLD(1e-5), and estimator='plain'"
            )
        if isinstance(self.sampler, SCIRCV) and self.sampler.recentre_every is None:
            raise ValueError("partial_fit cannot count everything for a centre: give SCIRCV recentre_every=")
        if isinstance(self.sampler, str) and self.sampler in IN_MEMORY:
            raise ValueError(f"sampler={self.sampler!r} keeps all documents: call fit, or take 'scir' for a stream")
        if self.learn_alpha or self.learn_beta or self.n_chains > 1:
            raise ValueError("partial_fit runs one chain with fixed priors: leave n_chains, learn_alpha, learn_beta")

    def _begin_stream(self, words: int, alpha: np.ndarray, beta: np.ndarray) -> None:
        known = hasattr(self, "components_")
        seed = self._next_seed() if known else FitLocation().seed(self.random_state)
        self._stream = StreamChain(
            stream_sampler(self.sampler, warm=known), words, alpha, beta, seed=seed, chain=0,
            sweeps=self.sweeps, skip_sweeps=self.skip_sweeps, threads=self._threads,
        )  # fmt: skip
        self._recorder = SecondHalf(self.n_draws)
        if not known:
            self.documents_seen_, self._words = 0, np.zeros(words)
        elif self.components_.shape == (self.n_topics, words):
            self._words = self.word_counts_.copy()
            self._stream.begin_at(self.components_.T * self._per_topic + beta[:, None])
            for draw in self._draws(self.n_draws, one_order=True):  # what is known so far is not thrown away
                self._recorder.add({TOPICS: draw}, {TOPICS: draw} if self._recorder.due else None)
        else:
            raise ValueError(f"n_topics is {self.n_topics}, but the model was fitted with {len(self.components_)}")
        self.alpha_, self.beta_, self.inflation_ = alpha, beta, None  # one minibatch does not tell
        named = "scir" if isinstance(self.sampler, str) and self.sampler == "auto" else self.sampler
        self.sampler_ = named if isinstance(named, str) else type(named).__name__
        self._n_features_out = self.n_topics
