"""Sampled over true variance by the virial identity, from a few points with gradients and the variance of all draws.

    E (x_i - mean) (S grad U)_i / S_ii = T    for the right law and any matrix S

On a Gaussian with covariance S this is the ratio of the variances of x_i, sampled over true, whatever the correlations;
with S = I it is that of x_i given all others. S is the inverse of the curvature that points and gradients of other
chains show, as far as there are enough of them; else that of the sampler's coordinates, where it has some
(``marginal``). See ``diagnostics.virial``.

    ratio = b Var(x_i) / T,    b the slope of (S grad U)_i / S_ii against x_i over the points

On a Gaussian b is the precision whatever the points, so that the variance of all draws is judged by few gradients.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

BLOCKS = 4  # of the points of a chain, whose residuals may depend on each other
ENOUGH = 4  # points of a half for each coordinate, from which its curvature is taken
WEAKEST = 1e-8  # of the largest curvature, in units of the sds: the least that is believed


class Virials(NamedTuple):
    """Of each coordinate of a parameter: the ratio of variances, 1 for the right law, and its standard error."""

    ratio: np.ndarray
    error: np.ndarray

    @classmethod
    def of(cls, places: np.ndarray, slopes: np.ndarray, variance: np.ndarray, temperature: float = 1.0) -> Virials:
        """From points and gradients, (chain, point, ...), and the variance of all draws.

        >>> x = np.random.default_rng(0).normal(size=(4, 50, 2))
        >>> print(Virials.of(2 * x, 2 * x, np.array([1.0, 1.21])).ratio.round(2))
        [1.   1.21]
        """
        x, g = (np.asarray(a, np.float64) for a in (places, slopes))
        x, g = x - x.mean(axis=(0, 1)), g - g.mean(axis=(0, 1))
        square = np.maximum((x**2).sum(axis=(0, 1)), np.finfo(np.float64).tiny)
        slope = (x * g).sum(axis=(0, 1)) / square
        left = np.concatenate([part.sum(axis=1) for part in np.array_split(x * (g - slope * x), BLOCKS, axis=1)])
        error = np.sqrt((left**2).sum(axis=0)) / square
        unit = np.asarray(variance, np.float64) / temperature
        return cls(slope * unit, error * unit)

    def with_chance(self, variances: np.ndarray) -> Virials:
        """The same with what the variances of single chains, (chain, ...), leave to chance.

        Few chains say little of each coordinate: none is taken to be less uncertain than the typical one.
        """
        chains = np.asarray(variances, np.float64)
        if len(chains) < 2:
            return self
        mean = np.maximum(chains.mean(axis=0), np.finfo(np.float64).tiny)
        relative = np.var(chains / mean, axis=0, ddof=1) / len(chains)
        chance = np.maximum(relative, np.median(relative))
        return Virials(self.ratio, np.sqrt(self.error**2 + self.ratio**2 * chance))

    @property
    def sd_error(self) -> np.ndarray:
        """The relative error of the sd."""
        return np.sqrt(np.maximum(self.ratio, 0)) - 1

    @property
    def sd_error_error(self) -> np.ndarray:
        """Its standard error."""
        return self.error / (2 * np.sqrt(np.maximum(self.ratio, 0.05)))


def marginal_slopes(places: np.ndarray, slopes: np.ndarray) -> np.ndarray | None:
    """(S g)_i / S_ii at points (chain, point, coordinate); None where there are too few points for S.

    S comes from the other half of the chains, or of the only chain: the identity holds for a matrix that does not
    depend on the points themselves.
    """
    chains, count, size = places.shape
    if chains * count < 2 * ENOUGH * size:
        return None
    number = np.arange(chains * count).reshape(chains, count)
    first = number % (2 * count) < count if chains > 1 else number < count // 2
    x, g = (np.asarray(a, np.float64) for a in (places, slopes))
    found = np.empty(x.shape)
    for here in (first, ~first):
        spread = _inverse_curvature(x[~here], g[~here])
        found[here] = g[here] @ spread / np.diag(spread)
    return found


def _inverse_curvature(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The inverse of the matrix P by which gradients follow the points, g = P x, symmetric and positive definite."""
    x, g = x - x.mean(axis=0), g - g.mean(axis=0)
    unit = np.maximum(x.std(axis=0), np.finfo(np.float64).tiny)
    bent = np.linalg.lstsq(x / unit, g * unit, rcond=None)[0]
    values, vectors = np.linalg.eigh((bent + bent.T) / 2)
    least = WEAKEST * max(float(values[-1]), np.finfo(np.float64).tiny)
    return (vectors / np.maximum(values, least)) @ vectors.T * np.outer(unit, unit)
