"""Stochastic gradient Riemannian Langevin dynamics on the simplex.

    dx = (D grad log p + div D) dt + sqrt(2 D) dW

discretised by Euler, in one of four parametrisations of Patterson and Teh (2013), whose epsilon is 2h here. With
a_hat = prior + counts, N_hat = sum counts, A = sum a_hat, omega the point of the simplex and xi ~ N(0, I):

    expanded_mean       theta <- |theta + h (a_hat - theta - N_hat omega) + sqrt(2 h theta) xi|
    expanded_natural    phi = log theta;  phi <- phi + h ((a_hat - 1 - N_hat omega)/theta - 1) + sqrt(2 h/theta) xi
    reduced_mean        s = sqrt(omega) xi;  omega <- |omega + h (a_hat/A - omega) + sqrt(2 h/A) (s - omega sum s)|
    reduced_natural     log omega <- log omega + (h/A) (a_hat - 1)/omega + sqrt(2 h/(A omega)) xi

In the expanded forms omega = theta / sum theta; the reduced ones are normalised after the step, and their metric is
divided by A, so that h means about the same time in all four. In the expanded forms omega ~ Dirichlet(a) and
sum theta ~ Gamma(sum prior), independent of it: the weights are not Gamma(a) as in SCIR. Euler steps are biased near
the boundary, where sparse components live, and the bias falls only as sqrt(h); the natural forms have noise of size
1/sqrt(theta) there and fail. They are here for comparison: use SCIR.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from scirocco.core.checks import require_choice
from scirocco.core.compiled import BLOCK, over_blocks
from scirocco.diffusions.base import normal_kernel
from scirocco.simplex.base import Counts, SimplexSampler, State, require_step_size, step_size_at
from scirocco.simplex.weights import Weights

LARGEST_LOG = 700.0
ONE, ZERO = np.ones((1, 1)), np.zeros((1, 1))


@dataclass(frozen=True)
class SGRLD(SimplexSampler):
    """Stochastic gradient Riemannian Langevin dynamics; ``step_size`` is h, half of the source's epsilon.

    >>> weights = Weights(prior=0.1, categories=4)
    >>> sampler = SGRLD(step_size=0.01)
    >>> state = sampler.start(weights)
    >>> sampler.step(weights, Counts([[6.0, 3.0, 1.0, 0.0]]))
    >>> weights.proportions().shape
    (1, 4)
    """

    step_size: Any
    _: KW_ONLY
    parametrization: str = "expanded_mean"

    def __post_init__(self) -> None:
        require_step_size(self.step_size)
        require_choice("parametrization", self.parametrization, tuple(_STEPS))

    def start(self, weights: Weights) -> State:
        """Reduced forms live on the simplex itself, expanded ones have a total of their own; natural ones no zeros."""
        theta = weights.proportions().T
        if self.parametrization.endswith("natural"):
            theta = np.maximum(theta, np.exp(-LARGEST_LOG))
        weights.replace(theta)
        if self.parametrization.startswith("expanded"):
            weights.redraw_totals(np.broadcast_to(weights.prior, theta.shape))
        return {}

    def step(self, weights: Weights, counts: Counts, state: State | None = None) -> None:
        """One Euler step of all categories: they share the total, so none can wait."""
        del state
        counts.require_fit(weights)
        h = step_size_at(self.step_size, weights.steps)
        noise = _normals(weights)
        theta = weights.catch_up()
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            new = _STEPS[self.parametrization](theta, weights.prior, counts.dense(weights.categories).T, h, noise)
        weights.replace(new, h)
        weights.steps += 1


def _normals(weights: Weights) -> np.ndarray:
    """Standard normal numbers, one for each weight."""
    blank = np.zeros((weights.theta.size, 1))
    call, weights.calls = weights.calls, weights.calls + 1
    over_blocks(
        lambda first, last: normal_kernel(weights.key, call, first, last, blank, (ZERO, ZERO, ONE), blank),
        -(-blank.size // BLOCK),
        weights.threads,
    )
    return blank.reshape(weights.theta.shape)


def _expanded_mean(theta: Any, prior: Any, counts: Any, h: float, noise: Any) -> Any:
    pull = 1 + counts.sum(axis=0) / theta.sum(axis=0)
    return np.abs(theta + h * (prior + counts - theta * pull) + np.sqrt(2 * h * theta) * noise)


def _expanded_natural(theta: Any, prior: Any, counts: Any, h: float, noise: Any) -> Any:
    share = counts.sum(axis=0) * theta / theta.sum(axis=0)
    drift = (prior + counts - 1 - share) / theta - 1
    phi = np.log(theta) + h * drift + np.sqrt(2 * h / theta) * noise
    return np.exp(np.clip(phi, -LARGEST_LOG, LARGEST_LOG))


def _reduced_mean(omega: Any, prior: Any, counts: Any, h: float, noise: Any) -> Any:
    parameter = prior + counts
    total = parameter.sum(axis=0)
    pushed = np.sqrt(omega) * noise
    spread = np.sqrt(2 * h / total) * (pushed - omega * pushed.sum(axis=0))
    moved = np.abs(omega + h * (parameter / total - omega) + spread)
    return moved / moved.sum(axis=0)


def _reduced_natural(omega: Any, prior: Any, counts: Any, h: float, noise: Any) -> Any:
    parameter = prior + counts
    total = parameter.sum(axis=0)
    phi = np.log(omega) + h * (parameter - 1) / (total * omega) + np.sqrt(2 * h / (total * omega)) * noise
    moved = np.exp(np.maximum(phi - phi.max(axis=0), -LARGEST_LOG))
    return moved / moved.sum(axis=0)


_STEPS = {
    "expanded_mean": _expanded_mean,
    "expanded_natural": _expanded_natural,
    "reduced_mean": _reduced_mean,
    "reduced_natural": _reduced_natural,
}
