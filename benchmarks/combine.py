"""Seconds and errors of combining shards against dimension and number of shards, beside NumPyro's two functions.

    python benchmarks/combine.py --law normal --dimensions 2 5 10 20 50 100 --shards 2 4 8 16 32 64 --seeds 3

Draws of the shards come from laws whose product is known, so that nothing but the combination is measured: 'normal',
covariances of different shape and size and means an sd apart, and 'gamma', independent coordinates, skewed, with
different shapes and rates. Dimensions are run with 8 shards, shards with 10 dimensions. Seconds are the best of three
calls after a first one, which compiles. Errors are root mean squares over coordinates and seeds, those of means in sds
of the product, those of sds relative; exact draws, as many, are the floor. 'kl' is that of the normal law with the
draws' moments from that with the right ones, per dimension. NumPyro is in the extra ``bench``; without it its rows are
missing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import scirocco as sc

FIXED_SHARDS, FIXED_DIMENSION = 8, 10


class Case(NamedTuple):
    """Draws of each shard, and mean, covariance and exact draws of the product."""

    shards: list[np.ndarray]
    mean: np.ndarray
    covariance: np.ndarray
    exact: np.ndarray


def normal(dimension: int, shards: int, draws: int, rng: np.random.Generator) -> Case:
    """Covariances are Wishart's, their sizes differ by factors up to four."""
    total, pull, made = np.zeros((dimension, dimension)), np.zeros(dimension), []
    for _ in range(shards):
        root = rng.normal(size=(dimension, 3 * dimension)) / np.sqrt(3 * dimension) * np.sqrt(rng.uniform(0.5, 2.0))
        covariance = root @ root.T
        mean = 5 + rng.multivariate_normal(np.zeros(dimension), covariance)
        made.append(rng.multivariate_normal(mean, covariance, draws))
        precision = np.linalg.inv(covariance)
        total, pull = total + precision, pull + precision @ mean
    covariance = np.linalg.inv(total)
    mean = covariance @ pull
    return Case(made, mean, covariance, rng.multivariate_normal(mean, covariance, draws))


def gamma(dimension: int, shards: int, draws: int, rng: np.random.Generator) -> Case:
    """prod_s Gamma(a_s, b_s) = Gamma(1 + sum_s (a_s - 1), sum_s b_s)."""
    shape, rate = rng.uniform(2.0, 6.0, (shards, dimension)), rng.uniform(0.8, 1.2, (shards, dimension))
    made = [rng.gamma(a, 1 / b, (draws, dimension)) for a, b in zip(shape, rate, strict=True)]
    a, b = 1 + (shape - 1).sum(axis=0), rate.sum(axis=0)
    return Case(made, a / b, np.diag(a / b**2), rng.gamma(a, 1 / b, (draws, dimension)))


def methods(draws: int) -> dict[str, Callable[[list[np.ndarray]], Any]]:
    """By name, ours and NumPyro's."""
    found: dict[str, Callable[[list[np.ndarray]], Any]] = dict(sc.combine.METHODS)
    found["consensus, diagonal"] = lambda shards: sc.combine.consensus(shards, weights="diagonal")
    try:
        from numpyro.infer import hmc_util
    except ImportError:
        print("NumPyro is not installed (pip install 'scirocco[bench]'): its rows are missing")
        return found
    import jax

    consensus = jax.jit(hmc_util.consensus)
    parametric = jax.jit(lambda shards: hmc_util.parametric_draws(shards, draws))
    found["NumPyro, consensus"] = lambda shards: np.asarray(consensus(shards))
    found["NumPyro, parametric"] = lambda shards: np.asarray(parametric(shards))
    return found


def seconds(function: Callable[[list[np.ndarray]], Any], shards: list[np.ndarray]) -> tuple[float, np.ndarray]:
    """Of the best of three calls after a first one, and what it gave."""
    answer, best = np.asarray(function(shards), np.float64), np.inf
    for _ in range(3):
        began = time.perf_counter()
        function(shards)
        best = min(best, time.perf_counter() - began)
    return best, answer


def errors(answer: np.ndarray, case: Case) -> tuple[float, float, float]:
    """Mean squares of the errors of means and sds, and the divergence of the moments per dimension."""
    sd = np.sqrt(np.diag(case.covariance))
    covariance = np.atleast_2d(np.cov(answer.T))
    gap = answer.mean(axis=0) - case.mean
    inner = np.linalg.solve(covariance, case.covariance)
    divergence = np.trace(inner) + gap @ np.linalg.solve(covariance, gap) - len(sd) - np.linalg.slogdet(inner)[1]
    return float(np.mean((gap / sd) ** 2)), float(np.mean((answer.std(axis=0) / sd - 1) ** 2)), divergence / 2 / len(sd)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--law", choices=("normal", "gamma"), default="normal")
    parser.add_argument("--dimensions", type=int, nargs="*", default=[2, 5, 10, 20, 50, 100])
    parser.add_argument("--shards", type=int, nargs="*", default=[2, 4, 8, 16, 32, 64])
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="names of methods")
    options = parser.parse_args(argv)
    make = {"normal": normal, "gamma": gamma}[options.law]
    cases = [(d, FIXED_SHARDS) for d in options.dimensions] + [(FIXED_DIMENSION, s) for s in options.shards]
    print(f"{options.law}, {options.draws} draws a shard, {options.seeds} seeds")
    print(f"{'method':22}{'dimension':>10}{'shards':>8}{'seconds':>10}{'mean':>8}{'sd':>8}{'kl':>8}")
    for dimension, shards in dict.fromkeys(cases):
        made = [make(dimension, shards, options.draws, np.random.default_rng(seed)) for seed in range(options.seeds)]
        rows = {"exact draws": (0.0, [errors(case.exact, case) for case in made])}
        for name, function in methods(options.draws).items():
            if options.only and name not in options.only:
                continue
            found = [seconds(function, case.shards) for case in made]
            rows[name] = min(t for t, _ in found), [errors(x, case) for (_, x), case in zip(found, made, strict=True)]
        for name, (spent, off) in rows.items():
            mean, sd, divergence = np.mean(off, axis=0)
            print(f"{name:22}{dimension:10}{shards:8}{spent:10.4f}{mean**0.5:8.3f}{sd**0.5:8.3f}{divergence:8.4f}",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
