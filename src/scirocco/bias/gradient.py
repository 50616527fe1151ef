"""The bias report of gradient chains, from what their engine measured."""

from __future__ import annotations

import jax
import numpy as np

from scirocco.bias.combinations import Combination, in_words, worst_combinations
from scirocco.bias.report import BiasReport, bias_report, moment_rhat, spread_apart
from scirocco.bias.virials import Curvature, Virials, marginal_slopes, on_manifold
from scirocco.core.trees import named_leaves
from scirocco.gradient.blocks import split
from scirocco.gradient.engine import GradientEngine
from scirocco.manifolds import Euclidean
from scirocco.run.checkpoint import part
from scirocco.run.engine import Measured
from scirocco.run.moments import Moments
from scirocco.run.trace import coordinate
from scirocco.samplers.base import Strain, at
from scirocco.samplers.preconditioned import Preconditioned


def gradient_report(engine: GradientEngine, moments: Moments, measured: Measured) -> BiasReport | None:
    """The report on all chains of a run."""
    kernel, probed = engine.kernel, measured.probed
    direction, strain = part(probed, "direction"), part(probed, "strain")
    noise, curvature = part(probed, "noise"), part(probed, "curvature")
    mean, variance = moments.pooled()
    if not kernel.target.geometry.flat:
        variance = variance | _in_units_of_velocity(engine, mean, variance)
    points = _Points(engine, measured.points, moments)
    return bias_report(
        kernel.sampler, engine.mean_state(probed), variance, noise, curvature, kernel.epoch,
        (direction, Strain(**strain)) if strain else None,
        r_hat=moment_rhat(moments.mean, moments.variance(), moments.count),
        started_apart=spread_apart(moments.start, moments.variance()),
        virials=points.virials(), worst=points.worst(),
    )  # fmt: skip


class _Points:
    """The points of a run with gradients, and what the virial identity says of them.

    In flat space parameters may be judged together: by the curvature that they show, and in combinations. Leaves on
    manifolds are judged coordinate by coordinate.
    """

    def __init__(self, engine: GradientEngine, points: dict[str, np.ndarray], moments: Moments) -> None:
        self.sampler, self.moments = engine.kernel.sampler, moments
        self.places, self.slopes = part(points, "place"), part(points, "slope")
        self.temperature = float(at(self.sampler.temperature, 0)) if self.places else 1.0
        self.like = split(engine.example, engine.kernel.blocks)[0]
        self.manifolds = named_leaves(engine.kernel.target.geometry.each(lambda manifold, _: manifold, self.like))
        self.flat = [name for name in self.places if isinstance(self.manifolds[name], Euclidean)]
        self.curvatures = Curvature.of_halves(*self._side_by_side) if self.flat else None

    @property
    def _side_by_side(self) -> tuple[np.ndarray, np.ndarray]:
        """Places and slopes of all parameters in flat space, (chain, point, coordinate)."""
        place, slope = (
            np.concatenate([t[name].reshape(*t[name].shape[:2], -1) for name in self.flat], axis=2)
            for t in (self.places, self.slopes)
        )
        return place, slope

    def virials(self) -> dict[str, Virials]:
        """Of each parameter, for the variance of all draws."""
        variance, alone, felt = self.moments.pooled()[1], self.moments.variance(), self._felt()

        def one(name: str, x: np.ndarray) -> Virials:
            if name in felt:
                return Virials.of(x, felt[name], variance[name], self.temperature)
            y, slopes, steepness = on_manifold(self.manifolds[name], x, self.slopes[name], self.temperature)
            of_y, of_x = (np.var(np.asarray(v, np.float64), axis=(0, 1)) for v in (y, x))
            spread = variance[name] * of_y / np.maximum(of_x, np.finfo(np.float64).tiny)  # draws are of x
            return Virials.of(y, slopes, spread, self.temperature, steepness)

        return {name: one(name, x).with_chance(alone[name]) for name, x in self.places.items()}

    def _felt(self) -> dict[str, np.ndarray]:
        """Gradients in flat space as the marginals feel them, by points of other chains, or by the coordinates of the
        sampler."""
        slopes = {name: self.slopes[name] for name in self.flat}
        if not slopes or (self.curvatures is None and not self.sampler.own_directions):
            return slopes  # a short run has no points
        if self.curvatures is None:
            tree = jax.tree.unflatten(jax.tree.structure(self.like), list(slopes.values()))
            felt = jax.vmap(jax.vmap(self.sampler.marginal))(tree)
            return {name: np.asarray(v) for name, v in named_leaves(felt).items()}
        ends = np.cumsum([v[0, 0].size for v in slopes.values()])[:-1]
        parts = np.split(marginal_slopes(self._side_by_side[1], self.curvatures), ends, axis=2)
        return {name: new.reshape(old.shape) for (name, old), new in zip(slopes.items(), parts, strict=True)}

    def worst(self) -> list[tuple[str, Combination]]:
        """The narrowest and the widest combination of parameters in flat space, with words for it.

        Parameters that never moved are left out: their virials say so, and they would hide what is wrong elsewhere.
        """
        if not self.flat:
            return []
        x, g = (a.astype(np.float64) for a in self._side_by_side)
        moves = np.ptp(x, axis=(0, 1)) > 0
        if moves.sum() < 2:
            return []
        scale = self.sampler.scale if isinstance(self.sampler, Preconditioned) and self.curvatures is None else None
        curvatures = self.curvatures
        if not moves.all():
            x, g, scale = x[..., moves], g[..., moves], None
            curvatures = Curvature.of_halves(x, g)
        sd = x.std(axis=(0, 1))
        if scale is not None:
            x, g = scale.backward(x), np.apply_along_axis(scale.transposed, 2, g)
        found = worst_combinations(x, g, self.temperature, curvatures)
        labels = [
            coordinate(name, index) for name in self.flat for index in np.ndindex(self.places[name].shape[2:])
        ]  # fmt: skip
        labels = [label for label, moved in zip(labels, moves, strict=True) if moved]
        weights = [c.weights if scale is None else scale.backward_transposed(c.weights) for c in found]
        return [(in_words(w * sd, labels), c) for w, c in zip(weights, found, strict=True)]


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
