"""The topics given shares that every document keeps: gradients of all documents at the price of a minibatch.

    grad log p(v, theta | beta) = kappa (S - C beta),    tangent to the topics
    S = sum_d theta_d v_d' / l_d,    C = sum_d c_d theta_d theta_d' / l_d^2
    l_d = |beta theta_d|,    c_d = v_d'beta theta_d / l_d

A document is K shares and two numbers, 1/l_d and c_d/l_d^2: the sums S and C are kept, and a minibatch is used twice.
By how much its numbers have changed since its documents were last seen enters as in SAGA, which leaves hardly any
noise: a topic turns little towards any one document. Then its shares make moves that are exact given the topics, and
the sums follow. So the chain is one of topics and shares together, its only error that of the step size.

Topics are directions of free vectors x, uniform on the sphere where x ~ N(0, I/V). A linear change of variables, which
spheres do not have, then makes all combinations of topics about as steep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.batches import Batch
from scirocco.constraints.base import Constraint
from scirocco.core.types import Array, Key, Params
from scirocco.density import PureDensity
from scirocco.estimators.base import StochasticEstimator
from scirocco.models.sam.model import projections
from scirocco.models.sam.weights import Shares, sampled, start
from scirocco.samplers.preconditioned import Scale
from scirocco.target import Target

UNIT = 1e-4


@dataclass(frozen=True)
class Direction(Constraint):
    """x / |x|, with |x| as of x ~ N(0, I/V): a length that says nothing of the direction."""

    axes = 1

    def constrained(self, free: Array) -> Array:
        """The direction."""
        return free / jnp.linalg.norm(free, axis=-1, keepdims=True)

    def freed(self, value: Array) -> Array:
        """Of length 1, about what lengths are."""
        return value

    def log_det(self, free: Array, value: Array) -> Array:
        """Not a determinant, since a length is added: the log density of x over that of the direction."""
        return -value.shape[-1] / 2 * jnp.sum(jnp.square(free))

    def contains(self, value: np.ndarray) -> np.ndarray:
        """Whether vectors have length 1."""
        return np.abs(np.linalg.norm(value, axis=-1) - 1) < UNIT

    def __str__(self) -> str:
        return "a direction"


class Kept(NamedTuple):
    """Of each document the shares, 1/l and c/l^2 as they were when it was last seen; and the sums S and C."""

    shares: Shares
    inverse: Array
    along: Array
    pulls: Any
    gram: Any


@dataclass(frozen=True)
class KeptShares(StochasticEstimator[Kept]):
    """The gradient given all shares; those of the minibatch then make ``moves`` moves.

    Documents are known by their places in the source: minibatches must be those of ``WithReplacement``, or all rows.
    """

    independent_draws: ClassVar[bool] = True
    keeps_latent: ClassVar[bool] = True

    alpha: tuple[float, ...]
    kappa: float
    power: int = 2
    moves: int = 2

    def init(self, target: Target, position: Params, held: Params) -> Kept:
        """All shares at those nearest to the documents."""
        del held
        topics, found = target.to_parameters.parameters(position)["topics"], []
        sums: list[Any] = [0.0, 0.0]
        for batch in target.passes():
            begun = _begun(topics, batch.data, batch.weights, self.kappa)
            found.append(begun._replace(pulls=None, gram=None))
            sums = [before + np.asarray(more, np.float64) for before, more in zip(sums, begun[-2:], strict=True)]
        each = jax.tree.map(lambda *parts: jnp.concatenate(parts)[: target.size], *found)
        pulls, gram = (jnp.asarray(values, topics.dtype) for values in sums)
        return each._replace(pulls=pulls, gram=gram)

    def blank(self, target: Target, position: Params, held: Params) -> Kept:
        """Arrays of the right shapes, all zero."""
        del held
        topics, size = position["topics"], target.size
        count, words = topics.shape
        zeros = [jnp.zeros(shape, topics.dtype) for shape in
                 ((size, count), (size,), (size,), (size,), (size,), (count, words), (count, count))]  # fmt: skip
        return Kept(Shares(*zeros[:3]), *zeros[3:])

    def estimate(
        self, target: PureDensity, state: Kept, position: Params, held: Params, batch: Batch, key: Key | None = None
    ) -> tuple[Params, Kept]:
        """The gradient given the shares as they are, and the shares after their moves."""
        assert key is not None
        rows, weights = batch.indices, jnp.broadcast_to(batch.weights, batch.indices.shape)
        topics, pulled = jax.vjp(Direction().constrained, position["topics"])
        dots, gram = projections(topics, batch.data)
        alpha, kappa = (jnp.asarray(x, dots.dtype) for x in (self.alpha, self.kappa))
        shares, inverse, along = jax.tree.map(lambda a: a[rows], (state.shares, state.inverse, state.along))
        theta = shares.theta
        inverse_now, along_now = lengths(theta, dots, gram)
        by_inverse, by_along = weights * (inverse_now - inverse), weights * (along_now - along)
        # A row that was drawn twice changes the sums once: the last slot that has it counts.
        slots = jnp.arange(len(rows), dtype=jnp.int32)
        first = (jnp.zeros(state.inverse.shape, jnp.int32).at[rows].set(slots)[rows] == slots).astype(theta.dtype)
        moved, _ = sampled(key, shares, dots, gram, alpha, kappa, power=self.power, draws=1, between=self.moves)
        inverse_new, along_new = lengths(moved.theta, dots, gram)
        change = moved.theta * inverse_new[:, None] - theta * inverse[:, None]
        both = jnp.concatenate([theta * by_inverse[:, None], change * first[:, None]], axis=1).T @ batch.data
        pulls = state.pulls + both[: len(topics)]
        between = state.gram + theta.T @ (theta * by_along[:, None])
        (slope,) = pulled(kappa * (between @ topics - pulls))
        gradient = jax.tree.map(jnp.add, target.prior_gradient(position, held), {"topics": slope})
        # What is written depends on what was read: otherwise XLA copies the whole table at every step.
        after = jax.tree.map(
            lambda all_, new, old: all_.at[rows].add((new - old) * first.reshape(-1, *(1,) * (old.ndim - 1))),
            (state.shares, state.inverse, state.along),
            (moved, inverse_new, along_new),
            (shares, inverse, along),
        )
        squares = moved.theta.T @ (moved.theta * (along_new * first)[:, None])
        squares = squares - theta.T @ (theta * (along * first)[:, None])
        shares, inverse, along = after
        return gradient, Kept(shares, inverse, along, state.pulls + both[len(topics) :], state.gram + squares)


def lengths(theta: Array, dots: Array, gram: Array) -> tuple[Array, Array]:
    """1 / l and c / l^2 of documents."""
    inverse = 1 / jnp.sqrt(jnp.sum(theta * (theta @ gram), axis=-1))
    return inverse, jnp.sum(theta * dots, axis=-1) * inverse**3


@jax.jit
def _begun(topics: Array, rows: Array, weights: Array, kappa: float) -> Kept:
    dots, gram = projections(topics, rows)
    shares = start(dots, gram, jnp.asarray(kappa, topics.dtype))
    inverse, along = lengths(shares.theta, dots, gram)
    pulls = (shares.theta * (inverse * weights)[:, None]).T @ rows
    gram = shares.theta.T @ (shares.theta * (along * weights)[:, None])
    return Kept(shares, inverse, along, pulls, gram)


def whitening(curvature: np.ndarray, words: int) -> Scale:
    """The coordinates in which topics with this curvature, (topics, topics), are as steep in every direction."""
    values, vectors = np.linalg.eigh(curvature)
    root = (vectors / np.sqrt(values)) @ vectors.T
    return Scale(np.ones(curvature.shape[0] * words, np.float32), matrix=root.astype(np.float32))
