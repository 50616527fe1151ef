"""Functions that advance position and momentum by one step of a splitting scheme."""

from scirocco.integrators.langevin import INTEGRATORS, aboba, baoab, euler
from scirocco.integrators.thermostat import THERMOSTATS, badodab, euler_thermostat

__all__ = ["INTEGRATORS", "THERMOSTATS", "aboba", "badodab", "baoab", "euler", "euler_thermostat"]
