"""Entries of stored results by name, ``experiments/results/NAME.json``."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

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
