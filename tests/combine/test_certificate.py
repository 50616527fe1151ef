"""The certificate tells right draws from wrong ones, and mends those that are not too wrong."""

from __future__ import annotations

import sys
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.combine import Certificate, certificate, certify, diagnose

N, D = 5000, 3
ROWS = np.random.default_rng(0).normal([1.0, -2.0, 0.5], [1.0, 2.0, 0.5], (N, D)).astype(np.float32)
SCALES = jnp.array([1.0, 2.0, 0.5])


def log_prior(p):
    return -jnp.sum(p["m"] ** 2) / 200 - p["k"] ** 2 / 2


def log_likelihood(p, row):
    return -jnp.sum(((row - p["m"]) / SCALES) ** 2) / 2


TARGET = sc.Target(log_prior, log_likelihood, ROWS)
PRECISION = N / np.asarray(SCALES) ** 2 + 1 / 100
MEAN = (ROWS.sum(axis=0, dtype=np.float64) / np.asarray(SCALES) ** 2) / PRECISION
SD = PRECISION**-0.5


def exact(count=4000, shift=0.0, stretch=1.0, seed=1):
    """Draws of the posterior, or of one that is off by so many sds."""
    rng = np.random.default_rng(seed)
    z = stretch * rng.normal(size=(count, D)) + shift
    return {"m": (MEAN + SD * z).astype(np.float32), "k": (stretch * rng.normal(size=count) + shift).astype(np.float32)}


@pytest.mark.quick
def test_right_draws_are_trusted():
    found = certify(TARGET, exact())
    assert found.trusted
    assert found.verdict == "trust it where the draws are; a mode that none of them has found would not be seen"
    assert found.k_hat < 0.5
    assert found.effective > 400
    np.testing.assert_allclose((found.mean["m"] - MEAN) / SD, 0, atol=5 / np.sqrt(found.effective))
    np.testing.assert_allclose(found.sd["m"] / SD, 1, atol=5 / np.sqrt(found.effective))
    assert "k-hat" in str(found)
    assert "trust it" in str(found)


@pytest.mark.parametrize(("shift", "stretch"), [(0.7, 1.0), (0.0, 0.7), (0.0, 1.6)])
def test_draws_that_are_somewhat_wrong_are_mended(shift, stretch):
    found = certify(TARGET, exact(shift=shift, stretch=stretch), num_samples=2000)
    assert found.reliable, str(found)
    assert not found.trusted
    assert "trust the reweighted answer: the combined one is off by" in found.verdict
    assert found.shift == pytest.approx(shift, abs=0.25)
    assert found.stretch == pytest.approx(stretch - 1, abs=0.2)
    draws = found.resampled(4000, seed=1)
    for value, mean, sd in ((draws["m"], MEAN, SD), (draws["k"], 0.0, 1.0)):
        np.testing.assert_allclose((value.mean(axis=0) - mean) / sd, 0, atol=5 / np.sqrt(found.effective))
        np.testing.assert_allclose(value.std(axis=0) / sd, 1, atol=5 / np.sqrt(found.effective))


def test_a_normal_law_in_many_dimensions_is_trusted():
    """Half of every kernel is normal: Student laws alone leave 300 of 1,000 draws here, and no trust."""
    rows = np.random.default_rng(4).normal(size=(800, 40)).astype(np.float32)
    target = sc.Target(lambda t: 0.0, lambda t, x: -jnp.sum((x - t) ** 2) / 2, rows)
    right = np.random.default_rng(0).normal(rows.mean(axis=0), 800**-0.5, (4000, 40)).astype(np.float32)
    found = certify(target, right)
    assert found.effective > 400
    assert found.trusted
    narrow = certify(target, right.mean(axis=0) + 0.75 * (right - right.mean(axis=0)))
    assert not narrow.trusted


def test_doubt_is_no_reason_to_trust():
    """The mean and the sds may seem right by chance: they must be so beyond doubt."""
    found = Certificate(0.3, 120.0, 0.1, 0.02, 0.17, 0.0, 1.0, np.zeros(1000), np.full(1000, 1e-3))
    assert found.reliable
    assert not found.trusted
    assert "give or take 0.17" in found.verdict
    assert replace(found, doubt=0.1).trusted


