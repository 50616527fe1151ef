"""The mixture on the sphere: posteriors against exact ones, memberships, partitions, bad input, files."""

from __future__ import annotations

import json
import warnings
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import scirocco as sc
from scirocco import directional
from scirocco.conformance import check_model
from scirocco.models import VonMisesFisherMixture
from scirocco.models.von_mises_fisher import chains, laws, search
from scirocco.run import checkpoint

# Most of the time is compilation: fits to 200 rows in space with two components share their programs.
QUICK = {"n_draws": 20, "burn_in": 50, "thin": 1, "measure_bias": False, "random_state": 0}
KAPPAS = (10.0, 5.0)


def drawn(means, kappas, sizes, seed=0):
    """Rows, and the component of each."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return directional.sample(rng, np.asarray(means, float)[labels], np.asarray(kappas, float)[labels]), labels


def directions(count, dimension, seed=0):
    means = np.random.default_rng(seed).normal(size=(count, dimension))
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def overlapping(seed=0):
    """Two components in space that share some rows."""
    return drawn([[0, 0, 1], [0, 1, 0]], KAPPAS, (120, 80), seed)


def moments(posterior, name):
    values = posterior[name].values.astype(np.float64)
    return values.mean(axis=(0, 1)), values.std(axis=(0, 1))


@pytest.fixture(scope="module")
def fitted():
    rows, labels = overlapping()
    return VonMisesFisherMixture(2, measure_bias=False, n_draws=1500, random_state=3).fit(rows), rows, labels


def settled(model, rows, trace):
    """A model with draws of another run."""
    other = clone(model)
    other._rows(rows, reset=True)
    other.trace_ = trace
    other._settle()
    return other


# scikit-learn's own checks: what is asked is the interface.


@pytest.mark.slow
@parametrize_with_checks(
    [VonMisesFisherMixture(normalize=True, sampler=sc.SGGMC(1e-3), n_chains=1, **QUICK)],
    expected_failed_checks=lambda _: {"check_estimators_dtypes": "one of its rows is zero, which has no direction"},
)
def test_scikit_learn_compatibility(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the bias report of so short a run
        check(estimator)


def test_settings_are_only_stored():
    model = VonMisesFisherMixture("many", alpha=-1)
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        model.predict(np.eye(2))


# The posterior.


def test_the_posterior_is_that_of_an_exact_sampler(fitted):
    model, rows, _ = fitted
    start = search.mode(rows, 2, model._prior(3), np.random.default_rng(0))
    steps = chains.scaled_sampler(start, model._prior(3), len(rows)).step_size
    trace = sc.sample(
        model.target(model._rows(rows, reset=False)), sc.GMC(steps, leapfrog_steps=6), start.params, num_samples=3000,
        burn_in=300, chains=4, seed=1, report=False,
    )  # fmt: skip
    assert trace.sample_stats.acceptance.mean() > 0.9
    exact = settled(model, rows, trace)
    for name in ("weights", "means", "concentrations"):
        (mean, sd), (true_mean, true_sd) = moments(model.posterior_, name), moments(exact.posterior_, name)
        # 6,000 draws at intervals of 5 steps, of which one in two or three counts: a standard error of 0.02 sds.
        np.testing.assert_allclose((mean - true_mean) / true_sd, 0, atol=0.08, err_msg=name)
        np.testing.assert_allclose(sd / true_sd, 1, atol=0.1, err_msg=name)


def test_minibatches_leave_the_posterior_as_it_is(fitted):
    model, rows, _ = fitted
    part = clone(model).set_params(batch_size=40).fit(rows)
    for name in ("weights", "means", "concentrations"):
        (mean, sd), (true_mean, true_sd) = moments(part.posterior_, name), moments(model.posterior_, name)
        np.testing.assert_allclose((mean - true_mean) / true_sd, 0, atol=0.12, err_msg=name)
        np.testing.assert_allclose(sd / true_sd, 1, atol=0.1, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0.0, 4.0])
def test_a_mean_of_known_concentration_has_its_conjugate_posterior(strength):
    kappa, axis = 2.0, np.eye(4)[3]
    rows, _ = drawn([[1, 0, 0, 0]], [kappa], (6,))
    model = VonMisesFisherMixture(
        1, kappa_median=kappa, kappa_spread=1e-3, prior_mean=5 * axis if strength else None,
        prior_concentration=strength, measure_bias=False, n_draws=4000, random_state=0,
    ).fit(rows)  # fmt: skip
    natural = kappa * rows.sum(axis=0) + strength * axis
    length = np.linalg.norm(natural)
    resultant = float(directional.mean_resultant_length(4, length))
    draws = model.posterior_["means"].values[:, :, 0].astype(np.float64)
    np.testing.assert_allclose(draws.mean(axis=(0, 1)), resultant * natural / length, atol=0.015)
    cosines = draws @ (natural / length)
    variance = 1 - 3 * resultant / length - resultant**2  # the slope of the resultant length
    assert cosines.std() == pytest.approx(np.sqrt(variance), rel=0.05)
    np.testing.assert_allclose(model.means_[0], natural / length, atol=0.02)
    assert moments(model.posterior_, "concentrations")[0][0] == pytest.approx(kappa, rel=1e-3)


@pytest.mark.slow
def test_intervals_cover_what_they_should():
    inside = []
    weights, means, kappas = np.array([0.6, 0.4]), [[1, 0, 0], [0, 1, 0]], np.array([15.0, 6.0])
    for seed in range(20):
        sizes = np.random.default_rng(100 + seed).multinomial(300, weights)
        model = VonMisesFisherMixture(2, random_state=seed).fit(drawn(means, kappas, sizes, seed)[0])
        order = np.argmax(model.means_ @ np.transpose(means), axis=1)
        for name, truth in (("weights", weights[:1]), ("concentrations", kappas)):
            draws = model.posterior_[name].values[:, :, np.argsort(order)][..., : len(truth)]
            low, high = np.quantile(draws, [0.05, 0.95], axis=(0, 1))
            inside.extend((low < truth) & (truth < high))
    assert 48 <= np.sum(inside) <= 60  # of 60, 54 are expected: mean and three sds, if all were independent


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dimension", "kappas"),
    [(2, (30.0, 1e5)), (3, (1.0, 1e5)), (50, (30.0, 1e3, 1e5)), (384, (150.0, 1e3, 1e5))],
)
def test_concentrations_are_found_in_all_dimensions(dimension, kappas):
    rows, labels = drawn(np.eye(dimension)[: len(kappas)], kappas, (400,) * len(kappas))
    model = VonMisesFisherMixture(len(kappas), measure_bias=False, n_draws=150, random_state=0).fit(rows)
    order = np.argmax(model.means_[:, : len(kappas)], axis=0)
    logs = np.log(model.posterior_["concentrations"].values.astype(np.float64)[:, :, order])
    away = logs.mean(axis=(0, 1)) - np.log(kappas)
    assert np.all(np.abs(away) < 3.5 * logs.std(axis=(0, 1)) + 0.005)
    assert np.all(logs.std(axis=(0, 1)) < 0.3)
    assert adjusted_rand_score(labels, model.predict(rows)) > 0.7


@pytest.mark.slow
def test_a_concentration_too_small_to_be_seen_is_known_to_be_small():
    rows, _ = drawn(np.eye(384)[:1], [1.0], (400,))
    model = VonMisesFisherMixture(1, measure_bias=False, n_draws=150, random_state=0).fit(rows)
    # The sum of uniform rows has a length of sqrt(400), as of rows with kappa = 384 / sqrt(400).
    assert np.quantile(model.posterior_["concentrations"], 0.99) < 1.5 * 384 / np.sqrt(400)


# Concentrations: free, shared or pooled.


@pytest.mark.parametrize("concentration", [pytest.param("shared", marks=pytest.mark.slow), "hierarchical"])
def test_other_priors_of_concentrations_have_the_posterior_of_an_exact_sampler(fitted, concentration):
    rows = fitted[1]
    model = VonMisesFisherMixture(2, concentration=concentration, measure_bias=False, n_draws=1000, random_state=3).fit(
        rows
    )
    found = model._start(rows.astype(np.float32), 3, None)
    steps = chains.scaled_sampler(found.mixture, model._prior(3, concentration), len(rows)).step_size
    trace = sc.sample(
        model.target(model._rows(rows, reset=False)), sc.GMC(steps, leapfrog_steps=6), found.mixture.params,
        num_samples=2000, burn_in=300, chains=4, seed=1, report=False,
    )  # fmt: skip
    assert trace.posterior["concentrations"].shape[2] == (1 if concentration == "shared" else 2)
    exact = settled(model, rows, trace)
    for name in ("weights", "means", "concentrations"):
        (mean, sd), (true_mean, true_sd) = moments(model.posterior_, name), moments(exact.posterior_, name)
        np.testing.assert_allclose((mean - true_mean) / true_sd, 0, atol=0.1, err_msg=name)
        np.testing.assert_allclose(sd / true_sd, 1, atol=0.1, err_msg=name)


def test_the_pooled_prior_is_the_integral_over_its_mean_and_spread():
    prior = laws.Prior(3, 1.0, 1.5, 2.0, (0.0,) * 3, "hierarchical")
    for many in (1, 2, 5):
        logs = np.random.default_rng(many).normal(2.0, 0.7, many)
        means = np.linspace(-15, 18, 4001)
        joint = norm.pdf(means, 1.5, 2.0)[:, None] * np.exp(laws.LOG_CHANCES)
        joint = joint * np.prod(norm.pdf(logs[:, None, None], means[:, None], laws.SPREADS), axis=0)
        away = prior.of_concentrations(logs)[0] - np.log(joint.sum() * (means[1] - means[0]))
        assert away == pytest.approx(many / 2 * np.log(2 * np.pi) + np.log(many) / 2, abs=1e-6)  # constants
        value, slope, _ = prior.of_concentrations(logs)
        for k in range(many):
            moved = prior.of_concentrations(logs + 1e-5 * np.eye(many)[k])[0]
            assert (moved - value) / 1e-5 == pytest.approx(slope[k], abs=1e-4)


def test_pooled_concentrations_are_drawn_towards_each_other():
    rows, _ = drawn(np.eye(5)[:4], [8.0] * 4, (12,) * 4)
    found = {
        way: VonMisesFisherMixture(4, concentration=way)._start(rows.astype(np.float32), 0, None).mixture.log_kappas
        for way in ("free", "shared", "hierarchical")
    }
    assert np.std(found["hierarchical"]) < 0.6 * np.std(found["free"])
    assert found["shared"].shape == (1,)
    assert found["hierarchical"].mean() == pytest.approx(found["shared"][0], abs=0.2)


def uneven(seed=0):
    """Four clusters whose rows are near to their means or far from them, whatever the cluster."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, 1200)
    return directional.sample(rng, directions(4, 20)[labels], 40 * rng.gamma(1.0, 1.0, 1200)), labels


