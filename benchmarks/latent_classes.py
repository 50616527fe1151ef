"""Known classes found again: the view of a mixture's draws, its point partitions, and StepMix with BIC.

    python benchmarks/latent_classes.py --seeds 3
    python benchmarks/latent_classes.py --coverage 60

Laws are made here, none is from the library's tests: separate clusters of counts, classes of a survey that overlap
(three categories, or yes and no), many small clusters, short texts with a background, and surveys of 800 rows and 5
columns. A line has, for each law, the mean over seeds of the adjusted Rand index of the training rows' labels with the
classes, and the numbers of clusters. StepMix is given tables of categories only, 1 to 8 classes with 3 starts each,
and its BIC chooses; it is left out if it is not installed.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score

import scirocco as sc

PASSES: int | None = None  # of each chain; as many as the model takes by default
CLASSES, STARTS = range(1, 9), 3  # of StepMix
SHARE = 1.0  # of the rows below


class Data(NamedTuple):
    """A table with the class of each row."""

    table: np.ndarray
    classes: np.ndarray
    component: str


def counts_of(rng: np.random.Generator, theta: np.ndarray, weights: np.ndarray, rows: int, events: Any) -> Data:
    """Rows of a mixture of multinomials."""
    z = rng.choice(len(theta), int(SHARE * rows), p=weights)
    return Data(np.array([rng.multinomial(rng.integers(*events), theta[k]) for k in z]), z, "multinomial")


def answers_of(rng: np.random.Generator, theta: np.ndarray, weights: list[float], rows: int) -> Data:
    """Rows of latent classes, (class, column, category)."""
    z = rng.choice(len(theta), int(SHARE * rows), p=weights)
    reached = np.cumsum(theta, axis=2)[z]
    answers = np.sum(rng.random(reached.shape[:2])[..., None] > reached[..., :-1], axis=2)
    return Data(answers, z, "categorical")


def separated(rng: np.random.Generator) -> Data:
    """6 clusters of 8 events in 40 columns."""
    return counts_of(rng, rng.dirichlet(np.full(40, 0.1), 6), rng.dirichlet(np.full(6, 5.0)), 1000, (8, 9))


def overlapping(rng: np.random.Generator) -> Data:
    """3 classes, 8 columns of 3 categories."""
    return answers_of(rng, rng.dirichlet(np.full(3, 1.5), (3, 8)), [0.5, 0.3, 0.2], 1000)


def yes_no(rng: np.random.Generator) -> Data:
    """3 classes, 8 columns: a class says yes with probability 1/4 or 3/4."""
    yes = rng.choice([0.25, 0.75], (3, 8))
    return answers_of(rng, np.stack([1 - yes, yes], axis=2), [0.45, 0.35, 0.2], 1000)


def small(rng: np.random.Generator) -> Data:
    """80 clusters of 8 events in 200 columns."""
    return counts_of(rng, rng.dirichlet(np.full(200, 0.1), 80), rng.dirichlet(np.full(80, 2.0)), 1500, (8, 9))


def texts(rng: np.random.Generator) -> Data:
    """20 classes of 3 to 8 words, 30 % of them from a common background."""
    common = 1 / np.arange(1.0, 401)
    common /= common.sum()
    theta = np.array([rng.dirichlet(40 * rng.permutation(common) + 1e-3) for _ in range(20)])
    return counts_of(rng, 0.7 * theta + 0.3 * common, rng.dirichlet(np.ones(20)), 1500, (3, 9))


def survey(rng: np.random.Generator) -> Data:
    """4 classes, 5 columns of 4 categories."""
    return answers_of(rng, rng.dirichlet(np.full(4, 0.8), (4, 5)), [0.4, 0.3, 0.2, 0.1], 800)


LAWS: dict[str, Callable[[np.random.Generator], Data]] = {
    law.__name__: law for law in (separated, overlapping, yes_no, small, texts, survey)
}
PRIORS = {f"{prior}, base {base:g}": (prior, base) for prior in ("dp", "mfm") for base in (0.1, 1.0)}


def ours(data: Data, seed: int) -> Iterator[tuple[str, np.ndarray]]:
    """Labels by each prior: those of the view; for the default also the point partitions."""
    for name, (prior, base) in PRIORS.items():
        model = sc.DirichletProcessMixture(
            data.component, base=base, n_components_prior=prior, n_chains=2, max_iter=PASSES, random_state=seed
        ).fit(data.table)
        yield f"{name}: view", model.labels_
        if name == next(iter(PRIORS)):
            for loss in ("vi", "binder"):
                yield f"{name}: {loss}", model.point_partition(loss=loss).labels
            yield f"{name}: a draw", model.posterior_["labels"].values[0, -1]


def stepmix(data: Data, seed: int) -> Iterator[tuple[str, np.ndarray]]:
    """StepMix with the number of classes that its BIC prefers."""
    from stepmix.stepmix import StepMix

    if data.component == "categorical":
        fits = [
            StepMix(n, measurement="categorical", n_init=STARTS, random_state=seed, progress_bar=0, verbose=0).fit(
                data.table
            )
            for n in CLASSES
        ]
        yield "StepMix, BIC", min(fits, key=lambda fit: fit.bic(data.table)).predict(data.table)


def covered(seed: int) -> dict[str, list[bool]]:
    """Whether 90 % intervals have the true sizes, profiles and memberships: 3 classes of 8 columns of 3 categories.

    Nothing if the fit has another number of clusters: which is which would be unknown.
    """
    rng = np.random.default_rng(seed)
    theta, weights = rng.dirichlet(np.ones(3), (3, 8)), rng.dirichlet(np.full(3, 4.0))
    data = answers_of(rng, theta, weights.tolist(), 500)
    model = sc.DirichletProcessMixture("categorical", max_iter=PASSES, random_state=seed).fit(data.table)
    found: dict[str, list[bool]] = {"sizes": [], "profiles": [], "memberships": []}
    if model.n_clusters_ != 3:
        return found
    shared = np.zeros((3, 3))
    np.add.at(shared, (data.classes, model.labels_), 1)
    some = data.table[:60]
    logs = np.log(weights) + np.log(theta[:, np.arange(8), some]).sum(axis=2).T
    chances = np.exp(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True))
    sizes, profiles = model.cluster_sizes(), model.profiles(24, by="mean").set_index(["cluster", "feature"])
    lower, upper = (model.membership(some)[name].to_numpy().reshape(len(some), -1) for name in ("lower", "upper"))
    for true, own in zip(*linear_sum_assignment(-shared), strict=True):
        found["sizes"].append(bool(sizes["lower"][own] <= np.sum(data.classes == true) <= sizes["upper"][own]))
        for (cluster, feature), row in profiles.iterrows():
            if cluster == own:
                column, value = map(int, feature.split("="))
                found["profiles"].append(bool(row["lower"] <= theta[true, column, value] <= row["upper"]))
        inside = (lower[:, own] <= chances[:, true]) & (chances[:, true] <= upper[:, own])
        found["memberships"] += inside.tolist()
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--laws", nargs="+", choices=LAWS, default=list(LAWS))
    parser.add_argument("--coverage", type=int, metavar="N", help="coverage of 90 %% intervals on N data sets instead")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    if options.coverage:
        every = [covered(seed) for seed in range(options.coverage)]
        for name in every[0]:
            inside = [value for one in every for value in one[name]]
            print(f"{name:12s} {np.mean(inside):.3f} of {len(inside)}, {sum(bool(one[name]) for one in every)} fits")
        return
    indices: dict[str, dict[str, list[float]]] = {}
    numbers: dict[str, dict[str, list[int]]] = {}
    began = time.perf_counter()
    for law in options.laws:
        for seed in range(options.seeds):
            data = LAWS[law](np.random.default_rng(1000 + seed))
            for way in (ours, stepmix):
                try:
                    for name, labels in way(data, seed):
                        index = adjusted_rand_score(data.classes, labels)
                        indices.setdefault(name, {}).setdefault(law, []).append(index)
                        numbers.setdefault(name, {}).setdefault(law, []).append(len(set(labels)))
                except ImportError as error:
                    print(f"left out, since it is not installed: {error.name}")
    print(f"{'':24s}" + "".join(f"{law:>20s}" for law in options.laws))
    for name, found in indices.items():
        cells = [
            f"{np.mean(found[law]):.3f} ({','.join(map(str, numbers[name][law]))})" if law in found else "-"
            for law in options.laws
        ]
        print(f"{name:24s}" + "".join(f"{cell:>20s}" for cell in cells))
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
