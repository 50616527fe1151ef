"""Independent exact draws.

    theta ~ Gamma(prior + counts, 1)

Given exact counts, omega is an independent draw from its Dirichlet posterior: the reference for the other samplers, and
the parameter step of a Gibbs sampler with kept assignments. From estimated counts it would sample a wrong law, and is
refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scirocco.simplex.base import Counts, SimplexSampler
from scirocco.simplex.weights import Weights


@dataclass(frozen=True)
class Exact(SimplexSampler):
    """Independent draws from the Dirichlet posterior.

    >>> weights = Weights(prior=0.1, categories=3)
    >>> Exact().step(weights, Counts([[60.0, 30.0, 10.0]], exact=True))
    >>> bool(abs(weights.proportions()[0, 0] - 0.6) < 0.3)
    True
    """

    def step(self, weights: Weights, counts: Counts) -> None:
        """A fresh draw."""
        if not counts.exact and counts.fraction < 1:
            raise ValueError("Exact needs exact counts, batch_size=1.0 for all data; got those of a minibatch")
        theta = np.zeros_like(weights.theta)
        weights.transition(theta, weights.prior + counts.dense(weights.categories).T, 0.0, 1.0)
        weights.replace(theta, time=1.0)
        weights.steps += 1