def agreement(model, rows, labels):
    found = model._start(rows.astype(np.float32), 0, None)
    logs = next(found.mixture.each_log_densities(rows, len(rows)))[0]
    return found, adjusted_rand_score(labels, logs.argmax(axis=1))


@pytest.mark.parametrize("kappas", [(30.0,) * 4, (5.0, 30.0, 60.0, 200.0), (1e-3, 60.0, 60.0, 60.0)])
def test_auto_leaves_concentrations_free_where_the_law_is_right(kappas):
    rows, labels = drawn(directions(4, 20), kappas, (500, 300, 200, 200))
    found, auto = agreement(VonMisesFisherMixture(4), rows, labels)
    assert found.concentration == "free"
    assert found.background is None
    assert found.dispersion == pytest.approx(1, abs=4 * np.sqrt(2 / 1200))
    assert auto >= agreement(VonMisesFisherMixture(4, concentration="shared"), rows, labels)[1] - 0.01


def test_auto_shares_the_concentration_where_a_wide_component_would_take_rows_of_all():
    rows, labels = uneven()
    free, index = agreement(VonMisesFisherMixture(4, concentration="free"), rows, labels)
    found, auto = agreement(VonMisesFisherMixture(4), rows, labels)
    assert free.background == np.argmin(free.mixture.kappas)
    assert (found.concentration, found.background) == ("shared", None)
    assert found.dispersion == free.dispersion > 1.5
    assert auto > index + 0.2


