"""Divide and conquer: draws of the posteriors of shards, combined into draws of the posterior of all data."""

from collections.abc import Callable
from typing import Any

from scirocco.combine.certificate import Certificate, certify
from scirocco.combine.consensus import consensus
from scirocco.combine.diagnosis import Diagnosis, diagnose
from scirocco.combine.kdemc import kdemc
from scirocco.combine.parametric import parametric
from scirocco.combine.semiparametric import semiparametric
from scirocco.combine.swiss import swiss
from scirocco.combine.weierstrass import weierstrass

METHODS: dict[str, Callable[..., Any]] = {
    "consensus": consensus, "kdemc": kdemc, "parametric": parametric, "semiparametric": semiparametric, "swiss": swiss,
    "weierstrass": weierstrass,
}  # fmt: skip
"""By name."""

__all__ = [
    "METHODS",
    "Certificate",
    "Diagnosis",
    "certify",
    "consensus",
    "diagnose",
    "kdemc",
    "parametric",
    "semiparametric",
    "swiss",
    "weierstrass",
]
