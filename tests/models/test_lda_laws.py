"""Exactness of the topic samplers, on corpora so small that all assignments can be enumerated, and by joint tests."""

import itertools

import numpy as np
import pytest
from scipy.special import gammaln

from scirocco.corpora.documents import Documents
from scirocco.counts.estimators import KeptCounts
from scirocco.counts.minibatches import Minibatch
from scirocco.models.lda import cells, collapsed
from scirocco.models.lda.gibbs import CollapsedGibbs, KeptGibbs
from scirocco.models.lda.seeds import InformedGibbs
from scirocco.models.lda.stream import StreamChain
from scirocco.simplex import SCIR

ALPHA, BETA = np.array([0.6, 0.9]), np.array([0.5, 0.8, 0.4])
BETAS = np.array([[0.9, 0.2, 0.4], [0.3, 1.1, 0.6]])  # a prior for each topic
COUNTS = np.array([[2, 1, 0], [0, 1, 1], [1, 0, 1]])


def tokens():
    documents = [np.repeat(np.arange(3), row) for row in COUNTS]
    return np.concatenate(documents), np.repeat(np.arange(3), [len(d) for d in documents])


def prior_of(kind):
    """By topic."""
    return BETAS if kind is InformedGibbs else np.stack([BETA, BETA])


def enumerated(betas):
    """Weights of all assignments, with topics and document weights integrated out."""
    words, owner = tokens()
    states, logs = [], []
    for z in map(np.array, itertools.product((0, 1), repeat=len(words))):
        log = 0.0
        for d in range(3):
            near = np.bincount(z[owner == d], minlength=2)
            log += np.sum(gammaln(ALPHA + near) - gammaln(ALPHA)) - gammaln(ALPHA.sum() + near.sum())
        for k, beta in enumerate(betas):
            counts = np.bincount(words[z == k], minlength=3)
            log += np.sum(gammaln(beta + counts) - gammaln(beta))
            log += gammaln(beta.sum()) - gammaln(beta.sum() + counts.sum())
        states.append(z)
        logs.append(log)
    weights = np.exp(np.array(logs) - np.max(logs))
    return np.array(states), weights / weights.sum()


def exact_topics():
    """The posterior mean of the topics."""
    states, weights = enumerated(prior_of(KeptGibbs))
    words, _ = tokens()
    exact = np.zeros((2, 3))
    for z, weight in zip(states, weights, strict=True):
        counts = BETA + np.array([np.bincount(words[z == k], minlength=3) for k in (0, 1)])
        exact += weight * counts / counts.sum(axis=1, keepdims=True)
    return exact


def assert_average(path, expected, slack=0.0):
    """Averages over a chain, by batch means, within 4.5 standard errors."""
    batches = np.array([part.mean(axis=0) for part in np.array_split(path, 40)])
    error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    assert np.all(np.abs(batches.mean(axis=0) - expected) < 4.5 * error + slack)


def chain_of(kind, **settings):
    options = {"seed": 1, "chain": 0, "search_passes": 1, "batch_size": 1, "threads": 1} | settings
    beta = BETAS if kind is InformedGibbs else BETA
    chain = kind(Documents.of(COUNTS), ALPHA, beta, **options)
    while not chain.sampling:
        chain.step()
    return chain


@pytest.fixture
def kernel(request, monkeypatch):
    """Of few topics, or of many, or in cells."""
    if request.param == "proposed":
        monkeypatch.setattr(collapsed, "MANY", 1)
    elif request.param != "dense":
        monkeypatch.setattr(cells, "MOST_GROUPS", 2 if request.param == "two groups" else 3)
        monkeypatch.setattr(cells, "SEGMENT", 0.1)
        monkeypatch.setattr(cells, "CELL", 0)


WAYS = [
    (KeptGibbs, "dense"), (KeptGibbs, "proposed"), (CollapsedGibbs, "dense"), (CollapsedGibbs, "proposed"),
    (CollapsedGibbs, "two groups"), (CollapsedGibbs, "all words apart"), (InformedGibbs, "dense"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "kernel"), WAYS, indirect=["kernel"])
