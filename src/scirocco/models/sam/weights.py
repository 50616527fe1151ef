"""The shares of topics in documents, given the topics: geodesic Monte Carlo on the simplex, many documents at once.

    p(theta | v, beta) ~ prod_k theta_k^(alpha_k - 1) exp(kappa v'beta theta / |beta theta|)

All that a document must know of the topics are v'beta and beta'beta, so a step costs K^2 whatever the vocabulary. Each
document has a step size of its own, which follows the acceptance of its moves at a rate that falls with their number.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from scirocco.core.types import Array, Key
from scirocco.manifolds import Simplex, Sphere

WANTED = 0.8  # probability of acceptance
LEAST_SHARE = 1e-3  # share that a start has of each topic, in units of an equal share


class Shares(NamedTuple):
    """Of each document: the shares of topics, the log of the step size, and the number of moves made."""

    theta: Array
    log_step: Array
    moves: Array


def start(dots: Array, gram: Array, kappa: Array) -> Shares:
    """The shares that bring a mixture of topics nearest to each document, with none of them zero."""
    topics = gram.shape[-1]
    ridge = 1e-4 * jnp.eye(topics, dtype=gram.dtype)
    nearest = jnp.linalg.solve(gram + ridge, dots.T).T
    theta = jnp.maximum(nearest / jnp.maximum(jnp.sum(nearest, axis=-1, keepdims=True), 1e-6), LEAST_SHARE / topics)
    theta = theta / jnp.sum(theta, axis=-1, keepdims=True)
    step = jnp.full(dots.shape[:1], 0.5 / jnp.sqrt(kappa), dots.dtype)
    return Shares(theta, jnp.log(step), jnp.zeros(dots.shape[:1], dots.dtype))


def cosine(theta: Array, dots: Array, gram: Array) -> Array:
    """v'beta theta / |beta theta|, along the last axis."""
    return jnp.sum(dots * theta, axis=-1) / jnp.sqrt(jnp.sum(theta * (theta @ gram), axis=-1))


def sampled(
    key: Key, shares: Shares, dots: Array, gram: Array, alpha: Array, kappa: Array, *, power: float, draws: int,
    between: int = 1, leaps: int = 5,
) -> tuple[Shares, Array]:  # fmt: skip
    """``draws`` draws, (draws, documents, topics), ``between`` moves apart, and where the documents are then."""
    simplex = Simplex(power)

    def log_density(theta: Array, dots: Array) -> Array:
        return jnp.sum((alpha - 1) * jnp.log(theta)) + kappa * cosine(theta, dots, gram)

    def slope(theta: Array, dots: Array) -> Array:
        return simplex.slope(theta, -jax.grad(log_density)(theta, dots))

    def move(noise: Array, luck: Array, theta: Array, log_step: Array, moves: Array, dots: Array) -> tuple[Array, ...]:
        h = jnp.exp(log_step)
        v = Sphere().project(simplex.root(theta), noise)

        def leap(_: int, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            x, v = carry
            x, v = simplex.flow(x, v - h / 2 * slope(x, dots), h)
            return x, v - h / 2 * slope(x, dots)

        new, w = jax.lax.fori_loop(0, leaps, leap, (theta, v))
        energy = [jnp.sum(v * v) / 2 - log_density(x, dots) - simplex.change(x) for x, v in ((theta, v), (new, w))]
        ratio = energy[0] - energy[1]
        acceptance = jnp.where(jnp.isfinite(ratio), jnp.exp(jnp.minimum(ratio, 0.0)), 0.0)
        rate = (1 + moves) ** -0.6
        return jnp.where(luck < acceptance, new, theta), log_step + rate * (acceptance - WANTED), moves + 1

    def one(carry: Shares, key: Key) -> tuple[Shares, None]:
        first, second = jax.random.split(key)
        noise = jax.random.normal(first, carry.theta.shape, carry.theta.dtype)
        luck = jax.random.uniform(second, carry.moves.shape, carry.theta.dtype)
        return Shares(*jax.vmap(move)(noise, luck, *carry, dots)), None

    def recorded(carry: Shares, key: Key) -> tuple[Shares, Array]:
        carry, _ = jax.lax.scan(one, carry, jax.random.split(key, between))
        return carry, carry.theta

    return jax.lax.scan(recorded, shares, jax.random.split(key, draws))
