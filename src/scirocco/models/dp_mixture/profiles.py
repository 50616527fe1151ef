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


def profiles(
    found: MixtureDraws, snapshots: list[Snapshot], encoding: Encoding, labels: np.ndarray, number: int, *,
    n: int, level: float, by: str, seed: int,
) -> pd.DataFrame:  # fmt: skip
    """The ``n`` first features of each of ``number`` clusters of the partition ``labels``, with credible intervals."""
    import pandas as pd

    require_count("n", n)
    require_level(level)
    require_choice("by", by, ("distinctive", "mean"))
    shown = np.flatnonzero(encoding.counted)
    rng = generator(seed, Purpose.MIXTURE_SAMPLE, 1)
    labelled = found.draws
    wanted = int(np.clip(PROFILE_CELLS // max(1, number * shown.size), 20, PROFILE_DRAWS * len(snapshots)))
    draws = np.stack([
        _cluster_means(found, snapshots[k % len(snapshots)], labelled[k % len(snapshots)], labels, number, shown, rng)
        for k in np.linspace(0, PROFILE_DRAWS * len(snapshots) - 1, wanted).astype(int)
    ])  # fmt: skip
    sizes = np.asarray(found.sizes[0][0]) if found.stream else np.bincount(labels, minlength=number)
    mean = draws.mean(axis=0)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    everyone = sizes @ mean
    rest = (everyone - sizes[:, None] * mean) / np.maximum(sizes.sum() - sizes, 1)[:, None]
    rest = np.where(rest > 0, rest, mean) if number > 1 else mean
    order = mean * np.log(mean / rest) if by == "distinctive" else mean
    tables = []
    for k in range(number):
        best = np.argsort(-order[k], kind="stable")[:n]
        names = best if encoding.names is None else [encoding.names[f] for f in best]
        tables.append(
            pd.DataFrame({
                "cluster": k, "rows": sizes[k], "feature": names, "mean": mean[k, best], "lower": low[k, best],
                "upper": high[k, best], "lift": mean[k, best] / rest[k, best],
            })
        )  # fmt: skip
    return pd.concat(tables, ignore_index=True)


def _cluster_means(
    found: MixtureDraws, snapshot: Snapshot, own: np.ndarray, labels: np.ndarray, number: int, shown: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    """A draw of the parameters of the clusters of the point partition, (cluster, feature)."""
    law, tables = snapshot.law, snapshot.tables
    theta = rng.gamma(law.base[shown, None] + tables.counts[shown, :-1])
    if law.rate:
        theta /= law.rate + tables.sizes[:-1]
    else:
        starts = np.flatnonzero(np.r_[True, np.diff(law.group[shown]) != 0])
        theta /= np.maximum(np.add.reduceat(theta, starts, axis=0), 1e-300)[law.group[shown]]
    if found.stream:
        return theta.T
    share = np.zeros((number, tables.sizes.size - 1))
    np.add.at(share, (labels, own), 1.0)
    return (share / share.sum(axis=1, keepdims=True)) @ theta.T
