"""Which momenta share a thermostat: frictions that adapt until the kinetic energy is right.

    a number for n coordinates    xi <- xi + h (p'p/n - T)
    a matrix for a leaf           Xi <- Xi + h (p p' - T I)
    a matrix along V              X  <- X  + h (V'p p'V - T I),    xi <- xi + h (|p - V V'p|^2 / (n - r) - T)

The friction of the last is V X V' + xi (I - V V'). All of them keep exp(-U/T), whatever the constant noise of the
gradient, if the friction can take the form of that noise; of noise of another form they absorb the mean (Ding et al.
2014: the theorem, equation 10, and the matrix of equation 11 with mu = 1). So one number is right where all coordinates
are equally noisy, a number for each leaf or coordinate where noise differs between these, a matrix where it is
correlated too. A matrix costs n^3 operations a step; along r directions it costs n r + r^3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.parts import part
from scirocco.core.program import program_part
from scirocco.core.types import Array, Number, Params
from scirocco.integrators.matrix import LowRank, Matrix
from scirocco.manifolds import Geometry, Manifold

Levels = Callable[[Any, Any], Any]
"""(noise in units of friction, step size) -> where a thermostat settles, in numbers"""


class Thermostats(ABC):
    """What a thermostat is, how it is driven, and the friction that momenta feel of it."""

    @abstractmethod
    def start(self, level: Array, like: Params) -> Params:
        """At the same level in all directions."""

    @abstractmethod
    def driven(
        self, thermostat: Params, momentum: Params, h: Params, temperature: Number, geometry: Geometry, share: float
    ) -> Params:  # fmt: skip
        """After a share of a step, in which the momentum stays as it is."""

    @abstractmethod
    def friction(self, thermostat: Params, like: Params) -> Params:
        """The friction of each leaf: a number, numbers or a matrix."""

    @abstractmethod
    def settled(self, levels: Levels, noise: Params, h: Params) -> Params:
        """Where noise of these sizes, one for each coordinate, brings it."""

    def along(self, thermostat: Params, like: Params) -> Params:
        """The friction of each coordinate by itself."""
        return self.friction(thermostat, like)

    def check(self, position: Params, geometry: Geometry, h: Params, diffusion: Params) -> None:
        """Reject parameters and settings that it is not for, on the host."""
        del position, geometry, h, diffusion


class One(Thermostats):
    """One number for all coordinates."""

    def start(self, level: Array, like: Params) -> Params:
        """The level."""
        return level

    def driven(
        self, thermostat: Params, momentum: Params, h: Params, temperature: Number, geometry: Geometry, share: float
    ) -> Params:  # fmt: skip
        """Driven by the kinetic energy of all coordinates."""
        total = sum(jax.tree.leaves(_surpluses(momentum, h, temperature, geometry)))
        return thermostat + share * total / geometry.dimension(momentum)

    def friction(self, thermostat: Params, like: Params) -> Params:
        """The same for all leaves."""
        return jax.tree.map(lambda _: thermostat, like)

    def settled(self, levels: Levels, noise: Params, h: Params) -> Params:
        """At the level of the mean noise."""
        noises, steps = jax.tree.leaves(noise), jax.tree.leaves(h)
        mean = sum(np.sum(leaf) for leaf in noises) / sum(leaf.size for leaf in noises)
        return levels(mean, sum(np.mean(leaf) for leaf in steps) / len(steps))


class OfLeaf(Thermostats):
    """A number for each array of parameters."""

    def start(self, level: Array, like: Params) -> Params:
        """The level for each leaf."""
        return jax.tree.map(lambda _: level, like)

    def driven(
        self, thermostat: Params, momentum: Params, h: Params, temperature: Number, geometry: Geometry, share: float
    ) -> Params:  # fmt: skip
        """Driven by the kinetic energy of the leaf."""
        surpluses = _surpluses(momentum, h, temperature, geometry)
        degrees = geometry.each(lambda m, p: m.dimension(p.shape), momentum)
        return jax.tree.map(lambda t, s, n: t + share * s / n, thermostat, surpluses, degrees)

    def friction(self, thermostat: Params, like: Params) -> Params:
        """The thermostats."""
        return thermostat

    def settled(self, levels: Levels, noise: Params, h: Params) -> Params:
        """At the level of the mean noise of the leaf."""
        return jax.tree.map(lambda v, h: levels(np.mean(v), np.mean(h)), noise, h)


class Flat(Thermostats):
    """Coordinates of a point of a manifold have no momenta of their own."""

    name: str

    def check(self, position: Params, geometry: Geometry, h: Params, diffusion: Params) -> None:
        """Reject manifolds."""
        if not geometry.flat:
            raise ValueError(
                f"thermostats={self.name} gives coordinates frictions of their own, and coordinates of a point of a "
                'manifold have no momenta of their own: use one thermostat, thermostats="one", or "leaf"'
            )


class OfCoordinate(Flat):
    """A number for each coordinate."""

    name = '"coordinate"'

    def start(self, level: Array, like: Params) -> Params:
        """The level for each coordinate."""
        return jax.tree.map(lambda p: jnp.full_like(p, level), like)

    def driven(
        self, thermostat: Params, momentum: Params, h: Params, temperature: Number, geometry: Geometry, share: float
    ) -> Params:  # fmt: skip
        """Driven by the kinetic energy of the coordinate."""
        return jax.tree.map(lambda t, p, h: t + share * (h * (p * p - temperature)), thermostat, momentum, h)

    def friction(self, thermostat: Params, like: Params) -> Params:
        """The thermostats."""
        return thermostat

    def settled(self, levels: Levels, noise: Params, h: Params) -> Params:
        """At the level of the noise of the coordinate."""
        return jax.tree.map(levels, noise, h)


class OfMatrix(Flat):
    """A matrix for each array of parameters."""

    name = '"matrix"'

    def check(self, position: Params, geometry: Geometry, h: Params, diffusion: Params) -> None:
        """Reject manifolds, and steps that differ within a leaf."""
        super().check(position, geometry, h, diffusion)
        _require_numbers(self.name, "step_size", h)

    def start(self, level: Array, like: Params) -> Params:
        """The level along the diagonal."""
        return jax.tree.map(lambda p: level * jnp.eye(p.size, dtype=p.dtype), like)

    def driven(
        self, thermostat: Params, momentum: Params, h: Params, temperature: Number, geometry: Geometry, share: float
    ) -> Params:  # fmt: skip
        """Driven by the products of all momenta of the leaf."""
        return jax.tree.map(lambda t, p, h: t + share * h * _spread(p.ravel(), temperature), thermostat, momentum, h)

    def friction(self, thermostat: Params, like: Params) -> Params:
        """A matrix for each leaf."""
        return jax.tree.map(lambda _, t: Matrix(t), like, thermostat)

    def settled(self, levels: Levels, noise: Params, h: Params) -> Params:
        """At the levels of the coordinates, uncorrelated."""
        return jax.tree.map(lambda v, h: np.diag(np.ravel(levels(v, h))), noise, h)

    def along(self, thermostat: Params, like: Params) -> Params:
        """The diagonal."""
        return jax.tree.map(lambda p, t: jnp.diagonal(t).reshape(p.shape), like, thermostat)


class Within(NamedTuple):
    """The thermostats of a leaf: a matrix along its directions, and a number for the rest."""

    along: Any
    rest: Any


@part
@program_part
@dataclass(frozen=True, eq=False)
class AlongDirections(Flat):
    """A matrix along some directions of each array of parameters, a number for what is orthogonal to them.

    ``basis`` is a tree like the parameters, of arrays (n, r) with orthonormal columns for an array of n parameters:
    ``noise_directions`` finds those in which minibatches are noisiest.

    >>> AlongDirections(np.eye(3)[:, :1]).basis.shape
    (3, 1)
    """

    name = "AlongDirections(...)"

    basis: Params = field(metadata={"keep": True})

    def check(self, position: Params, geometry: Geometry, h: Params, diffusion: Params) -> None:
        """Reject manifolds, numbers that differ within a leaf, and a basis that is none."""
        super().check(position, geometry, h, diffusion)
        _require_numbers(self.name, "step_size", h)
        if callable(diffusion):
            raise ValueError(f"thermostats={self.name} takes no noise_estimate that is measured or a function")
        _require_numbers(self.name, "noise_estimate", diffusion)
        got, want = (str(jax.tree.structure(tree)) for tree in (self.basis, position))
        if got != want:
            raise ValueError(f"basis must have the structure of the sampled parameters, {want}; got {got}")
        for leaf, x in zip(jax.tree.leaves(self.basis), jax.tree.leaves(position), strict=True):
            v, n = np.asarray(leaf, np.float64), int(np.size(x))
            if v.ndim != 2 or len(v) != n or not 0 < v.shape[1] < n:
                raise ValueError(
                    f"basis must have arrays of {n} rows, one for each parameter of the leaf, and of fewer columns "
                    f'(for all directions take "matrix"); got the shape {v.shape}'
                )
            if not np.allclose(v.T @ v, np.eye(v.shape[1]), atol=1e-4):
                raise ValueError("basis must have orthonormal columns: numpy.linalg.qr makes them so")

    def start(self, level: Array, like: Params) -> Params:
        """The level in all directions."""
        return jax.tree.map(
            lambda p, v: Within(level * jnp.eye(v.shape[1], dtype=p.dtype), level.astype(p.dtype)), like, self.basis
        )

    def driven(
        self, thermostat: Params, momentum: Params, h: Params, temperature: Number, geometry: Geometry, share: float
    ) -> Params:  # fmt: skip
        """Driven by the products of the momenta along the directions, and by the kinetic energy of the rest."""

        def one(p: Array, t: Within, v: Any, h: Number) -> Within:
            inside = jnp.asarray(v.T, p.dtype) @ p.ravel()
            rest = (jnp.sum(p * p) - inside @ inside) / (p.size - len(inside)) - temperature
            return Within(t.along + share * h * _spread(inside, temperature), t.rest + share * h * rest)

        return jax.tree.map(one, momentum, thermostat, self.basis, h)

    def friction(self, thermostat: Params, like: Params) -> Params:
        """A matrix of low rank and a number for each leaf."""
        return jax.tree.map(lambda p, t, v: LowRank(jnp.asarray(v, p.dtype), *t), like, thermostat, self.basis)

    def settled(self, levels: Levels, noise: Params, h: Params) -> Params:
        """At the levels of the noise along each direction, and of the mean noise of the rest."""

        def one(noise: Any, v: Any, h: Any) -> Within:
            v, noise = np.asarray(v, np.float64), np.ravel(noise)
            inside = v.T**2 @ noise
            rest = (noise.sum() - inside.sum()) / (noise.size - inside.size)
            return Within(np.diag(levels(inside, np.mean(h))), levels(rest, np.mean(h)))

        return jax.tree.map(one, noise, self.basis, h)

    def along(self, thermostat: Params, like: Params) -> Params:
        """The diagonal."""

        def one(p: Any, t: Within, v: Any) -> Any:
            inside = jnp.einsum("ir,rs,is->i", v, t.along, v)
            return (inside + t.rest * (1 - jnp.sum(jnp.square(v), axis=1))).reshape(p.shape)

        return jax.tree.map(one, like, thermostat, self.basis)


KINDS: dict[str, Thermostats] = {
    "one": One(), "leaf": OfLeaf(), "coordinate": OfCoordinate(), "matrix": OfMatrix()
}  # fmt: skip


def _surpluses(momentum: Params, h: Params, temperature: Number, geometry: Geometry) -> Params:
    """h (p'p - m T) of each leaf, with one h for each point of a manifold, whose dimension m is."""

    def surplus(m: Manifold, p: Array, h: Number) -> Array:
        degrees = m.dimension(p.shape) / p.size  # of a coordinate: less than 1 on a manifold
        return jnp.sum(h * (p * p - degrees * temperature))

    return geometry.each(surplus, momentum, h)


def _spread(p: Array, temperature: Number) -> Array:
    """p p' - T I."""
    return jnp.outer(p, p) - temperature * jnp.eye(p.size, dtype=p.dtype)


def _require_numbers(kind: str, name: str, setting: Params) -> None:
    for value in jax.tree.leaves(setting):
        if np.size(value) != 1:
            raise ValueError(f"thermostats={kind} wants one {name} for each leaf; got the shape {np.shape(value)}")
