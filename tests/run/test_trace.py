"""The trace: saving, ArviZ of both generations, summaries, and the bias report."""

from __future__ import annotations

import warnings
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import scirocco as sc
from scirocco.diagnostics import ess, rhat
from scirocco.integrators.law import euler_variance
from scirocco.run import checkpoint
from scirocco.run.description import Stop
from scirocco.run.moments import Moments, Sums
from scirocco.run.store import ZarrStore
from scirocco.run.trace import Trace
from scirocco.samplers import Preconditioned, Scale

RNG = np.random.default_rng(1)


# Functions that are the same objects are compiled once.
def log_prior(w):
    return -0.5 * jnp.sum(w**2)


def regression(w, row):
    return -0.5 * (row[1] - row[0] @ w) ** 2


def normal(m, row):
    return -0.5 * jnp.sum((row - m) ** 2)


def made(chains=4, draws=500, shape=(2,), seed=0, **options):
    """A trace of independent normal draws."""
    x = np.random.default_rng(seed).normal(size=(chains, draws, *shape))
    moments = Moments()
    moments.merge(Sums(draws, {"x": np.zeros((chains, *shape))}, {"x": x.sum(1)}, {"x": (x**2).sum(1)}))
    return Trace({"x": x}, draws, moments, **options), x


def test_moments_merge_as_if_seen_at_once():
    x = RNG.normal(1e4, 1.0, (3, 1000))
    moments = Moments()
    for part in np.split(x, [1, 10, 500], axis=1):
        reference = part[:, 0].astype(np.float32)
        deviation = part - reference[:, None]
        moments.merge(Sums(part.shape[1], {"x": reference}, {"x": deviation.sum(1)}, {"x": (deviation**2).sum(1)}))
    np.testing.assert_allclose(moments.mean["x"], x.mean(1), rtol=1e-12)
    np.testing.assert_allclose(moments.variance()["x"], x.var(1, ddof=1), rtol=1e-9)
    moments.merge(Sums(0, {}, {}, {}))
    assert moments.count == 1000


def test_save_and_load(tmp_path):
    trace, x = made(stopped=Stop("interrupted", "interrupted at step 5 of 9"), seconds=1.5)
    trace.save(tmp_path / "t")
    trace.save(tmp_path / "t")  # replaces itself
    back = Trace.load(tmp_path / "t")
    np.testing.assert_array_equal(back.posterior["x"].values, x)
    xr.testing.assert_identical(back.posterior.load(), trace.posterior)
    np.testing.assert_array_equal(back.mean["x"], trace.mean["x"])
    assert back.stopped == trace.stopped
    with pytest.raises(FileNotFoundError, match="holds no scirocco run"):
        Trace.load(tmp_path / "nowhere")


def test_save_leaves_other_folders_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FileExistsError, match="is left alone"):
        made()[0].save(tmp_path)
    assert (tmp_path / "thesis.tex").exists()


