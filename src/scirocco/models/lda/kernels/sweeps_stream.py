"""The local steps of latent Dirichlet allocation: topic assignments of the tokens of documents, in Numba.

Given topics, a token of word w in document d has topic k with probability

    p(k) proportional to (n_dk + alpha_k) phi_wk = n_dk phi_wk + alpha_k phi_wk,

n_dk counting the document's other tokens. The first part runs over the topics present in the document, the second
has sums known for each word: the cost of a token follows the topics of its document more than K (Yao, Mimno and
McCallum 2009 split it like this). Documents are independent given the topics, so threads share them out; each has a
random stream of its own, and all sums are of whole numbers: results do not depend on the threads.

Where assignments are kept, ``sweeps_kept`` looks at all topics of a token, and ``sweeps_proposed`` at two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scirocco.core.compiled import ZERO, fast_sums, inlined, inner, jit
from scirocco.core.random import open_stream, uniform

STRETCH = 16  # topics whose sum is known, so that a search among all can jump


@jit
def touched(words: Any, lookup: Any) -> Any:
    """The distinct words, and where each entry stands among them; ``lookup`` (all -1) is left as it was."""
    columns, places = np.empty(words.size, np.int64), np.empty(words.size, np.int32)
    m = 0
    for j in range(words.size):
        w = words[j]
        if lookup[w] < 0:
            lookup[w], columns[m] = m, w
            m += 1
        places[j] = lookup[w]
    for j in range(m):
        lookup[columns[j]] = -1
    return columns[:m], places


@jit
def word_masses(phi: Any, alpha: Any) -> Any:
    """sum_k alpha_k phi_wk of every word up to the end of each stretch of ``STRETCH`` topics, words x stretches."""
    stretches = -(-phi.shape[1] // STRETCH)
    masses = np.empty((phi.shape[0], stretches), np.float32)
    for w in range(phi.shape[0]):
        total = np.float32(0.0)
        for j in range(stretches):
            for k in range(j * STRETCH, min((j + 1) * STRETCH, alpha.size)):
                total += alpha[k] * phi[w, k]
            masses[w, j] = total
    return masses


@inlined
def pick(heights: Any, n: int, u: Any) -> int:
    """The first of ``n`` cumulative heights above u."""
    k = 0
    while heights[k] <= u and k < n - 1:
        k += 1
    return k


@inlined
def _draw_topic(
    s: Any, phi: Any, w: int, masses: Any, alpha: Any, active: Any, present: Any, m: int, heights: Any
) -> int:
    """A topic for a token of word w, given the ``present`` counts of the ``m`` topics ``active`` in its document."""
    height = np.float32(0.0)
    for j in range(m):
        height += present[j] * phi[w, active[j]]  # no slice of phi: making one costs as much as the draw
        heights[j] = height
    stretches = masses.shape[1]
    u = np.float32(uniform(s)) * (height + masses[w, stretches - 1])
    if u < height:
        return active[pick(heights, m, u)]
    u -= height
    j = ZERO
    while masses[w, j] <= u and j < stretches - 1:
        j += 1
    k, last = j * STRETCH, min((j + 1) * STRETCH, alpha.size) - 1
    if j > 0:
        u -= masses[w, j - 1]
    height = alpha[k] * phi[w, k]
    while height <= u and k < last:
        k += 1
        height += alpha[k] * phi[w, k]
    return k


@inner
def _sweep_document(
    s: Any, words: Any, z: Any, phi: Any, masses: Any, alpha: Any, active: Any, present: Any, place: Any, heights: Any
) -> None:
    """Resample the topics ``z`` of a document's tokens once; ``place`` (all -1) is left as it was."""
    m = ZERO
    for t in range(z.size):
        k = z[t]
        if place[k] < 0:
            place[k], active[m], present[m] = m, k, 1.0
            m += 1
        else:
            present[place[k]] += 1.0
    for t in range(z.size):
        old, w = z[t], words[t]
        i = place[old]
        present[i] -= 1.0
        new = _draw_topic(s, phi, w, masses, alpha, active, present, m, heights)
        if new != old:
            z[t] = new
            if present[i] == 0.0:  # the last token of its topic: the list closes the gap
                m -= 1
                active[i], present[i] = active[m], present[m]
                place[active[i]] = i
                place[old] = -1
            if place[new] < 0:
                place[new], active[m], present[m] = m, new, 0.0
                m += 1
        present[place[new]] += 1.0
    for j in range(m):
        place[active[j]] = -1


