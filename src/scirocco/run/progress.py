"""A progress bar with phase, rate and time left, that can never break a run."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import TracebackType
from typing import Any

UNITS = 1000  # of a bar without a count of its own


class Progress:
    """Shown on a terminal or in a notebook when ``show`` is None; always or never when it is True or False."""

    def __init__(self, show: bool | None) -> None:
        self._bar: Any = None
        self._show = show
        self._first: tuple[float, float] | None = None

    def __enter__(self) -> Progress:
        if self._show is False or (self._show is None and not _interactive()):
            return self
        try:
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[amount]}"),
                TextColumn("{task.fields[rate]}"),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}"),
            )
            self._bar.start()
            self._task = self._bar.add_task("compiling", total=UNITS, amount="", rate="", note="")
        except Exception:
            self._bar = None  # a terminal that cannot show a bar must not stop a run
        return self

    def update(
        self, phase: str, done: float, total: float, unit: str, *, share: float, draws: int, seconds: float
    ) -> None:
        """``done`` of ``total`` units of work are made after ``seconds``; ``share`` of the work or of the time."""
        if self._bar is None:
            return
        try:
            # The first chunk includes compilation, so the rate is counted from its end.
            self._first = self._first or (seconds, done)
            elapsed, made = seconds - self._first[0], done - self._first[1]
            rate = f"{made / elapsed:,.3g} {unit}/s" if elapsed > 0 and made > 0 else ""
            rate = f"{made / elapsed:,.0f} {unit}/s" if rate and made / elapsed > 100 else rate
            amount = f"{_counted(done)}{'' if math.isinf(total) else f'/{_counted(total)}'} {unit}"
            self._bar.update(
                self._task, description=phase, completed=int(UNITS * min(1.0, share)), amount=amount, rate=rate,
                note=f"{draws:,} draws",
            )  # fmt: skip
        except Exception:
            self._bar = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def _counted(number: float) -> str:
    return f"{int(number)}" if float(number).is_integer() else f"{number:,.1f}"


@contextmanager
def waiting(text: str, show: bool | None) -> Iterator[Callable[[str], None]]:
    """Say what is going on where no one knows how long it will take; what is handed out adds where it is."""
    if show is False or (show is None and not _interactive()):
        yield lambda more: None
        return
    from rich.console import Console

    with Console(stderr=True).status(text) as status:
        yield lambda more: status.update(f"{text}: {more}")


def _interactive() -> bool:
    return sys.stderr.isatty() or ("ipykernel" in sys.modules and find_spec("ipywidgets") is not None)
