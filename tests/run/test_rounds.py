"""Rounds over resident shards: the same answers whoever holds a shard, and whatever was lost meanwhile."""

import copy
import errno
import itertools
import os
import signal
from concurrent.futures import Future
from copy import deepcopy
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from scirocco.core.interrupt import Interrupt
from scirocco.run import patience, rounds
from scirocco.run.rounds import Cluster, Rounds, Shard, spread


class Walk(Shard):
    """Numbers that depend on all messages before."""

    def __init__(self, shard):
        self.state = np.full(3, shard, np.int64)

    def advance(self, round_number, message):
        self.state = 3 * self.state + message["step"] + round_number
        return {"state": self.state.copy()}

    def pack(self):
        return {"state": self.state}

    def unpack(self, arrays):
        self.state = arrays["state"]


def walked(driver, until, found=None):
    """Answers so far; each message depends on those before."""
    found = [] if found is None else found
    while driver.round < until:
        last = found[-1].sum(axis=0) if found else np.zeros(3, np.int64)
        found.append(np.array([answer["state"] for answer in driver({"step": last % 7})]))
    return found


@pytest.fixture
def alone(at_once, tmp_path):
    return walked(Rounds(Cluster(at_once, 3), tmp_path / "alone", Walk), 25)


@pytest.mark.parametrize("lost", [(), (1,), (9, 10, 11, 12), range(1, 25)])
def test_what_workers_forget_is_read_and_repeated(at_once, tmp_path, alone, lost):
    driver, found = Rounds(Cluster(at_once, 3), tmp_path / "run", Walk), []
    for number in range(1, 26):
        walked(driver, number, found)
        if number in lost:
            driver.forget()
    np.testing.assert_array_equal(found, alone)
    kept = sorted(str(path.relative_to(tmp_path / "run")) for path in (tmp_path / "run").glob("*/round-*"))
    assert kept == [f"shard-{s}/round-20" for s in range(3)]  # the others are gone
    assert len(list((tmp_path / "run").glob("message-*"))) == 5


def test_a_turn_that_is_made_twice_has_the_same_answer(at_once, tmp_path, monkeypatch):
    twice, submit = [], type(at_once).submit

    def again(self, turn, **options):
        if turn.asked:
            twice.append((turn().arrays["state"], turn().arrays["state"]))
        return submit(self, turn, **options)

    monkeypatch.setattr(type(at_once), "submit", again)
    walked(Rounds(Cluster(at_once, 2), tmp_path, Walk), 12)
    assert len(twice) == 24
    for one, other in twice:
        np.testing.assert_array_equal(one, other)


def test_what_a_worker_has_from_before_the_last_save_is_of_no_use(at_once, tmp_path, alone):
    driver, found, key = Rounds(Cluster(at_once, 3), tmp_path / "run", Walk), [], (tmp_path / "run", 1)
    walked(driver, 2, found)
    old = rounds._held[key]  # as if the shard were elsewhere until the others are lost
    kept = rounds._Held(old.owner, old.round, deepcopy(old.shard))
    walked(driver, 12, found)
    rounds._held[key] = kept
    np.testing.assert_array_equal(walked(driver, 25, found), alone)


@pytest.mark.parametrize("end", [4, 10, 17])
def test_it_goes_on_from_where_it_was_pinned(at_once, tmp_path, alone, end):
    place = tmp_path / "run"
    first = Rounds(Cluster(at_once, 3), place, Walk)
    found = walked(first, end)
    assert first.pin() == end
    for _ in range(6):  # that nobody remembers
        first({"step": np.ones(3, np.int64)})
    driver = Rounds(Cluster(at_once, 3), place, Walk)
    driver.begin(end)
    np.testing.assert_array_equal(walked(driver, 25, found), alone)


def test_what_a_worker_that_wakes_up_remembers_is_too_old(at_once, tmp_path, alone):
    driver = Rounds(Cluster(at_once, 3), tmp_path / "run", Walk)
    found = walked(driver, 5)
    remembered = copy.deepcopy(rounds._held)
    walked(driver, 22, found)
    rounds._held.update(remembered)
    np.testing.assert_array_equal(walked(driver, 25, found), alone)


@pytest.fixture
def submitting(at_once, monkeypatch):
    """``submitting(do)``: instead of the first turn of round 7."""

    def arrange(do):
        submit, done = at_once.submit, []

        def submitted(turn, **options):
            if turn.round == 7 and not done:
                done.append(options["workers"])
                return do()
            return submit(turn, **options)

        monkeypatch.setattr(at_once, "submit", submitted)
        return done

    return arrange


def test_a_shard_of_a_worker_that_hangs_goes_to_another(at_once, tmp_path, alone, submitting, monkeypatch):
    clock = itertools.count()
    seen = {"hung": lambda: 0, "there": clock.__next__}
    monkeypatch.setattr(rounds, "PATIENCE", 0.0)
    monkeypatch.setattr(rounds, "LOOK", 0.001)
    monkeypatch.setattr(at_once, "nthreads", lambda: dict.fromkeys(seen, 1))
    heard = lambda n_workers: {"workers": {name: {"last_seen": at()} for name, at in seen.items()}}  # noqa: E731
    monkeypatch.setattr(at_once, "scheduler_info", heard)
    given = submitting(Future)
    with pytest.warns(UserWarning, match="the worker hung has shown no sign of life for 0 s: another takes shard 0"):
        found = walked(Rounds(Cluster(at_once, 3), tmp_path / "run", Walk), 25)
    assert given == [["hung"]]
    np.testing.assert_array_equal(found, alone)


