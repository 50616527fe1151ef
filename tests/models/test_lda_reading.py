"""What is read off a fitted LDA: words, labels, merged and seeded topics, documents, groups, trees, quality."""

import numpy as np
import pandas as pd
import pytest
from scipy.cluster import hierarchy

import scirocco as sc
from scirocco.models.lda import collapsed
from scirocco.models.lda.agreement import align
from scirocco.models.lda.coherence import coherence
from scirocco.models.lda.hierarchy import tree_of
from scirocco.models.lda.words import sizes

NAMES = [f"w{i}" for i in range(45)]
TOPICS = np.kron(np.eye(3), np.full(15, 1 / 15)) * 0.97 + 0.03 / 45


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    eta = rng.dirichlet(np.full(3, 0.3), 240)
    counts = np.array([rng.multinomial(60, e @ TOPICS) for e in eta])
    return pd.DataFrame(counts, columns=NAMES, index=[f"d{i}" for i in range(240)]), eta


@pytest.fixture(scope="module")
def fitted(data):
    return sc.LDA(3, alpha=0.3, max_iter=120, n_chains=2, random_state=0).fit(data[0])


@pytest.fixture
def labelled(fitted, tmp_path):
    """A copy, so that labels do not stay."""
    fitted.save(tmp_path / "copy.npz")
    return sc.LDA.load(tmp_path / "copy.npz").label_topics({1: "winds", 2: "<b>seas"})


def test_one_quantity_has_one_value(fitted):
    table, summary = fitted.top_words(4), fitted.summary(4)
    np.testing.assert_array_equal(table["mean"], summary.table["mean"])
    np.testing.assert_allclose(table["mean"], fitted.components_[table["topic"], table["word"].str[1:].astype(int)])


@pytest.mark.quick
def test_what_few_draws_say_nothing_of_is_not_shown(data, fitted):
    few = sc.LDA(3, max_iter=40, n_draws=5, random_state=0).fit(data[0]).summary(2)
    assert list(few.table) == ["mean", "sd", "chains"]
    assert "of fewer than 100 draws ESS and R-hat say nothing" in str(few)
    draws = fitted.posterior_.sizes
    assert ("r_hat" in fitted.summary(2).table) == (draws["chain"] * draws["draw"] >= 100)
    many = sc.LDA(3, max_iter=400, random_state=0).fit(data[0][:60])
    assert many.posterior_.sizes["draw"] == 100
    assert many.summary(2).table["r_hat"].between(0.95, 1.3).all()


def test_one_draw_has_no_interval(data):
    model = sc.LDA(3, random_state=0).partial_fit(data[0][:50])
    with pytest.warns(UserWarning, match="one draw of the topics so far"):
        table = model.top_words(3)
    assert table[["lower", "upper"]].isna().all(axis=None)
    assert "sd" not in model.summary(3).table
    for first in (50, 100, 150):  # of the second half of which there are two
        model.partial_fit(data[0][first : first + 50])
    assert model.top_words(3)["lower"].notna().all()


def test_the_number_of_draws_follows_their_size():
    assert sc.LDA(10)._kept_draws(1000) == 100
    assert sc.LDA(50)._kept_draws(20_000) == 33
    assert sc.LDA(50, n_chains=4)._kept_draws(20_000) == 20
    assert sc.LDA(50, n_draws=7)._kept_draws(20_000) == 7


def test_sizes_are_the_shares_of_the_tokens(data, fitted):
    info = fitted.topic_info(5)
    assert info["share"].sum() == pytest.approx(1)
    topics = fitted._assigned.in_order().topics[0]
    np.testing.assert_allclose(info["share"], np.bincount(topics, minlength=3) / topics.size, atol=0.02)
    assert all(len(words.split()) == 5 for words in info["words"])
    assert (info["lower"] < info["share"]).all()
    np.testing.assert_allclose(sizes(TOPICS[None], 10.0 * TOPICS[1] + 30 * TOPICS[2])[0], [0, 0.25, 0.75], atol=1e-9)


