"""What tells the clusters of a mixture apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.core.checks import require_choice, require_count
from scirocco.core.credible import require_level
from scirocco.core.seeds import Purpose, generator
from scirocco.models.dp_mixture.components import Encoding
from scirocco.models.dp_mixture.draws import MixtureDraws
from scirocco.models.dp_mixture.numeric import FAMILY, POISSON, drawn_parameters
from scirocco.models.dp_mixture.predictive import Snapshot
from scirocco.models.dp_mixture.units import Units

if TYPE_CHECKING:
    import pandas as pd

PROFILE_DRAWS, PROFILE_CELLS = 4, 10**7  # of the parameters for each draw of the partition; numbers to hold, about
LEAST_DRAWS = 100  # of the parameters


def profiles(
    draws: MixtureDraws, snapshots: list[Snapshot], encoding: Encoding, *, n: int, level: float, by: str, seed: int
) -> pd.DataFrame:
    """The ``n`` first features of each cluster of the view of the draws, with credible intervals."""
    import pandas as pd

    require_count("n", n)
    require_level(level)
    require_choice("by", by, ("distinctive", "mean"))
    shown = np.flatnonzero(encoding.counted)
    rng = generator(seed, Purpose.MIXTURE_SAMPLE, 1)
    view, sizes = draws.view, draws.view_sizes[:, :-1].mean(axis=0)
    number = view.number
    most = int(np.clip(PROFILE_CELLS // max(1, number * shown.size), LEAST_DRAWS, PROFILE_DRAWS * len(snapshots)))
    some = view.some_draws(most)
    drawn: list[list[np.ndarray]] = [[] for _ in range(number)]  # the representative has every cluster
    numbers: list[list[np.ndarray]] = [[] for _ in range(number)]
    for k in np.repeat(some, max(1, max(most, LEAST_DRAWS) // some.size)):
        there = np.flatnonzero(view.names[k] < number)
        features, columns = _parameters(snapshots[k], shown, there, rng), _moments(snapshots[k], encoding, there, rng)
        for cluster, theta, own in zip(view.names[k][there], features, columns, strict=True):
            drawn[cluster].append(theta)
            numbers[cluster].append(own)
    found = _of_features(drawn, sizes, level)
    if encoding.units is not None:
        beside = _of_numbers(numbers, encoding.units, sizes, level)
        absent = np.full_like(found["mean"], np.nan)
        found = {name: np.concatenate([found.get(name, absent), beside[name]], axis=1) for name in beside}
    divergence = found.pop("divergence")
    order = divergence if by == "distinctive" else found["mean"]
    names = _names(encoding, shown.size)
    tables = []
    for k in range(number):
        best = np.argsort(-order[k], kind="stable")[:n]
        first = {"cluster": k, "rows": sizes[k], "present": view.present[k], "feature": [names[f] for f in best]}
        tables.append(pd.DataFrame(first | {name: values[k, best] for name, values in found.items()}))
    return pd.concat(tables, ignore_index=True)


def _names(encoding: Encoding, features: int) -> list[Any]:
    listed: list[Any] = list(range(features)) if encoding.names is None else encoding.names[:features]
    return listed if encoding.units is None else listed + encoding.units.names


def _intervals(drawn: list[list[np.ndarray]], level: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means, lower and upper ends by cluster."""
    low, high = np.swapaxes([np.quantile(own, [(1 - level) / 2, (1 + level) / 2], axis=0) for own in drawn], 0, 1)
    return np.array([np.mean(own, axis=0) for own in drawn]), low, high


def _of_others(means: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The mean over all rows of other clusters, by cluster."""
    return (sizes @ means - sizes[:, None] * means) / np.maximum(sizes.sum() - sizes, 1)[:, None]


def _of_features(drawn: list[list[np.ndarray]], sizes: np.ndarray, level: float) -> dict[str, np.ndarray]:
    """Columns of the table for features, (cluster, feature)."""
    mean, low, high = _intervals(drawn, level)
    rest = _of_others(mean, sizes)
    rest = np.where(rest > 0, rest, mean) if sizes.size > 1 else mean
    divergence = mean * np.log(mean / rest)
    return {"mean": mean, "lower": low, "upper": high, "lift": mean / rest, "divergence": divergence}


def _of_numbers(drawn: list[list[np.ndarray]], units: Units, sizes: np.ndarray, level: float) -> dict[str, np.ndarray]:
    """The same for columns of numbers, with sds and how many sds of the rest the mean is from that of the rest."""
    (mean, sd), (low, sd_low), (high, sd_high) = (np.moveaxis(v, 2, 0) for v in _intervals(drawn, level))
    rest, counts = _of_others(mean, sizes), units.priors[:, FAMILY] == POISSON
    variance = np.where(counts, rest, _of_others(sd**2 + mean**2, sizes) - rest**2)
    if sizes.size == 1:
        rest, variance = mean, sd**2
    variance = np.maximum(variance, 1e-12 * np.maximum(sd**2, 1e-300))
    normal = (np.log(variance) - np.log(sd**2) + (sd**2 + (mean - rest) ** 2) / variance - 1) / 2
    lift = np.where(counts, mean, 1.0) / np.where(counts, np.maximum(rest, 1e-300), 1.0)
    divergence = np.where(counts, mean * np.log(lift) - mean + rest, normal)
    found = {
        "mean": mean, "lower": low, "upper": high, "lift": np.where(counts, lift, np.nan),
        "divergence": divergence, "difference": (mean - rest) / np.sqrt(variance), "sd": sd, "sd_lower": sd_low,
        "sd_upper": sd_high,
    }  # fmt: skip
    for name in ("sd", "sd_lower", "sd_upper"):
        found[name] = np.where(counts, np.nan, found[name])
    return found


def _parameters(snapshot: Snapshot, shown: np.ndarray, clusters: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A draw of the parameters of some clusters, (cluster, feature)."""
    law, tables = snapshot.law, snapshot.tables
    if not shown.size:
        return np.empty((clusters.size, 0))
    theta = rng.gamma(law.base[shown, None] + tables.counts[np.ix_(shown, clusters)])
    if law.rate:
        theta /= law.rate + tables.sizes[clusters]
    else:
        starts = np.flatnonzero(np.r_[True, np.diff(law.group[shown]) != 0])
        theta /= np.maximum(np.add.reduceat(theta, starts, axis=0), 1e-300)[law.group[shown]]
    return np.asarray(theta.T)


def _moments(snapshot: Snapshot, encoding: Encoding, clusters: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Means and sds of columns of numbers in some clusters, a draw in the table's units: (cluster, column, 2)."""
    units, columns = encoding.units, snapshot.law.columns
    if units is None:
        return np.empty((clusters.size, 0, 2))
    drawn = drawn_parameters(rng, columns, snapshot.tables.moments[:, :, clusters])
    mean = units.centers[:, None] + units.scales[:, None] * drawn[:, 0]
    normal = columns[:, FAMILY, None] != POISSON
    sd = np.sqrt(np.where(normal, units.scales[:, None] ** 2 / drawn[:, 1], mean))
    return np.stack([mean, sd], axis=2).transpose(1, 0, 2)
