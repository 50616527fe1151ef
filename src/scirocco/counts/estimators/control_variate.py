"""Control variates on counts.

    counts = C(centre) + (N/n) sum_S (E[n_i | weights] - E[n_i | centre]),    C(centre) = sum over all observations

The control variates of SGLD-CV (Baker et al. 2019): the gradient of natural parameters is linear in the counts, and its
other part needs no estimate. Both expectations of a difference share their random numbers. A difference can fall below
0, where no Dirichlet parameter can follow: for samplers on natural parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scirocco.counts.estimators.base import CountEstimator
from scirocco.counts.local import LocalStep
from scirocco.counts.minibatches import Minibatch
from scirocco.simplex.base import Counts, State


@dataclass(frozen=True)
class ControlVariateCounts(CountEstimator):
    """Differences from the counts at a fixed point, the one that the chain starts from."""

    signed = True

    def survey(self, local: LocalStep, state: State) -> Iterator[Minibatch]:
        """Fix the present point as the centre and count everything there."""
        point = local.point()
        table = np.zeros_like(local.weights.theta)
        for some in local.everything():
            columns, counts = local.count(some, point, survey=True)
            table[slice(None) if columns is None else columns] += counts
            yield some
        state |= {"table": table} | ({} if point is None else {"point": point})

    def counts(self, local: LocalStep, batch: Minibatch, state: State) -> Counts:
        """The estimate, of all categories."""
        columns, here = local.count(batch)
        _, there = local.count(batch, state.get("point"))
        estimate = state["table"].copy()
        estimate[slice(None) if columns is None else columns] += here - there
        return Counts(estimate.T, None, batch.fraction, signed=True)
