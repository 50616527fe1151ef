"""What a table looks like, and names in what is read off a fit."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

import scirocco as sc
from scirocco.models.dp_mixture.skewed import wants_logarithms

QUICK = {"max_iter": 40, "n_draws": 10, "random_state": 0}


def likert(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, rows)
    return np.where(rng.random((rows, 6)) < 0.8, 1 + 4 * z[:, None], rng.integers(1, 6, (rows, 6))), z


def test_codes_of_answers_are_not_counts():
    codes, z = likert()
    with pytest.warns(UserWarning, match="from 1 to 5 and no 0, as codes of answers have.*component='categorical'"):
        sc.DirichletProcessMixture("multinomial", **QUICK).fit(codes)
    model = sc.DirichletProcessMixture("auto", **QUICK).fit(codes)
    assert model.component_ == "categorical"
    assert adjusted_rand_score(z, model.labels_) > 0.95
    assert "component: categorical, since it holds whole numbers from 1 to 5, and no 0." in str(model.summary())
    sc.DirichletProcessMixture(**QUICK).fit(codes - 1)  # with zeros they may be counts


@pytest.mark.parametrize(
    ("table", "component"),
    [
        (np.array([["a", "b"], ["b", "a"]] * 10), "categorical"),
        (pd.DataFrame({"a": ["x", "y"] * 10, "b": [0, 1] * 10}), "categorical"),
        (pd.DataFrame({"a": [1.0, None] * 10, "b": [0, 1] * 10}), "categorical"),
        (np.array([[True, False], [False, True]] * 10), "categorical"),
        (np.array([[0, 1], [1, 0]] * 10), "bernoulli"),
        (np.array([[0, 7], [3, 0]] * 10), "multinomial"),
        (sp.csr_array(np.array([[0, 1], [1, 0]] * 10)), "multinomial"),
    ],
    ids=["text", "mixed text", "missing", "true and false", "0 and 1", "counts", "sparse"],
)
def test_auto_looks_at_the_table(table, component, tmp_path):
    model = sc.DirichletProcessMixture("auto", max_iter=3, n_draws=1, random_state=0).fit(table)
    assert model.component_ == component
    model.save(tmp_path / "model.npz")
    again = sc.DirichletProcessMixture.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.score_samples(table), model.score_samples(table))


def test_continuous_columns_are_noticed():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"q": rng.choice(["a", "b"], 60), "income": rng.normal(size=60)})
    with pytest.warns(UserWarning, match=r"'income' has 60 different numbers.*pandas\.qcut"):
        sc.DirichletProcessMixture("categorical", **QUICK).fit(table)
    assert sc.DirichletProcessMixture("auto", **QUICK).fit(table[["income"]]).component_ == "gaussian"


def columns(rng, rows):
    two, three = rng.integers(0, 2, rows), rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    yield True, rng.lognormal(10, 0.5, rows)
    yield True, rng.lognormal(3, 2, rows)
    yield True, rng.lognormal(np.array([9.5, 10.3, 11.2])[three], 0.45)
    yield True, np.round(rng.lognormal(np.array([9.0, 11.0])[two], 0.5), -2) + 1
    yield False, rng.normal(100, 15, rows)
    yield False, np.abs(rng.normal(10, 3, rows)) + 0.01
    yield False, rng.normal(np.array([20, 60])[two], 5)
    yield False, np.abs(rng.normal(np.array([20, 35, 80])[three], np.array([3, 5, 9])[three]))
    yield False, rng.uniform(0, 1, rows)
    yield False, rng.uniform(1, 100, rows)
    yield False, np.round(18 + 72 * rng.beta(1.5, 2, rows))
    yield False, rng.poisson(8, rows) + 1.0
    yield False, 1.0 + rng.poisson(np.array([5, 25])[two])
    yield False, -rng.lognormal(10, 0.5, rows)


@pytest.mark.parametrize("rows", [800, 4000])
def test_columns_that_want_logarithms_are_told_from_others(rows):
    for seed in range(3):
        for j, (wanted, column) in enumerate(columns(np.random.default_rng(seed), rows)):
            assert wants_logarithms(column) == wanted, (seed, j)


def test_a_skewed_column_is_noticed():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"income": rng.lognormal(10, 1, 400), "age": rng.normal(40, 5, 400)})
    with pytest.warns(UserWarning, match=r"long upper tail.*'income'\. .*numpy\.log"):
        sc.DirichletProcessMixture("gaussian", **QUICK).fit(table)
    sc.DirichletProcessMixture("gaussian", **QUICK).fit(table.assign(income=np.log(table["income"])))


@pytest.mark.parametrize("wrap", [np.array, pd.DataFrame, list])
def test_text_for_counts_says_what_to_do(wrap):
    with pytest.raises(TypeError, match="component='categorical'"):
        sc.DirichletProcessMixture().fit(wrap([["a", "b"], ["b", "b"]]))


def test_names():
    codes, _ = likert(100)
    model = sc.DirichletProcessMixture("categorical", **QUICK).fit(codes)
    named = model.profiles(2, names=[f"q{j}" for j in range(6)])
    assert named["feature"].str.fullmatch(r"q[0-5]=[1-5]").all()
    np.testing.assert_array_equal(named["mean"], model.profiles(2)["mean"])
    counts = np.random.default_rng(0).poisson(2.0, (40, 3))
    plain = sc.DirichletProcessMixture(**QUICK).fit(counts)
    assert set(plain.profiles(3, names=["news", "jobs", "games"])["feature"]) == {"news", "jobs", "games"}
    with pytest.raises(ValueError, match="one for each of 3 columns; got 2"):
        plain.profiles(names=["a", "b"])
    yes = sc.DirichletProcessMixture("bernoulli", **QUICK).fit((counts > 1).astype(int))
    assert set(yes.profiles(6, names=["a", "b", "c"])["feature"]) <= {f"{c}={v}" for c in "abc" for v in ("yes", "no")}
    frame = pd.DataFrame(codes, columns=[f"item{j}" for j in range(6)])
    fitted = sc.DirichletProcessMixture("auto", **QUICK).fit(frame)
    assert list(fitted.feature_names_in_) == list(frame.columns)


def test_membership_has_intervals():
    codes, _ = likert(200)
    frame = pd.DataFrame(codes, index=[f"person {i}" for i in range(200)])
    model = sc.DirichletProcessMixture("categorical", **QUICK).fit(frame)
    table = model.membership(frame[:5])
    assert table.index.names == ["row", "cluster"]
    shares = table["probability"].to_numpy().reshape(5, -1)
    np.testing.assert_allclose(shares, model.predict_proba(frame[:5], unseen=True), atol=0.1)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert (table["lower"] <= table["upper"]).all()
    assert table.loc[("person 3", model.predict(frame[3:4])[0]), "probability"] > 0.5
    with pytest.raises(ValueError, match="level must lie"):
        model.membership(frame[:5], level=1.5)


def test_priors_of_counts_and_of_categories():
    codes, _ = likert(60)
    quick = {"max_iter": 3, "n_draws": 1, "random_state": 0}

    def draws(table, component, **settings):
        return sc.DirichletProcessMixture(component, **quick, **settings).fit(table).posterior_["labels"].values

    usual, given = draws(codes, "categorical"), draws(codes, "categorical", base=1.0, n_components_prior="mfm")
    np.testing.assert_array_equal(usual, given)
    counts = codes - 1
    usual, given = draws(counts, "multinomial"), draws(counts, "multinomial", base=0.1, n_components_prior="dp")
    np.testing.assert_array_equal(usual, given)


@pytest.mark.parametrize("component", ["categorical", "multinomial", "poisson"])
def test_drawn_parameters_average_to_the_predictive_density(component):
    rng = np.random.default_rng(0)
    counts = rng.poisson(rng.gamma(0.5, 3.0, (2, 4))[rng.integers(0, 2, 40)])
    model = sc.DirichletProcessMixture(component, **QUICK).fit(counts)
    rows, snapshot = model.encoding_.rows(counts[:6]), model._snapshots[-1]
    counted = model.encoding_.counted
    drawn = np.array([np.exp(snapshot.with_parameters(rng, counted).scores(rows, 1)) for _ in range(1500)])
    exact, error = np.exp(snapshot.scores(rows, 1)), drawn.std(axis=0) / np.sqrt(len(drawn))
    # An average of densities is heavy-tailed: what has a standard error of a tenth says little.
    sure = (error < 0.1 * exact) & (exact > 1e-12)
    assert sure.sum() >= 6
    assert np.all(np.abs(drawn.mean(axis=0) - exact)[sure] < 5 * error[sure] + 1e-6 * exact[sure])
