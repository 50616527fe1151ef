"""Numbers of stored results by name: ``{result}`double_well seconds` ``, from ``experiments/results/double_well.json``.

A name that is not there, or a path into the file that leads nowhere, is a warning, and warnings are errors.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxRole

RESULTS = Path(__file__).parents[2] / "experiments" / "results"


@cache
def stored(name: str) -> Any:
    """A result file."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def value(text: str) -> str:
    """``name key key ...``: keys of dictionaries and numbers of entries, as text; whole numbers with commas."""
    name, *keys = text.split()
    found = stored(name)
    for key in keys:
        found = found[int(key) if isinstance(found, list) else key]
    if isinstance(found, dict | list):
        raise KeyError(keys[-1])
    return f"{found:,}" if isinstance(found, int) else str(found)


class Result(SphinxRole):
    """The role ``result``."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """The value, or a warning."""
        try:
            return [nodes.Text(value(self.text))], []
        except (OSError, KeyError, IndexError, ValueError) as error:
            where = {"source": self.env.doc2path(self.env.docname), "line": self.lineno}
            message = self.inliner.reporter.warning(f"no such result: {self.text} ({error!r})", **where)
            return [nodes.problematic(self.rawtext, self.rawtext)], [message]


def setup(app: Any) -> dict[str, bool]:
    """Registered by ``conf.py``."""
    app.add_role("result", Result())
    return {"parallel_read_safe": True}
