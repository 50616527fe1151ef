"""Tables of several kinds: numbers, counts and categories together, with missing entries."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.metrics import adjusted_rand_score

import scirocco as sc
from scirocco.models.dp_mixture import Gaussian, Mixed

KINDS = {"income": "gaussian", "height": "gaussian", "job": "categorical", "visits": "poisson"}
QUICK = {"max_iter": 60, "n_draws": 20, "random_state": 0}
MEANS, SDS = np.array([[30_000, 1.6], [90_000, 1.7], [30_000, 1.9]]), np.array([8_000, 0.05])


def table(rows=300, seed=0, missing=0.1):
    rng = np.random.default_rng(seed)
    z = rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    numbers = MEANS[z] + SDS * rng.normal(size=(rows, 2))
    jobs = np.array(["farm", "shop", "none"], dtype=object)[
        np.where(rng.random(rows) < 0.8, z, rng.integers(0, 3, rows))
    ]
    found = pd.DataFrame({
        "income": numbers[:, 0], "height": numbers[:, 1], "job": jobs, "visits": rng.poisson([12, 1, 5], (rows, 3))[
            np.arange(rows), z
        ].astype(float),
    })  # fmt: skip
    return found.mask(rng.random(found.shape) < missing), z


@pytest.fixture(scope="module")
def data():
    return table()


@pytest.fixture(scope="module")
def fitted(data):
    return sc.DirichletProcessMixture(KINDS, **QUICK).fit(data[0])


def test_classes_are_found(data, fitted):
    z = data[1]
    assert fitted.n_clusters_ == 3
    assert adjusted_rand_score(z, fitted.labels_) > 0.85
    fresh, truth = table(200, seed=1)
    assert adjusted_rand_score(truth, fitted.predict(fresh)) > 0.85
    np.testing.assert_allclose(fitted.predict_proba(fresh, unseen=True).sum(axis=1), 1)
    assert fitted.membership_.shape == (300, 4)
    shares = fitted.membership(fresh[:20])["probability"].to_numpy().reshape(20, -1)
    np.testing.assert_allclose(shares, fitted.predict_proba(fresh[:20], unseen=True), atol=0.1)


@pytest.mark.parametrize(
    "settings", [{"sampler": "gibbs"}, {"n_components_prior": "dp"}, {"learn_base": True}], ids=str
)
def test_other_samplers_and_priors(data, settings):
    model = sc.DirichletProcessMixture(KINDS, **QUICK, **settings).fit(data[0])
    assert adjusted_rand_score(data[1], model.labels_) > 0.85


def test_units_do_not_matter(data, fitted):
    X = data[0].assign(income=0.001 * data[0]["income"] - 7.0, height=100 * data[0]["height"])
    other = sc.DirichletProcessMixture(KINDS, **QUICK).fit(X)
    assert adjusted_rand_score(other.labels_, fitted.labels_) > 0.97
    change = np.log(0.001) + np.log(100)  # of a density, for rows that have both
    whole = X[["income", "height"]].notna().all(axis=1).to_numpy()
    gap = (fitted.score_samples(data[0]) - other.score_samples(X))[whole]
    assert np.abs(gap - change).mean() < 0.1


def test_scores_are_densities_in_the_units_of_the_table():
    rng = np.random.default_rng(0)
    X = rng.normal([1e4, -3.0], [50.0, 0.01], (400, 2))
    X[rng.random(X.shape) < 0.05] = np.nan
    model = sc.DirichletProcessMixture("gaussian", **QUICK).fit(X)
    exact = np.nansum(norm([1e4, -3.0], [50.0, 0.01]).logpdf(X), axis=1)
    assert model.n_clusters_ == 1
    assert np.abs(model.score_samples(X) - exact).mean() < 0.1
    assert model.score_samples(np.full((1, 2), np.nan))[0] == pytest.approx(0.0)


def test_profiles_have_means_and_sds(data, fitted):
    found = fitted.profiles(10).set_index(["cluster", "feature"])
    z = data[1]
    for cluster in range(3):
        true = np.bincount(z[fitted.labels_ == cluster]).argmax()
        income = found.loc[(cluster, "income")]
        assert income["lower"] < income["mean"] < income["upper"]
        assert abs(income["mean"] - MEANS[true, 0]) < 4 * 8_000 / np.sqrt(np.sum(z == true))
        assert income["sd"] == pytest.approx(8_000, rel=0.35)
        assert income["sd_lower"] < income["sd"] < income["sd_upper"]
        assert np.sign(income["difference"]) == np.sign(income["mean"] - found["mean"][:, "income"].mean())
        visits = found.loc[(cluster, "visits")]
        assert visits["mean"] == pytest.approx([12, 1, 5][true], rel=0.25)
        assert np.isnan(visits["sd"])
        assert np.isnan(income["lift"])
    assert set(found.index.get_level_values("feature")) == {
        "income",
        "height",
        "visits",
        "job=farm",
        "job=shop",
        "job=none",
    }
    first = fitted.profiles(1)["feature"]
    assert set(first) <= {"income", "height", "visits"}  # what tells most
    named = fitted.profiles(10, names=["a", "b", "c", "d"])
    assert set(named["feature"]) == {"a", "b", "d", "c=farm", "c=shop", "c=none"}


def test_files_runs_and_streams(data, fitted, tmp_path):
    X = data[0]
    fitted.save(tmp_path / "model.npz")
    again = sc.DirichletProcessMixture.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.score_samples(X), fitted.score_samples(X))
    np.testing.assert_array_equal(again.membership_, fitted.membership_)
    pd.testing.assert_frame_equal(again.profiles(5), fitted.profiles(5))
    model = sc.DirichletProcessMixture(KINDS, **QUICK).fit(X, path=tmp_path / "run")
    np.testing.assert_array_equal(model.posterior_["labels"], fitted.posterior_["labels"])
    resumed = sc.resume(tmp_path / "run", X)
    np.testing.assert_array_equal(resumed.membership_, fitted.membership_)
    with pytest.raises(ValueError, match="data"):
        sc.resume(tmp_path / "run", X.assign(height=X["height"] + 0.01))
    stream = sc.DirichletProcessMixture(KINDS, random_state=0)
    for part in range(3):
        stream.partial_fit(X[100 * part : 100 * (part + 1)])
    assert adjusted_rand_score(data[1], stream.predict(X)) > 0.8


def test_threads_change_nothing(data, fitted):
    model = sc.DirichletProcessMixture(KINDS, n_jobs=1, **QUICK).fit(data[0])
    np.testing.assert_array_equal(model.membership_, fitted.membership_)


def test_auto_sees_what_columns_are(data):
    X, _ = data
    model = sc.DirichletProcessMixture("auto", **QUICK).fit(X)
    assert model.component_ == "mixed"
    assert model.encoding_.kinds == list(KINDS.values())
    assert "income gaussian, height gaussian, job categorical, visits poisson" in str(model.summary())
    quick = {"max_iter": 2, "n_draws": 1, "random_state": 0}
    numbers = sc.DirichletProcessMixture("auto", **quick).fit(X[["income", "height"]].dropna())
    assert numbers.component_ == "gaussian"
    assert sc.DirichletProcessMixture("auto", **quick).fit(np.arange(-30, 30).reshape(-1, 1)).component_ == "gaussian"
    wide = X.assign(aspect=np.random.default_rng(0).integers(0, 360, 300))  # far from a Poisson law
    assert sc.DirichletProcessMixture("auto", **quick).fit(wide).encoding_.kinds[-1] == "gaussian"
    some = sc.DirichletProcessMixture({"job": "categorical"}, **quick).fit(X)  # the others are looked at
    assert some.encoding_.kinds == list(KINDS.values())
    array = X.to_numpy(dtype=object)
    plain = sc.DirichletProcessMixture({"0": "gaussian", "2": "categorical"}, **quick).fit(array)
    assert plain.encoding_.kinds == list(KINDS.values())
    by_place = sc.DirichletProcessMixture(["gaussian", None, None, "poisson"], **quick).fit(X)
    assert by_place.encoding_.kinds == list(KINDS.values())
    assert "columns: income gaussian, height gaussian, job categorical, visits poisson." in str(by_place.summary())


@pytest.mark.parametrize(
    ("component", "message"),
    [
        ({"age": "gaussian"}, "there is no column 'age'; the columns are income, height, job, visits"),
        ({"income": "normal"}, "'income' must be one of categorical, gaussian, poisson or a Gaussian"),
        ({"job": "gaussian"}, "column job must hold numbers"),
        ({"height": "poisson"}, "column height is 'poisson', that is counts: whole numbers from 0 on; it has 1"),
        ("gaussian", "column job must hold numbers"),
    ],
    ids=str,
)
def test_wrong_columns_are_named(data, component, message):
    with pytest.raises(ValueError, match=message):
        sc.DirichletProcessMixture(component).fit(data[0])


def test_wrong_settings_and_entries_are_named(data):
    with pytest.raises(TypeError, match="must be a dictionary, or a list with one kind for each; got 'gaussian'"):
        Mixed("gaussian")
    with pytest.raises(TypeError, match=r"columns are named by text, numbers too \('0'\); got 0"):
        Mixed({0: "gaussian"})
    with pytest.raises(ValueError, match="one kind for each of 4 columns; got 2"):
        sc.DirichletProcessMixture(["gaussian", None]).fit(data[0])
    with pytest.raises(ValueError, match="strength must"):
        Gaussian(strength=-1.0)
    bad = data[0].assign(income=data[0]["income"].where(data[0].index != 3, np.inf))
    with pytest.raises(ValueError, match="column income must hold finite numbers"):
        sc.DirichletProcessMixture(KINDS).fit(bad)
    with pytest.raises(ValueError, match="column income has no entry"):
        sc.DirichletProcessMixture(KINDS).fit(data[0].assign(income=np.nan))
    with pytest.raises(ValueError, match="multinomial rows only"):
        sc.DirichletProcessMixture("gaussian", sampler="slice", n_components_prior="dp").fit(np.arange(30.0)[:, None])
    with pytest.raises(ValueError, match="component 'gaussian' has none here"):
        sc.DirichletProcessMixture("gaussian", learn_base=True).fit(np.arange(60.0).reshape(30, 2))


def test_effects_of_covariates():
    """Classes that overlap, whose shares depend on a group and on age: truth is inside, and nothing is attenuated."""
    rng, inside, slopes = np.random.default_rng(5), [], []
    for seed in range(6):
        rows = 600
        group, age = rng.integers(0, 2, rows), rng.normal(size=rows)
        z = (rng.random(rows) < 0.3 + 0.3 * group).astype(int)
        X = rng.normal(size=(rows, 3)) + 1.5 * z[:, None]
        model = sc.DirichletProcessMixture("gaussian", max_iter=80, n_draws=40, random_state=seed).fit(X)
        if model.n_clusters_ != 2:
            continue
        who = np.argmax([np.mean(z[model.labels_ == k]) for k in range(2)])  # the cluster of the class
        found = model.effects(pd.DataFrame({"group": group, "age": age})).table(0.9)
        assert list(found.index.names) == ["cluster", "covariate"]
        yes, nothing = found.loc[(who, "group")], found.loc[(who, "age")]
        slopes.append(yes["mean"])
        inside += [yes["lower"] < 0.3 < yes["upper"], nothing["lower"] < 0 < nothing["upper"]]
        np.testing.assert_allclose(found["mean"].unstack()["group"].sum(), 0, atol=1e-6)
    assert len(slopes) >= 4
    assert np.mean(inside) > 0.7
    assert np.mean(slopes) == pytest.approx(0.3, abs=0.06)
    fresh = model.effects({"group": group[:200]}, X[:200]).table()
    assert fresh.loc[(who, "group"), "positive"] > 0.9
    with pytest.raises(ValueError, match="a row for each of 600 rows; got 3"):
        model.effects({"group": [0, 1, 0]})


def test_modes_are_read_one_by_one(data, monkeypatch):
    """Chains that never leave where they start: the summary leads to what each mode says."""
    from scirocco.models.dp_mixture import gibbs

    monkeypatch.setattr(gibbs.Collapsed, "sweep", lambda self, begin, end: None)
    X, z = data
    settings = {"search": False, "split_merge": False, "max_iter": 20, "n_draws": 10, "random_state": 0}
    good = sc.DirichletProcessMixture(KINDS, start=z, **settings).fit(X)
    bad = sc.DirichletProcessMixture(KINDS, start=np.arange(300) % 2, **settings).fit(X)
    model, draws = good, good._found
    joined = {
        name: np.concatenate([getattr(draws, name)[:1], getattr(bad._found, name)[1:]])
        for name in ("labels", "number", "concentration", "base", "log_density", "columns")
    }
    ragged = {name: [getattr(draws, name)[0], getattr(bad._found, name)[1]] for name in ("sizes", "counts", "moments")}
    model._keep(type(draws)(**joined, **ragged))
    said = str(model.summary())
    assert "2 chains are in modes of their own" in said
    assert "What is shown mixes 2 modes (agreement_.table()): mode_scores(X) says" in said
    scores = model.mode_scores(X)
    assert scores.loc[0, "score"] > scores.loc[1, "score"]
    alone = model.of_mode(0)
    assert alone.n_clusters_ == 3
    assert adjusted_rand_score(alone.labels_, z) == 1.0
    assert adjusted_rand_score(model.of_mode(1).labels_, z) < 0.1
    assert set(alone.profiles(1)["cluster"]) == {0, 1, 2}
    with pytest.raises(ValueError, match="mode must be one of 0 to 1; got 2"):
        model.of_mode(2)
