"""``step_size="auto"`` on manifolds: the same rule, in the tangent space at the mode.

1. The mode, along geodesics. Normal coordinates u around it (``optimise.chart``); the Hessian there is Riemannian.
2. A scale for each point of a manifold, and for each Euclidean coordinate: D = (trace of its block of H / its
   dimension)^(-1/2). No linear change of variables exists within a point, so what is left, the largest eigenvalue of
   D H D, bounds the step.
3. Gradient noise at draws of the normal law in u, measured with the run's own estimator, in normal coordinates.
4. The sampler's law on a Gaussian, as in flat space (``tuning.automatic``).
5. At the same draws, how far the gradient is from H u: the farther, the shorter the step. There is no search here: the
   discrepancy that would judge it is one of flat space.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco.core.keys import Use, as_key, fold
from scirocco.core.program import QUICK
from scirocco.core.seeds import Purpose, generator, key_words
from scirocco.core.trees import zeros_like
from scirocco.core.types import Array, Data, Params
from scirocco.estimators import SAGA, SVRG, ControlVariate, Estimator, Plain
from scirocco.estimators.control_variate import anchor
from scirocco.gradient.kernel import Kernel
from scirocco.gradient.program import Program
from scirocco.manifolds import Euclidean, Geometry, Manifold
from scirocco.optimise.chart import chart
from scirocco.optimise.curvature import FULL, hessian, large_diagonal, largest_eigenvalues
from scirocco.samplers.preconditioned import Scale
from scirocco.target import Target

DRAWS, REPEATS = 16, 16  # points at which noise is measured, and minibatches at each
FLAT = 1e-6  # of the largest eigenvalue


class Units(NamedTuple):
    """The scale of the posterior around the mode."""

    scale: Params  # D, constant within points
    largest: float  # eigenvalue of D H D
    condition: float
    flat: int
    kind: str


def units(target: Target, mode: Params, held: Params, seed: int) -> Units:
    """The scale D of the posterior around the mode, and what is left of the curvature in its units."""
    geometry = target.geometry
    around, here = chart(target, mode, weight=0.0)
    flat = ravel_pytree(here)[0]
    if flat.size <= FULL:
        h = hessian(around, here, held)
        diagonal = np.diag(h)
    else:
        diagonal = large_diagonal(around, here, held, seed)
    if not np.all(np.isfinite(diagonal)):
        raise FloatingPointError("the curvature is not finite at the mode: give a better initial position")
    least = 1e-8 * max(float(np.max(diagonal)), np.finfo(np.float64).tiny)

    def scale(m: Manifold, block: Any) -> np.ndarray:
        block = np.asarray(block, np.float64)
        if not isinstance(m, Euclidean):
            axes = tuple(range(block.ndim - m.point_axes, block.ndim))
            entries = np.prod([block.shape[a] for a in axes])
            share = entries * m.points(block.shape) / m.dimension(block.shape)
            block = share * np.mean(block, axis=axes, keepdims=True)
        return np.asarray(1 / np.sqrt(np.maximum(block, least)), np.float32)

    found = geometry.each(scale, unravel_host(diagonal, here))
    spread = ravel_host(jax.tree.map(lambda d, x: np.broadcast_to(d, x.shape), found, here))
    if flat.size > FULL:
        top = max(float(largest_eigenvalues(around, here, held, Scale(spread), 1, seed)[0][-1]), 1.0)
        return Units(found, top, top, 0, "a scale for each point of a manifold")
    values = np.linalg.eigvalsh(spread[:, None] * h * spread)
    top = max(float(values[-1]), np.finfo(np.float64).tiny)
    normal = flat.size - geometry.dimension(mode)
    tangent = np.sort(values[np.argsort(np.abs(values))[normal:]])  # without those along which nothing moves
    weak = tangent < FLAT * top
    smallest = float(np.min(tangent[~weak])) if np.any(~weak) else top
    return Units(found, max(top, 1.0), top / smallest, int(np.sum(weak)), "a scale for each point of a manifold")


def ravel_host(tree: Params) -> np.ndarray:
    """The leaves in one vector, in float64 on the host."""
    return np.concatenate([np.ravel(np.asarray(leaf, np.float64)) for leaf in jax.tree.leaves(tree)])


def unravel_host(flat: np.ndarray, like: Params) -> Params:
    """A vector as a tree with the shapes of ``like``: the inverse of ``ravel_host``."""
    leaves, structure = jax.tree.flatten(like)
    parts = np.split(flat, np.cumsum([leaf.size for leaf in leaves])[:-1])
    return jax.tree.unflatten(structure, [p.reshape(leaf.shape) for p, leaf in zip(parts, leaves, strict=True)])


def measure(
    kernel: Kernel, estimator: Estimator, scale: Params, mode: Params, held: Params, temperature: float
) -> tuple[np.ndarray, float]:
    """The variance over minibatches of D g_j, averaged over draws of the normal law; and the departure from it."""
    target, rng = kernel.target, generator(kernel.seed, Purpose.NOISE_DRAWS)

    def draw() -> Params:
        return jax.tree.map(
            lambda x, d: (np.sqrt(temperature) * d * rng.standard_normal(x.shape)).astype(x.dtype), mode, scale
        )

    if isinstance(estimator, SAGA | SVRG):  # they remember gradients of other draws: one such draw stands for them
        state, estimator = anchor(target, target.geometry.exponential(mode, draw()), held), ControlVariate()
    else:
        state = estimator.init(target, mode, held)
    program = kernel.replaced(kernel.sampler, estimator).program
    words = key_words(kernel.seed, Purpose.NOISE_BATCHES)
    found = [
        _slopes(program, scale, state, mode, held, draw(), words, number * REPEATS, kernel.data_at(0, end=1))
        for number in range(DRAWS)
    ]
    noise, left, whole = (np.array(part, np.float64) for part in zip(*found, strict=True))
    departure = float(np.sum(left) / max(np.sum(whole), np.finfo(np.float64).tiny))
    return noise.mean(axis=0), departure if np.isfinite(departure) else np.inf


@partial(jax.jit, compiler_options=QUICK)
def _slopes(
    program: Program, scale: Params, state: Any, mode: Params, held: Params, u: Params, words: Array, first: Array,
    data: Data,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """At one draw: the variance of D g over minibatches; |D (g - g_0 - H u)|^2 and |D H u|^2, of the mean over them."""
    geometry: Geometry = program.density.geometry
    u = geometry.project(mode, u)

    def scaled(gradient: Params) -> Array:
        return ravel_pytree(jax.tree.map(lambda g, d: g * d, gradient, scale))[0]

    def in_chart(gradient: Callable[[Params], Params], u: Params) -> Params:
        theta, back = jax.vjp(lambda u: geometry.exponential(mode, u), u)
        change = jax.grad(geometry.change)(theta)
        return back(jax.tree.map(jnp.subtract, gradient(theta), change))[0]

    def once(number: Array) -> tuple[Array, Array, Array]:
        key = fold(as_key(words), Use.MINIBATCH, number)
        batch = program.draw.fresh(key, data)

        def estimated(theta: Params) -> Params:
            return program.estimate(key, state, theta, held, batch)[0]

        def plain(v: Params) -> Params:
            return in_chart(lambda theta: program.density.potential_gradient(theta, held, batch), v)

        start, product = jax.jvp(plain, (zeros_like(u),), (u,))
        left = jax.tree.map(lambda a, b, c: a - b - c, plain(u), start, product)
        return scaled(in_chart(estimated, u)), scaled(left), scaled(product)

    slopes, left, product = jax.lax.map(once, first + jnp.arange(REPEATS, dtype=jnp.int32))
    return jnp.var(slopes, axis=0, ddof=1), jnp.sum(jnp.mean(left, 0) ** 2), jnp.sum(jnp.mean(product, 0) ** 2)


def quietest(
    kernel: Kernel, scale: Params, mode: Params, held: Params, temperature: float, quiet: float, worth: float
) -> tuple[Kernel, np.ndarray, float]:
    """Control variates, or the plain gradient where they are no better; the noise and the departure."""
    estimator: Estimator = ControlVariate().around(mode)
    noise, departure = measure(kernel, estimator, scale, mode, held, temperature)
    if not np.median(noise) < quiet:
        plain, _ = measure(kernel, Plain(), scale, mode, held, temperature)
        if not np.median(noise) < worth * np.median(plain):
            estimator, noise = Plain(), plain
    return kernel.replaced(kernel.sampler, estimator), noise, departure


def centred(kernel: Kernel, mode: Params) -> Kernel:
    """The kernel with its control variate, if it has one, at the mode."""
    if isinstance(kernel.estimator, ControlVariate):
        return kernel.replaced(kernel.sampler, kernel.estimator.around(mode))
    return kernel
