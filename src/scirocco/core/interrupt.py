"""Ctrl-C for everything that takes long: it is noted at once, and obeyed at the next border of the work.

A signal that raises wherever the program happens to be is lost in the callbacks of a compiler, and leaves files half
written. So the handler only notes; loops that can stop with something to show look at ``asked``, all others call
``poll``, which raises ``KeyboardInterrupt`` where it is safe. A second Ctrl-C raises at once.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

_entered: list[Interrupt] = []  # the outermost holds the handler and the flag of all


class Interrupt:
    """While entered, Ctrl-C asks the work to stop; contexts inside each other share the request."""

    def __init__(self) -> None:
        self._asked = False
        self._previous: Any = None

    @property
    def asked(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return _entered[0]._asked if _entered else self._asked

    def __enter__(self) -> Interrupt:
        if not _entered and threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._handle)
        _entered.append(self)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True

    def __exit__(self, *_: object) -> None:
        _entered.remove(self)
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)


def poll() -> None:
    """Raise ``KeyboardInterrupt`` if Ctrl-C was pressed: for work that has nothing to show before its end."""
    if _entered and _entered[0]._asked:
        raise KeyboardInterrupt
