"""Rows in clusters: labels, and the statistics of the clusters that go with them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scirocco.corpora.documents import Documents
from scirocco.models.dp_mixture.density import Law, Tables, count_rows, log_marginals
from scirocco.models.dp_mixture.numeric import MOMENTS, learnt_priors
from scirocco.models.dp_mixture.partition import PartitionLaw
from scirocco.models.dp_mixture.rows import entries_of

FIRST_SLOTS = 16


class Statistics(NamedTuple):
    """Of clusters: sizes, counts (cluster, feature), moments of columns of numbers (cluster, column, moment).

    Weights and proportions in place of sizes and counts where allocations are not kept.
    """

    sizes: np.ndarray
    counts: np.ndarray
    moments: np.ndarray

    @classmethod
    def of_features(cls, sizes: np.ndarray, counts: np.ndarray) -> Statistics:
        """Of rows without numbers."""
        return cls(sizes, counts, np.empty((sizes.size, 0, MOMENTS)))


class Clusters:
    """Labels are slots, some of which are empty; -1 for rows that have no cluster yet."""

    def __init__(self, rows: Documents, law: Law) -> None:
        self.rows, self.law = rows, law
        self.entries = entries_of(rows)
        self.labels = np.full(rows.size, -1, np.int32)
        self.tables = Tables.empty(law, FIRST_SLOTS)

    @property
    def slots(self) -> int:
        """Slots, with rows or without."""
        return self.tables.sizes.size

    @property
    def used(self) -> np.ndarray:
        """The slots that have rows."""
        return np.flatnonzero(self.tables.sizes)

    @property
    def number(self) -> int:
        """Clusters that have rows."""
        return int(np.count_nonzero(self.tables.sizes))

    def make_room(self, slots: int) -> None:
        """At least so many slots."""
        if slots <= self.slots:
            return
        bigger = Tables.empty(self.law, slots)
        for new, old in zip(bigger, self.tables, strict=True):
            new[..., : self.slots] = old
        self.tables = bigger

    def relabel(self, labels: np.ndarray, slots: int | None = None) -> None:
        """Other labels for all rows, and their counts anew; in so many slots, if that matters."""
        self.labels[:] = labels
        self.tables = Tables.empty(
            self.law, max(FIRST_SLOTS, int(labels.max(initial=0)) + 2) if slots is None else slots
        )
        count_rows(self.entries, self.labels, 0, self.labels.size, self.tables.lean, self.law.lean)

    def compressed(self) -> np.ndarray:
        """Labels from 0 on without gaps, the largest cluster first; -1 stays."""
        order = np.argsort(-self.tables.sizes, kind="stable")
        rank = np.empty(self.slots + 1, np.int32)
        rank[order], rank[-1] = np.arange(self.slots), -1
        return rank[self.labels]

    def statistics(self) -> Statistics:
        """Of the clusters, in the order of ``compressed``."""
        order = np.argsort(-self.tables.sizes, kind="stable")[: self.number]
        return Statistics(
            self.tables.sizes[order].astype(np.int64), np.ascontiguousarray(self.tables.counts[:, order].T),
            np.ascontiguousarray(self.tables.moments[:, :, order].transpose(2, 0, 1)),
        )  # fmt: skip

    def learn_columns(self, rng: np.random.Generator) -> None:
        """The priors of columns of numbers, given the clusters."""
        used = self.used
        self.law = self.law._replace(columns=learnt_priors(rng, self.law.columns, self.tables.moments[:, :, used]))
        self.tables.renew(self.law)

    def log_density(self, partition: PartitionLaw) -> float:
        """log p(rows, partition)."""
        found = partition.log_probability(self.tables.sizes[self.used])
        return float(found + log_marginals(self.law, self.tables).sum())
