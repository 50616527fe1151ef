"""How well topics predict: held-out perplexity.

Document completion: the tokens of a document are split at random; the topic weights eta of the document are inferred
from the first part, and the second part is scored,

    perplexity = exp(- sum log p(w) / tokens),    p(w) = mean over draws and sweeps of sum_k eta_k phi_kw

so that draws of the topics and of the assignments are averaged inside the logarithm (Wallach et al. 2009; Patterson and
Teh 2013; Baker et al. 2018). The unigram perplexity, of words drawn by their frequency, belongs beside it. The
left-to-right estimator scores every token given those before it and needs no split.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from functools import partial
from typing import Any

import numpy as np

from scirocco.core.compiled import inner, jit, over_blocks
from scirocco.core.executors import call_each, require_executor
from scirocco.core.random import open_stream, uniform
from scirocco.core.seeds import Purpose, stream_key
from scirocco.corpora.documents import Documents
from scirocco.corpora.store import Corpus
from scirocco.models.by_parts import Part, parts_of
from scirocco.models.lda.documents import document_topics, fingerprints
from scirocco.models.lda.kernels.sweeps_stream import pick


def completion_scores(
    draws: np.ndarray, alpha: np.ndarray, documents: Documents, *, held_out: float = 0.1, seed: int = 0,
    threads: int | None = None, split: np.random.Generator | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Document completion with draws of the topics, (draw, topic, word): log probability and tokens by document.

    Of documents that are a part of others ``split`` is the generator that has split those before.
    """
    seen, hidden = documents.split(held_out, seed if split is None else split)
    eta = document_topics(draws, alpha, seen, seed=seed, threads=threads)
    owner = np.repeat(np.arange(documents.size), np.diff(documents.starts))
    scored = np.flatnonzero(hidden.numbers)
    chances = np.zeros(len(scored))
    for weights, topics in zip(eta, draws, strict=True):
        chances += np.einsum("ik,ik->i", weights[owner[scored]], topics.T[documents.words[scored]])
    logs = hidden.numbers[scored] * np.log(chances / len(draws))
    return np.bincount(owner[scored], logs, minlength=documents.size), hidden.lengths.astype(float)


