"""Columns that normal clusters would cut into pieces, because their logarithms are what is normal.

Income within a class has a long upper tail. One normal component does not fit it, and a mixture takes two or three for
what is one class. Whether a column is of that kind is measured on the column alone: mixtures of normal laws are fitted
to its numbers and to their logarithms, of 1 to ``MOST`` components, and the Bayesian information criterion says how
many each wants. A column is skewed if logarithms want fewer and fit better nevertheless, as densities of the same
numbers, by Akaike's criterion, which asks less of what has more components: then what the numbers add are no classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

MOST = 4  # components
ROWS, FEWEST = 500, 50  # that are looked at, evenly spaced by rank; of fewer nothing is said
RATIO = 2.0  # of the 0.975 to the 0.025 quantile, below which logarithms are as good as linear
ROUNDS = 50  # of expectation maximisation
NARROWEST = 0.05  # sd of a component over that of the column: repeated numbers are no classes
SURE = 5.0  # nats, by which logarithms must be better


def warn_of_skewed(table: np.ndarray, names: Sequence[str]) -> None:
    """Say which columns of numbers, (row, column), are better given as logarithms."""
    found = [name for column, name in zip(table.T, names, strict=True) if wants_logarithms(column)]
    if found:
        listed = ", ".join(repr(name) for name in found[:5]) + (", ..." if len(found) > 5 else "")
        warnings.warn(
            f"positive numbers with a long upper tail, of which the logarithm is nearer to normal: {listed}. Clusters "
            "would cut what is one class into several: give numpy.log of them instead",
            stacklevel=9,
        )


def wants_logarithms(column: np.ndarray) -> bool:
    """Whether logarithms need fewer normal components, and fit better."""
    x = np.sort(column[~np.isnan(column)])
    if x.size < FEWEST or x[0] <= 0:
        return False
    low, high = np.quantile(x, [0.025, 0.975])
    if high <= RATIO * low:
        return False
    x = x[np.linspace(0, x.size - 1, min(x.size, ROWS)).astype(int)]
    logs = np.log(x)
    numbers, logarithms = _likelihoods(x), _likelihoods(logs) - logs.sum()  # densities of x, both of them
    parameters = 3 * np.arange(1, MOST + 1) - 1
    k, fewer = (int(np.argmax(found - 0.5 * np.log(x.size) * parameters)) for found in (numbers, logarithms))
    gain = logarithms[fewer] - numbers[k] + parameters[k] - parameters[fewer]
    return fewer < k and bool(gain > SURE)


def _likelihoods(x: np.ndarray) -> np.ndarray:
    """The log likelihoods of mixtures of 1 to ``MOST`` components for sorted numbers."""
    scale = max(float(x.std()), 1e-300)
    own = (x - x.mean()) / scale
    return np.array([_log_likelihood(own, k) for k in range(1, MOST + 1)]) - x.size * np.log(scale)


def _log_likelihood(x: np.ndarray, components: int) -> float:
    """Of a normal mixture, by expectation maximisation from as many equal parts of sorted numbers."""
    parts = np.array_split(x, components)
    shares = np.full(components, 1 / components)
    means, sds = (np.array([f(part) for part in parts]) for f in (np.mean, np.std))
    logs = np.empty((x.size, components))
    for _ in range(ROUNDS if components > 1 else 1):
        sds = np.maximum(sds, NARROWEST)
        logs = np.log(shares / sds) - 0.5 * ((x[:, None] - means) / sds) ** 2
        top = logs.max(axis=1, keepdims=True)
        weights = np.exp(logs - top)
        sums = weights.sum(axis=1, keepdims=True)
        known = float((top + np.log(sums)).sum() - 0.5 * x.size * np.log(2 * np.pi))
        weights /= sums
        sizes = np.maximum(weights.sum(axis=0), 1e-9)
        shares, means = sizes / x.size, x @ weights / sizes
        sds = np.sqrt(np.einsum("i,ij->j", x**2, weights) / sizes - means**2 + 1e-12)
    return known
