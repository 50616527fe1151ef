"""The words of the signatures: what a parameter, a key, a gradient and a setting are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

import jax
import numpy as np

Array: TypeAlias = jax.Array
Key: TypeAlias = jax.Array
"""A typed JAX random key."""

Number: TypeAlias = jax.Array | np.ndarray | float | int
"""A number, or an array of them, on the device or on the host."""

Params: TypeAlias = Any
"""Any pytree of floating arrays: what is sampled."""

Data: TypeAlias = Any
"""Any pytree of arrays that share their leading axis, one entry per example."""

Gradient: TypeAlias = Callable[[Params], Params]
"""An unbiased estimate of grad U at a position, with the structure of the position. That of a kernel is a
``GradientWithValues``, a ``GradientWithRows`` and a ``GradientWithCentre`` too; a function of the user's own need not
be."""

Setting: TypeAlias = Any
"""A number, a schedule (a function of the step index), or a pytree of numbers like the parameters."""


@runtime_checkable
class GradientWithValues(Protocol):
    """A gradient that also knows values of U, as a Metropolis-Hastings test needs them."""

    def __call__(self, position: Params) -> Params:
        """An unbiased estimate of grad U."""

    def difference(self, start: Params, end: Params) -> Array:
        """U(end) - U(start), from the same minibatch."""


@runtime_checkable
class GradientWithRows(Protocol):
    """A gradient that also knows what each row of the minibatch adds to it, so that its noise can be measured."""

    def __call__(self, position: Params) -> Params:
        """An unbiased estimate of grad U."""

    def deviations(self, position: Params) -> Params:
        """Vectors, one a row of the minibatch, whose outer products sum to the covariance of the estimate."""


@runtime_checkable
class GradientWithCentre(Protocol):
    """A gradient that also knows the centre of its control variate, around which its changes can be bounded."""

    def __call__(self, position: Params) -> Params:
        """An unbiased estimate of grad U."""

    def anchored(self) -> tuple[Params, Params]:
        """The centre, and grad U of all data there."""
