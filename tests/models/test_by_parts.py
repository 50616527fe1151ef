"""What fitted models say of new documents by the workers of an executor: what one process says, to the bit."""

import numpy as np
import pytest

import scirocco as sc
from scirocco.core import executors
from scirocco.corpora.store import Corpus, write_corpus
from scirocco.models import by_parts
from scirocco.models.by_parts import parts_of

COUNTS = np.random.default_rng(2).poisson(0.4, (70, 30))


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(by_parts, "PART", 200)
    monkeypatch.setattr(executors, "UNDER_WAY", 1)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The same documents on disk."""
    path = tmp_path_factory.mktemp("stored") / "corpus"
    write_corpus(path, [COUNTS], COUNTS.shape[1])
    return Corpus(path)


@pytest.fixture(scope="module")
def topics():
    return sc.LDA(3, max_iter=6, n_draws=3, random_state=1).fit(COUNTS)


@pytest.fixture(scope="module")
def clusters():
    return sc.DirichletProcessMixture(max_iter=12, n_chains=1, n_draws=4, random_state=1).fit(COUNTS)


def test_parts_are_everything_in_order(stored):
    parts = list(parts_of(stored))
    assert len(parts) > 3
    found = np.concatenate([part.read().matrix().toarray() for part in parts])
    np.testing.assert_array_equal(found, COUNTS)


def test_topics_of_documents(sending, topics, stored):
    for X in (COUNTS, stored):
        np.testing.assert_array_equal(topics.transform(X, executor=sending), topics.transform(COUNTS))
        for own, other in zip(
            topics.transform(X, return_std=True, executor=sending), topics.transform(COUNTS, return_std=True),
            strict=True,
        ):  # fmt: skip
            np.testing.assert_array_equal(own, other)
        for method in ("completion", "left_to_right"):
            asked = {"method": method, "held_out": 0.2}
            assert topics.perplexity(X, executor=sending, **asked) == topics.perplexity(COUNTS, **asked)
        assert topics.score(X, executor=sending) == topics.score(COUNTS)


def test_clusters_of_rows(sending, clusters, stored):
    for X in (COUNTS, stored):
        np.testing.assert_array_equal(clusters.score_samples(X, executor=sending), clusters.score_samples(COUNTS))
        np.testing.assert_array_equal(
            clusters.predict_proba(X, unseen=True, executor=sending), clusters.predict_proba(COUNTS, unseen=True)
        )
        np.testing.assert_array_equal(clusters.predict(X, executor=sending), clusters.predict(COUNTS))
        assert clusters.score(X, executor=sending) == clusters.score(COUNTS)


def test_tables_with_numbers(sending):
    table = np.random.default_rng(0).normal(size=(60, 2))
    model = sc.DirichletProcessMixture("gaussian", max_iter=6, n_chains=1, n_draws=2, random_state=1).fit(table)
    np.testing.assert_array_equal(model.score_samples(table, executor=sending), model.score_samples(table))


def test_what_is_refused(sending, topics, clusters, tmp_path):
    narrow = write_corpus(tmp_path / "narrow", [COUNTS[:, :10]], 10)
    for ask in (topics.transform, topics.perplexity, clusters.predict):
        with pytest.raises(ValueError, match="the corpus has 10 words, but the model 30"):
            ask(narrow, executor=sending)
        with pytest.raises(TypeError, match=r"executor must be a concurrent\.futures\.Executor; got int"):
            ask(COUNTS, executor=3)
    short = np.eye(4, 30, dtype=int)
    with pytest.raises(ValueError, match="no token was held out"):
        topics.perplexity(short, held_out=1e-9, executor=sending)
