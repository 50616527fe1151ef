"""A search that has a share of a time budget."""

from __future__ import annotations

from abc import ABC, abstractmethod

KNOWN = 0.02  # of its time, before which the clock is too coarse


class TimeLimited(ABC):
    """What knows its ``work`` so far and the ``passes`` that it may cost, and can be stopped."""

    passes: float
    work: float
    taken = 0.0  # of its time, if that is limited
    _began: tuple[float, float] | None = None  # work and limit when it was first paced

    @abstractmethod
    def stop(self) -> None:
        """Do with what there is."""

    def pace(self, taken: float) -> None:
        """So much of the time is taken, 1 being all: the passes are what the speed so far allows."""
        if self._began is None:
            self._began = self.work, self.passes
        before, limit = self._began
        self.taken = taken
        if taken > 1:
            self.stop()
        elif taken > KNOWN:
            self.passes = min(limit, before + (self.work - before) / taken)
