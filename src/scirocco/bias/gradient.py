"""The bias report of gradient chains, from what their engine measured."""

from __future__ import annotations

import jax
import numpy as np

from scirocco.bias.report import BiasReport, bias_report, moment_rhat, spread_apart
from scirocco.core.trees import named_leaves
from scirocco.gradient.blocks import split
from scirocco.gradient.engine import GradientEngine
from scirocco.run.checkpoint import part
from scirocco.run.moments import Moments
from scirocco.samplers.base import Strain


def gradient_report(engine: GradientEngine, moments: Moments, probed: dict[str, np.ndarray]) -> BiasReport | None:
    """The report on all chains of a run."""
    kernel = engine.kernel
    direction, strain = part(probed, "direction"), part(probed, "strain")
    noise, curvature = part(probed, "noise"), part(probed, "curvature")
    mean, variance = moments.pooled()
    if not kernel.target.geometry.flat:
        variance = variance | _in_units_of_velocity(engine, mean, variance)
    return bias_report(
        kernel.sampler, engine.mean_state(probed), variance, noise, curvature, kernel.epoch,
        (direction, Strain(**strain)) if strain else None,
        r_hat=moment_rhat(moments.mean, moments.variance(), moments.count),
        started_apart=spread_apart(moments.start, moments.variance()),
    )  # fmt: skip


def _in_units_of_velocity(
    engine: GradientEngine, mean: dict[str, np.ndarray], variance: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The variances in the coordinates in which noise and curvature were measured, those of the manifold's
    velocities."""
    like = split(engine.example, engine.kernel.blocks)[0]
    names = list(named_leaves(like))
    place = jax.tree.unflatten(jax.tree.structure(like), [np.asarray(mean[n], np.float32) for n in names])
    geometry = engine.kernel.target.geometry
    pace = named_leaves(geometry.pace(geometry.nearest(place)))
    return {n: variance[n] / np.asarray(pace[n], np.float64) ** 2 for n in names}
