"""What a manifold is to a sampler: geodesics, tangent vectors, and the measure that densities refer to.

    d/dt (x, v) = (v, acceleration normal to the manifold)                       the geodesic flow, |v| is kept
    Lambda(x) u                                                                  the tangent part of u
    log p_Riemann(x) = log p_user(x) + change(x)                                 the change of the reference measure

A manifold here is a set of points in an array space, embedded isometrically; the last ``point_axes`` axes of an array
make one point, and leading axes are independent copies: an array (50, 3000) on ``Sphere()`` holds 50 points of S^2999.
Users write log densities with respect to the Hausdorff measure of the embedded set (its length, area, volume).
Geometry only: nothing here knows of gradients of targets, of data or of chains. Byrne and Girolami (2013).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.parts import part
from scirocco.core.types import Array, Key, Number

Shape = tuple[int, ...]


class Manifold(ABC):
    """One kind of manifold: a frozen dataclass; ``Euclidean`` shows the least that must be there.

    ``t`` is a time or an array of times with axes of length 1 in place of a point's.
    """

    point_axes: ClassVar[int] = 1

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        part(cls)

    @abstractmethod
    def flow(self, x: Array, v: Array, t: Number) -> tuple[Array, Array]:
        """The geodesic from ``x`` with velocity ``v`` after time ``t``, and the velocity there."""

    @abstractmethod
    def project(self, x: Array, u: Array) -> Array:
        """The part of ``u`` that is tangent at ``x``."""

    def slope(self, x: Array, gradient: Array, temperature: Number = 1.0) -> Array:
        """The tangent gradient of U less T times ``change``, from the gradient of U in the coordinates of the user.

        exp(-U/T) is a density on the user's measure, whatever T: what changes the measure is not tempered.
        """
        del temperature
        return self.project(x, gradient)

    def change(self, x: Array) -> Array:
        """Log of the user's reference measure over the Riemannian one, added up over all points."""
        del x
        return jnp.zeros(())

    def pace(self, x: Array) -> Array:
        """How fast each coordinate of the user moves at unit velocity of its own."""
        return jnp.ones_like(x)

    # Functions of a point, for identities of the kind E <grad y, grad U> = T E Laplacian y. The derivatives here are
    # those along geodesics, of any manifold; where there is a formula it is faster.

    def coordinates(self, x: Array) -> Array:
        """A smooth function y of the point for each entry of an array; at a border it has no slope across it."""
        return x

    def rates(self, x: Array, v: Array) -> Array:
        """How fast ``coordinates`` change at velocity ``v``."""
        return jax.jvp(lambda t: self.coordinates(self.flow(x, v, t)[0]), (jnp.zeros(()),), (jnp.ones(()),))[1]

    def steepness(self, x: Array) -> Array:
        """The squared length of the gradient of each of ``coordinates``."""
        return self._traced(x, lambda v: self.rates(x, v) ** 2)

    def laplacian(self, x: Array) -> Array:
        """The Laplacian (Laplace and Beltrami) of each of ``coordinates``."""

        def bend(v: Array) -> Array:
            """The second derivative along a geodesic."""
            return jax.jvp(lambda t: self.rates(*self.flow(x, v, t)), (jnp.zeros(()),), (jnp.ones(()),))[1]

        return self._traced(x, bend)

    def _traced(self, x: Array, form: Callable[[Array], Array]) -> Array:
        """The trace of a quadratic form of tangent vectors: the tangent parts of any orthonormal basis will do."""
        shape = x.shape[x.ndim - self.point_axes :]
        size = int(np.prod(shape, dtype=int))
        basis = jnp.eye(size, dtype=x.dtype).reshape(size, *shape)
        total = jax.lax.map(lambda e: form(self.project(x, jnp.broadcast_to(e, x.shape))), basis)
        return jnp.sum(total, axis=0)

    @abstractmethod
    def random(self, key: Key, shape: Shape, dtype: Any = jnp.float32) -> Array:
        """Points from the uniform law, by the Hausdorff measure, where there is one."""

    @abstractmethod
    def dimension(self, shape: Shape) -> int:
        """The dimension of all points of an array together."""

    @abstractmethod
    def nearest(self, x: Array) -> Array:
        """The nearest points of the manifold."""

    def distance(self, x: np.ndarray) -> float:
        """How far the farthest point of an array is from the manifold."""
        away = np.asarray(x, np.float64) - np.asarray(nearest(self, jnp.asarray(x)), np.float64)
        axes = tuple(range(away.ndim - self.point_axes, away.ndim))
        return float(np.max(np.sqrt(np.sum(away**2, axis=axes)), initial=0.0))

    def check_shape(self, shape: Shape) -> None:
        """Reject arrays that cannot hold points."""
        if len(shape) < self.point_axes:
            raise ValueError(f"{self!r} needs arrays with {self.point_axes} axes or more; got the shape {shape}")

    def points(self, shape: Shape) -> int:
        """How many points an array holds."""
        return int(np.prod(shape[: len(shape) - self.point_axes], dtype=int))


@partial(jax.jit, static_argnums=0)
def nearest(manifold: Manifold, x: Array) -> Array:
    """``manifold.nearest(x)``, compiled as one program in place of a dozen small ones."""
    return manifold.nearest(x)
