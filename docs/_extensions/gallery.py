"""A page for each experiment, from its docstring and its stored result, and a page with all of them.

Nothing is run: ``experiments/results`` has a picture and a JSON file of each experiment that has been run in full for
the repository. One without is listed with the command that makes them.
"""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "experiments"
RESULTS = EXPERIMENTS / "results"
OUTCOMES = {True: "holds", False: "does not hold", None: "not tested"}
SHARED = {"common", "rating_chains"}  # what the others import


def names() -> list[str]:
    """Of all experiments."""
    return sorted(path.stem for path in EXPERIMENTS.glob("*.py") if path.stem not in SHARED)


def described(name: str) -> tuple[str, str, str]:
    """The title, the source of a figure or table, and the rest of an experiment's docstring."""
    docstring = ast.get_docstring(ast.parse((EXPERIMENTS / f"{name}.py").read_text())) or ""
    first, _, rest = docstring.partition("\n")
    title, _, source = first.rstrip(".").partition(": ")
    return title, source, rest.strip()


def fenced(text: str) -> str:
    """Plain text as it is."""
    return f"```text\n{text.rstrip()}\n```"


def page(name: str) -> str:
    """One experiment."""
    title, source, rest = described(name)
    parts = [f"# {title}", f"{source}." if source else "", f"[experiments/{name}.py](../../../experiments/{name}.py)"]
    result = RESULTS / f"{name}.json"
    if result.exists():
        stored = json.loads(result.read_text())
        versions = ", ".join(f"{package} {number}" for package, number in stored["versions"].items())
        commit = f", commit {stored['commit']}" if stored.get("commit") else ""
        mode = "" if stored["mode"] == "full" else f" A shorter run than the source's (mode '{stored['mode']}')."
        parts += [
            f"![{title}]({name}.png)",
            "## Claims",
            "\n".join(
                f"- **{OUTCOMES[claim['holds']]}**: {escaped(claim['claim'])}\n  <br>{escaped(claim['evidence'])}"
                for claim in stored["claims"]
            ),
            "## Result",
            f"`{stored['command']}`, {stored['date']}, {stored['seconds']:,} s, {versions}{commit}.{mode}",
            fenced(stored["table"]),
        ]
    else:
        parts.append(f"No result is stored; `python experiments/{name}.py` makes it.")
    parts += ["## What was done", fenced(rest)]
    return "\n\n".join(part for part in parts if part) + "\n"


def escaped(text: str) -> str:
    """Plain text in Markdown."""
    for character in "\\*_`[]<>~|":
        text = text.replace(character, "\\" + character)
    return text.replace("$", "\\$")


def outcome(name: str) -> str:
    """How many claims hold, in words."""
    if not (RESULTS / f"{name}.json").exists():
        return "no stored result"
    claims = json.loads((RESULTS / f"{name}.json").read_text())["claims"]
    tested = [claim["holds"] for claim in claims if claim["holds"] is not None]
    untested = len(claims) - len(tested)
    return f"{sum(tested)} of {len(tested)} claims hold" + (f", {untested} not tested" if untested else "")


def overview() -> str:
    """All of them."""
    rows = [f"| [{escaped(described(n)[0])}]({n}.md) | {escaped(described(n)[1])} | {outcome(n)} |" for n in names()]
    toctree = "```{toctree}\n:hidden:\n\n" + "\n".join(names()) + "\n```"
    return "\n\n".join([
        "# Reproduction",
        "Figures and tables of the literature. Each is one file of `experiments/`.\n"
        "It checks the claims of its source by criteria that were fixed before it ran.\n"
        "Pictures and numbers are those of stored results, `experiments/results`.",
        "\n".join(["| experiment | source | outcome |", "| --- | --- | --- |", *rows]),
        toctree,
    ]) + "\n"  # fmt: skip


def generate(app: Any) -> None:
    """Write the pages that have changed."""
    folder = Path(app.srcdir) / "evidence" / "reproduction"
    folder.mkdir(parents=True, exist_ok=True)
    pages = {"index": overview()} | {name: page(name) for name in names()}
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    for path in folder.glob("*.md"):
        if path.stem not in pages:
            path.unlink()
    for picture in RESULTS.glob("*.png"):
        copy = folder / picture.name
        if not copy.exists() or copy.read_bytes() != picture.read_bytes():
            shutil.copyfile(picture, copy)


def setup(app: Any) -> dict[str, bool]:
    """Registered by ``conf.py``."""
    app.connect("builder-inited", generate)
    return {"parallel_read_safe": True}
