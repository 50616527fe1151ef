"""What is to be done, the same on a laptop, with SLURM, on Kubernetes and with MPI.

``chains`` is a posterior whose chains are advanced by the workers of an executor; ``topics`` are of documents that live
on the workers of Dask. Both begin, or go on if their folder has a run: after a time limit begin the same job again. The
folder must be one that all machines see. Put your own data there, in place of those that ``prepare`` makes.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import scirocco as sc
from scirocco.corpora import Corpus, write_corpus


def prepare(folder, rows=100_000, documents=5_000):
    """Data for this example, written once."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "rows.npy").exists():
        x = rng.normal(size=(rows, 5)).astype(np.float32)
        y = rng.random(rows) < 1 / (1 + np.exp(-x @ np.linspace(-1, 1, 5)))
        np.save(folder / "rows.npy", np.column_stack([x, y]).astype(np.float32))
    if not (folder / "corpus").exists():
        weights, words = rng.dirichlet(np.full(10, 0.1), documents), rng.dirichlet(np.full(1000, 0.05), 10)
        write_corpus(folder / "corpus", (rng.multinomial(80, w @ words)[None] for w in weights), 1000)


def log_prior(beta):
    """Standard normal."""
    return -beta @ beta / 2


def log_likelihood(beta, row):
    """Of a row of five features and an outcome, logistic regression."""
    slope = row[:5] @ beta
    return row[5] * slope - jax.nn.softplus(slope)


def chains(executor, folder, number=8, **settings):
    """So many chains, each a task of its own: the draws do not depend on the number of workers."""
    target = sc.Target(log_prior, log_likelihood, sc.batches.MemoryMapped(folder / "rows.npy"))
    if (folder / "chains" / "run.json").exists():
        return sc.resume(folder / "chains", target, executor=executor)
    return sc.sample(
        target, sc.SGLD("auto"), jnp.zeros(5), chains=number, group_size=1, path=folder / "chains", executor=executor,
        **({"num_samples": 1000} | settings),
    )  # fmt: skip


def topics(client, folder, shards=8, **settings):
    """Topics by exact Gibbs sampling: the number of shards belongs to the result, the number of workers does not."""
    corpus = Corpus(folder / "corpus")
    if (folder / "topics" / "run.json").exists():
        return sc.resume(folder / "topics", corpus, client=client)
    model = sc.LDA(10, sampler="gibbs", random_state=0, **({"max_iter": 200} | settings))
    return model.fit(corpus, client=client, shards=shards, path=folder / "topics")


def work(client, folder):
    """All of it."""
    folder = Path(folder)
    prepare(folder)
    trace = chains(client.get_executor(), folder)
    print(trace.verdict())
    print(topics(client, folder).top_words(5))
