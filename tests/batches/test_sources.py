"""Data in memory and on disk: what is read, in which order, and what is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scirocco as sc
from scirocco.batches import Arrays, Arrow, MemoryMapped, Parquet
from scirocco.batches.stream import Loader

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


def test_every_row_is_read_equally_often(stream):
    counts = np.bincount(
        np.concatenate([np.asarray(stream.block(1, 200, k)["y"]) for k in range(5 * 60)]), minlength=SIZE
    )
    # 1000 of 1003 rows in each of 60 epochs: binomial(60, 0.997), so a row misses more than 5 with probability 1e-8.
    assert counts.min() >= 55
    assert counts.max() <= 60


def test_the_loader_reads_one_block_ahead(stream):
    loader = Loader(stream, 7, 200)
    try:
        for number in (0, 1, 2, 7, 7, 3):
            np.testing.assert_array_equal(loader.get(number)["y"], stream.block(7, 200, number)["y"])
    finally:
        loader.close()


def test_sums_over_a_file(stream):
    """Every row counts, so a reader that loses rows is seen."""
    target = sc.Target(lambda m: 0.0 * jnp.sum(m), lambda m, r: -0.5 * jnp.sum((r["x"] - m) ** 2), stream)
    np.testing.assert_allclose(target.full_gradient(jnp.zeros(3)), -X.astype(np.float64).sum(0), rtol=1e-4)


@pytest.mark.parametrize("stream", ["parquet files"], indirect=True)
def test_a_posterior_from_disk_is_the_posterior_from_memory(stream):
    """The mean of a normal."""
    target = sc.Target(lambda m: 0.0 * jnp.sum(m), lambda m, r: -0.5 * jnp.sum((r["x"] - m) ** 2), stream)
    trace = sc.sample(target, sc.SGLD(2e-5), jnp.zeros(3), num_samples=1500, burn_in=500, thin=20, batch_size=50,
                      estimator=sc.ControlVariate(), chains=4, seed=1)  # fmt: skip
    # ESS is about 6,000 * 20 * h * lambda / 2 = 1,200: the mean's error is sd / 35.
    assert np.all(np.abs(trace.mean["theta"] - X.mean(0)) < 4.5 / np.sqrt(SIZE) / 35)
    ratio = trace.variance["theta"] * SIZE * (1 - 2e-5 * SIZE / 2)
    assert np.all(np.abs(ratio - 1) < 4.5 * np.sqrt(2 / 1200))


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


def test_large_finite_values_are_not_mistaken_for_infinite_ones():
    assert Arrays(np.full(4, 3e38, np.float32)).size == 4


def test_data_keeps_its_small_dtypes():
    source = Arrays({"image": np.zeros((4, 7), np.uint8)})
    assert source.on_device()["image"].dtype == jnp.uint8
    assert source.example["image"] == jax.ShapeDtypeStruct((7,), jnp.uint8)
