"""Classes of tables with numbers found again: priors of numbers, StepMix with BIC, BayesianGaussianMixture.

    python benchmarks/mixed_tables.py --seeds 3
    python benchmarks/mixed_tables.py --priors default learnt

Laws are made here, none is from the library's tests: classes of numbers that are apart, that overlap, that differ in
spread alone, that are small and tight, few columns of many that matter, heavy tails, no classes at all, and tables of
numbers, counts and categories with missing entries, large and small. A line has, for each law, the mean over seeds of
the adjusted Rand index of the training rows' labels with the classes, and the numbers of clusters; where there is one
class the index is 1 for one cluster and 0 for more. StepMix is given 1 to 8 classes with 3 starts each, and its BIC
chooses; BayesianGaussianMixture (tables of numbers without missing entries, standardised) gets 10 components and a
Dirichlet process, diagonal covariances, 3 starts.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

import scirocco as sc
from scirocco.models.dp_mixture import Gaussian, Mixed

PASSES: int | None = 200  # of each chain
CLASSES, STARTS = range(1, 9), 3  # of StepMix
SHARE = 1.0  # of the rows below


class Data(NamedTuple):
    """A table with the class of each row, and what its columns are."""

    table: pd.DataFrame
    classes: np.ndarray
    kinds: dict[str, str]


def numbers(rng: np.random.Generator, means: np.ndarray, sds: Any, weights: Any, rows: int) -> Data:
    """Normal columns, (class, column), in units that differ."""
    z = rng.choice(len(means), max(20, int(SHARE * rows)), p=weights)
    x = means[z] + np.broadcast_to(sds, means.shape)[z] * rng.normal(size=(len(z), means.shape[1]))
    x = x * 10.0 ** rng.integers(-3, 5, x.shape[1]) + 100
    table = pd.DataFrame(x, columns=[f"x{j}" for j in range(x.shape[1])])
    return Data(table, z, dict.fromkeys(table.columns, "gaussian"))


def apart(rng: np.random.Generator) -> Data:
    """4 classes of 6 columns."""
    return numbers(rng, 2 * rng.normal(size=(4, 6)), 1.0, [0.4, 0.3, 0.2, 0.1], 600)


def overlapping(rng: np.random.Generator) -> Data:
    """3 classes of 5 columns."""
    return numbers(rng, 1.1 * rng.normal(size=(3, 5)), 1.0, [0.5, 0.3, 0.2], 800)


def spreads(rng: np.random.Generator) -> Data:
    """3 classes of 5 columns with the same means: sds from 1/3 to 3."""
    return numbers(rng, np.zeros((3, 5)), 3.0 ** rng.uniform(-1, 1, (3, 5)), [0.4, 0.3, 0.3], 800)


def tight(rng: np.random.Generator) -> Data:
    """12 small and tight classes of 3 columns."""
    return numbers(rng, rng.normal(size=(12, 3)), 0.05, rng.dirichlet(np.full(12, 3.0)), 500)


def noise(rng: np.random.Generator) -> Data:
    """3 classes that differ in 2 of 10 columns."""
    means = np.zeros((3, 10))
    means[:, :2] = [[0, 0], [4, 0], [2, 3.5]]
    return numbers(rng, means, 1.0, [0.4, 0.3, 0.3], 600)


def tails(rng: np.random.Generator) -> Data:
    """3 classes of 4 columns with 5 degrees of freedom."""
    data = numbers(rng, np.zeros((3, 4)), 1.0, [0.4, 0.3, 0.3], 600)
    means = 3 * rng.normal(size=(3, 4))
    return data._replace(table=pd.DataFrame(means[data.classes] + rng.standard_t(5, data.table.shape)).add_prefix("x"))


def one(rng: np.random.Generator) -> Data:
    """No classes: 5 normal columns."""
    return numbers(rng, np.zeros((1, 5)), 1.0, [1.0], 400)


def mixed_rows(rng: np.random.Generator, rows: int, missing: float) -> Data:
    """3 classes: 3 normal columns, 3 of 3 categories, 2 of counts."""
    data = numbers(rng, 1.2 * rng.normal(size=(3, 3)), np.exp(0.4 * rng.normal(size=(3, 3))), [0.5, 0.3, 0.2], rows)
    table, z = data.table, data.classes
    theta, rates = rng.dirichlet(np.full(3, 1.2), (3, 3)), 4 * np.exp(0.5 * rng.normal(size=(3, 2)))
    for j in range(3):
        table[f"c{j}"] = np.array(list("abc"))[[rng.choice(3, p=theta[k, j]) for k in z]]
    for j in range(2):
        table[f"n{j}"] = rng.poisson(rates[z, j]).astype(float)
    table = table.mask(rng.random(table.shape) < missing)
    return Data(table, z, {name: {"x": "gaussian", "c": "categorical", "n": "poisson"}[name[0]] for name in table})


def survey(rng: np.random.Generator) -> Data:
    """800 rows, a tenth of the entries missing."""
    return mixed_rows(rng, 800, 0.1)


def small(rng: np.random.Generator) -> Data:
    """150 rows."""
    return mixed_rows(rng, 150, 0.0)


LAWS: dict[str, Callable[[np.random.Generator], Data]] = {
    law.__name__: law for law in (apart, overlapping, spreads, tight, noise, tails, one, survey, small)
}
PRIORS: dict[str, Gaussian] = {"default": Gaussian(), "learnt": Gaussian(strength=None)} | {
    f"fixed {rate:g}, {strength:g}": Gaussian(2.0, rate, strength)
    for rate in (1.0, 0.5, 0.2)
    for strength in (0.1, 0.01)
}


def ours(data: Data, seed: int, priors: Sequence[str]) -> Iterator[tuple[str, np.ndarray]]:
    """Labels by each prior of numbers."""
    for name in priors:
        columns: dict[str, Any] = {
            column: PRIORS[name] if kind == "gaussian" else kind for column, kind in data.kinds.items()
        }
        yield (
            name,
            sc.DirichletProcessMixture(Mixed(columns), max_iter=PASSES, random_state=seed).fit(data.table).labels_,
        )


def stepmix(data: Data, seed: int, priors: Sequence[str]) -> Iterator[tuple[str, np.ndarray]]:
    """StepMix with the number of classes that its BIC prefers; counts are numbers to it."""
    from stepmix.stepmix import StepMix
    from stepmix.utils import get_mixed_descriptor

    del priors
    table = data.table.copy()
    names: dict[str, list[str]] = {"continuous": [], "categorical": []}
    for column, kind in data.kinds.items():
        names["categorical" if kind == "categorical" else "continuous"].append(column)
        if kind == "categorical":
            codes = pd.Categorical(table[column]).codes.astype(float)
            table[column] = np.where(codes < 0, np.nan, codes)
        else:
            table[column] = (table[column] - table[column].mean()) / table[column].std()
    lost = "_nan" if table.isna().any(axis=None) else ""
    kinds = {"continuous": "continuous" + lost, "categorical": "categorical" + lost}
    chosen, description = get_mixed_descriptor(
        dataframe=table, **{kinds[kind]: own for kind, own in names.items() if own}
    )
    fits = [
        StepMix(n, measurement=description, n_init=STARTS, random_state=seed, progress_bar=0, verbose=0).fit(chosen)
        for n in CLASSES
    ]
    yield "StepMix, BIC", min(fits, key=lambda fit: fit.bic(chosen)).predict(chosen)


def variational(data: Data, seed: int, priors: Sequence[str]) -> Iterator[tuple[str, np.ndarray]]:
    """scikit-learn's mixture."""
    from sklearn.mixture import BayesianGaussianMixture

    del priors
    if set(data.kinds.values()) == {"gaussian"}:
        x = (data.table - data.table.mean()) / data.table.std()
        mixture = BayesianGaussianMixture(
            n_components=min(10, len(x)), covariance_type="diag", n_init=STARTS, max_iter=1000, random_state=seed
        )
        yield "BayesianGaussianMixture", mixture.fit_predict(x.to_numpy())


