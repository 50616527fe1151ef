"""How many steps make an effective draw, and the ``thin`` that follows from it."""

import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.diagnostics import ess
from scirocco.run.verdict import MEAN_LIMIT, SD_LIMIT, chance, draws_for
from scirocco.tuning import mixing
from scirocco.tuning.mixing import _normal_draws, steps_per_draw, steps_per_normal_draw
from scirocco.tuning.rounds import Round


def _time(correlation):
    """The integrated autocorrelation time of an autoregression: of squares, or half of that of the values."""
    squared = correlation**2
    return max((1 + squared) / (1 - squared), (1 + correlation) / (1 - correlation) / 2)


@pytest.mark.parametrize(("size", "curvature"), [(1, 1.0), (3, 0.5), (300, 1.0)])
def test_steps_of_langevin_dynamics_on_a_normal_law_are_those_of_an_autoregression(size, curvature):
    h = 0.1
    found = steps_per_normal_draw(sc.SGLD(h), size, curvature, 0.3, 1.0, seed=0)
    assert found == pytest.approx(_time(1 - h * curvature), rel=0.15)


def test_steps_do_not_depend_on_the_temperature_and_count_all_inner_steps():
    warm = steps_per_normal_draw(sc.SGLD(0.2, temperature=4.0), 20, 1.0, 0.0, 4.0, seed=0)
    assert warm == pytest.approx(_time(0.8), rel=0.15)
    single, five = (
        steps_per_normal_draw(sc.SGHMC(0.05, inner_steps=n), 20, 1.0, 0.0, 1.0, seed=0) for n in (1, 5)
    )  # fmt: skip
    assert five == pytest.approx(single / 5, rel=0.2)


def test_of_very_many_coordinates_some_are_simulated(monkeypatch):
    made = []

    def noted(sampler, size, *rest):
        made.append(size)
        return _normal_draws(sampler, size, *rest)

    monkeypatch.setattr(mixing, "_normal_draws", noted)
    size = 100_000
    for sampler in (sc.SGLD(0.1), sc.SGLD(np.full(size, 0.1, np.float32))):  # a step size for each coordinate
        assert steps_per_normal_draw(sampler, size, 1.0, 0.3, 1.0, seed=0) == pytest.approx(_time(0.9), rel=0.15)
    assert max(made) == mixing.SIMULATED < size


def test_chains_that_are_lost_have_the_slowest_pace():
    assert steps_per_normal_draw(sc.SGLD(5.0), 3, 1.0, 0.0, 1.0, seed=0) == mixing.STEPS


def test_steps_of_a_trial_are_those_of_its_slowest_parameter():
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(4, 2000, 3))
    for k in range(1, 2000):  # of the last parameter; the others are independent
        draws[:, k, 2] = 0.8 * draws[:, k - 1, 2] + 0.6 * draws[:, k, 2]
    made = Round(draws, (draws, draws), gap=12)
    expected = 12 * _time(0.8)
    assert steps_per_draw(made) == pytest.approx(expected, rel=0.2)
    assert steps_per_draw(made._replace(draws=draws[:, :, :2])) < 0.5 * expected


def test_draws_for_is_what_a_verdict_asks_for():
    needed = draws_for(50, 1.0)
    assert chance(50) / np.sqrt(needed) <= MEAN_LIMIT
    assert chance(50) / np.sqrt(2 * needed) <= SD_LIMIT
    assert draws_for(50, 0.5) == pytest.approx(4 * needed)


@pytest.fixture(scope="module")
def target():
    x = np.random.default_rng(1).normal(1.0, 1.0, 1000).astype(np.float32)
    return sc.Target(lambda m: -jnp.sum(m**2) / 2, lambda m, row: -jnp.sum((row - m) ** 2) / 2, x)


def test_a_thin_that_is_left_open_leaves_monte_carlo_errors_small(target, tmp_path):
    settings = dict(num_samples=500, burn_in=100, batch_size=100, seed=2, report=False)
    run = sc.sample(target, sc.SGLD("auto"), jnp.zeros(2), path=tmp_path / "run", **settings)
    thin = run.description.settings.thin
    pace = run.tuning.steps_per_draw
    assert thin == np.ceil(pace * draws_for(2, 0.5) / 2000) > 1
    assert float(ess(run, "sd")["theta"].min()) > 0.5 * draws_for(2, 0.5)
    assert sc.Trace.load(tmp_path / "run").description.settings.thin == thin
    assert f"about {np.ceil(pace):.0f} steps" in str(run.tuning)
    longer = sc.resume(tmp_path / "run", target, num_samples=600)
    assert longer.description.settings.thin == thin
    assert np.array_equal(longer.posterior["theta"][:, :500], run.posterior["theta"])


def test_a_thin_that_is_given_stays_and_a_given_step_has_every_one_recorded(target):
    settings = dict(num_samples=20, burn_in=0, batch_size=100, report=False, chains=2)
    given = sc.sample(target, sc.SGLD("auto"), jnp.zeros(2), thin=3, **settings)
    assert given.description.settings.thin == 3
    assert sc.sample(target, sc.SGLD(1e-4), jnp.zeros(2), **settings).description.settings.thin == 1
