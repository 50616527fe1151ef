"""The LDA estimator: conformance, planted topics, evaluation, saving, and wrong input."""

import signal

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import beta as beta_law
from sklearn.utils.estimator_checks import parametrize_with_checks

import scirocco as sc
from scirocco.models.lda.agreement import align
from scirocco.run.second_half import SecondHalf


@pytest.fixture(scope="module")
def planted():
    rng = np.random.default_rng(0)
    topics, weights = rng.dirichlet(np.full(60, 0.1), 4), rng.dirichlet(np.full(4, 0.2), 320)
    counts = np.array([rng.multinomial(80, w @ topics) for w in weights])
    return topics, weights, counts


@pytest.fixture(scope="module")
def fitted(planted):
    return sc.LDA(4, alpha=0.2, beta=0.1, max_iter=60, n_chains=2, random_state=0).fit(planted[2][:260])


@pytest.mark.filterwarnings("ignore:counts must be whole numbers")
@parametrize_with_checks([sc.LDA(3, max_iter=4, random_state=0)])
def test_conforms_to_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("sampler", ["gibbs", "collapsed"])
def test_planted_topics_are_found(planted, sampler):
    topics, weights, counts = planted
    model = sc.LDA(4, alpha=0.2, beta=0.1, sampler=sampler, max_iter=60, random_state=1).fit(
        sp.csr_matrix(counts[:260])
    )
    order = align(topics, model.components_)
    assert np.abs(model.components_[order] - topics).sum(axis=1).mean() < 0.12
    found = model.transform(counts[260:])[:, order]
    assert np.abs(found - weights[260:]).mean() < 0.05
    np.testing.assert_allclose(model.components_.sum(axis=1), 1)
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_intervals_cover_the_truth(planted, fitted):
    topics, _, _ = planted
    order = align(fitted.components_, topics)
    draws = fitted.posterior_["topics"].values.reshape(-1, 4, 60)
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    inside = (topics[order] >= low) & (topics[order] <= high)
    assert 0.7 < inside[fitted.components_ > 0.005].mean() < 0.99


def test_intervals_of_words_have_their_coverage():
    # One topic: its law is the Dirichlet distribution, whatever the assignments.
    rng = np.random.default_rng(0)
    counts = rng.poisson(rng.gamma(1.0, 0.5, 40), (50, 40))
    model = sc.LDA(1, beta=0.5, max_iter=60, random_state=0).fit(counts)
    parameter = 0.5 + counts.sum(axis=0)
    listed = model.top_words(40, level=0.9)
    law = beta_law(parameter[listed["word"]], parameter.sum() - parameter[listed["word"]])
    covered = law.cdf(listed["upper"]) - law.cdf(listed["lower"])
    assert covered.mean() == pytest.approx(0.9, abs=0.05)
    narrow = model.top_words(40, level=0.5)
    assert np.all(narrow["upper"] - narrow["lower"] < listed["upper"] - listed["lower"])


def test_chains_are_aligned(fitted):
    draws = fitted.posterior_["topics"]
    assert draws.dims == ("chain", "draw", "topic", "word")
    assert not np.array_equal(draws[0], draws[1])
    assert draws.shape[:2] == (2, 23)  # as many as there are records in the second half
    first, second = draws.mean("draw").values
    assert np.array_equal(align(first, second), np.arange(4))
    assert np.abs(first - second).sum(axis=1).max() < 0.3


def test_perplexity(planted, fitted):
    topics, _, counts = planted
    held = counts[260:]
    found, plain = fitted.perplexity(held), fitted.unigram_perplexity(held)
    # The planted topics themselves, with inferred weights, are the limit.
    from scirocco.corpora.documents import Documents
    from scirocco.models.lda.evaluation import completion_perplexity

    seen = planted[2][:260].sum(axis=0) + 0.01
    hidden = Documents.of(held).split(0.1, 0)[1]
    logs = np.log(seen / seen.sum())[hidden.words]
    assert plain == pytest.approx(np.exp(-(hidden.numbers @ logs) / hidden.numbers.sum()))
    limit = completion_perplexity(topics[None], np.full(4, 0.2), Documents.of(held))
    assert limit * 0.99 < found < limit * 1.06
    assert plain > 1.4 * found
    assert fitted.score(held) == pytest.approx(-np.log(found))
    sequential = fitted.perplexity(held, method="left_to_right")
    assert found * 0.95 < sequential < plain


