"""A source of a user's own: rows by number are enough for runs, shards and resuming."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc

X = np.random.default_rng(0).normal(2.0, 1.0, (900, 2)).astype(np.float32)


class Mine(sc.batches.Source):
    """Rows from anywhere."""

    block_bytes = 300 * 8

    def __init__(self, table):
        self.table, self.size = table, len(table)

    def rows(self, which):
        return {"x": self.table[which]}


def target(source):
    return sc.Target(lambda m: -0.5 * jnp.sum(m**2), lambda m, r: -0.5 * jnp.sum((r["x"] - m) ** 2), source)


def test_a_source_of_ones_own_is_sampled_and_resumed(tmp_path):
    settings = {"burn_in": 20, "batch_size": 30, "chains": 2, "thin": 5, "report": False}
    whole = sc.sample(target(Mine(X)), sc.SGLD(5e-5), jnp.full(2, 2.0), num_samples=600, **settings)
    sc.sample(target(Mine(X)), sc.SGLD(5e-5), jnp.full(2, 2.0), num_samples=100, path=tmp_path / "run", **settings)
    resumed = sc.resume(tmp_path / "run", target(Mine(X)), num_samples=600)
    np.testing.assert_array_equal(resumed.posterior["theta"], whole.posterior["theta"])
    np.testing.assert_allclose(whole.mean["theta"], X.sum(0) / 901, atol=0.05)
    changed = X.copy()
    changed[450] += 1
    with pytest.raises(ValueError, match="the data differs"):
        sc.resume(tmp_path / "run", target(Mine(np.sort(changed, axis=0))))


@pytest.mark.parametrize("kind", ["own", "memory", "mapped"])
def test_shards_are_disjoint_and_cover_the_data(kind, tmp_path):
    table = np.arange(103, dtype=np.float32)[:, None]
    np.save(tmp_path / "x.npy", table)
    source = {
        "own": lambda: Mine(table), "memory": lambda: sc.batches.Arrays({"x": table}),
        "mapped": lambda: sc.batches.MemoryMapped({"x": tmp_path / "x.npy"}, block_bytes=80),
    }[kind]()  # fmt: skip
    shards = [source.shard(k, 4) for k in range(4)]
    assert [shard.size for shard in shards] == [26, 26, 26, 25]
    rows = [shard.rows(np.arange(shard.size))["x"][:, 0] for shard in shards]
    assert sorted(np.concatenate(rows)) == list(range(103))
    assert len({str(shard.fingerprint()) for shard in shards}) == 4
    which = np.array([7, 3, 100, 3])
    np.testing.assert_array_equal(source.rows(which)["x"][:, 0], which)
    for bad in ((4, 4), (-1, 4), (0, 0)):
        with pytest.raises(ValueError, match=r"number|count"):
            source.shard(*bad)


def test_documents_have_shards_and_fingerprints():
    from scirocco.corpora.documents import Documents

    counts = np.random.default_rng(0).poisson(0.5, (11, 7))
    documents = Documents.of(counts)
    parts = [documents.shard(k, 3) for k in range(3)]
    assert sum(part.tokens for part in parts) == counts.sum()
    assert documents.fingerprint() == Documents.of(counts.copy()).fingerprint()
    counts[4, 2] += 1
    assert documents.fingerprint() != Documents.of(counts).fingerprint()
