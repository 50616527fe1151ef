"""Data in memory and on disk: what is read, in which order, and what is refused."""

from __future__ import annotations

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scirocco as sc
from scirocco.batches import Arrays, Arrow, MemoryMapped, Parquet, shuffle_to, tables
from scirocco.batches import stream as on_disk
from scirocco.batches.order import Order
from scirocco.batches.stream import Loader
from scirocco.tuning.rounds import run_round

SIZE = 1003
X = np.random.default_rng(0).normal(size=(SIZE, 3)).astype(np.float32)
Y = np.arange(SIZE, dtype=np.int32)


def columns(table):
    return {"x": table["x"], "y": table["y"]}


@pytest.fixture(params=["npy", "parquet files", "arrow", "parquet"])
def stream(request, tmp_path):
    """The same rows in four kinds of files, with blocks of about 200 rows."""
    small = {"block_bytes": 200 * 16}
    if request.param == "npy":
        np.save(tmp_path / "x.npy", X)
        np.save(tmp_path / "y.npy", Y)
        return MemoryMapped({"x": tmp_path / "x.npy", "y": str(tmp_path / "y.npy")}, **small)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 3)
    table = pa.table({"unused": pa.array(np.zeros(SIZE)), "x": vectors, "y": pa.array(Y)})
    if request.param == "arrow":
        path = tmp_path / "data.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=70)
        return Arrow(path, columns=["x", "y"], transform=columns, **small)
    if request.param == "parquet":
        pq.write_table(table, tmp_path / "data.parquet", row_group_size=64)
        return Parquet(tmp_path / "data.parquet", columns=["x", "y"], transform=columns, **small)
    pq.write_table(table.slice(0, 500), tmp_path / "a.parquet", row_group_size=100)
    pq.write_table(table.slice(500), tmp_path / "b.parquet", row_group_size=77)
    return Parquet([tmp_path / "a.parquet", tmp_path / "b.parquet"], columns=["x", "y"], transform=columns, **small)


def test_a_stream_knows_its_size_and_its_rows(stream):
    assert stream.size == SIZE
    assert stream.example["x"].shape == (3,)
    assert stream.resident_rows == 200
    np.testing.assert_array_equal(stream.first(5)["x"], X[:5])
    parts = list(stream.in_order(300))
    assert [len(p["y"]) for p in parts] == [300, 300, 300, 103]
    np.testing.assert_array_equal(np.concatenate([p["x"] for p in parts]), X)


def test_blocks_of_an_epoch_have_no_row_twice_and_mix_the_file(stream):
    epoch = [np.asarray(stream.block(7, 200, k)["y"]) for k in range(5)]
    seen = np.concatenate(epoch)
    assert len(set(seen)) == 1000
    block = stream.block(7, 200, 0)
    np.testing.assert_array_equal(block["x"], X[np.asarray(block["y"])])
    assert np.sum(np.diff(np.sort(np.asarray(block["y"]))) > 1) >= 2  # pieces from three places at least
    again = stream.block(7, 200, 0)
    np.testing.assert_array_equal(block["y"], again["y"])
    assert not np.array_equal(epoch[0], np.asarray(stream.block(7, 200, 5)["y"]))


def test_chains_read_in_orders_of_their_own(stream):
    first, second = (np.asarray(stream.block(7, 200, 1, chain)["y"]) for chain in (0, 1))
    np.testing.assert_array_equal(first, stream.block(7, 200, 1)["y"])
    assert len(np.intersect1d(first, second)) < 100  # 40 of 200 by chance
    loader = Loader(stream, 7, 200, chain=1)
    try:
        np.testing.assert_array_equal(loader.get(1)["y"], second)
    finally:
        loader.close()


