"""Hierarchical and funnel-shaped posteriors, whose mode says little of them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

import scirocco as sc
from posteriors.base import NO_DATA, Posterior, bernoulli, half_cauchy, single, successes


def item_response() -> Posterior:
    """150 persons, 20 items: abilities, slopes and difficulties."""
    rng = np.random.default_rng(20)
    person, item = np.divmod(np.arange(3000), 20)
    ability, slope, difficulty = rng.normal(size=150), np.exp(0.3 * rng.normal(size=20)), rng.normal(size=20)
    y = successes(rng, slope[item] * (ability[person] - difficulty[item]))

    def likelihood(p: Any, row: Any) -> Any:
        i, j, y = row
        return bernoulli(jnp.exp(p["log_slope"][j]) * (p["ability"][i] - p["difficulty"][j]), y)

    def prior(p: Any) -> Any:
        return -0.5 * (
            jnp.sum(p["ability"] ** 2) + 4 * jnp.sum(p["log_slope"] ** 2) + jnp.sum(p["difficulty"] ** 2) / 4
        )

    initial = {"ability": jnp.zeros(150), "log_slope": jnp.zeros(20), "difficulty": jnp.zeros(20)}
    return Posterior("item response", sc.Target(prior, likelihood, single(person, item, y)), initial)


def _grouped_logit(rows: int, groups: int, seed: int) -> tuple[sc.Target, Any]:
    rng = np.random.default_rng(seed)
    g = rng.choice(groups, rows, p=rng.dirichlet(np.full(groups, 0.5)))
    x = rng.normal(size=(rows, 3))
    y = successes(rng, 0.3 + 0.8 * rng.normal(size=groups)[g] + x @ (0.5 * rng.normal(size=3)))

    def likelihood(p: Any, row: Any) -> Any:
        g, x, y = row
        return bernoulli(p["mu"] + jnp.exp(p["log_tau"]) * p["z"][g] + x @ p["w"], y)

    def prior(p: Any) -> Any:
        normal = jnp.sum(p["z"] ** 2) + p["mu"] ** 2 / 4 + jnp.sum(p["w"] ** 2)
        return -0.5 * (normal + jnp.exp(2 * p["log_tau"])) + p["log_tau"]

    initial = {"mu": jnp.zeros(()), "log_tau": jnp.zeros(()), "z": jnp.zeros(groups), "w": jnp.zeros(3)}
    return sc.Target(prior, likelihood, single(g, x, y)), initial


def grouped_logit() -> Posterior:
    """Fifty groups of unequal size, not centred."""
    return Posterior("hierarchical logit", *_grouped_logit(5000, 50, 21))


def large_grouped_logit() -> Posterior:
    """The same with 100,000 rows and 100 groups."""
    return Posterior("hierarchical, 10^5 rows", *_grouped_logit(100_000, 100, 22))


def centred_groups() -> Posterior:
    """Means of forty groups, centred: the density has no bound where their spread is zero."""
    rng = np.random.default_rng(23)
    g = rng.integers(40, size=1200)
    y = (1 + 0.7 * rng.normal(size=40))[g] + 1.5 * rng.normal(size=1200)

    def likelihood(p: Any, row: Any) -> Any:
        g, y = row
        return -p["log_sigma"] - 0.5 * ((y - p["a"][g]) * jnp.exp(-p["log_sigma"])) ** 2

    def prior(p: Any) -> Any:
        spread = jnp.sum((p["a"] - p["mu"]) ** 2) * jnp.exp(-2 * p["log_tau"]) / 2 + 40 * p["log_tau"]
        rest = jnp.exp(2 * p["log_tau"]) / 2 - p["log_tau"] + p["mu"] ** 2 / 50 + p["log_sigma"] ** 2 / 2
        return -spread - rest

    zero = jnp.zeros(())
    initial = {"a": jnp.zeros(40), "mu": zero, "log_tau": zero, "log_sigma": zero}
    return Posterior("hierarchical, centred", sc.Target(prior, likelihood, single(g, y)), initial)


def crossed_effects() -> Posterior:
    """Ratings: effects of 100 users and of 40 items, whose spreads are unknown."""
    rng = np.random.default_rng(24)
    i, j = rng.integers(100, size=8000), rng.integers(40, size=8000)
    y = 1 + 0.5 * rng.normal(size=100)[i] + 0.3 * rng.normal(size=40)[j] + rng.normal(size=8000)

    def likelihood(p: Any, row: Any) -> Any:
        i, j, y = row
        a, b = p["a"][i] * jnp.exp(p["log_a"]), p["b"][j] * jnp.exp(p["log_b"])
        return -p["log_s"] - 0.5 * ((y - p["mu"] - a - b) * jnp.exp(-p["log_s"])) ** 2

    def prior(p: Any) -> Any:
        normal = jnp.sum(p["a"] ** 2) + jnp.sum(p["b"] ** 2) + p["mu"] ** 2 / 25 + p["log_s"] ** 2
        scales = sum(p[n] - jnp.exp(2 * p[n]) / 2 for n in ("log_a", "log_b"))
        return scales - 0.5 * normal

    zero = jnp.zeros(())
    initial = {"a": jnp.zeros(100), "b": jnp.zeros(40), "mu": zero, "log_a": zero, "log_b": zero, "log_s": zero}
    return Posterior("crossed effects", sc.Target(prior, likelihood, single(i, j, y)), initial)


def random_features() -> Posterior:
    """A Gaussian process by 30 random features, with unknown length, amplitude and noise."""
    rng = np.random.default_rng(25)
    x = rng.uniform(-3, 3, size=2000)
    y = np.sin(2 * x) + 0.3 * x + 0.4 * rng.normal(size=2000)
    rate, phase = (jnp.asarray(a, jnp.float32) for a in (rng.normal(size=30), rng.uniform(0, 2 * np.pi, 30)))

    def likelihood(p: Any, row: Any) -> Any:
        x, y = row
        waves = jnp.cos(rate * x * jnp.exp(-p["log_length"]) + phase) * np.sqrt(2 / 30)
        f = jnp.exp(p["log_amplitude"]) * (waves @ p["z"])
        return -p["log_noise"] - 0.5 * ((y - f) * jnp.exp(-p["log_noise"])) ** 2

    def prior(p: Any) -> Any:
        return -0.5 * (jnp.sum(p["z"] ** 2) + 4 * p["log_length"] ** 2 + p["log_amplitude"] ** 2 + p["log_noise"] ** 2)

    zero = jnp.zeros(())
    initial = {"z": jnp.zeros(30), "log_length": zero, "log_amplitude": zero, "log_noise": zero}
    return Posterior("Gaussian process", sc.Target(prior, likelihood, single(x, y)), initial)


def horseshoe() -> Posterior:
    """Twenty coefficients, three of them not zero, with a horseshoe prior."""
    rng = np.random.default_rng(26)
    x, w = rng.normal(size=(1000, 20)), np.zeros(20)
    w[:3] = [1.0, -0.5, 0.3]
    y = x @ w + rng.normal(size=1000)

    def likelihood(p: Any, row: Any) -> Any:
        x, y = row
        return -0.5 * (y - x @ (p["z"] * jnp.exp(p["log_local"] + p["log_tau"]))) ** 2

    def prior(p: Any) -> Any:
        scales = jnp.sum(half_cauchy(p["log_local"])) + half_cauchy(p["log_tau"] - jnp.log(0.1))
        return scales - 0.5 * jnp.sum(p["z"] ** 2)

    initial = {"z": jnp.zeros(20), "log_local": jnp.zeros(20), "log_tau": jnp.zeros(())}
    return Posterior("horseshoe", sc.Target(prior, likelihood, single(x, y)), initial)


def _silent(p: Any, row: Any) -> Any:
    return 0.0 * row * p["v"]


def funnel() -> Posterior:
    """Neal's, mild: v ~ N(0, 1), x ~ N(0, e^v) in nine dimensions."""
    target = sc.Target(
        lambda p: -0.5 * p["v"] ** 2 - 0.5 * jnp.sum(p["x"] ** 2) * jnp.exp(-p["v"]) - 4.5 * p["v"], _silent, NO_DATA
    )
    truth = np.zeros(10), np.concatenate([[1.0], np.full(9, np.exp(0.25))])
    return Posterior("funnel", target, {"v": jnp.zeros(()), "x": jnp.zeros(9)}, truth)
