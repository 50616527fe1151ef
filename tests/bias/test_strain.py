"""Steps that are too long for places where the chains have been."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.bias.strain import strain
from scirocco.samplers.preconditioned import Preconditioned, Scale

ROWS = np.ones(10, np.float32)


def nothing(p, row):
    return 0.0 * row * p[0]


def of(log_prior, gradient, draws, sampler, spread=1.0):
    """In coordinates in which the curvature is one at v = 0."""
    target, scale = sc.Target(log_prior, nothing, ROWS), Scale(np.array([spread, 2.0, 2.0, 2.0]))
    return strain(target, Preconditioned(sampler, scale), draws, gradient(draws), jnp.zeros(4), 0)


def draws_of(spread, seed=0):
    """v ~ N(0, spread^2), x ~ N(0, 4 exp(v)) in three dimensions."""
    rng = np.random.default_rng(seed)
    v = spread * rng.normal(size=(4, 200, 1))
    return np.concatenate([v, 2 * np.exp(v / 2) * rng.normal(size=(4, 200, 3))], axis=2)


@pytest.mark.parametrize(("sampler", "borne"), [(sc.SGLD(0.1), 20.0), (sc.UnderdampedLangevin(0.5), 16.0)])
def test_of_a_gaussian_it_is_its_curvature_over_what_the_step_bears(sampler, borne):
    precision = np.array([1.0, 0.25, 0.25, 0.25])
    draws = np.random.default_rng(0).normal(size=(4, 100, 4)) * [1, 2, 2, 2]
    found = of(lambda p: -0.5 * jnp.sum(precision * p**2), lambda x: precision * x, draws, sampler)
    assert found == pytest.approx(1 / borne, rel=0.05)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("spread", [0.3, 1.0, 2.0])
def test_of_a_funnel_it_grows_with_its_length_at_the_same_step(spread, seed):
    """The curvature of x at its draws is exp(-v), of which those with the largest gradients have the most."""

    def log_prior(p):
        return -0.5 * (p[0] / spread) ** 2 - jnp.sum(p[1:] ** 2) * jnp.exp(-p[0]) / 8 - 1.5 * p[0]

    def gradient(x):
        narrow = np.exp(-x[..., :1])
        of_v = x[..., :1] / spread**2 - np.sum(x[..., 1:] ** 2, axis=-1, keepdims=True) * narrow / 8 + 1.5
        return np.concatenate([of_v, x[..., 1:] * narrow / 4], axis=-1)

    draws = draws_of(spread, seed)
    found = of(log_prior, gradient, draws, sc.UnderdampedLangevin(0.5), spread)
    assert found > np.exp(-np.quantile(draws[..., 0], 0.1)) / 16
    assert (found > 0.5) == (spread > 0.3)


def hierarchy(groups, spread, seed):
    """Centred effects of groups with ten rows each."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups, dtype=np.int32), 10)
    y = spread * rng.normal(size=groups)[group] + rng.normal(size=len(group))

    def log_prior(p):
        apart = jnp.sum((p["effect"] - p["mean"]) ** 2) * jnp.exp(-2 * p["log_tau"])
        return -(p["mean"] ** 2 + jnp.exp(2 * p["log_tau"]) + apart) / 2 - (groups - 1) * p["log_tau"]

    def log_likelihood(p, row):
        return -((row["y"] - p["effect"][row["group"]]) ** 2) / 2

    start = {"mean": jnp.zeros(()), "log_tau": jnp.zeros(()), "effect": jnp.zeros(groups)}
    return sc.Target(log_prior, log_likelihood, {"y": y.astype(np.float32), "group": group}), start


@pytest.mark.parametrize(("spread", "seed"), [(0.0, 1), (1.0, 0)])
def test_the_neck_of_a_hierarchy_that_chains_are_turned_away_from_is_said(spread, seed):
    target, start = hierarchy(30, spread, seed)
    trace = sc.sample(target, sc.UnderdampedLangevin("auto"), start, seed=seed)
    assert trace.verdict().good == (spread == 1.0)
    assert any("the neck of a funnel" in reason for reason in trace.verdict().reasons) == (spread == 0.0)
