"""Numbers between bounds.

x = a + exp(u)                      above a            log |dx/du| = u
x = b - exp(u)                      below b            u
x = a + (b - a) / (1 + exp(-u))     between both       log(b - a) - log(1 + exp(-u)) - log(1 + exp(u))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.constraints.base import Constraint
from scirocco.core.types import Array


@dataclass(frozen=True)
class Bounded(Constraint):
    """Every number lies between ``low`` and ``high``, one of which may be infinite.

    >>> unit = Bounded(0.0, 1.0)
    >>> print(unit.constrained(jnp.array(0.0)), unit.log_det(jnp.array(0.0), jnp.array(0.5)))
    0.5 -1.3862944
    """

    low: float = -np.inf
    high: float = np.inf

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            value: Any = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or np.isnan(value):
                raise ValueError(f"bounds must be numbers; got {value!r}")
            object.__setattr__(self, name, float(value))
        if not self.low < self.high or not (np.isfinite(self.low) or np.isfinite(self.high)):
            raise ValueError(f"bounds must be in order, at least one of them finite; got {self.low} and {self.high}")

    def constrained(self, free: Array) -> Array:
        """See the top of this file."""
        if np.isinf(self.high):
            return self.low + jnp.exp(free)
        if np.isinf(self.low):
            return self.high - jnp.exp(free)
        return self.low + (self.high - self.low) * jax.nn.sigmoid(free)

    def freed(self, value: Array) -> Array:
        """Its inverse."""
        if np.isinf(self.high):
            return jnp.log(value - self.low)
        if np.isinf(self.low):
            return jnp.log(self.high - value)
        return jnp.log(value - self.low) - jnp.log(self.high - value)

    def log_det(self, free: Array, value: Array) -> Array:
        """Of all numbers together."""
        del value
        if np.isinf(self.low) or np.isinf(self.high):
            return jnp.sum(free)
        return jnp.sum(jax.nn.log_sigmoid(free) + jax.nn.log_sigmoid(-free) + np.log(self.high - self.low))

    def contains(self, value: np.ndarray) -> np.ndarray:
        """Strictly between the bounds."""
        return np.asarray((value > self.low) & (value < self.high))

    def __str__(self) -> str:
        if np.isinf(self.high):
            return "positive" if self.low == 0 else f"greater_than({self.low:g})"
        return f"less_than({self.high:g})" if np.isinf(self.low) else f"interval({self.low:g}, {self.high:g})"