def test_left_to_right_is_unbiased_on_a_document_that_can_be_summed():
    from scirocco.corpora.documents import Documents
    from scirocco.models.lda.evaluation import left_to_right_scores, perplexity

    topics, alpha = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]), np.array([0.5, 1.5])
    words = [0, 2, 2]
    total = 0.0
    for z in np.ndindex(2, 2, 2):
        near, chance = alpha.copy(), 1.0
        for w, k in zip(words, z, strict=True):
            chance *= near[k] / near.sum() * topics[k, w]
            near[k] += 1
        total += chance
    found = perplexity(*left_to_right_scores(topics, alpha, Documents.of(np.array([[1, 0, 2]])), particles=40_000))
    assert found == pytest.approx(total ** (-1 / 3), rel=0.01)


def test_coherence_and_top_words(planted, fitted):
    counts = planted[2]
    scores = fitted.coherence(counts, 5)
    for score, topic in zip(scores, fitted.components_, strict=True):  # pair by pair
        present = counts[:, np.argsort(-topic)[:5]] > 0
        pairs = []
        for i in range(5):
            for j in range(i):
                both = np.mean(present[:, i] & present[:, j])
                mutual = np.log(both / (present[:, i].mean() * present[:, j].mean())) if both else 0.0
                pairs.append(mutual / -np.log(both) if both else -1.0)
        assert score == pytest.approx(np.mean(pairs))
    names = [f"w{i}" for i in range(60)]
    table = fitted.top_words(5, names)
    assert list(table) == ["topic", "word", "mean", "lower", "upper"]
    for k, topic in enumerate(fitted.components_):
        assert list(table["word"][table["topic"] == k]) == [names[i] for i in np.argsort(-topic, kind="stable")[:5]]
    assert np.all((table["lower"] < table["mean"]) & (table["mean"] < table["upper"]))


@pytest.mark.quick
@pytest.mark.filterwarnings("ignore:there is one draw")
def test_names_of_columns_are_used(planted):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(planted[2][:40], columns=[f"w{i}" for i in range(60)])
    model = sc.LDA(2, max_iter=4, random_state=0).fit(frame)
    assert model.top_words(1)["word"][0].startswith("w")
    assert list(model.get_feature_names_out()) == ["lda0", "lda1"]


@pytest.mark.quick
def test_save_and_load(tmp_path, planted, fitted):
    fitted.save(tmp_path / "model.npz")
    loaded = sc.LDA.load(tmp_path / "model.npz")
    counts = planted[2][:10]
    np.testing.assert_array_equal(loaded.transform(counts), fitted.transform(counts))
    assert loaded.get_params() == fitted.get_params()
    assert loaded.posterior_.identical(fitted.posterior_)
    np.testing.assert_array_equal(loaded.inflation_, fitted.inflation_)
    assert (loaded.sampler_, loaded.seconds_) == ("collapsed", fitted.seconds_)
    whole = (tmp_path / "model.npz").read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 255
    np.save(tmp_path / "array.npy", np.ones(3))
    for damaged in (b"nonsense", whole[:1000], bytes(flipped), (tmp_path / "array.npy").read_bytes()):
        (tmp_path / "bad.npz").write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged or not a saved LDA model"):
            sc.LDA.load(tmp_path / "bad.npz")
    with pytest.raises(FileNotFoundError):
        sc.LDA.load(tmp_path / "none.npz")


