r"""The law of the minibatch estimate of a gamma or Dirichlet parameter.

    a_hat = alpha + (N/n) Z,        a = alpha + count

Z is how many of the ``count`` examples of the category, out of N, fall into a minibatch of n: hypergeometric if the
minibatch is drawn without replacement, binomial if with. All that minibatches do to a chain of theta ~ Gamma(a) goes
through this law, and its support is small enough to sum over: no expectation of a nonlinear function of a_hat needs
to be expanded or simulated. Baker et al. (2018); Barile and Nemeth, Remark 1, whose hypergeometric function (25) is
0 times infinity once n > N - count, where the sum is as good as anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scirocco.core.checks import numbers, real_number, require_count

Floats: TypeAlias = NDArray[np.float64]

SMALLEST = 1e-300
"""Probabilities below this are left out: they are at the end of what float64 can hold."""


@dataclass(frozen=True, eq=False)
class EstimateLaw:
    """A discrete law of a_hat: ``values`` (positive) and their ``probabilities``, which sum to one.

    >>> law = EstimateLaw.hypergeometric(size=1000, count=150, batch_size=100, prior=0.1)
    >>> print(f"{law.mean:.4f} {law.variance:.4f}")
    150.1000 1148.6486
    """

    values: Floats
    probabilities: Floats

    def __post_init__(self) -> None:
        values, probabilities = (
            numbers(name, getattr(self, name)).astype(np.float64) for name in ("values", "probabilities")
        )
        if values.ndim != 1 or not values.size:
            raise ValueError(f"values must have shape (k,) with k of at least 1; got {values.shape}")
        if probabilities.shape != values.shape:
            raise ValueError(f"probabilities must have the shape of values, {values.shape}; got {probabilities.shape}")
        if not np.all(np.isfinite(values) & (values > 0)):
            raise ValueError(f"values must be positive and finite, as shapes of a gamma law; got {values.min()!r}")
        if not (np.all(probabilities >= 0) and abs(probabilities.sum() - 1) < 1e-9):
            raise ValueError(
                "probabilities must be nonnegative and sum to one; "
                f"got a sum of {probabilities.sum()!r} and a smallest of {probabilities.min()!r}"
            )
        kept = probabilities >= SMALLEST
        values, probabilities = values[kept], probabilities[kept] / probabilities[kept].sum()
        for name, array in (("values", values), ("probabilities", probabilities)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @classmethod
    def hypergeometric(cls, size: int, count: int, batch_size: int, prior: float) -> EstimateLaw:
        """Minibatches of ``batch_size`` drawn without replacement from ``size``, ``count`` of them in the category."""
        _check(size, count, batch_size, prior)
        if batch_size > size:
            raise ValueError(f"batch_size must be at most size, {size}, without replacement; got {batch_size!r}")
        others = size - count
        z = np.arange(max(0, batch_size - others), min(batch_size, count) + 1, dtype=np.float64)
        ratios = (count - z[:-1]) / z[1:] * ((batch_size - z[:-1]) / (others - batch_size + z[1:]))
        return cls(prior + size / batch_size * z, _normalised(ratios))

    @classmethod
    def with_replacement(cls, size: int, count: int, batch_size: int, prior: float) -> EstimateLaw:
        """Minibatches of ``batch_size`` drawn with replacement from ``size``, ``count`` of them in the category."""
        _check(size, count, batch_size, prior)
        if count == size:
            return cls.exact(prior + size)
        z = np.arange((batch_size if count else 0) + 1, dtype=np.float64)
        ratios = (batch_size - z[:-1]) / z[1:] * (count / (size - count))
        return cls(prior + size / batch_size * z, _normalised(ratios))

    @classmethod
    def from_samples(cls, samples: ArrayLike) -> EstimateLaw:
        """The empirical law of estimates that were observed, e.g. of expected counts, which are not whole numbers."""
        values = numbers("samples", samples).astype(np.float64, copy=False)
        if not (values.size and np.all(np.isfinite(values) & (values > 0))):
            bad = int(np.sum(~(values > 0) | np.isinf(values)))
            raise ValueError(f"samples must be positive, finite and at least one; {bad} of {values.size} are not")
        values, counts = np.unique(values, return_counts=True)
        return cls(values, counts / counts.sum())

    @classmethod
    def exact(cls, parameter: float) -> EstimateLaw:
        """The full batch: a_hat is always the ``parameter``."""
        return cls(np.array([real_number("parameter", parameter, least=0.0, open_end=True)]), np.ones(1))

    @property
    def mean(self) -> float:
        """E a_hat, the parameter a itself."""
        return float(self.probabilities @ self.values)

    @property
    def variance(self) -> float:
        """Var a_hat."""
        return float(self.probabilities @ (self.values - self.mean) ** 2)

    def expect(self, function: Callable[[Floats], Floats]) -> float:
        """E f(a_hat) of a ``function`` that takes an array.

        >>> EstimateLaw.exact(4.0).expect(np.sqrt)
        2.0
        """
        return float(self.probabilities @ function(self.values))

    def above(self, bound: float) -> EstimateLaw:
        """The law given that a_hat > ``bound``."""
        kept = self.values > bound
        if not np.any(kept):
            raise ValueError(f"bound must be below the largest estimate, {self.values.max()!r}; got {bound!r}")
        return EstimateLaw(self.values[kept], self.probabilities[kept] / self.probabilities[kept].sum())


def _check(size: int, count: int, batch_size: int, prior: float) -> None:
    for name, value, least in (("size", size, 1), ("count", count, 0), ("batch_size", batch_size, 1)):
        require_count(name, value, least)
    if count > size:
        raise ValueError(f"count must be at most size, {size}; got {count!r}")
    real_number("prior", prior, least=0.0, open_end=True)


def _normalised(ratios: Floats) -> Floats:
    """The probabilities whose neighbours have these ``ratios``. Binomial coefficients would overflow; sums do not."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()
