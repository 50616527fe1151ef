"""Latent Dirichlet allocation as a scikit-learn estimator.

    phi_k ~ Dirichlet(beta),  eta_d ~ Dirichlet(alpha),  z_di ~ eta_d,  w_di ~ phi_{z_di}

Blei, Ng and Jordan (2003). The posterior of the topics phi is sampled, not approximated: from memory by Gibbs samplers
that are exact, from a stream by the stochastic gradient samplers of the simplex.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from scirocco.core.checks import positive_array, real_array, require_choice, require_count
from scirocco.corpora.documents import Documents
from scirocco.corpora.store import Corpus
from scirocco.counts.estimators import PlainCounts, chosen_estimator
from scirocco.models.by_parts import asked_of_parts
from scirocco.models.count_model import AUTO, CountModel, SamplerChoice, require_budgets
from scirocco.models.fit_location import FitLocation, require_no_more_shards
from scirocco.models.inputs import COUNTS, names_of, refuse_text, validate_data
from scirocco.models.lda import evaluation, storage, updating
from scirocco.models.lda.assignments import Assignments
from scirocco.models.lda.collapsed import are_many
from scirocco.models.lda.documents import apart, document_draws, document_means, document_moments
from scirocco.models.lda.engine import TOPICS
from scirocco.models.lda.fitting import fit_resident_topics, fit_topics
from scirocco.models.lda.reading import TRANSFORM_DRAWS, TopicReading
from scirocco.models.lda.sampler_names import IN_MEMORY, SAMPLERS, automatic, stream_sampler
from scirocco.models.lda.seeds import checked_seed_words, seed_counts
from scirocco.samplers.base import Sampler
from scirocco.simplex import SCIR, Exact, SimplexSampler

MOST_DRAWS, FEWEST_DRAWS = 100, 20  # of a chain, unless they are asked for: R-hat and quantiles want the first
DRAWS_MEMORY = 2**27  # bytes of the draws of all chains


class LDA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TopicReading):  # type: ignore[misc]
    """Latent Dirichlet allocation on counts of words, documents x words.

    Parameters
    ----------
    n_topics : int, default 50
        Number of topics K.
    alpha : default 0.1
        Parameter of the documents' Dirichlet prior, a number or one for each topic.
    beta : default 0.05
        Parameter of the topics' Dirichlet prior, a number or one for each word; or a prior for each topic, topics x
        words, which is for sampler "gibbs".
    sampler : default "auto"
        "gibbs" keeps every token's topic in memory and is exact from minibatches; "collapsed" is the collapsed
        Gibbs sampler. The others see documents and forget them: "scir", "scir_cv" and "sgrld", or a sampler such as
        ``SCIR(step_size)``; on natural parameters "sgld", "sgld_cv", "sghmc" and "sgnht", or one such as
        ``SGLD(step_size)``. "auto" takes "collapsed", for 10^8 tokens or more "gibbs", and "scir" if memory does
        not allow them.
    estimator : str, default "plain"
        How a sampler on natural parameters estimates counts: "plain", "control_variate" or "saga".
    batch_size : int, optional
        Documents of a minibatch; chosen by the sampler if None.
    max_iter : int, optional
        Passes over the documents, at most. None: as many as ``max_seconds`` allows, 100 if that is None too.
    max_seconds : float, optional
        Time budget of ``fit``, which then stops with what it has; None for none. If both budgets are given, both
        bind.
    n_chains : int, default 1
        Independent chains, aligned to each other.
    n_draws : int, optional
        Draws of the topics to keep from each chain, at most one a pass of its second half. None: 100, or fewer, but
        20 at least, where all would take more than 128 megabytes.
    sweeps, skip_sweeps
        Gibbs sweeps on each document of a stream, and how many of the first are not counted.
    search_passes : float, optional
        Passes of the search for good topics that ``fit`` starts with; None lets the size decide. With many topics
        (1,000 or more) there is none.
    seed_words : optional
        Words that a reader wants in topics, ``{label: words}``, or a list of lists of words, the first for topic 0;
        words of data without names are numbers of columns. For samplers in memory.
    seed_weight : float, default 0.1
        How strongly: a seed word counts as if its topic had been seen with it so many times its occurrences.
    learn_alpha, learn_beta
        Learn the priors too, alpha for each topic by itself (samplers in memory only).
    total_documents : int, optional
        Documents that the whole stream has, for ``partial_fit``; those seen so far if None.
    n_jobs : int, optional
        Threads; -1 or None for all cores. The result does not depend on it.
    random_state : optional
        Seed.
    verbose : bool, default False
        Show progress.

    Attributes
    ----------
    components_
        Posterior mean of the topics, (topic, word); rows sum to 1.
    posterior_
        Draws of the topics, an ``xarray.Dataset`` with ``topics`` (chain, draw, topic, word).
    agreement_
        Which topics the chains agree on, and how far; printed as a report. Topics that a chain does not share with
        the first are left out of averages and intervals.
    trace_
        The run: draws, statistics of the records, moments, why it stopped; not after ``load`` and ``partial_fit``.
    labels_
        Names of the topics, "" for none: see ``label_topics``.
    merged_
        For each topic the numbers of those of the fit that ``merge`` has put together in it.
    moved_
        After ``update``, the total variation between each topic before and after it.
    inflation_
        Of stream samplers whose law is known, the predicted sd of each word in each topic over that of the
        posterior, (topic, word): what the noise of minibatches adds. None for the others; exact ones have 1.
    sampler_
        The sampler that ran: "auto" decided.
    n_iter_
        Passes that were made.
    ended_
        Which budget ended the fit; ``summary`` says so too.
    seconds_
        Time that ``fit`` took.

    Examples
    --------
    >>> import numpy as np, scirocco as sc
    >>> counts = np.random.default_rng(0).poisson(0.3, size=(60, 40))
    >>> model = sc.LDA(n_topics=3, max_iter=20, random_state=0).fit(counts)
    >>> model.components_.shape, model.transform(counts).shape
    ((3, 40), (60, 3))
    """

    default_passes: ClassVar[int] = 100
    _facts: ClassVar[tuple[str, ...]] = (
        *CountModel._facts, "updates_", "documents_seen_", "labels_", "merged_"
    )  # fmt: skip

    beta_: np.ndarray
    inflation_: np.ndarray | None
    documents_seen_: int
    _assigned: Assignments | None = None
    _stream: updating.TopicStream | None = None

    def __init__(
        self, n_topics: int = 50, *, alpha: Any = 0.1, beta: Any = 0.05, sampler: Any = "auto",
        estimator: str = "plain", batch_size: int | None = None, max_iter: int | None = None,
        max_seconds: float | None = None, n_chains: int = 1, n_draws: int | None = None, sweeps: int = 10,
        skip_sweeps: int = 3, search_passes: float | None = None, learn_alpha: bool = False, learn_beta: bool = False,
        seed_words: Any = None, seed_weight: float = 0.1, total_documents: int | None = None,
        n_jobs: int | None = None, random_state: Any = None, verbose: bool = False,
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
        self.skip_sweeps = skip_sweeps
        self.search_passes = search_passes
        self.learn_alpha = learn_alpha
        self.learn_beta = learn_beta
        self.seed_words = seed_words
        self.seed_weight = seed_weight
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

    def _read(
        self, X: Any, choice: SamplerChoice, location: FitLocation
    ) -> tuple[Documents | Corpus, SamplerChoice]:  # fmt: skip
        """A matrix as documents, a corpus on disk as it is unless it may as well be in memory; and the sampler."""
        require_count("n_topics", self.n_topics)
        refuse_text(X)
        if location.cluster is not None:
            choice = SamplerChoice("gibbs") if choice.name == AUTO else choice
            self._require_resident(choice)
        self._forget("moved_", "updates_", "vocabulary_")  # of a model that was fitted before
        if not isinstance(X, Corpus):
            documents = self._documents(X, reset=True)
            return documents, automatic(documents, self) if choice.name == AUTO else choice
        self.n_features_in_ = X.width
        self._forget("feature_names_in_")
        self.vocabulary_ = np.array(X.vocabulary, dtype=object)
        choice = automatic(X, self) if choice.name == AUTO else choice
        if location.cluster is not None:
            return X, choice
        return X.load() if choice.name in IN_MEMORY or self.estimator == "saga" else X, choice

    def _run(self, data: Documents | Corpus, choice: SamplerChoice, location: FitLocation) -> None:
        alpha, beta = self._settings(data.width)
        if not data.tokens:
            raise ValueError("the corpus has no words: every count is 0")
        if self.n_topics > data.size:
            raise ValueError(
                f"n_topics must not exceed the number of documents, n_samples={data.size}; got {self.n_topics}"
            )
        if (self.learn_alpha or self.learn_beta) and choice.name not in IN_MEMORY:
            raise ValueError("learn_alpha and learn_beta need kept assignments: take sampler='gibbs' or 'collapsed'")
        self._number_topics()
        if beta.ndim == 2:
            self._require_informed(choice)
        if self.seed_words is not None:
            self._require_seeds(choice)
            self.labels_ = checked_seed_words(self.seed_words, self.n_topics, self._names(None), data.width)[1]
        require_no_more_shards(location, data.size, "documents")
        fit = fit_topics if location.cluster is None else fit_resident_topics
        fit(self, data, choice, alpha, beta, location, passes=self._passes, seconds=self.max_seconds)
        self.word_counts_ = data.word_counts()
        self.documents_seen_, self._stream = data.size, None

    def update(
        self, X: Any, *, vocabulary: Any = None, max_iter: int | None = None, max_seconds: float | None = None
    ) -> LDA:  # fmt: skip
        """Add documents to a fitted model; its topics keep their numbers, and ``moved_`` says how far each moved.

        ``vocabulary`` names the columns of ``X`` if the model knows its words by name: they may come in any order, and
        new words join with their prior. Without names the columns are those of the model, and further ones are new.
        Where assignments are kept ("gibbs", "collapsed"), the new documents are assigned given the old, and all chains
        go on over all documents for ``max_iter`` passes or ``max_seconds``, 20 passes if neither is given. Otherwise
        they are a stream's next minibatches.
        """
        check_is_fitted(self)
        require_budgets(max_iter, max_seconds)
        if len(self.components_) != self.n_topics:
            raise ValueError(f"n_topics is {self.n_topics}, but the model was fitted with {len(self.components_)}")
        refuse_text(X)
        before = self.__dict__.copy()
        try:
            updating.update(self, X, vocabulary, max_iter, max_seconds)
        except BaseException:
            self.__dict__ = before  # as it was
            raise
        return self

    def partial_fit(self, X: Any, y: Any = None, *, vocabulary: Any = None) -> LDA:
        """One minibatch of a stream. The topics follow a stochastic gradient sampler, by default SCIR.

        After ``fit`` or ``load`` the stream goes on from the topics that were found, and its draws join theirs, which
        are forgotten as it grows. With very many words and topics ``components_`` and ``posterior_`` are brought up to
        date at every tenth call only. ``vocabulary`` names the columns of ``X`` as in ``update``: new words join.
        """
        del y
        updating.partial_fit(self, X, vocabulary)
        return self

    def _documents(self, X: Any, *, reset: bool) -> Documents:
        known = self._unread(X, reset=reset)
        return known.load() if isinstance(known, Corpus) else known

    def _unread(self, X: Any, *, reset: bool) -> Documents | Corpus:
        """The same; a corpus on disk stays there."""
        refuse_text(X)
        if isinstance(X, Corpus | Documents):
            if not reset and X.width != self.n_features_in_:
                raise ValueError(f"the corpus has {X.width} words, but the model {self.n_features_in_}")
            self.n_features_in_ = X.width
        names = X.vocabulary if isinstance(X, Corpus) else names_of(X)
        if not reset and names is not None and list(names) != list(getattr(self, "vocabulary_", names)):
            raise ValueError(
                "the words of X are not those of the model in the same order: reorder the columns, or call update"
            )
        if isinstance(X, Corpus | Documents):
            return X
        checked = validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=COUNTS
        )  # fmt: skip
        return Documents.of(checked)

    def _settings(self, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
        """Check everything that ``__init__`` only stored; the priors as vectors."""
        self._require_run()
        for name in ("n_topics", "sweeps"):
            require_count(name, getattr(self, name))
        if self.n_draws is not None:
            require_count("n_draws", self.n_draws)
        require_count("skip_sweeps", self.skip_sweeps, least=0)
        if self.skip_sweeps >= self.sweeps:
            raise ValueError(f"skip_sweeps must be below sweeps, {self.sweeps}; got {self.skip_sweeps}")
        if self.total_documents is not None:
            require_count("total_documents", self.total_documents)
        self._require_sampler()
        if self.search_passes is not None:
            real_array("search_passes", self.search_passes, least=0.0)
        alpha, beta = positive_array("alpha", self.alpha), positive_array("beta", self.beta)
        if alpha.shape not in ((), (self.n_topics,)):
            raise ValueError(f"alpha must be a number or {self.n_topics} of them; got shape {alpha.shape}")
        if beta.shape not in ((), (vocabulary,), (self.n_topics, vocabulary)):
            raise ValueError(
                f"beta must be a number, {vocabulary} of them, one for each word, or topics x words, "
                f"({self.n_topics}, {vocabulary}); got shape {beta.shape}"
            )
        if self.learn_beta and beta.ndim:
            raise ValueError("learn_beta learns one number: give beta as one to start from")
        beta = beta.copy() if beta.ndim == 2 else np.broadcast_to(beta, vocabulary).copy()
        return np.broadcast_to(alpha, self.n_topics).copy(), beta

    def _kept_draws(self, width: int) -> int:
        """Draws to keep from each chain, of topics over so many words."""
        if self.n_draws is not None:
            return self.n_draws
        affordable = DRAWS_MEMORY // (4 * self.n_topics * width * self.n_chains)
        return int(np.clip(affordable, FEWEST_DRAWS, MOST_DRAWS))

    def _require_sampler(self) -> None:
        choice = SamplerChoice.of(self.sampler)
        # Exact draws need exact counts, which a stream does not have.
        kinds = () if isinstance(choice.given, Exact) else (SimplexSampler, Sampler)
        choice.require(SAMPLERS, kinds, ", a simplex sampler or a gradient sampler")
        in_memory = choice.name in (AUTO, *IN_MEMORY)
        chosen_estimator(self.estimator, SCIR(0.1) if in_memory else stream_sampler(choice, warm=True))
        if choice.name == "sgld_cv" and self.estimator == "saga":
            raise ValueError("sampler='sgld_cv' has its own estimator: take sampler='sgld' with estimator='saga'")

    def _number_topics(self) -> None:
        """The topics are new: without names, each by itself."""
        self._n_features_out = self.n_topics
        self.labels_, self.merged_ = [""] * self.n_topics, [[k] for k in range(self.n_topics)]

    def _require_seeds(self, choice: SamplerChoice) -> None:
        if choice.name not in IN_MEMORY:
            raise ValueError("seed_words need kept assignments: take sampler='gibbs' or 'collapsed'")
        if choice.name == "collapsed" and are_many(
            self.n_topics
        ):  # proposals take topics of tokens, and these are none
            raise ValueError(f"seed_words with so many topics, {self.n_topics:,}, need sampler='gibbs'")
        if self.learn_beta:
            raise ValueError("learn_beta would learn from the seed words: give seed_words or learn_beta")

    def _require_resident(self, choice: SamplerChoice) -> None:
        """Reject what documents on workers do not allow."""
        if choice.name == "collapsed":
            raise ValueError(f"client= is for sampler='gibbs', whose documents are independent; got {choice.name!r}")
        if choice.name != "gibbs":
            sampler = stream_sampler(choice, warm=True)
            if choice.name == "sgld_cv" or type(chosen_estimator(self.estimator, sampler)) is not PlainCounts:
                raise ValueError("client= is for plain counts of minibatches: leave out estimator, scir_cv and sgld_cv")
            return
        if self.seed_words is not None or np.ndim(self.beta) == 2:
            raise ValueError("client= is for topics that are alike beforehand: leave out seed_words, and give one beta")
        if self.batch_size is not None:
            raise ValueError("with client= a round of 'gibbs' is over all documents: leave out batch_size")

    def _require_informed(self, choice: SamplerChoice) -> None:
        if choice.name != "gibbs":
            raise ValueError(
                f"beta of shape topics x words is for sampler='gibbs', which draws the topics; got {choice.name!r}"
            )
        if self.seed_words is not None:
            raise ValueError("give seed_words, or beta of shape topics x words that has more for these words")

    def _seeds(self, documents: Documents | Corpus) -> np.ndarray | None:
        """The counts that seed words stand for, words x topics; None without any."""
        if self.seed_words is None:
            return None
        columns, _ = checked_seed_words(self.seed_words, self.n_topics, self._names(None), documents.width)
        return seed_counts(columns, self.seed_weight, documents.word_counts(), self.n_topics)

    # Using.

    def _draws(self, most: int, *, one_order: bool = False) -> np.ndarray:
        """At most so many draws of the topics, spread evenly over chains and time.

        With ``one_order`` topic k must mean the same in all: chains that have a stranger in its place are left out.
        """
        values = self.posterior_[TOPICS].values
        if one_order:
            values = values[self.agreement_.matched.all(axis=1)]
        every = values.reshape(-1, *values.shape[2:])
        return every[np.unique(np.linspace(0, len(every) - 1, min(most, len(every))).astype(int))]

    def transform(self, X: Any, *, return_std: bool = False, executor: Executor | None = None) -> Any:
        """Posterior mean topic weights of documents, averaged over draws of the topics; also their sds if wanted.

        The sds contain the uncertainty of the topics and of the document given them. The workers of an ``executor``
        take the documents in parts, a ``Corpus`` where it is; the result is the same to the bit.
        """
        check_is_fitted(self)
        question: Callable[[Documents], Any] = partial(
            document_moments if return_std else document_means, self._draws(TRANSFORM_DRAWS, one_order=True),
            self.alpha_, seed=self._fixed_seed(), threads=self._threads_beside(executor),
        )  # fmt: skip
        if executor is None:
            return question(self._documents(X, reset=False))
        answers = list(asked_of_parts(executor, question, self._unread(X, reset=False)))
        if not return_std:
            return np.concatenate(answers)
        return tuple(np.concatenate(own) for own in zip(*answers, strict=True))

    def transform_draws(self, X: Any, n_draws: int = 20) -> np.ndarray:
        """``n_draws`` posterior draws of the topic weights of documents, (draw, document, topic).

        Each comes with a draw of the topics of its own, as far as there are so many; they repeat after that.
        """
        check_is_fitted(self)
        documents = self._documents(X, reset=False)
        return document_draws(
            self._repeated(n_draws), self.alpha_, documents, apart(documents), seed=self._fixed_seed(),
            threads=self._threads,
        )  # fmt: skip

    def _repeated(self, n_draws: int) -> np.ndarray:
        """Exactly ``n_draws`` draws of the topics that mean the same."""
        require_count("n_draws", n_draws)
        found = self._draws(n_draws, one_order=True)
        return found[np.arange(n_draws) % len(found)]

    def perplexity(
        self, X: Any, *, method: str = "completion", held_out: float = 0.1, max_draws: int = 10,
        executor: Executor | None = None,
    ) -> float:  # fmt: skip
        """Held-out perplexity of documents: lower is better; ``unigram_perplexity`` belongs beside it.

        ``method`` is "completion" (a share ``held_out`` of each document's tokens is scored given the others, averaged
        over draws of the topics) or "left_to_right" (every token given those before it, with the posterior mean). The
        workers of an ``executor`` take the documents in parts, a ``Corpus`` where it is; the result is the same to the
        bit.
        """
        check_is_fitted(self)
        require_choice("method", method, ("completion", "left_to_right"))
        documents = self._scored(X, held_out, max_draws, whole=executor is None)
        seed, threads = self._fixed_seed(), self._threads_beside(executor)
        if method == "left_to_right":
            scores = partial(evaluation.left_to_right_scores, self.components_, self.alpha_, seed=seed, threads=threads)
            answers = [scores(documents)] if executor is None else asked_of_parts(executor, scores, documents)
            logs, tokens = (np.concatenate(own) for own in zip(*answers, strict=True))
        elif executor is None:
            logs, tokens = evaluation.completion_scores(
                self._draws(max_draws), self.alpha_, documents, held_out=held_out, seed=seed, threads=threads
            )
        else:
            logs, tokens = evaluation.completion_scores_by_parts(
                executor, self._draws(max_draws), self.alpha_, documents, held_out=held_out, seed=seed
            )
        return evaluation.perplexity(logs, tokens)

    def unigram_perplexity(self, X: Any, *, held_out: float = 0.1) -> float:
        """The perplexity of the same held-out tokens under the frequencies of words alone."""
        check_is_fitted(self)
        documents = self._scored(X, held_out, 1)
        return evaluation.unigram_perplexity(self.word_counts_, documents, held_out=held_out, seed=self._fixed_seed())

    def score(self, X: Any, y: Any = None, *, executor: Executor | None = None) -> float:
        """Minus the logarithm of the perplexity: higher is better."""
        del y
        return -float(np.log(self.perplexity(X, executor=executor)))

    def _names(self, vocabulary: Any) -> Any:
        """The words, given or known; None if they are not."""
        known = getattr(self, "vocabulary_", getattr(self, "feature_names_in_", None))
        names = known if vocabulary is None else np.asarray(vocabulary, dtype=object)
        if names is not None and len(names) != self.n_features_in_:
            raise ValueError(f"vocabulary must name all {self.n_features_in_} words; got {len(names)}")
        return names

    # Keeping.

    def _packed(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return storage.packed(self)

    def _restore(self, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        storage.restore(self, meta, arrays)
