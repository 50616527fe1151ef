"""Free, shared or pooled concentrations: which finds the clusters, and does "auto" choose it?

    SCIROCCO_DATA=... python benchmarks/vmf_concentrations.py --seeds 0 1

Every row is one data set: the adjusted Rand index of the mode with free, shared and hierarchical concentrations, and of
what "auto" takes; the mean log density of a fifth of the rows, held out, above that of free ones; the dispersion by
which "auto" decides, and whether there is a warning of a background. k-means (best of three) is beside them.

Made data have K clusters of unequal size in d dimensions:

    tied         one concentration                      differ       mean lengths from 0.25 to 0.85
    subclusters  each cluster is five, around it        subdiffer    the same, other widths in each
    noise        30 % of the rows uniform               differnoise  both
    broad        one cluster of half the rows, wide     heavy        each row its own concentration, gamma
    heavydiffer  the same, other widths in each         aniso        other widths by direction
    anisodiffer  the same, other widths in each cluster

In the first four rows of this list rows lie around means as von Mises-Fisher laws say, or nearly; in 'heavy' and
'aniso' they do not. Real data: digits and three tables of scikit-learn and, in the folder of the environment variable
SCIROCCO_DATA, newsgroups (tf-idf, truncated SVD) with 20, 10, 5 or 3 of their classes, and MNIST (50 components).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.special import logsumexp
from sklearn import datasets
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import adjusted_rand_score

from scirocco import directional
from scirocco.models import VonMisesFisherMixture
from scirocco.models.von_mises_fisher.search import SWEPT, Found

MADE = (
    "tied", "differ", "subclusters", "subdiffer", "noise", "differnoise", "broad", "heavy", "heavydiffer", "aniso",
    "anisodiffer",
)  # fmt: skip
SIZES = ((10, 50, 5000), (20, 100, 10_000), (4, 20, 1000))  # clusters, dimensions, rows
WAYS = ("free", "shared", "hierarchical", "auto")
Data = tuple[str, np.ndarray, np.ndarray, int]


def unit(x: np.ndarray) -> np.ndarray:
    """Vectors of length 1."""
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def made(kind: str, clusters: int, d: int, n: int, seed: int) -> Data:
    """Rows and their clusters."""
    rng = np.random.default_rng(seed)
    means, weights = unit(rng.normal(size=(clusters, d)) + 0.5 * rng.normal(size=d)), rng.dirichlet([3.0] * clusters)
    lengths = np.full(clusters, 0.5)
    if kind in ("differ", "differnoise", "heavydiffer"):
        lengths = rng.uniform(0.25, 0.85, clusters)
    if kind == "subdiffer":
        lengths = rng.uniform(0.3, 0.7, clusters)
    if kind == "broad":
        lengths = np.where(np.arange(clusters) == 0, 0.15, 0.7)
        weights[0] = weights[1:].sum()
    labels = rng.choice(clusters, n, p=weights / weights.sum())
    centres, kappas = means[labels], directional.concentration_for(d, lengths)[labels]
    if kind.startswith("sub"):
        away = np.full(clusters, 0.7) if kind == "subclusters" else rng.uniform(0.2, 1.0, clusters)
        each = unit(means[:, None] + away[:, None, None] * unit(rng.normal(size=(clusters, 5, d))))
        centres = each[labels, rng.integers(0, 5, n)]
    if kind.startswith("heavy"):
        kappas = kappas * 2 * rng.gamma(1.5, 1 / 1.5, n)
    if kind.startswith("aniso"):
        widths = np.exp(rng.uniform(-0.8, 0.8, clusters)) if kind == "anisodiffer" else np.ones(clusters)
        falling = (1 + np.arange(d)) ** -0.5
        falling *= 1.7 / np.linalg.norm(falling)
        turned = np.stack([np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(clusters)])
        noise = np.einsum("nj,nij->ni", rng.normal(size=(n, d)) * falling, turned[labels])
        rows = unit(centres + widths[labels, None] * noise)
    else:
        rows = directional.sample(rng, centres, kappas)
    if kind.endswith("noise"):
        uniform = rng.random(n) < 0.3
        rows[uniform], labels[uniform] = unit(rng.normal(size=(uniform.sum(), d))), clusters
    return f"{kind} {clusters} x {d}", rows.astype(np.float32), labels, clusters + kind.endswith("noise")


def real(seed: int) -> Iterator[Data]:
    """Digits, tables and, where there are any, newsgroups and MNIST."""
    for name in ("digits", "iris", "wine", "breast_cancer"):
        rows, labels = getattr(datasets, f"load_{name}")(return_X_y=True)
        if name != "digits":
            rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
        yield name, unit(rows).astype(np.float32), labels, len(np.unique(labels))
    folder = os.environ.get("SCIROCCO_DATA")
    if folder is None:
        print("newsgroups and MNIST are left out: SCIROCCO_DATA is not set")
        return
    file = np.load(Path(folder) / "newsgroups20.npz")
    counts = sparse.csr_matrix((file["data"].astype(float), file["indices"], file["indptr"]), shape=file["shape"])
    rng, weights = np.random.default_rng(seed), TfidfTransformer().fit_transform(counts)
    for classes, d in ((20, 30), (20, 100), (20, 200), (10, 100), (5, 100), (3, 100)):
        chosen = rng.choice(20, classes, replace=False)
        some = np.isin(file["label"], chosen)
        rows = TruncatedSVD(d, random_state=0).fit_transform(weights[some])
        there = np.linalg.norm(rows, axis=1) > 0
        yield f"newsgroups {classes} x {d}", unit(rows[there]).astype(np.float32), file["label"][some][there], classes
    file = np.load(Path(folder) / "mnist.npz")
    rows = PCA(50, random_state=0).fit_transform(file["x_train"][:10_000].reshape(-1, 784) / 255.0)
    yield "MNIST 50", unit(rows).astype(np.float32), file["y_train"][:10_000], 10


def compare(name: str, rows: np.ndarray, labels: np.ndarray, clusters: int, seed: int) -> None:
    """A row of the table."""
    order = np.random.default_rng(seed).permutation(len(rows))
    test, train = order[: len(rows) // 5], order[len(rows) // 5 :]
    found = {way: VonMisesFisherMixture(clusters, concentration=way)._start(rows[train], seed, None) for way in WAYS}
    index = [adjusted_rand_score(labels[train], densities(own, rows[train]).argmax(axis=1)) for own in found.values()]
    scores = [logsumexp(densities(own, rows[test]), axis=1).mean() for own in found.values()]
    others = adjusted_rand_score(labels[train], KMeans(clusters, n_init=3, random_state=seed).fit_predict(rows[train]))
    free, auto = found["free"], found["auto"]
    print(
        f"{name:22s} {seed:4d} {others:7.3f} {' '.join(f'{value:7.3f}' for value in index)}   "
        f"{' '.join(f'{value - scores[0]:+7.2f}' for value in scores[1:3])} {free.dispersion:10.2f} "
        f"{auto.concentration:>7s} {'yes' if free.background is not None else 'no':>8s}",
        flush=True,
    )


def densities(found: Found, rows: np.ndarray) -> np.ndarray:
    """By row and component, but for a constant."""
    return np.concatenate([logs for logs, _ in found.mixture.each_log_densities(rows, SWEPT)])


def main(argv: Sequence[str] | None = None) -> None:
    """Run all data sets and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=[*MADE, "real"], choices=[*MADE, "real"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    options = parser.parse_args(argv)
    names = "seed k-means    free  shared hierar.    auto     shared hierar. dispersion    auto background"
    print(f"{'':22s} {names}")
    for seed in options.seeds:
        for kind in options.data:
            for data in real(seed) if kind == "real" else (made(kind, *own, seed) for own in SIZES):
                compare(*data, seed)


if __name__ == "__main__":
    main()
