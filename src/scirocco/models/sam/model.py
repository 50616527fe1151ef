"""The posterior of the topics of the spherical admixture model, for the gradient engine.

    mu ~ vMF(m, kappa_0),   beta_k ~ vMF(mu, sigma),   theta_d ~ Dirichlet(alpha)
    v_d ~ vMF(beta theta_d / |beta theta_d|, kappa)

mu is integrated out: log p(beta) = - log c_V(|kappa_0 m + sigma sum_k beta_k|) + const. The gradient of log p(v | beta)
is the mean over p(theta | v, beta) of the gradient given theta, so draws of theta for the documents of a minibatch give
an unbiased estimate of it, once their chains have settled. Reisinger et al. (2010); Liu, Zhu and Song (2016, section 4;
the sign of their estimate and their equation 10 are misprinted).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.batches import Batch
from scirocco.core.program import Given
from scirocco.core.types import Array, Data, Key, Params
from scirocco.density import PureDensity
from scirocco.directional import log_bessel_excess
from scirocco.estimators.base import StochasticEstimator
from scirocco.gradient.blocks import Block
from scirocco.manifolds import Sphere
from scirocco.models.sam.weights import Shares, cosine, sampled, start
from scirocco.target import Target


class Hyper(NamedTuple):
    """The settings of the model, as numbers."""

    alpha: tuple[float, ...]
    kappa: float
    sigma: float
    kappa0: float

    @property
    def power(self) -> int:
        """Of the simplex: 2, or more where shares of topics are sparse."""
        return max(2, int(np.ceil(1 / min(self.alpha))))


def log_prior(topics: Array, centre: Array, hyper: Hyper) -> Array:
    """The log prior of the topics, mu integrated out, up to a constant."""
    pull = hyper.kappa0 * centre + hyper.sigma * jnp.sum(topics, axis=0)
    return log_bessel_excess(topics.shape[-1] / 2 - 1, jnp.sqrt(jnp.sum(pull * pull)))


def projections(topics: Array, rows: Array) -> tuple[Array, Array]:
    """What documents must know of the topics: v'beta and beta'beta."""
    return rows @ topics.T, topics @ topics.T


def marginal_target(rows: np.ndarray, centre: np.ndarray, hyper: Hyper, **space: Any) -> Target:
    """The topics alone. Gradients come from an estimator; where a value is asked for, shares are the nearest.

    ``space`` is what topics are to a sampler, points of spheres by default.
    """
    likelihood = Given(at_nearest_shares, hyper)
    return Target(_prior(centre, hyper), likelihood, rows, batched=True, **space or {"manifold": {"topics": Sphere()}})


def _prior(centre: np.ndarray, hyper: Hyper) -> Given:
    return Given(_log_prior_of, tuple(centre.tolist()), str(centre.dtype), hyper)


def _log_prior_of(centre: tuple[float, ...], dtype: str, hyper: Hyper, params: Params) -> Array:
    return log_prior(params["topics"], jnp.asarray(centre, dtype), hyper)


def at_nearest_shares(hyper: Hyper, params: Params, rows: Array) -> Array:
    """log p(v | beta, theta) of each row up to a constant, shares theta being those nearest to it."""
    dots, gram = projections(params["topics"], rows)
    theta = jax.lax.stop_gradient(start(dots, gram, jnp.asarray(hyper.kappa, dots.dtype)).theta)
    return hyper.kappa * cosine(theta, dots, gram)


@dataclass(frozen=True)
class ShareAverage(StochasticEstimator[Shares]):
    """The gradient from draws of the shares of topics of the minibatch, whose chains go on where they were.

    ``draws`` of each document are averaged, ``between`` moves apart.
    """

    alpha: tuple[float, ...]
    kappa: float
    power: int = 2
    draws: int = 2
    between: int = 2

    def init(self, target: Target, position: Params, held: Params) -> Shares:
        """The shares of all documents at those nearest to them."""
        del held
        found = [_started(position["topics"], batch.data, self.kappa) for batch in target.passes()]
        return jax.tree.map(lambda *parts: jnp.concatenate(parts)[: target.size], *found)

    def blank(self, target: Target, position: Params, held: Params) -> Shares:
        """Shares of the right shapes, all zero."""
        del held
        size, topics = target.size, position["topics"]
        return Shares(*(jnp.zeros(shape, topics.dtype) for shape in ((size, topics.shape[0]), (size,), (size,))))

    def estimate(
        self, target: PureDensity, state: Shares, position: Params, held: Params, batch: Batch, key: Key | None = None
    ) -> tuple[Params, Shares]:
        """The gradient from new draws of the minibatch's shares, by one backward pass, and all shares after them."""
        del held
        assert key is not None
        alpha, kappa = (jnp.asarray(x, batch.data.dtype) for x in (self.alpha, self.kappa))
        mine = jax.tree.map(lambda a: a[batch.indices], state)
        dots, gram = projections(position["topics"], batch.data)
        mine, draws = sampled(
            key, mine, dots, gram, alpha, kappa, power=self.power, draws=self.draws, between=self.between
        )

        def potential(position: Params) -> Array:
            dots, gram = projections(position["topics"], batch.data)
            value = jnp.mean(cosine(draws, dots, gram), axis=0)
            return -target.log_prior(position) - kappa * jnp.sum(batch.weights * value)

        after = jax.tree.map(lambda all_, new: all_.at[batch.indices].set(new), state, mine)
        return jax.grad(potential)(position), after


