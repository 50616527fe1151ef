"""A credible ball around a point partition (Wade and Ghahramani 2018).

The smallest ball, in the distance of the loss, that has at least a given share of the draws. Its bounds are draws at
its edge: the farthest, and among those with the fewest and with the most clusters the farthest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scirocco.partitions.losses import distances, label_draws


@dataclass(frozen=True, eq=False)
class CredibleBall:
    """A ball of partitions around one."""

    radius: float
    share: float
    """Of the draws, that are inside."""
    farthest: np.ndarray
    fewest: np.ndarray
    """With the fewest clusters."""
    most: np.ndarray
    """With the most clusters."""
    clusters: tuple[int, int]
    """Of ``fewest`` and ``most``."""


def credible_ball(labels: Any, partition: Any, *, level: float = 0.95, loss: str = "vi") -> CredibleBall:
    """The smallest ball around a partition with a share ``level`` of the draws, (draws, rows) or by chain."""
    if not 0 < level <= 1:
        raise ValueError(f"level must be above 0 and at most 1; got {level}")
    draws = label_draws(labels)
    far = distances(draws, partition, loss)
    radius = float(np.sort(far)[int(np.ceil(level * len(far))) - 1])
    inside = np.flatnonzero(far <= radius)
    sizes = draws[inside].max(axis=1) + 1

    def edge(chosen: np.ndarray) -> np.ndarray:
        found = inside[chosen]
        return np.asarray(draws[found[np.argmax(far[found])]])

    few, many = int(sizes.min()), int(sizes.max())
    return CredibleBall(
        radius, inside.size / len(draws), edge(np.full(inside.size, True)), edge(sizes == few), edge(sizes == many),
        (few, many),
    )  # fmt: skip
