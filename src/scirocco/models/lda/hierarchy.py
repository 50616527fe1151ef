"""Which topics are near each other: a tree of topics by the Hellinger distance of their words.

    d(j, k)^2 = 1 - sum_w sqrt(phi_jw phi_kw)

joined by average linkage. The tree is that of the mean distances over draws; a branch is supported by the share of
draws in whose own tree the same topics make a branch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

from scirocco.core.checks import require_count

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class TopicTree:
    """``linkage`` as SciPy's dendrogram takes it, the ``distances`` of all topics, their ``names``, and for each branch
    its ``support`` among the draws.
    """

    linkage: np.ndarray
    distances: np.ndarray
    support: np.ndarray
    names: list[str]

    def groups(self, n_groups: int) -> list[list[int]]:
        """The topics in so many groups, as ``merge`` takes them."""
        require_count("n_groups", n_groups, most=len(self.names))
        which = hierarchy.cut_tree(self.linkage, [n_groups]).ravel()
        return [np.flatnonzero(which == group).tolist() for group in range(n_groups)]

    def table(self) -> pd.DataFrame:
        """A row for each branch from the nearest on: its topics, the distance of its two parts, its support."""
        import pandas as pd

        topics = [" | ".join(self.names[k] for k in sorted(leaves)) for leaves in branches(self.linkage)]
        return pd.DataFrame({"distance": self.linkage[:, 2], "support": self.support, "topics": topics})

    def plot(self, ax: Any = None) -> Any:
        """The tree as a picture: see ``plots.hierarchy``."""
        from scirocco import plots

        return plots.hierarchy(self, ax=ax)

    def __str__(self) -> str:
        return self.table().to_string(float_format=lambda x: f"{x:.3f}")

    __repr__ = __str__


def tree_of(draws: np.ndarray, names: list[str]) -> TopicTree:
    """The tree of topics, from their draws (draw, topic, word)."""
    each = np.array([distances(topics) for topics in draws])
    linkage = _linked(each.mean(axis=0))
    own = [set(branches(_linked(table))) for table in each]
    support = [np.mean([branch in found for found in own]) for branch in branches(linkage)]
    return TopicTree(linkage, each.mean(axis=0), np.array(support), names)


def distances(topics: np.ndarray) -> np.ndarray:
    """The Hellinger distance of every two topics."""
    root = np.sqrt(topics.astype(np.float64))
    found = np.sqrt(np.maximum(1 - root @ root.T, 0.0))
    np.fill_diagonal(found, 0.0)
    return (found + found.T) / 2


def branches(linkage: np.ndarray) -> list[frozenset[int]]:
    """The leaves of each branch."""
    found = [frozenset([k]) for k in range(len(linkage) + 1)]
    for left, right in linkage[:, :2].astype(int):
        found.append(found[left] | found[right])
    return found[len(linkage) + 1 :]


def _linked(table: np.ndarray) -> np.ndarray:
    return np.asarray(hierarchy.linkage(squareform(table, checks=False), method="average"))
