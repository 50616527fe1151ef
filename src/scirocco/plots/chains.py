"""What chains did: traces and ranks, the parameters that agree worst first.

Chains stand side by side, or one above the other, and not on top of each other: which is which needs no colour, and a
chain that is elsewhere is seen at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scirocco.plots.canvas import BAND, COLOURS, INK, PALE, PLAIN, panels, shown, tidy
from scirocco.run.convergence import ess
from scirocco.run.trace import MAX_ROWS, coordinates, table_of

PANELS = 8  # of parameters that nobody named
POINTS = 500  # of a chain, beyond which a trace is drawn as its range
BINS = 20
CHANCE = 1.96  # standard errors, of 95 % of the bins


class Coordinates(NamedTuple):
    """Draws (chain, draw, coordinate), the names of the coordinates, and the rows of the summary for them."""

    values: np.ndarray
    names: list[str]
    table: Any


def posterior_of(result: Any) -> Any:
    """The draws of a trace, of a model or of an ``xarray.Dataset``, without labels of rows of data."""
    found = getattr(result, "posterior", getattr(result, "posterior_", result))
    if not hasattr(found, "data_vars"):
        raise TypeError(f"a trace, a fitted model or an xarray.Dataset is needed; got {type(result).__name__}")
    found = found[[name for name, variable in found.data_vars.items() if "row" not in variable.dims]]
    if not found.data_vars or not found.sizes.get("draw"):
        raise ValueError("there are no draws to be drawn: none were stored")
    return found


def coordinates_of(result: Any, names: str | Sequence[str] | None) -> tuple[np.ndarray, list[str], str]:
    """Draws of coordinates (chain, draw, coordinate), their names, and what was left out.

    ``names`` are of variables, or of single coordinates as ``summary`` has them.
    """
    posterior = posterior_of(result)
    if names is None:
        return coordinates(posterior, MAX_ROWS)
    values, labels, notes = [], [], []
    for name in [names] if isinstance(names, str) else names:
        if name in posterior:
            own, found, note = coordinates(posterior[[name]], MAX_ROWS)
        else:
            own, found, note = _single(posterior, name)
        values.append(own)
        labels += found
        notes.append(note)
    if not labels:
        raise ValueError("names is empty: name some, or leave it out for all")
    return np.concatenate(values, axis=2), labels, " ".join(note for note in notes if note)


def _single(posterior: Any, name: str) -> tuple[np.ndarray, list[str], str]:
    """One coordinate by its name."""
    for variable, values in posterior.data_vars.items():
        if str(name).startswith(f"{variable}["):
            every, labels, _ = coordinates(posterior[[variable]], values[0, 0].size)
            if name in labels:
                at = labels.index(name)
                return every[..., at : at + 1], [name], ""
    raise ValueError(f"names must be of parameters, {', '.join(map(str, posterior.data_vars))}, or of their entries as "
                     f"summary has them; got {name!r}")  # fmt: skip


def looked_at(result: Any, names: str | Sequence[str] | None) -> Coordinates:
    """Coordinates with their rows of the summary; without ``names`` the few with the largest R-hat."""
    values, labels, _ = coordinates_of(result, names)
    table = table_of(values, labels).table
    if names is None:
        order = np.arange(len(labels))
        if "r_hat" in table:  # what never moves has none, and is last
            order = np.argsort(-np.nan_to_num(table["r_hat"].to_numpy(), nan=-np.inf), kind="stable")
        values, labels, table = values[..., order[:PANELS]], [labels[k] for k in order[:PANELS]], table.iloc[order]
    return Coordinates(values, labels, table)


def _title(found: Coordinates, k: int) -> str:
    """A coordinate with its R-hat and ESS, if there are draws enough for them."""
    row, said = found.table.iloc[k], ""
    if "r_hat" in row:
        still = np.isnan(row["r_hat"])
        said = "   does not change" if still else f"   R-hat {row['r_hat']:.3f}, ESS {row['ess_bulk']:,.0f}"
    return f"{shown(found.names[k])}{said}"


def traces(result: Any, names: str | Sequence[str] | None = None, *, ax: Any = None) -> np.ndarray:
    """The draws in their order, a panel for each parameter, the chains of it side by side.

    Of a chain with more than 500 draws the range and the mean of neighbouring ones are drawn.

    Parameters
    ----------
    result : Trace, fitted model or xarray.Dataset
        Whose draws are shown; those of labels of rows are left out.
    names : str or sequence of str, optional
        Variables, or their entries as ``summary`` has them, such as ``"w[2]"``. By default the eight with the largest
        R-hat.
    ax : array of matplotlib Axes, optional
        To draw on, one for each panel; a new figure by default.

    Returns
    -------
    array of matplotlib Axes
    """
    found = looked_at(result, names)
    chains, draws = found.values.shape[:2]
    axes = panels(ax, len(found.names), 7.0, 1.5, 1)
    numbers = _chain_numbers(result, chains)
    for k, panel in enumerate(axes):
        values = found.values[..., k]
        panel.axhline(values.mean(), color=PALE, linewidth=0.8, linestyle="--")
        for chain, drawn in enumerate(values):
            start, own = chain * draws, drawn
            if draws > POINTS:
                parts = np.array_split(drawn, POINTS)
                x = start + (np.arange(POINTS) + 0.5) * draws / POINTS
                panel.fill_between(x, [p.min() for p in parts], [p.max() for p in parts], color=COLOURS[0], alpha=0.35,
                                   linewidth=0)  # fmt: skip
                own = np.array([p.mean() for p in parts])
            else:
                x = start + np.arange(draws, dtype=float)
            panel.plot(x, own, color=COLOURS[0], linewidth=0.7)
            if chain:
                panel.axvline(start - 0.5, color=INK, linewidth=0.8)
        tidy(panel, title=_title(found, k), grid="y")
        panel.set_xlim(-0.5, chains * draws - 0.5)
        panel.set_xticks((np.arange(chains) + 0.5) * draws, [f"chain {n}" for n in numbers], **PLAIN)
        panel.tick_params(axis="x", length=0)
    axes[-1].set_xlabel(f"{draws:,} draws of each chain", **PLAIN)
    return axes


def ranks(result: Any, names: str | Sequence[str] | None = None, *, ax: Any = None) -> np.ndarray:
    """How the ranks of each chain's draws among all draws are spread: evenly, if the chains sample one law.

    A panel for each parameter, in it a histogram for each chain around the height that even ranks have. Nineteen of
    twenty bars end in the grey band if a chain's draws are worth as many independent ones as its own ESS says. A slope
    is a chain that lies too low or too high, a hill or a valley one that is too narrow or too wide. Equal draws share
    their ranks.

    Parameters
    ----------
    result : Trace, fitted model or xarray.Dataset
        Whose draws are shown; those of labels of rows are left out.
    names : str or sequence of str, optional
        Variables, or their entries as ``summary`` has them, such as ``"w[2]"``. By default the eight with the largest
        R-hat.
    ax : array of matplotlib Axes, optional
        To draw on, one for each panel; a new figure by default.

    Returns
    -------
    array of matplotlib Axes
    """
    found = looked_at(result, names)
    chains, draws = found.values.shape[:2]
    axes = panels(ax, len(found.names), 3.4, 0.7 + 0.45 * chains, 2)
    numbers = _chain_numbers(result, chains)
    edges = np.linspace(0, chains * draws, BINS + 1)
    for k, panel in enumerate(axes):
        shares = rank_shares(found.values[..., k], edges) * BINS - 1  # 0 for even ranks
        sizes = np.array([float(ess(own[None])) for own in found.values[..., k]])
        chances = CHANCE * np.sqrt((BINS - 1) / np.where(np.isfinite(sizes), sizes, np.inf))
        half = 1.1 * max(1e-9, np.abs(shares).max(), chances.max())  # of the room of a chain
        for chain, (heights, chance) in enumerate(zip(shares, chances / half / 2, strict=True)):
            panel.fill_between([0, 1], chain - chance, chain + chance, color=BAND, linewidth=0)
            panel.bar((np.arange(BINS) + 0.5) / BINS, -heights / half / 2, 1 / BINS, bottom=chain, color=COLOURS[0],
                      edgecolor="white", linewidth=0.4)  # fmt: skip
            panel.axhline(chain, color=INK, linewidth=0.8)
        panel.set_yticks(np.arange(chains), [f"chain {n}" for n in numbers], fontsize=8, **PLAIN)
        panel.set(xlim=(0, 1), ylim=(chains - 0.45, -0.55))
        tidy(panel, title=_title(found, k), grid="")
        panel.tick_params(axis="y", length=0)
    axes[-1].set_xlabel("rank among the draws of all chains", **PLAIN)
    return axes


def rank_shares(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The share of the draws of each chain, (chain, draw), whose ranks lie in each bin, (chain, bin).

    A draw that equals others lies in all bins of their ranks, in equal parts.

    >>> rank_shares(np.array([[1.0, 2.0], [3.0, 3.0]]), np.array([0.0, 2.0, 3.0, 4.0]))
    array([[1. , 0. , 0. ],
           [0. , 0.5, 0.5]])
    """
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    below = (np.cumsum(counts) - counts)[which].reshape(values.shape)
    equal = counts[which].reshape(values.shape)
    reached = np.clip((edges[:, None, None] - below) / equal, 0, 1).mean(axis=2)
    return np.diff(reached, axis=0).T


def _chain_numbers(result: Any, chains: int) -> Sequence[Any]:
    """Chains have the numbers that they had in the run."""
    own = posterior_of(result).coords.get("chain")
    return range(chains) if own is None else list(own.values)
