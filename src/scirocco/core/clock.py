"""Time that counts: budgets of seconds leave out what compilers take.

Both compilers say how long they took, JAX through its monitoring, Numba through its events; ``compile_seconds`` is the
sum since the process began. A program that is compiled while others run is taken off all the same: budgets are a little
generous.
"""

from __future__ import annotations

import threading
import time

_lock = threading.Lock()
_compiled = 0.0


def add_compile_seconds(seconds: float) -> None:
    """A compiler took this long."""
    global _compiled  # noqa: PLW0603 - one sum for the process
    with _lock:
        _compiled += seconds


def compile_seconds() -> float:
    """What compilers took so far in this process."""
    return _compiled


class Clock:
    """Seconds used of a budget (None for no limit), compiling left out; goes on from ``used``."""

    def __init__(self, budget: float | None = None, used: float = 0.0) -> None:
        self.budget, self._before = budget, used
        self._began, self._compiled = time.perf_counter(), compile_seconds()

    @property
    def used(self) -> float:
        """Seconds that count."""
        passed = time.perf_counter() - self._began - (compile_seconds() - self._compiled)
        return self._before + max(0.0, passed)

    @property
    def share(self) -> float:
        """Of the budget; 0 if there is none."""
        return 0.0 if self.budget is None else self.used / self.budget

    @property
    def over(self) -> bool:
        """Whether the budget is used up."""
        return self.share >= 1
