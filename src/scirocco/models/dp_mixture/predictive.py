"""Draws of a mixture as densities: what each says of rows, in training or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scirocco.corpora.documents import Documents
from scirocco.models.dp_mixture.clusters import Statistics
from scirocco.models.dp_mixture.density import Law, Tables, log_marginals, log_scores, member_shares
from scirocco.models.dp_mixture.numeric import drawn_parameters, given_profiles
from scirocco.models.dp_mixture.partition import PartitionLaw

SURE = 1e9  # rows that stand for parameters that are known
CERTAIN = 1e280  # counts of a component that is given: its base measure and the row itself change nothing


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One draw: clusters with their statistics, and in the last place the cluster that nobody is in yet."""

    law: Law
    tables: Tables
    weights: np.ndarray
    partition: PartitionLaw | None = None  # None if weights and components are given

    @classmethod
    def of(cls, known: Statistics, law: Law, partition: PartitionLaw) -> Snapshot:
        """From the statistics of the clusters."""
        sizes, number = known.sizes, known.sizes.size
        one_more = ((0, 0), (0, 1))
        moments = np.pad(known.moments.transpose(1, 2, 0), ((0, 0), *one_more))
        tables = Tables.of(law, np.append(sizes, 0), np.pad(known.counts.T, one_more), moments)
        urn = partition.urn(int(sizes.sum()) + 1, number)
        weights = np.append(sizes + urn.shift, urn.fresh[number])
        return cls(law, tables, weights / weights.sum(), partition)

    @classmethod
    def given(cls, known: Statistics, law: Law) -> Snapshot:
        """From weights and components (cluster, feature) themselves; what is missing to 1 is the prior's."""
        weights = known.sizes
        counts = np.append(known.counts.T * CERTAIN, np.zeros((law.base.size, 1)), axis=1)
        tables = Tables.empty(law, weights.size + 1)._replace(
            counts=counts, totals=counts.sum(axis=0, keepdims=True), sizes=np.append(weights, 0.0)
        )
        return cls(law, tables, np.append(weights, max(1e-300, 1 - weights.sum())))

    @property
    def log_density(self) -> float:
        """log p(rows, partition); 0 if weights and components are given."""
        if self.partition is None:
            return 0.0
        marginals = log_marginals(self.law, self.tables).sum()
        return float(self.partition.log_probability(self.tables.sizes[:-1]) + marginals)

    def with_parameters(self, rng: np.random.Generator, counted: np.ndarray) -> Snapshot:
        """The same draw with weights and parameters of its clusters drawn; ``counted`` are features of training."""
        if self.partition is None:
            return self
        law, sizes = self.law, self.tables.sizes[:-1]
        shift = self.partition.urn(int(sizes.sum()) + 1, sizes.size).shift
        counts, totals = np.zeros(self.tables.counts.shape), np.zeros(self.tables.totals.shape)
        theta = rng.gamma(law.base[:, None] + self.tables.counts[:, :-1])
        theta[~counted] = 0.0
        by_group = np.zeros((law.totals.size, sizes.size))
        np.add.at(by_group, law.group, theta)
        scale = law.rate + sizes if law.rate else np.maximum(by_group, 1e-300)[law.group]
        counts[:, :-1] = SURE * theta / scale
        np.add.at(totals, law.group, counts)
        weights = rng.gamma(sizes + shift)
        weights *= (1 - self.weights[-1]) / weights.sum()
        profiles = self.tables.profiles.copy()
        if len(law.columns):
            drawn = drawn_parameters(rng, law.columns, self.tables.moments[:, :, :-1])
            profiles[:, :, :-1] = given_profiles(law.columns, drawn)
        known = np.append(np.full(sizes.size, SURE), 0.0)
        tables = Tables(counts, totals, known, self.tables.moments, profiles)
        return Snapshot(law, tables, np.append(weights, self.weights[-1]))

    def scores(self, rows: Documents, threads: int | None) -> np.ndarray:
        """log(weight x density) of rows in every cluster, (row, cluster)."""
        return log_scores(rows, self.law, self.tables, self.weights, threads)

    def shares(self, rows: Documents, threads: int | None) -> np.ndarray:
        """The probability of each cluster, (row, cluster)."""
        scores = self.scores(rows, threads)
        return np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))

    def member_shares(self, rows: Documents, labels: np.ndarray, threads: int | None) -> np.ndarray:
        """The same for rows of the draw itself, which are where ``labels`` say: given all rows but the row."""
        if self.partition is None:
            return self.shares(rows, threads)
        number = self.tables.sizes.size - 1
        urn = self.partition.urn(int(self.tables.sizes.sum()), number)
        return member_shares(rows, labels, self.law, self.tables, urn, threads)


def log_predictive(snapshots: Sequence[Snapshot], rows: Documents, threads: int | None) -> np.ndarray:
    """The log density of rows, averaged over draws."""
    total = np.full(rows.size, -np.inf)
    for snapshot in snapshots:
        total = np.logaddexp(total, np.logaddexp.reduce(snapshot.scores(rows, threads), axis=1))
    return np.asarray(total - np.log(len(snapshots)))