def completion_by_topic(
    draws: np.ndarray, alpha: np.ndarray, documents: Documents, *, held_out: float = 0.1, seed: int = 0,
    threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The same by topic: each token belongs to topics by their share of its probability."""
    seen, hidden = documents.split(held_out, seed)
    eta = document_topics(draws, alpha, seen, seed=seed, threads=threads)
    scored = np.flatnonzero(hidden.numbers)
    owner = np.repeat(np.arange(documents.size), np.diff(documents.starts))[scored]
    parts = np.zeros((len(scored), alpha.size))
    for weights, topics in zip(eta, draws, strict=True):
        parts += weights[owner] * topics.T[documents.words[scored]]
    chances = parts.sum(axis=1, keepdims=True)
    tokens = parts / chances * hidden.numbers[scored, None]
    return (tokens * np.log(chances / len(draws))).sum(axis=0), tokens.sum(axis=0)


def completion_perplexity(
    draws: np.ndarray, alpha: np.ndarray, documents: Documents, *, held_out: float = 0.1, seed: int = 0,
    threads: int | None = None,
) -> float:  # fmt: skip
    """Document completion with draws of the topics, (draw, topic, word)."""
    return perplexity(*completion_scores(draws, alpha, documents, held_out=held_out, seed=seed, threads=threads))


def completion_scores_by_parts(
    executor: Executor, draws: np.ndarray, alpha: np.ndarray, documents: Documents | Corpus, *, held_out: float,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """``completion_scores`` by the workers of an executor; the documents are split as one process does."""
    scores = partial(completion_scores, draws, alpha, held_out=held_out, seed=seed, threads=1)
    answers = call_each(require_executor(executor), partial(_scored, scores), _split_parts(documents, held_out, seed))
    logs, tokens = zip(*answers, strict=True)
    return np.concatenate(logs), np.concatenate(tokens)


def _split_parts(documents: Documents | Corpus, share: float, seed: int) -> Iterator[tuple[Part, np.random.Generator]]:
    """All parts, and for each the generator that has split those before."""
    split = np.random.default_rng(seed)
    for part in parts_of(documents):
        yield part, copy.deepcopy(split)
        part.read().split(share, split)


def _scored(scores: Callable[..., Any], split_part: tuple[Part, np.random.Generator]) -> Any:
    part, split = split_part
    return scores(part.read(), split=split)


def perplexity(logs: np.ndarray, tokens: np.ndarray) -> float:
    """Of log probabilities and tokens by document."""
    return float(np.exp(-logs.sum() / require_held_out(tokens).sum()))


def require_held_out(tokens: np.ndarray) -> np.ndarray:
    """Reject documents of which no token is to be predicted."""
    if not tokens.sum():
        raise ValueError("no token was held out: the documents are too short for this share")
    return tokens


def unigram_perplexity(frequencies: np.ndarray, documents: Documents, *, held_out: float = 0.1, seed: int = 0) -> float:
    """The same tokens scored by the frequencies of words in the training data, 0.01 added to each."""
    hidden = documents.split(held_out, seed)[1]
    chances = (frequencies + 0.01) / (frequencies + 0.01).sum()
    return float(np.exp(-(hidden.numbers @ np.log(chances[documents.words])) / max(1, hidden.tokens)))


@inner
def _stack(near: Any, phi: Any, w: int, heights: Any) -> float:
    """Cumulative near_k phi_wk, and their sum."""
    height = 0.0
    for k in range(near.size):
        height += near[k] * phi[w, k]
        heights[k] = height
    return height


@jit
def _left_to_right(
    key: Any, first: int, last: int, seeds: Any, starts: Any, words: Any, numbers: Any, phi: Any, alpha: Any,
    particles: int, limit: int, scores: Any,
) -> None:  # fmt: skip
    topics = phi.shape[1]
    tokens, z, near, heights = np.empty(limit, np.int64), np.empty(limit, np.int64), np.empty(topics), np.empty(topics)
    chances = np.empty(limit)
    for d in range(first, last):
        s = open_stream(key, 0, seeds[d])
        n = 0
        for j in range(starts[d], starts[d + 1]):
            for _ in range(numbers[j]):
                tokens[n] = words[j]
                n += 1
        for i in range(n - 1, 0, -1):  # a bag has no order: take a random one
            j = int(uniform(s) * (i + 1))
            tokens[i], tokens[j] = tokens[j], tokens[i]
        for i in range(n):
            chances[i] = 0.0
        for _ in range(particles):
            for k in range(topics):
                near[k] = alpha[k]
            total = alpha.sum()
            for i in range(n):
                for t in range(i):  # the tokens before, resampled once given each other
                    near[z[t]] -= 1.0
                    height = _stack(near, phi, tokens[t], heights)
                    z[t] = pick(heights, topics, uniform(s) * height)
                    near[z[t]] += 1.0
                height = _stack(near, phi, tokens[i], heights)
                chances[i] += height / total
                z[i] = pick(heights, topics, uniform(s) * height)
                near[z[i]] += 1.0
                total += 1.0
        for i in range(n):
            scores[d] += np.log(chances[i] / particles)


def left_to_right_scores(
    topics: np.ndarray, alpha: np.ndarray, documents: Documents, *, particles: int = 20, seed: int = 0,
    threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Wallach et al. (2009), with one set of topics: log probability and tokens by document.

    Its cost grows with the square of a document's length.
    """
    phi = np.ascontiguousarray(topics.T, dtype=np.float64)
    scores, limit = np.zeros(documents.size), int(documents.lengths.max(initial=1))
    key, seeds = stream_key(seed, Purpose.LEFT_TO_RIGHT), fingerprints(documents)
    over_blocks(
        lambda first, last: _left_to_right(
            key, first, last, seeds, documents.starts, documents.words, documents.numbers, phi,
            alpha.astype(np.float64), particles, limit, scores,
        ),
        documents.size,
        threads,
    )  # fmt: skip
    return scores, documents.lengths
