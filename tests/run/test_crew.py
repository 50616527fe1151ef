"""Chains that others advance: the draws of one process, whoever makes them and whoever dies meanwhile."""

import errno
import os
import signal
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import cache, partial
from multiprocessing import get_context

import numpy as np
import pytest

import scirocco as sc
from scirocco.run import crew, patience

X = np.random.default_rng(0).normal(1.0, 1.0, (400, 2)).astype(np.float32)
CODES = np.random.default_rng(1).integers(0, 9, 1000)
COUNTS = np.random.default_rng(2).poisson(0.4, (60, 30))
CLASSES = np.random.default_rng(3).integers(0, 3, (80, 4))


def posterior():
    return sc.Target(lambda m: -(m @ m) / 2, lambda m, x: -((x - m) @ (x - m)) / 2, X)


def gradient(executor=None, step_size=1e-4, **more):
    settings = {"num_samples": 60, "burn_in": 20, "chains": 3, "group_size": 2, "seed": 3, "report": False} | more
    return sc.sample(posterior(), sc.SGLD(step_size), np.zeros(2, np.float32), executor=executor, **settings)


def shards(executor=None, **more):
    settings = {"shards": 3, "num_samples": 60, "burn_in": 20, "chains": 1} | more
    return sc.sample_shards(posterior(), sc.SGLD(1e-4), np.zeros(2, np.float32), executor=executor, **settings).trace


def dirichlet(executor=None, **more):
    settings = {"num_samples": 50, "chains": 3, "report": False} | more
    return sc.sample_dirichlet(CODES, 0.1, sc.SCIR(0.1), batch_size=50, executor=executor, **settings)


def topics(executor=None, **more):
    return sc.LDA(3, n_chains=2, max_iter=20, random_state=0).fit(COUNTS, executor=executor, **more).trace_


def mixture(executor=None, **more):
    model = sc.DirichletProcessMixture(sampler="gibbs", n_chains=2, random_state=0)  # until its chains agree
    return model.fit(CLASSES, executor=executor, **more).trace_


KINDS = {f.__name__: f for f in (gradient, shards, dirichlet, topics, mixture)}


def same(one, other):
    assert one.count == other.count
    assert one.chains == other.chains
    for name, values in one.posterior.data_vars.items():
        np.testing.assert_array_equal(values, other.posterior[name])
    for name, values in one.ragged.items():
        np.testing.assert_array_equal(values.padded(), other.ragged[name].padded())
    for name, values in one.moments.mean.items():
        np.testing.assert_array_equal(values, other.moments.mean[name])
    return True


def is_whole(trace):
    return trace.count == 60 and len(trace.chains) == 3


@pytest.fixture(scope="module")
def alone():
    """The runs of one process, each made when it is first asked for."""
    return cache(lambda kind: KINDS[kind]())


@pytest.fixture
def threads():
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.mark.quick
@pytest.mark.parametrize("kind", KINDS)
def test_draws_are_those_of_one_process(kind, alone, sending):
    assert same(KINDS[kind](sending), alone(kind))


def test_a_run_in_a_folder_is_like_any_other(tmp_path, alone, threads):
    trace = gradient(threads, path=tmp_path / "run")
    assert same(trace, alone("gradient"))
    assert same(sc.Trace.load(tmp_path / "run"), trace)
    assert not (tmp_path / "run" / "stop").exists()
    longer = sc.resume(tmp_path / "run", posterior(), num_samples=90, executor=threads)
    assert same(longer, gradient(num_samples=90))


# Other processes.


