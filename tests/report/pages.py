"""Pages of every kind, each made when it is first asked for: of runs and models as small as they can be."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import jax.numpy as jnp
import numpy as np
import pandas as pd
from sklearn.preprocessing import normalize

import scirocco as sc

HOSTILE = "</script><img src=x onerror=alert(1)>&<!--"
FAST = {"random_state": 0, "measure_bias": False, "burn_in": 20, "n_draws": 20, "thin": 1}
COUNTS = np.kron(np.eye(3, dtype=int), np.ones((1, 5), int))  # words of three kinds of documents
WORDS = ["stone", "river", "cloud", "wind", HOSTILE, *(f"word {k}" for k in range(10))]


def counts(documents=90):
    rng = np.random.default_rng(0)
    return rng.poisson(4 * COUNTS[np.arange(documents) % 3] + 0.1)


def rows(size=200):
    return np.random.default_rng(0).normal(size=(size, 3)).astype(np.float32)


def labels(X):
    return np.where(X[:, 0] + 0.5 * X[:, 1] > 0, "yes", "no")


def regression():
    x = rows()
    y = x @ np.array([1.0, -1.0, 0.5], np.float32)
    return sc.Target(
        lambda p: -0.5 * jnp.sum(p["beta"] ** 2) - p["sigma"],
        lambda p, row: -0.5 * ((row[1] - row[0] @ p["beta"]) / p["sigma"]) ** 2 - jnp.log(p["sigma"]),
        (x, y), constraints={"sigma": sc.constraints.positive}, dims={"beta": ["column"]},
        coords={"column": ["age", "income", HOSTILE]},
    )  # fmt: skip


def sampled(step=3e-4, **settings):
    start = {"beta": jnp.zeros(3), "sigma": jnp.array(1.0)}
    settings = {
        "num_samples": 60,
        "burn_in": 20,
        "batch_size": 20,
        "chains": 4,
        "seed": 0,
        "progress": False,
    } | settings
    return sc.sample(regression(), sc.SGLD(step), start, **settings)


def diverged():
    try:
        return sampled(step=10.0)
    except sc.DivergenceError as error:
        return error.trace


def shards():
    x = rows()[:, 0]
    target = sc.Target(lambda m: -0.5 * m["mu"] ** 2, lambda m, row: -0.5 * (row - m["mu"]) ** 2, x)
    start = {"mu": jnp.array(0.0)}
    return sc.sample_shards(target, sc.SGLD(1e-3), start, shards=3, num_samples=60, burn_in=10, progress=False)


def codes():
    return sc.sample_dirichlet(np.arange(60) % 4, 0.5, "exact", categories=4, num_samples=50, seed=0)


def topics():
    model = sc.LDA(3, n_chains=2, max_iter=40, random_state=0).fit(pd.DataFrame(counts(), columns=WORDS))
    return model.label_topics({0: HOSTILE})


def clusters():
    frame = pd.DataFrame({"colour": ["red", HOSTILE, "blue"] * 40, "answer": ["yes", "no", "no"] * 40})
    frame["size"] = np.random.default_rng(0).normal(np.arange(120) % 3)
    return sc.DirichletProcessMixture(component="auto", max_iter=60, random_state=0).fit(frame)


def logistic():
    X = pd.DataFrame(rows(), columns=["age", HOSTILE, "income"])
    return sc.LogisticRegression(**FAST, sampler=sc.SGLD(1e-3)).fit(X, labels(rows()))


def network():
    return sc.NeuralNetworkClassifier(hidden=3, **FAST, sampler=sc.SGLD(1e-4)).fit(rows(), labels(rows()))


def ratings():
    pairs = np.stack([np.arange(200) % 10, np.arange(200) // 10 % 7], axis=1)
    return sc.MatrixFactorization(2, **FAST, sampler=sc.SGLD(1e-4)).fit(pairs, rows()[:, 0]), pairs


def directions():
    X = rows() / np.linalg.norm(rows(), axis=1, keepdims=True)
    return sc.VonMisesFisherMixture(2, **FAST, concentration="shared", sampler=sc.SGGMC(1e-3)).fit(
        pd.DataFrame(X, columns=["x", "y", HOSTILE])
    )


def components():
    return sc.BayesianPCA(1, **FAST, sampler=sc.SGGMC(1e-3)).fit(pd.DataFrame(rows(), columns=["x", "y", HOSTILE]))


def density():
    return sc.GaussianMixture(2, **FAST, sampler=sc.SGLD(1e-4)).fit(rows())


def admixture():
    X = pd.DataFrame(normalize(counts()), columns=WORDS)
    return sc.SphericalAdmixture(2, **FAST).fit(X).label_topics({0: HOSTILE})


def written(kind, path):
    """The page of a kind at a path."""
    match kind:
        case "posterior":
            return sampled().report(path, title=HOSTILE)
        case "diverged":
            return diverged().report(path)
        case "moments":
            return sampled(num_samples=3, chains=1).report(path)
        case "topics":
            groups, names = np.arange(90) // 30, [f"{HOSTILE} {k}" for k in range(90)]
            return topics().report(path, counts(), by=groups, names=names, held_out=counts(30)[::-1])
        case "logistic":
            frame = pd.DataFrame(rows(), columns=["age", HOSTILE, "income"])
            return logistic().report(path, frame, labels(rows()))
        case "network":
            return network().report(path, rows(), labels(rows()))
        case "ratings":
            model, pairs = ratings()
            return model.report(path, pairs, rows()[:, 0])
    return MADE[kind]().report(path)


MADE = {
    "shards": shards, "codes": codes, "clusters": clusters, "directions": directions, "components": components,
    "density": density, "admixture": admixture,
}  # fmt: skip
KINDS = ("posterior", "diverged", "moments", "topics", "logistic", "network", "ratings", *MADE)


@cache
def folder():
    return Path(mkdtemp(prefix="scirocco-pages-"))


@cache
def page(kind):
    """Where the page of a kind is. What the models warn of is said on it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return written(kind, folder() / f"{kind}.html")
