"""The kernels of kept assignments: vector draws against plain ones; what threads and resuming do not change."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from scirocco.core.compiled import jit
from scirocco.core.seeds import Purpose, stream_key
from scirocco.corpora.documents import Documents
from scirocco.models.lda import cells, collapsed, gibbs
from scirocco.models.lda.gibbs import CollapsedGibbs, KeptGibbs
from scirocco.models.lda.kernels import sweeps_proposed, vector_draw
from scirocco.models.lda.start import doubling, race
from scirocco.models.lda.start.doubling import Doubling
from scirocco.models.lda.start.race import Phase

COUNTS = np.random.default_rng(0).poisson(0.25, (400, 60))
ALPHA, BETA = np.full(12, 0.1), np.full(60, 0.05)


def planted(rng):
    """Documents of 12 topics with 5 words each."""
    weights = rng.dirichlet(np.full(12, 0.2), 400)
    return np.array([rng.multinomial(40, w @ np.kron(np.eye(12), np.full(5, 0.2))) for w in weights])


PLANTED = planted(np.random.default_rng(2))


def many(documents, collapsed, make):
    """A compiled loop of draws."""
    draw = make(documents, collapsed)

    @jit
    def loop(near, scale, table, heights, uniforms, out):
        for i in range(len(uniforms)):
            if documents == 2:
                words, betas = (np.int64(1), np.int64(3)), (np.float32(0.05), np.float32(0.2))
                found = draw(near, scale, table, words, betas, heights, (uniforms[i, 0], uniforms[i, 1]))
                out[i, 1] = found[1]
            else:
                words, betas = (np.int64(1),), (np.float32(0.05),)
                found = draw(near, scale, table, words, betas, heights, (uniforms[i, 0],))
            out[i, 0] = found[0]

    return loop


@pytest.mark.parametrize("collapsed", [False, True])
@pytest.mark.parametrize("documents", [1, 2])
def test_vector_draws_have_the_law_and_the_bits_of_plain_ones(documents, collapsed):
    vector, plain = (many(documents, collapsed, make) for make in (vector_draw._vector_draw, vector_draw.plain_draw))
    rng = np.random.default_rng(1)
    for topics in (1, 2, 8, 9, 50):
        width = vector_draw.padded(topics)
        near, heights = np.zeros((2, width), np.float32), np.zeros((2, width), np.float32)
        near[:, :topics] = rng.gamma(2.0, size=(2, topics))
        scale = np.zeros(width, np.float32)
        scale[:topics] = rng.random(topics) + 0.5
        table = np.zeros((5, width), np.int32 if collapsed else np.float32)
        table[:, :topics] = rng.integers(1, 9, (5, topics))
        uniforms = (rng.integers(0, 2**24, (20_000, 2)) * 2.0**-24).astype(np.float32)
        found, same = (np.zeros((20_000, 2), np.int64) for _ in range(2))
        vector(near, scale, table, heights, uniforms, found)
        plain(near, scale, table, heights, uniforms, same)
        np.testing.assert_array_equal(found, same)
        for i, (word, beta) in enumerate(((1, 0.05), (3, 0.2))[:documents]):
            weight = near[i].astype(float) * ((table[word] + beta) * scale if collapsed else table[word])
            expected = 20_000 * weight[:topics] / weight.sum()
            assert found[:, i].max() < topics
            if topics > 1:
                assert stats.chisquare(np.bincount(found[:, i], minlength=topics), expected).pvalue > 1e-4


def chain_of(kind=KeptGibbs, counts=COUNTS, **settings):
    options = {"seed": 1, "chain": 0, "search_passes": 6.0, "batch_size": None, "threads": 1} | settings
    return kind(Documents.of(counts), ALPHA, BETA, **options)


def searched(chain):
    while chain.searching:
        chain.step()
    return chain


LONG = 200.0  # passes: enough for EM, doubling, and the comparison
PHASES = [phase for phase in Phase if phase != Phase.DONE]


def until(phase, search_passes=LONG, **settings):
    """A chain some steps into a phase of its search."""
    chain = chain_of(search_passes=search_passes, **settings)
    for _ in range(5000):
        if chain.search.phase == phase:
            break
        chain.step()
    assert chain.search.phase == phase
    for _ in range(3):
        chain.step()
    return chain


@pytest.fixture
def no_race(monkeypatch):
    """EM is not beaten before it comes to its end."""
    monkeypatch.setattr(race, "RACE", np.inf)


def counted(chain):
    """The table of counts, counted again."""
    table = np.zeros_like(chain.kept.table)
    np.add.at(table, (chain.kept.codes, chain.kept.labels), 1)
    return table


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("passes", [6.0, LONG])
def test_the_search_does_not_depend_on_the_threads(monkeypatch, groups, passes):
    monkeypatch.setattr(cells, "MOST_GROUPS", groups)
    monkeypatch.setattr(cells, "CELL", 1)  # of so few tokens: in cells all the same
    chains = [searched(chain_of(threads=threads, search_passes=passes)) for threads in (1, 2, 4)]
    np.testing.assert_array_equal(chains[0].kept.table, counted(chains[0]))  # cells lose nothing
    np.testing.assert_array_equal(chains[0].kept.totals, chains[0].kept.used.sum(axis=0))
    for other in chains[1:]:
        np.testing.assert_array_equal(chains[0].kept.labels, other.kept.labels)


def assert_goes_on(chain, again):
    again.unpack({name: array.copy() for name, array in chain.pack().items()})
    for _ in range(30):
        chain.step()
        again.step()
    np.testing.assert_array_equal(chain.kept.labels, again.kept.labels)
    np.testing.assert_array_equal(chain.draw(), again.draw())
    assert chain.passes == again.passes


@pytest.mark.parametrize("kind", [KeptGibbs, CollapsedGibbs])
@pytest.mark.parametrize("steps", [1, 7, 40, 200])
def test_a_chain_goes_on_from_anywhere(kind, steps):
    chain = chain_of(kind)
    for _ in range(steps):
        chain.step()
    assert_goes_on(chain, chain_of(kind))


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.usefixtures("no_race")
def test_a_search_goes_on_from_every_phase(phase):
    assert_goes_on(until(phase), chain_of(search_passes=LONG))


def test_a_search_without_work_assigns_everything():
    chain = searched(chain_of(search_passes=0.0))
    assert chain.search.work == pytest.approx(1)
    assert chain.kept.totals.sum() == COUNTS.sum()


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.usefixtures("no_race")
def test_a_search_that_is_stopped_loses_no_token(phase):
    chain = until(phase)
    chain.search.stop()
    for _ in range(4):  # the quarters of an assignment, if there is none yet
        chain.step()
    assert not chain.searching
    np.testing.assert_array_equal(chain.kept.table, counted(chain))
    assert chain.kept.totals.sum() == COUNTS.sum()


@pytest.mark.usefixtures("no_race")
def test_of_two_starts_the_more_likely_goes_on(monkeypatch):
    monkeypatch.setattr(doubling, "STARTS", 1)
    winners = set()
    for seed in range(8):
        chain = until(Phase.SETTLE_DOUBLED, seed=seed, counts=PLANTED)
        first, known = chain.search.chosen.copy(), chain.search.likely
        searched(chain)
        found = doubling.joint_likelihood(chain.kept, chain.token_starts, chain.alpha, chain.search.beta)
        same = np.array_equal(chain.kept.labels, first)
        assert found == pytest.approx(known) if same else found > known
        np.testing.assert_array_equal(chain.kept.table, counted(chain))
        winners.add("em" if same else "doubling")
    assert winners == {"em", "doubling"}  # neither is best for all


@pytest.mark.parametrize("better", ["em", "doubling"])
@pytest.mark.parametrize("steps", [5, 40])
def test_the_better_of_the_race_goes_on(monkeypatch, better, steps):
    scored = Doubling.outlook
    monkeypatch.setattr(Doubling, "outlook", lambda way, aside: scored(way, aside) + (-9 if better == "em" else 9))
    chain, again = (chain_of(search_passes=LONG, counts=PLANTED) for _ in range(2))
    for _ in range(steps):
        chain.step()
    assert chain.search.phase == Phase.EXPECT
    assert 0 < chain.search.doubling.work <= chain.search.work / 2 + 0.3  # as much work for both
    assert_goes_on(chain, again)
    while chain.search.phase == Phase.EXPECT:
        chain.step()
    assert chain.search.raced
    assert chain.search.phase == (Phase.ASSIGN if better == "em" else Phase.DOUBLE)
    np.testing.assert_array_equal(searched(chain).kept.table, counted(chain))


def test_the_outlook_of_doubling_goes_on_as_its_gains_did(monkeypatch):
    chain = chain_of(search_passes=60.0)
    way, aside = chain.search.doubling, chain.search.aside
    monkeypatch.setattr(way, "score", lambda _: -7.0)
    way.goal, way.levels = 100, [-8.0, -7.5]
    assert way.outlook(aside) == -7.0  # two stages say nothing
    way.levels = [-8.0, -7.6, -7.4]  # half as much each time, and two doublings are left of 400 documents
    assert way.outlook(aside) == pytest.approx(-7.0 + 0.1 + 0.05)
    way.levels = [-8.0, -7.4, -7.5]
    assert way.outlook(aside) == -7.0


def test_em_that_had_no_time_is_not_listened_to():
    # Documents that are held to topics of a few minibatches do not come loose again.
    chain, phases = chain_of(search_passes=6.0, counts=PLANTED), set()
    while chain.searching:
        chain.step()
        phases.add(chain.search.phase)
    assert phases == {Phase.EXPECT, Phase.DOUBLE, Phase.DONE}
    np.testing.assert_array_equal(chain.kept.table, counted(chain))


@pytest.mark.usefixtures("no_race")
def test_em_leaves_when_documents_put_aside_say_so():
    chain = until(Phase.ASSIGN, counts=PLANTED, search_passes=1e4)
    scores = chain.search.em.scores
    assert scores[-1] - scores[-2] < 0.01 * (scores[-1] - scores[0])
    assert scores[-1] > scores[0]
    assert chain.search.share < 0.1


def test_the_likelihood_of_assignments_is_that_of_gamma_functions():
    chain = searched(chain_of())
    near = np.zeros((400, 12))
    np.add.at(near, (np.repeat(np.arange(400), np.diff(chain.token_starts)), chain.kept.labels), 1)
    used, totals = chain.kept.used, chain.kept.totals
    weights = gammaln(near + ALPHA).sum() - 400 * gammaln(ALPHA).sum()
    words = gammaln(used + BETA[:, None]).sum() - 12 * gammaln(BETA).sum() - gammaln(totals + BETA.sum()).sum()
    found = doubling.joint_likelihood(chain.kept, chain.token_starts, ALPHA, BETA)
    assert found == pytest.approx(weights + words, rel=1e-9)


@pytest.mark.usefixtures("no_race")
def test_the_most_likely_start_of_doubling_goes_on(monkeypatch):
    found = []
    for starts in (1, 6):
        monkeypatch.setattr(doubling, "STARTS", starts)
        chain = until(Phase.DOUBLE)
        way = chain.search.doubling
        first = way.goal
        while way.goal == first:
            chain.step()
        begun = chain.token_starts[: first + 1]
        found.append(doubling.joint_likelihood(chain.kept, begun, chain.alpha, way.beta))
        assert way.likely == pytest.approx(found[-1], rel=1e-6)
    assert found[1] >= found[0]  # the first of the six is the one


@pytest.fixture
def many_topics(monkeypatch):
    """Topics are proposed, however few."""
    monkeypatch.setattr(collapsed, "MANY", 1)


@pytest.mark.parametrize("kind", [KeptGibbs, CollapsedGibbs])
def test_proposed_topics_have_the_posterior_of_all_looked_at(kind, monkeypatch):
    # From the truth, in the mode of which both stay: topics overlap, so that tokens move all the time.
    rng = np.random.default_rng(4)
    topics = 0.7 * np.kron(np.eye(12), np.full(5, 0.2)) + 0.3 / 60
    weights = rng.dirichlet(np.full(12, 0.2), 300)
    z = np.array([rng.choice(12, 30, p=w) for w in weights])
    words = (rng.random((300, 30, 1)) > np.cumsum(topics[z], axis=2)).sum(axis=2)
    order = np.argsort(words, axis=1)  # as documents of counts have their tokens
    z, counts = np.take_along_axis(z, order, axis=1), np.array([np.bincount(w, minlength=60) for w in words])
    found = []
    for many in (100, 1):
        monkeypatch.setattr(collapsed, "MANY", many)
        chain, path = searched(chain_of(kind, counts, assigned=z.ravel(), batch_size=300)), []
        for _ in range(2200):
            chain.step()
            near = np.bincount(12 * np.repeat(np.arange(300), 30) + chain.kept.labels, minlength=3600)
            path.append([np.square(near).sum(), (chain.kept.labels == z.ravel()).sum()])
        np.testing.assert_array_equal(chain.kept.table, counted(chain))
        np.testing.assert_array_equal(chain.kept.totals, chain.kept.used.sum(axis=0))
        parts = np.array(path[200:], float).reshape(20, -1, 2).mean(axis=1)
        found.append((parts.mean(axis=0), parts.std(axis=0, ddof=1) / np.sqrt(20)))
    (dense, dense_error), (proposed, proposed_error) = found
    assert np.all(np.abs(dense - proposed) < 4.5 * np.hypot(dense_error, proposed_error))
    assert np.all(np.maximum(dense_error, proposed_error) < 0.01 * dense)


@pytest.mark.usefixtures("many_topics")
def test_proposals_do_not_depend_on_the_threads():
    chains = [searched(chain_of(threads=threads)) for threads in (1, 4)]
    assert chains[0].search.work == pytest.approx(1)  # with many topics there is no search
    for chain in chains:
        for _ in range(5):
            chain.step()
        np.testing.assert_array_equal(chain.kept.table, counted(chain))
    np.testing.assert_array_equal(chains[0].kept.labels, chains[1].kept.labels)


@pytest.mark.parametrize("kind", [KeptGibbs, CollapsedGibbs])
@pytest.mark.parametrize("steps", [7, 200])
@pytest.mark.usefixtures("many_topics")
def test_a_chain_of_proposals_goes_on_from_anywhere(kind, steps):
    chain = chain_of(kind)
    for _ in range(steps):
        chain.step()
    assert_goes_on(chain, chain_of(kind))


@pytest.mark.usefixtures("many_topics")
def test_records_of_many_topics_are_as_exact_and_get_half_of_the_time(monkeypatch):
    monkeypatch.setattr(gibbs, "RECORD_COST", 4e3)
    chain, limited = (searched(chain_of(passes=passes, records=5)) for passes in (np.inf, 40.0))
    parameter = chain.kept.used + BETA[:, None]
    np.testing.assert_allclose(chain.mean(), (parameter / parameter.sum(axis=0)).T, rtol=1e-6)
    assert chain.record_every == pytest.approx(400 * chain.kept.used.size / COUNTS.sum())  # a tenth of ten times
    assert limited.record_every == 8  # as many as are wanted of so many passes


def test_proposals_of_a_word_have_its_law():
    rng, topics = np.random.default_rng(3), 7
    phi = rng.gamma(0.5, size=(3, topics)).astype(np.float32)
    phi[1, [0, 6]] = 0.0
    starts = np.array([0, 30_000, 60_000, 60_000])
    places, proposed = rng.permutation(60_000).astype(np.int32), np.full(60_000, 99, np.uint8)
    lows, highs = np.array([0, 10, 0]), np.array([30_000, 30_000, 0])
    key = stream_key(1, Purpose.KEPT_SWEEPS, 0)
    sweeps_proposed.propose(key, 1, 0, 1, starts, places, lows, highs, phi, topics, 0, proposed)
    for w in (0, 1):
        own = places[starts[w] + lows[w] : starts[w + 1]]
        drawn, expected = np.bincount(proposed[own], minlength=topics), phi[w] / phi[w].sum() * own.size
        some = expected > 0
        assert drawn[~some].sum() == 0
        assert stats.chisquare(drawn[some], expected[some] * drawn.sum() / expected[some].sum()).pvalue > 1e-4
    assert np.all(proposed[places[30_000:30_010]] == 99)  # not asked for


@pytest.mark.skipif(not vector_draw.VECTORS, reason="vectors are off in this process already")
@pytest.mark.parametrize("sampler", ["gibbs", pytest.param("collapsed", marks=pytest.mark.slow)])
def test_a_machine_without_vectors_has_the_same_draws(sampler, capsys):
    code = (
        "import numpy as np, scirocco as sc\n"
        "counts = np.random.default_rng(0).poisson(0.3, (60, 40))\n"
        f"model = sc.LDA(5, sampler={sampler!r}, max_iter=6, random_state=0).fit(counts)\n"
        "print(model.components_.tobytes().hex())\n"
    )
    environment = os.environ | {"SCIROCCO_VECTORS": "off"}
    without = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    exec(code, {})
    assert capsys.readouterr().out == without.stdout
    assert len(without.stdout) > 1000
