"""Which steps of a chain are recorded as draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Staged(Protocol):
    """A sampler that says which of its steps are never draws."""

    def recorded_stages(self) -> tuple[int, int]:
        """(period, explore): of every ``period`` steps the first ``explore`` are not recorded."""


@dataclass(frozen=True)
class Recording:
    """Every ``thin``-th step after ``burn_in``; of every ``period`` steps not the first ``explore``.

    The numbers may be arrays, and so may the steps that its methods are asked for: compiled programs ask too.
    """

    burn_in: int
    thin: int
    period: int = 1
    explore: int = 0

    @classmethod
    def of(cls, burn_in: int, thin: int, sampler: Staged) -> Recording:
        """The recording of a run of this sampler."""
        return cls(burn_in, thin, *sampler.recorded_stages())

    def leaves(self) -> Recording:
        """The same with its numbers as arguments of a program, not part of it."""
        numbers: Any = (np.asarray(n, np.int32) for n in (self.burn_in, self.thin, self.period, self.explore))
        return Recording(*numbers)

    def is_draw(self, step: Any) -> Any:
        """Whether the state after ``step`` steps is a draw."""
        due = (step > self.burn_in) & ((step - self.burn_in) % self.thin == 0)
        return due & ((step - 1) % self.period >= self.explore)

    def next_stop(self, step: Any) -> Any:
        """The next step at which a draw may be due, or the end of the burn-in."""
        due = step + self.thin - (step - self.burn_in) % self.thin
        return due + (self.burn_in - due) * (due < self.burn_in)  # the larger of both, for numbers and traced arrays

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
