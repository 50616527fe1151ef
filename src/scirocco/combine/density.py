"""A density that draws can be weighed by: kernels on the draws, shrunk so that mean and covariance stay.

    q(theta) = (1/M) sum_i K_h(theta - mu - a (theta_i - mu)),    a^2 = 1 - h^2
    K_h: half N(0, h^2 C), half a Student law with 7 degrees of freedom and the same covariance

With mu and C the mean and the covariance of the draws, q has the same ones for every h (West 1993): at h = 1 it is one
law, close to N(mu, C), and as h falls it takes the shape of the draws. The h whose log density at the draws themselves,
each left out of its own estimate, is largest is taken. The Student half has heavier tails, so that weights p/q do not
explode where q is thin; the normal half keeps them below 2 for a normal p with these moments in any dimension, where a
Student law alone, whose points lie in another shell, is of no use. But mu and C are known from n draws only: in d
dimensions that costs about d^2 / 4n nats.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp

from scirocco.combine.shards import thinned

FREEDOM = 7.0
WIDTHS = np.geomspace(1.0, 0.05, 16)
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
        """To draws (draw, coordinate); if there are many, kernels stand on some of them, evenly thinned."""
        mean = draws.mean(axis=0)
        root = np.linalg.cholesky(np.atleast_2d(np.cov(draws.T, ddof=0)))
        z = np.linalg.solve(root, (thinned(draws, CENTRES) - mean).T).T
        some = thinned(z, SOME)
        scores = [_left_out(some, width) for width in WIDTHS]
        return cls(mean, root, z, float(WIDTHS[int(np.argmax(scores))]))

    @property
    def variances(self) -> np.ndarray:
        """Of each coordinate, those of the draws."""
        return np.sum(self.root**2, axis=1)

    def innermost(self, draws: np.ndarray) -> int:
        """Which of the draws is next to the mean."""
        return int(np.argmin(np.sum(np.linalg.solve(self.root, (draws - self.mean).T) ** 2, axis=0)))

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws, the kernels in turn: (draw, coordinate)."""
        n, d = self.centres.shape
        chosen = self.centres[rng.permutation(np.resize(rng.permutation(n), count))]
        heavy = np.sqrt((FREEDOM - 2) / rng.chisquare(FREEDOM, (count, 1)))
        heavy[rng.permutation(count) % 2 == 0] = 1.0
        z = _shrink(self.width) * chosen + self.width * heavy * rng.standard_normal((count, d))
        return self.mean + z @ self.root.T

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """log q."""
        z = np.linalg.solve(self.root, (points - self.mean).T).T
        step, d = max(1, AT_ONCE // len(self.centres)), self.mean.size
        found = [
            logsumexp(
                _log_kernel(_distances(z[i : i + step], _shrink(self.width) * self.centres), d, self.width), axis=1
            )
            for i in range(0, len(z), step)
        ]
        return np.concatenate(found) - np.log(len(self.centres)) - np.log(np.diag(self.root)).sum()


def _shrink(width: float) -> float:
    return float(np.sqrt(1 - width**2))


def _distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    squares = np.sum(a**2, axis=1)[:, None] + np.sum(b**2, axis=1) - 2 * a @ b.T
    return np.maximum(squares, 0.0)


def _log_kernel(squares: np.ndarray, d: int, width: float) -> np.ndarray:
    """log K_h of distances squared, in coordinates where C is I."""
    squares = squares / width**2
    constant = gammaln((FREEDOM + d) / 2) - gammaln(FREEDOM / 2) - d / 2 * np.log((FREEDOM - 2) * np.pi)
    student = constant - (FREEDOM + d) / 2 * np.log1p(squares / (FREEDOM - 2))
    normal = -(d * np.log(2 * np.pi) + squares) / 2
    value: np.ndarray = np.logaddexp(student, normal) - np.log(2) - d * np.log(width)
    return value


def _left_out(z: np.ndarray, width: float) -> float:
    """The mean log density of draws, each by the kernels of all others."""
    n, d = z.shape
    logs = _log_kernel(_distances(z, _shrink(width) * z), d, width)
    np.fill_diagonal(logs, -np.inf)
    return float(np.mean(logsumexp(logs, axis=1) - np.log(n - 1)))
