"""Which steps of a chain are recorded as draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from scirocco.core.program import program_part
from scirocco.core.types import Array


@program_part
@dataclass(frozen=True)
class Recording:
    """Every ``thin``-th step after ``burn_in``; with cyclical samplers only those of the sampling stage."""

    burn_in: int
    thin: int
    period: int = 1
    explore: int = 0

    @classmethod
    def of(cls, burn_in: int, thin: int, sampler: Any) -> Recording:
        """The recording that a sampler's temperature schedule asks for."""
        stages: Any = getattr(sampler, "temperature", None)
        if hasattr(stages, "explore") and hasattr(stages, "period"):
            return cls(burn_in, thin, stages.period, stages.explore)
        return cls(burn_in, thin)

    def leaves(self) -> Recording:
        """The same with its numbers as arguments of a program, not part of it."""
        numbers: Any = (np.asarray(n, np.int32) for n in (self.burn_in, self.thin, self.period, self.explore))
        return Recording(*numbers)

    def is_draw(self, step: Any) -> Any:
        """Whether the state after ``step`` steps is a draw."""
        due = (step > self.burn_in) & ((step - self.burn_in) % self.thin == 0)
        return due & ((step - 1) % self.period >= self.explore)

    def next_stop(self, step: Array) -> Array:
        """The next step at which a draw may be due, or the end of the burn-in."""
        return jnp.where(step < self.burn_in, self.burn_in, step + self.thin - (step - self.burn_in) % self.thin)

    def steps_for(self, num_samples: int) -> int:
        """Steps until ``num_samples`` draws are made."""
        if not self.explore:
            return self.burn_in + num_samples * self.thin
        # The pattern repeats after lcm(thin, period) steps.
        repeat = math.lcm(self.thin, self.period)
        steps = self.burn_in + self.thin * np.arange(1, repeat // self.thin + 1)
        found = steps[np.asarray(self.is_draw(steps))]
        if not len(found):
            raise ValueError("no step of the sampling stage is ever recorded: choose thin so that some are")
        rounds, rest = divmod(num_samples - 1, len(found))
        return int(found[rest]) + rounds * repeat
