"""Held-out log density against seconds: scirocco, topica, tomotopy, scikit-learn and StepMix as mixtures of rows.

    SCIROCCO_DATA=... python benchmarks/dp_mixture.py --data msweb --threads 1 --budgets 5 10 20 40
    python benchmarks/dp_mixture.py --data synthetic --rows 100000

``msweb`` is real (32,711 users, 294 areas of a site); ``synthetic`` has 50 clusters of like sizes, ``synthetic-uneven``
has small ones too: the truth is known there, and the adjusted Rand index of the training rows' labels is given beside.
The score is the mean log density of a held-out row as a sequence (no multinomial coefficient), log sum_k w_k prod_v
theta_kv^x_v. scirocco's is its own ``score``, averaged over its draws; what one draw of it scores is given beside, as
peers have but one. All peers are scored by one set of weights and components
made from their assignment of the training rows, counts + 0.1 (scirocco's base): topica (GSDMM; what it makes itself is
the same), scikit-learn (Gaussian components) and tomotopy (a row's topic is its largest one) from hard labels; StepMix
(Bernoulli columns: it has no multinomial) from posterior memberships, better than its labels after a few steps.
Peers with a fixed number of components are told the truth, 50 (msweb: 100); those that leave components empty get 100.
Clocks stop while labels are taken out and scored. Each library gets its rows in its own format beforehand, and
compilation is done; a peer that cannot be continued is fitted anew for each budget, with iterations for that time.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

import scirocco as sc

BASE, ALPHA, TRUNCATION = 0.1, 0.1, 100
CLUSTERS, COLUMNS, ENTRIES, HELD_OUT = 50, 300, 10, 5000
SPREAD = {"synthetic": 5.0, "synthetic-uneven": 0.5}  # of the clusters' weights: the Dirichlet's parameter
SMALL = 0.001  # clusters with a smaller share of the rows are not counted in the second number
DENSE = 10**8  # cells of the largest table that is made dense: 0.8 GB, and the peers make copies


class Data(NamedTuple):
    """Rows to learn from and to be scored; what is known of the truth."""

    train: sp.csr_matrix
    test: sp.csr_matrix
    components: int
    truth: np.ndarray | None = None
    limit: float = np.nan


class Fit(NamedTuple):
    """What a library has after some seconds; only a remark if it has nothing."""

    seconds: float = np.nan
    labels: np.ndarray | None = None
    weights: np.ndarray | None = None
    components: np.ndarray | None = None
    score: float | None = None
    remark: str = ""


Found = Iterator[Fit]
TOO_LARGE = Fit(remark="too large to be made dense")
TOO_SLOW = Fit(remark="not one iteration in this time, by its pace on a part of the rows")


def msweb() -> Data:
    """Visits, users x areas."""
    found = sc.datasets.load_msweb()
    return Data(sp.csr_matrix(found.train), sp.csr_matrix(found.test), components=100)


def synthetic(rows: int, spread: float) -> Data:
    """Rows from a mixture of multinomials; more rows are from the same one."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(CLUSTERS, spread))
    theta = rng.dirichlet(np.full(COLUMNS, 0.1), size=CLUSTERS)

    def drawn(wanted: int) -> tuple[sp.csr_matrix, np.ndarray]:
        labels = rng.choice(CLUSTERS, wanted, p=weights)
        columns = np.empty((wanted, ENTRIES), dtype=np.int32)
        for k in range(CLUSTERS):
            members = np.flatnonzero(labels == k)
            columns[members] = rng.choice(COLUMNS, (len(members), ENTRIES), p=theta[k])
        starts = np.arange(0, wanted * ENTRIES + 1, ENTRIES)
        counts = sp.csr_matrix((np.ones(columns.size, np.int64), columns.ravel(), starts), shape=(wanted, COLUMNS))
        counts.sum_duplicates()
        return counts, labels

    test, _ = drawn(HELD_OUT)
    train, labels = drawn(rows)
    return Data(train, test, CLUSTERS, labels, mixture_score(test, weights, theta))


def mixture_score(rows: sp.csr_matrix, weights: np.ndarray, components: np.ndarray) -> float:
    """Mean log density of a row, as a sequence, under one mixture."""
    return float(logsumexp(rows @ np.log(components).T + np.log(weights), axis=1).mean())


