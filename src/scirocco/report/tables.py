"""Tables that a reader can sort and take along, from data frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from scirocco.report.elements import Child, Element, element, number, rounded

Cell = Callable[[Any], Child]


class Told(float):
    """A number, by which rows sort, with the text that stands for it."""

    text: str

    @classmethod
    def of(cls, value: float, text: str) -> Told:
        """What is told of a value."""
        told = cls(value)
        told.text = text
        return told


def told(values: Iterable[float], sds: Iterable[float]) -> Any:
    """A column of numbers, each to the digits that its sd leaves."""
    import pandas as pd

    return pd.Series([Told.of(value, rounded(value, sd)) for value, sd in zip(values, sds, strict=True)], dtype=object)


def table(
    frame: Any, caption: str, *, name: str, formats: Mapping[str, Cell] | None = None,
    titles: Mapping[str, str] | None = None, text: Sequence[str] = (), first: str | None = None,
) -> Element:  # fmt: skip
    """A data frame as a table whose columns sort and that can be saved as CSV under ``name``.

    ``formats`` say how entries of a column are shown, ``titles`` what a column is called, ``text`` which are words. The
    ``first`` column, or the first there is, names the row.
    """
    columns = list(map(str, frame.columns))
    first = columns[0] if first is None else first
    heads = [
        element(
            "th", element("button", (titles or {}).get(c, c.replace("_", " ")), type="button"), scope="col",
            class_=None if c in text or c == first else "num", aria_sort="none",
        )
        for c in columns
    ]  # fmt: skip
    rows = []
    for values in frame.itertuples(index=False):
        cells = [
            _cell(c, v, (formats or {}).get(c), head=c == first, words=c in text or c == first)
            for c, v in zip(columns, values, strict=True)
        ]
        rows.append(element("tr", cells))
    found = element(
        "table", element("caption", caption), element("thead", element("tr", heads)), element("tbody", rows),
        class_="sortable",
    )  # fmt: skip
    scroll = element("div", found, class_="scroll", tabindex="0", role="region", aria_label=caption)
    save = element("button", "save as CSV", type="button", class_="save", data_csv=name)
    return element("div", scroll, save, class_="table")


def _cell(column: str, value: Any, shown: Cell | None, *, head: bool, words: bool) -> Element:
    content = shown(value) if shown is not None else value.text if isinstance(value, Told) else number(value)
    sort = f"{value:.8g}" if isinstance(value, float | np.floating) and np.isfinite(value) else None
    if isinstance(value, int | np.integer):
        sort = str(value)
    attributes = {"data_sort": sort, "class_": None if words else "num", "data_label": column}
    return element("th", content, scope="row", **attributes) if head else element("td", content, **attributes)


def facts(rows: Sequence[tuple[str, Child]]) -> Element:
    """Names with what they are."""
    pairs = ((element("dt", name), element("dd", value)) for name, value in rows if value)
    return element("dl", chain.from_iterable(pairs), class_="facts")