def armed(folder, turns=(2,)):
    """In a worker: it dies when it has made so many turns of groups, once for each number, whoever has made them."""
    shown, made = crew.GroupFolder._show, []

    def show(self, group):
        shown(self, group)
        made.append(group)
        if len(made) in turns:
            with suppress(FileExistsError):
                os.close(os.open(f"{folder}/killed-{len(made)}", os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)

    crew.GroupFolder._show = show


@pytest.mark.parametrize("kind", ["gradient", "shards", "topics", "mixture"])
def test_a_worker_that_is_killed_changes_nothing(kind, cluster, alone, tmp_path):
    cluster.run(armed, str(tmp_path))
    assert same(KINDS[kind](cluster.get_executor(), path=tmp_path / "run"), alone(kind))
    assert (tmp_path / "killed-2").exists()


@pytest.mark.slow
def test_twenty_workers_that_are_killed_change_nothing(cluster, tmp_path):
    """Whenever Dask gives a task up for having killed too many, the run goes on with what there is."""
    distributed = pytest.importorskip("distributed", reason="it is in the extra cluster")

    class Armed(distributed.WorkerPlugin):
        def setup(self, worker):
            armed(str(tmp_path), range(2, 42, 2))

    cluster.register_plugin(Armed(), name="armed")
    begin = partial(gradient, num_samples=4000, thin=50, chains=4, group_size=1, path=tmp_path / "run")
    try:
        while True:
            try:
                trace = begin(cluster.get_executor())
                break
            except distributed.scheduler.KilledWorker:

                def begin(executor):
                    return sc.resume(tmp_path / "run", posterior(), executor=executor)

    finally:
        cluster.unregister_worker_plugin("armed")
    kills = len(list(tmp_path.glob("killed-*")))
    print(f"{kills} workers were killed")
    assert kills == 20
    assert same(trace, gradient(num_samples=4000, thin=50, chains=4, group_size=1))


def test_a_broken_pool_leaves_a_run_that_goes_on(tmp_path, alone, threads):
    with ProcessPoolExecutor(1, get_context("spawn"), armed, (str(tmp_path),)) as pool:
        with pytest.raises(Exception, match="terminated abruptly") as caught:
            gradient(pool, path=tmp_path / "run", checkpoint_seconds=0.0)
        assert "goes on from the checkpoints" in str(caught.value.__notes__)
    assert same(sc.resume(tmp_path / "run", posterior(), executor=threads), alone("gradient"))


@pytest.mark.slow
def test_processes_of_loky_make_the_same_draws(alone):
    loky = pytest.importorskip("loky", reason="there is no loky")
    with loky.ProcessPoolExecutor(1) as pool:
        assert same(gradient(pool), alone("gradient"))


# What ends a run.


@pytest.fixture
def after_turns(monkeypatch):
    """``after_turns(number, do)``: do it when workers have made so many turns."""

    def arrange(number, do):
        shown, turns = crew.GroupFolder._show, []

        def show(self, group):
            shown(self, group)
            turns.append(group)
            if len(turns) == number:
                do()

        monkeypatch.setattr(crew.GroupFolder, "_show", show)

    return arrange


@pytest.fixture
def interrupting(tmp_path):
    def interrupt():
        signal.raise_signal(signal.SIGINT)
        while not (tmp_path / "run" / "stop").exists():  # the main thread has noticed
            time.sleep(0.01)

    return interrupt


def test_ctrl_c_stops_all_at_a_checkpoint(interrupting, after_turns, tmp_path, alone, threads):
    after_turns(1, interrupting)
    trace = gradient(threads, path=tmp_path / "run")
    assert trace.stopped.kind == "interrupted"
    assert not is_whole(trace)
    assert same(sc.resume(tmp_path / "run", posterior(), executor=threads), alone("gradient"))


def test_workers_that_are_gone_are_not_waited_for(monkeypatch, tmp_path, alone):
    class Killed(Changed):
        def submit(self, function, *given):
            if not isinstance(function, crew.Task):
                return super().submit(function, *given)
            if function.first:  # a second Ctrl-C would stop at once
                signal.raise_signal(signal.SIGINT)
            return Future()

    monkeypatch.setattr(crew, "PATIENCE", 0.1)
    trace = gradient(Killed(lambda *given: given), path=tmp_path / "run")
    assert (trace.stopped.kind, trace.count) == ("interrupted", 0)
    assert (tmp_path / "run" / "stop").exists()  # for those who are at work all the same
    assert same(sc.resume(tmp_path / "run", posterior()), alone("gradient"))


def test_an_error_of_a_worker_arrives_with_its_words(after_turns, tmp_path, alone, threads):
    def fail():
        raise OSError("no space left")

    after_turns(1, fail)
    with pytest.raises(OSError, match="no space left") as caught:
        gradient(threads, path=tmp_path / "run")
    assert not is_whole(caught.value.trace)
    assert same(sc.resume(tmp_path / "run", posterior()), alone("gradient"))


def test_divergence_stops_all(threads):
    with pytest.raises(sc.DivergenceError, match="no longer finite") as caught:
        gradient(threads, step_size=1.0)
    assert caught.value.trace.stopped.kind == "diverged"


def test_a_budget_of_time_ends_a_run_that_goes_on_with_more(tmp_path, alone, threads):
    trace = gradient(threads, path=tmp_path / "run", max_seconds=1e-6)
    assert trace.stopped.kind == "budget"
    assert not is_whole(trace)
    assert same(sc.resume(tmp_path / "run", posterior(), max_seconds=1e6, executor=threads), alone("gradient"))


def test_groups_take_turns_where_time_is_limited(monkeypatch, interrupting, after_turns, tmp_path):
    monkeypatch.setattr(crew, "LEAST_LEG", 0.0)
    monkeypatch.setattr(crew, "LEGS", 1e12)  # one turn each time
    after_turns(6, interrupting)
    with ThreadPoolExecutor(1) as pool:
        trace = gradient(pool, num_samples=10**7, collect=False, max_seconds=1e5, path=tmp_path / "run")
    assert trace.stopped.kind == "interrupted"
    assert list(trace.chains) == [0, 1, 2]  # none waited for the other's end


# What is refused before any work.


class Changed(Executor):
    """One worker, whose tasks are given something else."""

    def __init__(self, change):
        self.change = change

    def submit(self, function, *given):
        future = Future()
        try:
            future.set_result(function(*self.change(*given)))
        except Exception as error:
            future.set_exception(error)
        return future


def test_workers_that_do_not_see_the_folder(tmp_path):
    away = tmp_path / "away"
    with pytest.raises(ValueError, match=r"does not see .*give path=, a folder on storage that all machines share"):
        gradient(Changed(lambda folder, *rest: (away, *rest)))


def test_workers_with_another_version():
    with pytest.raises(RuntimeError, match=r"has scirocco .*, and the run is of 9\.9: install the same"):
        gradient(Changed(lambda folder, said, version: (folder, said, "9.9")))


def test_workers_without_the_library():
    def lacks(*given):
        raise ModuleNotFoundError("No module named 'scirocco'", name="scirocco")

    with pytest.raises(RuntimeError, match="the workers of the executor lack scirocco: install it there too"):
        gradient(Changed(lacks))


def test_what_is_no_executor():
    with pytest.raises(TypeError, match=r"must be a concurrent\.futures\.Executor; got int"):
        gradient(3)
    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="give executor or workers=2, not both"):
        gradient(pool, workers=2)


