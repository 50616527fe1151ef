"""Chains of gradients on the workers of a cluster beside one process: steps a second, and what a leg costs.

    python benchmarks/cluster_gradients.py [--rows 200_000] [--columns 50] [--batches 100 1000] [--legs 1000 4000]

Logistic regression, SGLD, four chains. "chains": each is a task of an executor, from begin to end. "legs": data in as
many shards as there are chains, on the workers; a task is a leg on a shard. Beside them the same chains in one process,
one after the other and in as many threads as there are workers. They take turns; the table has medians. What a leg
costs beside its steps is the time of a worker, less that of the steps of one process: what a run takes to begin, and
workers to compile, is shared out among its legs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from cluster import clients

import scirocco as sc
from scirocco.batches import Shards, Tours

CHAINS = 4
TASK_STEPS, TOURS, DRAWS = 4000, 3, 10


def log_prior(w: Any) -> Any:
    """Standard normal."""
    return -(w @ w) / 2


def log_likelihood(w: Any, row: Any) -> Any:
    """Of a 0 or a 1, with log odds x'w."""
    u = row["x"] @ w
    return row["y"] * u - jnp.logaddexp(0.0, u)


def made(rows: int, columns: int) -> dict[str, np.ndarray]:
    """Data without structure: what they say does not matter."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, columns), dtype=np.float32)
    return {"x": x, "y": (rng.random(rows) < 0.5).astype(np.float32)}


class Loaded:
    """A shard by the names of its files."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder, self.number = folder, number

    def __call__(self) -> dict[str, np.ndarray]:
        """In the process that works on it."""
        return {name: np.load(self.folder / f"{name}-{self.number}.npy") for name in ("x", "y")}


def in_files(data: dict[str, np.ndarray], folder: Path) -> list[Loaded]:
    """The data in as many shards as there are chains."""
    for name, column in data.items():
        for number in range(CHAINS):
            np.save(folder / f"{name}-{number}.npy", column[number::CHAINS])
    return [Loaded(folder, number) for number in range(CHAINS)]


def seconds(source: Any, steps: int, batch: int, folder: Path, **more: Any) -> float:
    """Of a run of so many steps a chain, after one that has compiled: workers compile for each run."""
    target = sc.Target(log_prior, log_likelihood, source)
    size = (source.example if isinstance(source, Shards) else source)["x"].shape[-1]
    settings = {"chains": CHAINS, "group_size": 1, "burn_in": 0, "batch_size": batch, "report": False} | more
    for draws in (1, DRAWS):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            began = time.perf_counter()
            sc.sample(
                target, sc.SGLD(1e-6), np.zeros(size, np.float32), num_samples=draws, thin=steps // DRAWS,
                path=Path(place) / "run", progress=False, **settings,
            )  # fmt: skip
    return time.perf_counter() - began


def measured(ways: dict[str, Callable[[], float]], turns: int) -> dict[str, float]:
    """The median of each, in turns."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(turns):
        for name, way in ways.items():
            found[name].append(way())
    return {name: float(np.median(taken)) for name, taken in found.items()}


def line(kind: str, batch: int, steps: int, legs: int, workers: int, found: dict[str, float]) -> str:
    """A row of the table: steps a second of all chains, ratios, and what a leg costs."""
    total = CHAINS * steps
    beside = (found["cluster"] * workers - found["alone"]) / (CHAINS * legs)
    return (
        f"{kind:8s}{batch:9,}{steps // legs:9,}{total / found['alone']:12,.0f}{total / found['threads']:12,.0f}"
        f"{total / found['cluster']:12,.0f}{found['threads'] / found['cluster']:12.2f}{1000 * beside:14.0f}"
    )


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--batches", type=int, nargs="+", default=[100, 1000, 10_000], help="rows of a minibatch")
    parser.add_argument("--legs", type=int, nargs="+", default=[100, 1000, 4000], help="steps of a leg")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_args(arguments)
    data, workers = made(asked.rows, asked.columns), asked.workers
    with tempfile.TemporaryDirectory() as place, clients(workers) as client:
        folder = Path(place)
        parts = in_files(data, folder)
        there, here = Shards(parts, client=client), Shards(parts)
        print(
            f"{asked.rows:,} rows, {asked.columns} columns, {CHAINS} chains, {workers} workers; steps a second of all"
        )
        print(f"{'':8s}{'batch':>9s}{'leg':>9s}{'alone':>12s}{'threads':>12s}{'cluster':>12s}", end="")
        print(f"{'of threads':>12s}{'ms a leg':>14s}")
        for batch in asked.batches:
            ways = {
                "alone": lambda b=batch: seconds(data, TASK_STEPS, b, folder),
                "threads": lambda b=batch: seconds(data, TASK_STEPS, b, folder, workers=workers),
                "cluster": lambda b=batch: seconds(data, TASK_STEPS, b, folder, executor=client.get_executor()),
            }
            print(line("chains", batch, TASK_STEPS, 1, workers, measured(ways, asked.turns)), flush=True)
        for batch in asked.batches:
            for leg in asked.legs:
                steps, tours = TOURS * CHAINS * leg, Tours(leg)
                ways = {
                    "alone": lambda b=batch, s=steps, t=tours: seconds(here, s, b, folder, batching=t),
                    "threads": lambda b=batch, s=steps, t=tours: seconds(
                        here, s, b, folder, batching=t, workers=workers
                    ),
                    "cluster": lambda b=batch, s=steps, t=tours: seconds(there, s, b, folder, batching=t),
                }
                print(line("legs", batch, steps, TOURS * CHAINS, workers, measured(ways, asked.turns)), flush=True)


if __name__ == "__main__":
    main()
