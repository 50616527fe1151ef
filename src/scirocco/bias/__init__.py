"""How far the sampled law is from the posterior: what is measured during a run, and the report."""

from scirocco.bias.report import BiasReport, bias_report, moment_rhat, spread_apart

__all__ = ["BiasReport", "bias_report", "moment_rhat", "spread_apart"]
