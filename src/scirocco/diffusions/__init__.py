"""Diffusions whose transitions are known exactly: a step of any length without discretisation error."""

from scirocco.diffusions.base import Diffusion
from scirocco.diffusions.cir import CIR
from scirocco.diffusions.gbm import GBM
from scirocco.diffusions.generalized_gamma import GeneralizedGamma
from scirocco.diffusions.ou import OU
from scirocco.diffusions.simulation import Minibatch, simulate

__all__ = ["CIR", "GBM", "OU", "Diffusion", "GeneralizedGamma", "Minibatch", "simulate"]
