"""How far two partitions of the same rows are from each other, and from many draws on average.

With n_k and m_j the sizes of their clusters and n_kj those of the intersections,

    distance = sum_k f(n_k) + sum_j f(m_j) - 2 sum_kj f(n_kj)

    variation of information    f(n) = n log2(n) / N      (Meila 2007), in bits
    Binder loss                 f(n) = n^2 / N^2          (Binder 1978): the share of ordered pairs of rows that one
                                                          partition puts together and the other does not

Labels are names: any whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from scirocco.core.checks import require_choice

LOSSES = ("vi", "binder")


def measure(loss: str, total: float) -> Callable[[np.ndarray], np.ndarray]:
    """The function f of sizes."""
    require_choice("loss", loss, LOSSES)
    if loss == "binder":
        return lambda n: np.square(n / total)
    return lambda n: n * np.log2(np.maximum(n, 1)) / total


def variation_of_information(first: Any, second: Any) -> float:
    """The distance of two partitions in bits.

    >>> variation_of_information([0, 0, 1, 1], [7, 7, 7, 7])
    1.0
    """
    return _distance(first, second, "vi")


def binder(first: Any, second: Any) -> float:
    """The share of ordered pairs of rows about which two partitions disagree.

    >>> binder([0, 0, 1, 1], [7, 7, 7, 7])
    0.5
    """
    return _distance(first, second, "binder")


def expected_loss(labels: Any, partition: Any, *, loss: str = "vi") -> float:
    """The mean distance of draws of labels, (draws, rows) or (chains, draws, rows), from one partition."""
    return float(distances(label_draws(labels), partition, loss).mean())


def co_clustering(labels: Any, rows: Any) -> np.ndarray:
    """How often two rows are in the same cluster, for some rows: all would be a matrix of N x N.

    >>> co_clustering([[0, 0, 1], [2, 2, 2]], rows=[0, 2])
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    draws = label_draws(labels)
    chosen = np.asarray(rows)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
        raise ValueError("rows must be the numbers of some rows")
    if chosen.size and (chosen.min() < 0 or chosen.max() >= draws.shape[1]):
        raise ValueError(f"rows must be from 0 to {draws.shape[1] - 1}; got {chosen.min()} to {chosen.max()}")
    total = np.zeros((chosen.size, chosen.size))
    for draw in draws:
        total += draw[chosen][:, None] == draw[chosen]
    return total / len(draws)


def label_draws(labels: Any) -> np.ndarray:
    """Labels as (draws, rows), each draw's from 0 on in the order of their numbers."""
    found = np.asarray(labels)
    if found.ndim == 3:  # chains side by side
        found = found.reshape(-1, found.shape[2])
    if found.ndim != 2 or not found.size:
        raise ValueError(f"labels must be (draws, rows) or (chains, draws, rows), not empty; got {found.shape}")
    if found.dtype.kind not in "iu":
        raise ValueError(f"labels must be whole numbers; got {found.dtype}")
    return np.array([np.unique(draw, return_inverse=True)[1] for draw in found])


def one_partition(partition: Any, rows: int) -> np.ndarray:
    """Labels of one partition from 0 on."""
    found = label_draws(np.asarray(partition)[None])[0]
    if found.size != rows:
        raise ValueError(f"the partition must have one label for each of {rows} rows; got {found.size}")
    return found


def distances(draws: np.ndarray, partition: Any, loss: str) -> np.ndarray:
    """Of each draw from a partition."""
    own = one_partition(partition, draws.shape[1])
    f = measure(loss, draws.shape[1])
    found = np.empty(len(draws))
    for i, draw in enumerate(draws):
        both = np.bincount(own * (draw.max() + 1) + draw)
        found[i] = f(np.bincount(own)).sum() + f(np.bincount(draw)).sum() - 2 * f(both).sum()
    return np.maximum(found, 0.0)  # rounding


def _distance(first: Any, second: Any, loss: str) -> float:
    draws = label_draws(np.asarray(first)[None])
    return float(distances(draws, second, loss)[0])
