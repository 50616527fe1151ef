"""Memory while sampling from files larger than the resident size they are allowed.

    python benchmarks/memory.py [--megabytes 640]

Writes a file of rows (a .npy memory map and a Parquet file), samples from it in a fresh process with blocks of a
160th of the file, and reports the growth of the peak resident size over that of the same run on a file of a single
block's tenth. The file is ten times larger than what the run is allowed. Peak anonymous memory is what is reported
(RssAnon): pages of a mapped file belong to the kernel's cache, which gives them up when memory is short.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np

COLUMNS, BATCH, STEPS = 50, 500, 2000
KINDS = ("npy", "parquet")

CODE = """
    import sys, threading, time
    from pathlib import Path
    import jax.numpy as jnp
    import numpy as np
    import scirocco as sc

    peak, done = 0, threading.Event()
    def watch():
        global peak
        while not done.wait(0.005):
            fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
            peak = max(peak, int(fields["RssAnon"].split()[0]) * 1024)
    threading.Thread(target=watch, daemon=True).start()

    path, block = sys.argv[1], int(sys.argv[2])
    if path.endswith(".npy"):
        data = sc.batches.MemoryMapped(path, block_bytes=block)
        row = lambda r: r
    else:
        data = sc.batches.Parquet(path, block_bytes=block)
        row = lambda r: r["x"]
    target = sc.Target(lambda m: -0.5 * jnp.sum(m**2), lambda m, r: -0.5 * jnp.sum((row(r) - m) ** 2), data)
    steps = max(int(sys.argv[4]), int(1.5 * data.size / 500))
    start = time.perf_counter()
    trace = sc.sample(target, sc.SGLD(1e-7), jnp.zeros(50), num_samples=100, thin=max(1, steps // 100), burn_in=0,
                      batch_size=int(sys.argv[3]), estimator=sc.ControlVariate(options={"steps": 200}), chains=1)
    done.set()
    print(peak, time.perf_counter() - start, np.abs(trace.mean["theta"]).max())
"""


def write(folder: Path, rows: int, kind: str) -> Path:
    """A file of standard normal rows, written in pieces."""
    rng = np.random.default_rng(0)
    path = folder / f"{rows}.{kind}"
    pieces = [min(50_000, rows - s) for s in range(0, rows, 50_000)]
    if kind == "npy":
        out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, COLUMNS))
        at = 0
        for n in pieces:
            out[at : at + n] = rng.standard_normal((n, COLUMNS), dtype=np.float32)
            at += n
        out.flush()
        return path
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("x", pa.list_(pa.float32(), COLUMNS))])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for n in pieces:
            values = pa.FixedSizeListArray.from_arrays(
                pa.array(rng.standard_normal(n * COLUMNS, dtype=np.float32)), COLUMNS
            )
            writer.write_table(pa.table({"x": values}, schema=schema), row_group_size=5_000)
    return path


def run(path: Path, block: int) -> tuple[float, float]:
    """Peak anonymous memory in bytes and the seconds of a run."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CODE), str(path), str(block), str(BATCH), str(STEPS)],
        capture_output=True,
        text=True,
        check=True,
    )
    peak, seconds, _ = map(float, done.stdout.split()[-3:])
    return peak, seconds


def main(argv: Sequence[str] | None = None) -> None:
    """Measure both kinds of files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=640)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args(argv)
    size = options.megabytes * 2**20
    rows, block, allowed = size // (4 * COLUMNS), size // 160, size // 10
    print(f"file {size / 2**20:.0f} MB, blocks {block / 2**20:.0f} MB, allowed {allowed / 2**20:.0f} MB")
    with tempfile.TemporaryDirectory() as name:
        for kind in options.kinds:
            small, _ = run(write(Path(name), block // (40 * COLUMNS), kind), block)
            large, seconds = run(write(Path(name), rows, kind), block)
            growth = large - small
            verdict = "within" if growth <= allowed else "BEYOND"
            print(
                f"  {kind:8s} peak {large / 2**20:6.0f} MB, of which the data takes {growth / 2**20:5.0f} MB "
                f"({growth / size:.1%} of the file): {verdict} the allowed {allowed / 2**20:.0f} MB; {seconds:.1f} s"
            )


if __name__ == "__main__":
    main()