def test_a_background_is_warned_of_and_summary_says_so():
    rows, _ = uneven()
    with pytest.warns(UserWarning, match=r"one component, of weight 0\.\d\d, takes rows of others because it is wide"):
        model = VonMisesFisherMixture(4, concentration="free", **QUICK).fit(rows)
    assert model.background_ == np.argmin(model.concentrations_)
    assert f"component {model.background_} is wide and takes rows of others" in str(model.summary())


# The start, and names of components.


def test_the_start_finds_all_clusters_in_high_dimensions():
    sizes = np.arange(100, 1100, 100)
    rows, labels = drawn(directions(10, 200), np.linspace(70, 180, 10), sizes)
    model = VonMisesFisherMixture(10)
    for seed in range(3):
        found = search.mode(model._rows(rows, reset=True), 10, model._prior(200), np.random.default_rng(seed))
        logs = rows @ (found.kappas[:, None] * found.means).T + np.log(found.weights)
        nearest = (logs - laws.excess(200, found.kappas)).argmax(axis=1)
        assert adjusted_rand_score(labels, nearest) > 0.99
        np.testing.assert_allclose(np.sort(found.weights), sizes / sizes.sum(), atol=0.005)


def test_the_start_is_a_mode_of_the_target(fitted):
    model, rows, _ = fitted
    start = search.mode(rows, 2, model._prior(3), np.random.default_rng(0))
    free = model.target(model._rows(rows, reset=False)).free()
    slope = free.full_gradient(free.freed(start.params))
    tangent = slope["means"] - np.sum(slope["means"] * start.means, axis=1, keepdims=True) * start.means
    steps = chains.scaled_sampler(start, model._prior(3), len(rows)).step_size
    for name, along in (slope | {"means": tangent}).items():  # in sds
        assert np.abs(along * steps[name] / chains.STEP).max() < 0.2


