"""Latent Dirichlet allocation as a scikit-learn estimator.

    phi_k ~ Dirichlet(beta),  eta_d ~ Dirichlet(alpha),  z_di ~ eta_d,  w_di ~ phi_{z_di}

Blei, Ng and Jordan (2003). The posterior of the topics phi is sampled, not approximated: from memory by Gibbs samplers
that are exact, from a stream by the stochastic gradient samplers of the simplex.
"""

from __future__ import annotations

import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from scirocco.checks import positive_array, real_array, require_choice, require_count
from scirocco.compiled import available_threads
from scirocco.corpora.documents import Documents
from scirocco.corpora.store import Corpus
from scirocco.models.lda import evaluation, storage
from scirocco.models.lda.alignment import align
from scirocco.models.lda.choosing import (
    IN_MEMORY,
    NATURAL,
    SAMPLERS,
    fits_in_memory,
    natural_sampler,
    on_simplex,
    stream_sampler,
)
from scirocco.models.lda.estimates import ESTIMATES, Controlled, Remembered
from scirocco.models.lda.memory import CollapsedGibbs, KeptGibbs
from scirocco.models.lda.minibatches import BlockMinibatches, Minibatches
from scirocco.models.lda.recording import Recorder
from scirocco.models.lda.stream import StreamChain, StreamFit
from scirocco.models.lda.warm_up import WarmUp
from scirocco.run.progress import Progress
from scirocco.run.runner import Interrupt
from scirocco.samplers.base import Sampler
from scirocco.simplex import SCIRCV, Exact, SimplexSampler

WARM_TOKENS = 3e7  # after which the search for good topics has little left to find
WARM_SHARE = 0.4  # of a time budget, at most
STREAM_BATCH = 500  # documents
TRANSFORM_DRAWS = 5  # draws of the topics that document weights are averaged over
PROGRESS = 1000  # units of the bar
RECORD_STEPS = 10  # calls of partial_fit from record to record
QUICK = 10**6  # weights, so few that a record at each call costs little
NOISY = 1.5  # sds inflated by more than this are worth a warning


WordInterval = tuple[Any, float, float, float]


