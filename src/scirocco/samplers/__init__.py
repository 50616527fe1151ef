"""Gradient samplers, one algorithm a file."""

from scirocco.samplers.base import Auto, Info, Sampler
from scirocco.samplers.preconditioned import Preconditioned, Scale
from scirocco.samplers.psgld import PSGLD
from scirocco.samplers.sghmc import SGHMC
from scirocco.samplers.sgld import SGLD
from scirocco.samplers.sgnht import SGNHT
from scirocco.samplers.underdamped import UnderdampedLangevin

__all__ = [
    "PSGLD",
    "SGHMC",
    "SGLD",
    "SGNHT",
    "Auto",
    "Info",
    "Preconditioned",
    "Sampler",
    "Scale",
    "UnderdampedLangevin",
]
