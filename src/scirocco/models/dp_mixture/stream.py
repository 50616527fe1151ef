"""Rows that go by: the statistics of clusters stay, rows are forgotten, memory is that of the clusters.

    first    up to ``MEMORY`` rows are kept: collapsed Gibbs over all of them with every minibatch, and a new search for
             the number of clusters whenever the rows have doubled
    then     each minibatch is allocated by collapsed Gibbs given the clusters of all rows before it, whose allocations
             can no longer change; clusters keep their numbers

The first part samples the posterior of its rows. The second is a filter with one particle: what the first rows got
wrong is mended by those that follow only as far as they outweigh it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scirocco.corpora.documents import Documents
from scirocco.models.dp_mixture.density import Law
from scirocco.models.dp_mixture.gibbs import Collapsed
from scirocco.models.dp_mixture.partition import PartitionLaw
from scirocco.models.dp_mixture.rows import joined

MEMORY = 20_000  # rows
SWEEPS = 5  # over a minibatch
SEARCH_PASSES = 200  # at most


class Stream:
    """The clusters of a stream; ``settings`` are those of the chains."""

    def __init__(self, law: Law, counted: np.ndarray, partition: PartitionLaw, **settings: Any) -> None:
        self.law, self.given_law, self.counted, self.partition, self.settings = law, law, counted, partition, settings
        self.tables: Any = None
        self.kept: Documents | None = None  # rows that are still in memory, and their clusters
        self.labels = np.empty(0, np.int32)
        self.rows_seen, self.batches, self.searched = 0, 0, 0

    def follow(self, rows: Documents) -> np.ndarray:
        """Take in a minibatch; the clusters of its rows, by slot."""
        begin = self.rows_seen == 0 or self.kept is not None
        whole = rows if self.kept is None else joined([self.kept, rows])
        due = begin and whole.size >= 2 * self.searched
        start = np.concatenate([self.labels, np.full(rows.size, -1, np.int32)]) if begin else "one"
        chain = Collapsed(
            whole, self.law, self.counted, self.partition, chain=self.batches,
            start="one" if not self.labels.size else start, search_passes=SEARCH_PASSES if due else 0.0,
            **self.settings,
        )  # fmt: skip
        chain.given_law = self.given_law
        self.rows_seen, self.batches = self.rows_seen + rows.size, self.batches + 1
        if begin:
            while chain.searching:
                chain.step()
        else:
            chain.clusters.tables = self.tables
        for _ in range(SWEEPS):
            chain.sweep_collapsed(0, whole.size, self.rows_seen)
            chain.learn(self.rows_seen)
        self.searched = whole.size if due else self.searched
        self.tables, self.law = chain.clusters.tables, chain.clusters.law
        labels = np.empty(whole.size, np.int32)
        labels[chain.order] = chain.clusters.labels
        if begin:
            remembered = whole.size <= MEMORY
            self.kept, self.labels = (whole, labels) if remembered else (None, np.empty(0, np.int32))
        return labels[-rows.size :]
