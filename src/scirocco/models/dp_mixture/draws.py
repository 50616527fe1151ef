"""Draws of a mixture: partitions of its rows, and the statistics of their clusters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.corpora.documents import Documents
from scirocco.models.dp_mixture.components import Encoding
from scirocco.models.dp_mixture.density import Law
from scirocco.models.dp_mixture.partition import PartitionLaw
from scirocco.models.dp_mixture.predictive import Snapshot
from scirocco.partitions.draws import overlap

if TYPE_CHECKING:
    import xarray as xr


@dataclass(eq=False)
class MixtureDraws:
    """Draws of all chains: arrays (chain, draw, ...), and by chain and draw the statistics of clusters."""

    labels: np.ndarray
    number: np.ndarray
    concentration: np.ndarray
    base: np.ndarray
    sizes: list[list[np.ndarray]]
    counts: list[list[np.ndarray]]  # (cluster, feature)
    kept: bool = True  # otherwise sizes are weights, and counts are proportions
    stream: bool = False  # one draw whose clusters keep their numbers; labels are those of the last minibatch
    made: dict[str, Any] = field(default_factory=dict)  # what was made of them, when it was first asked for

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """What ``make`` gives, made once."""
        if name not in self.made:
            self.made[name] = make()
        return self.made[name]

    @property
    def draws(self) -> np.ndarray:
        """Labels of all chains, (draw, row)."""
        return self.labels.reshape(-1, self.labels.shape[2])

    def rows_by_cluster(self) -> list[np.ndarray]:
        """How many rows each cluster has, for each draw."""
        return self.sizes[0] if self.stream else [np.bincount(own) for own in self.draws]

    def snapshots(self, encoding: Encoding, partition: Callable[[float], PartitionLaw]) -> list[Snapshot]:
        """All draws as densities; ``partition`` is the law of partitions with a concentration."""
        made = []
        for c, d in np.ndindex(*self.number.shape):
            law = Law.of(self.base[c, d], encoding.groups, encoding.counted, encoding.component.prior_rate)
            sizes, counts = self.sizes[c][d], self.counts[c][d]
            own = partition(float(self.concentration[c, d]))
            made.append(Snapshot.of(sizes, counts, law, own) if self.kept else Snapshot.given(sizes, counts, law))
        return made

    def shares(self, snapshots: list[Snapshot], point: np.ndarray, rows: Documents, threads: int) -> np.ndarray:
        """The probability of each cluster of a partition ``point`` and, last, of one not seen yet, for other rows."""
        if self.stream:
            return snapshots[0].shares(rows, threads)
        number = int(point.max()) + 1
        tables = self.once("overlaps", lambda: [overlap(own, point, number) for own in self.draws])
        total = np.zeros((rows.size, number + 1))
        for snapshot, table in zip(snapshots, tables, strict=True):
            own = snapshot.shares(rows, threads)
            total[:, :-1] += own[:, :-1] @ table
            total[:, -1] += own[:, -1]
        return total / total.sum(axis=1, keepdims=True)

    def posterior(self) -> xr.Dataset:
        """What has the same shape in every draw."""
        import xarray as xr

        named = {"n_clusters": self.number, "concentration": self.concentration}
        every = {name: (("chain", "draw"), values) for name, values in named.items()}
        return xr.Dataset(every | {"labels": (("chain", "draw", "row"), self.labels)}).assign_coords(
            chain=np.arange(self.number.shape[0]), draw=np.arange(self.number.shape[1])
        )
