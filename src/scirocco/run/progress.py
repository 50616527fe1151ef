"""Progress with phase, rate and time left, that can never break a run: a bar on a terminal, elsewhere lines."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from types import TracebackType
from typing import Any

UNITS = 1000  # of a bar without a count of its own
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 60.0  # seconds between lines, each pause twice the one before


class Lines:
    """Progress where there is no terminal: a line when a phase begins and now and then, the last one at the end."""

    def __init__(self) -> None:
        self._phase, self._next, self._pause = "", 0.0, FIRST_PAUSE
        self._latest = ""  # not shown yet

    def show(self, phase: str, amount: str, rate: str, note: str, share: float, seconds: float) -> None:
        """Where the run is."""
        parts = [f"{phase} {share:.0%}", amount, rate, note, f"{seconds:.0f} s"]
        self._latest = ", ".join(part for part in parts if part)
        if phase != self._phase:
            self._phase, self._pause, self._next = phase, FIRST_PAUSE, seconds
        if seconds >= self._next:
            self._next, self._pause = seconds + self._pause, min(2 * self._pause, LONGEST_PAUSE)
            self.stop()

    def stop(self) -> None:
        """Say what was not said yet."""
        if self._latest:
            _say(self._latest)
        self._latest = ""


class Progress:
    """Shown on a terminal or in a notebook when ``show`` is None; always or never when it is True or False."""

    def __init__(self, show: bool | None) -> None:
        self._bar: Any = None
        self._lines = Lines() if show and not interactive() else None
        self._show = show
        self._first: tuple[float, float] | None = None

    def __enter__(self) -> Progress:
        if self._show is False or not interactive():
            return self
        try:
            from rich.console import Console
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
                console=Console(stderr=True),
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
        if self._bar is None and self._lines is None:
            return
        try:
            # The first chunk includes compilation, so the rate is counted from its end.
            self._first = self._first or (seconds, done)
            elapsed, made = seconds - self._first[0], done - self._first[1]
            rate = f"{made / elapsed:,.3g} {unit}/s" if elapsed > 0 and made > 0 else ""
            rate = f"{made / elapsed:,.0f} {unit}/s" if rate and made / elapsed > 100 else rate
            amount = f"{_counted(done)}{'' if math.isinf(total) else f'/{_counted(total)}'} {unit}"
            share, note = min(1.0, share), f"{draws:,} draws"
            if self._lines is not None:
                self._lines.show(phase, amount, rate, note, share, seconds)
                return
            self._bar.update(
                self._task, description=phase, completed=int(UNITS * share), amount=amount, rate=rate, note=note
            )  # fmt: skip
        except Exception:
            self._bar = self._lines = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for shown in (self._bar, self._lines):
            if shown is not None:
                shown.stop()


def _say(text: str) -> None:
    with suppress(Exception):  # a stream that is closed must not stop a run
        print(text, file=sys.stderr, flush=True)


def _counted(number: float) -> str:
    return f"{int(number)}" if float(number).is_integer() else f"{number:,.1f}"


@contextmanager
def waiting(text: str, show: bool | None) -> Iterator[Callable[[str], None]]:
    """Say what is going on where no one knows how long it will take; what is handed out adds where it is."""
    if show is False or not interactive():
        if show:
            _say(text)
        yield lambda more: None
        return
    from rich.console import Console

    with Console(stderr=True).status(text) as status:
        yield lambda more: status.update(f"{text}: {more}")


def interactive() -> bool:
    """Whether someone looks on, at a terminal or in a notebook."""
    return sys.stderr.isatty() or ("ipykernel" in sys.modules and find_spec("ipywidgets") is not None)
