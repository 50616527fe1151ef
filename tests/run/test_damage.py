"""Files that are missing, damaged or cannot be written: always an error that names the file, never wrong draws."""

from __future__ import annotations

import shutil

import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.run import checkpoint, store
from scirocco.run.ragged import Ragged
from scirocco.run.store import Variable, ZarrStore, make_arrays, read_draws, verify

pytestmark = pytest.mark.quick

X = np.random.default_rng(0).normal(2.0, 1.0, (200, 2)).astype(np.float32)
TARGET = sc.Target(lambda m: -0.5 * jnp.sum(m**2), lambda m, x: -0.5 * jnp.sum((x - m) ** 2), X)


def begin(path, **options):
    settings = {"num_samples": 300, "burn_in": 50, "batch_size": 20, "chains": 2} | options
    return sc.sample(TARGET, sc.SGLD(1e-3), jnp.zeros(2), path=path, **settings)


@pytest.fixture
def chunked(tmp_path, monkeypatch):
    """A finished run with a dozen chunks of draws."""
    monkeypatch.setattr(store, "CHUNK_BYTES", 25 * 2 * 16)
    begin(tmp_path / "run")
    return tmp_path / "run"


def chunks(run):
    return sorted(p for p in (run / "draws.zarr" / "theta").rglob("*") if p.is_file() and p.name != "zarr.json")


def test_a_missing_chunk_is_noticed(chunked):
    assert len(chunks(chunked)) == 12
    chunks(chunked)[3].unlink()
    for look in (lambda: sc.Trace.load(chunked), lambda: sc.resume(chunked, TARGET, num_samples=400)):
        with pytest.raises(sc.run.DamagedError, match=r"theta lacks the chunk .* restore it from a copy"):
            look()


def test_flipped_bits_are_noticed(chunked, tmp_path):
    """Every one of 60 flips anywhere in the draws."""
    rng = np.random.default_rng(0)
    for number in range(60):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(chunked, copy)
        path = rng.choice(chunks(copy))
        content = bytearray(path.read_bytes())
        content[rng.integers(len(content))] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(content))
        with pytest.raises((sc.run.DamagedError, ValueError), match=r"damaged|checksum"):
            sc.Trace.load(copy)
        shutil.rmtree(copy)


def test_draws_that_disagree_with_the_moments_are_noticed(chunked):
    """A chunk with a right checksum and wrong content, as of another run."""
    array = store.open_group(chunked / "draws.zarr")["theta"]
    array[:, :25] = array[:, 25:50] + 1.0
    with pytest.raises(sc.run.DamagedError, match="does not agree with the moments"):
        sc.Trace.load(chunked)


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path):
    whole = begin(None, num_samples=500)
    begin(tmp_path / "run", checkpoint_seconds=0.0)
    place = tmp_path / "run" / "chains-0"
    (place / "checkpoint.json").write_text("{")
    with pytest.warns(UserWarning, match=r"checkpoint.json is damaged.*the previous checkpoint is used"):
        resumed = sc.resume(tmp_path / "run", TARGET, num_samples=500)
    np.testing.assert_array_equal(resumed.posterior["theta"], whole.posterior["theta"])
    for name in ("checkpoint.json", "previous.json"):
        (place / name).write_text("{")
    with pytest.raises(sc.run.DamagedError, match=r"no whole checkpoint to go on from: restore the folder"):
        sc.resume(tmp_path / "run", TARGET)


def test_a_damaged_piece_is_noticed(tmp_path):
    begin(tmp_path / "run")
    place = tmp_path / "run" / "chains-0"
    (place / "previous.json").unlink()
    for piece in (place / "pieces").iterdir():
        piece.write_bytes(piece.read_bytes()[:-1] + b"?")
    with pytest.raises(sc.run.DamagedError, match=r"pieces.*its checksum does not fit"):
        sc.Trace.load(tmp_path / "run")


