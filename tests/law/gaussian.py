"""A Gaussian posterior with everything in closed form, and the exact laws of the methods on it.

The laws here are written from the update equations by hand, independently of the package: explicit 2x2 matrices, a
discrete Lyapunov solver from SciPy, sums over lags done term by term.

Data x_i in R^3, likelihood N(x_i | theta, 1/tau_k) per coordinate, prior N(0, 1/rho_k): precision lambda = rho + N tau.
Means differ from zero and from each other, so a wrong sign or a swapped leaf moves them by many standard deviations.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_discrete_lyapunov

import scirocco as sc

RHO = np.array([10.0, 20.0, 5.0])


def flat(params):
    return jnp.concatenate([params["a"], params["b"][None]])


class Problem:
    """N rows; the precision of the posterior is the same for every N, times ``scale``."""

    def __init__(self, size, scale=1.0):
        tau, rho = scale * np.array([1000.0, 500.0, 2000.0]) / size, scale * RHO
        self.size, self.tau = size, tau
        self.precision = rho + size * tau
        rng = np.random.default_rng(42)
        self.data = rng.normal([1.0, -2.0, 0.5], 1 / np.sqrt(tau), (size, 3)).astype(np.float32)
        self.mean = tau * self.data.sum(0) / self.precision
        self.target = sc.Target(
            lambda p: -0.5 * jnp.sum(rho * flat(p) ** 2),
            lambda p, x: -0.5 * jnp.sum(tau * (x - flat(p)) ** 2),
            self.data,
        )
        self.initial = {"a": jnp.asarray(self.mean[:2], jnp.float32), "b": jnp.asarray(self.mean[2], jnp.float32)}

    def gradient_variance(self, batch, replacement):
        """Of the plain estimate of grad U, per coordinate."""
        if replacement:
            return self.size**2 / batch * self.tau**2 * self.data.var(0)
        return self.size**2 / batch * (1 - batch / self.size) * self.tau**2 * self.data.var(0, ddof=1)


SMALL = Problem(100)
WARM = Problem(100, scale=0.01)  # of unit scale, where a thermostat of unit mass settles quickly
PRECISION = SMALL.precision


def autocovariance(variance: float, epoch: int | None, lags: int) -> np.ndarray:
    """Of minibatch noise at lags 0, 1, ...: white, or drawn without replacement in epochs (averaged over the phase)."""
    gamma = np.zeros(lags)
    gamma[0] = variance
    if epoch is not None:
        k = np.arange(1, epoch)
        gamma[1:epoch] = -variance * (epoch - k) / (epoch * (epoch - 1))
    return gamma


def sgld_variance(lam, variance, h, temperature, epoch=None):
    memory = 1 - h * lam
    gamma = autocovariance(variance, epoch, 2 if epoch is None else epoch)
    noise = gamma[0] + 2 * np.sum(gamma[1:] * memory ** np.arange(1, len(gamma)))
    return (2 * h * temperature + h**2 * noise) / (1 - memory**2)


def _matrices(scheme, lam, h, friction, diffusion):
    """One step z' = M z + k e + s xi in z = (theta, p), with gradient noise e and injected noise xi, written out."""
    if scheme == "euler":
        decay, kick = 1 - h * friction, -h
        m = np.array([[1 - h * h * lam, h * decay], [-h * lam, decay]])
        return m, np.array([h * kick, kick]), np.sqrt(2 * diffusion * h) * np.array([h, 1.0])
    c = np.exp(-friction * h)
    s = np.sqrt(diffusion / friction * (1 - c * c))
    half_drift = np.array([[1, h / 2], [0, 1]])
    friction_step = np.diag([1, c])
    if scheme == "baoab":  # kick, drift/2, friction, drift/2
        after = half_drift @ friction_step @ half_drift
        m = after @ np.array([[1, 0], [-h * lam, 1]])
        return m, after @ np.array([0, -h]), half_drift @ np.array([0, s])
    half_kick = np.array([[1, 0], [-h / 2 * lam, 1]])  # aboba
    m = half_drift @ half_kick @ friction_step @ half_kick @ half_drift
    return m, half_drift @ np.array([0, -h / 2 * (1 + c)]), half_drift @ np.array([0, s])


def langevin_variance(scheme, lam, variance, h, friction, diffusion, epoch=None):
    m, kick, noise = _matrices(scheme, lam, h, friction, diffusion)
    from_gradient = solve_discrete_lyapunov(m, np.outer(kick, kick))
    gamma = autocovariance(variance, epoch, 1 if epoch is None else epoch)
    total, power = gamma[0] * from_gradient[0, 0], np.eye(2)
    for g in gamma[1:]:
        power = power @ m
        total += 2 * g * (power @ from_gradient)[0, 0]
    return total + solve_discrete_lyapunov(m, np.outer(noise, noise))[0, 0]


def refreshed_variance(scheme, lam, variance, h, friction, diffusion, temperature, inner):
    """The position's variance when the momentum is redrawn from N(0, T) before every ``inner`` steps."""
    m, kick, noise = _matrices(scheme, lam, h, friction, diffusion)
    source = variance * np.outer(kick, kick) + np.outer(noise, noise)
    position = temperature / lam
    for _ in range(5000):
        covariance = np.diag([position, temperature])
        for _ in range(inner):
            covariance = m @ covariance @ m.T + source
        position = covariance[0, 0]
    return position