def by_memberships(train: sp.csr_matrix, memberships: sp.csr_matrix | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights and smoothed components from memberships, rows x clusters."""
    sizes = np.asarray(memberships.sum(axis=0)).ravel()
    counts = memberships.T @ train
    counts = (counts.toarray() if sp.issparse(counts) else np.asarray(counts)) + BASE
    used = sizes > 0
    return sizes[used] / sizes.sum(), (counts / counts.sum(axis=1, keepdims=True))[used]


def by_labels(seconds: float, train: sp.csr_matrix, labels: np.ndarray) -> Fit:
    """The mixture that a partition of the rows makes."""
    rows = np.arange(len(labels))
    memberships = sp.csr_matrix((np.ones(len(labels)), (rows, labels)), shape=(len(labels), int(labels.max()) + 1))
    return Fit(seconds, labels, *by_memberships(train, memberships))


def words(train: sp.csr_matrix) -> list[list[str]]:
    """Rows as lists of words."""
    names = np.array([str(v) for v in range(train.shape[1])], dtype=object)  # one object a column: 10^7 would be 0.5 GB
    entries = names[np.repeat(train.indices, train.data)].tolist()
    ends = np.cumsum(np.asarray(train.sum(axis=1)).ravel()).tolist()
    return [entries[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def paced(fit: Callable[[int, int], tuple[float, Any]], rows: int, budgets: list[float]) -> Iterator[tuple[float, Any]]:
    """A fit for each budget, of as many iterations as it has time for; None instead of a model if for none.

    The pace is measured on a part of the rows, so that nothing is begun that cannot end, and set right by every fit,
    of which the first, in half of the smallest budget, is for this only.
    """
    part = min(rows, max(2000, rows // 10))
    short, longer = fit(part, 1)[0], fit(part, 6)[0]
    each = max(1e-4, longer - short) / 5 * rows / part
    start = max(0.0, short * rows / part - each)
    for index, budget in enumerate([budgets[0] / 2, *budgets]):
        iterations = int((budget - start) / each)
        spent, model = fit(rows, iterations) if iterations > 0 else (np.nan, None)
        if model is not None:
            each = max(1e-4, (spent - start) / iterations)
        if index > 0:
            yield spent, model


def scirocco(data: Data, budgets: list[float], threads: int, seed: int) -> Found:
    """A fit of its own for each budget."""

    def fit(rows: sp.csr_matrix, seconds: float) -> Any:
        return sc.DirichletProcessMixture(
            n_chains=1, base=BASE, max_seconds=seconds, max_iter=10**9, n_jobs=threads, random_state=seed
        ).fit(rows)

    fit(data.train[:1000], 1.0).score(data.test[:10])  # compiled
    for budget in budgets:
        began = time.perf_counter()
        model = fit(data.train, budget)
        spent = time.perf_counter() - began
        last = by_labels(spent, data.train, model.posterior_["labels"].values[0, -1])
        assert last.weights is not None
        assert last.components is not None
        remark = f"one draw {mixture_score(data.test, last.weights, last.components):.3f}"
        yield Fit(spent, np.asarray(model.labels_), score=float(model.score(data.test)), remark=remark)


def topica(data: Data, budgets: list[float], threads: int, seed: int) -> Found:
    """Collapsed Gibbs in Rust (GSDMM, which empties some of its clusters); one thread only."""
    import topica as library

    texts = words(data.train)

    def fit(rows: int, iterations: int) -> tuple[float, Any]:
        corpus = library.Corpus.from_documents(texts[:rows])
        model = library.GSDMM(TRUNCATION, alpha=ALPHA, beta=BASE, seed=seed)
        began = time.perf_counter()
        model.fit(corpus, iters=iterations, progress=False)
        return time.perf_counter() - began, model

    for spent, model in paced(fit, data.train.shape[0], budgets):
        yield TOO_SLOW if model is None else by_labels(spent, data.train, np.asarray(model.doc_cluster))


def tomotopy(data: Data, budgets: list[float], threads: int, seed: int, kind: str) -> Found:
    """Collapsed Gibbs in C++: it has no mixture of rows, and topics of tokens are the nearest."""
    import tomotopy as tp

    model: Any
    if kind == "hdp":  # it finds the number itself, but much later from the default of 2
        model = tp.HDPModel(initial_k=data.components, alpha=ALPHA, eta=BASE, gamma=1.0, seed=seed)
    else:
        model = tp.LDAModel(k=data.components, alpha=ALPHA, eta=BASE, seed=seed)
    for text in words(data.train):
        model.add_doc(text)
    model.optim_interval = 0
    model.train(0)
    spent = 0.0
    for budget in budgets:
        while spent < budget:
            began = time.perf_counter()
            model.train(1, workers=threads)
            spent += time.perf_counter() - began
        labels = np.array([np.argmax(document.get_topic_dist()) for document in model.docs])
        yield by_labels(spent, data.train, labels)


def scikit_learn(data: Data, budgets: list[float], threads: int, seed: int) -> Found:
    """Variational Bayes with diagonal Gaussians on dense rows (reduced ones do worse), from k-means."""
    from sklearn.mixture import BayesianGaussianMixture

    rows = data.train.shape[0]
    if rows * data.train.shape[1] > DENSE:
        yield from [TOO_LARGE] * len(budgets)
        return
    dense = data.train.toarray().astype(np.float64)

    def made() -> Any:
        return BayesianGaussianMixture(
            n_components=TRUNCATION, weight_concentration_prior_type="dirichlet_process", covariance_type="diag",
            max_iter=1, warm_start=True, random_state=seed,
        )  # fmt: skip

    began = time.perf_counter()
    made().fit(dense[: rows // 10])
    if 10 * (time.perf_counter() - began) > budgets[-1]:
        yield from [TOO_SLOW] * len(budgets)
        return
    model, spent, converged = made(), 0.0, False
    for budget in budgets:
        while spent < budget and not converged:
            began = time.perf_counter()
            converged = model.fit(dense).converged_
            spent += time.perf_counter() - began
        yield by_labels(spent, data.train, model.predict(dense))


def stepmix(data: Data, budgets: list[float], threads: int, seed: int) -> Found:
    """EM for latent classes of binary columns (is there an entry?), dense."""
    from stepmix.stepmix import StepMix

    if data.train.shape[0] * data.train.shape[1] > DENSE:
        yield from [TOO_LARGE] * len(budgets)
        return
    dense = (data.train.toarray() > 0).astype(np.float64)

    def fit(rows: int, iterations: int) -> tuple[float, Any]:
        model = StepMix(data.components, measurement="binary", max_iter=iterations, progress_bar=0, random_state=seed)
        began = time.perf_counter()
        model.fit(dense[:rows])
        return time.perf_counter() - began, model

    for spent, model in paced(fit, data.train.shape[0], budgets):
        if model is None:
            yield TOO_SLOW
        else:
            memberships = model.predict_proba(dense)
            yield Fit(spent, memberships.argmax(axis=1), *by_memberships(data.train, memberships))


LIBRARIES: dict[str, Callable[[Data, list[float], int, int], Found]] = {
    "scirocco": scirocco,
    "topica": topica,
    "tomotopy-lda": partial(tomotopy, kind="lda"),
    "tomotopy-hdp": partial(tomotopy, kind="hdp"),
    "scikit-learn": scikit_learn,
    "stepmix": stepmix,
}


def described(fit: Fit, data: Data) -> str:
    """A row of the table."""
    if fit.labels is None:
        return fit.remark
    sizes = np.unique(fit.labels, return_counts=True)[1]
    score = fit.score
    if score is None:
        assert fit.weights is not None
        assert fit.components is not None
        score = mixture_score(data.test, fit.weights, fit.components)
    clusters = f"{len(sizes)} / {np.sum(sizes >= SMALL * sizes.sum())}"
    agreement = "" if data.truth is None else f"{adjusted_rand_score(data.truth, fit.labels):7.3f}"
    return f"{fit.seconds:9.1f} {score:9.3f} {clusters:>13s} {agreement}  {fit.remark}"


def main(argv: Sequence[str] | None = None) -> None:
    """Run the libraries one after the other and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="msweb", choices=["msweb", *SPREAD])
    parser.add_argument("--rows", type=int, default=10_000, help="of the synthetic data")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budgets", type=float, nargs="+", default=[5.0, 10.0, 20.0, 40.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--libraries", nargs="+", default=list(LIBRARIES), choices=list(LIBRARIES))
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    budgets = sorted(options.budgets)
    data = msweb() if options.data == "msweb" else synthetic(options.rows, SPREAD[options.data])
    plain = np.asarray(data.train.sum(axis=0)).ravel() + 0.5
    single = mixture_score(data.test, np.ones(1), (plain / plain.sum())[None])
    print(
        f"{options.data}: {data.train.shape[0]:,} rows, {int(data.train.sum()):,} entries; {options.threads} thread(s)"
    )
    print(f"mean log density of {data.test.shape[0]:,} held-out rows: one multinomial {single:.3f}", end="")
    print("" if data.truth is None else f", the true mixture of {CLUSTERS} {data.limit:.3f}")
    print(f"{'library':14s} seed budget   seconds     score  clusters/large     ARI")
    for seed in options.seeds:
        for library in options.libraries:
            try:
                with threadpool_limits(options.threads):
                    found = LIBRARIES[library](data, budgets, options.threads, seed)
                    for budget, fit in zip(budgets, found, strict=True):
                        print(f"{library:14s} {seed:4d} {budget:6g} {described(fit, data)}", flush=True)
            except ImportError as error:
                print(f"{library:14s} not installed: {error}")


if __name__ == "__main__":
    main()
