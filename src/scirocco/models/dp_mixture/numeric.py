"""Columns of numbers, independent within a cluster: the density of an entry whose parameters are integrated out.

With n, s, q the number, the sum and the sum of squares of a cluster's entries,

    normal     sigma^2 ~ InverseGamma(a, b),  mu ~ N(0, sigma^2 / c)      c_n = c + n,  m_n = s / c_n,  a_n = a + n / 2
               x ~ Student(2 a_n, m_n, b_n (c_n + 1) / (a_n c_n))         b_n = b + (q - s m_n) / 2
    Poisson    rate ~ Gamma(a, b)
               x ~ NegativeBinomial(a + s, (b + n) / (b + n + 1))

Numbers of normal columns are in sds of the column from its mean, in steps of a power of 1/2 (``units.Units``): then all
sums are exact, a row that is taken out leaves nothing behind, and the order of rows does not matter. How wide and how
far apart clusters are differs from column to column, so b and c are learnt, with gamma priors of shape and rate g, h,

    b ~ Gamma(g + t a, h + sum_k 1 / sigma_k^2)  or  rate_k in its place
    c ~ Gamma(g + t / 2, h + sum_k mu_k^2 / (2 sigma_k^2))

given the parameters of the t clusters that have entries. A rate h of 0 says that the value is fixed.

Each cluster has for each column a ``profile`` of four numbers, with which the density of an entry takes a logarithm:

    normal     m_n, c_n / (2 b_n (c_n + 1)), a_n + 1/2, constant;   given mu, sigma: mu, 1 / (2 sigma^2), 0, constant
    Poisson    a + s, -log(b + n + 1), 1, constant;                 given the rate: rate, log(rate), 0, -rate
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from scirocco.core.compiled import inner, jit

NORMAL, POISSON = 0.0, 1.0
FAMILY, SHAPE, RATE, STRENGTH = range(4)  # of a column's prior: its family, a, b, c
RATE_PRIOR, STRENGTH_PRIOR, WIDTH = 4, 6, 8  # where g and h begin; numbers of a prior
NUMBER, SUM, SQUARES, MOMENTS = range(4)  # of a column's entries in a cluster; how many
PLACE, SLOPE, POWER, CONSTANT, NUMBERS = range(5)  # of a profile; how many
LARGE = 25.0  # from which the series of a ratio of gamma functions is exact
LOG_TWO_PI = math.log(2 * math.pi)
LEAST = 1e-300


@inner
def _log_gamma_step(a: float) -> float:
    """log Gamma(a + 1/2) - log Gamma(a)."""
    if a < LARGE:
        return math.lgamma(a + 0.5) - math.lgamma(a)
    return 0.5 * math.log(a) - 1 / (8 * a) + 1 / (192 * a**3) - 1 / (640 * a**5)


@inner
def _spread(prior: Any, n: float, s: float, q: float) -> float:
    """b_n of a normal column."""
    return prior[RATE] + 0.5 * max(0.0, q - s * s / (prior[STRENGTH] + n))


@inner
def renew(columns: Any, moments: Any, profiles: Any, c: int, k: int) -> None:
    """The profile of column c in cluster k, as its moments are."""
    prior, n, s, q = columns[c], moments[c, NUMBER, k], moments[c, SUM, k], moments[c, SQUARES, k]
    if prior[FAMILY] == POISSON:
        shape, rate = prior[SHAPE] + s, prior[RATE] + n
        profiles[c, PLACE, k], profiles[c, SLOPE, k], profiles[c, POWER, k] = shape, -math.log(rate + 1.0), 1.0
        profiles[c, CONSTANT, k] = shape * math.log(rate / (rate + 1.0)) - math.lgamma(shape)
        return
    strength, a, b = prior[STRENGTH] + n, prior[SHAPE] + 0.5 * n, _spread(prior, n, s, q)
    wide = 2.0 * b * (strength + 1.0) / strength
    profiles[c, PLACE, k], profiles[c, SLOPE, k], profiles[c, POWER, k] = s / strength, 1.0 / wide, a + 0.5
    profiles[c, CONSTANT, k] = _log_gamma_step(a) - 0.5 * math.log(math.pi * wide)


@inner
def put_numbers(values: Any, i: int, k: int, step: int, columns: Any, moments: Any, profiles: Any) -> None:
    """The numbers of row i into cluster k (``step`` 1) or out of it (-1)."""
    for c in range(values.shape[1]):
        x = values[i, c]
        if not math.isnan(x):
            moments[c, NUMBER, k] += step
            moments[c, SUM, k] += step * x
            moments[c, SQUARES, k] += step * x * x
            renew(columns, moments, profiles, c, k)


@inner
def log_numbers(values: Any, i: int, columns: Any, profiles: Any, k: int) -> float:
    """The log density of the numbers of row i in cluster k; without the factorials of counts."""
    found = 0.0
    for c in range(values.shape[1]):
        x = values[i, c]
        if math.isnan(x):
            continue
        found += profiles[c, CONSTANT, k]
        if columns[c, FAMILY] == POISSON:
            found += x * profiles[c, SLOPE, k]
            if profiles[c, POWER, k] > 0.0:
                found += math.lgamma(profiles[c, PLACE, k] + x)
        else:
            far = x - profiles[c, PLACE, k]
            far *= far * profiles[c, SLOPE, k]
            power = profiles[c, POWER, k]
            found -= power * math.log(1.0 + far) if power > 0.0 else far
    return found


@inner
def by_numbers(values: Any, i: int, columns: Any, profiles: Any, slots: int, w: Any) -> float:
    """``w[k]`` times the density of the numbers of row i, over a common number whose logarithm is returned."""
    largest = -np.inf
    for k in range(slots):
        if w[k] > 0.0:
            w[k] = math.log(w[k]) + log_numbers(values, i, columns, profiles, k)
            largest = max(largest, w[k])
        else:
            w[k] = -np.inf
    for k in range(slots):
        w[k] = math.exp(w[k] - largest) if w[k] > -np.inf else 0.0
    return largest if largest > -np.inf else 0.0


@inner
def log_marginal_numbers(columns: Any, moments: Any, k: int) -> float:
    """The log density of all numbers of cluster k."""
    found = 0.0
    for c in range(columns.shape[0]):
        prior, n, s, q = columns[c], moments[c, NUMBER, k], moments[c, SUM, k], moments[c, SQUARES, k]
        if n == 0.0:
            continue
        a, b = prior[SHAPE], prior[RATE]
        if prior[FAMILY] == POISSON:
            found += math.lgamma(a + s) - math.lgamma(a) + a * math.log(b) - (a + s) * math.log(b + n)
            continue
        found += math.lgamma(a + 0.5 * n) - math.lgamma(a) - 0.5 * n * LOG_TWO_PI
        found += a * math.log(b) - (a + 0.5 * n) * math.log(_spread(prior, n, s, q))
        found += 0.5 * math.log(prior[STRENGTH] / (prior[STRENGTH] + n))
    return found


@jit
def renew_all(columns: Any, moments: Any, profiles: Any) -> None:
    """The profiles of all clusters."""
    for c in range(columns.shape[0]):
        for k in range(profiles.shape[2]):
            renew(columns, moments, profiles, c, k)


def fixed_number(prior: np.ndarray) -> bool:
    """Whether nothing is learnt of the priors."""
    return not np.any(prior[:, [RATE_PRIOR + 1, STRENGTH_PRIOR + 1]])


def drawn_parameters(rng: np.random.Generator, columns: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Means and precisions of normal columns, or rates twice, given the moments: (column, 2, cluster)."""
    n, s, q = moments[:, NUMBER], moments[:, SUM], moments[:, SQUARES]
    family, a, b, c = (columns[:, place, None] for place in (FAMILY, SHAPE, RATE, STRENGTH))
    normal, center = family == NORMAL, s / np.where(family == NORMAL, c + n, 1.0)
    shape = np.where(normal, a + n / 2, a + s)
    rate = np.where(normal, b + np.maximum(q - s * center, 0.0) / 2, b + n)
    found = np.maximum(rng.gamma(shape), LEAST) / rate
    means = center + rng.standard_normal(n.shape) / np.sqrt(np.where(normal, (c + n) * found, 1.0))
    return np.stack([np.where(normal, means, found), found], axis=1)


