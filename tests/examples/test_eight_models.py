"""The example models: their likelihoods against SciPy's, gradients at the start, and a run of one of them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

PATH = Path(__file__).parents[2] / "examples" / "eight_models.py"
SPEC = importlib.util.spec_from_file_location("eight_models", PATH)
eight = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(eight)
pytest.importorskip("numpyro", reason="the constraint `ordered` is NumPyro's")


def scipys(name, p, r):
    """The log likelihood of rows by SciPy."""
    if name == "hierarchical":
        return stats.bernoulli.logpmf(r["y"], expit(p["alpha"][r["group"]] + r["x"] @ p["beta"]))
    if name == "horseshoe":
        return stats.norm.logpdf(r["y"], r["x"] @ p["beta"], p["sigma"])
    if name == "student_t":
        return stats.t.logpdf(r["y"], p["nu"], r["x"] @ p["beta"], p["sigma"])
    if name == "negative_binomial":
        mean = r["exposure"] * np.exp(p["a"] + r["x"] @ p["beta"])
        return stats.nbinom.logpmf(r["y"], p["phi"], p["phi"] / (p["phi"] + mean))
    if name == "ordered_logit":
        cuts = np.concatenate([[-np.inf], p["cuts"], [np.inf]])
        eta, y = r["x"] @ p["beta"], r["y"]
        return np.log(stats.logistic.cdf(cuts[y + 1] - eta) - stats.logistic.cdf(cuts[y] - eta))
    if name == "weibull":
        law = stats.weibull_min(p["k"], scale=np.exp(p["a"] + r["x"] @ p["beta"]))
        return np.where(r["seen"] == 1, law.logpdf(r["time"]), law.logsf(r["time"]))
    if name == "mixture_of_experts":
        share = expit(p["gate"] * r["x"])
        first, second = (stats.norm.pdf(r["y"], p["a"][k] + p["b"][k] * r["x"], p["s"]) for k in (0, 1))
        return np.log(share * first + (1 - share) * second)
    logit = p["slope"][r["item"]] * (p["ability"][r["person"]] - p["difficulty"][r["item"]])
    return stats.bernoulli.logpmf(r["right"], expit(logit))


@pytest.mark.parametrize("name", eight.MODELS)
def test_a_likelihood_is_scipys(name):
    model = eight.MODELS[name](np.random.default_rng(1), 200)
    rng = np.random.default_rng(2)
    start = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), model.start)
    free = model.target.free()
    place = jax.tree.map(lambda u: u + 0.3 * rng.normal(size=u.shape).astype(np.float32), free.freed(start))
    params = free.to_parameters.parameters(place)
    rows = model.target.source.first(200)
    found = np.asarray(model.target.density.log_likelihoods(params, rows))
    expected = scipys(name, jax.tree.map(np.asarray, params), rows)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)
    free.check(place)  # prior and gradient are finite


def test_one_of_them_runs(capsys):
    eight.main(["--rows", "1500", "--only", "weibull"])
    name, *_, kind = capsys.readouterr().out.split(maxsplit=6)
    assert name == "weibull"
    assert "use it" in kind
