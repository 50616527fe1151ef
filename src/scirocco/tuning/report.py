"""The report on a step size that was found: what was chosen and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scirocco.core.parts import part

OVERFLOW = (
    "log_prior has no value in single precision within a few posterior sds of the mode, and one in double precision: "
    "some parameters are hardly known, like scales of a horseshoe whose effects are zero. If chains get lost there, "
    "give these a prior with a lighter tail, or sample with scirocco.NUTS"
)
FAR = 0.5  # mean squared error of the Gaussian's gradient, in units of the gradient's own: beyond, a search decides


@part
@dataclass(frozen=True)
class WarmUpRound:
    """A round of the warm-up. ``heat`` is the virial over the temperature, infinite where the chains were lost."""

    steps: int
    step_size: float
    batch_size: int
    heat: float
    r_hat: float

    def __str__(self) -> str:
        if not np.isfinite(self.r_hat):
            return f"{self.steps:,} steps of {self.step_size:.3g}, minibatches of {self.batch_size:,}: lost"
        return (
            f"{self.steps:,} steps of {self.step_size:.3g}, minibatches of {self.batch_size:,}: virial "
            f"{self.heat:.2f}, R-hat {self.r_hat:.2f}"
        )


@part
@dataclass(frozen=True)
class Trial:
    """A step size that was tried: the virial over the temperature of its chains, and the standard error of that."""

    step_size: float
    heat: float
    error: float
    good: bool

    def __str__(self) -> str:
        if not np.isfinite(self.heat):
            return f"step size {self.step_size:.3g}: the chains were lost"
        return f"step size {self.step_size:.3g}: virial {self.heat:.3f} +- {self.error:.3f}, 1 for the right law"


@part
@dataclass(frozen=True)
class Tuning:
    """What the search for a step size chose, and why."""

    step_size: float
    limit: float
    sd_error: float | None
    batch_size: int
    estimator: str
    curvature: str
    parameters: int
    condition: float
    flat: int
    noise: float
    departure: float
    reason: str
    seconds: float
    steps_per_draw: float  # steps that make an effective draw, of the slowest parameter
    strata: tuple[tuple[int, int], ...] = ()
    rounds: tuple[WarmUpRound, ...] = ()
    elsewhere: tuple[tuple[float, ...], ...] = ()  # other modes, all parameters in one vector
    trials: tuple[Trial, ...] = ()
    unfinished: str = ""  # what the time was over in
    overflows: bool = False  # within a few sds of the mode there is no density in single precision

    def __str__(self) -> str:
        predicted = "unknown for this sampler" if self.sd_error is None else f"{self.sd_error:.1%}"
        flat = f", {self.flat} of them without curvature at the mode" if self.flat else ""
        lines = [
            f"step size {self.step_size:.3g} in units of the posterior sds, found in {self.seconds:.1f} s",
            *([f"  cut short, for want of time, in {self.unfinished}"] if self.unfinished else []),
            f"  {self.reason}",
            f"  predicted error of the posterior sd: {predicted} (limit {self.limit:.0%})",
            f"  curvature: {self.curvature}, {self.parameters:,} parameters{flat}; condition {self.condition:.3g}",
            f"  gradient noise: {self.noise:.3g} times the curvature ({self.estimator}, minibatches of "
            f"{self.batch_size:,})",
            f"  an effective draw takes about {np.ceil(self.steps_per_draw):.0f} steps",
            *self._strata(),
            f"  departure from a Gaussian at the mode: {self.departure:.2g} (a warm-up begins at {FAR:g})",
        ]
        if self.overflows:
            lines.append(f"  {OVERFLOW}")
        if self.elsewhere:
            lines.append(f"  searches from other places found {len(self.elsewhere)} other modes that are as likely")
        if self.rounds:
            lines.append("  warm-up into the typical set:")
            lines += [f"    {made}" for made in self.rounds]
        if self.trials:
            lines.append("  trials:")
            lines += [f"    {trial}" for trial in self.trials]
        return "\n".join(lines)

    def _strata(self) -> list[str]:
        if not self.strata:
            return []
        parts = ", ".join(f"{n:,} of {size:,}" for size, n in self.strata)
        return [f"  minibatches by strata, so that rows without their like come often enough: {parts} rows"]
