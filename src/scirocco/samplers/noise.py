"""The noise of a gradient estimate, known or measured at each step, so that a sampler injects so much less.

    g = grad U + N(0, V(theta)),    injected: D = A T - h V(theta) / 2

V from the rows of the minibatch is the empirical Fisher information of Ahn, Korattikara and Welling (2012): with g_i
the estimate that row i would make alone, V = (1 - n/N) sum_i (g_i - g)(g_i - g)' / (n (n - 1)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from scirocco.core.parts import part
from scirocco.core.program import program_part
from scirocco.core.trees import zeros_like
from scirocco.core.types import Array, Gradient, GradientWithRows, Params
from scirocco.integrators.matrix import outer_products
from scirocco.manifolds import Euclidean, Geometry, Manifold

MEASURED = ("diagonal", "full")


@part
@program_part
@dataclass(frozen=True)
class GradientNoise:
    """V, in place of a ``noise_estimate``: a number, a pytree of numbers or matrices, a function of the parameters that
    returns one; or measured on each minibatch: "diagonal", a number for each coordinate, one for all directions of a
    point of a manifold; "full", a matrix for each leaf, or each point of a manifold.

    >>> GradientNoise(1000.0).measured, GradientNoise("diagonal").measured
    (False, True)
    """

    variance: Any = "diagonal"

    def __post_init__(self) -> None:
        if isinstance(self.variance, str) and self.variance not in MEASURED:
            choices = ", ".join(MEASURED)
            raise ValueError(
                f"variance must be numbers, a function of the parameters, or one of {choices}; got {self.variance!r}"
            )

    @property
    def measured(self) -> bool:
        """Whether V comes from the minibatch."""
        return isinstance(self.variance, str)

    @property
    def full(self) -> bool:
        """Whether a matrix is measured."""
        return self.measured and self.variance == "full"

    @property
    def constant(self) -> bool:
        """Whether V is the same everywhere."""
        return not self.measured and not callable(self.variance)

    def at(self, position: Params, gradient: Gradient, geometry: Geometry) -> Params:
        """V at a position, in the directions of the momenta."""
        if callable(self.variance):
            return self.variance(position)
        return measured(position, gradient, geometry, full=self.full)


def measured(position: Params, gradient: Gradient, geometry: Geometry, *, full: bool) -> Params:
    """The variances of the tangent gradient, or for each point of a manifold their matrix."""

    def tangent(row: Params) -> Params:  # the slope is affine in the gradient
        return jax.jvp(lambda g: geometry.slope(position, g), (zeros_like(position),), (row,))[1]

    rows = jax.vmap(tangent)(row_deviations(gradient, position))
    if full:
        return geometry.each(lambda m, _, rows: outer_products(m, rows), position, rows)
    return geometry.each(_variances, position, rows)


def row_deviations(gradient: Gradient, position: Params) -> Params:
    """Vectors, one a row of the minibatch, whose outer products sum to the covariance of a gradient that has rows."""
    if not isinstance(gradient, GradientWithRows):
        raise TypeError("noise is measured on the rows of a minibatch: this gradient is a function without any")
    return gradient.deviations(position)


def _variances(m: Manifold, x: Array, rows: Array) -> Array:
    """Of each coordinate; of a point of a manifold their mean over its directions, which does not depend on the
    axes."""
    squares = jnp.sum(rows * rows, axis=0)
    if isinstance(m, Euclidean):
        return squares
    axes = tuple(range(x.ndim - m.point_axes, x.ndim))
    return jnp.sum(squares, axis=axes, keepdims=True) * m.points(x.shape) / m.dimension(x.shape)
