"""Likelihoods that are themselves random: ``log_likelihood(params, example, key)``."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.batches.keyed import Keyed, at_rest
from scirocco.core import clock
from scirocco.gradient.kernel import Kernel
from scirocco.run.description import StepSettings
from scirocco.verbs.choose import choose

X = np.random.default_rng(0).normal(1.0, 1.0, 400).astype(np.float32)
SPREAD = 0.7  # of what the likelihood adds to a row


def log_prior(m):
    return -(m**2) / 2


def noisy(m, x, key):
    """In the mean over keys -(x - m)^2 / 2, but for a constant: its posterior is N(sum x / (N + 1), 1 / (N + 1))."""
    return -((x + SPREAD * jax.random.normal(key) - m) ** 2) / 2


def target_of(rows=X, **settings):
    return sc.Target(log_prior, noisy, rows, **settings)


def variance(step_size, noise):
    """Of SGLD with gradient noise of this variance, exact for a quadratic potential."""
    curvature = len(X) + 1
    return (1 + step_size * noise / 2) / (1 - step_size * curvature / 2) / curvature


@pytest.mark.parametrize("estimator", [sc.Plain(), sc.ControlVariate(jnp.array(0.8)), sc.SVRG(200), sc.SAGA()])
def test_estimates_are_unbiased_whatever_the_keys_at_rest(estimator):
    kernel = Kernel(target_of(), sc.SGLD(1e-4), batch_size=20, estimator=estimator)
    position = jnp.array(0.8)
    state = estimator.init(kernel.target, position, None)

    @jax.jit
    @jax.vmap
    def estimates(key):
        batch = kernel.draw.fresh(key, kernel.data_at(0))
        return kernel.program.estimate(key, state, position + 0.1, None, batch)[0]

    found = np.asarray(estimates(jax.random.split(jax.random.key(0), 20_000)), np.float64)
    error = found.std() / np.sqrt(len(found))
    assert abs(found.mean() - ((len(X) + 1) * 0.9 - X.sum())) < 4 * error
    assert error < 1.5  # of a slope that is 400 per unit: what the keys at rest are off by, 14, would be seen


def test_its_mean_over_keys_is_sampled_with_the_noise_of_keys():
    """All rows in every minibatch: what noise there is comes from keys."""
    h = 1e-3
    noise = len(X) * SPREAD**2
    trace = sc.sample(target_of(), sc.SGLD(h), jnp.array(1.0), batch_size=len(X), num_samples=5_000, chains=8)
    draws, expected = trace.posterior["theta"].values, variance(h, noise)
    effective = draws.size * h * (len(X) + 1) / 2  # autocorrelation 1 - h lambda
    assert abs(draws.mean() - X.sum() / (len(X) + 1)) < 4 * np.sqrt(expected / effective)
    assert abs(draws.var() / expected - 1) < 4 * np.sqrt(2 / (effective / 2))
    assert abs(draws.var() / variance(h, 0) - 1) > 0.05  # without it, it would be seen
    assert trace.bias.minibatch_share["theta"] == pytest.approx(h * noise / (2 + h * noise), rel=0.3)
    assert trace.bias.sd_error["theta"] == pytest.approx(np.sqrt(expected * (len(X) + 1)) - 1, rel=0.25)


def test_keys_are_new_at_each_step_in_each_chain_and_for_each_row():
    kernel = Kernel(target_of(), sc.SGLD(1e-4), batch_size=50)
    data, keys = kernel.data_at(0), [jax.random.key(1), jax.random.key(2)]
    batches = [kernel.draw.draw(key, (), jnp.int32(0), data)[1] for key in keys]
    words = [np.asarray(jax.random.key_data(b.data.keys())) for b in batches]
    rows = [np.asarray(b.data.number) for b in batches]
    different = len(np.unique(np.concatenate([rows[0], rows[1] + len(X)])))
    assert len(np.unique(np.concatenate(words), axis=0)) == different
    resting = jax.random.key_data(at_rest(batches[0]).data.keys())
    everywhere = jax.random.key_data(Keyed(X, np.arange(len(X), dtype=np.uint32)).keys())
    np.testing.assert_array_equal(resting, np.asarray(everywhere)[rows[0]])


def test_a_resumed_run_has_the_same_numbers(tmp_path, monkeypatch):
    whole = sc.sample(target_of(), sc.SGLD(1e-4), jnp.array(1.0), num_samples=300, batch_size=50, report=False)
    looks = iter(range(10**9))
    monkeypatch.setattr("time.perf_counter", lambda: 0.5 * next(looks))
    monkeypatch.setattr(clock, "compile_seconds", lambda: 0.0)
    part = sc.sample(
        target_of(), sc.SGLD(1e-4), jnp.array(1.0), num_samples=300, batch_size=50, max_seconds=1, report=False,
        path=tmp_path / "run",
    )  # fmt: skip
    assert part.count < 300
    again = sc.resume(tmp_path / "run", target_of(), max_seconds=1e6)
    np.testing.assert_array_equal(again.posterior["theta"], whole.posterior["theta"])


def test_from_disk_rows_have_the_same_keys(tmp_path):
    np.save(tmp_path / "x.npy", X)
    mapped, inside = target_of(np.load(tmp_path / "x.npy", mmap_mode="r")), target_of()
    assert mapped.log_posterior(jnp.array(0.5)) == pytest.approx(inside.log_posterior(jnp.array(0.5)), rel=1e-6)
    assert mapped.source.fingerprint() == sc.Target(log_prior, lambda m, x: -x * m, mapped.data).source.fingerprint()
    trace = sc.sample(mapped, sc.SGLD(1e-3), jnp.array(1.0), num_samples=2000, batch_size=100, report=False)
    assert abs(trace.mean["theta"] - X.sum() / 401) < 0.02


def test_rows_at_once():
    def together(m, rows, keys):
        assert rows.shape == keys.shape
        return -((rows + SPREAD * jax.vmap(jax.random.normal)(keys) - m) ** 2) / 2

    both = sc.Target(log_prior, together, X, batched=True), target_of()
    values = [target.log_posterior(jnp.array(0.3)) for target in both]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


def test_exact_samplers_are_refused():
    for sampler in (sc.NUTS(), sc.GMC(0.1)):
        with pytest.raises(ValueError, match="exact, which a likelihood that is random does not allow"):
            sc.sample(target_of(), sampler, jnp.array(0.0))
    with pytest.raises(ValueError, match="does not add up to nothing in an epoch"):
        sc.sample(target_of(), sc.SGLD(1e-4), jnp.array(0.0), batching=sc.batches.Shuffled())
    settings = StepSettings(0, 4, 1000, 1000, None, 4, None)
    assert choose(target_of(), jnp.array(0.0), settings, open_=True).reason == "the likelihood is random"


def test_calibration_of_a_random_likelihood_is_refused():
    trace = sc.sample(target_of(), sc.SGLD(1e-4), jnp.array(0.0), num_samples=10, report=False)
    with pytest.raises(ValueError, match="the likelihood is random"):
        sc.check_calibration(target_of(), trace, lambda key, p: X)
