"""The words of the signatures: what a parameter, a key, a gradient and a setting are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

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
"""An unbiased estimate of grad U at a position, with the structure of the position."""

Setting: TypeAlias = Any
"""A number, a schedule (a function of the step index), or a pytree of numbers like the parameters."""
