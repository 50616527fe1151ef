"""How a command ends: its exit code, what it prints for people or for scripts, and errors in one line."""

from __future__ import annotations

import json
import sys
import traceback
import types
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from scirocco.run.trace import Trace
from scirocco.run.verdict import NOT, Verdict

FINE, ERROR, WRONG, DO_NOT_USE, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes: the result can be used; an error; a wrong call; the verdict is 'do not use it'; Ctrl-C."""

WIDTH = 160  # of tables that are not read on a terminal
NAME = "scirocco"
TOLD = "fit was interrupted"  # how a warning begins that the end of a command repeats


class WrongCall(Exception):
    """What was typed does not fit: a file, a folder, a column or a name that is not there."""


class Stopped(Exception):
    """Ctrl-C ended the work; the message says how to go on."""


def code_of(verdict: Verdict | None) -> int:
    """The exit code of a command that shows a verdict."""
    return DO_NOT_USE if verdict is not None and verdict.kind == NOT else FINE


def was_stopped(trace: Trace | None) -> bool:
    """Whether a signal ended a run."""
    return trace is not None and trace.stopped is not None and trace.stopped.kind in ("interrupted", "terminated")


# For people.


def plain(text: object) -> str:
    """Text of users' data without what would steer a terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def say(*lines: object) -> None:
    """Lines on the standard output."""
    for line in lines:
        print(plain(line) if "\n" not in str(line) else "\n".join(map(plain, str(line).split("\n"))))


def remark(line: str) -> None:
    """A line beside the result, where errors go."""
    print(f"{NAME}: {one_line(line)}", file=sys.stderr, flush=True)


def one_line(text: object) -> str:
    """A message without its line breaks."""
    return " ".join(plain(part) for part in str(text).split())


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, wide: str = "") -> None:
    """A table; numbers with three digits, to the right. The ``wide`` column is the one whose lines may break."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    shown = Table(box=None, pad_edge=False, header_style="bold")
    rows = [list(row) for row in rows]
    for name, values in zip(columns, zip(*rows, strict=True) if rows else [()] * len(columns), strict=True):
        right = any(isinstance(v, int | float | np.number) and not isinstance(v, bool) for v in values)
        shown.add_column(Text(plain(name)), justify="right" if right else "left", no_wrap=name != wide)
    for row in rows:
        shown.add_row(*(Text(_cell(value)) for value in row))
    console.print(shown)


def _cell(value: object) -> str:
    if isinstance(value, float | np.floating):
        number = float(value)
        return "" if np.isnan(number) else f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return f"{value:,}"
    return plain(value)


# For scripts.


def print_json(facts: Any) -> None:
    """One JSON object on the standard output; numbers that JSON does not have are null."""
    print(json.dumps(_jsonable(facts), ensure_ascii=False, allow_nan=False))


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _jsonable(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(v) for v in value]
    if isinstance(value, np.ndarray):
        return _jsonable(value.tolist())
    if isinstance(value, np.generic):
        return _jsonable(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def verdict_facts(verdict: Verdict | None) -> dict[str, Any]:
    """A verdict for a script."""
    if verdict is None:
        return {"verdict": None, "reasons": [], "next": ""}
    return {"verdict": verdict.kind, "reasons": list(verdict.reasons), "next": verdict.action}


# Errors and warnings.


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Warnings of the library without the line of code that they come from, each once."""
    said: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        text = one_line(message)
        if text not in said and not text.startswith(TOLD):
            said.add(text)
            remark(f"warning: {text}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def message_of(error: BaseException) -> str:
    """What went wrong, in one line; in code of the user's own also where."""
    text = one_line(error) or type(error).__name__
    place = _own_line(error.__traceback__)
    known = isinstance(
        error, WrongCall | ValueError | TypeError | RuntimeError | OSError | ImportError | ArithmeticError
    )
    if place is not None:
        return f"{place}: {type(error).__name__}: {text}"
    return text if known else f"{type(error).__name__}: {text}"


def _own_line(trace: types.TracebackType | None) -> str | None:
    """Where in the current folder an error was raised; None if elsewhere."""
    here, installed = Path.cwd(), Path(__file__).parents[1]
    frames = traceback.extract_tb(trace)
    if not frames:
        return None
    last = Path(frames[-1].filename)
    own = last.is_relative_to(here) and not last.is_relative_to(installed) and "site-packages" not in last.parts
    return f"{last.relative_to(here)}, line {frames[-1].lineno}" if own else None