@pytest.mark.parametrize("place", ["draws", "moments", "description", "rename"])
def test_a_trace_that_cannot_be_saved_leaves_what_was_there(place, tmp_path, monkeypatch):
    """A full disk at any moment: the trace that was saved before is there still, and nothing beside it."""
    before, x = made(seed=1)
    before.save(tmp_path / "t")
    rename = Path.rename

    def full(*given):
        raise OSError(28, "No space left on device")

    def full_at_last(self, target):
        return full() if self.name == "new" else rename(self, target)

    failing = {
        "draws": (ZarrStore, "append", full),
        "moments": (checkpoint, "write", full),
        "description": (checkpoint, "write_json", full),
        "rename": (Path, "rename", full_at_last),  # when the old trace has gone aside
    }
    with monkeypatch.context() as patched:
        patched.setattr(*failing[place])
        for name in ("t", "elsewhere"):
            with pytest.raises(OSError, match="No space left"):
                made(seed=2)[0].save(tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == ["t"]
    np.testing.assert_array_equal(Trace.load(tmp_path / "t").posterior["x"], x)


def test_a_saved_trace_is_not_a_run(tmp_path):
    made()[0].save(tmp_path / "t")
    target = sc.Target(lambda m: 0.0 * m, lambda m, x: -((x - m) ** 2), np.ones(3))
    with pytest.raises(ValueError, match="a saved trace, not a run"):
        sc.resume(tmp_path / "t", target)


def test_the_bias_report_is_saved(tmp_path):
    trace = _gaussian_run(sc.SGLD(2e-4), draws=500)
    trace.save(tmp_path / "t")
    assert str(Trace.load(tmp_path / "t").bias) == str(trace.bias)


@pytest.mark.quick
def test_the_arviz_that_is_installed():
    data = made()[0].to_arviz()
    assert type(data).__name__ == ("InferenceData" if version("arviz").startswith("0.") else "DataTree")
    assert dict(data.posterior.sizes) == {"chain": 4, "draw": 500, "x_dim_0": 2}


@pytest.mark.quick
def test_arviz_1(monkeypatch):
    """ArviZ 1.x needs a newer Python than this suite must run on; its parts, arviz-base and arviz-stats, do not."""
    import arviz_base
    import arviz_stats

    monkeypatch.setattr("importlib.metadata.version", lambda name: "1.2.0")
    trace, _ = made()
    tree = trace.to_arviz()
    assert isinstance(tree, xr.DataTree)
    assert arviz_base.extract(tree).sizes["sample"] == 2000
    table = trace.summary().table
    np.testing.assert_allclose(table["r_hat"], arviz_stats.rhat(tree)["x"].values)
    np.testing.assert_allclose(table["ess_bulk"], arviz_stats.ess(tree)["x"].values)
    np.testing.assert_allclose(table["ess_tail"], arviz_stats.ess(tree, method="tail", prob=(0.05, 0.95))["x"].values)


@pytest.mark.parametrize("draws", [4, 7, 15, 16, 101])
def test_ess_and_r_hat_are_arviz_own_to_the_last_bit(draws):
    import arviz_stats.base

    arviz, x = arviz_stats.base.array_stats, np.random.default_rng(draws).normal(size=(5, draws, 8))
    x[..., 1] = x[..., 1].cumsum(axis=1)
    x[:, 1:, 2] -= 0.9 * x[:, :-1, 2]
    x[..., 3] = np.round(x[..., 3])  # ties
    x[..., 4] = x[..., 4] > 1
    x[0, 0, 5], x[0, 0, 6], x[..., 7] = np.nan, np.inf, 3.0
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "draws has draws that are NaN in 1 of 8 coordinates")
        for method, options in {"bulk": {}, "mean": {}, "median": {}, "sd": {}, "tail": {"prob": (0.05, 0.95)}}.items():
            np.testing.assert_array_equal(ess(x, method), arviz.ess(x, 0, 1, method=method, **options))
        np.testing.assert_array_equal(rhat(x), arviz.rhat(x, 0, 1))
        half = draws // 2
        halves = np.concatenate([x[:1, :half], x[:1, half : 2 * half]])
        np.testing.assert_array_equal(rhat(x[:1]), arviz.rhat(halves, 0, 1))
    with pytest.raises(ValueError, match="method must be one of"):
        ess(x, "best")


def test_summary_of_independent_draws():
    trace, x = made()
    table = trace.summary().table
    assert list(table.index) == ["x[0]", "x[1]"]
    np.testing.assert_allclose(table["mean"], x.mean((0, 1)))
    np.testing.assert_allclose(table["sd"], x.std((0, 1), ddof=1), rtol=1e-3)
    np.testing.assert_allclose(table["mcse"], 1 / np.sqrt(2000), rtol=0.15)
    assert "not available" in str(trace.summary())


