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
    known = ("Rome", "Oslo", "Bonn")
    for city in (frame["city"], frame["city"].cast(polars.String)):
        arrays, labels = columns_of({"city": city}, {"city": known})
        assert labels == {"city": known}
        np.testing.assert_array_equal(np.array(known)[arrays["city"]], FRAME["city"].astype(str))


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


START = {"effect": jnp.zeros(3), "beta": jnp.zeros(2)}
SETTINGS = {"num_samples": 50, "burn_in": 20, "batch_size": 100, "progress": False, "report": False}


@pytest.fixture(scope="module")
def trace():
    return sc.sample(sc.Target(log_prior, log_likelihood, FRAME), sc.SGLD(1e-3), START, **SETTINGS)


def effect(p, row):
    return p["effect"][row["city"]]


CITIES = ["Rome", "Bonn", "Rome"]
NEW = {
    "other order": pd.DataFrame({"city": pd.Categorical(CITIES, categories=["Rome", "Oslo", "Bonn"])}),
    "fewer": pd.DataFrame({"city": pd.Categorical(CITIES)}),
    "text": pd.DataFrame({"city": CITIES}),
    "Arrow": pa.table({"city": pa.array(CITIES).dictionary_encode()}),
    "Arrow text": pa.table({"city": CITIES}),
    "a column": {"city": pd.Series(CITIES, dtype="category"), "age": np.zeros(3, np.float32)},
    "a source": sc.batches.Arrays(pd.DataFrame({"city": pd.Categorical(CITIES)})),
}


@pytest.mark.parametrize("kind", NEW)
def test_categories_of_new_rows_mean_what_they_meant(trace, kind):
    found = trace.predict(effect, NEW[kind]).mean
    np.testing.assert_allclose(found, trace.mean["effect"][[2, 0, 2]], atol=1e-5)  # Bonn, Oslo, Rome


def test_categories_that_the_run_has_not_seen_have_no_effect_of_their_own(trace):
    rows = pd.DataFrame({"city": pd.Categorical(["Rome", "Paris"]), "age": [1.0, 2.0]})
    with pytest.raises(ValueError, match="prediction of row 1, where city = Paris, depends on an entry beyond the end"):
        trace.predict(effect, rows)
    assert trace.predict(lambda p, row: p["beta"][1] + row["age"], rows).mean.shape == (2,)


def test_codes_beyond_the_end_are_refused(trace):
    with pytest.raises(ValueError, match="prediction of row 1, where city = 3, depends on an entry beyond"):
        trace.predict(effect, {"city": np.array([0, 3])})
    from_one = {**{name: np.asarray(FRAME[name]) for name in ("age", "member")}, "city": FRAME["city"].cat.codes + 1}
    with pytest.raises(ValueError, match="where city = 3, depends on an entry beyond the end of an array"):
        sc.sample(sc.Target(log_prior, log_likelihood, from_one), sc.SGLD(1e-3), START, **SETTINGS)


def test_names_that_are_given_settle_the_codes(trace):
    order = ["Rome", "Lima", "Oslo", "Bonn"]
    target = sc.Target(log_prior, log_likelihood, FRAME, dims={"effect": ["city"]}, coords={"city": order})
    assert target.source.labels["city"] == tuple(order)
    np.testing.assert_array_equal(np.array(order)[target.source.arrays["city"]], FRAME["city"].astype(str))
    with pytest.raises(ValueError, match="column city of the data has 'Rome', which is not among city"):
        sc.Target(log_prior, log_likelihood, FRAME, coords={"city": ["Oslo", "Bonn"]})
    with pytest.raises(TypeError, match="holds numbers, and so do the names of its entries, 7, 8: make it a category"):
        sc.Target(log_prior, log_likelihood, pd.DataFrame({"store": [7, 8]}), coords={"store": [7, 8]})
    with pytest.raises(ValueError, match=r"city stand in another order .* coords={'city': \['Bonn', 'Oslo', 'Rome'\]}"):
        trace.to_arviz(
            log_likelihood=sc.Target(log_prior, log_likelihood, FRAME, coords={"city": [*CITIES[:2], "Oslo"]})
        )


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"dims": {"beta": "term"}}, TypeError, "dims: beta must have a list of names; got 'term'"),
        ({"dims": ["term"]}, TypeError, "dims must be a dictionary of lists of names; got list"),
        ({"coords": {"term": "ab"}}, TypeError, "coords: term must have a list of names; got 'ab'"),
    ],
)
def test_names_that_are_no_lists_are_refused(settings, error, words):
    with pytest.raises(error, match=words):
        sc.Target(log_prior, log_likelihood, FRAME, **settings)


def test_a_name_that_is_given_twice_is_refused():
    settings = {"dims": {"beta": ["term"]}, "coords": {"term": ["a", "a"]}}
    with pytest.raises(ValueError, match="coords: term has the name 'a' more than once"):
        sc.sample(sc.Target(log_prior, log_likelihood, FRAME, **settings), sc.SGLD(1e-3), START, **SETTINGS)


def test_a_column_of_booleans_picks_no_entries():
    def likelihood(p, row):
        return -((row["age"] - p["beta"][row["member"]]) ** 2)

    with pytest.raises(IndexError) as caught:
        sc.sample(sc.Target(log_prior, likelihood, FRAME), sc.SGLD(1e-3), START, **SETTINGS)
    assert any("make them numbers" in note for note in caught.value.__notes__)


def test_a_column_that_is_missing_is_said_with_those_that_are_there(trace):
    with pytest.raises(KeyError) as caught:
        trace.predict(effect, {"age": np.zeros(3)})
    assert any("the first row of the data, which has age" in note for note in caught.value.__notes__)
    with pytest.raises(KeyError) as caught:
        sc.sample(sc.Target(log_prior, log_likelihood, FRAME[["age"]]), sc.SGLD(1e-3), START, **SETTINGS)
    assert any("the parameters beta [2], effect [3] and a row with age" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("written", ["to_parquet", "to_feather"])
def test_text_and_dates_in_files_are_refused_with_the_way_out(written, tmp_path):
    frame = pd.DataFrame({"city": pd.Categorical(CITIES), "when": pd.date_range("2020", periods=3), "age": [1.0, 2, 3]})
    getattr(frame, written)(tmp_path / "file")
    kind = sc.batches.Parquet if written == "to_parquet" else sc.batches.Arrow
    with pytest.raises(TypeError, match="column city holds text or categories, no numbers: leave it out"):
        kind(tmp_path / "file")
    with pytest.raises(TypeError, match="column when holds dates, no numbers"):
        kind(tmp_path / "file", columns=["when"])
    labels = ["Bonn", "Rome"]
    source = kind(
        tmp_path / "file", columns=["city", "age"],
        transform=lambda c: c | {"city": np.searchsorted(labels, c["city"]).astype(np.int32)},
    )  # fmt: skip
    assert source.first(3)["city"].tolist() == [1, 0, 1]
