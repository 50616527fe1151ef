"""A Gaussian posterior with everything in closed form, and the exact laws of the methods on it.

The laws here are written from the update equations by hand, independently of the package: explicit 2x2 matrices, a
discrete Lyapunov solver from SciPy, sums over lags done term by term.

Data x_i in R^3, likelihood N(x_i | theta, 1/tau_k) per coordinate, prior N(0, 1/rho_k): precision lambda = rho + N tau.
Means differ from zero and from each other, so a wrong sign or a swapped leaf moves them by many standard deviations.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations
from math import factorial

import jax.numpy as jnp
import numpy as np
from scipy.linalg import expm, solve_discrete_lyapunov

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


@lru_cache
def barker_variance(lam, variance, h, temperature, increments, *, estimate=None, chains=20_000, steps=400):
    """Barker's moves as the source writes them, of many chains on a Gaussian with normal gradient noise: (variance, its
    standard error). ``estimate`` is the variance of the noise that the signs are corrected for."""
    rng = np.random.default_rng(7)
    theta, total = np.sqrt(temperature / lam) * rng.standard_normal(chains), np.zeros(chains)
    sigma, recorded = np.sqrt(2 * h * temperature), steps - steps // 3
    for t in range(steps):
        g = lam * theta + np.sqrt(variance) * rng.standard_normal(chains)
        if increments == "normal":
            z = sigma * rng.standard_normal(chains)
        else:  # one of two normal laws around +-sigma, with the variance of the other
            z = sigma * (np.sqrt(0.99) * rng.choice([-1, 1], chains) + 0.1 * rng.standard_normal(chains))
        slope = -z * g / temperature
        if estimate is not None:
            left = 1.702**2 - estimate * (z / temperature) ** 2
            slope = np.where(left > 0, slope * 1.702 / np.sqrt(np.abs(left)), np.sign(slope) * np.inf)
        theta += np.where(rng.random(chains) < 0.5 * (1 + np.tanh(slope / 2)), z, -z)
        total += theta**2 if t >= steps - recorded else 0
    return np.mean(total) / recorded, np.std(total) / recorded / np.sqrt(chains)


def _matrices(scheme, lam, h, friction, diffusion):
    """One step z' = M z + k e + s xi in z = (theta, p), with gradient noise e and injected noise xi, written out."""
    if scheme == "sgld":  # has no momentum, and the friction plays no part
        return np.diag([1 - h * lam, 0]), np.array([-h, 0.0]), np.sqrt(2 * diffusion * h) * np.array([1.0, 0])
    if scheme == "euler":
        decay, kick = 1 - h * friction, -h
        m = np.array([[1 - h * h * lam, h * decay], [-h * lam, decay]])
        return m, np.array([h * kick, kick]), np.sqrt(2 * diffusion * h) * np.array([h, 1.0])
    if scheme == "ubu":  # U over half a step, its noise in two columns, from the moments of the linear SDE
        pull, kicked = np.array([[0.0, 1], [0, -friction]]) * h / 2, np.array([[1, 0], [-h * lam, 1]])
        stir = np.diag([0.0, h * diffusion])
        block = expm(np.block([[-pull, stir], [np.zeros((2, 2)), pull.T]]))  # van Loan (1978)
        u = block[2:, 2:].T
        root = np.linalg.cholesky(u @ block[:2, 2:])
        return u @ kicked @ u, u @ np.array([0, -h]), np.hstack([u @ kicked @ root, root])
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
    noise = noise.reshape(2, -1)
    from_gradient = solve_discrete_lyapunov(m, np.outer(kick, kick))
    gamma = autocovariance(variance, epoch, 1 if epoch is None else epoch)
    total, power = gamma[0] * from_gradient[0, 0], np.eye(2)
    for g in gamma[1:]:
        power = power @ m
        total += 2 * g * (power @ from_gradient)[0, 0]
    return total + solve_discrete_lyapunov(m, noise @ noise.T)[0, 0]


def swept_variance(scheme, lam, variance, h, friction, diffusion, size, batch, sweep, sweeps=1):
    """With minibatches of ``batch`` rows of ``size`` in ``sweeps`` sweeps of ``sweep`` minibatches an epoch: the
    covariance of all noises of an epoch written out, and the mean over all places in it."""
    m, kick, noise = _matrices(scheme, lam, h, friction, diffusion)
    noise = noise.reshape(2, -1)
    there = np.arange(sweep)
    which = np.concatenate([np.r_[there, there[::-1]] + k * sweep for k in range(sweeps)])
    cov = np.where(which[:, None] == which, variance, -variance / (size / batch - 1))
    powers = [np.eye(2)]
    for _ in which:
        powers.append(powers[-1] @ m)
    ends = np.array([powers[len(which) - 1 - t] @ kick for t in range(len(which))])
    whole = solve_discrete_lyapunov(powers[-1], ends.T @ cov @ ends)
    total = 0.0
    for place in range(1, len(which) + 1):
        new = np.array([powers[place - 1 - t] @ kick for t in range(place)])
        total += (powers[place] @ whole @ powers[place].T + new.T @ cov[:place, :place] @ new)[0, 0]
    return total / len(which) + solve_discrete_lyapunov(m, noise @ noise.T)[0, 0]


def toured_variance(scheme, lam, variance, offsets, steps, h, friction, diffusion):
    """Of a chain that tours shards whose gradients are off by ``offsets``, legs of so many ``steps``: the covariance of
    two steps over all orders of the shards and, for legs of different lengths, all places where a tour may begin on its
    ring; each tour by itself."""
    m, kick, noise = _matrices(scheme, lam, h, friction, diffusion)
    noise, period, offsets, steps = noise.reshape(2, -1), sum(steps), np.asarray(offsets), np.asarray(steps)
    gamma = np.zeros(period)
    for order in map(list, permutations(range(len(steps)))):
        ring = np.repeat(offsets[order], steps[order])
        for start in range(period) if len(set(steps)) > 1 else [0]:
            tour = np.roll(ring, start)
            gamma += [tour[k:] @ tour[: period - k] for k in range(period)]
    gamma /= period * factorial(len(steps)) * (period if len(set(steps)) > 1 else 1)
    from_gradient = solve_discrete_lyapunov(m, np.outer(kick, kick))
    total, power = (gamma[0] + variance) * from_gradient[0, 0], np.eye(2)
    for g in gamma[1:]:
        power = power @ m
        total += 2 * g * (power @ from_gradient)[0, 0]
    return total + solve_discrete_lyapunov(m, noise @ noise.T)[0, 0]


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
