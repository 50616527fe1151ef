"""Zero-variance control variates: exact on Gaussians, unbiased elsewhere, and through a run."""

import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.postprocess import StreamingZeroVariance, zero_variance

PRECISION = np.array([[2.0, 0.6], [0.6, 1.0]])
MEAN = np.array([1.5, -0.5])


def gaussian(draws=300, chains=2, seed=0):
    rng = np.random.default_rng(seed)
    theta = rng.multivariate_normal(MEAN, np.linalg.inv(PRECISION), (chains, draws))
    return theta, (theta - MEAN) @ PRECISION


def test_polynomials_of_a_gaussian_have_no_variance_left():
    theta, slope = gaussian()
    linear = zero_variance(theta, theta, slope)
    np.testing.assert_allclose(linear.mean, MEAN, atol=1e-7)
    assert np.all(linear.se < 1e-6)
    assert np.all(linear.plain_se > 0.01)
    second = zero_variance(theta[..., :1] * theta, theta, slope, degree=2)
    expected = MEAN[0] * MEAN + np.linalg.inv(PRECISION)[0]
    np.testing.assert_allclose(second.mean, expected, atol=1e-6)
    # The printed sign would add what should be taken off.
    wrong = (theta + (theta - zero_variance(theta, theta, slope).mean)).var()
    assert wrong > 2 * theta.var()
    assert "gain" in str(linear)


def test_the_gradient_of_another_law_is_of_no_use_but_does_no_harm():
    theta, _ = gaussian(2000)
    noise = np.random.default_rng(1).normal(size=theta.shape)
    found = zero_variance(theta, theta, noise)
    np.testing.assert_allclose(found.mean, found.plain_mean, atol=3 * found.plain_se.max())
    np.testing.assert_allclose(found.variance_ratio, 1, atol=0.15)


def test_estimates_are_unbiased_off_the_gaussian():
    # Gamma(3): U = theta - 2 log theta. Many replications of few draws: the mean must not move.
    rng = np.random.default_rng(2)
    theta = rng.gamma(3.0, size=(400, 2, 40, 1))
    slope = 1 - 2 / theta
    for degree in (1, 2):
        found = [zero_variance(t**2, t, s, degree=degree) for t, s in zip(theta, slope, strict=True)]
        means = np.array([f.mean[0] for f in found])
        assert abs(means.mean() - 12) < 4 * means.std() / np.sqrt(len(means))
        if degree == 2:
            assert means.std() < 0.6 * (theta**2).mean(axis=(1, 2, 3)).std()
        assert np.mean([f.se[0] for f in found]) == pytest.approx(means.std(), rel=0.25)


def test_many_parameters_are_regularised():
    # 150 parameters, 240 draws: least squares in one half of them would fit its noise.
    rng = np.random.default_rng(3)
    theta = rng.normal(size=(2, 120, 150))
    noisy = theta + 0.5 * rng.normal(size=theta.shape)
    value = theta[..., :1] + 0.1 * rng.normal(size=(2, 120, 1)) ** 3
    found = zero_variance(value, theta, noisy)
    fixed = zero_variance(value, theta, noisy, ridge=0.0)
    assert abs(found.mean[0]) < 4 * found.plain_se[0]
    assert found.se[0] < 1.1 * found.plain_se[0]
    assert fixed.se[0] > found.se[0]


def test_streaming_agrees():
    theta, slope = gaussian(4000, 1)
    value = np.exp(0.3 * theta[0])
    whole = zero_variance(np.exp(0.3 * theta), theta, slope, degree=2)
    stream = StreamingZeroVariance(degree=2, stretch=20)
    for first in range(0, 4000, 130):
        part = slice(first, first + 130)
        stream.add(value[part], theta[0, part], slope[0, part])
    found = stream.result()
    np.testing.assert_allclose(found.mean, whole.mean, atol=3 * whole.se.max())
    np.testing.assert_allclose(found.plain_mean, value.mean(axis=0))
    np.testing.assert_allclose(found.se, whole.se, rtol=0.5)
    assert len(stream._means) < 64
    short = StreamingZeroVariance()
    short.add(value[:60], theta[0, :60], slope[0, :60])
    with pytest.raises(ValueError, match="at least 200 draws"):
        short.result()


