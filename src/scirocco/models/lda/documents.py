"""The topics of documents, with their uncertainty.

Given topics phi, Gibbs sweeps over a document's tokens give counts n_k, and its weights are eta | n ~ Dirichlet(alpha +
n). With m_k = (n_k + alpha_k) / (N + A),

    E eta_k = E m_k,    Var eta_k = E m_k (1 - m_k) / (N + A + 1) + Var m_k

where E and Var on the right run over sweeps and over draws of the topics: the uncertainty of both is in it.

A document's random stream comes from its words, so that its result depends on itself alone, whatever else is asked for
in the same call. One without words has the law of the prior.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from scirocco.core.compiled import ZERO, jit, over_blocks
from scirocco.core.random import gamma, open_stream, uniform
from scirocco.core.seeds import Purpose, stream_key
from scirocco.corpora.documents import Documents
from scirocco.models.lda.kernels.sweeps_stream import _draw_topic as draw_topic
from scirocco.models.lda.kernels.sweeps_stream import _sweep_document as sweep_document
from scirocco.models.lda.kernels.sweeps_stream import word_masses
from scirocco.models.lda.stream import fresh_assignments

SWEEPS, SKIPPED = 60, 20
FIRST, BETWEEN, STRETCH = 20, 4, 10  # of draws: sweeps of a new start and from draw to draw; draws from start to start
AT_ONCE = 4096  # documents, where something is summed over all


@jit
def _sweep_on(
    key: Any, step: int, seeds: Any, starts: Any, words: Any, z: Any, phi: Any, masses: Any, alpha: Any, sweeps: int,
    anew: bool, weights: Any, first: int, last: int,
) -> None:  # fmt: skip
    """Sweeps over the kept assignments of documents ``first`` to ``last``; their counts are added to ``weights``."""
    topics = phi.shape[1]
    active, place = np.empty(topics, np.int64), np.full(topics, -1)
    present, heights = np.empty(topics, np.float32), np.empty(topics, np.float32)
    for d in range(first, last):
        s = open_stream(key, step, seeds[d])
        low, high = starts[d], starts[d + 1]
        for t in range(low, high if anew else low):
            z[t] = draw_topic(s, phi, words[t], masses, alpha, active, present, ZERO, heights)
        for _ in range(sweeps):
            sweep_document(s, words[low:high], z[low:high], phi, masses, alpha, active, present, place, heights)
        for t in range(low, high):
            weights[d, z[t]] += 1.0


@jit
def _draw_weights(key: Any, step: int, seeds: Any, weights: Any, first: int, last: int) -> None:
    """In place of the Dirichlet parameters of documents ``first`` to ``last``, draws."""
    for d in range(first, last):
        s = open_stream(key, step, seeds[d])
        largest = -np.inf
        for k in range(weights.shape[1]):  # logarithms: a small parameter underflows
            shape = weights[d, k]
            weights[d, k] = np.log(gamma(s, shape + 1.0)) + np.log(1.0 - uniform(s)) / shape
            largest = max(largest, weights[d, k])
        total = 0.0
        for k in range(weights.shape[1]):
            weights[d, k] = np.exp(weights[d, k] - largest)
            total += weights[d, k]
        for k in range(weights.shape[1]):
            weights[d, k] /= total


def document_topics(
    draws: np.ndarray, alpha: np.ndarray, documents: Documents, *, seed: int, sweeps: int = SWEEPS,
    skip_sweeps: int = SKIPPED, threads: int | None = None,
) -> np.ndarray:  # fmt: skip
    """Posterior mean topic weights for each draw of the topics: (draw, document, topic)."""
    found = np.empty((len(draws), documents.size, alpha.size))
    for i, topics in enumerate(draws):
        counts = _swept(i, topics, alpha, documents, seed, sweeps, skip_sweeps, None, threads)
        weights = counts / (sweeps - skip_sweeps) + alpha
        found[i] = weights / weights.sum(axis=1, keepdims=True)
    return found


def document_means(
    draws: np.ndarray, alpha: np.ndarray, documents: Documents, *, seed: int, threads: int | None = None
) -> np.ndarray:
    """Posterior mean topic weights, averaged over draws of the topics: documents x topics."""
    return np.asarray(document_topics(draws, alpha, documents, seed=seed, threads=threads).mean(axis=0))


def document_moments(
    draws: np.ndarray, alpha: np.ndarray, documents: Documents, *, seed: int, threads: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means and sds of the topic weights, documents x topics."""
    first, second, inside = (np.zeros((documents.size, alpha.size)) for _ in range(3))
    total = (documents.lengths + alpha.sum())[:, None]
    kept = SWEEPS - SKIPPED
    for i, topics in enumerate(draws):
        squares = np.zeros((documents.size, alpha.size), np.int64)
        counts = _swept(i, topics, alpha, documents, seed, SWEEPS, SKIPPED, squares, threads) / kept
        mean = (counts + alpha) / total
        square = (squares / kept + 2 * alpha * counts + alpha**2) / total**2
        first += mean / len(draws)
        second += square / len(draws)
        inside += (mean - square) / (total + 1) / len(draws)
    return first, np.sqrt(np.maximum(inside + second - first**2, 0.0))


