"""An average of estimates that forgets.

    counts <- (1 - rate) counts + rate estimate

With a rate of 1/l it is about that of the last l estimates.
"""

from __future__ import annotations

import numpy as np

from scirocco.simplex.base import State


class RunningCounts:
    """An average of estimated counts, categories x rows, in which old ones fade.

    An update costs what its estimate names: the fading of everything else is kept in one number. ``pack`` gives the
    arrays themselves, and ``over`` goes on with them, in place.

    >>> running = RunningCounts(np.zeros((3, 1)))
    >>> running.add(np.array([0, 2]), np.array([[4.0], [8.0]]), rate=0.5)
    >>> running.read().T
    array([[2., 0., 4.]])
    """

    def __init__(self, start: np.ndarray) -> None:
        self._scaled = start.copy()  # times the scale it is the average
        self._scale = np.ones(1)
        self._sums = start.sum(axis=0, dtype=np.float64)  # of the rows

    @classmethod
    def over(cls, state: State) -> RunningCounts:
        """The average whose arrays are in ``state``."""
        new = cls.__new__(cls)
        new._scaled, new._scale, new._sums = (state[name] for name in ("running", "running_scale", "running_sums"))
        return new

    def pack(self) -> State:
        """Everything, as arrays."""
        return {"running": self._scaled, "running_scale": self._scale, "running_sums": self._sums}

    def add(self, columns: np.ndarray | None, estimate: np.ndarray, rate: float) -> None:
        """Move towards an estimate, columns x rows; what it does not name counts 0."""
        if rate == 1:
            self._scaled[:], self._sums[:], self._scale[:] = 0.0, 0.0, 1.0
        else:
            self._scale[0] *= 1 - rate
        added = (estimate * (rate / self._scale[0])).astype(self._scaled.dtype)
        self._scaled[slice(None) if columns is None else columns] += added
        self._sums += added.sum(axis=0, dtype=np.float64)
        if self._scale[0] < 1e-12:  # before single precision runs out
            self._scaled *= self._scaled.dtype.type(self._scale[0])
            self._sums *= self._scale
            self._scale[:] = 1.0

    def read(self, columns: np.ndarray | None = None) -> np.ndarray:
        """The average, of these categories or of all."""
        chosen = self._scaled if columns is None else self._scaled[columns]
        return np.asarray(chosen * self._scaled.dtype.type(self._scale[0]))

    @property
    def totals(self) -> np.ndarray:
        """The sum of each row."""
        return np.asarray(self._sums * self._scale[0])
