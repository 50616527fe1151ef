"""Samplers on the probability simplex: they advance unnormalised weights from estimated counts."""

from scirocco.simplex.base import Counts, SimplexSampler
from scirocco.simplex.counts import KeptCounts, RunningCounts, StaleCounts
from scirocco.simplex.exact import Exact
from scirocco.simplex.natural import Natural
from scirocco.simplex.scir import SCIR
from scirocco.simplex.scir_cv import SCIRCV
from scirocco.simplex.sgrld import SGRLD
from scirocco.simplex.weights import Weights

__all__ = [
    "SCIR",
    "SCIRCV",
    "SGRLD",
    "Counts",
    "Exact",
    "KeptCounts",
    "Natural",
    "RunningCounts",
    "SimplexSampler",
    "StaleCounts",
    "Weights",
]
