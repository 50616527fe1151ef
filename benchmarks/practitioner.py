"""Each ready model beside the tool that people use today: the same data, the same measure, seconds.

    SCIROCCO_DATA=... python benchmarks/practitioner.py --seeds 3

Everything runs with its defaults, as somebody would who tries it for the first time, but for what a tool must be told:
StepMix and BayesianGaussianMixture as in benchmarks/latent_classes.py and mixed_tables.py, KMeans, vMF mixtures, PCA
and topic models the true numbers (those of the data where they are known, else the one in the table's title), and
HDBSCAN the smallest cluster that counts. A line has the mean over seeds of the measure, its range, and the mean
seconds of a fit, compilation left out: ours are fitted once before. Measures: adjusted Rand index with
the known classes (rows that HDBSCAN calls noise are a cluster of their own), mean held-out log density of a row,
held-out perplexity by document completion. Higher is better but for perplexity.

Data are made here or come with scikit-learn; short texts are the subject lines' worth (12 words) of 20 newsgroups if
SCIROCCO_DATA names a folder that has them, otherwise made. Tools that are not installed are left out.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import latent_classes
import mixed_tables
import numpy as np
import scipy.sparse as sp
from sklearn import datasets
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

import scirocco as sc
from scirocco import directional
from scirocco.corpora.documents import Documents
from scirocco.models.lda.evaluation import completion_perplexity

TEXTS, WORDS, LENGTH, TOPICS = 3000, 2000, 12, 20  # short texts; of the made ones the topics
PASSES: int | None = None  # of our mixtures and topics; as many as they take by default
DRAWS: dict[str, Any] = {}  # settings of the models with gradients
SHARE = 1.0  # of the rows
ALPHA, BETA, PEER_SWEEPS = 0.1, 0.05, 500  # of topic models; sweeps of tomotopy and GSDMM

Fit = Callable[[], float]  # the measure of a fit
Tools = Iterator[tuple[str, Fit]]


def index(classes: np.ndarray, labels: Callable[[], np.ndarray]) -> Fit:
    """The adjusted Rand index of labels that are yet to be found."""
    return lambda: float(adjusted_rand_score(classes, labels()))


def mixture(component: Any, X: Any, classes: np.ndarray, seed: int) -> Fit:
    """Of our mixture, with its defaults."""
    model = sc.DirichletProcessMixture(component, max_iter=PASSES, random_state=seed)
    return index(classes, lambda: np.asarray(model.fit(X).labels_))


def surveys(seed: int) -> Tools:
    """Surveys: 3 overlapping classes, 8 questions."""
    data = latent_classes.overlapping(np.random.default_rng(3000 + seed))
    yield "DirichletProcessMixture", mixture("auto", data.table + 1, data.classes, seed)
    yield "StepMix, BIC", index(data.classes, lambda: next(latent_classes.stepmix(data, seed))[1])


def mixed(seed: int) -> Tools:
    """Tables of numbers, categories and counts, a tenth missing."""
    data = mixed_tables.survey(np.random.default_rng(3000 + seed))
    yield "DirichletProcessMixture", mixture("mixed", data.table, data.classes, seed)
    yield "StepMix, BIC", index(data.classes, lambda: next(mixed_tables.stepmix(data, seed, ()))[1])


def _numbers(data: mixed_tables.Data, seed: int) -> Tools:
    x = ((data.table - data.table.mean()) / data.table.std()).to_numpy()
    yield "DirichletProcessMixture", mixture("gaussian", data.table, data.classes, seed)
    yield (
        "BayesianGaussianMixture", index(data.classes, lambda: next(mixed_tables.variational(data, seed, ()))[1])
    )  # fmt: skip
    yield "StepMix, BIC", index(data.classes, lambda: next(mixed_tables.stepmix(data, seed, ()))[1])
    yield "HDBSCAN", index(data.classes, lambda: HDBSCAN(min_cluster_size=10, copy=True).fit_predict(x))


def numbers(seed: int) -> Tools:
    """Tables of numbers: 3 overlapping classes."""
    yield from _numbers(mixed_tables.overlapping(np.random.default_rng(3000 + seed)), seed)


def tails(seed: int) -> Tools:
    """Tables of numbers with heavier tails than normal."""
    yield from _numbers(mixed_tables.tails(np.random.default_rng(3000 + seed)), seed)


def wine(seed: int) -> Tools:
    """178 wines of 3 sorts, 13 numbers; two thirds of them."""
    found = datasets.load_wine(as_frame=True)
    some = np.random.default_rng(seed).permutation(len(found.data))[: int(max(SHARE, 0.3) * 119)]
    table = found.data.iloc[some].reset_index(drop=True)
    kinds = dict.fromkeys(table.columns, "gaussian")
    yield from _numbers(mixed_tables.Data(table, found.target.to_numpy()[some], kinds), seed)


def short_texts() -> tuple[sp.csr_matrix, np.ndarray, str]:
    """Counts, the class of each, and where they are from."""
    rng, place = np.random.default_rng(7), Path(os.environ.get("SCIROCCO_DATA", ".")) / "newsgroups20.npz"
    size = max(60, int(SHARE * TEXTS))
    if place.is_file() and "label" in np.load(place):
        stored = np.load(place)
        counts = sp.csr_matrix(
            (stored["data"].astype(np.int64), stored["indices"], stored["indptr"]), shape=tuple(stored["shape"])
        )[:size]
        kept = np.argsort(-np.asarray(counts.sum(axis=0)).ravel())[:WORDS]
        documents, classes, where = Documents.of(counts[:, kept]), stored["label"][:size], "20 newsgroups"
        starts, words = documents.token_starts, documents.token_words()
        rows = [rng.permutation(words[a:b])[:LENGTH] for a, b in pairwise(starts)]
    else:
        theta, classes, where = rng.dirichlet(np.full(WORDS, 0.02), TOPICS), rng.integers(0, TOPICS, size), "made"
        common = rng.dirichlet(np.full(WORDS, 0.1))
        rows = [rng.choice(WORDS, LENGTH, p=0.6 * theta[k] + 0.4 * common) for k in classes]
    owner = np.repeat(np.arange(size), [len(row) for row in rows])
    table = sp.csr_matrix((np.ones(owner.size, np.int64), (owner, np.concatenate(rows))), shape=(size, WORDS))
    return table, np.asarray(classes), where


def texts(seed: int) -> Tools:
    """Short texts of 20 classes, 12 words each."""
    X, classes, _ = short_texts()
    yield "DirichletProcessMixture", mixture("multinomial", X, classes, seed)

    def gsdmm() -> np.ndarray:
        import topica

        rows = Documents.of(X)
        words = np.array([str(v) for v in range(WORDS)], dtype=object)[rows.token_words()].tolist()
        ends = rows.token_starts
        corpus = topica.Corpus.from_documents([words[a:b] for a, b in pairwise(ends)])
        model = topica.GSDMM(100, alpha=ALPHA, beta=0.1, seed=seed)
        model.fit(corpus, iters=PEER_SWEEPS, progress=False)
        return np.asarray(model.doc_cluster)

    yield "topica, GSDMM", index(classes, gsdmm)


def topics(seed: int) -> Tools:
    """Topics: 20 of 1,200 documents of 100 words, 300 held out; perplexity."""
    rng = np.random.default_rng(3000 + seed)
    theta = rng.dirichlet(np.full(WORDS, 0.03), TOPICS)
    lengths = rng.poisson(100, max(60, int(SHARE * 1500)))
    shares = rng.dirichlet(np.full(TOPICS, 0.1), lengths.size)
    X = sp.csr_matrix([rng.multinomial(n, own @ theta) for n, own in zip(lengths, shares, strict=True)])
    train, test = X[: 4 * len(lengths) // 5], Documents.of(X[4 * len(lengths) // 5 :])

    def perplexity(found: np.ndarray) -> float:
        return float(completion_perplexity(found[None], np.full(TOPICS, ALPHA), test))

    def ours() -> float:
        model = sc.LDA(TOPICS, alpha=ALPHA, beta=BETA, max_iter=PASSES, random_state=seed).fit(train)
        return perplexity(np.asarray(model.components_ / model.components_.sum(axis=1, keepdims=True)))

    def tomotopy() -> float:
        import tomotopy as tp

        model, rows = tp.LDAModel(k=TOPICS, alpha=ALPHA, eta=BETA, seed=seed), Documents.of(train)
        names, ends = rows.token_words().astype(str), rows.token_starts
        for a, b in pairwise(ends):
            model.add_doc(names[a:b].tolist())
        model.train(PEER_SWEEPS, show_progress=False)
        found = np.full((TOPICS, WORDS), 1e-9)
        found[:, [int(word) for word in model.used_vocabs]] = [
            model.get_topic_word_dist(k) for k in range(TOPICS)
        ]  # fmt: skip
        return perplexity(found / found.sum(axis=1, keepdims=True))

    yield "LDA", ours
    yield "tomotopy, LDA", tomotopy


def directions(seed: int) -> Tools:
    """Directions like embeddings: 8 clusters of 50 coordinates, some wide."""
    rng = np.random.default_rng(3000 + seed)
    rows = max(100, int(SHARE * 3000))
    means = rng.normal(size=(8, 50)) + 0.7 * rng.normal(size=50)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    z = rng.choice(8, rows, p=rng.dirichlet(np.full(8, 3.0)))
    kappas = directional.concentration_for(50, rng.uniform(0.3, 0.7, 8))
    x = directional.sample(rng, means[z], kappas[z])
    model = sc.VonMisesFisherMixture(8, random_state=seed, **DRAWS)
    yield "VonMisesFisherMixture", index(z, lambda: model.fit(x).predict(x))
    yield "KMeans", index(z, lambda: KMeans(8, n_init=10, random_state=seed).fit_predict(x))
    yield "HDBSCAN", index(z, lambda: HDBSCAN(min_cluster_size=10, copy=True).fit_predict(x))


def components(seed: int) -> Tools:
    """8x8 digits, 10 components: held-out log density of a third, few rows to learn from."""
    x = datasets.load_digits().data + np.random.default_rng(seed).normal(0, 0.5, (1797, 64))
    order = np.random.default_rng(seed).permutation(len(x))
    train, test = x[order[: max(80, int(SHARE * 200))]], x[order[1200:]]
    model = sc.BayesianPCA(10, random_state=seed, **DRAWS)
    yield "BayesianPCA", lambda: model.fit(train).score(test)
    yield "PCA", lambda: float(PCA(10).fit(train).score(test))


OURS = ("DirichletProcessMixture", "LDA", "VonMisesFisherMixture", "BayesianPCA")
TASKS = {task.__name__: task for task in (surveys, mixed, numbers, tails, wine, texts, topics, directions, components)}


def main(arguments: Sequence[str] | None = None) -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    print(f"{'task':14s}{'tool':26s}{'measure':>10s}{'least':>10s}{'most':>10s}{'seconds':>10s}")
    for name in options.tasks:
        found: dict[str, list[tuple[float, float]]] = {}
        for seed in range(options.seeds):
            for tool, fit in TASKS[name](seed):
                try:
                    if seed == 0 and tool in OURS:
                        fit()  # compiled
                    began = time.perf_counter()
                    measure = fit()
                    found.setdefault(tool, []).append((measure, time.perf_counter() - began))
                except ImportError as error:
                    print(f"{name:14s}{tool} is left out, since it is not installed: {error.name}")
        for tool, runs in found.items():
            measures, seconds = np.array(runs).T
            numbers = (measures.mean(), measures.min(), measures.max())
            print(
                f"{name:14s}{tool:26s}" + "".join(f"{x:10.3f}" for x in numbers) + f"{seconds.mean():10.2f}", flush=True
            )


if __name__ == "__main__":
    main()
