"""How many steps of a tuned sampler make an effective draw, from which ``thin`` follows where it is left open.

By the draws of a trial where there was one. Else the posterior is near N(0, I) in the sampler's coordinates, and the
sampler is run on that law, with gradient noise as it was measured: no gradient of the model need be taken.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.keys import Use, as_key, fold
from scirocco.core.program import QUICK
from scirocco.core.seeds import Purpose, key_words
from scirocco.core.types import Array, Key
from scirocco.run import convergence
from scirocco.tuning.rounds import Round

STEPS, COORDINATES = 1024, 64  # of chains on the normal law: their length, and how many coordinates are looked at
SIMULATED = 1000  # coordinates at most: a thermostat or a Metropolis-Hastings test sees many of them together
LOOKED_AT = 500  # parameters of a trial: more say nothing new, and take a second
OF_MEANS = 2.0  # a mean may be off by twice as much, in sds, as an sd: it takes half as many effective draws


def steps_per_draw(made: Round) -> float:
    """Of the slowest parameter of a trial, in steps for each effective draw, by what its mean and its sd need."""
    draws = made.draws[:, :, :: -(-made.draws.shape[2] // LOOKED_AT)]
    of_sd, of_mean = (convergence.ess(draws, method) for method in ("sd", "mean"))
    least = np.nanmin(np.minimum(of_sd, OF_MEANS * of_mean), initial=np.inf)
    steps = made.gap * draws.shape[0] * draws.shape[1]
    return float(steps / max(1.0, least)) if np.isfinite(least) else float(steps)


def steps_per_normal_draw(
    sampler: Any, size: int, curvature: float, noise: float, temperature: float, seed: int
) -> float:  # fmt: skip
    """Of a sampler on the normal law of ``size`` coordinates with this curvature, with this gradient noise.

    All steps that were made if chains are lost, or stand still.
    """
    chains, count = int(np.clip(2 * COORDINATES // size, 1, 16)), min(size, SIMULATED)
    # Settings may be those of each coordinate.
    sampler = jax.tree.map(lambda a: a[(slice(count),) * np.ndim(a)] if size in np.shape(a) else a, sampler)
    words = np.stack([key_words(seed, Purpose.NORMAL_CHAINS, chain) for chain in range(chains)])
    found = _normal_draws(sampler, count, curvature, noise, temperature, words)
    x = np.asarray(found, np.float64).transpose(1, 0, 2)  # (chain, step, coordinate)
    if not np.all(np.isfinite(x)) or np.std(x) == 0:
        return float(STEPS)
    x = x / np.std(x)
    return max(_integrated(x**2 - np.mean(x**2)), _integrated(x) / OF_MEANS)


def _integrated(x: np.ndarray) -> float:
    """1 + 2 sum of the autocorrelations, which are those of all coordinates together, as far as pairs are positive."""
    power = np.abs(np.fft.rfft(x, 2 * x.shape[1], axis=1)) ** 2
    covariance = np.fft.irfft(power, axis=1)[:, : x.shape[1]].mean(axis=(0, 2)) / np.arange(x.shape[1], 0, -1)
    pairs = (covariance / covariance[0])[: x.shape[1] // 4 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    return max(1.0, float(2 * pairs[: ends[0] if ends.size else None].sum() - 1))


@partial(jax.jit, static_argnums=1, compiler_options=QUICK)
def _normal_draws(
    sampler: Any, size: int, curvature: Array, noise: Array, temperature: Array, words: Array
) -> Array:  # fmt: skip
    """(step, chain, coordinate)."""
    keys = jax.vmap(as_key)(words)

    def begin(key: Key) -> Any:
        spread = jnp.sqrt(jnp.asarray(temperature / curvature, jnp.float32))
        return sampler.init(fold(key, Use.INIT), spread * jax.random.normal(fold(key, Use.START), (size,)))

    def move(key: Key, state: Any, number: Array) -> Any:
        def inner(count: Array, state: Any) -> Any:
            own = fold(key, Use.NOISE, number * sampler.inner_steps + count)
            return sampler.step(own, state, _Normal(curvature, noise, fold(own, Use.GRADIENT)))[0]

        state = sampler.begin(fold(key, Use.BEGIN, number), state)
        return jax.lax.fori_loop(0, sampler.inner_steps, inner, state)

    def step(states: Any, number: Array) -> tuple[Any, Array]:
        states = jax.vmap(move, (0, 0, None))(keys, states, number)
        return states, states.position[:, :COORDINATES]

    return jax.lax.scan(step, jax.vmap(begin)(keys), jnp.arange(STEPS, dtype=jnp.int32))[1]


class _Normal:
    """The gradient of a normal law, and its noise, the same for all calls of a step."""

    def __init__(self, curvature: Array, noise: Array, key: Key) -> None:
        self._curvature, self._key = curvature, key
        self._kick = jnp.sqrt(jnp.asarray(noise, jnp.float32))

    def __call__(self, position: Array) -> Array:
        return self._curvature * position + self._kick * jax.random.normal(self._key, position.shape)

    def difference(self, start: Array, end: Array) -> Array:
        """U(end) - U(start), for a Metropolis-Hastings test."""
        return self._curvature * jnp.sum(end**2 - start**2) / 2

    def deviations(self, position: Array) -> Array:
        """Vectors whose outer products sum to the covariance of the noise, for samplers that measure it."""
        return self._kick * jnp.eye(position.size)
