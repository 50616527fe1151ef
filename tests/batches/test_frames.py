"""Tables as data: names reach the likelihood, labels the draws; and what is refused."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import scirocco as sc
from scirocco.batches.frames import columns_of, is_frame

RNG = np.random.default_rng(0)
N = 300
FRAME = pd.DataFrame(
    {
        "city": pd.Categorical(RNG.choice(["Oslo", "Rome", "Bonn"], N)),
        "age": RNG.normal(size=N).astype(np.float32),
        "count": pd.array(RNG.integers(5, size=N), dtype="Int64"),
        "member": RNG.random(N) < 0.5,
    }
)
ARROW = pa.table({**{n: FRAME[n].to_numpy() for n in ("age", "member")}, "count": np.asarray(FRAME["count"], np.int64)})
ARROW = ARROW.append_column("city", pa.array(FRAME["city"].astype(str)).dictionary_encode())


@pytest.mark.parametrize("frame", [FRAME, ARROW], ids=["pandas", "Arrow"])
def test_columns_by_name(frame):
    assert is_frame(frame)
    arrays, labels = columns_of(frame)
    assert set(arrays) == {"city", "age", "count", "member"}
    assert list(labels) == ["city"]
    np.testing.assert_array_equal(np.array(labels["city"])[arrays["city"]], FRAME["city"].astype(str))
    np.testing.assert_array_equal(arrays["age"], FRAME["age"])
    assert arrays["count"].dtype == np.int64
    assert arrays["member"].dtype == bool


def test_polars():
    polars = pytest.importorskip("polars", reason="it is not among the test dependencies")
    frame = polars.from_pandas(FRAME)
    arrays, labels = columns_of(frame)
    np.testing.assert_array_equal(np.array(labels["city"])[arrays["city"]], FRAME["city"].astype(str))


def log_prior(p):
    return -jnp.sum(p["effect"] ** 2) / 2 - jnp.sum(p["beta"] ** 2) / 2


def log_likelihood(p, row):
    return -((row["age"] - p["effect"][row["city"]] - p["beta"][0] * row["member"] - p["beta"][1]) ** 2) / 2


def test_draws_have_the_labels_of_the_table(tmp_path):
    target = sc.Target(
        log_prior, log_likelihood, FRAME, dims={"effect": ["city"], "beta": ["term"]},
        coords={"term": ["member", "intercept"]},
    )  # fmt: skip
    start = {"effect": jnp.zeros(3), "beta": jnp.zeros(2)}
    settings = {"num_samples": 100, "burn_in": 20, "batch_size": 100, "progress": False, "report": False}
    trace = sc.sample(target, sc.SGLD(1e-3), start, path=tmp_path / "run", **settings)
    assert set(trace.posterior["city"].values) == {"Bonn", "Oslo", "Rome"}
    assert trace.posterior["effect"].sel(city="Rome").shape == (4, 100)
    rows = list(trace.summary().table.index)
    assert "effect[Rome]" in rows
    assert "beta[intercept]" in rows
    assert sc.Trace.load(tmp_path / "run").posterior["effect"].sel(city="Oslo").shape == (4, 100)
    longer = sc.resume(tmp_path / "run", target, num_samples=120, progress=False)
    assert longer.posterior["beta"].sel(term="member").shape == (4, 120)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"dims": {"gamma": ["city"]}}, "dims name gamma, which is not among the parameters"),
        ({"dims": {"beta": ["a", "b"]}}, r"beta has the shape \(2,\), and 2 names"),
        ({"dims": {"beta": ["city"]}}, "city has 3 names, and beta 2 entries"),
        ({"dims": {"beta": ["draw"]}}, "cannot be called 'draw'"),
    ],
)
def test_names_that_do_not_fit_are_refused(settings, words):
    target = sc.Target(log_prior, log_likelihood, FRAME, **settings)
    with pytest.raises(ValueError, match=words):
        sc.sample(target, sc.SGLD(1e-3), {"effect": jnp.zeros(3), "beta": jnp.zeros(2)})


DATES = pd.date_range("2020-01-01", periods=3)


@pytest.mark.parametrize(
    ("column", "error", "words"),
    [
        (DATES, TypeError, "column x holds dates"),
        (DATES - DATES[0], TypeError, "column x holds dates"),
        (["a", "b", "c"], TypeError, r"astype\('category'\)"),
        ([1.0, np.nan, 2.0], ValueError, "column x has 1 missing values"),
        (pd.array([1, None, 2], dtype="Int64"), ValueError, "column x has 1 missing values"),
        (pd.Categorical(["a", None, "b"]), ValueError, "column x has 1 missing values"),
        ([1j, 2, 3], TypeError, "column x holds complex128"),
    ],
)
def test_what_is_no_number_is_refused(column, error, words):
    with pytest.raises(error, match=words):
        sc.Target(lambda m: -(m**2), lambda m, row: row["x"], pd.DataFrame({"x": column}))


@pytest.mark.parametrize(
    ("column", "error", "words"),
    [
        (pa.array(DATES), TypeError, "column x holds dates"),
        (pa.array(["a", "b"]), TypeError, "category"),
        (pa.array([1.0, None]), ValueError, "1 missing values"),
    ],
)
def test_arrow_too(column, error, words):
    with pytest.raises(error, match=words):
        columns_of(pa.table({"x": column}))


def test_columns_of_one_name_are_refused():
    with pytest.raises(ValueError, match="several columns named x"):
        columns_of(pd.DataFrame(np.zeros((2, 2)), columns=["x", "x"]))
