"""Files of models: what was saved comes back; what is damaged or made by hand is one error before memory is used."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest

from scirocco.models import storage

ARRAYS = {"weights": np.linspace(0, 1, 7), "counts": np.arange(6).reshape(2, 3), "names": np.array(["a", "bc"])}


class Model:
    """Anything with settings."""

    def __init__(self, size=1):
        self.size = size

    def get_params(self, deep=True):
        del deep
        return {"size": self.size}


def save(path, arrays=ARRAYS):
    storage.write(Model(3), path, {"fact": 5}, arrays)


def load(path):
    def restore(model, meta, arrays):
        model.weights, model.counts, model.names = (arrays[name] for name in ("weights", "counts", "names"))
        model.fact, model.extra = meta["fact"], arrays.get("extra")

    return storage.read(Model, path, restore)


def entries(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def rewrite(path, change):
    """The same archive with other entries; None leaves one out."""
    content = entries(path) | change
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in content.items():
            if data is not None:
                file.writestr(name, data)


def packed(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def header(shape, dtype="<f8"):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue()


def test_what_was_saved_comes_back(tmp_path):
    save(tmp_path / "m.npz")
    found = load(tmp_path / "m.npz")
    assert (found.size, found.fact, found.extra) == (3, 5, None)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(getattr(found, name), array)


def test_a_failed_save_leaves_nothing(tmp_path, monkeypatch):
    save(tmp_path / "m.npz")
    before = (tmp_path / "m.npz").read_bytes()

    def full(file, **arrays):
        file.write(b"some bytes")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path / "m.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["m.npz"]
    assert (tmp_path / "m.npz").read_bytes() == before


def meta_of(path, **change):
    meta = json.loads(np.load(io.BytesIO(entries(path)["meta.npy"])).tobytes()) | change
    return packed(np.frombuffer(json.dumps({k: v for k, v in meta.items() if v is not None}).encode(), np.uint8))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"weights.npy": header((10**11,))}, "weights is float64 .* by its header and has 0 bytes"),
        ({"weights.npy": header((2**40, 2**40)) + b"x" * 80}, "weights is float64 .* by its header and has 80 bytes"),
        ({"weights.npy": header((1,), "|O") + b"x" * 8}, "weights has dtype object"),
        ({"weights.npy": b"nothing"}, "magic string"),
        ({"weights.npy": packed(np.array([1.0, np.nan]))}, "not those that it lists"),
        ({"extra.npy": packed(np.zeros(10))}, "not those that it lists"),
        ({"weights.npy": None}, "not those that it lists"),
        ({"readme.txt": b"hello"}, "readme.txt is not an array"),
        ({"meta.npy": packed(np.frombuffer(b"[" * 100_000, np.uint8))}, "recursion"),
        ({"meta.npy": packed(np.frombuffer(b"{}", np.uint8))}, "it has no 'model'"),
        ({"meta.npy": None}, "it has no 'meta'"),
    ],
)
def test_handmade_files_are_one_error(tmp_path, change, words):
    save(tmp_path / "m.npz")
    rewrite(tmp_path / "m.npz", change)
    with pytest.raises(ValueError, match=f"m.npz is damaged or not a saved Model model: .*{words}"):
        load(tmp_path / "m.npz")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_model_with_nan_does_not_load(tmp_path, bad):
    save(tmp_path / "m.npz", ARRAYS | {"weights": np.array([1.0, bad])})
    with pytest.raises(ValueError, match="weights has entries that are NaN or infinite"):
        load(tmp_path / "m.npz")


def test_arrays_that_nobody_asks_for_are_not_unpacked(tmp_path, monkeypatch):
    save(tmp_path / "m.npz")
    path = tmp_path / "m.npz"
    rewrite(
        path, {"meta.npy": meta_of(path, arrays=None), "more.npy": packed(np.zeros(10))}
    )  # as of the first versions
    unpacked = []
    read_array = np.lib.format.read_array
    monkeypatch.setattr(np.lib.format, "read_array", lambda *a, **k: unpacked.append(1) or read_array(*a, **k))
    assert load(path).fact == 5
    assert len(unpacked) == 4  # the facts and three arrays


def test_a_size_that_cannot_be_is_refused(tmp_path):
    """An archive that says of a few bytes that they are a gigabyte."""
    save(tmp_path / "m.npz")
    rewrite(tmp_path / "m.npz", {"weights.npy": header((2**27,)) + b"\0" * 64})
    raw = bytearray((tmp_path / "m.npz").read_bytes())
    with zipfile.ZipFile(io.BytesIO(bytes(raw))) as file:
        entry = file.getinfo("weights.npy")
        place = raw.rindex(b"weights.npy") - 46  # its line of the directory
    size = len(header((2**27,))) + 2**30
    raw[place + 24 : place + 28] = size.to_bytes(4, "little")
    (tmp_path / "m.npz").write_bytes(bytes(raw))
    assert entry.file_size < 1000
    with pytest.raises(ValueError, match=f"weights cannot have {size} bytes in {entry.compress_size} of the file"):
        load(tmp_path / "m.npz")


def test_every_flip_is_an_error_or_does_no_harm(tmp_path):
    save(tmp_path / "m.npz")
    whole, rng = (tmp_path / "m.npz").read_bytes(), np.random.default_rng(0)
    noticed = 0
    for _ in range(300):
        raw = bytearray(whole)
        raw[rng.integers(len(raw))] ^= 1 << rng.integers(8)
        (tmp_path / "m.npz").write_bytes(bytes(raw))
        try:
            found = load(tmp_path / "m.npz")
        except ValueError as error:
            noticed += "is damaged or not a saved Model model" in str(error)
            continue
        noticed += 1
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(getattr(found, name), array)
    assert noticed == 300
