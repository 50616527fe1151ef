"""The No-U-Turn sampler: its law, its adaptation, and what it refuses."""

from __future__ import annotations

import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc

SCALES = np.array([0.01, 1.0, 3.0])
MEAN = np.array([0.5, -1.0, 2.0])


def no_prior(p):
    return 0.0


@functools.cache  # functions that are the same objects are compiled once
def stretched(rho=0.0, rows=40):
    """A normal posterior with these means and sds, the first two correlated by ``rho``; data of the right mean."""
    correlation = np.eye(3)
    correlation[0, 1] = correlation[1, 0] = rho
    precision = np.linalg.inv(correlation * np.outer(SCALES, SCALES))
    deviations = np.random.default_rng(0).normal(size=(rows, 3)) * SCALES
    data = (MEAN + deviations - deviations.mean(axis=0)).astype(np.float32)
    each = jnp.asarray(precision / rows, jnp.float32)

    def log_likelihood(p, row):
        gap = jnp.concatenate([p["a"], p["b"][None]]) - row
        return -gap @ each @ gap / 2

    return sc.Target(no_prior, log_likelihood, data), precision


START = {"a": jnp.zeros(2), "b": jnp.array(0.0)}
RUN = {"num_samples": 1500, "burn_in": 400, "chains": 8, "report": False}


def draws_of(trace):
    return np.concatenate([trace.posterior["a"], trace.posterior["b"].values[..., None]], axis=-1).astype(np.float64)


@pytest.mark.parametrize(
    ("temperature", "rho", "dense"),
    [
        (2.0, 0.0, False),
        (1.0, 0.9, True),
        *(pytest.param(*c, marks=pytest.mark.slow) for c in ((1.0, 0.0, False), (2.0, 0.9, True))),
    ],
)
def test_the_law(temperature, rho, dense):
    target, precision = stretched(rho)
    sampler = sc.NUTS(0.1, adaptation=400, dense=dense, temperature=temperature)
    trace = sc.sample(target, sampler, START, **RUN)
    x = (draws_of(trace) - MEAN) / SCALES
    means, covariance = x.mean(axis=1), np.einsum("cni,cnj->cij", x, x) / x.shape[1]
    want = temperature * np.linalg.inv(precision) / np.outer(SCALES, SCALES)
    for found, truth in ((means, 0.0), (covariance, want)):
        error = np.abs(found.mean(axis=0) - truth) / (found.std(axis=0, ddof=1) / np.sqrt(len(found)))
        assert np.all(error < 6.5), error  # Student's t with 7 degrees: 3e-4 each
    assert np.all(covariance.std(axis=0, ddof=1) < 0.25)
    assert trace.sample_stats["acceptance"].mean() == pytest.approx(0.85, abs=0.12)
    assert trace.sample_stats["n_steps"].mean() < 30  # the scales were learnt: without, it is several hundred
    assert trace.sample_stats["diverging"].sum() == 0
    assert len(np.unique(trace.sample_stats["step_size"])) == 8  # of each chain one, and it stays


def log_likelihood_in_units(p, row):
    return -jnp.sum(((p - row[0]) / row[1]) ** 2) / 400


@pytest.mark.parametrize("unit", [1e-4, 1e3])
def test_units_do_not_matter(unit):
    """The posterior of much data is narrow, and its scales are learnt all the same."""
    data = (unit * np.random.default_rng(0).normal(size=(200, 3)) * SCALES).astype(np.float32)
    sds = (unit * SCALES).astype(np.float32)
    target = sc.Target(no_prior, log_likelihood_in_units, (data, np.tile(sds, (200, 1))))
    trace = sc.sample(target, sc.NUTS(unit * 0.01, adaptation=400), jnp.zeros(3), **RUN | {"chains": 2})
    assert trace.sample_stats["n_steps"].mean() < 20
    np.testing.assert_allclose(trace.posterior["theta"].std(("chain", "draw")) / sds, 1, atol=0.1)


@pytest.mark.parametrize("dense", [False, True])
def test_a_narrow_direction_among_wide_ones_is_learnt(dense):
    sds = jnp.array([1e-3] + [10.0] * 9)
    target = sc.Target(lambda p: 0.0, lambda p, x: -jnp.sum((p / sds) ** 2) / 20 + 0 * x, np.zeros(10, np.float32))
    sampler = sc.NUTS(1e-3, adaptation=300, dense=dense)
    trace = sc.sample(target, sampler, jnp.zeros(10), num_samples=200, burn_in=300, chains=2, report=False)
    assert trace.sample_stats["n_steps"].mean() < 30


