"""``sample`` without a sampler: the cost of gradients decides, and the summary says how."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.run.description import StepSettings
from scirocco.verbs import choose

X = np.random.default_rng(0).normal(1.0, 1.0, 4000).astype(np.float32)


def log_prior(m):
    return -0.5 * jnp.sum(m**2)


def log_likelihood(m, x):
    return -0.5 * (x - m[0]) ** 2


TARGET = sc.Target(log_prior, log_likelihood, X)


@pytest.fixture
def costs(monkeypatch):
    """Set the seconds that gradients are found to take, of all rows and of a minibatch, and to be compiled."""

    def given(whole, part, compiled=0.0):
        monkeypatch.setattr(choose, "_seconds", lambda target, initial, sizes: ([whole, part], compiled))

    return given


def test_minibatches_where_they_save_work(costs):
    costs(1e-3, 1e-4)
    trace = sc.sample(TARGET, initial=jnp.zeros(1), num_samples=500, burn_in=1000)
    assert trace.tuning is not None
    assert "from minibatches: a gradient of all 4,000 rows takes 1000 us" in str(trace.summary())
    assert trace.mean["theta"] == pytest.approx(X.mean() * 4000 / 4001, abs=0.003)


def test_exact_where_they_save_next_to_nothing(costs):
    pytest.importorskip("blackjax", reason="NUTS is BlackJAX's")
    costs(1e-4, 0.9e-4)
    trace = sc.sample(TARGET, initial=lambda key: jnp.zeros(1), num_samples=500, burn_in=1000, report=False)
    assert "exact, because minibatches would save next to nothing" in trace.description.choice
    assert trace.verdict().good, str(trace.verdict())


def test_compiling_counts(costs):
    """Gradients of all rows that take 5 s more are worth it where tuning has 8 s more to be compiled."""
    settings = StepSettings(0, 4, 1000, 1000, None, 4, None)
    for compiled, kind in ((0.0, sc.UnderdampedLangevin), (0.5, sc.UnderdampedLangevin), (1.0, sc.NUTS)):
        costs(1e-4, 3e-5, compiled)
        found = choose.choose(TARGET, jnp.zeros(1), settings, open_=True)
        assert isinstance(found.sampler, kind)
    assert found.reason.startswith("exact, because tuning for minibatches would take longer than they save")
    assert "about 23 s for NUTS, 25 s from minibatches, with what compiling takes" in found.reason


def test_the_choice_is_kept(tmp_path, costs):
    costs(1e-3, 1e-4)
    sc.sample(TARGET, initial=jnp.zeros(1), num_samples=50, burn_in=20, path=tmp_path / "run", report=False)
    costs(1e-4, 1e-4)
    longer = sc.resume(tmp_path / "run", TARGET, num_samples=100)
    assert longer.description.choice.startswith("the burn-in is too short for NUTS")
    assert longer.count == 100


def test_what_was_asked_for_is_done():
    found = choose.choose(TARGET, jnp.zeros(1), None, open_=False)
    assert isinstance(found.sampler, sc.UnderdampedLangevin)
    assert "as was asked for" in found.reason


def test_a_gradient_is_timed():
    target = sc.Target(log_prior, lambda m, x: -0.25 * (x - m[0]) ** 4, X)  # which no other test has compiled
    seconds, compiled = choose._seconds(target, jnp.zeros(1), (100, 10))
    assert all(0 < each < 10 for each in seconds)
    assert compiled > 0
    assert choose._seconds(target, jnp.zeros(1), (100, 10))[1] == 0


def test_a_start_is_needed():
    with pytest.raises(TypeError, match="initial must be given"):
        sc.sample(TARGET)


def test_a_kernel_needs_a_sampler():
    with pytest.raises(TypeError, match="sampler must be given"):
        sc.kernel(TARGET, None)


def test_a_choice_is_looked_at_again():
    timed = choose.Choice(sc.UnderdampedLangevin("auto"), "why", whole=1e-4, part=5e-5)
    assert timed.reconsidered(pace=10) is None
    crawls = timed.reconsidered(pace=1000)  # 50 ms for an effective draw, where NUTS takes about 6
    assert isinstance(crawls.sampler, sc.NUTS)
    assert "take 1000 steps for an effective draw, about 50 ms, and NUTS about 6 ms" in crawls.reason
    assert choose.Choice(sc.UnderdampedLangevin("auto"), "not timed").reconsidered(1e6) is None


def test_chains_that_crawl_give_way_to_nuts(monkeypatch, costs, tmp_path):
    pytest.importorskip("blackjax", reason="NUTS is BlackJAX's")
    costs(1e-3, 1e-4)
    again = choose.Choice(sc.NUTS(), "exact, because chains from minibatches take many steps")
    monkeypatch.setattr(choose.Choice, "reconsidered", lambda self, pace: again)
    settings = {"num_samples": 200, "burn_in": 1000, "report": False, "progress": False}
    trace = sc.sample(TARGET, initial=jnp.zeros(1), path=tmp_path / "run", **settings)
    assert trace.description.choice == again.reason
    assert trace.tuning is None
    assert trace.mean["theta"] == pytest.approx(X.mean() * 4000 / 4001, abs=0.006)
    longer = sc.resume(tmp_path / "run", TARGET, num_samples=250)
    np.testing.assert_array_equal(longer.posterior["theta"][:, :200], trace.posterior["theta"])