def test_draws_are_put_in_one_order(fitted):
    model, rows, _ = fitted
    raw = model.trace_.posterior
    order = np.random.default_rng(0).permuted(np.tile([0, 1], (*raw["weights"].shape[:2], 1)), axis=2)
    mixed = raw.copy(deep=True)
    for name in ("weights", "means", "concentrations"):
        values = raw[name].values
        mixed[name].values[:] = np.take_along_axis(values, order.reshape(*order.shape, *(1,) * (values.ndim - 3)), 2)
    other = settled(model, rows, SimpleNamespace(posterior=mixed))
    assert 0.4 < np.mean(mixed["means"].values[..., 0, 2] > 0.5) < 0.6
    for name in ("weights", "means", "concentrations"):
        np.testing.assert_allclose(other.posterior_[name], model.posterior_[name], rtol=1e-12)
    assert model.weights_[0] > model.weights_[1]


@pytest.mark.slow
def test_chains_from_different_arrangements_have_one_posterior(fitted):
    model, rows, _ = fitted
    start = search.mode(rows, 2, model._prior(3), np.random.default_rng(0))

    def permuted(key):
        order = jax.random.permutation(key, 2)
        return {name: values[order] for name, values in start.params.items()}

    trace = sc.sample(
        model.target(model._rows(rows, reset=False)), sc.SGGMC(0.02, friction=15.0), permuted,
        num_samples=800, burn_in=300, thin=10, batch_size=len(rows), chains=6, seed=0, report=False,
    )  # fmt: skip
    first = trace.posterior["means"].values[:, -1, 0, 2] > 0.5
    assert 0 < first.sum() < 6  # some chains have the components in the other order
    other = settled(model, rows, trace)
    for name in ("weights", "means", "concentrations"):
        (mean, sd), (true_mean, true_sd) = moments(other.posterior_, name), moments(model.posterior_, name)
        np.testing.assert_allclose((mean - true_mean) / true_sd, 0, atol=0.15)
        np.testing.assert_allclose(sd / true_sd, 1, atol=0.1)
    assert np.all(other.posterior_["means"].values[..., 0, 2] > 0.8)


