"""Estimators of the counts of all data from minibatches, shared by all models of counts."""

from __future__ import annotations

from typing import Any

from scirocco.core.checks import require_choice
from scirocco.counts.estimators.base import CountEstimator
from scirocco.counts.estimators.centred import CentredCounts
from scirocco.counts.estimators.control_variate import ControlVariateCounts
from scirocco.counts.estimators.kept import KeptCounts, StaleCounts
from scirocco.counts.estimators.plain import PlainCounts
from scirocco.counts.estimators.running import RunningCounts
from scirocco.counts.estimators.saga import SAGACounts
from scirocco.simplex import SCIRCV, Natural, SimplexSampler

__all__ = [
    "CentredCounts",
    "ControlVariateCounts",
    "CountEstimator",
    "KeptCounts",
    "PlainCounts",
    "RunningCounts",
    "SAGACounts",
    "StaleCounts",
    "chosen_estimator",
]

NAMES: dict[str, CountEstimator] = {
    "plain": PlainCounts(),
    "control_variate": ControlVariateCounts(),
    "saga": SAGACounts(),
}


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
    return CentredCounts(sampler) if isinstance(sampler, SCIRCV) and type(wanted) is PlainCounts else wanted
