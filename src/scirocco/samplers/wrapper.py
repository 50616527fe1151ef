"""The base of samplers that move another sampler in units of their own.

Step size, temperature, inner steps, minibatches and the law are those of the sampler inside, passed on as they are.
"""

from __future__ import annotations

from typing import Any

from scirocco.batches import Batching
from scirocco.samplers.base import Sampler, State


class Wrapper(Sampler[State]):
    """A sampler with a ``sampler`` inside, whose attributes it has."""

    sampler: Sampler[Any]

    @property
    def step_size(self) -> Any:
        """The step size of the sampler inside."""
        return self.sampler.step_size

    @property
    def temperature(self) -> Any:
        """The temperature of the sampler inside."""
        return self.sampler.temperature

    @property
    def inner_steps(self) -> int:  # type: ignore[override]
        """Gradient steps in one step of the chain."""
        return self.sampler.inner_steps

    @property
    def warm_up(self) -> int:  # type: ignore[override]
        """Steps in which the inner sampler adapts."""
        return self.sampler.warm_up

    @property
    def independent_draws(self) -> bool:  # type: ignore[override]
        """Whether the inner sampler relies on independent minibatches."""
        return self.sampler.independent_draws

    def default_batching(self) -> Batching:
        """How the inner sampler would have its minibatches."""
        return self.sampler.default_batching()

    @property
    def full_data(self) -> bool:  # type: ignore[override]
        """Whether the inner sampler needs all data."""
        return self.sampler.full_data

    @property
    def law_known(self) -> bool:
        """Whether the inner sampler knows its law."""
        return self.sampler.law_known
