"""Gradient samplers, one algorithm a file."""

from scirocco.integrators.matrix import Matrix
from scirocco.samplers.barker import Barker
from scirocco.samplers.base import Auto, Info, Sampler
from scirocco.samplers.geodesic_sgnht import GeodesicSGNHT
from scirocco.samplers.gmc import GMC
from scirocco.samplers.noise import GradientNoise
from scirocco.samplers.nuts import NUTS
from scirocco.samplers.preconditioned import Preconditioned, Scale
from scirocco.samplers.psgld import PSGLD
from scirocco.samplers.rescaled import Rescaled
from scirocco.samplers.sggmc import SGGMC
from scirocco.samplers.sghmc import SGHMC
from scirocco.samplers.sgld import SGLD
from scirocco.samplers.sgnht import SGNHT
from scirocco.samplers.smsubu import SMSUBU
from scirocco.samplers.thermostats import AlongDirections
from scirocco.samplers.underdamped import UnderdampedLangevin
from scirocco.samplers.zigzag import ZigZag

__all__ = [
    "GMC",
    "NUTS",
    "PSGLD",
    "SGGMC",
    "SGHMC",
    "SGLD",
    "SGNHT",
    "SMSUBU",
    "AlongDirections",
    "Auto",
    "Barker",
    "GeodesicSGNHT",
    "GradientNoise",
    "Info",
    "Matrix",
    "Preconditioned",
    "Rescaled",
    "Sampler",
    "Scale",
    "UnderdampedLangevin",
    "ZigZag",
]
