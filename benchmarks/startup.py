"""From ``import`` to a printed summary, in fresh processes, with empty caches and with those of the process before.

    python benchmarks/startup.py [--rounds 3] [--beside CHECKOUT] [--core 0]

Cold has empty caches of compiled programs, warm those that the cold process left; "again" is a second call in the same
process. The tasks are a logistic regression 20,000 x 10 with a fixed step and with ``step_size="auto"``, and topics of
300 documents. ``--beside`` measures another checkout in turns, for a ratio on the same machine in the same minutes.
Seconds are of the wall; seconds of computing, which a busy machine changes less, stand beside them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]

REGRESSION = """
    import jax, jax.numpy as jnp, numpy as np
    import scirocco as sc
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 10)).astype(np.float32)
    y = (rng.random(20_000) < 1 / (1 + np.exp(-x @ np.linspace(-1, 1, 10)))).astype(np.float32)
    def log_prior(w):
        return -0.5 * jnp.sum(w**2)
    def log_likelihood(w, row):
        z = row[0] @ w
        return row[1] * z - jax.nn.softplus(z)
    def task(seed):
        target = sc.Target(log_prior, log_likelihood, (x, y))
        trace = sc.sample(target, SAMPLER, jnp.zeros(10), num_samples=1000, batch_size=200, seed=seed)
        return str(trace.summary())
"""

TASKS = {
    "fixed step": REGRESSION.replace("SAMPLER", "sc.SGLD(1e-5)"),
    "automatic step": REGRESSION.replace("SAMPLER", 'sc.UnderdampedLangevin(step_size="auto")'),
    "topics": """
        import numpy as np
        import scirocco as sc
        rng = np.random.default_rng(0)
        topics, weights = rng.dirichlet(np.full(1000, 0.1), 10), rng.dirichlet(np.full(10, 0.2), 300)
        counts = np.array([rng.multinomial(100, w @ topics) for w in weights])
        def task(seed):
            return str(sc.LDA(10, max_iter=20, random_state=seed).fit(counts).top_words(5))
    """,
}

TIMER = """
    import time
    began = time.perf_counter()
    {code}
    assert task(0)
    first, cpu = time.perf_counter() - began, time.process_time()
    task(1)
    print(first, cpu, time.perf_counter() - began - first, time.process_time() - cpu)
"""


def process(code: str, checkout: Path, caches: Path, core: int | None) -> list[float]:
    """Seconds and computing seconds of the first and the second call of a task."""
    environment = os.environ | {
        "PYTHONPATH": str(checkout / "src"), "NUMBA_CACHE_DIR": str(caches / "numba"), "SCIROCCO_CACHE": str(caches),
        "PYTHONDONTWRITEBYTECODE": "",  # an installed package has its byte code
    }  # fmt: skip
    timed = textwrap.dedent(TIMER).format(code=textwrap.dedent(code))
    pin = ["taskset", "-c", str(core)] if core is not None else []
    done = subprocess.run(
        [*pin, sys.executable, "-c", timed], capture_output=True, text=True, env=environment, check=False
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [float(value) for value in done.stdout.split()[-4:]]


def main(argv: Sequence[str] | None = None) -> None:
    """Time each task in fresh processes, in turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--beside", type=Path, help="another checkout to measure in turns")
    parser.add_argument("--core", type=int, help="run on this core only")
    options = parser.parse_args(argv)
    checkouts = {"this": HERE} | ({"other": options.beside.resolve()} if options.beside else {})
    found: dict[tuple[str, str, str], list[list[float]]] = {}
    for _ in range(options.rounds):
        for task in options.tasks:
            for name, checkout in checkouts.items():
                with tempfile.TemporaryDirectory() as folder:
                    for state in ("cold", "warm"):
                        values = process(TASKS[task], checkout, Path(folder), options.core)
                        found.setdefault((task, state, name), []).append(values)
    print(f"median of {options.rounds} [least, most]; 'again' is a second call in the same process")
    for (task, state, name), runs in found.items():
        wall, cpu, again, again_cpu = (statistics.median(column) for column in zip(*runs, strict=True))
        least, most = min(run[0] for run in runs), max(run[0] for run in runs)
        print(
            f"  {task:15s} {state:5s} {name:6s} {wall:6.2f} s [{least:.2f}, {most:.2f}], computing {cpu:6.2f} s; "
            f"again {again:.2f} s, computing {again_cpu:.2f} s"
        )


if __name__ == "__main__":
    main()
