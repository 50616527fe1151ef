"""What tells the clusters of a mixture apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scirocco.core.checks import require_choice, require_count
from scirocco.core.seeds import Purpose, generator
from scirocco.models.dp_mixture.components import Encoding
from scirocco.models.dp_mixture.draws import MixtureDraws
from scirocco.models.dp_mixture.predictive import Snapshot
from scirocco.partitions.draws import require_level

if TYPE_CHECKING:
    import pandas as pd

PROFILE_DRAWS, PROFILE_CELLS = 4, 10**7  # of the parameters for each draw of the partition; numbers to hold, about
LEAST_DRAWS = 100  # of the parameters


def profiles(
    found: MixtureDraws, snapshots: list[Snapshot], encoding: Encoding, *, n: int, level: float, by: str, seed: int
) -> pd.DataFrame:
    """The ``n`` first features of each cluster of the view of the draws, with credible intervals."""
    import pandas as pd

    require_count("n", n)
    require_level(level)
    require_choice("by", by, ("distinctive", "mean"))
    shown = np.flatnonzero(encoding.counted)
    rng = generator(seed, Purpose.MIXTURE_SAMPLE, 1)
    view, sizes = found.view, found.view_sizes[:, :-1].mean(axis=0)
    number = view.number
    most = int(np.clip(PROFILE_CELLS // max(1, number * shown.size), LEAST_DRAWS, PROFILE_DRAWS * len(snapshots)))
    some = view.some_draws(most)
    drawn: list[list[np.ndarray]] = [[] for _ in range(number)]  # the representative has every cluster
    for k in np.repeat(some, max(1, max(most, LEAST_DRAWS) // some.size)):
        there = np.flatnonzero(view.names[k] < number)
        for cluster, theta in zip(view.names[k][there], _parameters(snapshots[k], shown, there, rng), strict=True):
            drawn[cluster].append(theta)
    mean = np.array([np.mean(own, axis=0) for own in drawn])
    low, high = np.swapaxes([np.quantile(own, [(1 - level) / 2, (1 + level) / 2], axis=0) for own in drawn], 0, 1)
    everyone = sizes @ mean
    rest = (everyone - sizes[:, None] * mean) / np.maximum(sizes.sum() - sizes, 1)[:, None]
    rest = np.where(rest > 0, rest, mean) if number > 1 else mean
    order = mean * np.log(mean / rest) if by == "distinctive" else mean
    tables = []
    for k in range(number):
        best = np.argsort(-order[k], kind="stable")[:n]
        features = best if encoding.names is None else [encoding.names[f] for f in best]
        tables.append(
            pd.DataFrame({
                "cluster": k, "rows": sizes[k], "present": view.present[k], "feature": features, "mean": mean[k, best],
                "lower": low[k, best], "upper": high[k, best], "lift": mean[k, best] / rest[k, best],
            })
        )  # fmt: skip
    return pd.concat(tables, ignore_index=True)


def _parameters(snapshot: Snapshot, shown: np.ndarray, clusters: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A draw of the parameters of some clusters, (cluster, feature)."""
    law, tables = snapshot.law, snapshot.tables
    theta = rng.gamma(law.base[shown, None] + tables.counts[np.ix_(shown, clusters)])
    if law.rate:
        theta /= law.rate + tables.sizes[clusters]
    else:
        starts = np.flatnonzero(np.r_[True, np.diff(law.group[shown]) != 0])
        theta /= np.maximum(np.add.reduceat(theta, starts, axis=0), 1e-300)[law.group[shown]]
    return np.asarray(theta.T)
