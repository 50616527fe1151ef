"""How a mixture scales: seconds of a pass by rows and by threads, the memory of a fit, the memory of a stream.

    python benchmarks/dp_mixture_scaling.py [--rows 10000 100000 1000000]

Rows are those of ``dp_mixture.py --data synthetic``: 50 clusters, 300 columns, 10 entries a row. A pass is timed at the
true clusters, so that all sizes do the same work for a row. Peaks of memory are those of a process of their own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence

import numpy as np
from dp_mixture import SPREAD, synthetic

import scirocco as sc
from scirocco.models.dp_mixture.components import Multinomial
from scirocco.models.dp_mixture.gibbs import Blocked, Collapsed
from scirocco.models.dp_mixture.partition import DirichletProcess

TIMES = 5
STREAM_BATCH, POOL = 2000, 100_000


def seconds_of_a_pass(kind: type[Collapsed], rows: int, threads: int) -> float:
    """The median of some passes at the true clusters."""
    data = synthetic(rows, SPREAD["synthetic"])
    assert data.truth is not None
    encoding = Multinomial().encoding(data.train, None)
    chain = kind(
        encoding.rows(data.train), encoding.law(0.1), encoding.counted, DirichletProcess(1.0, (1.0, 1.0)), seed=0,
        chain=0, threads=threads, moves=False, start=data.truth.astype(np.int32),
    )  # fmt: skip
    while chain.passes < 1:
        chain.step()
    found = []
    for _ in range(TIMES):
        began, before = time.perf_counter(), chain.passes
        while chain.passes < before + 1:
            chain.step()
        found.append(time.perf_counter() - began)
    return float(np.median(found))


def peak(what: str, rows: int) -> str:
    """Megabytes that a process needed in all, and what it says."""
    command = [sys.executable, __file__, "--alone", what, "--rows", str(rows)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def megabytes() -> float:
    """The peak of this process; ru_maxrss would be inherited."""
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024


def alone(what: str, rows: int) -> None:
    """A fit, or a stream whose minibatches are made as they come."""
    sc.DirichletProcessMixture(max_iter=20, random_state=0).fit(synthetic(1000, 5.0).train)  # compiled
    began, base = time.perf_counter(), megabytes()
    if what == "fit":
        sc.DirichletProcessMixture(max_iter=40, n_chains=1, random_state=0, n_jobs=1).fit(synthetic(rows, 5.0).train)
    else:
        model, pool = sc.DirichletProcessMixture(random_state=0, n_jobs=1), synthetic(POOL, 5.0).train
        for first in range(0, rows, STREAM_BATCH):
            place = first % pool.shape[0]
            model.partial_fit(pool[place : place + STREAM_BATCH])
        print(f"{model.n_clusters_} clusters, ", end="")
    used = megabytes()
    print(f"{time.perf_counter() - began:.1f} s, peak {used:.0f} MB ({used - base:.0f} above the start)")


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--alone", choices=["fit", "stream"])
    options = parser.parse_args(argv)
    if options.alone:
        alone(options.alone, options.rows[0])
        return
    print("seconds of a pass, and nanoseconds of a row in it")
    for rows in options.rows:
        for kind, threads in ((Collapsed, 1), (Blocked, 1), (Blocked, 2)):
            taken = seconds_of_a_pass(kind, rows, threads)
            each = f"{taken:8.4f} s  {1e9 * taken / rows:6.0f} ns"
            print(f"{rows:9,d} rows  {kind.__name__:10s} {threads} thread(s)  {each}", flush=True)
    for what in ("fit", "stream"):
        for rows in options.rows:
            print(f"{what:7s} of {rows:9,d} rows: {peak(what, rows)}", flush=True)


if __name__ == "__main__":
    main()