def test_r_hat_sees_chains_that_disagree_and_works_for_one_chain():
    _, x = made()
    shifted = Trace({"x": x + 3 * np.arange(4)[:, None, None]}, 500, Moments())
    assert np.all(shifted.summary().table["r_hat"] > 1.5)
    single, _ = made(chains=1)
    assert np.all(np.abs(single.summary().table["r_hat"] - 1) < 0.05)
    drifting = Trace({"x": np.linspace(0, 9, 500)[None, :, None] + x[:1]}, 500, Moments())
    assert np.all(drifting.summary().table["r_hat"] > 1.5)


def test_summaries_of_many_coordinates_are_thinned_and_of_few_draws_modest():
    trace, _ = made(shape=(40, 50), draws=20)
    summary = trace.summary()
    assert len(summary.table) <= 200
    assert "of 2,000 coordinates shown" in str(summary)
    assert "too few for ESS" in str(made(draws=3)[0].summary())
    with pytest.raises(ValueError, match=r"var_names \['z'\] are not in the trace; it has \['x'\]"):
        trace.summary(["z"])


# The bias report against the truth.


def _gaussian_run(sampler, *, draws=4000, size=2000, batch=200, estimator=None, correlated=False, seed=0, **options):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, 3)).astype(np.float32)
    if correlated:
        x[:, 1] = 0.7 * x[:, 0] + np.sqrt(1 - 0.7**2) * x[:, 1]
    y = (x @ np.array([1.0, -1.0, 0.5]) + rng.normal(size=size)).astype(np.float32)
    target = sc.Target(log_prior, regression, (x, y))
    trace = sc.sample(target, sampler, jnp.array([1.0, -1.0, 0.5]), num_samples=draws, burn_in=1000, thin=3, chains=8,
                      batch_size=batch, estimator=estimator, seed=seed, **options)  # fmt: skip
    trace.truth = np.diag(np.linalg.inv(np.eye(3) + x.T.astype(float) @ x))
    return trace


FEW = {"size": 500, "batch": 50}  # the same law in units of the posterior's sd, at a third of the cost
CASES = {
    "SGLD": (sc.SGLD(8e-5), FEW),
    "SGLD, long steps, full batch": (sc.SGLD(3e-4), {"batch": 1.0}),
    "SGLD, correlated": (sc.SGLD(8e-5), FEW | {"correlated": True}),
    "SGLD, independent draws": (sc.SGLD(2e-5), {"batching": sc.batches.WithReplacement()}),
    "PSGLD": (sc.PSGLD(2e-3), {}),
    "Barker": (sc.Barker(2e-5), {}),
    "SGHMC": (sc.SGHMC(2e-3, friction=100.0), {}),
    "SGHMC, control variates": (sc.SGHMC(8e-3, friction=20.0), {"estimator": sc.ControlVariate()}),
    "underdamped Langevin": (sc.UnderdampedLangevin(3e-3, friction=100.0), {}),
    "SMSUBU": (sc.SMSUBU(3e-3, friction=100.0), {}),
    "SGNHT, control variates": (sc.SGNHT(1.6e-2, diffusion=10.0), FEW | {"estimator": sc.ControlVariate()}),
}


OFTEN = ("SGLD", "SGLD, correlated", "SGNHT, control variates")


@pytest.mark.parametrize("name", [c if c in OFTEN else pytest.param(c, marks=pytest.mark.slow) for c in CASES])
def test_the_report_finds_the_error_of_the_sd(name):
    """Linear regression, where the posterior is known: estimated and actual error of the sd, in points."""
    sampler, options = CASES[name]
    trace = _gaussian_run(sampler, **options)
    actual = np.sqrt(trace.variance["theta"] / trace.truth) - 1
    # The actual error has a Monte Carlo error of 1 to 2 points; the estimate is a model, good to a third.
    assert np.all(np.abs(trace.bias.sd_error["theta"] - actual) < 0.03 + 0.34 * np.abs(actual)), (
        f"{name}: estimated {trace.bias.sd_error['theta']}, actual {actual}"
    )


