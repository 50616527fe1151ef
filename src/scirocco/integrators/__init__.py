"""Functions that advance position and momentum by one step of a splitting scheme."""

from scirocco.integrators.langevin import INTEGRATORS, aboba, baoab, euler, split_friction, ubu
from scirocco.integrators.matrix import Matrix
from scirocco.integrators.thermostat import THERMOSTATS, badodab, euler_thermostat, split_thermostat

__all__ = [
    "INTEGRATORS",
    "THERMOSTATS",
    "Matrix",
    "aboba",
    "badodab",
    "baoab",
    "euler",
    "euler_thermostat",
    "split_friction",
    "split_thermostat",
    "ubu",
]
