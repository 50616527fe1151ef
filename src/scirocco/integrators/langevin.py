"""One step of the underdamped Langevin dynamics, by different splittings, in flat space or on a manifold.

    d theta = p dt,    dp = -grad U(theta) dt - A p dt + sqrt(2 D) dW          (D = A T keeps exp(-(U + p'p/2)/T))

The dynamics splits into A (drift of the position), B (kick by the gradient) and O (friction and noise, solved
exactly), or into B and U (drift, friction and noise together, solved exactly). Each function takes and returns trees,
uses one gradient, and is linear in the noise it is given, so that one step can be tested with the noise off. ``h``,
``friction`` and ``diffusion`` are trees like the position; time steps may differ from leaf to leaf or coordinate to
coordinate (a diagonal scaling of time, which keeps the same law).

On a manifold the drift is the geodesic flow and momenta are tangent vectors: gradient and noise enter by their tangent
parts. Leaves of ``friction`` and ``diffusion`` may be a ``Matrix`` (a friction ``LowRank``, beside one number for the
diffusion), and ``diffusion`` a function of the position at which the gradient was taken, for noise that is known or
measured there.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import Any

import jax
import jax.numpy as jnp

from scirocco.core.types import Array, Gradient, Number, Params
from scirocco.integrators import matrix
from scirocco.integrators.matrix import LowRank, Matrix
from scirocco.manifolds import FLAT, Geometry, Manifold

Step = Callable[..., tuple[Params, Params, Params]]
"""(position, momentum, gradient, noise, h, friction, diffusion, geometry) -> (position, momentum, the gradient used)

``noise`` is standard normal, like what ``noise_like`` returns."""

Diffusion = Params | Callable[[Params], Params]


def euler(
    position: Params,
    momentum: Params,
    gradient: Gradient,
    noise: Params,
    h: Params,
    friction: Params,
    diffusion: Diffusion,
    geometry: Geometry = FLAT,
) -> tuple[Params, Params, Params]:
    """``p <- p - h A p - h g + sqrt(2 D h) xi``, then ``theta <- theta + h p``: the scheme of the sources."""
    g, diffusion = gradient(position), at(diffusion, position)
    momentum = geometry.each(
        lambda m, x, p, g, z, h, a, d: p - h * _pull(m, x, a, p) - h * g + _stir(m, x, d, h, z),
        position, momentum, geometry.slope(position, g), noise, h, friction, diffusion,
    )  # fmt: skip
    position, momentum = geometry.flow(position, momentum, h)
    return position, momentum, g


def baoab(
    position: Params,
    momentum: Params,
    gradient: Gradient,
    noise: Params,
    h: Params,
    friction: Params,
    diffusion: Diffusion,
    geometry: Geometry = FLAT,
) -> tuple[Params, Params, Params]:
    """Kick, half drift, friction and noise, half drift: the positions of BAOAB (Leimkuhler and Matthews 2013, 2016).

    The last half kick of a step of BAOAB and the first of the next see the same position and the same minibatch, so
    they are made as one kick. Positions are those of BAOAB, second order in h, and exact on a Gaussian when the
    gradient is; momenta are recorded half a kick earlier.
    """
    g, diffusion = gradient(position), at(diffusion, position)
    momentum = kick(momentum, geometry.slope(position, g), h)
    half = jax.tree.map(lambda h: h / 2, h)
    position, momentum = geometry.flow(position, momentum, half)
    momentum = relax(position, momentum, noise, h, friction, diffusion, geometry)
    position, momentum = geometry.flow(position, momentum, half)
    return position, momentum, g


def aboba(
    position: Params,
    momentum: Params,
    gradient: Gradient,
    noise: Params,
    h: Params,
    friction: Params,
    diffusion: Diffusion,
    geometry: Geometry = FLAT,
) -> tuple[Params, Params, Params]:
    """Half drift, half kick, friction and noise, half kick, half drift; second order in h."""
    half = jax.tree.map(lambda h: h / 2, h)
    position, momentum = geometry.flow(position, momentum, half)
    g, diffusion = gradient(position), at(diffusion, position)
    slope = geometry.slope(position, g)
    momentum = kick(momentum, slope, half)
    momentum = relax(position, momentum, noise, h, friction, diffusion, geometry)
    momentum = kick(momentum, slope, half)
    position, momentum = geometry.flow(position, momentum, half)
    return position, momentum, g


def split_friction(
    position: Params,
    momentum: Params,
    gradient: Gradient,
    noise: Params,
    h: Params,
    friction: Params,
    diffusion: Diffusion,
    geometry: Geometry = FLAT,
) -> tuple[Params, Params, Params]:
    """Half drift, half friction, kick with noise, half friction, half drift: what Liu, Zhu and Song (2016) call ABOBA.

    Second order in h. Noise and gradient enter at one place, so that gradient noise of variance V stands for
    injected noise, D = A T - h V/2, exactly.
    """
    half = jax.tree.map(lambda h: h / 2, h)
    position, momentum = geometry.flow(position, momentum, half)
    g, diffusion = gradient(position), at(diffusion, position)
    momentum = damp(position, momentum, half, friction, geometry)
    momentum = geometry.each(
        lambda m, x, p, g, z, h, d: p - h * g + _stir(m, x, d, h, z),
        position, momentum, geometry.slope(position, g), noise, h, diffusion,
    )  # fmt: skip
    momentum = damp(position, momentum, half, friction, geometry)
    position, momentum = geometry.flow(position, momentum, half)
    return position, momentum, g


def ubu(
    position: Params,
    momentum: Params,
    gradient: Gradient,
    noise: tuple[Params, Params, Params, Params],
    h: Params,
    friction: Params,
    diffusion: Diffusion,
    geometry: Geometry = FLAT,
) -> tuple[Params, Params, Params]:
    """Half a step of U, kick, half a step of U (Zapatero 2017; Sanz-Serna and Zygalakis 2021), in flat space.

    Second order in h. Each half takes two of the four trees of noise. A diffusion that depends on the position is taken
    where the step starts.
    """
    del geometry
    half, diffusion = jax.tree.map(lambda h: h / 2, h), at(diffusion, position)
    position, momentum = coast(position, momentum, noise[:2], half, friction, diffusion)
    g = gradient(position)
    momentum = kick(momentum, g, h)
    position, momentum = coast(position, momentum, noise[2:], half, friction, diffusion)
    return position, momentum, g


def noise_like(integrator: Step, position: Params) -> Params:
    """The structure of the noise that a step takes: the position's, or a tuple of several."""
    return (position,) * 4 if integrator is ubu else position


