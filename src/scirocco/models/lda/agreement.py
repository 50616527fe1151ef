"""Do chains find the same topics? Topics have no order, and a chain stays in the mode that it found.

The topics of every chain are matched one to one with those of the first, by the Hellinger affinity of their words. A
pair is a match only if the two share more than half of their probability,

    total variation  1/2 sum_w |phi_kw - phi'_kw| < 1/2

otherwise the first chain's topic has no partner there: it is a stranger that stands in its place, and is never averaged
with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from scipy.optimize import linear_sum_assignment

from scirocco.run import convergence
from scirocco.run.verdict import LONGER, MEANS, USE, Advice, Finding

STRANGERS = 0.5  # total variation
FIRST_WORDS = 10
LISTED = 10  # topics named in a report
FEWEST_DRAWS = 10  # of a chain: from fewer the median R-hat of ten words may be 1.5 if chains are perfect
SLOW = 1.2  # R-hat of a topic's first words, from which chains should run longer
WITHIN, ACROSS = "within this chain's mode", "across chains"


def align(reference: np.ndarray, topics: np.ndarray) -> np.ndarray:
    """The order of ``topics`` that matches those of ``reference`` best, by the Hellinger affinity of their words."""
    affinity = np.sqrt(reference) @ np.sqrt(topics).T
    return np.asarray(linear_sum_assignment(-affinity)[1])


@dataclass(frozen=True, eq=False)
class Agreement:
    """How far the topics of several chains, in the order of the first, are the same.

    ``matched``, ``total_variation`` and ``overlap`` (of the ten first words) are (chain, topic), between each chain and
    the first; ``rhat`` has for each topic the median R-hat of its first words over the chains that match, NaN where
    none does.
    """

    matched: np.ndarray
    total_variation: np.ndarray
    overlap: np.ndarray
    rhat: np.ndarray

    @classmethod
    def of(cls, means: Sequence[np.ndarray], draws: np.ndarray) -> Agreement:
        """Of the mean topics of each chain, (topic, word), and the draws (chain, draw, topic, word), both aligned."""
        first = means[0]
        variation = np.array([np.abs(mean - first).sum(axis=1) / 2 for mean in means])
        best = [np.argsort(-mean, axis=1, kind="stable")[:, :FIRST_WORDS] for mean in means]
        overlap = np.array([
            [len(np.intersect1d(a, b)) / len(a) for a, b in zip(best[0], other, strict=True)] for other in best
        ])  # fmt: skip
        matched = variation < STRANGERS
        rhat = np.full(len(first), np.nan)
        if draws.shape[1] >= FEWEST_DRAWS:
            for k in np.flatnonzero(matched[1:].any(axis=0)):
                values = draws[:, :, k][:, :, best[0][k]]
                rhat[k] = np.median(convergence.rhat(values[matched[:, k]].astype(np.float64)))
        return cls(matched, variation, overlap, rhat)

    @property
    def chains(self) -> int:
        """How many were compared."""
        return len(self.matched)

    @property
    def reproduced(self) -> np.ndarray:
        """Topics that all chains have found."""
        return np.asarray(self.matched.all(axis=0)) & (self.chains > 1)

    @property
    def intervals(self) -> list[str]:
        """What the intervals of each topic are about."""
        return [ACROSS if found else WITHIN for found in self.reproduced]

    def findings(self) -> list[Finding]:
        """What it says of the topics, for a verdict."""
        if self.chains == 1:
            alone = "topics of a single chain cannot be compared with others"
            return [Finding(LONGER, alone, Advice(settings={"chains": "2"}))]
        lost, topics = int(np.sum(~self.reproduced)), self.matched.shape[1]
        if lost:
            text = f"{lost} of {topics} topics are not found by all chains: their intervals are {WITHIN}"
            return [Finding(MEANS, text, Advice(factor=4.0))]
        worst = float(np.nanmax(self.rhat)) if np.isfinite(self.rhat).any() else np.nan
        if np.isnan(worst):
            text = f"all topics are found by all chains; R-hat says nothing of fewer than {FEWEST_DRAWS} draws"
            return [Finding(LONGER, text, Advice(factor=4.0))]
        if worst > SLOW:
            text = f"all topics are found by all chains, with R-hat up to {worst:.2f}"
            return [Finding(LONGER, text, Advice(factor=4.0))]
        return [Finding(USE, f"all {topics} topics are found by all chains, R-hat {worst:.2f}")]

    def pack(self) -> dict[str, np.ndarray]:
        """Its arrays, by name."""
        return {f"agreement_{field.name}": getattr(self, field.name) for field in fields(self)}

    @classmethod
    def unpack(cls, arrays: dict[str, np.ndarray]) -> Agreement:
        """The inverse of ``pack``."""
        return cls(**{field.name: arrays[f"agreement_{field.name}"] for field in fields(cls)})

    def __str__(self) -> str:
        if self.chains == 1:
            return f"agreement between chains: not measured (one chain); intervals are {WITHIN}"
        topics, lost = self.matched.shape[1], np.flatnonzero(~self.reproduced)
        lines = [f"agreement between {self.chains} chains: {topics - len(lost)} of {topics} topics are found by all"]
        kept = self.reproduced
        if kept.any():
            worst = np.nanmax(self.rhat[kept]) if np.isfinite(self.rhat[kept]).any() else np.nan
            variation, overlap = self.total_variation[1:, kept].mean(), self.overlap[1:, kept].mean()
            lines.append(
                f"  these differ by a total variation of {variation:.2f}, share {overlap:.0%} of their ten first words"
                + (f"; largest R-hat (median of a topic's first words) {worst:.2f}" if np.isfinite(worst) else "")
                + f"; their intervals are {ACROSS}"
            )
        if len(lost):
            named = ", ".join(map(str, lost[:LISTED])) + (", ..." if len(lost) > LISTED else "")
            lines.append(f"  without a partner in some chain: topics {named}; their intervals are {WITHIN}")
        return "\n".join(lines)

    __repr__ = __str__
