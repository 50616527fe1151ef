"""Chains that disagree are said to disagree: matching, what is averaged, reports and warnings."""

import warnings

import numpy as np
import pytest

import scirocco as sc
from scirocco.models.lda.agreement import ACROSS, WITHIN, Agreement, align

RNG = np.random.default_rng(0)
TOPICS = np.kron(np.eye(4), np.full(10, 0.1))


def noisy(topics, concentration=400.0):
    return np.array([RNG.dirichlet(concentration * t + 0.01) for t in topics])


def draws_of(means, count=12):
    return np.array([[noisy(mean) for _ in range(count)] for mean in means])


def test_a_stranger_is_no_partner():
    other = TOPICS.copy()
    other[2] = np.roll(TOPICS[2], 7)  # shares 3 of 10 words
    means = [TOPICS, other]
    found = Agreement.of(means, draws_of(means))
    assert found.matched.tolist() == [[True] * 4, [True, True, False, True]]
    assert found.total_variation[1, 2] == pytest.approx(0.7)
    assert found.overlap[1, 2] == pytest.approx(0.3)
    assert found.intervals == [ACROSS, ACROSS, WITHIN, ACROSS]
    assert np.isnan(found.rhat[2])
    assert np.all(found.rhat[[0, 1, 3]] < 1.3)
    assert "3 of 4 topics are found by all" in str(found)
    assert "without a partner in some chain: topics 2;" in str(found)
    again = Agreement.unpack({name: array.copy() for name, array in found.pack().items()})
    assert str(again) == str(found)


def test_one_chain_measures_nothing():
    found = Agreement.of([TOPICS], draws_of([TOPICS]))
    assert str(found).startswith("agreement between chains: not measured (one chain)")
    assert set(found.intervals) == {WITHIN}
    assert not found.reproduced.any()


def test_topics_are_matched_one_to_one():
    order = RNG.permutation(4)
    assert np.array_equal(order[align(TOPICS, TOPICS[order])], np.arange(4))


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(0)  # its own: the order of tests must not decide what the chains find
    weights = rng.dirichlet(np.full(4, 0.2), 300)
    return np.array([rng.multinomial(50, w @ (0.98 * TOPICS + 0.02 / 40)) for w in weights])


def test_chains_that_agree(counts, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = sc.LDA(4, n_chains=3, max_iter=60, random_state=0).fit(counts)
    assert model.agreement_.reproduced.all()
    assert np.all(model.agreement_.overlap == 1)
    text = str(model.summary(3))
    assert "4 of 4 topics are found by all" in text
    assert "bias report" not in text
    assert np.all(model.summary(3).table["chains"] == 3)
    model.save(tmp_path / "m.npz")
    assert str(sc.LDA.load(tmp_path / "m.npz").agreement_) == str(model.agreement_)


def test_chains_that_disagree_are_not_averaged():
    # Nothing to find: words without structure, of which each chain makes topics of its own.
    counts = np.random.default_rng(1).poisson(0.3, (40, 200))
    with pytest.warns(UserWarning, match="are not found by all 3 chains"):
        model = sc.LDA(8, n_chains=3, beta=0.01, max_iter=40, search_passes=0, random_state=0).fit(counts)
    matched = model.agreement_.matched
    lost = np.flatnonzero(~matched[1:].any(axis=0))
    assert lost.size
    draws = model.posterior_["topics"].values
    alone = draws[0].mean(axis=0)[lost]
    # The mean of the first chain and nothing else: half of the distance to the average of all would be 0.3 and more.
    assert np.abs(model.components_[lost] - alone).sum(axis=1).max() / 2 < 0.25
    assert np.abs(draws.mean(axis=(0, 1))[lost] - alone).sum(axis=1).min() / 2 > 0.25
    for k in lost:
        _, word, mean, low, high = model.top_words(1).iloc[k]
        own = draws[0, :, k, int(word)]
        assert low <= own.mean() <= high
        assert mean == pytest.approx(model.components_[k, int(word)])
    chains = model.summary(2).table["chains"].to_numpy().reshape(8, 2)[:, 0]
    np.testing.assert_array_equal(chains, matched.sum(axis=0))
    # Documents are weighed by chains whose topics mean the same.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = sc.LDA(8, n_chains=1, beta=0.01, max_iter=40, search_passes=0, random_state=0).fit(counts)
    if not matched[1:].all(axis=1).any():
        np.testing.assert_array_equal(model.transform(counts[:5]), first.transform(counts[:5]))
    np.testing.assert_allclose(model.components_.sum(axis=1), 1, rtol=1e-6)


def test_a_stream_says_that_nothing_is_measured(counts):
    model = sc.LDA(4, random_state=0).partial_fit(counts[:50])
    assert "not measured" in str(model.summary(2))


def test_chains_on_disk_that_recorded_nothing_are_no_draws(counts, tmp_path, monkeypatch, ticking):
    from scirocco.models.lda.engine import TopicEngine

    ticking(0.001)
    record = TopicEngine._record
    monkeypatch.setattr(TopicEngine, "_record", lambda self, s: record(self, s) if self.chains.start != 1 else None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sc.LDA(4, n_chains=3, max_seconds=1.5, max_iter=10**6, n_jobs=1, random_state=0).fit(
            counts, path=tmp_path / "run"
        )
    assert model.posterior_.sizes["chain"] == model.agreement_.chains == 2
    np.testing.assert_allclose(model.posterior_["topics"].sum("word"), 1, rtol=1e-4)