def test_a_shard_whose_only_worker_died_goes_to_one_that_comes_later(
    at_once, tmp_path, alone, submitting, monkeypatch
):  # fmt: skip
    """Dask gives what was wanted on a worker that has died to others that are there, and to none that comes."""
    present, lost = {"first": 1}, Future()

    def dies():
        present.clear()
        present["second"] = 1
        return lost

    monkeypatch.setattr(rounds, "LOOK", 0.001)
    monkeypatch.setattr(at_once, "nthreads", lambda: dict(present))
    given = submitting(dies)
    np.testing.assert_array_equal(walked(Rounds(Cluster(at_once, 3), tmp_path / "run", Walk), 25), alone)
    assert given == [["first"]]
    assert lost.cancelled()


def test_storage_that_fails_for_a_while_is_waited_for(at_once, tmp_path, alone, submitting, monkeypatch):
    def fail():
        future = Future()
        future.set_exception(OSError(errno.EIO, "Input/output error"))
        return future

    monkeypatch.setattr(patience, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(rounds, "LOOK", 0.001)
    submitting(fail)
    with pytest.warns(
        UserWarning, match="a worker could not read or save its shard: .*Input/output error; tried again"
    ):
        found = walked(Rounds(Cluster(at_once, 3), tmp_path / "run", Walk), 25)
    np.testing.assert_array_equal(found, alone)


def test_a_client_that_loses_its_scheduler(at_once, tmp_path, submitting):
    def cancelled():
        future = Future()
        future.cancel()
        future.set_running_or_notify_cancel()
        return future

    submitting(cancelled)
    with pytest.raises(RuntimeError, match=r"lost its scheduler in round 7: scirocco\.resume\(path, \.\.\., client=\)"):
        walked(Rounds(Cluster(at_once, 3), tmp_path / "run", Walk), 25)


def test_shards_stay_where_they_are_unless_workers_are_idle():
    assert spread([""] * 4, {"b": 1, "a": 1}) == ["a", "a", "b", "b"]
    assert spread(["b", "a", "b"], {"a": 1, "b": 1}) == ["b", "a", "b"]
    assert spread(["a", "a", "a", "b"], {"a": 1, "b": 1}) == ["a", "a", "b", "b"]
    assert spread(["a", "gone", "b", "b"], {"a": 1, "b": 1}) == ["a", "a", "b", "b"]
    assert spread(["a", "a", "a", "a"], {"a": 1, "b": 3}) == ["a", "b", "b", "b"]
    assert spread(["a", "gone"], {}) == ["", ""]


# A cluster of Dask.


def mortal(marker, shard):
    """A shard of a worker that dies in round 13, if none has yet."""
    made = Walk(shard)
    advance = made.advance

    def advancing(round_number, message):
        if round_number == 13:
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return advance(round_number, message)
            os.kill(os.getpid(), signal.SIGKILL)
        return advance(round_number, message)

    made.advance = advancing
    return made


def test_a_worker_that_is_killed_changes_nothing(cluster, tmp_path, alone):
    driver = Rounds(Cluster(cluster, 3), tmp_path / "run", partial(mortal, tmp_path / "killed"))
    np.testing.assert_array_equal(walked(driver, 25), alone)
    assert (tmp_path / "killed").exists()
    driver.forget()
    assert not any(cluster.run(lambda: len(rounds._held)).values())
    assert not cluster.futures  # nothing of what was is kept


# What is refused.


def test_what_is_no_client(at_once):
    with pytest.raises(TypeError, match=r"client must be a distributed\.Client"):
        Cluster.of(3, 2)
    with pytest.raises(ValueError, match="shards= must say how many parts"):
        Cluster.of(at_once, None)
    with pytest.raises(ValueError, match="give client= too"):
        Cluster.of(None, 3)
    at_once.status = "closed"
    with pytest.raises(ValueError, match="the client is closed"):
        Cluster.of(at_once, 2)


def test_workers_that_do_not_see_the_folder(at_once, tmp_path):
    at_once.sees = lambda argument: tmp_path / "away" if isinstance(argument, Path) else argument
    with pytest.raises(ValueError, match=r"does not see .*give path=, a folder on storage that all machines share"):
        Cluster(at_once, 2).require_workers(tmp_path / "run")


def test_ctrl_c_is_obeyed_when_no_worker_is_left(at_once, tmp_path, monkeypatch):
    driver = Rounds(Cluster(at_once, 2), tmp_path / "run", Walk)

    def submit(*given, **options):
        signal.raise_signal(signal.SIGINT)
        monkeypatch.setattr(at_once, "nthreads", dict)
        monkeypatch.setattr(at_once, "submit", lambda *given, **options: Future())
        return Future()

    monkeypatch.setattr(at_once, "submit", submit)
    with Interrupt(), pytest.raises(KeyboardInterrupt):
        walked(driver, 1)
