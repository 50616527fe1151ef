"""Chains that travel between shards of the data: the same draws wherever the shards are, and whoever dies."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.batches import Shards, Tours
from scirocco.core.seeds import Purpose, generator
from scirocco.run import crew

ROWS = np.random.default_rng(0).normal(1.0, 1.0, (120, 2)).astype(np.float32)
PARTS = (ROWS[:30], ROWS[30:70], ROWS[70:])


def log_prior(m):
    return -(m @ m) / 2


def log_likelihood(m, x):
    return -((x - m) @ (x - m)) / 2


def loaded(folder, number):
    """In the process that has it: which one that is stands in the folder."""
    (folder / f"opened-{number}-{os.getpid()}").touch()
    return np.load(folder / f"{number}.npy")


def in_files(folder):
    for number, part in enumerate(PARTS):
        np.save(folder / f"{number}.npy", part)
    return [partial(loaded, folder, number) for number in range(len(PARTS))]


def run(source, *, sampler=None, **more):
    target = sc.Target(log_prior, log_likelihood, source)
    settings = {
        "num_samples": 60, "burn_in": 20, "chains": 2, "batch_size": 10, "batching": Tours((5, 8, 10)), "seed": 3,
        "report": False,
    } | more  # fmt: skip
    return sc.sample(target, sampler or sc.SGLD(1e-3), np.zeros(2, np.float32), **settings)


def same(one, other):
    np.testing.assert_array_equal(one.posterior["theta"], other.posterior["theta"])
    for name, values in one.moments.mean.items():
        np.testing.assert_array_equal(values, other.moments.mean[name])
    if one.bias is not None:
        assert str(one.bias) == str(other.bias)
    return True


@pytest.fixture(scope="module")
def alone():
    return run(Shards(PARTS))


@pytest.mark.slow
def test_draws_are_those_of_one_process(alone, sending):
    assert same(run(Shards(PARTS), executor=sending), alone)


def armed(folder):
    """In a worker: the first to make two turns dies."""
    shown, made = crew.GroupFolder._show, []

    def show(self, group):
        shown(self, group)
        made.append(group)
        if len(made) == 2:
            with suppress(FileExistsError):
                os.close(os.open(f"{folder}/killed", os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)

    crew.GroupFolder._show = show


def test_data_on_workers_of_which_one_is_killed(alone, cluster, tmp_path):
    source = Shards(in_files(tmp_path), client=cluster)
    cluster.run(armed, str(tmp_path))
    assert same(run(source, path=tmp_path / "run"), alone)
    assert (tmp_path / "killed").exists()
    opened = {name.name.split("-")[2] for name in tmp_path.glob("opened-*")}
    assert len(opened) >= 2  # the two workers, and perhaps the one in place of the first to die
    assert str(os.getpid()) not in opened


@pytest.mark.slow
def test_all_that_is_done_with_data_is_done_where_they_are(cluster, tmp_path):
    """Sums over shards, mode, curvature, control variates, tuning, report; a run that is stopped and goes on."""
    source = Shards(in_files(tmp_path), client=cluster)
    here, there = (sc.Target(log_prior, log_likelihood, s) for s in (Shards(PARTS), source))
    place, places = np.array([0.3, -0.2], np.float32), np.zeros((3, 2), np.float32)
    for make in (
        lambda target: target.full_gradient(place),
        lambda target: target.likelihood_hessian(place),
        lambda target: target.log_posterior(place),
        lambda target: target.log_posteriors(places, place),
        lambda target: sc.find_mode(target, place),
    ):
        np.testing.assert_array_equal(make(there), make(here))
    settings = {"report": True, "sampler": sc.UnderdampedLangevin("auto"), "batching": Tours(5)}
    alone = run(Shards(PARTS), path=tmp_path / "alone", **settings)
    assert same(run(source, path=tmp_path / "run", **settings), alone)
    longer = sc.resume(tmp_path / "run", there, num_samples=100)
    assert same(longer, sc.resume(tmp_path / "alone", here, num_samples=100))
    opened = {name.name.split("-")[2] for name in tmp_path.glob("opened-*")}
    assert str(os.getpid()) not in opened


def test_a_run_goes_on_with_shards_in_memory(alone, tmp_path):
    run(Shards(PARTS, keep=1), num_samples=20, path=tmp_path / "run")
    target = sc.Target(log_prior, log_likelihood, Shards(PARTS))
    assert same(sc.resume(tmp_path / "run", target, num_samples=60), alone)
    with pytest.raises(ValueError, match="the data differs from that of the run"):
        sc.resume(tmp_path / "run", sc.Target(log_prior, log_likelihood, Shards(PARTS[:2])), num_samples=70)


def test_minibatches_of_a_tour_are_unbiased():
    target = sc.Target(log_prior, log_likelihood, Shards(PARTS))
    kernel = sc.kernel(target, sc.SGLD(1e-3), batch_size=10, batching=Tours((2, 5, 3)))
    draw = jax.jit(lambda key, data: kernel.draw.draw(key, (), jnp.int32(0), data)[1])
    sums = []
    for step in range(400):
        batch, shard = draw(jax.random.key(step), kernel.data_at(step)), kernel.feed.place(step, 0)
        order = generator(0, Purpose.SHARD_ORDER, shard).permutation(len(PARTS[shard]))
        np.testing.assert_array_equal(PARTS[shard][order][np.asarray(batch.indices)], batch.data)
        sums.append(float(batch.weights) * np.asarray(batch.data, np.float64).sum(0))
    tours = np.mean(np.reshape(sums, (40, 10, 2)), axis=1)
    error = (tours.mean(0) - ROWS.sum(0, dtype=np.float64)) / (tours.std(0) / np.sqrt(40))
    assert np.all(np.abs(error) < 5)


def test_rows_and_sums_are_those_of_all_shards():
    source, whole = Shards(PARTS), sc.Target(log_prior, log_likelihood, ROWS)
    which = np.array([119, 0, 29, 30, 70])
    np.testing.assert_array_equal(source.rows(which), ROWS[which])
    np.testing.assert_array_equal(source.first(50), ROWS[:50])
    np.testing.assert_array_equal(np.concatenate(list(source.in_order(50))), ROWS)
    place = np.array([0.3, -0.2], np.float32)
    target = sc.Target(log_prior, log_likelihood, source)
    np.testing.assert_allclose(target.full_gradient(place), whole.full_gradient(place), rtol=1e-5)
    assert target.log_posterior(place) == pytest.approx(whole.log_posterior(place))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Shards(ROWS), "parts must be a list, one entry for each shard; got ndarray"),
        (lambda: Shards([]), "parts must hold at least one shard"),
        (lambda: Shards([ROWS, ROWS[:, :1]]), "rows of part 1 are .*they must be alike"),
        (lambda: Shards(PARTS, hosts=["a", "b", "c"]), "give client= too"),
        (lambda: Shards(PARTS, client=3), "client must be a distributed.Client"),
        (lambda: Shards(PARTS, keep=0), "keep must be a whole number of at least 1"),
        (lambda: Tours(0), "steps must be a whole number of at least 1"),
        (lambda: run(Shards(PARTS), batching=Tours((5, 5))), "steps must be one for each of the 3 shards; got 2"),
        (lambda: run(ROWS), r"give the Target a batches.Shards\(\[...\]\); got a Arrays"),
        (lambda: run(Shards(PARTS), batch_size=40), "batch_size must be at most 30, the rows of the smallest shard"),
        (lambda: run(Shards(PARTS), gradients=True), "leave it out for chains that travel"),
        (lambda: run(Shards(PARTS), estimator=sc.SAGA()), "SAGA keeps a gradient for every example"),
        (lambda: run(Shards(PARTS), blocks=[sc.Block("a", len)]), "not of the shard that a chain is on"),
    ],
)
def test_what_is_refused(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


def test_no_estimator_reads_shards_that_are_elsewhere(monkeypatch):
    monkeypatch.setattr(Shards, "executor_at", lambda self, place: object())
    target = sc.Target(log_prior, log_likelihood, Shards(PARTS))
    with pytest.raises(ValueError, match="SVRG reads all data again and again"):
        sc.kernel(target, sc.SGLD(0.01), batch_size=5, batching=Tours(5), estimator=sc.SVRG(50))
