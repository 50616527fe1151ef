"""One step of a chain from a minibatch, an estimator and a sampler, as a pure function.

A ``Program`` is a pytree: the numbers of its parts are arguments of whatever is compiled from it, the functions of the
target and the kinds of parts are static. So runs that differ by numbers only share their compiled programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from scirocco.batches import Batch
from scirocco.batches.draws import Draw
from scirocco.core.keys import Use, fold
from scirocco.core.program import program_part
from scirocco.core.trees import at_least_single, inner, signs_like
from scirocco.core.types import Array, Data, Key, Params
from scirocco.density import Density, merge
from scirocco.estimators.base import Estimator, StochasticEstimator
from scirocco.gradient.blocks import Block, apply
from scirocco.samplers.base import Dynamics, Info, Sampler, SamplerState, Strain


class ChainState(NamedTuple):
    """Everything that a chain carries from step to step."""

    step: Array
    sampler: SamplerState
    estimator: Any
    draws: Any
    held: Params

    @property
    def position(self) -> Params:
        """All parameters: those that the sampler moves and those that blocks update."""
        return merge(self.sampler.position, self.held)


class Probe(NamedTuple):
    """What was measured where a chain is, for the bias report."""

    noise: Params  # the variance of the gradient estimate
    curvature: Params  # the diagonal of the Hessian of U
    covector: Params  # H u, of length 1: q for the next power iteration
    direction: Params  # u_j^2 / q'u
    strain: Strain | None  # what was measured along u


@program_part
@dataclass(frozen=True, eq=False)
class Program:
    """The parts of a step, bound to each other."""

    density: Density
    sampler: Sampler
    estimator: Estimator
    draw: Draw
    blocks: tuple[Block, ...] = ()

    @property
    def dynamics(self) -> Dynamics[Any]:
        """The sampler, bound to the geometry of the target."""
        return self.sampler.on(self.density.geometry)

    @partial(jax.jit, inline=True)  # traced once, for whatever is compiled of it: checks, shapes, the loop and tuning
    def transition(self, key: Key, state: ChainState, data: Data) -> tuple[ChainState, Info]:
        """One step of the chain: gradient steps, each on a fresh minibatch, then the blocks.

        They are ``inner_steps``, or as many as the sampler is ``unfinished``. All keys come from ``key`` and the number
        of the gradient step: one key serves a whole chain.
        """
        sampler = self.dynamics.begin(fold(key, Use.BEGIN, state.step), state.sampler)

        def inner(number: Array, carry: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
            sampler, estimator, draws, _ = carry
            count = sampler.step if self.sampler.open_ended else state.step * self.sampler.inner_steps + number
            sampler, estimator, draws, batch, info = self._gradient_step(
                key, count, sampler, estimator, draws, state.held, data
            )
            return sampler, estimator, draws, (batch, info)

        carry = inner(jnp.int32(0), (sampler, state.estimator, state.draws, None))
        if self.sampler.open_ended:  # chains that are done wait for the others, unchanged
            carry = jax.lax.while_loop(
                lambda carry: self.sampler.unfinished(carry[0]), lambda carry: inner(jnp.int32(0), carry), carry
            )
        elif self.sampler.inner_steps > 1:
            carry = jax.lax.fori_loop(1, self.sampler.inner_steps, inner, carry)
        sampler, estimator, draws, (batch, info) = carry
        held = state.held
        if self.blocks:
            params = self.density.parameters(sampler.position)
            held = apply(self.blocks, fold(key, Use.BLOCKS, state.step), params, held, batch)
        return ChainState(state.step + 1, sampler, estimator, draws, held), info

    def _gradient_step(
        self, key: Key, count: Array, sampler: Any, estimator: Any, draws: Any, held: Params, data: Data
    ) -> tuple[Any, Any, Any, Batch, Info]:
        draws, batch = self.draw.draw(fold(key, Use.MINIBATCH, count), draws, count, data)
        gradient = _Recorded(self, estimator, held, batch, fold(key, Use.ESTIMATE, count))
        sampler, info = self.dynamics.step(fold(key, Use.NOISE, count), sampler, gradient)
        return sampler, gradient.state, draws, batch, info

    def _riemannian(self, position: Params, held: Params, batch: Batch, direction: Params) -> Params:
        """The Riemannian Hessian times the tangent part of a direction: the slope's change along the geodesic."""
        geometry = self.density.geometry
        tangent = geometry.project(position, direction)

        def slope(time: Array) -> Params:
            place = geometry.flow(position, tangent, jax.tree.map(lambda _: time, position))[0]
            return geometry.slope(place, self.density.potential_gradient(place, held, batch))

        return geometry.project(position, jax.jvp(slope, (jnp.zeros(()),), (jnp.ones(()),))[1])

    def state(self, key: Key, position: Params, held: Params, estimator: Any) -> ChainState:
        """The first state of a chain whose estimator is ready."""
        sampler = self.dynamics.init(fold(key, Use.INIT), position)
        draws = self.draw.init(fold(key, Use.EPOCH))
        return ChainState(jnp.int32(0), sampler, estimator, draws, held)

    def stats(self, state: ChainState, info: Info) -> dict[str, Array]:
        """What a step says of itself, by name."""
        return {**info._asdict(), **self.dynamics.stats(state.sampler)}

    def fresh_gradient(self, key: Key, state: ChainState, data: Data) -> Params:
        """An estimate of grad U where the chain is, from a minibatch that had no part in bringing it there."""
        batch = self.draw.fresh(key, data)
        return self.estimate(key, state.estimator, state.sampler.position, state.held, batch)[0]

    def estimate(self, key: Key, state: Any, position: Params, held: Params, batch: Batch) -> tuple[Params, Any]:
        """The estimator's gradient and new state; one that has randomness of its own is given a key."""
        if isinstance(self.estimator, StochasticEstimator):
            own = fold(key, Use.ESTIMATE)
            return self.estimator.estimate(self.density, state, position, held, batch, own)
        return self.estimator.estimate(self.density, state, position, held, batch)

    def probe(
        self, key: Key, state: ChainState, data: Data, repeats: int, covector: Params = None, centre: Params = None
    ) -> Probe:
        """What the bias report needs to know where a chain is, from fresh minibatches.

        The diagonal of the Hessian is Hutchinson's estimate E[z * (H z)] with random signs z, noisy entry by entry,
        good in its sum. A sampler in coordinates of its own says with ``marginal`` which gradient each parameter feels.

        With a ``covector`` q also one power iteration towards the direction that the step size strains most. A step
        moves by P grad U, with P_jj the sampler's ``drift_scale``; what matters are the eigenvalues of P H, and the
        direction is u = P q. ``centre`` is the mean of the chain; gradients there, from the same minibatches, are taken
        off for the temperature, because minibatch noise is mostly the same at both.
        """
        position, geometry = state.sampler.position, self.density.geometry
        if centre is not None and not geometry.flat:
            centre = geometry.nearest(centre)  # the mean of points on a manifold is off it
        marginal, back = self.sampler.marginal, self.sampler.marginal_transposed
        u = None
        if covector is not None:
            drift = self.sampler.drift_scale(state.sampler, at_least_single(position))
            u = geometry.project(position, jax.tree.map(jnp.multiply, marginal(covector), drift))

        def estimate(place: Params, batch: Batch, number: Array) -> Params:
            own = fold(key, Use.ESTIMATE, number)  # the same at both places, as the minibatch is
            return geometry.slope(place, self.estimate(own, state.estimator, place, state.held, batch)[0])

        def once(number: Array) -> tuple[Params, Params, Params, Params]:
            batch = self.draw.fresh(fold(key, Use.MINIBATCH, number), data)
            gradient = estimate(position, batch, number)
            signs = signs_like(fold(key, Use.SIGNS, number), position)
            directions = jax.tree.map(lambda *rows: jnp.stack(rows), back(signs), *([] if u is None else [u]))

            def times(direction: Params) -> Params:
                if not geometry.flat:
                    return self._riemannian(position, state.held, batch, direction)
                return jax.grad(lambda p: inner(self.density.potential_gradient(p, state.held, batch), direction))(
                    position
                )

            products = jax.vmap(times)(directions)
            curved = marginal(jax.tree.map(lambda rows: rows[0], products))
            strained = jax.tree.map(lambda rows: rows[-1], products)
            # Latent values that a chain keeps are those of its own place: at the centre they pull towards where it is.
            alone = u is None or self.estimator.keeps_latent
            fall = gradient if alone else jax.tree.map(jnp.subtract, gradient, estimate(centre, batch, number))
            return gradient, jax.tree.map(jnp.multiply, signs, curved), strained, fall

        measured = jax.lax.map(once, jnp.arange(repeats, dtype=jnp.int32))
        gradients, diagonals, products, falls = measured
        noise = jax.tree.map(lambda g: jnp.var(g, axis=0, ddof=1), jax.vmap(marginal)(gradients))
        diagonal = jax.tree.map(lambda rows: jnp.mean(rows, axis=0), diagonals)
        if u is None:
            return Probe(noise, diagonal, None, None, None)
        product, fall = (
            jax.tree.map(lambda rows: jnp.mean(rows, axis=0), at_least_single(t)) for t in (products, falls)
        )
        length, stretched = inner(covector, u), inner(u, product)
        away = inner(covector, at_least_single(jax.tree.map(jnp.subtract, position, centre)))
        slopes = jax.vmap(lambda g: inner(u, g))(at_least_single(gradients))
        # The sign keeps q from turning round, and its mean over probes from vanishing, where the curvature is negative.
        size = jnp.where(stretched < 0, -1, 1) * jnp.sqrt(inner(product, product))
        return Probe(
            noise,
            diagonal,
            jax.tree.map(lambda p: p / size, product),
            jax.tree.map(lambda x: x * x / length, u),
            Strain(stretched / length, jnp.var(slopes, ddof=1) / length, away * inner(u, fall) / length),
        )


