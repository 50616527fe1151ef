"""Pictures as SVG.

Colours are classes of the style sheet, so that they follow light and dark; shapes and words say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scirocco.report.elements import Element, element, number

AROUND = (
    "m-2,0a2,2 0 1,0 4,0a2,2 0 1,0 -4,0",
    "m-2,-2h4v4h-4z",
    "m0,-2.5l2.4,4.4h-4.8z",
    "m0,-2.8l2.8,2.8l-2.8,2.8l-2.8,-2.8z",
)
SHAPES = len(AROUND)  # marks that can be told apart without colour
BINS = 20  # of a histogram of ranks
SHADES = 8  # of a heat map


def figure(picture: Element | Sequence[Element], caption: str) -> Element:
    """A picture with the words that belong to it."""
    return element("figure", picture, element("figcaption", caption))


def drawing(width: float, height: float, said: str, *children: Any, class_: str = "") -> Element:
    """An SVG that grows with the page up to its own size; ``said`` is what a screen reader says of it."""
    return element(
        "svg", *children, viewbox=f"0 0 {width:g} {height:g}", width=f"{width:g}", height=f"{height:g}", role="img",
        aria_label=said, class_=class_ or None,
    )  # fmt: skip


def interval_bar(bar: tuple[float, float, float], ends: tuple[float, float], *, width: int = 140) -> Element:
    """A mean with the ends of its interval on an axis from ``ends[0]`` to ``ends[1]``, a tick at 0 if it is there."""
    (mean, low, high), span = bar, ends[1] - ends[0]

    def at(value: float) -> float:
        return float(4 + (width - 8) * np.clip((value - ends[0]) / span, 0, 1)) if span > 0 else width / 2

    parts = []
    if ends[0] < 0 < ends[1]:
        parts.append(element("line", x1=f"{at(0):.1f}", x2=f"{at(0):.1f}", y1=0, y2=14, class_="zero"))
    if np.isfinite([mean, low, high]).all():
        parts += [
            element("line", x1=f"{at(low):.1f}", x2=f"{at(high):.1f}", y1=7, y2=7, class_="range"),
            element("circle", cx=f"{at(mean):.1f}", cy=7, r=3, class_="dot"),
        ]
    found = element("svg", parts, viewbox=f"0 0 {width} 14", width=width, height=14, class_="inline")
    found.set("aria-hidden", "true")  # the numbers stand beside it
    return found


def bars(
    values: Sequence[float], labels: Sequence[str], said: str, *, axis: str, marked: int | None = None
) -> Element:  # fmt: skip
    """Shares as bars, with their labels below and the axis' name; ``marked`` is the bar that stands out."""
    left, height, top = 8.0, 170.0, 18.0
    step = min(60.0, 504.0 / max(1, len(values)))
    width = max(2 * left + step * len(values), 160.0)
    most = max([*values, 1e-300])
    every = max(1, -(-len(values) // 24))
    parts = []
    for k, (value, label) in enumerate(zip(values, labels, strict=True)):
        tall = (height - top - 38) * value / most
        x = left + k * step
        bar = element(
            "rect", element("title", f"{label}: {value:.3f}"), x=f"{x + 0.1 * step:.1f}", y=f"{height - 38 - tall:.1f}",
            width=f"{0.8 * step:.1f}", height=f"{tall:.1f}", class_="bar marked" if k == marked else "bar",
        )  # fmt: skip
        parts.append(bar)
        if k % every == 0:
            parts.append(element("text", label, x=f"{x + step / 2:.1f}", y=height - 24, class_="tick middle"))
        if k == marked or len(values) <= 12:
            words = f"{value:.2f}"
            parts.append(
                element("text", words, x=f"{x + step / 2:.1f}", y=f"{height - 42 - tall:.1f}", class_="tick middle")
            )
    parts.append(element("text", axis, x=width / 2, y=height - 6, class_="axis middle"))
    return drawing(width, height, said, parts)


def ranks(draws: np.ndarray, names: Sequence[object], shown: Sequence[int] | np.ndarray, said: str) -> Element:
    """Histograms of the ranks of ``shown`` chains among all draws, (chain, draw): flat where chains have one law."""
    count = draws.shape[1]
    lots = np.random.default_rng(0).permutation(draws.size)  # equal draws have their ranks by lot
    order = np.argsort(np.lexsort([lots, draws.ravel()]), kind="stable").reshape(draws.shape)
    bins = min(BINS, max(2, count // 5))
    wide, tall, gap, across = 90.0, 50.0, 12.0, 4
    parts = []
    for place, (k, name) in enumerate(zip(shown, names, strict=True)):
        found = np.bincount(order[k] * bins // draws.size, minlength=bins)
        x, down, step = (wide + gap) * (place % across), (tall + 22) * (place // across), wide / bins
        scale = tall / max(1.0, 2 * count / bins)
        for b, value in enumerate(found):
            high = min(tall, value * scale)
            at = {"x": f"{x + b * step:.1f}", "y": f"{down + tall - high:.1f}", "width": f"{step - 0.6:.1f}"}
            parts.append(element("rect", **at, height=f"{high:.1f}", class_=f"bar chain{place % SHAPES}"))
        middle = f"{down + tall / 2:.1f}"
        parts.append(element("line", x1=x, x2=x + wide, y1=middle, y2=middle, class_="zero"))
        parts.append(element("text", f"chain {name}", x=x + wide / 2, y=down + tall + 14, class_="tick middle"))
    rows = -(-len(names) // across)
    return drawing((wide + gap) * min(across, len(names)) - gap, (tall + 22) * rows - 4, said, parts)


def _mark(shape: int, x: float, y: float) -> str:
    """The path of a mark: a circle, square, triangle or diamond."""
    return f"M{x:.1f},{y:.1f}{AROUND[shape % SHAPES]}"


def _turned(x: float, y: float) -> str:
    return f"rotate(-90 {x:g} {y:g})"


def scatter(x: np.ndarray, y: np.ndarray, names: tuple[str, str], said: str) -> Element:
    """Draws of two parameters, (chain, draw) each, with a shape for each chain."""
    size, left, bottom = 244.0, 26.0, 34.0

    def placed(values: np.ndarray, low: float, high: float) -> np.ndarray:
        span = np.ptp(values)
        return low + (high - low) * ((values - values.min()) / span if span > 0 else np.full(values.shape, 0.5))

    across, up = placed(x, left + 4, size - 4), placed(y, size - bottom - 4, 4)
    parts = [element("rect", x=left, y=0, width=size - left, height=size - bottom, class_="frame")]
    for k in range(len(x)):
        path = "".join(_mark(k, a, b) for a, b in zip(across[k], up[k], strict=True))
        parts.append(element("path", d=path, class_=f"point chain{k % SHAPES}"))
    floor = size - bottom
    parts += [
        element("text", number(x.min()), x=left, y=floor + 13, class_="tick"),
        element("text", number(x.max()), x=size, y=floor + 13, class_="tick end"),
        element("text", number(y.min()), x=left - 4, y=floor, transform=_turned(left - 4, floor), class_="tick"),
        element("text", number(y.max()), x=left - 4, y=0, transform=_turned(left - 4, 0), class_="tick end"),
        element("text", _short(names[0]), x=(size + left) / 2, y=size - 4, class_="axis middle"),
        element("text", _short(names[1]), x=9, y=floor / 2, transform=_turned(9, floor / 2), class_="axis middle"),
    ]
    return drawing(size, size, said, parts)


def heat(matrix: np.ndarray, said: str, *, borders: Sequence[int] = ()) -> Element:
    """A square matrix of shares in shades from 0 to 1, with lines before the rows ``borders``."""
    rows, size = len(matrix), 360.0
    cell = size / rows
    shade = np.minimum((np.clip(matrix, 0, 1) * SHADES).astype(int), SHADES - 1)
    parts = [element("rect", x=0, y=0, width=size, height=size, class_="frame")]
    for level in range(1, SHADES):
        path = []
        for i in range(rows):
            there = np.flatnonzero(np.diff(np.concatenate([[0], shade[i] == level, [0]])))
            for start, stop in there.reshape(-1, 2):  # of runs of one shade
                path.append(
                    f"M{start * cell:.1f},{i * cell:.1f}h{(stop - start) * cell:.1f}v{cell:.1f}H{start * cell:.1f}z"
                )
        if path:
            parts.append(element("path", d="".join(path), fill_opacity=f"{(level + 0.5) / SHADES:.2f}", class_="cell"))
    for at in borders:
        place = f"{at * cell:.1f}"
        parts.append(element("line", x1=place, x2=place, y1=0, y2=size, class_="border"))
        parts.append(element("line", x1=0, x2=size, y1=place, y2=place, class_="border"))
    return drawing(size, size, said, parts)


def places(points: np.ndarray, sizes: np.ndarray, names: Sequence[str], links: Sequence[str], said: str) -> Element:
    """Circles with an area for each of ``sizes`` at ``points``, (place, 2): links that the keyboard can reach."""
    size, margin = 440.0, 44.0
    low, span = points.min(axis=0), max(1e-12, float(np.ptp(points, axis=0).max()))
    middle = (span - np.ptp(points, axis=0)) / 2
    at = margin + (size - 2 * margin) * (points - low + middle) / span
    radius = 4 + 34 * np.sqrt(sizes / max(float(sizes.max()), 1e-300))
    parts = []
    for k in np.argsort(-radius, kind="stable"):  # the small ones in front
        x, y = f"{at[k, 0]:.1f}", f"{at[k, 1]:.1f}"
        parts.append(
            element(
                "a", element("title", names[k]), element("circle", cx=x, cy=y, r=f"{radius[k]:.1f}", class_="place"),
                element("text", str(k), x=x, y=f"{at[k, 1] + 4:.1f}", class_="tick middle"), href=links[k],
                data_place=k, aria_label=names[k],
            )
        )  # fmt: skip
    found = drawing(size, size, said, parts)
    found.set("role", "group")  # of links, each with a name
    return found


def band(
    mean: np.ndarray, low: np.ndarray, high: np.ndarray, labels: Sequence[str], said: str, *, axis: str, joined: bool
) -> Element:
    """Means with their intervals over labels; ``joined`` to a line with a band where labels have an order."""
    width, height, left, bottom, top = 520.0, 180.0, 46.0, 36.0, 8.0
    most = max(float(np.nanmax(high)), 1e-300)
    x = left + (width - left - 12) * (np.arange(len(mean)) + 0.5) / len(mean)

    def up(values: np.ndarray) -> np.ndarray:
        return np.asarray(top + (height - top - bottom) * (1 - np.clip(values / most, 0, 1)))

    def path(values: np.ndarray, across: np.ndarray) -> str:
        return "L".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, values, strict=True))

    around = f"M{path(up(high), x)}L{path(up(low)[::-1], x[::-1])}z"
    shape = [element("path", d=around, class_="band"), element("path", d=f"M{path(up(mean), x)}", class_="line")]
    if not joined:
        ends = zip(x, up(low), up(high), strict=True)
        shape = [element("path", d=f"M{a:.1f},{b:.1f}V{c:.1f}", class_="range") for a, b, c in ends]
    parts = [
        element("line", x1=left, x2=width - 12, y1=height - bottom, y2=height - bottom, class_="zero"),
        *shape,
        element("text", number(most), x=left - 4, y=top + 8, class_="tick end"),
        element("text", "0", x=left - 4, y=height - bottom, class_="tick end"),
        element("text", axis, x=width / 2, y=height - 4, class_="axis middle"),
    ]  # fmt: skip
    parts += [
        element("circle", element("title", f"{label}: {m:.3g}"), cx=f"{a:.1f}", cy=f"{b:.1f}", r=2.5, class_="dot")
        for a, b, m, label in zip(x, up(mean), mean, labels, strict=True)
    ]
    every = max(1, -(-len(labels) // 8))
    parts += [
        element("text", _short(label, 12), x=f"{a:.1f}", y=height - bottom + 14, class_="tick middle")
        for k, (a, label) in enumerate(zip(x, labels, strict=True)) if k % every == 0
    ]  # fmt: skip
    return drawing(width, height, said, parts)


def against(
    predicted: np.ndarray, observed: np.ndarray, counts: np.ndarray, said: str, *, axes: tuple[str, str]
) -> Element:
    """What was observed against what was predicted, with the diagonal; the area of a mark is its number of rows."""
    size, left, bottom = 300.0, 44.0, 34.0
    most, room = max(float(np.nanmax(predicted)), float(np.nanmax(observed)), 1e-300), 1.06  # for marks at the end

    def across(value: float) -> float:
        return left + (size - left - 8) * value / (room * most)

    def up(value: float) -> float:
        return size - bottom - (size - bottom - 8) * value / (room * most)

    parts = [
        element("rect", x=left, y=8, width=size - left - 8, height=size - bottom - 8, class_="frame"),
        element("line", x1=across(0), y1=up(0), x2=across(most), y2=up(most), class_="zero"),
    ]
    for p, o, count in zip(predicted, observed, counts, strict=True):
        if count and np.isfinite([p, o]).all():
            radius = 2 + 8 * np.sqrt(count / counts.max())
            words = f"predicted {p:.3g}, observed {o:.3g}, {count:,} rows"
            place = {"cx": f"{across(p):.1f}", "cy": f"{up(o):.1f}", "r": f"{radius:.1f}"}
            parts.append(element("circle", element("title", words), **place, class_="place"))
    parts += [
        element("text", axes[0], x=(size + left) / 2, y=size - 6, class_="axis middle"),
        element("text", axes[1], x=10, y=size / 2, transform=_turned(10, size / 2), class_="axis middle"),
        element("text", "0", x=left, y=size - bottom + 13, class_="tick middle"),
        element("text", number(most), x=left - 4, y=f"{up(most) + 4:.1f}", class_="tick end"),
        element("text", number(most), x=f"{across(most):.1f}", y=size - bottom + 13, class_="tick middle"),
    ]
    return drawing(size, size, said, parts)


def _short(text: str, most: int = 24) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
