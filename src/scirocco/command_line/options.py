"""Options that several commands have, and what they say of themselves."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from scirocco.command_line.outcome import WrongCall


def positive(value: float | None) -> float | None:
    """Refuse what is not greater than 0."""
    if value is not None and not 0 < value < math.inf:
        raise typer.BadParameter("must be greater than 0, and finite")
    return value


def require_one_of(option: str, value: str, allowed: Iterable[str]) -> None:
    """Refuse a name that is not known, before the data are read."""
    known = list(allowed)
    if value not in known:
        raise WrongCall(f"--{option} {value} is none of {', '.join(known)}")


Json = Annotated[bool, typer.Option("--json", help="One JSON object on the standard output, for scripts.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same draws.")]
MaxSeconds = Annotated[
    float | None,
    typer.Option(
        callback=positive, help="A budget of time, compiling not counted; the run stops with what it has.", metavar="S"
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="The folder for the run and its results; new or empty.", metavar="DIR"),
]
Chains = Annotated[int, typer.Option(min=1, help="Chains; with several it is known whether they agree.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Threads; all cores by default. No result depends on it.")]
Folder = Annotated[Path, typer.Argument(help="A folder that scirocco made.", metavar="DIR", show_default=False)]


def examples(*lines: str) -> str:
    """The end of a help text."""
    return "\n\n".join(["Examples:", *(f"  $ scirocco {line}" for line in lines)])