@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.usefixtures("kernel")
def test_assignments_have_their_exact_law(kind, batch_size):
    states, weights = enumerated(prior_of(kind))
    chain = chain_of(kind, batch_size=batch_size)
    order = np.lexsort((chain.kept.codes, np.repeat(chain.order, np.diff(chain.token_starts))))
    path = []
    for _ in range(12_000):
        chain.step()
        path.append(chain.kept.labels.copy())
    path = np.array(path)[:, order]
    pairs = list(itertools.combinations(range(states.shape[1]), 2))
    together = np.stack([path[:, i] == path[:, j] for i, j in pairs], axis=1).astype(float)
    expected = [np.sum(weights[states[:, i] == states[:, j]]) for i, j in pairs]
    assert_average(together, expected)
    assert_average(path.astype(float), weights @ states)  # the prior is not symmetric, so labels mean something


def test_draws_and_means_of_topics_agree():
    chain = chain_of(KeptGibbs)
    for _ in range(10):
        chain.step()
    draws = np.array([chain.draw() for _ in range(4000)])
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - chain.mean()) < 4.5 * error)
    np.testing.assert_allclose(draws.sum(axis=2), 1, rtol=1e-5)


@pytest.mark.parametrize(("kind", "kernel"), WAYS, indirect=["kernel"])
@pytest.mark.usefixtures("kernel")
def test_joint_distribution(kind):
    """Geweke's test: data drawn anew given the state, the state moved by the sampler, has the law of the prior."""
    rng = np.random.default_rng(0)
    chain = chain_of(kind, batch_size=None)
    owner = np.repeat(np.arange(3), np.diff(chain.token_starts))

    def measured(words, z):
        near = np.bincount(z, minlength=2)
        return [near[0], near[0] ** 2, np.sum(words == 0), np.sum((words == 0) & (z == 0)), np.sum(words == 2) ** 2]

    prior = []
    for _ in range(6000):
        topics = np.array([rng.dirichlet(beta) for beta in prior_of(kind)])
        weights = np.array([rng.dirichlet(ALPHA) for _ in range(3)])
        z = (rng.random(len(owner)) > weights[owner, 0]).astype(int)
        words = (rng.random(len(owner))[:, None] > np.cumsum(topics[z], axis=1)).sum(axis=1)
        prior.append(measured(words, z))
    path = []
    for _ in range(6000):
        topics, kept = chain.draw(), chain.kept
        words = (rng.random(len(owner))[:, None] > np.cumsum(topics[kept.labels], axis=1)).sum(axis=1)
        order = np.lexsort((words, owner))
        words, labels = np.minimum(words, 2)[order], kept.labels[order]
        chain.kept = KeptCounts(words, 2, 3, labels, width=kept.table.shape[1])
        chain.cells = cells.Cells(chain.kept.codes, chain.token_starts, 3)
        chain._columns.clear()
        chain.step()
        path.append(measured(chain.kept.codes, chain.kept.labels))
    prior = np.array(prior, float)
    assert_average(np.array(path, float), prior.mean(axis=0), slack=4.5 * prior.std(axis=0) / np.sqrt(len(prior)))


def test_scir_from_a_stream_has_nearly_the_posterior_as_its_law():
    exact = exact_topics()
    documents = Documents.of(COUNTS)
    chain = StreamChain(SCIR(0.1), 3, ALPHA, BETA, seed=2, chain=0, sweeps=6, skip_sweeps=2, threads=1)
    path = []
    for _ in range(16_000):
        chain.step(Minibatch.of(documents, 3))
        path.append(chain.draw())
    assert_average(np.array(path[500:]), exact, slack=0.01)


@pytest.mark.parametrize("sampler", ["gibbs", "collapsed", "scir", "scir_cv", "sgrld", "sgld_cv", "sgnht"])
def test_threads_change_nothing(sampler):
    import scirocco as sc

    counts = np.random.default_rng(0).poisson(0.2, (300, 80))
    one, four = (
        sc.LDA(6, sampler=sampler, max_iter=4, random_state=3, n_jobs=jobs, batch_size=50).fit(counts)
        for jobs in (1, 4)
    )
    assert one.posterior_.identical(four.posterior_)
    np.testing.assert_array_equal(one.components_, four.components_)
    np.testing.assert_array_equal(one.transform(counts[:20]), four.transform(counts[:20]))
