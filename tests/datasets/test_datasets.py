"""Data sets: original files in their own formats, folders, downloads from a server on this machine, and none at all."""

import dataclasses
import functools
import gzip
import http.server
import io
import re
import struct
import tarfile
import threading
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

import scirocco as sc
from scirocco import datasets
from scirocco.datasets import covertype, mnist, movielens, msweb, networks, store, texts

RNG = np.random.default_rng(0)


def own_digest(monkeypatch, module, arrays, name="FACTS"):
    """The data set is another one, with these arrays."""
    monkeypatch.setattr(module, name, dataclasses.replace(getattr(module, name), digest=store.digest_of(arrays)))


def test_cover_types(tmp_path, monkeypatch):
    measured, kinds = RNG.integers(-5, 300, (30, 10)), RNG.integers(1, 8, 30)
    area, soil = RNG.integers(4, size=30), RNG.integers(40, size=30)
    rows = np.hstack([measured, np.eye(4, dtype=int)[area], np.eye(40, dtype=int)[soil], kinds[:, None]])
    text = "".join(",".join(map(str, row)) + "\n" for row in rows)
    (tmp_path / "covtype.data.gz").write_bytes(gzip.compress(text.encode()))
    with pytest.raises(ValueError, match="original files of covertype are not those that are known"):
        sc.datasets.load_covertype(tmp_path)
    made = {"quantitative": measured.astype(np.int16), "wilderness": area.astype(np.uint8),
            "soil": soil.astype(np.uint8), "cover_type": kinds.astype(np.uint8)}  # fmt: skip
    own_digest(monkeypatch, covertype, {"covertype": made})
    found = sc.datasets.load_covertype(tmp_path)
    np.testing.assert_array_equal(found.quantitative, measured)
    np.testing.assert_array_equal(found.soil, soil)
    design = found.design()
    assert design.shape == (30, 54)
    np.testing.assert_allclose(design[:, :10].mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(design[:, :10].std(axis=0), 1, rtol=1e-5)
    np.testing.assert_array_equal(design[:, 10:], rows[:, 10:-1])
    np.testing.assert_array_equal(found.lodgepole, kinds == 2)
    assert "CC BY 4.0" in repr(found)


def test_digits(tmp_path, monkeypatch):
    made = {"x_train": RNG.integers(256, size=(6, 4)), "y_train": RNG.integers(10, size=6),
            "x_test": RNG.integers(256, size=(3, 4)), "y_test": RNG.integers(10, size=3)}  # fmt: skip
    made = {name: array.astype(np.uint8) for name, array in made.items()}
    for name, array in made.items():
        sizes = [len(array), 2, 2] if array.ndim == 2 else [len(array)]
        head = b"\0\0\x08" + bytes([len(sizes)]) + struct.pack(f">{len(sizes)}i", *sizes)
        (tmp_path / mnist.FILES[name]).write_bytes(gzip.compress(head + array.tobytes()))
    own_digest(monkeypatch, mnist, {"mnist": made})
    found = sc.datasets.load_mnist(tmp_path)
    for name, array in made.items():
        np.testing.assert_array_equal(getattr(found, name), array)


def test_visits(tmp_path, monkeypatch):
    areas = 'A,1002,1,"A, and B","/ab"\r\nA,1000,1,"Norway","/norge"\r\nA,1001,1,"x","/x"\r\n'
    (tmp_path / "anonymous-msweb.data").write_text(
        f'I,4,"www","x"\r\n{areas}C,"1",1\r\nV,1002,1\r\nV,1000,1\r\nC,"2",2\r\nV,1001,1\r\n', newline=""
    )
    (tmp_path / "anonymous-msweb.test").write_text(f'{areas}C,"7",7\r\nV,1000,1\r\n', newline="")
    monkeypatch.setattr(msweb, "FACTS", dataclasses.replace(msweb.FACTS, digest=None))
    found = sc.datasets.load_msweb(tmp_path)
    np.testing.assert_array_equal(found.train.toarray(), [[1, 0, 1], [0, 1, 0]])
    np.testing.assert_array_equal(found.test.toarray(), [[1, 0, 0]])
    assert found.areas is None
    (tmp_path / "msweb_areas.txt").write_text("1000\tNorway\t/norge\n1001\tx\t/x\n1002\tA, and B\t/ab\n")
    assert sc.datasets.load_msweb(tmp_path).areas == ["Norway", "x", "A, and B"]


@pytest.mark.parametrize(
    ("size", "archive", "member", "separator"),
    [("100k", "ml-100k.zip", "ml-100k/u.data", "\t"), ("1m", "ml-1m.zip", "ml-1m/ratings.dat", "::")],
)
def test_ratings(tmp_path, monkeypatch, size, archive, member, separator):
    rows = [(1, 5, 4, 880000000), (1, 7, 3, 880000001), (3, 2, 5, 880000002)]
    with zipfile.ZipFile(tmp_path / archive, "w") as file:
        file.writestr(member, "".join(separator.join(map(str, row)) + "\n" for row in rows))
    monkeypatch.setitem(movielens.SIZES, size, dataclasses.replace(movielens.SIZES[size], digest=None))
    found = sc.datasets.load_movielens(size, tmp_path)
    np.testing.assert_array_equal(found.pairs, [(0, 4), (0, 6), (2, 1)])
    np.testing.assert_array_equal(found.rating, [4, 3, 5])
    assert (found.timestamp is not None) == (size == "100k")
    assert "no redistribution" in repr(found)


def test_newsgroups(tmp_path, monkeypatch):
    posts = {"train/sci.space": ["orbit shuttle moon " * 4] * 6, "test/rec.autos": ["motor wheels engine " * 4] * 6}
    with tarfile.open(tmp_path / "20news-bydate.tar.gz", "w:gz") as archive:
        for place, own in posts.items():
            for number, text in enumerate(own):
                content = f"From: nobody\nSubject: comet\nX-Odd: secret\n\n{text}".encode("latin-1")
                member = tarfile.TarInfo(f"20news-bydate-{place}/{number}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    with pytest.raises(ValueError, match=r"must have .* 11314.* documents; it has .*6"):
        sc.datasets.load_newsgroups(tmp_path)
    monkeypatch.setattr(texts, "DOCUMENTS", {"train": 6, "test": 6})
    found = sc.datasets.load_newsgroups(tmp_path)
    assert found.vocabulary == ["engine", "moon", "motor", "orbit", "shuttle", "wheels"]  # "comet" is everywhere
    assert found.groups == ["rec.autos", "sci.space"]
    np.testing.assert_array_equal(found.label, found.test == 0)
    np.testing.assert_array_equal(found.counts.sum(axis=1), 12)


def test_networks(tmp_path, monkeypatch):
    (tmp_path / "facebook_combined.txt.gz").write_bytes(gzip.compress(b"0 2\n1 0\n2 1\n0 1\n3 3\n0 3\n"))
    monkeypatch.setitem(networks.NETWORKS, "facebook", dataclasses.replace(networks.NETWORKS["facebook"], digest=None))
    found = sc.datasets.load_network("facebook", tmp_path)
    np.testing.assert_array_equal(found.edges, [(0, 1), (0, 2), (0, 3), (1, 2)])
    assert found.nodes == 4
    np.savez(tmp_path / "networks.npz", usair_edges=np.array([[0, 1]]), usair_n=np.array(2))
    assert sc.datasets.load_network("usair", tmp_path).nodes == 2


def test_a_named_folder_is_the_only_place(tmp_path, monkeypatch):
    counts = sp.csr_matrix(RNG.poisson(0.5, (5, 4)).astype(np.uint16))
    np.savez(tmp_path / "wikipedia.npz", data=counts.data, indices=counts.indices, indptr=counts.indptr,
             shape=counts.shape)  # fmt: skip
    (tmp_path / "wikipedia.vocab.txt").write_text("a\nb\nc\nd\n")
    monkeypatch.setenv("SCIROCCO_DATA", str(tmp_path))
    found = sc.datasets.load_wikipedia()
    np.testing.assert_array_equal(found.counts.toarray(), counts.toarray())
    assert found.counts.dtype == np.int64
    assert found.vocabulary == ["a", "b", "c", "d"]
    (tmp_path / "mnist.npz").write_bytes(b"PK")
    for load, words in (
        (sc.datasets.load_covertype, r"has no covertype\.npz: SCIROCCO_DATA .* https://archive\.ics\.uci\.edu"),
        (functools.partial(sc.datasets.load_network, "usair"), r"has no networks\.npz: .* no source offers them"),
    ):
        with pytest.raises(FileNotFoundError, match=words) as error:
            load()
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"mnist\.npz is damaged or no archive"):
        sc.datasets.load_mnist()


@pytest.fixture
def server(tmp_path):
    """A folder on a server of this machine, and its address."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{found.server_port}"
        found.shutdown()
        thread.join()


def test_downloading_into_the_cache(tmp_path, server, monkeypatch, capsys):
    folder, address = server
    monkeypatch.delenv("SCIROCCO_DATA", raising=False)
    monkeypatch.setenv("SCIROCCO_CACHE", str(tmp_path / "cache"))
    url = f"{address}/sand.txt"
    arrays = {"sand": {"grains": np.arange(3)}}
    facts = datasets.Facts(
        "sand", "grains", "3 grains", "free", "the desert", ("sand.npz",), (url,),
        lambda original: {"sand": {"grains": np.array(original(url).read_text().split(), int)}},
        store.digest_of(arrays),
    )  # fmt: skip
    with pytest.raises(FileNotFoundError, match=r"there is no sand\.npz: SCIROCCO_DATA"):
        store.arrays_of(facts, download=False)
    with pytest.raises(FileNotFoundError, match=r"downloading from 127\.0\.0\.1:\d+ failed: HTTPError"):
        store.arrays_of(facts)
    (folder / "sand.txt").write_text("0 1 7")
    with pytest.raises(ValueError, match="original files of sand are not those that are known"):
        store.arrays_of(facts)
    (folder / "sand.txt").write_text("0 1 2")  # another try begins anew
    capsys.readouterr()
    np.testing.assert_array_equal(store.arrays_of(facts)["sand"]["grains"], np.arange(3))
    assert re.search(r"^scirocco: sand from 127\.0\.0\.1:\d+; free$", capsys.readouterr().err, re.MULTILINE)
    (folder / "sand.txt").unlink()
    np.testing.assert_array_equal(store.arrays_of(facts)["sand"]["grains"], np.arange(3))  # it is kept


def test_every_data_set_is_known(tmp_path, monkeypatch):
    monkeypatch.setenv("SCIROCCO_DATA", str(tmp_path))
    for name, facts in datasets.KNOWN.items():
        with pytest.raises(FileNotFoundError, match=re.escape(facts.files[0])):
            datasets.load(name)
        assert all((facts.about, facts.shape, facts.licence, facts.source))
        assert facts.originals or facts.instead
        assert facts.digest is None or re.fullmatch("[0-9a-f]{64}", facts.digest)
    with pytest.raises(ValueError, match="name must be one of"):
        datasets.load("nonsense")
