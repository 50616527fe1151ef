"""The bias report of gradient chains, from what their engine measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.bias.combinations import Combination, in_words, worst_combinations
from scirocco.bias.report import BiasReport, bias_report, moment_rhat, spread_apart
from scirocco.bias.shifts import MOST, Shift, possible, shifts
from scirocco.bias.strain import strain
from scirocco.bias.tours import tour_noise
from scirocco.bias.virials import Chart, Curvature, Virials, marginal_slopes, on_manifold
from scirocco.constraints import Parametrisation
from scirocco.core.trees import named_leaves
from scirocco.core.types import Array, Params
from scirocco.gradient.blocks import split
from scirocco.gradient.engine import GradientEngine
from scirocco.gradient.feeds import Travelling
from scirocco.manifolds import Euclidean
from scirocco.run.checkpoint import part
from scirocco.run.engine import Measured
from scirocco.run.moments import Moments
from scirocco.run.trace import coordinate
from scirocco.samplers.base import Strain, at
from scirocco.samplers.preconditioned import Preconditioned

MOST_SLOPES = 10**7  # of parameters by free numbers
LEAST_OFF = 0.03  # of sds: bias that goes unnoticed
SMALL_SHIFT = 0.1  # sds: what cannot be larger is not measured
NEARLY = 0.1  # of the variance of parameters: what other numbers than their own may have in it, if they are many


def gradient_report(engine: GradientEngine, moments: Moments, measured: Measured) -> BiasReport | None:
    """The report on all chains of a run."""
    kernel, probed = engine.kernel, measured.probed
    direction, strain = part(probed, "direction"), part(probed, "strain")
    noise, curvature = part(probed, "noise"), part(probed, "curvature")
    free = moments.free()
    mean, variance = free.pooled()
    if not kernel.target.geometry.flat:
        variance = variance | _in_units_of_velocity(engine, mean, variance)
    travelling = None
    if isinstance(kernel.feed, Travelling):
        centre = kernel.target.geometry.nearest(_like(engine.example, mean))
        chains = len(next(iter(free.mean.values())))
        travelling = tour_noise(engine, kernel.feed, centre, part(measured.points, "place"), chains)
        noise = travelling.within
        measured = measured._replace(points=measured.points | {f"slope/{n}": a for n, a in travelling.slopes.items()})
    points = _Points(engine, measured.points, moments)
    report = bias_report(
        kernel.sampler, engine.mean_state(probed), variance, noise, curvature, kernel.epoch,
        (direction, Strain(**strain)) if strain else None,
        r_hat=moment_rhat(moments.shown().mean, moments.shown().variance(), moments.count),
        started_apart=spread_apart(free.start, free.variance()),
        virials=points.virials(), worst=points.worst(), travelling=travelling,
    )  # fmt: skip
    if report is None:
        return None
    found = points.shifts(engine, abs(report.worst[1]))
    return replace(
        _in_parameters(report, engine, mean, variance), strain=points.strain(engine),
        shift={name: s.size for name, s in found.items()}, shift_error={name: s.error for name, s in found.items()},
        shift_chance={name: s.chance for name, s in found.items()},
    )  # fmt: skip


class _Points:
    """The points of a run with gradients, and what the virial identity says of them.

    Parameters may be judged together: in flat space by the curvature that they show, and in combinations of them and
    of coordinates on manifolds.
    """

    def __init__(self, engine: GradientEngine, points: dict[str, np.ndarray], moments: Moments) -> None:
        self.sampler, self.moments, self.shown = engine.kernel.sampler, moments.free(), moments.shown()
        self.places, self.slopes = part(points, "place"), part(points, "slope")
        self.temperature = float(at(self.sampler.temperature, 0)) if self.places else 1.0
        self.axes = engine.kernel.target.axes
        self.like = split(engine.example, engine.kernel.blocks)[0]
        self.constrained = engine.kernel.target.to_parameters.constrained_names(self.like)
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

    def strain(self, engine: GradientEngine) -> float:
        """See ``bias.strain``; measured where tuning has found that the posterior is far from Gaussian."""
        sampler, kernel = self.sampler, engine.kernel
        if not isinstance(sampler, Preconditioned) or sampler.starts is None or not self.places or kernel.blocks:
            return 0.0
        return strain(kernel.target, sampler, *self._side_by_side, self.like, kernel.seed)

    def shifts(self, engine: GradientEngine, sd_error: float) -> dict[str, Shift]:
        """How far the means of parameters are off; of none where that cannot be much, or takes too long."""
        spreads = self._spreads()
        exact = self.sampler.full_data or self.sampler.exact_minibatches
        if not spreads or exact or engine.kernel.blocks:
            return {}
        x, g = self._side_by_side
        if max(possible(x, g, spread, 2 * max(sd_error, LEAST_OFF)) for spread in spreads) < SMALL_SHIFT:
            return {}
        kernel, means, variances = engine.kernel, self.shown.mean, self.shown.variance()
        found = shifts(
            kernel.target, self.like, x, g, self.shown.pooled()[0], spreads, self.temperature, kernel.seed
        )  # fmt: skip
        return {name: Shift.of(moved, means[name], variances[name]) for name, moved in found.items()}

    def _spreads(self) -> tuple[np.ndarray, ...]:
        """The inverse of the mean Hessian as each half of the chains shows it, or as tuning found it."""
        size = sum(self.places[name][0, 0].size for name in self.flat)
        if not self.flat or len(self.flat) < len(self.places) or size > MOST:
            return ()
        if self.curvatures is not None:
            return tuple(curvature.inverse() for curvature in self.curvatures)
        if not isinstance(self.sampler, Preconditioned):
            return ()
        root = np.stack([np.asarray(self.sampler.scale.forward(row)) for row in np.eye(size)])
        return (root.T @ root,) * 2

    def worst(self) -> list[tuple[str, Combination]]:
        """The narrowest and the widest combination of parameters, with words for it.

        Parameters that never moved are left out: their virials say so, and they would hide what is wrong elsewhere.
        """
        parts = [self._together(name) for name in self.places if self._suits(name)]
        if not parts:
            return []
        x, g = (np.concatenate([getattr(p, side) for p in parts], axis=2) for side in ("places", "slopes"))
        moves = np.ptp(x, axis=(0, 1)) > 0
        if moves.sum() < 2:
            return []
        alone = len(self.flat) == len(self.places) and moves.all()
        curvatures = self.curvatures if alone else Curvature.of_halves(x[..., moves], g[..., moves])
        scale = self.sampler.scale if alone and isinstance(self.sampler, Preconditioned) and not curvatures else None
        x, g = x[..., moves], g[..., moves]
        if scale is not None:
            x, g = scale.backward(x), np.apply_along_axis(scale.transposed, 2, g)
        found = worst_combinations(x, g, self.temperature, curvatures)
        labels = [label for part in parts for label in part.labels]
        ends = np.cumsum([part.places.shape[2] for part in parts])[:-1]

        def shown(combination: Combination) -> np.ndarray:
            """Weights of parameters in units of their sds."""
            own = combination.weights if scale is None else scale.backward_transposed(combination.weights)
            weights = np.zeros(len(moves))
            weights[moves] = own
            return np.concatenate([p.weights(w) for p, w in zip(parts, np.split(weights, ends), strict=True)])

        return [(in_words(shown(c), labels), c) for c in found]

    def _suits(self, name: str) -> bool:
        return name in self.flat or Chart.suits(self.manifolds[name], self.places[name].shape[2:])

    def _together(self, name: str) -> _Together:
        """A parameter in coordinates in which the identity is that of flat space."""
        place, slope = self.places[name], self.slopes[name]
        called = f"free {name}" if name in self.constrained else name
        labels = [coordinate(called, entries) for entries in self.axes.entries(name, place.shape[2:])]
        if name in self.flat:
            x, g = (a.reshape(*a.shape[:2], -1).astype(np.float64) for a in (place, slope))
            return _Together(x, g, labels, x.std(axis=(0, 1)))
        chart = Chart.of(self.manifolds[name], place, slope, self.temperature)
        return _Together(chart.places, chart.slopes, labels, chart.sd, chart.back)


class _Together(NamedTuple):
    """Coordinates of a parameter, (chain, point, coordinate), that may be combined with those of others."""

    places: np.ndarray
    slopes: np.ndarray
    labels: list[str]
    sd: np.ndarray
    back: np.ndarray | None = None

    def weights(self, combination: np.ndarray) -> np.ndarray:
        """A combination of the coordinates, as one of the entries of the parameter in units of their sds."""
        return (combination if self.back is None else self.back @ combination) * self.sd


def _in_parameters(
    report: BiasReport, engine: GradientEngine, mean: dict[str, np.ndarray], variance: dict[str, np.ndarray]
) -> BiasReport:  # fmt: skip
    """What was found of the free numbers that chains move, of the parameters that users see.

    To first order a function of free numbers is off as they are, each by its share of the variance of the function.
    """
    like, change = split(engine.example, engine.kernel.blocks)[0], engine.kernel.target.to_parameters
    names = change.constrained_names(like)
    if not names:
        return report
    place = _like(like, mean)
    shares = {name: _shares(change, place, name, np.sqrt(variance[name])) for name in names}

    def carried(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {n: found if shares.get(n) is None else shares[n] @ np.ravel(found) for n, found in values.items()}

    parts = ("minibatch_share", "sd_error", "virial", "virial_error", "conflicts")
    new: dict[str, Any] = {part: carried(getattr(report, part)) for part in parts}
    new["conflicts"] = {name: np.asarray(found) > 0.5 for name, found in new["conflicts"].items()}
    return replace(report, **new)


def _shares(change: Parametrisation, place: Params, name: str, sd: np.ndarray) -> np.ndarray | None:
    """The share of each free number in the variance of a parameter, (..., free number); None if it has one of its own.

    Where there are too many numbers for that, each is its own if that is nearly so, and otherwise all are the same.
    """
    leaves, structure = jax.tree.flatten(place)
    number = list(named_leaves(place)).index(name)

    def parameter(free: Array) -> Array:
        moved = [*leaves[:number], free, *leaves[number + 1 :]]
        return named_leaves(change.parameters(jax.tree.unflatten(structure, moved)))[name]

    own = jnp.asarray(leaves[number])
    shape = jax.eval_shape(parameter, own).shape
    if shape == own.shape:
        signs = np.random.default_rng(0).choice(np.array([-1, 1], own.dtype), (2, *shape))
        moves = [np.asarray(jax.jvp(parameter, (own,), (z,))[1]) * z for z in signs]
        if np.allclose(moves[0], moves[1], rtol=1e-4):  # J z * z is the same for any signs if J is diagonal
            return None
        few = own.size**2 <= MOST_SLOPES
        if not few and np.sum((moves[0] - moves[1]) ** 2) < NEARLY * np.sum(moves[0] ** 2):
            return None
    size = int(np.prod(shape, dtype=int))
    if size * own.size > MOST_SLOPES:
        return np.broadcast_to(1 / own.size, (*shape, own.size))
    sizes = (np.asarray(jax.jacfwd(parameter)(own), np.float64) * sd) ** 2
    sizes = sizes.reshape(*shape, -1)
    return sizes / np.maximum(sizes.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny)


def _like(tree: Params, values: dict[str, np.ndarray]) -> Params:
    """Values by name in the form of a tree."""
    leaves = [np.asarray(values[name], leaf.dtype) for name, leaf in named_leaves(tree).items()]
    return jax.tree.unflatten(jax.tree.structure(tree), leaves)


def _in_units_of_velocity(
    engine: GradientEngine, mean: dict[str, np.ndarray], variance: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The variances in the coordinates in which noise and curvature were measured, those of the manifold's
    velocities."""
    like = split(engine.example, engine.kernel.blocks)[0]
    names, place = list(named_leaves(like)), _like(like, mean)
    geometry = engine.kernel.target.geometry
    pace = named_leaves(geometry.pace(geometry.nearest(place)))
    return {n: variance[n] / np.asarray(pace[n], np.float64) ** 2 for n in names}
