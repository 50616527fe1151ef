"""How far to trust a run: ESS and R-hat through ArviZ, the bias report, the kernel Stein discrepancy."""

from scirocco.diagnostics.bias import BiasReport, bias_report
from scirocco.diagnostics.convergence import ess, rhat
from scirocco.diagnostics.ksd import ksd

__all__ = ["BiasReport", "bias_report", "ess", "ksd", "rhat"]
