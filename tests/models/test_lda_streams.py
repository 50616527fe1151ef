"""Topics from a stream: estimates of counts, samplers on natural parameters, and what minibatches add to the sds."""

import numpy as np
import pytest

import scirocco as sc
from scirocco.corpora.documents import Documents
from scirocco.counts.estimators import PlainCounts
from scirocco.counts.minibatches import InMemory, Minibatch
from scirocco.models.lda.agreement import align
from scirocco.models.lda.gibbs import KeptGibbs
from scirocco.models.lda.stream import StreamChain
from scirocco.simplex import SCIR, SCIRCV, Counts, Natural

ALPHA, WORDS = np.full(3, 0.3), 30
BETA = np.full(WORDS, 0.5)


@pytest.fixture(scope="module")
def planted():
    """Topics that share few words, so that assignments are nearly known."""
    rng = np.random.default_rng(5)
    topics = np.kron(np.eye(3), rng.dirichlet(np.full(10, 2.0))) * 0.94 + 0.002
    weights = rng.dirichlet(ALPHA, 240)
    return topics, Documents.of(np.array([rng.multinomial(40, w @ topics) for w in weights]))


def chain_at(sampler, topics, documents, *, estimator="plain", seed=0, sweeps=6, skip_sweeps=2):
    chain = StreamChain(
        sampler, WORDS, ALPHA, BETA, seed=seed, chain=0, sweeps=sweeps, skip_sweeps=skip_sweeps, threads=1,
        estimator=estimator, minibatches=InMemory(documents, 1, seed=0, chain=0),
    )  # fmt: skip
    chain.begin_at(BETA[:, None] + documents.tokens / 3 * topics.T)
    surveyed = sum(part.data.size for part in chain.survey())
    assert surveyed == (0 if isinstance(chain.estimator, PlainCounts) else documents.size)
    return chain


def part_of(documents, rows):
    return Minibatch.of(documents.take(rows), documents.size, rows)


def estimated(chain, batch):
    return chain.estimator.counts(chain, batch, chain.memory).dense(WORDS)


# Estimates.


@pytest.mark.parametrize("kind", ["plain", "control_variate", "saga"])
def test_estimates_are_unbiased(planted, kind):
    # Minibatches that share out the corpus: their estimates average to the counts of everything.
    topics, documents = planted
    chain = chain_at(Natural(sc.SGLD(1e-9)), topics, documents, estimator=kind, sweeps=60, skip_sweeps=10)
    moved = 0.7 * topics + 0.3 * np.roll(topics, 1, axis=0)
    chain.begin_at(documents.tokens / 3 * moved.T)  # away from where the survey was
    found = []
    for first in range(0, 240, 40):
        before = {name: array.copy() for name, array in chain.memory.items()}
        found.append(estimated(chain, part_of(documents, np.arange(first, first + 40))))
        chain.memory = before  # each from the same
        chain.steps += 1
    columns, everything = chain.count(Minibatch.of(documents, 240))
    direct = np.zeros((3, WORDS))
    direct[:, columns] = everything.T
    assert np.abs(np.mean(found, axis=0) - direct).sum() < 0.015 * documents.tokens
    np.testing.assert_allclose(np.mean(found, axis=0).sum(), documents.tokens)


def test_differences_have_less_noise(planted):
    topics, documents = planted
    spread = {}
    for name in ("plain", "control_variate", "saga"):
        chain = chain_at(Natural(sc.SGLD(1e-9)), topics, documents, estimator=name)
        rng, found = np.random.default_rng(0), []
        for step in range(40):
            found.append(estimated(chain, part_of(documents, rng.choice(240, 12, replace=False))))
            chain.steps = step + 1
        spread[name] = np.var(found, axis=0).sum()
        if name == "control_variate":  # at the centre itself nothing is left to estimate
            np.testing.assert_allclose(found[0], chain.memory["table"].T)
    assert spread["control_variate"] < 1e-20 * spread["plain"]
    assert spread["saga"] < 0.3 * spread["plain"]  # two draws of the assignments differ


def test_saga_keeps_the_sum_of_what_it_remembers(planted):
    topics, documents = planted
    chain = chain_at(Natural(sc.SGLD(1e-9)), topics, documents, estimator="saga")
    before = chain.memory["kept"].copy()
    estimated(chain, part_of(documents, np.array([5, 7, 200])))
    summed, kept = np.zeros((WORDS, 3)), chain.memory["kept"]
    np.add.at(summed, documents.words, kept / chain.counted)
    np.testing.assert_allclose(chain.memory["table"], summed)
    np.testing.assert_allclose(summed.sum(), documents.tokens)
    changed = np.unique(np.repeat(np.arange(240), np.diff(documents.starts))[np.any(kept != before, axis=1)])
    assert set(changed) <= {5, 7, 200}
    assert changed.size


# Samplers.