@pytest.mark.parametrize(
    ("total", "piece", "stretch"),
    [(1, 1, 1), (12, 1, 4), (1000, 1, 90), (1003, 7, 200), (1003, 7, 1003), (50, 60, 20), (997, 3, 700)],
)
def test_an_order_has_every_row_once_and_its_stretches_are_spread(total, piece, stretch):
    order = Order(total, min(piece, total), stretch, np.random.default_rng(1))
    cuts = [0, *range(stretch // 2, total, stretch), total]
    parts = [order.pieces(low, high) for low, high in pairwise(cuts)]
    assert [n.sum() for _, n in parts] == np.diff(cuts).tolist()
    starts, lengths = (np.concatenate(a) for a in zip(*parts, strict=True))
    assert lengths.min() > 0
    rows = np.concatenate([np.arange(s, s + n) for s, n in zip(starts, lengths, strict=True)])
    np.testing.assert_array_equal(np.sort(rows), np.arange(total))
    if stretch > 8 * piece:  # an eighth of the file has an eighth of a stretch, up to pieces at its ends
        found = np.histogram(rows[100 : 100 + stretch], bins=8, range=(0, total))[0]
        assert np.all(np.abs(found - len(rows[100 : 100 + stretch]) / 8) <= 4 * piece)


def test_blocks_of_a_sorted_file_are_like_the_whole(tmp_path, monkeypatch):
    """Pieces of 24 rows: 417 of them chosen at random would have means with an error of sd / 20."""
    monkeypatch.setattr(on_disk, "PIECES_PER_BLOCK", 400)
    values = np.sort(np.random.default_rng(0).normal(size=100_000)).astype(np.float32)
    np.save(tmp_path / "x.npy", values)
    source = MemoryMapped(tmp_path / "x.npy", block_bytes=40_000)
    assert source.piece == 25
    for chain in range(2):
        blocks = [np.asarray(source.block(0, 10_000, k, chain)) for k in range(20)]
        # A random sample of 10,000 rows has a mean with the error 0.01 and a variance with the error 0.014.
        assert np.std([b.mean() for b in blocks]) < 0.01
        assert np.std([b.var() for b in blocks]) < 0.014
        assert abs(np.mean(blocks) - values.mean()) < 0.005


@pytest.mark.parametrize("kind", ["parquet", "compressed arrow", "arrow"])
def test_groups_of_a_sorted_file_are_mixed(tmp_path, monkeypatch, kind):
    """Groups that do not fit into memory together are taken in waves from all over the file, and the user is told."""
    monkeypatch.setattr("scirocco.batches.tables.CACHED_BYTES", 1)
    values = np.sort(np.random.default_rng(0).normal(size=100_000)).astype(np.float32)
    table, path = pa.table({"x": values}), tmp_path / "data"
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=500)
    else:
        options = pa.ipc.IpcWriteOptions(compression="lz4" if kind.startswith("compressed") else None)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=500)
    source = (Parquet if kind == "parquet" else Arrow)(path, block_bytes=20_000)
    if kind == "arrow":
        assert source.mapped
        blocks = [np.asarray(source.block(0, 5000, k)["x"]) for k in range(20)]
    else:
        assert source.wave == 40
        with pytest.warns(UserWarning, match="rows look sorted: the mean of column x.*shuffle_to"):
            blocks = [np.asarray(source.block(0, 5000, k)["x"]) for k in range(20)]
        assert sum(len(c["x"]) for c in source._cache.values()) <= 20_000
    assert len(np.unique(np.concatenate(blocks))) == len(np.unique(values))
    # 10 groups of 500 taken at random: 0.3; random rows: 0.014
    assert np.std([b.mean() for b in blocks]) < (0.014 if kind == "arrow" else 0.04)
    source.block(0, 5000, 20)  # told once


