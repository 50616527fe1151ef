"""Data in files go to other processes as the names of the files."""

import pickle

import cloudpickle
import numpy as np
import pandas as pd
import pytest

import scirocco as sc

ROWS = np.random.default_rng(0).normal(size=(3000, 2)).astype(np.float32)


def mapped(folder):
    np.save(folder / "rows.npy", ROWS)
    return sc.batches.MemoryMapped({"x": folder / "rows.npy"}, block_bytes=4000)


def parquet(folder):
    pd.DataFrame(ROWS, columns=["a", "b"]).to_parquet(folder / "rows.parquet")
    return sc.batches.Parquet(
        folder / "rows.parquet", columns=["b", "a"], transform=lambda c: c | {"sum": c["a"] + c["b"]}, block_bytes=4000
    )


def arrow(folder):
    pd.DataFrame(ROWS, columns=["a", "b"]).to_feather(folder / "rows.arrow", compression="uncompressed")
    return sc.batches.Arrow(folder / "rows.arrow", block_bytes=4000)


@pytest.mark.parametrize("make", [mapped, parquet, arrow])
def test_files_travel_as_names(make, tmp_path):
    source = make(tmp_path)
    for own in (source, source.shard(1, 3)):
        sent = cloudpickle.dumps(own)
        assert len(sent) < 3000
        there = pickle.loads(sent)
        assert there.fingerprint() == own.fingerprint()
        which = np.array([7, 0, 990])
        for name, values in own.rows(which).items():
            np.testing.assert_array_equal(there.rows(which)[name], values)


def test_a_part_of_a_mapped_file_travels_as_its_rows(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    source = sc.batches.MemoryMapped(np.load(tmp_path / "rows.npy", mmap_mode="r")[100:])
    there = pickle.loads(pickle.dumps(source))
    np.testing.assert_array_equal(there.rows(np.arange(5)), ROWS[100:105])
