"""The spherical admixture model: its parts against formulas, its samplers against each other and the truth."""

from __future__ import annotations

import re
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import beta
from sklearn.utils.estimator_checks import parametrize_with_checks

import scirocco as sc
from scirocco.batches import Batch
from scirocco.directional import sample
from scirocco.models import TfIdf
from scirocco.models.sam import variational
from scirocco.models.sam.kept_shares import Direction, KeptShares
from scirocco.models.sam.model import Hyper, ShareAverage, log_prior, marginal_target, steepness
from scirocco.models.sam.weights import Shares, cosine, sampled, start
from scirocco.run import convergence

WORDS, TOPICS, DOCUMENTS = 12, 3, 150


def corpus(seed=0, documents=DOCUMENTS, kappa=400.0, alpha=1.0):
    """Topics far from each other and documents drawn from the model."""
    rng = np.random.default_rng(seed)
    topics = np.kron(np.eye(TOPICS), np.ones(WORDS // TOPICS)) + 0.05 * rng.normal(size=(TOPICS, WORDS))
    topics /= np.linalg.norm(topics, axis=1, keepdims=True)
    theta = rng.dirichlet(np.full(TOPICS, alpha), documents)
    mean = theta @ topics
    mean /= np.linalg.norm(mean, axis=1, keepdims=True)
    return topics, theta, sample(rng, mean, kappa, documents).astype(np.float32)


BETA, THETA, ROWS = corpus()
HYPER = Hyper((1.5,) * TOPICS, 400.0, 10.0, 10.0)
SETTINGS = {"alpha": 1.5, "concentration": 400.0, "topic_concentration": 10.0, "centre_concentration": 10.0}
QUICK = {"n_draws": 40, "burn_in": 200, "thin": 2, "measure_bias": False, "random_state": 0, "batch_size": 30}


def matched(found, truth=BETA):
    """The cosines of topics with the truth, in the best order."""
    from scipy.optimize import linear_sum_assignment

    cosines = found @ truth.T
    rows, columns = linear_sum_assignment(-cosines)
    return cosines[rows, columns]


# Parts.


def test_shares_have_their_law():
    """GMC on the simplex against quadrature over two topics' shares, whose law has one dimension."""
    rng = np.random.default_rng(1)
    topics = rng.normal(size=(2, 6)) + 0.5
    topics /= np.linalg.norm(topics, axis=1, keepdims=True)
    rows = sample(rng, topics[0], 20.0, 5)
    dots, gram = jnp.asarray(rows @ topics.T, jnp.float32), jnp.asarray(topics @ topics.T, jnp.float32)
    for alpha, power in ((np.array([2.0, 3.0]), 2), (np.array([0.2, 0.2]), 5)):
        grid = beta.ppf((np.arange(20_000) + 0.5) / 20_000, *alpha)  # of equal mass under the prior
        theta = np.stack([grid, 1 - grid], axis=-1)
        along = cosine(jnp.asarray(theta[None], jnp.float32), dots[:, None], gram)
        weight = np.exp(30.0 * np.asarray(along, np.float64))
        want = np.stack([weight @ grid, weight @ grid**2], axis=1) / weight.sum(axis=1, keepdims=True)
        begun = start(jnp.tile(dots, (64, 1)), gram, jnp.float32(30.0))  # 64 chains for each of 5 documents
        _, draws = sampled(jax.random.key(0), begun, jnp.tile(dots, (64, 1)), gram, jnp.asarray(alpha, jnp.float32),
                           jnp.float32(30.0), power=power, draws=600)  # fmt: skip
        x = np.asarray(draws, np.float64)[100:, :, 0].reshape(500, 64, 5)
        for found, aim in ((x, want[:, 0]), (x**2, want[:, 1])):
            each = found.mean(axis=0)
            z = (each.mean(axis=0) - aim) / (each.std(axis=0, ddof=1) / 8)
            assert np.all(np.abs(z) < 4.75), z


def test_the_prior_and_the_gradient_are_those_of_the_formulas():
    """Against the corrected equation (10): sigma A m-bar and kappa theta (v - cos v-bar) / |beta theta|."""
    topics = jnp.asarray(BETA, jnp.float32)
    centre = jnp.asarray(ROWS.mean(axis=0) / np.linalg.norm(ROWS.mean(axis=0)))
    pull = 10.0 * (np.asarray(centre) + BETA.sum(axis=0))
    from scipy.special import ive

    length = np.linalg.norm(pull)
    ratio = ive(WORDS / 2, length) / ive(WORDS / 2 - 1, length)
    want = 10.0 * ratio * pull / length
    found = jax.grad(lambda t: log_prior(t, centre, HYPER))(topics)
    np.testing.assert_allclose(found, np.tile(want, (TOPICS, 1)), rtol=1e-4)
    # With shares that do not move (a step of zero size) the estimate is the gradient given these shares.
    target = marginal_target(ROWS, np.asarray(centre), HYPER)
    average = ShareAverage(HYPER.alpha, HYPER.kappa)
    state = average.init(target, {"topics": topics}, None)
    state = Shares(
        jnp.asarray(THETA, jnp.float32) * 0.97 + 0.01, jnp.full_like(state.log_step, -40.0), state.moves + 1e9
    )
    batch = next(iter(target.passes()))
    gradient, after = average.estimate(target.density, state, {"topics": topics}, None, batch, jax.random.key(0))
    theta = np.asarray(state.theta, np.float64)
    mixed = theta @ BETA
    size = np.linalg.norm(mixed, axis=1, keepdims=True)
    direction = mixed / size
    along = np.sum(ROWS * direction, axis=1, keepdims=True)
    wanted = -want - HYPER.kappa * theta.T @ ((ROWS - along * direction) / size)
    np.testing.assert_allclose(gradient["topics"], wanted, rtol=2e-3, atol=0.5)  # of hundreds
    np.testing.assert_allclose(after.theta, state.theta, atol=1e-4)


def test_the_steepness_is_the_curvature():
    """Second derivatives along geodesics of one topic at a time, averaged over directions, at fixed nearest shares."""
    target = marginal_target(ROWS, ROWS.mean(axis=0) / np.linalg.norm(ROWS.mean(axis=0)), HYPER)
    topics = jnp.asarray(BETA, jnp.float32)
    from scirocco.optimise.chart import chart
    from scirocco.optimise.curvature import hessian

    around, origin = chart(target, {"topics": topics}, weight=0.0)
    blocks = np.diag(hessian(around, origin)).reshape(TOPICS, WORDS).sum(axis=1) / (WORDS - 1)
    ratio = np.diag(steepness(ROWS, BETA.astype(np.float32), HYPER)) / blocks
    assert np.all((ratio > 0.6) & (ratio < 1.7)), ratio


def test_the_variational_bound_rises():
    centre = ROWS.mean(axis=0) / np.linalg.norm(ROWS.mean(axis=0))
    begin = BETA + 0.1 * np.random.default_rng(0).normal(size=BETA.shape)
    begin = (begin / np.linalg.norm(begin, axis=1, keepdims=True)).astype(np.float32)
    found = variational.fit(ROWS, centre, begin, HYPER, batch_size=None, steps=150, seed=0)
    assert found.bounds[-1] > found.bounds[0] + 100
    assert found.bounds[-1] > max(found.bounds) - 0.02 * np.ptp(found.bounds)
    assert matched(found.topics).min() > max(0.97, matched(begin).min())


def test_the_search_for_a_start_goes_on_while_it_is_worth_it(monkeypatch, ticking):
    centre = ROWS.mean(axis=0) / np.linalg.norm(ROWS.mean(axis=0))
    far = np.random.default_rng(0).normal(size=BETA.shape).astype(np.float32)
    far /= np.linalg.norm(far, axis=1, keepdims=True)
    rounds, fit = [], variational.fit

    def counted(*args, **options):
        rounds.append(options["steps"])
        return fit(*args, **options)

    monkeypatch.setattr(variational, "fit", counted)
    search = lambda begin, **options: variational.search(ROWS, centre, begin, HYPER, batch_size=30, seed=0, **options)  # noqa: E731
    found, seconds = search(far, steps=5000)
    assert matched(found).min() > 0.97 > matched(far).min()
    assert seconds > 0
    assert rounds[:2] == [200, 400]
    assert len(rounds) < 4  # the last one gained little
    np.testing.assert_array_equal(search(far, steps=5000)[0], found)
    rounds.clear()
    search(far, steps=300)
    assert rounds == [200, 100]
    rounds.clear()
    ticking(0.01)
    assert 0.3 <= search(far, steps=10**6, max_seconds=0.3)[1] < 0.4
    assert rounds == [200]


def test_the_search_is_part_of_the_time(ticking):
    ticking(0.01)
    model = sc.SphericalAdmixture(TOPICS, start="variational", **SETTINGS, **QUICK, max_seconds=600.0).fit(ROWS)
    assert model.search_seconds_ > 0
    assert model.trace_.description.options.max_seconds == pytest.approx(600 - model.search_seconds_)


@pytest.mark.slow
def test_topics_that_are_alike_do_not_freeze_the_exact_sampler():
    """Twice as many topics as there are: those that share documents are stiff together."""
    model = sc.SphericalAdmixture(
        6, sampler="gmc-gibbs", **SETTINGS, measure_bias=False, n_draws=30, burn_in=20, n_chains=1, random_state=0
    )
    acceptance = model.fit(ROWS).trace_.sample_stats["acceptance"].values
    assert acceptance.mean() > 0.4, acceptance


@pytest.mark.slow
def test_all_data_in_a_minibatch():
    model = sc.SphericalAdmixture(
        TOPICS, **SETTINGS, **QUICK | {"batch_size": 1.0, "n_draws": 5, "burn_in": 5, "n_chains": 1}
    )
    assert model.fit(ROWS).trace_.count == 5


# The model.


SLOW = ("gsgnht", "sggmc", "gmc-gibbs", "gmc-approximate", "stochastic-variational")
METHODS = [
    pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())
    for name in ("langevin", "gsgnht", "sggmc", "gmc-gibbs", "gmc-approximate", "variational", "stochastic-variational")
]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_the_topics(method):
    options = QUICK | ({"batch_size": None} if "gmc" in method else {})
    model = sc.SphericalAdmixture(TOPICS, sampler=method, **SETTINGS, **options).fit(ROWS)
    assert matched(model.components_).min() > (0.97 if "variational" in method else 0.985)
    np.testing.assert_allclose(np.linalg.norm(model.posterior_["topics"], axis=-1), 1, atol=1e-4)
    shares = model.transform(ROWS)
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-4)
    order = np.argmax(model.components_ @ BETA.T, axis=0)
    assert np.sqrt(np.mean((shares[:, order] - THETA) ** 2)) < 0.06
    single = sc.SphericalAdmixture(1, sampler="variational", **SETTINGS, n_draws=2, burn_in=5, random_state=0).fit(ROWS)
    assert model.log_perplexity(ROWS) < single.log_perplexity(ROWS) - 1


