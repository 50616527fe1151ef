"""The cost of an effective draw as the data grow: the zig-zag process from a few rows, beside NUTS on all.

    python benchmarks/zigzag.py [--rows 1000 10000 100000 1000000] [--nuts 100000]

Logistic regression with an intercept and correlated features, both exact. Cost is counted in gradients of single rows
for one effective draw, the worst over coefficients and over means and sds: 2 n for each proposal of the zig-zag process
(at the position and at the centre of its control variates), N for each leapfrog step of NUTS, up to ``--nuts`` rows.
What comes before a run is in the seconds of the second last column: for the zig-zag process the mode, the curvature and
the bounds, a few passes over the data; the adaptation of NUTS is not counted. Beside it the largest difference of a
posterior mean from that of NUTS, in posterior sds, and of an sd.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import scirocco as sc
from scirocco.run import convergence

FEATURES = 5
BATCHES = (1, 10)
DRAWS, NUTS_DRAWS, ADAPTATION = 1000, 300, 150
CHAINS = 4


class Cost(NamedTuple):
    """Of an effective draw, in gradients of rows and in seconds; and what the draws say."""

    rows: float
    seconds: float
    mean: np.ndarray
    sd: np.ndarray


def log_prior(w: Any) -> Any:
    """A standard normal prior."""
    return -0.5 * jnp.sum(w**2)


def log_likelihood(w: Any, row: Any) -> Any:
    """Logistic regression."""
    x, y = row
    return y * (x @ w) - jax.nn.softplus(x @ w)


def problem(rows: int) -> tuple[np.ndarray, sc.Target]:
    """Features with an intercept, correlated, and labels from a model with other coefficients than zero."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, FEATURES)) + rng.normal(size=(rows, 1))
    x[:, 0] = 1.0
    chance = 1 / (1 + np.exp(-x @ np.linspace(1, -1, FEATURES)))
    x, y = x.astype(np.float32), (rng.random(rows) < chance).astype(np.float32)
    return x, sc.Target(log_prior, log_likelihood, (x, y))


def cost(trace: sc.Trace, rows_of_step: int, seconds: float) -> Cost:
    """What an effective draw of the worst coefficient took."""
    draws = trace.posterior["theta"].values.astype(np.float64)
    effective = min(float(np.min(convergence.ess(draws, kind))) for kind in ("mean", "sd"))
    steps = float(trace.sample_stats.n_steps.sum())
    flat = draws.reshape(-1, FEATURES)
    return Cost(steps * rows_of_step / effective, seconds / effective, flat.mean(0), flat.std(0))


def timed(target: sc.Target, parts: dict[str, Any], **settings: Any) -> tuple[sc.Trace, float]:
    """A run, and its seconds without compilation, by a short one before it."""
    common: dict[str, Any] = {"chains": CHAINS, "report": False, "progress": False}
    sc.sample(target, **parts, **common | settings | {"num_samples": 1})
    began = time.perf_counter()
    trace = sc.sample(target, **parts, **common | settings)
    return trace, time.perf_counter() - began


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**3, 10**4, 10**5, 10**6])
    parser.add_argument("--nuts", type=int, default=10**5, help="rows up to which NUTS runs")
    options = parser.parse_args(arguments)
    print(f"gradients of rows (and ms) for an effective draw; {FEATURES} coefficients, {CHAINS} chains")
    print(f"{'rows':>9}{'':>4}{'zig-zag':>22}{'NUTS':>24}{'setup, s':>10}   means, sds off")
    for rows in options.rows:
        x, target = problem(rows)
        nuts = None
        if rows <= options.nuts:
            start = sc.find_mode(target, jnp.zeros(FEATURES))
            sampler = sc.NUTS(1 / np.sqrt(rows), adaptation=ADAPTATION)
            trace, seconds = timed(
                target, {"sampler": sampler, "initial": start}, num_samples=NUTS_DRAWS, burn_in=ADAPTATION
            )
            nuts = cost(trace, rows, seconds * NUTS_DRAWS / (NUTS_DRAWS + ADAPTATION))
        for batch in BATCHES:
            began = time.perf_counter()
            parts = sc.tuning.zigzag(
                target, x, jnp.zeros(FEATURES), curvature=0.25, prior_precision=1.0, batch_size=batch
            )
            setup = time.perf_counter() - began
            trace, seconds = timed(target, parts, num_samples=DRAWS, burn_in=20)
            assert float(trace.sample_stats.violations.max()) == 0
            found = cost(trace, 2 * batch, seconds)
            line = f"{rows:>9,}{batch:>4}{found.rows:>12,.0f} ({1e3 * found.seconds:6.2f})"
            if nuts is not None:
                mean = np.max(np.abs(found.mean - nuts.mean) / nuts.sd)
                sd = np.max(np.abs(found.sd / nuts.sd - 1))
                line += f"{nuts.rows:>14,.0f} ({1e3 * nuts.seconds:6.2f}){setup:>10.1f}   {mean:.2f}, {sd:.0%}"
            else:
                line += f"{'-':>14}{'':>9}{setup:>10.1f}   -"
            print(line, flush=True)


if __name__ == "__main__":
    main()