class _Recorded:
    """The gradient as a function of the position; remembers the estimator's new state for the step."""

    def __init__(self, program: Program, state: Any, held: Params, batch: Batch, key: Key) -> None:
        self._program, self.state, self._held, self._batch, self._key = program, state, held, batch, key

    def __call__(self, position: Params) -> Params:
        gradient, self.state = self._program.estimate(self._key, self.state, position, self._held, self._batch)
        return gradient

    def anchored(self) -> tuple[Params, Params]:
        """The centre of the estimator and grad U there, whatever the minibatch."""
        return self._program.estimator.anchored(self._program.density, self.state, self._held)

    def difference(self, start: Params, end: Params) -> Array:
        """U(end) - U(start), as the minibatch estimates it."""
        return self._program.density.potential_difference(start, end, self._held, self._batch)

    def deviations(self, position: Params) -> Params:
        """Vectors, one a row of the minibatch, whose outer products sum to the covariance of the estimate."""
        program, batch = self._program, self._batch
        n = batch.indices.shape[0]
        weights = jnp.broadcast_to(batch.weights, (n,)) * n

        def alone(row: Data, weight: Array, index: Array) -> Params:
            single = Batch(jax.tree.map(lambda a: a[None], row), weight[None], index[None])
            return program.estimate(self._key, self.state, position, self._held, single)[0]

        rows = jax.vmap(alone)(batch.data, weights, batch.indices)
        left = (1 - n / program.density.size if program.draw.distinct else 1.0) / (n * max(n - 1, 1))
        return jax.tree.map(lambda g: (g - jnp.mean(g, axis=0)) * jnp.sqrt(left).astype(g.dtype), rows)
