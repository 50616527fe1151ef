"""The discrepancy of a run from its target."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.diagnostics import ksd, trace_ksd

X = np.random.default_rng(0).normal(1.0, 1.0, (300, 2)).astype(np.float32)
TARGET = sc.Target(
    lambda p: -0.5 * jnp.sum(p["m"] ** 2) - 0.5 * p["c"] ** 2,
    lambda p, x: -0.5 * jnp.sum((x - p["m"] - p["c"]) ** 2),
    X,
)
START = {"m": jnp.zeros(2), "c": jnp.zeros(())}
SETTINGS = {"num_samples": 500, "burn_in": 500, "thin": 10, "chains": 2, "report": False}


@pytest.fixture(scope="module")
def good():
    return sc.sample(TARGET, sc.SGLD(1e-4), START, batch_size=1.0, **SETTINGS)


def test_scores_are_those_of_the_posterior(good):
    """Against the closed form: grad log p = sum x - N (m + c) - m, and the same summed for c."""
    draws = {n: good.posterior[n].values.reshape(-1, *good.posterior[n].shape[2:]).astype(float) for n in ("c", "m")}
    residual = X.astype(float).sum(0) - 300 * (draws["m"] + draws["c"][:, None])
    samples = np.column_stack([draws["c"], draws["m"]])
    scores = np.column_stack([residual.sum(1) - draws["c"], residual - draws["m"]])
    assert trace_ksd(good, TARGET) == pytest.approx(ksd(samples, scores), rel=1e-3)


@pytest.fixture(scope="module")
def bad():
    return sc.sample(TARGET, sc.SGLD(1e-4, temperature=4.0), START, batch_size=1.0, **SETTINGS)


def test_a_bad_run_is_further_away(good, bad):
    assert trace_ksd(bad, TARGET) > 2 * trace_ksd(good, TARGET)


def test_minibatch_scores_tell_the_same_difference(good, bad):
    assert trace_ksd(bad, TARGET, batch_size=100) > 2 * abs(trace_ksd(good, TARGET, batch_size=100))


def test_wrong_traces(good):
    partial = sc.sample(TARGET, sc.SGLD(1e-4), START, collect=lambda p: p["m"], **{**SETTINGS, "num_samples": 10})
    with pytest.raises(ValueError, match="must hold all parameters"):
        trace_ksd(partial, TARGET)
    with pytest.raises(ValueError, match="structure of its parameters"):
        trace_ksd(sc.Trace({}, 0, good.moments), TARGET)
