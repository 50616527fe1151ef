"""Runs of every kind, to be killed: ``python killed.py`` begins one or goes on with it for each line of its input.

A line has KIND, OPERATION, DELAY and FOLDER. The run is a process of its own, which kills itself DELAY seconds after it
began that operation on the files in the folder, counted from 1; how it ended is printed. What a kill leaves behind is
what was done to files before, so these are all moments that differ. Its clock goes on by a fixed amount at each look:
chunks and checkpoints, and with them the operations, are the same on any machine.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np

import scirocco as sc

OFTEN = 0.02  # seconds between checkpoints


def _target(folder: Path | None = None):
    import jax.numpy as jnp

    data = np.random.default_rng(0).normal(2.0, 1.0, (200, 2)).astype(np.float32)
    if folder is not None:
        np.save(folder / "x.npy", data)
        data = sc.batches.MemoryMapped(folder / "x.npy", block_bytes=60 * 8)
    return sc.Target(lambda m: -0.5 * jnp.sum(m**2), lambda m, x: -0.5 * jnp.sum((x - m) ** 2), data), jnp.zeros(2)


def _documents():
    rng = np.random.default_rng(0)
    topics, weights = rng.dirichlet(np.full(300, 0.1), 5), rng.dirichlet(np.full(5, 0.2), 1500)
    return np.array([rng.multinomial(60, w @ topics) for w in weights])


def _rows():
    x = np.random.default_rng(0).normal(size=(2000, 3))
    return x, x[:, 0] > 0.3 * x[:, 1]


def gradient(path, begin):
    """In memory, momenta, two groups of chains."""
    target, start = _target()
    if begin:
        return sc.sample(
            target, sc.SGHMC(0.01, friction=5.0), start, num_samples=1000, burn_in=100, thin=8, batch_size=20, seed=5,
            chains=3, group_size=2, path=path, checkpoint_seconds=OFTEN, report=False,
        ).posterior["theta"].values  # fmt: skip
    return sc.resume(path, target, checkpoint_seconds=OFTEN).posterior["theta"].values


def stream(path, begin):
    """From disk, with a thermostat and an estimator that is refreshed."""
    target, start = _target(None if path is None else path.parent)
    if path is None:
        import tempfile

        target, start = _target(Path(tempfile.mkdtemp()))
    if begin:
        return sc.sample(
            target, sc.SGNHT(0.01, diffusion=5.0), start, num_samples=400, burn_in=10, thin=5, batch_size=20, seed=5,
            estimator=sc.SVRG(300), chains=2, path=path, checkpoint_seconds=OFTEN, report=False,
        ).posterior["theta"].values  # fmt: skip
    return sc.resume(path, target, checkpoint_seconds=OFTEN).posterior["theta"].values


def dirichlet(path, begin):
    """Lazy weights with control variates whose centre moves."""
    codes = np.random.default_rng(0).integers(0, 400, 20_000)
    if begin:
        return sc.sample_dirichlet(
            codes, 0.1, sc.SCIRCV(0.1, recentre_every=50, centre_batch=2000), batch_size=100, num_samples=400,
            burn_in=100, thin=20, chains=2, lazy=True, path=path, checkpoint_seconds=OFTEN,
        ).posterior["omega"].values  # fmt: skip
    return sc.resume(path, codes, checkpoint_seconds=OFTEN).posterior["omega"].values


def lda(path, begin):
    """Kept assignments: killed in the search for a start, in the first assignment and later."""
    if begin:
        model = sc.LDA(5, max_iter=120, n_chains=2, random_state=0, search_passes=40, n_jobs=1).fit(
            _documents(), path=path
        )
    else:
        model = sc.resume(path, _documents(), checkpoint_seconds=OFTEN)
    return np.concatenate([np.ravel(model.posterior_["topics"].values), np.ravel(model.components_)])


def lda_stream(path, begin):
    """Natural parameters with control variates: a search, a survey of all documents, then the chain."""
    if begin:
        model = sc.LDA(
            5, max_iter=30, random_state=0, sampler="sgld_cv", batch_size=50, search_passes=10, n_jobs=1
        ).fit(_documents(), path=path)  # fmt: skip
    else:
        model = sc.resume(path, _documents(), checkpoint_seconds=OFTEN)
    return np.concatenate([np.ravel(model.posterior_["topics"].values), np.ravel(model.components_)])


def _mixture(path, begin, **settings):
    if begin:
        fitted = sc.DirichletProcessMixture(max_iter=200, n_draws=20, random_state=0, n_jobs=1, **settings).fit(
            _documents(), path=path
        )
    else:
        fitted = sc.resume(path, _documents(), checkpoint_seconds=OFTEN)
    drawn = [np.ravel(v) for name in ("sizes", "counts") for v in fitted.trace_.ragged[name].values]
    return np.concatenate([np.ravel(fitted.posterior_["labels"].values), *drawn])


def mixture(path, begin):
    """Kept allocations, draws of changing length: killed in the search for a start and later."""
    return _mixture(path, begin, n_chains=2, learn_base=True)


def stochastic_mixture(path, begin):
    """Sticks and components with a memory of their own, allocations estimated."""
    return _mixture(path, begin, sampler="scir_cv", batch_size=300)


def model(path, begin):
    """A ready model whose step size is found first."""
    x, y = _rows()
    if begin:
        fitted = sc.LogisticRegression(
            n_draws=3000, thin=20, batch_size=20, random_state=0, n_chains=2, measure_bias=False
        ).fit(x, y, path=path)  # fmt: skip
    else:
        fitted = sc.resume(path, x, y, checkpoint_seconds=OFTEN)
    return fitted.posterior_["coef"].values


KINDS = {f.__name__: f for f in (gradient, stream, dirichlet, lda, lda_stream, mixture, stochastic_mixture, model)}
OPERATIONS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir")
TICK = 0.5  # seconds: chunks of the length that they begin with, about ten of them between two checkpoints


def _die_at(folder: Path, operation: int, delay: float) -> None:
    done = itertools.count(1)

    def kill() -> None:
        time.sleep(delay)
        os.kill(os.getpid(), signal.SIGKILL)

    def watch(event: str, given: tuple) -> None:
        if event in OPERATIONS and str(folder) in str(given[0]) and next(done) == operation:
            threading.Thread(target=kill).start() if delay else kill()  # a thread that the end of the process waits for

    sys.addaudithook(watch)


def _begin(kind: str, operation: int, delay: float, folder: Path) -> None:
    ticks = itertools.count()
    time.perf_counter = lambda: TICK * next(ticks)
    _die_at(folder, operation, delay)
    KINDS[kind](folder, begin=not (folder / "run.json").is_file())


if __name__ == "__main__":
    # Imported takes longer than run: a process for each run is forked from one that has done it, and has not used JAX.
    imported = sc.LDA, sc.DirichletProcessMixture, sc.LogisticRegression, sc.resume, sc.sample, sc.sample_dirichlet
    warnings.simplefilter("ignore")  # JAX's, of forking
    for line in sys.stdin:
        kind, operation, delay, folder = line.rstrip("\n").split(" ", 3)
        child = os.fork()
        if child == 0:
            _begin(kind, int(operation), float(delay), Path(folder))
            sys.exit()  # when the thread that kills has had its time
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
