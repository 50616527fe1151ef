"""Draws and averages of topics when nobody knows beforehand how long a chain will run.

Draws are taken at equal intervals. When there are too many, every second one is dropped and the interval doubles;
averages are kept as sums over such intervals. At the end the first half is left out as burn-in, so a budget of time
needs no number of steps.
"""

from __future__ import annotations

import numpy as np


class Recorder:
    """The draws of one chain and the sums of their expectations."""

    def __init__(self, draws: int) -> None:
        self.capacity = max(2, 2 * draws)
        self.interval, self.count = 1, 0
        self.draws: list[np.ndarray] = []
        self.sums: list[tuple[np.ndarray, int]] = []

    @property
    def due(self) -> bool:
        """Whether the next record includes a draw (which costs more than an expectation)."""
        return (self.count + 1) % self.interval == 0

    def add(self, mean: np.ndarray, draw: np.ndarray | None) -> None:
        """Record an expectation and, when it is due, a draw."""
        if self.count % self.interval == 0:
            self.sums.append((mean.astype(np.float64), 1))
        else:
            total, number = self.sums[-1]
            total += mean
            self.sums[-1] = (total, number + 1)
        self.count += 1
        if draw is not None:
            self.draws.append(draw)
        if len(self.sums) > self.capacity and self.count % self.interval == 0:
            self.interval *= 2
            self.draws = self.draws[1::2]
            pairs = zip(self.sums[::2], [*self.sums[1::2], None], strict=False)
            self.sums = [a if b is None else (a[0] + b[0], a[1] + b[1]) for a, b in pairs]

    def posterior(self) -> np.ndarray:
        """The draws of the second half, (draw, topic, word)."""
        return np.stack(self.draws[len(self.draws) // 2 :])

    def mean(self) -> np.ndarray:
        """The average expectation over the second half."""
        late = self.sums[len(self.sums) // 2 :]
        return np.asarray(sum(total for total, _ in late) / sum(number for _, number in late))