def test_rows_in_random_order_do_not_look_sorted(tmp_path, monkeypatch):
    monkeypatch.setattr("scirocco.batches.tables.CACHED_BYTES", 1)
    rng = np.random.default_rng(0)
    table = pa.table({"x": rng.standard_cauchy(20_000), "rare": rng.random(20_000) < 1e-3, "one": np.full(20_000, 0.1)})
    pq.write_table(table, tmp_path / "data.parquet", row_group_size=200)
    source = Parquet(tmp_path / "data.parquet", block_bytes=20_000)
    assert source.wave < len(source.lengths)
    for number in range(2 * source.size // source.resident_rows):
        source.block(0, source.resident_rows, number)
    assert len(source._seen) >= 64


def test_a_fingerprint_notices_changes_far_from_the_first_rows(tmp_path):
    values = np.random.default_rng(0).normal(size=(50_000, 2)).astype(np.float32)
    np.save(tmp_path / "x.npy", values)
    before = MemoryMapped(tmp_path / "x.npy", block_bytes=4000).fingerprint()
    assert MemoryMapped(tmp_path / "x.npy", block_bytes=4000).fingerprint() == before
    for change in (slice(49_999, None), slice(20_000, 21_000)):  # the last row, a fiftieth in the middle
        other = values.copy()
        other[change] *= 1.001
        np.save(tmp_path / "x.npy", other)
        assert MemoryMapped(tmp_path / "x.npy", block_bytes=4000).fingerprint() != before
    np.save(tmp_path / "x.npy", values[::-1])  # the same sums
    assert MemoryMapped(tmp_path / "x.npy", block_bytes=4000).fingerprint() != before


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_fingerprint_of_groups(tmp_path, kind):
    def found(values):
        table, path = pa.table({"x": values, "other": np.zeros(len(values))}), tmp_path / "data"
        if kind == "parquet":
            pq.write_table(table, path, row_group_size=500, compression="none", use_dictionary=False)
        else:
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table, max_chunksize=500)
        return (Parquet if kind == "parquet" else Arrow)(path, columns=["x"]).fingerprint()

    values = np.random.default_rng(0).normal(size=10_000)
    before, last, longer = found(values), values.copy(), np.append(values, 0.0)
    last[-1] += 1
    assert found(values.copy()) == before
    assert found(last) != before
    assert found(longer)["files"] != before["files"]
    extreme = values.copy()
    extreme[777] = 9.0  # in a group that is not decoded
    assert (found(extreme) != before) == (kind == "parquet")


def test_shuffling_to_disk(stream, tmp_path):
    shuffled = shuffle_to(tmp_path / "new", stream, seed=3, block_bytes=100 * 16)
    rows = shuffled.first(SIZE)
    order = rows["y"]
    assert order.dtype == np.int32
    np.testing.assert_array_equal(np.sort(order), Y)
    np.testing.assert_array_equal(rows["x"], X[order])
    # In random order ranks and places have a correlation with the sd 1 / sqrt(N).
    assert abs(np.corrcoef(order, Y)[0, 1]) < 4 / np.sqrt(SIZE)
    assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < 4 / np.sqrt(SIZE)
    again = shuffle_to(tmp_path / "again", stream, seed=3, block_bytes=100 * 16)
    np.testing.assert_array_equal(again.first(SIZE)["y"], order)
    other = shuffle_to(tmp_path / "other", {"x": X, "y": Y}, seed=4)
    assert not np.array_equal(other.first(SIZE)["y"], order)
    with pytest.raises(FileExistsError, match="exists already"):
        shuffle_to(tmp_path / "new", stream)
    assert not (tmp_path / "new.part").exists()


@pytest.mark.slow
def test_sgld_on_a_sorted_file_is_sgld_on_a_shuffled_one(tmp_path, monkeypatch):
    """Blocks of 64 contiguous pieces gave more than twice the sd. Pieces of 25 rows, 2 blocks an epoch.

    What the blocks of a shuffled file differ by cancels within an epoch, which must be short for the chain
    (20 steps, h lambda = 0.05): with few blocks in an epoch few blocks are enough.
    """
    monkeypatch.setattr(on_disk, "PIECES_PER_BLOCK", 800)
    size, sds = 40_000, []
    values = np.sort(np.random.default_rng(0).normal(size=size)).astype(np.float32)
    for name, rows in (("sorted", values), ("shuffled", np.random.default_rng(1).permutation(values))):
        np.save(tmp_path / f"{name}.npy", rows)
        source = MemoryMapped(tmp_path / f"{name}.npy", block_bytes=80_000)
        assert source.piece == 25
        target = sc.Target(lambda m: 0.0 * m, lambda m, x: -0.5 * (x - m) ** 2, source)
        trace = sc.sample(target, sc.SGLD(0.05 / size), jnp.float32(0), num_samples=750, burn_in=200, thin=4,
                          batch_size=2000, chains=4, seed=2, report=False)  # fmt: skip
        sds.append(float(np.sqrt(trace.variance["theta"]) * np.sqrt(size)))
    # About 4 * 3,000 * 0.05 / 2 = 300 independent draws, so an error of 4 % each.
    assert sds[0] == pytest.approx(sds[1], rel=0.1)


