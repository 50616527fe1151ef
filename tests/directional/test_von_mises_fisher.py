"""The law of von Mises and Fisher: its normaliser against mpmath and quadrature, its draws against the law."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy import linalg, stats

from scirocco.directional import concentration_for, log_density, log_normaliser, mean_resultant_length, sample
from scirocco.directional.bessel import ratio_and_slope

DIMENSIONS = [2, 3, 10, 384, 5000]


def some_mean(rng, dimension):
    mean = rng.normal(size=dimension)
    return mean / np.linalg.norm(mean)


def moments(dimension, concentration):
    """The mean and the variance of the cosine: A and A'."""
    with jax.enable_x64(True):
        return map(float, ratio_and_slope(dimension / 2 - 1, concentration))


@pytest.mark.parametrize("dimension", [*DIMENSIONS, 10_000])
def test_normaliser_against_mpmath(dimension):
    kappa = np.float32([1e-6, 1e-2, 1.5, 80.0, 3e3, 1e6]).astype(np.float64)
    with mpmath.workdps(40):
        n = mpmath.mpf(dimension) / 2 - 1
        true = np.array([
            float(n * mpmath.log(k) - (n + 1) * mpmath.log(2 * mpmath.pi) - mpmath.log(mpmath.besseli(n, k)))
            for k in map(mpmath.mpf, kappa)
        ])  # fmt: skip
    with jax.enable_x64(True):
        np.testing.assert_allclose(log_normaliser(dimension, kappa), true, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(log_normaliser(dimension, jnp.float32(kappa)), true, rtol=4e-7, atol=4e-7)


@pytest.mark.parametrize("kappa", [0.0, 0.3, 5.0, 60.0])
def test_density_integrates_to_one(kappa):
    with jax.enable_x64(True):
        angle = np.arange(400) * (2 * np.pi / 400)
        circle = log_density(np.stack([np.cos(angle), np.sin(angle)], 1), np.array([0.6, -0.8]), kappa)
        cosine, weights = np.polynomial.legendre.leggauss(100)
        sphere = log_density(np.stack([np.sqrt(1 - cosine**2), 0 * cosine, cosine], 1), np.eye(3)[2], kappa)
    np.testing.assert_allclose(np.exp(circle).mean() * 2 * np.pi, 1, rtol=1e-12)
    np.testing.assert_allclose(weights @ np.exp(sphere) * 2 * np.pi, 1, rtol=1e-12)


@pytest.mark.parametrize("dimension", [2, 3, 5000])
def test_derivative_of_the_normaliser_is_minus_the_resultant(dimension):
    kappa = jnp.array([0.0, 1e-4, 1.0, 90.0, 1e5])
    slope = jax.jit(jax.vmap(jax.grad(lambda k: log_normaliser(dimension, k))))(kappa)
    np.testing.assert_allclose(slope, -mean_resultant_length(dimension, kappa), rtol=3e-7)
    with jax.enable_x64(True):
        kappa = jnp.array([0.5, 30.0, 2e3])
        difference = (log_normaliser(dimension, kappa + 1e-2) - log_normaliser(dimension, kappa - 1e-2)) / 2e-2
        np.testing.assert_allclose(difference, -mean_resultant_length(dimension, kappa), rtol=1e-4)


def test_uniform_at_zero():
    """Minus the logarithm of the area."""
    areas = {2: 2 * np.pi, 3: 4 * np.pi, 4: 2 * np.pi**2}
    for dimension, area in areas.items():
        np.testing.assert_allclose(log_normaliser(dimension, 0.0), -np.log(area), rtol=2e-7)
        assert mean_resultant_length(dimension, 0.0) == 0


def test_density_broadcasts():
    rng = np.random.default_rng(0)
    x, means = sample(rng, np.eye(5)[0], 0.0, (7, 1)), sample(rng, np.eye(5)[0], 0.0, 3)
    kappa = np.array([0.0, 2.0, 50.0])
    log = log_density(x, means, kappa)
    assert log.shape == (7, 3)
    np.testing.assert_allclose(log, kappa * (x[:, 0] @ means.T) + log_normaliser(5, kappa), rtol=1e-5)
    gradient = jax.grad(lambda mean: log_density(x[0, 0], mean, 2.0))(jnp.asarray(means[0]))
    np.testing.assert_allclose(gradient, 2 * x[0, 0], rtol=1e-6)


@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("kappa", [0.0, 0.5, 20.0, 1e3, 1e6])
def test_moments_of_the_cosine(dimension, kappa):
    rng = np.random.default_rng([3, dimension, int(kappa)])
    mean, n = some_mean(rng, dimension), {384: 4_000, 5000: 1_000}.get(dimension, 100_000)
    x = sample(rng, mean, kappa, n)
    assert x.shape == (n, dimension)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, rtol=1e-14)
    level, variance = moments(dimension, kappa)
    cosine = x @ mean
    spread = (cosine - level) ** 2
    assert abs(cosine.mean() - level) < 4 * np.sqrt(variance / n)
    assert abs(spread.mean() - variance) < 4 * spread.std() / np.sqrt(n)