def test_concentric_components_keep_their_names():
    rows, _ = drawn(np.eye(3)[[0, 0]], [4.0, 400.0], (120, 80))
    model = VonMisesFisherMixture(2, measure_bias=False, n_draws=150, random_state=0).fit(rows)
    kappas = model.posterior_["concentrations"].values
    assert np.all(kappas[..., 0] < 10)
    assert np.all(kappas[..., 1] > 50)


# Memberships and densities.


def test_memberships_are_means_over_draws(fitted):
    model, rows, _ = fitted
    mean, sd = model.predict_proba(rows, return_std=True)
    np.testing.assert_array_equal(mean, model.predict_proba(rows))
    np.testing.assert_allclose(mean.sum(axis=1), 1, rtol=1e-6)
    weights, means, kappas = (model._draws(name, 100).astype(float) for name in ("weights", "means", "concentrations"))
    logs = np.array([
        np.log(w) + np.asarray(directional.log_density(rows[:5, None].astype(np.float32), m, k))
        for w, m, k in zip(weights, means, kappas, strict=True)
    ])  # fmt: skip
    np.testing.assert_allclose(softmax(logs, axis=2).mean(axis=0), mean[:5], atol=1e-5)
    np.testing.assert_allclose(softmax(logs, axis=2).std(axis=0), sd[:5], atol=1e-5)
    np.testing.assert_allclose(model.score_samples(rows[:5]), np.log(np.exp(logs).sum(axis=2).mean(axis=0)), atol=1e-4)
    between = rows[np.argmax(model.entropy(rows))]
    assert model.predict_proba(between[None], return_std=True)[1][0, 0] > 10 * sd[0].min()
    assert np.array_equal(model.predict(rows), mean.argmax(axis=1))
    assert model.score(rows) == pytest.approx(model.score_samples(rows).mean())


def test_memberships_are_calibrated():
    means, kappas = [[1, 0, 0], [0, 1, 0]], (3.0, 3.0)
    rows, labels = drawn(means, kappas, (6000, 4000))
    model = VonMisesFisherMixture(2, measure_bias=False, n_draws=100, random_state=0).fit(rows[::50])
    chances = model.predict_proba(rows)[:, 0]
    bins = np.digitize(chances, [0.2, 0.4, 0.6, 0.8])
    for b in range(5):
        own = bins == b
        assert own.sum() > 300
        assert np.mean(labels[own] == 0) == pytest.approx(chances[own].mean(), abs=0.1)  # 200 rows tell it so far