def test_scales_that_are_not_learnt_cost_steps():
    target, _ = stretched()
    trace = sc.sample(target, sc.NUTS(0.01, adaptation=0), START, num_samples=50, burn_in=50, chains=2, report=False)
    assert trace.sample_stats["n_steps"].mean() > 100
    assert np.all(trace.sample_stats["step_size"] == np.float32(0.01))


def test_runs_that_stop_while_they_adapt_go_on(tmp_path, ticking):
    target, _ = stretched()
    sampler, settings = sc.NUTS(0.1, adaptation=60), {"num_samples": 40, "burn_in": 60, "chains": 2, "report": False}
    whole = sc.sample(target, sampler, START, **settings)
    ticking(0.1)
    part = sc.sample(target, sampler, START, path=tmp_path / "run", max_seconds=1e-6, **settings)
    assert part.stopped
    assert part.count < 40
    again = sc.resume(tmp_path / "run", target, max_seconds=600.0, progress=False)
    assert again.posterior.identical(whole.posterior)


def test_shards():
    target, precision = stretched()
    found = sc.sample_shards(target, sc.NUTS(0.1, adaptation=300), START, shards=4, num_samples=1000, burn_in=300)
    assert found.certificate.trusted
    draws = draws_of(type("Trace", (), {"posterior": found.draws}))[0]
    np.testing.assert_allclose((draws.mean(axis=0) - MEAN) / SCALES, 0, atol=0.1)
    np.testing.assert_allclose(draws.std(axis=0) * np.sqrt(np.diag(precision)), 1, atol=0.08)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_double_precision(dtype):
    with jax.enable_x64(True):
        target = sc.Target(lambda p: 0.0, lambda p, x: -((p - x) ** 2) / 2, np.linspace(-1, 1, 50).astype(dtype))
        start = jnp.zeros((), dtype)
        trace = sc.sample(target, sc.NUTS(adaptation=50), start, num_samples=400, burn_in=50, report=False)
    assert trace.posterior["theta"].dtype == dtype
    assert float(trace.posterior["theta"].std()) == pytest.approx(50**-0.5, rel=0.15)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"step_size": "auto"}, TypeError, "one number, where the adaptation begins"),
        ({"step_size": {"a": 1.0, "b": 2.0}}, TypeError, "one number"),
        ({"step_size": np.array([0.1, 0.2])}, ValueError, "one number; got the shape"),
        ({"step_size": -1.0}, ValueError, "step_size must be positive"),
        ({"adaptation": -1}, ValueError, "adaptation"),
        ({"acceptance": 1.0}, ValueError, "acceptance must lie between 0 and 1"),
        ({"doublings": 0}, ValueError, "doublings"),
    ],
)
def test_bad_settings(settings, error, words):
    with pytest.raises(error, match=words):
        sc.NUTS(**settings)


def test_what_it_needs(monkeypatch, tmp_path):
    target, _ = stretched()
    with pytest.raises(ValueError, match="burn_in must be at least 500"):
        sc.sample(target, sc.NUTS(), START, burn_in=100, path=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match="Rescaled is for samplers that move on manifolds; got NUTS"):
        sc.samplers.Rescaled(sc.NUTS(), START).check(START)
    with pytest.raises(ValueError, match="burn_in must be at least 500, the steps in which NUTS adapts; got 100"):
        sc.sample(target, sc.NUTS(), START, burn_in=100)
    with pytest.raises(ValueError, match="needs all data"):
        sc.sample(target, sc.NUTS(), START, batch_size=10)
    ring = sc.Target(lambda x: 0.0, lambda x, row: row @ x, np.eye(3, dtype="f"), manifold=sc.manifolds.Sphere())
    with pytest.raises(ValueError, match="NUTS moves in straight lines"):
        sc.sample(ring, sc.NUTS(), jnp.array([1.0, 0.0, 0.0]))
    monkeypatch.setitem(sys.modules, "blackjax", None)
    with pytest.raises(ImportError, match=r"pip install 'scirocco\[nuts\]'"):
        sc.NUTS()
