"""What is read from draws of a mixture: how many clusters, how large, who belongs where, what tells them apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from scirocco.core.checks import require_choice, require_count
from scirocco.core.seeds import Purpose, generator
from scirocco.models.dp_mixture.density import Law
from scirocco.models.dp_mixture.predictive import Snapshot, overlap
from scirocco.partitions import CredibleBall, PointPartition, co_clustering, credible_ball, point_partition
from scirocco.partitions.losses import distances
from scirocco.run import convergence

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

SEARCHED_ROWS = 10_000  # of which a point partition is sought; the others join where their draws say
SEARCHED_DRAWS = 100
PROFILE_DRAWS, PROFILE_CELLS = 4, 10**7  # of the parameters for each draw of the partition; numbers to hold, about
COMPARED_ROWS, COMPARED_DRAWS = 5000, 10  # for distances between chains
MIXED = 1.1  # R-hat of the number of clusters, at most, of chains that agree
PARTED, SLACK = 1.5, 0.1  # chains may be so many times as far apart as draws of one, and so many bits


@dataclass(eq=False)
class Found:
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

    def snapshots(self, model: Any) -> list[Snapshot]:
        """All draws as densities."""
        encoding, made = model.encoding_, []
        for c, d in np.ndindex(*self.number.shape):
            law = Law.of(self.base[c, d], encoding.groups, encoding.counted, encoding.component.prior_rate)
            sizes, counts = self.sizes[c][d], self.counts[c][d]
            partition = model._partition_law(float(self.concentration[c, d]))
            made.append(Snapshot.of(sizes, counts, law, partition) if self.kept else Snapshot.given(sizes, counts, law))
        return made

    def posterior(self) -> xr.Dataset:
        """What has the same shape in every draw."""
        import xarray as xr

        named = {"n_clusters": self.number, "concentration": self.concentration}
        every = {name: (("chain", "draw"), values) for name, values in named.items()}
        return xr.Dataset(every | {"labels": (("chain", "draw", "row"), self.labels)}).assign_coords(
            chain=np.arange(self.number.shape[0]), draw=np.arange(self.number.shape[1])
        )


@dataclass(frozen=True, eq=False)
class ChainAgreement:
    """Do chains find the same partition? Mean distances of draws, in bits, within chains and between two of them."""

    within: np.ndarray
    """By chain."""
    between: np.ndarray
    """(chain, chain)"""
    rhat: float
    """Of the number of clusters."""
    clusters: np.ndarray
    """The mean number, by chain."""

    @classmethod
    def of(cls, found: Found, seed: int) -> ChainAgreement:
        """Measured on a sample of rows and draws."""
        chains, draws, rows = found.labels.shape
        some = generator(seed, Purpose.MIXTURE_SAMPLE).permutation(rows)[:COMPARED_ROWS]
        picks = np.unique(np.linspace(0, draws - 1, COMPARED_DRAWS).astype(int))
        labels = found.labels[:, picks][:, :, some]
        between = np.zeros((chains, chains))
        for a, b in np.ndindex(chains, chains):
            each = [distances(labels[a][[i for i in range(len(picks)) if a != b or i != k]], labels[b][k], "vi").mean()
                    for k in range(len(picks)) if a != b or len(picks) > 1]  # fmt: skip
            between[a, b] = np.mean(each) if each else 0.0
        rhat = float(convergence.rhat(found.number[..., None])[0]) if draws >= convergence.LEAST else np.nan
        rhat = 1.0 if np.ptp(found.number) == 0 else rhat
        return cls(np.diag(between).copy(), between, rhat, found.number.mean(axis=1))

    @property
    def chains(self) -> int:
        """How many were compared."""
        return len(self.within)

    @property
    def agreed(self) -> bool:
        """Whether draws of different chains are about as near as those of one, with as many clusters."""
        apart = self.between[~np.eye(self.chains, dtype=bool)]
        near = self.chains > 1 and apart.max() <= PARTED * self.within.mean() + SLACK
        return bool(near and not self.rhat > MIXED)

    def __str__(self) -> str:
        if self.chains == 1:
            return "agreement between chains: not measured (one chain)"
        apart = self.between[~np.eye(self.chains, dtype=bool)]
        numbers = ", ".join(f"{n:.1f}" for n in self.clusters)
        verdict = "find the same partitions" if self.agreed else "are in modes of their own"
        return (
            f"agreement: {self.chains} chains {verdict}. Draws of one chain differ by {self.within.mean():.2f} bits, "
            f"of two by {apart.mean():.2f}; mean numbers of clusters {numbers}, R-hat {self.rhat:.2f}"
        )

    __repr__ = __str__


class Results:
    """The methods of a fitted mixture that read its draws."""

    _found: Found
    encoding_: Any
    loss: str

    if TYPE_CHECKING:  # what the estimator has

        @property
        def _threads(self) -> int: ...
        def _fixed_seed(self) -> int: ...
        def _rows(self, X: Any, *, reset: bool) -> Any: ...

    @property
    def _drawn(self) -> Found:
        if "_found" not in self.__dict__:  # as scikit-learn has it; hasattr is then False
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet: call fit first")
        return self._found

    # How many, how large.

    def cluster_numbers(self, *, least: int = 1) -> pd.Series:
        """The posterior of the number of clusters with at least ``least`` rows: probabilities by number."""
        import pandas as pd

        require_count("least", least)
        found = np.array([np.sum(own >= least) for own in self._drawn.rows_by_cluster()])
        numbers, times = np.unique(found, return_counts=True)
        return pd.Series(times / times.sum(), index=pd.Index(numbers, name="clusters"), name="probability")

    def cluster_sizes(self, *, level: float = 0.9) -> pd.DataFrame:
        """The posterior of the sizes, the largest cluster first: mean and credible interval of each rank."""
        import pandas as pd

        _require_level(level)
        every = [np.sort(own)[::-1] for own in self._drawn.rows_by_cluster()]
        table = np.zeros((len(every), max(map(len, every))))
        for row, own in zip(table, every, strict=True):
            row[: own.size] = own
        low, high = np.quantile(table, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return pd.DataFrame(
            {"mean": table.mean(axis=0), "lower": low, "upper": high, "present": (table > 0).mean(axis=0)},
            index=pd.RangeIndex(table.shape[1], name="rank"),
        )

    # Who belongs where.

    def point_partition(self, *, loss: str | None = None, n_starts: int = 4) -> PointPartition:
        """The partition of the training rows nearest to all draws; see ``partitions.point_partition``.

        Of more than 10,000 rows a sample is searched, and the others join the cluster that theirs in the draws lie in.
        """
        self._require_rows()
        loss = self.loss if loss is None else loss
        require_choice("loss", loss, ("vi", "binder"))
        draws = self._drawn.draws
        if len(draws) > SEARCHED_DRAWS:
            draws = draws[np.linspace(0, len(draws) - 1, SEARCHED_DRAWS).astype(int)]
        rows, seed = draws.shape[1], self._fixed_seed()
        options: dict[str, Any] = {"loss": loss, "n_starts": n_starts, "n_jobs": self._threads, "seed": seed}
        if rows <= SEARCHED_ROWS:
            return point_partition(draws, **options)
        some = np.sort(generator(seed, Purpose.MIXTURE_SAMPLE).permutation(rows)[:SEARCHED_ROWS])
        found = point_partition(draws[:, some], **options)
        labels = self._joined(draws, some, found.labels).argmax(axis=1)
        labels[some] = found.labels
        return PointPartition(labels, found.expected_loss, loss, found.starts)

    @staticmethod
    def _joined(draws: np.ndarray, some: np.ndarray, point: np.ndarray) -> np.ndarray:
        """The probability of each of the clusters ``point`` of some rows, for all rows, (row, cluster)."""
        total = np.zeros((draws.shape[1], int(point.max()) + 1))
        for own in draws:
            table = np.zeros((int(own.max()) + 1, total.shape[1]))
            found = overlap(own[some], point, total.shape[1])
            table[: len(found)] = found  # the last clusters may have none of these rows
            total += table[own]
        return total / len(draws)

    @property
    def labels_(self) -> np.ndarray:
        """The cluster of each training row in the point partition, the largest first; sought when first asked for.

        After ``partial_fit`` that of each row of the last minibatch.
        """
        found = self._drawn
        return np.asarray(
            found.once("labels", lambda: found.labels[0, 0] if found.stream else self.point_partition().labels)
        )

    @property
    def n_clusters_(self) -> int:
        """Clusters of the point partition."""
        return int(self._drawn.number[0, 0]) if self._drawn.stream else int(self.labels_.max()) + 1

    def _require_rows(self) -> None:
        if self._drawn.stream:
            raise ValueError("a stream forgets its rows: there are no draws of their clusters; call fit, or give X")

    def credible_ball(self, *, level: float = 0.95, loss: str | None = None) -> CredibleBall:
        """How far from the point partition the draws are; see ``partitions.credible_ball``."""
        self._require_rows()
        return credible_ball(self._drawn.draws, self.labels_, level=level, loss=self.loss if loss is None else loss)

    def co_clustering(self, rows: Any) -> np.ndarray:
        """How often pairs of some training rows are in one cluster, (row, row): of some, since all would be N x N."""
        self._require_rows()
        return co_clustering(self._drawn.draws, rows)

    def entropy(self, X: Any = None) -> np.ndarray:
        """How unsure each row's cluster is, in bits: of the training rows, or of others."""
        if X is None:
            self._require_rows()
            every = np.arange(self.labels_.size)
            chances = self._joined(self._drawn.draws, every, self.labels_)
        else:
            check_is_fitted(self, "posterior_")
            chances = self._shares(self._rows(X, reset=False))
        with np.errstate(divide="ignore", invalid="ignore"):
            return -np.where(chances > 0, chances * np.log2(chances), 0.0).sum(axis=1)

    def _shares(self, rows: Any) -> np.ndarray:
        """The probability of each cluster of the point partition and, last, of one not seen yet."""
        found = self._drawn
        if found.stream:
            return self._snapshots[0].shares(rows, self._threads)
        labels, number = self.labels_, self.n_clusters_
        tables = found.once("overlaps", lambda: [overlap(own, labels, number) for own in found.draws])
        total = np.zeros((rows.size, number + 1))
        for snapshot, table in zip(self._snapshots, tables, strict=True):
            own = snapshot.shares(rows, self._threads)
            total[:, :-1] += own[:, :-1] @ table
            total[:, -1] += own[:, -1]
        return total / total.sum(axis=1, keepdims=True)

    @property
    def _snapshots(self) -> list[Snapshot]:
        found: list[Snapshot] = self._drawn.once("snapshots", lambda: self._drawn.snapshots(self))
        return found

    # What tells them apart.

    def profiles(self, n: int = 10, *, level: float = 0.9, by: str = "distinctive") -> pd.DataFrame:
        """The ``n`` first features of each cluster of the point partition, with credible intervals.

        ``by`` "distinctive" has those first that tell the cluster from the rest, by their share of the Kullback-Leibler
        divergence, "mean" the most frequent. ``lift`` is the mean over that of all other rows. Intervals contain the
        uncertainty of the parameters and of who belongs to the cluster.
        """
        import pandas as pd

        require_count("n", n)
        _require_level(level)
        require_choice("by", by, ("distinctive", "mean"))
        encoding, labels, number = self.encoding_, self.labels_, self.n_clusters_
        shown = np.flatnonzero(encoding.counted)
        rng = generator(self._fixed_seed(), Purpose.MIXTURE_SAMPLE, 1)
        snapshots, labelled = self._snapshots, self._drawn.draws
        wanted = int(np.clip(PROFILE_CELLS // max(1, number * shown.size), 20, PROFILE_DRAWS * len(snapshots)))
        draws = np.stack([
            self._cluster_means(snapshots[k % len(snapshots)], labelled[k % len(snapshots)], labels, number, shown, rng)
            for k in np.linspace(0, PROFILE_DRAWS * len(snapshots) - 1, wanted).astype(int)
        ])  # fmt: skip
        sizes = np.asarray(self._drawn.sizes[0][0]) if self._drawn.stream else np.bincount(labels, minlength=number)
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
        self, snapshot: Snapshot, own: np.ndarray, labels: np.ndarray, number: int, shown: np.ndarray,
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
        if self._drawn.stream:
            return theta.T
        share = np.zeros((number, tables.sizes.size - 1))
        np.add.at(share, (labels, own), 1.0)
        return (share / share.sum(axis=1, keepdims=True)) @ theta.T

    # Do chains agree?

    @property
    def agreement_(self) -> ChainAgreement:
        """Whether the chains find the same partitions; printed as a report."""
        found: ChainAgreement = self._drawn.once(
            "agreement", lambda: ChainAgreement.of(self._drawn, self._fixed_seed())
        )
        return found


def _require_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1; got {level!r}")
