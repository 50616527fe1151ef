"""Documents with uncertainty: sds and draws of their topic weights, and how these depend on covariates."""

import numpy as np
import pandas as pd
import pytest

import scirocco as sc
from scirocco.corpora.documents import Documents
from scirocco.models.lda import documents as lda_documents
from scirocco.models.lda.documents import apart, document_draws, document_moments, document_topics

ALPHA = np.array([0.4, 0.7, 0.3])
RNG = np.random.default_rng(0)
TOPICS = RNG.dirichlet(np.full(6, 0.5), 3).astype(np.float32)
COUNTS = np.array([[2, 0, 1, 0, 1, 0], [0, 3, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]])


def enumerated(row):
    """Mean and sd of a document's weights, by all assignments of its tokens."""
    import itertools

    from scipy.special import gammaln

    words = np.repeat(np.arange(6), row)
    weights, means, squares = [], [], []
    for z in itertools.product(range(3), repeat=len(words)):
        n = np.bincount(np.array(z, int), minlength=3)
        log = np.sum(gammaln(n + ALPHA)) + sum(np.log(TOPICS[k, w]) for k, w in zip(z, words, strict=True))
        total = n.sum() + ALPHA.sum()
        mean = (n + ALPHA) / total
        weights.append(np.exp(log))
        means.append(mean)
        squares.append(mean**2 + mean * (1 - mean) / (total + 1))
    weights = np.array(weights) / np.sum(weights)
    mean = weights @ np.array(means)
    return mean, np.sqrt(weights @ np.array(squares) - mean**2)


def test_moments_and_draws_have_the_enumerated_law():
    documents = Documents.of(COUNTS)
    # Many draws of the same topics are many runs of the sweeps.
    same = np.repeat(TOPICS[None], 1500, axis=0)
    mean, sd = document_moments(same[:300], ALPHA, documents, seed=1)
    drawn = document_draws(same, ALPHA, documents, apart(documents), seed=1)
    np.testing.assert_allclose(drawn.sum(axis=2), 1)
    for d, row in enumerate(COUNTS):
        exact_mean, exact_sd = enumerated(row)
        np.testing.assert_allclose(mean[d], exact_mean, atol=0.012)  # of 12,000 correlated sweeps
        np.testing.assert_allclose(sd[d], exact_sd, rtol=0.05)
        error = exact_sd / np.sqrt(1500)
        assert np.all(np.abs(drawn[:, d].mean(axis=0) - exact_mean) < 4.5 * error)
        assert np.all(np.abs(drawn[:, d].std(axis=0) / exact_sd - 1) < 0.12)
    np.testing.assert_allclose(mean, document_topics(same[:300], ALPHA, documents, seed=1).mean(axis=0))


def test_the_uncertainty_of_topics_is_part_of_it():
    documents = Documents.of(COUNTS[3:])
    swapped = np.array([TOPICS, TOPICS[[1, 2, 0]], TOPICS[[2, 0, 1]]])
    symmetric = np.full(3, 0.5)
    mean, sd = document_moments(np.repeat(swapped, 100, axis=0), symmetric, documents, seed=0)
    np.testing.assert_allclose(mean, 1 / 3, atol=0.02)
    assert np.all(sd > document_moments(swapped[:1].repeat(100, axis=0), symmetric, documents, seed=0)[1].min())


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(3)
    topics = np.kron(np.eye(3), np.full(15, 1 / 15)) * 0.97 + 0.03 / 45
    group = rng.integers(0, 2, 600)
    share = np.where(group == 1, 0.6, 0.2)[:, None]
    eta = np.array([rng.dirichlet(6 * np.r_[s, (1 - s) / 2, (1 - s) / 2]) for s in share.ravel()])
    counts = np.array([rng.multinomial(60, e @ topics) for e in eta])
    return sc.LDA(3, alpha=1.0, max_iter=60, random_state=0).fit(counts), counts, group, eta, topics