def given_profiles(columns: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """Profiles of clusters whose parameters are given, (column, 4, cluster)."""
    place, slope = parameters[:, 0], parameters[:, 1]
    normal = columns[:, FAMILY, None] == NORMAL
    constant = np.where(normal, 0.5 * (np.log(slope) - LOG_TWO_PI), -slope)
    return np.stack([place, np.where(normal, slope / 2, np.log(slope)), np.zeros_like(place), constant], axis=1)


def learnt_priors(rng: np.random.Generator, columns: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """The priors with b and c drawn given the clusters."""
    parameters, there = drawn_parameters(rng, columns, moments), moments[:, NUMBER] > 0
    number, found = there.sum(axis=1), columns.copy()
    means, precisions = parameters[:, 0], parameters[:, 1]
    learnt = (
        (RATE, RATE_PRIOR, number * columns[:, SHAPE], precisions),
        (STRENGTH, STRENGTH_PRIOR, number / 2, means**2 * precisions / 2),
    )
    for place, prior, more, terms in learnt:
        shape, rate = columns[:, prior], columns[:, prior + 1]
        own = rate > 0
        drawn = rng.gamma(shape + more) / (np.where(own, rate, 1.0) + np.where(there, terms, 0.0).sum(axis=1))
        found[own, place] = np.maximum(drawn, 1e-12)[own]
    return found
