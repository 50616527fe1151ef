"""Posteriors that are near Gaussian at their mode."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special, stats

import scirocco as sc
from posteriors.base import Posterior, bernoulli, single, successes


def normal_mean() -> Posterior:
    """Conjugate."""
    n, noise, wide = 10_000, 2.0, 10.0
    x = (3 + noise * np.random.default_rng(1).normal(size=(n, 2))).astype(np.float32)
    precision = n / noise**2 + 1 / wide**2
    mean = x.astype(np.float64).sum(axis=0) / noise**2 / precision
    target = sc.Target(
        lambda m: -0.5 * jnp.sum((m / wide) ** 2), lambda m, x: -0.5 * jnp.sum(((x - m) / noise) ** 2), x
    )
    return Posterior("normal mean", target, jnp.zeros(2), (mean, np.full(2, precision**-0.5)))


def correlated_columns() -> Posterior:
    """Linear regression with known noise; the Gram matrix of the columns has condition number 10^4."""
    n, d, noise, rng = 20_000, 10, 1.5, np.random.default_rng(2)
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    orthogonal = np.linalg.qr(rng.normal(size=(n, d)))[0] * np.sqrt(n)
    x = (orthogonal * np.geomspace(1, 0.01, d) @ rotation).astype(np.float32)
    y = (x @ rng.normal(size=d) + noise * rng.normal(size=n)).astype(np.float32)
    exact = x.astype(np.float64)
    covariance = np.linalg.inv(exact.T @ exact / noise**2 + np.eye(d))
    mean = covariance @ (exact.T @ y.astype(np.float64)) / noise**2

    def likelihood(w: Any, row: Any) -> Any:
        return -0.5 * ((row[1] - row[0] @ w) / noise) ** 2

    target = sc.Target(lambda w: -0.5 * jnp.sum(w**2), likelihood, (x, y))
    truth = mean, np.sqrt(np.diag(covariance))
    return Posterior("linear, correlated columns", target, jnp.zeros(d), truth)


def normal_gamma() -> Posterior:
    """Mean and log precision of a normal law: mu | tau ~ N(0, 1/(k tau)), tau ~ Gamma(a, b)."""
    n, k, a, b = 1000, 0.1, 2.0, 2.0
    x = (1 + 0.5 * np.random.default_rng(3).normal(size=n)).astype(np.float32)

    def prior(p: Any) -> Any:
        tau = jnp.exp(p["log_tau"])
        of_mean = 0.5 * p["log_tau"] - 0.5 * k * tau * p["mu"] ** 2
        return of_mean + a * p["log_tau"] - b * tau  # with the Jacobian of the logarithm

    def likelihood(p: Any, x: Any) -> Any:
        return 0.5 * p["log_tau"] - 0.5 * jnp.exp(p["log_tau"]) * (x - p["mu"]) ** 2

    exact = x.astype(np.float64)
    shape = a + n / 2
    rate = b + 0.5 * np.sum((exact - exact.mean()) ** 2) + 0.5 * k * n / (k + n) * exact.mean() ** 2
    mu = stats.t(2 * shape, n * exact.mean() / (k + n), np.sqrt(rate / (shape * (k + n))))
    mean = np.array([special.digamma(shape) - np.log(rate), mu.mean()])
    sd = np.array([np.sqrt(special.polygamma(1, shape)), mu.std()])
    initial = {"log_tau": jnp.zeros(()), "mu": jnp.zeros(())}
    return Posterior("normal mean and precision", sc.Target(prior, likelihood, x), initial, (mean, sd))


def _logistic(w: Any, row: Any) -> Any:
    return bernoulli(row[0] @ w, row[1])


def _logistic_data(n: int, w: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.hstack([np.ones((n, 1)), rng.normal(size=(n, len(w) - 1))]).astype(np.float32)
    return x, (rng.random(n) < special.expit(x @ w)).astype(np.float32)


def logistic() -> Posterior:
    """Logistic regression with an intercept, N(0, 1) prior."""
    data = _logistic_data(10_000, np.random.default_rng(4).normal(size=20) / 2, 5)
    target = sc.Target(lambda w: -0.5 * jnp.sum(w**2), _logistic, data)
    return Posterior("logistic", target, jnp.zeros(20))


def laplace_prior() -> Posterior:
    """Logistic regression with a prior that has a kink at 0, where ten of fifteen coefficients are."""
    w = np.concatenate([[-0.5, 1.0, -0.7, 0.4, 0.2], np.zeros(10)])
    data = _logistic_data(5000, w, 6)
    target = sc.Target(lambda w: -20.0 * jnp.sum(jnp.abs(w)), _logistic, data)
    return Posterior("logistic, Laplace prior", target, jnp.zeros(15))


def poisson() -> Posterior:
    """Counts over known exposures."""
    n, d, rng = 5000, 8, np.random.default_rng(7)
    x = np.hstack([np.ones((n, 1)), rng.normal(size=(n, d - 1))]).astype(np.float32)
    offset = np.log(rng.uniform(0.2, 5, n)).astype(np.float32)
    y = rng.poisson(np.exp(x @ (0.4 * rng.normal(size=d)) + offset)).astype(np.float32)

    def likelihood(w: Any, row: Any) -> Any:
        x, offset, y = row
        log_rate = x @ w + offset
        return y * log_rate - jnp.exp(log_rate)

    target = sc.Target(lambda w: -0.5 * jnp.sum(w**2), likelihood, (x, offset, y))
    return Posterior("Poisson with an offset", target, jnp.zeros(d))


def robust() -> Posterior:
    """Student t noise, 4 degrees of freedom, its scale unknown."""
    n, d, dof, rng = 5000, 6, 4.0, np.random.default_rng(8)
    x = rng.normal(size=(n, d)).astype(np.float32)
    y = (x @ rng.normal(size=d) + 0.7 * rng.standard_t(dof, size=n)).astype(np.float32)

    def prior(p: Any) -> Any:
        return -0.5 * jnp.sum((p["w"] / 5) ** 2) - 0.5 * p["log_scale"] ** 2

    def likelihood(p: Any, row: Any) -> Any:
        z = (row[1] - row[0] @ p["w"]) * jnp.exp(-p["log_scale"])
        return -p["log_scale"] - (dof + 1) / 2 * jnp.log1p(z**2 / dof)

    initial = {"log_scale": jnp.zeros(()), "w": jnp.zeros(d)}
    return Posterior("robust regression", sc.Target(prior, likelihood, (x, y)), initial)


def mixture() -> Posterior:
    """Two components in the plane, well apart, from a start at their centres."""
    rng = np.random.default_rng(9)
    parts = [rng.normal((-2, 0), (0.6, 1.0), (600, 2)), rng.normal((2, 1), (1.0, 0.7), (1400, 2))]
    raw = rng.permutation(np.concatenate(parts))
    x = ((raw - raw.mean(axis=0)) / raw.std(axis=0)).astype(np.float32)
    centres = np.array([part.mean(axis=0) for part in parts])
    initial = {
        "scales": jnp.full((2, 2), 0.5, jnp.float32),
        "weights": jnp.full(2, 0.5, jnp.float32),
        "means": jnp.asarray((centres - raw.mean(axis=0)) / raw.std(axis=0), jnp.float32),
    }
    return Posterior("mixture of two normals", sc.GaussianMixture(2).target(x), initial)


def ordered_logit() -> Posterior:
    """Four answers, two cut points as increments."""
    rng = np.random.default_rng(10)
    x, w = rng.normal(size=(5000, 4)), rng.normal(size=4)
    y = np.digitize(x @ w + rng.logistic(size=5000), [-1.0, 0.5, 2.0])

    def likelihood(p: Any, row: Any) -> Any:
        x, y = row
        cuts = jnp.cumsum(jnp.concatenate([p["first"][None], jnp.exp(p["gaps"])]))
        above = jnp.concatenate([jnp.ones(1), jax.nn.sigmoid(x @ p["w"] - cuts), jnp.zeros(1)])
        return jnp.log(jnp.maximum(above[y] - above[y + 1], 1e-12))

    def prior(p: Any) -> Any:
        return -0.5 * (jnp.sum(p["w"] ** 2) + p["first"] ** 2 / 4 + jnp.sum(p["gaps"] ** 2))

    initial = {"w": jnp.zeros(4), "first": jnp.array(-1.0), "gaps": jnp.zeros(2)}
    return Posterior("ordered logit", sc.Target(prior, likelihood, single(x, y)), initial)


def negative_binomial() -> Posterior:
    """Counts with an unknown overdispersion."""
    rng = np.random.default_rng(11)
    x, w = rng.normal(size=(5000, 4)), 0.3 * rng.normal(size=4)
    y = rng.poisson(np.exp(1 + x @ w) * rng.gamma(2.0, 0.5, 5000))

    def likelihood(p: Any, row: Any) -> Any:
        x, y = row
        r, log_rate = jnp.exp(p["log_r"]), p["b"] + x @ p["w"]
        gammas = jax.scipy.special.gammaln(y + r) - jax.scipy.special.gammaln(r)
        return gammas + r * p["log_r"] + y * log_rate - (y + r) * jnp.logaddexp(p["log_r"], log_rate)

    def prior(p: Any) -> Any:
        return -0.5 * (jnp.sum(p["w"] ** 2) + p["b"] ** 2 + p["log_r"] ** 2)

    initial = {"w": jnp.zeros(4), "b": jnp.zeros(()), "log_r": jnp.zeros(())}
    return Posterior("negative binomial", sc.Target(prior, likelihood, single(x, y.astype(float))), initial)


def censored_weibull() -> Posterior:
    """Times to an event, a third of them censored."""
    rng = np.random.default_rng(12)
    x, w = rng.normal(size=(5000, 4)), 0.4 * rng.normal(size=4)
    time, end = rng.weibull(1.5, 5000) * np.exp(x @ w), rng.exponential(1.5, 5000)
    seen = time < end

    def likelihood(p: Any, row: Any) -> Any:
        x, log_time, seen = row
        shape = jnp.exp(p["log_shape"])
        z = shape * (log_time - p["b"] - x @ p["w"])
        return seen * (p["log_shape"] + z - log_time) - jnp.exp(z)

    def prior(p: Any) -> Any:
        return -0.5 * (jnp.sum(p["w"] ** 2) + p["b"] ** 2 + p["log_shape"] ** 2)

    data = single(x, np.log(np.minimum(time, end)), seen.astype(float))
    initial = {"w": jnp.zeros(4), "b": jnp.zeros(()), "log_shape": jnp.zeros(())}
    return Posterior("Weibull, censored", sc.Target(prior, likelihood, data), initial)


def large_logistic() -> Posterior:
    """A million rows."""
    rng = np.random.default_rng(13)
    x = rng.normal(size=(1_000_000, 8)).astype(np.float32)
    y = successes(rng, x @ (rng.normal(size=8) / 2) - 1)
    target = sc.Target(lambda w: -0.5 * jnp.sum(w**2), lambda w, row: bernoulli(row[0] @ w, row[1]), (x, y))
    return Posterior("logistic, 10^6 rows", target, jnp.zeros(8))
