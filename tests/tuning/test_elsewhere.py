"""Other modes: found before the run, and told after it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.samplers.preconditioned import Scale
from scirocco.tuning import elsewhere

RNG = np.random.default_rng(0)
X = RNG.normal(size=500).astype(np.float32)
Y = (2.25 * X + RNG.normal(size=500)).astype(np.float32)


def prior(w):
    return -0.5 * jnp.sum(w**2)


def squared(w, row):
    return -0.5 * (row[1] - w[0] ** 2 * row[0]) ** 2


SIGN = sc.Target(prior, squared, (X, Y))  # known up to its sign
MODE, WIDTH = jnp.array([1.5], jnp.float32), Scale(np.array([0.02]))


def test_a_parameter_known_up_to_its_sign_has_another_mode():
    found = elsewhere.other_modes(SIGN, MODE, WIDTH, 0, None)
    assert len(found) == 1
    assert found[0] == pytest.approx(-1.5, abs=0.1)


def test_starts_of_the_users_own_are_where_searches_begin():
    assert elsewhere.other_modes(SIGN, MODE, WIDTH, 0, lambda key: jnp.array([2.0])) == []
    found = elsewhere.other_modes(SIGN, MODE, WIDTH, 0, lambda key: jnp.array([-0.5]))
    assert len(found) == 1


def test_a_mode_that_is_far_less_likely_does_not_count():
    def tilted(w):
        return prior(w) + 20 * jnp.tanh(3 * w[0])

    assert elsewhere.other_modes(sc.Target(tilted, squared, (X, Y)), MODE, WIDTH, 0, None) == []


def test_where_a_scale_is_next_to_zero_there_is_no_mode():
    """Of the log of a scale u nothing bends the density there, and it rises steadily: a search that ended is lost."""

    def of_scale(w):
        return w[0] - 50 * jnp.exp(2 * w[0]) - 500 * w[1] ** 2

    target = sc.Target(of_scale, lambda w, row: 0.0 * row[0], (X, Y))
    assert np.isfinite(elsewhere._log_volume(target, jnp.array([-np.log(10), 0.0])))
    assert elsewhere._log_volume(target, jnp.array([-20.0, 0.0])) == -np.inf


def test_nothing_is_looked_for_where_that_would_take_long(monkeypatch):
    monkeypatch.setattr(elsewhere, "WORK", 100)
    assert elsewhere.other_modes(SIGN, MODE, WIDTH, 0, None) == []


def test_of_many_rows_a_sample_leads_the_way(monkeypatch):
    """All rows are gone through from the two places that its eight searches end at, and there alone."""
    sizes = []

    def counted(target, position):
        sizes.append(len(target.source.first(10**9)[0]))
        return quasi_newton(target, position)

    quasi_newton = elsewhere.quasi_newton
    monkeypatch.setattr(elsewhere, "quasi_newton", counted)
    monkeypatch.setattr(elsewhere, "ROWS", 100)
    monkeypatch.setattr(elsewhere, "ROWS_EACH", 1)
    monkeypatch.setattr(sc.Target, "pass_rows", 50)
    found = elsewhere.other_modes(SIGN, MODE, WIDTH, 0, None)
    assert len(found) == 1
    assert found[0] == pytest.approx(-1.5, abs=0.1)
    assert sorted(sizes) == [100] * 8 + [500] * 2


def test_the_verdict_tells_of_modes_that_no_chain_has_seen():
    trace = sc.sample(SIGN, sc.UnderdampedLangevin("auto"), jnp.array([0.5]), num_samples=500, burn_in=200)
    assert np.ptp(np.sign(trace.posterior["theta"].values)) == 0
    assert trace.verdict().kind == "do not use it"
    assert "other modes" in trace.verdict().reasons[0]
    assert "found 1 other modes" in str(trace.tuning)


def test_modes_that_the_chains_go_between_are_no_hindrance():
    """Two hills, two sds apart from their middle: one law."""
    close = sc.Target(
        lambda w: jnp.logaddexp(-0.5 * jnp.sum((w - 2) ** 2), -0.5 * jnp.sum((w + 2) ** 2)),
        lambda w, row: 0.0 * row * w[0],
        X,
    )
    trace = sc.sample(close, sc.UnderdampedLangevin("auto"), jnp.array([1.0]), num_samples=2000, thin=10)
    assert trace.verdict().good, str(trace.verdict())
    assert np.sqrt(trace.variance["theta"]) == pytest.approx(np.sqrt(5), rel=0.1)


def test_a_convex_potential_has_one_mode():
    x = RNG.normal(size=(500, 3)).astype(np.float32)
    y = (RNG.random(500) < 0.5).astype(np.float32)
    target = sc.Target(prior, lambda w, r: r[1] * (r[0] @ w) - jax.nn.softplus(r[0] @ w), (x, y))
    tuned = sc.tune(target, sc.SGLD("auto"), jnp.zeros(3))
    assert tuned.report.elsewhere == ()