def test_the_doubt_is_that_of_the_answer():
    """Over many seeds the reweighted mean and sd are off by two of their standard errors as often as they should be."""
    draws, off = exact(shift=0.3, stretch=1.2), []
    for seed in range(16):
        found = certify(TARGET, draws, num_samples=500, seed=seed)
        off.append([*(found.mean["m"] - MEAN) / SD, *(found.sd["m"] / SD - 1)] / np.float64(found.doubt))
    beyond = np.mean(np.abs(off) > 1)
    assert beyond < 0.1  # 0.05 for a coordinate, and the doubt is that of the worst
    assert np.sqrt(np.mean(np.square(off))) == pytest.approx(0.45, abs=0.12)


def test_the_mean_may_lie_where_the_posterior_is_zero():
    rows = np.random.default_rng(0).normal(size=100).astype(np.float32)
    target = sc.Target(
        lambda p: jnp.where(jnp.abs(p) > 1, -8 * (jnp.abs(p) - 2) ** 2, -jnp.inf), lambda p, x: 0.0 * x, rows
    )
    rng = np.random.default_rng(1)
    draws = rng.choice([-2.0, 2.0], 6000) + rng.normal(0, 0.25, 6000)
    found = certify(target, draws[np.abs(draws) > 1].astype(np.float32))
    assert found.trusted, str(found)


def test_too_few_draws_for_the_dimension_are_named():
    rows = np.random.default_rng(4).normal(size=(400, 80)).astype(np.float32)
    target = sc.Target(lambda t: 0.0, lambda t, x: -jnp.sum((x - t) ** 2) / 2, rows)
    right = np.random.default_rng(0).normal(rows.mean(axis=0), 400**-0.5, (8000, 80)).astype(np.float32)
    assert "too few combined draws for so many dimensions. Make 6400" in certify(target, right[:300]).verdict
    assert certify(target, right).reliable


def test_draws_that_are_elsewhere_are_not_trusted():
    found = certify(TARGET, exact(shift=12.0))
    assert not found.reliable
    assert "do not trust it" in found.verdict
    rng = np.random.default_rng(0)
    apart = rng.normal(size=(4, 500, D)) + 20 * np.arange(4)[:, None, None]
    seen = diagnose(apart)
    assert not seen.overlaps
    again = certify(TARGET, exact(shift=12.0), diagnosis=seen)
    assert "these shards do not overlap" in again.verdict


def test_what_is_seen_before_combining():
    rng = np.random.default_rng(0)
    flags = [diagnose(rng.normal(size=(8, 400, 3)) + 0.3 * rng.normal(size=(8, 1, 3))) for _ in range(20)]
    assert all(one.overlaps and not one.several_modes for one in flags)
    assert "nothing speaks against" in str(flags[0])
    lumps = rng.normal(size=(3, 500, 2)) + 4 * rng.choice([-1, 1], (3, 500, 1))
    assert diagnose(lumps).several_modes
    assert "several modes" in str(diagnose(lumps))
    assert "kdemc adds" in str(diagnose(rng.normal(size=(3, 500, 30))))


def test_log_posteriors_have_digits_left():
    """A million rows: log posteriors near -10^6, whose differences of order 1 matter."""
    rows = np.random.default_rng(0).normal(size=10**6).astype(np.float32)
    target = sc.Target(lambda m: -(m**2) / 2, lambda m, x: -((x - m) ** 2) / 2, rows)
    mean, sd = rows.sum(dtype=np.float64) / (1e6 + 1), (1e6 + 1) ** -0.5
    places = (mean + sd * np.linspace(-4, 4, 41)).astype(np.float32)
    found = target.log_posteriors(places, jnp.float32(mean))

    def value(m):
        return -((np.asarray(m, np.float64) - mean) ** 2) / (2 * sd**2)

    np.testing.assert_allclose(found, value(places) - value(np.float32(mean)), atol=0.02)
    with pytest.raises(ValueError, match="must share a leading axis"):
        target.log_posteriors({"a": np.zeros(3), "b": np.zeros(2)}, {"a": 0.0, "b": 0.0})