@pytest.mark.filterwarnings("ignore:there is one draw")
def test_all_settings_are_saved(tmp_path, planted):
    settings = {"alpha": [0.1, 0.2, 0.3], "sampler": sc.SCIR(sc.Decreasing(0.1)), "random_state": np.int64(5)}
    model = sc.LDA(np.int64(3), max_iter=3, **settings).fit(planted[2])
    model.vocabulary_ = np.array([f"<b>{i}" for i in range(60)], dtype=object)
    model.save(tmp_path / "model.npz")
    loaded = sc.LDA.load(tmp_path / "model.npz")
    assert loaded.n_topics == 3
    assert loaded.sampler == settings["sampler"]
    np.testing.assert_array_equal(loaded.transform(planted[2][:9]), model.transform(planted[2][:9]))
    assert loaded.top_words(2).equals(model.top_words(2))
    with pytest.raises(ValueError, match="sampler cannot be written"):
        sc.LDA(2, sampler=sc.SCIR(lambda t: 0.1), max_iter=2, random_state=0).fit(planted[2]).save(tmp_path / "x.npz")


def test_the_matrix_is_left_alone():
    stored = sp.csr_matrix((np.array([1, 0, 2, 0, 3]), np.array([2, 0, 1, 1, 2]), np.array([0, 3, 5])), shape=(2, 3))
    before = [a.copy() for a in (stored.data, stored.indices, stored.indptr)]
    model = sc.LDA(2, max_iter=3, random_state=0).fit(stored)
    for old, new in zip(before, (stored.data, stored.indices, stored.indptr), strict=True):
        np.testing.assert_array_equal(old, new)
    np.testing.assert_array_equal(model.word_counts_, [0, 2, 4])
    twice = sp.csr_matrix((np.array([200, 100], np.uint8), np.array([0, 0]), np.array([0, 2])), shape=(1, 2))
    assert sc.LDA(1, max_iter=3, random_state=0).fit(twice).word_counts_[0] == 300


def test_an_interrupted_fit_keeps_the_chains_that_ran(planted, monkeypatch, ticking):
    from scirocco.models.lda.gibbs import KeptGibbs

    step, calls = KeptGibbs.step, []

    def interrupting(chain):
        calls.append(1)
        if len(calls) == 4000:  # all chains have found their start
            signal.raise_signal(signal.SIGINT)
        step(chain)

    monkeypatch.setattr(KeptGibbs, "step", interrupting)
    ticking(0.5)
    with pytest.warns(UserWarning, match="fit was interrupted"):
        model = sc.LDA(4, alpha=0.2, beta=0.1, max_iter=10**6, n_chains=3, n_jobs=1, random_state=0).fit(planted[2])
    assert 4000 <= len(calls) < 4010  # the chunk, of half a second at most, is finished
    assert model.posterior_.sizes["chain"] == len({int(c) for c in model.posterior_["chain"]})
    assert model.trace_.stopped.kind == "interrupted"
    assert model.perplexity(planted[2][:50]) < 0.7 * model.unigram_perplexity(planted[2][:50])


def test_a_search_that_takes_all_passes_is_followed_by_one_of_the_sampler(planted):
    model = sc.LDA(3, max_iter=1, random_state=0).fit(planted[2])  # would warn otherwise
    assert model.n_iter_ > 1


def test_streams_say_what_they_cannot_do(planted):
    counts = planted[2][:20]
    for settings, words in [
        ({"sampler": "gibbs"}, "keeps all documents"),
        ({"n_chains": 2}, "one chain with fixed priors"),
        ({"learn_alpha": True}, "one chain with fixed priors"),
        ({"sampler": sc.SCIRCV(0.1)}, "recentre_every"),
    ]:
        with pytest.raises(ValueError, match=words):
            sc.LDA(3, **settings).partial_fit(counts)
    model = sc.LDA(3, random_state=0).partial_fit(counts)
    with pytest.raises(ValueError, match="cannot change within a stream"):
        model.set_params(alpha=0.5).partial_fit(counts)


def test_a_stream_goes_on_from_a_fit(planted, tmp_path):
    model = sc.LDA(4, alpha=0.2, beta=0.1, max_iter=30, random_state=0).fit(planted[2][:200])
    held = planted[2][260:]
    before = model.perplexity(held)
    model.save(tmp_path / "model.npz")
    for again in (model, sc.LDA.load(tmp_path / "model.npz")):
        again.partial_fit(planted[2][200:260])
        assert again.documents_seen_ == 260
        assert again.perplexity(held) < 1.1 * before


