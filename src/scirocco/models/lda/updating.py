"""A fitted topic model that goes on: new documents, new words, and streams of minibatches."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.core.seeds import Purpose, generator
from scirocco.corpora.documents import Documents
from scirocco.counts.minibatches import Minibatch
from scirocco.models.count_model import AUTO, SamplerChoice, passes_allowed
from scirocco.models.fit_location import FitLocation
from scirocco.models.inputs import refuse_text
from scirocco.models.lda.agreement import Agreement
from scirocco.models.lda.assignments import Assignments, grown_topics, widened
from scirocco.models.lda.engine import TOPICS
from scirocco.models.lda.fitting import STREAM_BATCH, fit_topics, named_topics
from scirocco.models.lda.sampler_names import IN_MEMORY, NATURAL, stream_sampler
from scirocco.models.lda.stream import StreamChain
from scirocco.run.second_half import SecondHalf
from scirocco.simplex import SCIR, SCIRCV, SGRLD

if TYPE_CHECKING:
    from scirocco.models.lda.estimator import LDA

RECORD_STEPS = 10  # calls of partial_fit from record to record
UPDATE_PASSES = 20  # of ``update``, if no budget is given
QUICK = 10**6  # weights, so few that a record at each call costs little


class TopicStream:
    """A stream of minibatches: its chain, the records of its second half, and the words seen so far."""

    def __init__(self, chain: StreamChain, draws: int, words: np.ndarray) -> None:
        self.chain, self.recorder, self.words = chain, SecondHalf(draws), words

    def record(self, topics: np.ndarray) -> None:
        """Topics that are a record; a draw too, if one is due."""
        self.recorder.add({TOPICS: topics}, {TOPICS: topics} if self.recorder.due else None)

    @property
    def due(self) -> bool:
        """Whether the present topics are to be recorded."""
        steps = self.chain.steps
        return steps == 1 or steps % RECORD_STEPS == 0 or self.chain.weights.theta.size <= QUICK


def update(model: LDA, X: Any, vocabulary: Any, max_iter: int | None, max_seconds: float | None) -> None:
    """New documents for a fitted model, given the assignments of the others or as a stream's next minibatches."""
    kept = model._assigned
    if kept is None and model.sampler_ in IN_MEMORY:
        raise ValueError(
            "the fit stopped before every document had its topics, or these were left on workers: fit again, to all "
            "documents and with time enough"
        )
    began = time.perf_counter()
    matrix, names, new = widened(X, vocabulary, model._names(None), model.components_.shape[1])
    documents = Documents.of(matrix)
    before = grown_topics(model.components_, new, model._settings(documents.width)[1], _per_topic(model))
    if kept is None:
        _require_stream(model)
        _require_growth(model, new)
        size = model.batch_size or STREAM_BATCH
        _grow(model, names, new)
        for first in range(0, documents.size, size):
            follow(model, documents.take(slice(first, first + size)))
    else:
        passes = passes_allowed(max_iter, max_seconds, UPDATE_PASSES)
        _go_on(model, kept, documents, names, passes, max_seconds)
        model.ended_ = model._ended(given=max_iter is not None)
    model.moved_ = np.abs(model.components_ - before).sum(axis=1) / 2
    model.seconds_ = time.perf_counter() - began


def _go_on(
    model: LDA, kept: Assignments, documents: Documents, names: Any, passes: float, seconds: float | None
) -> None:
    """All chains over all documents, the new ones assigned given the others."""
    alpha, beta = model._settings(documents.width)
    beta = np.full(beta.size, model.beta_[0]) if model.learn_beta else beta
    assigned = kept.in_order()
    whole = assigned.joined(documents)
    _name(model, names, documents.width)
    model.word_counts_ = whole.word_counts()
    fit_topics(
        model, whole, SamplerChoice(model.sampler_), alpha, beta, FitLocation(), passes=passes, seconds=seconds,
        assigned=assigned, seed=_next_seed(model),
    )  # fmt: skip
    model.documents_seen_ = whole.size
    model._stream = None


def _next_seed(model: LDA) -> int:
    """Another one each time that the model goes on: the numbers of a fit must not come again."""
    model.updates_ = getattr(model, "updates_", 0) + 1
    rng = generator(FitLocation().seed(model.random_state), Purpose.MODEL_UPDATE, model.updates_)
    return int(rng.integers(2**31))


def _per_topic(model: LDA) -> float:
    """Tokens of a topic, on average."""
    return float(model.word_counts_.sum() / model.n_topics)


# Words.


def _require_growth(model: LDA, new: int) -> None:
    """Reject new words where a stream cannot have them, before anything is changed."""
    choice = SamplerChoice.of(model.sampler)
    if new and not (choice.name in (AUTO, "scir", "sgrld") or isinstance(choice.given, SCIR | SGRLD)):
        raise ValueError(f"new words need SCIR or SGRLD, whose weights have no memory; got {model.sampler!r}")


def _name(model: LDA, names: Any, width: int) -> None:
    """Words and how many there are."""
    model.n_features_in_ = width
    if names is not None:
        known = "vocabulary_" if hasattr(model, "vocabulary_") else "feature_names_in_"
        setattr(model, known, np.asarray(names, dtype=object))


