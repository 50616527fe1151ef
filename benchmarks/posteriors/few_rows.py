"""Fewer than 100 rows."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

import scirocco as sc
from posteriors.base import Posterior, bernoulli, half_cauchy, single, successes


def eight_schools() -> Posterior:
    """Not centred."""
    effect = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    error = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])

    def likelihood(p: Any, row: Any) -> Any:
        i, y, s = row
        return -0.5 * ((y - p["mu"] - jnp.exp(p["log_tau"]) * p["z"][i]) / s) ** 2

    def prior(p: Any) -> Any:
        return half_cauchy(p["log_tau"] - jnp.log(5.0)) - 0.5 * (jnp.sum(p["z"] ** 2) + (p["mu"] / 10) ** 2)

    initial = {"mu": jnp.zeros(()), "log_tau": jnp.zeros(()), "z": jnp.zeros(8)}
    return Posterior("eight schools", sc.Target(prior, likelihood, single(np.arange(8), effect, error)), initial)


def small_logistic() -> Posterior:
    """Fifty rows, four columns."""
    rng = np.random.default_rng(50)
    x = rng.normal(size=(50, 4))
    y = successes(rng, x @ np.array([1.0, -1.0, 0.5, 0.0]))
    target = sc.Target(
        lambda w: -0.5 * jnp.sum((w / 2.5) ** 2), lambda w, row: bernoulli(row[0] @ w, row[1]), single(x, y)
    )
    return Posterior("logistic, 50 rows", target, jnp.zeros(4))


def small_poisson() -> Posterior:
    """Thirty counts."""
    rng = np.random.default_rng(51)
    x = rng.normal(size=(30, 3))
    y = rng.poisson(np.exp(0.5 + 0.4 * x[:, 0]))

    def likelihood(w: Any, row: Any) -> Any:
        log_rate = w[0] + row[0] @ w[1:]
        return row[1] * log_rate - jnp.exp(log_rate)

    target = sc.Target(lambda w: -0.5 * jnp.sum(w**2), likelihood, single(x, y.astype(float)))
    return Posterior("Poisson, 30 rows", target, jnp.zeros(4))
