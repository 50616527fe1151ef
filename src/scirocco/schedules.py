"""Step sizes and temperatures over time.

A schedule is any function of the step index that jitted code can trace; those of optax serve as they are. The ones
here are frozen dataclasses, so a checkpoint can name them.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import jax.numpy as jnp

from scirocco.core.checks import real_number, require_count
from scirocco.core.parts import part
from scirocco.core.program import program_part
from scirocco.core.types import Array


@part
@program_part
@dataclass(frozen=True)
class Decreasing:
    """``h (1 + t/tau)^-kappa``: with 1/2 < kappa <= 1 the bias of SGLD vanishes as t grows (Welling and Teh 2011).

    >>> print(Decreasing(0.1, tau=10.0, kappa=1.0)(10))
    0.05
    """

    step_size: float
    _: KW_ONLY
    tau: float = 1000.0
    kappa: float = 0.55

    def __post_init__(self) -> None:
        for name in ("step_size", "tau"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive; got {getattr(self, name)!r}")
        if not 0 <= self.kappa <= 1:
            raise ValueError(f"kappa must lie in [0, 1], or the steps sum to a finite time; got {self.kappa!r}")

    def __call__(self, step: Array | int) -> Array | float:
        """The step size at a step."""
        # A number without a dtype of its own, so that parameters of half precision keep theirs.
        return self.step_size * (1 + step * 1.0 / self.tau) ** -self.kappa


@part
@program_part
@dataclass(frozen=True)
class CosineCycle:
    """``(h/2) (cos(pi (t mod period)/period) + 1)``: a warm restart every ``period`` steps (Zhang et al. 2020)."""

    step_size: float
    period: int

    def __call__(self, step: Array | int) -> Array:
        """The step size at a step."""
        # Half a step in, so that the last step of a cycle is not zero.
        phase = (jnp.asarray(step) % self.period + 0.5) / self.period
        return self.step_size / 2 * (jnp.cos(jnp.pi * phase) + 1)


@part
@program_part
@dataclass(frozen=True)
class Stages:
    """A temperature that is zero while a cycle explores and ``temperature`` while it samples."""

    temperature: float
    period: int
    explore: int

    def __call__(self, step: Array | int) -> Array:
        """The temperature at a step."""
        return jnp.where(jnp.asarray(step) % self.period < self.explore, 0.0, self.temperature)


def cyclical(sampler: Any, period: int, exploration: float = 0.25) -> Any:
    """The sampler with cyclical step sizes (cSG-MCMC, Zhang et al. 2020), for posteriors with several modes.

    Each cycle of ``period`` steps starts at the sampler's step size and ends near zero. Its first part, the share
    ``exploration``, runs without noise to find a mode; only the rest is recorded as draws.

    >>> import scirocco as sc
    >>> cyclical(sc.SGLD(0.1), period=100).temperature
    Stages(temperature=1.0, period=100, explore=25)
    """
    if isinstance(sampler, type) or not hasattr(sampler, "step_size") or not hasattr(sampler, "temperature"):
        raise TypeError(f"sampler must be one with a step size, such as scirocco.SGLD(1e-4); got {sampler!r}")
    require_count("period", period, least=2)
    if not real_number("exploration", exploration, least=0.0) < 1:
        raise ValueError(f"exploration must lie in [0, 1); got {exploration!r}")
    if callable(sampler.step_size) or isinstance(sampler.step_size, str) or callable(sampler.temperature):
        raise TypeError("cyclical needs a sampler with a constant step_size and temperature; it makes the schedules")
    stages = Stages(float(sampler.temperature), period, round(exploration * period))
    return replace(sampler, step_size=CosineCycle(float(sampler.step_size), period), temperature=stages)
