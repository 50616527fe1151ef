"""Whether intervals hold what they say: of a posterior by ranks, of predictions by coverage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scirocco.core.checks import require_choice
from scirocco.plots.canvas import BAND, COLOURS, PALE, one_axes, panels, shown, tidy

PANELS, COLUMNS = 12, 4


def calibration(found: Any, names: Sequence[str] | None = None, *, ax: Any = None) -> np.ndarray:
    """The empirical distribution function of ranks less that of uniform ones, of ``sc.check_calibration``.

    A hill on the left and a valley on the right are intervals that are too narrow, the other way round too wide, a
    single hill or valley a bias. What leaves the grey band, or is wrong by the other tests, is dashed and called so.

    Parameters
    ----------
    found : Calibration
        What ``check_calibration`` has found.
    names : sequence of str, optional
        Quantities, by default the 12 with the least p values.
    ax : array of matplotlib Axes, optional
        To draw on, one for each panel; a new figure by default.

    Returns
    -------
    array of matplotlib Axes
    """
    for name in names or ():
        require_choice("names", name, found.names)
    chosen = list(names or found.table["p_adjusted"].sort_values(kind="stable").index[:PANELS])
    axes = panels(ax, len(chosen), 3.0, 2.3, COLUMNS)
    band, x = found.band, np.linspace(0, 1, 501)
    for panel, name in zip(axes, chosen, strict=True):
        row, ranks = found.table.loc[name], np.sort(found.ranks[:, found.names.index(name)])
        wrong = bool(row["p_adjusted"] < found.level)
        panel.fill_between(band.points, band.low - band.points, band.high - band.points, color=BAND, linewidth=0)
        panel.axhline(0, color=PALE, linewidth=0.8)
        ecdf = np.searchsorted(ranks, x, side="right") / len(ranks)
        panel.plot(x, ecdf - x, color=COLOURS[wrong], linewidth=1.4, linestyle="--" if wrong else "-")
        title = f"{'WRONG: ' if wrong else ''}{shown(name)}  (p = {row['p_adjusted']:.2g})"
        tidy(panel, title=title, x="rank of the truth among the draws", y="ECDF less uniform")
    return axes


def coverage(found: Any, *, ax: Any = None) -> Any:
    """The share of outcomes in predictive intervals against their level, of ``sc.diagnostics.check_predictions``.

    In the grey band, three standard errors wide, the intervals hold what they say; below it they are too narrow.

    Parameters
    ----------
    found : PredictiveCheck
        What ``check_predictions`` has found.
    ax : matplotlib Axes, optional
        To draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes
    """
    ax = one_axes(ax, 4.0, 4.0)
    ax.fill_between(found.levels, *found.band, color=BAND, linewidth=0)
    ax.plot([0, 1], [0, 1], color=PALE, linewidth=1, linestyle="--")
    ax.plot(found.levels, found.coverage, color=COLOURS[0])
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    tidy(ax, x="level of the interval", y="share of outcomes in it")
    return ax
