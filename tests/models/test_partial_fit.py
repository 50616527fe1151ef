"""Rows that join a model: the posterior is that of all rows, components and users keep their places, wrong rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import scirocco as sc
from scirocco.core.keys import as_key
from scirocco.core.seeds import Purpose, key_words
from scirocco.models.base import GradientModel

ONE = {"n_draws": 20, "burn_in": 20, "thin": 1, "n_chains": 1, "measure_bias": False, "random_state": 0}
MODELS = {
    "logistic": lambda: sc.LogisticRegression(sampler=sc.SGLD(1e-3), **ONE),
    "mixture": lambda: sc.GaussianMixture(2, sampler=sc.SGLD(1e-4), **ONE),
    "directions": lambda: sc.VonMisesFisherMixture(2, normalize=True, sampler=sc.SGGMC(1e-3), **ONE),
    "ratings": lambda: sc.MatrixFactorization(2, **ONE),
}


def rows_of(name, size, seed=0):
    rng = np.random.default_rng(seed)
    if name == "ratings":
        return rng.integers(5, size=(size, 2)), rng.normal(3.0, 1.0, size).astype(np.float32)
    x = rng.normal(size=(size, 3)).astype(np.float32 if name == "logistic" else np.float64)
    return x, (x[:, 0] > 0).astype(int)


def apart(one, other, names):
    """Differences of posterior means in sds, and ratios of sds."""
    a, b = one.posterior_[names], other.posterior_[names]
    sd = b.std(("chain", "draw"))
    means = (a.mean(("chain", "draw")) - b.mean(("chain", "draw"))) / sd
    ratios = a.std(("chain", "draw")) / sd
    return (np.concatenate([np.ravel(v) for v in found.data_vars.values()]) for found in (means, ratios))


def test_rows_join_a_mixture():
    """The new rows are all of one component: centre and spread of the columns change, and the weights most."""
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1, 1], [150, 100, 250])
    X = np.array([[0.0, 50.0], [8.0, 0.0]])[labels] + [1.0, 6.0] * rng.normal(size=(len(labels), 2))
    steps = {"means": 0.012, "scales": 0.035, "weights": 0.045}  # about 0.6 posterior sds each
    settings = {
        "sampler": sc.GMC(steps, leapfrog_steps=5), "batch_size": 1.0, "n_draws": 300, "burn_in": 50, "thin": 1,
        "random_state": 0, "measure_bias": False,
    }  # fmt: skip
    whole = sc.GaussianMixture(2, **settings).fit(X)
    parts = sc.GaussianMixture(2, **settings).fit(X[:250])
    before = parts.means_
    assert parts.partial_fit(X[250:]) is parts
    assert parts.trace_.description.parts.near
    assert np.all(np.abs(parts.means_ - before) < [1.0, 6.0])  # they stand eight sds apart
    if abs(whole.means_[0, 0] - parts.means_[0, 0]) > 1:
        whole.posterior_ = whole.posterior_.isel(component=[1, 0])
    means, ratios = apart(parts, whole, ["weights", "means", "scales"])
    assert np.max(np.abs(means)) < 0.2  # of two times 1,200 draws
    assert np.all(np.abs(ratios - 1) < 0.15)


def test_rows_join_a_mixture_of_directions():
    """The second component becomes the largest, and stays the second."""
    rng = np.random.default_rng(2)
    which = np.repeat([0, 1, 0, 1], [200, 100, 50, 350])
    X = sc.directional.sample(rng, np.eye(3)[which], 10.0)
    settings = {"n_draws": 500, "random_state": 0, "measure_bias": False}
    whole = sc.VonMisesFisherMixture(2, **settings).fit(X)
    parts = sc.VonMisesFisherMixture(2, **settings).fit(X[:300])
    assert parts.weights_[0] > 0.6
    parts.partial_fit(X[300:])
    assert parts.trace_.description.parts.near
    assert parts.weights_[0] < 0.4
    np.testing.assert_allclose(np.diag(parts.means_[:, :2]), 1, atol=0.02)
    whole.posterior_ = whole.posterior_.isel(component=[1, 0])
    means, ratios = apart(parts, whole, ["weights", "means", "concentrations"])
    assert np.max(np.abs(means)) < 0.25
    assert np.all(np.abs(ratios - 1) < 0.2)


def test_ratings_join_with_new_users_and_items():
    rng = np.random.default_rng(3)
    p, q = rng.normal(size=(30, 2)), rng.normal(size=(20, 2))
    pairs = np.stack([rng.integers(30, size=2500), rng.integers(20, size=2500)], axis=1)
    y = 3 + 0.5 * np.sum(p[pairs[:, 0]] * q[pairs[:, 1]], axis=1) + 0.3 * rng.normal(size=2500)
    old = (pairs[:, 0] < 25) & (pairs[:, 1] < 17)
    settings = {
        "noise_precision": 10.0, "precision_rate": 1.0, "n_chains": 2, "burn_in": 1500, "thin": 10, "batch_size": 300,
        "random_state": 0, "measure_bias": False,
    }  # fmt: skip
    whole = sc.MatrixFactorization(2, **settings).fit(pairs, y)
    parts = sc.MatrixFactorization(2, **settings).fit(pairs[old], y[old])
    assert (parts.n_users_, parts.n_items_) == (25, 17)
    parts.partial_fit(pairs[~old], y[~old])
    assert (parts.n_users_, parts.n_items_) == (30, 20)
    assert parts.seen_users_.all()
    assert parts.trace_.description.parts.near
    assert parts.mean_ == pytest.approx(y.mean(), abs=1e-5)
    everyone = np.stack(np.meshgrid(np.arange(30), np.arange(20)), -1).reshape(-1, 2)
    (ours, sd), theirs = parts.predict(everyone, return_std=True), whole.predict(everyone)
    unknown = np.sqrt(sd**2 - 0.1)  # the sd of the expected rating
    assert np.sqrt(np.mean(((ours - theirs) / unknown) ** 2)) < 0.25


def test_known_users_begin_where_their_chain_was():
    pairs, y = rows_of("ratings", 40)
    model = sc.MatrixFactorization(2, **{**ONE, "n_chains": 2}).fit(pairs, y)
    last = model.posterior_.isel(draw=-1)
    model.n_users_ = 7
    for chain in (0, 1):
        key = as_key(key_words(0, Purpose.CHAIN_START, chain))
        start, fresh = model._earlier(0, 0.5)(key), model.initial(key)
        for name in ("user_factors", "user_biases"):
            shift = 0.5 if name == "user_biases" else 0.0
            np.testing.assert_allclose(start[name][:5], last[name].values[chain] + shift, rtol=1e-6)
            np.testing.assert_array_equal(start[name][5:], fresh[name][5:])
        np.testing.assert_array_equal(start["precisions"], last["precisions"].values[chain])


@pytest.mark.parametrize("name", MODELS)
def test_the_first_rows_are_a_fit_and_one_array_serves_all(name):
    x, y = rows_of(name, 40)
    fitted = MODELS[name]().fit(x, y)
    model, kept = MODELS[name]().partial_fit(x, y), x.copy()
    assert model.posterior_.identical(fitted.posterior_)
    x[:], y[:] = rows_of(name, 40, seed=1)
    model.partial_fit(x, y)
    both = [model._look_at(some, y, reset=False)[0] for some in (kept, x)]
    np.testing.assert_array_equal(model._kept[0], np.concatenate(both))
    if np.shares_memory(fitted._kept[0], x):
        with pytest.raises(ValueError, match="have changed in place"):
            fitted.partial_fit(x, y)


@pytest.mark.parametrize("name", MODELS)
def test_rows_that_cannot_join(name, tmp_path):
    x, y = rows_of(name, 40)
    model = MODELS[name]().fit(x, y)
    words = "two columns, user and item; got 1" if name == "ratings" else "X has 2 features, but .* is expecting 3"
    with pytest.raises(ValueError, match=words):
        model.partial_fit(x[:, :-1], y)
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="a model that was loaded has no rows"):
        type(model).load(tmp_path / "model").partial_fit(x, y)
    if name != "ratings":
        frame = pd.DataFrame(x, columns=["a", "b", "c"])
        named = MODELS[name]().partial_fit(frame, y)
        with pytest.raises(ValueError, match="feature names should match"):
            named.partial_fit(frame.rename(columns={"c": "d"}), y)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_whose_rows_could_not_join_is_as_it_was(name, monkeypatch):
    x, y = rows_of(name, 40)
    model = MODELS[name]().fit(x, y)
    before = model.predict(x)

    def fails(self, *arguments, **settings):
        raise FloatingPointError("the chain went to infinity")

    monkeypatch.setattr(GradientModel, "_sample", fails)
    with pytest.raises(FloatingPointError):
        model.partial_fit(2 * x if name == "ratings" else x, y)
    assert len(model._kept[0]) == 40
    np.testing.assert_array_equal(model.predict(x), before)


@pytest.mark.parametrize("name", ["mixture", "directions", "ratings"])
def test_with_other_settings_the_fit_begins_anew(name):
    x, y = rows_of(name, 40)
    model = MODELS[name]().fit(x, y)
    model.set_params(**{"n_factors" if name == "ratings" else "n_components": 3}).partial_fit(x, y)
    assert not model.trace_.description.parts.near
    assert model.posterior_.sizes["draw"] == 20
