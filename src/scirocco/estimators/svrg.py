"""The stochastic variance reduced gradient: a control variate whose centre follows the chain.

    every m steps:  centre <- theta,  G <- sum_i grad l_i(centre)        (one pass over the data)
    g(theta) = - grad log p(theta) + G + sum_{i in S} w_i (grad l_i(theta) - grad l_i(centre))

Johnson and Zhang (2013) for optimisation, Dubey et al. (2016) for Langevin dynamics. Unbiased given the centre.
"""

from __future__ import annotations

from dataclasses import dataclass

from scirocco.batches import Batch
from scirocco.core.checks import require_count
from scirocco.core.trees import zeros_like
from scirocco.core.types import Params
from scirocco.density import PureDensity
from scirocco.estimators.base import Estimator
from scirocco.estimators.control_variate import ControlVariateState, anchor, estimate_around
from scirocco.target import Target


@dataclass(frozen=True)
class SVRG(Estimator[ControlVariateState]):
    """Control variates around the chain's own position of at most ``refresh_every`` steps ago.

    >>> import jax.numpy as jnp, scirocco as sc
    >>> target = sc.Target(lambda m: -m**2 / 2, lambda m, x: -(x - m)**2 / 2, jnp.arange(10.0))
    >>> sc.sample(target, sc.SGLD(0.01), jnp.array(4.0), num_samples=20, batch_size=5, estimator=sc.SVRG(50)).count
    20
    """

    refresh_every: int = 1000

    def __post_init__(self) -> None:
        require_count("refresh_every", self.refresh_every)

    def init(self, target: Target, position: Params, held: Params) -> ControlVariateState:
        """The state whose centre is the start of the chain."""
        return anchor(target, position, held)

    def refresh(
        self, target: Target, state: ControlVariateState, position: Params, held: Params
    ) -> ControlVariateState:
        """The state whose centre is where the chain is now."""
        del state
        return anchor(target, position, held)

    def blank(self, target: Target, position: Params, held: Params) -> ControlVariateState:
        """A state of the right shapes, its gradient zero."""
        del target
        return ControlVariateState(position, held, zeros_like(position))

    def estimate(
        self, target: PureDensity, state: ControlVariateState, position: Params, held: Params, batch: Batch
    ) -> tuple[Params, ControlVariateState]:
        """Two backward passes over the minibatch, one at the centre."""
        return estimate_around(target, state, position, held, batch), state
