"""The Ornstein-Uhlenbeck process.

    dX = b (m - X) dt + sigma dW,    sigma > 0

    X_t ~ N(m + (x - m) e^{-bt}, sigma^2 (1 - e^{-2bt}) / (2 b))

which holds for b < 0 too. For b > 0 the stationary law is N(m, sigma^2 / (2 b)): with ``OU.normal`` any normal target.
Uhlenbeck and Ornstein (1930).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scirocco.core.checks import positive_array, real_array
from scirocco.diffusions.base import SQRT_TWO, draw, normal_kernel, states, times


@dataclass(frozen=True)
class OU:
    """The process dX = b (mean - X) dt + sigma dW; parameters are numbers or arrays that broadcast with X.

    >>> process = OU.normal(mean=1.0, sd=2.0)
    >>> round(float(process.transition_mean(3.0, time=np.log(2))), 3)
    2.0
    >>> process.stationary().std()
    np.float64(2.0)
    """

    mean: Any = 0.0
    b: Any = 1.0
    sigma: Any = SQRT_TWO

    def __post_init__(self) -> None:
        real_array("mean", self.mean)
        positive_array("sigma", self.sigma)
        if not np.all(real_array("b", self.b)):
            raise ValueError("b must not be 0: the process has no level to return to; b < 0 lets it run away")

    @classmethod
    def normal(cls, mean: Any = 0.0, sd: Any = 1.0, speed: Any = 1.0) -> OU:
        """The process with stationary law N(mean, sd^2), which it forgets its start for at rate ``speed``."""
        speed = positive_array("speed", speed)
        return cls(mean, speed, positive_array("sd", sd) * np.sqrt(2 * speed))

    def _parameters(self, time: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        b, m = np.asarray(self.b), np.asarray(self.mean)
        spread = np.asarray(self.sigma) * np.sqrt(-np.expm1(-2 * b * time) / (2 * b))
        return np.exp(-b * time), -m * np.expm1(-b * time), spread

    def transition(self, x: Any, time: Any, *, seed: int = 0, step: int = 0, threads: int | None = None) -> np.ndarray:
        """The state after ``time``, drawn exactly; a function of (seed, step)."""
        parameters = self._parameters(times(time, self, x))
        return draw(normal_kernel, states(x), parameters, seed=seed, step=step, threads=threads)

    def transition_mean(self, x: Any, time: Any) -> np.ndarray:
        """m + (x - m) e^{-bt}."""
        decay, shift, _ = self._parameters(times(time, self, x))
        return decay * states(x) + shift

    def transition_variance(self, x: Any, time: Any) -> np.ndarray:
        """sigma^2 (1 - e^{-2bt}) / (2 b), whatever the start."""
        spread = self._parameters(times(time, self, x))[2]
        return np.broadcast_to(np.square(spread), np.broadcast_shapes(states(x).shape, spread.shape)).copy()

    def transition_mgf(self, s: Any, x: Any, time: Any) -> np.ndarray:
        """exp(s mean + s^2 variance / 2)."""
        s = real_array("s", s)
        return np.exp(s * self.transition_mean(x, time) + s**2 * self.transition_variance(x, time) / 2)

    def stationary(self) -> Any:
        """N(m, sigma^2 / (2 b))."""
        from scipy import stats

        if not np.all(np.asarray(self.b) > 0):
            raise ValueError("a process with b < 0 runs away and has no stationary law")
        return stats.norm(self.mean, np.asarray(self.sigma) / np.sqrt(2 * np.asarray(self.b)))
