"""How far to trust a run: ESS and R-hat through ArviZ, the bias report, distances of samples from a target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scirocco.diagnostics.ksd import ksd
from scirocco.diagnostics.rosenblatt import dirichlet_uniforms, ks_distance, ks_distances
from scirocco.run.convergence import ess, rhat

if TYPE_CHECKING:
    from scirocco.diagnostics.stein import trace_ksd

__all__ = [
    "dirichlet_uniforms",
    "ess",
    "ks_distance",
    "ks_distances",
    "ksd",
    "rhat",
    "trace_ksd",
]


def __getattr__(name: str) -> Any:
    if name == "trace_ksd":  # it needs the trace, which needs this package
        from scirocco.diagnostics.stein import trace_ksd

        return trace_ksd
    raise AttributeError(f"module 'scirocco.diagnostics' has no attribute {name!r}")
