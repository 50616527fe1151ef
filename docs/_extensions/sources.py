"""Links to the source: of everything in the reference, and of files outside ``docs`` that pages name by relative paths.

The address is ``Source`` of ``[project.urls]``. Without it the reference has no links, and pages have the paths alone.
"""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"].get("urls", {})
ADDRESS = URLS.get("Source", URLS.get("Repository", "")).rstrip("/")
LINK = re.compile(r"\[([^\]]+)\]\((?:\.\./)+((?:src|tests|examples|experiments|benchmarks|[A-Z]+\.)[^)#\s]*)\)")


def address_of(path: str, lines: str = "") -> str:
    """Of a file or folder of the repository."""
    kind = "tree" if (ROOT / path).is_dir() else "blob"
    return f"{ADDRESS}/{kind}/main/{path}{lines}"


def resolve(domain: str, info: dict[str, str]) -> str | None:
    """For linkcode: the lines in which an object is defined."""
    if domain != "py" or not ADDRESS:
        return None
    found: Any = importlib.import_module(info["module"])
    for name in info["fullname"].split("."):
        found = getattr(found, name, None)
    try:
        found = inspect.unwrap(found.fget if isinstance(found, property) else found)
        path = Path(inspect.getsourcefile(found) or "").relative_to(ROOT)
        lines, first = inspect.getsourcelines(found)
    except (TypeError, ValueError, OSError):  # values, and what is written in C
        return None
    return address_of(str(path), f"#L{first}-L{first + len(lines) - 1}")


def replace(app: Any, name: str, source: list[str]) -> None:
    """Paths outside ``docs`` become addresses, or text."""

    def one(match: re.Match[str]) -> str:
        text, path = match[1], match[2]
        if not (ROOT / path).exists():
            raise FileNotFoundError(f"{name}: there is no {path}")
        return f"[{text}]({address_of(path)})" if ADDRESS else f"{text} (`{path}`)"

    source[0] = LINK.sub(one, source[0])


def setup(app: Any) -> dict[str, bool]:
    """Registered by ``conf.py``."""
    app.config.linkcode_resolve = resolve
    app.connect("source-read", replace)
    return {"parallel_read_safe": True}
