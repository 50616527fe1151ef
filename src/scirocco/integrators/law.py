"""The law of an integrator on a Gaussian target, for the bias report.

On U = lambda theta^2 / 2 with gradient noise of variance V a step is linear in (theta, p) and in its noises. Its matrix
is read off by running the integrator itself on unit vectors; the stationary covariance S solves
S = M S M' + sum_k b_k b_k'. Coordinates are independent, so arrays of lambda are handled at once.

Minibatches drawn without replacement within an epoch of m are not independent: two of the same epoch have covariance
-V/(N/n - 1), so averaged over the phase the noise has autocovariance g_k = -V (m-k)/(m (N/n - 1)) at lags 0 < k < m.
The noise of an epoch sums to zero, and a chain that moves slowly hardly feels it: position and noise at lag k add
2 sum_k g_k (M^k S)_11 to the variance. If minibatches come in sweeps of L there and back, an epoch has 2m of them, each
twice: among the lags below 2L the odd ones have one pair in each sweep that is the same minibatch, so that g_k is
(-(2m-k) V/(N/n - 1) + [k odd] (m/L) (V + V/(N/n - 1))) / 2m. Of chains that travel between shards the noise between
these has the autocovariance V rho_k of ``batches.tours.Toured``.

The bias report asks for hundreds of these laws, so they are one compiled program, in double precision: 1 - eigenvalue
is of the order of h lambda, which single precision would lose.
"""

from __future__ import annotations

from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.batches.draws import Swept
from scirocco.batches.tours import Toured
from scirocco.core.types import Number
from scirocco.integrators.langevin import Step, noise_like

LEAST_LAWS = 16  # that are solved in one program, however few are asked for

Two: TypeAlias = tuple[Any, Any, Any, Any]
"""2x2 matrices, many at once: arrays of their entries, row by row."""


def stationary_variance(
    integrator: Step, precision: Number, noise: Number, h: Number, friction: Number, diffusion: Number,
    epoch: float = np.inf,
) -> np.ndarray:  # fmt: skip
    """The stationary variance of the position, infinite where the step is unstable.

    ``epoch`` is the number of minibatches in an epoch without replacement, ``Swept`` if they are drawn in sweeps;
    ``Toured`` for what differs between shards of the data; infinite for independent minibatches.
    """
    given = [np.asarray(x, dtype=np.float64) for x in (precision, noise, h, friction, diffusion)]
    shape = np.broadcast_shapes(*(x.shape for x in given))
    size = int(np.prod(shape))
    if size == 0:
        return np.zeros(shape)
    room = max(LEAST_LAWS, 1 << (size - 1).bit_length())  # sizes that are close share a program
    flat = [np.resize(np.broadcast_to(x, shape), room) for x in given]
    with jax.enable_x64(True):
        finite = np.float64(epoch) if np.isfinite(epoch) else None
        sweep = np.int64(epoch.sweep) if isinstance(epoch, Swept) else None
        tours = (epoch.lags, np.int64(epoch.stride)) if isinstance(epoch, Toured) else None
        variance = _variance(integrator, *flat, finite, sweep, tours)
        return np.asarray(variance)[:size].reshape(shape)


@partial(jax.jit, static_argnums=0)
def _variance(
    integrator: Step, lam: Any, v: Any, h: Any, friction: Any, diffusion: Any, epoch: Any, sweep: Any, tours: Any
) -> Any:  # fmt: skip
    """What a step does to (position, momentum), and to unit kicks of gradient noise and of its own noises."""
    ones = jnp.ones_like(lam)
    shape: Any = jax.tree.structure(noise_like(integrator, ones))

    def step(theta: float, p: float, gradient_noise: Any = 0.0, own: int | None = None) -> Any:
        noise = [(number == own) * ones for number in range(shape.num_leaves)]
        position, momentum, _ = integrator(
            theta * ones, p * ones, lambda x: lam * x + gradient_noise, jax.tree.unflatten(shape, noise), h, friction,
            diffusion,
        )  # fmt: skip
        return position, momentum

    (a, c), (b, d) = step(1.0, 0.0), step(0.0, 1.0)
    kicks = list(step(0.0, 0.0, jnp.sqrt(v)))
    for number in range(shape.num_leaves):
        kicks += step(0.0, 0.0, own=number)
    # What is not finite is not stable either.
    finite = jnp.all(jnp.isfinite(jnp.stack([a, b, c, d, *kicks])), axis=0)
    stable = finite & (_radius((a, b, c, d)) < 1 - 1e-12)
    a, b, c, d, *kicks = (jnp.where(stable, x, 0) for x in (a, b, c, d, *kicks))
    matrix, from_gradient = (a, b, c, d), _lyapunov((a, b, c, d), *kicks[:2])
    variance = from_gradient[0]
    for one, two in zip(kicks[2::2], kicks[3::2], strict=True):
        variance = variance + _lyapunov(matrix, one, two)[0]
    if epoch is not None:
        steps = jnp.floor(epoch) * (1 if sweep is None else 2)
        variance = variance - 2 * _times(_lag_sum(matrix, epoch, steps), from_gradient)[0]
    if sweep is not None:
        variance = variance + 2 * _times(_mirror_sum(matrix, epoch, sweep), from_gradient)[0]
    if tours is not None:
        variance = variance + 2 * _times(_tour_sum(matrix, *tours), from_gradient)[0]
    return jnp.where(stable, variance, jnp.inf)


