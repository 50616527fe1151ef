"""Files that are missing, damaged or cannot be written: always an error that names the file, never wrong draws."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter

import jax.numpy as jnp
import numpy as np
import pytest
from zarr.storage import LocalStore

import scirocco as sc
from scirocco.run import checkpoint, group, store, stored
from scirocco.run.ragged import Ragged
from scirocco.run.store import Variable, ZarrStore, make_arrays, read_draws, verify

pytestmark = pytest.mark.quick

X = np.random.default_rng(0).normal(2.0, 1.0, (200, 2)).astype(np.float32)
TARGET = sc.Target(lambda m: -0.5 * jnp.sum(m**2), lambda m, x: -0.5 * jnp.sum((x - m) ** 2), X)


def begin(path, **options):
    settings = {"num_samples": 300, "burn_in": 50, "batch_size": 20, "chains": 2, "report": False} | options
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
        with pytest.raises(sc.run.DamagedError, match=r"theta/c/\d+/\d+/0, a chunk .* restore it from a copy"):
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
        with pytest.raises(sc.run.DamagedError, match=f"{re.escape(str(path))} is damaged"):
            sc.Trace.load(copy)
        shutil.rmtree(copy)


@pytest.mark.parametrize("content", ["", "{]", "[]", '{"zarr_format": 3}'])
def test_a_damaged_description_of_draws_is_named(chunked, content):
    (chunked / "draws.zarr" / "theta" / "zarr.json").write_text(content)
    for look in (lambda: sc.Trace.load(chunked), lambda: sc.resume(chunked, TARGET, num_samples=400)):
        with pytest.raises(sc.run.DamagedError, match=r"draws.zarr/theta/zarr.json is damaged"):
            look()


def test_chunks_without_their_description_are_not_written_over(chunked):
    (chunked / "draws.zarr" / "theta" / "zarr.json").unlink()
    before = [path.read_bytes() for path in chunks(chunked)]
    for look in (lambda: sc.Trace.load(chunked), lambda: sc.resume(chunked, TARGET, num_samples=400)):
        with pytest.raises(sc.run.DamagedError, match=r"draws.zarr/theta/zarr.json is missing"):
            look()
    assert [path.read_bytes() for path in chunks(chunked)] == before


def test_a_checkpoint_without_its_facts_is_damage(chunked):
    place = chunked / "chains-0"
    content = checkpoint.read_json(place / "checkpoint.json")
    for name in content["facts"]:
        facts = {key: value for key, value in content["facts"].items() if key != name}
        for folder in (place / "checkpoint.json", place / "previous.json"):
            checkpoint.write_json(folder, content | {"facts": facts})
        for look in (lambda: sc.Trace.load(chunked), lambda: sc.resume(chunked, TARGET, num_samples=400)):
            with pytest.raises(sc.run.DamagedError, match=rf"the facts of .*checkpoint.json .* it has no '{name}'"):
                look()


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


def test_a_deleted_checkpoint_gives_way_to_the_one_before_with_a_warning(tmp_path):
    for step in (1, 2):
        checkpoint.write(tmp_path, {"a": np.arange(step)}, {"step": step})
    (tmp_path / "checkpoint.json").unlink()
    with pytest.warns(UserWarning, match=r"checkpoint.json is missing; the previous checkpoint is used instead"):
        _, facts = checkpoint.read(tmp_path)
    assert facts == {"step": 1}
    (tmp_path / "previous.json").write_text("{")
    with pytest.raises(sc.run.DamagedError, match=r"checkpoint.json is missing; there is no whole checkpoint"):
        checkpoint.read(tmp_path)


def test_there_is_a_newest_checkpoint_at_any_moment(tmp_path, monkeypatch):
    """Killed between any two writes of files: never a moment at which the newest one has no name."""
    checkpoint.write(tmp_path, {"a": np.arange(3)}, {"step": 1})
    seen = []
    for name in ("replace", "link"):
        original = getattr(os, name)

        def watched(*arguments, original=original):
            original(*arguments)
            seen.append((tmp_path / "checkpoint.json").is_file())

        monkeypatch.setattr(os, name, watched)
    checkpoint.write(tmp_path, {"a": np.arange(4)}, {"step": 2})
    assert len(seen) >= 4
    assert all(seen)
    assert checkpoint.read_json(tmp_path / "previous.json")["facts"] == {"step": 1}

    def refused(*_):
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refused)
    checkpoint.write(tmp_path, {"a": np.arange(5)}, {"step": 3})
    assert checkpoint.read_json(tmp_path / "previous.json")["facts"] == {"step": 2}
    assert checkpoint.read(tmp_path)[1] == {"step": 3}


def test_pieces_elsewhere_are_left_alone(tmp_path):
    """A symbolic link in the place of the pieces is refused before anything behind it is touched."""
    place, other = tmp_path / "chains-0", tmp_path / "photographs"
    checkpoint.write(place, {"a": np.arange(3)}, {})
    (place / "pieces").rename(other)
    (other / "summer.jpg").write_text("mine")
    (place / "pieces").symlink_to(other, target_is_directory=True)
    for work in (lambda: checkpoint.read(place), lambda: checkpoint.write(place, {"a": np.arange(4)}, {})):
        with pytest.raises(sc.run.DamagedError, match=r"pieces is a symbolic link"):
            work()
    assert len(list(other.iterdir())) == 2


def test_only_what_looks_like_a_piece_is_deleted(tmp_path):
    checkpoint.write(tmp_path, {"a": np.arange(3)}, {})
    pieces = tmp_path / "pieces"
    old, half = "0" * 32, f".{'1' * 32}.77.tmp"
    mine = [pieces / "notes.txt", pieces / ("0" * 31), tmp_path / ".notes.tmp", pieces / "a.tmp"]
    for path in [*mine, pieces / old, pieces / half, tmp_path / ".checkpoint.json.77.tmp"]:
        path.write_text("x")
    (pieces / ("2" * 32)).mkdir()
    (pieces / ("3" * 32)).symlink_to(mine[0])
    checkpoint.write(tmp_path, {"a": np.arange(4)}, {})
    assert all(path.is_file() for path in mine)
    assert not any(path.exists() for path in (pieces / old, pieces / half, tmp_path / ".checkpoint.json.77.tmp"))
    assert (pieces / ("2" * 32)).is_dir()


def handmade(folder, content):
    """A checkpoint with a right checksum and any content."""
    text = content if isinstance(content, str) else json.dumps(content)
    whole = {"format": checkpoint.FORMAT, "checksum": checkpoint._digest(text.encode()), "content": text}
    (folder / "checkpoint.json").write_text(json.dumps(whole))


ENTRY = {"shape": [3], "dtype": "int64", "at": 0}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("[" * 100_000, "not a file of a scirocco run: maximum recursion"),
        ("[]", "no object of JSON"),
        ({"facts": {}}, "it has no 'arrays'"),
        ({"facts": [], "arrays": {}, "shared": []}, r"'facts' is '\[\]'"),
        ({"arrays": {"a": 5}}, "its array 'a' is described by '5'"),
        ({"arrays": {"a": {"shape": [3], "dtype": "int64"}}}, "it has no 'at'"),
        ({"arrays": {"a": {"dtype": "int64", "at": 0}}}, "it has no 'shape'"),
        ({"arrays": {"a": ENTRY | {"dtype": "O"}}}, "'O' is no dtype of numbers"),
        ({"arrays": {"a": ENTRY | {"dtype": "no such"}}}, "'no such' is no dtype"),
        ({"arrays": {"a": ENTRY | {"dtype": "i8,f8"}}}, "'i8,f8' is no dtype"),
        ({"arrays": {"a": ENTRY | {"shape": [-1]}}}, "is no shape"),
        ({"arrays": {"a": ENTRY | {"shape": ["3"]}}}, "is no shape"),
        ({"arrays": {"a": ENTRY | {"shape": [10**11]}}}, "of 800000000000 bytes, and its pieces have 24"),
        ({"arrays": {"a": ENTRY | {"shape": [2**40, 2**40]}}}, "and its pieces have 24"),
        ({"arrays": {"a": ENTRY | {"at": 8}}}, "of 24 bytes, and its pieces have 16"),
        ({"arrays": {"a": ENTRY | {"at": -8}}}, "begins at -8"),
        ({"arrays": {"a": {"shape": [3], "dtype": "int64", "pieces": ["../x"]}}}, "'../x' is not the name of a piece"),
        ({"shared": [3]}, "'3' is not the name of a piece"),
        ({"shared": ["0" * 32]}, "a piece of a checkpoint, cannot be read"),
    ],
)  # fmt: skip
def test_handmade_checkpoints_are_one_error(tmp_path, change, words):
    checkpoint.write(tmp_path, {"a": np.arange(3)}, {"step": 1})
    content = checkpoint.read_json(tmp_path / "checkpoint.json")
    if isinstance(change, dict):
        change = change if "facts" in change else content | change
    handmade(tmp_path, change)
    with pytest.raises(sc.run.DamagedError, match=words):
        checkpoint.read(tmp_path)


def test_facts_that_a_checkpoint_must_have(tmp_path):
    checkpoint.write(tmp_path, {}, {"draws": 3, "stopped": None})
    assert checkpoint.read(tmp_path, {"draws": int, "stopped": str | None})[1]["draws"] == 3
    for wanted, words in (({"chains": int}, "it has no 'chains'"), ({"draws": str}, "'draws' is '3'")):
        with pytest.raises(sc.run.DamagedError, match=f"the facts of .*checkpoint.json is damaged.*{words}"):
            checkpoint.read(tmp_path, wanted)


def test_deep_nesting_is_damage(tmp_path):
    (tmp_path / "x.json").write_text("[" * 100_000)
    with pytest.raises(sc.run.DamagedError, match="not a file of a scirocco run"):
        checkpoint.read_json(tmp_path / "x.json")


def written_draws(folder, monkeypatch):
    """Draws of two variables on disk, in several chunks."""
    monkeypatch.setattr(store, "CHUNK_BYTES", 200)
    variables = {"x": Variable((2,), np.dtype(np.float64)), "c": Variable((), np.dtype(np.int64), ragged=True)}
    make_arrays(folder, variables, 2, 2, 9)
    rng, kept = np.random.default_rng(0), ZarrStore(folder, variables, range(2))
    x = rng.normal(size=(2, 9, 2))
    kept.append({"x": x, "c": Ragged.of([[np.arange(2)] * 9] * 2, np.zeros((), np.int64))})
    kept.finish()
    return variables, x


def test_lazy_draws_are_those_that_were_written(tmp_path, monkeypatch):
    _, x = written_draws(tmp_path, monkeypatch)
    found = stored.lazy(tmp_path / "draws.zarr", "x", (2,), np.dtype(np.float64))
    assert found.dims == ("chain", "draw", "x_dim_0")
    np.testing.assert_array_equal(found.isel(chain=[1], draw=slice(2, 5)).values, x[[1], 2:5])
    np.testing.assert_array_equal(found.isel(chain=1, draw=[7, 0, 7]).values, x[1, [7, 0, 7]])
    np.testing.assert_array_equal(found[:, ::-2].values, x[:, ::-2])
    np.testing.assert_array_equal(found.isel(draw=slice(0, 0)).values, x[:, :0])
    np.testing.assert_array_equal(found.values, x)


def test_damage_of_draws_names_the_file(tmp_path, monkeypatch):
    """Every file of the draws, cut, flipped or made of nonsense, by every way of reading."""
    variables, x = written_draws(tmp_path, monkeypatch)
    groups = {tmp_path / name / "zarr.json" for name in ("draws.zarr", "ragged.zarr", "ragged.zarr/c")}
    files = sorted({path for path in tmp_path.rglob("*") if path.is_file()} - groups)  # arrays are found without them
    assert len(files) > 8
    rng = np.random.default_rng(0)
    for path in files:
        whole = path.read_bytes()
        for way in ("flip", "cut", "nonsense", "nothing"):
            content = bytearray(whole)
            if way == "flip":
                content[rng.integers(len(content))] ^= 1 << rng.integers(8)
            changed = {"flip": content, "cut": content[:-3], "nonsense": b"{]", "nothing": b""}[way]
            path.write_bytes(bytes(changed))
            described = way == "flip" and path.name == "zarr.json"  # a flip in a comment, so to speak, may do no harm
            said = None
            try:
                verify(tmp_path, variables, 9, range(2))
                found = read_draws(tmp_path, variables, 9, range(2))
                lazily = stored.lazy(tmp_path / "draws.zarr", "x", (2,), np.dtype(np.float64)).values
            except sc.run.DamagedError as error:
                said = str(error)
            assert described or str(path) in said, (way, path)
            if said is None:
                np.testing.assert_array_equal(found["x"], x)
                np.testing.assert_array_equal(lazily, x)
        path.write_bytes(whole)


def test_damaged_groups_name_their_file(tmp_path, monkeypatch):
    written_draws(tmp_path, monkeypatch)
    (tmp_path / "draws.zarr" / "zarr.json").write_text("{]")
    with pytest.raises(sc.run.DamagedError, match=r"draws.zarr/zarr.json is damaged"):
        store.open_group(tmp_path / "draws.zarr")


def test_an_array_that_is_described_otherwise_is_damage(tmp_path, monkeypatch):
    variables, _ = written_draws(tmp_path, monkeypatch)
    with pytest.raises(sc.run.DamagedError, match=r"it describes \(2, 9, 2\), and \(2, 10\) were written"):
        read_draws(tmp_path, variables, 10, range(2))
    for other in (Variable((3,), np.dtype(np.float64)), Variable((2,), np.dtype(np.float32))):
        with pytest.raises(sc.run.DamagedError, match=r"draws.zarr/x/zarr.json is damaged: it describes float64"):
            read_draws(tmp_path, variables | {"x": other}, 9, range(2))


def test_a_wrong_index_is_not_damage(tmp_path, monkeypatch):
    written_draws(tmp_path, monkeypatch)
    with pytest.raises(IndexError):
        stored.StoredArray(tmp_path / "draws.zarr", "x")[99, 0]


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
    monkeypatch.setattr(group, "next_length", lambda *_: 50)  # and a checkpoint after each chunk
    monkeypatch.setattr(group, "SAVE_SHARE", np.inf)
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


def test_chunks_are_written_once_whatever_the_size_of_the_last_group(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "CHUNK_BYTES", 51 * 16)  # 51 draws of one chain, 25 of two
    whole = begin(None, num_samples=303, chains=3, group_size=2)
    put, written = LocalStore.set, Counter()

    async def counted(self, key, value):
        written[key] += 1
        await put(self, key, value)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "set", counted)
        patched.setattr(group, "next_length", lambda *_: 10)
        found = begin(tmp_path / "run", num_samples=303, chains=3, group_size=2)
    np.testing.assert_array_equal(found.posterior["theta"], whole.posterior["theta"])
    of_theta = {key: times for key, times in written.items() if key.startswith("theta/c/")}
    assert len(of_theta) == 2 * 13
    assert set(of_theta.values()) == {1}


def test_ragged_draws_of_groups_of_different_sizes_survive_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "CHUNK_BYTES", 16 * 8 * 2 * 3)  # 3 draws of the two chains of the first group
    variables = {"clusters": Variable((), np.dtype(np.float64), ragged=True)}
    make_arrays(tmp_path, variables, 3, 2, 10)
    rng, drawn = np.random.default_rng(0), []
    for chains in (range(2), range(2, 3)):
        drawn += [[rng.normal(size=rng.integers(0, 4)) for _ in range(10)] for _ in chains]
        kept = ZarrStore(tmp_path, variables, chains)
        kept.append({"clusters": Ragged.of(drawn[chains.start :], np.zeros(()))})
        kept.finish()
    verify(tmp_path, variables, 10, range(3))
    assert read_draws(tmp_path, variables, 10, range(3))["clusters"] == Ragged.of(drawn, np.zeros(()))


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
    with pytest.raises(sc.run.DamagedError, match=r"clusters/values.1.0/zarr.json is missing"):
        read_draws(tmp_path, variables, 17, range(2))
    with pytest.raises(ValueError, match="do not fit"):
        Ragged(np.array([[1, 2]]), [np.zeros(2)])
