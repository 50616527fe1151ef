"""A posterior when rows have joined."""

import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.core import clock
from scirocco.verbs import choose

ROWS, OLD = 4000, 3000


def log_prior(p):
    return -jnp.sum(p["beta"] ** 2) / 2 - p["sigma"]


def log_likelihood(p, row):
    return -jnp.log(p["sigma"]) - ((row["y"] - row["x"] @ p["beta"]) / p["sigma"]) ** 2 / 2


def made(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3)).astype(np.float32)
    y = (x @ [1.0, -2.0, 0.5] + 0.7 * rng.normal(size=rows)).astype(np.float32)
    return {"x": x, "y": y}


DATA = made()


def first(rows, data=DATA):
    return {name: values[:rows] for name, values in data.items()}


def target_of(data):
    return sc.Target(
        log_prior, log_likelihood, data, constraints={"sigma": sc.constraints.positive}, dims={"beta": ["column"]},
        coords={"column": ["age", "income", "height"]},
    )  # fmt: skip


START = {"beta": jnp.zeros(3), "sigma": jnp.array(1.0)}


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """A run on the old rows, and its folder."""
    path = tmp_path_factory.mktemp("update") / "run"
    sampler = sc.UnderdampedLangevin(step_size="auto")
    return sc.sample(target_of(first(OLD)), sampler, START, num_samples=500, path=path, report=False), path


def exact():
    """Mean and sd of beta given sigma = 0.7, near enough: sigma is known to 1 %."""
    x, y = DATA["x"].astype(np.float64), DATA["y"].astype(np.float64)
    residual = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    covariance = np.linalg.inv(x.T @ x / np.mean(residual**2) + np.eye(3))
    return covariance @ (x.T @ y) / np.mean(residual**2), np.sqrt(np.diag(covariance))


def test_the_posterior_is_that_of_all_rows(before):
    trace = sc.update(before[1], target_of(DATA), num_samples=1000)
    mean, sd = exact()
    assert np.max(np.abs(trace.mean["beta"] - mean) / sd) < 0.15
    assert np.max(np.abs(np.sqrt(trace.variance["beta"]) / sd - 1)) < 0.1
    assert trace.verdict().kind == "use it"
    assert "goes on from a run on 3,000 rows: 1,000 have joined" in str(trace.summary())


def test_how_far_it_moved_is_told_in_sds_of_then(before):
    data = made()
    data["y"][OLD:] += 0.5 * data["x"][OLD:, 1]  # the new rows think otherwise of the second coefficient
    trace = sc.update(before[0], target_of(data), num_samples=500, report=False)
    table = trace.moved(before[0])
    assert table.index[0] == "beta[income]"
    sd = np.sqrt(before[0].variance["beta"][1])
    assert table["moved"].iloc[0] == pytest.approx((trace.mean["beta"][1] - before[0].mean["beta"][1]) / sd)
    assert table["moved"].iloc[0] > 5
    assert set(table.index) == {"beta[age]", "beta[income]", "beta[height]", "sigma"}
    assert 0.7 < table.loc["beta[age]", "sd_ratio"] < 1.2  # sqrt(3/4), and more noise


def test_the_long_way_to_the_mode_is_left_out(before, monkeypatch):
    from scirocco.optimise import mode

    asked, descend = [], mode._descend

    def watched(target, initial, held, optimizer, steps, rows, seed):
        asked.append(steps)
        return descend(target, initial, held, optimizer, steps, rows, seed)

    monkeypatch.setattr(mode, "_descend", watched)
    sc.update(before[0], target_of(DATA), num_samples=10, report=False)
    assert asked
    assert not any(asked)


