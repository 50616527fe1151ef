"""Every benchmark at a size that measures nothing: it still runs, and its table has finite numbers in it.

What a benchmark starts as a process of its own runs in this one if it is the benchmark again, because programs are
compiled here already.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NAMES = sorted(path.stem for path in BENCHMARKS.glob("*.py"))

# Arguments and, where they are not enough, constants of the module.
TINY = {
    "combine": (["--dimensions", "2", "--shards", "2", "--draws", "60", "--seeds", "1"], {}),
    "covertype": (
        ["--reference", "reference.npz", "--budget", "0.1", "--only", "scirocco"],
        {"BURN_IN": 20, "PIECE": 20, "WARMUP": 20},
    ),
    "dp_mixture": (
        ["--data", "synthetic", "--rows", "1200", "--budgets", "0.5", "--libraries", "scirocco", "scikit-learn"],
        {"HELD_OUT": 50},
    ),
    "dp_mixture_scaling": (["--rows", "300"], {"TIMES": 1, "STREAM_BATCH": 100, "POOL": 300}),
    "geodesic": (
        ["PART", "--turns", "1"],
        {"ROWS": 200, "SIZES": ((2, 3),), "BATCHES": (10,), "TOPICS": (2, 3), "VOCABULARY": (5, 6), "FEW": 50,
         "SCALING_BATCHES": (10, 20), "DIMENSIONS": (3,), "EXAMPLES": 50, "MANY": 50},
    ),
    "gradient_engine": (["logistic"], {"ROUNDS": 1, "Logistic.steps": 20}),
    "lda": (["--budgets", "0.5", "--topics", "3", "--libraries", "scirocco", "scikit-learn"], {"HELD_OUT": 20}),
    "lda_scaling": (
        ["--picture", "scaling.png"],
        {"TOPICS": 3, "USED": 200, "DOCUMENTS": 100, "BATCH": 20, "STEPS": 3, "VOCABULARIES": (300, 400), "PART": 60,
         "LENGTHS": (1, 2), "TURNS": 1, "SECONDS": 0.2},
    ),
    "lda_speed": (["--topics", "3", "--sweeps", "2", "--turns", "1", "--without", "tomotopy", "topica"], {}),
    "large_table": (["--rows", "3000", "--columns", "2"], {"GROUP": 1000}),
    "memory": (["--megabytes", "1", "--kinds", "npy"], {"BATCH": 2}),
    "simplex_engine": (
        [],
        {"ENTRIES": 2000, "TURNS": 1, "STEP_SIZES": (0.1,), "CATEGORIES": (2000,), "TOUCHED": 100},
    ),
    "startup": (["--rounds", "1", "--tasks", "fixed step"], {}),
    "uncertainty": (
        ["--only", "normal", "--samplers", "SGLD"],
        {"CHAINS": 2, "DRAWS": 50, "BURN_IN": 20, "THIN": 1},
    ),
    "verdicts": (["--seeds", "1", "--kinds", "stuck"], {}),
    "vmf_mixture": (["--rows", "400", "--features", "5", "--restarts", "1"], {"CLUSTERS": 3, "HELD_OUT": 50}),
}  # fmt: skip


def test_none_is_forgotten():
    text = (BENCHMARKS.parent / "Makefile").read_text()
    assert sorted(TINY) == NAMES
    assert [name for name in NAMES if f"benchmarks/{name}.py" not in text] == []


@pytest.fixture
def module(request, monkeypatch):
    """A benchmark by name; benchmarks import each other by name, as scripts do, and experiments have some of these."""
    before = {name: sys.modules.pop(name) for name in NAMES if name in sys.modules}
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module(request.param)
    for name in NAMES:
        sys.modules.pop(name, None)
    sys.modules.update(before)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Small stand-ins for the data sets, and the folder to work in."""
    rng = np.random.default_rng(0)
    counts = sp.csr_matrix(rng.poisson(0.5, (120, 40)))
    np.savez(tmp_path / "newsgroups20.npz", data=counts.data, indices=counts.indices, indptr=counts.indptr,
             shape=counts.shape)  # fmt: skip
    np.savez(
        tmp_path / "covertype.npz", quantitative=rng.normal(size=(1000, 10)), wilderness=rng.integers(4, size=1000),
        soil=rng.integers(40, size=1000), cover_type=rng.integers(1, 3, size=1000),
    )  # fmt: skip
    np.savez(tmp_path / "mnist.npz", x_train=rng.integers(256, size=(200, 784)), y_train=rng.integers(10, size=200))
    np.savez(tmp_path / "reference.npz", mean=np.zeros(54), sd=np.ones(54))
    monkeypatch.setenv("SCIROCCO_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def in_process(monkeypatch, module):
    """The benchmark itself in place of a process of its own; other code has one."""
    process = subprocess.run

    def run(command, **options):
        command = command[command.index(sys.executable) + 1 :]
        if command[0] == "-c":
            return process([sys.executable, *command], **options)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            module.main(command[1:])
        return subprocess.CompletedProcess(command, 0, printed.getvalue(), "")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None, raising=False)
    if hasattr(module, "Record"):  # which would end this process when its time is over
        monkeypatch.setattr(module.Record, "_end", lambda self: None)


@pytest.mark.filterwarnings("default")  # so few draws are worth a warning
@pytest.mark.parametrize("module", TINY, indirect=True)
@pytest.mark.usefixtures("data", "in_process")
def test_a_benchmark_runs(module, monkeypatch, ticking, capsys):
    arguments, constants = TINY[module.__name__]
    for name, value in constants.items():
        monkeypatch.setattr(f"{module.__name__}.{name}", value)
    ticking(0.05 if module.__name__ == "lda_scaling" else 0.001)  # its budgets of time are its own
    for part in (
        ("causes", "effective") if "PART" in arguments else ("",)
    ):  # the others have nothing that these have not
        module.main([part if argument == "PART" else argument for argument in arguments])
    printed = capsys.readouterr().out
    assert re.search(r"\d\.\d", printed), printed
    assert not re.search(r"\b(nan|failed)\b", printed), printed
    if "--picture" in arguments:
        assert Path("scaling.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("module", ["startup"], indirect=True)
def test_a_task_that_starts_here_runs(module):
    """What takes long in a process without compiled code."""
    names = {}
    exec(textwrap.dedent(module.TASKS["topics"]), names)
    assert names["task"](0)