def _grow(model: LDA, names: Any, new: int) -> None:
    """Make room for new words, at their prior, in all that the model has."""
    _name(model, names, model.n_features_in_ + new)
    if not new:
        return
    _, beta = model._settings(model.n_features_in_)

    def widen(topics: np.ndarray) -> np.ndarray:
        return grown_topics(topics, new, beta, _per_topic(model))

    model.components_ = widen(model.components_)
    model.posterior_ = named_topics(widen(model.posterior_[TOPICS].values), model)
    model.beta_, model.inflation_ = beta, None
    stream = model._stream
    if stream is not None:
        stream.chain.grow(beta[-new:])
        stream.words = np.concatenate([stream.words, np.zeros(new)])
        stream.recorder.change(TOPICS, widen)
    model.word_counts_ = np.concatenate([model.word_counts_, np.zeros(new)])


# Streams.


def partial_fit(model: LDA, X: Any, vocabulary: Any) -> None:
    """One minibatch of a stream, whose columns ``vocabulary`` names."""
    fitted = hasattr(model, "components_")
    if vocabulary is not None and fitted:
        refuse_text(X)
        matrix, names, new = widened(X, vocabulary, model._names(None), model.components_.shape[1])
        _require_stream(model)
        _require_growth(model, new)
        _grow(model, names, new)
        follow(model, Documents.of(matrix))
        return
    documents = model._documents(X, reset=not fitted)
    if vocabulary is not None:
        if len(set(map(str, vocabulary))) < documents.width or len(vocabulary) != documents.width:
            raise ValueError(f"vocabulary must name the {documents.width} columns of X, each once")
        model.vocabulary_ = np.asarray(vocabulary, dtype=object)
    follow(model, documents)


def follow(model: LDA, documents: Documents) -> None:
    """One minibatch."""
    alpha, beta = model._settings(documents.width)
    _require_stream(model)
    stream = _begun_stream(model, documents.width, alpha, beta) if model._stream is None else model._stream
    model._stream, model._assigned = stream, None  # assignments are of documents that are no longer all
    model._forget("trace_", "ended_")
    chain = stream.chain
    same = np.array_equal(chain.alpha, alpha.astype(np.float32))
    if not same or not np.array_equal(chain.weights.prior[:, 0], beta):
        raise ValueError("n_topics, alpha and beta cannot change within a stream: make a new model, or call fit")
    total = model.total_documents or model.documents_seen_ + documents.size
    if total < documents.size:
        raise ValueError(f"total_documents is {total}, but this minibatch alone has {documents.size}")
    model.documents_seen_ += documents.size
    stream.words += documents.word_counts()
    chain.step(Minibatch.of(documents, total))
    if stream.due:
        stream.record(chain.draw())
        model.posterior_ = named_topics(stream.recorder.draws()[TOPICS], model)
        mean = stream.recorder.mean()[TOPICS]
        model.components_ = mean / mean.sum(axis=1, keepdims=True)
        model.agreement_ = Agreement.of([model.components_], model.posterior_[TOPICS].values)
    model.word_counts_ = stream.words.copy()
    model.n_iter_ = model.documents_seen_ / total


def _require_stream(model: LDA) -> None:
    """Reject what a stream cannot have."""
    choice = SamplerChoice.of(model.sampler)
    if model.estimator != "plain" or choice.name in NATURAL:
        raise ValueError(
            "partial_fit neither searches for a start nor reads anything twice: give a sampler with its step size, "
            "such as sc.SGLD(1e-5), and estimator='plain'"
        )
    if isinstance(choice.given, SCIRCV) and choice.given.recentre_every is None:
        raise ValueError("partial_fit cannot count everything for a centre: give SCIRCV recentre_every=")
    if choice.name in IN_MEMORY:
        raise ValueError(f"sampler={model.sampler!r} keeps all documents: call fit, or take 'scir' for a stream")
    if model.seed_words is not None:
        raise ValueError("partial_fit cannot seed topics: fit, and update what is fitted")
    if np.ndim(model.beta) == 2:
        raise ValueError("partial_fit has one prior for all topics; got beta of shape topics x words")
    if model.learn_alpha or model.learn_beta or model.n_chains > 1:
        raise ValueError("partial_fit runs one chain with fixed priors: leave n_chains, learn_alpha, learn_beta")


def _begun_stream(model: LDA, words: int, alpha: np.ndarray, beta: np.ndarray) -> TopicStream:
    """At its beginning, or at the topics that were found."""
    known = hasattr(model, "components_")
    seed = _next_seed(model) if known else FitLocation().seed(model.random_state)
    chain = StreamChain(
        stream_sampler(SamplerChoice.of(model.sampler), warm=known), words, alpha, beta, seed=seed, chain=0,
        sweeps=model.sweeps, skip_sweeps=model.skip_sweeps, threads=model._threads,
    )  # fmt: skip
    stream = TopicStream(chain, model._kept_draws(words), model.word_counts_.copy() if known else np.zeros(words))
    if not known:
        model.documents_seen_ = 0
    elif model.components_.shape == (model.n_topics, words):
        chain.begin_at(model.components_.T * _per_topic(model) + beta[:, None])
        for draw in model._draws(model._kept_draws(words), one_order=True):  # what is known so far is not thrown away
            stream.record(draw)
    else:
        raise ValueError(f"n_topics is {model.n_topics}, but the model was fitted with {len(model.components_)}")
    model.alpha_, model.beta_, model.inflation_ = alpha, beta, None  # one minibatch does not tell
    name = SamplerChoice.of(model.sampler).name
    model.sampler_ = "scir" if name == AUTO else name
    if not known:
        model._number_topics()
    return stream
