"""One step of the Nose-Hoover thermostat, by different splittings, in flat space or on a manifold.

    d theta = p dt,    dp = -grad U dt - xi p dt + sqrt(2 D) dW,    d xi = (p'p/m - T) dt

(xi one number for all coordinates, with m the dimension of the manifold, or one per coordinate, then d xi_i =
(p_i^2 - T) dt.) The functions take the thermostat's drift as a function of the momentum, so both forms share them.
Conventions as in ``langevin``.
"""

from __future__ import annotations

from collections.abc import Callable

import jax

from scirocco.core.types import Gradient, Params
from scirocco.integrators.langevin import Diffusion, at, euler, kick, relax, split_friction
from scirocco.manifolds import FLAT, Geometry

Heat = Callable[[Params, Params, float], Params]
"""(thermostat, momentum, share of the step) -> thermostat: the D step, ``xi <- xi + share h (p'p/m - T)``"""


def euler_thermostat(
    position: Params, momentum: Params, thermostat: Params, gradient: Gradient, noise: Params, h: Params,
    diffusion: Diffusion, heat: Heat, friction: Callable[[Params], Params], geometry: Geometry = FLAT,
) -> tuple[Params, Params, Params, Params]:  # fmt: skip
    """Momentum, position, thermostat, each with the newest of the others: Algorithm 1 of Ding et al. (2014)."""
    position, momentum, g = euler(position, momentum, gradient, noise, h, friction(thermostat), diffusion, geometry)
    return position, momentum, heat(thermostat, momentum, 1.0), g


def badodab(
    position: Params, momentum: Params, thermostat: Params, gradient: Gradient, noise: Params, h: Params,
    diffusion: Diffusion, heat: Heat, friction: Callable[[Params], Params], geometry: Geometry = FLAT,
) -> tuple[Params, Params, Params, Params]:  # fmt: skip
    """B A D O D A B with D the thermostat's half step (Leimkuhler and Shang 2016): symmetric, second order in h.

    The two half kicks that meet at the border of two steps are made as one, as in ``langevin.baoab``.
    """
    g, diffusion = gradient(position), at(diffusion, position)
    half = jax.tree.map(lambda h: h / 2, h)
    momentum = kick(momentum, geometry.slope(position, g), h)
    position, momentum = geometry.flow(position, momentum, half)
    thermostat = heat(thermostat, momentum, 0.5)
    momentum = relax(position, momentum, noise, h, friction(thermostat), diffusion, geometry)
    thermostat = heat(thermostat, momentum, 0.5)
    position, momentum = geometry.flow(position, momentum, half)
    return position, momentum, thermostat, g


def split_thermostat(
    position: Params, momentum: Params, thermostat: Params, gradient: Gradient, noise: Params, h: Params,
    diffusion: Diffusion, heat: Heat, friction: Callable[[Params], Params], geometry: Geometry = FLAT,
) -> tuple[Params, Params, Params, Params]:  # fmt: skip
    """D, the steps of ``langevin.split_friction`` with the thermostat's friction, D: what Liu et al. (2016) call ABOBA.

    Their thermostat moves during the drifts, which keep p'p and do not see the thermostat: before or after is the same.
    """
    thermostat = heat(thermostat, momentum, 0.5)
    position, momentum, g = split_friction(
        position, momentum, gradient, noise, h, friction(thermostat), diffusion, geometry
    )
    return position, momentum, heat(thermostat, momentum, 0.5), g


THERMOSTATS = {"euler": euler_thermostat, "badodab": badodab, "split_friction": split_thermostat}
