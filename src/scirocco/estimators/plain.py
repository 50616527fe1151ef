"""The plain minibatch gradient.

    g(theta) = - grad log p(theta) - sum_{i in S} w_i grad log p(x_i | theta),    w_i = N/n,  or 1/(n p_i) when weighted

Unbiased; its variance is O(N^2/n) whatever the distance to the mode. Robbins and Monro (1951).
"""

from __future__ import annotations

from dataclasses import dataclass

from scirocco.batches import Batch
from scirocco.core.types import Params
from scirocco.density import PureDensity
from scirocco.estimators.base import Estimator


@dataclass(frozen=True)
class Plain(Estimator[tuple[()]]):
    """The gradient of the minibatch, scaled to the whole data set.

    >>> import jax.numpy as jnp, scirocco as sc
    >>> target = sc.Target(lambda m: -m**2 / 2, lambda m, x: -(x - m)**2 / 2, jnp.arange(10.0))
    >>> sc.sample(target, sc.SGLD(0.01), jnp.array(4.0), num_samples=20, batch_size=5, estimator=sc.Plain()).count
    20
    """

    def estimate(
        self, target: PureDensity, state: tuple[()], position: Params, held: Params, batch: Batch
    ) -> tuple[Params, tuple[()]]:
        """One backward pass over the minibatch."""
        return target.potential_gradient(position, held, batch), state
