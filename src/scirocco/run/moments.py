"""Mean and variance of everything that was sampled, without storing it.

Deviations from a reference point are summed over a fixed number of draws, whatever the chunks in which they were made,
and such sums are merged in float64 on the host (Chan, Golub and LeVeque 1979). So a million float32 draws lose nothing,
and moments are the same to the bit from run to run, as draws are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

FREE = "free__"  # before the name of a parameter with a constraint: the free numbers that the chain moves
SUMMED = 10_000  # draws whose deviations are summed together


class Sums(NamedTuple):
    """Of some draws, by variable and chain: first and second powers of deviations from a reference point, summed."""

    number: int
    reference: dict[str, np.ndarray]
    first: dict[str, np.ndarray]
    second: dict[str, np.ndarray]


@dataclass
class Moments:
    """Streaming moments by variable and chain."""

    count: int = 0
    mean: dict[str, np.ndarray] = field(default_factory=dict)
    square: dict[str, np.ndarray] = field(default_factory=dict)  # sums of squared deviations from the mean
    start: dict[str, np.ndarray] = field(default_factory=dict)  # where the chains began

    def merge(self, sums: Sums) -> None:
        """Add the draws that ``sums`` are of."""
        count = sums.number
        if not count:
            return
        total = self.count + count
        for name, total_deviation in sums.first.items():
            shift = np.asarray(total_deviation, np.float64) / count
            mean = np.asarray(sums.reference[name], np.float64) + shift
            square = np.asarray(sums.second[name], np.float64) - count * shift**2
            if self.count:
                gap = mean - self.mean[name]
                square = self.square[name] + square + gap**2 * self.count * count / total
                mean = self.mean[name] + gap * count / total
            self.mean[name], self.square[name] = mean, np.maximum(square, 0)
        self.count = total

    def including(self, pending: Sums | None) -> Moments:
        """The moments with draws whose sums are not complete yet."""
        if pending is None or not pending.number:
            return self
        both = Moments(self.count, dict(self.mean), dict(self.square), self.start)
        both.merge(pending)
        return both

    @classmethod
    def of(cls, draws: dict[str, np.ndarray]) -> Moments:
        """Those of draws, (chain, draw, ...) by variable."""
        found = cls()
        for name, values in draws.items():
            found.count, found.mean[name] = values.shape[1], values.mean(axis=1, dtype=np.float64)
            found.square[name] = np.sum((values - found.mean[name][:, None]) ** 2, axis=1)
        return found

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

    def shown(self) -> Moments:
        """Those of the parameters that users see."""
        return self._renamed(lambda name: None if name.startswith(FREE) else name)

    def free(self) -> Moments:
        """Those of the free numbers that chains move, under the names of the parameters.

        What chains do not move, because it follows from other parameters, is still there.
        """
        moved = {name.removeprefix(FREE) for name in self.mean if name.startswith(FREE)}
        return self._renamed(lambda name: None if name in moved else name.removeprefix(FREE))

    def _renamed(self, rename: Callable[[str], str | None]) -> Moments:
        tables = (
            {new: values for name, values in table.items() if (new := rename(name)) is not None}
            for table in (self.mean, self.square, self.start)
        )
        return Moments(self.count, *tables)

    def variance(self) -> dict[str, np.ndarray]:
        """The sample variance of each chain."""
        return {name: square / max(1, self.count - 1) for name, square in self.square.items()}

    def pooled(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Mean and variance over all chains together."""
        mean = {name: np.asarray(m.mean(axis=0)) for name, m in self.mean.items()}
        within = {name: v.mean(axis=0) for name, v in self.variance().items()}
        return mean, {name: np.asarray(within[name] + self.mean[name].var(axis=0)) for name in within}
