"""What a parameter for each group costs, and what it costs to integrate them out.

    python benchmarks/local_parameters.py [--groups 1000 10000 100000 1000000] [--sampled 10000]

Logistic regression with two coefficients and a normal effect of each group, ten rows a group. 'A parameter each' has
all effects among the parameters, not centred, and minibatches of 1,000 rows; 'integrated' has rows put together by
group (``batches.grouped``), a ``Latent`` effect and minibatches of 100 groups, which have as many rows. Milliseconds of
a step of one chain, which in the first grow with the groups and in the second do not. Then, up to ``--sampled`` groups
for the first, whole runs with ``step_size="auto"`` and nothing else set: seconds, tuning and compiling included, the
verdict, and mean and sd of the spread of effects, whose true value is 0.8.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import scirocco as sc

EACH = 10  # rows of a group
BATCH = 1000  # rows of a minibatch
STEPS = 200  # that are timed
SETTINGS: dict[str, Any] = {"sampler": sc.UnderdampedLangevin("auto"), "num_samples": 1000}  # of ``sc.sample``
TRUE = {"beta": np.array([0.5, -1.0]), "spread": 0.8}


def log_prior(p: dict[str, Any]) -> Any:
    """Of coefficients and spread, and of the effects if there are any."""
    effects = jnp.sum(p["effect"] ** 2) / 2 if "effect" in p else 0.0
    return -jnp.sum(p["beta"] ** 2) / 2 - p["spread"] ** 2 / 2 - effects


def log_odds(y: Any, eta: Any) -> Any:
    """The log likelihood of outcomes."""
    return y * eta - jax.nn.softplus(eta)


def with_parameters(p: dict[str, Any], row: Any) -> Any:
    """Of a row, whose group has a parameter."""
    return log_odds(row["y"], row["x"] @ p["beta"] + p["spread"] * p["effect"][row["group"]])


def log_joint(p: dict[str, Any], u: Any, group: Any) -> Any:
    """Of the rows of a group and its effect."""
    rows = log_odds(group["y"], group["x"] @ p["beta"] + p["spread"] * u)
    return -(u**2) / 2 + jnp.sum(group["mask"] * rows)


def table(groups: int) -> dict[str, np.ndarray]:
    """Rows in random order."""
    rng = np.random.default_rng(0)
    group = rng.permutation(np.repeat(np.arange(groups, dtype=np.int32), EACH))
    x = rng.normal(size=(len(group), 2)).astype(np.float32)
    eta = x @ TRUE["beta"] + TRUE["spread"] * rng.normal(size=groups)[group]
    return {"group": group, "x": x, "y": (rng.random(len(group)) < 1 / (1 + np.exp(-eta))).astype(np.float32)}


def problems(groups: int) -> dict[str, tuple[sc.Target, dict[str, Any], int]]:
    """Target, start and batch size of the two ways."""
    rows, start = table(groups), {"beta": jnp.zeros(2), "spread": jnp.array(1.0)}
    positive = {"spread": sc.constraints.positive}
    latent = sc.Latent(log_joint).log_likelihood
    integrated = sc.Target(log_prior, latent, sc.batches.grouped(rows, by="group"), constraints=positive)
    each = sc.Target(log_prior, with_parameters, rows, constraints=positive)
    return {
        "a parameter each": (each, start | {"effect": jnp.zeros(groups)}, min(BATCH, each.size)),
        "integrated": (integrated, start, min(BATCH // EACH, integrated.size)),
    }


def step_milliseconds(target: sc.Target, start: dict[str, Any], batch_size: int) -> float:
    """Of one step of a chain in a compiled loop, without what it takes to begin: the difference of two lengths."""
    seconds = []
    for steps in (STEPS, STEPS, 3 * STEPS, 3 * STEPS):  # each length a second time, when it is compiled
        began = time.perf_counter()
        sc.sample(
            target, sc.SGLD(1e-9), start, num_samples=1, burn_in=steps, batch_size=batch_size, chains=1, report=False,
            collect=False,
        )  # fmt: skip
        seconds.append(time.perf_counter() - began)
    return 1000 * (seconds[3] - seconds[1]) / (2 * STEPS)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, nargs="+", default=[1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--sampled", type=int, default=10_000, help="groups up to which all parameters are sampled")
    given = parser.parse_args(argv)
    print(f"{'groups':>9}  {'effects':16}  {'ms a step':>9}  {'seconds':>7}  {'spread':>15}  verdict")
    for groups in given.groups:
        for name, (target, start, batch_size) in problems(groups).items():
            pace = step_milliseconds(target, start, batch_size)
            line = f"{groups:9,}  {name:16}  {pace:9.3f}"
            if name == "integrated" or groups <= given.sampled:
                began = time.perf_counter()
                trace = sc.sample(target, initial=start, **SETTINGS)
                took, sd = time.perf_counter() - began, float(np.sqrt(trace.variance["spread"]))
                spread = f"{float(trace.mean['spread']):.4f} +- {sd:.4f}"
                line += f"  {took:7.1f}  {spread:>15}  {trace.verdict().kind}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
