"""``scirocco data``: the data sets of the experiments."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from scirocco.command_line.options import Json, examples
from scirocco.command_line.outcome import FINE, WrongCall, print_json, say, show_table

EXAMPLES = examples("data", "data msweb", "data covertype --folder /data --json")
SHOWN = ("name", "about", "shape", "licence", "source")


def known_names() -> list[str]:
    """For completion by the shell."""
    from scirocco.datasets import KNOWN

    return list(KNOWN)


def data(
    name: Annotated[str | None, typer.Argument(help="Of a data set; without one all are listed.", show_default=False,
                                               autocompletion=known_names)] = None,
    folder: Annotated[Path | None, typer.Option(help="Where its files are; by default SCIROCCO_DATA names the folder, "
                                                     "or they are downloaded.", metavar="DIR")] = None,
    json: Json = False,
) -> int:  # fmt: skip
    """A data set of the experiments: what it is, its licence.

    Fetches it, if it is not here and can be had.
    """
    from scirocco import datasets

    if name is None:
        if json:
            print_json([_facts(facts) for facts in datasets.KNOWN.values()])
        else:
            rows = ([facts.name, facts.shape, facts.licence] for facts in datasets.KNOWN.values())
            show_table(["name", "shape", "licence"], rows, wide="licence")
        return FINE
    if name not in datasets.KNOWN:
        raise WrongCall(f"there is no data set {name!r}: {', '.join(datasets.KNOWN)}")
    found = datasets.load(name, folder)
    arrays = {
        field.name: list(value.shape) for field in dataclasses.fields(found)  # type: ignore[arg-type]
        if field.name != "facts" and hasattr(value := getattr(found, field.name), "shape")
    }  # fmt: skip
    if json:
        print_json(_facts(found.facts) | {"arrays": arrays})
        return FINE
    for word, text in _facts(found.facts).items():
        say(f"{word:8} {text}")
    loader = "load_network" if isinstance(found, datasets.Network) else f"load_{name.partition('-')[0]}"
    part = name if isinstance(found, datasets.Network) else name.partition("-")[2]
    say("", *(f"  .{array:12} {' x '.join(f'{n:,}' for n in shape)}" for array, shape in arrays.items()))
    say("", f"in Python: sc.datasets.{loader}({repr(part) if part else ''})")
    return FINE


def _facts(facts: Any) -> dict[str, str]:
    return {name: getattr(facts, name) for name in SHOWN}
