r"""Kolmogorov-Smirnov distance of points on the simplex from a Dirichlet law, through the Rosenblatt transform.

    x_j = theta_j / sum_{l >= j} theta_l,        U_j = I_{x_j}(a_j, sum_{l > j} a_l),        j = 1 ... d - 1
    distance = (1/(d - 1)) sum_j sup_u |F_j(u) - u|,        F_j the empirical distribution function of U_j

The x_j of a Dirichlet(a) point are independent Beta variables, so the U_j are independent and uniform, and the distance
is that of a one-dimensional test averaged over the coordinates. It depends on the order of the categories. Rosenblatt
(1952); Baker (2019), Appendix B.5, with K = d - 1.

Sums run over the tail, never as 1 minus what came before, and a ratio close to one is replaced by its complement: with
a_j of 0.01 most of the mass lies within 1e-16 of the two ends, where 1 - x has no digits left.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincc

from scirocco.core.checks import numbers

Floats: TypeAlias = NDArray[np.float64]


def dirichlet_uniforms(weights: ArrayLike, parameter: ArrayLike) -> Floats:
    """The Rosenblatt transform (draws, d - 1) of ``weights`` (..., d), uniform if they are Dirichlet(``parameter``).

    ``weights`` are points of the simplex or positive multiples of them, such as gamma variables. A weight that has
    underflowed to 0 gives U_j = 0; where all weights from category j on are 0 the draw says nothing about coordinate j,
    and U_j is NaN. In float64 both are rare; of Gamma(0.01) variables in float32 a third are 0, and it shows.

    >>> dirichlet_uniforms([[1.0, 1.0, 2.0], [0.0, 3.0, 1.0]], [1.0, 1.0, 1.0])
    array([[0.4375    , 0.33333333],
           [0.        , 0.75      ]])
    """
    w, a = _validated(weights, parameter)
    tails = np.cumsum(w[:, ::-1], axis=1)[:, ::-1]
    rest = np.cumsum(a[::-1])[::-1][1:]
    total = np.where(tails > 0, tails, np.nan)[:, :-1]
    here, beyond = w[:, :-1] / total, tails[:, 1:] / total
    return np.where(here < beyond, betainc(a[:-1], rest, here), betaincc(rest, a[:-1], beyond))


def ks_distances(weights: ArrayLike, parameter: ArrayLike) -> Floats:
    """The Kolmogorov-Smirnov distance of each of the d - 1 coordinates of ``dirichlet_uniforms`` from the uniform law.

    Draws with NaN in a coordinate are left out of it; where no draw is left the distance is NaN.
    """
    return np.array([_distance(u[~np.isnan(u)]) for u in dirichlet_uniforms(weights, parameter).T])


def ks_distance(weights: ArrayLike, parameter: ArrayLike) -> float:
    """The average of ``ks_distances``: 0 for a perfect match, about 0.87 / sqrt(draws) for independent draws.

    >>> import numpy as np
    >>> parameter = np.array([800.1, 100.1, 100.1, 0.1, 0.1])
    >>> draws = np.random.default_rng(0).gamma(parameter, size=(1000, 5))
    >>> print(round(ks_distance(draws, parameter), 3), round(ks_distance(draws, parameter + 1), 3))
    0.027 0.336
    """
    return float(np.mean(ks_distances(weights, parameter)))


def _distance(u: Floats) -> float:
    if not (n := len(u)):
        return float("nan")
    ordered, ranks = np.sort(u), np.arange(n)
    return float(max(np.max((ranks + 1) / n - ordered), np.max(ordered - ranks / n)))


def _validated(weights: ArrayLike, parameter: ArrayLike) -> tuple[Floats, Floats]:
    w, a = (numbers(n, v).astype(np.float64, copy=False) for n, v in (("weights", weights), ("parameter", parameter)))
    if a.ndim != 1 or len(a) < 2:
        raise ValueError(f"parameter must have shape (d,) with d of at least 2; got {a.shape}")
    if not np.all(np.isfinite(a) & (a > 0)):
        raise ValueError(f"parameter must be positive and finite; got {a[~(np.isfinite(a) & (a > 0))][0]!r}")
    if w.ndim < 2 or w.shape[-1] != len(a) or not w.size:
        raise ValueError(f"weights must have shape (..., draws, {len(a)}), as many as parameter; got {w.shape}")
    if bad := int(np.sum(~(w >= 0) | np.isinf(w))):
        raise ValueError(f"weights must be nonnegative and finite; {bad} of {w.size} are negative, NaN or infinite")
    w = w.reshape(-1, len(a))
    with np.errstate(over="ignore"):
        sums = w.sum(axis=1)
    if bad := int(np.sum((sums == 0) | np.isinf(sums))):
        raise ValueError(f"weights must have a positive and finite sum in each draw; {bad} of {len(w)} have not")
    return w, a
