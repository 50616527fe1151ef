"""Ctrl-C and SIGTERM for everything that takes long: noted at once, and obeyed at the next border of the work.

A signal that raises wherever the program happens to be is lost in the callbacks of a compiler, and leaves files half
written. So the handler only notes; loops that can stop with something to show look at ``asked``, all others call
``poll``, which raises ``KeyboardInterrupt`` where it is safe. A second Ctrl-C raises at once. After SIGTERM the work
stops in the same way, with a checkpoint, and then the signal takes its usual course.

Python runs handlers in the main thread, so the outermost context there holds them; the request is for the contexts of
all threads. A signal that is ignored, as Ctrl-C is in programs started in the background, stays ignored.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from scirocco.core.clock import require_time

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_entered: list[Interrupt] = []  # of all threads
_quiet = threading.local()


class Interrupt:
    """While entered, Ctrl-C and SIGTERM ask the work to stop; contexts inside each other share the request."""

    def __init__(self) -> None:
        self.request: int | None = None
        """The signal that asked."""
        self._thread = 0
        self._outermost = False  # of its thread
        self._previous: dict[int, Any] = {}  # handlers of the outermost context of the main thread
        self._leaving = False
        self._late: list[int] = []  # signals that came when the work was over

    @property
    def asked(self) -> bool:
        """Whether the work is to stop."""
        return self.request is not None

    def __enter__(self) -> Interrupt:
        self._thread = threading.get_ident()
        around = [context for context in _entered if context._thread == self._thread]
        self._outermost = not around
        if self._outermost and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):  # Ctrl-C first: from then on nothing raises here
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._previous[number] = signal.signal(number, self._handle)
        _entered.append(self)
        self.request = next((context.request for context in around if context.asked), self.request)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._leaving:
            self._late.append(number)
            return
        if self.asked and number == signal.SIGINT and self in _entered:
            raise KeyboardInterrupt
        for context in (self, *_entered):
            context.request = number

    def __exit__(self, *_: object) -> None:
        self._leaving = True  # nothing raises before all is as it was; what comes meanwhile takes its usual course then
        # A second Ctrl-C may have come in the exit of a context inside: none of a thread outlives its outermost one.
        for context in [c for c in _entered if c is self or (self._outermost and c._thread == self._thread)]:
            _entered.remove(context)
        try:
            for number in reversed(self._previous):  # Ctrl-C last
                signal.signal(number, self._previous[number])
            if signal.SIGINT in self._late:
                signal.raise_signal(signal.SIGINT)
        finally:
            if self._previous and signal.SIGTERM in (self.request, *self._late):
                signal.raise_signal(signal.SIGTERM)


def poll() -> None:
    """Raise ``KeyboardInterrupt`` if the work is to stop, or ``OutOfTimeError`` if its time is over.

    For places where there is nothing to show before the end.
    """
    if getattr(_quiet, "on", False):
        return
    own = threading.get_ident()
    around = [context for context in _entered if context._thread == own] or _entered  # a pool's thread has none
    if any(context.asked for context in around):
        raise KeyboardInterrupt
    require_time()


@contextmanager
def undisturbed() -> Iterator[None]:
    """``poll`` says nothing: for what ends work that was asked to stop, and is part of it. A second Ctrl-C raises."""
    before, _quiet.on = getattr(_quiet, "on", False), True
    try:
        yield
    finally:
        _quiet.on = before


def interruptible(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A function during all of which signals are noted, before its first import or compilation."""

    @wraps(function)
    def listening(*given: Arguments.args, **named: Arguments.kwargs) -> Result:
        with Interrupt():
            return function(*given, **named)

    return listening
