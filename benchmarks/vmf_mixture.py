"""Held-out log density of directions against seconds: scirocco, k-means on the sphere and EM.

    python benchmarks/vmf_mixture.py --rows 100000 --features 384 --seeds 0 1 2

The vectors are like embeddings of sentences: 20 clusters of unequal size, von Mises-Fisher with mean lengths from 0.3
to 0.6, around directions that have something in common. In 'subclusters' each cluster has five of its own, whose means
are moved: no law that the models know. Every row of the table is one fit: its seconds, the mean log density of 5,000
held-out rows, and the adjusted Rand index of its labels of the training rows. 'truth' are the true parameters.

'start' is scirocco's mode alone, 'sampled' the whole fit with 4 chains; of the latter the density is the posterior
predictive one. The peers give one set of parameters: k-means of scikit-learn (best of ``--restarts``) with a vMF fitted
to each cluster, and EM of the same mixture in NumPy, from k-means++ on rows, until it gains less than 10^-5 a row (best
of as many). Clocks run from the matrix of rows on, compilation within.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from scirocco import directional
from scirocco.models import VonMisesFisherMixture
from scirocco.models.von_mises_fisher import laws, search

CLUSTERS, SUBCLUSTERS, HELD_OUT, SHARED = 20, 5, 5000, 0.7
LEAST, GAIN, MOST_SWEEPS = 1e-3, 1e-5, 100


@dataclass
class Data:
    """Rows, and what made them."""

    train: np.ndarray
    test: np.ndarray
    labels: np.ndarray
    truth: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
    """Weights, means, concentrations and clusters of all laws."""


@dataclass
class Fit:
    """One row of the table."""

    name: str
    seconds: float
    score: float
    labels: np.ndarray


def vectors(kind: str, rows: int, features: int, seed: int) -> Data:
    """Training rows and held-out ones."""
    rng = np.random.default_rng(seed)
    means = unit(rng.normal(size=(CLUSTERS, features)) + SHARED * rng.normal(size=features))
    weights, resultants = rng.dirichlet(np.full(CLUSTERS, 3.0)), rng.uniform(0.3, 0.6, CLUSTERS)
    clusters = np.arange(CLUSTERS)
    if kind == "subclusters":
        clusters = np.repeat(clusters, SUBCLUSTERS)
        means = unit(means[clusters] + 0.5 * unit(rng.normal(size=(clusters.size, features))))
        weights = weights[clusters] * rng.dirichlet(np.full(SUBCLUSTERS, 3.0), CLUSTERS).ravel()
        resultants = resultants[clusters]
    kappas = directional.concentration_for(features, resultants)
    made = rng.choice(clusters.size, rows + HELD_OUT, p=weights / weights.sum())
    x = np.concatenate([
        directional.sample(rng, means[part], kappas[part]).astype(np.float32)
        for part in np.array_split(made, len(made) // 10_000 + 1)
    ])  # fmt: skip
    return Data(x[:rows], x[rows:], clusters[made[:rows]], (weights / weights.sum(), means, kappas, clusters))


def unit(x: np.ndarray) -> np.ndarray:
    """Vectors of length 1."""
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def log_densities(x: np.ndarray, weights: np.ndarray, means: np.ndarray, kappas: np.ndarray) -> np.ndarray:
    """log w_k + log vMF, (row, component)."""
    offsets = np.log(weights) - laws.excess(x.shape[1], kappas)
    return x @ (kappas[:, None] * means).astype(np.float32).T + offsets.astype(np.float32)


def by_parameters(name: str, seconds: float, data: Data, *parameters: np.ndarray) -> Fit:
    """The fit that is one set of parameters."""
    score = float(logsumexp(log_densities(data.test, *parameters), axis=1).mean()) - laws.log_area(data.test.shape[1])
    return Fit(name, seconds, score, log_densities(data.train, *parameters).argmax(axis=1))


def fitted(sizes: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Maximum likelihood given memberships."""
    sizes, lengths = np.maximum(sizes, LEAST), np.linalg.norm(sums, axis=1)
    kappas = directional.concentration_for(sums.shape[1], np.clip(lengths / sizes, 1e-6, 1 - 1e-6))
    return sizes / sizes.sum(), sums / np.maximum(lengths, 1e-12)[:, None], kappas


# What is compared.


