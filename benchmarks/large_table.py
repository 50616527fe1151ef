"""Logistic regression on a table that need not fit in memory: seconds, memory, and whether the posterior is right.

    python benchmarks/large_table.py [--rows 10000000] [--columns 20] [--memory] [--folder DIR]

A Parquet file is made (and kept in DIR, by default a temporary folder) and sampled with ``step_size="auto"`` and
nothing else set, from disk or with ``--memory`` from arrays. The posterior is near Gaussian here, so that truth is the
mode, by Newton's method on all rows, and the inverse of the Hessian there. Beside it an estimate of what the gradients
of NUTS alone would cost: the measured time of one of all rows, times the number that it takes on such a posterior.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import scirocco as sc

GROUP = 100_000  # rows of a row group
NUTS_GRADIENTS = 4 * (1000 + 1000) * 7  # chains, warm-up and draws, leapfrog steps of a near-Gaussian posterior


def make_table(path: Path, rows: int, columns: int) -> np.ndarray:
    """Write the table, row group by row group; the true coefficients."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    weights = np.random.default_rng(0).normal(size=columns) / 2
    if path.exists():
        return weights
    schema = pa.schema([("x", pa.list_(pa.float32(), columns)), ("y", pa.float32())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, GROUP):
            rng = np.random.default_rng(1 + start)
            x = rng.normal(size=(min(GROUP, rows - start), columns)).astype(np.float32)
            y = (rng.random(len(x)) < 1 / (1 + np.exp(-x @ weights))).astype(np.float32)
            lists = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), columns)
            writer.write_table(pa.Table.from_arrays([lists, pa.array(y)], schema=schema))
    return weights


def prior(w: Any) -> Any:
    """N(0, 1)."""
    return -0.5 * jnp.sum(w**2)


def likelihood(w: Any, row: Any) -> Any:
    """Of a row with columns x and y."""
    logit = row["x"] @ w
    return row["y"] * logit - jax.nn.softplus(logit)


def truth(target: sc.Target, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mode and the sds of the normal law there, from all rows, by Newton's method from the mean of the draws on."""
    mode = start.astype(np.float64)
    for _ in range(2):
        here = jnp.asarray(mode, jnp.float32)
        covariance = np.linalg.inv(target.likelihood_hessian(here) + np.eye(mode.size))
        mode = mode - covariance @ np.asarray(target.full_gradient(here))
    return mode, np.sqrt(np.diag(covariance))


def main(argv: Sequence[str] | None = None) -> None:
    """Make the table, sample it, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--memory", action="store_true", help="read the table into memory first")
    parser.add_argument("--folder", type=Path, help="where the table is kept")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as temporary:
        path = (options.folder or Path(temporary)) / f"table_{options.rows}x{options.columns}.parquet"
        weights = make_table(path, options.rows, options.columns)
        source: Any = sc.batches.Parquet(path)
        if options.memory:
            parts = list(source.in_order(GROUP))
            source = {name: np.concatenate([part[name] for part in parts]) for name in ("x", "y")}
        target = sc.Target(prior, likelihood, source)
        began, computed = time.perf_counter(), time.process_time()
        trace = sc.sample(target, sc.UnderdampedLangevin(step_size="auto"), jnp.zeros(options.columns), progress=False)
        seconds, computed = time.perf_counter() - began, time.process_time() - computed
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        mean, spread = trace.mean["theta"], np.sqrt(trace.variance["theta"])
        mode, sd = truth(target, mean)
        began = time.perf_counter()
        target.full_gradient(jnp.asarray(mode + sd, jnp.float32))  # not where it is remembered
        gradient = time.perf_counter() - began
    print(f"{options.rows:,} rows x {options.columns} columns, {'in memory' if options.memory else 'on disk'}")
    print(f"  {seconds:.1f} s in all, {trace.tuning.seconds:.1f} s of it tuning; {computed:.1f} s of CPU time")
    print(f"  {peak:.1f} GB of memory at most")
    print(f"  departure {trace.tuning.departure:.2g}; centre {_off(trace, mode, sd):.2f} sds from the mode")
    print(f"  sds {np.min(spread / sd):.3f} to {np.max(spread / sd):.3f} of the true ones")
    print(f"  means off by at most {np.max(np.abs(mean - mode) / sd):.3f} sd")
    print(f"  z-scores of the true coefficients up to {np.max(np.abs(mean - weights) / sd):.1f}")
    hours = NUTS_GRADIENTS * gradient / 3600
    print(f"  NUTS, an estimate: {NUTS_GRADIENTS:,} gradients of {gradient:.2f} s each, {hours:.1f} hours")
    print(trace.verdict())


def _off(trace: sc.Trace, mode: np.ndarray, sd: np.ndarray) -> float:
    """How far from the mode the chains were started, in posterior sds."""
    start = trace.moments.start["theta"].mean(axis=0)
    return float(np.max(np.abs(start - mode) / sd))


if __name__ == "__main__":
    main()
