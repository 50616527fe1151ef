"""One self-contained page: sections in order, one block of data, and nothing that asks a network for anything.

The page may run its own script and style and nothing else, by a Content-Security-Policy with their hashes. Whatever
comes from data is text: elements escape it, the block of JSON has no character that could end it, and the script makes
no markup of it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from scirocco.report.elements import Child, Element, clean, element, markup

MADE = "Made by scirocco from what the run kept. Nothing here is loaded from a network."


@dataclass(frozen=True)
class Section:
    """A part of a page. ``name`` is its anchor."""

    name: str
    title: str
    body: tuple[Child | list[Child], ...]


@dataclass
class Page:
    """Sections in the order in which they are read, and the data that the script shows."""

    title: str
    subtitle: str = ""
    sections: list[Section] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, title: str, *body: Child | list[Child]) -> None:
        """A section, unless there is nothing in it."""
        if any(part is not None and part != [] for part in body):
            self.sections.append(Section(name, title, body))

    def render(self) -> str:
        """The page as HTML."""
        head = element(
            "head", element("meta", charset="utf-8"), element("title", self.title),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
        )  # fmt: skip
        links = [element("li", element("a", section.title, href=f"#{section.name}")) for section in self.sections]
        main = element("main", (self._section(section) for section in self.sections), id="main")
        body = element(
            "body", element("a", "Skip to the results", href="#main", class_="skip"),
            element("header", element("h1", self.title), element("p", self.subtitle) if self.subtitle else None),
            element("nav", element("ul", links), aria_label="Sections"), main,
            element("footer", element("p", MADE)), class_="scirocco",
        )  # fmt: skip
        style, script = f"{asset('verdict.css')}{asset('report.css')}", _script(plots="traces" in self.data)
        policy = (
            f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:; "
            "base-uri 'none'; form-action 'none'"
        )
        rules = markup(element("meta", http_equiv="Content-Security-Policy", content=policy))
        top = markup(head).replace("</title>", f"</title>{rules}<style>{style}</style>", 1)
        data = f'<script type="application/json" id="data">{embedded(self.data)}</script>'
        rest = markup(body).removesuffix("</body>")
        return f'<!doctype html>\n<html lang="en">{top}{rest}{data}<script>{script}</script></body></html>\n'

    @staticmethod
    def _section(section: Section) -> Element:
        title = element("h2", section.title, id=f"{section.name}-title")
        return element("section", title, *section.body, id=section.name, aria_labelledby=f"{section.name}-title")

    def write(self, path: Path) -> Path:
        """Write the page, whole or not at all."""
        path = path.expanduser()
        if path.is_dir():
            raise ValueError(f"path must name a file, such as {path / 'report.html'}; {path} is a folder")
        if not path.parent.is_dir():
            raise ValueError(f"path: there is no folder {path.parent}")
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            temporary.write_text(self.render(), encoding="utf-8")
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        return path


def embedded(data: Any) -> str:
    """JSON that can stand in a page: no character in it ends an element, numbers have five digits, NaN is null."""
    text = json.dumps(_plain(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return (
        text.replace("<", "\\u003c").replace(">", "\\u003e").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {clean(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return None if value is None else clean(str(value))


@cache
def asset(name: str) -> str:
    """A file that goes into the page as it is."""
    return resources.files("scirocco.report").joinpath("assets", name).read_text(encoding="utf-8")


def _script(*, plots: bool) -> str:
    """The page's own script, with the one that draws long traces where there are any."""
    return f"{asset('uPlot.min.js')}\n{asset('report.js')}" if plots else asset("report.js")


def _digest(text: str) -> str:
    """The hash by which a policy allows a style or a script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
