"""Every benchmark at a size that measures nothing: it still runs, and its table has finite numbers in it.

What a benchmark starts as a process of its own runs in this one, which has imported and compiled most of it already.
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
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import scirocco as sc
from at_once import AtOnce

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NAMES = sorted(path.stem for path in BENCHMARKS.glob("*.py"))


def looked_at():
    """The clock of ``ticking``, for a benchmark that counts seconds of computing."""
    return time.perf_counter()


# Arguments and, where they are not enough, constants of the module.
TINY = {
    "bias_cost": (
        ["--only", "normal", "--seconds", "0.02"],
        {"CLOCK": looked_at, "BATCHES": (32,), "FACTORS": (0.25, 1.0), "ADAPTATION": 2, "PIECES": np.inf},
    ),
    "cluster": (
        ["--tokens", "4000", "--topics", "3", "--rows", "300", "--workers", "2", "--turns", "1"],
        {"PART": 40, "STEPS": 2, "BATCHES": (10,), "clients": lambda workers: contextlib.nullcontext(AtOnce())},
    ),
    "cluster_gradients": (
        ["--rows", "200", "--columns", "2", "--batches", "10", "--legs", "5", "--turns", "1"],
        {"TASK_STEPS": 20, "TOURS": 1, "clients": lambda workers: contextlib.nullcontext(AtOnce())},
    ),
    "combine": (["--dimensions", "2", "--shards", "2", "--draws", "60", "--seeds", "1"], {}),
    "covertype": (
        ["--reference", "reference.npz", "--budget", "0.1", "--only", "scirocco"],
        {"BURN_IN": 20, "PIECE": 20, "WARMUP": 20},
    ),
    "directions_coverage": (
        ["--sets", "1"],
        {"ROWS": 60, "SETTINGS": {"n_chains": 1, "n_draws": 4, "burn_in": 2, "thin": 1, "measure_bias": False},
         "TIMED": False},
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
    "latent_classes": (["--seeds", "1", "--laws", "yes_no"], {"PASSES": 5, "CLASSES": range(1, 3), "SHARE": 0.1}),
    "lda": (["--budgets", "0.5", "--topics", "3", "--libraries", "scirocco", "scikit-learn"], {"HELD_OUT": 20}),
    "lda_scaling": (
        ["--picture", "scaling.png"],
        {"TOPICS": 3, "USED": 200, "DOCUMENTS": 100, "BATCH": 20, "STEPS": 3, "VOCABULARIES": (300, 400), "PART": 60,
         "LENGTHS": (1,), "TURNS": 1, "SECONDS": 0.2},
    ),
    "lda_speed": (
        ["--topics", "3", "--sweeps", "2", "--turns", "1", "--without", "tomotopy", "topica", "topica LightLDA",
         "topica WarpLDA"],
        {},
    ),
    "lda_threads": (
        ["--documents", "150", "--seconds", "0.5", "--turns", "1"],
        {"TOPICS": 3, "WORDS": 60, "HELD_OUT": 20, "PART": 100},
    ),
    "large_table": (["--rows", "3000", "--columns", "2"], {"GROUP": 1000}),
    "local_parameters": (
        ["--groups", "50", "--sampled", "0"],
        {"STEPS": 10, "SETTINGS": {"sampler": sc.SGLD(1e-5), "num_samples": 20, "burn_in": 5, "report": False}},
    ),
    "long_steps": ([], {"CHAINS": 2, "DRAWS": 50, "BURN_IN": 20, "MULTIPLES": (0.5,), "ROWS": 200, "COLUMNS": 2}),
    "memory": (["--megabytes", "1", "--kinds", "npy"], {"BATCH": 2, "STEPS": 100}),
    "numpyro_models": (
        ["--rows", "300", "600", "--nuts", "300", "--models", "mixture"],
        {"ADAPTATION": 10, "DRAWS": 10, "CHAINS": 1,
         "SETTINGS": {"sampler": sc.SGLD(1e-5), "num_samples": 40, "burn_in": 10, "report": False}},
    ),
    "mixed_tables": (
        ["--seeds", "1", "--laws", "small", "apart", "--priors", "default"],
        {"PASSES": 5, "CLASSES": range(1, 3), "SHARE": 0.2},
    ),
    "practitioner": (
        ["--seeds", "1"],
        {"PASSES": 3, "SHARE": 0.02, "PEER_SWEEPS": 2, "WORDS": 100, "TOPICS": 3, "latent_classes.SHARE": 0.05,
         "latent_classes.CLASSES": range(1, 3), "mixed_tables.SHARE": 0.1, "mixed_tables.CLASSES": range(1, 3),
         "DRAWS": {"n_draws": 20, "burn_in": 10, "thin": 1, "n_chains": 2, "measure_bias": False}},
    ),
    "simplex_engine": (
        [],
        {"ENTRIES": 2000, "TURNS": 1, "STEP_SIZES": (0.1,), "CATEGORIES": (2000,), "TOUCHED": 100},
    ),
    "spherical_coverage": (
        ["--sets", "1"],
        {"DOCUMENTS": 40, "WORDS": 8,
         "SETTINGS": {"n_chains": 1, "n_draws": 8, "burn_in": 20, "thin": 1, "measure_bias": False}},
    ),
    "startup": (["--rounds", "1", "--tasks", "fixed step"], {}),
    "uncertainty": (
        ["--only", "normal", "--samplers", "SGLD"],
        {"CHAINS": 2, "DRAWS": 50, "BURN_IN": 20, "THIN": 1},
    ),
    "verdicts": (["--seeds", "1", "--kinds", "stuck"], {}),
    "zigzag": (["--rows", "200", "--nuts", "200"], {"BATCHES": (1,), "DRAWS": 40, "NUTS_DRAWS": 20, "ADAPTATION": 20}),
    "vmf_concentrations": (["--data", "tied", "heavy"], {"SIZES": ((3, 10, 300),)}),
    "vmf_embeddings": (["--cache", "embeddings.npz"], {"SMALLEST": 5}),
    "vmf_mixture": (["--rows", "400", "--features", "5", "--restarts", "1"], {"CLUSTERS": 3, "HELD_OUT": 50}),
}  # fmt: skip
PICTURES = {"bias_cost": "results/bias_cost.png", "lda_scaling": "scaling.png"}


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
    pictures = {f"{what}_{part}": array for part in ("train", "test") for what, array in
                (("x", rng.integers(256, size=(200, 784))), ("y", rng.integers(10, size=200)))}  # fmt: skip
    np.savez(tmp_path / "mnist.npz", **pictures)
    np.savez(tmp_path / "embeddings.npz", X=rng.normal(size=(90, 5)), y=np.arange(90) % 3)
    np.savez(tmp_path / "reference.npz", mean=np.zeros(54), sd=np.ones(54))
    monkeypatch.setenv("SCIROCCO_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def in_process(monkeypatch, module):
    """The benchmark itself, or code, in place of a process of its own."""

    def run(command, **options):
        first, *arguments = command[command.index(sys.executable) + 1 :]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), monkeypatch.context() as patch:
            if first == "-c":
                patch.setattr(sys, "argv", arguments)
                exec(arguments[0], {"__name__": "__main__"})
            else:
                module.main(arguments)
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
    if module.__name__ in PICTURES:
        assert Path(PICTURES[module.__name__]).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("module", ["startup"], indirect=True)
def test_a_task_that_starts_here_runs(module):
    """What takes long in a process without compiled code."""
    names = {}
    exec(textwrap.dedent(module.TASKS["topics"]), names)
    assert names["task"](0)


@pytest.mark.parametrize("module", ["bias_cost"], indirect=True)
def test_the_worst_errors_are_those_of_the_draws(module):
    """Bias is told from chance, and from what so few draws say nothing of."""
    draws = np.random.default_rng(0).normal(size=(4, 2000, 3)) * [1, 1.3, 2] + [0, 0, 5]
    truth = module.Truth(np.array([0, 0, 4.6]), np.array([1, 1, 2.0]))
    kernel = SimpleNamespace(batch_size=10)

    def judged(draws, warm_up=0):
        run = module.Run(draws, draws.shape[1], 1.0, True)
        return module.Cell.of("SGLD", kernel, 1.0, run, truth, warm_up)

    cell = judged(draws)
    assert (cell.draws, cell.sd.mark, cell.mean.mark) == (1600, module.BIAS, module.BIAS)
    assert abs(cell.sd.error - 0.3) < 4 * cell.sd.chance
    assert abs(cell.sd.chance / (1.3 / np.sqrt(2 * 6400)) - 1) < 0.2
    assert abs(cell.mean.error - 0.2) < 4 * cell.mean.chance
    assert judged(draws[..., :1].repeat(3, axis=2) * [1, 1, 2] + [0, 0, 4.6]).sd.mark == module.CHANCE
    assert judged(draws[:, :20]).sd.mark == module.UNKNOWN
    assert judged(np.zeros((4, 20, 3))).sd == (-1, 0, module.UNKNOWN)
    assert (judged(draws, 1900).draws, judged(draws, 1900).note) == (100, "")
    assert (judged(draws, 2100).draws, judged(draws, 2100).note) == (1000, "2000 of 2100 steps of its warm-up")


@pytest.mark.parametrize("module", ["bias_cost"], indirect=True)
def test_truth_by_exact_gradients_is_exact_on_a_gaussian(module):
    posterior = module.MAKERS["normal"]()
    found, (mean, sd) = module.by_gmc(8, posterior), posterior.truth
    np.testing.assert_allclose(found.mean, mean, atol=2e-3 * sd.min())  # in single precision
    np.testing.assert_allclose(found.sd, sd, rtol=2e-3)
    assert found.mean_error < 2e-3
    assert found.sd_error < 2e-3


@pytest.mark.parametrize("module", ["bias_cost"], indirect=True)
@pytest.mark.usefixtures("data", "in_process")
def test_without_the_data_covertype_is_left_out(module, monkeypatch, capsys):
    monkeypatch.delenv("SCIROCCO_DATA")
    module.main(["--only", "covertype"])
    assert "left out: set SCIROCCO_DATA" in capsys.readouterr().out
