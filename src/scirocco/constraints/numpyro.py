"""Constraints by NumPyro's bijections (extra ``numpyro``)."""

from __future__ import annotations

import importlib.util
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.constraints.base import Constraint, Shape
from scirocco.core.types import Array

ON_MANIFOLDS = {"Sphere": "Sphere()", "Circular": "Sphere(), as a point (cos, sin)"}
"""NumPyro's constraints that are no open part of a flat space."""


def is_numpyro(given: object) -> bool:
    """Whether an object is one of NumPyro's constraints; asks without importing it."""
    return any(kind.__module__.startswith("numpyro.distributions.constraints") for kind in type(given).__mro__)


def named(name: str) -> NumPyroConstraint:
    """NumPyro's constraint of this name."""
    if importlib.util.find_spec("numpyro") is None:
        raise ImportError(f"constraints.{name} has its bijection from NumPyro: pip install 'scirocco[numpyro]'")
    from numpyro.distributions import constraints

    return NumPyroConstraint(getattr(constraints, name))


class NumPyroConstraint(Constraint):
    """One of NumPyro's, with the bijection that NumPyro has for it."""

    def __init__(self, constraint: Any) -> None:
        from numpyro.distributions import biject_to

        kind = type(constraint).__name__.strip("_")
        if kind in ON_MANIFOLDS:
            raise ValueError(
                f"{constraint!r} is no open set: give the parameter a manifold, scirocco.manifolds.{ON_MANIFOLDS[kind]}"
            )
        try:
            self._transform = biject_to(constraint)
            self.axes = int(self._transform.codomain.event_dim)
        except NotImplementedError:
            raise ValueError(
                f"{constraint!r} has no bijection from free numbers: it cannot be sampled by gradients"
            ) from None
        self.constraint = constraint

    def constrained(self, free: Array) -> Array:
        """By the bijection."""
        return jnp.asarray(self._transform(free))

    def freed(self, value: Array) -> Array:
        """By its inverse."""
        return jnp.asarray(self._transform.inv(value))

    def log_det(self, free: Array, value: Array) -> Array:
        """Of all values together."""
        return jnp.sum(self._transform.log_abs_det_jacobian(free, value))

    def contains(self, value: np.ndarray) -> np.ndarray:
        """As NumPyro has it; a value that no free number stands for does not obey either."""
        inside, free = (np.asarray(found) for found in _looked_at(self, value))
        axes = tuple(range(free.ndim - int(self._transform.domain.event_dim), free.ndim))
        return inside & np.isfinite(free).all(axis=axes)

    def free_shape(self, shape: Shape) -> Shape:
        """Fewer numbers, where they depend on each other."""
        return tuple(self._transform.inverse_shape(shape))

    def check_shape(self, shape: Shape) -> None:
        """Reject arrays that cannot hold values."""
        super().check_shape(shape)
        back = jax.eval_shape(lambda x: self.constrained(self.freed(x)), jax.ShapeDtypeStruct(shape, jnp.float32))
        if back.shape != shape:
            raise ValueError(f"it would have the shape {back.shape}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumPyroConstraint) and bool(self.constraint == other.constraint)

    def __hash__(self) -> int:
        return hash(type(self.constraint))

    def __repr__(self) -> str:
        return repr(self.constraint)

    def __str__(self) -> str:
        name = type(self.constraint).__name__.strip("_")
        return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


@partial(jax.jit, static_argnums=0)
def _looked_at(own: NumPyroConstraint, value: Array) -> tuple[Array, Array]:
    """Whether values obey, and their free numbers; one program in place of dozens of small ones."""
    return own.constraint(value), own.freed(value)
