"""Counts of the minibatch, scaled up.

    counts = (N/n) sum_S E[n_i | weights]

Unbiased for every way of drawing minibatches whose scale says what an observation stands for.
"""

from __future__ import annotations

from dataclasses import dataclass

from scirocco.counts.estimators.base import CountEstimator
from scirocco.counts.local import LocalStep
from scirocco.counts.minibatches import Minibatch
from scirocco.simplex.base import Counts, State


@dataclass(frozen=True)
class PlainCounts(CountEstimator):
    """Counts of the minibatch, scaled up; categories that it does not have are not named."""

    def counts(self, local: LocalStep, batch: Minibatch, state: State) -> Counts:
        """The estimate, of the categories of the minibatch only."""
        del state
        columns, table = local.count(batch)
        return Counts(table.T, columns, batch.fraction)
