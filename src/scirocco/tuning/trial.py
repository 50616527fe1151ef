"""A step size on trial: chains of the sampler itself from given places, and whether they are as wide as their target.

The virial identity tells (``diagnostics.virial``), whatever the shape of the posterior and whether or not the sampler
knows its law: as long as chains are too hot, beyond what so few draws leave to chance, the step is made shorter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from scirocco.core.clock import OutOfTimeError
from scirocco.core.types import Params
from scirocco.diagnostics.virial import Virial
from scirocco.gradient.kernel import Kernel
from scirocco.samplers.preconditioned import Preconditioned, Scale
from scirocco.tuning.report import Trial
from scirocco.tuning.rounds import Round, Rounds

STEPS = 2048
TRIALS, SHORTER = 12, 2.0  # at most so many, each with a step shorter by so much
OVERALL, SINGLE = 2.0, 4.0  # standard errors that are left to chance: of all coordinates together, of the worst of them
NUMBER = 1000  # of the first trial: other random numbers than those of the warm-up


def try_steps(
    kernel: Kernel, scale: Scale | None, centre: Params, places: np.ndarray, held: Params, temperature: float,
    limit: float, step_size: float, making: Rounds,
) -> tuple[list[Trial], float, Round | None]:  # fmt: skip
    """Steps from ``step_size`` down to the first that is not too long, that step, and its draws.

    Where the time is over before, the step that would have been next, and no draws.
    """
    trials: list[Trial] = []
    for number in range(TRIALS):
        sampler: Any = kernel.sampler
        sampler = replace(sampler, step_size=step_size)
        sampler = sampler if scale is None else Preconditioned(sampler, scale)
        try:
            made = making.run(kernel.replaced(sampler), centre, places, held, STEPS, NUMBER + number)
        except OutOfTimeError:
            return trials, step_size, None
        found = None if made is None else made.virial(temperature)
        heat = np.inf if found is None else found.overall
        good = found is not None and not too_hot(found, limit)
        trials.append(Trial(step_size, heat, np.inf if found is None else found.overall_error, good))
        if good and made is not None:
            return trials, step_size, made
        step_size /= SHORTER if np.isfinite(heat) else SHORTER**2
    raise FloatingPointError(
        'no step size keeps a chain as wide as its target: step_size="auto" found nothing. Look at the model at the '
        "mode (scirocco.find_mode), rescale its parameters, or give a step size"
    )


def too_hot(found: Virial, limit: float) -> bool:
    """Whether sds are beyond the limit, and not by chance; or whether the chains run away, against the gradient."""
    most = (1 + limit) ** 2
    single = found.ratio - SINGLE * found.error
    if found.overall + OVERALL * found.overall_error < 0:
        return True
    return found.overall - OVERALL * found.overall_error > most or bool(np.any(single > most))
