"""The warm-up in the typical set, and steps on trial."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.gradient.kernel import Kernel
from scirocco.samplers.preconditioned import Scale
from scirocco.tuning import trial
from scirocco.tuning.rounds import Round
from scirocco.tuning.warm_up import _between, _enlarged, _scale

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
    settings = {"burn_in": 20, "chains": 2, "seed": 3, "report": False}
    whole = sc.sample(FUNNEL, sc.UnderdampedLangevin("auto"), START, num_samples=60, **settings)
    sc.sample(FUNNEL, sc.UnderdampedLangevin("auto"), START, num_samples=20, path=tmp_path / "run", **settings)
    longer = sc.resume(tmp_path / "run", FUNNEL, num_samples=60)
    np.testing.assert_array_equal(longer.posterior["x"].values, whole.posterior["x"].values)
    assert longer.tuning.rounds == whole.tuning.rounds


def made(covariance, seed=0, noise=0.0):
    """Draws of a Gaussian, with gradients whose minibatches add noise."""
    rng = np.random.default_rng(seed)
    draws = rng.multivariate_normal(np.zeros(len(covariance)), covariance, size=(4, 2000))
    slopes = draws @ np.linalg.inv(covariance)
    first, second = (slopes + noise * rng.normal(size=slopes.shape) for _ in range(2))
    return Round(draws, (first, second))


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


def test_minibatches_are_enlarged_until_their_noise_is_tame():
    x = np.random.default_rng(0).normal(size=100_000).astype(np.float32)
    target = sc.Target(lambda m: -(m**2) / 2, lambda m, x: -((x - m) ** 2) / 2, x)

    def make(rows):
        return Kernel(target, sc.SGLD("auto"), batch_size=rows, untuned=True)

    kernel = make(1000)
    assert _enlarged(kernel, np.full(3, 0.9), make) is kernel
    assert _enlarged(kernel, np.full(3, 40.0), None) is kernel
    larger = _enlarged(kernel, np.full(3, 5.0), make)
    expected = 5 * (1 / larger.batch_size - 1e-5) / (1 / 1000 - 1e-5)
    assert expected == pytest.approx(0.5, rel=0.01)
    assert _enlarged(kernel, np.full(3, np.inf), make).batch_size == 64_000  # as large as it may be


# Trials.


def gaussian(w):
    return -0.5 * jnp.sum(w**2)


GAUSSIAN = sc.Target(gaussian, lambda w, row: 0.0 * row * w[0], ROWS)


def test_a_step_that_is_too_long_is_made_shorter():
    kernel = Kernel(GAUSSIAN, sc.SGLD(1.2), batch_size=50)
    places = np.random.default_rng(0).normal(size=(4, 3))
    trials = trial.try_steps(kernel, Scale(np.ones(3)), jnp.zeros(3), places, {}, 1.0, 0.05, 1.2)
    first, last = trials[0], trials[-1]
    assert first.heat == pytest.approx(1 / (1 - 0.6), rel=0.2)  # the variance of Euler's recursion
    assert not first.good
    assert last.good
    assert len(trials) > 2
    assert 1 / (1 - last.step_size / 2) < 1.05**2 + 3 * last.error


def test_a_target_that_holds_no_chain_is_an_error_in_words():
    hill = sc.Target(lambda w: 0.5 * jnp.sum(w**2), lambda w, row: 0.0 * row * w[0], ROWS)
    kernel = Kernel(hill, sc.SGLD(0.5), batch_size=50)
    with pytest.raises(FloatingPointError, match="no step size keeps a chain as wide as its target"):
        trial.try_steps(kernel, None, jnp.zeros(3), np.ones((4, 3)), {}, 1.0, 0.05, 1.0)