def test_an_executor_that_is_closed():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(RuntimeError, match=r"the executor takes no work \(cannot schedule .*\): give one that is open"):
        gradient(pool)


@pytest.mark.usefixtures("_ctrl_c_raises")
def test_ctrl_c_is_obeyed_while_no_worker_comes():
    class Empty(Executor):
        def submit(self, function, *given):
            signal.raise_signal(signal.SIGINT)
            return Future()

    with pytest.raises(KeyboardInterrupt):
        gradient(Empty())


# Workers that show no sign of life.


def test_chains_of_a_worker_that_hangs_go_to_another(monkeypatch, after_turns, tmp_path, alone, threads):
    """It wakes up when the other has ended, and what it does then is for nobody."""
    monkeypatch.setattr(crew, "PATIENCE", 0.2)
    monkeypatch.setattr(crew, "_shown_alive", lambda place: nullcontext((place / crew.ALIVE).touch()))
    ended = tmp_path / "run" / "chains-0.1" / "progress.json"
    hung = []

    def hang():
        hung.append(1)
        while not ended.exists():
            time.sleep(0.01)

    after_turns(1, hang)
    with pytest.warns(UserWarning, match=r"chain . has shown no sign for 0\.2 s: another goes on with it"):
        trace = gradient(threads, path=tmp_path / "run", group_size=3)
    assert hung
    assert same(trace, gradient(group_size=3))
    assert same(sc.Trace.load(tmp_path / "run"), trace)


def test_storage_that_fails_for_a_while_is_waited_for(monkeypatch, after_turns, tmp_path, alone, threads):
    def fail():
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(patience, "FIRST_PAUSE", 0.01)
    after_turns(1, fail)
    with pytest.warns(UserWarning, match=r"could not read or write its chains: .*No space left .*again after 0\.01 s"):
        assert same(gradient(threads, path=tmp_path / "run"), alone("gradient"))
    monkeypatch.setattr(patience, "PATIENCE", 0.0)
    after_turns(1, fail)
    with pytest.raises(OSError, match="No space left on device"):
        gradient(threads)
