"""A product of manifolds, one for each leaf of a pytree of parameters.

    Geometry.of({"topics": Sphere(), "weights": Simplex()})      leaves that are not named are Euclidean

The flow of a product is the flow of its factors, its tangent space theirs, side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.trees import Path, named_leaves, names_of, normal_like, part_at
from scirocco.core.types import Array, Key, Params
from scirocco.manifolds.base import Manifold, nearest
from scirocco.manifolds.euclidean import Euclidean

NEAR = 1e-3  # how far a start may be off: single precision and files with few digits


@dataclass(frozen=True)
class Geometry:
    """Where the leaves of a pytree live: ``parts`` are paths of leaves, or of what holds them, and their manifolds.

    Compared by value, so that compiled programs can be made for it. All methods take and return trees like the
    parameters.
    """

    parts: tuple[tuple[Path, Manifold], ...] = ()
    temperature: Any = field(default=1.0, compare=False)

    @classmethod
    def of(cls, manifold: Any) -> Geometry:
        """From a manifold for all leaves, a pytree of them by the names of the parameters, or None for flat space."""
        if isinstance(manifold, cls):
            return manifold
        found = jax.tree_util.tree_flatten_with_path(manifold, is_leaf=lambda m: isinstance(m, Manifold))[0]
        wrong = [value for _, value in found if not isinstance(value, Manifold)]
        if wrong:
            raise TypeError(
                f"manifold must be a manifold such as scirocco.manifolds.Sphere(), or a pytree of them by the names of "
                f"the parameters; got {wrong[0]!r}"
            )
        return cls(tuple((names_of(path), value) for path, value in found if not isinstance(value, Euclidean)))

    @property
    def flat(self) -> bool:
        """Whether all of it is Euclidean."""
        return not self.parts

    def each(self, function: Callable[..., Any], tree: Params, *rest: Params) -> Params:
        """``function(manifold, leaf, ...)`` for each leaf."""
        if self.flat:
            return jax.tree.map(lambda *leaves: function(EUCLIDEAN, *leaves), tree, *rest)
        return jax.tree_util.tree_map_with_path(
            lambda path, *leaves: function(self._at(names_of(path)), *leaves), tree, *rest
        )

    def _at(self, path: Path) -> Manifold:
        return part_at(self.parts, path) or EUCLIDEAN

    def without(self, names: Any) -> Geometry:
        """The geometry of what is left when a dict of parameters loses some of its keys."""
        return Geometry(tuple((path, m) for path, m in self.parts if not path or path[0] not in names))

    def warm(self, temperature: Any) -> Geometry:
        """The same geometry for a sampler of exp(-U/T), whose ``slope`` and ``change`` depend on T."""
        return self if self.flat else replace(self, temperature=temperature)

    # What integrators need.

    def flow(self, x: Params, v: Params, h: Params) -> tuple[Params, Params]:
        """The geodesic of each leaf, with its own time; ``h`` is a tree."""
        pairs = self.each(lambda m, x, v, h: m.flow(x, v, h), x, v, h)
        return tuple(jax.tree.map(lambda _, pair, i=i: pair[i], x, pairs) for i in (0, 1))

    def project(self, x: Params, u: Params) -> Params:
        """The tangent part of each leaf."""
        return self.each(lambda m, x, u: m.project(x, u), x, u)

    def slope(self, x: Params, gradient: Params) -> Params:
        """The tangent gradient, change of measure included."""
        return self.each(lambda m, x, g: m.slope(x, g, self.temperature), x, gradient)

    def normal(self, key: Key, x: Params) -> Params:
        """A standard normal tangent vector."""
        return self.project(x, normal_like(key, x))

    def change(self, x: Params) -> Array:
        """T times the log of the user's reference measure over the Riemannian one."""
        total = sum(jax.tree.leaves(self.each(lambda m, x: m.change(x), x)), start=jnp.zeros(()))
        return self.temperature * total

    def exponential(self, x: Params, u: Params) -> Params:
        """The end of the geodesic of time 1 along the tangent part of ``u``: normal coordinates around ``x``."""
        return self.flow(x, self.project(x, u), jax.tree.map(lambda _: 1.0, x))[0]

    def pace(self, x: Params) -> Params:
        """How fast each parameter moves at unit velocity of its own coordinate."""
        return self.each(lambda m, x: m.pace(x), x)

    def dimension(self, x: Params) -> int:
        """Of all leaves together; of a sphere in R^d it is d - 1."""
        return sum(jax.tree.leaves(self.each(lambda m, leaf: m.dimension(leaf.shape), x)))

    # What users need.

    def random(self, key: Key, like: Params) -> Params:
        """Uniform points with the shapes of ``like``; Euclidean leaves stay as they are."""
        number = iter(range(10**6))

        def draw(m: Manifold, leaf: Array) -> Array:
            own = jax.random.fold_in(key, next(number))
            return leaf if isinstance(m, Euclidean) else m.random(own, leaf.shape, leaf.dtype)

        return self.each(draw, jax.tree.map(jnp.asarray, like))

    def nearest(self, x: Params) -> Params:
        """The nearest point on the manifold."""
        return self.each(nearest, jax.tree.map(jnp.asarray, x))

    def check(self, x: Params, name: str = "initial") -> None:
        """Reject what does not lie on the manifold, with its distance, on the host."""
        leaves = named_leaves(x)
        places = jax.tree_util.tree_flatten_with_path(x)[0]
        for path, _ in self.parts:
            if not any(names_of(place)[: len(path)] == path for place, _ in places):
                raise ValueError(f"manifold names {'.'.join(path)}, which is not among the parameters {sorted(leaves)}")
        for (leaf_name, leaf), (place, _) in zip(leaves.items(), places, strict=True):
            manifold = self._at(names_of(place))
            if isinstance(manifold, Euclidean):
                continue
            try:
                manifold.check_shape(np.shape(leaf))
            except ValueError as error:
                raise ValueError(f"{name}: {leaf_name}: {error}") from None
            away = manifold.distance(np.asarray(leaf))
            if not away <= NEAR:
                raise ValueError(
                    f"{name}: {leaf_name} is off its manifold {manifold!r} by {away:.3g}, more than {NEAR:g}. If the "
                    "nearest point will do, start from target.geometry.nearest(initial)"
                )


EUCLIDEAN = Euclidean()
FLAT = Geometry()
