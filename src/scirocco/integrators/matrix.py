"""Friction and noise that are matrices in the space a manifold is embedded in.

    dv = - Lambda C v dt + Lambda sqrt(2 D) dW,    M = Lambda C Lambda = Q diag(w) Q'

    v(t) = Q e^(-w t) Q' v + N(0, Q S Q'),    S_ij = 2 (Q'Lambda D Lambda Q)_ij (1 - e^(-(w_i + w_j) t)) / (w_i + w_j)

M is symmetric and keeps the tangent space, so one eigendecomposition a point and step solves friction and noise
exactly. A matrix acts on one point, its entries in one row (of Euclidean leaves on the whole leaf): n^3 operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.parts import part
from scirocco.core.program import program_part
from scirocco.core.types import Array, Number
from scirocco.manifolds import Euclidean, Manifold


@part
@program_part
@dataclass(frozen=True, eq=False)
class Matrix:
    """A symmetric matrix in place of a number: of a friction, or of a noise; (..., n, n), one for all points or each.

    >>> Matrix(np.diag([1.0, 2.0])).value.shape
    (2, 2)
    """

    value: Any = field(metadata={"keep": True})

    def __post_init__(self) -> None:
        value = self.value
        if isinstance(value, jax.core.Tracer):
            return
        array = np.asarray(value)
        if array.ndim < 2 or array.shape[-1] != array.shape[-2] or not np.issubdtype(array.dtype, np.floating):
            raise ValueError(f"a Matrix holds square floating matrices; got the shape {array.shape}, {array.dtype}")
        if not np.all(np.isfinite(array)) or not np.allclose(array, np.swapaxes(array, -1, -2), rtol=1e-5):
            raise ValueError("a Matrix must be symmetric and finite")


class LowRank(NamedTuple):
    """The friction V X V' + xi (I - V V') of a leaf in flat space; V has orthonormal columns, ``basis`` (n, r)."""

    basis: Array
    along: Array
    rest: Array

    def apply(self, function: Callable[[Array], Array], u: Array) -> Array:
        """A function of the friction, given as one of its eigenvalues, times u: r^3 and n r operations."""
        values, vectors = jnp.linalg.eigh(self.along.astype(u.dtype))
        axes = self.basis @ vectors
        rest = function(self.rest.astype(u.dtype))
        inside = axes.T @ u.ravel()
        return rest * u + (axes @ ((function(values) - rest) * inside)).reshape(u.shape)


def check_fit(name: str, value: Any, manifold: Manifold, leaf: Any) -> None:
    """Reject a matrix of another size than the points of a leaf, on the host."""
    if isinstance(value, Matrix):
        n = int(np.prod(_shape(manifold, leaf)))
        if np.shape(value.value)[-1] != n:
            raise ValueError(f"{name} has matrices of size {np.shape(value.value)[-1]}, but a point has {n} entries")


def difference(manifold: Manifold, x: Number, a: Any, b: Any) -> Any:
    """A - B, a matrix if one of them is; numbers are never negative, eigenvalues are clipped when a root is taken."""
    if not isinstance(a, Matrix) and not isinstance(b, Matrix):
        return jnp.maximum(a - b, 0.0)
    return Matrix(_as_matrix(manifold, x, a) - _as_matrix(manifold, x, b))


def outer_products(manifold: Manifold, rows: Array) -> Matrix:
    """sum_i u_i u_i' for each point, of vectors along the leading axis."""
    one = rows[0]
    flat = rows.reshape(len(rows), *_rows(manifold, one).shape)
    return Matrix(jnp.einsum("rpi,rpj->pij", flat, flat))


def times(manifold: Manifold, x: Array, matrix: Matrix, u: Array) -> Array:
    """The matrix times u, its tangent part: Lambda C u."""
    product = jnp.einsum("...ij,...j->...i", matrix.value.astype(u.dtype), _rows(manifold, u))
    return manifold.project(x, product.reshape(u.shape))


def root_times(manifold: Manifold, x: Array, matrix: Matrix, u: Array) -> Array:
    """The root of D times u, its tangent part: Lambda D^(1/2) u; negative eigenvalues of D count as zero."""
    values, vectors = jnp.linalg.eigh(matrix.value.astype(u.dtype))
    return manifold.project(
        x, _functional(vectors, jnp.sqrt(jnp.maximum(values, 0)), _rows(manifold, u)).reshape(u.shape)
    )