def document_draws(
    draws: np.ndarray, alpha: np.ndarray, documents: Documents, seeds: np.ndarray, *, seed: int,
    threads: int | None = None,
) -> np.ndarray:  # fmt: skip
    """One draw of the topic weights for each draw of the topics: (draw, document, topic).

    ``seeds`` are those of ``apart``: documents with the same words have draws of their own. Assignments go on from one
    draw of the topics to the next, which is near, and begin anew after every ``STRETCH`` draws.
    """
    key, sweeps_key = (stream_key(seed, purpose) for purpose in (Purpose.TRANSFORM_WEIGHTS, Purpose.TRANSFORM_SWEEPS))
    found = np.empty((len(draws), documents.size, alpha.size))
    columns, words = np.unique(documents.token_words(), return_inverse=True)
    starts, z, small = documents.token_starts, np.empty(words.size, np.int32), alpha.astype(np.float32)
    for i, topics in enumerate(draws):
        phi = np.ascontiguousarray(topics[:, columns].T, dtype=np.float32)
        masses, anew = word_masses(phi, small), i % STRETCH == 0
        found[i] = alpha
        over_blocks(
            partial(
                _sweep_on, sweeps_key, i, seeds, starts, words, z, phi, masses, small, FIRST if anew else BETWEEN, anew,
                found[i],
            ),
            documents.size,
            threads,
        )  # fmt: skip
        over_blocks(partial(_draw_weights, key, i, seeds, found[i]), documents.size, threads)
    return found


def in_parts(documents: Documents) -> Iterator[tuple[slice, Documents]]:
    """All documents, some at a time."""
    for first in range(0, documents.size, AT_ONCE):
        where = slice(first, min(first + AT_ONCE, documents.size))
        yield where, documents.take(where)


def _swept(
    number: int, topics: np.ndarray, alpha: np.ndarray, documents: Documents, seed: int, sweeps: int, skip_sweeps: int,
    squares: np.ndarray | None, threads: int | None,
) -> np.ndarray:  # fmt: skip
    """Counts of topics in each document, summed over the sweeps that are counted."""
    phi = np.ascontiguousarray(topics.T, dtype=np.float32)
    return fresh_assignments(
        stream_key(seed, Purpose.TRANSFORM_SWEEPS), number, documents, documents.words, phi, alpha.astype(np.float32),
        sweeps, skip_sweeps, seeds=fingerprints(documents), counted=False, weighed=True,
        squares=squares, threads=threads,
    )[1]  # fmt: skip


def apart(documents: Documents) -> np.ndarray:
    """Fingerprints that tell documents with the same words from each other: the first, the second, ..."""
    found = fingerprints(documents)
    order = np.argsort(found, kind="stable")
    new = np.concatenate([[True], np.diff(found[order]) != 0]) if found.size else np.zeros(0, bool)
    place = np.arange(found.size)
    occurrence = np.empty(found.size, np.uint64)
    occurrence[order] = place - np.maximum.accumulate(np.where(new, place, 0))
    mixed = found.astype(np.uint64) + occurrence * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(2)).astype(np.int64)


def fingerprints(documents: Documents) -> np.ndarray:
    """A number for each document that depends on its words alone."""
    mixed = (documents.words.astype(np.uint64) + 1) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= 2 * documents.numbers.astype(np.uint64) + 1
    sums = np.concatenate([[np.uint64(0)], np.cumsum(mixed, dtype=np.uint64)])
    return ((sums[documents.starts[1:]] - sums[documents.starts[:-1]]) >> np.uint64(2)).astype(np.int64)
