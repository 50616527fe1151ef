"""The experiment with topics on the sphere in its short mode, as in ``test_experiments.py``, and its pieces."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from experiments_support import holds
from scipy.special import logsumexp

pytest.importorskip("matplotlib", reason="the experiments need scirocco[experiments]")


@pytest.mark.slow
def test_topics_on_the_sphere_are_learned_against_the_clock(play, ticking):
    ticking(0.001)
    module, found, claims = play("spherical_topics")
    (curves,) = found.curves.values()
    assert len(claims) == 7
    assert set(curves) == set(module.METHODS)
    for method, curve in curves.items():
        assert curve.values.shape == (1, len(module.FRACTIONS))
        assert np.isnan(curve.share[0]) != (method in (*module.GMC, *module.POINTS))
    for method in (*module.OURS, "StoVI"):
        assert curves[method].end.max() < found.yardstick["synthetic"]
    assert not holds(claims, "synthetic: beyond the source: V")  # where noise is small V = 0 does little harm


def test_words_of_moderate_document_frequency_stay(load, monkeypatch):
    module = load("spherical_topics")
    counts = sp.csr_array(np.array([[5, 1, 0, 0, 1], [1, 1, 0, 1, 0], [1, 0, 2, 1, 0], [3, 0, 0, 1, 0]]))
    assert module.moderate(counts, 25, 75).tolist() == [1, 2, 3, 4]  # in 4, 2, 1, 3 and 1 documents of 4
    assert module.moderate(counts, 50, 100).tolist() == [0, 1, 3]
    assert module.moderate(counts, 25, 75, 3).tolist() == [1, 2, 3]  # of equal ones the first
    monkeypatch.setenv("SCIROCCO_DATA", "nowhere")
    for corpus, name in ((module.newsgroups, "newsgroups20"), (module.wikipedia, "wikipedia")):
        with pytest.raises(SystemExit, match=rf"SCIROCCO_DATA .* {name}\.npz"):
            corpus(10)


def test_corpora_are_divided_and_reduced_as_the_source_says(load, monkeypatch, tmp_path):
    module = load("spherical_topics")
    rng = np.random.default_rng(0)
    frequency = np.linspace(0.001, 0.2, 60)

    def store(name, rows, **more):
        counts = sp.csr_array((rng.uniform(size=(rows, 60)) < frequency).astype(np.uint16) * 9)
        np.savez(tmp_path / f"{name}.npz", data=counts.data, indices=counts.indices, indptr=counts.indptr,
                 shape=counts.shape, **more)  # fmt: skip
        return counts.toarray().astype(int)

    monkeypatch.setenv("SCIROCCO_DATA", str(tmp_path))
    label, test = rng.integers(20, size=4000), rng.uniform(size=4000) < 0.4
    counts = store("newsgroups20", 4000, label=label, test=test.astype(np.uint8))
    mine = np.isin(label, (0, 9, 14))
    share = (counts[mine] > 0).mean(axis=0)
    kept = (share >= 0.0036) & (share <= 0.1177)
    left = counts[:, kept].sum(axis=1) > 0
    corpus = module.newsgroups(0)
    assert corpus.train.shape == ((mine & ~test & left).sum(), kept.sum())
    assert corpus.test.shape == ((mine & test & left).sum(), kept.sum())
    np.testing.assert_allclose(np.linalg.norm(corpus.train, axis=1), 1, atol=1e-5)
    assert (corpus.batch, corpus.topics) == (50, 20)

    counts = store("wikipedia", 3000)
    share = (counts[:2000] > 0).mean(axis=0)
    kept = (share >= 0.0044) & (share <= 0.0599)
    long = counts[:, kept].sum(axis=1) > 20
    corpus = module.wikipedia(30)
    assert long[:2000].sum() > 30
    assert corpus.train.shape == (30, kept.sum())
    assert corpus.test.shape == (long[2000:].sum(), kept.sum())
    first = counts[:2000][long[:2000]][0, kept]
    assert np.array_equal(corpus.train[0] > 0, first > 0)


def test_the_curve_is_that_of_the_later_half_of_the_draws(load):
    module = load("spherical_topics")
    rng = np.random.default_rng(0)
    values, times = rng.normal(size=(8, 5)), np.arange(1.0, 9.0)

    def of(*draws):
        return -np.mean(logsumexp(values[list(draws)], axis=0) - np.log(len(draws)))

    found = module.averaged(values, times, np.array([0.5, 1.0, 4.0, 8.0, 40.0]))
    np.testing.assert_allclose(found, [np.nan, of(0), of(2, 3), of(4, 5, 6, 7), of(7)])


def test_draws_are_scored_by_the_model_itself(load):
    module = load("spherical_topics")
    corpus = module.synthetic(0, size=80, words=10, topics=3)
    model = module.model_of(corpus, "StoVI", 0, n_draws=2, thin=1).fit(corpus.train)
    draws = np.random.default_rng(0).normal(size=(4, 3, 10)).astype(np.float32)
    draws /= np.linalg.norm(draws, axis=-1, keepdims=True)
    found = module.scores(model, draws, corpus.test)
    assert found.shape == (4, 20)
    model.posterior_ = model.posterior_.drop_vars("topics").assign(
        topics=(("chain", "draw", "topic", "word"), draws[None])
    )
    value = module.averaged(found, np.arange(5.0, 9.0), np.array([8.0]))
    np.testing.assert_allclose(
        value, model.log_perplexity(corpus.test, n_shares=module.SHARES, random_state=0), rtol=1e-5
    )


def test_claims_compare_seeds_and_a_method_without_draws_is_worst(load):
    module = load("spherical_topics")
    marks = np.array([1.0, 2.0])

    def curve(*ends):
        return module.Curve(marks, np.array([[np.nan, end] for end in ends]), [1] * len(ends), [np.nan] * len(ends))

    levels = {"gSGNHT": 1.0, "SGGMC": 2.0, "gSGNHT, all data": 3.0, "SGGMC, all data": 4.0, "GMC, Gibbs": 5.0,
              "GMC, approximate": np.nan, "VI": 7.0, "StoVI": 8.0, module.SOURCE: 20.0}  # fmt: skip
    levels |= dict.fromkeys(module.SEARCHED, 6.0)
    curves = {method: curve(level, level + 0.5) for method, level in levels.items()}
    size = (10, 10, 5, 2)

    def claims(curves):
        return module.check(module.Results({"newsgroups": curves}, {"newsgroups": 10.0}, {"newsgroups": size}))

    made = claims(curves)
    assert not holds(made, "newsgroups: sampling beats variational")  # GMC, approximate has no draw
    for words in ("gSGNHT beats SGGMC", "small batches beat", "gSGNHT and SGGMC beat", "even on all",
                  "beyond the source: V", "beyond the source: from a start"):  # fmt: skip
        assert holds(made, f"newsgroups: {words}")
    made = claims(curves | {"SGGMC": curve(2.0, 1.2), "GMC, approximate": curve(6.0, 6.5)})
    assert holds(made, "newsgroups: sampling beats variational")
    assert not holds(made, "newsgroups: gSGNHT beats SGGMC")
    made = claims(curves | {module.SEARCHED[0]: curve(6.0, 7.6)})
    assert not holds(made, "newsgroups: beyond the source: from a start")
