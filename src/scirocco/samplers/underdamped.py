"""Underdamped Langevin dynamics with a splitting integrator.

    d theta = p dt,    dp = -grad U(theta) dt - A p dt + sqrt(2 A T) dW

SGHMC's dynamics, by default with BAOAB: the positions have a bias of second order in h, and none on a Gaussian when
the gradient is exact. With gradient noise of variance V the variance grows by about h V / (2 A), as for every scheme
that does not estimate V. Leimkuhler and Matthews (2013), whose gamma is A here.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from scirocco.samplers.sghmc import SGHMC


@dataclass(frozen=True)
class UnderdampedLangevin(SGHMC):
    """Underdamped Langevin dynamics; ``step_size`` is the time step h, ``friction`` A.

    >>> UnderdampedLangevin(step_size=0.1).integrator
    'baoab'
    """

    _: KW_ONLY
    integrator: str = "baoab"
