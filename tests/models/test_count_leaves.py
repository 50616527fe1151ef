"""What models of counts need of their chains after the run comes with the trace, and asking for it changes nothing."""

import warnings

import numpy as np
import pytest

import scirocco as sc
from scirocco.counts.passes import PassEngine
from scirocco.models.dp_mixture.engine import MixtureEngine
from scirocco.models.lda.engine import TopicEngine

RATES = np.r_[np.full(20, 0.5), np.full(180, 0.005)]  # rare words wait for a minibatch that has them
COUNTS = np.random.default_rng(0).poisson(RATES, (300, 200)) + np.eye(300, 200, dtype=int)
COMMON = {"n_jobs": 1, "random_state": 0, "n_draws": 4}
MODELS = {
    "collapsed": lambda **run: sc.LDA(3, sampler="collapsed", learn_alpha=True, n_chains=2, **COMMON, **run),
    "gibbs": lambda **run: sc.LDA(3, sampler="gibbs", **COMMON, **run),
    "scir": lambda **run: sc.LDA(3, sampler="scir", batch_size=50, **COMMON, **run),
    "scir_cv": lambda **run: sc.LDA(3, sampler="scir_cv", batch_size=50, **COMMON, **run),
    "mixture": lambda **run: sc.DirichletProcessMixture(**COMMON, **run),
    "sticks": lambda **run: sc.DirichletProcessMixture(sampler="scir", **COMMON, **run),
}


@pytest.fixture
def asked(monkeypatch):
    """The arrays of every chain before and after it was asked."""
    states = []

    def wrapped(leaves):
        def ask(engine: PassEngine):
            before = {name: np.copy(array) for name, array in engine.pack().items()}
            found = leaves(engine)
            states.append((before, engine.pack()))
            return found

        return ask

    for kind in (TopicEngine, MixtureEngine):
        monkeypatch.setattr(kind, "leaves", wrapped(kind.leaves))
    return states


@pytest.mark.parametrize("budget", [{"max_iter": 20}, {"max_seconds": 1e-9}])
@pytest.mark.parametrize("name", MODELS)
def test_asking_changes_no_chain(asked, name, budget):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of topics that are none, and of a fit that has no time
        model = MODELS[name](**budget).fit(COUNTS)
    assert len(asked) == model.n_chains
    for before, after in asked:
        assert before.keys() == after.keys()
        for key, array in before.items():
            np.testing.assert_array_equal(array, after[key], err_msg=key)


@pytest.mark.parametrize("budget", [{"max_iter": 20}, {"max_seconds": 1e-9}])
@pytest.mark.parametrize("name", MODELS)
def test_a_run_on_disk_gives_the_model_of_one_in_memory(name, budget, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, other = MODELS[name](**budget).fit(COUNTS), MODELS[name](**budget).fit(COUNTS, path=tmp_path / "run")
    assert model.posterior_.equals(other.posterior_)
    assert model.n_iter_ == other.n_iter_
    assert model.score(COUNTS) == other.score(COUNTS)
    if isinstance(model, sc.LDA):
        for attribute in ("components_", "alpha_", "beta_"):
            np.testing.assert_array_equal(getattr(model, attribute), getattr(other, attribute))
        assert (model._assigned is None) == (other._assigned is None)
    if name == "collapsed" and "max_iter" in budget:
        first, second = (fitted.update(COUNTS[:5], max_iter=2) for fitted in (model, other))
        assert first.posterior_.equals(second.posterior_)
