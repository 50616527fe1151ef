"""The probability simplex, through the positive orthant of the sphere.

    theta_j = x_j^p / sum_l x_l^p,  x on the sphere
    log p(x) = log p(theta) + (p - 1) sum_j log x_j - K log sum_l x_l^p

for densities on the sphere's area and on the simplex. With p = 2 this is theta = x^2 of Byrne and Girolami (2013),
whose density gains the product of the x_j. The position is theta, the velocity that of x; where x would leave the
orthant it is reflected, which is the flow on the whole sphere with signs dropped.

At theta_j = 0 a Dirichlet density theta^(a - 1) becomes x^(p a - 1): with p = 2 it repels for a > 1/2 and is infinite
for a < 1/2, where no step is short enough. ``power`` 1/a makes it flat there, so that sparse laws are as easy as
others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.types import Array, Key, Number
from scirocco.manifolds.base import Manifold, Shape
from scirocco.manifolds.sphere import Sphere, normalised

FLOOR = 1e-30  # of a probability: logarithms and their gradients stay finite in single precision


@dataclass(frozen=True)
class Simplex(Manifold):
    """Positive numbers with the sum 1 along the last axis; ``power`` is p, best near 1 over the smallest Dirichlet
    parameter of the posterior where that is below 1/2.

    >>> theta = jnp.array([0.2, 0.3, 0.5])
    >>> new, v = Simplex().flow(theta, Simplex().project(theta, jnp.array([1.0, 0.0, 0.0])), 0.1)
    >>> print(new.sum().round(5), bool(new[0] > 0.2), Simplex().dimension((3,)))
    1.0 True 2
    """

    power: float = 2.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.power) and self.power >= 1):
            raise ValueError(f"power must be a number of at least 1; got {self.power!r}")

    def flow(self, x: Array, v: Array, t: Number) -> tuple[Array, Array]:
        """A great circle of the sphere, reflected at the borders of the orthant."""
        root, velocity = Sphere().flow(self.root(x), v, t)
        sign = jnp.where(root < 0, -1, 1).astype(v.dtype)
        return self._powers(jnp.abs(root)), sign * velocity

    def project(self, x: Array, u: Array) -> Array:
        """The part of ``u`` that is tangent to the sphere at the root of the point."""
        return Sphere().project(self.root(x), u)

    def slope(self, x: Array, gradient: Array, temperature: Number = 1.0) -> Array:
        """The gradient on the sphere: by the chain rule, and of the change of measure."""
        pull, warm = x * gradient, jnp.asarray(temperature, x.dtype)
        inside = pull + x * (warm * x.shape[-1] - jnp.sum(pull, axis=-1, keepdims=True)) - warm * (1 - 1 / self.power)
        return self.project(x, self.power * inside / self.root(x))

    def change(self, x: Array) -> Array:
        """The log of the user's measure over that of the sphere, (p - 1) sum log x_j - K log sum x_l^p."""
        root = self.root(x)
        total = jnp.sum(root**self.power, axis=-1)
        return jnp.sum((self.power - 1) * jnp.sum(jnp.log(root), axis=-1) - x.shape[-1] * jnp.log(total))

    def pace(self, x: Array) -> Array:
        """How fast each probability moves at unit velocity on the sphere: p theta (1 - theta) / x."""
        return self.power * x * (1 - x) / self.root(x)

    def root(self, x: Array) -> Array:
        """The point of the sphere that stands for a point of the simplex."""
        return normalised(jnp.maximum(x, FLOOR) ** (1 / self.power))

    def _powers(self, root: Array) -> Array:
        powers = jnp.maximum(root**self.power, FLOOR)
        return powers / jnp.sum(powers, axis=-1, keepdims=True)

    def coordinates(self, x: Array) -> Array:
        """The squares of the point on the sphere: for power 2 the probabilities, and flat across borders for any."""
        return self.root(x) ** 2

    def rates(self, x: Array, v: Array) -> Array:
        """Of squares: 2 x v on the sphere."""
        return 2 * self.root(x) * v

    def steepness(self, x: Array) -> Array:
        """Of squares: 4 x^2 (1 - x^2) on the sphere."""
        square = self.coordinates(x)
        return 4 * square * (1 - square)

    def laplacian(self, x: Array) -> Array:
        """Of squares: 2 - 2 K x^2 on the sphere."""
        return 2 - 2 * x.shape[-1] * self.coordinates(x)

    def random(self, key: Key, shape: Shape, dtype: Any = jnp.float32) -> Array:
        """Points from the uniform law, Dirichlet(1, ..., 1)."""
        draws = jax.random.exponential(key, shape, dtype)
        return draws / jnp.sum(draws, axis=-1, keepdims=True)

    def dimension(self, shape: Shape) -> int:
        """One less than the probabilities of a point, times the points."""
        return self.points(shape) * (shape[-1] - 1)

    def nearest(self, x: Array) -> Array:
        """The nearest in the Euclidean sense that has no zeros: sort, take off a threshold, clip."""
        k = x.shape[-1]
        ordered = -jnp.sort(-x, axis=-1)
        excess = (jnp.cumsum(ordered, axis=-1) - 1) / jnp.arange(1, k + 1)
        count = jnp.sum(ordered > excess, axis=-1, keepdims=True)
        clipped = jnp.maximum(x - jnp.take_along_axis(excess, count - 1, axis=-1), FLOOR).astype(x.dtype)
        return clipped / jnp.sum(clipped, axis=-1, keepdims=True)

    def check_shape(self, shape: Shape) -> None:
        """Reject points of fewer than two probabilities."""
        super().check_shape(shape)
        if shape[-1] < 2:
            raise ValueError(f"points of a simplex need 2 entries or more along the last axis; got the shape {shape}")
