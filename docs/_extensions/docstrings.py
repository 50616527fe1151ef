"""Docstrings as they are written here, in the markup of Sphinx.

An indented block after a blank line is an equation or code, not a quotation; bars are bars, not substitutions.
"""

from __future__ import annotations

from typing import Any


def literal(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Indented blocks become blocks of text."""
    found: list[str] = []
    inside = False
    for number, line in enumerate(lines):
        indented = line.startswith("    ")
        starts = indented and not inside and (number == 0 or not lines[number - 1].strip())
        if starts and found and not any(text.rstrip().endswith("::") for text in found[-2:]):
            found.extend([".. code-block:: text", ""])
        if line.strip():
            inside = indented and (inside or starts)
        found.append(line if inside or line.lstrip().startswith((">>>", "...")) else plain(line))
    lines[:] = found


def plain(line: str) -> str:
    """With the bars outside of literals escaped."""
    parts = line.split("``")
    return "``".join(part if number % 2 else part.replace("|", "\\|") for number, part in enumerate(parts))


def skip(app: Any, what: str, name: str, thing: Any, skipped: bool, options: Any) -> bool | None:
    """Members that models have from scikit-learn are described there."""
    return True if (getattr(thing, "__module__", None) or "").startswith("sklearn.") else None


def setup(app: Any) -> dict[str, bool]:
    """Registered by ``conf.py``."""
    app.connect("autodoc-process-docstring", literal, priority=100)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True}