@pytest.mark.parametrize("dimension", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_densities_have_mass_one(dimension):
    rows, _ = drawn(np.eye(dimension)[:2], (20.0, 3.0), (120, 80))
    model = VonMisesFisherMixture(2, **QUICK).fit(rows)
    angles = 2 * np.pi * (np.arange(200) + 0.5) / 200
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    if dimension == 2:
        mass = np.exp(model.score_samples(circle)).mean() * 2 * np.pi
    else:
        height = np.repeat((np.arange(200) + 0.5) / 100 - 1, 200)  # area is uniform in height
        grid = np.column_stack([np.tile(circle, (200, 1)) * np.sqrt(1 - height**2)[:, None], height])
        mass = np.exp(model.score_samples(grid)).mean() * 4 * np.pi
    assert mass == pytest.approx(1, abs=1e-3)


# Partitions.


def test_labels_are_drawn_by_membership(fitted):
    model, rows, labels = fitted
    found = model.sample_labels(rows, max_draws=2000)
    assert found.shape == (2000, len(rows))
    chances = softmax(next(model._log_densities(model._given(rows), 2000)), axis=2)[..., 1].mean(axis=1)
    assert np.abs(found.mean(axis=0) - chances).max() < 4 * 0.5 / np.sqrt(2000)
    np.testing.assert_array_equal(found, model.sample_labels(rows, max_draws=2000))
    point = model.point_partition(rows)
    assert adjusted_rand_score(labels, point.labels) > 0.8
    assert sc.partitions.expected_loss(model.sample_labels(rows), point.labels) == pytest.approx(point.expected_loss)
    ball = model.credible_ball(rows, point.labels)
    assert ball.radius > point.expected_loss
    together = model.co_clustering(rows[[0, 1, 199]])
    np.testing.assert_array_equal(np.diag(together), 1)
    assert together[0, 1] > 0.9
    assert together[0, 2] < 0.1
    entropy = model.entropy(rows)
    assert np.all((entropy >= 0) & (entropy <= 1))
    assert entropy.max() > 0.8
    sizes = model.cluster_sizes(rows, level=0.9)
    np.testing.assert_allclose(sizes["mean"], model.predict_proba(rows).sum(axis=0), atol=1)
    assert np.all((sizes["lower"] < sizes["mean"]) & (sizes["mean"] < sizes["upper"]))


@pytest.mark.slow
def test_a_point_partition_of_many_rows(fitted):
    model = fitted[0]
    rows, labels = drawn([[0, 0, 1], [0, 1, 0]], KAPPAS, (7000, 5000))
    assert adjusted_rand_score(labels, model.point_partition(rows).labels) > 0.8


def test_labels_memberships_and_draws_are_of_the_same_clusters(fitted):
    model, rows, _ = fitted
    np.testing.assert_array_equal(model.membership_, model.predict_proba(rows))
    np.testing.assert_array_equal(model.labels_, model.predict(rows))
    np.testing.assert_array_equal(model.entropy(), model.entropy(rows))
    np.testing.assert_array_equal(model.sample_labels(), model.sample_labels(rows))
    # Paired by rows, not by parameters: 100 draws of a label have a standard error of 0.05 at most.
    view = model.view()
    assert view.number == 2
    np.testing.assert_allclose(view.frequencies[:, :2], model.membership_, atol=0.2)
    sure = model.membership_.max(axis=1) > 0.7
    np.testing.assert_array_equal(view.labels[sure], model.labels_[sure])
    np.testing.assert_allclose(model.cluster_sizes()["mean"], view.sizes[:, :2].mean(axis=0))
    assert model.credible_ball().radius == model.credible_ball(rows, model.labels_).radius
    said = str(model.summary())
    assert "2 of 2 components are the most probable of some row" in said
    assert "concentrations: free (auto)" in said
    assert list(model.summary().table.index) == [f"{n}[{k}]" for n in ("weights", "concentrations") for k in range(2)]


# The number of components.


def test_the_number_of_components_is_found_on_held_out_rows():
    rows, _ = drawn(np.eye(6)[:4], [30.0] * 4, (80, 60, 60, 40))
    choice = sc.choose_components(rows, [6, 1, 4, 2, 4], random_state=0)
    assert list(choice.table.index) == [1, 2, 4, 6]
    assert choice.recommended == 4
    assert choice.table["difference"].min() == 0
    assert set(choice.table["concentration"]) <= {"free", "shared"}
    assert choice.reason in str(choice)
    assert "try more" in sc.choose_components(rows, [1, 2], random_state=0).reason


@pytest.mark.parametrize(("candidates", "settings", "words"), [
    ([], {}, "candidates is empty"),
    ([0, 2], {}, "candidates must be a whole number"),
    ([2, 500], {}, "candidates must not exceed the number of rows fitted, 160; got 500"),
    ([2], {"n_components": 3}, "n_components is chosen here"),
    ([2], {"alpha": 0.0}, "alpha must be"),
    ([2], {"concentration": "same"}, "concentration must be one of auto, free, shared, hierarchical"),
])  # fmt: skip
def test_bad_candidates(candidates, settings, words):
    with pytest.raises(ValueError, match=words):
        sc.choose_components(overlapping()[0], candidates, **settings)
    with pytest.raises(ValueError, match="16 rows beside those held out are too few"):
        sc.choose_components(overlapping()[0][:20], [1])


# Runs and files.


@pytest.mark.slow
def test_runs_go_on_and_survive_a_file(tmp_path):
    rows, _ = overlapping()
    check_model(VonMisesFisherMixture(2, prior_mean=[0, 0, 2.0], prior_concentration=1.0, **QUICK), rows)


def test_a_model_survives_a_file(fitted, tmp_path):
    model, rows, _ = fitted
    model.save(tmp_path / "model.npz")
    again = VonMisesFisherMixture.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))
    np.testing.assert_array_equal(again.sample_labels(rows), model.sample_labels(rows))
    np.testing.assert_array_equal(again.concentrations_, model.concentrations_)
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.labels_, model.labels_)
    assert (again.concentration_, again.dispersion_) == ("free", model.dispersion_)
    assert "concentrations: free" in str(again.summary())
    for ask in (lambda: again.membership_, again.entropy, again.view, again.sample_labels):
        with pytest.raises(NotFittedError, match="a model that was loaded has no rows"):
            ask()
    with pytest.raises(ValueError, match="X has 4 features"):
        again.predict(np.eye(4))


