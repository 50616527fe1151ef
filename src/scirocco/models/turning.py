"""Principal components given the space that they span: exact draws of how they lie in it, and of their scales.

With S the sums of squares and products of the rows around m, A = U'SU and l_j = s_j^2 + sigma^2, the likelihood of a
normal law with the covariance U diag(s^2) U' + sigma^2 I is, but for what the span, sigma and m say,

    -2 log p = sum_j (A_jj / l_j + n log l_j).

Turning columns i and j into each other by an angle t moves weight between A_ii and A_jj: with D = (A_ii - A_jj)/2

    log p = kappa cos(2t - phi) + ...,    kappa = -(1/l_i - 1/l_j)/2 |(D, A_ij)|,    phi = the angle of (D, A_ij),

so that under the uniform law of U the angle 2t is von Mises given all else, as in the Gibbs sampler of Hoff (2009) for
matrices of orthonormal columns. A sweep turns all pairs, then moves each log scale by a Metropolis step. Sweeps leave
the posterior as it is, whatever the draw that they begin with: what a chain has not turned is turned here, and a chain
need only find the space, the noise and the mean.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple, Self

import numpy as np
from sklearn.utils import gen_batches

SWEEPS = 10  # columns of equal scales are anywhere in their plane after one, scales need a few
PROPOSED = 2.4  # posterior sds: the length of a Metropolis step in one dimension
BLOCK = 2**22  # numbers of the rows that are taken to float64 at a time


class Sums(NamedTuple):
    """How many rows there are, and the sums of squares and products of their columns; their means are 0."""

    rows: int
    squares: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray) -> Self:
        """In double precision, some rows at a time."""
        parts = (X[rows].astype(np.float64) for rows in gen_batches(len(X), max(1, BLOCK // X.shape[1])))
        return cls(len(X), np.asarray(sum(part.T @ part for part in parts)))


def turned(
    loadings: np.ndarray, scales: np.ndarray, noise: np.ndarray, mean: np.ndarray, sums: Sums, prior_scale: float,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Loadings and scales of draws, (chain, draw, ...), made anew given their span, noise and mean.

    ``prior_scale`` is the sd of the normal prior of the logarithms of the scales.
    """
    d, k = loadings.shape[-2:]
    columns, floor = loadings.reshape(-1, d, k), noise.ravel() ** 2
    along = np.einsum("nd,ndk->kn", mean.reshape(-1, d), columns)
    # Draws are the last axis: each step below is one of whole rows of memory.
    A = np.stack([u.T @ sums.squares @ u for u in columns], axis=2) + sums.rows * along[:, None] * along
    turn = np.broadcast_to(np.eye(k)[..., None], A.shape).copy()  # column, component, draw
    logs = np.log(scales.reshape(-1, k).T)
    for _ in range(SWEEPS):
        lengths = np.exp(2 * logs) + floor
        for i, j in combinations(range(k), 2):
            away = (A[i, i] - A[j, j]) / 2
            kappa = (1 / lengths[j] - 1 / lengths[i]) / 2 * np.hypot(away, A[i, j])
            angle = np.where(kappa < 0, np.pi, 0) + np.arctan2(A[i, j], away) + rng.vonmises(0, np.abs(kappa))
            cosine, sine = np.cos(angle / 2), np.sin(angle / 2)
            for table in (turn, A, A.swapaxes(0, 1)):
                table[i], table[j] = cosine * table[i] + sine * table[j], cosine * table[j] - sine * table[i]
        logs = _moved(logs, A, floor, sums.rows, prior_scale, rng)
    found = np.einsum("ndk,ckn->ndc", columns, turn)
    return {"loadings": found.reshape(loadings.shape), "scales": np.exp(logs).T.reshape(scales.shape)}


def _moved(
    logs: np.ndarray, A: np.ndarray, floor: np.ndarray, n: int, prior_scale: float, rng: np.random.Generator
) -> np.ndarray:  # fmt: skip
    """The logarithms of the scales after a Metropolis step each."""
    weights = np.einsum("kkn->kn", A)

    def log_density(logs: np.ndarray) -> np.ndarray:
        lengths = np.exp(2 * logs) + floor
        return -(weights / lengths + n * np.log(lengths) + (logs / prior_scale) ** 2) / 2

    # As long for all draws: a step may not depend on what it moves.
    typical = np.exp(2 * logs).mean(axis=1, keepdims=True)
    sd = np.minimum((typical + floor.mean()) / (typical * np.sqrt(2 * n)), prior_scale)
    proposed = logs + PROPOSED * sd * rng.normal(size=logs.shape)
    with np.errstate(over="ignore"):
        accepted = np.log1p(-rng.random(logs.shape)) < log_density(proposed) - log_density(logs)
    return np.where(accepted, proposed, logs)
