"""The bias report of gradient chains, from what their engine measured."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from scirocco.bias.report import BiasReport, bias_report, moment_rhat, spread_apart
from scirocco.bias.virials import Virials, marginal_slopes
from scirocco.core.trees import named_leaves
from scirocco.core.types import Params
from scirocco.gradient.blocks import split
from scirocco.gradient.engine import GradientEngine
from scirocco.run.checkpoint import part
from scirocco.run.engine import Measured
from scirocco.run.moments import Moments
from scirocco.samplers.base import Strain, at


def gradient_report(engine: GradientEngine, moments: Moments, measured: Measured) -> BiasReport | None:
    """The report on all chains of a run."""
    kernel, probed = engine.kernel, measured.probed
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
        virials=_virials(engine, measured.points, moments),
    )  # fmt: skip


def _virials(engine: GradientEngine, points: dict[str, np.ndarray], moments: Moments) -> dict[str, Virials]:
    """The virial of each parameter that has points, for the variance of all draws."""
    sampler, places = engine.kernel.sampler, part(points, "place")
    if not places:
        return {}
    like = split(engine.example, engine.kernel.blocks)[0]
    slopes = _felt(sampler, like, places, part(points, "slope"))
    temperature, variance, alone = float(at(sampler.temperature, 0)), moments.pooled()[1], moments.variance()
    return {
        name: Virials.of(x, slopes[name], variance[name], temperature).with_chance(alone[name])
        for name, x in places.items()
    }


def _felt(
    sampler: Any, like: Params, places: dict[str, np.ndarray], slopes: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:  # fmt: skip
    """Gradients as the marginals feel them, by points of other chains, or by the coordinates of the sampler."""
    chains, count = next(iter(places.values())).shape[:2]
    flat = [np.concatenate([v.reshape(chains, count, -1) for v in t.values()], axis=2) for t in (places, slopes)]
    felt = marginal_slopes(*flat)
    if felt is None and not sampler.own_directions:
        return slopes
    if felt is None:
        tree = jax.tree.unflatten(jax.tree.structure(like), list(slopes.values()))
        return {name: np.asarray(v) for name, v in named_leaves(jax.vmap(jax.vmap(sampler.marginal))(tree)).items()}
    ends = np.cumsum([v[0, 0].size for v in places.values()])[:-1]
    parts = np.split(felt, ends, axis=2)
    return {name: new.reshape(old.shape) for (name, old), new in zip(slopes.items(), parts, strict=True)}


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