def test_an_update_that_was_stopped_resumes_bit_for_bit(before, tmp_path, monkeypatch):
    whole = sc.update(before[0], target_of(DATA), num_samples=300, path=tmp_path / "whole", report=False)
    looks = iter(range(10**9))
    monkeypatch.setattr("time.perf_counter", lambda: 0.5 * next(looks))
    monkeypatch.setattr(clock, "compile_seconds", lambda: 0.0)
    part = sc.update(before[0], target_of(DATA), num_samples=300, path=tmp_path / "part", max_seconds=100, report=False)
    assert 0 < part.count < 300
    again = sc.resume(tmp_path / "part", target_of(DATA), max_seconds=1e6)
    np.testing.assert_array_equal(again.posterior["beta"], whole.posterior["beta"])
    assert again.description.parts.near


def test_an_update_can_be_updated(before):
    half = {name: np.concatenate([values, values[:10]]) for name, values in DATA.items()}
    once = sc.update(before[0], target_of(DATA), num_samples=50, report=False)
    twice = sc.update(once, target_of(half), num_samples=50, report=False)
    assert twice.description.notes == ("goes on from a run on 4,000 rows: 10 have joined",)


def test_a_step_size_of_the_users_own_stays(before):
    sampler = sc.SGLD(step_size=1e-5)
    old = sc.sample(target_of(first(OLD)), sampler, START, num_samples=20, thin=3, batch_size=50, report=False)
    trace = sc.update(old, target_of(DATA), report=False)
    settings = trace.description.settings
    assert (settings.num_samples, settings.thin, settings.batch_size) == (20, 3, 50)
    assert trace.description.parts.sampler == old.description.parts.sampler


def test_a_sampler_that_was_chosen_is_chosen_again(monkeypatch):
    monkeypatch.setattr(choose, "_seconds", lambda target, initial, sizes: ([1e-4, 1e-4], 0.0))  # not by the clock
    x = np.random.default_rng(1).normal(size=200).astype(np.float32)

    def target(rows):
        return sc.Target(lambda m: -(m**2) / 2, lambda m, x: -((x - m) ** 2) / 2, x[:rows])

    old = sc.sample(target(150), initial=jnp.array(0.0), num_samples=100, report=False)
    trace = sc.update(old, target(200), report=False)
    assert trace.description.choice.startswith("exact")
    assert abs(float(trace.mean["theta"]) - x.sum() / 201) < 0.02


def test_what_is_stored_is_given_again():
    old = sc.sample(
        target_of(first(OLD)), sc.SGLD(1e-5), START, num_samples=5, collect=lambda p: {"s": p["sigma"]}, report=False
    )
    with pytest.raises(ValueError, match="give one, collect="):
        sc.update(old, target_of(DATA))
    trace = sc.update(old, target_of(DATA), collect=lambda p: {"twice": 2 * p["sigma"]}, report=False)
    assert list(trace.posterior) == ["twice"]


def test_on_a_manifold():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(600, 3)).astype(np.float32) + np.array([2, 0, 0], np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)

    def target(rows):
        return sc.Target(
            None, lambda p, row: 4.0 * p["mu"] @ row, x[:rows], manifold={"mu": sc.manifolds.Sphere()}
        )  # fmt: skip

    start = {"mu": jnp.array([0.0, 1.0, 0.0])}
    old = sc.sample(target(400), sc.UnderdampedLangevin("auto"), start, num_samples=200, report=False)
    trace = sc.update(old, target(600), report=False)
    direction = x.sum(axis=0) / np.linalg.norm(x.sum(axis=0))
    np.testing.assert_allclose(np.linalg.norm(trace.posterior["mu"], axis=-1), 1, atol=1e-5)
    assert np.max(np.abs(trace.mean["mu"] - direction)) < 0.01


def test_rows_that_do_not_go_on_are_refused(before):
    new = {name: values[OLD:] for name, values in DATA.items()}
    with pytest.raises(ValueError, match="the earlier run had 3,000 rows, and 1,000 are given: give all"):
        sc.update(before[0], target_of(new))
    with pytest.raises(ValueError, match="the first 3,000 of the 4,000 given are not the same"):
        sc.update(before[0], target_of(made(seed=1)))
    with pytest.raises(ValueError, match="are those of the earlier run: resume it for more draws"):
        sc.update(before[0], target_of(first(OLD)))


