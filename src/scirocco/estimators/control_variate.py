"""The gradient with a control variate at a fixed centre.

    g(theta) = - grad log p(theta) + G(centre) + sum_{i in S} w_i (grad l_i(theta) - grad l_i(centre))

with l_i = - log p(x_i | .) and G = sum_i grad l_i, one pass over the data in float64. Unbiased; its variance is
proportional to |theta - centre|^2, so near the mode it does not grow with N. Baker, Fearnhead, Fox and Nemeth (2019,
SGLD-CV). With ``batches.Weighted(L)``, L_i the Lipschitz constants of grad l_i, this is their weighted form.

``order=2`` takes the next term of Taylor's series as well, with d = theta - centre and H = sum_i H_i(centre),

    g(theta) = - grad log p(theta) + G + H d + sum_{i in S} w_i (grad l_i(theta) - grad l_i(centre) - H_i d)

The variance is then proportional to |theta - centre|^4: next to nothing where the posterior is near Gaussian. One
Hessian of all data to begin with, and a half more work a step. The same expansion as in the proxies of Bardenet, Doucet
and Holmes (2017), used here for the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco.batches import Batch
from scirocco.batches.keyed import at_rest
from scirocco.core.trees import zeros_like
from scirocco.core.types import Array, Params
from scirocco.density import PureDensity
from scirocco.estimators.base import Estimator, FindMode
from scirocco.target import Target

MOST_PARAMETERS = 1000  # up to which the Hessian of all data is taken


class ControlVariateState(NamedTuple):
    """The centre (with the held parameters it was found at), the likelihood's full gradient there, and its Hessian."""

    centre: Params
    held: Params
    gradient: Params
    hessian: Array | None = None


def anchor(target: Target, position: Params, held: Params) -> ControlVariateState:
    """One pass over the data: the state with its centre at ``position``."""
    full = target.full_likelihood_gradient(position, held)
    rounded = jax.tree.map(lambda g, p: np.asarray(g, p.dtype), full, position)
    return ControlVariateState(position, held, jax.device_put(rounded))


def estimate_around(
    target: PureDensity, state: ControlVariateState, position: Params, held: Params, batch: Batch
) -> Params:
    """The estimate of grad U that differs from the full gradient only by what changed since the centre."""
    here = target.likelihood_gradient(position, held, batch)
    there = target.likelihood_gradient(state.centre, state.held, at_rest(batch))
    prior = target.prior_gradient(position, held)
    return jax.tree.map(lambda p, full, a, b: p + full + (a - b), prior, state.gradient, here, there)


def estimate_second_order(
    target: PureDensity, state: ControlVariateState, position: Params, held: Params, batch: Batch
) -> Params:
    """The same with the change since the centre foretold by the Hessian."""
    assert state.hessian is not None
    step = jax.tree.map(lambda a, b: a - b, position, state.centre)
    flat, unravel = ravel_pytree(step)
    here = target.likelihood_gradient(position, held, batch)
    resting = at_rest(batch)  # as the sums over all data were taken
    there, change = jax.jvp(lambda p: target.likelihood_gradient(p, state.held, resting), (state.centre,), (step,))
    prior = target.prior_gradient(position, held)
    return jax.tree.map(
        lambda p, full, h, a, b, c: p + full + h + (a - b - c),
        prior, state.gradient, unravel(state.hessian @ flat), here, there, change,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class ControlVariate(Estimator[ControlVariateState]):
    """Control variates around a centre: the user's, or the posterior mode (``find_mode``).

    ``order`` is that of Taylor's series, 1 or 2 (for at most 1,000 parameters). Chains start at the centre, which
    replaces the burn-in. ``options`` go to ``find_mode``.

    >>> import jax.numpy as jnp, scirocco as sc
    >>> target = sc.Target(lambda m: -m**2 / 2, lambda m, x: -(x - m)**2 / 2, jnp.arange(10.0))
    >>> trace = sc.sample(target, sc.SGLD(0.01), jnp.array(4.0), batch_size=5, estimator=sc.ControlVariate())
    >>> trace.count
    1000
    """

    centre: Params = field(default=None, metadata={"resume": False, "program": False})
    order: int = 1
    options: dict[str, Any] | None = field(default=None, metadata={"resume": False, "program": False})
    free: bool = field(default=False, repr=False, metadata={"resume": False, "program": False})  # as ``around`` sets it

    def __post_init__(self) -> None:
        if self.order not in (1, 2):
            raise ValueError(f"order must be 1 or 2; got {self.order!r}")

    def around(self, position: Params) -> ControlVariate:
        """The same around a position of the chain, in place of parameters of the user's."""
        return replace(self, centre=position, free=True)

    def start(self, target: Target, position: Params, held: Params, find_mode: FindMode) -> Params:
        """Chains start at the centre: the one given, or the mode."""
        size = ravel_pytree(position)[0].size
        if self.order == 2 and size > MOST_PARAMETERS:
            raise ValueError(f"order=2 keeps a Hessian, for at most {MOST_PARAMETERS:,} parameters; there are {size:,}")
        if self.centre is None:
            return find_mode(target, position, held=held, **(self.options or {}))
        centre = jax.tree.map(jnp.asarray, self.centre if self.free else target.freed(self.centre))
        shapes = jax.tree.map(jnp.shape, centre), jax.tree.map(jnp.shape, position)
        if shapes[0] != shapes[1]:
            raise ValueError(f"centre must have the shapes of the parameters, {shapes[1]}; got {shapes[0]}")
        return jax.tree.map(lambda c, p: c.astype(p.dtype), centre, position)

    def init(self, target: Target, position: Params, held: Params) -> ControlVariateState:
        """The full gradient at the centre, which is where the chain starts, and the Hessian for the second order."""
        state = anchor(target, position, held)
        if self.order == 1:
            return state
        dtype = ravel_pytree(position)[0].dtype
        return state._replace(hessian=jax.device_put(target.likelihood_hessian(position, held).astype(dtype)))

    def blank(self, target: Target, position: Params, held: Params) -> ControlVariateState:
        """A state of the right shapes, its gradient (and Hessian) zero."""
        del target
        flat = ravel_pytree(position)[0]
        hessian = jnp.zeros((flat.size, flat.size), flat.dtype) if self.order == 2 else None
        return ControlVariateState(position, held, zeros_like(position), hessian)

    def anchored(self, target: PureDensity, state: ControlVariateState, held: Params) -> tuple[Params, Params]:
        """The centre and grad U there."""
        prior = target.prior_gradient(state.centre, held)
        return state.centre, jax.tree.map(jnp.add, prior, state.gradient)

    def estimate(
        self, target: PureDensity, state: ControlVariateState, position: Params, held: Params, batch: Batch
    ) -> tuple[Params, ControlVariateState]:
        """Two backward passes over the minibatch, one at the centre; for the second order, a Hessian product too."""
        estimated = estimate_around if self.order == 1 else estimate_second_order
        return estimated(target, state, position, held, batch), state
