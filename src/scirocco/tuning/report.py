"""The report on a step size that was found: what was chosen and why."""

from __future__ import annotations

from dataclasses import dataclass

from scirocco.core.parts import part

FAR = 0.5  # mean squared error of the Gaussian's gradient, in units of the gradient's own: beyond, a search decides


@part
@dataclass(frozen=True)
class Trial:
    """A setting and how it did. ``sd_error`` is None where it is not known, infinite where the chain was lost."""

    step_size: float
    friction: float | None
    batch_size: int
    ksd: float
    sd_error: float | None

    def __str__(self) -> str:
        friction = "" if self.friction is None else f", friction {self.friction:.3g}"
        error = "unknown" if self.sd_error is None else f"{self.sd_error:+.1%}"
        return (
            f"step size {self.step_size:.3g}{friction}, batch {self.batch_size:,}: KSD {self.ksd:.3g}, error of the "
            f"sd {error}"
        )


@part
@dataclass(frozen=True)
class Tuning:
    """What the search for a step size chose, and why."""

    step_size: float
    limit: float
    sd_error: float | None
    friction: float | None
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
    strata: tuple[tuple[int, int], ...] = ()
    trials: tuple[Trial, ...] = ()

    def __str__(self) -> str:
        predicted = "unknown for this sampler" if self.sd_error is None else f"{self.sd_error:.1%}"
        friction = "" if self.friction is None else f", friction {self.friction:.3g}"
        flat = f", {self.flat} of them without curvature at the mode" if self.flat else ""
        lines = [
            f"step size {self.step_size:.3g}{friction} in units of the posterior sds, found in {self.seconds:.1f} s",
            f"  {self.reason}",
            f"  predicted error of the posterior sd: {predicted} (limit {self.limit:.0%})",
            f"  curvature: {self.curvature}, {self.parameters:,} parameters{flat}; condition {self.condition:.3g}",
            f"  gradient noise: {self.noise:.3g} times the curvature ({self.estimator}, minibatches of "
            f"{self.batch_size:,})",
            *self._strata(),
            f"  departure from a Gaussian: {self.departure:.2g} (a search begins at {FAR:g})",
        ]
        if self.trials:
            lines.append(f"  {len(self.trials)} settings were tried; the best:")
            lines += [f"    {trial}" for trial in self.trials[:5]]
        return "\n".join(lines)

    def _strata(self) -> list[str]:
        if not self.strata:
            return []
        parts = ", ".join(f"{n:,} of {size:,}" for size, n in self.strata)
        return [f"  minibatches by strata, so that rows without their like come often enough: {parts} rows"]