def test_a_stated_length_is_kept(planted):
    # Total weight is that of the tokens, however often they come.
    model = sc.LDA(3, sampler=sc.SCIR(0.5), total_documents=320, random_state=0)
    for _ in range(4):
        for first in range(0, 320, 64):
            model.partial_fit(planted[2][first : first + 64])
    assert model._stream.chain.weights.totals.sum() == pytest.approx(planted[2].sum(), rel=0.05)
    assert model.n_iter_ == 4


def test_partial_fit_follows_a_stream(planted):
    topics, _, counts = planted
    model = sc.LDA(4, alpha=0.2, beta=0.1, sampler=sc.SCIR(0.1), total_documents=260, random_state=1)
    for _ in range(15):
        for start in range(0, 260, 65):
            model.partial_fit(counts[start : start + 65])
    order = align(topics, model.components_)
    assert np.abs(model.components_[order] - topics).sum(axis=1).mean() < 0.35  # a start at random: about 1.5
    assert model.perplexity(counts[260:]) < 0.63 * model.unigram_perplexity(counts[260:])  # exact sampling: 0.56


def test_a_centre_is_renewed_in_a_stream(planted):
    model = sc.LDA(4, sampler=sc.SCIRCV(0.1, recentre_every=2), total_documents=260, random_state=1)
    centres = []
    for start in range(0, 240, 40):
        model.partial_fit(planted[2][start : start + 40])
        centres.append(model._stream.chain.memory["centre"].copy())
    assert np.array_equal(centres[0], centres[1])
    assert not np.array_equal(centres[1], centres[2])


def test_weights_that_explode_are_named(planted):
    model = sc.LDA(4, sampler=sc.SCIRCV(50.0, choose="always", recentre_every=1, centre_batch=30), batch_size=5)
    with pytest.raises(sc.DivergenceError, match="no longer finite") as caught:
        model.fit(planted[2])
    assert np.all(np.isfinite(caught.value.trace.posterior["topics"]))


def test_a_time_budget_stops_fit_with_what_it_has(planted, ticking):
    ticking(0.001)
    model = sc.LDA(4, max_iter=10**6, max_seconds=1.0, n_jobs=1, random_state=0).fit(planted[2])
    assert model.seconds_ < 1.1
    assert 10 < model.n_iter_ < 1000  # one look at a step, at the least
    assert model.perplexity(planted[2][:20]) > 1
    with pytest.warns(UserWarning, match="before the sampler began"):
        at_once = sc.LDA(4, max_seconds=1e-6, random_state=0).fit(planted[2])
    assert at_once.trace_.stopped.kind == "budget"
    np.testing.assert_allclose(at_once.components_.sum(axis=1), 1, rtol=1e-5)


def test_documents_without_words_are_kept(planted):
    counts = planted[2][:50].copy()
    counts[3] = 0
    model = sc.LDA(3, alpha=[0.1, 0.2, 0.7], max_iter=10, random_state=0).fit(counts)
    np.testing.assert_allclose(model.transform(counts)[3], [0.1, 0.2, 0.7])


def test_priors_are_learnt():
    rng = np.random.default_rng(2)
    alpha, beta = np.array([0.1, 0.4, 1.2]), 0.15
    topics = rng.dirichlet(np.full(50, beta), 3)
    counts = np.array([rng.multinomial(60, rng.dirichlet(alpha) @ topics) for _ in range(600)])
    model = sc.LDA(3, alpha=0.5, beta=0.5, learn_alpha=True, learn_beta=True, max_iter=80, random_state=0).fit(counts)
    order = align(topics, model.components_)
    np.testing.assert_allclose(model.alpha_[order], alpha, rtol=0.2)  # of 600 documents the sd is 5 to 10 %
    np.testing.assert_allclose(model.beta_, beta, rtol=0.15)
    fixed = sc.LDA(3, alpha=0.5, beta=0.5, max_iter=5, random_state=0).fit(counts)
    np.testing.assert_allclose(fixed.alpha_, 0.5)
    with pytest.raises(ValueError, match="need kept assignments"):
        sc.LDA(3, sampler="scir", learn_alpha=True, max_iter=2).fit(counts)


