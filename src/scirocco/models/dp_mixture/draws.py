"""Draws of a mixture: partitions of its rows, and the statistics of their clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.corpora.documents import Documents
from scirocco.models.dp_mixture import numeric
from scirocco.models.dp_mixture.clusters import Statistics
from scirocco.models.dp_mixture.components import Encoding
from scirocco.models.dp_mixture.density import Law
from scirocco.models.dp_mixture.partition import PartitionLaw
from scirocco.models.dp_mixture.predictive import Snapshot
from scirocco.partitions.view import ClusterView

if TYPE_CHECKING:
    import xarray as xr


MEMBER_DRAWS = 25  # that memberships are averaged over: their error is then less than that of 100 draws of labels
PIECE = 2**23  # probabilities at a time


@dataclass(eq=False)
class MixtureDraws:
    """Draws of all chains: arrays (chain, draw, ...), and by chain and draw the statistics of clusters."""

    labels: np.ndarray
    number: np.ndarray
    concentration: np.ndarray
    base: np.ndarray
    log_density: np.ndarray  # of the rows and the partition
    sizes: list[list[np.ndarray]]
    counts: list[list[np.ndarray]]  # (cluster, feature)
    moments: list[list[np.ndarray]]  # (cluster, column, moment) of columns of numbers
    columns: np.ndarray  # priors of these
    kept: bool = True  # otherwise sizes are weights, and counts are proportions
    stream: bool = False  # one draw whose clusters keep their numbers; labels are those of the last minibatch
    made: dict[str, Any] = field(default_factory=dict)  # what was made of them, when it was first asked for

    @classmethod
    def made_of(cls, known: dict[str, Any], columns: np.ndarray | None, **more: Any) -> MixtureDraws:
        """Without columns of numbers ``columns`` is None, and there are no moments."""
        if columns is None:
            columns = np.empty((*known["number"].shape, 0, numeric.WIDTH))
            none = [[np.empty((own.size, 0, numeric.MOMENTS)) for own in chain] for chain in known["sizes"]]
            known = known | {"moments": none}
        return cls(**known, columns=columns, **more)

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """What ``make`` gives, made once."""
        if name not in self.made:
            self.made[name] = make()
        return self.made[name]

    def of_chains(self, chains: np.ndarray) -> MixtureDraws:
        """Those of some chains alone."""
        fixed = ("labels", "number", "concentration", "base", "log_density", "columns")
        arrays: dict[str, Any] = {name: getattr(self, name)[chains] for name in fixed}
        ragged: dict[str, Any] = {
            name: [getattr(self, name)[c] for c in chains] for name in ("sizes", "counts", "moments")
        }
        return MixtureDraws(**arrays, **ragged, kept=self.kept, stream=self.stream)

    @property
    def draws(self) -> np.ndarray:
        """Labels of all chains, (draw, row)."""
        return self.labels.reshape(-1, self.labels.shape[2])

    def rows_by_cluster(self) -> list[np.ndarray]:
        """How many rows each cluster has, for each draw."""
        return [own for chain in self.sizes for own in chain] if self.kept else [np.bincount(own) for own in self.draws]

    def snapshots(self, encoding: Encoding, partition: Callable[[float], PartitionLaw]) -> list[Snapshot]:
        """All draws as densities; ``partition`` is the law of partitions with a concentration."""
        made = []
        for c, d in np.ndindex(*self.number.shape):
            law = Law.of(
                self.base[c, d], encoding.groups, encoding.counted, encoding.component.prior_rate, self.columns[c, d]
            )
            known = Statistics(self.sizes[c][d], self.counts[c][d], self.moments[c][d])
            own = partition(float(self.concentration[c, d]))
            made.append(Snapshot.of(known, law, own) if self.kept else Snapshot.given(known, law))
        return made

    @property
    def view(self) -> ClusterView:
        """The clusters of a representative draw, and which cluster of every draw is which of them."""
        components = [own.size for chain in self.sizes for own in chain]
        if self.stream:
            return ClusterView(self.draws, 0, components[0], [np.arange(components[0])])
        found: ClusterView = self.once("view", lambda: ClusterView.of(self.draws, components))
        return found

    @property
    def view_sizes(self) -> np.ndarray:
        """Rows of each cluster of the view and, last, of others, (draw, cluster)."""
        if not self.kept:
            return self.view.sizes
        pairs = zip(self.view.names, self.rows_by_cluster(), strict=True)
        counted = [np.bincount(known, own, minlength=self.view.number + 1) for known, own in pairs]
        return np.array(counted).astype(np.int64)

    def membership(self, snapshots: list[Snapshot], rows: Documents, threads: int, most: int) -> np.ndarray:
        """The probability of each cluster of the view and, last, of others, for the rows that it is of.

        Given all other rows, averaged over at most so many draws.
        """
        some, draws = self.view.some_draws(most), self.draws

        def member_shares(k: int, rows: Documents, piece: slice) -> np.ndarray:
            return snapshots[k].member_shares(rows, draws[k, piece], threads)

        return self._averaged(rows, some, max(own.weights.size for own in snapshots), member_shares).astype(np.float32)

    @property
    def nameless(self) -> MixtureDraws:
        """What ``shares`` needs beside snapshots: the names of clusters in the view."""
        lean = replace(self, labels=self.labels[:, :, :0], sizes=[], counts=[], moments=[], made={})
        if not self.stream:
            lean.made["view"] = replace(self.view, draws=self.draws[:, :0])
        return lean

    def shares(self, snapshots: list[Snapshot], rows: Documents, threads: int) -> np.ndarray:
        """The probability of each cluster of the view and, last, of others, for other rows."""
        if self.stream:
            return snapshots[0].shares(rows, threads)
        widest = max(own.weights.size for own in snapshots)
        return self._averaged(
            rows, range(len(snapshots)), widest, lambda k, rows, _: snapshots[k].shares(rows, threads)
        )

    def _averaged(
        self, rows: Documents, some: Iterable[int], widest: int, shares: Callable[[int, Documents, slice], np.ndarray]
    ) -> np.ndarray:
        """Probabilities of some draws' clusters, at most ``widest`` of a draw, as those of the view, by piece."""
        found = np.empty((rows.size, self.view.number + 1))
        length = max(1, PIECE // widest)
        for first in range(0, rows.size, length):
            piece = slice(first, min(rows.size, first + length))
            own = rows if rows.size <= length else rows.take(piece)
            found[piece] = self.view.averaged((k, shares(k, own, piece)) for k in some)
        return found

    def posterior(self) -> xr.Dataset:
        """What has the same shape in every draw."""
        import xarray as xr

        named = {"n_clusters": self.number, "concentration": self.concentration, "log_density": self.log_density}
        every = {name: (("chain", "draw"), values) for name, values in named.items()}
        return xr.Dataset(every | {"labels": (("chain", "draw", "row"), self.labels)}).assign_coords(
            chain=np.arange(self.number.shape[0]), draw=np.arange(self.number.shape[1])
        )
