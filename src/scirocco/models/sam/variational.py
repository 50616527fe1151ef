"""Mean-field variational inference for the spherical admixture model: the baseline and the start of the samplers.

    q(beta_k) = vMF with natural parameter r_k,   q(theta_d) = Dirichlet(a_d),   q(mu) the best given these
    ELBO = G(|kappa_0 m + sigma sum_k E beta_k|) + sum_k H(r_k) + const
           + sum_d [kappa v'E(beta) E(theta_d) / sqrt(E |beta theta_d|^2) - KL(Dirichlet(a_d) | Dirichlet(alpha))]

with G = - log c_V and H(r) = G(|r|) - |r| A(|r|). The mean of the quotient is taken as the quotient of means, as
Reisinger et al. (2010) do. Local parameters and topics rise along the gradient (Adam); the stochastic version sees a
minibatch a step. ``search`` is the start of the samplers: their steps are as long as the posterior is wide, and on a
large corpus it is a long way to it.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.interrupt import poll
from scirocco.core.seeds import Purpose, generator
from scirocco.core.types import Array
from scirocco.directional import bessel_ratio, log_bessel_excess
from scirocco.models.sam.model import Hyper, at_nearest_shares, steepness
from scirocco.models.sam.weights import start

LOCAL_STEPS = 20  # of a document's own parameters, each time it is seen
RATE = 0.3  # of Adam for topics, in units of a coordinate of a direction
LOCAL_RATE = 0.2  # for logs of a_d
ROUND = 200  # steps of the first round of a search
SMALL = 0.1  # times all that a search has gained: a round that gains less is the last
SCORED = 1000  # documents that say what a round has gained


class Found(NamedTuple):
    """The mean directions of the topics, the bound after each step, and the seconds, compiling not counted."""

    topics: np.ndarray
    bounds: list[float]
    seconds: float


def fit(
    rows: np.ndarray, centre: np.ndarray, topics: np.ndarray, hyper: Hyper, *, batch_size: int | None, steps: int,
    seed: int, max_seconds: float | None = None, callback: Any = None, part: int = 0,
) -> Found:  # fmt: skip
    """From topics; with a ``batch_size`` stochastic, parts with another number on other minibatches.

    ``callback(seconds, topics)`` is called after each step.
    """
    import optax

    began = time.perf_counter()
    size = len(rows)
    batch = size if batch_size is None else min(batch_size, size)
    unit = jnp.asarray(np.diag(steepness(rows, topics, hyper))[:, None], jnp.float32)  # about what the lengths will be
    natural = jnp.asarray(topics) * unit
    optimizer = optax.scale_by_adam()
    state = optimizer.init(natural / unit)
    rng = generator(seed, Purpose.SEARCH_ROWS, 1 + part)
    local = np.zeros((size, len(topics)), np.float32)
    seen = np.zeros(size, bool)
    bounds: list[float] = []
    ready = time.perf_counter()
    for step in range(steps):
        poll()
        spent = 0.0 if max_seconds is None else (time.perf_counter() - began) / max_seconds
        # Steps fall to zero towards the end, whichever of the two comes first; a coordinate of a direction is V^(-1/2).
        rate = RATE / np.sqrt(rows.shape[1]) * (1 + np.cos(np.pi * min(1.0, max(step / steps, spent)))) / 2
        chosen = np.arange(size) if batch == size else rng.choice(size, batch, replace=False)
        data = jnp.asarray(rows[chosen])
        mine = jnp.where(seen[chosen][:, None], local[chosen], _begun(natural, data, hyper))
        mine = _local(natural, mine, data, hyper)
        local[chosen], seen[chosen] = mine, True
        bound, slope = _bound(natural, mine, data, jnp.asarray(centre), hyper, size / batch)
        change, state = optimizer.update(slope * unit / size, state)
        natural = natural + rate * change * unit
        bounds.append(float(bound))
        if step == 0:
            began += time.perf_counter() - ready  # this one was compiled
        seconds = time.perf_counter() - began
        if callback is not None:
            callback(seconds, np.asarray(_direction(natural)))
        if max_seconds is not None and seconds > max_seconds:
            break
    return Found(np.asarray(_direction(natural)), bounds, time.perf_counter() - began)


def search(
    rows: np.ndarray, centre: np.ndarray, topics: np.ndarray, hyper: Hyper, *, batch_size: int, steps: int, seed: int,
    max_seconds: float | None = None,
) -> tuple[np.ndarray, float]:  # fmt: skip
    """Topics to sample from, and the seconds it took: rounds, each twice as long as the last, while they are worth it.

    What a round is worth is seen on some documents, with the shares that are nearest; all rounds together make at most
    ``steps`` steps.
    """
    some = generator(seed, Purpose.NOISE_BATCHES).choice(len(rows), min(len(rows), SCORED), replace=False)

    def score(topics: np.ndarray) -> float:
        return float(jnp.mean(at_nearest_shares(hyper, {"topics": jnp.asarray(topics)}, jnp.asarray(rows[some]))))

    length, spent, number = min(ROUND, steps), 0.0, 0
    first = value = score(topics)
    while length and (max_seconds is None or spent < max_seconds):
        left = None if max_seconds is None else max_seconds - spent
        found = fit(
            rows, centre, topics, hyper, batch_size=batch_size, steps=length, seed=seed, max_seconds=left, part=number
        )
        gain, spent = score(found.topics) - value, spent + found.seconds
        if gain > 0:
            topics, value = found.topics, value + gain
        if not gain > SMALL * (value - first):
            break
        steps -= length
        length, number = min(2 * length, steps), number + 1
    return topics, spent


def _direction(natural: Array) -> Array:
    return natural / jnp.linalg.norm(natural, axis=-1, keepdims=True)


def _mean(natural: Array) -> Array:
    """The expectation of each topic, E beta_k."""
    length = jnp.linalg.norm(natural, axis=-1, keepdims=True)
    return bessel_ratio(natural.shape[-1] / 2 - 1, length) * natural / length


@partial(jax.jit, static_argnums=2)
def _begun(natural: Array, data: Array, hyper: Hyper) -> Array:
    """log a_d of documents seen for the first time: about the nearest shares."""
    topics = _direction(natural)
    theta = start(data @ topics.T, topics @ topics.T, jnp.asarray(hyper.kappa, data.dtype)).theta
    return jnp.log(jnp.asarray(hyper.alpha, data.dtype) + 10 * len(topics) * theta)


def _documents(mean: Array, log_a: Array, data: Array, hyper: Hyper) -> Array:
    """The part of the bound of each document."""
    a, alpha = jnp.exp(log_a), jnp.asarray(hyper.alpha, data.dtype)
    total = jnp.sum(a, axis=-1, keepdims=True)
    theta = a / total
    gram = mean @ mean.T
    gram = gram - jnp.diag(jnp.diag(gram)) + jnp.eye(len(gram), dtype=gram.dtype)
    # E theta_j theta_k = (a_j a_k + delta_jk a_j) / (a_0 (a_0 + 1))
    square = jnp.sum(a * (a @ gram) + a, axis=-1) / (total * (total + 1))[:, 0]
    along = jnp.sum((data @ mean.T) * theta, axis=-1) / jnp.sqrt(square)
    digamma, lgamma = jax.scipy.special.digamma, jax.scipy.special.gammaln
    divergence = (
        lgamma(total[:, 0]) - jnp.sum(lgamma(a), axis=-1) + jnp.sum(lgamma(alpha)) - lgamma(jnp.sum(alpha))
        + jnp.sum((a - alpha) * (digamma(a) - digamma(total)), axis=-1)
    )  # fmt: skip
    return hyper.kappa * along - divergence


@partial(jax.jit, static_argnums=3)
def _local(natural: Array, log_a: Array, data: Array, hyper: Hyper) -> Array:
    import optax

    mean, optimizer = _mean(natural), optax.adam(LOCAL_RATE)
    slope = jax.grad(lambda x: -jnp.sum(_documents(mean, x, data, hyper)))

    def once(_: int, carry: tuple[Array, Any]) -> tuple[Array, Any]:
        change, state = optimizer.update(slope(carry[0]), carry[1])
        return jnp.clip(carry[0] + change, -5.0, 15.0), state

    return jax.lax.fori_loop(0, LOCAL_STEPS, once, (log_a, optimizer.init(log_a)))[0]


@partial(jax.jit, static_argnums=4)
def _bound(
    natural: Array, log_a: Array, data: Array, centre: Array, hyper: Hyper, weight: float
) -> tuple[Array, Array]:
    order = natural.shape[-1] / 2 - 1

    def value(natural: Array) -> Array:
        mean, length = _mean(natural), jnp.linalg.norm(natural, axis=-1)
        pull = hyper.kappa0 * centre + hyper.sigma * jnp.sum(mean, axis=0)
        prior = log_bessel_excess(order, jnp.sqrt(jnp.sum(pull * pull)))
        entropy = jnp.sum(log_bessel_excess(order, length) - length * bessel_ratio(order, length))
        return prior + entropy + weight * jnp.sum(_documents(mean, log_a, data, hyper))

    return jax.value_and_grad(value)(natural)
