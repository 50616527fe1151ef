"""What a topic model says: words of topics, shares over time, the tree of topics, how many there are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from scirocco.core.credible import quantiles
from scirocco.plots.canvas import (
    COLOURS,
    INK,
    LINES,
    MARKERS,
    PALE,
    PLAIN,
    SHORT,
    legend,
    named_rows,
    one_axes,
    panels,
    shown,
    tidy,
)  # fmt: skip

PANELS, COLUMNS = 12, 3  # of topics that nobody named
LINES_SHOWN = 6  # topics in one picture of shares


def topics(
    model: Any, topics: Iterable[int] | None = None, *, n_words: int = 8, vocabulary: Any = None, level: float = 0.9,
    ax: Any = None,
) -> np.ndarray:  # fmt: skip
    """The first words of topics with their intervals, a panel for each topic, the largest topics first.

    A title has the topic's number and label, its share of all tokens with its interval, and in how many chains it was
    found if that is not all.

    Parameters
    ----------
    model : LDA or SphericalAdmixture
        Fitted topics. The latter have no shares of tokens: its topics come in their order.
    topics : sequence of int, optional
        Numbers of topics, by default of the twelve largest.
    n_words : int, default 8
        Words of each topic.
    vocabulary : sequence of str, optional
        The words, if the model does not know them.
    level : float, default 0.9
        Of the intervals.
    ax : array of matplotlib Axes, optional
        To draw on, one for each panel; a new figure by default.

    Returns
    -------
    array of matplotlib Axes
    """
    words = model.top_words(n_words, vocabulary, level=level)
    count = int(words["topic"].max()) + 1
    info = model.topic_info(1, vocabulary, level=level) if hasattr(model, "topic_info") else None
    order = range(count) if info is None else info["share"].sort_values(ascending=False, kind="stable").index
    chosen = _chosen(topics, count, order[:PANELS])
    axes = panels(ax, len(chosen), 3.2, 0.8 + 0.17 * n_words, COLUMNS)
    for panel, topic in zip(axes, chosen, strict=True):
        own = words[words["topic"] == topic]
        rows = np.arange(len(own))
        panel.hlines(rows, own["lower"], own["upper"], color=COLOURS[0], linewidth=1.6)
        panel.plot(own["mean"], rows, "o", color=COLOURS[0], markersize=4)
        named_rows(panel, rows, own["word"].tolist(), most=SHORT)
        if own["mean"].min() >= 0:
            panel.set_xlim(left=0)
        panel.set_ylim(len(own) - 0.4, -0.6)
        title = shown(f"{topic} {own['label'].iloc[0] if 'label' in own else ''}", SHORT)
        if info is not None:
            title += _size(info.loc[topic], model.agreement_.chains)
        tidy(panel, title=title, grid="x")
        panel.tick_params(axis="x", labelsize=7)
        panel.locator_params(axis="x", nbins=4)
    what = "entry of the topic" if info is None else "probability"
    axes[-1].set_xlabel(f"{what}, {100 * level:.4g} % interval", fontsize=8, **PLAIN)
    return axes


def _size(row: Any, chains: int) -> str:
    """The share of a topic, and in how many chains it is if not in all."""
    found = "" if row["chains"] == chains else f"  (in {row['chains']} of {chains} chains)"
    share, low, high = (f"{100 * row[name]:.1f}" for name in ("share", "lower", "upper"))
    return f"{found}\n{share} % of tokens ({low} to {high})"


def shares_by(found: Any, topics: Iterable[int] | None = None, *, level: float = 0.9, ax: Any = None) -> Any:
    """Shares of topics in groups of documents, ``model.shares_by(X, years)``, with intervals: topics over time.

    Parameters
    ----------
    found : GroupShares
        What ``shares_by`` has found.
    topics : sequence of int, optional
        Numbers of topics, by default of the six that change most.
    level : float, default 0.9
        Of the intervals.
    ax : matplotlib Axes, optional
        To draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes
    """
    mean = found.draws.mean(axis=0)
    chosen = _chosen(topics, mean.shape[1], np.argsort(-np.ptp(mean, axis=0), kind="stable")[:LINES_SHOWN])
    ax = one_axes(ax, 7.0, 4.0)
    low, high = quantiles(found.draws, level)
    places, lines = np.arange(len(found.groups)), []
    for number, k in enumerate(chosen):
        colour = COLOURS[number % len(COLOURS)]
        lines += ax.plot(places, mean[:, k], color=colour, marker=MARKERS[number % len(MARKERS)], markersize=5,
                         linestyle=LINES[number // len(MARKERS) % len(LINES)])  # fmt: skip
        ax.fill_between(places, low[:, k], high[:, k], color=colour, alpha=0.15, linewidth=0)
    ax.set_xticks(places, [shown(group) for group in found.groups], rotation=45, ha="right", **PLAIN)
    tidy(ax, x=shown(found.groups.name or ""), y=f"share of the documents, {100 * level:.4g} % interval", grid="y")
    ax.set_ylim(bottom=0)
    names = [f"{k} {found.labels[k]}".rstrip() for k in chosen]
    legend(ax, lines, names, title="topic", loc="upper left", bbox_to_anchor=(1, 1))
    return ax


def hierarchy(tree: Any, *, ax: Any = None) -> Any:
    """The tree of topics, ``model.hierarchy()``: which are near each other, and in how many draws.

    Parameters
    ----------
    tree : TopicTree
        What ``hierarchy`` has found.
    ax : matplotlib Axes, optional
        To draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes
    """
    from scipy.cluster.hierarchy import dendrogram

    count = len(tree.names)
    ax = one_axes(ax, 6.0, 1 + 0.22 * count)
    drawn = dendrogram(tree.linkage, no_plot=True)
    support = {float(height): share for height, share in zip(tree.linkage[:, 2], tree.support, strict=True)}
    for places, heights in zip(drawn["icoord"], drawn["dcoord"], strict=True):
        ax.plot(heights, places, color=COLOURS[0], linewidth=1.2)
        ax.annotate(f"{support[float(heights[1])]:.0%}", (heights[1], (places[1] + places[2]) / 2), fontsize=6,
                    textcoords="offset points", xytext=(2, -2), color=INK, **PLAIN,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})  # fmt: skip
    named_rows(ax, 5 + 10 * np.arange(count), [tree.names[k] for k in drawn["leaves"] or ()])
    ax.set_ylim(10 * count, 0)
    tidy(ax, x="Hellinger distance; beside a branch, the share of draws that have it", grid="x")
    lowest, highest = tree.linkage[[0, -1], 2]
    ax.set_xlim(max(0.0, lowest - 0.3 * (highest - lowest) - 0.05), highest + 0.06)
    return ax


def topic_choice(choice: Any, *, ax: Any = None) -> Any:
    """Held-out perplexity by the number of topics, ``sc.choose_topics``, with the share of topics all chains found.

    Parameters
    ----------
    choice : TopicChoice
        What ``choose_topics`` has found.
    ax : matplotlib Axes, optional
        To draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes
    """
    ax = one_axes(ax, 6.0, 4.0)
    table = choice.table.sort_index()
    score = ax.errorbar(table.index, table["perplexity"], yerr=table["error"], color=COLOURS[0], marker="o", capsize=3)
    best = ax.axvline(choice.recommended, color=PALE, linestyle=":")
    tidy(ax, x="topics", y="held-out perplexity, standard error")
    ax.set_xticks(table.index)
    other = ax.twinx()
    (found,) = other.plot(table.index, table["reproduced"], color=COLOURS[1], marker="s", linestyle="--")
    other.set_ylabel("share of topics that all chains found", **PLAIN)
    other.set_ylim(0, 1.05)
    other.spines["top"].set_visible(False)
    legend(ax, [score, found, best], ["perplexity", "found by all", f"recommended: {choice.recommended}"])
    return ax


def _chosen(topics: Any, count: int, default: Any) -> list[int]:
    """Numbers of topics, those that were asked for or ``default``."""
    chosen: list[int] = np.ravel(default if topics is None else np.asarray(topics)).tolist()
    if not chosen or not all(isinstance(k, int) and 0 <= k < count for k in chosen):
        raise ValueError(f"topics must have numbers of topics, from 0 to {count - 1}; got {topics!r}")
    return chosen
