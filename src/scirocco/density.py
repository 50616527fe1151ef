"""The functions of a posterior without its data: what estimators and compiled programs are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from scirocco.batches import Batch
from scirocco.batches.keyed import Keyed
from scirocco.constraints import Constraints, Parametrisation
from scirocco.core.types import Array, Data, Key, Params
from scirocco.manifolds import FLAT, Geometry

NONE = Constraints()


class PureDensity:
    """What estimators are made of: pure functions for compiled code.

    ``held`` are parameters that blocks of the user's own update; gradients are with respect to ``position`` alone.
    """

    log_prior: Callable[[Params], Any]
    log_likelihood: Callable[[Params, Data], Any]
    batched: bool

    def log_likelihoods(self, params: Params, data: Data) -> Array:
        """The log likelihood of each row of a batch."""
        if self.batched:
            return jnp.asarray(self.log_likelihood(params, data))
        return jax.vmap(self.log_likelihood, in_axes=(None, 0))(params, data)

    def log_density(self, params: Params, batch: Batch) -> Array:
        """An unbiased estimate of -U from a minibatch."""
        return self.log_prior(params) + jnp.sum(self.log_likelihoods(params, batch.data) * batch.weights)

    def potential_gradient(self, position: Params, held: Params, batch: Batch) -> Params:
        """The plain estimate of grad U from a minibatch."""
        return jax.grad(lambda p: -self.log_density(merge(p, held), batch))(position)

    def potential_difference(self, start: Params, end: Params, held: Params, batch: Batch) -> Array:
        """An estimate of U(end) - U(start), summed from the differences of the rows."""
        rows = [self.log_likelihoods(merge(p, held), batch.data) for p in (start, end)]
        prior = [jnp.asarray(self.log_prior(merge(p, held))) for p in (start, end)]
        return prior[0] - prior[1] + jnp.sum((rows[0] - rows[1]) * batch.weights)

    def prior_gradient(self, position: Params, held: Params) -> Params:
        """The gradient of - log prior."""
        return jax.grad(lambda p: -self.log_prior(merge(p, held)))(position)

    def likelihood_gradient(self, position: Params, held: Params, batch: Batch) -> Params:
        """The weighted sum over a batch of the gradients of - log likelihood."""

        def potential(p: Params) -> Array:
            return -jnp.sum(self.log_likelihoods(merge(p, held), batch.data) * batch.weights)

        return jax.grad(potential)(position)

    def example_gradients(self, position: Params, held: Params, data: Data) -> Params:
        """The gradient of - log likelihood of each row, stacked along a leading axis."""

        def potential(p: Params, row: Data) -> Array:
            return -self.log_likelihoods(merge(p, held), jax.tree.map(lambda a: a[None], row))[0]

        return jax.vmap(jax.grad(potential), in_axes=(None, 0))(position, data)


@dataclass(frozen=True)
class Density(PureDensity):
    """A target without its data: equal for equal functions, so that a program is compiled once for them."""

    log_prior: Callable[[Params], Any]
    log_likelihood: Callable[[Params, Data], Any]
    batched: bool
    size: int
    geometry: Geometry = FLAT
    change: Parametrisation = NONE

    def parameters(self, position: Params) -> Params:
        """The parameters as users see them, at a position of the chain."""
        return self.change.parameters(position)


@dataclass(frozen=True)
class FreePrior:
    """The log prior of a free position; the change of variables belongs to the measure, and is not tempered."""

    log_prior: Callable[[Params], Any]
    change: Parametrisation
    temperature: float

    def __call__(self, position: Params) -> Any:
        """The log density of the free numbers, before any data."""
        params, log_det = self.change.constrain(position)
        return self.log_prior(params) + self.temperature * log_det


@dataclass(frozen=True)
class FreeLikelihood:
    """The log likelihood at a free position."""

    log_likelihood: Callable[[Params, Data], Any]
    change: Parametrisation

    def __call__(self, position: Params, data: Data) -> Any:
        """The value, or values, of rows."""
        return self.log_likelihood(self.change.parameters(position), data)


@dataclass(frozen=True)
class RandomLikelihood:
    """A log likelihood that is given a key too, as a function of rows that have keys."""

    function: Callable[[Params, Data, Key], Any]

    def __call__(self, params: Params, rows: Keyed) -> Any:
        """The value, or values, of rows."""
        return self.function(params, rows.example, rows.keys())


def flat(params: Params) -> float:
    """A log prior that says nothing."""
    del params
    return 0.0


def merge(position: Params, held: Params) -> Params:
    """All parameters: those the sampler moves and those that blocks update."""
    return {**position, **held} if held else position
