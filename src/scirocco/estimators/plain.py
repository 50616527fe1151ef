"""The plain minibatch gradient.

    g(theta) = - grad log p(theta) - sum_{i in S} w_i grad log p(x_i | theta),    w_i = N/n,  or 1/(n p_i) when weighted

Unbiased; its variance is O(N^2/n) whatever the distance to the mode. Robbins and Monro (1951).
"""

from __future__ import annotations

from dataclasses import dataclass

from scirocco.batches import Batch
from scirocco.target import Target
from scirocco.types import Params


@dataclass(frozen=True)
class Plain:
    """The gradient of the minibatch, scaled to the whole data set."""

    def start(self, target: Target, position: Params, held: Params, seed: int) -> Params:
        """The given position."""
        del target, held, seed
        return position

    def init(self, target: Target, position: Params, held: Params) -> tuple[()]:
        """No state."""
        del target, position, held
        return ()

    blank = init

    def estimate(
        self, target: Target, state: tuple[()], position: Params, held: Params, batch: Batch
    ) -> tuple[Params, tuple[()]]:
        """One backward pass over the minibatch."""
        return target.potential_gradient(position, held, batch), state