@pytest.mark.parametrize("path", [None, "run"])
def test_a_run_that_keeps_its_gradients(tmp_path, path):
    x = np.random.default_rng(0).normal(2.0, 1.0, 400).astype(np.float32)
    target = sc.Target(lambda p: -(p["m"] ** 2) / 200, lambda p, x: -((x - p["m"]) ** 2) / 2, jnp.asarray(x))
    settings = {"batch_size": 40, "estimator": sc.ControlVariate(), "chains": 2, "thin": 3, "report": False}
    folder = None if path is None else tmp_path / path
    trace = sc.sample(
        target, sc.SGLD(1e-4), {"m": jnp.zeros(())}, num_samples=200, gradients=True, path=folder, **settings
    )
    mean = x.sum() / 400.01
    assert list(trace.posterior.data_vars) == ["m"]
    found = sc.postprocess.trace_zero_variance(trace)
    assert found.mean[0] == pytest.approx(mean, abs=1e-3)
    assert found.variance_ratio[0] > 1000
    square = sc.postprocess.trace_zero_variance(trace, lambda m: m**2, degree=2)
    assert square.mean == pytest.approx(mean**2 + 1 / 400, abs=1e-3)
    trace.save(tmp_path / "saved")
    again = sc.postprocess.trace_zero_variance(sc.Trace.load(tmp_path / "saved"))
    np.testing.assert_allclose(again.mean, found.mean)
    if folder is not None:
        longer = sc.resume(folder, target, num_samples=220)
        assert longer.gradients["m"].shape == (2, 220)
    plain = sc.sample(target, sc.SGLD(1e-4), {"m": jnp.zeros(())}, num_samples=20, **settings)
    assert plain.gradients is None
    with pytest.raises(ValueError, match="kept no gradients"):
        sc.postprocess.trace_zero_variance(plain)


def test_gradients_come_from_minibatches_of_their_own():
    # Given the position, the estimate is unbiased: its error has nothing to do with the last step.
    x = np.random.default_rng(0).normal(0.0, 3.0, 200).astype(np.float32)
    target = sc.Target(lambda m: -(m**2) / 2, lambda m, x: -((x - m) ** 2) / 2, jnp.asarray(x))
    settings = {"batch_size": 10, "num_samples": 4000, "chains": 1, "report": False}
    trace = sc.sample(target, sc.SGLD(1e-3), jnp.zeros(()), gradients=True, **settings)
    theta, slope = trace.posterior["theta"].values[0], trace.gradients["theta"].values[0]
    error = slope - (201 * theta - x.sum())
    assert abs(error.mean()) < 4.5 * error.std() / np.sqrt(4000)
    assert abs(np.corrcoef(error[1:], np.diff(theta))[0, 1]) < 4.5 / np.sqrt(4000)
    assert abs(np.corrcoef(error[:-1], np.diff(theta))[0, 1]) < 4.5 / np.sqrt(4000)


def test_wrong_input():
    theta, slope = gaussian(10)
    with pytest.raises(ValueError, match="degree must be 1 or 2"):
        zero_variance(theta, theta, slope, degree=3)
    with pytest.raises(ValueError, match="must have shapes"):
        zero_variance(theta, theta, slope[:, :5])
    with pytest.raises(ValueError, match="at least 4 draws"):
        zero_variance(theta[:, :3], theta[:, :3], slope[:, :3])
    with pytest.raises(ValueError, match="at most 5,000"):
        zero_variance(np.zeros((1, 4)), np.zeros((1, 4, 200)), np.zeros((1, 4, 200)), degree=2)


@pytest.mark.parametrize("which", ["values", "positions", "gradients"])
def test_draws_that_are_not_finite_are_named(which):
    theta, slope = gaussian(20)
    given = {"values": theta.copy(), "positions": theta, "gradients": slope}
    given[which][1, 3, 0] = np.nan
    with pytest.raises(ValueError, match=rf"{which} must be finite; 1 of 80 .* at \[1, 3, 0\]"):
        zero_variance(**given)
    with pytest.raises(ValueError, match=rf"{which} must be finite"):
        StreamingZeroVariance().add(*(given[name][1] for name in ("values", "positions", "gradients")))


@pytest.mark.parametrize("ridge", [-1, -1e-12, np.nan])
def test_a_negative_ridge_is_refused(ridge):
    theta, slope = gaussian(20)
    with pytest.raises(ValueError, match="ridge must be finite and at least 0"):
        zero_variance(theta, theta, slope, ridge=ridge)
    with pytest.raises(ValueError, match="ridge must be finite and at least 0"):
        StreamingZeroVariance(ridge=ridge)
    assert np.all(np.isfinite(zero_variance(theta, theta, slope, ridge=0).mean))