def test_every_row_is_read_equally_often(stream):
    counts = np.bincount(
        np.concatenate([np.asarray(stream.block(1, 200, k)["y"]) for k in range(5 * 60)]), minlength=SIZE
    )
    # 1000 of 1003 rows in each of 60 epochs: binomial(60, 0.997), so a row misses more than 5 with probability 1e-8.
    assert counts.min() >= 55
    assert counts.max() <= 60


@pytest.mark.parametrize("together", [1, 3, 4])
def test_the_loader_reads_blocks_ahead(stream, together):
    """The same blocks, however many are read at a time."""
    loader = Loader(stream, 7, 200, together=together)
    try:
        for number in (0, 1, 2, 7, 7, 3):
            np.testing.assert_array_equal(loader.get(number)["y"], stream.block(7, 200, number)["y"])
    finally:
        loader.close()


@pytest.mark.parametrize("together", [1, 3])
def test_the_loader_reads_nothing_that_no_one_will_ask_for(stream, together):
    loader = Loader(stream, 7, 200, together=together)
    try:
        loader.get(together - 1, last=together - 1)
        assert not loader._coming
        loader.forget()
        loader.get(together - 1, last=together)
        assert list(loader._coming) == [range(together, 2 * together)]
    finally:
        loader.close()


@pytest.mark.parametrize("stream", ["npy"], indirect=True)
def test_a_kernel_reads_ahead_for_steps_to_come_and_not_for_a_look_at_one(stream):
    target = sc.Target(lambda m: 0.0 * jnp.sum(m), lambda m, r: -0.5 * jnp.sum((r["x"] - m) ** 2), stream)
    kernel = sc.kernel(target, sc.SGLD(1e-4), batch_size=50)
    try:
        state = kernel.init(jax.random.key(0), jnp.zeros(3))
        assert not kernel.feed.loader(0)._coming
        kernel.step(jax.random.key(1), state)
        assert list(kernel.feed.loader(0)._coming) == [range(1, 2)]
        run_round(kernel, jnp.zeros(3), np.zeros((4, 3)), {}, 8, number=5)
        assert not kernel.feed.loader(0)._coming
        kernel.data_at(2 * kernel.steps_per_block, end=3 * kernel.steps_per_block)
        assert not kernel.feed.loader(0)._coming
        kernel.data_at(2 * kernel.steps_per_block, end=3 * kernel.steps_per_block + 1)
        assert list(kernel.feed.loader(0)._coming) == [range(3, 4)]
    finally:
        kernel.close()


def test_blocks_that_are_read_together_decode_each_group_once(tmp_path, monkeypatch):
    """Chains need groups of their own at the same time, so that what is kept of them is of no use to the next block."""
    order = np.random.default_rng(1).permutation(SIZE)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X[order].ravel()), 3)
    pq.write_table(pa.table({"x": vectors, "y": pa.array(Y[order])}), tmp_path / "data.parquet", row_group_size=20)
    monkeypatch.setattr(tables, "CACHED_BYTES", 1)
    stream = Parquet(tmp_path / "data.parquet", block_bytes=120 * 16)
    assert stream.wave < len(stream.lengths)
    decoded, decode = [], stream._decode
    monkeypatch.setattr(stream, "_decode", lambda group: decoded.append(group) or decode(group))
    assert stream.together(30, chains=4) == 4
    blocks = stream.blocks(7, 30, range(4, 8), 1)
    assert len(decoded) == len(set(decoded)) > stream.wave // 2
    assert not stream._cache.keys() & set(decoded)
    for number, block in zip(range(4, 8), blocks, strict=True):
        np.testing.assert_array_equal(block["y"], stream.block(7, 30, number, 1)["y"])
        np.testing.assert_array_equal(block["x"], X[block["y"]])


