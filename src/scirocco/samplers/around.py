"""A sampler that moves another one in units of its own: what such samplers pass on as it is.

h, T, inner steps, minibatches and the law are those of the sampler inside.
"""

from __future__ import annotations

from typing import Any

from scirocco.samplers.base import Sampler


class Around(Sampler):
    """The part of a sampler with a ``sampler`` inside that is the same for all of them."""

    sampler: Any

    @property
    def step_size(self) -> Any:
        """The inner sampler's h."""
        return self.sampler.step_size

    @property
    def temperature(self) -> Any:
        """The inner sampler's T."""
        return self.sampler.temperature

    @property
    def inner_steps(self) -> int:  # type: ignore[override]
        """Gradient steps in one step of the chain."""
        return int(self.sampler.inner_steps)

    @property
    def warm_up(self) -> int:  # type: ignore[override]
        """Steps in which the inner sampler adapts."""
        return int(self.sampler.warm_up)

    @property
    def independent_draws(self) -> bool:  # type: ignore[override]
        """Whether the inner sampler relies on independent minibatches."""
        return bool(self.sampler.independent_draws)

    @property
    def full_data(self) -> bool:  # type: ignore[override]
        """Whether the inner sampler needs all data."""
        return bool(self.sampler.full_data)

    @property
    def law_known(self) -> bool:
        """Whether the inner sampler knows its law."""
        return bool(self.sampler.law_known)
