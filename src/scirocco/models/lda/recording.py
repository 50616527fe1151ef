"""Draws and averages of topics when nobody knows beforehand how long a chain will run.

The first half of whatever was recorded is burn-in, and is forgotten as the chain grows. Of the second half draws are
kept at equal intervals; when there are too many, every second one is dropped and the interval doubles. Averages are
kept as sums over stretches that are joined in the same way. So a budget of time needs no number of steps.
"""

from __future__ import annotations

import numpy as np

STRETCHES = 16


class Recorder:
    """The draws of one chain, ``draws`` of them in the end, and the sums of their expectations."""

    def __init__(self, draws: int) -> None:
        self.wanted, self.count = draws, 0
        self.interval, self.stretch = 1, 1
        self.draws: dict[int, np.ndarray] = {}  # by number of the record
        self.sums: list[tuple[int, np.ndarray]] = []  # the first record of a stretch, and the sum over it

    @property
    def due(self) -> bool:
        """Whether the next record includes a draw (which costs more than an expectation)."""
        return (self.count + 1) % self.interval == 0

    def add(self, mean: np.ndarray, draw: np.ndarray | None) -> None:
        """Record an expectation and, when it is due, a draw."""
        if not self.sums or self.count >= self.sums[-1][0] + self.stretch:
            self.sums.append((self.count, mean.astype(np.float32)))
        else:
            self.sums[-1] = (self.sums[-1][0], self.sums[-1][1] + mean)
        self.count += 1
        if draw is not None:
            self.draws[self.count] = draw
        self.draws = {number: kept for number, kept in self.draws.items() if number > self.count // 2}
        if len(self.draws) >= 2 * self.wanted:
            self.interval *= 2
            self.draws = {number: kept for number, kept in self.draws.items() if number % self.interval == 0}
        self.sums = [(first, total) for first, total in self.sums if first + self.stretch > self.count // 2]
        if len(self.sums) > STRETCHES:
            self.stretch *= 2
            joined: dict[int, np.ndarray] = {}
            for first, total in self.sums:
                start = first - first % self.stretch
                joined[start] = joined[start] + total if start in joined else total
            self.sums = sorted(joined.items())

    def posterior(self) -> np.ndarray:
        """Draws of the second half, evenly spread: (draw, topic, word)."""
        every = list(self.draws.values())
        chosen = np.unique(np.linspace(0, len(every) - 1, min(self.wanted, len(every))).round().astype(int))
        return np.stack([every[k] for k in chosen])

    def mean(self) -> np.ndarray:
        """The average expectation over about the second half."""
        total = np.sum([total for _, total in self.sums], axis=0, dtype=np.float64)
        return np.asarray(total / total.sum(axis=1, keepdims=True))
