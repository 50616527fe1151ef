"""The unit sphere S^(d-1) in R^d.

    x(t) = x cos(a t) + v sin(a t) / a,    v(t) = v cos(a t) - a x sin(a t),    a = |v|,    Lambda(x) = I - x x'

Great circles. Rounding would carry points off the sphere in a long run; each flow divides by the length and projects
the velocity, which keeps both at rounding error whatever the number of steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from scirocco.core.types import Array, Key, Number
from scirocco.manifolds.base import Manifold, Shape


@dataclass(frozen=True)
class Sphere(Manifold):
    """Unit vectors along the last axis.

    >>> x, v = Sphere().flow(jnp.array([1.0, 0.0]), jnp.array([0.0, 2.0]), jnp.pi / 4)
    >>> print(x.round(3) + 0.0, v.round(3) + 0.0, Sphere().dimension((5, 3)))
    [0. 1.] [-2.  0.] 10
    """

    def flow(self, x: Array, v: Array, t: Number) -> tuple[Array, Array]:
        """The great circle from ``x`` with velocity ``v``."""
        xx, xv, vv = (jnp.sum(a * b, axis=-1, keepdims=True) for a, b in ((x, x), (x, v), (v, v)))
        cosine, reach = _cosine_and_sine(vv, jnp.asarray(t, x.dtype))
        # The length of cosine x + reach v, and what its direction has in common with the velocity, from the products
        # above: one pass over the vectors instead of three.
        shorter = jax.lax.rsqrt(cosine * cosine * xx + 2 * cosine * reach * xv + reach * reach * vv)
        ahead, side = cosine * shorter, reach * shorter
        along = ahead * (cosine * xv - vv * reach * xx) + side * (cosine * vv - vv * reach * xv)
        return ahead * x + side * v, (cosine - along * side) * v - (vv * reach + along * ahead) * x

    def project(self, x: Array, u: Array) -> Array:
        """``u`` less its part along the radius."""
        return u - jnp.sum(x * u, axis=-1, keepdims=True) * x

    def coordinates(self, x: Array) -> Array:
        """The point itself, without what rounding added to its length."""
        return normalised(x)

    def rates(self, x: Array, v: Array) -> Array:
        """The velocity itself: the coordinates are those of the point."""
        del x
        return v

    def steepness(self, x: Array) -> Array:
        """1 - x_i^2, the diagonal of Lambda."""
        return 1 - self.coordinates(x) ** 2

    def laplacian(self, x: Array) -> Array:
        """-(d - 1) x, the mean curvature vector."""
        return (1 - x.shape[-1]) * self.coordinates(x)

    def random(self, key: Key, shape: Shape, dtype: Any = jnp.float32) -> Array:
        """Points from the uniform law: the directions of normal vectors."""
        return normalised(jax.random.normal(key, shape, dtype))

    def dimension(self, shape: Shape) -> int:
        """One less than the coordinates of a point, times the points."""
        return self.points(shape) * (shape[-1] - 1)

    def nearest(self, x: Array) -> Array:
        """The point in the direction of ``x``; for zero the first axis."""
        pole = jnp.zeros_like(x).at[..., 0].set(1)
        return normalised(jnp.where(jnp.any(x != 0, axis=-1, keepdims=True), x, pole))

    def check_shape(self, shape: Shape) -> None:
        """Reject points of fewer than two coordinates."""
        super().check_shape(shape)
        if shape[-1] < 2:
            raise ValueError(
                f"points of a sphere need 2 coordinates or more along the last axis; got the shape {shape}"
            )


def _cosine_and_sine(square: Array, t: Array) -> tuple[Array, Array]:
    """cos(a t) and sin(a t) / a as functions of a^2, smooth at rest: normal coordinates are differentiated there."""
    turn = square * t * t
    small = turn < 1e-4
    angle = jnp.sqrt(jnp.where(small, 1.0, turn))
    cosine = jnp.where(small, 1 - turn / 2 + turn * turn / 24, jnp.cos(angle))
    return cosine, t * jnp.where(small, 1 - turn / 6 + turn * turn / 120, jnp.sin(angle) / angle)


def normalised(x: Array) -> Array:
    """Vectors of length 1 along the last axis."""
    return x / jnp.sqrt(jnp.sum(x * x, axis=-1, keepdims=True))
