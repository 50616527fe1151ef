"""How much too long may a step be? SGLD and Barker's moves on a regression whose columns differ in scale.

    python benchmarks/long_steps.py [--condition 1000]

A linear regression with independent columns, whose posterior is known. Steps are multiples of the longest at which SGLD
is stable, twice one over the largest curvature; a run with all data and one with minibatches of 100 rows. For each the
narrowest and the widest sd over the true one, and the largest error of a mean in true sds.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

import scirocco as sc

ROWS, COLUMNS, BATCH = 2000, 8, 100
CHAINS, DRAWS, BURN_IN = 8, 4000, 2000
MULTIPLES = (0.05, 0.2, 0.5, 0.9, 1.5, 5.0, 20.0)


def regression(condition: float) -> tuple[sc.Target, np.ndarray, np.ndarray]:
    """A target whose curvatures span a factor, with the true means and sds."""
    rng = np.random.default_rng(0)
    x = np.linalg.qr(rng.normal(size=(ROWS, COLUMNS)))[0] * np.sqrt(ROWS * np.geomspace(1, condition, COLUMNS))
    y = x @ (3 / np.sqrt(ROWS * np.geomspace(1, condition, COLUMNS))) + rng.normal(size=ROWS)
    x, y = x.astype(np.float32), y.astype(np.float32)
    target = sc.Target(lambda w: -0.5 * jnp.sum(w**2), lambda w, r: -0.5 * (r[1] - r[0] @ w) ** 2, (x, y))
    covariance = np.linalg.inv(x.T.astype(np.float64) @ x + np.eye(COLUMNS))
    return target, covariance @ (x.T.astype(np.float64) @ y), np.sqrt(np.diag(covariance))


def measured(target: sc.Target, sampler: sc.samplers.Sampler, mean: np.ndarray, sd: np.ndarray, batch: int) -> str:
    """A run from the posterior mean, against the truth."""
    try:
        trace = sc.sample(
            target, sampler, jnp.asarray(mean, jnp.float32), num_samples=DRAWS, burn_in=BURN_IN, chains=CHAINS,
            batch_size=batch, estimator=sc.Plain(), report=False, seed=1, progress=False,
        )  # fmt: skip
    except sc.DivergenceError:
        return "lost"
    ratios = np.sqrt(trace.variance["theta"]) / sd
    return f"{ratios.min():.2f} to {ratios.max():.2f}, {np.max(np.abs(trace.mean['theta'] - mean) / sd):.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--condition", type=float, default=1000.0, help="largest over smallest curvature")
    options = parser.parse_args(arguments)
    target, mean, sd = regression(options.condition)
    longest = 2 * sd.min() ** 2
    print("| step over SGLD's longest | minibatches | SGLD | Barker | Barker, noise measured |\n|" + " --- |" * 5)
    for batch in (ROWS, BATCH):
        for multiple in MULTIPLES:
            h = multiple * longest
            samplers = [sc.SGLD(h), sc.Barker(h)]
            samplers += [sc.Barker(h, noise_estimate=sc.GradientNoise())] if batch < ROWS else []
            cells = [measured(target, sampler, mean, sd, batch) for sampler in samplers]
            kind = "all data" if batch == ROWS else f"{batch} rows"
            print(f"| {multiple:g} | {kind} | {' | '.join(cells)} |{' |' if batch == ROWS else ''}", flush=True)


if __name__ == "__main__":
    main()
