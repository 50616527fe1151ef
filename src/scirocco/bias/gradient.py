"""The bias report of gradient chains, from what their engine measured."""

from __future__ import annotations

import numpy as np

from scirocco.bias.report import BiasReport, bias_report
from scirocco.gradient.engine import GradientEngine
from scirocco.run.checkpoint import part
from scirocco.run.moments import Moments
from scirocco.samplers.base import Strain


def gradient_report(engine: GradientEngine, moments: Moments, probed: dict[str, np.ndarray]) -> BiasReport | None:
    """The report on all chains of a run."""
    kernel = engine.kernel
    direction, strain = part(probed, "direction"), part(probed, "strain")
    return bias_report(
        kernel.sampler, engine.mean_state(probed), moments.pooled()[1], part(probed, "noise"), part(probed,
        "curvature"), kernel.epoch, (direction, Strain(**strain)) if strain else None,
    )  # fmt: skip