@pytest.mark.parametrize("kappa", [0.0, 1.0, 30.0, 1e6])
def test_cosine_on_the_sphere(kappa):
    rng = np.random.default_rng(11)
    mean = some_mean(rng, 3)
    cosine = sample(rng, mean, kappa, 200_000) @ mean

    def distribution(w):
        if not kappa:
            return (1 + w) / 2
        return (np.exp(kappa * (w - 1)) - np.exp(-2 * kappa)) / -np.expm1(-2 * kappa)

    assert stats.kstest(cosine, distribution).pvalue > 1e-3


@pytest.mark.parametrize("kappa", [0.3, 4.0, 200.0])
def test_angle_on_the_circle(kappa):
    x = sample(np.random.default_rng(12), [0.6, -0.8], kappa, 200_000)
    angle = np.arctan2(0.6 * x[:, 1] + 0.8 * x[:, 0], 0.6 * x[:, 0] - 0.8 * x[:, 1])
    assert stats.kstest(angle, stats.vonmises(kappa).cdf).pvalue > 1e-3


@pytest.mark.parametrize("dimension", [3, 4, 30])
def test_isotropy_around_the_mean(dimension):
    """What is orthogonal to the mean is uniform in direction, and independent of the cosine."""
    rng, n = np.random.default_rng(13), 10_000
    mean = some_mean(rng, dimension)
    x = sample(rng, mean, 12.0, n)
    directions = x @ linalg.null_space(mean[None])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    half = (dimension - 2) / 2
    for axis in directions.T[:5]:
        assert stats.kstest((1 + axis) / 2, stats.beta(half, half).cdf).pvalue > 1e-3
        assert abs(np.corrcoef(axis**2, x @ mean)[0, 1]) < 4 / np.sqrt(n)


@pytest.mark.parametrize("dimension", [2, 3, 50])
def test_draws_are_uniform_at_zero(dimension):
    x = sample(np.random.default_rng(14), np.eye(dimension)[-1], 0.0, 10_000)
    half = (dimension - 1) / 2
    for axis in x.T[[0, 1, -1]]:
        assert stats.kstest((1 + axis) / 2, stats.beta(half, half).cdf).pvalue > 1e-3


@pytest.mark.parametrize("tilt", [0.0, 1e-12, 1e-8, 1e-3])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_means_near_the_first_axis(tilt, side):
    """The draws of a huge concentration sit on the mean, to the digits of float64."""
    mean = np.array([side * np.cos(tilt), np.sin(tilt), 0.0])
    x = sample(np.random.default_rng(15), mean, 1e24, 100)
    np.testing.assert_allclose(x, np.broadcast_to(mean, x.shape), rtol=1e-11, atol=1e-11)


