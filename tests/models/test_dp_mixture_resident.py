"""Rows of a mixture that live on the workers of a cluster."""

import signal
from functools import partial

import numpy as np
import pytest
import test_dp_mixture_laws as laws
from here import Here, armed, in_round
from sklearn.metrics import adjusted_rand_score

import scirocco as sc
from scirocco.core.seeds import Purpose, stream_key
from scirocco.corpora.store import Corpus, write_corpus
from scirocco.models.dp_mixture import resident
from scirocco.models.dp_mixture.gibbs import Blocked
from scirocco.models.dp_mixture.resident import ResidentMixture, RowShard, RowShardMaker, StoredRows
from scirocco.run import group

RNG = np.random.default_rng(0)
THETA, Z = RNG.dirichlet(np.full(20, 0.1), 4), RNG.integers(0, 4, 300)
COUNTS = np.array([RNG.multinomial(12, THETA[k]) for k in Z])


@pytest.mark.parametrize(("name", "prior"), [("multinomial", "dp"), ("multinomial", "mfm"), ("mixed", "dp")])
def test_partitions_have_their_exact_law(name, prior):
    make, log_prior = laws.PRIORS[prior]
    partitions, weights = laws.enumerated(name, log_prior)
    component, X, base = laws.DATA[name]
    encoding = component.encoding(X, None)
    rows, law, partition = encoding.rows(X), encoding.law(base), make()
    start = Blocked(rows, law, encoding.counted, partition, seed=3, chain=0, threads=1)

    def shard(number, own):
        return RowShard(
            rows.take(np.array(own)), law, np.arange(len(own)), stream_key(7, Purpose.MIXTURE_SHARDS, number)
        )

    chain = ResidentMixture(Here([shard(0, [0, 1, 2, 3]), shard(1, [4, 5])]), start, 1.0)
    while not chain.sampling:
        chain.step()
    laws.assert_law(chain, partitions, weights, 3_000)


def test_a_sample_is_not_what_is_counted(tmp_path):
    """Labels of the sample are those that its rows have in the shards, statistics those of all rows."""
    encoding = sc.DirichletProcessMixture()._component.encoding(COUNTS, None)
    rows, law = encoding.rows(COUNTS), encoding.law(0.1)
    source = StoredRows(tmp_path)
    source.write(rows, 3)
    sample = rows.take(np.arange(0, 300, 7))
    make = RowShardMaker(source, law, 300, 3, 7, seed=1, chain=0)
    shards = [make(number) for number in range(3)]
    partition = laws.DirichletProcess(1.0)
    start = Blocked(sample, law, encoding.counted, partition, seed=3, chain=0, threads=1, search_passes=20.0)
    chain = ResidentMixture(Here(shards), start, sample.size / 300)
    while not chain.sampling:
        chain.step()
    for _ in range(5):
        chain.step()
    known = chain.statistics()
    assert known.sizes.sum() == 300
    np.testing.assert_array_equal(known.counts.sum(axis=0), COUNTS.sum(axis=0))
    order = np.argsort(-chain.clusters.tables.sizes, kind="stable")
    whole = np.argsort(order)[np.concatenate([shard.clusters.labels for shard in shards])]
    np.testing.assert_array_equal(chain.labels(), whole[::7])


def mixture(client, X=COUNTS, *, path=None, shards=3, **settings):
    begin = {"search": False, "start": "random", "max_iter": 18}
    settings = begin | {"n_chains": 2, "n_draws": 5, "sampler": "gibbs", "random_state": 1} | settings
    return sc.DirichletProcessMixture(**settings).fit(X, client=client, shards=shards, path=path)


@pytest.fixture(scope="module")
def alone():
    """The fit of one process, for so many chains, made by the client that comes first."""
    found = {}

    def fit(client, n_chains=2):
        if n_chains not in found:
            found[n_chains] = mixture(client, n_chains=n_chains)
        return found[n_chains]

    return fit


