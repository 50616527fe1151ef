"""A look at the draws of shards before they are combined: do they overlap, have they several modes, are there enough?

    overlap    d_s = (mu_s - mu_-s)'(C_s + C_-s)^-1 (mu_s - mu_-s)    of shard s and the product of all others

If rows were dealt to shards at random, d_s is about chi-square with as many degrees of freedom as coordinates. Far
beyond it shards tell different stories (data sorted by time, a chain that stuck), and no product of what was drawn
knows much of the posterior.

    modes      (skewness^2 + 1) / kurtosis > 5/9    along the principal directions of a shard

is what two separate lumps have and a normal law, 1/3, has not (Sarle's coefficient; 5/9 is that of a uniform law).

    kernels    h^2, by which kernels of Silverman's width add to variances (``combine.kernels``)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from scirocco.combine.kernels import bandwidth
from scirocco.combine.shards import Shards

UNLIKELY = 1e-6  # the chance of a shard as far away as this, all shards together
LUMPS = 0.62  # above 5/9, which a uniform law has, by a margin for chance
WIDE = 0.2  # added to variances by kernels


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What was seen, and in words what it means for each method."""

    apart: float
    """The largest d_s over its expectation, the number of coordinates."""
    chance: float
    """Of a d_s as large as the largest if rows had been dealt at random."""
    lumps: float
    """The largest of Sarle's coefficients."""
    kernel_inflation: float
    """h^2."""
    shards: int
    coordinates: int

    @property
    def overlaps(self) -> bool:
        """Whether shards lie where random ones would."""
        return self.chance > UNLIKELY

    @property
    def several_modes(self) -> bool:
        """Whether a shard looks like two lumps."""
        return self.lumps > LUMPS

    @property
    def warnings(self) -> list[str]:
        """What may go wrong."""
        found = []
        if not self.overlaps:
            found.append(
                f"these shards do not overlap: one lies {np.sqrt(self.apart):.1f} times as far from the others as "
                "random shards would. Shuffle rows before they are cut, look at the chains, or take fewer shards"
            )
        if self.several_modes:
            found.append(
                "a shard looks as if it had several modes: averages (consensus, parametric, swiss) make one of them, "
                "and chains of different shards may sit in different ones"
            )
        if self.kernel_inflation > WIDE:
            found.append(
                f"in {self.coordinates} dimensions so few draws make kernels (kdemc, semiparametric) wide: kdemc adds "
                f"{self.kernel_inflation:.0%} to variances"
            )
        return found

    def __str__(self) -> str:
        head = f"{self.shards} shards, {self.coordinates} coordinates: "
        return head + ("; ".join(self.warnings) or "nothing speaks against combining them")


def diagnose(draws: Iterable[Any]) -> Diagnosis:
    """Of the draws of each shard, as the methods take them.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> print(diagnose(rng.normal(size=(4, 1000, 2))))
    4 shards, 2 coordinates: nothing speaks against combining them
    """
    shards = Shards.of(draws)
    total, pulled = shards.precisions.sum(axis=0), np.einsum("sij,sj->si", shards.precisions, shards.means)
    far = []
    for own, mean, precision, pull in zip(shards.covariances, shards.means, shards.precisions, pulled, strict=True):
        others = np.linalg.inv(total - precision)
        gap = mean - others @ (pulled.sum(axis=0) - pull)
        far.append(gap @ np.linalg.solve(own + others, gap))
    d, worst = shards.dimension, float(np.max(far))
    chance = min(1.0, shards.count * float(stats.chi2.sf(worst, d)))
    lumps = max(map(_lumps, shards.values, shards.covariances))
    return Diagnosis(worst / d, chance, lumps, bandwidth(shards) ** 2, shards.count, d)


def _lumps(values: np.ndarray, covariance: np.ndarray) -> float:
    """Sarle's coefficient, along principal directions the largest."""
    scale = np.sqrt(np.diag(covariance))
    _, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    along = (values - values.mean(axis=0)) / scale @ vectors
    return float(np.max((stats.skew(along) ** 2 + 1) / stats.kurtosis(along, fisher=False)))