class LDA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Latent Dirichlet allocation on counts of words, documents x words.

    Parameters
    ----------
    n_topics : number of topics K.
    alpha : parameter of the documents' Dirichlet prior, a number or one for each topic.
    beta : parameter of the topics' Dirichlet prior, a number or one for each word.
    sampler : "gibbs" keeps every token's topic in memory and is exact from minibatches; "collapsed" is the collapsed
        Gibbs sampler. The others see documents and forget them: "scir", "scir_cv" and "sgrld", or a sampler such as
        ``SCIR(step_size)``; on natural parameters "sgld", "sgld_cv", "sghmc" and "sgnht", or one such as
        ``SGLD(step_size)``. "auto" takes "gibbs" if memory allows, else "scir".
    estimator : how a sampler on natural parameters estimates counts: "plain", "control_variate" or "saga".
    batch_size : documents of a minibatch; chosen by the sampler if None.
    max_iter : passes over the documents.
    max_seconds : time budget of ``fit``, which then stops with what it has; None for none.
    n_chains : independent chains, aligned to each other.
    n_draws : draws of the topics to keep from each chain.
    sweeps, burn_in : Gibbs sweeps on each document of a stream, and how many of them are not counted.
    warm_passes : passes of the search for good topics that ``fit`` starts with; None lets the size decide.
    learn_alpha, learn_beta : learn the priors too, alpha for each topic by itself (samplers in memory only).
    total_documents : documents that the whole stream has, for ``partial_fit``; those seen so far if None.
    n_jobs : threads; -1 or None for all cores. The result does not depend on it.
    random_state : seed.
    verbose : show progress.

    Attributes
    ----------
    components_ : posterior mean of the topics, (topic, word); rows sum to 1.
    posterior_ : draws of the topics, (chain, draw, topic, word).
    inflation_ : of stream samplers whose law is known, the predicted sd of each word in each topic over that of the
        posterior, (topic, word): what the noise of minibatches adds. None for the others; exact ones have 1.
    sampler_ : the sampler that ran: "auto" decided.
    n_iter_ : passes that were made.
    seconds_ : time that ``fit`` took.

    >>> import numpy as np, scirocco as sc
    >>> counts = np.random.default_rng(0).poisson(0.3, size=(60, 40))
    >>> model = sc.LDA(n_topics=3, max_iter=20, random_state=0).fit(counts)
    >>> model.components_.shape, model.transform(counts).shape
    ((3, 40), (60, 3))
    """

    def __init__(
        self, n_topics: int = 50, *, alpha: Any = 0.1, beta: Any = 0.05, sampler: Any = "auto",
        estimator: str = "plain", batch_size: int | None = None, max_iter: int = 100,
        max_seconds: float | None = None, n_chains: int = 1, n_draws: int = 20, sweeps: int = 10, burn_in: int = 3,
        warm_passes: float | None = None, learn_alpha: bool = False, learn_beta: bool = False,
        total_documents: int | None = None, n_jobs: int | None = None, random_state: Any = None, verbose: bool = False,
    ) -> None:  # fmt: skip
        self.n_topics = n_topics
        self.alpha = alpha
        self.beta = beta
        self.sampler = sampler
        self.estimator = estimator
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.n_chains = n_chains
        self.n_draws = n_draws
        self.sweeps = sweeps
        self.burn_in = burn_in
        self.warm_passes = warm_passes
        self.learn_alpha = learn_alpha
        self.learn_beta = learn_beta
        self.total_documents = total_documents
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags

    # Fitting.

    def fit(self, X: Any, y: Any = None) -> LDA:
        """Sample the topics of counts, a matrix documents x words, or of a ``corpora.Corpus`` on disk."""
        del y
        began = time.perf_counter()
        documents, kind = self._corpus(X)
        alpha, beta = self._settings(documents.vocabulary)
        if not documents.tokens:
            raise ValueError("the corpus has no words: every count is 0")
        seed = self._seed()
        self.word_counts_ = documents.word_counts()
        chains: list[Any] = []
        recorders: list[Recorder] = []
        with Interrupt() as interrupt, Progress(PROGRESS, 0, self.verbose) as bar:
            for number in range(self.n_chains):
                deadline = self._deadline(began, number)
                since = time.perf_counter()
                warm_deadline = since + WARM_SHARE * (deadline - since)
                chain = self._chain(kind, documents, alpha, beta, seed, number)
                recorder = Recorder(self.n_draws)
                target, end = 0.0, float(self.max_iter)
                while chain.passes < end and time.perf_counter() < deadline and not interrupt.asked:
                    if not chain.warm.done and time.perf_counter() > warm_deadline:
                        chain.warm.stop()
                    chain.step()
                    if not chain.sampling:
                        end = max(self.max_iter, chain.passes + 1)  # a search on a small corpus may take them all
                    if chain.sampling and chain.passes >= target:
                        target = chain.passes + chain.record_every
                        recorder.add(chain.mean(), chain.draw() if recorder.due else None)
                    now = time.perf_counter()
                    share = min(1.0, max(chain.passes / self.max_iter, (now - since) / (deadline - since)))
                    bar.update(int((number + share) / self.n_chains * PROGRESS), recorder.count, now - began)
                if not recorder.draws and (chain.sampling or not any(c.sampling for c in chains)):
                    recorder.add(chain.mean(), chain.draw())
                if recorder.draws:
                    chains.append(chain)
                    recorders.append(recorder)
                if interrupt.asked:
                    warnings.warn(f"fit was interrupted in chain {number}: it stops with what it has", stacklevel=2)
                    break
        sampled = [pair for pair in zip(chains, recorders, strict=True) if pair[0].sampling]
        if not sampled:
            warnings.warn(
                "fit stopped before the sampler began: the topics are those of the search for a start, without "
                "uncertainty. Give it more time (the first fit also compiles)",
                stacklevel=2,
            )
        self._keep(sampled or [(chains[0], recorders[0])], alpha)
        self.sampler_ = kind if isinstance(kind, str) else type(kind).__name__
        self.documents_seen_ = documents.size
        self.n_iter_, self.seconds_ = max(c.passes for c in chains), time.perf_counter() - began
        self._stream: StreamChain | None = None
        return self

    def partial_fit(self, X: Any, y: Any = None) -> LDA:
        """One minibatch of a stream. The topics follow a stochastic gradient sampler, by default SCIR.

        After ``fit`` or ``load`` the stream goes on from the topics that were found. With very many words and topics
        ``components_`` and ``posterior_`` are brought up to date at every tenth call only.
        """
        del y
        fresh = getattr(self, "_stream", None) is None
        documents = self._documents(X, reset=not hasattr(self, "components_"))
        alpha, beta = self._settings(documents.vocabulary)
        self._require_stream()
        if fresh:
            self._begin_stream(documents.vocabulary, alpha, beta)
        stream = self._stream
        assert stream is not None
        same = np.array_equal(stream.alpha, alpha.astype(np.float32))
        if not same or not np.array_equal(stream.weights.prior[:, 0], beta):
            raise ValueError("n_topics, alpha and beta cannot change within a stream: make a new model, or call fit")
        self.documents_seen_ += documents.size
        self._words += documents.word_counts()
        total = self.total_documents or self.documents_seen_
        renewed = isinstance(stream.sampler, SCIRCV) and stream.sampler.centre_due(stream.steps)
        stream.step(documents, total, larger=documents if renewed else None)  # a stream has no more
        if stream.steps == 1 or stream.steps % RECORD_STEPS == 0 or stream.weights.theta.size <= QUICK:
            topics = stream.draw()
            self._recorder.add(topics, topics if self._recorder.due else None)
            self.posterior_ = self._recorder.posterior()[None]
            self.components_ = self._recorder.mean()
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
        self._stream = self._stream_chain(self.sampler, words, alpha, beta, self._seed(), 0, warm=known)
        self._recorder = Recorder(self.n_draws)
        if not known:
            self.documents_seen_, self._words = 0, np.zeros(words)
        elif self.components_.shape == (self.n_topics, words):
            self._words = self.word_counts_.copy()
            share = self.components_.T * (self._words.sum() / self.n_topics)
            self._stream.begin_at(share + beta[:, None])
        else:
            raise ValueError(f"n_topics is {self.n_topics}, but the model was fitted with {len(self.components_)}")
        self.alpha_, self.beta_, self.inflation_ = alpha, beta, None  # one minibatch does not tell
        self.sampler_ = self.sampler if isinstance(self.sampler, str) else type(self.sampler).__name__
        self._n_features_out = self.n_topics

    def _corpus(self, X: Any) -> tuple[Documents | Corpus, Any]:
        """A matrix as documents, a corpus on disk as it is unless it may as well be in memory; and the sampler.

        "auto" is decided here, once for all chains.
        """
        require_count("n_topics", self.n_topics)
        auto = isinstance(self.sampler, str) and self.sampler == "auto"
        self.__dict__.pop("vocabulary_", None)
        if not isinstance(X, Corpus):
            documents = self._documents(X, reset=True)
            return documents, ("gibbs" if fits_in_memory(documents, self) else "scir") if auto else self.sampler
        self.n_features_in_ = X.vocabulary
        self.__dict__.pop("feature_names_in_", None)
        self.vocabulary_ = np.array(X.words, dtype=object)
        kind = ("gibbs" if fits_in_memory(X, self) else "scir") if auto else self.sampler
        kept = (isinstance(kind, str) and kind in IN_MEMORY) or self.estimator == "saga"
        return X.load() if kept else X, kind

    def _documents(self, X: Any, *, reset: bool) -> Documents:
        if isinstance(X, Corpus):
            if X.vocabulary != getattr(self, "n_features_in_", X.vocabulary):
                raise ValueError(f"the corpus has {X.vocabulary} words, but the model {self.n_features_in_}")
            self.n_features_in_ = X.vocabulary
            return X.load()
        checked = validate_data(
            self, X, reset=reset, accept_sparse="csr",
            dtype=[np.float64, np.float32, np.int64, np.int32, np.uint16, np.uint8],
        )  # fmt: skip
        return Documents.of(checked)

    def _settings(self, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
        """Check everything that ``__init__`` only stored; the priors as vectors."""
        for name in ("n_topics", "max_iter", "n_chains", "n_draws", "sweeps"):
            require_count(name, getattr(self, name))
        require_count("burn_in", self.burn_in, least=0)
        if self.burn_in >= self.sweeps:
            raise ValueError(f"burn_in must be below sweeps, {self.sweeps}; got {self.burn_in}")
        for name in ("batch_size", "total_documents"):
            if getattr(self, name) is not None:
                require_count(name, getattr(self, name))
        if self.max_seconds is not None:
            positive_array("max_seconds", self.max_seconds)
        self._require_sampler()
        if self.warm_passes is not None:
            real_array("warm_passes", self.warm_passes, least=0.0)
        if self.n_jobs not in (None, -1):
            require_count("n_jobs", self.n_jobs)
        alpha, beta = positive_array("alpha", self.alpha), positive_array("beta", self.beta)
        for name, value, size in (("alpha", alpha, self.n_topics), ("beta", beta, vocabulary)):
            if value.shape not in ((), (size,)):
                raise ValueError(f"{name} must be a number or {size} of them; got shape {value.shape}")
        if self.learn_beta and beta.ndim:
            raise ValueError("learn_beta learns one number: give beta as one to start from")
        return np.broadcast_to(alpha, self.n_topics).copy(), np.broadcast_to(beta, vocabulary).copy()

    def _require_sampler(self) -> None:
        if isinstance(self.sampler, str):
            require_choice("sampler", self.sampler, SAMPLERS)
        elif isinstance(self.sampler, Exact) or not isinstance(self.sampler, SimplexSampler | Sampler):
            raise TypeError(
                f"sampler must be one of {', '.join(SAMPLERS)}, a simplex sampler or a gradient sampler; got "
                f"{self.sampler!r}"
            )
        require_choice("estimator", self.estimator, ESTIMATES)
        on_natural = self.sampler in NATURAL if isinstance(self.sampler, str) else not on_simplex(self.sampler)
        if self.estimator != "plain" and not on_natural:
            raise ValueError(
                f"estimator={self.estimator!r} needs a sampler on natural parameters, such as 'sgld': its counts "
                f"can be negative. Got sampler={self.sampler!r}"
            )
        if isinstance(self.sampler, str) and self.sampler == "sgld_cv" and self.estimator == "saga":
            raise ValueError("sampler='sgld_cv' has its own estimator: take sampler='sgld' with estimator='saga'")

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer) and not isinstance(self.random_state, bool):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    @property
    def _threads(self) -> int:
        return available_threads() if self.n_jobs in (None, -1) else int(self.n_jobs)

    def _deadline(self, began: float, number: int) -> float:
        return np.inf if self.max_seconds is None else began + self.max_seconds * (number + 1) / self.n_chains

    def _chain(self, kind: Any, documents: Any, alpha: np.ndarray, beta: np.ndarray, seed: int, number: int) -> Any:
        wanted = min(WARM_TOKENS / documents.tokens, 10) if self.warm_passes is None else self.warm_passes
        warm_passes = min(float(wanted), self.max_iter / 2)
        if isinstance(kind, str) and kind in IN_MEMORY:
            make = KeptGibbs if kind == "gibbs" else CollapsedGibbs
            return make(
                documents, alpha, beta, seed=seed, chain=number, warm_passes=warm_passes, batch_size=self.batch_size,
                threads=self._threads,
                learn=("alpha",) * bool(self.learn_alpha) + ("beta",) * bool(self.learn_beta),
            )  # fmt: skip
        if self.learn_alpha or self.learn_beta:
            raise ValueError("learn_alpha and learn_beta need kept assignments: take sampler='gibbs' or 'collapsed'")
        estimator = "control_variate" if isinstance(kind, str) and kind == "sgld_cv" else self.estimator
        stream = self._stream_chain(kind, documents.vocabulary, alpha, beta, seed, number, warm=warm_passes > 0)
        if estimator != "plain":
            stream.estimate = Remembered(documents) if estimator == "saga" else Controlled()
        minibatches = (BlockMinibatches if isinstance(documents, Corpus) else Minibatches)(
            documents, self.batch_size or STREAM_BATCH, seed=seed, chain=number,
            independent=estimator == "saga" or getattr(stream.sampler, "independent_draws", False),
        )  # fmt: skip
        warm = WarmUp(
            documents.tokens, documents.size, alpha, beta, seed=seed, chain=number, passes=warm_passes,
            threads=self._threads,
        )  # fmt: skip
        choose = partial(natural_sampler, kind) if isinstance(kind, str) and kind in NATURAL else None
        return StreamFit(stream, minibatches, warm, beta, choose)

    def _stream_chain(
        self, kind: Any, words: int, alpha: np.ndarray, beta: np.ndarray, seed: int, number: int, *, warm: bool
    ) -> StreamChain:
        return StreamChain(
            stream_sampler(kind, warm=warm), words, alpha, beta, seed=seed, chain=number, sweeps=self.sweeps,
            burn_in=self.burn_in, threads=self._threads,
        )  # fmt: skip

    def _keep(
        self, found: list[tuple[Any, Recorder]], alpha: np.ndarray
    ) -> None:  # fmt: skip
        """Align the chains to the first and join what they recorded."""
        recorders = [recorder for _, recorder in found]
        means = [recorder.mean() for recorder in recorders]
        orders = [align(means[0], mean) if k else np.arange(self.n_topics) for k, mean in enumerate(means)]
        length = min(len(recorder.posterior()) for recorder in recorders)
        self.posterior_ = np.stack(
            [recorder.posterior()[-length:][:, order] for recorder, order in zip(recorders, orders, strict=True)]
        )
        self.components_ = np.mean([mean[order] for mean, order in zip(means, orders, strict=True)], axis=0)
        learnt = [chain.alpha[order] for (chain, _), order in zip(found, orders, strict=True)]
        self.alpha_ = np.asarray(np.mean(learnt, axis=0, dtype=np.float64)) if self.learn_alpha else alpha
        self.beta_ = np.mean([chain.beta for chain, _ in found], axis=0)
        inflated = [chain.inflation() for chain, _ in found]
        known = [ratio[order] for ratio, order in zip(inflated, orders, strict=True) if ratio is not None]
        self.inflation_ = np.mean(known, axis=0) if len(known) == len(orders) else None
        if self.inflation_ is not None:
            typical = float((self.components_ * self.inflation_).sum(axis=1).mean())
            if typical > NOISY:
                warnings.warn(
                    f"the noise of minibatches makes the sds of words {typical:.1f} times too large (inflation_): take "
                    "means, not intervals, from this fit, or a smaller step size, a larger batch_size, sampler='gibbs'",
                    stacklevel=3,
                )
        self._n_features_out = self.n_topics

    # Using.

    def _draws(self, most: int) -> np.ndarray:
        """At most so many draws of the topics, spread evenly over chains and time."""
        every = self.posterior_.reshape(-1, *self.posterior_.shape[2:])
        return every[np.unique(np.linspace(0, len(every) - 1, min(most, len(every))).astype(int))]

    def transform(self, X: Any) -> np.ndarray:
        """Posterior mean topic weights of documents, averaged over draws of the topics."""
        check_is_fitted(self)
        documents = self._documents(X, reset=False)
        found = evaluation.document_topics(
            self._draws(TRANSFORM_DRAWS), self.alpha_, documents, seed=self._fixed_seed(), threads=self._threads
        )
        return found.mean(axis=0)

    def _fixed_seed(self) -> int:
        """Transforming twice gives the same answer."""
        return int(self.random_state) if isinstance(self.random_state, int | np.integer) else 0

    def perplexity(self, X: Any, *, method: str = "completion", held_out: float = 0.1, max_draws: int = 10) -> float:
        """Held-out perplexity of documents: lower is better; ``unigram_perplexity`` belongs beside it.

        ``method`` is "completion" (a share ``held_out`` of each document's tokens is scored given the others, averaged
        over draws of the topics) or "left_to_right" (every token given those before it, with the posterior mean).
        """
        check_is_fitted(self)
        require_choice("method", method, ("completion", "left_to_right"))
        require_count("max_draws", max_draws)
        if not 0 < held_out < 1:
            raise ValueError(f"held_out must lie strictly between 0 and 1; got {held_out!r}")
        documents, seed = self._documents(X, reset=False), self._fixed_seed()
        if not documents.tokens:
            raise ValueError("the documents have no words: there is nothing to score")
        if method == "left_to_right":
            return evaluation.left_to_right_perplexity(
                self.components_, self.alpha_, documents, seed=seed, threads=self._threads
            )
        return evaluation.completion_perplexity(
            self._draws(max_draws), self.alpha_, documents, held_out=held_out, seed=seed, threads=self._threads
        )

    def unigram_perplexity(self, X: Any, *, held_out: float = 0.1) -> float:
        """The perplexity of the same held-out tokens under the frequencies of words alone."""
        check_is_fitted(self)
        documents = self._documents(X, reset=False)
        if not documents.tokens:
            raise ValueError("the documents have no words: there is nothing to score")
        return evaluation.unigram_perplexity(self.word_counts_, documents, held_out=held_out, seed=self._fixed_seed())

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the logarithm of the perplexity: higher is better."""
        del y
        return -float(np.log(self.perplexity(X)))

    def coherence(self, X: Any, n: int = 10) -> np.ndarray:
        """Normalised pointwise mutual information of each topic's first words in documents, from -1 to 1."""
        check_is_fitted(self)
        require_count("n", n, least=2)
        return evaluation.coherence(self.components_, self._documents(X, reset=False), n)

    def top_words(self, n: int = 10, vocabulary: Any = None, *, level: float = 0.9) -> list[list[WordInterval]]:
        """For each topic its ``n`` most probable words: (word, mean, lower, upper end of the credible interval).

        Intervals are those of a beta law with the mean and the variance of the draws, a little wider for being few.
        """
        check_is_fitted(self)
        require_count("n", n)
        if not 0 < level < 1:
            raise ValueError(f"level must lie strictly between 0 and 1; got {level!r}")
        known = getattr(self, "vocabulary_", getattr(self, "feature_names_in_", None))
        names = known if vocabulary is None else np.asarray(vocabulary, dtype=object)
        if names is not None and len(names) != self.components_.shape[1]:
            raise ValueError(f"vocabulary must name all {self.components_.shape[1]} words; got {len(names)}")
        draws = self.posterior_.reshape(-1, *self.posterior_.shape[2:])
        topics = []
        for k, mean in enumerate(self.components_):
            best = np.argsort(-mean, kind="stable")[:n]
            low, high = evaluation.interval(mean[best], draws[:, k, best].astype(np.float64), level)
            topics.append(
                [
                    (int(w) if names is None else names[w], float(mean[w]), float(a), float(b))
                    for w, a, b in zip(best, low, high, strict=True)
                ]
            )
        return topics

    # Keeping.

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, arrays and JSON; nothing is pickled."""
        check_is_fitted(self)
        storage.write(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> LDA:
        """A model written by ``save``."""
        return storage.read(cls, Path(path))
