"""What accuracy costs: runs of different settings side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scirocco.plots.canvas import COLOURS, INK, PALE, PLAIN, legend, logarithmic, one_axes, shown, tidy

FLOOR = 1e-4  # below which an error is drawn there


def bias_against_cost(runs: Mapping[str, Any], *, cost: str | Mapping[str, float] = "seconds", ax: Any = None) -> Any:
    """The bias of each run against its cost, beside the Monte Carlo error; both are shares of a posterior sd.

    A filled circle is the largest error of a posterior sd by the bias report, a triangle
    at the top one without bound, or an unstable step; a hollow square the largest Monte Carlo error of a mean. More
    draws lower squares only, smaller steps circles.

    Parameters
    ----------
    runs : mapping of str to Trace
        Runs by name, each with a bias report.
    cost : "seconds" or mapping of str to float, default "seconds"
        Those of the run, or any numbers by name: gradients, passes, money.
    ax : matplotlib Axes, optional
        To draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes
    """
    if not runs:
        raise ValueError("runs is empty: give traces by name")
    if not isinstance(cost, Mapping) and cost != "seconds":
        raise ValueError(f'cost must be "seconds" or a number for each run, by name; got {cost!r}')
    costs = cost if isinstance(cost, Mapping) else {name: trace.seconds for name, trace in runs.items()}
    unknown = [name for name, trace in runs.items() if trace.bias is None or name not in costs]
    if unknown:
        raise ValueError(f"runs without a bias report or a cost cannot be drawn: {', '.join(map(str, unknown))}")
    limit = min(trace.bias.limit for trace in runs.values())
    x = np.array([float(costs[name]) for name in runs])
    bias = np.array([abs(trace.bias.worst[1]) if trace.bias.stable else np.inf for trace in runs.values()])
    chance = np.array([_monte_carlo(trace) for trace in runs.values()])
    finite = np.isfinite(bias)
    top = 2 * max(limit, *bias[finite], *chance[np.isfinite(chance)])
    ax = one_axes(ax, 6.0, 4.0)
    ax.set(xscale="log", yscale="log")
    line = ax.axhline(limit, color=PALE, linewidth=1, linestyle="--")
    ax.vlines(x, np.fmax(FLOOR, np.fmin(bias, chance)), np.fmax(FLOOR, np.where(finite, np.fmax(bias, chance), top)),
              color=PALE, linewidth=0.8)  # fmt: skip
    (squares,) = ax.plot(x, np.fmax(chance, FLOOR), "s", color=INK, markerfacecolor="white", markersize=6)
    (circles,) = ax.plot(x[finite], np.maximum(bias[finite], FLOOR), "o", color=COLOURS[0], markersize=6)
    handles = [(circles, "bias of the worst sd"), (squares, "Monte Carlo error of the worst mean")]
    if not finite.all():
        (lost,) = ax.plot(x[~finite], np.full(np.sum(~finite), top), "^", color=COLOURS[1], markersize=8)
        handles.append((lost, "bias without bound"))
    for name, place, height in zip(runs, x, np.where(finite, np.fmax(np.fmax(bias, chance), FLOOR), top), strict=True):
        ax.annotate(shown(name), (place, height), textcoords="offset points", xytext=(0, 7), ha="center", fontsize=8,
                    **PLAIN)  # fmt: skip
    tidy(ax, x="seconds of the run" if cost == "seconds" else "cost", y="error, as a share of the posterior sd")
    ax.set_ylim(top=2 * top)
    ax.margins(x=0.15)
    for axis in (ax.xaxis, ax.yaxis):
        logarithmic(axis)
    legend(ax, *zip(*handles, (line, f"{limit:.0%}: what a bias report accepts"), strict=True))
    return ax


def _monte_carlo(trace: Any) -> float:
    """The largest Monte Carlo error of a mean, in sds; NaN of too few draws."""
    table = trace.summary().table
    return float((table["mcse"] / table["sd"]).max()) if "mcse" in table else np.nan
