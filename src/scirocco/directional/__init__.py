"""Laws on the sphere, and the Bessel functions that their normalisers are made of."""

from scirocco.directional.bessel import bessel_ratio, log_bessel_excess, log_bessel_i
from scirocco.directional.von_mises_fisher import (
    concentration_for,
    log_density,
    log_normaliser,
    mean_resultant_length,
    sample,
)

__all__ = [
    "bessel_ratio",
    "concentration_for",
    "log_bessel_excess",
    "log_bessel_i",
    "log_density",
    "log_normaliser",
    "mean_resultant_length",
    "sample",
]
