"""Draws from the laws that the samplers need, for compiled code: each takes an open stream as its first argument.

    normal, exponential     ziggurats of 256 layers (Marsaglia and Tsang 2000)
    gamma, shape >= 1       squeeze and rejection from a cubed normal (Marsaglia and Tsang 2000)
    gamma, shape < 0.3      rejection for -a log X, which needs no normal (Liu, Martin and Syring 2017)
    gamma, 0.3 to 1         Gamma(a + 1) U^(1/a)
    poisson, mean < 10      inversion; above, transformed rejection (Hoermann 1993); above 10^8, see ``poisson_from``

Small shapes give small numbers: Gamma(a) lies below 10^-308 with probability about 10^(-308 a) and is then 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import uint64

from scirocco.core.compiled import inlined, inner
from scirocco.core.random.streams import next_word

LAYERS = 256


def _ziggurat(edge: float, area: float, density: Callable[[float], float], inverse: Callable[[float], float]) -> Any:
    """Widths and heights of layers of equal area; the lowest holds the tail beyond ``edge``."""
    x = [area / density(edge), edge]
    for _ in range(LAYERS - 2):
        x.append(inverse(min(1.0, area / x[-1] + density(x[-1]))))
    x.append(0.0)
    widths = np.array(x)
    return widths, np.array([density(w) for w in x])


def _bell(x: float) -> float:
    return math.exp(-x * x / 2)


def _decay(x: float) -> float:
    return math.exp(-x)


NORMAL_EDGE = 3.6541528853610088
NORMAL_AREA = NORMAL_EDGE * _bell(NORMAL_EDGE) + math.sqrt(math.pi / 2) * math.erfc(NORMAL_EDGE / math.sqrt(2))
NORMAL_X, NORMAL_Y = _ziggurat(NORMAL_EDGE, NORMAL_AREA, _bell, lambda y: math.sqrt(-2 * math.log(y)))
EXPONENTIAL_EDGE = 7.69711747013104972
EXPONENTIAL_AREA = (EXPONENTIAL_EDGE + 1) * _decay(EXPONENTIAL_EDGE)
EXPONENTIAL_X, EXPONENTIAL_Y = _ziggurat(EXPONENTIAL_EDGE, EXPONENTIAL_AREA, _decay, lambda y: -math.log(y))

SMALL_SHAPE = 0.3  # below, the method for small shapes is the faster one
LARGE_MEAN = 1e8
MANY = 100  # a Poisson with mean below 10 never gets here
RECIPROCALS = np.array([0.0] + [1 / k for k in range(1, MANY + 1)])
LOG_FACTORIALS = np.array([math.lgamma(k + 1) for k in range(64)])


@inlined
def uniform_from(word: Any) -> float:
    """Uniform on the open interval (0, 1) from 64 random bits."""
    return (float(np.int64(word >> uint64(12))) + 0.5) * 2.0**-52  # signed: the conversion is one instruction


@inlined
def _point(word: Any, widths: Any) -> Any:
    """A layer of a ziggurat and a point within its width."""
    layer = np.int64(word & uint64(LAYERS - 1))
    return layer, float(np.int64(word >> uint64(11))) * 2.0**-53 * widths[layer]


@inner
def _normal_beyond(s: Any, layer: int, x: float) -> float:
    """|normal| from a point that is not surely under the curve: the test, the tail, or another try."""
    while True:
        if layer == 0:
            while True:
                beyond = -math.log(uniform(s)) / NORMAL_EDGE
                if -2.0 * math.log(uniform(s)) > beyond * beyond:
                    return NORMAL_EDGE + beyond
        if NORMAL_Y[layer] + uniform(s) * (NORMAL_Y[layer + 1] - NORMAL_Y[layer]) < math.exp(-0.5 * x * x):
            return x
        layer, x = _point(next_word(s), NORMAL_X)
        if x < NORMAL_X[layer + 1]:
            return x


@inlined
def normal_from(s: Any, word: Any) -> float:
    """Standard normal from 64 random bits; rarely, from more of the stream."""
    layer, x = _point(word, NORMAL_X)
    x = x if x < NORMAL_X[layer + 1] else _normal_beyond(s, layer, x)
    return -x if word & uint64(LAYERS) else x


@inner
def _exponential_beyond(s: Any, layer: int, x: float) -> float:
    while True:
        if layer == 0:
            return EXPONENTIAL_EDGE - math.log(uniform(s))
        low, high = EXPONENTIAL_Y[layer], EXPONENTIAL_Y[layer + 1]
        if low + uniform(s) * (high - low) < math.exp(-x):
            return x
        layer, x = _point(next_word(s), EXPONENTIAL_X)
        if x < EXPONENTIAL_X[layer + 1]:
            return x


@inlined
def exponential_from(s: Any, word: Any) -> float:
    """Exponential with mean 1 from 64 random bits; rarely, from more of the stream."""
    layer, x = _point(word, EXPONENTIAL_X)
    return x if x < EXPONENTIAL_X[layer + 1] else _exponential_beyond(s, layer, x)


@inlined
def uniform(s: Any) -> float:
    """Uniform on the open interval (0, 1)."""
    return uniform_from(next_word(s))


@inlined
def normal(s: Any) -> float:
    """Standard normal."""
    return normal_from(s, next_word(s))


@inlined
def exponential(s: Any) -> float:
    """Exponential with mean 1."""
    return exponential_from(s, next_word(s))


@inlined
def _gamma_from_one(s: Any, shape: float) -> float:
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(s)
        v = 1.0 + c * x
        if v > 0.0:
            v = v * v * v
            u = uniform(s)
            if u < 1.0 - 0.0331 * (x * x) * (x * x):
                return d * v
            if math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
                return d * v


@inlined
def _gamma_small(s: Any, shape: float) -> float:
    # Z = -a log X has a density proportional to exp(-z - exp(-z/a)): nearly exponential for z > 0, where the envelope
    # is exp(-z); for z < 0 it is exp((1/a - 1) z) / e. With x = exp(-z/a) the chances of acceptance are exp(-x) and
    # e x exp(-x).
    positive = math.e * (1.0 - shape)
    positive /= positive + shape
    while True:
        u = uniform(s)
        z = exponential(s)
        if u < positive:
            x = math.exp(-z / shape)
            u /= positive  # uniform again
            if u < 1.0 - x or u < math.exp(-x):
                return x
        else:
            x = math.exp(z / (1.0 - shape))
            if (u - positive) < (1.0 - positive) * math.exp(1.0 - x) * x:
                return x


@inlined
def gamma(s: Any, shape: float) -> float:
    """Gamma with rate 1; shape 0 gives 0."""
    if shape >= 1.0:
        return _gamma_from_one(s, shape)
    if shape <= 0.0:
        return 0.0 if shape == 0.0 else math.nan
    if shape < SMALL_SHAPE:
        return _gamma_small(s, shape)
    return _gamma_from_one(s, shape + 1.0) * math.exp(-exponential(s) / shape)


@inlined
def _log_factorial(k: float) -> float:
    """log k! of a whole number; Stirling's series from 64 on."""
    if k < 64.0:
        return LOG_FACTORIALS[np.int64(k)]
    z = 1.0 / (k * k)
    return (k + 0.5) * math.log(k) - k + 0.9189385332046728 + (1.0 / 12.0 - z * (1.0 / 360.0 - z / 1260.0)) / k


