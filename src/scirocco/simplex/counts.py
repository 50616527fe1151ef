"""Counts that are kept from step to step.

Of assignments, where each observation remembers the cell (row, category) that it was assigned to:

    KeptCounts     counts <- counts + sum_{i in S} (z_i new - z_i old)
    StaleCounts    estimate = counts + (N/n) sum_{i in S} (z_i new - z_i old)

With ``KeptCounts`` the counts are exact at all times, so that a step of a sampler given them is a step of a Gibbs
sampler: no stochastic-gradient error at all. ``StaleCounts`` is for assignments that are kept but old: it looks ahead
to what the counts would be if every assignment were renewed as those of the minibatch were, as SAGA does for
gradients. Its estimate is unbiased for them and has no variance once nothing changes any more. It can fall below 0,
where no Dirichlet parameter can follow; such entries are set to 0, and ``clipped`` says how many there were.

Of estimates, as an average that forgets:

    RunningCounts  counts <- (1 - rate) counts + rate estimate
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scirocco.core.checks import require_count
from scirocco.core.compiled import jit
from scirocco.simplex.base import Counts

UNASSIGNED = -1


@jit
def _move(cells: Any, counts: Any, observations: Any, new: Any) -> None:
    for k in range(observations.size):
        i = observations[k]
        if cells[i] >= 0:
            counts[cells[i]] -= 1
        if new[k] >= 0:
            counts[new[k]] += 1
        cells[i] = new[k]


class KeptCounts:
    """The assignments of all observations and their counts.

    ``cells[i]`` is row * categories + category of observation i, or -1 if it has none yet.

    >>> kept = KeptCounts(cells=[0, 1, 1, 5, -1], rows=2, categories=3)
    >>> kept.update([1, 4], [4, 4])
    >>> kept.counts.values
    array([[1., 1., 0.],
           [0., 2., 1.]])
    """

    def __init__(self, cells: Any, rows: int, categories: int) -> None:
        require_count("rows", rows)
        require_count("categories", categories)
        self.rows, self.categories = rows, categories
        self.cells = self._checked("cells", cells).copy()
        self._table = np.bincount(self.cells[self.cells >= 0], minlength=rows * categories)

    def _checked(self, name: str, cells: Any) -> np.ndarray:
        array = np.asarray(cells)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise TypeError(f"{name} must be a vector of whole numbers; got dtype {array.dtype}, shape {array.shape}")
        top = self.rows * self.categories
        if array.size and not (array.min() >= UNASSIGNED and array.max() < top):
            bad = array[(array < UNASSIGNED) | (array >= top)][0]
            raise ValueError(f"{name} must lie between -1 and rows * categories - 1 = {top - 1}; got {bad}")
        return array.astype(np.int64)

    @property
    def size(self) -> int:
        """The number of observations."""
        return len(self.cells)

    @property
    def counts(self) -> Counts:
        """The counts of all assignments, rows x categories."""
        return Counts(self._table.reshape(self.rows, self.categories), exact=True)

    def update(self, observations: Any, cells: Any) -> None:
        """Give the ``observations`` (distinct) new cells; costs nothing for the others."""
        chosen, new = self._observations(observations), self._checked("cells", cells)
        if chosen.shape != new.shape:
            raise ValueError(f"cells must have one entry for each observation, {chosen.size}; got {new.size}")
        _move(self.cells, self._table, chosen, new)

    def _observations(self, observations: Any) -> np.ndarray:
        array = np.asarray(observations)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise TypeError(f"observations must be a vector of whole numbers; got dtype {array.dtype}")
        if array.size and not (array.min() >= 0 and array.max() < self.size):
            raise ValueError(f"observations must lie between 0 and {self.size - 1}; got {array.min()} to {array.max()}")
        return array.astype(np.int64)


class StaleCounts(KeptCounts):
    """Counts that look ahead from old assignments, with the assignments of a minibatch as a guide.

    >>> stale = StaleCounts(cells=[0, 0, 0, 0], rows=1, categories=2)
    >>> stale.estimate([0, 1], [0, 1]).values                  # one of two has changed: so would two of four
    array([[2., 2.]])
    >>> stale.counts.values                                    # what is kept
    array([[3., 1.]])
    """

    clipped = 0

    def estimate(self, observations: Any, cells: Any) -> Counts:
        """The unbiased estimate from a minibatch, after which its new assignments are kept."""
        chosen, new = self._observations(observations), self._checked("cells", cells)
        if not chosen.size:
            raise ValueError("observations must name at least one: an empty minibatch says nothing")
        before = self._table.copy()
        self.update(chosen, new)
        ahead = before + self.size / chosen.size * (self._table - before)
        self.clipped += int(np.sum(ahead < 0))
        values = np.maximum(ahead, 0.0).reshape(self.rows, self.categories)
        return Counts(values, fraction=min(1.0, chosen.size / self.size))


class RunningCounts:
    """An average of estimated counts, categories x rows, in which old ones fade.

    An update costs what its estimate names: the fading of everything else is kept in one number.

    >>> running = RunningCounts(np.zeros((3, 1)))
    >>> running.add(np.array([0, 2]), np.array([[4.0], [8.0]]), rate=0.5)
    >>> running.read().T
    array([[2., 0., 4.]])
    """

    def __init__(self, start: np.ndarray) -> None:
        self._scaled, self._scale = start.copy(), 1.0  # their product is the average
        self._sums = start.sum(axis=0, dtype=np.float64)

    def add(self, columns: np.ndarray | None, estimate: np.ndarray, rate: float) -> None:
        """Move towards an estimate, columns x rows; what it does not name counts 0."""
        if rate == 1:
            self._scaled[:], self._sums[:], self._scale = 0.0, 0.0, 1.0
        else:
            self._scale *= 1 - rate
        added = (estimate * (rate / self._scale)).astype(self._scaled.dtype)
        self._scaled[slice(None) if columns is None else columns] += added
        self._sums += added.sum(axis=0, dtype=np.float64)
        if self._scale < 1e-12:  # before single precision runs out
            self._scaled *= self._scaled.dtype.type(self._scale)
            self._sums, self._scale = self._sums * self._scale, 1.0

    def read(self, columns: np.ndarray | None = None) -> np.ndarray:
        """The average, of these categories or of all."""
        chosen = self._scaled if columns is None else self._scaled[columns]
        return np.asarray(chosen * self._scaled.dtype.type(self._scale))

    @property
    def totals(self) -> np.ndarray:
        """The sum of each row."""
        return self._sums * self._scale

    def pack(self) -> dict[str, np.ndarray]:
        """Everything, as arrays."""
        return {"running": self._scaled, "running_facts": np.array([self._scale, *self._sums])}

    @classmethod
    def unpack(cls, arrays: dict[str, np.ndarray]) -> RunningCounts:
        """The inverse of ``pack``."""
        new = cls(arrays["running"])
        new._scale, new._sums = float(arrays["running_facts"][0]), arrays["running_facts"][1:].copy()
        return new
