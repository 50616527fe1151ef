"""One view of draws of partitions: the clusters of one of them, and which cluster of any other is which of these.

Of the draws with the most frequent number of clusters the representative is the one that loses fewest rows when others
are relabelled to it. Clusters of a draw and of the representative are paired one to one so that most rows agree (an
assignment problem); those that are left over, or share no row, are others. Then rows have probabilities of clusters,

    p(row i in k) = mean over draws of p(z_i is the cluster that is k | draw),

and so have sizes and parameters, which are those of the same clusters. The average of one-hot labels is an estimate of
it; if a model knows p(z_i = j | draw), the average of these has a fraction of its error (``ClusterView.averaged``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from scirocco.core.seeds import Purpose, generator
from scirocco.partitions.losses import label_draws

CANDIDATES, OTHERS, COMPARED_ROWS = 20, 25, 5000  # draws of which one is chosen, draws and rows it is compared on


@dataclass(frozen=True, eq=False)
class ClusterView:
    """Clusters of the draw ``reference``, the largest on average first, and those of all draws by these names."""

    draws: np.ndarray
    """Labels, (draw, row)."""
    reference: int
    """Which draw is representative."""
    number: int
    """Of clusters."""
    names: list[np.ndarray]
    """By draw, the view's cluster that each of its clusters is; ``number`` for others."""

    @classmethod
    def of(cls, draws: np.ndarray, clusters: Sequence[int] | None = None, *, seed: int = 0) -> ClusterView:
        """Of labels from 0 on, (draw, row); draws may have ``clusters`` without rows, that is so many in all."""
        clusters = [int(own.max()) + 1 for own in draws] if clusters is None else clusters
        reference = _representative(draws, seed)
        used, chosen = np.unique(draws[reference], return_inverse=True)  # without components that have no rows
        number = used.size
        names = [_paired(own, many, chosen, number) for own, many in zip(draws, clusters, strict=True)]
        sizes = cls(draws, reference, number, names).sizes.sum(axis=0)
        rank = np.append(np.argsort(np.argsort(-sizes[:number], kind="stable")), number)
        return cls(draws, reference, number, [rank[known] for known in names])

    @cached_property
    def sizes(self) -> np.ndarray:
        """Rows of each cluster and, last, of others, (draw, cluster)."""
        return np.array([np.bincount(known[own], minlength=self.number + 1)
                         for known, own in zip(self.names, self.draws, strict=True)])  # fmt: skip

    @property
    def present(self) -> np.ndarray:
        """The share of the draws that have each cluster."""
        return np.mean([np.isin(np.arange(self.number), known) for known in self.names], axis=0)

    @cached_property
    def frequencies(self) -> np.ndarray:
        """How often each row is in each cluster and, last, in others, (row, cluster)."""
        rows = np.arange(self.draws.shape[1])
        total = np.zeros((rows.size, self.number + 1))
        for known, own in zip(self.names, self.draws, strict=True):
            total[rows, known[own]] += 1.0
        return total / len(self.draws)

    @property
    def labels(self) -> np.ndarray:
        """The cluster that each row is in most often."""
        return np.asarray(self.frequencies[:, :-1].argmax(axis=1))

    def gathered(self, draw: int, shares: np.ndarray) -> np.ndarray:
        """Probabilities of the clusters of a draw, (row, cluster), as those of this view and, last, of others.

        Columns of ``shares`` beyond the draw's clusters, such as that of a new one, are others.
        """
        known = self.names[draw]
        found = np.zeros((len(shares), self.number + 1))
        there = np.flatnonzero(known < self.number)
        found[:, known[there]] = shares[:, there]
        found[:, -1] = np.maximum(shares.sum(axis=1) - found.sum(axis=1), 0.0)
        return found

    def averaged(self, shares: Iterable[tuple[int, np.ndarray]]) -> np.ndarray:
        """The mean of ``gathered`` over pairs of a draw's number and its probabilities, (row, cluster)."""
        each = (self.gathered(draw, own) for draw, own in shares)
        total = next(each)
        for own in each:
            total += own
        return np.asarray(total / total.sum(axis=1, keepdims=True))

    def some_draws(self, most: int) -> np.ndarray:
        """The numbers of at most so many draws, evenly spread, the representative one among them."""
        found = np.unique(np.linspace(0, len(self.draws) - 1, min(most, len(self.draws))).astype(int))
        found[np.argmin(np.abs(found - self.reference))] = self.reference
        return found


def cluster_view(labels: Any, *, seed: int = 0) -> ClusterView:
    """The clusters of a representative draw, and all draws by their names: (draws, rows) or (chains, draws, rows).

    >>> view = cluster_view([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> view.labels, view.frequencies[2].round(2)
    (array([0, 0, 1, 1]), array([0.33, 0.67, 0.  ]))
    """
    return ClusterView.of(label_draws(labels), seed=seed)


def _representative(draws: np.ndarray, seed: int) -> int:
    """Among draws with the most frequent number of clusters, the one in whose pairs the rows of others agree most."""
    numbers, own, times = np.unique(
        [np.count_nonzero(np.bincount(one)) for one in draws], return_inverse=True, return_counts=True
    )
    del numbers
    candidates = _spread(np.flatnonzero(own == np.argmax(times)), CANDIDATES)
    if candidates.size == 1:
        return int(candidates[0])
    rows = draws.shape[1]
    some = draws
    if rows > COMPARED_ROWS:
        some = draws[:, np.sort(generator(seed, Purpose.MIXTURE_SAMPLE, 2).permutation(rows)[:COMPARED_ROWS])]
    others = _spread(np.arange(len(draws)), OTHERS)
    agreeing = [sum(_agreeing(some[k], some[other]) for other in others) for k in candidates]
    return int(candidates[np.argmax(agreeing)])


def _spread(values: np.ndarray, most: int) -> np.ndarray:
    """At most so many of them, evenly."""
    return np.asarray(values[np.unique(np.linspace(0, values.size - 1, min(most, values.size)).astype(int))])


def _shared_rows(first: np.ndarray, clusters: int, second: np.ndarray, others: int) -> np.ndarray:
    """Rows that the clusters of two partitions share."""
    found = np.bincount(first.astype(np.int64) * others + second, minlength=clusters * others)
    return np.asarray(found.reshape(clusters, others))


def _agreeing(first: np.ndarray, second: np.ndarray) -> int:
    """Rows in pairs of clusters, paired so that they are most."""
    shared = _shared_rows(first, int(first.max()) + 1, second, int(second.max()) + 1)
    return int(shared[linear_sum_assignment(shared, maximize=True)].sum())


def _paired(own: np.ndarray, clusters: int, reference: np.ndarray, number: int) -> np.ndarray:
    """Which cluster of the reference each of a draw's clusters is; ``number`` for none."""
    shared = _shared_rows(own, clusters, reference, number)
    mine, theirs = linear_sum_assignment(shared, maximize=True)
    found = np.full(clusters, number, np.int64)
    some = shared[mine, theirs] > 0
    found[mine[some]] = theirs[some]
    return found