def test_sums_over_a_file(stream):
    """Every row counts, so a reader that loses rows is seen."""
    target = sc.Target(lambda m: 0.0 * jnp.sum(m), lambda m, r: -0.5 * jnp.sum((r["x"] - m) ** 2), stream)
    np.testing.assert_allclose(target.full_gradient(jnp.zeros(3)), -X.astype(np.float64).sum(0), rtol=1e-4)


@pytest.mark.quick
@pytest.mark.parametrize("stream", ["parquet files"], indirect=True)
def test_a_posterior_from_disk_is_the_posterior_from_memory(stream):
    """The mean of a normal. Control variates leave no noise there, so long steps have a law that is known exactly."""
    target = sc.Target(lambda m: 0.0 * jnp.sum(m), lambda m, r: -0.5 * jnp.sum((r["x"] - m) ** 2), stream)
    h = 0.2 / SIZE
    trace = sc.sample(target, sc.SGLD(h), jnp.zeros(3), num_samples=300, burn_in=50, thin=5, batch_size=50,
                      estimator=sc.ControlVariate(), chains=4, seed=1, report=False)  # fmt: skip
    # Draws five steps apart have the correlation 0.8^5 = 0.33: ESS is 1,200 / 2 = 600, the mean's error sd / 24.
    assert np.all(np.abs(trace.mean["theta"] - X.mean(0)) < 4.5 / np.sqrt(SIZE) / 24)
    ratio = trace.variance["theta"] * SIZE * (1 - h * SIZE / 2)
    assert np.all(np.abs(ratio - 1) < 4.5 * np.sqrt(2 / 600))


def test_memory_maps_are_recognised(tmp_path):
    np.save(tmp_path / "x.npy", X)
    target = sc.Target(
        lambda m: 0.0 * m, lambda m, x: -0.5 * jnp.sum((x - m) ** 2), np.load(tmp_path / "x.npy", mmap_mode="r")
    )
    assert isinstance(target.source, MemoryMapped)


def test_wrong_files(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing: .*nowhere\.parquet"):
        Parquet(tmp_path / "nowhere.parquet")
    table = pa.table({"x": pa.array([1.0, None, 3.0])})
    pq.write_table(table, tmp_path / "null.parquet")
    with pytest.raises(ValueError, match="column x has 1 missing values"):
        next(iter(Parquet(tmp_path / "null.parquet").in_order(3)))
    with pytest.raises(ValueError, match=r"columns \['z'\] are not in the file; it has \['x'\]"):
        Parquet(tmp_path / "null.parquet", columns=["z"])
    pq.write_table(table.slice(0, 0), tmp_path / "empty.parquet")
    with pytest.raises(ValueError, match="no rows"):
        Parquet(tmp_path / "empty.parquet")


def test_a_batch_that_does_not_fit_into_a_block(tmp_path):
    np.save(tmp_path / "x.npy", X)
    source = MemoryMapped(tmp_path / "x.npy", block_bytes=10 * 12)
    target = sc.Target(lambda m: 0.0 * m, lambda m, x: -0.5 * jnp.sum((x - m) ** 2), source)
    with pytest.raises(ValueError, match="smaller batch_size or a larger block_bytes"):
        sc.kernel(target, sc.SGLD(1e-4), batch_size=50)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ({}, ValueError, "at least one array"),
        (np.zeros((0, 2)), ValueError, "at least one example"),
        (np.float32(1.0), ValueError, "leading axis"),
        ({"x": np.ones(3), "y": np.ones(4)}, ValueError, "same leading length; got x: 3, y: 4"),
        (np.array([1.0, np.nan, 2.0]), ValueError, "1 entries that are NaN or infinite, the first in row 1"),
        (np.array([1.0, np.inf]), ValueError, "NaN or infinite"),
        (np.array(["a", "b"]), TypeError, "allowed are floats, integers and booleans"),
        (np.array([1, 2**40]), ValueError, "integers beyond 32 bits"),
        ([1.0, 2.0], TypeError, "pytree of arrays"),
    ],
)
def test_wrong_data(data, error, message):
    with pytest.raises(error, match=message):
        Arrays(data)


