"""What a model of counts does with some of its observations, given the present weights.

Where categories are observed it counts them; where they are not, as in topic models and mixtures, it draws assignments
first, or averages over them. Estimators (``counts.estimators``) make counts of all data out of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from scirocco.counts.minibatches import Minibatch, Minibatches
from scirocco.simplex import Weights


class Entries(NamedTuple):
    """The counts of single entries (a code, a word of a document): entries x rows, in multiples of ``unit``."""

    places: np.ndarray | None  # where they stand among the entries of all data
    columns: np.ndarray  # their categories
    values: np.ndarray
    unit: float


class LocalStep(ABC):
    """The local step of one chain."""

    weights: Weights
    minibatches: Minibatches

    @abstractmethod
    def count(self, batch: Minibatch, at: Any = None, *, survey: bool = False) -> tuple[np.ndarray | None, np.ndarray]:
        """Counts, categories x rows, each observation for its ``scale``; and which categories, None for all.

        ``at`` is a point of ``point()``, by default the present one. Counting the same minibatch at two points uses the
        same random numbers; a ``survey`` has its own.
        """

    def point(self) -> Any:
        """The present point, to count at later; None if counts do not depend on it."""
        return None

    def entries(self, batch: Minibatch, at: Any = None, *, survey: bool = False) -> Entries:
        """The counts of each entry by itself, whatever the scale; for estimators that remember them."""
        raise TypeError(f"{type(self).__name__} cannot count entries by themselves")

    @property
    def entry_total(self) -> int:
        """Entries of all data."""
        return self.minibatches.size

    @property
    def entry_limit(self) -> int:
        """The largest value of an entry."""
        return 1

    def larger(self, n: int | float) -> Minibatch:
        """Another random part of the data, at the present step."""
        return self.minibatches.larger(self.weights.steps, n)

    def everything(self) -> Iterator[Minibatch]:
        """All observations once, in parts."""
        return self.minibatches.everything()