def main(arguments: Sequence[str] | None = None) -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--laws", nargs="+", choices=LAWS, default=list(LAWS))
    parser.add_argument("--priors", nargs="*", default=list(PRIORS))
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    found: dict[str, dict[str, list[tuple[float, int]]]] = {}
    seconds: dict[str, float] = {}
    for law in options.laws:
        for seed in range(options.first, options.first + options.seeds):
            data = LAWS[law](np.random.default_rng(2000 + seed))
            for way in (ours, stepmix, variational):
                began = time.perf_counter()
                try:
                    for name, labels in way(data, seed, options.priors):
                        index = adjusted_rand_score(data.classes, labels)
                        found.setdefault(name, {}).setdefault(law, []).append((index, len(set(labels))))
                        seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - began
                        began = time.perf_counter()
                except ImportError as error:
                    print(f"left out, since it is not installed: {error.name}")
    print(f"{'':24s}" + "".join(f"{law:>17s}" for law in options.laws) + f"{'mean':>8s}{'seconds':>9s}")
    for name, own in found.items():
        cells = [
            f"{np.mean([index for index, _ in own[law]]):.3f} ({','.join(str(n) for _, n in own[law])})"
            if law in own else "-"
            for law in options.laws
        ]  # fmt: skip
        mean = np.mean([index for law in own.values() for index, _ in law])
        print(f"{name:24s}" + "".join(f"{cell:>17s}" for cell in cells) + f"{mean:8.3f}{seconds[name]:9.1f}")


if __name__ == "__main__":
    main()
