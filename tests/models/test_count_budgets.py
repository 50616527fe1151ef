"""Budgets of models of counts: passes, seconds, both or neither."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

import scirocco as sc
from scirocco.core import clock

COUNTS = np.random.default_rng(0).poisson(0.5, (60, 30)) + np.eye(60, 30, dtype=int)
MODELS = {
    "lda": (lambda **budget: sc.LDA(3, n_jobs=1, random_state=0, n_draws=5, **budget), 100),
    "lda stream": (lambda **budget: sc.LDA(3, sampler="scir", n_jobs=1, random_state=0, n_draws=5, **budget), 100),
    "mixture": (lambda **budget: sc.DirichletProcessMixture(n_jobs=1, random_state=0, n_draws=5, **budget), 300),
    "slices": (
        lambda **budget: sc.DirichletProcessMixture(sampler="slice", n_jobs=1, random_state=0, n_draws=5, **budget),
        300,
    ),
}


@pytest.fixture
def second_by_second(monkeypatch):
    """A clock that goes on by a second whenever it is read."""
    seconds = itertools.count()
    monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=lambda: float(next(seconds))))


@pytest.mark.parametrize("name", MODELS)
def test_a_budget_of_seconds_is_used(second_by_second, name):
    make, default = MODELS[name]
    model = make(max_seconds=3000.0).fit(COUNTS)
    assert model.n_iter_ > 1.2 * default
    assert "max_seconds was used up" in model.ended_
    assert model.ended_ in str(model.summary())
    assert "inf" not in model.trace_.stopped.text
    assert model.posterior_.sizes["draw"] == 5


@pytest.mark.parametrize("name", MODELS)
def test_passes_bind_too(second_by_second, name):
    make, default = MODELS[name]
    model = make(max_seconds=1e9, max_iter=50).fit(COUNTS)
    assert model.n_iter_ == pytest.approx(50, abs=2)
    assert str(model.summary()).count("max_iter") == 1
    brief = make(max_seconds=100.0, max_iter=10**9).fit(COUNTS)
    assert "max_seconds was used up" in brief.ended_
    assert brief.n_iter_ < default


@pytest.mark.parametrize("name", MODELS)
def test_without_a_budget_there_is_a_default(name, tmp_path):
    make, default = MODELS[name]
    model = make().fit(COUNTS)
    assert model.n_iter_ == pytest.approx(default, rel=0.05)
    assert ("the default number" if "lda" in name else "R-hat of the number of clusters") in model.ended_
    model.save(tmp_path / "model")
    assert type(model).load(tmp_path / "model").ended_ == model.ended_


@pytest.mark.parametrize("name", MODELS)
def test_seconds_that_resume_is_given_are_used(name, tmp_path, ticking):
    """They take the place of the default number of passes, as in ``fit``; passes that were asked for bind still."""
    make, default = MODELS[name]
    make().fit(COUNTS, path=tmp_path / "run")
    make(max_iter=20).fit(COUNTS, path=tmp_path / "limited")
    ticking(1.0)
    longer = {"max_seconds": 8000.0, "checkpoint_seconds": 1e9}
    model = sc.resume(tmp_path / "run", COUNTS, **longer)
    assert model.n_iter_ > 1.2 * default
    assert "max_seconds was used up" in model.ended_
    assert model.posterior_.sizes["draw"] == 5
    assert model.max_seconds == 8000.0
    again = sc.resume(tmp_path / "run", COUNTS)  # it is the budget of the run from now on, and used up
    assert again.n_iter_ == model.n_iter_
    assert "max_seconds was used up" in again.ended_
    limited = sc.resume(tmp_path / "limited", COUNTS, **longer)
    assert limited.n_iter_ == pytest.approx(20, abs=2)
    assert "max_iter" in limited.ended_


def test_few_passes_in_the_time_still_give_draws(second_by_second):
    wide = np.zeros((60, 3000), int)
    wide[:, :30] = COUNTS
    model = sc.LDA(3, sampler="collapsed", search_passes=0, max_seconds=60.0, n_jobs=1, random_state=0, n_draws=5)
    model.fit(wide)
    assert model.n_iter_ < 60  # a record costs as much as 6 sweeps or more of so few tokens
    assert model.posterior_.sizes["draw"] == 5


def test_update_has_budgets_of_its_own(second_by_second):
    model = sc.LDA(3, max_iter=10, n_jobs=1, random_state=0).fit(COUNTS)
    assert "the default number" in model.update(COUNTS[:10]).ended_
    assert model.n_iter_ == pytest.approx(20, abs=2)
    assert "max_seconds" in model.update(COUNTS[:10], max_seconds=3000.0).ended_
    assert model.n_iter_ > 25
    assert "max_iter" in model.update(COUNTS[:10], max_iter=3).ended_
