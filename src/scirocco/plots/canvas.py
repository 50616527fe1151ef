"""Axes, colours and texts of all pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222")  # Okabe and Ito's
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":", (0, (3, 1, 1, 1, 1, 1)), (0, (5, 1)), (0, (1, 1)))
INK, PALE, BAND = "#222222", "#8c8c8c", "#d9d9d9"
PLAIN = {"parse_math": False, "usetex": False}
"""Of texts: what users' data holds is shown as it is, whatever matplotlib's settings are."""
LONGEST, SHORT = 40, 22  # characters of a name, and of one in a small panel


def one_axes(ax: Any, width: float, height: float) -> Any:
    """The axes that were given, or those of a new figure."""
    return panels(ax, 1, width, height, 1)[0]


def panels(ax: Any, count: int, width: float, height: float, columns: int) -> np.ndarray:
    """As many axes: those that were given, or of a new figure with panels of this size."""
    if ax is not None:
        given = np.ravel(np.asarray(ax, dtype=object))
        if len(given) < count:
            raise ValueError(f"ax must have {count} axes, one for each panel; got {len(given)}")
        return given[:count]
    columns = max(1, min(columns, count))
    rows = -(-count // columns)
    grid = pyplot().subplots(rows, columns, figsize=(width * columns, height * rows), layout="constrained",
                             squeeze=False)[1]  # fmt: skip
    for spare in grid.flat[count:]:
        spare.remove()
    return np.asarray(grid.flat[:count])


def pyplot() -> Any:
    """Matplotlib's, which is loaded when a picture is drawn."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'scirocco[plots]'") from error
    return plt


def shown(name: Any, most: int = LONGEST) -> str:
    """A name as text: on one line, of bearable length."""
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(str(name).split()))
    return text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def tidy(ax: Any, *, title: str = "", x: str = "", y: str = "", grid: str = "both") -> None:
    """Texts, a light grid and no box."""
    if title:
        ax.set_title(title, fontsize=8, loc="left", **PLAIN)
    if x:
        ax.set_xlabel(x, **PLAIN)
    if y:
        ax.set_ylabel(y, **PLAIN)
    ax.spines[["top", "right"]].set_visible(False)
    if grid:
        ax.grid(axis=grid, alpha=0.25, linewidth=0.6)
    ax.set_axisbelow(True)


def named_rows(ax: Any, places: Any, names: Sequence[Any], *, size: float = 8, most: int = LONGEST) -> None:
    """Names on the vertical axis, the first at the top."""
    ax.set_yticks(places, [shown(name, most) for name in names], fontsize=size, **PLAIN)
    ax.tick_params(axis="y", length=0)
    if not ax.yaxis_inverted():
        ax.invert_yaxis()


def legend(ax: Any, handles: Sequence[Any], names: Sequence[Any], **settings: Any) -> None:
    """A legend with names as they are: matplotlib leaves out those that begin with an underscore."""
    made = ax.legend(list(handles), [" "] * len(handles), frameon=False, fontsize=8, **settings)
    for text, name in zip(made.get_texts(), names, strict=True):
        text.set(text=shown(name), **PLAIN)


def within_decades(axis: Any, most: float) -> bool:
    """Whether an axis is so short that powers of ten alone would hardly label it."""
    low, high = axis.get_view_interval()
    return bool(high < low * 10**most)


def logarithmic(axis: Any) -> None:
    """Ticks of a logarithmic axis in plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if within_decades(axis, 2) else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
