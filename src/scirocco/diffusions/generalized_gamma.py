"""Powers of a Cox-Ingersoll-Ross process: diffusions with generalised gamma stationary laws.

    Y = X^p,    X a CIR process,    p != 0

Whatever is exact for X is exact for Y. With p = 1/2 the stationary law of sqrt(X) has the density of a generalised
gamma proportional to y^(2k - 1) exp(-rate y^2): Theorem 2.1 of Baker et al. (2018), where 2 sqrt(X) is a Langevin
diffusion with drift (2a - 1)/U - U/2. p = -1 gives the inverse gamma law.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scirocco.core.checks import positive_array, real_array
from scirocco.diffusions.base import times
from scirocco.diffusions.cir import CIR


@dataclass(frozen=True)
class GeneralizedGamma:
    """The process Y = X^power of a ``CIR`` process X.

    >>> process = GeneralizedGamma(CIR.gamma(2.0, rate=0.5), power=0.5)
    >>> process.stationary().moment(2).round(6)          # the mean of X
    np.float64(4.0)
    """

    process: CIR
    power: float = 0.5

    def __post_init__(self) -> None:
        if not isinstance(self.process, CIR):
            raise TypeError(f"process must be a CIR process; got {type(self.process).__name__}")
        if not np.isfinite(self.power) or self.power == 0:
            raise ValueError(f"power must be a finite number other than 0; got {self.power!r}")

    def _inner(self, y: Any) -> np.ndarray:
        array = positive_array("x", y) if self.power < 0 else real_array("x", y, least=0.0)
        return array ** (1 / self.power)

    def transition(self, x: Any, time: Any, *, seed: int = 0, step: int = 0, threads: int | None = None) -> np.ndarray:
        """The state after ``time``, drawn exactly; a function of (seed, step)."""
        inner = self.process.transition(self._inner(x), time, seed=seed, step=step, threads=threads)
        with np.errstate(divide="ignore"):  # the inverse of a value that underflowed
            return inner**self.power

    def _moment(self, x: Any, time: Any, order: float) -> np.ndarray:
        """E X^q of the transition: c^q Gamma(k + q) / Gamma(k) 1F1(-q; k; -lambda), infinite for k + q <= 0."""
        from scipy import special

        t, k = times(time, self.process, x), self.process.shape
        q = order * self.power
        mean = self._inner(x) * self.process._pull(t)
        log_ratio = special.gammaln(np.maximum(k + q, 1e-300)) - special.gammaln(k)
        value = self.process._scale(t) ** q * np.exp(log_ratio) * special.hyp1f1(-q, k, -mean)
        return np.where(k + q > 0, value, np.inf)

    def transition_mean(self, x: Any, time: Any) -> np.ndarray:
        """E X^p; infinite for k + p <= 0."""
        return self._moment(x, time, 1)

    def transition_variance(self, x: Any, time: Any) -> np.ndarray:
        """E X^(2p) - (E X^p)^2; infinite for k + 2p <= 0."""
        second = self._moment(x, time, 2)
        with np.errstate(invalid="ignore", divide="ignore"):
            value = second - self._moment(x, time, 1) ** 2
            # A short step from a large value: the difference has no digits left, but the power is as good as linear.
            mean = self.process.transition_mean(self._inner(x), time)
            linear = np.square(self.power * mean ** (self.power - 1)) * self.process.transition_variance(
                self._inner(x), time
            )
        return np.where(np.isfinite(second), np.where(value > 1e-8 * second, value, linear), np.inf)

    def transition_mgf(self, s: Any, x: Any, time: Any) -> np.ndarray:
        """E exp(s X^p), by quadrature over the transition law; infinite where it does not exist.

        For powers between 0 and 1 it exists for every s; for a power of 1 see ``CIR``; else for s <= 0 only.
        """
        s, t = real_array("s", s), times(time, self.process, x)
        if self.power == 1:
            return self.process.transition_mgf(s, x, t)
        mean = self._inner(x) * self.process._pull(t)
        value = _expected_exponential(s, self.power, self.process.shape, mean, self.process._scale(t))
        return np.where((s <= 0) | (0 < self.power < 1), value, np.inf)

    def stationary(self) -> Any:
        """Generalised gamma."""
        from scipy import stats

        scale = self.process.stationary().kwds["scale"]
        return stats.gengamma(self.process.shape, 1 / self.power, scale=scale**self.power)


@np.vectorize
def _expected_exponential(s: float, power: float, shape: float, mean: float, scale: float) -> float:
    from scipy import integrate, stats

    law = stats.ncx2(2 * shape, 2 * mean)
    least = min(s, 0) if not 0 < power < 1 else s
    return integrate.quad(lambda u: np.exp(least * (scale / 2 * law.ppf(u)) ** power), 0, 1)[0]