def test_a_file_of_the_versions_with_free_concentrations_alone(fitted, tmp_path):
    model, rows, _ = fitted
    model.save(tmp_path / "new.npz")
    arrays = dict(np.load(tmp_path / "new.npz"))
    meta = json.loads(arrays.pop("meta").tobytes())
    for name in ("concentration_", "dispersion_", "background_"):
        del meta[name]
    del meta["settings"]["concentration"], meta["arrays"]["labels_"], arrays["labels_"]
    np.savez(tmp_path / "old.npz", meta=np.frombuffer(json.dumps(meta).encode(), np.uint8), **arrays)
    old = VonMisesFisherMixture.load(tmp_path / "old.npz")
    assert (old.concentration_, old.dispersion_, old.background_) == ("free", None, None)
    np.testing.assert_array_equal(old.predict_proba(rows), model.predict_proba(rows))
    old.save(tmp_path / "again.npz")
    with pytest.raises(NotFittedError, match="a model that was loaded has no rows"):
        _ = VonMisesFisherMixture.load(tmp_path / "again.npz").labels_


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:one component")  # with "auto" the concentration would be shared
def test_runs_of_the_versions_with_free_concentrations_alone_go_on(tmp_path):
    rows, _ = uneven()
    VonMisesFisherMixture(4, concentration="free", **QUICK | {"n_chains": 1, "alpha": 50.0}).fit(rows, path=tmp_path)
    run = checkpoint.read_json(tmp_path / "run.json")
    del run["model"]["settings"]["concentration"]
    checkpoint.write_json(tmp_path / "run.json", run)
    longer = sc.resume(tmp_path, rows, num_samples=25, progress=False)
    assert (longer.concentration_, longer.posterior_.sizes["draw"]) == ("free", 25)


def test_a_budget_of_time_ends_the_run(ticking):
    rows, _ = overlapping()
    ticking(0.1)
    model = VonMisesFisherMixture(
        2, measure_bias=False, n_draws=10**6, burn_in=10, max_seconds=5.0, random_state=0
    ).fit(rows)
    assert 2 <= model.posterior_.sizes["draw"] < 10**6
    assert model.estimator is None


# Input.


def test_rows_that_are_nearly_unit_vectors_are_made_so():
    rows, _ = overlapping()
    model = VonMisesFisherMixture(2, **QUICK)
    exact = model._rows(rows, reset=True)
    assert exact.dtype == np.float32
    np.testing.assert_allclose(model._rows(rows * 1.0009, reset=True), exact, rtol=1e-6)
    np.testing.assert_allclose(model._rows(rows.astype(np.float16), reset=True), exact, atol=2e-3)
    np.testing.assert_allclose(np.linalg.norm(model._rows(rows * 0.9995, reset=True), axis=1), 1, atol=2e-7)
    long = VonMisesFisherMixture(2, normalize=True, **QUICK)
    np.testing.assert_allclose(long._rows(rows * np.arange(1, 201)[:, None], reset=True), exact, rtol=1e-6)


