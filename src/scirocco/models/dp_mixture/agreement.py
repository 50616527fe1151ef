"""Do chains of a mixture find the same partitions?

Draws are compared by variation of information. In many dimensions draws of one chain are nearly as far from each other
as from those of a chain in another mode, so the ratio of the mean distances says little. What counts is whether draws
can be told apart by chain: is a draw of a chain's second half nearer, on average, to the first half of its own chain
than to that of another? Chains that mix make it right half of the time, chains in modes of their own always. Where
one chain has more clusters, its draws are farther from everything: the distance of a draw from a chain is less half of
the chain's own spread, as in energy distances (Szekely and Rizzo 2013).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scirocco.core.seeds import Purpose, generator
from scirocco.models.dp_mixture.draws import MixtureDraws
from scirocco.partitions.losses import distances
from scirocco.run import convergence
from scirocco.run.verdict import LONGER, USE, Advice, Finding

if TYPE_CHECKING:
    import pandas as pd

COMPARED_ROWS, COMPARED_DRAWS = 5000, 20  # for distances between chains; draws of a chain, at most
MIXED = 1.1  # R-hat of the number of clusters and of the log posterior, at most, of chains that agree
PARTED, SLACK = 0.9, 0.01  # draws of two modes are told apart so often, and are so many bits farther than those of one


@dataclass(frozen=True, eq=False)
class ChainAgreement:
    """Do chains find the same partition? Mean distances of draws, in bits, within chains and between two of them."""

    within: np.ndarray
    """By chain: of draws of its first half from those of its second."""
    between: np.ndarray
    """(chain, chain): of draws of one's first half from those of another's second."""
    told_apart: np.ndarray
    """(chain, chain): how often a draw of either is nearer to the other half of its own chain."""
    rhat: float
    """Of the number of clusters."""
    rhat_density: float
    """Of the log posterior."""
    clusters: np.ndarray
    """The mean number, by chain."""
    log_density: np.ndarray
    """The mean log posterior density of rows and partition, by chain."""

    @classmethod
    def of(cls, found: MixtureDraws, seed: int) -> ChainAgreement:
        """Measured on a sample of rows and draws."""
        chains, draws, rows = found.labels.shape
        some = generator(seed, Purpose.MIXTURE_SAMPLE).permutation(rows)[:COMPARED_ROWS]
        picks = np.unique(np.linspace(0, draws - 1, COMPARED_DRAWS).astype(int))
        labels = found.labels[:, picks][:, :, some]
        half = len(picks) // 2
        far = np.zeros((chains, chains, half, half))  # first half of the one, second half of the other
        for a, b in np.ndindex(chains, chains):
            far[a, b] = np.array([distances(labels[a, :half], own, "vi") for own in labels[b, len(picks) - half :]]).T
        between = far.mean(axis=(2, 3)) if half else np.zeros((chains, chains))
        told = np.full((chains, chains), 0.5)
        for a, b in np.ndindex(chains, chains):
            if a != b and half:
                first = far[a, b].mean(axis=1) - far[a, a].mean(axis=1)  # of draws of a's first half
                second = far[b, a].mean(axis=0) - far[a, a].mean(axis=0)  # of its second half
                spread = (between[b, b] - between[a, a]) / 2
                told[a, b] = 0.5 + np.sign(np.append(first, second) - spread).mean() / 2
        told = (told + told.T) / 2
        watched = [found.number, found.log_density]
        rhat, rhat_density = (_rhat(values) for values in watched)
        return cls(np.diag(between).copy(), between, told, rhat, rhat_density, *(v.mean(axis=1) for v in watched))

    @property
    def chains(self) -> int:
        """How many were compared."""
        return len(self.within)

    @property
    def modes(self) -> np.ndarray:
        """The mode of each chain, from 0 on: chains share one if their draws cannot be told apart."""
        farther = (self.between + self.between.T) / 2 - (self.within[:, None] + self.within) / 2
        together = (self.told_apart < PARTED) | (farther <= SLACK)
        found = np.arange(self.chains)
        for a, b in zip(*np.nonzero(together), strict=True):
            found[found == found[b]] = found[a]
        return np.asarray(np.unique(found, return_inverse=True)[1])

    @property
    def agreed(self) -> bool:
        """Whether chains are in one mode, with as many clusters and the same log posterior."""
        mixed = not (self.rhat > MIXED or self.rhat_density > MIXED)
        return bool(self.chains > 1 and self.modes.max() == 0 and mixed)

    def table(self) -> pd.DataFrame:
        """By chain: its mode, clusters, and the mean log posterior, by which modes are compared."""
        import pandas as pd

        columns = {"mode": self.modes, "clusters": self.clusters, "log_density": self.log_density}
        return pd.DataFrame(columns, index=pd.RangeIndex(self.chains, name="chain"))

    def findings(self) -> list[Finding]:
        """What it says of the partitions, for a verdict."""
        if self.chains == 1:
            alone = "partitions of a single chain cannot be compared with others"
            return [Finding(LONGER, alone, Advice(settings={"chains": "2"}))]
        return [Finding(USE, str(self)) if self.agreed else Finding(LONGER, str(self), Advice(factor=4.0))]

    def __str__(self) -> str:
        if self.chains == 1:
            return "agreement between chains: not measured (one chain)"
        apart = ~np.eye(self.chains, dtype=bool)
        parted = self.modes.max() > 0
        verdict = "are in modes of their own" if parted else "find the same partitions"
        if not parted and not self.agreed:
            verdict = "are in one mode, but have not mixed"
        numbers = ", ".join(f"{n:.1f}" for n in self.clusters)
        evidence = ", ".join(f"{value:.1f}" for value in self.log_density)
        return (
            f"agreement: {self.chains} chains {verdict}. Draws of one chain differ by {self.within.mean():.2f} bits, "
            f"of two by {self.between[apart].mean():.2f}, and are told apart {self.told_apart[apart].mean():.0%} of "
            f"the time (50% by chance); mean numbers of clusters {numbers}, R-hat {self.rhat:.2f}; mean log posterior "
            f"{evidence}, R-hat {self.rhat_density:.2f}{self._leads() if parted else ''}"
        )

    def _leads(self) -> str:
        """Of several modes: where to read on, and what is no evidence."""
        return (
            f". What is shown mixes {self.modes.max() + 1} modes (agreement_.table()): mode_scores(X) says how well "
            "each predicts held-out rows, of_mode(k) is the model of the chains of mode k alone. The mean log "
            "posterior is that of single partitions: a mode of many has less of it, and may have more probability"
        )

    __repr__ = __str__


def _rhat(values: np.ndarray) -> float:
    """Of (chain, draw); 1 for what does not move, NaN for too few draws."""
    if np.ptp(values) == 0:
        return 1.0
    return float(convergence.rhat(values[..., None])[0]) if values.shape[1] >= convergence.LEAST_DRAWS else np.nan
