"""Sweeps over kept assignments that look at all topics of every token, in vector instructions (``vector_draw``).

    given topics    p(k) proportional to (n_dk + alpha_k) phi_wk
    collapsed       p(k) proportional to (n_dk + alpha_k) s_k (n_wk + beta_w) / (n_k + sum beta)

n counting all other tokens, and s being 1, or the share of a group of words, over which sums go then (``cells``). Two
documents advance side by side, so that one is computed while the other waits for memory. Given topics they are
independent. Collapsed they are not: both tokens are taken out, their topics are drawn independently, and the pair is
accepted with the ratio of its joint law to that product, which differs from 1 only where both take the same topic:

    r(k, k') = (n_k + B)/(n_k + B + 1) (1 + [w = w'] / (n_wk + beta_w)) if k = k', else 1;   accept if U r(old) < r(new)

Weights are numbers of single precision and uniforms have 24 bits: probabilities are right to about 1 in 10^7 of the
largest, and n_dk + alpha_k to 1 in 10^7 of n_dk's largest value in the sweep.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import uint64

from scirocco.core.compiled import ZERO, inlined
from scirocco.core.random import open_stream
from scirocco.core.random.streams import next_word
from scirocco.models.lda.kernels.vector_draw import LINE, kernel, make_draw, prefetch

DOCUMENTS = 64  # that share a random stream
AHEAD = 4  # tokens between asking for a word's row and using it
ONE, UNIT = np.float32(1.0), np.float32(2.0**-24)

draw_one_given, draw_two_given = (make_draw(n, collapsed=False) for n in (1, 2))
draw_one_collapsed, draw_two_collapsed = (make_draw(n, collapsed=True) for n in (1, 2))


@inlined
def _two_uniforms(s: Any) -> Any:
    """Two numbers of 24 bits out of one word."""
    word = next_word(s)
    high, low = word >> uint64(40), (word >> uint64(16)) & uint64(0xFFFFFF)
    return np.float32(np.int64(high)) * UNIT, np.float32(np.int64(low)) * UNIT


@inlined
def _ask_for(table: Any, words: Any, t: int) -> None:
    """The row of the word that comes some tokens later."""
    w = np.int64(words[min(t + AHEAD, words.size - 1)])
    for column in range(0, table.shape[1], LINE):
        prefetch(table, w, column)


@inlined
def _add_tokens(near: Any, i: int, z: Any, low: int, high: int) -> None:
    """The topics of some tokens of a document."""
    for t in range(low, high):
        near[i, z[t]] += ONE


@inlined
def _open_document(near: Any, i: int, alpha: Any, z: Any, low: int, high: int) -> None:
    """n_dk + alpha_k of a document, as row i."""
    for k in range(alpha.size):
        near[i, k] = alpha[k]
    _add_tokens(near, i, z, low, high)


@inlined
def _open_cell(near: Any, i: int, alpha: Any, z: Any, known: Any, d: int, wanted: bool, fresh: bool) -> None:
    """The same with the tokens of document d that have topics, if it is ``wanted``."""
    if wanted:
        _open_document(near, i, alpha, z, known[0][d], known[1][d])
        if fresh:
            _add_tokens(near, i, z, known[2][d], known[3][d])


@inlined
def _take_over(near: Any) -> None:
    """The second document in the first one's place; Numba would compile two seconds for a row assigned to a row."""
    for k in range(near.shape[1]):
        near[0, k] = near[1, k]


@kernel
def sweep_given(
    key: Any, step: int, first: int, last: int, begin: int, end: int, starts: Any, words: Any, z: Any, phi: Any,
    alpha: Any, topics: int,
) -> None:  # fmt: skip
    """Documents ``begin`` to ``end`` given topics (words x topics, padded): blocks ``first`` to ``last`` of them."""
    near, heights = np.zeros((2, phi.shape[1]), np.float32), np.zeros((2, phi.shape[1]), np.float32)
    none, zero = np.zeros(1, np.float32), np.float32(0.0)
    for block in range(first, last):
        s = open_stream(key, step, block)
        d, stop = begin + block * DOCUMENTS, min(end, begin + (block + 1) * DOCUMENTS)
        t0 = e0 = t1 = e1 = ZERO
        while True:
            while t0 >= e0 and d < stop:
                t0, e0 = starts[d], starts[d + 1]
                _open_document(near, 0, alpha, z, t0, e0)
                d += 1
            while t1 >= e1 and d < stop:
                t1, e1 = starts[d], starts[d + 1]
                _open_document(near, 1, alpha, z, t1, e1)
                d += 1
            both = min(e0 - t0, e1 - t1)
            if both <= 0:
                break
            for _ in range(both):
                w0, w1, k0, k1 = np.int64(words[t0]), np.int64(words[t1]), np.int64(z[t0]), np.int64(z[t1])
                _ask_for(phi, words, t0)
                _ask_for(phi, words, t1)
                near[0, k0] -= ONE
                near[1, k1] -= ONE
                n0, n1 = draw_two_given(near, none, phi, (w0, w1), (zero, zero), heights, _two_uniforms(s))
                n0, n1 = n0 if n0 < topics else k0, n1 if n1 < topics else k1
                z[t0], z[t1] = n0, n1
                near[0, n0] += ONE
                near[1, n1] += ONE
                t0 += 1
                t1 += 1
        if t1 < e1:  # what is left of the last document
            _take_over(near)
            t0, e0 = t1, e1
        for t in range(t0, e0):
            w, old = np.int64(words[t]), np.int64(z[t])
            near[0, old] -= ONE
            new = draw_one_given(near, none, phi, (w,), (zero,), heights, (_two_uniforms(s)[0],))[0]
            new = new if new < topics else old
            z[t] = new
            near[0, new] += ONE