def kick(momentum: Params, slope: Params, h: Params) -> Params:
    """The step B of the splitting, a kick by the gradient: ``p <- p - h g``."""
    return jax.tree.map(lambda p, g, h: p - h * g, momentum, slope, h)


def damp(position: Params, momentum: Params, h: Params, friction: Params, geometry: Geometry = FLAT) -> Params:
    """Friction alone: ``p <- e^(-A h) p``."""

    def one(m: Manifold, x: Array, p: Array, h: Number, a: Any) -> Array:
        if isinstance(a, LowRank):
            return a.apply(lambda a: _decay(h, a), p)
        return matrix.damped(m, x, p, a, h) if isinstance(a, Matrix) else _decay(h, a) * p

    return geometry.each(one, position, momentum, h, friction)


def relax(
    position: Params, momentum: Params, noise: Params, h: Params, friction: Params, diffusion: Params,
    geometry: Geometry = FLAT,
) -> Params:  # fmt: skip
    """The step O of the splitting, friction and noise over a time h, with the tangent part of the noise."""

    def one(m: Manifold, x: Array, p: Array, z: Array, h: Number, a: Any, d: Any) -> Array:
        if isinstance(a, Matrix):
            return matrix.ornstein_uhlenbeck(m, x, p, z, h, a, d)
        if isinstance(a, LowRank):
            return a.apply(lambda a: _decay(h, a), p) + a.apply(lambda a: _stirring(h, a, d), z)
        stirred = matrix.root_times(m, x, d, z) if isinstance(d, Matrix) else m.project(x, jnp.sqrt(d) * z)
        return ornstein_uhlenbeck(p, stirred.astype(p.dtype), h, a, 1.0)

    return geometry.each(one, position, momentum, noise, h, friction, diffusion)


