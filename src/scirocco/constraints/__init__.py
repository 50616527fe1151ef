"""Where parameters may lie: positive numbers, intervals, simplices, ...: users write densities there, chains move free.

``positive``, ``nonnegative``, ``greater_than``, ``less_than`` and ``interval`` are this library's own; ``ordered``,
``positive_ordered``, ``simplex``, ``corr_cholesky``, ``lower_cholesky``, ``positive_definite`` and ``zero_sum`` have
their bijections from NumPyro (extra ``numpyro``), whose own constraints can be given in place of any of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scirocco.constraints.base import Constraint, Parametrisation
from scirocco.constraints.bounded import Bounded
from scirocco.constraints.constraints import Constraints
from scirocco.constraints.numpyro import named

positive = nonnegative = Bounded(low=0.0)

NAMES = {
    "ordered": ("ordered_vector",), "positive_ordered": ("positive_ordered_vector",), "simplex": ("simplex",),
    "corr_cholesky": ("corr_cholesky",), "lower_cholesky": ("lower_cholesky",),
    "positive_definite": ("positive_definite",), "zero_sum": ("zero_sum", 1),
}  # fmt: skip
"""Of NumPyro's constraints, with their arguments; made when they are asked for."""

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
    simplex: Constraint
    zero_sum: Constraint


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
        theirs, *arguments = NAMES[name]
        return named(str(theirs), *arguments)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
