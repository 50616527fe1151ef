"""Many gamma draws at once, for the arrays that the samplers advance: about twice as fast as one at a time.

Random words are made in one go, so that the draws do not wait for the generator; entries are sorted into lists by the
method that their shape needs; and the exponentials are computed by a polynomial over a whole list, which the compiler
turns into vector instructions. The methods are those of ``scirocco.core.random.draws``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import float64, int64, uint64
from numba.extending import intrinsic

from scirocco.core.compiled import BLOCK, ZERO, inner
from scirocco.core.random.draws import SMALL_SHAPE, exponential, exponential_from, normal_from, uniform_from

_ROUND = 1.5 * 2.0**52  # adding it rounds to a whole number, which the low bits of the sum then hold
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_LEAST = -708.0  # exp of less is not a normal number: zero


def _same_bits(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.bitcast(args[0], context.get_value_type(signature.return_type))


@intrinsic
def _number(context: Any, bits: Any) -> Any:
    """The number that has these bits; a view of the array would say the same, but takes long to compile."""
    return float64(bits), _same_bits


@intrinsic
def _bits(context: Any, number: Any) -> Any:
    """The inverse of ``_number``."""
    return int64(float64), _same_bits


@inner
def workspace() -> Any:
    """Scratch space for ``BLOCK`` entries: random words, lists of entries, numbers.

    ``gammas`` leaves the last list and row 5 of the numbers alone.
    """
    return np.empty(2 * BLOCK, np.uint64), np.empty((4, BLOCK + 1), np.int64), np.empty((7, BLOCK + 1), np.float64)


@inner
def fill_words(s: Any, words: Any, n: int) -> None:
    """``next_word`` n times, with the state in registers."""
    s0, s1, s2, s3 = s[0], s[1], s[2], s[3]
    for j in range(n):
        total = s0 + s3
        words[j] = ((total << uint64(23)) | (total >> uint64(41))) + s0
        shifted = s1 << uint64(17)
        s2 ^= s0
        s3 ^= s1
        s1 ^= s2
        s0 ^= s3
        s2 ^= shifted
        s3 = (s3 << uint64(45)) | (s3 >> uint64(19))
    s[0], s[1], s[2], s[3] = s0, s1, s2, s3


@inner
def exponentials_of(t: Any, scratch: Any, n: int) -> None:
    """``t[:n] = exp(t[:n])`` to the last bit or two, for t < 708: 2^k times a Taylor polynomial of the rest."""
    for j in range(n):
        x = max(t[j], _LEAST)
        scratch[j] = x * 1.4426950408889634 + _ROUND
        k = scratch[j] - _ROUND
        r = (x - k * _LN2_HIGH) - k * _LN2_LOW
        p = 1 / 6227020800.0
        p = p * r + 1 / 479001600.0
        p = p * r + 1 / 39916800.0
        p = p * r + 1 / 3628800.0
        p = p * r + 1 / 362880.0
        p = p * r + 1 / 40320.0
        p = p * r + 1 / 5040.0
        p = p * r + 1 / 720.0
        p = p * r + 1 / 120.0
        p = p * r + 1 / 24.0
        p = p * r + 1 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        t[j] = p if t[j] >= _LEAST else 0.0
    for j in range(n):
        t[j] *= _number((_bits(scratch[j]) + 1023) << 52)


@inner
def fill_uniforms(s: Any, words: Any, u: Any, n: int) -> None:
    """n uniform numbers on (0, 1): 52 bits become the fraction of a number in [1, 2)."""
    fill_words(s, words, n)
    for j in range(n):
        u[j] = _number((words[j] >> uint64(12)) | uint64(0x3FF0000000000000)) - (1.0 - 2.0**-53)


@inner
def _small(s: Any, shape: Any, entries: Any, m: int, out: Any, work: Any) -> None:
    """Gammas of shapes below ``SMALL_SHAPE``, ``shape[j]`` for entry ``entries[j]``; those refused are tried again."""
    words, lists, numbers = work
    doubtful, x, scratch, bound, u = lists[2], numbers[2], numbers[3], numbers[4], numbers[6]
    while m > 0:
        fill_words(s, words, m)
        for j in range(m):
            x[j] = exponential_from(s, words[j])
        fill_uniforms(s, words, u, m)
        for j in range(m):
            positive = math.e * (1.0 - shape[j])
            u[j] *= positive + shape[j]
            bound[j] = positive
            x[j] /= -shape[j] if u[j] < positive else 1.0 - shape[j]
        exponentials_of(x, scratch, m)
        unsure = ZERO
        for j in range(m):
            out[entries[j]] = x[j]
            doubtful[unsure] = j
            unsure += u[j] >= bound[j] * (1.0 - x[j])
        m = ZERO
        for k in range(unsure):
            j = doubtful[k]
            if u[j] < bound[j]:
                refused = u[j] >= bound[j] * math.exp(-x[j])
            else:
                refused = u[j] - bound[j] >= shape[j] * math.exp(1.0 - x[j]) * x[j]
            entries[m], shape[m] = entries[j], shape[j]
            m += refused


@inner
def _from_one(s: Any, shape: Any, entries: Any, m: int, out: Any, work: Any) -> None:
    """Gammas of larger shapes; those below 1 are raised by 1 and brought back by U^(1/a)."""
    words = work[0]
    while m > 0:
        fill_words(s, words, 2 * m)
        left = ZERO
        for j in range(m):
            a = shape[j]
            d = a + (2.0 / 3.0 if a < 1.0 else -1.0 / 3.0)
            x = normal_from(s, words[2 * j])
            v = 1.0 + x / math.sqrt(9.0 * d)
            v = v * v * v
            u = uniform_from(words[2 * j + 1])
            out[entries[j]] = d * v
            if u >= 1.0 - 0.0331 * (x * x) * (x * x) and (
                v <= 0.0 or math.log(u) >= 0.5 * x * x + d * (1.0 - v + math.log(v))
            ):
                entries[left], shape[left] = entries[j], a
                left += 1
            elif a < 1.0:
                out[entries[j]] *= math.exp(-exponential(s) / a)
        m = left


@inner
def gammas(s: Any, shape: Any, out: Any, n: int, work: Any) -> None:
    """``out[i]`` ~ Gamma(shape[i], 1) for i < n <= BLOCK; shape 0 gives 0, a negative one NaN."""
    _, lists, numbers = work
    small, other = lists[0], lists[1]
    m, k = ZERO, ZERO
    for i in range(n):
        a = shape[i]
        small[m], numbers[0, m] = i, a
        other[k], numbers[1, k] = i, a
        m += (a > 0.0) & (a < SMALL_SHAPE)
        k += a >= SMALL_SHAPE
    if m + k < n:
        for i in range(n):
            out[i] = 0.0 if shape[i] == 0.0 else math.nan
    _small(s, numbers[0], small, m, out, work)
    _from_one(s, numbers[1], other, k, out, work)