@pytest.mark.parametrize("h", [5e-6, 1e-5, 2e-5])
def test_the_report_is_finite_where_most_of_the_variance_is_noise(h):
    """The curvature that the observed variance alone would tell is badly posed here: two answers, or none."""
    x = np.random.default_rng(0).normal(size=(5000, 2)).astype(np.float32)
    target = sc.Target(log_prior, normal, x)
    trace = sc.sample(
        target, sc.SGLD(h), jnp.zeros(2), num_samples=4000, burn_in=2000, thin=3, batch_size=50, progress=False
    )
    actual = np.sqrt(trace.variance["theta"] * 5001) - 1
    assert np.all(actual > 0.2)
    assert np.all(np.abs(trace.bias.sd_error["theta"] - actual) < 0.03 + 0.34 * actual)
    assert trace.verdict().kind == "do not use it"


def test_the_report_warns_and_does_not():
    bad = _gaussian_run(sc.SGLD(1e-4), batch=20, draws=500)
    assert not bad.bias.accurate
    assert not bad.verdict().good
    assert "noise from minibatches: 9" in str(bad.summary())
    good = _gaussian_run(sc.SGLD(2e-5), estimator=sc.ControlVariate(), draws=500)
    assert good.bias.accurate
    assert "bias of posterior sds at most" in str(good.summary())


@pytest.mark.parametrize("scaled", [False, True])
def test_the_report_sees_a_direction_in_which_the_step_is_too_long(scaled):
    """Columns that nearly agree: SGLD's law is a sum over eigenvectors, each with a factor 1/(1 - h lambda/2)."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(1000, 4)) + 3 * rng.normal(size=(1000, 1))).astype(np.float32)
    y = (x.sum(axis=1) + rng.normal(size=1000)).astype(np.float32)
    target = sc.Target(log_prior, regression, (x, y))
    precision = np.eye(4) + x.T.astype(float) @ x
    part = rng.normal(size=(4, 4))
    scale = Scale(np.array([0.01, 0.02, 0.01, 0.03]), part @ part.T / 8 + np.eye(4)) if scaled else Scale(np.ones(4))
    factor = scale.diagonal[:, None] * (np.eye(4) if scale.matrix is None else scale.matrix)
    curvatures, vectors = np.linalg.eigh(factor.T @ precision @ factor)
    h = 1.96 / curvatures[-1]
    law = np.sum((factor @ vectors) ** 2 / (curvatures * (1 - h * curvatures / 2)), axis=1)
    actual = np.sqrt(law / np.diag(np.linalg.inv(precision))) - 1
    assert np.max(actual) > 0.15

    sampler = Preconditioned(sc.SGLD(h), scale) if scaled else sc.SGLD(h)
    trace = sc.sample(
        target, sampler, jnp.ones(4), num_samples=5000, burn_in=500, thin=10, chains=4, batch_size=1.0, progress=False
    )
    np.testing.assert_allclose(trace.bias.sd_error["theta"], actual, atol=0.03)
    assert trace.bias.stiffest_error == pytest.approx(1 / np.sqrt(1 - 1.96 / 2) - 1, rel=0.01)
    assert trace.bias.widest == pytest.approx(50, abs=4.5 * trace.bias.widest_error)  # 1/(1 - 1.96/2)
    assert [error > 3 for _, error in trace.bias.combinations_off] == [True]
    assert trace.verdict().kind == "do not use it"


def test_the_report_names_an_unstable_step():
    """Logistic regression flattens far out: chains that no Gaussian would hold stay, and are too wide."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(1000, 2)) + 2 * rng.normal(size=(1000, 1))).astype(np.float32)
    y = (rng.random(1000) < 0.5).astype(np.float32)
    target = sc.Target(
        lambda w: -0.5 * jnp.sum(w**2), lambda w, r: r[1] * (r[0] @ w) - jax.nn.softplus(r[0] @ w), (x, y)
    )
    largest = np.linalg.eigvalsh(np.eye(2) + x.T @ x / 4)[-1]
    trace = sc.sample(
        target, sc.SGLD(2.3 / largest), jnp.zeros(2), num_samples=2000, burn_in=500, batch_size=1.0, progress=False
    )
    assert not trace.bias.stable
    assert trace.verdict().kind == "do not use it"
    assert "the step is UNSTABLE in the combination of parameters with the largest curvature" in str(trace.bias)
    assert 'step_size="auto"' in trace.verdict().action