def coast(
    position: Params, momentum: Params, noise: tuple[Params, Params], h: Params, friction: Params, diffusion: Params
) -> tuple[Params, Params]:
    """The step U of the splitting, drift, friction and noise over a time h: (theta, p) is jointly normal.

    With s = A h, e = (1 - e^-s) / s and f = (1 - e^-2s) / 2s the mean moves by h e p; the variance of p is 2 D h f, the
    covariance D h^2 e^2, the variance of theta 2 D h^3 (s - 2 (1 - e^-s) + (1 - e^-2s) / 2) / s^3.
    """

    def place(x: Array, p: Array, y: Array, z: Array, h: Number, a: Number, d: Number) -> Array:
        e, f = _mean_decay(a * h), _mean_decay(2 * a * h)
        with_momentum = jnp.sqrt(d * h / (2 * f)) * e**2
        alone = jnp.sqrt(2 * d * h * (_wandering(a * h) - e**4 / (4 * f)))
        return x + (h * (e * p + with_momentum * y + alone * z)).astype(x.dtype)

    one, other = noise
    after = jax.tree.map(place, position, momentum, one, other, h, friction, diffusion)
    return after, jax.tree.map(ornstein_uhlenbeck, momentum, one, h, friction, diffusion)


def _wandering(s: Number) -> Array:
    """(s - 2 (1 - e^-s) + (1 - e^-2s) / 2) / s^3, by its series where terms cancel."""
    series = jnp.zeros_like(s)
    for n in range(16, 2, -1):
        series = series * s + (-1) ** n * (2 - 2.0 ** (n - 1)) / factorial(n)
    large = jnp.where(s < 0.5, 1.0, s)
    return jnp.where(s < 0.5, series, (large + 2 * jnp.expm1(-large) - jnp.expm1(-2 * large) / 2) / large**3)


def ornstein_uhlenbeck(momentum: Number, noise: Number, h: Number, friction: Number, diffusion: Number) -> Array:
    """O: the exact solution over time h of ``dp = -A p dt + sqrt(2 D) dW``, for any sign of A."""
    return _decay(h, friction) * momentum + _stirring(h, friction, diffusion) * noise


def _decay(h: Number, friction: Number) -> Array:
    """What is left of a momentum after a time h."""
    return jnp.exp(-friction * h)


def _stirring(h: Number, friction: Number, diffusion: Number) -> Array:
    """The sd of the noise that has come in after a time h."""
    return jnp.sqrt(2 * diffusion * h * _mean_decay(2 * friction * h))


def _mean_decay(rate: Number) -> Array:
    """(1 - e^-rate) / rate, the mean of e^-(rate u) for u from 0 to 1."""
    small = jnp.abs(rate) < 1e-4
    safe = jnp.where(small, 1.0, rate)
    return jnp.where(small, 1 - rate / 2, -jnp.expm1(-safe) / safe)


def at(diffusion: Diffusion, position: Params) -> Params:
    """The diffusion where the gradient is taken."""
    return diffusion(position) if callable(diffusion) else diffusion


def _pull(m: Manifold, x: Array, friction: Any, p: Array) -> Array:
    if isinstance(friction, LowRank):
        return friction.apply(lambda a: a, p)
    return matrix.times(m, x, friction, p) if isinstance(friction, Matrix) else friction * p


def _stir(m: Manifold, x: Array, diffusion: Any, h: Number, noise: Array) -> Array:
    """The noise that is injected over a time h: the tangent part of sqrt(2 D h) xi."""
    if isinstance(diffusion, Matrix):
        return jnp.sqrt(2 * h) * matrix.root_times(m, x, diffusion, noise)
    return m.project(x, jnp.sqrt(2 * diffusion * h) * noise)


INTEGRATORS: dict[str, Step] = {
    "euler": euler, "baoab": baoab, "aboba": aboba, "split_friction": split_friction, "ubu": ubu
}  # fmt: skip
STRAIGHT = ("ubu",)  # of these, those for flat space only, and for frictions that are numbers
