"""Mean and variance of everything that was sampled, without storing it.

Each chunk sums deviations from a reference point of its own; chunks are merged in float64 on the host (Chan, Golub and
LeVeque 1979), so a million float32 draws lose nothing.
Chunks are cut by time: draws are the same to the bit from run to run, moments up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Moments:
    """Streaming moments by variable and chain."""

    count: int = 0
    mean: dict[str, np.ndarray] = field(default_factory=dict)
    square: dict[str, np.ndarray] = field(default_factory=dict)  # sums of squared deviations from the mean
    start: dict[str, np.ndarray] = field(default_factory=dict)  # where the chains began

    def merge(
        self, count: int, reference: dict[str, np.ndarray], first: dict[str, np.ndarray], second: dict[str, np.ndarray]
    ) -> None:
        """Add ``count`` draws, given the sums of their first and second powers of deviations from ``reference``."""
        if not count:
            return
        total = self.count + count
        for name, total_deviation in first.items():
            shift = np.asarray(total_deviation, np.float64) / count
            mean = np.asarray(reference[name], np.float64) + shift
            square = np.asarray(second[name], np.float64) - count * shift**2
            if self.count:
                gap = mean - self.mean[name]
                square = self.square[name] + square + gap**2 * self.count * count / total
                mean = self.mean[name] + gap * count / total
            self.mean[name], self.square[name] = mean, np.maximum(square, 0)
        self.count = total

    @classmethod
    def joined(cls, groups: Sequence[Moments]) -> Moments:
        """Those of several groups of chains; where some have fewer draws, as after Ctrl-C, each keeps its variance."""
        groups = [group for group in groups if group.count]
        if not groups:
            return cls()
        count = min(group.count for group in groups)
        joined = cls(count)
        for name in groups[0].mean:
            joined.mean[name] = np.concatenate([group.mean[name] for group in groups])
            scaled = [group.square[name] * (max(1, count - 1) / max(1, group.count - 1)) for group in groups]
            joined.square[name] = np.concatenate(scaled)
        for name in groups[0].start:
            joined.start[name] = np.concatenate([group.start[name] for group in groups])
        return joined

    def variance(self) -> dict[str, np.ndarray]:
        """The sample variance of each chain."""
        return {name: square / max(1, self.count - 1) for name, square in self.square.items()}

    def pooled(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Mean and variance over all chains together."""
        mean = {name: np.asarray(m.mean(axis=0)) for name, m in self.mean.items()}
        within = {name: v.mean(axis=0) for name, v in self.variance().items()}
        return mean, {name: np.asarray(within[name] + self.mean[name].var(axis=0)) for name in within}
