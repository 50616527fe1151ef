"""Geometric Brownian motion, and its mean-reverting form with a lognormal stationary law.

    dX = (mu - b log X) X dt + sigma X dW,    sigma > 0, b >= 0

The logarithm is an Ornstein-Uhlenbeck process with drift mu - sigma^2 / 2 - b log X, or at b = 0, geometric Brownian
motion proper, a Brownian motion with drift. Baker et al. (2018, section 2.3) propose geometric Brownian motion as a
sampler of lognormal laws "with lognormal stationary distribution". Its transition is lognormal, but its log variance
sigma^2 t grows for ever: it has no stationary law. The sampler that they have in mind needs b > 0:

    log X stationary ~ N((mu - sigma^2 / 2) / b, sigma^2 / (2 b))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scirocco.core.checks import positive_array, real_array
from scirocco.diffusions.base import draw, normal_kernel, times

NODES = 200  # of the Gauss-Hermite rule for the moment generating function


@dataclass(frozen=True)
class GBM:
    """The process dX = (mu - b log X) X dt + sigma X dW; parameters are numbers or arrays that broadcast with X.

    >>> GBM(mu=0.1, sigma=0.2).transition_mean(1.0, time=1.0).round(4)   # geometric Brownian motion: e^{mu t}
    np.float64(1.1052)
    >>> GBM.lognormal(mean=0.5, sd=0.3).stationary().median().round(4)   # mean-reverting: e^{0.5}
    np.float64(1.6487)
    """

    mu: Any = 0.0
    sigma: Any = 1.0
    b: Any = 0.0

    def __post_init__(self) -> None:
        real_array("mu", self.mu)
        positive_array("sigma", self.sigma)
        real_array("b", self.b, least=0.0)

    @classmethod
    def lognormal(cls, mean: Any = 0.0, sd: Any = 1.0, speed: Any = 1.0) -> GBM:
        """The process whose logarithm is stationary at N(mean, sd^2) and forgets its start at rate ``speed``."""
        mean, sd, speed = real_array("mean", mean), positive_array("sd", sd), positive_array("speed", speed)
        sigma = sd * np.sqrt(2 * speed)
        return cls(speed * mean + sigma**2 / 2, sigma, speed)

    def _parameters(self, time: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Decay, shift and spread of the logarithm."""
        b, drift = np.asarray(self.b, float), np.asarray(self.mu) - np.square(self.sigma) / 2
        safe = np.where(b > 0, b, 1.0)
        lasting = np.where(b > 0, -np.expm1(-b * time) / safe, time)
        squared = np.where(b > 0, -np.expm1(-2 * b * time) / (2 * safe), time)
        return np.exp(-b * time), drift * lasting, np.asarray(self.sigma) * np.sqrt(squared)

    def _log_moments(self, x: Any, time: Any) -> tuple[np.ndarray, np.ndarray]:
        decay, shift, spread = self._parameters(times(time, self, x))
        return decay * np.log(positive_array("x", x)) + shift, np.square(spread)

    def transition(self, x: Any, time: Any, *, seed: int = 0, step: int = 0, threads: int | None = None) -> np.ndarray:
        """The state after ``time``, drawn exactly; a function of (seed, step)."""
        parameters = self._parameters(times(time, self, x))
        logs = np.log(positive_array("x", x))
        return np.exp(draw(normal_kernel, logs, parameters, seed=seed, step=step, threads=threads))

    def transition_mean(self, x: Any, time: Any) -> np.ndarray:
        """exp(m + v / 2), with m and v the mean and variance of the logarithm."""
        m, v = self._log_moments(x, time)
        return np.exp(m + v / 2)

    def transition_variance(self, x: Any, time: Any) -> np.ndarray:
        """(e^v - 1) exp(2 m + v)."""
        m, v = self._log_moments(x, time)
        return np.expm1(v) * np.exp(2 * m + v)

    def transition_mgf(self, s: Any, x: Any, time: Any) -> np.ndarray:
        """E exp(s X): 1 at s = 0, infinite for s > 0, for s < 0 by Gauss-Hermite quadrature (no closed form)."""
        s = real_array("s", s)
        m, v = self._log_moments(x, time)
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        points = np.exp(m[..., None] + np.sqrt(v)[..., None] * nodes)
        value = np.sum(weights * np.exp(np.minimum(s, 0)[..., None] * points), axis=-1) / np.sqrt(2 * np.pi)
        return np.where(s > 0, np.inf, value)

    def stationary(self) -> Any:
        """Lognormal, if b > 0."""
        from scipy import stats

        b = np.asarray(self.b, float)
        if not np.all(b > 0):
            raise ValueError("geometric Brownian motion (b = 0) has no stationary law; take b > 0 or GBM.lognormal")
        mean = (np.asarray(self.mu) - np.square(self.sigma) / 2) / b
        return stats.lognorm(np.asarray(self.sigma) / np.sqrt(2 * b), scale=np.exp(mean))