@inlined
def _shift(
    near: Any, i: int, counts: Any, totals: Any, shares: Any, scales: Any, w: int, k: int, step: int, beta_sum: Any
) -> None:  # fmt: skip
    """Take a token out (``step`` -1) or put it in (1)."""
    near[i, k] += np.float32(step)
    counts[w, k] += np.int32(step)
    totals[k] += step
    scales[k] = shares[k] / (np.float32(totals[k]) + beta_sum)


@inlined
def _joint(counts: Any, totals: Any, w0: int, w1: int, k0: int, k1: int, beta: Any, beta_sum: Any) -> Any:
    """The joint law of two topics over the product of their own, both tokens out."""
    if k0 != k1:
        return ONE
    ratio = ONE - ONE / (np.float32(totals[k0]) + ONE + beta_sum)
    if w0 == w1:
        ratio *= ONE + ONE / (np.float32(counts[w0, k0]) + beta)
    return ratio


@kernel
def sweep_collapsed(
    key: Any, step: int, block: int, begin: int, end: int, cell: Any, known: Any, words: Any, z: Any, counts: Any,
    totals: Any, shares: Any, alpha: Any, beta: Any, beta_sum: Any, topics: int, fresh: bool,
) -> int:  # fmt: skip
    """Documents ``begin`` to ``end``, in order, of each the tokens ``cell[0][d]`` to ``cell[1][d]``; how many pairs
    were refused.

    The words of these tokens are a group (``cells``), of which topics have ``shares``; ``totals`` and ``beta_sum`` are
    sums over it. A document's tokens that have topics are those from ``known[0][d]`` to ``known[1][d]`` and from
    ``known[2][d]`` to ``known[3][d]``. ``fresh`` ones have none: each gets one given those that have one by then.
    """
    near, heights = np.zeros((2, counts.shape[1]), np.float32), np.zeros((2, counts.shape[1]), np.float32)
    scales = np.zeros(counts.shape[1], np.float32)
    for k in range(topics):
        scales[k] = shares[k] / (np.float32(totals[k]) + beta_sum)
    s = open_stream(key, step, block)
    d, refused = begin, ZERO
    t0 = e0 = t1 = e1 = ZERO
    while True:
        while t0 >= e0 and d < end:
            t0, e0 = np.int64(cell[0][d]), np.int64(cell[1][d])
            _open_cell(near, 0, alpha, z, known, d, t0 < e0, fresh)
            d += 1
        while t1 >= e1 and d < end:
            t1, e1 = np.int64(cell[0][d]), np.int64(cell[1][d])
            _open_cell(near, 1, alpha, z, known, d, t1 < e1, fresh)
            d += 1
        both = min(e0 - t0, e1 - t1)
        if both <= 0:
            break
        for _ in range(both):
            w0, w1, k0, k1 = np.int64(words[t0]), np.int64(words[t1]), np.int64(z[t0]), np.int64(z[t1])
            _ask_for(counts, words, t0)
            _ask_for(counts, words, t1)
            if not fresh:
                _shift(near, 0, counts, totals, shares, scales, w0, k0, -1, beta_sum)
                _shift(near, 1, counts, totals, shares, scales, w1, k1, -1, beta_sum)
            betas = (beta[w0], beta[w1])
            n0, n1 = draw_two_collapsed(near, scales, counts, (w0, w1), betas, heights, _two_uniforms(s))
            n0, n1 = n0 if n0 < topics else k0, n1 if n1 < topics else k1
            if not fresh and (n0 == n1 or k0 == k1):
                before = _joint(counts, totals, w0, w1, k0, k1, beta[w0], beta_sum)
                after = _joint(counts, totals, w0, w1, n0, n1, beta[w0], beta_sum)
                if after < before and _two_uniforms(s)[0] * before >= after:
                    n0, n1 = k0, k1
                    refused += 1
            z[t0], z[t1] = n0, n1
            _shift(near, 0, counts, totals, shares, scales, w0, n0, 1, beta_sum)
            _shift(near, 1, counts, totals, shares, scales, w1, n1, 1, beta_sum)
            t0 += 1
            t1 += 1
    if t1 < e1:  # what is left of the last document
        _take_over(near)
        t0, e0 = t1, e1
    for t in range(t0, e0):
        w, old = np.int64(words[t]), np.int64(z[t])
        if not fresh:
            _shift(near, 0, counts, totals, shares, scales, w, old, -1, beta_sum)
        uniform = _two_uniforms(s)[0]
        new = draw_one_collapsed(near, scales, counts, (w,), (beta[w],), heights, (uniform,))[0]
        new = new if new < topics else old
        z[t] = new
        _shift(near, 0, counts, totals, shares, scales, w, new, 1, beta_sum)
    return refused