@pytest.mark.parametrize(("change", "settings", "words"), [
    (lambda x: x * np.where(np.arange(len(x)) == 7, 3.0, 1.0)[:, None], {}, r"row 7 has length 3: give X / np.linalg"),
    (lambda x: x * np.where(np.arange(len(x)) == 5, 0.0, 1.0)[:, None], {}, "row 5 of X has length 0"),
    (lambda x: x * 0, {"normalize": True}, "row 0 of X has length 0: it has no direction"),
    (lambda x: x * np.nan, {}, "contains NaN"),
    (lambda x: np.where(x == x.max(), np.inf, x), {}, "contains infinity"),
    (lambda x: x[:1], {}, "n_components is 2, but X has n_samples = 1"),
    (lambda x: np.ones((9, 1)), {}, r"1 feature\(s\)"),
    (lambda x: x, {"n_components": 0}, "n_components must be a whole number"),
    (lambda x: x, {"alpha": 0.0}, "alpha must be"),
    (lambda x: x, {"concentration": "tied"}, "one of auto, free, shared, hierarchical; got 'tied'"),
    (lambda x: x, {"concentration": 2.0}, "concentration must be one of"),
    (lambda x: x, {"kappa_median": -1.0}, "kappa_median must be"),
    (lambda x: x, {"kappa_spread": 0.0}, "kappa_spread must be"),
    (lambda x: x, {"prior_concentration": 2.0}, "needs a prior_mean"),
    (lambda x: x, {"prior_concentration": -2.0}, "prior_concentration must be"),
    (lambda x: x, {"prior_mean": [1.0, 0.0]}, "prior_mean must be a direction of 3 numbers"),
    (lambda x: x, {"prior_mean": [0.0, 0.0, 0.0]}, "prior_mean must be a direction of 3 numbers"),
    (lambda x: x, {"n_draws": 0}, "n_draws must be a whole number"),
])  # fmt: skip
def test_bad_input(change, settings, words):
    rows = change(overlapping()[0])
    with pytest.raises(ValueError, match=words):
        VonMisesFisherMixture(**(QUICK | {"n_components": 2} | settings)).fit(rows)


def test_more_bad_input(fitted):
    model, rows, _ = fitted
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        VonMisesFisherMixture(2).fit(sparse.csr_matrix(rows))
    with pytest.raises(ValueError, match="X has 4 features, but VonMisesFisherMixture is expecting 3"):
        model.predict(np.eye(4))
    with pytest.raises(ValueError, match=r"row \d+ has length 2"):
        model.score(rows * 2)
    with pytest.raises(ValueError, match="loss must be one of vi, binder"):
        model.point_partition(rows, loss="none")
    with pytest.raises(ValueError, match="level must lie"):
        model.cluster_sizes(rows, level=1.0)
    with pytest.raises(ValueError, match="max_draws must be a whole number"):
        model.sample_labels(rows, max_draws=0)


def test_a_concentration_at_its_bound_has_a_slope(fitted):
    """A million equal rows would bring it there."""
    model, rows, _ = fitted
    free = model.target(model._rows(rows, reset=False)).free()
    start = laws.Mixture(model.weights_, model.means_, np.array([2.0, 60.0]))
    position = free.freed(start.params)
    for place in (position["concentrations"], position["concentrations"] + 30):
        slope = free.full_gradient(position | {"concentrations": place})
        assert all(np.isfinite(s).all() for s in slope.values())


def test_equal_rows():
    rows, _ = drawn([[0, 0, 1]], [5.0], (200,))
    rows[120:] = [0.6, 0.8, 0.0]
    model = VonMisesFisherMixture(2, **QUICK).fit(rows)
    assert np.all(model.posterior_["concentrations"][..., 0] < 20)
    assert np.all(model.posterior_["concentrations"][..., 1] > 1e5)
    np.testing.assert_array_equal(model.predict(rows), np.arange(200) >= 120)
    same = VonMisesFisherMixture(2, **QUICK).fit(rows[[120] * 200])
    assert same.score(rows[120:121]) > 10 > same.score(rows[:1])


@pytest.mark.slow
def test_as_many_components_as_rows():
    few = VonMisesFisherMixture(3, **QUICK).fit(np.eye(3))
    assert np.all(np.isfinite(few.posterior_["concentrations"]))