def test_draws_broadcast_and_repeat():
    means, kappa = np.eye(4)[:3], np.array([[10.0], [1e4]])
    x = sample(np.random.default_rng(16), means, kappa)
    assert x.shape == (2, 3, 4)
    np.testing.assert_array_equal(x, sample(np.random.default_rng(16), means, kappa, (2, 3)))
    assert np.all(np.sum(x[1] * means, axis=-1) > 0.99)
    assert sample(np.random.default_rng(0), means[0], 1.0).shape == (4,)
    assert sample(np.random.default_rng(0), means, 1.0, (0, 3)).shape == (0, 3, 4)
    # the rounding of float32 is taken off
    third = np.full(3, 3**-0.5, np.float32)
    np.testing.assert_allclose(np.linalg.norm(sample(np.random.default_rng(0), third, 5.0, 9), axis=1), 1, rtol=1e-14)


@pytest.mark.parametrize("dimension", [2, 3, 384, 10_000])
def test_concentration_for_inverts(dimension):
    kappa = np.concatenate([[0.0], np.geomspace(1e-6, 1e6, 200)])
    with jax.enable_x64(True):
        resultant = np.asarray(mean_resultant_length(dimension, kappa))
    # an error of 1e-16 in the resultant is one of 1e-16 / (1 - r) in kappa: within 1e-8 everywhere here
    np.testing.assert_allclose(concentration_for(dimension, resultant), kappa, rtol=2e-9)


def test_concentration_for_near_one():
    r = 1 - 10.0 ** -np.arange(7, 16)
    kappa = concentration_for(2, r)
    assert np.all(np.abs(2 * kappa * (1 - r) - 1) < (1 - r) + 1e-15 / (1 - r))
    assert concentration_for(2, 0.5).shape == ()


def test_errors():
    rng, mean = np.random.default_rng(0), np.eye(3)[0]
    with pytest.raises(ValueError, match=r"mean must be unit vectors; the length at \[1\] is 1.1, off by 0.1"):
        sample(rng, [[1.0, 0.0], [0.0, 1.1]], 1.0)
    with pytest.raises(ValueError, match=r"unit vectors; the length is 0, off by 1"):
        sample(rng, np.zeros(3), 1.0)
    with pytest.raises(ValueError, match=r"mean must be vectors of at least 2 entries; got the shape \(1,\)"):
        sample(rng, [1.0], 1.0)
    with pytest.raises(ValueError, match="mean must be finite; got nan"):
        sample(rng, [np.nan, 1.0], 1.0)
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="concentration must be finite and at least 0"):
            sample(rng, mean, bad)
    with pytest.raises(ValueError, match=r"concentration, \(2,\), do not broadcast to the size \(3,\)"):
        sample(rng, mean, [1.0, 2.0], 3)
    with pytest.raises(
        ValueError, match=r"of mean, \(3,\), and of concentration, \(2,\), do not broadcast to each oth"
    ):
        sample(rng, np.eye(3), [1.0, 2.0])
    with pytest.raises(ValueError, match=r"do not broadcast to the size \(1,\)"):
        sample(rng, np.eye(3), 1.0, 1)
    with pytest.raises(TypeError, match=r"rng must be a numpy.random.Generator; got int"):
        sample(0, mean, 1.0)
    with pytest.raises(ValueError, match=r"same last axis; got the shapes \(3,\) and \(2,\)"):
        log_density(mean, np.eye(2)[0], 1.0)
    for bad in (1, 2.5):
        with pytest.raises(ValueError, match="dimension must be a whole number of at least 2"):
            log_normaliser(bad, 1.0)
    for bad in (-0.1, np.nan):
        with pytest.raises(ValueError, match="resultant must be finite and at least 0"):
            concentration_for(3, bad)
    with pytest.raises(ValueError, match="resultant must be less than 1"):
        concentration_for(3, [0.5, 1.0])
