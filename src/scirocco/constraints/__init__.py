"""Where parameters may lie: positive numbers, intervals, simplices, ...: users write densities there, chains move free.

``positive``, ``nonnegative``, ``greater_than``, ``less_than``, ``interval``, ``simplex`` and ``zero_sum`` are this
library's own; ``ordered``, ``positive_ordered``, ``corr_cholesky``, ``lower_cholesky`` and ``positive_definite`` have
their bijections from NumPyro (extra ``numpyro``), whose own constraints can be given in place of any of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scirocco.constraints.base import Constraint, Parametrisation
from scirocco.constraints.bounded import Bounded
from scirocco.constraints.constraints import Constraints
from scirocco.constraints.numpyro import named
from scirocco.constraints.sums import Simplex, ZeroSum

positive = nonnegative = Bounded(low=0.0)
simplex, zero_sum = Simplex(), ZeroSum()

NAMES = {
    "ordered": "ordered_vector", "positive_ordered": "positive_ordered_vector", "corr_cholesky": "corr_cholesky",
    "lower_cholesky": "lower_cholesky", "positive_definite": "positive_definite",
}  # fmt: skip
"""Of NumPyro's constraints, made when they are asked for."""

__all__ = [
    "Constraint",
    "Constraints",
    "Parametrisation",
    "corr_cholesky",
    "greater_than",
    "interval",
    "less_than",
    "lower_cholesky",
    "nonnegative",
    "ordered",
    "positive",
    "positive_definite",
    "positive_ordered",
    "simplex",
    "zero_sum",
]

if TYPE_CHECKING:
    corr_cholesky: Constraint
    lower_cholesky: Constraint
    ordered: Constraint
    positive_definite: Constraint
    positive_ordered: Constraint


def greater_than(low: float) -> Bounded:
    """Numbers above ``low``."""
    return Bounded(low=low)


def less_than(high: float) -> Bounded:
    """Numbers below ``high``."""
    return Bounded(high=high)


def interval(low: float, high: float) -> Bounded:
    """Numbers between ``low`` and ``high``."""
    return Bounded(low, high)


def __getattr__(name: str) -> Any:
    if name in NAMES:
        return named(NAMES[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