def euler_variance(
    precision: Number, noise: Number, h: Number, temperature: float, epoch: float = np.inf
) -> np.ndarray:
    """The same for Euler's scheme of the overdamped diffusion: (T + h V/2) / (lambda (1 - h lambda/2))."""
    stable = h * precision < 2
    memory = np.where(stable, 1 - h * precision, 0.0)
    if np.isfinite(epoch):
        m = int(epoch) * (2 if isinstance(epoch, Swept) else 1)
        lags = memory * (m - 1 - m * memory + memory**m) / (1 - memory) ** 2 / (m * (epoch - 1))
        if isinstance(epoch, Swept):
            n = 2 * epoch.sweep
            lags = lags - memory * (1 - memory**n) / (1 - memory**2) / n * epoch / (epoch - 1)
        noise = noise * (1 - 2 * lags)
    if isinstance(epoch, Toured):
        over_block, lags = memory**epoch.stride, 0.0
        for rho in epoch.lags[::-1]:
            lags = lags * over_block + rho
        noise = noise * (2 * lags * (1 - over_block) / (1 - memory) - 1)
    return np.where(
        stable, (temperature + h * noise / 2) / (precision * np.where(stable, 1 - h * precision / 2, 1)), np.inf
    )


def _times(x: Two, y: Two) -> Two:
    (a, b, c, d), (e, f, g, h) = x, y
    return a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h


def _radius(matrix: Two) -> Any:
    """The largest absolute value of an eigenvalue of each matrix."""
    a, b, c, d = matrix
    half, determinant = (a + d) / 2, a * d - b * c
    root = half**2 - determinant
    return jnp.where(root < 0, jnp.sqrt(jnp.abs(determinant)), jnp.abs(half) + jnp.sqrt(jnp.maximum(root, 0)))


def _lyapunov(matrix: Two, one: Any, two: Any) -> Two:
    """S = M S M' + k k', k = (one, two): three equations for s_11, s_12, s_22, by cross products."""
    a, b, c, d = matrix
    first, second = (1 - a * a, -2 * a * b, -b * b), (-a * c, 1 - a * d - b * c, -b * d)
    third = (-c * c, -2 * c * d, 1 - d * d)
    around = _cross(second, third)
    sides = (around, _cross(third, first), _cross(first, second))
    determinant = sum(x * y for x, y in zip(first, around, strict=True))
    s11, s12, s22 = (x * one * one + y * one * two + z * two * two for x, y, z in zip(*sides, strict=True))
    return s11 / determinant, s12 / determinant, s12 / determinant, s22 / determinant


def _cross(x: tuple[Any, Any, Any], y: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    return x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]


def _lag_sum(matrix: Two, epoch: Any, m: Any) -> Two:
    """- sum_k M^k g_k / V over the lags of an epoch of m steps, in closed form:
    sum_{k=1}^{m-1} (m - k) M^k / (m (N/n - 1)), for N/n = ``epoch``."""
    a, b, c, d = matrix
    inverse = _inverse_of_rest(matrix)
    e, f, g, h = _power(matrix, m.astype(jnp.int64))
    inside = (m - 1 - m * a + e, f - m * b, g - m * c, m - 1 - m * d + h)
    scale = 1 / (m * (epoch - 1))
    return _times(_times(_times(matrix, inside), inverse), _times(inverse, (scale, 0.0, 0.0, scale)))


def _mirror_sum(matrix: Two, epoch: Any, sweep: Any) -> Two:
    """The odd lags below 2L, at which a minibatch meets itself: (1 + 1/(N/n - 1)) sum_k M^k / 2L, in closed form."""
    n = 2 * sweep
    a, b, c, d = _power(matrix, n)
    scale = epoch / (epoch - 1) / n
    odd = _times(_times(matrix, (1 - a, -b, -c, 1 - d)), _inverse_of_rest(_times(matrix, matrix)))
    return _times(odd, (scale, 0.0, 0.0, scale))


def _tour_sum(matrix: Two, lags: Any, stride: Any) -> Two:
    """sum_k M^k rho_k over the lags k > 0 of a tour, from the means of rho over ``stride`` lags each."""
    over_block, ones = _power(matrix, stride), jnp.ones_like(matrix[0])

    def block(rho: Any, total: Two) -> Two:
        a, b, c, d = _times(total, over_block)
        return a + rho, b, c, d + rho

    blocks = jax.lax.scan(lambda total, rho: (block(rho, total), None), (0 * ones,) * 4, lags[::-1])[0]
    a, b, c, d = over_block
    a, b, c, d = _times(_times(blocks, (1 - a, -b, -c, 1 - d)), _inverse_of_rest(matrix))
    return a - 1, b, c, d - 1


def _inverse_of_rest(matrix: Two) -> Two:
    """(1 - M)^-1."""
    a, b, c, d = matrix
    determinant = (1 - a) * (1 - d) - b * c
    return (1 - d) / determinant, b / determinant, c / determinant, (1 - a) / determinant


def _power(matrix: Two, m: Any) -> Two:
    """The m-th power of each matrix, by repeated squaring."""
    one, none = jnp.ones_like(matrix[0]), jnp.zeros_like(matrix[0])

    def bit(carry: tuple[Two, Two, Any]) -> tuple[Two, Two, Any]:
        result, square, left = carry
        with_square = _times(result, square)
        odd = left % 2 == 1
        a, b, c, d = (jnp.where(odd, new, old) for new, old in zip(with_square, result, strict=True))
        return (a, b, c, d), _times(square, square), left // 2

    result, _, _ = jax.lax.while_loop(lambda carry: carry[2] > 0, bit, ((one, none, none, one), matrix, m))
    return result
