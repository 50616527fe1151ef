"""The law of von Mises and Fisher, on the unit sphere of R^d, d >= 2.

    p(x) = c_d(kappa) exp(kappa mu . x),    c_d(kappa) = kappa^n / ((2 pi)^{d/2} I_n(kappa)),    n = d/2 - 1

with respect to the area of the sphere. In the terms of ``bessel``, log c_d = -log(area of the sphere) - G_n(kappa), and
the mean of x is A_n(kappa) mu. Both are finite and smooth from kappa = 0, the uniform law, on.

Draws are exact. The cosine w = mu . x has a density proportional to exp(kappa w) (1 - w^2)^{(d-3)/2}. Ulrich (1984), as
corrected by Wood (1994), proposes w from a Beta variable and accepts it by a ratio that is largest at one cosine w0.
With two Gamma((d-1)/2) variables g and h, r = sqrt(4 kappa^2 + (d-1)^2) and b = (d-1) / (2 kappa + r), the proposal is

    w = (h - b g) / (h + b g),    sqrt(1 - w^2) = 2 sqrt(b g h) / (h + b g)

accepted with probability ((1 + y) e^{-y})^{d-1}, where

    y = kappa (w0 - w) / (d - 1) = 2 kappa b (g - h) / ((d - 1) (1 + b) (h + b g))

In this form nothing cancels, however large kappa or d. The rest of x is uniform on the directions orthogonal to mu.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.checks import real_array, require_count
from scirocco.core.types import Array, Number
from scirocco.directional.bessel import bessel_ratio, log_bessel_excess, ratio_and_slope

UNIT_TOLERANCE = 1e-5  # of a vector's length: what float32 leaves of a unit vector, with room
NEWTON_STEPS = 4


def log_normaliser(dimension: int, concentration: Number) -> Array:
    """log c_d(kappa) for a static dimension; its derivative is -A, minus the mean resultant length.

    >>> log_normaliser(3, 0.0).round(4)                 # -log(4 pi)
    Array(-2.531, dtype=float32)
    """
    require_count("dimension", dimension, 2)
    log_area = math.log(2) + dimension / 2 * math.log(math.pi) - math.lgamma(dimension / 2)
    return -log_area - log_bessel_excess(dimension / 2 - 1, concentration)


def log_density(x: Number, mean: Number, concentration: Number) -> Array:
    """log p of unit vectors along the last axis; leading axes broadcast with each other and with the concentration.

    >>> x, mean = jnp.eye(3), jnp.array([0.0, 0.0, 1.0])
    >>> np.asarray(log_density(x, mean, 2.0)).round(2)
    array([-3.13, -3.13, -1.13], dtype=float32)
    """
    x, mean = jnp.asarray(x), jnp.asarray(mean)
    if not x.ndim or not mean.ndim or x.shape[-1] != mean.shape[-1]:
        raise ValueError(f"x and mean must have the same last axis; got the shapes {x.shape} and {mean.shape}")
    normaliser = log_normaliser(x.shape[-1], concentration)  # which looks at the concentration first
    return jnp.sum(x * mean, axis=-1) * concentration + normaliser


def mean_resultant_length(dimension: int, concentration: Number) -> Array:
    """A_n(kappa), the length of the mean of x.

    >>> mean_resultant_length(3, 2.0).round(4)          # coth(2) - 1/2
    Array(0.5373, dtype=float32)
    """
    require_count("dimension", dimension, 2)
    return bessel_ratio(dimension / 2 - 1, concentration)


def concentration_for(dimension: int, resultant: Any) -> np.ndarray:
    """The kappa with this mean resultant length, on the host: Newton's steps from r (d - r^2) / (1 - r^2).

    The start is that of Banerjee et al. (2005). The rounding of a resultant r near 1 alone moves kappa by a share of
    1e-16 / (1 - r).

    >>> concentration_for(384, [0.0, 0.1, 0.9]).round(3)
    array([   0.   ,   38.786, 1814.708])
    """
    require_count("dimension", dimension, 2)
    r = real_array("resultant", resultant, least=0.0)
    if np.any(r >= 1):
        raise ValueError(f"resultant must be less than 1, where the concentration is infinite; got {r.max():g}")
    kappa = r * (dimension - r * r) / ((1 - r) * (1 + r))
    with jax.enable_x64(True):
        for _ in range(NEWTON_STEPS):
            ratio, slope = map(np.asarray, ratio_and_slope(dimension / 2 - 1, kappa))
            # Where the rounding of a ratio near 1 is all that is left to correct, a step must do no harm.
            kappa = np.clip(kappa + (r - ratio) / slope, kappa / 2, kappa * 2)
    return kappa


def sample(
    rng: np.random.Generator, mean: Any, concentration: Any, size: int | tuple[int, ...] | None = None
) -> np.ndarray:
    """Draws, with shape ``size + (d,)``; the leading axes of the mean and the concentration broadcast to ``size``.

    >>> sample(np.random.default_rng(0), [0.0, 0.0, 1.0], 1e6, size=2).round(2) + 0.0
    array([[0., 0., 1.],
           [0., 0., 1.]])
    """
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator; got {type(rng).__name__}")
    mean, kappa = _unit_vectors("mean", mean), real_array("concentration", concentration, least=0.0)
    shape, dimension = _shape(mean.shape[:-1], kappa.shape, size), mean.shape[-1]
    cosine, sine = (part.reshape(shape) for part in _cosines(rng, dimension, np.broadcast_to(kappa, shape).ravel()))
    x = np.empty((*shape, dimension))
    x[..., 0], rest = cosine, x[..., 1:]
    tangent = rng.standard_normal(rest.shape)
    rest[...] = tangent * (sine / np.linalg.norm(tangent, axis=-1))[..., None]
    # The reflection that takes the first axis to -mean or mean, whichever is farther: the difference keeps its digits.
    side = np.where(mean[..., :1] >= 0, 1.0, -1.0)
    normal = mean.copy()
    normal[..., :1] += side
    x -= normal * (np.sum(x * normal, axis=-1, keepdims=True) / (1 + np.abs(mean[..., :1])))
    x *= -side
    return x


def _shape(means: tuple[int, ...], kappas: tuple[int, ...], size: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """The leading axes of the draws."""
    wanted = () if size is None else (size,) if isinstance(size, int | np.integer) else tuple(size)
    try:
        shape = np.broadcast_shapes(means, kappas, wanted)
    except ValueError:
        shape = None
    if shape is None or (size is not None and shape != wanted):
        target = "to each other" if size is None else f"to the size {wanted}"
        raise ValueError(
            f"the leading axes of mean, {means}, and of concentration, {kappas}, do not broadcast {target}"
        )
    return shape


def _cosines(rng: np.random.Generator, dimension: int, kappa: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cosines of the angle to the mean, and the sines."""
    cosine, sine = np.empty_like(kappa), np.empty_like(kappa)
    axes = dimension - 1
    ratio = axes / (2 * kappa + np.hypot(2 * kappa, axes))
    steepness = 2 * kappa * ratio / (axes * (1 + ratio))
    open_draws = np.arange(kappa.size)
    while open_draws.size:
        b = ratio[open_draws]
        g, h = rng.standard_gamma(axes / 2, (2, open_draws.size))
        total = h + b * g
        y = steepness[open_draws] * (g - h) / total
        accepted = -rng.standard_exponential(open_draws.size) <= axes * (np.log1p(y) - y)
        done = open_draws[accepted]
        cosine[done] = ((h - b * g) / total)[accepted]
        sine[done] = (2 * np.sqrt(b * g * h) / total)[accepted]
        open_draws = open_draws[~accepted]
    return cosine, sine


def _unit_vectors(name: str, value: Any) -> np.ndarray:
    """Unit vectors along the last axis, in float64 to its own precision."""
    array = real_array(name, value)
    if not array.ndim or array.shape[-1] < 2:
        raise ValueError(f"{name} must be vectors of at least 2 entries; got the shape {array.shape}")
    lengths = np.linalg.norm(array, axis=-1, keepdims=True)
    off = np.abs(lengths - 1)
    if off.size and off.max() > UNIT_TOLERANCE:
        where = np.unravel_index(int(np.argmax(off)), off.shape)
        place = f" at {list(map(int, where[:-1]))}" if array.ndim > 1 else ""
        raise ValueError(
            f"{name} must be unit vectors; the length{place} is {lengths[where]:.6g}, off by {off[where]:.2g}"
        )
    return array / lengths