def test_masks_are_not_ignored():
    masked = np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False])
    with pytest.raises(ValueError, match=r"y has masked entries \(1 of 3\): fill them or drop them"):
        Arrays({"x": np.ones(3), "y": masked})
    with pytest.raises(ValueError, match="data has masked entries"):
        sc.sample_dirichlet(np.ma.masked_array([0, 1, 1], [True, False, False]))
    assert Arrays(np.ma.masked_array([1.0, 2.0], [False, False])).size == 2  # nothing is hidden


NORMAL = np.random.default_rng(0).normal(size=(1000, 3))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (NORMAL[:, 0] + 1e7, r"data is float64 with an offset of 1e\+07 and a standard deviation of .*centre"),
        (NORMAL * [1, 1, 1e-6] + [0, 0, 1], r"data, column 2, is float64 with an offset of 1 and .*e-0[67]"),
        (NORMAL * 1e-50, "standard deviation of .*e-5[01]"),
        (2.0**24 + np.arange(60_000) * 1001, r"whole numbers up to 76836215: above 2\^24 float32 does not tell"),
    ],
)
def test_data_that_single_precision_would_spoil(data, message, tmp_path):
    with pytest.warns(UserWarning, match=message) as told:
        Arrays(data)
    assert len(told) == 1
    with jax.enable_x64(True):
        Arrays(data)
    np.save(tmp_path / "x.npy", data)
    source = MemoryMapped(tmp_path / "x.npy", block_bytes=100 * 12)
    with pytest.warns(UserWarning, match=message[:12]):
        source.block(0, 50, 0)
    source.block(0, 50, 1)  # told once


@pytest.mark.parametrize(
    "data",
    [
        NORMAL, NORMAL * 1e-6, NORMAL * 1e6, NORMAL + 1000, NORMAL * 10 + 2000, np.full(10, 0.1),
        np.full(10, 1e9 + 0.1), 0.1 + np.arange(3) * 1e-17, np.arange(2.0**23, 2.0**23 + 10), np.exp(20 * NORMAL),
        np.arange(2**24 + 1, 2**24 + 9), np.arange(2**24 + 1, 2**24 + 9, dtype=np.float32), np.ones((4, 0)),
    ],
)  # fmt: skip
def test_ordinary_data_is_taken_without_a_word(data):
    assert Arrays(data).size == len(data)


def test_numbers_beyond_single_precision():
    with pytest.raises(ValueError, match="beyond the range of float32"):
        Arrays(np.array([1.0, 1e39]))


def test_large_finite_values_are_not_mistaken_for_infinite_ones():
    assert Arrays(np.full(4, 3e38, np.float32)).size == 4


def test_data_keeps_its_small_dtypes():
    source = Arrays({"image": np.zeros((4, 7), np.uint8)})
    assert source.on_device()["image"].dtype == jnp.uint8
    assert source.example["image"] == jax.ShapeDtypeStruct((7,), jnp.uint8)


@pytest.mark.parametrize("source", [sc.batches.Parquet, sc.batches.Arrow])
def test_paths_are_paths(source):
    pytest.importorskip("pyarrow")
    for paths in ([1, 2], 5, [None]):
        with pytest.raises(TypeError, match="paths must be a path or a list of paths; got"):
            source(paths)
