"""Running an exact diffusion, with its own parameters or with parameters estimated from a new minibatch at each step.

The second is the stochastic version of the diffusion: the step has no discretisation error, only the noise of the
estimate. With CIR it is the stochastic Cox-Ingersoll-Ross process of Baker et al. (2018); with OU and GBM the samplers
of normal and lognormal laws that their section 2.3 points to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from scirocco.core.checks import real_array, require_count, require_seed, require_unmasked
from scirocco.core.seeds import Purpose, generator
from scirocco.diffusions.base import Diffusion


@dataclass(frozen=True, eq=False)
class Minibatch:
    """A diffusion whose parameters are estimated from a minibatch, drawn without replacement, at every step.

    ``build(rows, scale)`` makes the diffusion from the rows of a minibatch and N/n. The drift should be linear in what
    is estimated, so that an unbiased estimate gives an unbiased drift.

    >>> from scirocco.diffusions import CIR, Minibatch, simulate
    >>> counts = np.random.default_rng(0).poisson(3.0, size=10_000)
    >>> posterior = Minibatch(lambda rows, scale: CIR.gamma(1 + scale * rows.sum(), 1 + len(counts)), counts, 1000)
    >>> draws = simulate(posterior, initial=3.0, step_size=0.01, num_samples=500, burn_in=500)
    >>> bool(abs(draws.mean() - counts.mean()) < 0.1)
    True
    """

    build: Callable[[np.ndarray, float], Diffusion]
    data: Any
    batch_size: int

    def __post_init__(self) -> None:
        if not callable(self.build):
            raise TypeError(f"build must be a function of (rows, scale); got {type(self.build).__name__}")
        require_count("batch_size", self.batch_size)
        require_unmasked("data", self.data)
        if np.ndim(self.data) < 1 or not self.batch_size <= len(self.data):
            raise ValueError(f"data must be an array of at least batch_size = {self.batch_size} rows")

    def at(self, seed: int, step: int) -> Diffusion:
        """The diffusion of a step."""
        data = np.asarray(self.data)
        rng = generator(seed, Purpose.DIFFUSION_MINIBATCH, step)
        rows = data[rng.choice(len(data), self.batch_size, replace=False, shuffle=False)]
        return self.build(rows, len(data) / self.batch_size)


def simulate(
    process: Diffusion | Minibatch, initial: Any, step_size: float, num_samples: int, *, burn_in: int = 0,
    thin: int = 1, seed: int = 0, threads: int | None = None,
) -> np.ndarray:  # fmt: skip
    """A path of a diffusion, one state every ``thin`` steps of length ``step_size``; the draws are the leading axis."""
    if isinstance(process, type) or not isinstance(process, Diffusion | Minibatch):
        raise TypeError(f"process must be a diffusion, such as CIR or OU, or a Minibatch; got {type(process).__name__}")
    require_count("num_samples", num_samples)
    require_count("thin", thin)
    require_count("burn_in", burn_in, least=0)
    require_count("burn_in + num_samples * thin", burn_in + num_samples * thin)
    seed = require_seed(seed)
    state, draws = real_array("initial", initial), []
    for step in range(burn_in + num_samples * thin):
        now = process.at(seed, step) if isinstance(process, Minibatch) else process
        state = now.transition(state, step_size, seed=seed, step=step, threads=threads)
        if step >= burn_in and (step - burn_in + 1) % thin == 0:
            draws.append(state)
    return np.stack(draws)
