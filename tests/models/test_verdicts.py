"""The verdicts of models, shards, and their advice, which names settings that they have."""

from __future__ import annotations

import ast
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.models.base import GradientModel
from scirocco.run.trace_verdict import OF_MODELS
from scirocco.run.verdict import LONGER, Advice, Finding

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = (RNG.random(400) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
COUNTS = np.concatenate([RNG.poisson([3.0, 3, 0.1, 0.1], (60, 4)), RNG.poisson([0.1, 0.1, 3, 3], (60, 4))])


def settings_named(action, model):
    """The settings of a call ``model.set_params(...).fit(X)``; each must be one of the model's."""
    call = ast.parse(action, mode="eval").body
    assert ast.unparse(call).startswith("model.set_params(")
    named = {keyword.arg: keyword.value for keyword in call.func.value.keywords}
    assert set(named) <= set(model.get_params())
    return named


def test_an_ordinary_regression_is_to_be_used():
    model = sc.LogisticRegression(random_state=0).fit(X, Y)
    assert model.verdict().kind == "use it"
    assert str(model.verdict()) == str(model.trace_.verdict())


def test_a_short_fit_is_told_of_settings_that_the_model_has():
    model = sc.LogisticRegression(random_state=0, n_draws=50, burn_in=50).fit(X, Y)
    found = model.verdict()
    assert not found.good
    named = settings_named(found.action, model)
    assert ast.literal_eval(named["thin"]) > 1


def test_every_model_has_the_settings_that_it_may_be_told_to_change():
    found = [getattr(sc, name) for name in sc.__all__]
    models = [kind for kind in found if isinstance(kind, type) and issubclass(kind, GradientModel)]
    assert len(models) > 5
    for kind in models:
        names = kind._get_param_names()
        for name in ("sampler", "chains", "thin", "burn_in", "report"):
            assert OF_MODELS.get(name, name) in names, kind


def test_a_bias_that_was_not_measured_is_measured_next():
    model = sc.LogisticRegression(random_state=0, measure_bias=False).fit(X, Y)
    assert model.verdict().kind == "use means, not intervals"
    assert set(settings_named(model.verdict().action, model)) == {"measure_bias"}


def test_a_model_without_its_trace_knows_nothing(tmp_path):
    model = sc.LogisticRegression(random_state=0, n_draws=50, burn_in=50, measure_bias=False).fit(X, Y)
    model.save(tmp_path / "model")
    assert sc.LogisticRegression.load(tmp_path / "model").verdict().kind == "do not use it"


@pytest.mark.parametrize("make", [lambda **s: sc.LDA(2, **s), sc.DirichletProcessMixture], ids=["topics", "mixture"])
def test_models_of_counts(make):
    alone = make(max_iter=30, n_chains=1, random_state=0).fit(COUNTS)
    assert alone.verdict().kind == "run longer"
    settings_named(alone.verdict().action, alone)
    several = make(max_iter=200, n_chains=3, random_state=0).fit(COUNTS)
    assert several.verdict().kind == "use it", str(several.verdict())
    assert str(several.summary()).startswith("verdict: use it")


def test_longer_is_a_whole_number_of_passes():
    model = sc.LDA(2)
    found = Finding(LONGER, "chains disagree", Advice(factor=4.0))
    model.posterior_, model.n_iter_, model.agreement_ = None, 100.08, SimpleNamespace(findings=lambda: [found])
    assert model.verdict().action == "model.set_params(max_iter=401).fit(X)"


def test_shards():
    data = RNG.normal(size=600).astype(np.float32)
    target = sc.Target(lambda m: -(m**2) / 2, lambda m, x: -((x - m) ** 2) / 2, data)
    found = sc.sample_shards(target, sc.GMC("auto"), jnp.array(0.0), shards=2, num_samples=400, burn_in=100)
    assert found.verdict().kind == "use it", str(found.verdict())
    assert "k-hat" in found.verdict().reasons[0]
