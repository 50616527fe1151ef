"""What draws of partitions say: how many clusters there are, and which rows belong together."""

from __future__ import annotations

from typing import Any

import numpy as np

from scirocco.plots.canvas import COLOURS, INK, PLAIN, named_rows, one_axes, tidy

MOST = 400  # rows of a heat map that nobody chose
NAMED = 60  # rows that have room for a name


def cluster_numbers(model: Any, *, least: int = 1, ax: Any = None) -> Any:
    """The posterior of the number of clusters.

    Parameters
    ----------
    model : DirichletProcessMixture or pandas.Series
        A fitted model, or probabilities by number, as its ``cluster_numbers()`` has them.
    least : int, default 1
        Rows that a cluster of a model must have to be counted.
    ax : matplotlib Axes, optional
        To draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes
    """
    found = model.cluster_numbers(least=least) if hasattr(model, "cluster_numbers") else model
    ax = one_axes(ax, 5.0, 3.2)
    from matplotlib.ticker import MaxNLocator

    numbers = np.arange(int(found.index.min()), int(found.index.max()) + 1)
    ax.bar(numbers, found.reindex(numbers, fill_value=0.0), color=COLOURS[0], width=0.8)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.set_xlim(numbers[0] - 1.4, numbers[-1] + 1.4)
    what = "clusters" if least == 1 else f"clusters of {least} rows or more"
    tidy(ax, x=f"number of {what}", y="posterior probability", grid="y")
    return ax


def co_clustering(found: Any, rows: Any = None, *, labels: Any = None, names: Any = None, ax: Any = None) -> Any:
    """How often every two rows are in one cluster, ordered by cluster, with lines between clusters.

    Parameters
    ----------
    found : DirichletProcessMixture or array
        A fitted model, or a matrix of probabilities as ``partitions.co_clustering`` makes it.
    rows : sequence of int, optional
        Training rows of the model to look at, by default at most 400, evenly spread.
    labels : sequence, optional
        The cluster of each row that is drawn; of a model its ``labels_``.
    names : sequence, optional
        Of the rows that are drawn, shown for up to 60.
    ax : matplotlib Axes, optional
        To draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes
    """
    if hasattr(found, "co_clustering"):
        size = len(found.labels_)
        if rows is None:
            rows = np.unique(np.linspace(0, size - 1, min(size, MOST)).astype(int))
        rows = np.asarray(rows)
        together = found.co_clustering(rows)
        labels = found.labels_[rows] if labels is None else labels
    else:
        together = np.asarray(found, dtype=float)
        if together.ndim != 2 or together.shape[0] != together.shape[1]:
            raise ValueError(f"found must be a model or a square matrix of probabilities; got shape {together.shape}")
        rows = np.arange(len(together)) if rows is None else np.asarray(rows)
    labels = np.zeros(len(together), int) if labels is None else np.asarray(labels)
    for name, values in (("labels", labels), ("names", names)):
        if values is not None and len(values) != len(together):
            raise ValueError(f"{name} must be {len(together)}, one for each row that is drawn; got {len(values)}")
    kinds, which = np.unique(labels, return_inverse=True)
    own = np.array([row[which == k].mean() for row, k in zip(together, which, strict=True)])
    order = np.lexsort((-own, which))  # within a cluster the surest first
    ax = one_axes(ax, 5.4, 4.6)
    shades = ax.imshow(together[np.ix_(order, order)], vmin=0, vmax=1, cmap="Greys", interpolation="nearest")
    ends = np.cumsum(np.bincount(which))
    for end in ends[:-1] - 0.5:
        ax.axhline(end, color=COLOURS[1], linewidth=1)
        ax.axvline(end, color=COLOURS[1], linewidth=1)
    centres = ends - np.bincount(which) / 2 - 0.5
    if names is not None and len(together) <= NAMED:
        named_rows(ax, np.arange(len(together)), [names[k] for k in order], size=6)
    elif len(kinds) > 1:
        named_rows(ax, centres, [f"cluster {kind}" for kind in kinds])
    else:
        ax.set_yticks([])
    ax.set_xticks([])
    tidy(ax, grid="", x=f"{len(together):,} rows")
    ax.figure.colorbar(shades, ax=ax, shrink=0.8).set_label("share of draws with both in one cluster", color=INK,
                                                            **PLAIN)  # fmt: skip
    return ax
