r"""A checker that a drift and a diffusion keep the law they should.

    dz = v(z) dt + N(0, 2 D(z) dt),    z = (theta, auxiliaries)                                          (the SDE)
    div(rho v) = grad grad^T : (rho D),    rho = exp(-H)                                      (rho is stationary)
    exp(-U(theta)) proportional to the integral of exp(-H(theta, a)) over a            (theta has the right law)

The main theorem of Ding et al. (2014, eq. 7-9): both conditions together make exp(-U) the stationary law of theta.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from scirocco.core.checks import numbers, require_count
from scirocco.core.types import Array
from scirocco.recipe.fields import (
    Field,
    as_matrix,
    divergence,
    require_covariance,
    require_matrix,
    require_shapes,
    show,
    value,
)
from scirocco.samplers.base import require_positive

Energy: TypeAlias = Callable[[Array], Array]


@dataclass(frozen=True)
class InvarianceReport:
    """The verdict of :func:`check_invariance`; true if every condition that was asked for holds.

    ``residual`` is the largest relative residual of the stationarity condition, found at ``point``. ``marginal_spread``
    is how much the log of the marginalisation integral varies over theta, ``marginal_error`` the error of computing
    it; ``marginal`` is None if no potential was given or if that error is too large for a verdict.
    """

    stationary: bool
    marginal: bool | None
    residual: float
    point: tuple[float, ...]
    marginal_spread: float | None = None
    marginal_error: float | None = None
    marginal_points: tuple[tuple[float, ...], ...] = ()

    def __bool__(self) -> bool:
        return self.stationary and (self.marginal is True or self.marginal_spread is None)

    def __str__(self) -> str:
        holds = {True: "holds", False: "FAILS", None: "is UNDECIDED"}
        text = (
            f"stationarity {holds[self.stationary]}: the terms of div(rho v) - grad grad^T : (rho D) cancel up to "
            f"{self.residual:.2g} of their size; worst at z = {show(self.point)}"
        )
        if self.marginal_spread is None:
            return text + "\nmarginalisation was not tested: no potential given"
        low, high = self.marginal_points
        return text + (
            f"\nmarginalisation {holds[self.marginal]}: the log integral of exp(U - H) over the auxiliaries varies by "
            f"{self.marginal_spread:.2g} (numerical error {self.marginal_error:.1g}); "
            f"least at theta = {show(low)}, greatest at theta = {show(high)}"
        )


def check_invariance(
    drift: Callable[[Array], Array],
    diffusion: Field,
    hamiltonian: Energy,
    dimension: int,
    *,
    potential: Energy | None = None,
    position_dimension: int | None = None,
    points: Any = None,
    num_points: int = 32,
    scale: float = 1.0,
    tolerance: float = 1e-6,
    seed: int = 0,
) -> InvarianceReport:
    """Test whether dz = drift dt + N(0, 2 diffusion dt) keeps exp(-hamiltonian), and theta its law.

    Write a = v - div D + D grad H for the probability current divided by rho. Eq. 9 of Ding et al. (2014) says
    div(rho a) = 0, that is

        div a - grad H . a = 0,

    in which rho itself does not occur, so nothing can under- or overflow. It is evaluated at ``points``, or at
    ``num_points`` draws from N(0, scale^2 I), with automatic derivatives in float64, relative to the summed size of
    the terms that must cancel. Give ``points`` where the domain is not all of R^d (theta > 0, angles).

    With ``potential``, U of the first ``position_dimension`` coordinates, eq. 8 is tested too: the integral of
    exp(U - H) over the auxiliaries (all of R^q) must not depend on theta. It is computed at up to eight of the
    points, in coordinates scaled by a Laplace fit: by a tensor trapezoidal rule up to q = 3, else by importance
    sampling on scrambled Sobol points shared by all theta. A sampler at temperature T keeps exp(-H/T): pass H/T, U/T.

    >>> import jax, jax.numpy as jnp
    >>> from scirocco import check_invariance
    >>> U = lambda theta: jnp.sum(theta**4) / 4
    >>> H = lambda z: U(z[:1]) + z[1] ** 2 / 2                      # SGHMC: position and momentum, friction 3
    >>> v = lambda z: jnp.stack([z[1], -z[0] ** 3 - 3 * z[1]])
    >>> bool(check_invariance(v, jnp.array([0.0, 3.0]), H, 2, potential=U, position_dimension=1))
    True
    >>> bool(check_invariance(v, jnp.array([0.0, 4.0]), H, 2))      # more noise than friction: too warm
    False
    """
    require_count("dimension", dimension)
    if potential is not None and (position_dimension is None or not 1 <= position_dimension <= dimension):
        raise ValueError(
            f"position_dimension must be between 1 and dimension = {dimension} when potential is given; "
            f"got {position_dimension!r}"
        )
    z = _test_points(points, num_points, dimension, scale, seed)
    with jax.enable_x64(True):
        require_shapes(z[0], drift=(drift, (dimension,)), hamiltonian=(hamiltonian, ()))
        require_matrix("diffusion", diffusion, z[0])
        found = map(jax.jit(_current_terms(drift, diffusion, hamiltonian)), z)
        heights, terms, matrices = (np.stack(parts) for parts in zip(*found, strict=True))
        residual, size = np.abs(np.sum(terms, axis=(1, 2, 3))), np.sum(np.abs(terms), axis=(1, 2, 3))
        # H is looked at too: outside its domain the logarithm is NaN, yet its derivative is not.
        if not np.all(good := np.isfinite(size + heights)):
            raise ValueError(
                "drift, diffusion and hamiltonian must be finite, with their derivatives, where they are tested; they "
                f"are not at z = {show(z[~good][0])}. Pass points inside the domain"
            )
        for at_z, matrix in zip(z, matrices, strict=True):
            require_covariance("diffusion", matrix, at_z, 1e-9)
        relative = residual / np.where(size > 0, size, 1.0)
        worst = int(np.argmax(relative))
        verdict: dict[str, Any] = {"marginal": None}
        if potential is not None and position_dimension is not None:
            verdict = _marginalisation(hamiltonian, potential, z[:8], position_dimension, tolerance, seed)
    largest = float(relative[worst])
    return InvarianceReport(stationary=largest <= tolerance, residual=largest, point=_floats(z[worst]), **verdict)


def _current_terms(drift: Energy, diffusion: Field, hamiltonian: Energy) -> Callable[[Array], tuple[Array, ...]]:
    """H, the terms of div a - grad H . a, which must sum to zero, and D."""

    def matrix(z: Array) -> Array:
        return as_matrix(value(diffusion, z), z.size)

    def current(z: Array) -> tuple[Array, tuple[Array, ...]]:
        height, slope = jax.value_and_grad(hamiltonian)(z)
        parts = jnp.stack([drift(z), -divergence(matrix, z), matrix(z) @ slope])
        return parts, (height, -slope * parts, matrix(z))

    def at_point(z: Array) -> tuple[Array, ...]:
        jacobian, (height, products, d) = jax.jacfwd(current, has_aux=True)(z)
        return height, jnp.stack([jnp.diagonal(jacobian, axis1=1, axis2=2), products]), d

    return at_point


def _marginalisation(
    hamiltonian: Energy, potential: Energy, z: NDArray[np.float64], n: int, tolerance: float, seed: int
) -> dict[str, Any]:
    """Compare the log integral of exp(U - H) over the auxiliaries between values of theta."""
    rules = _rules(z.shape[1] - n, seed)
    all_nodes, all_weights = (np.concatenate(parts) for parts in zip(*rules, strict=True))
    ends = np.cumsum([len(w) for _, w in rules])[:-1]

    @jax.jit
    def log_integrals(point: Array, nodes: Array, weights: Array) -> Array:
        theta = point[:n]

        @jax.jit
        def energy(a: Array) -> Array:
            return hamiltonian(jnp.concatenate([theta, a])) - potential(theta)

        mode, axes = _laplace_fit(energy, point[n:])
        volume = jnp.linalg.slogdet(axes)[1]
        values = weights - jax.lax.map(energy, mode + nodes @ axes.T, batch_size=4096)
        values = jnp.where(jnp.isnan(values), -jnp.inf, values)
        return jnp.stack([volume + jax.nn.logsumexp(v) for v in jnp.split(values, ends)])

    logs = np.stack([log_integrals(point, all_nodes, all_weights) for point in z], axis=1)
    # Only differences between values of theta count, and their errors partly cancel because the nodes are shared.
    contrast = logs - logs.mean(axis=1, keepdims=True)
    error, spread = float(np.max(np.abs(contrast - contrast[0]))), float(np.ptp(logs[0]))
    order = np.argsort(logs[0])
    failed = spread > max(tolerance, 3 * error)
    # Rules that disagree outright have missed part of the mass, perhaps the same part at every theta.
    doubtful = not np.max(np.ptp(logs, axis=0)) < 0.3 or (error > 1e-2 and not failed)
    return {
        "marginal": None if doubtful else not failed,
        "marginal_spread": spread,
        "marginal_error": error,
        "marginal_points": (_floats(z[order[0], :n]), _floats(z[order[-1], :n])),
    }


def _rules(q: int, seed: int) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Nodes and log weights for an integral over R^q at unit scale; the rules differ by as much as they err."""
    if q > 3:
        from scipy import stats  # slow to import, and seldom needed

        # Student's t has heavier tails than most energies leave, so the weights stay bounded.
        proposal = stats.t(5)
        sobol = [stats.qmc.Sobol(q, rng=np.random.default_rng([seed, r])).random_base2(13) for r in range(4)]
        nodes = [proposal.ppf(np.clip(u, 1e-12, 1 - 1e-12)) for u in sobol]
        return [(x, -proposal.logpdf(x).sum(axis=1) - np.log(len(x))) for x in nodes]
    rules = []
    for reach, count in ((5.0, (1, 257, 129, 57)[q]), (4.0, (1, 105, 53, 23)[q])):
        # x = sinh t: the trapezoidal rule in t converges exponentially and reaches far into heavy tails.
        t = np.linspace(-reach, reach, count)
        grid = np.array(list(itertools.product(t, repeat=q)))
        weights = np.log(np.cosh(grid)).sum(axis=1) + q * np.log(2 * reach / max(count - 1, 1))
        rules.append((np.sinh(grid), weights))
    return rules


