"""What breaks on clusters, done to one of real processes: every run ends with the draws of one process.

Its scheduler and workers are processes of their own, which can be killed, stopped and cut off.
"""

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import test_crew
import test_rounds

import scirocco as sc
from scirocco.run import crew, patience, rounds
from scirocco.run.rounds import Cluster, Rounds

distributed = pytest.importorskip("distributed", reason="it is in the extra cluster")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:the worker:UserWarning")]
LONG = {"num_samples": 4000, "thin": 50, "chains": 2, "group_size": 1}


class Machines:
    """A scheduler and workers, each a process."""

    def __init__(self, folder, host="127.0.0.1", ttl="300s"):
        self.folder, self.processes = folder, []
        paths = {"PYTHONPATH": os.pathsep.join(sys.path), "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": ttl}
        self.environment = os.environ | paths | {"DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "15s"}
        self.file = folder / "scheduler.json"
        self.scheduler = self._begin(
            "dask_scheduler",
            "--host",
            host,
            "--port",
            "0",
            "--dashboard-address",
            ":0",
            "--scheduler-file",
            str(self.file),
        )
        try:
            self.client = distributed.Client(scheduler_file=str(self.file))
        except BaseException:
            self.close()
            raise

    def worker(self, *before, until=None):
        """One more, until there are so many; ``before`` is what runs it."""
        address = json.loads(self.file.read_text())["address"]
        options = ["--nthreads", "1", "--no-dashboard", "--no-nanny", "--local-directory", str(self.folder)]
        worker = self._begin("dask_worker", address, *options, before=before)
        self.client.wait_for_workers(until or len(self.processes) - 1, timeout=60)
        return worker

    def _begin(self, what, *options, before=()):
        given = [*before, sys.executable, "-m", f"distributed.cli.{what}", *options]
        log = (self.folder / f"{what}-{len(self.processes)}.log").open("w")
        self.processes.append(subprocess.Popen(given, env=self.environment, stdout=log, stderr=log))
        log.close()
        return self.processes[-1]

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
        with contextlib.suppress(Exception):  # there may be none
            self.client.close(timeout=1)


@pytest.fixture
def machines(tmp_path):
    found = Machines(tmp_path)
    found.worker()
    found.worker()
    yield found
    found.close()


@pytest.fixture
def impatient(monkeypatch):
    """No sign of life for some seconds is enough."""
    for module in (crew, rounds, patience):
        monkeypatch.setattr(module, "PATIENCE", 6.0)
    return impatient_worker


def impatient_worker():
    from scirocco.run import crew

    crew.PATIENCE = 6.0


def gradient(executor=None, **more):
    return test_crew.gradient(executor, **LONG, **more)


@pytest.fixture(scope="module")
def gradient_alone():
    return gradient()


@pytest.fixture
def topics_alone(at_once):
    return topics(at_once)


def topics(client, path=None):
    model = sc.LDA(3, sampler="gibbs", max_iter=200, search_passes=3, random_state=1)
    return model.fit(test_crew.COUNTS, client=client, shards=3, path=path)


def same_topics(one, other):
    np.testing.assert_array_equal(one.components_, other.components_)
    return one.posterior_.identical(other.posterior_)


class Then(threading.Thread):
    """Waits until a file is there, and does something."""

    def __init__(self, folder, pattern, do):
        super().__init__(daemon=True)
        self.folder, self.pattern, self.do, self.done = folder, pattern, do, False
        self.start()

    def run(self):
        while not any(self.folder.glob(self.pattern)):
            time.sleep(0.01)
        self.do()
        self.done = True


BEGUN = {"gradient": "run/chains-0/progress.json", "topics": "run/chains-0/shard-*/round-20"}


def stopped_worker(machines, for_seconds=None):
    """A worker is stopped, the one that has chain 0 or its shard or the other."""

    def do():
        machines.processes[1].send_signal(signal.SIGSTOP)
        if for_seconds is not None:
            time.sleep(for_seconds)
            machines.processes[1].send_signal(signal.SIGCONT)

    return do


@pytest.mark.parametrize("seconds", [3, 12, None])
def test_a_worker_that_hangs_delays_chains(machines, impatient, gradient_alone, tmp_path, seconds):
    machines.client.run(impatient)
    hang = Then(tmp_path, BEGUN["gradient"], stopped_worker(machines, seconds))
    trace = gradient(machines.client.get_executor(), path=tmp_path / "run")
    assert test_crew.same(trace, gradient_alone)
    assert hang.done or seconds is not None
    taken = [path.name for path in (tmp_path / "run").glob("chains-*.*")]
    print(f"stopped for {seconds} s: {taken or 'no chain'} taken over")
    assert len(taken) == 1 if seconds is None else seconds == 12 or not taken  # the other worker may be busy
    if seconds is not None:
        hang.join()
        time.sleep(5.0)  # what it does now is for nobody
    assert test_crew.same(sc.Trace.load(tmp_path / "run"), gradient_alone)


@pytest.mark.parametrize("seconds", [3, 12, None])
@pytest.mark.usefixtures("impatient")
def test_a_worker_that_hangs_delays_rounds(machines, topics_alone, tmp_path, seconds):
    hang = Then(tmp_path, BEGUN["topics"], stopped_worker(machines, seconds))
    model = topics(machines.client, path=tmp_path / "run")
    assert same_topics(model, topics_alone)
    assert hang.done or seconds is not None


@pytest.mark.parametrize("kind", ["gradient", "topics"])
def test_a_scheduler_that_is_killed_leaves_a_run_that_goes_on(kind, machines, gradient_alone, topics_alone, tmp_path):
    Then(tmp_path, BEGUN[kind], machines.scheduler.kill)
    path = tmp_path / "run"
    if kind == "gradient":
        with pytest.raises(RuntimeError, match="has cancelled the tasks of the run") as caught:
            gradient(machines.client.get_executor(), path=path)
        assert "goes on from the checkpoints" in str(caught.value.__notes__)
    else:
        with pytest.raises(RuntimeError, match=r"has lost its scheduler in round .*, client=\) goes on"):
            topics(machines.client, path=path)
    machines.close()
    (tmp_path / "other").mkdir()
    other = Machines(tmp_path / "other")
    try:
        other.worker()
        if kind == "gradient":
            trace = sc.resume(path, test_crew.posterior(), executor=other.client.get_executor())
            assert test_crew.same(trace, gradient_alone)
        else:
            found = sc.resume(path, test_crew.COUNTS, client=other.client)
            assert same_topics(found, topics_alone)
    finally:
        other.close()


def failing(until):
    """In a worker: nothing can be renamed for two seconds after its tenth time."""
    replace, rename, calls, begun = os.replace, Path.rename, [], []

    def full(done, *given):
        calls.append(given)
        if len(calls) == 10:
            begun.append(time.monotonic())
            Path(f"{until}-{os.getpid()}").touch()
        if begun and time.monotonic() < begun[0] + 2.0:
            raise OSError(errno.ENOSPC, "No space left on device", str(given[-1]))
        return done(*given)

    os.replace = lambda *given: full(replace, *given)
    Path.rename = lambda *given: full(rename, *given)


@pytest.mark.filterwarnings("ignore:a worker could not:UserWarning")
@pytest.mark.parametrize("kind", ["gradient", "topics"])
def test_storage_that_fails_for_a_while_delays(kind, machines, gradient_alone, topics_alone, tmp_path):
    machines.client.run(failing, str(tmp_path / "failed"))
    if kind == "gradient":
        trace = gradient(machines.client.get_executor(), path=tmp_path / "run", checkpoint_seconds=0.1)
        assert test_crew.same(trace, gradient_alone)
    else:
        model = topics(machines.client, path=tmp_path / "run")
        assert same_topics(model, topics_alone)
    assert list(tmp_path.glob("failed-*"))


@pytest.fixture
def networks(tmp_path):
    """A cluster whose second worker has a network of its own, and what cuts it off."""
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip`, which makes networks")
    name, inside, outside = f"scirocco{os.getpid()}", f"si{os.getpid()}", f"so{os.getpid()}"
    here, there = "10.213.77.1", "10.213.77.2"

    def ip(*given):
        return subprocess.run(["ip", *given], capture_output=True, text=True, check=False)

    if ip("netns", "add", name).returncode:
        pytest.skip("no rights to make a network namespace")
    try:
        for given in (
            ("link", "add", outside, "type", "veth", "peer", "name", inside, "netns", name),
            ("addr", "add", f"{here}/24", "dev", outside),
            ("link", "set", outside, "up"),
            ("-n", name, "addr", "add", f"{there}/24", "dev", inside),
            ("-n", name, "link", "set", inside, "up"),
            ("-n", name, "link", "set", "lo", "up"),
        ):
            made = ip(*given)
            if made.returncode:
                pytest.skip(f"no rights to connect networks: {made.stderr.strip()}")
        machines = Machines(tmp_path, here)
        try:
            machines.worker("ip", "netns", "exec", name)
            machines.worker()
            yield machines, lambda: ip("link", "set", outside, "down")
        finally:
            machines.close()
    finally:
        ip("link", "delete", outside)
        ip("netns", "delete", name)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", ["gradient", "topics"])
def test_a_worker_that_is_cut_off_changes_nothing(kind, networks, gradient_alone, topics_alone, tmp_path):
    machines, cut = networks
    cutting = Then(tmp_path, BEGUN[kind], cut)
    if kind == "gradient":
        trace = gradient(machines.client.get_executor(), path=tmp_path / "run")
        assert test_crew.same(trace, gradient_alone)
    else:
        model = topics(machines.client, path=tmp_path / "run")
        assert same_topics(model, topics_alone)
    assert cutting.done


# Twenty workers of rounds, killed at random moments; those of chains are in test_crew.


def slow_walk(shard):
    """A shard that takes a moment for each round, so that it can be killed in one."""
    made = test_rounds.Walk(shard)
    advance = made.advance

    def advancing(round_number, message):
        time.sleep(0.01)
        return advance(round_number, message)

    made.advance = advancing
    return made


def test_twenty_workers_that_are_killed_change_no_round(machines, at_once, tmp_path):
    """Each is replaced by another, which may be late: sometimes nobody is there."""
    last, rng = 420, np.random.default_rng(7)
    alone = test_rounds.walked(Rounds(Cluster(at_once, 3), tmp_path / "alone", test_rounds.Walk), last)
    driver, found = Rounds(Cluster(machines.client, 3), tmp_path / "run", slow_walk), []
    alive, killed = machines.processes[1:], []
    for number in sorted(rng.choice(np.arange(5, last - 5), 20, replace=False)):
        test_rounds.walked(driver, number, found)
        killed.append(alive.pop(rng.integers(2)))
        threading.Timer(rng.uniform(0, 0.05), killed[-1].kill).start()
        alive.append(machines.worker(until=1))
    test_rounds.walked(driver, last, found)
    assert {worker.wait() for worker in killed} == {-signal.SIGKILL}
    print(f"{len(killed)} workers were killed, {last - len(found)} rounds lost")
    np.testing.assert_array_equal(found, alone)
