"""Estimators of the counts of all data from minibatches, shared by all models of counts."""

from __future__ import annotations

from typing import Any

from scirocco.core.checks import require_choice
from scirocco.counts.estimators.base import CountEstimator
from scirocco.counts.estimators.centred import Centred
from scirocco.counts.estimators.control_variate import ControlVariate
from scirocco.counts.estimators.kept import Kept, Stale
from scirocco.counts.estimators.plain import Plain
from scirocco.counts.estimators.running import RunningCounts
from scirocco.counts.estimators.saga import SAGA
from scirocco.simplex import SCIRCV, Natural, SimplexSampler

__all__ = [
    "SAGA",
    "Centred",
    "ControlVariate",
    "CountEstimator",
    "Kept",
    "Plain",
    "RunningCounts",
    "Stale",
    "chosen_estimator",
]

NAMES: dict[str, CountEstimator] = {"plain": Plain(), "control_variate": ControlVariate(), "saga": SAGA()}


def chosen_estimator(wanted: Any, sampler: SimplexSampler) -> CountEstimator:
    """The estimator that the user named or gave, if the sampler can take it; ``SCIRCV`` brings its own."""
    if isinstance(wanted, str):
        require_choice("estimator", wanted, tuple(NAMES))
        wanted = NAMES[wanted]
    if not isinstance(wanted, CountEstimator):
        names = ", ".join(NAMES)
        raise TypeError(f"estimator must be {names} or a CountEstimator of scirocco.counts.estimators; got {wanted!r}")
    if wanted.signed and not isinstance(sampler, Natural):
        raise ValueError(
            f"estimator={wanted!r} needs a sampler on natural parameters, such as simplex.Natural(SGLD(...)): its "
            f"counts can be negative. Got sampler={sampler!r}"
        )
    return Centred(sampler) if isinstance(sampler, SCIRCV) and type(wanted) is Plain else wanted