def test_labels_are_shown_and_saved(labelled, data, tmp_path):
    frame, _ = data
    labelled.save(tmp_path / "m.npz")
    loaded = sc.LDA.load(tmp_path / "m.npz")
    assert loaded.labels_ == ["", "winds", "<b>seas"]
    assert list(loaded.top_words(2)["label"]) == ["", "", "winds", "winds", "<b>seas", "<b>seas"]
    assert loaded.topic_info()["label"][1] == "winds"
    assert loaded.summary(1).table.index[1].startswith("topic 1 winds: w")
    assert "1 winds" in loaded.hierarchy().names
    assert "winds" in set(loaded.representative_documents(frame[:20], 1)["label"])
    assert "1 winds" in str(loaded.shares_by(frame[:20], np.arange(20) % 2, n_draws=4))
    assert "winds" in set(loaded.effects(frame[:20], np.arange(20.0), n_draws=4).table()["label"])
    assert loaded.label_topics(["a", "", "c"]).labels_ == ["a", "", "c"]
    assert loaded.fit(frame[:40]).labels_ == ["", "", ""]


def test_two_halves_of_a_topic_merge_to_its_law():
    """Documents of one topic, fitted with two: together they have the Dirichlet law of one."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(rng.gamma(1.0, 0.5, 40), (150, 40))
    two = sc.LDA(2, alpha=1.0, beta=0.25, max_iter=500, random_state=0).fit(counts)
    one = two.merge([[0, 1]])
    parameter = 0.5 + counts.sum(axis=0)
    mean = parameter / parameter.sum()
    sd = np.sqrt(mean * (1 - mean) / (parameter.sum() + 1))
    draws = one.posterior_["topics"].values[0, :, 0]
    assert np.all(np.abs(one.components_[0] - mean) < 5 * sd / np.sqrt(len(draws)))
    assert np.median(draws.std(axis=0) / sd) == pytest.approx(1, abs=0.1)  # 40 sds of 100 draws
    assert one.alpha_ == pytest.approx([2.0])
    assert two.components_.shape == (2, 40)  # as it was


def test_merged_topics_agree_with_their_draws_and_go_on(fitted, data, tmp_path):
    frame, _ = data
    fitted.label_topics(["a", "b", ""])
    merged = fitted.merge([[2, 0]])
    fitted.label_topics(["", "", ""])
    assert (merged.labels_, merged.merged_, merged.n_topics) == (["a", "b"], [[0, 2], [1]], 2)
    np.testing.assert_array_equal(merged.components_[1], fitted.components_[1])
    np.testing.assert_allclose(merged.components_[0], merged.posterior_["topics"].mean(("chain", "draw"))[0], atol=1e-6)
    assert merged.agreement_.reproduced.all()
    before, after = fitted.transform(frame[:30]), merged.transform(frame[:30])
    np.testing.assert_allclose(after[:, 0], before[:, 0] + before[:, 2], atol=0.08)
    merged.save(tmp_path / "m.npz")
    loaded = sc.LDA.load(tmp_path / "m.npz")
    assert (loaded.labels_, loaded.merged_) == (merged.labels_, merged.merged_)
    assert loaded.top_words(3).equals(merged.top_words(3))
    grown = loaded.update(frame[:20], max_iter=3)
    assert grown.components_.shape == (2, 45)
    assert np.all(grown.moved_ < 0.2)
    assert merged.merge([[0, 1]]).merged_ == [[0, 2, 1]]


def test_representative_documents(fitted, data):
    frame, eta = data
    table = fitted.representative_documents(frame, 4)
    assert list(table) == ["topic", "document", "mean", "lower", "upper"]
    assert (table["lower"] < table["mean"]).all()
    order = align(fitted.components_, TOPICS)
    for k, rows in table.groupby("topic"):
        true = eta[[int(name[1:]) for name in rows["document"]], order[k]]
        assert true.min() > 0.9
        assert (rows["lower"].diff()[1:] <= 0).all()
    only = fitted.representative_documents(frame, 2, topics=[1], names=[f"title {i}" for i in range(240)])
    assert only["document"][0] == f"title {table['document'][4][1:]}"
    assert set(only["topic"]) == {1}


def test_shares_of_groups(fitted, data):
    frame, eta = data
    order, days = align(TOPICS, fitted.components_), pd.date_range("2020-01-01", periods=240, freq="D")
    found = fitted.shares_by(frame, days, period="Q", sampled=False)
    assert [str(group) for group in found.groups] == ["2020Q1", "2020Q2", "2020Q3"]
    np.testing.assert_array_equal(found.documents, [91, 91, 58])
    np.testing.assert_allclose(found.draws.sum(axis=2), 1)
    direct = np.array([own.mean(axis=0) for own in np.split(eta, [91, 182])])
    mean, sd = found.draws.mean(axis=0)[:, order], found.draws.std(axis=0)[:, order]
    assert np.all(np.abs(mean - direct) < 4 * sd)
    wider = fitted.shares_by(frame, days, period="Q")
    spread = np.sqrt(
        sd**2 + np.array([eta[:91].var(axis=0) / 91, eta[91:182].var(axis=0) / 91, eta[182:].var(axis=0) / 58])
    )
    assert np.median(wider.draws.std(axis=0)[:, order] / spread) == pytest.approx(1, abs=0.15)
    table = wider.table()
    assert table.index.names == ["topic", "group"]
    assert (table["lower"] < table["upper"]).all()


def test_the_picture_of_shares(fitted, data):
    import matplotlib as mpl

    mpl.use("Agg")
    ax = fitted.shares_by(data[0][:30], np.arange(30) % 3, n_draws=4).plot(topics=[0, 2])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0", "2"]
    mpl.pyplot.close("all")


def test_the_tree_of_topics():
    rng = np.random.default_rng(1)
    near = rng.dirichlet(np.full(30, 0.5), 3)
    topics = np.array([near[0], near[1], 0.8 * near[0] + 0.2 * near[2], 0.8 * near[1] + 0.2 * near[2]])
    tree = tree_of(np.array([[rng.dirichlet(3000 * topic + 0.1) for topic in topics] for _ in range(20)]), list("abcd"))
    assert tree.groups(2) == [[0, 2], [1, 3]]
    assert hierarchy.dendrogram(tree.linkage, no_plot=True, labels=tree.names)["ivl"] in (list("acbd"), list("bdac"))
    assert tree.support.min() == 1
    assert tree.distances[0, 1] == pytest.approx(np.sqrt(1 - np.sqrt(topics[0] * topics[1]).sum()), abs=0.02)
    assert list(tree.table()["topics"])[-1] == "a | b | c | d"
    unsure = tree_of(np.array([rng.dirichlet(np.ones(30), 4) for _ in range(20)]), list("abcd"))
    assert unsure.support[0] < 0.7


def test_seeded_topics(data, tmp_path):
    frame, _ = data
    seeds = {"third": ["w30", "w31"], "first": ["w0"]}
    for sampler in ("collapsed", "gibbs"):
        model = sc.LDA(3, alpha=0.3, sampler=sampler, seed_words=seeds, max_iter=60, random_state=0).fit(frame)
        assert model.labels_ == ["third", "first", ""]
        np.testing.assert_array_equal(align(model.components_, TOPICS), [2, 0, 1])
    model.save(tmp_path / "m.npz")
    assert sc.LDA.load(tmp_path / "m.npz").seed_words == seeds
    by_column = sc.LDA(3, seed_words=[[30, 31], [0]], max_iter=30, random_state=0).fit(frame.to_numpy())
    np.testing.assert_array_equal(align(by_column.components_, TOPICS)[:2], [2, 0])


def test_topics_with_priors_of_their_own(data, tmp_path):
    frame, _ = data
    beta = np.full((3, 45), 0.05)
    beta[0, 30:32] = beta[1, 0] = 5.0
    model = sc.LDA(3, alpha=0.3, beta=beta, max_iter=60, n_chains=2, random_state=0).fit(frame)
    assert model.sampler_ == "gibbs"
    np.testing.assert_array_equal(align(model.components_, TOPICS), [2, 0, 1])
    model.save(tmp_path / "m.npz")
    again = sc.LDA.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(again.beta_, beta)
    again.update(frame, max_iter=3)
    np.testing.assert_array_equal(align(again.components_, TOPICS), [2, 0, 1])
    np.testing.assert_allclose(model.merge([[0, 1]]).beta_, [beta[:2].mean(axis=0), beta[2]])
    with pytest.raises(ValueError, match="one prior for all topics"):
        sc.LDA(3, beta=beta).partial_fit(frame)


def test_the_prior_of_a_topic_is_in_its_mean():
    counts = np.random.default_rng(0).poisson(1.0, (50, 6))
    beta = np.arange(1.0, 7.0)[None]
    model = sc.LDA(1, beta=beta, max_iter=20, random_state=0).fit(counts)
    parameter = counts.sum(axis=0) + beta
    np.testing.assert_allclose(model.components_, parameter / parameter.sum(), rtol=1e-5)


def test_seed_words_are_tokens_of_the_prior():
    """One topic: the law is the Dirichlet distribution of counts, prior and seeds."""
    counts = np.random.default_rng(0).poisson(1.0, (50, 6))
    model = sc.LDA(1, seed_words=[[2]], seed_weight=2.0, max_iter=20, random_state=0).fit(counts)
    parameter = counts.sum(axis=0) + 0.05 + np.array([0, 0, 2 * counts[:, 2].sum(), 0, 0, 0])
    np.testing.assert_allclose(model.components_[0], parameter / parameter.sum(), rtol=1e-5)


def test_a_seeded_chain_goes_on_from_what_was_packed(data):
    from scirocco.corpora.documents import Documents
    from scirocco.models.lda.seeds import SeededCollapsedGibbs

    documents, lent = Documents.of(data[0].to_numpy()), np.zeros((45, 3), np.int32)
    lent[7, 1] = 50

    def begun():
        chain = SeededCollapsedGibbs(
            documents, np.full(3, 0.3), np.full(45, 0.1), seed=0, chain=0, search_passes=4, batch_size=None, threads=1
        )
        chain.lend(lent, in_order=False)
        return chain

    whole, other = begun(), begun()
    for phase in ("searching", "sampling"):
        while not getattr(whole, phase):
            whole.step()
        for _ in range(5):
            whole.step()
        other.unpack(whole.pack())
        whole.step()
        other.step()
        np.testing.assert_array_equal(whole.kept.table, other.kept.table)
    labels = np.bincount(whole.kept.labels, minlength=3)
    np.testing.assert_array_equal(whole.kept.totals, labels + lent.sum(axis=0))


def test_quality_by_topic_adds_up(data):
    frame, _ = data
    model = sc.LDA(3, alpha=0.3, max_iter=40, random_state=0).fit(frame[:180])
    table = model.topic_quality(frame[180:])
    logs = np.sum(table["tokens"] * np.log(table["perplexity"])) / table["tokens"].sum()
    assert np.exp(logs) == pytest.approx(model.perplexity(frame[180:]))
    np.testing.assert_array_equal(table["npmi"], model.coherence(frame[180:]))
    np.testing.assert_array_equal(table["c_v"], model.coherence(frame[180:], measure="c_v"))


def test_c_v_by_hand():
    from scirocco.corpora.documents import Documents

    present = np.array([[1, 1, 0], [1, 0, 1], [1, 1, 1], [0, 1, 0]])

    def npmi(i, j):
        both = np.mean(present[:, i] & present[:, j])
        return np.log(both / (present[:, i].mean() * present[:, j].mean())) / -np.log(both)

    vectors = np.array([[1.0 if i == j else npmi(i, j) for j in range(3)] for i in range(3)])
    whole = vectors.sum(axis=0)
    cosines = [v @ whole / np.sqrt((v @ v) * (whole @ whole)) for v in vectors]
    found = coherence(np.array([[2, 0, 1]]), Documents.of(present * 2), "c_v")
    np.testing.assert_allclose(found, np.mean(cosines))


@pytest.mark.quick
def test_wrong_requests(fitted, data):
    frame, _ = data
    short = frame[:6]
    for call, words in [
        (lambda: fitted.top_words(3, level=1.0), "level must lie strictly"),
        (lambda: fitted.topic_info(0), "n_words must be"),
        (lambda: fitted.label_topics({3: "x"}), "labels must have numbers of topics, from 0 to 2; got 3"),
        (lambda: fitted.label_topics(["a"]), "labels must name all 3 topics"),
        (lambda: fitted.label_topics("abc"), "labels must be {topic: text}"),
        (lambda: fitted.label_topics({0: 7}), "labels must be texts; got 7"),
        (lambda: fitted.merge([[0, 5]]), "groups must have numbers of topics, from 0 to 2; got 5"),
        (lambda: fitted.merge([[0, 1], [1, 2]]), "name each topic once"),
        (lambda: fitted.merge([0, 1]), "list of lists"),
        (lambda: fitted.merge(2), "list of lists"),
        (lambda: fitted.representative_documents(short, 0), "n_documents must be"),
        (lambda: fitted.representative_documents(short, topics=[7]), "topics must have numbers of topics"),
        (lambda: fitted.representative_documents(short, topics=[]), "topics is empty"),
        (lambda: fitted.representative_documents(short, names=["a"]), "names must have one for each of 6"),
        (lambda: fitted.shares_by(short, [1, 2]), "by must have one value for each of 6 documents"),
        (lambda: fitted.shares_by(short, "year"), "by must have one value for each of 6 documents"),
        (lambda: fitted.shares_by(short, [1, 2, None, 1, 1, 1]), "by must not be missing; 1 of 6"),
        (lambda: fitted.shares_by(short, range(6), period="Y"), "period needs dates"),
        (lambda: fitted.shares_by(short, pd.date_range("2020", periods=6), period="x!"), "period must be one"),
        (lambda: fitted.shares_by(short, range(6), sampled="no"), "sampled must be True or False"),
        (lambda: fitted.shares_by(short, range(6), n_draws=0), "n_draws must be"),
        (lambda: fitted.coherence(short, measure="u_mass"), "measure must be one of npmi, c_v"),
        (lambda: fitted.topic_quality(short, held_out=0), "held_out must lie strictly"),
        (lambda: fitted.hierarchy().groups(4), "n_groups must be"),
        (lambda: fitted.merge([[0, 1, 2]]).hierarchy(), "two topics at least"),
    ]:
        with pytest.raises((ValueError, TypeError), match=words):
            call()


def test_seeds_of_many_topics_are_for_the_sampler_that_knows_them(data, monkeypatch):
    monkeypatch.setattr(collapsed, "MANY", 3)
    with pytest.raises(ValueError, match="so many topics, 3, need sampler='gibbs'"):
        sc.LDA(3, seed_words=[["w1"]], max_iter=4).fit(data[0])
    model = sc.LDA(3, seed_words=[["w1"]], max_iter=30, sampler="gibbs", random_state=0).fit(data[0])
    assert np.argmax(model.components_[:, 1]) == 0


@pytest.mark.quick
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"seed_words": [["storm"]]}, "'storm' is not in the vocabulary"),
        ({"seed_words": [["w1"]] * 4}, "seed_words has 4 topics, but n_topics is 3"),
        ({"seed_words": ["w1"]}, "a list of words for each topic"),
        ({"seed_words": "w1"}, "seed_words must be {label: words}"),
        ({"seed_words": [["w1"]], "seed_weight": 0}, "seed_weight must be"),
        ({"seed_words": [["w1"]], "sampler": "scir"}, "need kept assignments"),
        ({"seed_words": [["w1"]], "learn_beta": True}, "give seed_words or learn_beta"),
        ({"beta": np.ones((3, 45)), "sampler": "collapsed"}, "beta of shape topics x words is for sampler='gibbs'"),
        ({"beta": np.ones((3, 45)), "sampler": "scir"}, "which draws the topics; got 'scir'"),
        ({"beta": np.ones((3, 45)), "seed_words": [["w1"]]}, "give seed_words, or beta"),
        ({"beta": np.ones((45, 3))}, r"or topics x words, \(3, 45\); got shape \(45, 3\)"),
        ({"beta": np.ones((3, 45)), "learn_beta": True}, "learn_beta learns one number"),
    ],
)
def test_seeds_that_make_no_sense(data, settings, words):
    with pytest.raises((ValueError, TypeError), match=words):
        sc.LDA(3, max_iter=4, **settings).fit(data[0])
    if settings.get("sampler") != "scir":
        with pytest.raises(ValueError, match="is not a column, from 0 to 44"):
            sc.LDA(3, seed_words=[[45]]).fit(data[0].to_numpy())