@jit
def sweep_fresh(
    key: Any, step: int, first: int, last: int, seeds: Any, starts: Any, words: Any, numbers: Any, phi: Any,
    masses: Any, alpha: Any, sweeps: int, skip_sweeps: int, table: Any, weights: Any, squares: Any, limit: int,
) -> None:  # fmt: skip
    """Gibbs sweeps on documents that come without assignments, given as words with their numbers of occurrences.

    After ``skip_sweeps`` sweeps, each adds the counts of its assignments to ``table`` (words x topics), the documents'
    topic counts to ``weights`` and their squares to ``squares`` (documents x topics); any may be empty. ``seeds`` names
    each document's random stream, so that its result can be made to depend on the document alone. ``limit`` is the most
    tokens.
    """
    topics = phi.shape[1]
    active, place = np.empty(topics, np.int64), np.full(topics, -1)
    present, heights = np.empty(topics, np.float32), np.empty(topics, np.float32)
    tokens, z = np.empty(limit, np.int32), np.empty(limit, np.int64)
    for d in range(first, last):
        s = open_stream(key, step, seeds[d])
        n = 0
        for j in range(starts[d], starts[d + 1]):
            for _ in range(numbers[j]):
                tokens[n] = words[j]
                # A start from the topics alone: the second part of the law, with no other token seen.
                z[n] = _draw_topic(s, phi, words[j], masses, alpha, active, present, ZERO, heights)
                n += 1
        for sweep in range(sweeps):
            _sweep_document(s, tokens[:n], z[:n], phi, masses, alpha, active, present, place, heights)
            if sweep >= skip_sweeps:
                if table.size:
                    for t in range(n):
                        table[tokens[t], z[t]] += 1
                if weights.size:
                    for t in range(n):
                        weights[d, z[t]] += 1
                if squares.size:  # n^2 as the sum of 1, 3, 5, ...
                    for k in range(topics):
                        present[k] = 0.0
                    for t in range(n):
                        squares[d, z[t]] += 2 * np.int64(present[z[t]]) + 1
                        present[z[t]] += 1.0


@fast_sums
def expected_counts(
    first: int, last: int, starts: Any, words: Any, numbers: Any, phi: Any, alpha: Any, rounds: int, table: Any,
    weights: Any,
) -> None:  # fmt: skip
    """The same in expectation, without random numbers: ``rounds`` of the fixed point of each document's weights.

    Used to find good topics quickly, never to sample: the expected assignments go to ``table`` if it is not empty, the
    weights n_dk + alpha_k to ``weights``.
    """
    topics = phi.shape[1]
    near, pull = np.empty(topics, np.float32), np.empty(topics, np.float32)
    for d in range(first, last):
        for k in range(topics):
            near[k] = 1.0
        for turn in range(rounds):
            for k in range(topics):
                pull[k] = 0.0
            for j in range(starts[d], starts[d + 1]):
                w = words[j]
                total = np.float32(0.0)
                for k in range(topics):
                    total += near[k] * phi[w, k]
                scale = np.float32(numbers[j]) / max(total, np.float32(1e-30))
                for k in range(topics):
                    pull[k] += phi[w, k] * scale
                if turn == rounds - 1 and table.size:
                    for k in range(topics):
                        table[w, k] += near[k] * phi[w, k] * scale
            for k in range(topics):
                near[k] = alpha[k] + near[k] * pull[k]
        if weights.size:
            for k in range(topics):
                weights[d, k] = near[k]