@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 2))])
def test_small_minibatches_are_not_mistaken_for_an_unstable_step(seed):
    """2,000 minibatches an epoch: the noise of one gradient is 45 times the gradient of a typical draw."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=20_000).astype(np.float32)
    target = sc.Target(lambda m: 0.0 * m, lambda m, x: -0.5 * (x - m) ** 2, x)
    trace = sc.sample(
        target, sc.SGLD(1e-8), jnp.array(x.mean()), num_samples=2000, burn_in=0, thin=20, batch_size=10, seed=seed,
        progress=False,
    )  # fmt: skip
    assert trace.bias.stable
    # The noise of an epoch sums to zero, and the chain forgets less than half of itself in one.
    noise = 20_000**2 / 10 * (1 - 10 / 20_000) * x.var(ddof=1)
    law = euler_variance(np.array(2e4), np.array(noise), np.array(1e-8), 1.0, epoch=2000.0)
    assert trace.bias.stiffest_error == pytest.approx(float(np.sqrt(law * 2e4) - 1), rel=0.3)


@pytest.mark.parametrize(
    "sampler",
    [
        sc.UnderdampedLangevin({"a": 1.0, "b": 0.01}, friction=1.0),
        sc.UnderdampedLangevin(0.5, friction={"a": 0.1, "b": 10.0}),
    ],
    ids=["step sizes", "frictions"],
)
def test_the_report_follows_step_sizes_and_frictions_of_single_parameters(sampler):
    """BAOAB has no error on a Gaussian, whatever the friction, up to h^2 lambda = 4."""
    precision = {"a": 0.5, "b": 500.0} if isinstance(sampler.step_size, dict) else {"a": 4.0, "b": 4.0}
    target = sc.Target(
        lambda p: -0.5 * sum(precision[name] * p[name] ** 2 for name in p), lambda p, x: 0.0 * x, np.ones(4)
    )
    start = {"a": jnp.zeros(()), "b": jnp.zeros(())}
    trace = sc.sample(target, sampler, start, num_samples=2000, burn_in=200, thin=5, batch_size=1.0, progress=False)
    assert trace.bias.accurate
    assert abs(trace.bias.stiffest_error) < 0.01


def test_the_share_of_minibatch_noise():
    """h V / (h V + 2 T) with V known for the mean of a normal."""
    x = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    target = sc.Target(lambda m: -0.5 * m**2, lambda m, x: -0.5 * (x - m) ** 2, x)
    trace = sc.sample(target, sc.SGLD(1e-4), jnp.array(0.0), num_samples=500, burn_in=500, batch_size=50, chains=8)
    v = 1000**2 / 50 * (1 - 0.05) * x.var(ddof=1)
    assert float(trace.bias.minibatch_share["theta"]) == pytest.approx(1e-4 * v / (1e-4 * v + 2), rel=0.1)


def test_no_report_for_samplers_without_a_known_law():
    target = sc.Target(log_prior, normal, np.ones((50, 2)))
    trace = sc.sample(target, sc.Recipe(1e-3, diffusion=1.0), jnp.zeros(2), num_samples=100, burn_in=10, batch_size=10)
    assert trace.bias is None
    assert jax.tree.leaves(trace.mean)[0].shape == (2,)
