"""Held-out perplexity against seconds: scirocco, tomotopy, topica, scikit-learn (online) and gensim on one corpus.

    SCIROCCO_DATA=... python benchmarks/lda.py --corpus wikipedia --threads 1 --budgets 5 10 20 40 80

A corpus may be changed, to see what was not tuned for: ``wikipedia-thin`` has its documents thinned to 70 tokens,
``-long`` the 5 % longest only, ``-few`` 2,000 documents only. alpha = 0.1, beta = 0.05 for all; the last 1,000
documents are held out, as they are; topics (one set from each, the posterior mean where there is one) are scored by the
same evaluator, document completion with 10 % of the tokens. ``--seeds`` repeats all with other seeds.
``--alpha`` is another parameter for the documents: with many topics 0.1 for each would outweigh their words. Beside the
libraries there are our two kernels of collapsed sampling by themselves, and the samplers of LightLDA and WarpLDA in
topica.
Clocks stop while topics are taken out and scored. Each library gets its corpus in its own format beforehand, and
compilation is done: times are those of training, except that scirocco's include everything from the matrix of counts
on (``fit(X)`` with ``max_seconds``, one fit for each budget). Peers are run until their last budget is over.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

import scirocco as sc
from scirocco.corpora.documents import Documents
from scirocco.models.lda import collapsed
from scirocco.models.lda.evaluation import completion_perplexity, unigram_perplexity

ALPHA, BETA, HELD_OUT = 0.1, 0.05, 1000
PRIORS = {"alpha": ALPHA}  # of this run
THIN, LONGEST, FEW = 70, 0.05, 2000

Found = Iterator[tuple[float, np.ndarray]]


def corpus(name: str) -> sp.csr_matrix:
    """Counts, documents x words."""
    loaders = {"wikipedia": sc.datasets.load_wikipedia, "newsgroups20": sc.datasets.load_newsgroups}
    return sp.csr_matrix(loaders[name]().counts)


def changed(train: sp.csr_matrix, how: str) -> sp.csr_matrix:
    """A corpus made from another."""
    rng, lengths = np.random.default_rng(3), np.asarray(train.sum(axis=1)).ravel()
    if how == "thin":
        chance = np.minimum(1, THIN / np.maximum(lengths, 1))
        data = rng.binomial(train.data, np.repeat(chance, np.diff(train.indptr)))
        thin = sp.csr_matrix((data, train.indices.copy(), train.indptr.copy()), shape=train.shape)
        thin.eliminate_zeros()
        return thin
    if how == "long":
        return train[np.argsort(-lengths, kind="stable")[: int(LONGEST * len(lengths))]]
    if how == "few":
        return train[rng.permutation(train.shape[0])[:FEW]]
    raise SystemExit(f"a corpus is changed by thin, long or few; got {how!r}")


def with_unseen(known: np.ndarray, columns: np.ndarray, sizes: np.ndarray, words: int) -> np.ndarray:
    """Topics of the words that a library has seen, with the others at what the prior gives them."""
    topics = np.repeat((BETA / (sizes + BETA * words))[:, None], words, axis=1)
    topics[:, columns] = known
    return topics / topics.sum(axis=1, keepdims=True)


@contextmanager
def proposed_from(many: float | None) -> Iterator[None]:
    """Topics are proposed from so many on; None for as many as usual."""
    before = collapsed.MANY
    collapsed.MANY = before if many is None else many
    try:
        yield
    finally:
        collapsed.MANY = before


def scirocco(
    train: sp.csr_matrix, budgets: list[float], threads: int, wanted: int, seed: int, many: float | None = None
) -> Found:
    """A fit of its own for each budget; topics are proposed from ``many`` on."""
    settings: dict[str, Any] = {
        "alpha": PRIORS["alpha"],
        "beta": BETA,
        "n_jobs": threads,
        "random_state": seed,
        "max_iter": 10**6,
    }
    with proposed_from(many):
        sc.LDA(wanted, **(settings | {"max_iter": 8})).fit(train[: max(300, wanted)])  # compiled
    for budget in budgets:
        began = time.perf_counter()
        with proposed_from(many):
            model = sc.LDA(wanted, max_seconds=budget, **settings).fit(train)
        yield time.perf_counter() - began, model.components_


def tomotopy(train: sp.csr_matrix, budgets: list[float], threads: int, wanted: int, seed: int) -> Found:
    """Collapsed Gibbs in C++."""
    import tomotopy as tp

    model = tp.LDAModel(k=wanted, alpha=PRIORS["alpha"], eta=BETA, seed=seed)
    for d in range(train.shape[0]):
        row = slice(train.indptr[d], train.indptr[d + 1])
        model.add_doc([str(w) for w in np.repeat(train.indices[row], train.data[row])])
    model.optim_interval = 0
    model.train(0)
    columns = np.array([int(word) for word in model.used_vocabs])
    spent = 0.0
    for budget in budgets:
        while spent < budget:
            began = time.perf_counter()
            model.train(1, workers=threads)
            spent += time.perf_counter() - began
        known = np.array([model.get_topic_word_dist(k) for k in range(wanted)])
        yield spent, with_unseen(known, columns, np.array(model.get_count_by_topics()), train.shape[1])


def topica(
    train: sp.csr_matrix, budgets: list[float], threads: int, wanted: int, seed: int, sampler: str = "sparse"
) -> Found:
    """Sparse Gibbs in Rust; it cannot be continued, so each budget is a fit with iterations for about that time."""
    import topica as library

    texts = [
        [str(w) for w in np.repeat(train.indices[a:b], train.data[a:b])]
        for a, b in zip(train.indptr[:-1], train.indptr[1:], strict=True)
    ]
    data = library.Corpus.from_documents(texts) if hasattr(library.Corpus, "from_documents") else texts

    def fit(iterations: int) -> tuple[float, Any]:
        model = library.LDA(
            wanted, alpha_sum=PRIORS["alpha"] * wanted, beta=BETA, optimize_interval=0, burn_in=0, seed=seed,
            num_threads=threads, sampler=sampler,
        )  # fmt: skip
        began = time.perf_counter()
        model.fit(data, iters=iterations, num_samples=1, sample_interval=1, keep_theta_draws=False, progress=False)
        return time.perf_counter() - began, model

    first, _ = fit(2)
    second, _ = fit(6)
    each = max(1e-3, (second - first) / 4)
    for budget in budgets[1:]:
        spent, model = fit(max(1, int((budget - first) / each)))
        columns = np.array([int(word) for word in model.vocabulary])
        yield (
            spent,
            with_unseen(np.asarray(model.topic_word), columns, np.full(wanted, train.sum() / wanted), train.shape[1]),
        )


def scikit_learn(train: sp.csr_matrix, budgets: list[float], threads: int, wanted: int, seed: int) -> Found:
    """Online variational Bayes in minibatches of 256."""
    from sklearn.decomposition import LatentDirichletAllocation

    model = LatentDirichletAllocation(
        wanted, doc_topic_prior=PRIORS["alpha"], topic_word_prior=BETA, learning_method="online", learning_offset=10.0,
        learning_decay=0.7, batch_size=256, total_samples=train.shape[0], n_jobs=threads, random_state=seed,
    )  # fmt: skip
    spent, position = 0.0, 0
    for budget in budgets:
        while spent < budget:
            began = time.perf_counter()
            model.partial_fit(train[position : position + 256])
            spent += time.perf_counter() - began
            position = (position + 256) % train.shape[0]
        yield spent, model.components_ / model.components_.sum(axis=1, keepdims=True)


def gensim(train: sp.csr_matrix, budgets: list[float], threads: int, wanted: int, seed: int) -> Found:
    """Online variational Bayes in chunks of 2,000; one thread only."""
    from gensim.models import LdaModel

    bags = [
        list(zip(train.indices[a:b].tolist(), train.data[a:b].tolist(), strict=True))
        for a, b in zip(train.indptr[:-1], train.indptr[1:], strict=True)
    ]
    model = LdaModel(
        id2word={i: str(i) for i in range(train.shape[1])}, num_topics=wanted,
        alpha=[PRIORS["alpha"]] * wanted, eta=BETA, chunksize=2000, eval_every=None, random_state=seed,
    )  # fmt: skip
    spent, position = 0.0, 0
    for budget in budgets:
        while spent < budget:
            began = time.perf_counter()
            model.update(bags[position : position + 2000])
            spent += time.perf_counter() - began
            position = (position + 2000) % len(bags)
        yield spent, model.get_topics()


USUAL = ("scirocco", "tomotopy", "topica", "scikit-learn", "gensim")
LIBRARIES: dict[str, Callable[[sp.csr_matrix, list[float], int, int, int], Found]] = {
    "scirocco": scirocco,
    "tomotopy": tomotopy,
    "topica": topica,
    "scikit-learn": scikit_learn,
    "gensim": gensim,
    "scirocco-dense": partial(scirocco, many=np.inf),
    "scirocco-proposed": partial(scirocco, many=1),
    "topica-light": partial(topica, sampler="lightlda"),
    "topica-warp": partial(topica, sampler="warp"),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the libraries one after the other and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="newsgroups20")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budgets", type=float, nargs="+", default=[5.0, 10.0, 20.0, 40.0])
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--alpha", type=float, default=ALPHA)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--libraries", nargs="+", default=USUAL, choices=list(LIBRARIES))
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    PRIORS["alpha"] = options.alpha
    name, _, how = options.corpus.partition("-")
    counts = corpus(name)
    train, test = counts[:-HELD_OUT], Documents.of(counts[-HELD_OUT:])
    train = changed(train, how) if how else train
    alpha = np.full(options.topics, options.alpha)
    plain = unigram_perplexity(np.asarray(train.sum(axis=0)).ravel(), test)
    print(f"{options.corpus}: {train.shape[0]:,} documents, {int(train.sum()):,} tokens, {options.topics} topics;")
    print(
        f"{options.threads} thread(s); perplexity of {HELD_OUT:,} held-out documents (unigram {plain:,.0f}) at seconds"
    )
    for seed in options.seeds:
        for library in options.libraries:
            run = LIBRARIES[library](train, sorted(options.budgets), options.threads, options.topics, seed)
            try:
                found = [(seconds, completion_perplexity(topics[None], alpha, test)) for seconds, topics in run]
            except ImportError as error:
                print(f"{library:14s} not installed: {error}")
                continue
            values = "  ".join(f"{value:7,.0f} ({seconds:.1f} s)" for seconds, value in found)
            print(f"seed {seed} {library:14s} {values}", flush=True)


if __name__ == "__main__":
    main()
