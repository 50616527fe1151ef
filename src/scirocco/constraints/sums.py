"""Vectors whose entries sum to zero, or are positive and sum to one: K entries from K - 1 free numbers.

x = sum_k u_k e_k,    e_k = (1, ..., 1, -k, 0, ..., 0) / sqrt(k (k + 1))    zero sum     log |dx/du| = - log(K) / 2
x = softmax(z),    z the same sum                                           shares       sum_k log x_k + log(K) / 2

The K - 1 vectors e_k, with k ones each, are of length 1 and at right angles (Helmert's): lengths of u are lengths of
the sum, whatever the order of the entries. Densities are with respect to the first K - 1 entries, as those of Dirichlet
laws are.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.constraints.base import Constraint, Shape
from scirocco.core.types import Array

TOLERANCE = 1e-5  # of a sum in single precision


class _Vectors(Constraint):
    """What vectors of dependent entries have in common."""

    axes = 1

    def free_shape(self, shape: Shape) -> Shape:
        """One number fewer."""
        return (*shape[:-1], shape[-1] - 1)

    def check_shape(self, shape: Shape) -> None:
        """Reject arrays that hold no vectors."""
        super().check_shape(shape)
        if not shape[-1]:
            raise ValueError("it has no entries")


@dataclass(frozen=True)
class ZeroSum(_Vectors):
    """Entries along the last axis sum to zero.

    >>> print(ZeroSum().constrained(jnp.array([0.0, jnp.sqrt(6.0)])))
    [ 1.  1. -2.]
    """

    def constrained(self, free: Array) -> Array:
        """See the top of this file."""
        k = jnp.arange(1, free.shape[-1] + 1, dtype=free.dtype)
        each = free / jnp.sqrt(k * (k + 1))
        ones = jax.lax.cumsum(each, axis=each.ndim - 1, reverse=True)
        return _padded(ones, (0, 1)) - _padded(k * each, (1, 0))

    def freed(self, value: Array) -> Array:
        """Its inverse."""
        k = jnp.arange(1, value.shape[-1], dtype=value.dtype)
        return (jnp.cumsum(value, axis=-1)[..., :-1] - k * value[..., 1:]) / jnp.sqrt(k * (k + 1))

    def log_det(self, free: Array, value: Array) -> Array:
        """Of all vectors together, each measured by all entries but its last."""
        del free
        return jnp.asarray(-np.prod(value.shape[:-1]) * np.log(value.shape[-1]) / 2, value.dtype)

    def contains(self, value: np.ndarray) -> np.ndarray:
        """Whether the sum is zero but for rounding."""
        value = np.asarray(value, np.float64)
        return np.abs(value.sum(axis=-1)) <= TOLERANCE * np.maximum(1.0, np.abs(value).sum(axis=-1))

    def __str__(self) -> str:
        return "zero_sum"


@dataclass(frozen=True)
class Simplex(_Vectors):
    """Entries along the last axis are positive and sum to one.

    >>> print(Simplex().constrained(jnp.zeros(3)))
    [0.25 0.25 0.25 0.25]
    """

    def constrained(self, free: Array) -> Array:
        """See the top of this file."""
        return jax.nn.softmax(ZeroSum().constrained(free), axis=-1)

    def freed(self, value: Array) -> Array:
        """Its inverse."""
        return ZeroSum().freed(jnp.log(value))

    def log_det(self, free: Array, value: Array) -> Array:
        """Of all vectors together; from the free numbers, since shares may be too small for their logarithms."""
        logs = jax.nn.log_softmax(ZeroSum().constrained(free), axis=-1)
        return jnp.sum(logs) + np.prod(value.shape[:-1]) * np.log(value.shape[-1]) / 2

    def contains(self, value: np.ndarray) -> np.ndarray:
        """Whether all are positive and the sum is one but for rounding."""
        value = np.asarray(value, np.float64)
        return np.asarray((value > 0).all(axis=-1) & (np.abs(value.sum(axis=-1) - 1) <= TOLERANCE))

    def __str__(self) -> str:
        return "simplex"


def _padded(values: Array, zeros: tuple[int, int]) -> Array:
    """With zeros before and after, along the last axis."""
    return jnp.pad(values, [(0, 0)] * (values.ndim - 1) + [zeros])