RUNS = {
    "gmc-gibbs": {"n_draws": 400, "thin": 2},
    "langevin": {"n_draws": 400, "thin": 5, "batch_size": 30},
    "gsgnht": {"n_draws": 800, "thin": 40, "batch_size": 75, "share_draws": 4, "burn_in": 1500},
}


@cache
def moments(method):
    """Mean and sd of the entries of topics, in the order of the truth."""
    settings = SETTINGS | {"concentration": 50.0}
    model = sc.SphericalAdmixture(TOPICS, sampler=method, start=BETA, **settings, random_state=1, measure_bias=False,
                                  **{"burn_in": 200} | RUNS[method]).fit(corpus(kappa=50.0)[2])  # fmt: skip
    draws = model.posterior_["topics"].values.astype(np.float64)
    draws = draws.reshape(*draws.shape[:2], -1)
    return draws.mean(axis=(0, 1)), draws.std(axis=(0, 1)), convergence.ess(draws, "mean")


@pytest.mark.parametrize("method", ["langevin", pytest.param("gsgnht", marks=pytest.mark.slow)])
def test_minibatches_have_the_posterior_of_gibbs_sampling(method):
    """Mean and sd of the topics' entries, against topics and shares in turn on all data, which is exact.

    Combinations of topics that shares make up for are slow in all of them, more so the larger kappa is: differences are
    in units of their own standard errors, those of sds as for normal draws. By chance one of 72 is beyond 4.5 in one of
    2,000 cases.
    """
    (mean, sd, ess), (mean_minibatch, sd_minibatch, own) = moments("gmc-gibbs"), moments(method)
    assert min(ess.min(), own.min()) > 15
    z = (mean_minibatch - mean) / np.sqrt(sd**2 / ess + sd_minibatch**2 / own)
    assert np.all(np.abs(z) < 4.5), z
    z = np.log(sd_minibatch / sd) / np.sqrt(1 / (2 * ess) + 1 / (2 * own))
    assert np.all(np.abs(z) < 4.5), z
    assert abs(np.median(sd_minibatch / sd) - 1) < 0.12


