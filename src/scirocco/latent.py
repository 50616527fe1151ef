"""Latent values of rows, integrated out: random effects of a million groups without a parameter for each.

    p(y_g | theta) = int exp(f(u)) du,    f(u) = log p(u | theta) + log p(y_g | theta, u)
                   = |L| sum_j exp(f(m + L z_j) + c_j),    m = argmax f,  L L' = (-f''(m))^-1

with Gauss-Hermite nodes z_j, scaled for each row and each theta (adaptive quadrature, Pinheiro and Bates 1995), or with
random z_j, whose mean over keys is the same (importance sampling). The right-hand side hardly depends on m and L, so
derivatives leave them fixed: that of its log is the mean of df/dtheta over u given y_g, by Fisher's identity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.checks import require_count
from scirocco.core.types import Array, Data, Key, Params

MOST_NODES = 1000  # of a row
NODES = (15, 9, 7)  # for each dimension, of one, two and three
FREEDOM = 5.0  # degrees, of the Student t from which random points come: wider than what they are weighted by
CLOSE, MOST_STEPS = 1e-3, 30  # of Newton's method: sds from the maximum
SHRINKS = np.array([1.0, 0.5, 0.25, 0.0625, 0.0], np.float32)  # of a step, of which the longest of the best is taken
ROUNDING = 1e-6  # of a value, in single precision


class _Points(NamedTuple):
    """Where f is looked at, in units of its scale, and what is added to it there."""

    z: Any
    log_c: Any


@dataclass(frozen=True)
class Latent:
    """The log likelihood of a row that has a latent value ``u`` of its own, given ``log_joint(params, u, row)``.

    ``log_joint`` is log p(u | params) + log p(row | params, u), both normalised as far as they depend on params. ``u``
    is a number, or with ``size`` a vector of so many. The integral over u is by quadrature with ``nodes`` for each
    dimension (15, 9 and 7 for one, two and three dimensions), or by chance from so many ``draws``, for more
    dimensions. A row is what shares a value: a user, a school, a series (``batches.grouped`` makes them of a table).

    >>> import jax, jax.numpy as jnp, numpy as np, scirocco as sc
    >>> def log_joint(p, u, row):  # u ~ N(p, 1), row ~ N(u, 1): the row is N(p, 2)
    ...     return -((u - p) ** 2) / 2 - (row - u) ** 2 / 2 - jnp.log(2 * jnp.pi)
    >>> effect = sc.Latent(log_joint)
    >>> print(round(float(effect.log_likelihood(0.5, 2.0)), 4), round(-(1.5**2) / 4 - np.log(4 * np.pi) / 2, 4))
    -1.828 -1.828
    >>> target = sc.Target(lambda p: -(p**2) / 2, effect.log_likelihood, jnp.arange(5.0))

    ``effect.draw(key, params, row)`` draws u given a row, for ``trace.posterior_predictive(effect.draw, rows)``.
    """

    log_joint: Callable[[Params, Any, Data], Any]
    size: int | None = None
    nodes: int | None = None
    draws: int | None = None

    def __post_init__(self) -> None:
        if not callable(self.log_joint):
            raise TypeError(f"log_joint must be a function (params, u, row); got {type(self.log_joint).__name__}")
        for name, least in (("size", 1), ("nodes", 2), ("draws", 2)):
            if getattr(self, name) is not None:
                require_count(name, getattr(self, name), least)
        if self.nodes is not None and self.draws is not None:
            raise ValueError("nodes are for quadrature and draws for chance: give one of them")
        if self.draws is None and self._each**self._dimensions > MOST_NODES:
            raise ValueError(
                f"{self._each} nodes for each of {self._dimensions} dimensions are {self._each**self._dimensions:,} "
                f"for each row, and at most {MOST_NODES:,} are allowed: give fewer nodes, or draws=100"
            )

    @property
    def log_likelihood(self) -> Callable[..., Array]:
        """For ``Target``: a function of parameters and a row, and of a key with ``draws``."""
        return self._by_quadrature if self.draws is None else self._by_chance

    def draw(self, key: Key, params: Params, row: Data, of: int = 100) -> Array:
        """A value of u given the row: of so many random ones, one by its weight."""
        centre, scale = self._laplace(params, row)
        points, chosen = self._random(key, of), jax.random.fold_in(key, 1)
        values = self._values(params, row, centre, scale, points)
        found = centre + scale @ points.z[jax.random.categorical(chosen, values)]
        return found if self.size is not None else found[0]

    @property
    def _dimensions(self) -> int:
        return 1 if self.size is None else self.size

    @property
    def _each(self) -> int:
        return self.nodes if self.nodes is not None else NODES[min(self._dimensions, len(NODES)) - 1]

    def _by_quadrature(self, params: Params, row: Data) -> Array:
        return self._log_integral(params, row, self._grid())

    def _by_chance(self, params: Params, row: Data, key: Key) -> Array:
        assert self.draws is not None
        return self._log_integral(params, row, self._random(key, self.draws))

    def _log_integral(self, params: Params, row: Data, points: _Points) -> Array:
        centre, scale = self._laplace(params, row)
        volume = jnp.sum(jnp.log(jnp.abs(jnp.diagonal(scale))))
        return jax.nn.logsumexp(self._values(params, row, centre, scale, points)) + volume

    def _values(self, params: Params, row: Data, centre: Array, scale: Array, points: _Points) -> Array:
        places = centre + points.z @ scale.T
        return jax.vmap(lambda v: self._joint(params, v, row))(places) + points.log_c

    def _joint(self, params: Params, v: Array, row: Data) -> Array:
        return jnp.asarray(self.log_joint(params, v if self.size is not None else v[0], row))

    def _grid(self) -> _Points:
        """The nodes of all dimensions: int g(z) dz = sum_j g(z_j) exp(c_j)."""
        x, w = np.polynomial.hermite.hermgauss(self._each)
        z = np.array(list(product(x, repeat=self._dimensions)))
        log_w = np.array([sum(part) for part in product(np.log(w), repeat=self._dimensions)])
        log_c = log_w + np.sum(z**2, axis=1) + self._dimensions * np.log(2) / 2
        return _Points((np.sqrt(2) * z).astype(np.float32), log_c.astype(np.float32))

    def _random(self, key: Key, count: int) -> _Points:
        """Random points of a Student t, and the log of what each stands for."""
        d = self._dimensions
        normal, wide = jax.random.split(key)
        spread = jnp.sqrt(FREEDOM / 2 / jax.random.gamma(wide, FREEDOM / 2, (count, 1)))
        z = jax.random.normal(normal, (count, d)) * spread
        gammas = jax.scipy.special.gammaln(jnp.array([(FREEDOM + d) / 2, FREEDOM / 2]))
        log_q = gammas[0] - gammas[1] - d / 2 * jnp.log(FREEDOM * jnp.pi)
        log_q = log_q - (FREEDOM + d) / 2 * jnp.log1p(jnp.sum(z**2, axis=1) / FREEDOM)
        return _Points(z, -log_q - jnp.log(float(count)))

    def _laplace(self, params: Params, row: Data) -> tuple[Array, Array]:
        """The maximum m of f, by Newton's method from zero on, and L; constants to derivatives."""
        params, row = jax.lax.stop_gradient((params, row))
        shrinks = jnp.asarray(SHRINKS)

        def f(v: Array) -> Array:
            return self._joint(params, v, row)

        def scaled(v: Array) -> tuple[Array, Array]:
            scale = _root_of_inverse(-jax.hessian(f)(v))
            return scale, scale.T @ jax.grad(f)(v)

        def step(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
            number, v, scale, slope = carry
            places = v + shrinks[:, None] * (scale @ slope)
            values = jax.vmap(f)(places)
            values = jnp.where(jnp.isnan(values), -jnp.inf, values)
            best = jnp.max(values)
            # Close to the maximum values no longer tell places apart, and a shorter step, or none, would win by chance.
            v = places[jnp.argmax(values >= best - ROUNDING * jnp.abs(best))]
            return number + 1, v, *scaled(v)

        first = jnp.zeros(self._dimensions)
        _, centre, scale, _ = jax.lax.while_loop(
            lambda c: (c[0] < MOST_STEPS) & (jnp.max(jnp.abs(c[3])) > CLOSE),
            step,
            (jnp.int32(0), first, *scaled(first)),
        )
        return jax.lax.stop_gradient((centre, scale))


def _root_of_inverse(matrix: Array) -> Array:
    """L, lower triangular, with L L' the inverse of a symmetric matrix; of one that is not positive, of one near it."""
    if matrix.shape[0] == 1:
        return 1 / jnp.sqrt(jnp.maximum(jnp.abs(matrix), 1e-12))
    eye = jnp.eye(matrix.shape[0], dtype=matrix.dtype)
    diagonal = jnp.diagonal(matrix)
    lowest = jnp.min(diagonal - (jnp.sum(jnp.abs(matrix), axis=1) - jnp.abs(diagonal)))  # Gershgorin's bound
    ridge = jnp.maximum(0.0, 0.1 * jnp.max(jnp.abs(matrix)) + 1e-6 - lowest)
    # The inverse of the matrix in reverse order has the wanted factor in reverse order.
    root = jnp.linalg.cholesky(matrix[::-1, ::-1])
    safe = jnp.linalg.cholesky((matrix + ridge * eye)[::-1, ::-1])
    root = jnp.where(jnp.all(jnp.isfinite(root)), root, safe)
    return jax.scipy.linalg.solve_triangular(root, eye, lower=True).T[::-1, ::-1]
