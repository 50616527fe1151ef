"""One step of the Nose-Hoover thermostat, by different splittings.

    d theta = p dt,    dp = -grad U dt - xi p dt + sqrt(2 D) dW,    d xi = (p'p/n - T) dt

(xi one number for all coordinates, or one per coordinate, then d xi_i = (p_i^2 - T) dt.) The functions take the
thermostat's drift as a function of the momentum, so both forms share them. Conventions as in ``langevin``.
"""

from __future__ import annotations

from collections.abc import Callable

import jax

from scirocco.core.types import Gradient, Params
from scirocco.integrators.langevin import drift, euler, kick, ornstein_uhlenbeck

Heat = Callable[[Params, Params, float], Params]
"""(thermostat, momentum, share of the step) -> thermostat: the D step, ``xi <- xi + share h (p'p/n - T)``"""


def euler_thermostat(
    position: Params, momentum: Params, thermostat: Params, gradient: Gradient, noise: Params, h: Params,
    diffusion: Params, heat: Heat, friction: Callable[[Params], Params],
) -> tuple[Params, Params, Params, Params]:  # fmt: skip
    """Momentum, position, thermostat, each with the newest of the others: Algorithm 1 of Ding et al. (2014)."""
    position, momentum, g = euler(position, momentum, gradient, noise, h, friction(thermostat), diffusion)
    return position, momentum, heat(thermostat, momentum, 1.0), g


def badodab(
    position: Params, momentum: Params, thermostat: Params, gradient: Gradient, noise: Params, h: Params,
    diffusion: Params, heat: Heat, friction: Callable[[Params], Params],
) -> tuple[Params, Params, Params, Params]:  # fmt: skip
    """B A D O D A B with D the thermostat's half step (Leimkuhler and Shang 2016): symmetric, second order in h.

    The two half kicks that meet at the border of two steps are made as one, as in ``langevin.baoab``.
    """
    g = gradient(position)
    half = jax.tree.map(lambda h: h / 2, h)
    momentum = kick(momentum, g, h)
    position = drift(position, momentum, half)
    thermostat = heat(thermostat, momentum, 0.5)
    momentum = jax.tree.map(ornstein_uhlenbeck, momentum, noise, h, friction(thermostat), diffusion)
    thermostat = heat(thermostat, momentum, 0.5)
    return drift(position, momentum, half), momentum, thermostat, g


THERMOSTATS = {"euler": euler_thermostat, "badodab": badodab}