@inner
def _poisson_transformed(s: Any, mean: float) -> float:
    b = 0.931 + 2.53 * math.sqrt(mean)
    a = -0.059 + 0.02483 * b
    sure = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u = uniform(s) - 0.5
        v = uniform(s)
        edge = 0.5 - abs(u)
        k = math.floor((2.0 * a / edge + b) * u + mean + 0.43)
        if edge >= 0.07 and v <= sure:
            return k
        if k < 0.0 or (edge < 0.013 and v > edge):
            continue
        inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
        if math.log(v * inverse_alpha / (a / (edge * edge) + b)) <= k * math.log(mean) - mean - _log_factorial(k):
            return k


@inlined
def poisson_from(s: Any, u: float, mean: float, none: float) -> float:
    """Poisson from a uniform number and ``none`` = exp(-mean); large means draw from the stream instead.

    Above a mean of 10^8 it is a normal with the skewness put right, whose law is within 10^-8 of the Poisson's.
    """
    if mean < 10.0:
        k, p, total = 0, none, none
        while u > total and k < MANY:
            k += 1
            p *= mean * RECIPROCALS[k]
            total += p
        return float(k)
    if mean < LARGE_MEAN:
        return _poisson_transformed(s, mean)
    z = normal(s)
    return math.floor(mean + math.sqrt(mean) * z + (z * z - 1.0) / 6.0 + 0.5)


@inlined
def poisson(s: Any, mean: float) -> float:
    """Poisson, as a float."""
    return poisson_from(s, uniform(s), mean, math.exp(-mean))
