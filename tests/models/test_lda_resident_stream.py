"""Stream samplers of topics whose documents live on the workers of a cluster: the chain of one process, to the bit."""

import signal
from functools import partial

import numpy as np
import pytest
from here import armed, in_round

import scirocco as sc
from scirocco.corpora.store import Corpus, write_corpus
from scirocco.models.lda.resident_stream import StreamShard
from scirocco.run import group

COUNTS = np.random.default_rng(2).poisson(0.4, (60, 30))


def topics(X=COUNTS, *, path=None, client=None, shards=None, **settings):
    settings = {"sampler": "scir", "max_iter": 4, "search_passes": 2, "batch_size": 7, "n_draws": 3} | settings
    model = sc.LDA(3, random_state=1, **settings)
    return model.fit(X, client=client, shards=shards, path=path)


def same(one, other):
    assert one.posterior_.identical(other.posterior_)
    np.testing.assert_array_equal(one.inflation_, other.inflation_)
    assert one.n_iter_ == other.n_iter_
    return True


@pytest.mark.parametrize(
    "settings",
    [{"n_chains": 2}, {"sampler": "sgrld"}, {"sampler": "sgld", "search_passes": 0}, {"sampler": sc.SCIR(0.3)}],
    ids=["scir", "sgrld", "sgld", "given"],
)
def test_the_chain_is_that_of_one_process(at_once, settings):
    assert same(topics(client=at_once, shards=3, **settings), topics(**settings))


def test_a_corpus_on_disk_gives_what_a_matrix_gives(at_once, tmp_path):
    write_corpus(tmp_path / "corpus", [COUNTS[:25], COUNTS[25:]], COUNTS.shape[1])
    corpus = Corpus(tmp_path / "corpus", block_entries=100)
    np.testing.assert_array_equal(topics(corpus, client=at_once, shards=2).components_, topics().components_)


def test_nothing_is_left_of_the_messages(at_once, tmp_path):
    topics(client=at_once, shards=2, path=tmp_path / "run", max_iter=3)
    assert not [*(tmp_path / "run").glob("*/message-*"), *(tmp_path / "run").glob("*/shard-*")]


def test_ctrl_c_stops_at_a_checkpoint_and_the_run_goes_on(at_once, tmp_path, monkeypatch):
    monkeypatch.setattr(group, "CHUNK_SECONDS", 0.0)  # a look at the signal after every step
    in_round(monkeypatch, StreamShard, 40, partial(signal.raise_signal, signal.SIGINT))
    whole = topics(max_iter=6)
    with pytest.warns(UserWarning, match="interrupted"):
        assert topics(client=at_once, shards=2, path=tmp_path / "run", max_iter=6).n_iter_ < whole.n_iter_
    assert same(sc.resume(tmp_path / "run", COUNTS, client=at_once), whole)


def test_a_worker_that_is_killed_changes_nothing(cluster, tmp_path):
    cluster.run(armed, StreamShard, 30, str(tmp_path / "killed"))
    assert same(topics(client=cluster, shards=2), topics())
    assert (tmp_path / "killed").exists()


@pytest.mark.parametrize(
    "settings", [{"sampler": "scir_cv"}, {"sampler": "sgld_cv"}, {"sampler": "sgld", "estimator": "saga"}]
)
def test_counts_of_more_than_a_minibatch_are_refused(at_once, settings):
    with pytest.raises(ValueError, match="client= is for plain counts of minibatches"):
        topics(client=at_once, shards=2, **settings)
