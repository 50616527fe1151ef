"""Intervals side by side: of a posterior, or of any table with the columns ``mean``, ``lower`` and ``upper``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scirocco.plots.canvas import COLOURS, INK, PALE, PLAIN, legend, named_rows, one_axes, tidy
from scirocco.plots.chains import coordinates_of
from scirocco.run.trace import intervals_of

MOST = 40  # rows of a picture that nobody chose


def intervals(
    result: Any, names: str | Sequence[str] | None = None, *, level: float = 0.9, reference: Any = None, ax: Any = None
) -> Any:
    """Posterior means with credible intervals, a row for each parameter.

    Parameters
    ----------
    result : Trace, fitted model, xarray.Dataset or pandas.DataFrame
        Draws, or a table with ``mean``, ``lower`` and ``upper``, whose own level then holds: ``model.cluster_sizes()``,
        ``model.effects(X).table()``.
    names : str or sequence of str, optional
        Variables or their entries, or rows of the table. By default all, of more than 40 an even selection.
    level : float, default 0.9
        Of the intervals that are taken from draws.
    reference : array_like, optional
        Values to be marked beside, one for each row: what made the data, or another method's.
    ax : matplotlib Axes, optional
        To draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes
    """
    if hasattr(result, "columns"):
        table, label = result, "mean and interval"
        lacking = [name for name in ("mean", "lower", "upper") if name not in table.columns]
        if lacking:
            raise ValueError(f"the table must have the columns mean, lower and upper; it lacks {', '.join(lacking)}")
        if names is not None:
            table = table.loc[[names] if isinstance(names, str) else list(names)]
    else:
        values, labels, _ = coordinates_of(result, names)
        table = intervals_of(values, labels, level)
        label = f"posterior mean and {100 * level:.4g} % interval"
    total = len(table)
    marks = None if reference is None else np.asarray(reference, dtype=float).ravel()
    if marks is not None and marks.size != total:
        raise ValueError(f"reference must have a value for each of {total} rows; got {marks.size}")
    if total > MOST and names is None:
        some = np.unique(np.linspace(0, total - 1, MOST).astype(int))
        table, marks = table.iloc[some], None if marks is None else marks[some]
        label += f" ({len(some)} of {total:,} rows, evenly spread)"
    ax = one_axes(ax, 6.0, 0.9 + 0.2 * len(table))
    rows = np.arange(len(table))
    low, high = table["lower"].to_numpy(float), table["upper"].to_numpy(float)
    if low.min() < 0 < high.max():
        ax.axvline(0, color=PALE, linewidth=0.8)
    lines = ax.hlines(rows, low, high, color=COLOURS[0], linewidth=1.6)
    (points,) = ax.plot(table["mean"].to_numpy(float), rows, "o", color=COLOURS[0], markersize=4)
    if marks is not None:
        (crosses,) = ax.plot(marks, rows, "x", color=INK, markersize=6, markeredgewidth=1.4)
        legend(ax, [(lines, points), crosses], ["posterior", "reference"])
    named_rows(ax, rows, [_row_name(index, table.index.names) for index in table.index])
    ax.set_ylim(len(table) - 0.4, -0.6)
    tidy(ax, grid="x")
    ax.set_xlabel(label, **PLAIN)
    return ax


def _row_name(index: Any, levels: Sequence[Any]) -> str:
    """What a row is called: texts as they are, numbers after the name of what they count."""
    each = index if isinstance(index, tuple) else (index,)
    return ", ".join(
        f"{level} {value}" if level is not None and isinstance(value, int | np.integer) else str(value)
        for level, value in zip(levels, each, strict=True)
    )
