"""The law of an integrator on a Gaussian target, for the bias report.

On U = lambda theta^2 / 2 with gradient noise of variance V a step is linear in (theta, p) and in its two noises. Its
matrix is read off by running the integrator itself on unit vectors; the stationary covariance S solves
S = M S M' + sum_k b_k b_k'. Coordinates are independent, so arrays of lambda are handled at once.

Minibatches drawn without replacement within an epoch of m are not independent: two of the same epoch have covariance
-V/(N/n - 1), so averaged over the phase the noise has autocovariance g_k = -V (m-k)/(m (N/n - 1)) at lags 0 < k < m.
The noise of an epoch sums to zero, and a chain that moves slowly hardly feels it: position and noise at lag k add
2 sum_k g_k (M^k S)_11 to the variance.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.program import QUICK
from scirocco.core.types import Number
from scirocco.integrators.langevin import Step


def stationary_variance(
    integrator: Step, precision: Number, noise: Number, h: Number, friction: Number, diffusion: Number,
    epoch: float = np.inf,
) -> np.ndarray:  # fmt: skip
    """The stationary variance of the position, infinite where the step is unstable.

    ``epoch`` is the number of minibatches in an epoch without replacement; infinite for independent minibatches.
    """
    shape = np.broadcast_shapes(*(np.shape(x) for x in (precision, noise, h, friction, diffusion)))
    lam, v, h, friction, diffusion = (
        np.broadcast_to(np.asarray(x, dtype=np.float64), shape).reshape(-1)
        for x in (precision, noise, h, friction, diffusion)
    )

    with jax.enable_x64(True):  # 1 - eigenvalue is of the order of h lambda: float32 would lose it
        matrix, kicks = (np.array(part) for part in _recursion(integrator, lam, v, h, friction, diffusion))
    # What is not finite is not stable either.
    finite = np.all(np.isfinite(matrix), axis=(1, 2)) & np.all(np.isfinite(kicks), axis=(1, 2))
    matrix[~finite], kicks[~finite] = 0, 0
    stable = finite & (_radius(matrix) < 1 - 1e-12)
    matrix[~stable] = 0
    from_gradient, from_noise = (_lyapunov(matrix, kicks[..., k]) for k in (0, 1))
    if np.isfinite(epoch):
        from_gradient = from_gradient - 2 * _lag_sum(matrix, epoch) @ from_gradient
    variance = from_gradient[:, 0, 0] + from_noise[:, 0, 0]
    return np.where(stable, variance, np.inf).reshape(shape)


@partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _recursion(integrator: Step, lam: Any, v: Any, h: Any, friction: Any, diffusion: Any) -> tuple[Any, Any]:
    """What a step does to (position, momentum), and to unit kicks of gradient noise and of its own noise."""

    def step(theta: float, p: float, gradient_noise: Any, xi: float) -> Any:
        ones = jnp.ones_like(lam)
        position, momentum, _ = integrator(
            theta * ones, p * ones, lambda x: lam * x + gradient_noise, xi * ones, h, friction, diffusion
        )
        return jnp.stack([position, momentum], axis=-1)

    matrix = jnp.stack([step(1.0, 0.0, 0.0, 0.0), step(0.0, 1.0, 0.0, 0.0)], axis=-1)
    return matrix, jnp.stack([step(0.0, 0.0, jnp.sqrt(v), 0.0), step(0.0, 0.0, 0.0, 1.0)], axis=-1)


def euler_variance(
    precision: Number, noise: Number, h: Number, temperature: float, epoch: float = np.inf
) -> np.ndarray:
    """The same for Euler's scheme of the overdamped diffusion: (T + h V/2) / (lambda (1 - h lambda/2))."""
    stable = h * precision < 2
    memory = np.where(stable, 1 - h * precision, 0.0)
    if np.isfinite(epoch):
        noise = noise * (1 - 2 * _lag_sum(memory[..., None, None], epoch)[..., 0, 0])
    return np.where(
        stable, (temperature + h * noise / 2) / (precision * np.where(stable, 1 - h * precision / 2, 1)), np.inf
    )


def _radius(matrix: np.ndarray) -> np.ndarray:
    """The largest absolute eigenvalue of 2x2 matrices; a library's takes far longer on stacks of them."""
    half = np.trace(matrix, axis1=-2, axis2=-1) / 2
    determinant = matrix[..., 0, 0] * matrix[..., 1, 1] - matrix[..., 0, 1] * matrix[..., 1, 0]
    root = half**2 - determinant
    return np.where(root < 0, np.sqrt(np.abs(determinant)), np.abs(half) + np.sqrt(np.maximum(root, 0)))


def _lyapunov(matrix: np.ndarray, kick: np.ndarray) -> np.ndarray:
    """S = M S M' + b b', for stacks of 2x2 matrices: three equations for s_11, s_12, s_22, by cross products."""
    (a, b), (c, d) = np.moveaxis(matrix, 0, -1)
    first = np.stack([1 - a * a, -2 * a * b, -b * b], axis=-1)
    second = np.stack([-a * c, 1 - a * d - b * c, -b * d], axis=-1)
    third = np.stack([-c * c, -2 * c * d, 1 - d * d], axis=-1)
    one, two = kick[..., 0, None], kick[..., 1, None]
    around = np.cross(second, third)
    found = around * one * one + np.cross(third, first) * one * two + np.cross(first, second) * two * two
    found /= np.sum(first * around, axis=-1, keepdims=True)
    return found[..., [0, 1, 1, 2]].reshape(-1, 2, 2)


def _lag_sum(matrix: np.ndarray, epoch: float) -> np.ndarray:
    """- sum_k M^k g_k / V over the lags of an epoch, in closed form: sum_{k=1}^{m-1} (m - k) M^k / (m (N/n - 1)).

    ``epoch`` is N/n; an epoch has m = floor(N/n) minibatches.
    """
    m = int(epoch)
    one = np.eye(matrix.shape[-1])
    inverse = _inverse(one - matrix)
    power = np.linalg.matrix_power(matrix, m)
    return matrix @ ((m - 1) * one - m * matrix + power) @ inverse @ inverse / (m * (epoch - 1))


def _inverse(matrix: np.ndarray) -> np.ndarray:
    """Of stacks of 1x1 or 2x2 matrices."""
    if matrix.shape[-1] == 1:
        return 1 / matrix
    (a, b), (c, d) = np.moveaxis(matrix, (-2, -1), (0, 1))
    return np.moveaxis(np.array([[d, -b], [-c, a]]) / (a * d - b * c), (0, 1), (-2, -1))
