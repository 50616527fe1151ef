"""Sampled over true variance by the virial identity, from a few points with gradients and the variance of all draws.

    E (x_i - mean) (S grad U)_i / S_ii = T    for the right law and any matrix S

On a Gaussian with covariance S this is the ratio of the variances of x_i, sampled over true, whatever the correlations;
with S = I it is that of x_i given all others. S is the inverse of the curvature that points and gradients of other
chains show, as far as there are enough of them; else that of the sampler's coordinates, where it has some
(``marginal``). See ``diagnostics.virial``.

    ratio = b Var(x_i) / T,    b the slope of (S grad U)_i / S_ii against x_i over the points

On a Gaussian b is the precision whatever the points, so that the variance of all draws is judged by few gradients.

On a manifold, for f = (y_i - mean)^2 / 2 of a coordinate y_i, E <grad f, grad U> = T E Laplacian f reads

    E (y_i - mean) (<grad y_i, grad U> - T Laplacian y_i) = T E |grad y_i|^2

with U that of the density on the manifold's own volume; what stands in brackets takes the place of the gradient, and
the ratio is divided by the mean of |grad y_i|^2. The slope against y_i and the variance of all draws serve as well as
in flat space: their product is the mean of the left side, whatever the shape of the law.

Of combinations u'y and w'y the same identity, for the field u'(y - mean) grad w'y, is

    E u'(y - mean) w's = T u'G w,    s = <grad y, grad U> - T Laplacian y,    G_ij = E <grad y_i, grad y_j>

so that in coordinates in which G is the unit matrix all is as in flat space (``Chart``).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.program import QUICK
from scirocco.core.types import Array, Number
from scirocco.manifolds import Manifold

BLOCKS = 4  # of the points of a chain, whose residuals may depend on each other
ENOUGH = 4  # points of a half for each coordinate, from which its curvature is taken
WEAKEST = 1e-8  # of the largest curvature, in units of the sds: the least that is believed
NORMAL = 1e-6  # of the largest: eigenvalues of G, in units of its diagonal, of combinations that hardly vary
KNOWN = 0.1  # relative standard error of a diagonal entry of G, beyond which its coordinate is left out
MOST_TOGETHER = 64  # coordinates of a point on a manifold, the work for whose G grows with their cube
NONE = 1e-100  # in place of curvatures that are all negative


class Virials(NamedTuple):
    """Of each coordinate of a parameter: the ratio of variances, 1 for the right law, and its standard error."""

    ratio: np.ndarray
    error: np.ndarray

    @classmethod
    def of(
        cls, places: np.ndarray, slopes: np.ndarray, variance: np.ndarray, temperature: float = 1.0,
        steepness: np.ndarray | None = None,
    ) -> Virials:  # fmt: skip
        """From points and gradients, (chain, point, ...), and the variance of all draws.

        On manifolds from coordinates, what takes the place of the gradient, and ``steepness``: see ``on_manifold``.

        >>> x = np.random.default_rng(0).normal(size=(4, 50, 2))
        >>> print(Virials.of(2 * x, 2 * x, np.array([1.0, 1.21])).ratio.round(2))
        [1.   1.21]
        """
        x, g = (np.asarray(a, np.float64) for a in (places, slopes))
        moves = np.ptp(x, axis=(0, 1)) > 0  # the ratio is 0 where it does not, whatever rounding leaves of it
        x, g = np.where(moves, x - x.mean(axis=(0, 1)), 0.0), g - g.mean(axis=(0, 1))
        square = np.maximum((x**2).sum(axis=(0, 1)), np.finfo(np.float64).tiny)
        slope = (x * g).sum(axis=(0, 1)) / square
        unit = np.asarray(variance, np.float64) / temperature
        left = x * (g - slope * x) / square
        if steepness is not None:
            steep = np.asarray(steepness, np.float64)
            mean = np.maximum(steep.mean(axis=(0, 1)), np.finfo(np.float64).tiny)
            unit = unit / mean
            left = left - slope * (steep / mean - 1) / (steep.shape[0] * steep.shape[1])
        blocks = np.concatenate([part.sum(axis=1) for part in np.array_split(left, BLOCKS, axis=1)])
        return cls(slope * unit, np.sqrt((blocks**2).sum(axis=0)) * unit)

    def with_chance(self, variances: np.ndarray) -> Virials:
        """The same with what the variances of single chains, (chain, ...), leave to chance.

        Few chains say little of each coordinate: none is taken to be less uncertain than the typical one.
        """
        chains = np.asarray(variances, np.float64)
        if len(chains) < 2:
            return self
        mean = np.maximum(chains.mean(axis=0), np.finfo(np.float64).tiny)
        relative = np.var(chains / mean, axis=0, ddof=1) / len(chains)
        chance = np.maximum(relative, np.median(relative))
        return Virials(self.ratio, np.sqrt(self.error**2 + self.ratio**2 * chance))

    @property
    def sd_error(self) -> np.ndarray:
        """The relative error of the sd."""
        return np.sqrt(np.maximum(self.ratio, 0)) - 1

    @property
    def sd_error_error(self) -> np.ndarray:
        """Its standard error; above 1 such that sd and variance are as many of them away from 1.

        The slope of the root at a ratio that is large by chance would make it as little as half of that.
        """
        sd = np.sqrt(np.maximum(self.ratio, 0.05))
        return self.error / np.where(sd > 1, 1 + sd, 2 * sd)


def halves(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every second chain and the others, of an array (chain, point, ...), or both halves of the only chain."""
    return (a[::2], a[1::2]) if len(a) > 1 else (a[:, : a.shape[1] // 2], a[:, a.shape[1] // 2 :])


def sds(x: np.ndarray) -> np.ndarray:
    """Of the columns of a table, for units: 1 of those that do not vary."""
    return np.where(np.ptp(x, axis=0) > 0, x.std(axis=0), 1.0)


class Curvature(NamedTuple):
    """The matrix P by which gradients follow the points, g = P x, symmetric and positive definite: its eigenvalues and
    eigenvectors in units of the sds."""

    unit: np.ndarray
    values: np.ndarray
    vectors: np.ndarray

    @classmethod
    def of(cls, places: np.ndarray, slopes: np.ndarray) -> Curvature:
        """By least squares over points and gradients (chain, point, coordinate)."""
        x, g = (np.asarray(a, np.float64).reshape(-1, a.shape[-1]) for a in (places, slopes))
        x, g = x - x.mean(axis=0), g - g.mean(axis=0)
        unit = sds(x)
        bent = np.linalg.lstsq(x / unit, g * unit, rcond=None)[0]
        bent[:, np.ptp(x, axis=0) == 0] = 0  # what never moves shows nothing of its curvature, nor of that of others
        values, vectors = np.linalg.eigh((bent + bent.T) / 2)
        least = max(WEAKEST * float(values[-1]), NONE)
        return cls(unit, np.maximum(values, least), vectors)

    @classmethod
    def of_halves(cls, places: np.ndarray, slopes: np.ndarray) -> tuple[Curvature, Curvature] | None:
        """Of both halves of the chains; None where there are too few points."""
        if places.shape[0] * places.shape[1] < 2 * ENOUGH * places.shape[2]:
            return None
        first, second = (cls.of(x, g) for x, g in zip(halves(places), halves(slopes), strict=True))
        return first, second

    def inverse(self) -> np.ndarray:
        """P^-1."""
        return (self.vectors / self.values) @ self.vectors.T * np.outer(self.unit, self.unit)


def marginal_slopes(slopes: np.ndarray, curvatures: tuple[Curvature, Curvature]) -> np.ndarray:
    """(S g)_i / S_ii at points (chain, point, coordinate).

    S comes from the other half of the chains: the identity holds for a matrix that does not depend on the points
    themselves.
    """
    felt = np.empty(slopes.shape)
    for into, g, other in zip(halves(felt), halves(slopes), reversed(curvatures), strict=True):
        spread = other.inverse()
        into[...] = g.astype(np.float64) @ spread / np.diag(spread)
    return felt


def on_manifold(
    manifold: Manifold, places: np.ndarray, gradients: np.ndarray, temperature: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Coordinates y of points, <grad y, grad U> - T Laplacian y and |grad y|^2, from the user's gradients there.

    In double precision: where a posterior is narrow around an axis, 1 - x_i^2 and the variance of x_i are tiny.
    """
    with jax.enable_x64(True):
        x, g = (np.asarray(a, np.float64) for a in (places, gradients))
        y, slopes, steepness = (np.asarray(a) for a in _on_manifold(manifold, x, g, temperature))
    return y, slopes, steepness


@partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _on_manifold(manifold: Manifold, x: Array, gradient: Array, temperature: Number) -> tuple[Array, Array, Array]:
    along = manifold.rates(x, manifold.slope(x, gradient, temperature))
    return manifold.coordinates(x), along - temperature * manifold.laplacian(x), manifold.steepness(x)


class Chart(NamedTuple):
    """Coordinates B'(y - mean) of points on a manifold, and slopes B's, for which the identity is that of flat space.

    Combinations of y that hardly vary, as the sum of probabilities, are left out; so are coordinates whose G comes from
    few of the points, as that of a category which is nearly always empty. ``back`` is B, (y, coordinate).
    """

    places: np.ndarray
    slopes: np.ndarray
    back: np.ndarray
    sd: np.ndarray

    @classmethod
    def of(cls, manifold: Manifold, places: np.ndarray, gradients: np.ndarray, temperature: float) -> Chart:
        """From positions and the user's gradients there, (chain, point, ...)."""
        found = on_manifold(manifold, places, gradients, temperature)
        y, slopes, steepness = (a.reshape(*a.shape[:2], -1) for a in found)
        count, mean = y.shape[0] * y.shape[1], np.maximum(steepness.mean(axis=(0, 1)), np.finfo(np.float64).tiny)
        known = steepness.std(axis=(0, 1)) / mean < KNOWN * np.sqrt(count)
        with jax.enable_x64(True):
            x = np.asarray(places, np.float64)
            grams = np.asarray(_gram(manifold, x.reshape(-1, *x.shape[2:])))
        blocks = [_unit_root(gram, sure) for gram, sure in zip(grams, known.reshape(len(grams), -1), strict=True)]
        back = np.zeros((y.shape[-1], sum(block.shape[1] for block in blocks)))
        row = column = 0
        for block in blocks:
            rows, columns = block.shape
            back[row : row + rows, column : column + columns] = block
            row, column = row + rows, column + columns
        return cls((y - y.mean(axis=(0, 1))) @ back, slopes @ back, back, y.std(axis=(0, 1)))

    @staticmethod
    def suits(manifold: Manifold, shape: tuple[int, ...]) -> bool:
        """Whether the points of an array are small enough."""
        return int(np.prod(shape[len(shape) - manifold.point_axes :])) <= MOST_TOGETHER


def _unit_root(gram: np.ndarray, known: np.ndarray) -> np.ndarray:
    """B with B'G B = I, of the combinations of known coordinates that vary."""
    inside = gram[np.ix_(known, known)]
    unit = np.sqrt(np.maximum(np.diag(inside), np.finfo(np.float64).tiny))
    values, vectors = np.linalg.eigh(inside / np.outer(unit, unit))
    varies = values > NORMAL * np.max(values, initial=0.0)
    root = np.zeros((len(gram), int(varies.sum())))
    root[known] = vectors[:, varies] / np.sqrt(values[varies]) / unit[:, None]
    return root


@partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _gram(manifold: Manifold, x: Array) -> Array:
    """The mean of G over points (point, ...), of each point of the array: (copy, coordinate, coordinate)."""
    shape = x.shape[x.ndim - manifold.point_axes :]
    size = int(np.prod(shape, dtype=int))

    def along(e: Array) -> Array:
        rates = manifold.rates(x, manifold.project(x, jnp.broadcast_to(e, x.shape))).reshape(len(x), -1, size)
        return jnp.einsum("ncj,nck->cjk", rates, rates) / len(x)

    return jnp.sum(jax.lax.map(along, jnp.eye(size, dtype=x.dtype).reshape(size, *shape)), axis=0)
