"""One gate for all numbers: what is masked, complex, a date or text is refused wherever arrays come in."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import scirocco as sc
from scirocco.core.checks import numbers, positive_array, real_array, real_number, require_count
from scirocco.corpora.documents import Documents

MASKED = np.ma.masked_array([1.0, 1e6, 2.0], [False, True, False])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1j, "not complex ones; got complex"),
        (np.array([1.0 + 0j]), "not complex ones; got dtype complex128"),
        (np.array([1 + 2j], object), ""),
        ("1.0", "not text; got str"),
        (["1.0", "2.0"], "not text; got dtype <U3"),
        (np.array([1.0, "2.0"], object), "not objects; got ndarray"),
        (b"1", "not text; got bytes"),
        (np.datetime64("2020-01-01"), "not dates; got datetime64"),
        (np.array(["2020-01-01"], "datetime64[D]"), r"not dates; got dtype datetime64\[D\]"),
        (np.array([np.datetime64("2020-01-01")], object), "not objects"),
        (np.timedelta64(3, "s"), "not times"),
        ([datetime.date(2020, 1, 1)], "; got list"),
        ({"a": 1}, "; got dict"),
        (np.zeros(2, [("a", "f8")]), "not objects"),
        ([[1, 2], [3]], "; got list"),
    ],
)
def test_what_is_no_real_number_is_refused(value, words):
    for check in (numbers, real_array, positive_array, real_number):
        with pytest.raises(TypeError, match=f"^x must be a number or an array of numbers.*{words}"):
            check("x", value)


@pytest.mark.parametrize("value", [MASKED, [MASKED, MASKED], [[1.0], [np.ma.masked]], np.ma.masked])
def test_masked_entries_are_refused(value):
    with pytest.raises(ValueError, match=r"x has masked entries .*: fill them or drop them"):
        real_array("x", value)


def test_numbers_of_all_kinds_pass():
    for value in (
        [True, False], [1, 2], np.float16(2), [Decimal("1.5"), 2], [Fraction(1, 2)], jnp.ones(2, jnp.bfloat16),
        np.ma.masked_array([1.0, 2.0], [False, False]), pd.Series([1, 2]), np.array([1, 2.5], object),
    ):  # fmt: skip
        found = real_array("x", value)
        assert type(found) is np.ndarray
        assert found.dtype == np.float64
    given = np.ones(3)
    assert real_array("x", given) is given  # no copy


def test_counts_have_an_upper_end():
    require_count("n", 2**63 - 1)
    with pytest.raises(ValueError, match=r"n must be a whole number of at most 2\^63 - 1; got 9223372036854775808"):
        require_count("n", 2**63)
    with pytest.raises(ValueError, match="at most 1,000; got 1001"):
        require_count("n", 1001, most=1000)


def test_one_number_is_one_number():
    assert real_number("x", np.array(2)) == 2.0
    with pytest.raises(ValueError, match=r"x must be one number; got an array of shape \(2,\)"):
        real_number("x", [1.0, 2.0])


# Everywhere.

DRAWS = np.random.default_rng(0).normal(size=(2, 50, 2))
HIDDEN = np.ma.masked_array(DRAWS, np.zeros(DRAWS.shape, bool))
HIDDEN[0, 3, 1] = np.ma.masked
COUNTS = np.random.default_rng(1).poisson(2.0, (20, 4))
HIDDEN_COUNTS = np.ma.masked_array(COUNTS, COUNTS.max() == COUNTS)


@pytest.mark.parametrize("method", sorted(sc.combine.METHODS))
@pytest.mark.parametrize("draws", [HIDDEN, list(HIDDEN), [{"a": part} for part in HIDDEN]])
def test_combining_refuses_masks(method, draws):
    with pytest.raises(ValueError, match=r"has masked entries"):
        sc.combine.METHODS[method](draws)


@pytest.mark.parametrize("draws", [DRAWS + 0j, DRAWS.astype("datetime64[s]"), DRAWS.astype(str)])
def test_combining_refuses_what_is_no_real_number(draws):
    with pytest.raises(TypeError, match=r"shard 0: draws must be .* array of numbers"):
        sc.combine.consensus(draws)


def test_draws_of_a_certificate_may_not_be_masked():
    target = sc.Target(lambda m: -(m**2).sum() / 2, lambda m, x: -((x - m) ** 2).sum() / 2, DRAWS[0])
    with pytest.raises(ValueError, match="has masked entries"):
        sc.combine.certify(target, HIDDEN[0])


def test_documents_refuse_masks_and_others():
    with pytest.raises(ValueError, match="counts has masked entries"):
        Documents.of(HIDDEN_COUNTS)
    with pytest.raises(TypeError, match=r"counts must be .* not complex"):
        Documents.of(COUNTS + 0j)
    with pytest.raises(TypeError, match=r"counts must be .* not dates"):
        Documents.of(COUNTS.astype("datetime64[s]"))
    assert Documents.of(np.ma.masked_array(COUNTS)).tokens == COUNTS.sum()
    assert Documents.of(COUNTS.astype(object)).tokens == COUNTS.sum()


MODELS = [
    (sc.LDA(2, max_iter=2), None), (sc.DirichletProcessMixture(max_iter=2), None), (sc.GaussianMixture(2), None),
    (sc.BayesianPCA(1), None), (sc.LogisticRegression(), np.arange(20) % 2), (sc.VonMisesFisherMixture(2), None),
    (sc.NeuralNetworkClassifier(), np.arange(20) % 2), (sc.NeuralNetworkRegressor(), np.arange(20.0)),
    (sc.SphericalAdmixture(2), None), (sc.models.TfIdf(), None),
]  # fmt: skip


@pytest.mark.parametrize(("model", "y"), MODELS, ids=[type(model).__name__ for model, _ in MODELS])
def test_models_refuse_masks_text_and_dates(model, y):
    counts = "takes counts, and X holds text: a table of categories has"  # what a mixture says
    for X, kind, words in (
        (HIDDEN_COUNTS, ValueError, "X has masked entries"),
        (list(HIDDEN_COUNTS), ValueError, "X has masked entries"),
        (COUNTS.astype("datetime64[s]"), TypeError, "X must hold numbers, not text or dates"),
        (COUNTS.astype("U").astype(object), TypeError, f"not text|{counts}"),
        (pd.DataFrame(COUNTS).astype({1: "datetime64[s]"}), TypeError, "X, column 1, must hold numbers"),
        (pd.DataFrame(COUNTS).astype({2: str}), TypeError, f"X, column 2, must hold numbers.*; got '|{counts}"),
    ):
        with pytest.raises(kind, match=words):
            model.fit(X, y)
    if y is not None:
        with pytest.raises(ValueError, match="y has masked entries"):
            model.fit(COUNTS, np.ma.masked_array(y, np.arange(20) == 3))


def test_a_mixture_of_categories_takes_words_but_no_masks():
    mixture = sc.DirichletProcessMixture("categorical", max_iter=2, n_chains=1)
    words = np.array([["a", "x"], ["b", "y"]] * 5, object)
    assert mixture.fit(words).n_features_in_ == 2
    with pytest.raises(ValueError, match="X has masked entries"):
        mixture.fit(np.ma.masked_array(words, words == "x"))


def test_ratings_refuse_masks():
    pairs, ratings = np.argwhere(COUNTS >= 0), np.ma.masked_array(COUNTS.ravel(), COUNTS.ravel() > 3)
    model = sc.MatrixFactorization(1)
    with pytest.raises(ValueError, match="y has masked entries"):
        model.fit(pairs, ratings)
    with pytest.raises(ValueError, match="X has masked entries"):
        model.fit(np.ma.masked_array(pairs, pairs == 3), ratings.data)


def test_a_fitted_model_refuses_masks_too():
    model = sc.LDA(2, max_iter=2, n_chains=1).fit(COUNTS)
    for call in (model.transform, model.perplexity, model.partial_fit, model.update):
        with pytest.raises(ValueError, match="X has masked entries"):
            call(HIDDEN_COUNTS)
    assert model.transform(sp.csr_array(COUNTS)).shape == (20, 2)


def test_runs_refuse_masks():
    target = sc.Target(lambda m: -(m**2) / 2, lambda m, x: -((x - m) ** 2) / 2, np.ones(5))
    for initial in (np.ma.masked_array(1.0, True), {"m": MASKED}):
        with pytest.raises(ValueError, match="masked"):  # by JAX
            sc.sample(target, sc.SGLD(0.1), initial, num_samples=2)
    for part in ({"prior": MASKED}, {"prior": 1.0, "initial": MASKED}):
        with pytest.raises(ValueError, match=f"{list(part)[-1]} has masked entries"):
            sc.sample_dirichlet(np.array([0, 1, 2]), **part)
    with pytest.raises(ValueError, match="data has masked entries"):
        sc.sample_dirichlet([np.ma.masked, 1], 1.0)
    with pytest.raises(TypeError, match=r"data must be .*, not dates"):
        sc.sample_dirichlet(np.array([0, 1]).astype("datetime64[s]"), 1.0)
    with pytest.raises(ValueError, match="labels has masked entries"):
        sc.batches.Strata(np.ma.masked_array([0, 1], [True, False])).bind(2, 2, 2, None, False)


def test_diagnostics_and_laws_refuse_masks():
    law = sc.theory.EstimateLaw
    x = HIDDEN[0]
    for call in (
        lambda: sc.diagnostics.ksd(x, x), lambda: sc.diagnostics.ks_distance(x**2, [1.0, 1.0]), lambda: law(x[:, 1], x),
        lambda: law.from_samples(MASKED), lambda: sc.theory.mgf_given_path(0.1, MASKED, 0.1, 1.0),
        lambda: sc.theory.mgf(MASKED, law.exact(2.0), 0.1, 3, 1.0), lambda: sc.diffusions.OU(mean=MASKED),
        lambda: sc.diffusions.OU().transition(MASKED, 1.0), lambda: sc.postprocess.zero_variance(HIDDEN, DRAWS, DRAWS),
        lambda: sc.diffusions.simulate(sc.diffusions.OU(), MASKED, 1.0, 2),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="has masked entries"):
            call()
