"""How long chains run if nobody says, and whether they are in one mode."""

import signal

import numpy as np
import pytest

import scirocco as sc
from scirocco.counts import settling
from scirocco.counts.settling import Settling
from scirocco.models.dp_mixture import DirichletProcessMixture
from scirocco.models.dp_mixture.agreement import ChainAgreement
from scirocco.models.dp_mixture.draws import MixtureDraws
from scirocco.models.dp_mixture.gibbs import Collapsed
from scirocco.run import group


def answers(rows=120, seed=0):
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.full(3, 1.0), (3, 4))[rng.integers(0, 3, rows)]
    return np.sum(rng.random((rows, 4))[..., None] > np.cumsum(chances, axis=2)[..., :-1], axis=2)


@pytest.fixture
def brief(monkeypatch):
    monkeypatch.setattr(DirichletProcessMixture, "default_passes", 40)


def made(**settings):
    """A prior with which these rows are not settled at once."""
    return sc.DirichletProcessMixture(
        "categorical", base=0.1, n_components_prior="dp", n_draws=20, random_state=0, **settings
    )


def fitted(**settings):
    return made(**settings).fit(answers())


def test_chains_go_on_until_they_agree_on_any_threads(brief):
    alone, together = fitted(n_jobs=1), fitted(n_jobs=2)
    passes = alone.trace_.leaves[0]["passes"], alone.trace_.leaves[1]["passes"]
    assert alone.n_iter_ > 80  # it doubled at least once
    assert passes[0] == pytest.approx(passes[1], abs=1)
    assert "R-hat of the number of clusters and of the log posterior is 1.0" in alone.ended_
    np.testing.assert_array_equal(alone.posterior_["labels"], together.posterior_["labels"])
    given = fitted(max_iter=40)  # the same chains, and no longer
    assert given.n_iter_ < 42
    assert given.ended_.endswith("max_iter")


def test_the_passes_are_bounded(brief, monkeypatch):
    monkeypatch.setattr(settling, "AGREED", 0.0)
    monkeypatch.setattr(settling, "MOST_DOUBLINGS", 1)
    model = fitted()
    assert 80 <= model.n_iter_ < 82
    assert model.ended_.startswith("the fit ended after 80")
    assert [Settling(2, 300, entries).most for entries in (10**6, 2 * 10**5, 10)] == [300, 500, 600]


def test_an_interrupted_fit_makes_the_same_decisions(brief, tmp_path, monkeypatch):
    whole = fitted(n_jobs=1)
    step, calls = Collapsed.step, []

    def interrupting(chain):
        calls.append(1)
        if len(calls) == 300:
            signal.raise_signal(signal.SIGINT)
        step(chain)

    with monkeypatch.context() as changed:
        changed.setattr(Collapsed, "step", interrupting)
        changed.setattr(group, "CHUNK_SECONDS", 1e-6)
        model = made(n_jobs=1)
        with pytest.warns(UserWarning, match="interrupted|before the sampler began"):
            model.fit(answers(), path=tmp_path / "run")
    again = sc.resume(tmp_path / "run", answers())
    assert again.n_iter_ == whole.n_iter_
    np.testing.assert_array_equal(again.posterior_["labels"], whole.posterior_["labels"])


def draws_around(truths, noise=0.3, draws=20, seed=0):
    """Chains around partitions of their own."""
    rng = np.random.default_rng(seed)
    shape = (len(truths), draws, truths[0].size)
    labels = np.where(
        rng.random(shape) < np.reshape(noise, (-1, 1, 1)), rng.integers(0, 3, shape), np.array(truths)[:, None]
    )
    number = np.full(shape[:2], 3.0)
    return MixtureDraws(labels.astype(np.int32), number, number, number, rng.normal(size=shape[:2]), [], [], [], number)


def test_modes_are_told_apart_where_distances_hardly_differ():
    rng = np.random.default_rng(0)
    one = rng.integers(0, 3, 400)
    other = np.where(np.arange(400) < 60, rng.integers(0, 3, 400), one)
    same = ChainAgreement.of(draws_around([one, one, one]), 0)
    assert same.agreed
    assert same.modes.tolist() == [0, 0, 0]
    apart = ChainAgreement.of(draws_around([one, one, other]), 0)
    assert apart.between[0, 2] < 1.2 * apart.within[0]  # by distances alone nobody would see it
    assert apart.modes.tolist() == [0, 0, 1]
    assert not apart.agreed
    assert "are in modes of their own" in str(apart)
    assert list(apart.table()["mode"]) == [0, 0, 1]
    uneven = ChainAgreement.of(draws_around([one, other], noise=[0.2, 0.5]), 0)  # of different spread
    assert uneven.between[0, 1] < uneven.within[1]
    assert uneven.modes.tolist() == [0, 1]
    found = draws_around([one, one])
    found.log_density[0] += 5.0
    assert "are in one mode, but have not mixed" in str(ChainAgreement.of(found, 0))
