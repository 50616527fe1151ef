"""Numbers of stored results by name: ``{result}`double_well seconds` ``, from ``experiments/results/double_well.json``.

A name that is not there, or a path into the file that leads nowhere, is a warning, and warnings are errors.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxRole
from stored import value


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
