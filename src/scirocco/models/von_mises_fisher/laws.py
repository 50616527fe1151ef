"""The prior and the likelihood of a mixture of directions, for the chains in JAX and for the search in NumPy.

    log kappa_k - log(1 - kappa_k / 10^6) = c_k

    free            c_k ~ N(log median, spread^2), each by itself
    shared          c_k = c ~ N(log median, spread^2)
    hierarchical    c_k ~ N(m, t^2),  m ~ N(log median, spread^2),  t ~ |N(0, 1)|

m and t are integrated out: m in closed form, t by a sum over a grid,

    p(c) = sum_t p(t) N(mean of c | log median, spread^2 + t^2 / K) t^(1 - K) exp(-S / 2t^2),  S = sum (c_k - mean)^2,

so that nothing is sampled but the concentrations. The grid ends at 0.1: concentrations that are nearer to each other
are as good as equal, and a smaller t would be a funnel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.types import Array, Params
from scirocco.directional import log_bessel_excess
from scirocco.directional.bessel import ratio_and_slope

FREE, SHARED, HIERARCHICAL = "free", "shared", "hierarchical"
MOST_KAPPA = 1e6
NEAREST = 1 - 1e-6  # to it, of a start: single precision tells it from the bound
SPREADS = np.geomspace(0.1, 5.0, 24)  # t
LOG_SPREADS = np.log(SPREADS)
LOG_CHANCES = LOG_SPREADS - SPREADS**2 / 2  # of equal steps of log t


@dataclass(frozen=True)
class Prior:
    """The prior in numbers; ``pull`` is kappa_0 m."""

    dimension: int
    alpha: float
    centre: float
    spread: float
    pull: tuple[float, ...]
    concentration: str = FREE

    @property
    def shared(self) -> bool:
        """Whether there is one concentration."""
        return self.concentration == SHARED

    def of_concentrations(self, logs: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The log density of the numbers c, its slope, and the precision that a step towards the mode may take."""
        if self.concentration != HIERARCHICAL:
            away = (logs - self.centre) / self.spread
            slope = (self.centre - logs) / self.spread**2
            return -float(np.sum(away**2) / 2), slope, np.full_like(logs, 1 / self.spread**2)
        mean, wide = logs.mean(), self.spread**2 + SPREADS**2 / len(logs)
        terms = _log_joint(np, logs, self.centre, self.spread)
        chances = np.exp(terms - terms.max())
        value = float(terms.max() + np.log(chances.sum()))
        chances /= chances.sum()
        inwards, to_centre = float(chances @ SPREADS**-2.0), float(chances @ (1 / wide))
        slope = -inwards * (logs - mean) - to_centre * (mean - self.centre) / len(logs)
        return value, slope, np.full_like(logs, inwards)


def _log_joint(xp: Any, logs: Any, centre: float, spread: float) -> Any:
    """log p(c, t) but for a constant, on the grid of t."""
    count, mean = logs.shape[0], xp.mean(logs)
    wide = spread**2 + SPREADS**2 / count
    square = xp.sum((logs - mean) ** 2)
    return (
        LOG_CHANCES - (count - 1) * LOG_SPREADS - square / (2 * SPREADS**2)
        - np.log(wide) / 2 - (mean - centre) ** 2 / (2 * wide)
    )  # fmt: skip


def log_prior(prior: Prior, params: Params) -> Array:
    """Of weights, means and concentrations, of which there is one if they are shared."""
    kappas = params["concentrations"]
    # Of many equal rows kappa comes so near its bound that single precision does not tell them apart.
    log_kappas, log_rest = jnp.log(kappas), jnp.log1p(-jnp.minimum(kappas / MOST_KAPPA, 1 - 1e-7))
    others = (
        (prior.alpha - 1) * jnp.sum(jnp.log(params["weights"])),
        jnp.sum(params["means"] @ jnp.asarray(prior.pull, jnp.float32)),
    )
    if prior.concentration == HIERARCHICAL:
        pooled = jax.nn.logsumexp(_log_joint(jnp, log_kappas - log_rest, prior.centre, prior.spread))
        return others[0] + pooled - jnp.sum(log_kappas + log_rest) + others[1]
    return (
        others[0]
        - jnp.sum(jnp.square((log_kappas - log_rest - prior.centre) / prior.spread) / 2 + log_kappas + log_rest)
        + others[1]
    )


def log_likelihood(params: Params, x: Array) -> Array:
    """Without the area of the sphere."""
    kappas = params["concentrations"]
    offsets = jnp.log(params["weights"]) + (kappas - log_bessel_excess(x.shape[-1] / 2 - 1, kappas))
    # Less 1 in each row: in sums over rows a large kappa would find nothing of the difference left.
    return jax.nn.logsumexp(kappas * (x @ params["means"].T - 1) + offsets, axis=1)


@dataclass(frozen=True, eq=False)
class Mixture:
    """One arrangement; ``log_kappas`` are log kappa - log(1 - kappa / 10^6), one number if they are shared."""

    weights: np.ndarray
    means: np.ndarray
    log_kappas: np.ndarray

    @property
    def kappas(self) -> np.ndarray:
        """The concentrations, one for each component."""
        return np.broadcast_to(kappas_of(self.log_kappas), self.weights.shape)

    @property
    def params(self) -> Params:
        """As the target has it."""
        kappas = np.minimum(kappas_of(self.log_kappas), NEAREST * MOST_KAPPA)
        named = {"weights": self.weights, "means": self.means, "concentrations": kappas}
        return {name: jnp.asarray(values, jnp.float32) for name, values in named.items()}

    def ordered(self, order: np.ndarray) -> Mixture:
        """The same with the components in another order."""
        logs = self.log_kappas if len(self.log_kappas) == 1 else self.log_kappas[order]
        return Mixture(self.weights[order], self.means[order], logs)

    def each_log_densities(self, X: np.ndarray, most: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """log w_k + log vMF(x | k), without the area of the sphere, (row, component), and at ``most`` so many rows."""
        slopes = (self.kappas[:, None] * self.means).astype(X.dtype)
        offsets = (np.log(self.weights) - excess(X.shape[1], self.kappas)).astype(X.dtype)
        return ((x @ slopes.T + offsets, x) for x in in_pieces(X, most))


def in_pieces(X: np.ndarray, most: int) -> Iterator[np.ndarray]:
    """At most so many rows at a time."""
    return (X[first : first + most] for first in range(0, len(X), most))


def kappas_of(logs: np.ndarray) -> np.ndarray:
    """kappa of log kappa - log(1 - kappa / 10^6)."""
    return np.asarray(1 / (np.exp(-logs) + 1 / MOST_KAPPA))


def change_of(kappas: np.ndarray) -> np.ndarray:
    """The derivative of kappa by its free number."""
    return kappas * (1 - kappas / MOST_KAPPA)


def excess(dimension: int, kappas: np.ndarray) -> np.ndarray:
    """G, the log of the normaliser but for the area of the sphere, in double precision."""
    with jax.enable_x64(True):
        return np.asarray(log_bessel_excess(dimension / 2 - 1, np.asarray(kappas, np.float64)))


def length_and_slope(dimension: int, kappas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean of x . mu, which is the slope of G, and its variance, which is the slope of that."""
    with jax.enable_x64(True):
        ratio, slope = ratio_and_slope(dimension / 2 - 1, kappas)
        return np.asarray(ratio), np.asarray(slope)


def log_area(dimension: int) -> float:
    """Of the sphere."""
    return math.log(2) + dimension / 2 * math.log(math.pi) - math.lgamma(dimension / 2)
