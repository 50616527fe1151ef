"""The Stiefel manifold: matrices with orthonormal columns, X'X = I.

    [X(t) V(t)] = [X V] exp(t [[A, -S], [I, A]]) diag(exp(-t A), exp(-t A)),    A = X'V,  S = V'V
    Lambda(X) U = U - X (X'U + U'X) / 2

Geodesics of the metric of the embedding (Edelman, Arias and Smith 1998, section 2.2.2), with exponentials of matrices
of twice the number of columns. After each flow one step of Newton and Schulz, X (3 I - X'X) / 2, takes off what
rounding added; from an error e it leaves one of order e^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from scirocco.core.types import Array, Key, Number
from scirocco.manifolds.base import Manifold, Shape

MOST_SQUARINGS = 8  # of matrices of norm 128, many turns in one flow
SMALL = 16  # rows of a matrix, up to which a sum over products is faster than a library's matrix product


@dataclass(frozen=True)
class Stiefel(Manifold):
    """Orthonormal columns in the last two axes, (rows, columns) with no more columns than rows.

    >>> X = jnp.eye(3)[:, :2]
    >>> V = Stiefel().project(X, jnp.ones((3, 2)))
    >>> X, V = Stiefel().flow(X, V, 0.3)
    >>> print((X.T @ X).round(4) + 0.0, Stiefel().dimension((3, 2)))
    [[1. 0.]
     [0. 1.]] 3
    """

    point_axes: ClassVar[int] = 2

    def flow(self, x: Array, v: Array, t: Number) -> tuple[Array, Array]:
        """The geodesic from ``x`` with velocity ``v``, by two matrix exponentials."""
        p = x.shape[-1]
        a, s = _turned(x) @ v, _turned(v) @ v
        a = (a - _turned(a)) / 2
        one = jnp.broadcast_to(jnp.eye(p, dtype=x.dtype), a.shape)
        t = jnp.asarray(t, x.dtype)
        mixed, back = exponential(t * jnp.block([[a, -s], [one, a]])), exponential(-t * a)
        both = jnp.concatenate([x, v], axis=-1) @ mixed
        new = both[..., :p] @ back
        new = _straightened(new)
        return new, self.project(new, both[..., p:] @ back)

    def project(self, x: Array, u: Array) -> Array:
        """``u`` less the part that stretches or shears the columns."""
        inner = _turned(x) @ u
        return u - x @ (inner + _turned(inner)) / 2

    def coordinates(self, x: Array) -> Array:
        """The point itself, without what rounding added to it."""
        return _straightened(x)

    def rates(self, x: Array, v: Array) -> Array:
        """The velocity itself: the coordinates are those of the point."""
        del x
        return v

    def steepness(self, x: Array) -> Array:
        """1 - (|row i|^2 + X_ij^2) / 2, the diagonal of Lambda."""
        square = self.coordinates(x) ** 2
        return 1 - (jnp.sum(square, axis=-1, keepdims=True) + square) / 2

    def laplacian(self, x: Array) -> Array:
        """-(rows - (columns + 1)/2) X: geodesics have X'' = -X V'V, and V'V adds up to that multiple of I."""
        rows, columns = x.shape[-2:]
        return ((columns + 1) / 2 - rows) * self.coordinates(x)

    def random(self, key: Key, shape: Shape, dtype: Any = jnp.float32) -> Array:
        """Points from the uniform law: the polar factors of normal matrices."""
        return self.nearest(jax.random.normal(key, shape, dtype))

    def dimension(self, shape: Shape) -> int:
        """The entries of a point less the constraints X'X = I, times the points."""
        rows, columns = shape[-2:]
        return self.points(shape) * (rows * columns - columns * (columns + 1) // 2)

    def nearest(self, x: Array) -> Array:
        """The polar factor of ``x``, the nearest matrix with orthonormal columns."""
        left, _, right = jnp.linalg.svd(x, full_matrices=False)
        return left @ right

    def check_shape(self, shape: Shape) -> None:
        """Reject points with more columns than rows."""
        super().check_shape(shape)
        if not 1 <= shape[-1] <= shape[-2]:
            raise ValueError(f"{shape[-1]} orthonormal columns need as many rows or more; got the shape {shape}")


def exponential(m: Array) -> Array:
    """The matrix exponential, by Taylor's series of order 12 at 2^-s of the matrix and s squarings.

    The one of jax.scipy takes 370 us for 32 matrices of 4 x 4 and this one 3: XLA hands each product of a stack of
    small matrices to a library, and mapped over chains every branch of the Pade approximants is computed.
    """
    size = jnp.max(jnp.sum(jnp.abs(m), axis=-1))
    squarings = jnp.nan_to_num(jnp.clip(jnp.ceil(jnp.log2(size / 0.5)), 0, MOST_SQUARINGS)).astype(jnp.int32)
    m = m * jnp.exp2(-squarings.astype(m.dtype))
    one = jnp.eye(m.shape[-1], dtype=m.dtype)
    result = one + m / 12
    for k in range(11, 0, -1):
        result = one + _product(m, result) / k
    # A fixed number of them, so that the whole can be differentiated backwards.
    return jax.lax.fori_loop(0, MOST_SQUARINGS, lambda i, x: jnp.where(i < squarings, _product(x, x), x), result)


def _product(a: Array, b: Array) -> Array:
    if a.shape[-1] > SMALL:
        return a @ b
    return jnp.sum(a[..., :, :, None] * b[..., None, :, :], axis=-2)


def _straightened(x: Array) -> Array:
    """One step of Newton and Schulz towards orthonormal columns."""
    return 1.5 * x - 0.5 * x @ (_turned(x) @ x)


def _turned(x: Array) -> Array:
    return jnp.swapaxes(x, -1, -2)
