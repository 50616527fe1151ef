"""The stochastic Cox-Ingersoll-Ross process.

    theta <- (1 - r) Gamma(a_hat + Poisson(theta r / (1 - r))),    r = e^-h,  a_hat = prior + counts

for every weight by itself: the exact transition over time h of a CIR process with stationary law Gamma(a_hat, 1), so
that omega = theta / sum theta targets Dirichlet(a). There is no discretisation error at any h; h says how often the
estimate a_hat is renewed. The mean of theta is exact, its stationary variance

    a + tanh(h/2) Var(a_hat)

so honest uncertainty about a category needs h well below 2 n/N: ``theory.scir_step_size`` gives the h for a wanted
inflation. Baker et al. (2018), whose h is the same.

With exact counts (kept assignments) a step is a Gibbs step; the totals of the rows are then redrawn first, without
which the chain would be slightly biased.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scirocco.simplex.base import Counts, SimplexSampler, State, require_step_size, step_size_at
from scirocco.simplex.weights import Weights


@dataclass(frozen=True)
class SCIR(SimplexSampler):
    """Stochastic Cox-Ingersoll-Ross process; ``step_size`` is h, a number or a schedule.

    ``sample_dirichlet`` also takes "auto", or ``Auto(sd_error=0.02)``: the law says which h keeps the sds honest.

    >>> weights = Weights(prior=0.1, categories=4)
    >>> sampler = SCIR(step_size=0.5)
    >>> sampler.step(weights, Counts([[6.0, 3.0, 1.0, 0.0]]))
    >>> weights.proportions().shape
    (1, 4)
    """

    step_size: Any

    def __post_init__(self) -> None:
        require_step_size(self.step_size, law_known=True)

    def step(self, weights: Weights, counts: Counts, state: State | None = None) -> None:
        """One exact transition; categories that ``counts`` does not name wait."""
        del state
        counts.require_fit(weights)
        h = step_size_at(self.step_size, weights.steps)
        columns = counts.columns
        prior = weights.prior if columns is None else weights.prior[columns]
        parameter = prior + counts.values.T
        if counts.exact:
            weights.catch_up()
            weights.redraw_totals(parameter)
        weights.advance(columns, parameter, 1 / np.expm1(h), -np.expm1(-h), h)
