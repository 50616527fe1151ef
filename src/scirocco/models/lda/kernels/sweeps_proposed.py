"""Sweeps over kept assignments whose cost does not depend on the number of topics: topics are proposed, and accepted.

A token of word w in document d has topic k with probability p(k), as in ``sweeps_kept``. In place of all topics two are
looked at, one after the other (the cycle of proposals of Yuan et al. 2015):

    from the document            q(k) proportional to n_dk + e_d        the topic of another of its tokens, or any topic
    from the word, collapsed     q(k) proportional to n_wk + e_w        the same
    from the word, given topics  q(k) proportional to phi_wk
    accepted                     if U p(old) q(new) < p(new) q(old)

n counting the other tokens at this moment, so that each is a Metropolis-Hastings step for exactly p. Another token is
picked by its number, in the document or in the list of the word's tokens (as Chen et al. 2016 do): collapsed there is no
table to be built, and none that gets old. Given topics, documents are swept side by side, and what they propose must not
depend on each other: all proposals of a word are drawn beforehand, from its row of phi. ``e`` is such that any topic is
proposed at most as often as one that is there: with many topics the priors would propose little else, nearly always in
vain.

What a token needs of memory is known some time before, but for what has changed since: all is asked for in advance, in
stretches of ``STRETCH`` tokens.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import uint64

from scirocco.core.compiled import ZERO, inlined, jit
from scirocco.core.random import open_stream
from scirocco.core.random.streams import next_word
from scirocco.models.lda.kernels.vector_draw import prefetch

DOCUMENTS = 64  # that share a random stream, given topics
WORDS = 16  # the same, of proposals
STRETCH = 128  # tokens
INDEX, UNIT = 2.0**-40, 2.0**-24  # of a random word 40 bits say which, 24 whether


@jit
def in_reach(starts: Any, places: Any, limit: int) -> Any:
    """How many tokens of each word come before token ``limit``; ``places`` has the tokens of a word in their order."""
    found = np.empty(starts.size - 1, np.int64)
    for w in range(found.size):
        low, high = starts[w], starts[w + 1]
        while low < high:
            middle = (low + high) // 2
            if places[middle] < limit:
                low = middle + 1
            else:
                high = middle
        found[w] = low - starts[w]
    return found


@inlined
def _spread(prior: float, tokens: int, share: float) -> float:
    """``e`` for so many tokens; ``share`` is one over the number of topics."""
    return min(prior, max(tokens, 1) * share)


@inlined
def _aim(word: Any, tokens: int, spread: float, topics: int) -> int:
    """One of so many tokens, or topic k as ``~k``."""
    height = float(np.int64(word >> uint64(24))) * INDEX * (tokens + spread * topics)
    if height < tokens:
        return np.int64(height)
    return ~min(np.int64((height - tokens) / spread), topics - 1)


@inlined
def _chance(word: Any) -> float:
    """A number below 1 out of the bits that ``_aim`` leaves."""
    return float(np.int64(word & uint64(0xFFFFFF))) * UNIT


@inlined
def _open_document(near: Any, z: Any, low: int, high: int) -> None:
    for t in range(low, high):
        near[z[t]] += np.float32(1.0)


@inlined
def _close_document(near: Any, z: Any, low: int, high: int) -> None:
    for t in range(low, high):
        near[z[t]] = np.float32(0.0)


@inlined
def _level(alpha: Any, topics: int) -> float:
    total = 0.0
    for k in range(topics):
        total += alpha[k]
    return total / topics


@jit
def sweep_collapsed(
    key: Any, step: int, block: int, begin: int, end: int, starts: Any, words: Any, z: Any, seen: Any, word_starts: Any,
    places: Any, limit: int, counts: Any, totals: Any, alpha: Any, beta: Any, topics: int, fresh: bool,
) -> int:  # fmt: skip
    """Documents ``begin`` to ``end``, in order, of which those before token ``limit`` have topics; how many moved.

    The tokens of word w are ``places[word_starts[w] : word_starts[w + 1]]``; their topics are looked up in ``seen``,
    which is ``z`` unless other blocks change that. ``fresh`` documents have no topics yet: each token gets one given
    those that have one by then, as a start.
    """
    share, level, beta_sum = 1.0 / topics, _level(alpha, topics), 0.0
    for w in range(beta.size):
        beta_sum += beta[w]
    near, sizes = np.zeros(topics, np.float32), np.empty(topics)
    for k in range(topics):
        sizes[k] = totals[k] + beta_sum
    reach = in_reach(word_starts, places, starts[begin] if fresh else limit)
    s = open_stream(key, step, block)
    aims, chances = np.empty((2, STRETCH), np.int64), np.empty((2, STRETCH))
    tokens, spreads = np.empty((2, STRETCH), np.int64), np.empty((2, STRETCH))
    seen_row, places_row = seen.reshape(1, seen.size), places.reshape(1, places.size)
    d, moved, reached = begin, ZERO, begin
    for first in range(starts[begin], starts[end], STRETCH):
        last = min(first + STRETCH, starts[end])
        for t in range(first, last):
            while t >= starts[reached + 1]:
                reached += 1
            i, w, low = t - first, np.int64(words[t]), starts[reached]
            tokens[0, i] = (t if fresh else starts[reached + 1]) - low
            tokens[1, i] = reach[w]
            reach[w] += fresh
            prefetch(counts, w, np.int64(z[t]))
            for turn in range(2):
                spread = _spread(beta[w] if turn else level, tokens[turn, i], share)
                word = next_word(s)
                aim = _aim(word, tokens[turn, i], spread, topics)
                spreads[turn, i], chances[turn, i] = spread, _chance(word)
                if aim < 0:
                    prefetch(counts, w, ~aim)
                elif turn:
                    aim += word_starts[w]
                    prefetch(places_row, 0, aim)
                else:
                    aim += low
                    prefetch(counts, w, np.int64(z[aim]))
                aims[turn, i] = aim
        for i in range(last - first):
            if aims[1, i] >= 0:
                aims[1, i] = places[aims[1, i]]
                prefetch(seen_row, 0, aims[1, i])
        for i in range(last - first):
            if aims[1, i] >= 0:
                prefetch(counts, np.int64(words[first + i]), np.int64(seen[aims[1, i]]))
        for t in range(first, last):
            while t >= starts[d + 1]:
                d += 1
            if t == starts[d] and not fresh:
                _open_document(near, z, t, starts[d + 1])
            i, w = t - first, np.int64(words[t])
            if fresh:
                old = k = np.int64(seen[aims[1, i]]) if aims[1, i] >= 0 else ~aims[1, i]
            else:
                old = k = np.int64(z[t])
                near[k] -= np.float32(1.0)
                counts[w, k] -= 1
                sizes[k] -= 1.0
            here, there = float(near[k]), float(counts[w, k])
            for turn in range(2):
                aim, spread = aims[turn, i], spreads[turn, i]
                if aim == t:
                    continue
                new = ~aim if aim < 0 else np.int64(seen[aim] if turn else z[aim])
                if new == k:
                    continue
                here_new, there_new = float(near[new]), float(counts[w, new])
                stay = (here + alpha[k]) * (there + beta[w]) * sizes[new]
                go = (here_new + alpha[new]) * (there_new + beta[w]) * sizes[k]
                if turn:
                    stay, go = stay * (there_new + spread), go * (there + spread)
                else:
                    stay, go = stay * (here_new + spread), go * (here + spread)
                if chances[turn, i] * stay < go:
                    k, here, there = new, here_new, there_new
            z[t] = k
            moved += k != old
            near[k] += np.float32(1.0)
            counts[w, k] += 1
            sizes[k] += 1.0
            if t + 1 == starts[d + 1]:
                _close_document(near, z, starts[d], t + 1)
    for k in range(topics):
        totals[k] = np.int64(np.rint(sizes[k] - beta_sum))
    return moved


@inlined
def _cut(row: Any, heights: Any, cuts: Any, topics: int) -> None:
    """Cumulative heights of a row, up to 1, and for each of as many equal steps up the first topic that is above."""
    total = 0.0
    for k in range(topics):
        total += row[k]
        heights[k] = total
    j = ZERO
    for k in range(topics):
        heights[k] /= total
        while j < topics and heights[k] * topics > j:
            cuts[j] = k
            j += 1
    for i in range(j, topics):
        cuts[i] = topics - 1


@jit
def propose(
    key: Any, step: int, first: int, last: int, word_starts: Any, places: Any, lows: Any, highs: Any, phi: Any,
    topics: int, offset: int, proposed: Any,
) -> None:  # fmt: skip
    """A topic for each token of words in blocks ``first`` to ``last``, drawn from the word's row of ``phi``.

    Of word w the tokens from number ``lows[w]`` to ``highs[w]`` in its list; that of token t goes to
    ``proposed[t - offset]``.
    """
    heights, cuts = np.empty(topics), np.empty(topics, np.int64)
    for block in range(first, last):
        s = open_stream(key, step, block)
        for w in range(block * WORDS, min((block + 1) * WORDS, lows.size)):
            if lows[w] == highs[w]:
                continue
            _cut(phi[w], heights, cuts, topics)
            for j in range(word_starts[w] + lows[w], word_starts[w] + highs[w]):
                u = float(np.int64(next_word(s) >> uint64(11))) * 2.0**-53
                k = cuts[np.int64(u * topics)]
                while heights[k] <= u and k < topics - 1:
                    k += 1
                proposed[places[j] - offset] = k


@jit
def sweep_given(
    key: Any, step: int, first: int, last: int, begin: int, end: int, starts: Any, words: Any, z: Any, proposed: Any,
    phi: Any, alpha: Any, topics: int,
) -> None:  # fmt: skip
    """Documents ``begin`` to ``end`` given topics (words x topics): blocks ``first`` to ``last`` of them.

    ``proposed`` has a topic for each token, drawn from its word's row of ``phi``.
    """
    share, level, offset = 1.0 / topics, _level(alpha, topics), starts[begin]
    near = np.zeros(topics, np.float32)
    aims, chances, spreads = np.empty(STRETCH, np.int64), np.empty((2, STRETCH)), np.empty(STRETCH)
    for block in range(first, last):
        s = open_stream(key, step, block)
        d = reached = begin + block * DOCUMENTS
        stop = starts[min(end, d + DOCUMENTS)]
        for low in range(starts[d], stop, STRETCH):
            high = min(low + STRETCH, stop)
            for t in range(low, high):
                while t >= starts[reached + 1]:
                    reached += 1
                i, w = t - low, np.int64(words[t])
                tokens = starts[reached + 1] - starts[reached]
                spreads[i] = _spread(level, tokens, share)
                word = next_word(s)
                aim = _aim(word, tokens, spreads[i], topics)
                aims[i] = aim if aim < 0 else aim + starts[reached]
                chances[0, i], chances[1, i] = _chance(word), _chance(next_word(s))
                prefetch(phi, w, np.int64(z[t]))
                prefetch(phi, w, ~aim if aim < 0 else np.int64(z[aims[i]]))
            for t in range(low, high):
                while t >= starts[d + 1]:
                    d += 1
                if t == starts[d]:
                    _open_document(near, z, t, starts[d + 1])
                i, w, k = t - low, np.int64(words[t]), np.int64(z[t])
                near[k] -= np.float32(1.0)
                here, aim = float(near[k]), aims[i]
                new = k if aim == t else ~aim if aim < 0 else np.int64(z[aim])
                if new != k:
                    here_new, spread = float(near[new]), spreads[i]
                    stay = (here + alpha[k]) * phi[w, k] * (here_new + spread)
                    go = (here_new + alpha[new]) * phi[w, new] * (here + spread)
                    if chances[0, i] * stay < go:
                        k, here = new, here_new
                new = np.int64(proposed[t - offset])
                if chances[1, i] * (here + alpha[k]) < near[new] + alpha[new]:
                    k = new
                z[t] = k
                near[k] += np.float32(1.0)
                if t + 1 == starts[d + 1]:
                    _close_document(near, z, starts[d], t + 1)
