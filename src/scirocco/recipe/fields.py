"""Matrix fields: D and Q of a sampler, as functions of z or constants, and what is asked of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from scirocco.core.types import Array

Field: TypeAlias = Any
"""A matrix field: a function of z, or a constant. A number is that multiple of the identity, a vector a diagonal."""


def value(field: Field, z: Array) -> Array:
    """The value of a field at z: a number, a diagonal or a matrix."""
    return jnp.asarray(field(z) if callable(field) else field, z.dtype)


def as_matrix(value: Array, n: int) -> Array:
    """The whole matrix of a number, a diagonal or a matrix."""
    return value if value.ndim == 2 else jnp.diag(jnp.broadcast_to(value, (n,)))


def apply(value: Array, vector: Array) -> Array:
    """The value of a field times a vector."""
    return jnp.matmul(value, vector) if value.ndim == 2 else value * vector


def divergence(field: Callable[[Array], Array], z: Array) -> Array:
    """The divergence of a matrix field M, the vector sum_j d M_ij / dz_j."""
    jacobian: Array = jax.jacfwd(lambda x: value(field, x))(z)
    if jacobian.ndim == 3:
        return jnp.einsum("ijj->i", jacobian)
    return jnp.diagonal(jacobian) if jacobian.ndim == 2 else jacobian


def square_root(value: Array) -> Array:
    """The symmetric root of a positive semidefinite matrix; Cholesky would give NaN where an eigenvalue is zero."""
    if value.ndim < 2:
        return jnp.sqrt(value)
    w, e = jnp.linalg.eigh(value)
    return jnp.matmul(e * jnp.sqrt(jnp.maximum(w, 0)), e.T)


def require_shapes(z: Any, **functions: tuple[Callable[[Array], Array], tuple[int, ...]]) -> None:
    """Reject functions of z that do not return the shape they should."""
    for name, (function, shape) in functions.items():
        if (got := jnp.shape(jax.eval_shape(function, z))) != shape:
            raise ValueError(f"{name} must return shape {shape} for z of shape {z.shape}; got {got}")


def require_matrix(name: str, field: Field, z: Any) -> None:
    """Reject what is not a number, a diagonal or a square matrix."""
    n, got = z.size, jnp.shape(jax.eval_shape(lambda x: value(field, x), z))
    if got not in {(), (n,), (n, n)}:
        raise ValueError(f"{name} must be a number, shape ({n},) or shape ({n}, {n}) here; got shape {got}")


def require_covariance(name: str, d: NDArray[np.float64], z: Any, slack: float) -> None:
    """Reject what is not symmetric and positive semidefinite."""
    size = np.max(np.abs(d), initial=0)
    if not np.allclose(d, d.T, rtol=0, atol=slack * size):
        raise ValueError(f"{name} must be symmetric; at z = {show(z)} it is {d.tolist()}")
    if (least := np.linalg.eigvalsh(d)[0]) < -slack * size:
        raise ValueError(f"{name} must be positive semidefinite; at z = {show(z)} it has the eigenvalue {least:.3g}")


def show(values: Any) -> str:
    """The coordinates of a point, as text for messages."""
    return "(" + ", ".join(f"{float(v):.4g}" for v in values) + ")"
