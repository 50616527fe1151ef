"""SAGA: each example remembers its last gradient.

    g(theta) = - grad log p(theta) + sum_i a_i + sum_{i in S} w_i (grad l_i(theta) - a_i)
    a_i <- grad l_i(theta),  i in S

Unbiased whatever the table a holds; its variance falls as the table comes up to date. Defazio et al. (2014) for
optimisation, Dubey et al. (2016) for Langevin dynamics. The table takes N times the size of the parameters, a chain.

Minibatches must be independent: within an epoch without replacement the next rows are always those with the oldest
gradients, the estimate is biased given the past, and momentum samplers blow up. The default is then ``RandomBlocks``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from scirocco.batches import Arrays, Batch
from scirocco.core.types import Array, Params
from scirocco.density import PureDensity
from scirocco.estimators.base import Estimator, FindMode
from scirocco.target import Target


class SAGAState(NamedTuple):
    """The table of gradients, its sum, and a scratch vector that finds rows drawn twice."""

    table: Params
    total: Params
    last: Array


@dataclass(frozen=True)
class SAGA(Estimator[SAGAState]):
    """A table of the last gradient of every example; needs data in memory.

    >>> import jax.numpy as jnp, scirocco as sc
    >>> target = sc.Target(lambda m: -m**2 / 2, lambda m, x: -(x - m)**2 / 2, jnp.arange(10.0))
    >>> sc.sample(target, sc.SGLD(0.01), jnp.array(4.0), num_samples=20, batch_size=5, estimator=sc.SAGA()).count
    20
    """

    independent_draws: ClassVar[bool] = True

    def start(self, target: Target, position: Params, held: Params, find_mode: FindMode) -> Params:
        """Chains start at the given position, if the data is in memory."""
        del held, find_mode
        if not isinstance(target.source, Arrays):
            raise ValueError(
                "SAGA keeps a gradient for every example and needs data in memory; use ControlVariate or SVRG"
            )
        return position

    def init(self, target: Target, position: Params, held: Params) -> SAGAState:
        """A table that sums to the full gradient at the start.

        Every row of the table is the mean gradient, whose sum is the full gradient: rows fill in as they are drawn.
        One pass over the data instead of a table of per-example gradients computed up front, and just as unbiased.
        """
        full = target.full_likelihood_gradient(position, held)
        state = self.blank(target, position, held)
        return SAGAState(
            jax.tree.map(lambda t, g: t + jnp.asarray(g / target.size, t.dtype), state.table, full),
            jax.tree.map(lambda t, g: jnp.asarray(g, t.dtype), state.total, full),
            state.last,
        )

    def blank(self, target: Target, position: Params, held: Params) -> SAGAState:
        """A table of zeros."""
        del held
        return SAGAState(
            jax.tree.map(lambda p: jnp.zeros((target.size, *p.shape), p.dtype), position),
            jax.tree.map(jnp.zeros_like, position),
            jnp.zeros(target.size, jnp.int32),
        )

    def estimate(
        self, target: PureDensity, state: SAGAState, position: Params, held: Params, batch: Batch
    ) -> tuple[Params, SAGAState]:
        """One backward pass per example of the minibatch, and the table's update."""
        rows = batch.indices
        slots = jnp.arange(rows.shape[0], dtype=jnp.int32)
        # A row drawn twice must enter the running sum once: the last slot that wrote it counts.
        last = state.last.at[rows].set(slots)
        counts = (last[rows] == slots).astype(jnp.float32)
        weights = jnp.broadcast_to(batch.weights, counts.shape)

        new = target.example_gradients(position, held, batch.data)
        change = jax.tree.map(lambda g, t: g - t[rows], new, state.table)
        prior = target.prior_gradient(position, held)
        gradient = jax.tree.map(lambda p, s, c: p + s + jnp.tensordot(weights, c, 1), prior, state.total, change)
        # What is written must depend on what was read: otherwise XLA copies the whole table at every step.
        first = jax.tree.map(lambda c: c * counts.astype(c.dtype).reshape(-1, *(1,) * (c.ndim - 1)), change)
        table = jax.tree.map(lambda t, c: t.at[rows].add(c), state.table, first)
        total = jax.tree.map(lambda s, c: s + jnp.sum(c, axis=0), state.total, first)
        return gradient, SAGAState(table, total, last)
