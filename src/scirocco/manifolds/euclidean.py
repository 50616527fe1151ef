"""Euclidean space.

    x(t) = x + t v,    v(t) = v,    Lambda(x) = I

Every coordinate is a point of its own, so times may differ from coordinate to coordinate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from scirocco.core.types import Array, Key, Number
from scirocco.manifolds.base import Manifold, Shape


@dataclass(frozen=True)
class Euclidean(Manifold):
    """Real numbers without constraint.

    >>> x, v = Euclidean().flow(jnp.zeros(2), jnp.ones(2), 0.5)
    >>> print(x, Euclidean().dimension((2, 3)))
    [0.5 0.5] 6
    """

    point_axes: ClassVar[int] = 0

    def flow(self, x: Array, v: Array, t: Number) -> tuple[Array, Array]:
        """The straight line from ``x`` with velocity ``v``."""
        return x + t * v, v

    def project(self, x: Array, u: Array) -> Array:
        """``u`` itself: all vectors are tangent."""
        del x
        return u

    def random(self, key: Key, shape: Shape, dtype: Any = jnp.float32) -> Array:
        """Refuse: there is no uniform law on all of space."""
        raise ValueError("Euclidean space has no uniform law: draw a start from a law of your own")

    def dimension(self, shape: Shape) -> int:
        """The number of coordinates."""
        return int(np.prod(shape, dtype=int))

    def nearest(self, x: Array) -> Array:
        """``x`` itself: every array is a point."""
        return x
