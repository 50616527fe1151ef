"""SAGA on counts.

    counts = A + (N/n) sum_S (E[n_i | weights] - kept_i),    A = sum of what is kept;  then kept_i <- E[n_i | weights]

Each entry of the data remembers what it had when it was last seen, two bytes for each entry and row of weights. Like
control variates the estimate can fall below 0: for samplers on natural parameters. Defazio, Bach and Lacoste-Julien
(2014).
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
class SAGACounts(CountEstimator):
    """Differences from what each observation had when it was last seen."""

    signed = True
    remembers = True

    def survey(self, local: LocalStep, state: State) -> Iterator[Minibatch]:
        """Count everything at the present point."""
        small = np.uint16 if local.entry_limit < 2**16 else np.uint32
        kept = np.zeros((local.entry_total, local.weights.rows), small)
        table, point, position = np.zeros_like(local.weights.theta), local.point(), 0
        for some in local.everything():
            found = local.entries(some, point, survey=True)
            kept[position : position + len(found.columns)] = found.values
            np.add.at(table, found.columns, found.values * found.unit)
            position += len(found.columns)
            yield some
        state |= {"kept": kept, "table": table}

    def counts(self, local: LocalStep, batch: Minibatch, state: State) -> Counts:
        """The estimate, of all categories; afterwards the observations of the minibatch have their new counts."""
        new, kept, table = local.entries(batch), state["kept"], state["table"]
        if new.places is None or np.ndim(batch.scale):
            raise ValueError("SAGA remembers observations: it needs data in memory and simple random minibatches")
        change = np.zeros_like(table)
        np.add.at(change, new.columns, (new.values.astype(np.int64) - kept[new.places]) * new.unit)
        estimate = table + change * batch.scale
        kept[new.places] = new.values
        table += change
        return Counts(estimate.T, None, batch.fraction, signed=True)