def test_kept_shares_add_up_and_are_unbiased():
    """The sums that are kept are those of what each document has, and every document alone is right on average."""
    centre = ROWS.mean(axis=0) / np.linalg.norm(ROWS.mean(axis=0))
    target = marginal_target(ROWS, centre, HYPER, constraints={"topics": Direction()})
    kept, position = KeptShares(HYPER.alpha, HYPER.kappa), {"topics": jnp.asarray(BETA, jnp.float32)}
    state, rng = kept.init(target, position, None), np.random.default_rng(0)
    estimate = jax.jit(lambda state, position, batch, key: kept.estimate(
        target.density, state, position, None, batch, key))  # fmt: skip
    for step in range(5):  # rows may come twice
        rows = rng.integers(DOCUMENTS, size=40)
        batch = Batch(jnp.asarray(ROWS[rows]), jnp.float32(DOCUMENTS / 40), jnp.asarray(rows))
        _, state = estimate(state, position, batch, jax.random.key(step))
        position = {"topics": position["topics"] + 0.03 * rng.normal(size=BETA.shape).astype(np.float32)}
    theta, inverse, along = (np.asarray(a, np.float64) for a in (state.shares.theta, state.inverse, state.along))
    np.testing.assert_allclose(state.pulls, (theta * inverse[:, None]).T @ ROWS, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(state.gram, theta.T @ (theta * along[:, None]), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(theta.sum(axis=1), 1, atol=1e-5)
    assert np.abs(theta - np.asarray(kept.init(target, position, None).shares.theta)).max() > 0.01

    def potential(position):
        topics = Direction().constrained(position["topics"])
        along = cosine(state.shares.theta, ROWS @ topics.T, topics @ topics.T)
        return -target.density.log_prior(position) - HYPER.kappa * jnp.sum(along)

    each = [
        estimate(
            state, position, Batch(jnp.asarray(ROWS[[d]]), jnp.float32(DOCUMENTS), jnp.array([d])), jax.random.key(0)
        )
        for d in range(DOCUMENTS)
    ]
    found = np.mean([gradient["topics"] for gradient, _ in each], axis=0)
    want = np.asarray(jax.grad(potential)(position)["topics"])
    np.testing.assert_allclose(found, want, atol=2e-3 * np.abs(want).max())


def test_perplexity_is_that_of_the_definition():
    """Written out for one draw of topics and a few shares."""
    model = sc.SphericalAdmixture(TOPICS, **SETTINGS, **QUICK | {"n_draws": 2, "n_chains": 1}).fit(ROWS)
    from scirocco.core.seeds import Purpose, generator

    theta = generator(3, Purpose.SEARCH_ROWS).dirichlet(np.full(TOPICS, 1.5), 7)
    values = []
    for topics in model.posterior_["topics"].values[0].astype(np.float64):
        mixed = theta @ topics
        mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
        values.append(400.0 * ROWS[:9] @ mixed.T)
    with jax.enable_x64(True):
        constant = float(sc.directional.log_normaliser(WORDS, 400.0))
    want = np.log(np.mean(np.exp(np.stack(values) - 400), axis=(0, 2))) + 400 + constant
    np.testing.assert_allclose(model.score_samples(ROWS[:9], n_shares=7, random_state=3), want, rtol=1e-4)
    assert model.log_perplexity(ROWS[:9], n_shares=7, random_state=3) == pytest.approx(-want.mean(), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gsgnht", "gmc-gibbs"])
def test_runs_resume_and_models_are_saved(method, tmp_path):
    options = QUICK | {"n_draws": 20, "burn_in": 30} | ({"batch_size": None} if "gmc" in method else {})
    make = lambda: sc.SphericalAdmixture(TOPICS, sampler=method, **SETTINGS, **options)  # noqa: E731
    whole = make().fit(ROWS)
    kept = make().fit(ROWS, path=tmp_path / "run")
    again = sc.resume(tmp_path / "run", ROWS)
    for model in (kept, again):
        assert model.posterior_.identical(whole.posterior_)
    whole.save(tmp_path / "model.npz")
    loaded = sc.SphericalAdmixture.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.transform(ROWS[:5]), whole.transform(ROWS[:5]))
    assert loaded.log_perplexity(ROWS) == whole.log_perplexity(ROWS)


@pytest.mark.slow
def test_sparse_rows_are_dense_rows():
    dense = sc.SphericalAdmixture(TOPICS, **SETTINGS, **QUICK).fit(ROWS)
    sparse = sc.SphericalAdmixture(TOPICS, **SETTINGS, **QUICK).fit(sp.csr_matrix(ROWS))
    np.testing.assert_array_equal(dense.components_, sparse.components_)


def test_tf_idf_of_the_source():
    counts = np.array([[3, 0, 1], [0, 2, 1], [1, 1, 0], [0, 0, 4]])
    rows = TfIdf().fit_transform(counts).toarray()
    idf = np.log(4 / (1 + np.array([2, 2, 3])))
    want = counts * idf
    length = np.linalg.norm(want, axis=1, keepdims=True)
    np.testing.assert_allclose(rows, want / np.where(length == 0, 1, length), atol=1e-12)
    with pytest.raises(ValueError, match="nothing is left of 1 documents, the first in row 3"):
        TfIdf(documents="error").fit_transform(counts)


@pytest.mark.parametrize(
    ("rows", "settings", "words"),
    [
        (2 * ROWS, {}, "rows of X must be unit vectors: row .* has length 2"),
        (np.concatenate([ROWS[:5], 0 * ROWS[:1]]), {}, "row 5 has length 0"),
        (ROWS[:2], {}, "n_topics is 3, but X has n_samples = 2"),
        (ROWS, {"alpha": [1.0, 2.0]}, "alpha must be a number or 3 of them"),
        (ROWS, {"alpha": -1.0}, "alpha must be"),
        (ROWS, {"sampler": "em"}, "sampler must be one of langevin, gsgnht"),
        (ROWS, {"start": "random"}, "start must be one of k-means, variational"),
        (ROWS, {"start": BETA[:2]}, r"topics x words, \(3, 12\); got an array of the shape \(2, 12\)"),
        (ROWS, {"start": np.where(np.arange(3)[:, None] == 1, 0, BETA)}, "a direction for each topic: row 1 is zero"),
        (ROWS, {"start": np.where(BETA > 0.4, np.nan, BETA)}, "start must be finite"),
        (ROWS, {"concentration": 0.0}, "concentration must be"),
        (np.where(np.arange(WORDS) == 3, np.nan, ROWS), {}, "NaN"),
        (ROWS, {"sampler": "gmc-gibbs", "batch_size": 10}, "needs all data"),
        (ROWS, {"sampler": sc.SGLD(1e-4)}, "moves in straight lines"),
    ],
)
def test_bad_input(rows, settings, words):
    with pytest.raises(ValueError, match=words):
        sc.SphericalAdmixture(TOPICS, **SETTINGS | settings).fit(rows)


def test_a_run_that_ends_in_its_burn_in_is_an_error_in_words(ticking):
    ticking(0.1)
    model = sc.SphericalAdmixture(TOPICS, start="k-means", **SETTINGS, burn_in=10**7, max_seconds=0.1, random_state=0)
    with pytest.raises(ValueError, match="the run ended before its first draw, in its burn-in of 10000000 steps"):
        model.fit(ROWS)


def test_what_a_run_refuses_is_refused_before_the_search(monkeypatch, tmp_path):
    monkeypatch.setattr(variational, "search", lambda *args, **options: pytest.fail("it searched"))
    for settings, words in (
        ({"sampler": "gmc-gibbs", "batch_size": 10}, "needs all data"),
        ({"sampler": sc.SGLD(1e-4)}, "moves in straight lines"),
        ({"max_seconds": -1.0}, "max_seconds must be positive"),
    ):
        with pytest.raises(ValueError, match=words):
            sc.SphericalAdmixture(TOPICS, **SETTINGS | settings).fit(ROWS)
    (tmp_path / "something").write_text("")
    with pytest.raises(FileExistsError, match="is not empty"):
        sc.SphericalAdmixture(TOPICS, **SETTINGS).fit(ROWS, path=tmp_path)


def test_text_and_other_widths_are_refused():
    with pytest.raises(TypeError, match="not text"):
        sc.SphericalAdmixture(2).fit(["a text"])
    model = sc.SphericalAdmixture(TOPICS, sampler="variational", **SETTINGS, n_draws=2, burn_in=3).fit(ROWS)
    with pytest.raises(ValueError, match="features"):
        model.transform(ROWS[:, :5])
    with pytest.raises(ValueError, match="path is for runs that are sampled"):
        sc.SphericalAdmixture(TOPICS, sampler="variational").fit(ROWS, path="nowhere")


def test_what_topics_say(tmp_path):
    """Words by name, present and absent, their intervals, labels; words that no document has are not shown."""
    rows = np.concatenate([ROWS, np.zeros((DOCUMENTS, 1), np.float32)], axis=1)
    names = [f"word{w}" for w in range(WORDS + 1)]
    table = pd.DataFrame(rows, columns=names)
    model = sc.SphericalAdmixture(TOPICS, start=np.pad(BETA, ((0, 0), (0, 1))), **SETTINGS, **QUICK).fit(table)
    assert matched(model.components_[:, :WORDS]).min() > 0.985
    found = model.top_words(4)
    assert list(found.columns) == ["topic", "word", "mean", "lower", "upper"]
    for topic in range(TOPICS):  # the order of the topics is that of the start
        assert set(found.word[found.topic == topic]) == {f"word{4 * topic + w}" for w in range(4)}
    draws = model.posterior_["topics"].sel(topic=1).values[..., names.index(found.word[4])].ravel()
    assert found["mean"][4] == pytest.approx(draws.mean(), rel=1e-5)
    inside = (draws > found.lower[4]) & (draws < found.upper[4])
    assert 0.8 < inside.mean() < 0.99
    every = model.top_words(50, absent=True)
    assert len(every) == TOPICS * WORDS
    assert "word12" not in set(every.word)
    assert every["mean"][0] == every["mean"].iloc[:WORDS].min() < 0
    assert set(model.top_words(1, vocabulary=np.arange(13)).word) <= set(range(12))
    model.label_topics({1: "rivers"})
    text = str(model.summary(2))
    assert "topic 1 rivers: word" in text
    assert "1 words are in no document" in text
    assert (
        f"the largest share of a document is {model.largest_share_:.3f} on average, where equal ones are 0.333" in text
    )
    assert model.largest_share_ == pytest.approx(model.transform(table).max(axis=1).mean(), abs=0.03)
    assert "concentration of documents: 400, 31 times the words (given)" in text
    assert "flat" not in text
    model.save(tmp_path / "model.npz")
    loaded = sc.SphericalAdmixture.load(tmp_path / "model.npz")
    pd.testing.assert_frame_equal(loaded.top_words(3), model.top_words(3))
    assert loaded.labels_ == ["", "rivers", ""]
    for call, words in (
        (lambda: model.top_words(0), "n_words must be"),
        (lambda: model.top_words(level=1.0), "level must lie strictly between"),
        (lambda: model.top_words(vocabulary=names[:5]), "vocabulary must name all 13 words"),
        (lambda: model.summary(vocabulary=names[:5]), "vocabulary must name all 13 words"),
        (lambda: model.top_words(absent="no"), "absent must be"),
        (lambda: model.label_topics({7: "far"}), "labels must have numbers of topics, from 0 to 2"),
        (lambda: model.transform(rows, n_draws=0), "n_draws must be"),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            call()


def test_one_point_has_no_intervals_and_says_so():
    model = sc.SphericalAdmixture(TOPICS, sampler="variational", **SETTINGS, n_draws=2, burn_in=3).fit(ROWS)
    with pytest.warns(UserWarning, match="one point of the topics"):
        assert model.top_words(2)[["lower", "upper"]].isna().all(axis=None)
    assert model.verdict().kind == "use means, not intervals"
    assert model.verdict().action == 'model.set_params(sampler="langevin").fit(X)'


def test_where_chains_agree_in_the_means_alone_these_can_be_used():
    model = sc.SphericalAdmixture(TOPICS, **SETTINGS, **QUICK | {"n_draws": 100}).fit(ROWS)
    whole = model.topic_info(vocabulary=[f"word{number}" for number in range(WORDS)])
    assert whole.loc[0, "words"].startswith("word")
    assert np.all(whole["cosine"] > 0.99)
    assert model.topic_info(2).loc[1, "words"] == " ".join(map(str, model.top_words(2).query("topic == 1")["word"]))

    shown = model.trace_.posterior
    trace, topics = model.trace_, shown["topics"].values

    def apart(by):  # a topic of the second chain leans towards another one
        moved = topics.copy()
        moved[1, :, 1] += by * moved[1, :, 2]
        moved[1, :, 1] /= np.linalg.norm(moved[1, :, 1], axis=1, keepdims=True)
        model.trace_ = trace.showing(shown.assign(topics=(shown["topics"].dims, moved)))
        model._settle()
        return model.verdict()

    found = apart(0.3)
    assert found.kind == "use means, not intervals"
    assert re.search(r" of 3 topics \(.*1.*\)", found.reasons[0])
    assert found.reasons[0] in str(model.summary())
    assert model.topic_info()["r_hat"].idxmax() == 1
    lost = apart(3.0)
    assert lost.kind == "do not use it"
    settings = re.findall(r"(\w+)=", lost.action)
    assert set(settings) <= set(model.get_params())


def test_advice_names_settings_of_the_model():
    """A short, hot run: what to do next can be done."""
    model = sc.SphericalAdmixture(TOPICS, sampler="sggmc", **SETTINGS, **QUICK | {"n_draws": 10, "burn_in": 0})
    advice = model.fit(ROWS).verdict().action
    own = {name for name in model.get_params()}
    settings = re.search(r"set_params\((.*)\)\.fit\(X\)", advice).group(1)
    assert {part.split("=")[0].strip() for part in settings.split(",")} <= own
    assert "UnderdampedLangevin" not in advice


@parametrize_with_checks([TfIdf()])
def test_scikit_learn(estimator, check):
    check(estimator)
