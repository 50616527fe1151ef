"""Samplers on the probability simplex: they advance unnormalised weights from estimated counts."""

from scirocco.simplex.base import Centre, Counts, SimplexSampler
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
    "Centre",
    "Counts",
    "Exact",
    "Natural",
    "SimplexSampler",
    "Weights",
]
