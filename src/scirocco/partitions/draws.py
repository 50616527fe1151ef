"""What a model reads from draws of the labels of its rows: a point partition and how sure it is, sizes, numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.core.checks import require_choice, require_count
from scirocco.core.credible import require_level
from scirocco.core.seeds import Purpose, generator
from scirocco.partitions.ball import CredibleBall, credible_ball
from scirocco.partitions.losses import LOSSES, co_clustering
from scirocco.partitions.search import PointPartition, point_partition, remarks_on

if TYPE_CHECKING:
    import pandas as pd

SEARCHED_ROWS = 10_000  # of which a point partition is sought; the others join where their draws say
SEARCHED_DRAWS = 100


@dataclass(frozen=True, eq=False)
class PartitionDraws:
    """Draws of labels from 0 on, (draw, row).

    ``seed`` and ``path`` say which rows are searched where there are very many; the result does not depend on
    ``threads``.
    """

    labels: np.ndarray
    seed: int = 0
    path: tuple[int, ...] = ()
    threads: int = 1

    def point(self, *, loss: str = "vi", n_starts: int = 4) -> PointPartition:
        """The partition nearest to all draws; see ``partitions.point_partition``.

        Of more than 10,000 rows a sample is searched, and the others join the cluster that theirs in the draws lie in.
        """
        require_choice("loss", loss, LOSSES)
        draws = self.labels
        if len(draws) > SEARCHED_DRAWS:
            draws = draws[np.linspace(0, len(draws) - 1, SEARCHED_DRAWS).astype(int)]
        options: dict[str, Any] = {"loss": loss, "n_starts": n_starts, "threads": self.threads, "seed": self.seed}
        if draws.shape[1] <= SEARCHED_ROWS:
            return point_partition(draws, **options)
        rng = generator(self.seed, Purpose.MIXTURE_SAMPLE, *self.path)
        some = np.sort(rng.permutation(draws.shape[1])[:SEARCHED_ROWS])
        found = point_partition(draws[:, some], **options)
        labels = memberships(draws, some, found.labels).argmax(axis=1)
        labels[some] = found.labels
        return PointPartition(
            labels, found.expected_loss, loss, found.starts, remarks_on(labels, found.expected_loss, draws, loss)
        )

    def ball(self, partition: Any, *, level: float = 0.95, loss: str = "vi") -> CredibleBall:
        """How far from a partition the draws are; see ``partitions.credible_ball``."""
        return credible_ball(self.labels, partition, level=level, loss=loss)

    def co_clustering(self, rows: Any = None) -> np.ndarray:
        """How often pairs of some rows, or of all, are in one cluster, (row, row)."""
        return co_clustering(self.labels, np.arange(self.labels.shape[1]) if rows is None else rows)

    def sizes(self) -> list[np.ndarray]:
        """How many rows each cluster has, for each draw."""
        return [np.bincount(own) for own in self.labels]


def overlap(own: np.ndarray, point: np.ndarray, clusters: int) -> np.ndarray:
    """Which share of the clusters of a draw lies in which of a partition ``point``, (cluster, point)."""
    number = int(own.max()) + 1
    table = np.bincount(own.astype(np.int64) * clusters + point, minlength=number * clusters).reshape(number, clusters)
    return table / np.maximum(table.sum(axis=1, keepdims=True), 1)


def memberships(draws: np.ndarray, some: np.ndarray, point: np.ndarray) -> np.ndarray:
    """The probability of each of the clusters ``point`` of some rows, for all rows, (row, cluster)."""
    total = np.zeros((draws.shape[1], int(point.max()) + 1))
    for own in draws:
        table = np.zeros((int(own.max()) + 1, total.shape[1]))
        found = overlap(own[some], point, total.shape[1])
        table[: len(found)] = found  # the last clusters may have none of these rows
        total += table[own]
    return total / len(draws)


def entropy_in_bits(chances: np.ndarray) -> np.ndarray:
    """Of probabilities of clusters, (row, cluster)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return -np.where(chances > 0, chances * np.log2(chances), 0.0).sum(axis=1)


def size_intervals(sizes: np.ndarray, level: float, name: str) -> pd.DataFrame:
    """Mean and credible interval of sizes, (draw, cluster), by cluster; the index is called ``name``."""
    import pandas as pd

    tail = require_level(level)
    low, high = np.quantile(sizes, [tail, 1 - tail], axis=0)
    table = {"mean": sizes.mean(axis=0), "lower": low, "upper": high}
    return pd.DataFrame(table, index=pd.RangeIndex(sizes.shape[1], name=name))


def by_rank(sizes: Sequence[np.ndarray]) -> np.ndarray:
    """Sizes of the clusters of each draw, the largest first and 0 where there are no more, (draw, rank)."""
    table = np.zeros((len(sizes), max(map(len, sizes))))
    for row, own in zip(table, sizes, strict=True):
        row[: own.size] = np.sort(own)[::-1]
    return table


def number_probabilities(sizes: Sequence[np.ndarray], least: int = 1) -> pd.Series:
    """The posterior of the number of clusters with at least ``least`` rows: probabilities by number."""
    import pandas as pd

    require_count("least", least)
    numbers, times = np.unique([np.sum(own >= least) for own in sizes], return_counts=True)
    return pd.Series(times / times.sum(), index=pd.Index(numbers, name="clusters"), name="probability")
