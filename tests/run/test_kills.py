"""Runs of every kind, killed at random operations on their files and resumed, end with the draws of one left alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from killed import KINDS

import scirocco as sc

SLOW = {"stochastic_mixture", "dirichlet", "lda_stream"}  # they have little that the other kinds do not have
SCRIPT = Path(__file__).with_name("killed.py")


def killed_once(kind, folder, rng):
    """Let the run go on until it kills itself at a random operation on its files; True if it did."""
    operation = round(np.exp(rng.uniform(0.0, np.log(300))))  # often in the first checkpoints, or before any
    delay = rng.choice([0.0, rng.uniform(0.0, 0.005)])
    command = [sys.executable, str(SCRIPT), kind, str(folder), str(operation), str(delay)]
    ended = subprocess.run(command, stderr=subprocess.PIPE, check=False)
    assert ended.returncode in (0, -9), ended.stderr.decode()
    return ended.returncode == -9


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.slow if kind in SLOW else ()) for kind in KINDS],
)
def test_killed_runs_end_like_those_left_alone(kind, kills, tmp_path):
    rng = np.random.default_rng(kills)
    done = 0
    while done < kills and killed_once(kind, tmp_path / "run", rng):
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