def test_recorder_keeps_the_second_half_at_equal_intervals():
    recorder = SecondHalf(5)
    for t in range(1, 401):
        mean, draw = {"x": np.array([t / 400, 1 - t / 400])}, {"x": np.array([float(t)])}
        recorder.add(mean, draw if recorder.due else None)
        draws = recorder.draws()["x"][0, :, 0]
        assert len(draws) == min(5, (t + 1) // 2)
        assert draws[0] > t // 2
        assert np.diff(draws).max(initial=0) <= 2 * recorder.interval
        assert len(recorder.kept) < 10
        if t == 137:
            again = SecondHalf(5)
            again.unpack(recorder.pack())
            recorder = again  # as after a checkpoint
    assert recorder.mean()["x"] == pytest.approx([0.75, 0.25], abs=0.03)


@pytest.mark.parametrize(
    ("settings", "data", "words"),
    [
        ({"n_topics": 0}, None, "n_topics must be a whole number of at least 1"),
        ({"alpha": 0.0}, None, "alpha must be finite and greater than 0"),
        ({"alpha": [0.1, 0.2]}, None, "alpha must be a number or 3"),
        ({"beta": [0.1]}, None, "beta must be a number, 5 of them, one for each word"),
        ({"sampler": "vb"}, None, "sampler must be one of"),
        ({"sampler": 3}, None, "sampler must be one of"),
        ({"skip_sweeps": 20}, None, "skip_sweeps must be below sweeps"),
        ({"max_seconds": -1.0}, None, "max_seconds must be"),
        ({"batch_size": 0}, None, "batch_size must be"),
        ({"search_passes": -1}, None, "search_passes must be finite and at least 0"),
        ({"n_jobs": 0}, None, "n_jobs must be"),
        ({"learn_beta": True, "beta": [0.1] * 5}, None, "learn_beta learns one number"),
        ({"sampler": sc.simplex.Exact()}, None, "sampler must be one of"),
        ({"sampler": "sgld_cv", "estimator": "saga"}, None, "has its own estimator"),
        ({}, np.array([[1, -1, 0, 0, 0]]), "counts must be 0 or more; got -1 in document 0"),
        ({}, np.zeros((4, 5), int), "the corpus has no words"),
    ],
)
def test_bad_input(settings, data, words):
    counts = np.random.default_rng(0).poisson(1.0, (6, 5)) if data is None else data
    with pytest.raises((ValueError, TypeError), match=words):
        sc.LDA(**({"n_topics": 3, "max_iter": 2} | settings)).fit(counts)


def test_bad_requests(planted, fitted):
    counts = planted[2][:5]
    for call, words in [
        (lambda: fitted.perplexity(counts, method="guess"), "method must be one of"),
        (lambda: fitted.perplexity(counts, held_out=1.0), "held_out must lie strictly"),
        (lambda: fitted.perplexity(np.zeros((2, 60), int)), "no words"),
        (lambda: fitted.top_words(0), "n_words must be"),
        (lambda: fitted.coherence(counts, 1), "n_words must be"),
        (lambda: fitted.perplexity(counts, max_draws=0), "max_draws must be"),
        (lambda: fitted.top_words(3, ["a"]), "vocabulary must name all 60"),
        (lambda: fitted.transform(counts[:, :7]), "features"),
    ]:
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.warns(UserWarning, match="fractional ones"):
        sc.LDA(2, max_iter=2, random_state=0).fit(counts + 0.5)


def test_a_stream_shorter_than_its_minibatch_is_refused():
    with pytest.raises(ValueError, match="total_documents is 3, but this minibatch alone has 5"):
        sc.LDA(2, total_documents=3, random_state=0).partial_fit(np.eye(5, dtype=int))


@pytest.mark.parametrize("texts", ["the wind", ["the wind", "the sand"], np.array(["the wind"])])
def test_text_is_refused_with_a_way_out(texts):
    with pytest.raises(TypeError, match=r"CountVectorizer.*corpus_from_text"):
        sc.LDA(2).fit(texts)