def test_only_pieces_that_changed_are_written(tmp_path):
    table = np.arange(3 * 2**18, dtype=np.float32)  # three pieces
    checkpoint.write(tmp_path, {"table": table, "small": np.arange(5)}, {"step": 1})
    before = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "pieces").iterdir()}
    table[2**18 + 7] = -1.0
    checkpoint.write(tmp_path, {"table": table, "small": np.arange(5)}, {"step": 2})
    after = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "pieces").iterdir()}
    assert len(set(after) - set(before)) == 1
    assert all(after[name] == before[name] for name in before)
    arrays, facts = checkpoint.read(tmp_path)
    np.testing.assert_array_equal(arrays["table"], table)
    assert facts == {"step": 2}
    checkpoint.write(tmp_path, {"table": np.zeros(1)}, {"step": 3})
    checkpoint.write(tmp_path, {"table": np.zeros(1)}, {"step": 4})
    assert len(list((tmp_path / "pieces").iterdir())) == 1  # what no checkpoint names is gone


def test_a_full_disk_keeps_the_draws_and_leaves_no_litter(tmp_path, monkeypatch):
    whole = begin(None)
    write, calls = checkpoint._write, []

    def full(path, data):
        calls.append(path)
        if len(calls) > 6:
            path.with_name(f".{path.name}.tmp").unlink(missing_ok=True)
            raise OSError(28, "No space left on device")
        write(path, data)

    monkeypatch.setattr(checkpoint, "_write", full)
    with pytest.raises(OSError, match="No space left") as caught:
        begin(tmp_path / "run", checkpoint_seconds=0.0)
    trace = caught.value.trace
    assert trace.count > 0
    np.testing.assert_array_equal(trace.posterior["theta"], whole.posterior["theta"][:, : trace.count])
    assert not list(tmp_path.rglob("*.tmp"))
    monkeypatch.undo()
    resumed = sc.resume(tmp_path / "run", TARGET)
    np.testing.assert_array_equal(resumed.posterior["theta"], whole.posterior["theta"])


def test_what_was_never_written_is_not_a_number(tmp_path):
    make_arrays(tmp_path, {"x": Variable((), np.dtype(np.float32))}, 1, 1, 10)
    assert np.isnan(store.open_group(tmp_path / "draws.zarr")["x"][...]).all()


def test_ragged_draws_survive_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "CHUNK_BYTES", 16 * 8 * 2 * 3)
    variables = {"clusters": Variable((2,), np.dtype(np.float64), ragged=True), "x": Variable((), np.dtype(np.float64))}
    rng = np.random.default_rng(0)
    make_arrays(tmp_path, variables, 2, 2, 17)
    kept, draws = ZarrStore(tmp_path, variables, range(2)), []
    for size in (1, 4, 0, 5, 7):
        part = [[rng.normal(size=(rng.integers(0, 4), 2)) for _ in range(size)] for _ in range(2)]
        draws.append(part)
        kept.append({"clusters": Ragged.of(part, np.zeros(2)), "x": rng.normal(size=(2, size))})
    assert kept.count == 17
    wanted = Ragged.of([[d for part in draws for d in part[c]] for c in range(2)], np.zeros(2))
    assert kept.draws()["clusters"] == wanted
    kept.finish()
    verify(tmp_path, variables, 17, range(2))
    assert read_draws(tmp_path, variables, 17, range(2))["clusters"] == wanted
    np.testing.assert_array_equal(wanted[1, 16], draws[-1][1][-1])
    assert wanted.padded().shape == (2, 17, wanted.lengths.max(), 2)
    assert np.isnan(wanted.padded()).sum() == 2 * (wanted.lengths.max() - wanted.lengths).sum()
    shutil.rmtree(tmp_path / "ragged.zarr" / "clusters" / "values.1.0")
    with pytest.raises(sc.run.DamagedError, match="clusters is damaged"):
        read_draws(tmp_path, variables, 17, range(2))
    with pytest.raises(ValueError, match="do not fit"):
        Ragged(np.array([[1, 2]]), [np.zeros(2)])
