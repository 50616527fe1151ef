"""Topics from documents that live on the workers of a cluster."""

import itertools
import signal
from functools import partial

import numpy as np
import pytest
import test_lda_laws as laws
from here import Here, armed, in_round

import scirocco as sc
from scirocco.corpora.documents import Documents
from scirocco.corpora.store import Corpus, write_corpus
from scirocco.models.lda.gibbs import KeptGibbs
from scirocco.models.lda.resident import DocumentShard, ResidentGibbs, sampled
from scirocco.run import group

kernel = laws.kernel  # a fixture
COUNTS = np.random.default_rng(2).poisson(0.4, (60, 30))


@pytest.mark.parametrize("kernel", ["dense", "proposed"], indirect=True)
@pytest.mark.usefixtures("kernel")
def test_assignments_have_their_exact_law():
    states, weights = laws.enumerated(laws.prior_of(KeptGibbs))
    documents, (_, owner) = Documents.of(laws.COUNTS), laws.tokens()
    parts = [documents.take(np.array(own)) for own in ([0], [1, 2])]
    shards = [DocumentShard(part, 2, 5, (0, s), learn_alpha=False) for s, part in enumerate(parts)]
    start = KeptGibbs(
        documents, laws.ALPHA, laws.BETA, seed=1, chain=0, search_passes=0, batch_size=None, threads=1
    )  # fmt: skip
    chain = ResidentGibbs(Here(shards), start, 1.0, seed=1, chain=0)
    while not chain.sampling:
        chain.step()
    path = []
    for _ in range(8000):
        chain.step()
        path.append(np.concatenate([shard.kept.labels for shard in shards]))
    assert chain.counts.sum() == owner.size
    path = np.array(path)
    pairs = list(itertools.combinations(range(states.shape[1]), 2))
    together = np.stack([path[:, i] == path[:, j] for i, j in pairs], axis=1).astype(float)
    laws.assert_average(together, [np.sum(weights[states[:, i] == states[:, j]]) for i, j in pairs])
    laws.assert_average(path.astype(float), weights @ states)


def topics(client, X=COUNTS, *, path=None, shards=3, **settings):
    settings = {"max_iter": 18, "search_passes": 3, "n_chains": 2, "learn_alpha": True, "learn_beta": True} | settings
    return sc.LDA(3, sampler="gibbs", random_state=1, **settings).fit(X, client=client, shards=shards, path=path)


@pytest.fixture(scope="module")
def alone():
    """The fit of one process, for so many chains, made by the client that comes first."""
    found = {}

    def fit(client, n_chains=2):
        if n_chains not in found:
            found[n_chains] = topics(client, n_chains=n_chains)
        return found[n_chains]

    return fit


