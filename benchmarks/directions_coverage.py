"""Do 90 % intervals of directions hold the truth in nine of ten data sets?

    python benchmarks/directions_coverage.py --sets 60

`VonMisesFisherMixture`, three components in five dimensions, 400 rows: weights, concentrations and means of the law
that made the rows, and the probability of each component for each of 200 other rows, given that law. Once with
concentrations that differ and once with equal ones and ``concentration="shared"``. Of a mean the coordinates across it:
along it every draw of a direction is shorter. `BayesianPCA`, two components in six
dimensions, 400 rows: loadings, scales, noise and mean. The standard error is over data sets, whose intervals share
their rows. Then the seconds of a fit to the digits (1,797 x 64, 10 components) beside scikit-learn's PCA.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import scirocco as sc
from scirocco import directional

WEIGHTS, MEANS = np.array([0.5, 0.3, 0.2]), np.eye(5)[:3]
KAPPAS = {"free": np.array([20.0, 10.0, 6.0]), "shared": np.array([10.0, 10.0, 10.0])}
SCALES, NOISE, CENTRE = np.array([3.0, 1.6]), 1.0, 5.0
ROWS, OTHERS = 400, 200
SETTINGS = {"n_chains": 2, "measure_bias": False}
TIMED = True
Answers = dict[str, np.ndarray]


def within(draws: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Of draws along the first axis: does the interval from 5 to 95 % hold the truth?"""
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    return (low <= truth) & (truth <= high)


def mixture(kind: str, seed: int) -> Answers:
    """Of weights, concentrations, means and memberships."""
    rng, kappas = np.random.default_rng(seed), KAPPAS[kind]
    labels = rng.choice(3, ROWS + OTHERS, p=WEIGHTS)
    rows = directional.sample(rng, MEANS[labels], kappas[labels])
    model = sc.VonMisesFisherMixture(3, concentration=kind, random_state=seed, **SETTINGS).fit(rows[:ROWS])
    order = linear_sum_assignment(-MEANS @ model.means_.T)[1]
    draws = {name: model._draws(name)[:, order].astype(float) for name in ("weights", "concentrations", "means")}
    heights = directional.log_density(rows[ROWS:, None], MEANS, kappas)
    truth = softmax(np.log(WEIGHTS) + np.asarray(heights), axis=1)
    chances = np.concatenate([softmax(own, axis=2) for own in model._log_densities(model._given(rows[ROWS:]), 10**4)])
    found = np.swapaxes(chances, 0, 1)[..., order]
    return {
        "weights": within(draws["weights"], WEIGHTS), "concentrations": within(draws["concentrations"], kappas),
        "means": within(draws["means"], MEANS)[MEANS == 0], "memberships": within(found, truth),
    }  # fmt: skip


def components(seed: int) -> Answers:
    """Of loadings, scales, noise and mean."""
    rng = np.random.default_rng(seed)
    loadings = np.linalg.qr(rng.normal(size=(6, 2)))[0]
    rows = CENTRE + rng.normal(size=(ROWS, 2)) * SCALES @ loadings.T + NOISE * rng.normal(size=(ROWS, 6))
    model = sc.BayesianPCA(2, random_state=seed, **SETTINGS).fit(rows)
    signs = np.sign(np.sum(model.components_.T * loadings, axis=0))
    truths = {"loadings": loadings * signs, "scales": SCALES, "noise": NOISE, "mean": CENTRE}
    return {name: within(model._draws(name), np.asarray(truth)) for name, truth in truths.items()}


def table(title: str, every: Iterator[Answers]) -> None:
    """The share of the intervals of each parameter, and its standard error over data sets."""
    found = list(every)
    for name in found[0]:
        each = np.array([np.mean(own[name]) for own in found])
        print(f"{title:26s} {name:15s} {each.mean():6.1%}  +- {each.std() / np.sqrt(len(each)):.1%}", flush=True)


def seconds() -> None:
    """Of the first fit, which compiles unless programs are kept from an earlier run, and of the second."""
    rows = load_digits().data
    for name, model in (("BayesianPCA", sc.BayesianPCA(10, random_state=0)), ("PCA of scikit-learn", PCA(10))):
        took = []
        for _ in range(2):
            began = time.perf_counter()
            model.fit(rows)
            took.append(time.perf_counter() - began)
        print(f"digits, {name}: {took[0]:.3f} s, again {took[1]:.3f} s")


def main(argv: Sequence[str] | None = None) -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=60)
    options = parser.parse_args(argv)
    for kind in KAPPAS:
        table(f"mixture, {kind}", (mixture(kind, seed) for seed in range(options.sets)))
    table("principal components", (components(seed) for seed in range(options.sets)))
    if TIMED:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # constant pixels
            seconds()


if __name__ == "__main__":
    main()
