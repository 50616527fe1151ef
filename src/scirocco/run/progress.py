"""A progress bar with step rate and time left, that can never break a run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any


class Progress:
    """Shown on a terminal or in a notebook when ``show`` is None; always or never when it is True or False."""

    def __init__(self, total: int, start: int, show: bool | None) -> None:
        self._bar: Any = None
        self._total, self._start, self._show = total, start, show
        self._first: tuple[float, int] | None = None

    def __enter__(self) -> Progress:
        if self._show is False or (self._show is None and not _interactive()):
            return self
        try:
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}"),
            )
            self._bar.start()
            self._task = self._bar.add_task("compiling", total=self._total, completed=self._start, rate="", note="")
        except Exception:
            self._bar = None  # a terminal that cannot show a bar must not stop a run
        return self

    def update(self, step: int, draws: int, seconds: float) -> None:
        """The chain is at ``step`` after ``seconds`` of this run."""
        if self._bar is None:
            return
        try:
            # The first chunk includes compilation, so the rate is counted from its end.
            self._first = self._first or (seconds, step)
            elapsed, done = seconds - self._first[0], step - self._first[1]
            rate = f"{done / elapsed:,.0f} steps/s" if elapsed > 0 and done else ""
            self._bar.update(self._task, description="sampling", completed=step, rate=rate, note=f"{draws:,} draws")
        except Exception:
            self._bar = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def waiting(text: str, show: bool | None) -> Iterator[None]:
    """Say what is going on where no one knows how long it will take."""
    if show is False or (show is None and not _interactive()):
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


def _interactive() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules
