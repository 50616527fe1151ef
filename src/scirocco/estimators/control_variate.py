"""The gradient with a control variate at a fixed centre.

    g(theta) = - grad log p(theta) + G(centre) + sum_{i in S} w_i (grad l_i(theta) - grad l_i(centre))

with l_i = - log p(x_i | .) and G = sum_i grad l_i, one pass over the data in float64. Unbiased; its variance is
proportional to |theta - centre|^2, so near the mode it does not grow with N. Baker, Fearnhead, Fox and Nemeth (2019,
SGLD-CV). With ``batches.Weighted(L)``, L_i the Lipschitz constants of grad l_i, this is their weighted form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from scirocco.batches import Batch
from scirocco.target import Target
from scirocco.trees import zeros_like
from scirocco.tuning.mode import find_mode
from scirocco.types import Params


class ControlVariateState(NamedTuple):
    """The centre (with the held parameters it was computed at) and the likelihood's full gradient there."""

    centre: Params
    held: Params
    gradient: Params


def anchor(target: Target, position: Params, held: Params) -> ControlVariateState:
    """One pass over the data: the state with its centre at ``position``."""
    full = target.full_likelihood_gradient(position, held)
    return ControlVariateState(position, held, jax.tree.map(lambda g, p: jnp.asarray(g, p.dtype), full, position))


def estimate_around(target: Target, state: ControlVariateState, position: Params, held: Params, batch: Batch) -> Params:
    """The estimate of grad U that differs from the full gradient only by what changed since the centre."""
    here = target.likelihood_gradient(position, held, batch)
    there = target.likelihood_gradient(state.centre, state.held, batch)
    prior = target.prior_gradient(position, held)
    return jax.tree.map(lambda p, full, a, b: p + full + (a - b), prior, state.gradient, here, there)


@dataclass(frozen=True, eq=False)
class ControlVariate:
    """Control variates around a centre: the user's, or the posterior mode found by ``tuning.find_mode``.

    Chains start at the centre, which replaces the burn-in. ``options`` go to ``find_mode``.
    """

    centre: Params = field(default=None, metadata={"resume": False})
    options: dict[str, Any] | None = field(default=None, metadata={"resume": False})

    def start(self, target: Target, position: Params, held: Params, seed: int) -> Params:
        """The centre."""
        if self.centre is None:
            return find_mode(target, position, held=held, seed=seed, **(self.options or {}))
        centre = jax.tree.map(jnp.asarray, self.centre)
        shapes = jax.tree.map(jnp.shape, centre), jax.tree.map(jnp.shape, position)
        if shapes[0] != shapes[1]:
            raise ValueError(f"centre must have the shapes of the parameters, {shapes[1]}; got {shapes[0]}")
        return jax.tree.map(lambda c, p: c.astype(p.dtype), centre, position)

    def init(self, target: Target, position: Params, held: Params) -> ControlVariateState:
        """The full gradient at the centre, which is where the chain starts."""
        return anchor(target, position, held)

    def blank(self, target: Target, position: Params, held: Params) -> ControlVariateState:
        """Zeros."""
        del target
        return ControlVariateState(position, held, zeros_like(position))

    def estimate(
        self, target: Target, state: ControlVariateState, position: Params, held: Params, batch: Batch
    ) -> tuple[Params, ControlVariateState]:
        """Two backward passes over the minibatch, one at the centre."""
        return estimate_around(target, state, position, held, batch), state
