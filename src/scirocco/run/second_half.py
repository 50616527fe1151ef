"""Draws and averages when nobody knows beforehand how long a chain will run.

The first half of whatever was recorded is burn-in, and is forgotten as the chain grows. Of the second half draws are
kept at equal intervals; when there are too many, every second one is dropped and the interval doubles. Averages are
kept as sums over stretches that are joined in the same way. So a budget of time needs no number of steps, and what is
kept is a function of how many records there were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from scirocco.run.moments import Moments
from scirocco.run.ragged import Ragged
from scirocco.run.store import Draws, Store, Variables, ragged_names

STRETCHES = 16

Values = dict[str, np.ndarray]  # of one record, by variable


class SecondHalf(Store):
    """The draws of one chain, ``wanted`` of them in the end, and the sums of their expectations.

    A store that its engine fills record by record (``add``), because only the store knows when a draw is due.
    """

    newest = True

    def __init__(self, wanted: int, variables: Variables | None = None) -> None:
        self.wanted, self.variables, self.records = wanted, variables or {}, 0
        self.ragged = frozenset(ragged_names(self.variables))
        self.interval, self.stretch = 1, 1
        self.kept: dict[int, Values] = {}  # draws by number of the record
        self.sums: list[tuple[int, int, Values]] = []  # the first record of a stretch, how many, and the sum over them
        self._moments: Moments | None = None  # asked for more than once when a run ends

    @property
    def due(self) -> bool:
        """Whether the next record includes a draw (which may cost more than an expectation)."""
        return (self.records + 1) % self.interval == 0

    def add(self, expectation: Values, draw: Values | None) -> None:
        """Record an expectation and, when it is due, a draw."""
        self._moments = None
        if not self.sums or self.records >= self.sums[-1][0] + self.stretch:
            self.sums.append((self.records, 1, {name: v.astype(np.float32) for name, v in expectation.items()}))
        else:
            first, count, total = self.sums[-1]
            self.sums[-1] = (first, count + 1, {name: total[name] + v for name, v in expectation.items()})
        self.records += 1
        if draw is not None:
            self.kept[self.records] = draw
        self.kept = {number: values for number, values in self.kept.items() if number > self.records // 2}
        if len(self.kept) >= 2 * self.wanted:
            self.interval *= 2
            self.kept = {number: values for number, values in self.kept.items() if number % self.interval == 0}
        self.sums = [part for part in self.sums if part[0] + self.stretch > self.records // 2]
        if len(self.sums) > STRETCHES:
            self.stretch *= 2
            joined: dict[int, tuple[int, Values]] = {}
            for first, count, total in self.sums:
                start = first - first % self.stretch
                before, sums = joined.get(start, (0, dict.fromkeys(total, np.float32(0))))
                joined[start] = (before + count, {name: sums[name] + v for name, v in total.items()})
            self.sums = [(start, *joined[start]) for start in sorted(joined)]

    def change(self, name: str, function: Callable[[np.ndarray], np.ndarray]) -> None:
        """Put ``function`` of every value of a variable in its place; of sums, ``function`` of their mean."""
        self._moments = None
        for values in self.kept.values():
            values[name] = function(values[name])
        for _, count, total in self.sums:
            total[name] = function(total[name] / count) * np.float32(count)

    @property
    def count(self) -> int:
        """Draws that will be handed over."""
        return min(self.wanted, len(self.kept))

    def append(self, draws: Draws) -> None:
        """Chunks bring no draws."""
        raise TypeError("draws of a run of unknown length come as records: use add")

    def draws(self) -> Draws:
        """Draws of the second half, evenly spread: those of one chain by variable, (1, draw, ...) or ragged."""
        every = list(self.kept.values())
        if not every:
            return {name: variable.empty(1) for name, variable in self.variables.items()}
        chosen = np.unique(np.linspace(0, len(every) - 1, self.count).round().astype(int))
        found = {name: [every[k][name] for k in chosen] for name in every[0]}
        return {n: Ragged.of([values]) if n in self.ragged else np.stack(values)[None] for n, values in found.items()}

    def mean(self) -> Values:
        """The average expectation over about the second half."""
        count = sum(count for _, count, _ in self.sums)
        names = self.sums[0][2] if self.sums else {}
        sums: dict[str, Any] = {n: np.sum([t[n] for *_, t in self.sums], axis=0, dtype=np.float64) for n in names}
        return {name: total / count for name, total in sums.items()}

    def moments(self, streaming: Moments | None = None) -> Moments:
        """The averages of the expectations and the variances of the draws, as those of one chain."""
        del streaming
        if self._moments is None:
            self._moments = self._found_moments()
        return self._moments

    def _found_moments(self) -> Moments:
        draws = self.draws()
        mean = {name: values[None] for name, values in self.mean().items()} if self.count else {}
        square: dict[str, Any] = {n: np.var(draws[n], axis=1, dtype=np.float64) * self.count for n in mean}
        return Moments(self.count, mean, square)

    def pack(self) -> dict[str, np.ndarray]:
        """Everything, as arrays."""
        numbers = {"records": self.records, "interval": self.interval, "stretch": self.stretch}
        arrays: dict[str, Any] = {name: np.array(number) for name, number in numbers.items()}
        for number, values in self.kept.items():
            arrays |= {f"draw/{number}/{name}": v for name, v in values.items()}
        for first, count, total in self.sums:
            arrays |= {f"sum/{first}/{count}/{name}": v for name, v in total.items()}
        return arrays

    def unpack(self, arrays: dict[str, np.ndarray], written: int = 0) -> None:
        """The inverse of ``pack``."""
        del written
        self.records, self.interval, self.stretch = (int(arrays[n]) for n in ("records", "interval", "stretch"))
        self._moments = None
        self.kept, sums = {}, dict[tuple[int, int], Values]()
        for key, value in arrays.items():
            kind, *numbers = key.split("/")
            if kind == "draw":
                self.kept.setdefault(int(numbers[0]), {})[numbers[1]] = value
            elif kind == "sum":
                sums.setdefault((int(numbers[0]), int(numbers[1])), {})[numbers[2]] = value
        self.kept = dict(sorted(self.kept.items()))
        self.sums = [(first, count, sums[first, count]) for first, count in sorted(sums)]
