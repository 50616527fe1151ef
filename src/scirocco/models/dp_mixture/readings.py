"""What is read off the draws of a mixture: clusters, memberships, sizes, profiles, predictions."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from scirocco.core.checks import require_choice, require_count
from scirocco.core.credible import require_level
from scirocco.core.parts import part_named
from scirocco.core.seeds import Purpose, generator
from scirocco.corpora.documents import Documents
from scirocco.corpora.store import Corpus
from scirocco.models.by_parts import asked_of_parts
from scirocco.models.count_model import CountModel
from scirocco.models.dp_mixture.agreement import ChainAgreement
from scirocco.models.dp_mixture.components import Encoding
from scirocco.models.dp_mixture.draws import MixtureDraws
from scirocco.models.dp_mixture.effects import membership_effects
from scirocco.models.dp_mixture.fitting import partition_law
from scirocco.models.dp_mixture.predictive import Snapshot, log_predictive
from scirocco.models.dp_mixture.profiles import profiles
from scirocco.models.effects import Effects
from scirocco.partitions import CredibleBall, PointPartition
from scirocco.partitions.draws import (
    PartitionDraws,
    by_rank,
    entropy_in_bits,
    number_probabilities,
    size_intervals,
)
from scirocco.run.trace import REPORT, Summary, table_of

if TYPE_CHECKING:
    import pandas as pd

SIZES_BY = ("cluster", "rank")


class MixtureReadings(CountModel):
    """The part of a mixture that reads draws; how rows are read is in the model."""

    loss: str
    encoding_: Encoding
    _found: MixtureDraws

    @abstractmethod
    def _rows(self, X: Any, *, reset: bool) -> Documents:
        """A table as rows of features; with ``reset`` it is that of training."""

    def report(self, path: str | Path, *, title: str = "") -> Path:
        """Write a page to look at and to pass on, one file that needs no network; returns its path.

        The verdict, the posterior of the number of clusters, sizes and profiles with intervals, which rows are together
        and how sure each is, draws, what ran.
        """
        check_is_fitted(self, "posterior_")
        return part_named(REPORT)(self).write(path, title)

    def fit_predict(self, X: Any, y: Any = None) -> np.ndarray:
        """``fit``, then ``labels_``."""
        return self.fit(X, y).labels_

    def predict(self, X: Any, *, executor: Executor | None = None) -> np.ndarray:
        """The most probable cluster of each row."""
        return np.asarray(self.predict_proba(X, executor=executor).argmax(axis=1))

    def predict_proba(self, X: Any, *, unseen: bool = False, executor: Executor | None = None) -> np.ndarray:
        """The probability of each cluster, averaged over draws.

        With ``unseen`` a last column has the probability that the row belongs to none of them: to one not seen yet, or
        to one of those that some draws have besides. Otherwise the clusters' are scaled to sum to 1.

        The workers of an ``executor`` take the rows in parts, a ``Corpus`` where it is; the result is the same to the
        bit, also of ``predict`` and the scores.
        """
        check_is_fitted(self, "posterior_")
        found = self._shares(X, executor)
        return found if unseen else _among_known(found)

    def score_samples(self, X: Any, *, executor: Executor | None = None) -> np.ndarray:
        """The log predictive density of each row, averaged over draws, clusters not seen yet among them.

        Of the row as a sequence of events: without multinomial coefficients. A row without entries has 0.
        """
        check_is_fitted(self, "posterior_")
        threads = self._threads_beside(executor)
        return self._asked(X, partial(_log_density, self._snapshots, self.encoding_, threads=threads), executor)

    def score(self, X: Any, y: Any = None, *, executor: Executor | None = None) -> float:
        """The mean of ``score_samples``."""
        del y
        return float(self.score_samples(X, executor=executor).mean())

    def mode_scores(self, X: Any) -> pd.DataFrame:
        """By mode that chains are in: chains, clusters, the mean log posterior, and the mean score of rows ``X``."""
        check_is_fitted(self, "posterior_")
        rows = self._rows(X, reset=False)
        own = self.encoding_.constants(rows)
        draws = self._found.number.shape[1]
        table = self.agreement_.table()
        found = table.groupby("mode").mean()
        found.insert(0, "chains", table.groupby("mode").size())
        for mode, chains in table.groupby("mode").groups.items():
            some = [self._snapshots[c * draws + d] for c in chains for d in range(draws)]
            found.loc[mode, "score"] = float(np.mean(log_predictive(some, rows, self._threads) + own))
        return found

    def of_mode(self, mode: int) -> Self:
        """The model of the chains in one mode alone: its clusters, profiles, predictions.

        Modes are those of ``agreement_.table()``. ``membership_`` has the frequencies of labels: rows are not kept.
        """
        modes = self.agreement_.modes
        if mode not in modes:
            raise ValueError(f"mode must be one of 0 to {modes.max()}; got {mode!r}")
        found = copy.copy(self)
        found._forget("trace_")
        found._keep(self._drawn.of_chains(np.flatnonzero(modes == mode)))
        return found

    def _keep(self, found: MixtureDraws) -> None:
        """The draws of a fit."""
        self._found, self.posterior_ = found, found.posterior()

    def summary(self) -> Summary:
        """Mean, sd, ESS and R-hat of the number of clusters and the concentration, and whether the chains agree."""
        check_is_fitted(self, "posterior_")
        values = np.stack([self._found.number, self._found.concentration], axis=2)
        found = table_of(values, ["n_clusters", "concentration"])
        note = "\n".join(line for line in (found.note, getattr(self, "looked_", ""), self._counted()) if line)
        return Summary(found.table, self._noted(note), agreement=self.agreement_, verdict=self.verdict())

    def _counted(self) -> str:
        """What is said of the number of clusters, and of a point partition that was asked for."""
        found = self._drawn
        if found.stream:
            return ""
        said = (
            f"{self.n_clusters_} clusters, the most frequent number of the draws ({found.number.min():.0f} to "
            f"{found.number.max():.0f}); {np.unique(self.labels_).size} of them are the most probable of some row."
        )
        points: dict[str, PointPartition] = found.made.get("points", {})
        remarks = [(loss, remark) for loss, point in points.items() for remark in point.remarks]
        return "\n".join([said, *(f"point partition ({loss}): {remark}." for loss, remark in remarks)])

    # What its draws say.

    @property
    def _drawn(self) -> MixtureDraws:
        if "_found" not in self.__dict__:  # as scikit-learn has it; hasattr is then False
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet: call fit first")
        return self._found

    @property
    def _partitions(self) -> PartitionDraws:
        """Draws of the clusters of the training rows."""
        if self._drawn.stream:
            raise ValueError("a stream forgets its rows: there are no draws of their clusters; call fit, or give X")
        return PartitionDraws(self._drawn.draws, self._fixed_seed(), threads=self._threads)

    @property
    def _snapshots(self) -> list[Snapshot]:
        found = self._drawn
        made: list[Snapshot] = found.once(
            "snapshots",
            lambda: found.snapshots(self.encoding_, lambda concentration: partition_law(self, concentration)),
        )
        return made

    def _shares(self, X: Any, executor: Executor | None = None) -> np.ndarray:
        """The probability of each cluster and, last, of others."""
        draws = self._drawn if executor is None else self._drawn.nameless
        threads = self._threads_beside(executor)
        return self._asked(X, partial(draws.shares, self._snapshots, threads=threads), executor)

    def _asked(
        self, X: Any, question: Callable[[Documents], np.ndarray], executor: Executor | None
    ) -> np.ndarray:  # fmt: skip
        """Answers for rows, of which each depends on itself alone."""
        if executor is None:
            return question(self._rows(X, reset=False))
        if not isinstance(X, Corpus):
            return np.concatenate(asked_of_parts(executor, question, self._rows(X, reset=False)))
        if X.width != self.n_features_in_:
            raise ValueError(f"the corpus has {X.width} words, but the model {self.n_features_in_}")
        return np.concatenate(asked_of_parts(executor, partial(_asked_of_documents, question, self.encoding_), X))

    def cluster_numbers(self, *, least: int = 1) -> pd.Series:
        """The posterior of the number of clusters with at least ``least`` rows: probabilities by number."""
        return number_probabilities(self._drawn.rows_by_cluster(), least)

    def cluster_sizes(self, *, level: float = 0.9, by: str = "cluster") -> pd.DataFrame:
        """The posterior of the sizes: mean and credible interval, and the share of the draws that have the cluster.

        ``by`` "cluster" has those of ``labels_`` and, last, all others that draws have; "rank" the largest cluster of
        each draw, its second largest, and so on.
        """
        require_choice("by", by, SIZES_BY)
        sizes = by_rank(self._drawn.rows_by_cluster()) if by == "rank" else self._drawn.view_sizes
        found = size_intervals(sizes, level, by).assign(present=(sizes > 0).mean(axis=0))
        return found if by == "rank" else found.rename(index={self.n_clusters_: "others"})

    def point_partition(self, *, loss: str | None = None, n_starts: int = 4) -> PointPartition:
        """The partition of the training rows nearest to all draws; see ``partitions.point_partition``.

        Of more than 10,000 rows a sample is searched, and the others join the cluster that theirs in the draws lie in.
        """
        found = self._partitions.point(loss=self.loss if loss is None else loss, n_starts=n_starts)
        self._drawn.made.setdefault("points", {})[found.loss] = found  # for ``summary``
        return found

    @property
    def membership_(self) -> np.ndarray:
        """The probability of each cluster for each training row and, last, of others, (row, cluster).

        Clusters are those of a representative draw, to which all draws are relabelled (``partitions.cluster_view``);
        a row's probabilities are those given all other rows, averaged over draws.
        """
        if self._drawn.stream:
            raise ValueError("a stream forgets its rows: there is no membership of them; call predict_proba(X)")
        found = self._drawn
        return np.asarray(found.once("membership", lambda: found.view.frequencies))  # of a file that has no others

    @property
    def labels_(self) -> np.ndarray:
        """The most probable cluster of each training row, the largest cluster first.

        After ``partial_fit`` that of each row of the last minibatch.
        """
        found = self._drawn
        if found.stream:
            return np.asarray(found.labels[0, 0])
        return np.asarray(found.once("labels", lambda: self.membership_[:, :-1].argmax(axis=1)))

    @property
    def n_clusters_(self) -> int:
        """How many clusters the representative draw has: the most frequent number of the draws."""
        return self._drawn.view.number

    def credible_ball(self, *, level: float = 0.95, loss: str | None = None) -> CredibleBall:
        """How far from the partition ``labels_`` the draws are; see ``partitions.credible_ball``."""
        return self._partitions.ball(self.labels_, level=level, loss=self.loss if loss is None else loss)

    def co_clustering(self, rows: Any) -> np.ndarray:
        """How often pairs of some training rows are in one cluster, (row, row): of some, since all would be N x N."""
        return self._partitions.co_clustering(rows)

    def entropy(self, X: Any = None) -> np.ndarray:
        """How unsure each row's cluster is, in bits: of the training rows, or of others."""
        check_is_fitted(self, "posterior_")
        return entropy_in_bits(self.membership_ if X is None else self._shares(X))

    def membership(self, X: Any, *, level: float = 0.9) -> pd.DataFrame:
        """By row and cluster: the probability given weights and parameters, its posterior mean and credible interval.

        The means are those of ``predict_proba(X, unseen=True)`` but for noise: every row is a new one. A row of the
        training data has been learnt from too, so that here it counts twice, which makes it surer of its cluster; what
        ``membership_`` says of it is given all other rows. In clusters of many rows both are the same.
        """
        import pandas as pd

        check_is_fitted(self, "posterior_")
        require_level(level)
        rows, view = self._rows(X, reset=False), self._drawn.view
        rng = generator(self._fixed_seed(), Purpose.MIXTURE_SAMPLE, 3)
        counted = self.encoding_.counted
        drawn = (own.with_parameters(rng, counted).shares(rows, self._threads) for own in self._snapshots)
        each = np.array([view.gathered(k, shares) for k, shares in enumerate(drawn)])
        low, high = np.quantile(each, [(1 - level) / 2, (1 + level) / 2], axis=0)
        named = X.index if hasattr(X, "iloc") else pd.RangeIndex(rows.size)
        index = pd.MultiIndex.from_product([named, [*range(self.n_clusters_), "others"]], names=["row", "cluster"])
        columns = {"probability": each.mean(axis=0), "lower": low, "upper": high}
        return pd.DataFrame({name: values.ravel() for name, values in columns.items()}, index=index)

    def profiles(self, n: int = 10, *, level: float = 0.9, by: str = "distinctive", names: Any = None) -> pd.DataFrame:
        """The ``n`` first features of each cluster, with credible intervals.

        ``by`` "distinctive" has those first that tell the cluster from the rest, by their share of the Kullback-Leibler
        divergence, "mean" the most frequent. ``lift`` is the mean over that of all other rows. Intervals contain the
        uncertainty of the parameters and of who belongs to the cluster; ``rows`` is its mean size, ``present`` the
        share of the draws that have it. ``names`` of the columns, if those of the table that was fitted will not do.
        """
        encoding = self.encoding_ if names is None else self.encoding_.named(names, self.n_features_in_)
        return profiles(self._drawn, self._snapshots, encoding, n=n, level=level, by=by, seed=self._fixed_seed())

    def effects(self, covariates: Any, X: Any = None, *, n_draws: int = 200) -> Effects:
        """How the probability of each cluster depends on ``covariates``, a table with a row for each training row.

        Or for each row of ``X``. A coefficient is how much the probability changes with the covariate, others fixed.
        Text and categorical columns become one column for each value but the first. Intervals contain the uncertainty
        of who belongs to which cluster; see ``dp_mixture.effects``.
        """
        require_count("n_draws", n_draws)
        found, rng = self._drawn, generator(self._fixed_seed(), Purpose.MIXTURE_SAMPLE, 4)
        some = found.view.some_draws(n_draws)
        chosen = some[np.arange(n_draws) % some.size]
        if X is None:
            membership = self.membership_
            labels = (found.view.names[k][found.draws[k]] for k in chosen)
        else:
            rows = self._rows(X, reset=False)
            membership = found.shares(self._snapshots, rows, self._threads)
            shares = {k: found.view.gathered(k, self._snapshots[k].shares(rows, self._threads)) for k in some}
            labels = (_sampled(rng, shares[k]) for k in chosen)
        return membership_effects(labels, membership, covariates, seed=self._fixed_seed())

    @property
    def agreement_(self) -> ChainAgreement:
        """Whether the chains find the same partitions; printed as a report."""
        found: ChainAgreement = self._drawn.once(
            "agreement", lambda: ChainAgreement.of(self._drawn, self._fixed_seed())
        )
        return found


def _log_density(snapshots: list[Snapshot], encoding: Encoding, rows: Documents, *, threads: int) -> np.ndarray:
    return log_predictive(snapshots, rows, threads) + encoding.constants(rows)


def _asked_of_documents(
    question: Callable[[Documents], np.ndarray], encoding: Encoding, documents: Documents
) -> np.ndarray:
    return question(encoding.rows(documents.matrix()))


def _sampled(rng: np.random.Generator, shares: np.ndarray) -> np.ndarray:
    """A cluster for each row."""
    reached = np.cumsum(shares, axis=1)
    return np.asarray(np.sum(rng.random(len(shares))[:, None] * reached[:, -1:] > reached[:, :-1], axis=1))


def _among_known(shares: np.ndarray) -> np.ndarray:
    """Probabilities without the last column, scaled to sum to 1."""
    known = shares[:, :-1]
    total = known.sum(axis=1, keepdims=True)
    return np.where(total > 0, known / np.maximum(total, 1e-300), 1 / known.shape[1])