def same(one, other):
    assert one.posterior_.identical(other.posterior_)
    for name in ("components_", "alpha_", "beta_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.n_iter_ == other.n_iter_
    return True


def test_a_fit_finds_the_topics(at_once):
    rng = np.random.default_rng(0)
    truth = np.kron(np.eye(3), np.ones(10)) / 10
    counts = np.array([rng.multinomial(50, weights @ truth) for weights in rng.dirichlet([0.2] * 3, 150)])
    model = topics(at_once, counts, shards=4, n_chains=1, max_iter=40, search_passes=None)
    found = model.components_[:, [0, 10, 20]].argmax(axis=0)
    np.testing.assert_allclose(model.components_[found], truth, atol=0.02)
    assert model.sampler_ == "gibbs"
    assert model.transform(counts[:5]).shape == (5, 3)
    reference = sc.LDA(3, sampler="gibbs", max_iter=40, random_state=1, learn_alpha=True, learn_beta=True).fit(counts)
    order = reference.components_[:, [0, 10, 20]].argmax(axis=0)
    np.testing.assert_allclose(model.alpha_[found], reference.alpha_[order], rtol=0.15)
    np.testing.assert_allclose(model.beta_, reference.beta_, rtol=0.15)


def test_a_corpus_on_disk_gives_what_a_matrix_gives(at_once, alone, tmp_path):
    write_corpus(tmp_path / "corpus", [COUNTS[:25], COUNTS[25:]], COUNTS.shape[1])
    model = topics(at_once, Corpus(tmp_path / "corpus", block_entries=100))
    np.testing.assert_array_equal(model.components_, alone(at_once).components_)
    assert list(model.vocabulary_[:2]) == ["0", "1"]


def test_the_sample_of_a_corpus_is_that_of_its_documents(tmp_path):
    corpus = write_corpus(tmp_path / "corpus", [COUNTS], COUNTS.shape[1])
    corpus = Corpus(corpus.path, block_entries=100)
    assert corpus.blocks > 3
    one, other = (sampled(X, tokens=corpus.tokens // 3) for X in (corpus, Documents.of(COUNTS)))
    assert one.size in (15, 20)
    np.testing.assert_array_equal(one.matrix().todense(), other.matrix().todense())


@pytest.mark.parametrize("number", [1, 11])
def test_ctrl_c_stops_at_a_checkpoint_and_the_run_goes_on(at_once, alone, tmp_path, monkeypatch, number):
    whole = alone(at_once, n_chains=1)
    monkeypatch.setattr(group, "CHUNK_SECONDS", 0.0)  # a look at the signal after every step
    in_round(monkeypatch, DocumentShard, number, partial(signal.raise_signal, signal.SIGINT))
    with pytest.warns(UserWarning, match="interrupted"):
        assert topics(at_once, path=tmp_path / "run", n_chains=1).n_iter_ < whole.n_iter_
    assert same(sc.resume(tmp_path / "run", COUNTS, client=at_once), whole)


def test_an_error_of_a_worker_arrives_with_its_words(at_once, alone, tmp_path, monkeypatch):
    def fail():
        raise OSError("no space left")

    whole = alone(at_once)
    in_round(monkeypatch, DocumentShard, 11, fail)
    with pytest.raises(OSError, match="no space left"):
        topics(at_once, path=tmp_path / "run")
    assert same(sc.resume(tmp_path / "run", COUNTS, client=at_once), whole)


def test_a_worker_that_is_killed_changes_nothing(cluster, at_once, alone, tmp_path):
    cluster.run(armed, DocumentShard, 11, str(tmp_path / "killed"))
    assert same(topics(cluster, path=tmp_path / "run"), alone(at_once))
    assert (tmp_path / "killed").exists()


# What is refused before any work.


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sampler": "collapsed"}, "client= is for sampler='gibbs'"),
        ({"batch_size": 10}, "leave out batch_size"),
        ({"seed_words": [[0]]}, "alike beforehand"),
        ({"beta": np.ones((3, 30))}, "alike beforehand"),
    ],
)
def test_settings_that_workers_do_not_have(at_once, tmp_path, settings, said):
    model = sc.LDA(3, **({"sampler": "gibbs"} | settings))
    with pytest.raises(ValueError, match=said):
        model.fit(COUNTS, client=at_once, shards=2, path=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_more_shards_than_documents(at_once):
    with pytest.raises(ValueError, match="shards must not exceed the number of documents, 60; got 61"):
        topics(at_once, shards=61)


def test_both_ways_at_once(at_once, sending):
    with pytest.raises(ValueError, match="give executor or client"):
        sc.LDA(3).fit(COUNTS, client=at_once, shards=2, executor=sending)


def test_a_corpus_that_workers_do_not_see(at_once, tmp_path):
    corpus = write_corpus(tmp_path / "corpus", [COUNTS], COUNTS.shape[1])
    at_once.sees = lambda given: tmp_path / "away" if given == corpus.path.resolve() else given
    with pytest.raises(ValueError, match=r"do not see .*: put the corpus where all machines see it"):
        topics(at_once, corpus)


def test_a_run_goes_on_where_its_documents_are(at_once, tmp_path):
    model = topics(at_once, path=tmp_path / "resident", max_iter=4, n_chains=1)
    with pytest.raises(ValueError, match="or these were left on workers: fit again"):
        model.update(COUNTS)
    with pytest.raises(ValueError, match="are on the workers of a cluster: give client= again"):
        sc.resume(tmp_path / "resident", COUNTS)
    sc.LDA(3, max_iter=4).fit(COUNTS, path=tmp_path / "here")
    with pytest.raises(ValueError, match="are not on workers: leave out client="):
        sc.resume(tmp_path / "here", COUNTS, client=at_once)
    with pytest.raises(FileExistsError, match=r"use scirocco\.resume"):
        topics(at_once, path=tmp_path / "here")
