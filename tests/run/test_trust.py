"""``trusted`` where it must not be said, and where it may."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc

NOTHING = np.ones(8, np.float32)  # data that says nothing: the prior is the posterior


def run(log_prior, initial, sampler, **options):
    target = sc.Target(log_prior, lambda p, x: 0.0 * x, NOTHING)
    settings = {"num_samples": 4000, "burn_in": 500, "thin": 5, "batch_size": 1.0, "progress": False} | options
    return sc.sample(target, sampler, initial, **settings)


def modes(x):
    return jnp.logaddexp(-0.5 * (x - 4) ** 2, -0.5 * (x + 4) ** 2)


def funnel(p):
    return -(p["v"] ** 2) / 18 - 0.5 * jnp.sum(p["x"] ** 2) * jnp.exp(-p["v"]) - 2 * p["v"]


def test_two_modes_from_one_start_are_not_trusted():
    trace = run(modes, jnp.array(4.0), sc.SGLD(0.02), num_samples=1500)
    assert trace.posterior["theta"].values.min() > 0  # no chain has seen the other mode
    assert trace.bias.accurate
    assert trace.bias.r_hat < 1.05
    assert trace.bias.started_apart is False
    assert not trace.bias.trusted
    assert "other modes would not be seen" in str(trace.bias)


def test_two_modes_from_starts_apart_disagree():
    trace = run(modes, lambda key: 6 * jax.random.normal(key), sc.SGLD(0.02), chains=6)
    assert np.unique(np.sign(trace.posterior["theta"].values[:, -1])).size == 2
    assert trace.bias.r_hat > 1.5
    assert not trace.bias.trusted
    assert "the chains DISAGREE" in str(trace.bias)


@pytest.mark.parametrize("start", [jnp.array(0.0), lambda key: 10 * jax.random.normal(key)], ids=["one", "apart"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_cauchy_posterior_is_not_trusted(start, seed):
    trace = run(lambda x: -jnp.log1p(x**2), start, sc.SGLD(0.05), seed=seed)
    assert not trace.bias.trusted


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_funnel_is_not_trusted(seed):
    def start(key):
        return {"v": 3 * jax.random.normal(key), "x": jnp.zeros(4)}

    trace = run(funnel, start, sc.SGLD(0.01), seed=seed)
    assert not trace.bias.trusted


def test_a_normal_posterior_from_starts_apart_is_trusted():
    trace = run(lambda x: -0.5 * jnp.sum(x**2), lambda key: 5 * jax.random.normal(key, (3,)), sc.SGLD(0.05))
    assert trace.bias.started_apart
    assert trace.bias.trusted
    assert "R-hat and ESS describe the posterior" in str(trace.bias)


def test_a_single_chain_is_not_trusted():
    trace = run(lambda x: -0.5 * x**2, jnp.array(0.0), sc.SGLD(0.05), chains=1)
    assert trace.bias.r_hat is None
    assert not trace.bias.trusted
    assert "agreement between chains was not measured" in str(trace.bias)


def test_what_is_known_of_the_agreement_survives_a_resume(tmp_path):
    target = sc.Target(lambda x: -0.5 * jnp.sum(x**2), lambda p, x: 0.0 * x, NOTHING)
    settings = {"burn_in": 500, "thin": 5, "batch_size": 1.0, "progress": False, "path": tmp_path / "run"}
    sc.sample(target, sc.SGLD(0.05), lambda key: 5 * jax.random.normal(key, (3,)), num_samples=1000, **settings)
    longer = sc.resume(tmp_path / "run", target, num_samples=4000, progress=False)
    assert longer.bias.started_apart
    assert longer.bias.r_hat < 1.05
    assert longer.bias.trusted