def test_natural_parameters_have_the_posterior_as_their_law():
    # All assignments of three short documents can be summed over, see test_lda_laws.
    from test_lda_laws import ALPHA, BETA, COUNTS, assert_average, exact_topics

    exact = exact_topics()
    chain = StreamChain(Natural(sc.SGLD(0.1)), 3, ALPHA, BETA, seed=2, chain=0, sweeps=6, skip_sweeps=2, threads=1)
    path = []
    for _ in range(16_000):
        chain.step(Minibatch.of(Documents.of(COUNTS), 3))
        path.append(chain.weights.proportions())
    assert_average(np.array(path[500:]), exact, slack=0.01)


@pytest.mark.parametrize(
    "settings",
    [
        {"sampler": "sgld"}, {"sampler": "sgld_cv"}, {"sampler": "sghmc"}, {"sampler": "sgnht"},
        {"sampler": "sgld", "estimator": "saga"}, {"sampler": sc.SGHMC(0.003), "estimator": "control_variate"},
        {"sampler": Natural(sc.SGLD(1e-5), normal_prior=(0.0, 3.0))},
        {"sampler": "scir"}, {"sampler": SCIRCV(0.05, recentre_every=5, centre_from="seen")},
    ],
    ids=["sgld", "sgld_cv", "sghmc", "sgnht", "saga", "sghmc_cv", "normal_prior", "scir", "scir_cv_seen"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:the noise of minibatches")
def test_samplers_from_a_stream_find_the_topics(planted, settings):
    topics, documents = planted
    counts = np.zeros((240, WORDS), int)
    counts[np.repeat(np.arange(240), np.diff(documents.starts)), documents.words] = documents.numbers
    # Half a pass of search leaves topics off by 0.3 to 1.1: the chain has to find them. Exact samplers end at 0.08.
    passes = {"max_iter": 12} if "normal_prior=(" in str(settings) else {"max_iter": 60, "search_passes": 0.5}
    model = sc.LDA(3, alpha=0.3, beta=0.5, batch_size=24, random_state=0, **passes, **settings).fit(counts)
    found = model.components_[align(topics, model.components_)]
    assert np.abs(found - topics).sum(axis=1).max() < 0.25
    assert model.posterior_["topics"].std("draw").max() > 1e-4  # it moves
    assert (model.inflation_ is None) == (
        settings.get("estimator", "plain") != "plain" or "cv" in str(settings).lower()
    )


def test_a_corpus_on_disk_can_have_control_variates(tmp_path, planted):
    corpus = sc.corpora.write_corpus(
        tmp_path / "c", [planted[1].take(slice(0, 120)), planted[1].take(slice(120, 240))], 30
    )
    corpus = sc.corpora.Corpus(tmp_path / "c", block_entries=1500)
    assert corpus.blocks > 1
    model = sc.LDA(3, sampler="sgld_cv", batch_size=24, max_iter=6, random_state=0).fit(corpus)
    assert model.n_iter_ >= 6
    np.testing.assert_allclose(model.components_.sum(axis=1), 1, rtol=1e-5)


@pytest.fixture(scope="module")
def exact(planted):
    """Posterior means and sds of the topics, by exact Gibbs sampling."""
    topics, documents = planted
    chain = KeptGibbs(documents, ALPHA, BETA, seed=3, chain=0, search_passes=2, batch_size=None, threads=1)
    draws = []
    while chain.passes < 800:
        chain.step()
        if chain.passes > 100:
            draws.append(chain.draw())
    order = align(topics, np.mean(draws, axis=0))
    return np.mean(draws, axis=0)[order], np.std(draws, axis=0)[order]


def test_scir_agrees_with_gibbs_as_its_step_shrinks(planted, exact):
    (topics, documents), (mean, sd) = planted, exact
    chain, draws = chain_at(SCIR(0.2), topics, documents, seed=4), []
    for step in range(1500):
        chain.step(Minibatch.of(documents, 240))
        if step > 100:
            draws.append(chain.draw())
    assert np.median(np.abs(np.mean(draws, axis=0) - mean) / sd) < 0.2
    assert np.median(np.std(draws, axis=0) / sd) == pytest.approx(1, abs=0.08)


class Eager(PlainCounts):
    """Names every word, so that none waits."""

    def counts(self, local, batch, state):
        found = super().counts(local, batch, state)
        return Counts(found.dense(WORDS), None, found.fraction)


def test_words_that_wait_have_the_same_law(planted):
    topics, documents = planted
    moments = []
    for estimator in (PlainCounts(), Eager()):
        chain, draws, rng = chain_at(SCIR(0.2), topics, documents, estimator=estimator), [], np.random.default_rng(1)
        for step in range(3000):
            chain.step(part_of(documents, rng.choice(240, 4, replace=False)))  # about half of the words
            if step > 100 and step % 3 == 0:
                draws.append(chain.draw())
        moments.append((np.mean(draws, axis=0), np.std(draws, axis=0)))
    (lazy, lazy_sd), (eager, eager_sd) = moments
    assert np.median(np.abs(lazy - eager) / eager_sd) < 0.2
    assert np.median(lazy_sd / eager_sd) == pytest.approx(1, abs=0.08)


@pytest.mark.parametrize("sampler", [SCIR(0.2), Natural(sc.SGLD(4e-4))], ids=["scir", "natural"])
def test_inflation_is_predicted(planted, exact, sampler):
    (topics, documents), (_, sd) = planted, exact
    chain = chain_at(sampler, topics, documents, seed=6)
    draws, rng = [], np.random.default_rng(0)
    for step in range(6000):
        chain.step(part_of(documents, rng.choice(240, 12, replace=False)))
        if step > 600 and step % 4 == 0:
            draws.append(chain.draw())
    predicted = chain.inflation(documents, 12, 240)
    often = topics > 0.03
    measured = (np.std(draws, axis=0) / sd)[often]
    assert np.median(measured) > 1.3
    assert np.median(measured / predicted[often]) == pytest.approx(1, abs=0.12)


SAMPLERS = {
    "gibbs": "gibbs", "collapsed": "collapsed", "scir": SCIR(0.05), "scir_cv": SCIRCV(0.05),
    "scir_cv_given": None, "scir_cv_renewed": SCIRCV(0.05, recentre_every=20, centre_batch=0.5),
    "scir_cv_seen": SCIRCV(0.05, recentre_every=20, centre_from="seen"), "sgrld": sc.SGRLD(0.001), "sgld": "sgld",
}  # fmt: skip


OFTEN_FROM_DISK = ("gibbs", "scir", "scir_cv")


@pytest.mark.parametrize(
    ("name", "where"),
    [(name, "memory") for name in SAMPLERS]
    + [pytest.param(n, "disk", marks=() if n in OFTEN_FROM_DISK else pytest.mark.slow) for n in SAMPLERS],
)
@pytest.mark.filterwarnings("ignore:the noise of minibatches")
def test_one_topic_has_a_known_mean(tmp_path, name, where):
    # With a single topic nothing is latent: the mean is (beta + counts) / total, whatever minibatches do. A quarter
    # of the documents is empty, and the last ones, in a block of their own, have a word that no other has.
    rng = np.random.default_rng(0)
    counts = rng.poisson([1.0, 0.5, 0.2, 0.2, 0.0], (603, 5)) * (rng.random(603) > 0.25)[:, None]
    counts[600:, 4] = 1
    mean = (0.5 + counts.sum(axis=0)) / (2.5 + counts.sum())
    sampler = SAMPLERS[name]
    if name == "scir_cv_given":
        sampler = SCIRCV(0.05, centre=0.5 + counts.sum(axis=0)[None])
    data = counts
    if where == "disk":
        sc.corpora.write_corpus(tmp_path / "corpus", [counts[:300], counts[300:]], 5)
        data = sc.corpora.Corpus(tmp_path / "corpus", block_entries=200)
        assert data.blocks > 2
    settings = {"batch_size": 60, "max_iter": 60, "search_passes": 1, "n_chains": 4, "random_state": 0}
    model = sc.LDA(1, beta=0.5, sampler=sampler, **settings).fit(data)
    error = np.abs(model.components_[0] - mean)
    # Over 12 seeds the mean of one chain of SCIR had an sd of 0.009 at most, that of four 0.0045: four of those. The
    # biases that this is for were 0.085.
    assert np.all(error < 0.018)
    assert model.components_[0, 4] < 0.012


def test_empty_minibatches_count():
    counts = np.zeros((200, 6), int)
    counts[:50] = np.random.default_rng(0).poisson(1.0, (50, 6))
    chains = sc.LDA(2, sampler=SCIR(0.05), total_documents=200, random_state=0)
    rng, totals = np.random.default_rng(1), []
    for step in range(2000):
        chains.partial_fit(counts[[rng.integers(200)]])
        if step > 400:
            totals.append(chains._stream.chain.weights.totals.sum())
    assert np.mean(totals) == pytest.approx(counts.sum() + 0.6, rel=0.1)


def test_a_search_of_no_passes(planted):
    counts = np.random.default_rng(0).poisson(1.0, (60, 20))
    for sampler in ("sgld", "sgnht"):
        model = sc.LDA(3, sampler=sampler, search_passes=0, max_iter=3, batch_size=10, random_state=0).fit(counts)
        assert np.all(np.isfinite(model.components_))


def test_bad_requests(planted):
    counts = np.eye(4, dtype=int)
    with pytest.raises(ValueError, match="needs a sampler on natural parameters"):
        sc.LDA(2, sampler="scir", estimator="saga").fit(counts)
    with pytest.raises(ValueError, match="estimator must be one of"):
        sc.LDA(2, sampler="sgld", estimator="magic").fit(counts)
    with pytest.raises(ValueError, match="neither searches for a start"):
        sc.LDA(2, sampler="sgld").partial_fit(counts)
    model = sc.LDA(2, sampler=sc.SGLD(1e-3), random_state=0).partial_fit(counts)
    assert model.inflation_ is None