def test_a_stream_is_scored_as_memory_is(tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    source = sc.batches.MemoryMapped(tmp_path / "x.npy", block_bytes=12_000)
    stream = sc.Target(log_prior, log_likelihood, source)
    one, two = (certify(target, exact(), num_samples=200) for target in (TARGET, stream))
    np.testing.assert_allclose(one.weights, two.weights, rtol=1e-2, atol=1e-6)


def test_bad_certificates():
    from scirocco.manifolds import Sphere

    curved = sc.Target(lambda x: 0.0, lambda x, row: row @ x, ROWS, manifold=Sphere())
    with pytest.raises(ValueError, match="needs parameters that are free"):
        certify(curved, np.eye(3))
    with pytest.raises(ValueError, match="num_samples must be"):
        certify(TARGET, exact(), num_samples=10)
    with pytest.raises(ValueError, match="draws are too few for a density in 4 dimensions"):
        certify(TARGET, exact(5))
    with pytest.raises(ValueError, match="is not finite in draw 0"):
        certify(TARGET, {"m": np.full((50, 3), np.nan), "k": np.zeros(50)})
    with pytest.raises(ValueError, match=r"m\[0\], m\[1\], m\[2\] have the same value in all draws"):
        certify(TARGET, {"m": np.ones((50, 3)), "k": np.arange(50.0)})
    found = certify(TARGET, exact())
    with pytest.raises(ValueError, match="num_samples must be"):
        found.resampled(0)


def test_narrow_posteriors_far_from_zero():
    """Single precision has few digits here: places are weighed where they are, not where they were meant to be."""
    rows = np.random.default_rng(0).normal(0, 1, 4000).astype(np.float32)
    target = sc.Target(lambda m: 0.0 * m, lambda m, x: -((x - (m - 1000.0)) ** 2) / 2, rows)
    draws = np.random.default_rng(1).normal(1000 + rows.mean(dtype=np.float64), 4000**-0.5, 3000).astype(np.float32)
    assert certify(target, draws).trusted


def test_the_words_say_what_a_certificate_cannot_see():
    """Draws of one of two modes far apart get the weights of a posterior with one mode."""
    rows = np.random.default_rng(0).normal(size=50).astype(np.float32)
    target = sc.Target(lambda p: jnp.logaddexp(-((p - 20) ** 2) / 2, -((p + 20) ** 2) / 2), lambda p, x: 0.0 * x, rows)
    found = certify(target, np.random.default_rng(1).normal(20.0, 1.0, 4000).astype(np.float32))
    assert found.trusted  # and half of the posterior is missing
    assert "a mode that none of them has found would not be seen" in str(found)
    mended = certify(target, np.random.default_rng(1).normal(20.6, 1.0, 4000).astype(np.float32))
    assert mended.reliable
    assert not mended.trusted
    assert "a mode that none of them has found would not be seen" in str(mended)


def test_what_a_certificate_cannot_take_is_said():
    with pytest.raises(TypeError, match=r"diagnosis must come from combine.diagnose\(draws\); got range"):
        certify(TARGET, exact(), diagnosis=range(3))
    with pytest.raises(TypeError, match=r"target must be a scirocco.Target; got bool"):
        certify(True, exact())
    with pytest.raises(
        ValueError,
        match=r"draws must be parameters of the target with a leading axis; one of them is zz \(3,\), and .*KeyError",
    ):
        certify(TARGET, {"zz": exact()["m"]})
    with pytest.raises(ValueError, match=r"one of them is theta \(3,\)"):
        certify(TARGET, exact()["m"])


@pytest.mark.quick
def test_weights_are_smoothed_by_either_arviz(monkeypatch):
    """Of Pareto weights k-hat is their shape; the reciprocals have a light tail."""
    logs = 0.7 * np.random.default_rng(0).exponential(size=4000)
    found = [certificate._smoothed(sign * logs) for sign in (1, -1)]
    monkeypatch.setitem(sys.modules, "arviz", None)
    for (weights, k), sign in zip(found, (1, -1), strict=True):
        smoothed, other = certificate._smoothed(sign * logs)
        assert other == pytest.approx(k, abs=0.02)
        assert k > 0.5 if sign == 1 else k < 0.1
        np.testing.assert_allclose(smoothed.sum(), 1)
        np.testing.assert_allclose(np.sort(smoothed)[:3000], np.sort(weights)[:3000], rtol=0.02)