def same(one, other):
    assert one.posterior_.identical(other.posterior_)
    np.testing.assert_array_equal(one.membership_, other.membership_)
    assert one.profiles().equals(other.profiles())
    assert one.n_iter_ == other.n_iter_
    return True


SEARCHED = {"search": True, "start": "one", "max_iter": 45}


def test_planted_clusters_are_found(at_once):
    model = mixture(at_once, **SEARCHED)
    assert model.sampler_ == "gibbs"
    assert adjusted_rand_score(model.labels_, Z) > 0.9
    assert adjusted_rand_score(model.predict(COUNTS), Z) > 0.9
    assert model.membership_.shape == (300, model.n_clusters_ + 1)
    assert model.cluster_sizes()["mean"].sum() == pytest.approx(300)
    assert model.label_stride_ == 1
    assert model.rows_seen_ == 300


def test_tables_of_several_kinds(at_once):
    rng = np.random.default_rng(3)
    table = np.empty((240, 2), object)
    z = np.repeat([0, 1], 120)
    table[:, 0], table[:, 1] = rng.normal(6.0 * z, 1.0), np.where(rng.random(240) < 0.1 + 0.8 * z, "a", "b")
    table[rng.random((240, 2)) < 0.05] = None
    model = mixture(
        at_once, table, component={"0": "gaussian", "1": "categorical"}, n_chains=1, learn_base=True, **SEARCHED
    )
    assert adjusted_rand_score(model.labels_, z) > 0.8


def test_many_rows_are_read_by_a_sample(at_once, monkeypatch):
    monkeypatch.setattr(resident, "SAMPLED", 100)
    model = mixture(at_once, n_chains=1, **SEARCHED)
    assert model.label_stride_ == 3
    assert model.posterior_["labels"].shape == (1, 5, 100)
    assert adjusted_rand_score(model.labels_, Z[::3]) > 0.9
    assert model.cluster_sizes()["mean"].sum() == pytest.approx(300)
    assert model.cluster_sizes(by="rank")["mean"].sum() == pytest.approx(300)
    assert adjusted_rand_score(model.predict(COUNTS), Z) > 0.9


def test_a_corpus_on_disk_gives_what_a_matrix_gives(at_once, alone, tmp_path):
    write_corpus(tmp_path / "corpus", [COUNTS[:100], COUNTS[100:]], COUNTS.shape[1])
    model = mixture(at_once, Corpus(tmp_path / "corpus", block_entries=200), n_chains=1)
    np.testing.assert_array_equal(model.membership_, alone(at_once, n_chains=1).membership_)


@pytest.mark.parametrize("number", [1, 11])
def test_ctrl_c_stops_at_a_checkpoint_and_the_run_goes_on(at_once, alone, tmp_path, monkeypatch, number):
    whole = alone(at_once, n_chains=1)
    monkeypatch.setattr(group, "CHUNK_SECONDS", 0.0)  # a look at the signal after every step
    in_round(monkeypatch, RowShard, number, partial(signal.raise_signal, signal.SIGINT))
    with pytest.warns(UserWarning, match="interrupted"):
        assert mixture(at_once, path=tmp_path / "run", n_chains=1).n_iter_ < whole.n_iter_
    assert same(sc.resume(tmp_path / "run", COUNTS, client=at_once), whole)


def test_a_worker_that_is_killed_changes_nothing(cluster, at_once, alone, tmp_path):
    cluster.run(armed, RowShard, 11, str(tmp_path / "killed"))
    assert same(mixture(cluster, path=tmp_path / "run"), alone(at_once))
    assert (tmp_path / "killed").exists()


# What is refused before any work.


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sampler": "collapsed"}, "client= is for sampler='gibbs'"),
        ({"batch_size": 10}, "leave out batch_size"),
        ({"start": np.zeros(300, int)}, "give the name of a start"),
        ({"shards": 301}, "shards must not exceed the number of rows, 300; got 301"),
    ],
)
def test_settings_that_workers_do_not_have(at_once, tmp_path, settings, said):
    with pytest.raises(ValueError, match=said):
        mixture(at_once, path=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()
