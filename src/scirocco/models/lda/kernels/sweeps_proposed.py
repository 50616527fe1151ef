"""Sweeps over kept assignments whose cost does not depend on the number of topics: topics are proposed, and accepted.

A token of word w in document d has topic k with probability p(k), as in ``sweeps_kept``. In place of all topics two are
looked at, one after the other (the cycle of proposals of Yuan et al. 2015):

    from the document            q(k) proportional to n_dk + e_d        the topic of another of its tokens, or any topic
    from the word, collapsed     q(k) proportional to n_wk + e_w        the same
    from the word, given topics  q(k) proportional to phi_wk
    accepted                     if U p(old) q(new) < p(new) q(old)

n counting the other tokens at this moment, so that each is a Metropolis-Hastings step for exactly p. Another token is
picked by its number, in the document or in the list of the word's tokens (as Chen et al. 2016 do): collapsed there is
no table to be built, and none that gets old. Given topics, documents are swept side by side, and what they propose must
not depend on each other: all proposals of a word are drawn beforehand, from its row of phi. ``e`` is such that any
topic is proposed at most as often as one that is there: with many topics the priors would propose little else, nearly
always in vain.

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
def _aim(word: Any, tokens: int, spread: float, topics: int) -> Any:
    """One of so many tokens, or topic k as ``~k``."""
    height = float(np.int64(word >> uint64(24))) * INDEX * (tokens + spread * topics)
    if height < tokens:
        return np.int64(height)
    k: Any = np.int64((height - tokens) / spread)
    return ~min(k, topics - 1)


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


@inlined
def _look_ahead(
    s: Any, first: int, last: int, d: int, starts: Any, words: Any, z: Any, word_starts: Any, places: Any, reach: Any,
    counts: Any, level: float, beta: Any, topics: int, fresh: bool, aims: Any, chances: Any, spreads: Any,
) -> int:  # fmt: skip
    """What tokens ``first`` to ``last`` propose, by the document and by the word; the document of the last."""
    share, row, shelf = 1.0 / topics, z.reshape(1, z.size), places.reshape(1, places.size)
    for t in range(first, last):
        while t >= starts[d + 1]:
            d += 1
        i, w, low = t - first, np.int64(words[t]), starts[d]
        prefetch(counts, w, np.int64(z[t]))
        tokens = (t if fresh else starts[d + 1]) - low
        word, spreads[0, i] = next_word(s), _spread(level, tokens, share)
        aim = _aim(word, tokens, spreads[0, i], topics)
        aims[0, i], chances[0, i] = aim if aim < 0 else low + aim, _chance(word)
        prefetch(counts, w, ~aim if aim < 0 else np.int64(z[low + aim]))
        word, spreads[1, i] = next_word(s), _spread(beta[w], reach[w], share)
        aim = _aim(word, reach[w], spreads[1, i], topics)
        aims[1, i], chances[1, i] = aim if aim < 0 else word_starts[w] + aim, _chance(word)
        if aim >= 0:
            prefetch(shelf, 0, aims[1, i])
        reach[w] += fresh
    for i in range(last - first):
        if aims[1, i] >= 0:
            aims[1, i] = places[aims[1, i]]
            prefetch(row, 0, aims[1, i])
    for i in range(last - first):
        aim = aims[1, i]
        prefetch(counts, np.int64(words[first + i]), ~aim if aim < 0 else np.int64(z[aim]))
    return d


@inlined
def _topic(aim: Any, z: Any, t: int, k: Any) -> Any:
    """What is proposed for token t, whose topic is k."""
    return ~aim if aim < 0 else k if aim == t else np.int64(z[aim])


@jit
def sweep_collapsed(
    key: Any, step: int, begin: int, end: int, starts: Any, words: Any, z: Any, word_starts: Any, places: Any,
    counts: Any, totals: Any, alpha: Any, beta: Any, topics: int, fresh: bool,
) -> None:  # fmt: skip
    """Documents ``begin`` to ``end``, in order.

    The tokens of word w are ``places[word_starts[w] : word_starts[w + 1]]``. ``fresh`` documents, and those after
    them, have no topics yet: each token gets one given those that have one by then, as a start.
    """
    level, beta_sum, near, sizes = _level(alpha, topics), beta.sum(), np.zeros(topics, np.float32), np.empty(topics)
    for j in range(topics):
        sizes[j] = totals[j] + beta_sum
    reach = in_reach(word_starts, places, starts[begin if fresh else starts.size - 1])
    s = open_stream(key, step, ZERO)
    aims, chances, spreads = np.empty((2, STRETCH), np.int64), np.empty((2, STRETCH)), np.empty((2, STRETCH))
    d = ahead = begin
    for first in range(starts[begin], starts[end], STRETCH):
        last = min(first + STRETCH, starts[end])
        ahead = _look_ahead(
            s, first, last, ahead, starts, words, z, word_starts, places, reach, counts, level, beta, topics, fresh,
            aims, chances, spreads,
        )  # fmt: skip
        for t in range(first, last):
            while t >= starts[d + 1]:
                d += 1
            if t == starts[d]:
                _open_document(near, z, t, t if fresh else starts[d + 1])
            i, w, b = t - first, np.int64(words[t]), beta[words[t]]
            k = _topic(aims[1, i], z, t, ZERO) if fresh else np.int64(z[t])
            if not fresh:
                near[k] -= np.float32(1.0)
                counts[w, k] -= 1
                sizes[k] -= 1.0
            here, there = float(near[k]), float(counts[w, k])
            for turn in range(2):
                new, spread = _topic(aims[turn, i], z, t, k), spreads[turn, i]
                here_new, there_new = float(near[new]), float(counts[w, new])
                stay = (here + alpha[k]) * (there + b) * sizes[new]
                go = (here_new + alpha[new]) * (there_new + b) * sizes[k]
                stay *= (there_new if turn else here_new) + spread
                go *= (there if turn else here) + spread
                if chances[turn, i] * stay < go:
                    k, here, there = new, here_new, there_new
            z[t] = k
            near[k] += np.float32(1.0)
            counts[w, k] += 1
            sizes[k] += 1.0
            if t + 1 == starts[d + 1]:
                _close_document(near, z, starts[d], t + 1)
    for k in range(topics):
        totals[k] = np.int64(np.rint(sizes[k] - beta_sum))


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
                new, here, spread = _topic(aims[i], z, t, k), float(near[k]), spreads[i]
                here_new = float(near[new])
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
