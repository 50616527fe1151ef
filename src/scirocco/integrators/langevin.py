"""One step of the underdamped Langevin dynamics, by different splittings.

    d theta = p dt,    dp = -grad U(theta) dt - A p dt + sqrt(2 D) dW          (D = A T keeps exp(-(U + p'p/2)/T))

The dynamics splits into A (drift of the position), B (kick by the gradient) and O (friction and noise, solved
exactly). Each function takes and returns trees, uses one gradient, and is linear in the noise it is given, so that one
step can be tested with the noise off. ``h``, ``friction`` and ``diffusion`` are trees like the position; time steps
may differ from leaf to leaf or coordinate to coordinate (a diagonal scaling of time, which keeps the same law).
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from scirocco.core.types import Array, Gradient, Number, Params

Step = Callable[[Params, Params, Gradient, Params, Params, Params, Params], tuple[Params, Params, Params]]
"""(position, momentum, gradient, noise, h, friction, diffusion) -> (position, momentum, the gradient used)"""


def euler(
    position: Params,
    momentum: Params,
    gradient: Gradient,
    noise: Params,
    h: Params,
    friction: Params,
    diffusion: Params,
) -> tuple[Params, Params, Params]:
    """``p <- p - h A p - h g + sqrt(2 D h) xi``, then ``theta <- theta + h p``: the scheme of the sources."""
    g = gradient(position)
    momentum = jax.tree.map(
        lambda p, g, z, h, a, d: p - h * a * p - h * g + jnp.sqrt(2 * d * h) * z,
        momentum, g, noise, h, friction, diffusion,
    )  # fmt: skip
    return drift(position, momentum, h), momentum, g


def baoab(
    position: Params,
    momentum: Params,
    gradient: Gradient,
    noise: Params,
    h: Params,
    friction: Params,
    diffusion: Params,
) -> tuple[Params, Params, Params]:
    """Kick, half drift, friction and noise, half drift: the positions of BAOAB (Leimkuhler and Matthews 2013).

    The last half kick of a step of BAOAB and the first of the next see the same position and the same minibatch, so
    they are made as one kick. Positions are those of BAOAB, second order in h, and exact on a Gaussian when the
    gradient is; momenta are recorded half a kick earlier.
    """
    g = gradient(position)
    momentum = kick(momentum, g, h)
    half = jax.tree.map(lambda h: h / 2, h)
    position = drift(position, momentum, half)
    momentum = jax.tree.map(ornstein_uhlenbeck, momentum, noise, h, friction, diffusion)
    return drift(position, momentum, half), momentum, g


def aboba(
    position: Params,
    momentum: Params,
    gradient: Gradient,
    noise: Params,
    h: Params,
    friction: Params,
    diffusion: Params,
) -> tuple[Params, Params, Params]:
    """Half drift, half kick, friction and noise, half kick, half drift; second order in h."""
    half = jax.tree.map(lambda h: h / 2, h)
    position = drift(position, momentum, half)
    g = gradient(position)
    momentum = kick(momentum, g, half)
    momentum = jax.tree.map(ornstein_uhlenbeck, momentum, noise, h, friction, diffusion)
    momentum = kick(momentum, g, half)
    return drift(position, momentum, half), momentum, g


def drift(position: Params, momentum: Params, h: Params) -> Params:
    """A: ``theta <- theta + h p``."""
    return jax.tree.map(lambda x, p, h: x + h * p, position, momentum, h)


def kick(momentum: Params, gradient: Params, h: Params) -> Params:
    """B: ``p <- p - h g``."""
    return jax.tree.map(lambda p, g, h: p - h * g, momentum, gradient, h)


def ornstein_uhlenbeck(momentum: Number, noise: Number, h: Number, friction: Number, diffusion: Number) -> Array:
    """O: the exact solution over time h of ``dp = -A p dt + sqrt(2 D) dW``, for any sign of A."""
    rate = 2 * friction * h
    small = jnp.abs(rate) < 1e-4
    safe = jnp.where(small, 1.0, rate)
    share = jnp.where(small, 1 - rate / 2, -jnp.expm1(-safe) / safe)  # (1 - e^-rate) / rate
    return jnp.exp(-friction * h) * momentum + jnp.sqrt(2 * diffusion * h * share) * noise


INTEGRATORS: dict[str, Step] = {"euler": euler, "baoab": baoab, "aboba": aboba}
