"""The kernel Stein discrepancy of a run: its draws against the target's own scores.

Scores come from all data, one pass for all draws together, or from a fresh minibatch for each draw (Gorham, Raj and
Mackey 2020): then the U-statistic stays unbiased, and is the default.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco.batches import Arrays, Batch
from scirocco.batches.base import batch_rows
from scirocco.core.trees import named_leaves
from scirocco.core.types import Array, Params
from scirocco.diagnostics.ksd import ksd
from scirocco.run.describe import is_opaque, rebuild
from scirocco.run.trace import Trace
from scirocco.target import Target


def trace_ksd(
    trace: Trace,
    target: Target,
    *,
    batch_size: int | float | None = None,
    max_draws: int = 1000,
    seed: int = 0,
    **options: Any,
) -> float:
    """The discrepancy of ``trace`` from ``target``; ``options`` go to ``ksd``.

    At most ``max_draws`` draws are used, evenly spread over the chains, because the cost grows with their square.
    Parameters with constraints are compared by their free numbers, whose density has no border.
    """
    draws = _draws(trace, max_draws)
    if target.change:
        draws, target = jax.jit(jax.vmap(target.change.free))(draws), target.free()
    if batch_size is None:
        gradients = _full_gradients(target, draws)
    else:
        gradients = _minibatch_gradients(target, draws, batch_rows(batch_size, target.size), seed)
        options.setdefault("statistic", "U")
    flat: Any = jax.vmap(lambda p: ravel_pytree(p)[0])
    return ksd(np.asarray(flat(draws)), -np.asarray(flat(gradients)), **options)


def _draws(trace: Trace, most: int) -> Params:
    """Draws as a stacked pytree of parameters."""
    outline = trace.description and trace.description.parts.parameters
    if outline is None or is_opaque(outline):
        raise ValueError("the trace does not know the structure of its parameters: use ksd(samples, scores) instead")
    template = rebuild(outline)
    names = list(named_leaves(template))
    missing = [name for name in names if name not in trace.posterior]
    if missing:
        raise ValueError(f"the trace must hold all parameters (collect=None); missing: {', '.join(missing)}")
    stacked = [trace.posterior[name].values for name in names]
    stacked = [values.reshape(-1, *values.shape[2:]) for values in stacked]
    picks = np.unique(np.linspace(0, len(stacked[0]) - 1, min(most, len(stacked[0]))).astype(int))
    return jax.tree.unflatten(jax.tree.structure(template), [jnp.asarray(values[picks]) for values in stacked])


def _full_gradients(target: Target, draws: Params) -> Params:
    """Grad U at every draw, each piece of the data serving all draws, summed in float64."""
    part = jax.jit(jax.vmap(lambda p, batch: target.likelihood_gradient(p, None, batch), in_axes=(0, None)))
    total = jax.vmap(lambda p: target.prior_gradient(p, None))(draws)
    total = jax.tree.map(lambda g: np.asarray(g, np.float64), total)
    for batch in target.passes():
        total = jax.tree.map(lambda a, b: a + np.asarray(b, np.float64), total, part(draws, batch))
    return total


def _minibatch_gradients(target: Target, draws: Params, rows: int, seed: int) -> Params:
    """An estimate of grad U at every draw, each from a minibatch of its own."""
    source = target.source
    if not isinstance(source, Arrays):
        raise ValueError("minibatch scores need data in memory; leave batch_size out to pass over the file once")
    rng = np.random.default_rng(seed)
    weight, indices = jnp.float32(target.size / rows), jnp.arange(rows, dtype=jnp.int32)

    @jax.jit
    def one(p: Params, data: Any) -> Params:
        return target.potential_gradient(p, None, Batch(data, weight, indices))

    def estimates() -> Iterator[Params]:
        for k in range(jax.tree.leaves(draws)[0].shape[0]):
            chosen = rng.choice(target.size, rows, replace=False)
            yield one(jax.tree.map(lambda x, k=k: x[k], draws), jax.tree.map(lambda a, c=chosen: a[c], source.arrays))

    def stack(*leaves: Array) -> Array:
        return jnp.stack(leaves)

    return jax.tree.map(stack, *estimates())
