"""Runs of every kind, killed at random operations on their files and resumed, end with the draws of one left alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from killed import KINDS

import scirocco as sc
from scirocco.run import group, runner, store

SLOW = {"stochastic_mixture", "dirichlet", "lda_stream"}  # they have little that the other kinds do not have
SCRIPT = Path(__file__).with_name("killed.py")


@pytest.fixture(scope="module")
def runs():
    """The process that begins runs, or goes on with them."""
    with subprocess.Popen(
        [sys.executable, str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:  # fmt: skip
        yield process


def killed_once(runs, kind, folder, rng):
    """Let the run go on until it kills itself at a random operation on its files; True if it did."""
    operation = round(np.exp(rng.uniform(0.0, np.log(300))))  # often in the first checkpoints, or before any
    delay = rng.choice([0.0, rng.uniform(0.0, 0.005)])
    print(kind, operation, delay, folder, file=runs.stdin)
    ended = int(runs.stdout.readline())
    assert ended in (0, -9)
    return ended == -9


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.slow if kind in SLOW else ()) for kind in KINDS],
)
def test_killed_runs_end_like_those_left_alone(runs, kind, kills, tmp_path):
    rng = np.random.default_rng(kills)
    done = 0
    while done < kills and killed_once(runs, kind, tmp_path / "run", rng):
        done += 1
    assert done >= min(kills, 3), "the run ended before it could be killed: make it longer"
    found = KINDS[kind](tmp_path / "run", begin=not (tmp_path / "run" / "run.json").is_file())
    np.testing.assert_array_equal(found, KINDS[kind](None, begin=True))
    assert not list((tmp_path / "run").rglob("*.tmp"))


def test_a_run_killed_while_it_says_what_it_is_starts_again(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".run.json.77.tmp").write_text("{")
    codes = np.arange(9)
    trace = sc.sample_dirichlet(codes, 0.1, sc.SCIR(0.1), num_samples=5, path=tmp_path / "run")
    assert trace.count == 5
    assert not list((tmp_path / "run").rglob("*.tmp"))


def test_a_run_killed_before_its_first_checkpoint_starts_again(tmp_path):
    whole = KINDS["gradient"](tmp_path / "run", begin=True)
    for path in sorted((tmp_path / "run").rglob("*"), reverse=True):
        if path.name not in ("run.json", "run"):
            path.rmdir() if path.is_dir() else path.unlink()
    with pytest.raises(FileExistsError, match=r"use scirocco.resume"):
        KINDS["gradient"](tmp_path / "run", begin=True)
    np.testing.assert_array_equal(KINDS["gradient"](tmp_path / "run", begin=False), whole)


def test_two_processes_do_not_work_on_one_run(tmp_path):
    from scirocco.run.folder import RunFolder

    codes = np.random.default_rng(0).integers(0, 9, 1000)
    sc.sample_dirichlet(codes, 0.1, sc.SCIR(0.1), batch_size=50, num_samples=5, path=tmp_path / "run")
    with RunFolder(tmp_path / "run"), pytest.raises(RuntimeError, match="another process works on the run"):
        sc.resume(tmp_path / "run", codes, num_samples=10)
    assert sc.resume(tmp_path / "run", codes, num_samples=10).count == 10  # the lock alone was in the way


# While the draws of a run that was extended are replaced.


def rows_of(trace):
    """The draws of each chain, whatever their length, by the passes that were made when they were drawn."""
    passes, labels, ragged = trace.sample_stats["passes"], trace.posterior["labels"], trace.ragged
    return {
        chain: {
            float(passes[row, draw]): (
                labels[row, draw].values.tolist(),
                *(v[row, draw].tolist() for v in ragged.values()),
            )
            for draw in range(trace.count)
        }
        for row, chain in enumerate(trace.chains)
    }


@pytest.mark.parametrize(
    ("owner", "name", "call"),
    [
        (runner.shutil, "rmtree", 2),  # labels are gone, clusters are there still
        (store, "make_arrays", 1),  # nothing is there
        (store.ZarrStore, "append", 1),  # all arrays are there, and empty
        (store.ZarrStore, "append", 2),  # one chain has new draws, the other none
        (group.Group, "save", 4),  # all draws are there; after the first two they are said to be missing
    ],
    ids=["first folder gone", "no folder", "no chain", "one chain", "one chain finished"],
)
def test_a_run_killed_while_its_draws_are_replaced(owner, name, call, tmp_path, monkeypatch, ticking):
    counts = np.random.default_rng(0).poisson(0.5, (40, 20)) + np.eye(40, 20, dtype=int)
    path = tmp_path / "run"
    settings = {"n_chains": 2, "n_draws": 4, "search": False, "n_jobs": 1, "random_state": 0}
    sc.DirichletProcessMixture(max_iter=3, **settings).fit(counts)  # Numba looks at the clock when it compiles
    ticking(1.0)
    shorter = rows_of(sc.DirichletProcessMixture(max_seconds=300.0, **settings).fit(counts, path=path).trace_)
    shutil.copytree(path, tmp_path / "left alone")
    longer = {"max_seconds": 500.0, "checkpoint_seconds": 1e9}
    wanted = rows_of(sc.resume(tmp_path / "left alone", counts, **longer).trace_)
    assert all(max(shorter[chain]) < max(wanted[chain]) for chain in (0, 1))

    done, calls = getattr(owner, name), []

    def killing(*given, **named):
        calls.append(1)
        if len(calls) == call:
            raise SystemExit
        return done(*given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, killing)
        with pytest.raises(SystemExit):
            sc.resume(path, counts, **longer)
    found = sc.Trace.load(path)
    assert found.stopped.kind == "unfinished"
    assert rows_of(found) == wanted
    again = sc.resume(path, counts)
    assert again.trace_.stopped.kind == "budget"
    assert rows_of(again.trace_) == rows_of(sc.Trace.load(path)) == wanted
