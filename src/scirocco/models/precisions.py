"""Normal weights whose precisions are learnt.

    x_k ~ N(0, 1/lambda_k),  lambda_k ~ Gamma(shape, rate):    lambda_k | x_k ~ Gamma(shape + size/2, rate + |x_k|^2/2)

The conditional law is exact and needs no data, so the precisions are a ``Block``: nothing of them is left to gradients,
whose joint mode of weights and precisions (all weights 0) says nothing of the posterior.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from scirocco.batches import Batch
from scirocco.core.program import Given
from scirocco.core.types import Array, Key, Params
from scirocco.gradient.blocks import Block

NAME = "precisions"


def log_prior(params: Params, names: Sequence[str], shape: float, rate: float) -> Array:
    """Of the weights called ``names`` and of their precisions."""
    value = jnp.zeros(())
    for lam, x in zip(params[NAME], (params[name] for name in names), strict=True):
        value += x.size / 2 * jnp.log(lam) - lam * jnp.sum(x**2) / 2 + (shape - 1) * jnp.log(lam) - rate * lam
    return value


def gibbs(names: Sequence[str], shape: float, rate: float) -> Block:
    """Draws the precisions of the weights called ``names`` given the weights."""
    return Block(NAME, Given(_update, tuple(names), shape, rate))


def _update(names: Sequence[str], shape: float, rate: float, key: Key, params: Params, batch: Batch) -> Params:
    del batch
    sizes = jnp.array([params[name].size for name in names], jnp.float32)
    squares = jnp.stack([jnp.sum(params[name] ** 2) for name in names])
    return {NAME: jax.random.gamma(key, shape + sizes / 2) / (rate + squares / 2)}