def test_transform_with_uncertainty(fitted):
    from scirocco.models.lda.agreement import align

    model, counts, _, eta, topics = fitted
    mean, sd = model.transform(counts, return_std=True)
    np.testing.assert_allclose(mean, model.transform(counts), atol=1e-9)
    drawn = model.transform_draws(counts[:40], 30)
    assert drawn.shape == (30, 40, 3)
    np.testing.assert_array_equal(drawn[:, :7], model.transform_draws(counts[:7], 30))  # others change nothing
    assert np.median(drawn.std(axis=0) / sd[:40]) == pytest.approx(1, abs=0.15)
    order = align(topics, model.components_)
    # About 90 % of true shares lie within 1.645 sds: 600 documents, whose standard error is 1.2 %.
    inside = np.abs(mean[:, order] - eta) < 1.645 * sd[:, order]
    assert abs(inside.mean() - 0.9) < 0.04
    with pytest.raises(ValueError, match="n_draws must be a whole number"):
        model.transform_draws(counts, 0)


def test_effects_find_the_difference_of_groups(fitted, monkeypatch):
    from scirocco.models.lda.agreement import align

    model, counts, group, eta, topics = fitted
    names = np.where(group == 1, "wind", "calm")
    found = model.effects(counts, pd.DataFrame({"weather": names}), n_draws=60)
    assert found.names == ["intercept", "weather_wind"]
    first = int(align(topics, model.components_)[0])
    direct = eta[group == 1, 0].mean() - eta[group == 0, 0].mean()
    row = found.table().loc[(first, "weather_wind")]
    assert row["mean"] == pytest.approx(direct, abs=4 * row["sd"])
    assert row["lower"] > 0.2
    assert row["positive"] == 1
    sure = np.sqrt(np.var(eta[group == 1, 0]) / (group == 1).sum() + np.var(eta[group == 0, 0]) / (group == 0).sum())
    assert sure < row["sd"] < 2.5 * sure  # wider than with known shares
    assert "weather_wind" in str(found)
    few = model.effects(counts, pd.DataFrame({"weather": names}), n_draws=5)
    monkeypatch.setattr(lda_documents, "AT_ONCE", 100)  # in parts: the same
    again = model.effects(counts, pd.DataFrame({"weather": names}), n_draws=5)
    np.testing.assert_allclose(again.draws, few.draws, rtol=1e-9)


@pytest.mark.parametrize(
    ("covariates", "words"),
    [
        (np.ones(599), "a row for each of 600 documents"),
        (np.ones((600, 1)), "depend on each other linearly"),
        (pd.DataFrame({"year": [np.nan] * 600}), "year have missing values"),
        (np.full(600, np.inf), "must be finite"),
        (pd.DataFrame({"day": pd.date_range("2020-01-01", periods=600)}), "day have dates"),
        (np.ones((2, 2, 2)), "must be a table"),
    ],
)
def test_covariates_that_do_not_fit(fitted, covariates, words):
    model, counts, *_ = fitted
    with pytest.raises(ValueError, match=words):
        model.effects(counts, covariates, n_draws=3)


def test_documents_with_the_same_words_have_draws_of_their_own(fitted):
    model, *_ = fitted
    same = np.zeros((400, 45), int)
    same[:, 3] = 1
    drawn = model.transform_draws(same, 5)
    assert len(np.unique(drawn[0, :, 0])) == 400
    np.testing.assert_array_equal(drawn[:, :3], model.transform_draws(same[:3], 5))
    # So the mean over documents is as sure as their number says.
    found = model.effects(same, np.random.default_rng(0).normal(size=400), n_draws=100).table()
    shares = model.transform(same[:1])[0]
    for k in range(3):
        spread = float(drawn[:, :, k].std())
        assert found.loc[(k, "intercept"), "sd"] < 3 * spread / np.sqrt(400)
        assert found.loc[(k, "intercept"), "mean"] == pytest.approx(shares[k], abs=0.08)


def test_small_parameters_do_not_underflow():
    documents = Documents.of(np.zeros((3, 6), int))
    drawn = document_draws(np.repeat(TOPICS[None], 200, axis=0), np.full(3, 1e-4), documents, apart(documents), seed=0)
    assert np.all(np.isfinite(drawn))
    np.testing.assert_allclose(drawn.sum(axis=2), 1)
    assert abs((drawn[:, :, 0] > 0.5).mean() - 1 / 3) < 4.5 * np.sqrt(2 / 9 / 600)
