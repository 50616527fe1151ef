"""How many topics: candidates under one budget."""

import signal

import numpy as np
import pytest

import scirocco as sc
from scirocco.models.lda import topic_choice

TOPICS = np.kron(np.eye(5), np.full(8, 1 / 8)) * 0.97 + 0.03 / 40


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(0)
    eta = rng.dirichlet(np.full(5, 0.2), 400)
    return np.array([rng.multinomial(60, e @ TOPICS) for e in eta])


def test_the_number_that_made_the_data_is_found(counts, ticking):
    ticking(2e-4)
    choice = sc.choose_topics(counts, [2, 5, 30, 5], max_seconds=6.0, random_state=0, alpha=0.2, n_jobs=1)
    assert choice.recommended == 5
    assert list(choice.table.index) == [2, 5, 30]
    assert choice.table.loc[5, "reproduced"] == 1
    assert choice.table.loc[2, "difference"] > 4 * choice.table.loc[2, "difference_error"]
    assert choice.table["seconds"].sum() == pytest.approx(6, rel=0.01)  # a fit ends at the look after its time
    assert "5 topics" in str(choice)
    assert choice.models[5].components_.shape == (5, 40)
    unigram = choice.models[5].unigram_perplexity(counts[:100])
    assert choice.table.loc[5, "perplexity"] < 0.6 * unigram


def test_workers_fit_the_candidates(counts, sending, ticking):
    ticking(5e-5)
    with type(sending)(1) as one:  # two would look at the same clock
        choice = sc.choose_topics(counts[:60], [1, 2], max_seconds=0.6, random_state=0, n_jobs=1, executor=one)
    assert list(choice.table.index) == [1, 2]
    assert [len(model.components_) for model in choice.models.values()] == [1, 2]
    assert choice.models[2].transform(counts[60:70]).shape == (10, 2)


def test_the_picture_has_what_the_table_has(counts, ticking):
    import matplotlib as mpl

    mpl.use("Agg")
    ticking(5e-5)
    choice = sc.choose_topics(counts[:60], [1, 2], max_seconds=0.6, random_state=0, n_jobs=1)
    ax = choice.plot()
    assert ax.get_xlabel() == "topics"
    np.testing.assert_allclose(np.asarray(ax.lines[0].get_ydata(), float), choice.table["perplexity"])
    assert f"recommended: {choice.recommended}" in [text.get_text() for text in ax.get_legend().get_texts()]
    mpl.pyplot.close(ax.figure)


@pytest.mark.parametrize("fits", [1, 3])
def test_ctrl_c_ends_the_comparison(counts, fits, ticking, monkeypatch):
    """In the first fit or the last: none that was cut short is compared."""
    fitted, calls, scored = topic_choice._fitted, [], []

    def pressing(*given):
        calls.append(1)
        if len(calls) == fits:
            signal.raise_signal(signal.SIGINT)
        return fitted(*given)

    def scores(*given, **named):
        scored.append(1)
        return completion_scores(*given, **named)

    completion_scores = topic_choice.completion_scores
    monkeypatch.setattr(topic_choice, "_fitted", pressing)
    monkeypatch.setattr(topic_choice, "completion_scores", scores)
    ticking(5e-5)
    with (
        pytest.warns(UserWarning, match="fit was interrupted|before the sampler began"),
        pytest.raises(KeyboardInterrupt),
    ):
        sc.choose_topics(counts[:60], [1, 2, 3], max_seconds=0.6, random_state=0, n_jobs=1)
    assert len(calls) == fits
    assert len(scored) == 2 * (fits - 1)  # by each chain
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("candidates", "settings", "words"),
    [
        ([], {}, "candidates is empty"),
        ([0], {}, "candidates must be a whole number"),
        ([500], {}, "must not exceed the number of documents fitted, 360"),
        ([2], {"n_chains": 1}, "n_chains must be"),
        ([2], {"max_iter": 5}, "max_iter are chosen here"),
        ([2], {"max_seconds": 0}, "max_seconds must be"),
    ],
)
def test_requests_that_make_no_sense(counts, candidates, settings, words):
    with pytest.raises((ValueError, TypeError), match=words):
        sc.choose_topics(counts, candidates, **settings)


def test_more_topics_than_documents(counts):
    with pytest.raises(ValueError, match="n_topics must not exceed the number of documents, n_samples=5"):
        sc.LDA(6).fit(counts[:5])


@pytest.mark.parametrize("seed", range(3))
def test_short_documents_and_names(seed, ticking):
    import pandas as pd

    words = ["wind", "sand", "sun", "sea"]
    table = pd.DataFrame(np.random.default_rng(seed).poisson(1.0, (24, 4)), columns=words)
    ticking(5e-5)
    choice = sc.choose_topics(table, [1, 2], max_seconds=0.3, random_state=seed, n_jobs=1)
    assert np.all(np.isfinite(choice.table["perplexity"]))
    assert choice.models[2].top_words(1)["word"][0] in words
    assert choice.models[2].max_iter is None
