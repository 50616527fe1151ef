"""``scirocco reproduce``: figures and tables of the literature, run again with their claims checked."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from scirocco.command_line.options import examples
from scirocco.command_line.outcome import ERROR, FINE, WrongCall, print_json, show_table

EXAMPLES = examples("reproduce --list", "reproduce double_well", "reproduce lda_stream --mode short --output pictures")
SHARED = "common.py"  # what all experiments import, and is none


class Mode(StrEnum):
    """How long an experiment is."""

    tiny = "tiny"
    short = "short"
    full = "full"


def experiments_folder() -> Path:
    """The experiments of the repository: around this package, or in the current folder."""
    for root in (Path(__file__).parents[3], Path.cwd()):
        if (root / "experiments" / SHARED).is_file():
            return root / "experiments"
    raise WrongCall(
        "experiments are in the repository, not in the installed package: clone it, and call scirocco reproduce there"
    )


def experiments() -> dict[str, str]:
    """Names of the experiments, and what they are about."""
    found = {}
    for path in sorted(experiments_folder().glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        runs = any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body)
        if runs and path.name != SHARED:
            found[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def known_names() -> list[str]:
    """For completion by the shell."""
    try:
        return list(experiments())
    except WrongCall:
        return []


def reproduce(
    name: Annotated[str | None, typer.Argument(help="Of an experiment.", show_default=False,
                                               autocompletion=known_names)] = None,
    listed: Annotated[bool, typer.Option("--list", help="All experiments.")] = False,
    mode: Annotated[Mode, typer.Option(help="Full is as long as the source's, minutes to hours.")] = Mode.full,
    output: Annotated[Path, typer.Option(help="The folder for the picture.", metavar="DIR")] = Path("results"),
    json: Annotated[bool, typer.Option("--json", help="The list as JSON.")] = False,
) -> int:  # fmt: skip
    """A figure or table of the literature, run again.

    Prints what was claimed and whether it holds, and draws the picture. What needs real data says so.
    """
    known = experiments()
    if listed or name is None:
        if json:
            print_json(known)
        else:
            show_table(["name", "what it reproduces"], known.items(), wide="what it reproduces")
        return FINE
    if name not in known:
        raise WrongCall(f"there is no experiment {name!r}: scirocco reproduce --list has them")
    if json:
        raise WrongCall("--json is for --list: an experiment prints a table")
    if find_spec("matplotlib") is None:
        raise WrongCall("experiments draw pictures with matplotlib: pip install 'scirocco[experiments]'")
    script = experiments_folder() / f"{name}.py"
    command = [sys.executable, str(script), "--mode", mode.value, "--output", str(output)]
    done = subprocess.run(command, check=False, env=os.environ)
    return FINE if done.returncode == 0 else ERROR