def _laplace_fit(energy: Energy, start: Array) -> tuple[Array, Array]:
    """The least-energy point and, as columns, axes along which the energy rises by 1/2."""
    q, factors = start.size, jnp.array([0.0, 1.0, 0.5, 0.2, 0.05, 0.01])[:, None]
    if q == 0:
        return start, jnp.zeros((0, 0))

    def newton(_: int, found: tuple[Array, Array]) -> tuple[Array, Array]:
        a = found[0]
        w, e = jnp.linalg.eigh(jax.hessian(energy)(a))
        step = e @ ((e.T @ jax.grad(energy)(a)) / jnp.maximum(jnp.abs(w), 1e-8))
        trials = a - factors * step
        heights = jax.vmap(energy)(trials)
        return trials[jnp.argmin(jnp.where(jnp.isnan(heights), jnp.inf, heights))], e

    mode, axes = jax.lax.fori_loop(0, 40, newton, (start, jnp.eye(q)))

    def halve(_: int, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        # Widths by bisection, not from the curvature: that may vanish at the mode (a quartic kinetic energy).
        low, high = bounds
        middle = (low + high) / 2
        arms = (axes * jnp.exp(middle)).T
        rise = jnp.mean(jax.vmap(energy)(mode + jnp.concatenate([arms, -arms])).reshape(2, q), axis=0) - energy(mode)
        return jnp.where(rise < 0.5, middle, low), jnp.where(rise < 0.5, high, middle)

    width, _ = jax.lax.fori_loop(0, 60, halve, (jnp.full(q, -18.0), jnp.full(q, 18.0)))
    return mode, axes * jnp.exp(width)


def _test_points(points: Any, num_points: int, dimension: int, scale: float, seed: int) -> NDArray[np.float64]:
    if points is None:
        require_count("num_points", num_points)
        require_positive("scale", scale)
        return scale * np.random.default_rng(seed).standard_normal((num_points, dimension))
    given = numbers("points", points).astype(np.float64, copy=False)
    if given.ndim != 2 or given.shape[1] != dimension or not len(given) or not np.all(np.isfinite(given)):
        raise ValueError(f"points must be finite, of shape (any number, dimension = {dimension}); got {given.shape}")
    return given


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(float(v) for v in values)
