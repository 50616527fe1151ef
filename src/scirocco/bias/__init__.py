"""How far the sampled law is from the posterior: what is measured during a run, and the report."""

from scirocco.bias.report import BiasReport, bias_report

__all__ = ["BiasReport", "bias_report"]
