"""Bayesian principal components: likelihood, posterior, symmetries of the columns, predictions, bad input, files."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import scirocco as sc
from scirocco.conformance import check_model
from scirocco.models import bayesian_pca, turning
from scirocco.models.bayesian_pca import PARAMETERS, BayesianPCA
from scirocco.models.turning import Sums, turned

SEED = 11
QUICK = {"n_draws": 20, "burn_in": 50, "thin": 1, "n_chains": 2, "measure_bias": False, "random_state": 0}


def rows(n, d, scales, seed=SEED, noise=1.0, shift=5.0):
    """Simulated data and its true loadings, (d, k)."""
    rng = np.random.default_rng(seed)
    loadings = np.linalg.qr(rng.normal(size=(d, len(scales))))[0]
    factors = rng.normal(size=(n, len(scales))) * scales
    return shift + factors @ loadings.T + noise * rng.normal(size=(n, d)), loadings


def drawn(posterior):
    """Draws as they are settled."""
    return {name: posterior[name].values.astype(float) for name in PARAMETERS}


@pytest.fixture(scope="module")
def large():
    x, loadings = rows(20_000, 8, [4.0, 2.5, 1.5])
    return BayesianPCA(3, measure_bias=False, n_draws=150, n_chains=2, random_state=1).fit(x), x, loadings


# The model.


def test_the_likelihood_is_that_of_a_normal_law():
    x, loadings = rows(50, 6, [3.0, 1.0])
    x = x - x.mean(axis=0)
    target = BayesianPCA(2, prior_scale=1.5, mean_scale=4.0).target(x.astype(np.float32))
    mean = np.linspace(-1, 1, 6)
    params = {
        "loadings": jnp.asarray(loadings, jnp.float32), "scales": jnp.array([2.0, 0.5]), "noise": jnp.array(0.7),
        "mean": jnp.asarray(mean, jnp.float32),
    }  # fmt: skip
    covariance = loadings @ np.diag([4.0, 0.25]) @ loadings.T + 0.49 * np.eye(6)
    expected = multivariate_normal(mean, covariance).logpdf(x)
    np.testing.assert_allclose(target.log_likelihood(params, jnp.asarray(x, jnp.float32)), expected, rtol=1e-5)
    logs = np.log([2.0, 0.5, 0.7])
    log_prior = -np.sum((logs / 1.5) ** 2) / 2 - logs.sum() - np.sum((mean / 4) ** 2) / 2
    assert float(target.log_prior(params)) == pytest.approx(log_prior, rel=1e-5)
    # The coordinates of the chain.
    position = target.change.free(params)
    np.testing.assert_allclose(position["mean"], np.linalg.solve(sqrtm(covariance), mean), rtol=1e-4)
    again, log_det = target.change.constrain(position)
    for name, value in params.items():
        np.testing.assert_allclose(again[name], value, rtol=1e-5, atol=1e-6)
    slopes = jax.jacfwd(lambda z: target.change.parameters({**position, "mean": z})["mean"])(position["mean"])
    assert float(log_det) == pytest.approx(np.linalg.slogdet(slopes)[1] + logs.sum(), rel=1e-5)


def test_the_likelihood_from_sums_is_that_of_all_rows():
    x, loadings = rows(70, 6, [3.0, 1.0])
    unit = bayesian_pca._standardised(x)[2]
    model = BayesianPCA(2)
    by_rows, by_sums = model.target(unit), model._target_of_sums(Sums.of(unit))
    assert (by_rows.size, by_sums.size) == (70, 6)
    params = {
        "loadings": jnp.asarray(loadings, jnp.float32), "scales": jnp.array([2.0, 0.5]), "noise": jnp.array(0.7),
        "mean": jnp.linspace(-1, 1, 6, dtype=jnp.float32),
    }  # fmt: skip
    assert by_sums.log_posterior(params) == pytest.approx(by_rows.log_posterior(params), rel=1e-5)
    free, other = by_rows.free(), by_sums.free()
    expected, found = (t.full_gradient(t.freed(params)) for t in (free, other))
    for name, slope in expected.items():
        np.testing.assert_allclose(found[name], slope, rtol=1e-4, atol=2e-3, err_msg=name)


@pytest.mark.slow
def test_sums_are_used_where_they_are_less_work():
    x, _ = rows(80, 4, [2.0])
    assert BayesianPCA(1, **QUICK).fit(x).trace_.description.settings.batch_size == 4
    for own, size in (({"batch_size": 40}, 40), ({"estimator": sc.Plain(), "batch_size": 1.0}, 80)):
        assert BayesianPCA(1, **own, **QUICK).fit(x).trace_.description.settings.batch_size == size
    wide, _ = rows(30, 40, [9.0])  # there are fewer rows than columns
    assert BayesianPCA(1, **QUICK).fit(wide).trace_.description.settings.batch_size == 30


def test_the_start_is_the_maximum_of_the_likelihood():
    x, _ = rows(400, 6, [3.0, 1.5])
    centre, scale, unit = bayesian_pca._standardised(x)
    np.testing.assert_allclose(unit * scale + centre, x, atol=1e-5)
    start, target = BayesianPCA(2)._initial(Sums.of(unit)), BayesianPCA(2).target(unit).free()
    position = target.freed(start)
    for name, slope in target.geometry.slope(position, target.full_likelihood_gradient(position)).items():
        assert np.max(np.abs(slope)) < 0.02, name  # of sums over 400 rows
    known = PCA(2).fit(x)
    np.testing.assert_allclose(np.abs(np.sum(known.components_.T * start["loadings"], axis=0)), 1, atol=1e-5)


@pytest.mark.slow
def test_equal_fits_share_a_program():
    x = rows(50, 6, [3.0])[0].astype(np.float32)
    density = BayesianPCA(1).target(x).density
    assert BayesianPCA(1).target(2 * x).density == density
    assert hash(BayesianPCA(1).target(2 * x).density) == hash(density)
    assert BayesianPCA(1, prior_scale=1.0).target(x).density != density


def test_sums_over_blocks_are_those_of_all_rows(monkeypatch):
    x, _ = rows(101, 4, [2.0])
    whole = bayesian_pca._standardised(x)[2], Sums.of(x).squares
    monkeypatch.setattr(bayesian_pca, "BLOCK", 4 * 10)
    monkeypatch.setattr(turning, "BLOCK", 4 * 10)
    np.testing.assert_allclose(bayesian_pca._standardised(x)[2], whole[0], rtol=1e-6)
    np.testing.assert_allclose(Sums.of(x).squares, whole[1], rtol=1e-12)


# The posterior.


def moments(draws):
    """Means, sds and standard errors of the means, from 10 parts of each chain."""
    values = draws.reshape(10 * len(draws), -1, *draws.shape[2:])
    error = values.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(len(values))
    return values.mean(axis=(0, 1)), values.std(axis=(0, 1)), error


def test_the_posterior_is_that_of_exact_geodesic_monte_carlo():
    x, _ = rows(300, 5, [3.0, 1.5], seed=2)
    model = BayesianPCA(2, measure_bias=False, n_draws=1200, random_state=3).fit(x)
    centre, scale, unit = bayesian_pca._standardised(x)
    start = model._initial(Sums.of(unit))
    steps = model._default_run(start, len(x))[0].step_size
    # Trajectories of no common period with any of the oscillations.
    exact = BayesianPCA(2)
    exact.trace_ = sc.sample(
        model.target(unit), sc.GMC({name: 1.7 * h for name, h in steps.items()}, leapfrog_steps=7), start,
        num_samples=1200, burn_in=100, chains=4, seed=4, report=False,
    )  # fmt: skip
    exact._settle(drawn(exact.trace_.posterior), start, centre, scale)
    assert exact.trace_.sample_stats.acceptance.mean() > 0.8
    for name in ("loadings", "scales", "noise", "mean"):
        mean, sd, error = moments(model.posterior_[name].values)
        truth, truth_sd, truth_error = moments(exact.posterior_[name].values)
        np.testing.assert_allclose((mean - truth) / np.hypot(error, truth_error), 0, atol=4, err_msg=name)
        np.testing.assert_allclose(mean / truth_sd, truth / truth_sd, atol=0.12, err_msg=name)
        np.testing.assert_allclose(sd / truth_sd, 1, atol=0.1, err_msg=name)


@pytest.mark.parametrize("batch_size", [None, pytest.param(2000, marks=pytest.mark.slow)])
def test_sds_are_as_the_fisher_information_has_them(large, batch_size):
    model, x, _ = large
    assert model.trace_.description.settings.batch_size == 8  # the sums
    if batch_size is not None:
        model = clone(model).set_params(batch_size=batch_size).fit(x)
    s, e, n = np.sqrt(model.explained_variance_ - model.noise_variance_), np.sqrt(model.noise_variance_), len(x)
    outside = np.linalg.svd(model.subspace_)[2][3:]  # directions that no column spans
    across = np.einsum("nfk,of->nok", model._draws("loadings"), outside).std(axis=0)
    np.testing.assert_allclose(across.mean(axis=0), e * np.sqrt((s**2 + e**2) / n) / s**2, rtol=0.12)
    assert model._draws("noise").std() == pytest.approx(e / np.sqrt(2 * n * 5), rel=0.15)
    np.testing.assert_allclose(model._draws("scales").std(axis=0), (s**2 + e**2) / (s * np.sqrt(2 * n)), rtol=0.15)
    assert model._draws("mean").std(axis=0) == pytest.approx(np.sqrt(np.diag(model.get_covariance()) / n), rel=0.15)


@pytest.mark.slow
def test_nine_in_ten_intervals_hold_the_truth():
    inside: dict[str, list[float]] = {"scales": [], "noise": [], "loadings": []}
    for seed in range(20):
        x, loadings = rows(400, 6, [3.0, 1.6], seed=100 + seed)
        model = BayesianPCA(2, measure_bias=False, n_draws=250, n_chains=2, random_state=seed).fit(x)
        signs = np.sign(np.sum(model.components_.T * loadings, axis=0))
        for name, truth in (("scales", [3.0, 1.6]), ("noise", 1.0), ("loadings", loadings * signs)):
            low, high = np.quantile(model._draws(name), [0.05, 0.95], axis=0)
            inside[name].extend(np.ravel((low <= truth) & (truth <= high)))
    # Binomial sds of shares of 40, 20 and some 20 x 8 independent answers: 0.047, 0.067, 0.024.
    assert np.mean(inside["scales"]) > 0.75
    assert np.mean(inside["noise"]) > 0.7
    assert 0.83 < np.mean(inside["loadings"]) < 0.97


def test_loadings_stay_orthonormal(large):
    model, _, _ = large
    draws = model._draws("loadings")
    np.testing.assert_allclose(np.einsum("nfk,nfl->nkl", draws, draws) - np.eye(3), 0, atol=2e-6)
    for basis in (model.components_, model.subspace_):
        np.testing.assert_allclose(basis @ basis.T, np.eye(3), atol=1e-12)


def test_large_data_agree_with_maximum_likelihood(large):
    model, x, loadings = large
    known = PCA(3).fit(x)
    assert model.noise_variance_ == pytest.approx(known.noise_variance_, rel=0.005)
    np.testing.assert_allclose(model.explained_variance_, known.explained_variance_, rtol=0.01)
    np.testing.assert_allclose(model.explained_variance_ratio_, known.explained_variance_ratio_, rtol=0.01)
    np.testing.assert_allclose(model.mean_, known.mean_, atol=0.01)
    np.testing.assert_allclose(model.get_covariance(), known.get_covariance(), atol=0.1)
    assert model.score(x) == pytest.approx(known.score(x), abs=2e-3)
    np.testing.assert_allclose(model.score_samples(x[:50]), known.score_samples(x[:50]), atol=0.05)
    np.testing.assert_allclose(np.abs(np.sum(model.components_.T * loadings, axis=0)), 1, atol=1e-3)
    assert np.all(np.diff(model.explained_variance_) < 0)
    assert model.posterior_["column_angles"].mean() < 0.05
    assert model.posterior_["subspace_angles"].mean() < 0.03


# Signs and order of the columns.


def test_columns_of_all_draws_have_one_order_and_sign(large):
    model, x, _ = large
    again = BayesianPCA(3)
    centre, scale, unit = bayesian_pca._standardised(x)
    # The same draws, in the units of the chain, with the columns of the second shuffled and their signs changed.
    mixed = drawn(model.posterior_)
    mixed |= {"scales": mixed["scales"] / scale, "noise": mixed["noise"] / scale}
    mixed["mean"] = (mixed["mean"] - centre) / scale
    mixed["loadings"][1] = mixed["loadings"][1][..., [2, 0, 1]] * [-1, 1, -1]
    mixed["scales"][1] = mixed["scales"][1][..., [2, 0, 1]]
    again.trace_ = model.trace_
    again._settle(mixed, again._initial(Sums.of(unit)), centre, scale)
    for name in model.posterior_:
        np.testing.assert_allclose(again.posterior_[name], model.posterior_[name], atol=1e-6, err_msg=name)
    assert np.all(np.einsum("cdfk,kf->cdk", again.posterior_["loadings"], again.components_) > 0.99)


@pytest.mark.slow
def test_of_equal_scales_the_subspace_is_known_and_directions_are_not():
    x, loadings = rows(600, 6, [3.0, 3.0, 1.2], seed=5)
    # Whitened inside the plane of the first two, so that the sample has no preference either.
    plane = (x - x.mean(axis=0)) @ loadings[:, :2]
    root = np.linalg.cholesky(np.cov(plane.T))
    x = x + (plane @ np.linalg.inv(root).T * np.sqrt(10) - plane) @ loadings[:, :2].T
    model = BayesianPCA(2, measure_bias=False, n_draws=500, random_state=0).fit(x)
    assert model.trace_.description.settings.batch_size == 6  # the sums: minibatches would heat columns that turn
    angles = model.posterior_.mean(("chain", "draw"))
    assert np.all(angles["subspace_angles"] < 0.06)
    assert np.all(angles["column_angles"] > 0.25)  # uniform up to 45 degrees would have 0.39
    along = model.subspace_ @ loadings[:, :2]
    np.testing.assert_allclose(np.linalg.svd(along, compute_uv=False), 1, atol=0.01)
    known = PCA(2).fit(x)
    np.testing.assert_allclose(model.get_covariance(), known.get_covariance(), atol=0.4)
    assert model.score(x) == pytest.approx(known.score(x), abs=0.02)


def test_columns_and_scales_that_are_turned_have_their_exact_law():
    rng, n, noise, prior_scale = np.random.default_rng(8), 30, 0.7, 1.0
    x = rng.normal(size=(n, 3)) * [1.6, 1.3, 0.7]
    x -= x.mean(axis=0)
    span, mean = np.linalg.qr(rng.normal(size=(3, 2)) * [[3.0], [3.0], [1.0]])[0], np.array([0.2, -0.1, 0.3])

    angles, logs = np.linspace(0, np.pi, 60, endpoint=False), np.linspace(-4, 2.5, 261)
    columns = np.stack([np.cos(angles), np.sin(angles)]), np.stack([-np.sin(angles), np.cos(angles)])
    inside = ((x - mean) @ span).T @ ((x - mean) @ span)
    lengths = np.exp(2 * logs) + noise**2

    def heights(turn):  # of (angle, log scale)
        weight = np.einsum("ia,ij,ja->a", turn, inside, turn)[:, None]
        return -(weight / lengths + n * np.log(lengths) + (logs / prior_scale) ** 2) / 2

    law = heights(columns[0])[:, :, None] + heights(columns[1])[:, None, :]
    law = np.exp(law - law.max())
    law /= law.sum()

    draws = 6000
    every = {"loadings": np.broadcast_to(span, (1, draws, 3, 2)), "scales": np.full((1, draws, 2), 3.0)}
    every |= {"noise": np.full((1, draws), noise), "mean": np.broadcast_to(mean, (1, draws, 3))}
    for _ in range(6):  # the start is far from the law
        found = turned(**every, sums=Sums.of(x), prior_scale=prior_scale, rng=rng)
        every |= found
    turn = np.einsum("fi,ndfj->ndij", span, found["loadings"])[0]
    np.testing.assert_allclose(np.einsum("nij,nik->njk", turn, turn) - np.eye(2), 0, atol=1e-9)
    doubled, free = 2 * np.arctan2(turn[:, 1, 0], turn[:, 0, 0]), np.log(found["scales"][0])
    wave, first, second = np.exp(2j * angles)[:, None, None], logs[:, None], logs
    for name, value, exact in (
        ("cosine", np.cos(doubled), wave.real), ("sine", np.sin(doubled), wave.imag),
        ("scales", free[:, 0], first), ("squares", free[:, 1] ** 2, second**2),
        ("product", free.prod(axis=1), first * second), ("together", np.cos(doubled) * free[:, 0], wave.real * first),
    ):  # fmt: skip
        error = value.std() / np.sqrt(draws)
        assert abs(value.mean() - (law * exact).sum()) < 4 * error, name


def test_columns_of_equal_scales_do_not_keep_a_posterior_from_being_used(tmp_path):
    x, _ = rows(600, 6, [3.0, 2.95, 1.2], seed=5)
    model = BayesianPCA(3, n_draws=400, random_state=0).fit(x)
    assert model.verdict().kind == "use it", model.verdict()
    angles = model.posterior_["column_angles"].mean(("chain", "draw"))
    assert angles[0] > 0.2
    assert angles[1] > 0.2
    assert "Not known one by one: 0, 1." in model.report(tmp_path / "page.html").read_text()
    for name in PARAMETERS:  # what is judged and summed up is what is shown
        shown = model.posterior_[name].values
        np.testing.assert_array_equal(model.trace_.posterior[name], shown)
        np.testing.assert_allclose(model.trace_.mean[name], shown.mean(axis=(0, 1)), atol=1e-9)
        np.testing.assert_allclose(model.trace_.variance[name], shown.var(axis=(0, 1)), rtol=0.01, atol=1e-9)


# Using.


def test_transform_agrees_with_the_closed_form(large):
    model, x, _ = large
    x = x[:40]
    each = []
    variances = []
    for u, s, e, m in model._each():
        precision = np.eye(3) / 1.0 + np.diag(s) @ u.T @ u @ np.diag(s) / e**2  # of the factors, unit variance
        factors = np.linalg.solve(precision, (np.diag(s) @ u.T @ (x - m).T) / e**2).T
        each.append(factors * s)
        variances.append(np.diag(np.diag(s) @ np.linalg.inv(precision) @ np.diag(s)))
    mean, sd = model.transform(x, return_std=True)
    np.testing.assert_allclose(mean, np.mean(each, axis=0), atol=1e-5)
    np.testing.assert_allclose(model.transform(x), mean, atol=1e-10)
    np.testing.assert_allclose(sd, np.sqrt(np.var(each, axis=0) + np.mean(variances, axis=0)), rtol=1e-4)
    assert np.all(sd > np.sqrt(np.mean(variances, axis=0)))
    back = model.inverse_transform(mean)
    np.testing.assert_allclose(back, model.mean_ + mean @ model.components_)
    assert np.mean((back - x) ** 2) < 1.2  # the noise, and no more
    assert list(model.get_feature_names_out()) == ["bayesianpca0", "bayesianpca1", "bayesianpca2"]
    with pytest.raises(ValueError, match="a column for each of n_components = 3; got 2"):
        model.inverse_transform(np.zeros((4, 2)))


def test_the_predictive_density_is_averaged_over_draws(large):
    model, x, _ = large
    x, densities = x[:5], []
    for u, s, e, m in model._each():
        densities.append(multivariate_normal(m, (u * s**2) @ u.T + e**2 * np.eye(8)).pdf(x))
    np.testing.assert_allclose(model.score_samples(x), np.log(np.mean(densities, axis=0)), rtol=1e-5)
    assert model.score(x) == pytest.approx(np.mean(model.score_samples(x)))
    covariances = [(u * s**2) @ u.T + e**2 * np.eye(8) for u, s, e, _ in model._each()]
    np.testing.assert_allclose(model.get_covariance(), np.mean(covariances, axis=0))


# Files.


@pytest.mark.slow
def test_a_run_can_be_kept_resumed_saved_and_loaded(tmp_path):
    x, _ = rows(80, 4, [2.0])
    check_model(BayesianPCA(1, **QUICK), x)
    model = BayesianPCA(1, **QUICK).fit(x)
    model.save(tmp_path / "pca.npz")
    again = BayesianPCA.load(tmp_path / "pca.npz")
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.transform(x), model.transform(x))
    np.testing.assert_array_equal(again.score_samples(x), model.score_samples(x))
    for name in ("components_", "subspace_", "mean_", "noise_variance_", "explained_variance_ratio_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on(tmp_path):
    x, _ = rows(80, 4, [2.0])
    whole = BayesianPCA(1, **QUICK).fit(x)
    short = BayesianPCA(1, **{**QUICK, "n_draws": 8}).fit(x, path=tmp_path / "run")
    assert short.posterior_.sizes["draw"] == 8
    longer = sc.resume(tmp_path / "run", x, num_samples=20, progress=False)
    assert isinstance(longer, BayesianPCA)
    assert longer.posterior_.identical(whole.posterior_)
    with pytest.raises(ValueError, match="data differs"):
        sc.resume(tmp_path / "run", x + np.eye(80, 4), num_samples=30, progress=False)


@pytest.mark.slow
def test_a_budget_of_time_ends_the_run(ticking):
    x, _ = rows(80, 4, [2.0])
    ticking(0.1)
    model = BayesianPCA(
        1, measure_bias=False, n_draws=10**6, n_chains=1, burn_in=0, thin=1, max_seconds=2.0, random_state=0
    ).fit(x)
    assert 1 < model.posterior_.sizes["draw"] < 10**6
    assert np.isfinite(model.score(x))
    with pytest.raises(ValueError, match="the run ended before its first draw, in its burn-in of 1000000 steps"):
        model.set_params(max_seconds=1e-9, burn_in=10**6).fit(x)


# What scikit-learn asks, and bad input.


@pytest.mark.slow
@parametrize_with_checks([BayesianPCA(1, **{**QUICK, "n_chains": 1})])
def test_scikit_learn_compatibility(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant columns in the data of some checks
        check(estimator)
    jax.clear_caches()  # each check has shapes of its own, and programs of all together exceed the limit of memory maps


def test_settings_are_only_stored():
    model = BayesianPCA(3, prior_scale=1.0)
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        model.transform(np.zeros((2, 4)))


@pytest.mark.slow
def test_any_geodesic_sampler_will_do():
    x, _ = rows(200, 4, [2.0])
    for sampler in (sc.GeodesicSGNHT(0.01), sc.GMC(0.02, leapfrog_steps=2)):
        full = {"batch_size": 1.0} if isinstance(sampler, sc.GMC) else {"batch_size": 50}
        model = BayesianPCA(1, sampler=sampler, estimator=sc.Plain(), **full, **QUICK).fit(x)
        assert model.noise_variance_ == pytest.approx(1, rel=0.3)


@pytest.mark.parametrize(
    ("x", "words", "settings"),
    [
        (np.full((9, 3), np.nan), "NaN", {}),
        (np.ones((9, 3)), "X has zero variance", {}),
        (np.eye(9, 3), "n_components is 3 and needs 1 more; X has only n_features = 3", {"n_components": 3}),
        (np.eye(3, 9), "n_components is 2 and needs 2 more; X has only n_samples = 3", {"n_components": 2}),
        (np.eye(9, 1), "X has only n_features = 1", {}),
        (np.arange(9.0)[:, None] * [1, 2, 3], "n_components = 1 leave .* as noise, too little", {}),
        (np.eye(9, 3), "n_components must be a whole number", {"n_components": 0}),
        (np.eye(9, 3), "prior_scale must be finite and greater than 0", {"prior_scale": -1.0}),
        (np.eye(9, 3), "mean_scale must be finite and greater than 0", {"mean_scale": 0.0}),
        (np.eye(9, 3), "n_draws must be a whole number", {"n_draws": 0}),
        (rows(80, 4, [2.0])[0], "SGLD moves in straight lines", {"sampler": sc.SGLD(1e-4)}),
    ],
)
def test_bad_input(x, words, settings):
    with pytest.raises(ValueError, match=words):
        BayesianPCA(**{"n_components": 1, **settings}).fit(x)


@pytest.mark.slow
def test_constant_columns_are_kept_with_a_warning():
    x, _ = rows(80, 4, [2.0])
    x[:, 2] = 7.0
    with pytest.warns(UserWarning, match=r"columns \[2\] of X are constant"):
        model = BayesianPCA(1, **QUICK).fit(x)
    assert model.mean_[2] == pytest.approx(7, abs=0.2)
    assert abs(model.components_[0, 2]) < 0.2
    with pytest.raises(ValueError, match="X has 3 features"):
        model.transform(x[:, :3])
