"""The simplex engine: CIR transitions against NumPy's noncentral chi-squared, and lazy against eager updates.

    python benchmarks/simplex_engine.py

The state has 400,000 entries, 95 % of them with a = 0.1 and the others with a of about 40, in its stationary law: the
weights of 50 topics on 8,000 words look like this. Both make the exact transition over the same time on one core, in
turns; then scirocco on two threads. A lazy step touches 3,000 of 10^4 to 10^6 categories, an eager one moves them all.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scirocco.core.compiled import available_threads
from scirocco.diffusions import CIR
from scirocco.simplex import SCIR, Counts, Weights

ENTRIES, SPARSE, TURNS = 400_000, 0.95, 15
STEP_SIZES = (0.02, 0.1, 0.5, 2.0)
CATEGORIES, TOUCHED = (10**4, 10**5, 10**6), 3_000


def timed(calls: dict[str, Callable[[], object]], turns: int) -> dict[str, np.ndarray]:
    """Seconds of each call, in turns: what slows the machine down slows all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()  # compiled, and in the cache
    for _ in range(turns):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return {name: np.array(values) for name, values in seconds.items()}


def transitions() -> None:
    """Nanoseconds an entry, and the ratio to NumPy turn by turn."""
    rng = np.random.default_rng(0)
    a = np.where(rng.random(ENTRIES) < SPARSE, 0.1, 40.0 * rng.gamma(2.0, 0.5, ENTRIES) + 0.6)
    x, process = rng.gamma(a), CIR.gamma(a)
    print(f"CIR transitions of {ENTRIES:,} entries, {SPARSE:.0%} with a = 0.1: ns an entry, median of {TURNS} turns;")
    print("in brackets how many times faster than NumPy, median [least, most] over the turns")
    for h in STEP_SIZES:
        shrink = -np.expm1(-h) / 2
        centrality = 2 * x / np.expm1(h)
        names = {"NumPy": lambda c=centrality, s=shrink: s * rng.noncentral_chisquare(2 * a, c)}
        for threads in range(1, min(2, available_threads()) + 1):
            names[f"{threads} thread{'s' * (threads > 1)}"] = lambda h=h, t=threads: process.transition(x, h, threads=t)
        seconds = timed(names, TURNS)
        line = f"  h = {h:<5g} NumPy {np.median(seconds['NumPy']) / ENTRIES * 1e9:5.1f}"
        for name in list(names)[1:]:
            ratio = seconds["NumPy"] / seconds[name]
            line += f"   {name} {np.median(seconds[name]) / ENTRIES * 1e9:5.1f}"
            line += f" ({np.median(ratio):.2f} [{ratio.min():.2f}, {ratio.max():.2f}])"
        print(line)


def laziness() -> None:
    """Microseconds a step with 3,000 touched categories, as their number grows."""
    print(f"SCIR steps that touch {TOUCHED:,} categories, one row, one thread: us a step, median")
    rng = np.random.default_rng(0)
    sampler = SCIR(step_size=0.1)
    for categories in CATEGORIES:
        lazy, eager = (Weights(0.1, categories=categories, seed=s, threads=1) for s in (0, 1))
        batches = [np.sort(rng.choice(categories, TOUCHED, replace=False)) for _ in range(20)]
        full = np.zeros((1, categories))
        full[:, batches[0]] = 10.0
        dense = Counts(full, fraction=0.1)
        turn = iter(range(10**9))

        def lazy_step(weights: Weights = lazy, batches: list[np.ndarray] = batches, turn: Any = turn) -> None:
            sampler.step(weights, Counts(np.full((1, TOUCHED), 10.0), batches[next(turn) % len(batches)], 0.1))

        seconds = timed(
            {"lazy": lazy_step, "eager": lambda weights=eager, dense=dense: sampler.step(weights, dense)},
            300 if categories < 10**6 else 60,
        )
        fast, slow = (np.median(seconds[name]) * 1e6 for name in ("lazy", "eager"))
        print(f"  {categories:>9,} categories: lazy {fast:8.0f}   eager {slow:8.0f}   ratio {slow / fast:6.1f}")


def main(argv: Sequence[str] | None = None) -> None:
    """Both tables."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args(argv)
    transitions()
    laziness()


if __name__ == "__main__":
    main()
