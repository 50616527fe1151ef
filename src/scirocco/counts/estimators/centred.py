"""Counts with the centre of ``SCIRCV``.

    known    prior + the counts of all data, in one pass before the first step
    given    an array
    batch    prior + the counts estimated from a larger batch, anew every l steps
    seen     prior + a fading average of the estimates of about the last l minibatches, anew every l steps

The counts themselves are plain. A centre never depends on the minibatch at hand, which would bias the chain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scirocco.core.checks import positive_array
from scirocco.counts.estimators.base import CountEstimator
from scirocco.counts.estimators.running import RunningCounts
from scirocco.counts.local import LocalStep
from scirocco.counts.minibatches import Minibatch
from scirocco.simplex import SCIRCV, Weights
from scirocco.simplex.base import Centre, Counts, State


@dataclass(frozen=True)
class CentredCounts(CountEstimator):
    """Plain counts, and the centre that ``sampler`` asks for."""

    sampler: SCIRCV

    def survey(self, local: LocalStep, state: State) -> Iterator[Minibatch]:
        """Take the given centre, or count everything for one that stays; one that is renewed needs neither."""
        if self.sampler.recentre_every is not None:
            return
        weights, fraction = local.weights, local.minibatches.fraction
        if self.sampler.centre is not None:
            table = _above_prior(self.sampler.centre, weights)
        else:
            table = np.zeros_like(weights.theta)
            for some in local.everything():
                columns, counts = local.count(some, survey=True)
                table[slice(None) if columns is None else columns] += counts
                yield some
        self._renew(weights, table, fraction, state)

    def counts(self, local: LocalStep, batch: Minibatch, state: State) -> Counts:
        """The estimate, of the categories of the minibatch only, with the centre, which is renewed when that is due."""
        sampler, weights = self.sampler, local.weights
        due = sampler.recentre_every is not None and weights.steps % sampler.recentre_every == 0
        if due and sampler.centre_from == "batch":
            larger = local.larger(sampler.centre_batch)
            columns, found = local.count(larger, survey=True)
            table = np.zeros_like(weights.theta)
            table[slice(None) if columns is None else columns] = found
            self._renew(weights, table, batch.fraction, state)
        columns, table = local.count(batch)
        if sampler.centre_from == "seen":
            self._follow(weights, columns, table, batch.fraction, state, due)
        return Counts(table.T, columns, batch.fraction, centre=self.centre(state))

    def _follow(
        self, weights: Weights, columns: np.ndarray | None, table: np.ndarray, fraction: float, state: State, due: bool
    ) -> None:
        """Renew the centre from the minibatches before this one; then count this one in."""
        if "running" not in state:
            first = RunningCounts(np.zeros_like(weights.theta))
            first.add(columns, table, 1.0)  # the first has none before it
            state |= first.pack()
        running = RunningCounts.over(state)
        if due:
            self._renew(weights, running.read(), fraction, state)
        assert self.sampler.recentre_every is not None
        running.add(columns, table, 1 / self.sampler.recentre_every)

    def _renew(self, weights: Weights, table: np.ndarray, fraction: float, state: State) -> None:
        found = self.sampler.centre_at(weights, table.T, fraction)
        state |= {"centre": found.parameter, "controlled": found.controlled}
        if found.shift is not None:
            state["shift"] = found.shift

    def centre(self, state: State) -> Centre | None:
        """The centre at present."""
        if "centre" not in state:
            return None
        found = Centre(state["centre"], state.get("shift"))
        found.__dict__["controlled"] = state["controlled"]  # need not be looked for at every step
        return found


def _above_prior(given: object, weights: Weights) -> np.ndarray:
    """The counts of a centre that the user gave, one row for all or rows x categories."""
    centre = positive_array("centre", given)
    if centre.shape not in ((weights.categories,), (weights.rows, weights.categories)):
        wanted = f"one entry for each of {weights.categories} categories"
        raise ValueError(f"centre must have {wanted}; got {centre.shape}")
    table = np.broadcast_to(centre.T.reshape(weights.categories, -1) - weights.prior, weights.theta.shape)
    if np.any(table < 0):
        raise ValueError("centre must not lie below the prior: it is the prior plus the counts of all data")
    return table
