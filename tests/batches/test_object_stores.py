"""Data at addresses that fsspec reads: what is in files is there too, block by block."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scirocco as sc
from scirocco.batches import Arrow, Parquet
from scirocco.corpora import Corpus, write_corpus

pytest.importorskip("upath", reason="it is in the extra remote")
ROWS = np.random.default_rng(0).normal(size=20_000)
COUNTS = np.random.default_rng(1).poisson(0.3, (200, 30))


@pytest.fixture(params=["memory", "file", pytest.param("s3", marks=pytest.mark.slow)])
def store(request, tmp_path):
    """The beginning of addresses, and the options for them."""
    if request.param == "s3":
        return request.getfixturevalue("bucket")
    return ("memory:/" if request.param == "memory" else "file://") + str(tmp_path), {}


@pytest.fixture(scope="module")
def bucket():
    """A server of S3 on this machine: ``pip install "moto[server]" s3fs``."""
    moto = pytest.importorskip("moto.server", reason="there is no moto[server], a server of S3")
    s3fs = pytest.importorskip("s3fs", reason="there is no s3fs")
    server = moto.ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    options = {"key": "any", "secret": "any", "client_kwargs": {"endpoint_url": f"http://{host}:{port}"}}
    s3fs.S3FileSystem(**options).mkdir("bucket")
    yield "s3://bucket", options
    server.stop()


@pytest.fixture
def table(store):
    """The address of a table of twenty groups, and the options."""
    import upath

    address, options = f"{store[0]}/rows.parquet", store[1]
    place = upath.UPath(address, **options)
    with place.fs.open(place.path, "wb") as file:
        pq.write_table(pa.table({"x": ROWS, "other": ROWS}), file, row_group_size=1000)
    return address, options


@pytest.fixture
def seen(monkeypatch):
    """How many bytes were read of files in memory."""
    from fsspec.implementations.memory import MemoryFile

    read, found = MemoryFile.read, []

    def reading(self, *given):
        data = read(self, *given)
        found.append(len(data))
        return data

    monkeypatch.setattr(MemoryFile, "read", reading)
    return found


def test_rows_are_those_of_a_file(table, tmp_path):
    address, options = table
    pq.write_table(pa.table({"x": ROWS, "other": ROWS}), tmp_path / "local.parquet", row_group_size=1000)
    here = Parquet(tmp_path / "local.parquet", columns=["x"], block_bytes=16_000)
    there = Parquet(address, columns=["x"], block_bytes=16_000, storage_options=options or None)
    np.testing.assert_array_equal(there.read(7, 10, 500)["x"], here.read(7, 10, 500)["x"])
    assert there.fingerprint() == here.fingerprint()
    sent = pickle.loads(pickle.dumps(there))
    np.testing.assert_array_equal(sent.read(19, 0, 1000)["x"], ROWS[19_000:])


@pytest.mark.parametrize("store", ["memory"], indirect=True)
def test_blocks_alone_are_read(table, seen):
    rows = Parquet(table[0], columns=["x"], block_bytes=16_000)
    del seen[:]
    rows.read(3, 0, 1000)
    assert 8000 <= sum(seen) < 20_000  # of 320,000


def test_documents_are_those_of_a_folder(store, tmp_path):
    address, options = f"{store[0]}/corpus", store[1] or None
    here = write_corpus(tmp_path / "local", [COUNTS], 30)
    written = write_corpus(address, [COUNTS[:70], COUNTS[70:]], 30, storage_options=options)
    there = Corpus(address, block_entries=200, storage_options=options)
    assert there.blocks > 5
    assert there.vocabulary == here.vocabulary
    for corpus in (written, there, pickle.loads(pickle.dumps(there))):
        assert corpus.fingerprint() == here.fingerprint()
        np.testing.assert_array_equal(corpus.read(60, 90).words, here.read(60, 90).words)
    with pytest.raises(FileExistsError, match="holds a corpus already"):
        write_corpus(address, [COUNTS], 30, storage_options=options)


@pytest.mark.parametrize("store", ["memory"], indirect=True)
def test_damage_in_a_store_is_named(store):
    corpus = write_corpus(f"{store[0]}/corpus", [COUNTS], 30)
    (corpus.path / "corpus.zarr" / "words" / "c" / "0").unlink()
    with pytest.raises(ValueError, match=r"is damaged: memory://.*/words/c/0 is missing; restore it"):
        corpus.read(0, 5)


@pytest.mark.parametrize("store", ["memory"], indirect=True)
def test_topics_of_documents_in_a_store(store, at_once, tmp_path):
    there, here = (write_corpus(place, [COUNTS], 30) for place in (f"{store[0]}/corpus", tmp_path / "local"))
    settings = {"max_iter": 4, "search_passes": 1, "n_chains": 1, "random_state": 0}
    one, other = (
        sc.LDA(3, sampler="gibbs", **settings).fit(corpus, client=at_once, shards=2) for corpus in (there, here)
    )
    np.testing.assert_array_equal(one.components_, other.components_)


# What is refused before any work.


def test_wrong_addresses():
    with pytest.raises(FileNotFoundError, match="missing: memory://nothing"):
        Parquet("memory://nothing/rows.parquet")
    with pytest.raises(FileNotFoundError, match="holds no corpus"):
        Corpus("memory://nothing")
    with pytest.raises(ValueError, match="Unsupported filesystem: 'nope'"):
        Corpus("nope://nothing")
    with pytest.raises(ValueError, match="storage_options are for addresses such as s3://bucket/name; got the path"):
        Corpus("nothing", storage_options={"anon": True})
    with pytest.raises(ValueError, match="storage_options are for addresses"):
        Parquet("nothing.parquet", storage_options={"anon": True})


def test_arrow_files_are_mapped():
    import upath

    (upath.UPath("memory://rows.arrow")).write_text("")
    with pytest.raises(ValueError, match=r"mapped into memory, which memory://rows.arrow cannot be"):
        Arrow("memory://rows.arrow")


@pytest.mark.parametrize("address", ["s3://bucket/run", "memory://run"])
def test_a_run_has_a_folder(address):
    said = "path must be a folder of a file system, because a run locks and renames its files; got the address"
    with pytest.raises(ValueError, match=said):
        sc.sample_dirichlet(np.arange(9), 0.1, sc.SCIR(0.1), num_samples=5, path=address)
    with pytest.raises(ValueError, match=said):
        sc.LDA(3).fit(COUNTS, path=address)
    with pytest.raises(ValueError, match=said):
        sc.resume(address, COUNTS)
