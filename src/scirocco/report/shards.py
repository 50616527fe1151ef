"""The page of a run of shards: whether they go together, what they say alone, and their draws combined."""

from __future__ import annotations

from typing import Any

import numpy as np

from scirocco.core.credible import quantiles
from scirocco.report import charts
from scirocco.report.elements import Child, Element, element, rounded
from scirocco.report.page import Page
from scirocco.report.posterior import (
    LEVEL,
    add_costs,
    add_run,
    draws_block,
    estimates_of,
    estimates_table,
    worst_draws,
)
from scirocco.report.tables import table, told
from scirocco.run.trace import LEAST_DRAWS, label_of
from scirocco.verbs.sample_shards import Sharded

SHOWN = 6  # parameters by shard


def add_shards(page: Page, found: Sharded) -> None:
    """All sections but the verdict."""
    trace = found.trace
    add_run(page, trace)
    if found.missing or trace.count < LEAST_DRAWS:
        page.add("diagnosis", "Shards", element("p", str(found)))
        add_costs(page, trace)
        return
    listed, note = estimates_of(found.draws)
    said = element("p", f"Draws of all shards, combined by {found.method!r}.", class_="note")
    page.add("estimates", "Estimates", said, *estimates_table(listed, note))
    page.add("diagnosis", "Shards", element("pre", str(found), class_="plain", tabindex="0"), *_by_shard(found, listed))
    worst, chains = worst_draws(found.draws, listed), list(range(found.draws.sizes["chain"]))
    page.add("draws", "Draws", *draws_block(page, worst, chains, "Of the combined draws."))
    add_costs(page, trace)


def _by_shard(found: Sharded, listed: Any) -> list[Child]:
    """What each shard says alone of the parameters in which shards differ most, beside all combined."""
    alone = [_intervals(found.shard(number)) for number in range(found.shards)]
    combined = _intervals(found.draws)
    names = [name for name in listed["parameter"] if name in combined]

    def apart(name: str) -> float:
        means = np.array([own[name][0] for own in alone])
        sds = np.array([own[name][3] for own in alone])
        return float(np.max(np.abs(means - np.median(means)) / np.maximum(sds, 1e-300)))

    worst = sorted(names, key=apart, reverse=True)[:SHOWN]
    tables = [_compared(name, [own[name] for own in alone], combined[name]) for name in worst]
    return [element("h3", "By shard"), *tables]


def _compared(name: str, alone: list[tuple[float, ...]], combined: tuple[float, ...]) -> Element:
    import pandas as pd

    rows = [("all, combined", combined), *((f"shard {k}", own) for k, own in enumerate(alone))]
    ends = (min(own[1] for _, own in rows), max(own[2] for _, own in rows))
    frame = pd.DataFrame({
        "shard": [who for who, _ in rows], "mean": told([own[0] for _, own in rows], [own[3] for _, own in rows]),
        "sd": [own[3] for _, own in rows],
        "interval": [f"{rounded(own[1], own[3])} to {rounded(own[2], own[3])}" for _, own in rows],
        "picture": [own[:3] for _, own in rows],
    })  # fmt: skip
    return table(
        frame, f"{name}: each shard alone, {LEVEL:.0%} intervals", name="shards", text=("interval", "picture"),
        titles={"interval": f"{LEVEL:.0%} interval", "picture": "on one axis"},
        formats={"picture": lambda bar: charts.interval_bar(bar, ends)},
    )  # fmt: skip


def _intervals(posterior: Any) -> dict[str, tuple[float, float, float, float]]:
    """Mean, ends of the interval and sd of each coordinate, by its name."""
    found = {}
    for name, variable in posterior.data_vars.items():
        values = np.asarray(variable.values, np.float64)
        draws = values.reshape(-1, *values.shape[2:])
        mean, sd = draws.mean(axis=0), draws.std(axis=0, ddof=1)
        low, high = quantiles(draws, LEVEL)
        for index in np.ndindex(values.shape[2:]):
            known = (float(mean[index]), float(low[index]), float(high[index]), float(sd[index]))
            found[label_of(posterior, str(name), index)] = known
    return found
