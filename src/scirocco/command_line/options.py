"""Options that several commands have, and what they say of themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="One JSON object on the standard output, for scripts.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same draws.")]
MaxSeconds = Annotated[
    float | None,
    typer.Option(min=0, help="A budget of time, compiling not counted; the run stops with what it has.", metavar="S"),
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
