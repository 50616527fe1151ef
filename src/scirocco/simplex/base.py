"""What every simplex sampler shares: the words of its signature and how its settings are read.

A sampler is a frozen dataclass with ``step(weights, counts, state)``. It advances ``Weights`` in place,
given ``Counts``, an unbiased estimate of how often each category occurs in the whole data set; prior + counts is then
an unbiased estimate of the Dirichlet parameter. What else it keeps from step to step, such as momenta, stands in
``state``, named arrays that it changes in place. Any model of counts can take any sampler.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.core.checks import positive_array, real_array
from scirocco.core.parts import part
from scirocco.samplers.base import automatic

if TYPE_CHECKING:
    from scirocco.simplex.weights import Weights

State = dict[str, np.ndarray]  # of a sampler beside the weights: arrays by name, changed in place


@dataclass(frozen=True, eq=False)
class Centre:
    """Where the control variates of ``SCIRCV`` are exact: a Dirichlet parameter, categories x rows.

    Components without a control variate have 0. ``shift`` are factors that take known biases off what is recorded.
    """

    parameter: np.ndarray
    shift: np.ndarray | None = None

    @cached_property
    def controlled(self) -> np.ndarray:
        """The categories with a control variate in some row."""
        return np.flatnonzero(np.any(self.parameter, axis=1))


@dataclass(frozen=True)
class Counts:
    """Estimated counts, rows x categories.

    ``values`` has a column for every category, or only for those in ``columns`` (distinct); the others were not seen
    in the minibatch and count 0. ``fraction`` is the share n/N of the data in the minibatch. ``exact`` says that the
    values are no estimate but the counts themselves, as with kept assignments. ``signed`` allows for values below 0,
    which estimates with control variates can have; samplers on natural parameters take them. ``centre`` is that of
    ``SCIRCV``.
    """

    values: np.ndarray
    columns: np.ndarray | None = None
    fraction: float = 1.0
    exact: bool = False
    signed: bool = False
    centre: Centre | None = None

    def __post_init__(self) -> None:
        values = real_array("counts", self.values, least=-np.inf if self.signed else 0.0)
        if values.ndim != 2:
            raise ValueError(f"counts must have shape (rows, categories); got {values.shape}")
        if self.columns is not None and np.shape(self.columns) != values.shape[1:]:
            raise ValueError(f"columns must name the {values.shape[1]} columns of counts; got {np.shape(self.columns)}")
        if not 0 < self.fraction <= 1:
            raise ValueError(f"fraction must lie in (0, 1]; got {self.fraction!r}")
        if self.exact and self.columns is not None:
            raise ValueError("exact counts must be given for all categories, without columns")
        object.__setattr__(self, "values", values)

    def require_fit(self, weights: Weights, *, signed: bool = False) -> None:
        """Reject counts that do not belong to these weights, or have a sign that the sampler cannot take."""
        if self.signed and not signed:
            raise ValueError("counts that may be negative are no part of a Dirichlet parameter: take simplex.Natural")
        rows, columns = self.values.shape
        if rows != weights.rows or (self.columns is None and columns != weights.categories):
            wanted = f"({weights.rows}, {weights.categories})"
            raise ValueError(f"counts must have shape {wanted}, or name their columns; got {rows, columns}")
        if self.columns is not None and columns:
            named = np.asarray(self.columns)
            if named.dtype.kind not in "iu" or named.min() < 0 or named.max() >= weights.categories:
                raise ValueError(f"columns must be categories from 0 to {weights.categories - 1}; got {named!r}")
            if not np.all(named[1:] > named[:-1]) and len(np.unique(named)) < columns:
                raise ValueError("columns must be distinct: each category once, with its whole count")

    def dense(self, categories: int) -> np.ndarray:
        """The counts of all categories, 0 for those that are not named, rows x categories."""
        if self.columns is None:
            return self.values
        full = np.zeros((self.values.shape[0], categories))
        full[:, self.columns] = self.values
        return full


class SimplexSampler(ABC):
    """The grammar of a simplex sampler; its settings are the fields of a frozen dataclass."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        part(cls)

    def start(self, weights: Weights) -> State:
        """Make new weights fit for this sampler; most take any. What it keeps beside them; most keep nothing."""
        weights.catch_up()
        return {}

    @abstractmethod
    def step(self, weights: Weights, counts: Counts, state: State | None = None) -> None:
        """One step, in place; ``state`` is what ``start`` gave."""

    def recorded(self, weights: Weights, centre: Centre | None = None) -> np.ndarray:
        """The points of the simplex, rows x categories, that a draw records."""
        del centre
        return weights.proportions()


def step_size_at(step_size: Any, step: int) -> float:
    """The step size of a step: schedules are called."""
    if automatic(step_size) is not None:
        raise ValueError("step_size is still to be found, which sample_dirichlet does before it runs: give a number")
    if not callable(step_size):
        return float(step_size)
    h = float(step_size(step))
    if not 0 < h < np.inf:
        raise ValueError(
            f"step_size must be positive and finite at every step; the schedule gives {h!r} at step {step}"
        )
    return h


def require_step_size(step_size: Any, *, law_known: bool = False) -> None:
    """Reject step sizes that are not positive and finite; schedules are looked at over their first steps.

    Only samplers whose law on the simplex is known may leave it open.
    """
    if automatic(step_size) is not None:
        if law_known:
            return
        raise ValueError(f"step_size must be a number or a schedule: no law says which would do; got {step_size!r}")
    for value in [step_size(t) for t in (0, 1, 1000)] if callable(step_size) else [step_size]:
        if positive_array("step_size", value).ndim:
            raise ValueError(f"step_size must be one number or a schedule; got {value!r}")
