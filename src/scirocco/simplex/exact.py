"""Independent exact draws.

    theta ~ Gamma(prior + counts, 1)

Given exact counts, omega is an independent draw from its Dirichlet posterior: the reference for the other samplers, and
the parameter step of a Gibbs sampler with kept assignments. From estimated counts it would sample a wrong law, and is
refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scirocco.core.compiled import BLOCK, jit, over_blocks
from scirocco.core.random import open_stream
from scirocco.core.random.bulk import gammas, workspace
from scirocco.simplex.base import Counts, SimplexSampler, State
from scirocco.simplex.weights import Weights


@jit
def _kernel(key: Any, step: int, first: int, last: int, shape: Any, out: Any) -> None:
    work = workspace()
    for block in range(first, last):
        low, high = block * BLOCK, min(out.size, (block + 1) * BLOCK)
        gammas(open_stream(key, step, block), shape[low:high], out[low:high], high - low, work)


def draw_gammas(key: np.ndarray, step: int, shape: np.ndarray, threads: int | None = None) -> np.ndarray:
    """Independent Gamma(shape, 1) numbers; a function of (key, step), whatever the threads."""
    flat = np.ascontiguousarray(shape, np.float64).reshape(-1)
    out = np.empty(flat.size)
    over_blocks(lambda first, last: _kernel(key, step, first, last, flat, out), -(-flat.size // BLOCK), threads)
    return out.reshape(shape.shape)


@dataclass(frozen=True)
class Exact(SimplexSampler):
    """Independent draws from the Dirichlet posterior.

    >>> weights = Weights(prior=0.1, categories=3)
    >>> Exact().step(weights, Counts([[60.0, 30.0, 10.0]], exact=True))
    >>> bool(abs(weights.proportions()[0, 0] - 0.6) < 0.3)
    True
    """

    def step(self, weights: Weights, counts: Counts, state: State | None = None) -> None:
        """Replace the weights by a draw from their posterior that is independent of them."""
        del state
        counts.require_fit(weights)
        if not counts.exact and counts.fraction < 1:
            raise ValueError("Exact needs exact counts, batch_size=1.0 for all data; got those of a minibatch")
        call, weights.calls = weights.calls, weights.calls + 1
        parameter = weights.prior + counts.dense(weights.categories).T
        weights.replace(draw_gammas(weights.key, call, parameter, weights.threads), time=1.0)
        weights.steps += 1
