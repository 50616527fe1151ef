"""The bias report of gradient chains, from what their engine measured."""

from __future__ import annotations

import numpy as np

from scirocco.bias.report import BiasReport, bias_report, moment_rhat, spread_apart
from scirocco.gradient.engine import GradientEngine
from scirocco.run.checkpoint import part
from scirocco.run.moments import Moments
from scirocco.samplers.base import Strain


def gradient_report(engine: GradientEngine, moments: Moments, probed: dict[str, np.ndarray]) -> BiasReport | None:
    """The report on all chains of a run."""
    kernel = engine.kernel
    direction, strain = part(probed, "direction"), part(probed, "strain")
    noise, curvature = part(probed, "noise"), part(probed, "curvature")
    return bias_report(
        kernel.sampler, engine.mean_state(probed), moments.pooled()[1], noise, curvature, kernel.epoch,
        (direction, Strain(**strain)) if strain else None,
        r_hat=moment_rhat(moments.mean, moments.variance(), moments.count),
        started_apart=spread_apart(moments.start, moments.variance()),
    )  # fmt: skip
