"""Heavy tails, and several modes."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

import scirocco as sc
from posteriors.base import NO_DATA, Posterior, bernoulli, half_cauchy, single


def student(dof: float) -> Posterior:
    """Independent coordinates with Student's law."""
    target = sc.Target(lambda x: -(dof + 1) / 2 * jnp.sum(jnp.log1p(x**2 / dof)), lambda x, r: 0.0 * r * x[0], NO_DATA)
    truth = np.zeros(5), np.full(5, np.sqrt(dof / (dof - 2)))
    return Posterior(f"Student t, {dof:g}", target, jnp.ones(5), truth)


def cauchy_prior() -> Posterior:
    """Logistic regression on classes that hardly overlap, with Cauchy priors."""
    rng = np.random.default_rng(30)
    x = rng.normal(size=(400, 5))
    y = (x[:, 0] + 0.3 * x[:, 1] + 0.3 * rng.logistic(size=400) > 0).astype(float)
    target = sc.Target(
        lambda w: -jnp.sum(jnp.log1p((w / 2.5) ** 2)), lambda w, row: bernoulli(row[0] @ w, row[1]), single(x, y)
    )
    return Posterior("logistic, Cauchy prior", target, jnp.zeros(5))


def few_groups() -> Posterior:
    """Five groups: a half-Cauchy scale that the data say little of."""
    rng = np.random.default_rng(31)
    g = rng.integers(5, size=200)
    y = (0.6 * rng.normal(size=5))[g] + rng.normal(size=200)

    def likelihood(p: Any, row: Any) -> Any:
        g, y = row
        return -0.5 * (y - p["mu"] - jnp.exp(p["log_tau"]) * p["z"][g]) ** 2

    def prior(p: Any) -> Any:
        return half_cauchy(p["log_tau"]) - 0.5 * (jnp.sum(p["z"] ** 2) + p["mu"] ** 2 / 25)

    initial = {"mu": jnp.zeros(()), "log_tau": jnp.zeros(()), "z": jnp.zeros(5)}
    return Posterior("half-Cauchy, five groups", sc.Target(prior, likelihood, single(g, y)), initial)


def two_modes() -> Posterior:
    """A third of the mass four sds away."""
    target = sc.Target(
        lambda x: jnp.logaddexp(jnp.log(2.0) - 0.5 * jnp.sum(x**2), -0.5 * jnp.sum((x - 8.0) ** 2)),
        lambda x, r: 0.0 * r * x[0],
        NO_DATA,
    )
    mean, variance = 8 / 3, 1 + 64 * 2 / 9
    return Posterior("two modes", target, jnp.zeros(2), (np.full(2, mean), np.full(2, np.sqrt(variance))))


def sign() -> Posterior:
    """A parameter that the data know up to its sign."""
    rng = np.random.default_rng(40)
    x = rng.normal(size=2000)
    y = 2.25 * x + rng.normal(size=2000)
    target = sc.Target(lambda w: -0.5 * w**2, lambda w, row: -0.5 * (row[1] - w**2 * row[0]) ** 2, single(x, y))
    sd = 1.5  # of the two signs together; each mode is a hundredth as wide
    return Posterior("sign unknown", target, jnp.array(0.5), (np.zeros(1), np.full(1, sd)))


def labels() -> Posterior:
    """Two components that may change their names."""
    rng = np.random.default_rng(41)
    x = np.concatenate([rng.normal(-2, 1, 500), rng.normal(2, 1, 500)])

    def likelihood(m: Any, row: Any) -> Any:
        return jnp.logaddexp(-0.5 * (row - m[0]) ** 2, -0.5 * (row - m[1]) ** 2)

    target = sc.Target(lambda m: -0.5 * jnp.sum((m / 5) ** 2), likelihood, x.astype(np.float32))
    return Posterior("labels of a mixture", target, jnp.array([-0.5, 0.5]), (np.zeros(2), np.full(2, 2.0)))
