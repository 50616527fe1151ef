"""Predictions from draws: against formulas, in pieces, from disk; and whether their intervals cover."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import scirocco as sc
from scirocco.diagnostics import check_predictions, expected_calibration_error
from scirocco.postprocess import predictions

RNG = np.random.default_rng(0)
N = 400
X = RNG.normal(size=(N, 2)).astype(np.float32)
Y = (X @ [1.0, -0.5] + 0.7 * RNG.normal(size=N)).astype(np.float32)


def log_prior(p):
    return -jnp.sum(p["beta"] ** 2) / 2 - p["sigma"]


def log_likelihood(p, row):
    return -jnp.log(p["sigma"]) - ((row["y"] - row["x"] @ p["beta"]) / p["sigma"]) ** 2 / 2


TARGET = sc.Target(log_prior, log_likelihood, {"x": X, "y": Y}, constraints={"sigma": sc.constraints.positive})


def mean(p, row):
    return row["x"] @ p["beta"]


def outcome(key, p, row):
    return row["x"] @ p["beta"] + p["sigma"] * jax.random.normal(key)


@pytest.fixture(scope="module")
def trace():
    start = {"beta": jnp.zeros(2), "sigma": jnp.array(1.0)}
    return sc.sample(TARGET, sc.UnderdampedLangevin("auto"), start, batch_size=100, num_samples=500, progress=False)


def test_a_prediction_is_that_of_the_draws(trace, monkeypatch, tmp_path):
    beta = trace.posterior["beta"].values.reshape(-1, 2)
    exact = beta @ X.T
    found = trace.predict(mean, {"x": X}, draws=None, quantiles=(0.1, 0.9))
    np.testing.assert_allclose(found.mean, exact.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(found.sd, exact.std(axis=0), atol=1e-4)
    np.testing.assert_allclose(found.quantiles[0.9], np.quantile(exact, 0.9, axis=0), atol=1e-3)
    assert list(found.to_frame().columns) == ["mean", "sd", "10%", "90%"]
    monkeypatch.setattr(predictions, "PIECE_BYTES", 4 * 2000 * 7)  # seven rows at a time
    np.save(tmp_path / "x.npy", X)
    again = trace.predict(mean, {"x": np.load(tmp_path / "x.npy", mmap_mode="r")}, draws=None, quantiles=(0.1, 0.9))
    np.testing.assert_allclose(again.mean, found.mean, atol=1e-6)
    few = trace.predict(mean, {"x": X}, draws=100, keep=True)
    assert few.draws.shape == (100, N)


def test_simulated_outcomes_do_not_depend_on_pieces(trace, monkeypatch):
    whole = trace.posterior_predictive(outcome, {"x": X}, draws=50, keep=True)
    monkeypatch.setattr(predictions, "PIECE_BYTES", 4 * 50 * 30)
    parts = trace.posterior_predictive(outcome, {"x": X}, draws=50, keep=True)
    np.testing.assert_allclose(whole.draws, parts.draws, rtol=1e-5, atol=1e-5)
    other = trace.posterior_predictive(outcome, {"x": X}, draws=50, keep=True, seed=1)
    assert not np.allclose(whole.draws, other.draws)


def test_intervals_of_new_rows_cover(trace):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4000, 2)).astype(np.float32)
    sigma = float(trace.mean["sigma"])
    y = x @ trace.mean["beta"] + sigma * rng.normal(size=4000)  # as if the posterior mean were the truth
    found = check_predictions(trace.posterior_predictive(outcome, {"x": x}, keep=True).draws, y)
    assert found.calibrated, str(found)
    assert "90%" in found.table().index
    assert found.table().loc["90%", "width"] == pytest.approx(2 * 1.645 * sigma, rel=0.05)
    narrow = check_predictions(trace.predict(mean, {"x": x}, keep=True).draws, y)  # of the mean alone
    assert not narrow.calibrated
    assert narrow.crps > found.crps


def test_the_score_of_a_normal_law():
    """CRPS of N(0, 1) at y: y (2 Phi(y) - 1) + 2 phi(y) - 1 / sqrt(pi)."""
    y = np.array([-1.0, 0.0, 2.0])
    draws = np.repeat(stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)[:, None], 3, axis=1)
    exact = y * (2 * stats.norm.cdf(y) - 1) + 2 * stats.norm.pdf(y) - 1 / np.sqrt(np.pi)
    assert check_predictions(draws, y).crps == pytest.approx(exact.mean(), abs=1e-3)


def test_log_likelihoods_of_rows(trace):
    found = trace.log_likelihood(TARGET)
    assert found.dims == ("chain", "draw", "row")
    beta, sigma = trace.posterior["beta"].values[1, 3], float(trace.posterior["sigma"].values[1, 3])
    expected = -np.log(sigma) - ((Y[7] - X[7] @ beta) / sigma) ** 2 / 2
    assert float(found[1, 3, 7]) == pytest.approx(expected, rel=1e-4)
    some = trace.log_likelihood(TARGET, rows=[7, 300])
    np.testing.assert_allclose(some.values, found.sel(row=[7, 300]).values, rtol=1e-5)
    arviz = trace.to_arviz(log_likelihood=TARGET)
    assert arviz["log_likelihood"]["row_likelihood"].sizes["row"] == N


def test_arviz_leaves_one_out(trace):
    az = pytest.importorskip("arviz_stats", reason="its loo is what is tried")
    import xarray as xr

    tree = xr.DataTree.from_dict(
        {"posterior": trace.posterior, "log_likelihood": trace.log_likelihood(TARGET).to_dataset(name="y")}
    )
    found = az.loo(tree)
    assert 2 < found.p < 5  # three parameters


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda t: t.predict(3, {"x": X}), TypeError, "must be a function"),
        (lambda t: t.predict(mean, {"x": X}, quantiles=(5, 95)), ValueError, "quantiles must lie between 0 and 1"),
        (lambda t: t.predict(mean, {"x": X}, draws=0), ValueError, "draws"),
        (lambda t: t.predict(lambda p, row: (1.0, 2.0), {"x": X}), TypeError, "one array for a row"),
        (lambda t: t.log_likelihood(3), TypeError, "target"),
        (lambda t: check_predictions(X, Y[:3]), ValueError, r"\(draw, row\)"),
        (lambda t: expected_calibration_error([[0.5, 0.6]], [0]), ValueError, "sum to 1"),
    ],
)
def test_wrong_input(trace, call, error, words):
    with pytest.raises(error, match=words):
        call(trace)


def test_draws_of_something_else_predict_nothing():
    start = {"beta": jnp.zeros(2), "sigma": jnp.array(1.0)}
    other = sc.sample(
        TARGET, sc.SGLD(1e-4), start, num_samples=5, burn_in=0, batch_size=50, collect=lambda p: {"s": p["sigma"]},
        progress=False, report=False,
    )  # fmt: skip
    with pytest.raises(ValueError, match="draws of beta, sigma were not stored"):
        other.predict(mean, {"x": X})
