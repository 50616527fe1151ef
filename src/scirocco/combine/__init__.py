"""Divide and conquer: draws of the posteriors of shards, combined into draws of the posterior of all data."""

from scirocco.combine.certificate import Certificate, certify
from scirocco.combine.consensus import consensus
from scirocco.combine.diagnosis import Diagnosis, diagnose
from scirocco.combine.kdemc import kdemc
from scirocco.combine.parametric import parametric
from scirocco.combine.semiparametric import semiparametric
from scirocco.combine.swiss import swiss
from scirocco.combine.weierstrass import weierstrass

__all__ = [
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
