"""``sample_shards``: shards of the data with their share of the prior are one run; draws are combined and certified."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.verbs.sample_shards import shard_of

N, D = 4003, 2  # shards of different sizes
ROWS = np.random.default_rng(0).normal([1.0, -2.0], [1.0, 3.0], (N, D)).astype(np.float32)
SCALES = jnp.array([1.0, 3.0])


def log_prior(p):
    return -jnp.sum(p["m"]["x"] ** 2) * 50 - p["m"]["y"] ** 2 / 2  # as strong as 100 rows of the first column


def log_likelihood(p, row):
    return -jnp.sum(((row - jnp.stack([p["m"]["x"], p["m"]["y"]])) / SCALES) ** 2) / 2


TARGET = sc.Target(log_prior, log_likelihood, ROWS)
START = {"m": {"x": jnp.float32(0.0), "y": jnp.float32(0.0)}}
PRECISION = N / np.asarray(SCALES) ** 2 + [100.0, 1.0]
MEAN, SD = (ROWS.sum(axis=0, dtype=np.float64) / np.asarray(SCALES) ** 2) / PRECISION, PRECISION**-0.5
SETTINGS = {"shards": 4, "num_samples": 1000, "burn_in": 100, "chains": 2, "progress": False}


def test_shards_multiply_to_the_posterior():
    parts = [shard_of(TARGET, number, 3) for number in range(3)]
    assert [part.size for part in parts] == [1335, 1334, 1334]
    whole = TARGET.log_posterior(START)
    assert sum(part.log_posterior(START) for part in parts) == pytest.approx(whole, rel=1e-6)
    assert parts[1].density == parts[2].density  # compiled once


@pytest.fixture(scope="module")
def exact():
    return sc.sample_shards(TARGET, sc.GMC("auto"), START, **SETTINGS)


def moments(draws):
    found = np.stack([draws["m.x"].values.ravel(), draws["m.y"].values.ravel()], axis=1)
    return (found.mean(axis=0) - MEAN) / SD, found.std(axis=0) / SD


@pytest.mark.parametrize("method", ["consensus", "swiss", "weierstrass"])
def test_the_posterior_is_that_of_all_data(exact, method):
    mean, sd = moments(exact.combined(method))
    np.testing.assert_allclose(mean, 0, atol=0.15)
    np.testing.assert_allclose(sd, 1, atol=0.12)


def test_what_a_run_of_shards_is(exact):
    assert exact.trace.posterior.sizes["chain"] == 8
    limits = [tuned.report["fields"]["limit"] for tuned in exact.trace.description.tuned]
    np.testing.assert_allclose(limits, 0.05 / 2)  # tighter by the square root of the shards
    assert exact.shard(3).sizes["chain"] == 2
    assert exact.diagnosis.overlaps
    assert exact.certificate.trusted, str(exact)
    assert set(exact.certificate.mean) == {"m"}
    np.testing.assert_allclose((exact.certificate.mean["m"]["x"] - MEAN[0]) / SD[0], 0, atol=0.2)
    assert "consensus: k-hat" in str(exact)
    assert exact.certify("swiss", num_samples=200).weights.size == 200
    own = exact.combined(lambda shards: shards[0])
    assert own.sizes["draw"] == 1000
    with pytest.raises(ValueError, match="number must lie between 0 and 3"):
        exact.shard(4)
    with pytest.raises(ValueError, match="method must be one of"):
        exact.combined("mean")


@pytest.mark.slow
def test_minibatches():
    found = sc.sample_shards(TARGET, sc.UnderdampedLangevin("auto"), START, batch_size=100, **SETTINGS)
    mean, sd = moments(found.draws)
    np.testing.assert_allclose(mean, 0, atol=0.2)
    np.testing.assert_allclose(sd, 1, atol=0.15)


@pytest.mark.parametrize("sampler", [sc.GMC("auto"), sc.SGLD(1e-5)], ids=["auto", "given"])
def test_runs_of_shards_resume_bit_for_bit(sampler, tmp_path):
    settings = SETTINGS | {"num_samples": 200, "thin": 2}  # one that is left open follows from the number of draws
    whole = sc.sample_shards(TARGET, sampler, START, **settings)
    sc.sample_shards(TARGET, sampler, START, path=tmp_path / "run", **settings | {"num_samples": 60})
    longer = sc.resume(tmp_path / "run", TARGET, num_samples=200, progress=False)
    for name in whole.trace.posterior:
        np.testing.assert_array_equal(longer.trace.posterior[name], whole.trace.posterior[name])
    np.testing.assert_array_equal(longer.draws["m.x"], whole.draws["m.x"])
    other = sc.Target(log_prior, log_likelihood, ROWS + 1)
    with pytest.raises(ValueError, match="the data differs from that of the run"):
        sc.resume(tmp_path / "run", other)
    with pytest.raises(ValueError, match="leave y out"):
        sc.resume(tmp_path / "run", TARGET, ROWS)


def test_a_stream_in_shards(tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    source = sc.batches.MemoryMapped(tmp_path / "x.npy", block_bytes=4000)
    target = sc.Target(log_prior, log_likelihood, source)
    found = sc.sample_shards(
        target,
        sc.SGLD(2e-5),
        START,
        batch_size=50,
        estimator=sc.ControlVariate(),
        **SETTINGS | {"shards": 2, "thin": 10},
    )
    mean, sd = moments(found.draws)
    np.testing.assert_allclose(mean, 0, atol=0.35)
    np.testing.assert_allclose(sd, 1, atol=0.25)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shards": 1}, "shards must be"),
        ({"shards": 5000}, "shards must not be more than rows: 5000 of 4003"),
        ({"method": "mean"}, "method must be one of"),
        ({"num_samples": 0}, "num_samples must be"),
    ],
)
def test_bad_runs_of_shards(options, words):
    with pytest.raises(ValueError, match=words):
        sc.sample_shards(TARGET, sc.GMC(0.01), START, **SETTINGS | options)
    curved = sc.Target(log_prior, log_likelihood, ROWS, manifold={"m": sc.manifolds.Sphere()})
    with pytest.raises(ValueError, match="parameters on a manifold cannot be combined"):
        sc.sample_shards(curved, sc.GMC(0.01), START, **SETTINGS)
    with pytest.raises(TypeError, match=r"log_prior must return the log density of the prior.*a share; got None"):
        sc.sample_shards(sc.Target(lambda p: None, log_likelihood, ROWS), sc.GMC(0.01), START, **SETTINGS)
    with pytest.raises(TypeError, match=r"target must be a scirocco\.Target"):
        sc.sample_shards(log_prior, sc.GMC(0.01), START)
