"""The mode of data that are large: a sample first, then as few passes over all data as will do."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scirocco as sc
from scirocco.batches import Arrays, Parquet, Shuffled
from scirocco.gradient.kernel import Kernel
from scirocco.optimise import mode as search
from scirocco.target import Sample

ROWS, SAMPLED = 60_000, 1500
TRUE = np.array([1.0, -1.0, 1.5])
RNG = np.random.default_rng(5)
X = (RNG.normal(size=(ROWS, 3)) + np.array([0.0, 1.0, 2.0])).astype(np.float32)
Y = (RNG.random(ROWS) < 1 / (1 + np.exp(-X @ TRUE + 3))).astype(np.float32)


def log_prior(w):
    return -0.5 * jnp.sum(w["w"] ** 2)


def log_likelihood(w, row):
    logit = row["x"] @ w["w"] - 3.0
    return row["y"] * logit - jax.nn.softplus(logit)


def exactly():
    """The mode and the curvature there, in double precision."""
    x, w = X.astype(float), TRUE
    for _ in range(10):
        p = 1 / (1 + np.exp(3.0 - x @ w))
        precision = (x * (p * (1 - p))[:, None]).T @ x + np.eye(3)
        w = w - np.linalg.solve(precision, x.T @ (p - Y) + w)
    return w, precision


@pytest.fixture(params=["memory", "disk"])
def target(request, tmp_path):
    source = {"x": X, "y": Y}
    if request.param == "disk":
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 3)
        table = pa.table({"x": vectors, "y": pa.array(Y)})
        pq.write_table(table, tmp_path / "data.parquet", row_group_size=1000)
        source = Parquet(tmp_path / "data.parquet", block_bytes=SAMPLED * 16)
    return sc.Target(log_prior, log_likelihood, source)


@pytest.fixture
def passes(target, monkeypatch):
    """One entry for each pass over all data."""
    made, in_order = [], target.source.in_order
    monkeypatch.setattr(target.source, "in_order", lambda rows: made.append(rows) or in_order(rows))
    return made


def test_two_passes_find_the_mode_of_large_data(target, passes, monkeypatch):
    """The sample's own mode is several posterior sds off, and its curvature by percents."""
    monkeypatch.setattr(search, "SAMPLE_BYTES", SAMPLED * 16)
    monkeypatch.setattr(search, "MANY", SAMPLED)
    monkeypatch.setattr(search, "ROWS_EACH", 1)
    found = sc.find_mode(target, {"w": jnp.zeros(3)}, steps=200)
    mode, precision = exactly()
    off = np.asarray(found["w"], float) - mode
    assert np.sqrt(off @ precision @ off) < 0.05
    assert len(passes) == 2
    sample = sc.find_mode(Sample.of(target, SAMPLED, 0), {"w": jnp.zeros(3)}, steps=200)
    far = np.asarray(sample["w"], float) - mode
    assert np.sqrt(far @ precision @ far) > 3
    # What follows needs no pass of its own: curvature, and the anchor of a control variate.
    target.likelihood_hessian(found)
    target.full_gradient(found)
    assert len(passes) == 2


@pytest.mark.parametrize("block_bytes", [8_000, 2**20])  # a part of the rows, all of them
def test_from_a_saddle_on_disk_as_in_memory(tmp_path, block_bytes):
    """Where the curvature is not positive Newton's method does nothing; rows on disk were left there."""
    y = np.random.default_rng(2).normal([-2.0, 2.0], 0.7, (3000, 2)).astype(np.float32).reshape(-1)
    pq.write_table(pa.table({"y": y}), tmp_path / "y.parquet", row_group_size=500)

    def two_normals(m, row):
        return jax.nn.logsumexp(-((row["y"] - m) ** 2))

    start = jnp.array([-0.01, 0.02])
    here, there = (
        sc.find_mode(sc.Target(lambda m: -jnp.sum(m**2) / 200, two_normals, source), start, steps=0)
        for source in ({"y": y}, Parquet(tmp_path / "y.parquet", block_bytes=block_bytes))
    )
    np.testing.assert_allclose(here, [-2, 2], atol=0.1)
    np.testing.assert_allclose(there, here, atol=1e-3)


def test_the_hessian_brings_the_gradient_along(target, passes):
    here = {"w": jnp.array([0.5, -0.5, 1.0])}
    target.likelihood_hessian(here)
    together = target.full_likelihood_gradient(here)
    assert len(passes) == 1
    alone = sc.Target(log_prior, log_likelihood, {"x": X, "y": Y}).full_likelihood_gradient(here)
    assert together["w"].dtype == np.float64
    np.testing.assert_allclose(together["w"], alone["w"], rtol=1e-5)


def test_a_sample_stands_for_all_rows(target):
    """The Hessian of a quadratic is that of the rows of the sample, N/n times."""
    square = sc.Target(log_prior, lambda w, row: -0.5 * (row["y"] - row["x"] @ w["w"]) ** 2, target.source)
    sample = Sample.of(square, SAMPLED, 3)
    rows = sample.data["x"].astype(float)
    assert len(np.unique(rows, axis=0)) == SAMPLED
    assert {tuple(row) for row in sample.data["x"]} <= {tuple(row) for row in X}
    expected = ROWS / SAMPLED * rows.T @ rows
    np.testing.assert_allclose(sample.likelihood_hessian({"w": jnp.zeros(3)}), expected, rtol=1e-4)


def test_data_in_memory_is_placed_when_it_is_asked_for(monkeypatch):
    """Tuning may find strata, and with them another order, before any step is made."""
    placed, on_device = [], Arrays.on_device
    monkeypatch.setattr(Arrays, "on_device", lambda self, *order: placed.append(order) or on_device(self, *order))
    target = sc.Target(log_prior, log_likelihood, {"x": X[:1000], "y": Y[:1000]})
    kernel = Kernel(target, sc.SGLD(1e-4), batch_size=10, batching=Shuffled())
    other = kernel.replaced(sc.SGLD(1e-5))
    assert not placed
    assert other.data_at(0) is kernel.data_at(0)
    assert len(placed) == 1
