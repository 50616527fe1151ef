"""Time that counts: budgets of seconds leave out what compilers take.

Both compilers say how long they took, JAX through its monitoring, Numba through its events; ``compile_seconds`` is the
sum since the process began. A program that is compiled while others run is taken off all the same: budgets are a little
generous.

A run looks at its own clock. Work before it, which knows of none, is done under a ``limit``: wherever it looks whether
it is to stop (``interrupt.poll``), ``require_time`` says once that its time is over. What is left to do then is little.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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


class OutOfTimeError(TimeoutError):
    """The time for some work is over."""


class _Limit:
    """The seconds for some work, None for no limit; ``reached`` once it was told that they are over."""

    def __init__(self, seconds: float | None) -> None:
        self.clock, self.reached = Clock(seconds), False


_limit: ContextVar[_Limit | None] = ContextVar("limit", default=None)


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """All that is done inside, in this thread, has so many seconds."""
    before = _limit.set(_Limit(seconds))
    try:
        yield
    finally:
        _limit.reset(before)


def time_is_over() -> bool:
    """Whether ``OutOfTimeError`` was raised, and what is done since was to be little."""
    limit = _limit.get()
    return limit is not None and limit.reached


def require_time() -> None:
    """Raise ``OutOfTimeError`` if the time is over, the first time that it is found to be."""
    limit = _limit.get()
    if limit is not None and not limit.reached and limit.clock.over:
        limit.reached = True
        raise OutOfTimeError
