"""``step_size="auto"`` of SCIR and SCIRCV on category codes: from the law of omega, before anything is run.

The largest h at which no sd of omega is off by more than ``AIM`` times the limit. Draws that are 1/h steps apart have a
correlation of 1/e. The size of minibatches is chosen too, if it is free. Data in memory are counted once, after which a
step with all of them costs nothing for each, and has no noise. From disk, where noise limits h, h grows at least in
proportion to the minibatch, and an independent draw costs no more: it is enlarged until draws mix within a few steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scirocco.bias.dirichlet import dirichlet_spread, law_of
from scirocco.core.parts import part
from scirocco.run.verdict import MOST_THIN, SHARE_OF_ERROR, draws_for
from scirocco.samplers.base import Auto
from scirocco.simplex import SCIR, SCIRCV, Weights
from scirocco.theory import OmegaLaw

AIM = 0.6  # of the limit: a run has Monte Carlo error as well, and a verdict counts both
LARGEST, SMALLEST = 5.0, 1e-9  # step sizes: beyond the one draws are as good as independent, below the other stuck
APART, CLOSE = 8.0, 0.02  # step sizes of a first look, and relative distance to the largest that will do
MIXED = 0.5  # time between draws of which a thousand in each of four chains are enough
APART_AT_MOST = 2.0  # time between draws, which are then worth three quarters of independent ones
SETTLED = 10.0  # time in which a start from a small part of the data is forgotten
ENLARGED, GAIN = 4, 1.5  # times as large: the next minibatch that is looked at, and the step size that it must allow


@part
@dataclass(frozen=True)
class SimplexTuning:
    """The step size that was found, why, and how long chains with it should be."""

    step_size: float
    limit: float
    sd_error: float
    category: int
    """That with the largest error of the sd."""
    count: float
    """Of that category."""
    batch_size: int
    size: int
    enlarged: bool
    """Whether minibatches are larger than they are without a search."""
    counted: bool
    """Whether all data were counted, not a part of them."""
    better_batch: int = 0
    """A minibatch that would mix faster, if this one was given and is slow."""
    better_step: float = 0.0

    @property
    def thin(self) -> int:
        """Steps from draw to draw at which a thousand draws of each of four chains are enough."""
        return steps_of(MIXED, self.step_size)

    @property
    def burn_in(self) -> int:
        """Steps in which the start is forgotten."""
        return steps_of(SETTLED, self.step_size)

    def longer(self) -> dict[str, int]:
        """Settings with which a run is long enough."""
        if not self.better_batch:
            return {"thin": self.thin, "burn_in": self.burn_in}
        thin, burn_in = steps_of(MIXED, self.better_step), steps_of(SETTLED, self.better_step)
        return {"batch_size": self.better_batch, "thin": thin, "burn_in": burn_in}

    def __str__(self) -> str:
        minibatches = f"minibatches of {self.batch_size:,} of {self.size:,} observations"
        if self.batch_size == self.size:
            minibatches = f"all {self.size:,} observations at every step, which are counted once"
        elif self.enlarged:
            minibatches += ", enlarged because noise of smaller ones would ask for many more steps"
        lines = [
            f"step size {self.step_size:.3g}, from the law of omega",
            f"  predicted error of the posterior sd: {self.sd_error:.1%} in omega[{self.category}], seen "
            f"{self.count:,.0f} times (limit {self.limit:.1%}, of which {AIM:.0%} are used)",
            f"  {minibatches}" + ("" if self.counted else "; counts were estimated from a part of them"),
            f"  draws are forgotten in the course of {1 / self.step_size:,.3g} steps: take at least thin={self.thin} "
            f"and burn_in={self.burn_in}",
        ]
        if self.better_batch:
            better = self.longer()
            lines.append(f"  batch_size={better['batch_size']} would allow thin={better['thin']}")
        return "\n".join(lines)


def thin_for(step_size: float, parameter: np.ndarray, draws: int) -> int:
    """Steps from draw to draw at which so many draws are enough for every category, ``parameter`` the posterior's.

    The correlation of draws a time t apart is e^-t, and m of them are worth m tanh(t/2).
    """
    wanted = draws_for(parameter.size, SHARE_OF_ERROR, float(np.max(dirichlet_spread(parameter))))
    apart = 2 * np.arctanh(min(wanted / draws, np.tanh(APART_AT_MOST / 2)))
    return min(steps_of(apart, step_size), MOST_THIN)


def steps_of(time: float, step_size: float) -> int:
    """Steps that a time takes."""
    return max(1, int(np.ceil(time / step_size)))


@dataclass(frozen=True, eq=False)
class Observed:
    """What is known of the data: counts, of all of it or estimated, and how minibatches of it are drawn."""

    count: np.ndarray
    prior: np.ndarray
    way: str
    counted: bool
    most: int  # observations of a minibatch
    at_once: bool  # whether that many, being all data, cost no more than fewer


def tune_simplex(
    sampler: SCIR | SCIRCV, wishes: Auto, observed: Observed, batch_size: int, *, free_batch: bool
) -> SimplexTuning:
    """The step size of a sampler that left it open; the batch size as well, if that is free."""
    found = first = _largest(
        sampler, wishes, observed, observed.most if free_batch and observed.at_once else batch_size
    )
    gained = True
    while gained and found.step_size < MIXED and found.batch_size < observed.most:
        rows = observed.most if observed.at_once else min(ENLARGED * found.batch_size, observed.most)
        larger = _largest(sampler, wishes, observed, rows)
        gained = larger.step_size > GAIN * found.step_size
        found = larger if gained else found
    if free_batch or found is first:
        return replace(found, enlarged=found.batch_size > batch_size)
    return replace(first, better_batch=found.batch_size, better_step=found.step_size)


def _largest(sampler: SCIR | SCIRCV, wishes: Auto, observed: Observed, batch_size: int) -> SimplexTuning:
    """The largest step size for minibatches of a size: from above, then by bisection."""
    law = _laws(sampler, observed, batch_size)
    aim = AIM * wishes.sd_error

    def good(h: float) -> bool:
        return bool(np.max(np.abs(law(h).sd_error)) <= aim)

    low = high = LARGEST
    while not good(low):
        low, high = low / APART, low
        if low < SMALLEST:
            raise ValueError(
                f"no step size keeps all sds within {wishes.sd_error:.1%} with {sampler!r}: take choose='rule', "
                "form='alternative', an exact centre, or a larger sd_error"
            )
    while high > low * (1 + CLOSE):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if good(middle) else (low, middle)
    error = law(low).sd_error
    worst = int(np.argmax(np.abs(error)))
    size = round(float(observed.count.sum()))
    return SimplexTuning(
        low, wishes.sd_error, float(error[worst]), worst, float(observed.count[worst]), batch_size, size,
        enlarged=False, counted=observed.counted,
    )  # fmt: skip


def _laws(sampler: SCIR | SCIRCV, observed: Observed, batch_size: int) -> Callable[[float], OmegaLaw]:
    """The law of omega as a function of the step size, on which the choice of control variates depends too."""
    count, prior = observed.count, observed.prior
    weights = Weights(prior)
    fraction = batch_size / round(float(count.sum()))

    def law(h: float) -> OmegaLaw:
        centre = None
        if isinstance(sampler, SCIRCV):
            given: Any = sampler.centre
            expected = count if given is None else np.maximum(np.ravel(given) - prior, 0.0)
            there = replace(sampler, step_size=h, remove_bias=False).centre_at(weights, expected[None], fraction)
            centre = there.parameter[:, 0]
        return law_of(sampler, count, prior, batch_size, observed.way, h, centre)

    return law
