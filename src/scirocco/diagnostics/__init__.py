"""Distances of draws from a target; ESS and R-hat as ArviZ has them. The bias report is in ``scirocco.bias``."""

from scirocco.diagnostics.ksd import ksd
from scirocco.diagnostics.rosenblatt import dirichlet_uniforms, ks_distance, ks_distances
from scirocco.diagnostics.stein import trace_ksd
from scirocco.diagnostics.virial import Virial, virial
from scirocco.run.convergence import ess, rhat

__all__ = ["Virial", "dirichlet_uniforms", "ess", "ks_distance", "ks_distances", "ksd", "rhat", "trace_ksd", "virial"]