def damped(manifold: Manifold, x: Array, v: Array, friction: Matrix, t: Any) -> Array:
    """A momentum v after a time t under friction C alone: exp(-t Lambda C Lambda) v."""
    values, vectors = jnp.linalg.eigh(_tangent(manifold, x, friction))
    return _functional(vectors, jnp.exp(-_times(manifold, t, v) * values), _rows(manifold, v)).reshape(v.shape)


def ornstein_uhlenbeck(
    manifold: Manifold, x: Array, v: Array, noise: Array, t: Any, friction: Matrix, diffusion: Any
) -> Array:
    """A momentum after a time t under friction and noise alone, exactly: the Ornstein-Uhlenbeck process."""
    values, vectors = jnp.linalg.eigh(_tangent(manifold, x, friction))
    t = _times(manifold, t, v)
    moved = _functional(vectors, jnp.exp(-t * values), _rows(manifold, v))
    diffusion = Matrix(_as_matrix(manifold, v, diffusion))
    inside = jnp.swapaxes(vectors, -1, -2) @ _tangent(manifold, x, diffusion) @ vectors
    rate = (values[..., :, None] + values[..., None, :]) * t[..., None]
    small = jnp.abs(rate) < 1e-4
    share = jnp.where(small, 1 - rate / 2, -jnp.expm1(-rate) / jnp.where(small, 1, rate))
    size, axes = jnp.linalg.eigh(2 * t[..., None] * inside * share)
    rows = jnp.einsum("...ji,...j->...i", vectors, _rows(manifold, noise))
    stirred = jnp.einsum("...ij,...j->...i", vectors, _functional(axes, jnp.sqrt(jnp.maximum(size, 0)), rows))
    return manifold.project(x, (moved + stirred).reshape(v.shape))


def _shape(manifold: Manifold, x: Any) -> tuple[int, ...]:
    """The shape of one point; a Euclidean leaf is one point."""
    shape = np.shape(x)
    return shape if isinstance(manifold, Euclidean) else shape[len(shape) - manifold.point_axes :]


def _rows(manifold: Manifold, x: Array) -> Array:
    """The entries of each point in a row: (points, n)."""
    return x.reshape(-1, int(np.prod(_shape(manifold, x))))


def _times(manifold: Manifold, t: Any, like: Array) -> Array:
    """The times h as a column, one for all points or one for each."""
    t = jnp.asarray(t, like.dtype)
    if t.ndim == 0:
        return t.reshape(1, 1)
    return jnp.broadcast_to(t, like.shape).reshape(-1, int(np.prod(_shape(manifold, like))))[:, :1]


def _as_matrix(manifold: Manifold, x: Number, value: Any) -> Array:
    """A number or an array of them as diagonal matrices, one a point."""
    if isinstance(value, Matrix):
        return jnp.asarray(value.value)
    spread = jnp.broadcast_to(jnp.asarray(value), jnp.shape(x))
    return jax.vmap(jnp.diag)(_rows(manifold, spread))


def _functional(vectors: Array, values: Array, rows: Array) -> Array:
    """f(M) u from the eigenvectors of M and f of its eigenvalues."""
    inside = jnp.einsum("...ji,...j->...i", vectors, rows)
    return jnp.einsum("...ij,...j->...i", vectors, values * inside)


def _tangent(manifold: Manifold, x: Array, matrix: Matrix) -> Array:
    """Lambda C Lambda of each point, (points, n, n)."""
    shape = _shape(manifold, x)
    n = int(np.prod(shape))
    value = matrix.value.astype(x.dtype)
    if isinstance(manifold, Euclidean):
        return value.reshape(-1, n, n)

    def projector(point: Array) -> Array:
        unit = jnp.eye(n, dtype=x.dtype).reshape(n, *shape)
        return jax.vmap(lambda u: manifold.project(point, u).reshape(n))(unit)

    flat = jax.vmap(projector)(x.reshape(-1, *shape))
    return flat @ value @ flat
