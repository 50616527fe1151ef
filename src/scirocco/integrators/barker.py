"""The law of Barker's moves on a Gaussian target, for the bias report.

On U = lambda theta^2 / 2 with normal gradient noise of variance V a step is, in units x = theta sqrt(lambda / T),

    x <- x + b sqrt(2 k) xi,    P(b = 1) = E s(-xi (sqrt(2 k) x + sqrt(2 v) eta)),    k = h lambda,  v = h V / T

with s the logistic function and eta standard normal: the variance of x depends on two numbers, whatever T is. It has no
closed form. The chain of |x| is put on a grid: what a move reaches is shared out to the six nodes around it by their
Lagrange polynomials, and the stationary weights of the nodes solve a linear system. This is done once for a table of
(k, v). Beyond the table moves are so long, or noise so large, that signs decide: then the variance at (c k, c^2 v) is c
times that at (k, v), within one per cent.

To first order the variance is 1 + E xi^4 (k + v) / 2, where SGLD has 1 + (k + v) / 2: bimodal increments, with
E xi^4 = 1.04, have hardly more bias, normal ones three times as much.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.polynomial.legendre import leggauss
from scipy.special import expit, ndtr

from scirocco.core.types import Number

if TYPE_CHECKING:
    from scipy.interpolate import RectBivariateSpline

SPREAD = 0.1  # of bimodal increments around +-1, as in the source
PROBIT = 1.702  # s(x) is nearly the normal distribution function of x / PROBIT
NODES, WIDTH = 80, 9.0  # of the grid, and its length in sds
AROUND = 6  # nodes that share what falls between them
LARGEST_K, LARGEST_V = 20.0, 1600.0  # of the table
UNIT = 0.1  # below this the table is linear in k and v, beyond it logarithmic
SIZE_K, SIZE_V = 13, 26
LEAST = 1e-3  # a curvature so small that the limit at zero is a line away


def barker_variance(
    precision: Number, noise: Number, h: Number, temperature: float, *, increments: str, corrected: bool
) -> np.ndarray:
    """The stationary variance; ``corrected`` for moves that know V.

    >>> print(barker_variance(2.0, 0.0, 0.05, 1.0, increments="bimodal", corrected=False).round(3))  # SGLD has 0.526
    0.526
    """
    table = _table(increments, corrected)
    with np.errstate(all="ignore"):
        k, v = np.broadcast_arrays(*(np.asarray(h * x, np.float64) for x in (precision, noise / temperature)))
        beyond = np.maximum(np.maximum(k / LARGEST_K, np.sqrt(v / LARGEST_V)), 1.0)
        ratio = beyond * np.exp(table.ev(np.log1p(k / beyond / UNIT), np.log1p(v / beyond**2 / UNIT)))
        variance = ratio * temperature / precision
    return np.where(np.isfinite(variance), variance, np.inf)


def increment_law(increments: str) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of |xi|, whose square has mean 1; its sign is that of b."""
    if increments == "bimodal":
        x, w = hermegauss(8)
        return np.sqrt(1 - SPREAD**2) + SPREAD * x, w / w.sum()
    x, w = leggauss(32)  # of a half-line: near zero the gradient has little say
    x = 3.75 * (x + 1)
    w = w * np.exp(-x * x / 2)
    return x, w / w.sum()


@lru_cache(maxsize=4)
def _table(increments: str, corrected: bool) -> RectBivariateSpline:
    """The logarithm of the ratio of the variances, by log(1 + k / UNIT) and log(1 + v / UNIT)."""
    from scipy.interpolate import RectBivariateSpline  # slow to import, and for this sampler alone

    across, along = (
        np.linspace(0, np.log1p(LARGEST_K / UNIT), SIZE_K),
        np.linspace(0, np.log1p(LARGEST_V / UNIT), SIZE_V),
    )
    ratios = np.empty((SIZE_K, SIZE_V))
    for j, v in enumerate(UNIT * np.expm1(along)):
        guess = ratios[1, j - 1] if j else 1.0
        near, next_ = (_ratio(k, v, increments, corrected, guess) for k in (LEAST, 2 * LEAST))
        ratios[0, j] = 2 * near - next_
        for i, k in enumerate(UNIT * np.expm1(across[1:]), start=1):
            ratios[i, j] = _ratio(k, v, increments, corrected, max(ratios[i - 1, j], k / 2))
    return RectBivariateSpline(across, along, np.log(ratios))


def _ratio(k: float, v: float, increments: str, corrected: bool, guess: float) -> float:
    """The variance of x, if it is within a factor of a few of ``guess``."""
    xi, weights = increment_law(increments)
    x = np.linspace(0, WIDTH * np.sqrt(guess), NODES)
    move, noise = np.sqrt(2 * k) * xi, np.sqrt(2 * v) * xi
    sharper = 1 / np.sqrt(np.maximum(1 - (noise / PROBIT) ** 2, 1e-12)) if corrected else 1.0
    onward = _smoothed(-sharper * move * x[:, None], sharper * noise)
    chain, rows = np.zeros(NODES**2), NODES * np.arange(NODES)[:, None]
    for sign, probability in ((1, onward), (-1, 1 - onward)):
        place = np.minimum(np.abs(x[:, None] + sign * move) / x[1], NODES - 1)
        first = np.minimum(np.floor(place).astype(int) - AROUND // 2 + 1, NODES - AROUND)
        for node, share in enumerate(_shares(place - first)):
            entries = rows + np.abs(first + node)  # of |x|: nodes below 0 stand for those above
            chain += np.bincount(entries.ravel(), (share * probability * weights).ravel(), NODES**2)
    equations = (chain.reshape(NODES, NODES) - np.eye(NODES)).T
    equations[0] = 1.0
    stationary = np.linalg.solve(equations, np.eye(NODES)[0])
    return float(stationary @ x**2)


def _shares(place: np.ndarray) -> list[np.ndarray]:
    """The Lagrange polynomials of the nodes 0, 1, ..., AROUND - 1."""
    nodes = range(AROUND)
    return [np.prod([(place - m) / (n - m) for m in nodes if m != n], axis=0) for n in nodes]


def _smoothed(middle: np.ndarray, width: np.ndarray) -> np.ndarray:
    """E s(middle + width eta), a width for each column: by nodes of eta, or of a logistic variable where it is wide."""
    answer, wide = np.empty_like(middle), width > 1.2
    eta, weights = hermegauss(24)
    answer[:, ~wide] = expit(middle[:, ~wide, None] + width[~wide, None] * eta) @ (weights / weights.sum())
    u, weights = leggauss(40)
    logistic = np.log((1 + u) / (1 - u))
    answer[:, wide] = ndtr((middle[:, wide, None] - logistic) / width[wide, None]) @ (weights / 2)
    return answer
