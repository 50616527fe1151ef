"""Laws of random partitions: how likely a row joins a cluster of n rows, or begins a new one beside t others.

    Dirichlet process            n                 alpha
    mixture of finite mixtures   n + gamma         gamma V_N(t + 1) / V_N(t)

    V_N(t) = sum_k q(k) k! / (k - t)! Gamma(gamma k) / Gamma(gamma k + N)

The second has K ~ q components with weights Dirichlet(gamma), of which t have rows (Miller and Harrison 2018). A
Dirichlet process finds more and more small clusters as rows come in, whatever their number in truth; a mixture of
finite mixtures does not. q is geometric with mean 10.

alpha ~ Gamma(b1, b2) is learnt from the number of clusters (Escobar and West 1995):

    x ~ Beta(alpha + 1, N),  alpha ~ Gamma(b1 + t - [U (r + 1) > r], b2 - log x),  r = (b1 + t - 1) / (N (b2 - log x))
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

LOG_CONTINUE, LOG_STOP = np.log(0.9), np.log(0.1)  # of the geometric law of the number of components
REMEMBERED = 8  # urns
MOST_TERMS = 4000  # of V; they fall at least as fast as 0.9^k


class Urn(NamedTuple):
    """A row's prior weight for a cluster of n rows is n + ``shift``, for a new one beside t others ``fresh[t]``."""

    shift: float
    fresh: np.ndarray


class DirichletProcess:
    """A Dirichlet process; ``prior`` is (b1, b2), or None for a fixed ``concentration``."""

    def __init__(self, concentration: float, prior: tuple[float, float] | None = None) -> None:
        self.concentration, self.prior = concentration, prior

    def urn(self, rows: int, most: int) -> Urn:
        """For the last of so many rows, beside at most ``most`` clusters."""
        del rows
        return Urn(0.0, np.full(most + 1, self.concentration))

    def learn(self, rng: np.random.Generator, rows: int, clusters: int) -> None:
        """A draw of the concentration given the number of clusters."""
        if self.prior is None or not rows:
            return
        b1, b2 = self.prior
        rate = b2 - np.log(rng.beta(self.concentration + 1, rows))
        odds = (b1 + clusters - 1) / (rows * rate)
        shape = b1 + clusters - (rng.random() * (1 + odds) > odds)
        self.concentration = float(max(rng.gamma(shape) / rate, 1e-10))

    def log_probability(self, sizes: np.ndarray) -> float:
        """Of a partition into clusters of these sizes."""
        alpha, total = self.concentration, sizes.sum()
        return float(len(sizes) * np.log(alpha) + gammaln(sizes).sum() + gammaln(alpha) - gammaln(alpha + total))


class FiniteMixtures:
    """A mixture of finite mixtures; ``concentration`` is gamma, the Dirichlet parameter of the weights."""

    prior = None

    def __init__(self, concentration: float) -> None:
        self.concentration = concentration
        self._known: dict[tuple[int, int], Urn] = {}

    def log_v(self, rows: int, most: int, least: int = 0) -> np.ndarray:
        """log V_N(t) for t = ``least`` to ``most``."""
        k = np.arange(1, most + MOST_TERMS)
        common = LOG_STOP + (k - 1) * LOG_CONTINUE + gammaln(self.concentration * k)
        common = common + gammaln(k + 1) - gammaln(self.concentration * k + rows)
        return np.array([self._summed(common, k, t) for t in range(least, most + 1)])

    @staticmethod
    def _summed(common: np.ndarray, k: np.ndarray, t: int) -> float:
        first = max(t, 1) - 1
        return float(logsumexp(common[first:] - gammaln(k[first:] - t + 1)))

    def urn(self, rows: int, most: int) -> Urn:
        """For the last of so many rows, beside at most ``most`` clusters."""
        if (rows, most) not in self._known:
            v = self.log_v(rows, most + 1)
            self._known[rows, most] = Urn(self.concentration, self.concentration * np.exp(np.diff(v)))
            if len(self._known) > REMEMBERED:
                del self._known[next(iter(self._known))]
        return self._known[rows, most]

    def learn(self, rng: np.random.Generator, rows: int, clusters: int) -> None:
        """gamma is fixed."""

    def log_probability(self, sizes: np.ndarray) -> float:
        """Of a partition into clusters of these sizes."""
        gamma, t = self.concentration, len(sizes)
        v = self.log_v(int(sizes.sum()), t, t)[0]
        return float(v + np.sum(gammaln(gamma + sizes) - gammaln(gamma)))

    def component_numbers(self, rows: int, clusters: int) -> tuple[np.ndarray, np.ndarray]:
        """The law of the number of components, those without rows included, given the number of clusters."""
        k = np.arange(clusters, clusters + MOST_TERMS)
        log = (k - 1) * LOG_CONTINUE + gammaln(k + 1) - gammaln(k - clusters + 1)
        log = log + gammaln(self.concentration * k) - gammaln(self.concentration * k + rows)
        chance = np.exp(log - log.max())
        return k, chance / chance.sum()


PartitionLaw = Any  # DirichletProcess or FiniteMixtures
