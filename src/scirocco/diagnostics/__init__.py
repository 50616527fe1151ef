"""Distances of draws from a target, calibration by ranks; ESS and R-hat as ArviZ has them.

The bias report is in ``scirocco.bias``.
"""

from scirocco.diagnostics.calibration import Calibration, ecdf_band, rank_among
from scirocco.diagnostics.ksd import ksd
from scirocco.diagnostics.predictive import PredictiveCheck, check_predictions, expected_calibration_error
from scirocco.diagnostics.rosenblatt import dirichlet_uniforms, ks_distance, ks_distances
from scirocco.diagnostics.stein import trace_ksd
from scirocco.diagnostics.virial import Virial, virial
from scirocco.run.convergence import ess, rhat

__all__ = [
    "Calibration",
    "PredictiveCheck",
    "Virial",
    "check_predictions",
    "dirichlet_uniforms",
    "ecdf_band",
    "ess",
    "expected_calibration_error",
    "ks_distance",
    "ks_distances",
    "ksd",
    "rank_among",
    "rhat",
    "trace_ksd",
    "virial",
]