@jax.jit
def _started(topics: Array, rows: Array, kappa: float) -> Shares:
    return start(*projections(topics, rows), jnp.asarray(kappa, topics.dtype))


# Topics and shares in turn, on all data: with one draw of the shares an exact Gibbs sampler.

HELD = ("theta", "log_step", "moves")


def joint_target(rows: np.ndarray, centre: np.ndarray, hyper: Hyper) -> Target:
    """Topics given draws of all shares, ``params["theta"]`` (draws, documents, topics), averaged over the draws."""
    data = {"row": rows, "index": np.arange(len(rows), dtype=np.int32)}
    likelihood = Given(_at_given_shares, hyper.kappa)
    return Target(_prior(centre, hyper), likelihood, data, batched=True, manifold={"topics": Sphere()})


def _at_given_shares(kappa: float, params: Params, data: Data) -> Array:
    dots, gram = projections(params["topics"], data["row"])
    return kappa * jnp.mean(cosine(params["theta"][:, data["index"]], dots, gram), axis=0)


def shares_block(hyper: Hyper, draws: int, between: int) -> Block:
    """The block that draws new shares of all documents given the topics."""
    return Block(HELD, Given(_new_shares, hyper, draws, between))


def _new_shares(hyper: Hyper, draws: int, between: int, key: Key, params: Params, batch: Batch) -> Params:
    dots, gram = projections(params["topics"], batch.data["row"])
    alpha, kappa = (jnp.asarray(x, dots.dtype) for x in (hyper.alpha, hyper.kappa))
    shares = Shares(params["theta"][-1], params["log_step"], params["moves"])
    shares, theta = sampled(key, shares, dots, gram, alpha, kappa, power=hyper.power, draws=draws, between=between)
    return {"theta": theta, "log_step": shares.log_step, "moves": shares.moves}


def steepness(rows: np.ndarray, topics: np.ndarray, hyper: Hyper, piece: int = 4096) -> np.ndarray:
    """The curvature of the topics' directions at the nearest shares, (topics, topics), the same along each coordinate.

    sigma + kappa sum_d cos_d theta_dk^2 / |beta theta_d|^2 for a topic, and for two that share documents the same with
    theta_dk theta_dl: topics that are alike are stiffer together than each of them alone.
    """
    pieces = (jnp.asarray(rows[first : first + piece]) for first in range(0, len(rows), piece))
    pulls = [np.asarray(_pulled(jnp.asarray(topics), part, hyper.kappa), np.float64) for part in pieces]
    return hyper.sigma * np.eye(len(topics)) + np.sum(pulls, axis=0)


def mean_cosine(rows: np.ndarray, topics: np.ndarray, hyper: Hyper, most: int = 2000) -> float:
    """The mean over documents, of some evenly spread, of the cosine with a mixture whose shares are drawn."""
    some = jnp.asarray(rows[np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(int)])
    return float(_mean_cosine(jnp.asarray(topics), some, jnp.asarray(hyper.alpha), hyper.kappa, hyper.power))


@partial(jax.jit, static_argnums=4)
def _mean_cosine(topics: Array, rows: Array, alpha: Array, kappa: Any, power: int) -> Array:
    dots, gram = projections(topics, rows)
    kappa = jnp.asarray(kappa, dots.dtype)
    shares, _ = sampled(
        jax.random.key(0), start(dots, gram, kappa), dots, gram, alpha.astype(dots.dtype), kappa, power=power, draws=1,
        between=30,
    )  # fmt: skip
    return jnp.mean(cosine(shares.theta, dots, gram))


@jax.jit
def _pulled(topics: Array, rows: Array, kappa: Any) -> Array:
    dots, gram = projections(topics, rows)
    theta = start(dots, gram, jnp.asarray(kappa, dots.dtype)).theta
    along = jnp.maximum(cosine(theta, dots, gram), 0) / jnp.sum(theta * (theta @ gram), axis=-1)
    return kappa * (along[:, None] * theta).T @ theta


@jax.jit
def gradient_given_nearest(topics: Array, rows: Array, kappa: Any) -> Array:
    """The gradient of the log likelihood of rows, tangent at each topic, with the nearest shares."""

    def value(topics: Array) -> Array:
        dots, gram = projections(topics, rows)
        theta = jax.lax.stop_gradient(start(dots, gram, jnp.asarray(kappa, dots.dtype)).theta)
        return kappa * jnp.sum(cosine(theta, dots, gram))

    return Sphere().project(topics, jax.grad(value)(topics))
