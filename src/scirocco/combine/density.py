"""A density that draws can be weighed by: kernels on the draws, shrunk so that mean and covariance stay.

    q(theta) = (1/M) sum_i t_nu(theta; mu + a (theta_i - mu), h^2 C),    a^2 = 1 - h^2 nu/(nu - 2)

With mu and C the mean and the covariance of the draws, q has the same ones for every h (West 1993): at its largest it
is one Student law, close to N(mu, C), and as h falls it takes the shape of the draws. The h whose log density at the
draws themselves, each left out of its own estimate, is largest is taken. Student kernels have heavier tails than
normal ones, so that weights p/q do not explode where q is thin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp

FREEDOM = 7.0
WIDTHS = np.sqrt((FREEDOM - 2) / FREEDOM) * np.geomspace(1.0, 0.05, 16)
AT_ONCE = 2**22  # distances at a time
CENTRES, SOME = 2000, 700  # kernels at most, and those by which h is chosen


@dataclass(frozen=True, eq=False)
class KernelMixture:
    """Kernels of ``width`` h, in units of the draws' covariance, on ``centres`` in coordinates where that is I."""

    mean: np.ndarray
    root: np.ndarray
    centres: np.ndarray
    width: float

    @classmethod
    def fitted(cls, draws: np.ndarray) -> KernelMixture:
        """To draws (draw, coordinate), evenly thinned if there are many."""
        draws = draws[np.unique(np.linspace(0, len(draws) - 1, min(len(draws), CENTRES)).astype(int))]
        mean = draws.mean(axis=0)
        root = np.linalg.cholesky(np.atleast_2d(np.cov(draws.T)))
        z = np.linalg.solve(root, (draws - mean).T).T
        some = z[np.unique(np.linspace(0, len(z) - 1, min(len(z), SOME)).astype(int))]
        scores = [_left_out(some, width) for width in WIDTHS]
        return cls(mean, root, z, float(WIDTHS[int(np.argmax(scores))]))

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws, the kernels in turn: (draw, coordinate)."""
        n, d = self.centres.shape
        chosen = self.centres[rng.permutation(np.resize(rng.permutation(n), count))]
        heavy = np.sqrt(FREEDOM / rng.chisquare(FREEDOM, (count, 1)))
        z = _shrink(self.width) * chosen + self.width * heavy * rng.standard_normal((count, d))
        return self.mean + z @ self.root.T

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """log q."""
        z = np.linalg.solve(self.root, (points - self.mean).T).T
        step = max(1, AT_ONCE // len(self.centres))
        found = [
            logsumexp(_log_kernel(_distances(z[i : i + step], _shrink(self.width) * self.centres), self), axis=1)
            for i in range(0, len(z), step)
        ]
        return np.concatenate(found) - np.log(len(self.centres)) - np.log(np.diag(self.root)).sum()


def _shrink(width: float) -> float:
    return float(np.sqrt(max(0.0, 1 - width**2 * FREEDOM / (FREEDOM - 2))))


def _distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    squares = np.sum(a**2, axis=1)[:, None] + np.sum(b**2, axis=1) - 2 * a @ b.T
    return np.maximum(squares, 0.0)


def _log_kernel(squares: np.ndarray, mixture: KernelMixture) -> np.ndarray:
    return _log_student(squares / mixture.width**2, mixture.mean.size) - mixture.mean.size * np.log(mixture.width)


def _log_student(squares: np.ndarray, d: int) -> np.ndarray:
    constant = gammaln((FREEDOM + d) / 2) - gammaln(FREEDOM / 2) - d / 2 * np.log(FREEDOM * np.pi)
    value: np.ndarray = constant - (FREEDOM + d) / 2 * np.log1p(squares / FREEDOM)
    return value


def _left_out(z: np.ndarray, width: float) -> float:
    """The mean log density of draws, each by the kernels of all others."""
    n, d = z.shape
    logs = _log_student(_distances(z, _shrink(width) * z) / width**2, d) - d * np.log(width)
    np.fill_diagonal(logs, -np.inf)
    return float(np.mean(logsumexp(logs, axis=1) - np.log(n - 1)))
