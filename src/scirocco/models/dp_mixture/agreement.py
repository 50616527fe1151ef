"""Do chains of a mixture find the same partitions?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scirocco.core.seeds import Purpose, generator
from scirocco.models.dp_mixture.draws import MixtureDraws
from scirocco.partitions.losses import distances
from scirocco.run import convergence
from scirocco.run.verdict import LONGER, USE, Advice, Finding

COMPARED_ROWS, COMPARED_DRAWS = 5000, 10  # for distances between chains
MIXED = 1.1  # R-hat of the number of clusters, at most, of chains that agree
PARTED, SLACK = 1.5, 0.1  # chains may be so many times as far apart as draws of one, and so many bits


@dataclass(frozen=True, eq=False)
class ChainAgreement:
    """Do chains find the same partition? Mean distances of draws, in bits, within chains and between two of them."""

    within: np.ndarray
    """By chain."""
    between: np.ndarray
    """(chain, chain)"""
    rhat: float
    """Of the number of clusters."""
    clusters: np.ndarray
    """The mean number, by chain."""

    @classmethod
    def of(cls, found: MixtureDraws, seed: int) -> ChainAgreement:
        """Measured on a sample of rows and draws."""
        chains, draws, rows = found.labels.shape
        some = generator(seed, Purpose.MIXTURE_SAMPLE).permutation(rows)[:COMPARED_ROWS]
        picks = np.unique(np.linspace(0, draws - 1, COMPARED_DRAWS).astype(int))
        labels = found.labels[:, picks][:, :, some]
        between = np.zeros((chains, chains))
        for a, b in np.ndindex(chains, chains):
            each = [distances(labels[a][[i for i in range(len(picks)) if a != b or i != k]], labels[b][k], "vi").mean()
                    for k in range(len(picks)) if a != b or len(picks) > 1]  # fmt: skip
            between[a, b] = np.mean(each) if each else 0.0
        rhat = float(convergence.rhat(found.number[..., None])[0]) if draws >= convergence.LEAST_DRAWS else np.nan
        rhat = 1.0 if np.ptp(found.number) == 0 else rhat
        return cls(np.diag(between).copy(), between, rhat, found.number.mean(axis=1))

    @property
    def chains(self) -> int:
        """How many were compared."""
        return len(self.within)

    @property
    def agreed(self) -> bool:
        """Whether draws of different chains are about as near as those of one, with as many clusters."""
        apart = self.between[~np.eye(self.chains, dtype=bool)]
        near = self.chains > 1 and apart.max() <= PARTED * self.within.mean() + SLACK
        return bool(near and not self.rhat > MIXED)

    def findings(self) -> list[Finding]:
        """What it says of the partitions, for a verdict."""
        if self.chains == 1:
            alone = "partitions of a single chain cannot be compared with others"
            return [Finding(LONGER, alone, Advice(settings={"chains": "2"}))]
        return [Finding(USE, str(self)) if self.agreed else Finding(LONGER, str(self), Advice(factor=4.0))]

    def __str__(self) -> str:
        if self.chains == 1:
            return "agreement between chains: not measured (one chain)"
        apart = self.between[~np.eye(self.chains, dtype=bool)]
        numbers = ", ".join(f"{n:.1f}" for n in self.clusters)
        verdict = "find the same partitions" if self.agreed else "are in modes of their own"
        return (
            f"agreement: {self.chains} chains {verdict}. Draws of one chain differ by {self.within.mean():.2f} bits, "
            f"of two by {apart.mean():.2f}; mean numbers of clusters {numbers}, R-hat {self.rhat:.2f}"
        )

    __repr__ = __str__
