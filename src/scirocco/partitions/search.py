"""A point partition: the one with the smallest expected distance from draws of labels.

    E[distance(c, c_m)] = const + sum_k f(n_k) - (2/M) sum_m sum_kj f(n_kj^m)

A row that moves from one cluster to another changes one intersection with each draw on either side, so that a move is
judged in the time of M additions. The search is greedy, from several starts:

    rows come one by one, in random order, each to the cluster where it costs least, or to a new one
    sweeps: every row is taken out and put where it costs least, until none moves
    clusters, in random order, are dissolved and their rows put back one by one; kept if that costs less

Starts are empty partitions and the best of the draws. The idea of sequential allocation with sweeps and dissolution is
that of Dahl, Johnson and Mueller (2022, SALSO). Rows that agree in all draws belong together in the best partition, so
they move as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scirocco.core.checks import require_choice, require_count, require_seed
from scirocco.core.compiled import inlined, jit, over_blocks
from scirocco.core.seeds import Purpose, generator
from scirocco.partitions.losses import LOSSES, distances, label_draws, measure

MOST_SWEEPS = 50
MOST_WORK = 2e9  # counts that all starts may look at, about: seconds
CANDIDATES = 50  # draws of which the best is a start
NEAR = 0.1  # a loss is near that of one cluster if it is less by no more than this share


@dataclass(frozen=True, eq=False)
class PointPartition:
    """A partition that minimises an expected loss."""

    labels: np.ndarray
    """The cluster of each row, largest first."""
    expected_loss: float
    """Its mean distance from the draws: bits for "vi"."""
    loss: str
    starts: int
    """How many of the starts ended at this loss."""
    remarks: tuple[str, ...] = ()
    """What is to be said against it."""

    @property
    def sizes(self) -> np.ndarray:
        """Rows of each cluster."""
        return np.bincount(self.labels)

    def __repr__(self) -> str:
        said = "".join(f"; {remark}" for remark in self.remarks)
        return (
            f"<PointPartition: {self.labels.size} rows in {self.sizes.size} clusters, expected {self.loss} "
            f"{self.expected_loss:.4g}, found by {self.starts} starts{said}>"
        )


def point_partition(
    labels: Any,
    *,
    loss: str = "vi",
    max_clusters: int | None = None,
    n_starts: int = 8,
    threads: int = 1,
    seed: int = 0,
) -> PointPartition:
    """The partition with the smallest expected loss over draws of labels, (draws, rows) or (chains, draws, rows).

    ``loss``: "vi", the variation of information, or "binder", which keeps more small clusters. ``max_clusters`` limits
    the clusters; by default twice as many as any draw has.

    >>> point_partition([[0, 0, 1, 1], [0, 0, 1, 1], [0, 1, 1, 1]]).labels
    array([0, 0, 1, 1])
    """
    draws = label_draws(labels)
    require_choice("loss", loss, LOSSES)
    require_count("n_starts", n_starts)
    require_count("threads", threads)
    most = 2 * (int(draws.max()) + 1) if max_clusters is None else max_clusters
    require_count("max_clusters", most)
    seed, rows = require_seed(seed), draws.shape[1]
    columns, back, weights = np.unique(draws, axis=1, return_inverse=True, return_counts=True)
    back, weights, most = back.ravel(), weights.astype(np.int64), min(most, columns.shape[1])
    columns = np.ascontiguousarray(columns.T)  # rows x draws: a row's labels side by side
    cost = measure(loss, rows)(np.arange(rows + 1.0))
    tried = draws[np.linspace(0, len(draws) - 1, min(len(draws), CANDIDATES)).astype(int)]
    best_draw = min(tried, key=lambda draw: distances(draws, draw, loss).mean())
    found: list[np.ndarray] = [np.empty(0, np.int64)] * n_starts

    def work(first: int, last: int) -> None:
        for start in range(first, last):
            rng = generator(seed, Purpose.POINT_PARTITION, start)
            own = np.full(len(columns), -1)
            if start == 0:  # labels of the best draw, as far as there is room
                own[back] = best_draw
                own[own >= most] = -1
            found[start] = _descend(columns, weights, own, most, cost, rng, MOST_WORK / n_starts)

    over_blocks(work, n_starts, threads)
    scores = np.array([distances(draws, own[back], loss).mean() for own in found])
    best = int(np.argmin(scores))
    labels = _by_size(found[best][back])
    return PointPartition(
        labels, float(scores[best]), loss, int(np.sum(scores <= scores[best] + 1e-9)),
        remarks_on(labels, float(scores[best]), draws, loss),
    )  # fmt: skip


def remarks_on(labels: np.ndarray, value: float, draws: np.ndarray, loss: str) -> tuple[str, ...]:
    """What is to be said of a partition with this expected loss that does not look like the draws that it is of."""
    found = []
    number, drawn = int(labels.max()) + 1, draws.max(axis=1) + 1
    if number not in drawn:
        between = f"{drawn.min()} to {drawn.max()}" if np.ptp(drawn) else f"{drawn[0]}"
        found.append(f"no draw has {number} clusters: they have {between}")
    alone = float(distances(draws, np.zeros(labels.size, int), loss).mean())
    if drawn.max() > 1 and value > (1 - NEAR) * alone:
        found.append(f"one cluster for all rows would cost {alone:.4g}, hardly more: the draws are too unsure for it")
    return tuple(found)


def _by_size(labels: np.ndarray) -> np.ndarray:
    """The same clusters with the largest first."""
    names, own = np.unique(labels, return_inverse=True)
    order = np.argsort(-np.bincount(own), kind="stable")
    rank = np.empty(len(names), np.int64)
    rank[order] = np.arange(len(names))
    return rank[own]


def _descend(
    columns: np.ndarray, weights: np.ndarray, own: np.ndarray, most: int, cost: np.ndarray, rng: np.random.Generator,
    work: float,
) -> np.ndarray:  # fmt: skip
    """Down to a partition that no move of a row and no dissolved cluster makes better, or until the work is done."""
    sizes, both = np.zeros(most, np.int64), np.zeros((len(columns[0]), int(columns.max()) + 1, most), np.int64)
    _fill(columns, weights, own, sizes, both)
    work -= _settle(columns, weights, own, sizes, both, cost, rng, work)
    for cluster in rng.permutation(most):
        members = np.flatnonzero(own == cluster)
        if not members.size or work < 0:
            continue
        work -= 4 * both.size
        before, value = own.copy(), _value(sizes, both, cost)
        _take_out(columns, weights, own, sizes, both, members)
        for _ in range(2):
            _sweep(columns, weights, own, sizes, both, cost, rng.permutation(members))
        if _value(sizes, both, cost) >= value - 1e-12:
            own[:], sizes[:], both[:] = before, 0, 0
            _fill(columns, weights, own, sizes, both)
    _settle(columns, weights, own, sizes, both, cost, rng, work)
    return own


def _settle(
    columns: np.ndarray, weights: np.ndarray, own: np.ndarray, sizes: np.ndarray, both: np.ndarray, cost: np.ndarray,
    rng: np.random.Generator, work: float,
) -> float:  # fmt: skip
    """Sweeps until no row moves or so much work is done, one at least; the work, in counts that were looked at."""
    done = 0.0
    for _ in range(MOST_SWEEPS):
        moved = _sweep(columns, weights, own, sizes, both, cost, rng.permutation(len(own)))
        done += columns.size * (1 + np.count_nonzero(sizes))
        if not moved or done > work:
            break
    return done


@inlined
def _put(i: int, k: int, weight: int, columns: Any, sizes: Any, both: Any) -> None:
    """Row i into cluster k, or out of it with a negative weight."""
    sizes[k] += weight
    for m in range(columns.shape[1]):
        both[m, columns[i, m], k] += weight


@jit
def _fill(columns: Any, weights: Any, own: Any, sizes: Any, both: Any) -> None:
    """Count what is assigned."""
    for i in range(own.size):
        if own[i] >= 0:
            _put(i, own[i], weights[i], columns, sizes, both)


@jit
def _take_out(columns: Any, weights: Any, own: Any, sizes: Any, both: Any, members: Any) -> None:
    for i in members:
        _put(i, own[i], -weights[i], columns, sizes, both)
        own[i] = -1


@jit
def _value(sizes: Any, both: Any, cost: Any) -> float:
    """The expected loss without its constant."""
    total = 0.0
    for k in range(sizes.size):
        total += cost[sizes[k]]
    inner = 0.0
    for m in range(both.shape[0]):
        for j in range(both.shape[1]):
            for k in range(both.shape[2]):
                inner += cost[both[m, j, k]]
    return total - 2.0 * inner / both.shape[0]


@inlined
def _cheapest(
    i: int, old: int, top: int, weight: int, columns: Any, sizes: Any, both: Any, cost: Any, change: Any
) -> int:
    """The cluster below ``top`` where row i costs least. Of empty ones the first stands for a new cluster."""
    draws = columns.shape[1]
    for k in range(top):
        change[k] = 0.0
    for m in range(draws):
        row = both[m, columns[i, m]]
        for k in range(top):
            change[k] += cost[row[k] + weight] - cost[row[k]]
    best, least, empty = -1, np.inf, False
    for k in range(top):
        if sizes[k] == 0 and empty:
            continue
        empty = empty or sizes[k] == 0
        value = cost[sizes[k] + weight] - cost[sizes[k]] - 2.0 * change[k] / draws
        if value < least - 1e-13 or (k == old and value < least + 1e-13):
            best, least = k, value
    return best


@jit
def _sweep(columns: Any, weights: Any, own: Any, sizes: Any, both: Any, cost: Any, order: Any) -> int:
    """Put every row where it costs least; how many moved."""
    clusters = sizes.size
    change, moved = np.empty(clusters), 0
    used = clusters  # up to the last one that is not empty
    while used > 0 and sizes[used - 1] == 0:
        used -= 1
    for i in order:
        old = own[i]
        if old >= 0:
            _put(i, old, -weights[i], columns, sizes, both)
        while used < clusters and sizes[used] > 0:
            used += 1
        best = _cheapest(i, old, min(clusters, used + 1), weights[i], columns, sizes, both, cost, change)
        if best != old and not (old >= 0 and sizes[old] == 0 and sizes[best] == 0):
            moved += 1
        own[i] = best
        _put(i, best, weights[i], columns, sizes, both)
    return moved