def scirocco(data: Data, seed: int, restarts: int) -> Iterator[Fit]:
    """The start, and the posterior."""
    del restarts
    began = time.perf_counter()
    model = VonMisesFisherMixture(CLUSTERS, random_state=seed)
    rows = model._rows(data.train, reset=True)
    start = search.mode(rows, CLUSTERS, model._prior(rows.shape[1]), np.random.default_rng(seed))
    yield by_parameters("scirocco start", time.perf_counter() - began, data, start.weights, start.means, start.kappas)
    began = time.perf_counter()
    model.fit(data.train)
    seconds = time.perf_counter() - began
    yield Fit("scirocco sampled", seconds, model.score(data.test), model.predict(data.train))


def k_means(data: Data, seed: int, restarts: int) -> Iterator[Fit]:
    """Hard clusters, then a law for each."""
    for tries in sorted({1, restarts}):
        began = time.perf_counter()
        labels = KMeans(CLUSTERS, n_init=tries, random_state=seed).fit(data.train).labels_
        sums = np.stack([data.train[labels == k].sum(axis=0, dtype=np.float64) for k in range(CLUSTERS)])
        parameters = fitted(np.bincount(labels, minlength=CLUSTERS).astype(float), sums)
        yield by_parameters(f"k-means, {tries} tries", time.perf_counter() - began, data, *parameters)


def em(data: Data, seed: int, restarts: int) -> Iterator[Fit]:
    """Expectation maximisation of the mixture, the best of some tries on all rows."""
    best, spent = -np.inf, 0.0
    for tried in range(restarts):
        began = time.perf_counter()
        value, parameters = one_em(data.train, seed + 1000 * tried)
        spent += time.perf_counter() - began
        if value > best:
            best, kept = value, parameters
        if tried in (0, restarts - 1):
            yield by_parameters(f"EM, {tried + 1} tries", spent, data, *kept)


def one_em(x: np.ndarray, seed: int) -> tuple[float, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """From k-means++ seeds of a sample, hard at first."""
    rng, reached = np.random.default_rng(seed), -np.inf
    means = kmeans_plusplus(x[rng.choice(len(x), 10_000)], CLUSTERS, random_state=seed)[0]
    parameters = np.full(CLUSTERS, 1 / CLUSTERS), means, np.full(CLUSTERS, float(x.shape[1]))
    for _ in range(MOST_SWEEPS):
        sizes, sums, value = np.zeros(CLUSTERS), np.zeros(means.shape), 0.0
        for part in np.array_split(x, len(x) // 16_384 + 1):
            logs = log_densities(part, *parameters)
            top = logs.max(axis=1, keepdims=True)
            chances = np.exp(logs - top)
            total = chances.sum(axis=1, keepdims=True)
            value += float(np.sum(np.log(total) + top, dtype=np.float64))
            chances /= total
            sizes += chances.sum(axis=0, dtype=np.float64)
            sums += chances.T @ part
        parameters = fitted(sizes, sums)
        if value - reached < GAIN * len(x):
            break
        reached = value
    return value, parameters


METHODS: dict[str, Callable[[Data, int, int], Iterator[Fit]]] = {"scirocco": scirocco, "k-means": k_means, "em": em}


def main(argv: Sequence[str] | None = None) -> None:
    """Run everything one after the other and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["mixture", "subclusters"], choices=["mixture", "subclusters"])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=384)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--restarts", type=int, default=4, help="of k-means and of EM")
    parser.add_argument("--threads", type=int, default=None, help="of matrix products of NumPy")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    options = parser.parse_args(argv)
    for kind in options.data:
        print(f"{kind}: {options.rows:,} x {options.features}, {CLUSTERS} components, {HELD_OUT:,} rows held out")
        print(f"{'method':18s} seed   seconds   score     ARI")
        for seed in options.seeds:
            data = vectors(kind, options.rows, options.features, seed)
            weights, means, kappas, clusters = data.truth
            truth = by_parameters("truth", 0.0, data, weights, means, kappas)
            truth.labels = clusters[truth.labels]
            show(truth, data, seed)
            for method in options.methods:
                with threadpool_limits(options.threads):
                    for found in METHODS[method](data, seed, options.restarts):
                        show(found, data, seed)


def show(fit: Fit, data: Data, seed: int) -> None:
    """A row of the table."""
    agreement = adjusted_rand_score(data.labels, fit.labels)
    print(f"{fit.name:18s} {seed:4d} {fit.seconds:9.1f} {fit.score:8.3f} {agreement:7.4f}", flush=True)


if __name__ == "__main__":
    main()