def test_other_categories_are_refused(before):
    changed = sc.Target(
        log_prior, log_likelihood, DATA, constraints={"sigma": sc.constraints.positive}, dims={"beta": ["column"]},
        coords={"column": ["age", "height", "weight"]},
    )  # fmt: skip
    with pytest.raises(ValueError, match="entries of column are not the 3 of the earlier run"):
        sc.update(before[0], changed)


def test_what_differs_is_named(before):
    with pytest.raises(ValueError, match="the earlier run had 3,000 rows, and 200 are given"):
        sc.update(before[0], target_of(first(200)))
    other = {**DATA, "y": DATA["y"].astype(np.float64), "z": DATA["y"]}
    with pytest.raises(ValueError, match=r"or in other columns \(other: y, z\): give all rows"):
        sc.update(before[0], target_of(other))


def test_categories_in_another_order_are_told_apart(before):
    changed = sc.Target(
        log_prior, log_likelihood, DATA, constraints={"sigma": sc.constraints.positive}, dims={"beta": ["column"]},
        coords={"column": ["age", "height", "income"]},
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"another order .*: give the target coords={'column': \['age', 'income', "):
        sc.update(before[0], changed)


def test_other_kinds_of_runs_are_refused():
    codes = np.random.default_rng(0).integers(0, 3, 50)
    with pytest.raises(TypeError, match="before must be a trace or its folder; got Target"):
        sc.update(target_of(DATA), None)
    with pytest.raises(TypeError, match="of a model call partial_fit"):
        sc.update(sc.sample_dirichlet(codes, num_samples=20), target_of(DATA))


def test_traces_without_parameters_in_common_cannot_be_compared(before):
    other = sc.sample_dirichlet(np.array([0, 1, 1]), num_samples=20)
    with pytest.raises(ValueError, match="no parameters in common"):
        other.moved(before[0])


# Sources.


def parquet(folder, data, pieces):
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(data["y"])), pieces)):
        table = pa.table({"a": data["x"][rows, 0], "y": data["y"][rows]})
        pq.write_table(table, folder / f"{number:03d}.parquet", row_group_size=200)
    return sc.batches.Parquet(sorted(folder.glob("*.parquet")))


def test_sources_know_the_old_rows_and_more(tmp_path):
    half = sc.batches.Arrays(first(OLD)).fingerprint()
    assert sc.batches.Arrays(DATA).extends(half)
    assert not sc.batches.Arrays(first(OLD)).extends(half)
    assert not sc.batches.Arrays(made(seed=2)).extends(half)
    wider = {**DATA, "z": DATA["y"]}
    assert not sc.batches.Arrays(wider).extends(half)
    known = parquet(tmp_path / "old", first(OLD), 3).fingerprint()
    assert parquet(tmp_path / "new", DATA, 5).extends(known)  # cut elsewhere
    assert not parquet(tmp_path / "other", made(seed=2), 5).extends(known)
    assert not sc.batches.Arrays(DATA).extends(known)
    assert not sc.batches.Arrays(DATA).extends({})


def test_rows_on_disk_join(tmp_path):
    def target(source):
        return sc.Target(None, lambda m, row: -((row["y"] - m * row["a"]) ** 2) / 2, source)

    sampler, start = sc.UnderdampedLangevin("auto"), jnp.array(0.0)
    old = sc.sample(target(parquet(tmp_path / "old", first(OLD), 2)), sampler, start, num_samples=200, report=False)
    trace = sc.update(old, target(parquet(tmp_path / "new", DATA, 3)), report=False)
    a, y = DATA["x"][:, 0].astype(np.float64), DATA["y"].astype(np.float64)
    assert abs(float(trace.mean["theta"]) - (a @ y) / (a @ a)) < 0.3 / np.sqrt(a @ a)
