"""New documents and new words for a fitted model."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import scirocco as sc
from scirocco.models.lda.agreement import align
from scirocco.models.lda.assignments import Assignments, widened

RNG = np.random.default_rng(5)
TOPICS = np.kron(np.eye(3), np.full(12, 1 / 12)) * 0.97 + 0.03 / 36
NAMES = [f"w{j}" for j in range(36)]


def corpus(size, topics=TOPICS, seed=0):
    rng = np.random.default_rng(seed)
    eta = rng.dirichlet(np.full(len(topics), 0.3), size)
    return np.array([rng.multinomial(40, e @ topics) for e in eta])


OLD, NEW = corpus(200, seed=1), corpus(100, seed=2)


def fitted(sampler="collapsed", data=OLD, names=True, **settings):
    data = pd.DataFrame(data, columns=NAMES[: data.shape[1]]) if names else data
    return sc.LDA(3, alpha=0.3, sampler=sampler, max_iter=60, random_state=0, **settings).fit(data)


@pytest.mark.parametrize("sampler", ["collapsed", "gibbs"])
def test_an_update_ends_where_a_fit_of_everything_does(sampler):
    model = fitted(sampler, n_chains=2)
    before = model.components_.copy()
    model.update(NEW, vocabulary=NAMES, max_iter=60)
    whole = fitted(sampler, np.concatenate([OLD, NEW]))
    assert model.documents_seen_ == 300
    assert model.word_counts_.sum() == OLD.sum() + NEW.sum()
    assert np.all(model.moved_ < 0.08)  # as far as more data moves them
    np.testing.assert_allclose(model.moved_, np.abs(model.components_ - before).sum(axis=1) / 2)
    order = align(model.components_, whole.components_)
    # The sd of a word's probability given everything, over draws of the whole fit.
    sd = whole.posterior_["topics"].values[0].std(axis=0)[order]
    assert np.median(np.abs(model.components_ - whole.components_[order]) / sd) < 0.5
    assert model.agreement_.chains == 2
    assert model.posterior_.sizes["draw"] >= 10


def test_new_words_and_another_order(tmp_path):
    model = fitted()
    wider = np.hstack([NEW[:, ::-1], np.random.default_rng(0).poisson(2.0, (100, 1))])
    names = [*NAMES[::-1], "storm"]
    model.save(tmp_path / "m.npz")
    for grown in (model, sc.LDA.load(tmp_path / "m.npz")):  # assignments are saved with the model
        grown.update(sp.csr_matrix(wider), vocabulary=names)
        assert list(grown.feature_names_in_[-2:]) == ["w35", "storm"]
        assert grown.components_.shape == (3, 37)
        np.testing.assert_allclose(grown.components_.sum(axis=1), 1, rtol=1e-6)
        assert grown.word_counts_[36] == wider[:, 36].sum()
        assert "storm" in set(grown.top_words(13)["word"])
        order = align(TOPICS, grown.components_[:, :36])
        assert np.abs(grown.components_[order][:, :36] - TOPICS).sum(axis=1).max() < 0.5
        assert np.all(np.abs(grown.moved_) < 0.3)
    np.testing.assert_array_equal(model.components_, grown.components_)
    model.save(tmp_path / "again.npz")
    more = pd.DataFrame(np.hstack([OLD, np.zeros((200, 1), int)]), columns=[*NAMES, "storm"])
    assert sc.LDA.load(tmp_path / "again.npz").transform(more).shape == (200, 3)


def test_a_stream_grows_too():
    model = fitted(sc.SCIR(0.05))
    draws = model.posterior_.sizes["draw"]
    model.partial_fit(NEW[:50], vocabulary=NAMES)
    # The posterior is not thrown away: intervals keep their width.
    assert model.posterior_.sizes["draw"] >= draws // 2
    assert np.all(model.top_words(3).eval("upper - lower") > 1e-4)
    wide = np.hstack([NEW[50:], np.full((50, 1), 3)])
    model.update(wide, vocabulary=[*NAMES, "storm"])
    assert model.components_.shape == (3, 37)
    for _ in range(40):
        model.partial_fit(wide, vocabulary=[*NAMES, "storm"])
    assert model.components_[:, 36].max() > 0.02
    np.testing.assert_allclose(model.components_.sum(axis=1), 1, rtol=1e-5)
    assert model.moved_.shape == (3,)


def test_partial_fit_after_fit_says_what_it_samples_with():
    model = sc.LDA(3, max_iter=20, random_state=0).fit(OLD)
    assert model.sampler_ == "collapsed"
    model.partial_fit(NEW)
    assert model.sampler_ == "scir"


def test_assignments_come_in_the_order_of_the_documents():
    model = fitted(n_chains=2)
    assert isinstance(model._assigned, Assignments)
    kept = model._assigned.in_order()
    np.testing.assert_array_equal(np.diff(kept.starts), OLD.sum(axis=1))
    for d in (0, 7, 199):
        words = kept.words[kept.starts[d] : kept.starts[d + 1]]
        np.testing.assert_array_equal(np.bincount(words, minlength=36), OLD[d])
    # The topics of a document are those that transform finds.
    share = np.array([np.bincount(t, minlength=3) for t in np.split(kept.topics[0], kept.starts[1:-1])]) / 40
    assert np.abs(share - model.transform(pd.DataFrame(OLD, columns=NAMES))).mean() < 0.05


def test_new_weights_have_the_law_of_the_prior():
    from scipy import stats

    from scirocco.simplex import Weights

    weights = Weights([0.5, 2.0], rows=4000, categories=2, seed=1)
    weights.grow(np.array([0.3, 1.5]))
    for j, alpha in enumerate((0.5, 2.0, 0.3, 1.5)):
        assert stats.kstest(weights.theta[j], stats.gamma(alpha).cdf).pvalue > 1e-4
    np.testing.assert_allclose(weights.totals, weights.theta.sum(axis=0))


@pytest.mark.parametrize(
    ("X", "vocabulary", "named", "words"),
    [
        (NEW, [*NAMES[:-1], "w0"], True, "words more than once: w0"),
        (NEW, NAMES[:-1], True, "must name the 36 columns"),
        (NEW[:, :30], None, True, "knows 36 words by name"),
        (NEW[:, :30], None, False, "fewer than the 36 words"),
        (NEW, NAMES, False, "does not know its words by name"),
        (-NEW, NAMES, True, "Negative values"),
    ],
)
def test_updates_that_do_not_fit(X, vocabulary, named, words):
    model = fitted(names=named)
    with pytest.raises(ValueError, match=words):
        model.update(X, vocabulary=vocabulary)


def test_columns_without_names_are_those_of_the_model_and_new_ones():
    matrix, names, new = widened(np.eye(4, dtype=int), None, None, 3)
    assert (matrix.shape, names, new) == ((4, 4), None, 1)
    model = fitted(names=False).update(np.hstack([NEW, np.ones((100, 2), int)]))
    assert model.components_.shape == (3, 38)


def test_updates_are_new_draws():
    # The numbers of the fit must not come again: with nothing to learn, labels before and after are independent.
    vague = {"alpha": 5.0, "beta": 5.0, "sampler": "gibbs", "max_iter": 20, "random_state": 0}
    model = sc.LDA(2, **vague).fit(np.random.default_rng(0).poisson(1.0, (200, 10)))
    first = model.update(np.zeros((1, 10), int))._assigned.in_order().topics[0]
    second = model.update(np.zeros((1, 10), int))._assigned.in_order().topics[0]
    assert abs(np.mean(first == second) - 0.5) < 0.2
    assert model.updates_ == 2


def test_a_failed_update_changes_nothing():
    model = fitted()
    before = model.components_.copy()
    wide = np.hstack([NEW, np.ones((100, 1), int)])
    for settings, words in (({"max_seconds": 0}, "max_seconds"), ({"max_iter": 0}, "max_iter")):
        with pytest.raises(ValueError, match=words):
            model.update(wide, vocabulary=[*NAMES, "storm"], **settings)
    stream = fitted(sc.SCIRCV(0.05, recentre_every=5))
    with pytest.raises(ValueError, match="new words need SCIR or SGRLD"):
        stream.update(wide, vocabulary=[*NAMES, "storm"])
    for unchanged in (model, stream):
        assert unchanged.n_features_in_ == 36
        assert unchanged.transform(pd.DataFrame(OLD[:3], columns=NAMES)).shape == (3, 3)
    np.testing.assert_array_equal(model.components_, before)
    with pytest.raises(ValueError, match="was fitted with 3"):
        model.set_params(n_topics=2).update(NEW, vocabulary=NAMES)
    with pytest.raises(TypeError, match="CountVectorizer"):
        fitted().update(["the wind"])


def test_a_fit_that_stopped_in_its_search_cannot_be_updated(ticking):
    ticking(0.001)
    with pytest.warns(UserWarning, match="before the sampler began"):
        model = sc.LDA(3, max_seconds=1e-6, random_state=0).fit(OLD)
    with pytest.raises(ValueError, match="before every document had its topics"):
        model.update(NEW)


def test_words_in_another_order_are_not_mistaken(tmp_path):
    corpus = sc.corpora.write_corpus(tmp_path / "c", [OLD], NAMES)
    turned = sc.corpora.write_corpus(tmp_path / "t", [OLD[:, ::-1]], NAMES[::-1])
    model = sc.LDA(3, alpha=0.3, max_iter=20, random_state=0).fit(corpus)
    for other in (turned, pd.DataFrame(OLD[:, ::-1], columns=NAMES[::-1])):
        with pytest.raises(ValueError, match="not those of the model in the same order"):
            model.perplexity(other)
    model.update(turned)  # which knows what to do
    assert model.documents_seen_ == 400
    np.testing.assert_array_equal(model.word_counts_, 2 * OLD.sum(axis=0))


def test_each_chain_goes_on_with_its_own_prior():
    uneven = np.concatenate([corpus(150, TOPICS[:1], 3), OLD])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the chains agree on is not the point here
        model = fitted(data=uneven, n_chains=3, learn_alpha=True)
    kept = model._assigned.in_order()
    for alpha, topics in zip(kept.alphas, kept.topics, strict=True):
        assert np.argmax(alpha) == np.argmax(np.bincount(topics, minlength=3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.update(NEW, vocabulary=NAMES, max_iter=10)
    assert np.argmax(model.alpha_) == np.argmax(model.components_ @ uneven.sum(axis=0))
