"""The warm-up in the typical set, and steps on trial."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.gradient.kernel import Kernel
from scirocco.optimise.curvature import curvature
from scirocco.samplers.preconditioned import Scale
from scirocco.tuning import rounds, trial
from scirocco.tuning.rounds import Round, Rounds
from scirocco.tuning.warm_up import Warmed, _between, _scale, _sized

ROWS = np.random.default_rng(0).normal(size=400).astype(np.float32)


def funnel(p):
    """v ~ N(0, 1), x ~ N(0, e^v) in four dimensions: the mode is at v = -2."""
    return -0.5 * p["v"] ** 2 - 0.5 * jnp.sum(p["x"] ** 2) * jnp.exp(-p["v"]) - 2 * p["v"]


def nothing(p, row):
    return 0.0 * row * p["v"]


FUNNEL = sc.Target(funnel, nothing, ROWS)
START = {"v": jnp.zeros(()), "x": jnp.ones(4)}


def test_a_funnel_is_sampled_though_its_mode_lies_elsewhere():
    trace = sc.sample(
        FUNNEL, sc.UnderdampedLangevin("auto"), START, num_samples=4000, burn_in=500, thin=4, seed=2, report=False
    )
    assert trace.tuning.departure > 0.5
    assert trace.mean["v"] == pytest.approx(0, abs=0.15)
    assert np.sqrt(trace.variance["v"]) == pytest.approx(1, abs=0.1)
    np.testing.assert_allclose(np.sqrt(trace.variance["x"]), np.exp(0.25), rtol=0.15)


def test_a_run_after_a_warm_up_resumes_bit_for_bit(tmp_path):
    settings = {"burn_in": 20, "chains": 2, "seed": 3, "thin": 2, "report": False}
    whole = sc.sample(FUNNEL, sc.UnderdampedLangevin("auto"), START, num_samples=60, **settings)
    sc.sample(FUNNEL, sc.UnderdampedLangevin("auto"), START, num_samples=20, path=tmp_path / "run", **settings)
    longer = sc.resume(tmp_path / "run", FUNNEL, num_samples=60)
    np.testing.assert_array_equal(longer.posterior["x"].values, whole.posterior["x"].values)
    assert longer.tuning.rounds == whole.tuning.rounds


def test_a_killed_search_goes_on_after_its_last_round(tmp_path, monkeypatch):
    settings = {"num_samples": 20, "burn_in": 20, "chains": 2, "seed": 3, "report": False}
    whole = sc.sample(FUNNEL, sc.UnderdampedLangevin("auto"), START, **settings)
    made, run_round = [], rounds.run_round

    def counted(*given):
        if len(made) == 2:
            raise SystemExit("killed")
        made.append(run_round(*given))
        return made[-1]

    monkeypatch.setattr(rounds, "run_round", counted)
    with pytest.raises(SystemExit):
        sc.sample(FUNNEL, sc.UnderdampedLangevin("auto"), START, path=tmp_path / "run", **settings)
    assert (tmp_path / "run" / "tuning-0").is_dir()
    monkeypatch.setattr(rounds, "run_round", lambda *given: made.append(None) or run_round(*given))
    resumed = sc.resume(tmp_path / "run", FUNNEL)
    assert len(made) == len(whole.tuning.rounds) + len(whole.tuning.trials)  # none of them twice
    assert resumed.tuning.rounds == whole.tuning.rounds
    np.testing.assert_array_equal(resumed.posterior["x"].values, whole.posterior["x"].values)
    assert not (tmp_path / "run" / "tuning-0").exists()


def test_a_damaged_or_foreign_round_is_made_again(tmp_path, monkeypatch):
    kernel, places, made, shown = Kernel(FUNNEL, sc.SGLD(0.1), batch_size=50), np.ones((4, 5)), [], []

    def run_round(kernel, centre, places, held, steps, number):
        made.append(number)
        draws = np.full((4, 128, 5), 0.1, np.float32).astype(np.float64)
        return None if number == 2 else Round(draws, (draws, draws), rounds._gap(steps))

    def ask(kernel, number):
        return Rounds(tmp_path, shown.append).run(kernel, START, places, {}, 512, number)

    monkeypatch.setattr(rounds, "run_round", run_round)
    first, lost, again, still_lost = (ask(kernel, number) for number in (1, 2, 1, 2))
    assert made == [1, 2]
    np.testing.assert_array_equal(first.draws, again.draws)
    assert again.gap == first.gap == 3
    assert lost is still_lost is None
    assert shown[0] == "512 steps, minibatches of 50"
    ask(kernel.replaced(sc.SGLD(0.2)), 1)  # another step size
    assert made == [1, 2, 1]
    for name in ("checkpoint.json", "previous.json"):
        (tmp_path / name).write_text("{")
    ask(kernel.replaced(sc.SGLD(0.2)), 1)
    assert made == [1, 2, 1, 1]


def test_a_round_is_that_of_its_data_its_minibatches_and_its_estimator(tmp_path, monkeypatch):
    made, x = [], np.arange(10, dtype=np.float32)

    def run_round(*given):
        made.append(given)

    def ask(data=x, sampler=lambda: sc.SGLD(0.1), **settings):
        target = sc.Target(lambda m: 0.0, lambda m, row: -((row - m) ** 2) / 2, data)
        kernel = Kernel(target, sampler(), **{"batch_size": 4, **settings})
        Rounds(tmp_path).run(kernel, jnp.zeros(()), np.zeros((4, 1)), {}, 512, 1)

    monkeypatch.setattr(rounds, "run_round", run_round)
    labels = np.repeat([0, 1], 5)
    for other in (
        {}, {"data": x + 1}, {"seed": 1}, {"batching": sc.batches.WithReplacement()},
        {"batching": sc.batches.Strata(labels)}, {"batching": sc.batches.Strata(labels[::-1])},
        {"estimator": sc.ControlVariate()}, {"estimator": sc.ControlVariate(order=2)},
        {"sampler": lambda: sc.Recipe(0.1, diffusion=lambda z: 1 + 0 * z)},  # a function of its own, as after a restart
        {"sampler": lambda: sc.Recipe(0.2, diffusion=lambda z: 1 + 0 * z)},
        {"sampler": lambda: sc.Recipe(0.2, diffusion=np.ones(1))}, {"sampler": lambda: sc.Recipe(0.2, diffusion=2.0)},
    ):  # fmt: skip
        before = len(made)
        ask(**other)
        ask(**other)
        assert len(made) == before + 1, other


def made(covariance, seed=0, noise=0.0):
    """Draws of a Gaussian, with gradients whose minibatches add noise."""
    rng = np.random.default_rng(seed)
    draws = rng.multivariate_normal(np.zeros(len(covariance)), covariance, size=(4, 2000))
    slopes = draws @ np.linalg.inv(covariance)
    first, second = (slopes + noise * rng.normal(size=slopes.shape) for _ in range(2))
    return Round(draws, (first, second), gap=1)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_the_scale_of_a_gaussian_is_its_covariance_whatever_the_minibatch_noise(noise):
    covariance = np.array([[1.0, 0.8, 0.0], [0.8, 1.0, 0.0], [0.0, 0.0, 25.0]])
    scale, found = _scale(made(covariance, noise=noise), True)
    whole = np.stack([scale.forward(e) for e in np.eye(3)], axis=1)
    np.testing.assert_allclose(whole @ whole.T, covariance, rtol=0.1, atol=0.15)
    along = np.diag(covariance @ covariance) * noise**2 / np.diag(covariance)
    np.testing.assert_allclose(found, along, rtol=0.15, atol=1e-12)


def test_the_scale_lies_between_covariance_and_inverse_curvature():
    rng = np.random.default_rng(1)
    a, b = (m @ m.T + np.eye(4) for m in rng.normal(size=(2, 4, 4)))
    middle = _between(a, b)
    np.testing.assert_allclose(middle @ b @ middle, a, rtol=1e-8)
    np.testing.assert_allclose(_between(a, np.linalg.inv(a)), a, rtol=1e-8)


def test_minibatches_are_as_large_as_it_takes_to_tame_their_noise():
    x = np.random.default_rng(0).normal(size=100_000).astype(np.float32)
    target = sc.Target(lambda m: -(m**2) / 2, lambda m, x: -((x - m) ** 2) / 2, x)

    def make(rows):
        return Kernel(target, sc.SGLD("auto"), batch_size=rows, untuned=True)

    def noise(rows, of_row):
        return np.full(3, of_row * (1 / rows - 1e-5))

    kernel = make(1000)
    assert _sized(kernel, np.full(3, 0.9), make, 1000) is kernel
    assert _sized(kernel, np.full(3, 40.0), None, 1000) is kernel
    larger = _sized(kernel, noise(1000, 1500), make, 1000)
    assert noise(larger.batch_size, 1500)[0] == pytest.approx(0.5, rel=0.01)
    largest, sizes = kernel, []
    for _ in range(4):
        largest = _sized(largest, np.full(3, np.inf), make, 1000)
        sizes.append(largest.batch_size)
    assert sizes == [4000, 16_000, 64_000, 64_000]  # slowly, and as large as it may be
    again = _sized(largest, noise(64_000, 1500), make, 1000)  # once it is known
    assert larger.batch_size < again.batch_size <= 2 * larger.batch_size + 2
    assert _sized(again, noise(again.batch_size, 1500), make, 1000) is again
    assert _sized(largest, np.zeros(3), make, 1000).batch_size == 1000


# Trials.


def gaussian(w):
    return -0.5 * jnp.sum(w**2)


GAUSSIAN = sc.Target(gaussian, lambda w, row: 0.0 * row * w[0], ROWS)


def test_a_step_that_is_too_long_is_made_shorter():
    kernel = Kernel(GAUSSIAN, sc.SGLD(1.2), batch_size=50)
    places = np.random.default_rng(0).normal(size=(4, 3))
    scale, around = Scale(np.ones(3)), jnp.zeros(3)
    trials, step_size, made = trial.try_steps(kernel, scale, around, places, {}, 1.0, 0.05, 1.2, Rounds())
    assert made.draws.shape == (4, 128, 3)
    first, last = trials[0], trials[-1]
    assert first.heat == pytest.approx(1 / (1 - 0.6), rel=0.2)  # the variance of Euler's recursion
    assert not first.good
    assert last.good
    assert last.step_size == step_size
    assert len(trials) > 2
    assert 1 / (1 - last.step_size / 2) < 1.05**2 + 3 * last.error


def test_a_target_that_holds_no_chain_is_an_error_in_words(monkeypatch):
    monkeypatch.setattr(trial, "TRIALS", 3)
    hill = sc.Target(lambda w: 0.5 * jnp.sum(w**2), lambda w, row: 0.0 * row * w[0], ROWS)
    kernel = Kernel(hill, sc.SGLD(0.5), batch_size=50)
    with pytest.raises(FloatingPointError, match="no step size keeps a chain as wide as its target"):
        trial.try_steps(kernel, None, jnp.zeros(3), np.ones((4, 3)), {}, 1.0, 0.05, 1.0, Rounds())


def test_of_more_parameters_than_draws_the_scale_has_the_directions_that_stand_out():
    rng = np.random.default_rng(4)
    size, count = 400, 64
    vectors = np.linalg.qr(rng.normal(size=(size, 3)))[0]
    wide, unit = np.array([100.0, 25.0, 0.01]), np.exp(rng.normal(size=size))
    z = rng.normal(size=(4, count, size))
    white = z + ((np.sqrt(wide) - 1) * (z @ vectors)) @ vectors.T  # variances ``wide`` along the vectors, else 1
    steep = white + ((1 / wide - 1) * (white @ vectors)) @ vectors.T
    noise = [0.3 * rng.normal(size=steep.shape) for _ in range(2)]
    found = Round(white * unit, ((steep + noise[0]) / unit, (steep + noise[1]) / unit), gap=1)
    scale, _ = _scale(found, whole=False)
    assert 3 <= scale.vectors.shape[1] <= 5  # as good as none by chance
    precision = (np.eye(size) + (vectors * (1 / wide - 1)) @ vectors.T) / np.outer(unit, unit)
    sides = np.stack([scale.forward(e) for e in np.eye(size)])
    values = np.linalg.eigvalsh(sides @ precision @ sides.T)
    assert values[-1] / values[0] < 50  # it was 10,000
    assert np.quantile(values, 0.9) / np.quantile(values, 0.1) < 2
    warmed = Warmed(None, None, scale, found, None, ())
    np.testing.assert_allclose(warmed.phi[0], scale.backward(found.pooled()[0][0]))
    np.testing.assert_allclose(scale.forward(warmed.phi[0]), found.pooled()[0][0])


def test_a_correlated_prior_of_many_parameters_in_different_units_is_scaled_right():
    rng = np.random.default_rng(5)
    unit, vector = (jnp.asarray(a, jnp.float32) for a in (np.exp(rng.normal(size=520)), rng.normal(size=520)))

    def prior(p):
        return -0.5 * (jnp.sum((p / unit) ** 2) + jnp.sum(p / unit * vector) ** 2)

    target = sc.Target(prior, lambda p, row: 0.0 * row * p[0], ROWS)
    found = curvature(target, jnp.zeros(520))
    expected = np.asarray(unit) / np.sqrt(1 + np.asarray(vector, np.float64) ** 2)
    np.testing.assert_allclose(found.scale.diagonal, expected, rtol=1e-3)
