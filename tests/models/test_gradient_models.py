"""The models on the gradient engine: posteriors against truth, predictions, bad input, files."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import scirocco as sc
from scirocco.models import precisions
from scirocco.models.sam.model import Hyper, joint_target, marginal_target, shares_block

SEED = 7
RNG = np.random.default_rng(SEED)
QUICK = {"n_draws": 20, "burn_in": 50, "thin": 1, "n_chains": 1, "measure_bias": False, "random_state": 0}


@pytest.fixture(autouse=True)
def seeded(monkeypatch):
    """The same numbers in each test, whichever ran before."""
    monkeypatch.setattr(f"{__name__}.RNG", np.random.default_rng(SEED))


# scikit-learn's own checks, with settings that take no time: what is asked is the interface.

QUICK_MODELS = [
    sc.LogisticRegression(sampler=sc.SGLD(1e-3), **QUICK),
    sc.NeuralNetworkClassifier(4, sampler=sc.SGLD(1e-3), **QUICK),
    sc.NeuralNetworkRegressor(4, sampler=sc.SGLD(1e-4), **QUICK),
    sc.GaussianMixture(sampler=sc.SGLD(1e-4), **QUICK),
]


@pytest.mark.slow
@parametrize_with_checks(QUICK_MODELS)
def test_scikit_learn_compatibility(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant columns in the data of some checks
        check(estimator)


@pytest.mark.parametrize("model", [*QUICK_MODELS, sc.MatrixFactorization()], ids=lambda m: type(m).__name__)
def test_settings_are_only_stored(model):
    again = clone(model)
    assert again.get_params() == model.get_params() or str(again.get_params()) == str(model.get_params())
    with pytest.raises(NotFittedError):
        again.predict(np.zeros((2, 2)))


@pytest.mark.parametrize(
    "model",
    [pytest.param(m, marks=pytest.mark.slow) if "Network" in type(m).__name__ else m for m in QUICK_MODELS],
    ids=lambda m: type(m).__name__,
)
def test_every_model_survives_a_file(model, tmp_path):
    x = RNG.normal(size=(60, 2))
    y = (x[:, 0] > 0).astype(int)
    fitted = clone(model).fit(x, y)
    fitted.save(tmp_path / "model.npz")
    again = type(model).load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict(x), fitted.predict(x))
    assert again.get_params() == fitted.get_params()
    assert again.n_features_in_ == 2
    with pytest.raises(ValueError, match="X has 3 features"):
        again.predict(np.zeros((2, 3)))
    (tmp_path / "model.npz").write_bytes(b"PK nothing")
    with pytest.raises(ValueError, match="is damaged or not a saved"):
        type(model).load(tmp_path / "model.npz")


def test_equal_settings_are_one_program():
    """Functions that were equal to themselves alone would be compiled again at each fit."""
    x, codes = np.eye(3, dtype=np.float32), np.array([0, 1, 1])
    centre, hyper = np.ones(3) / 3, Hyper((0.5, 0.5), 10.0, 1.0, 1.0)
    ratings = sc.MatrixFactorization(n_users=2, n_items=3)
    ratings.mean_ = 0.0
    ways = [
        lambda: sc.LogisticRegression(prior_scale=2.0).target(x, codes),
        lambda: sc.LogisticRegression().target(x, np.arange(3)),
        lambda: sc.NeuralNetworkClassifier(4).target(x, codes),
        lambda: sc.NeuralNetworkRegressor(4).target(x, x[:, 0]),
        lambda: sc.GaussianMixture().target(x),
        lambda: sc.BayesianPCA().target(x),
        lambda: sc.VonMisesFisherMixture().target(x),
        lambda: ratings.target(x[:, :2].astype(np.int32), x[:, 0]),
        lambda: marginal_target(x, centre, hyper),
        lambda: joint_target(x, centre, hyper),
    ]
    programs = [way().density for way in ways]
    assert [way().density for way in ways] == programs
    assert len(set(programs)) == len(ways)
    for block in (ratings.precision_block, lambda: shares_block(hyper, 2, 2)):
        assert block() == block()
    assert sc.LogisticRegression().target(x, codes).density != programs[0]


# Logistic regression.


def logistic_truth(x, y, log_prior, draws=40_000):
    """Posterior means and sds in two dimensions, by a grid."""
    grid = np.stack(np.meshgrid(np.linspace(-1.5, 2.5, 161), np.linspace(-2.5, 1.5, 161), indexing="ij"), -1)
    points = grid.reshape(-1, 2)
    logits = points @ x.T
    value = (y * logits - np.logaddexp(0, logits)).sum(1) + log_prior(points)
    p = np.exp(value - value.max())
    p /= p.sum()
    mean = p @ points
    return mean, np.sqrt(p @ (points - mean) ** 2)


@pytest.mark.parametrize("prior", ["gaussian", pytest.param("laplace", marks=pytest.mark.slow)])
def test_logistic_regression_has_the_posterior(prior):
    x = RNG.normal(size=(300, 2))
    y = (RNG.random(300) < 1 / (1 + np.exp(-x @ [0.6, -0.5]))).astype(int)
    model = sc.LogisticRegression(
        prior=prior,
        prior_scale=0.5,
        fit_intercept=False,
        measure_bias=False,
        n_draws=4000,
        thin=2,
        batch_size=100,
        random_state=1,
    ).fit(x, y)
    log_prior = {
        "gaussian": lambda w: -np.sum((w / 0.5) ** 2, axis=1) / 2,
        "laplace": lambda w: -np.sum(np.abs(w / 0.5), axis=1),
    }[prior]
    mean, sd = logistic_truth(x.astype(np.float32), y, log_prior)
    draws = model._draws("coef")
    np.testing.assert_allclose((draws.mean(0) - mean) / sd, 0, atol=0.1)
    np.testing.assert_allclose(draws.std(0) / sd, 1, atol=0.06)
    np.testing.assert_allclose(model.coef_[0], draws.mean(0), rtol=1e-5)


def test_softmax_regression_predicts_and_survives_a_file(tmp_path):
    centres = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 3.0]])
    labels = RNG.integers(3, size=400)
    x = centres[labels] + RNG.normal(size=(400, 2))
    names = np.array(["left", "right", "up"], dtype=object)
    model = sc.LogisticRegression(measure_bias=False, n_draws=100, n_chains=2, random_state=0).fit(x, names[labels])
    proba = model.predict_proba(x)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert list(model.classes_) == ["left", "right", "up"]
    assert model.coef_.shape == (3, 2)
    assert model.score(x, names[labels]) > 0.85
    far = model.predict_proba([[0.0, 30.0]])[0]
    assert far[2] > 0.99
    # The mean of probabilities, not the probability of the mean.
    coef, shift = model._draws("coef").astype(float), model._draws("intercept").astype(float)
    logits = np.einsum("dkf,f->dk", coef, x[0]) + shift
    each = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(proba[0], each.mean(0), rtol=1e-6)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(x)), proba)
    model.save(tmp_path / "model.npz")
    again = sc.LogisticRegression.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict_proba(x), proba)
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    with pytest.raises(ValueError, match="not a saved GaussianMixture model: it holds LogisticRegression"):
        sc.GaussianMixture.load(tmp_path / "model.npz")


def test_logistic_regression_and_bad_input():
    x, y = RNG.normal(size=(60, 2)), np.arange(60) % 2
    quick = {**QUICK, "sampler": sc.SGLD(1e-3)}
    with pytest.raises(ValueError, match="at least two classes; got 1 class"):
        sc.LogisticRegression(**quick).fit(x, np.zeros(60))
    with pytest.raises(ValueError, match="Unknown label type"):
        sc.LogisticRegression(**quick).fit(x, RNG.normal(size=60))
    with pytest.raises(ValueError, match="prior must be one of gaussian, laplace; got 'flat'"):
        sc.LogisticRegression(prior="flat", **quick).fit(x, y)
    with pytest.raises(ValueError, match="prior_scale must be finite and greater than 0"):
        sc.LogisticRegression(prior_scale=-1.0, **quick).fit(x, y)
    with pytest.raises(ValueError, match="n_draws must be a whole number"):
        sc.LogisticRegression(n_draws=0).fit(x, y)
    with pytest.raises(ValueError, match="NaN"):
        sc.LogisticRegression(**quick).fit(np.full((60, 2), np.nan), y)
    with pytest.warns(UserWarning, match=r"columns \[1\] of X are constant"):
        sc.LogisticRegression(**quick).fit(np.stack([x[:, 0], np.ones(60)], axis=1), y)


@pytest.mark.slow
def test_separable_classes_have_a_proper_posterior():
    x = np.concatenate([RNG.uniform(-2, -1, 100), RNG.uniform(1, 2, 100)])[:, None]
    model = sc.LogisticRegression(
        prior_scale=2.0, fit_intercept=False, measure_bias=False, n_draws=1000, random_state=0
    ).fit(x, x[:, 0] > 0)
    w = np.linspace(0, 15, 4001)
    value = -np.sum(np.logaddexp(0, -np.abs(x.astype(np.float32)) * w), axis=0) - (w / 2) ** 2 / 2
    p = np.exp(value - value.max()) / np.exp(value - value.max()).sum()
    mean, sd = p @ w, np.sqrt(p @ (w - p @ w) ** 2)
    assert abs(model.coef_[0, 0] - mean) < 0.15 * sd
    assert model._draws("coef").std() == pytest.approx(sd, rel=0.1)


def test_the_zig_zag_regression_is_exact_from_few_rows(tmp_path):
    """The posterior of twelve rows by a grid, within the standard errors of independent chains; and its file."""
    x = RNG.normal(size=(12, 1))
    y = (RNG.random(12) < 1 / (1 + np.exp(-x[:, 0] - 0.5))).astype(int)
    model = sc.LogisticRegression(
        sampler="zigzag", prior_scale=0.7, intercept_scale=2.0, batch_size=1, n_draws=300, burn_in=20, thin=1,
        n_chains=32, random_state=1,
    ).fit(x, y)  # fmt: skip
    grid = np.stack(np.meshgrid(np.linspace(-4, 4, 241), np.linspace(-6, 6, 241), indexing="ij"), -1).reshape(-1, 2)
    logits = grid @ np.c_[x.astype(np.float32), np.ones(12)].T
    value = (y * logits - np.logaddexp(0, logits)).sum(1) - np.sum((grid / [0.7, 2.0]) ** 2, axis=1) / 2
    p = np.exp(value - value.max()) / np.exp(value - value.max()).sum()
    mean = p @ grid
    draws = np.stack([model.posterior_["coef"].values[..., 0], model.posterior_["intercept"].values], -1)
    for found, true in ((draws, mean), ((draws - mean) ** 2, p @ (grid - mean) ** 2)):
        chains = found.astype(np.float64).mean(axis=1)
        assert np.all(np.abs(chains.mean(0) - true) < 4.75 * chains.std(0, ddof=1) / np.sqrt(32))
    assert model.trace_.sample_stats.violations.max() == 0
    assert model.verdict().good, model.verdict()
    model.trace_.bias = None  # not measured: there is none
    assert model.verdict().good
    model.save(tmp_path / "model.npz")
    again = sc.LogisticRegression.load(tmp_path / "model.npz")
    assert again.sampler == "zigzag"
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))


def test_the_zig_zag_regression_goes_on(tmp_path):
    """From its folder, as if it had never stopped, though weights of so many rows are not in it."""
    x = RNG.normal(size=(1200, 2)).astype(np.float32)
    y = RNG.random(1200) < 1 / (1 + np.exp(-x @ [1.0, -1.0]))
    quick = {**QUICK, "sampler": "zigzag", "burn_in": 5}
    whole = sc.LogisticRegression(**quick).fit(x, y)
    sc.LogisticRegression(**{**quick, "n_draws": 8}).fit(x, y, path=tmp_path / "run")
    with pytest.raises(ValueError, match="the data differs from that of the run"):
        sc.resume(tmp_path / "run", x[:, :1], y)
    again = sc.resume(tmp_path / "run", x, y, num_samples=20)
    np.testing.assert_array_equal(again.posterior_["coef"], whole.posterior_["coef"])


@pytest.mark.slow
def test_rows_join_a_zig_zag_regression():
    x = RNG.normal(size=(300, 2))
    y = RNG.random(300) < 1 / (1 + np.exp(-x @ [1.0, -1.0]))
    model = sc.LogisticRegression(**{**QUICK, "sampler": "zigzag", "n_draws": 500}).fit(x, y)
    before = model.trace_
    model.partial_fit(x, y)  # the same rows again
    assert model.trace_.description.parts.near
    assert model.trace_.description.parts.sampler["type"].endswith("ZigZag")
    ratio = model.posterior_["coef"].std(("chain", "draw")) / before.posterior["coef"].std(("chain", "draw"))
    assert np.all(np.abs(ratio * np.sqrt(2) - 1) < 0.25)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"prior": "laplace"}, "has bounds for prior='gaussian'; got 'laplace'"),
        ({"estimator": sc.Plain()}, "leave estimator out"), ({"sampler": "zag"}, "sampler must be one of zigzag"),
    ],
)  # fmt: skip
def test_zig_zag_regressions_without_bounds_are_refused(settings, words):
    x, y = RNG.normal(size=(60, 2)), np.arange(60) % 2
    with pytest.raises(ValueError, match=words):
        sc.LogisticRegression(**{**QUICK, "sampler": "zigzag"} | settings).fit(x, y)
    with pytest.raises(ValueError, match="has bounds for two classes; y has 3"):
        sc.LogisticRegression(sampler="zigzag").fit(x, np.arange(60) % 3)


# Precisions.


def test_precisions_are_drawn_from_their_conditional_law():
    block = precisions.gibbs(("a", "b"), 2.0, 3.0)
    params = {"a": jnp.array([1.0, 2.0, -1.0]), "b": jnp.array([[0.5]]), "precisions": jnp.ones(2)}
    keys = jax.random.split(jax.random.key(0), 20_000)
    drawn = np.asarray(jax.vmap(lambda k: block.update(k, params, None)["precisions"])(keys))
    shape, rate = np.array([3.5, 2.5]), np.array([6.0, 3.125])
    np.testing.assert_allclose(drawn.mean(0), shape / rate, rtol=0.02)
    np.testing.assert_allclose(drawn.var(0), shape / rate**2, rtol=0.05)
    # And that law is what the prior says: log prior - log Gamma(lambda) does not depend on lambda.
    for lam in (0.3, 2.0):
        here = {**params, "precisions": jnp.array([lam, lam])}
        other = {**params, "precisions": jnp.array([1.0, 1.0])}
        change = float(
            precisions.log_prior(here, ("a", "b"), 2.0, 3.0) - precisions.log_prior(other, ("a", "b"), 2.0, 3.0)
        )
        gamma = np.sum((shape - 1) * np.log(lam) - rate * (lam - 1))
        assert change == pytest.approx(gamma, rel=1e-4)


# Matrix factorisation.


def ratings(users=60, items=40, count=3000, seed=0):
    rng = np.random.default_rng(seed)
    p, q = rng.normal(size=(users, 2)), rng.normal(size=(items, 2))
    pairs = np.stack([rng.integers(users - 1, size=count), rng.integers(items - 1, size=count)], axis=1)
    exact = 3 + 0.5 * np.sum(p[pairs[:, 0]] * q[pairs[:, 1]], axis=1) + 0.3 * p[pairs[:, 0], 0]
    return pairs, exact + 0.3 * rng.normal(size=count)


@pytest.fixture(scope="module")
def factored():
    pairs, y = ratings()
    model = sc.MatrixFactorization(
        4, noise_precision=10.0, precision_rate=1.0, n_users=60, burn_in=3000, thin=20, random_state=0
    )
    return model.fit(pairs[:2500], y[:2500]), pairs, y


def test_matrix_factorization_predicts(factored):
    model, pairs, y = factored
    error = model.rmse(pairs[2500:], y[2500:])
    assert error < 0.42  # the noise alone is 0.3, and 42 ratings a user do not tell four factors exactly
    assert error < 0.5 * np.std(y[2500:])
    mean, sd = model.predict(pairs[2500:], return_std=True)
    inside = np.mean(np.abs(mean - y[2500:]) < 1.645 * sd)
    assert 0.82 < inside < 0.96  # nine in ten
    assert model.score(pairs[2500:], y[2500:]) > 0.7
    assert "not about predicted ratings" in str(model.trace_.summary())


def test_unseen_users_and_items_follow_the_prior(factored):
    model, pairs, _ = factored
    assert not model.seen_users_[59]  # never drawn above
    item = int(pairs[0, 1])
    for user in (59, 1000):
        mean, sd = model.predict([[user, item]], return_std=True)
        bias = model._draws("item_biases")[:, item].mean()
        assert mean[0] == pytest.approx(model.mean_ + bias, abs=1e-4)
        assert sd[0] > 1.3 * model.predict([[int(pairs[0, 0]), item]], return_std=True)[1][0]
    mean, sd = model.predict([[5000, 5000]], return_std=True)
    lam = model._draws("precisions").astype(float)
    expected = np.mean(1 / lam[:, 2] + 1 / lam[:, 3] + 4 / (lam[:, 0] * lam[:, 1])) + 0.1
    assert mean[0] == pytest.approx(model.mean_)
    assert sd[0] ** 2 == pytest.approx(expected, rel=1e-4)


def test_matrix_factorization_survives_a_file(factored, tmp_path):
    model, pairs, _ = factored
    model.save(tmp_path / "factors.npz")
    again = sc.MatrixFactorization.load(tmp_path / "factors.npz")
    np.testing.assert_array_equal(again.predict(pairs), model.predict(pairs))


@pytest.mark.slow
def test_a_sparse_matrix_is_its_entries():
    pairs, y = ratings(count=300)
    _, first = np.unique(pairs[:, 0] * 40 + pairs[:, 1], return_index=True)
    pairs, y = pairs[first], np.clip(y[first], 1, 5)
    matrix = sparse.csr_matrix((y, pairs.T), shape=(60, 40))
    quick = {**QUICK, "rating_range": (1, 5)}
    by_pairs = sc.MatrixFactorization(2, n_users=60, n_items=40, **quick).fit(pairs, y)
    by_matrix = sc.MatrixFactorization(2, **quick).fit(matrix)
    assert by_matrix.n_users_ == 60
    assert by_matrix.mean_ == pytest.approx(by_pairs.mean_, rel=1e-5)
    assert np.all((by_matrix.predict(pairs) >= 1) & (by_matrix.predict(pairs) <= 5))


def test_bad_ratings():
    pairs, y = ratings(count=100)
    quick = {**QUICK, "n_factors": 2}
    for x, r, words, more in (
        (pairs, y, r"ratings must lie between 3 and 4; \d+ do not, the first in row", {"rating_range": (3, 4)}),
        (pairs + 0.5, y, "users and items must be whole numbers", {}),
        (pairs - 10, y, "users and items must be whole numbers", {}),
        (pairs[:, :1], y, "X must have two columns, user and item; got 1", {}),
        (pairs, y[:-1], "inconsistent numbers of samples", {}),
        (pairs, None, "y must hold the ratings", {}),
        (pairs, np.full(100, np.nan), "NaN", {}),
        (pairs, y, "n_users is 3, but X has number", {"n_users": 3}),
        (pairs, y, r"rating_range must be \(least, greatest\)", {"rating_range": (5, 1)}),
        (sparse.csr_matrix((3, 3)), None, "X has no ratings", {}),
    ):
        with pytest.raises(ValueError, match=words):
            sc.MatrixFactorization(**quick, **more).fit(x, r)


# Networks.


@pytest.mark.slow
def test_a_network_learns_what_a_line_cannot(tmp_path):
    x = RNG.normal(size=(600, 2)) * [1.0, 50.0] + [0.0, 1000.0]  # scaled inside
    y = np.where(x[:, 0] * (x[:, 1] - 1000) > 0, "same", "other")
    model = sc.NeuralNetworkClassifier(10, n_draws=50, burn_in=3000, thin=20, random_state=0).fit(x[:500], y[:500])
    assert model.score(x[500:], y[500:]) > 0.9
    assert "single weights, not about predictions" in str(model.trace_.bias)
    proba = model.predict_proba(x)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    model.save(tmp_path / "network.npz")
    np.testing.assert_array_equal(sc.NeuralNetworkClassifier.load(tmp_path / "network.npz").predict_proba(x), proba)
    assert np.all(model._draws("precisions") > 0)


@pytest.mark.slow
def test_a_network_knows_where_it_has_seen_nothing(tmp_path):
    x = RNG.uniform(-1, 1, size=(300, 1))
    y = 100 + 10 * x[:, 0] ** 2 + RNG.normal(size=300)
    model = sc.NeuralNetworkRegressor(10, measure_bias=False, n_draws=100, burn_in=3000, thin=20, random_state=0).fit(
        x, y
    )
    mean, sd = model.predict([[0.0], [0.9], [6.0]], return_std=True)
    assert mean[0] == pytest.approx(100, abs=0.8)
    assert mean[1] == pytest.approx(108.1, abs=1.2)
    assert sd[0] == pytest.approx(1.0, abs=0.25)
    assert sd[2] > 1.5 * sd[0]
    model.save(tmp_path / "network.npz")
    np.testing.assert_array_equal(sc.NeuralNetworkRegressor.load(tmp_path / "network.npz").predict(x), model.predict(x))


def test_bad_networks():
    x, y = RNG.normal(size=(30, 2)), np.arange(30) % 2
    with pytest.raises(ValueError, match="activation must be one of tanh, relu, sigmoid, softmax; got 'step'"):
        sc.NeuralNetworkClassifier(activation="step").fit(x, y)
    with pytest.raises(ValueError, match="hidden must be a whole number"):
        sc.NeuralNetworkRegressor(hidden=0).fit(x, y)


# Gaussian mixture.


@pytest.mark.slow
def test_a_mixture_finds_its_components(tmp_path):
    x = np.concatenate([RNG.normal([0, 0], [1, 2], (400, 2)), RNG.normal([8, 0], [0.5, 1], (200, 2))]) * 10
    model = sc.GaussianMixture(2, measure_bias=False, n_draws=400, random_state=0).fit(x)
    order = np.argsort(model.means_[:, 0])
    np.testing.assert_allclose(model.weights_[order], [2 / 3, 1 / 3], atol=0.02)
    np.testing.assert_allclose(model.means_[order], [x[:400].mean(0), x[400:].mean(0)], atol=0.3)
    np.testing.assert_allclose(model.scales_[order], [x[:400].std(0), x[400:].std(0)], rtol=0.02)
    # With components so far apart the posteriors are those of one normal each.
    draws = model.posterior_["means"].values[..., order[0], 0]
    assert draws.std() == pytest.approx(x[:400, 0].std() / np.sqrt(400), rel=0.12)
    weight = model.posterior_["weights"].values[..., order[0]]
    assert weight.std() == pytest.approx(np.sqrt(401 * 201 / (602**2 * 603)), rel=0.12)  # Beta(401, 201)
    labels = model.predict(x)
    assert np.mean(labels[:400] == order[0]) > 0.99
    assert model.score(x) == pytest.approx(model.score_samples(x).mean())
    grid = np.stack(np.meshgrid(np.linspace(-60, 120, 200), np.linspace(-120, 120, 200), indexing="ij"), -1)
    mass = np.exp(model.score_samples(grid.reshape(-1, 2))).sum() * (180 / 199) * (240 / 199)
    assert mass == pytest.approx(1, abs=0.01)
    model.save(tmp_path / "mixture.npz")
    np.testing.assert_array_equal(sc.GaussianMixture.load(tmp_path / "mixture.npz").predict(x), labels)


def test_bad_mixtures():
    with pytest.raises(ValueError, match=r"columns \[1\] of X are constant"):
        sc.GaussianMixture(2).fit(np.stack([RNG.normal(size=20), np.ones(20)], axis=1))
    with pytest.raises(ValueError, match="n_components is 5, but X has n_samples = 3"):
        sc.GaussianMixture(5).fit(RNG.normal(size=(3, 2)))


def test_rows_join_a_regression():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1500, 2)).astype(np.float32)
    y = np.where(rng.random(1500) < 1 / (1 + np.exp(-X @ [1.0, -1.0])), "yes", "no")
    settings = {"n_draws": 250, "random_state": 0, "measure_bias": False}
    whole = sc.LogisticRegression(**settings).fit(X, y)
    parts = sc.LogisticRegression(**settings).fit(X[:1000], y[:1000])
    before = parts.trace_
    assert parts.partial_fit(X[1000:], y[1000:]) is parts
    assert parts.trace_.description.parts.near
    sd = whole.posterior_["coef"].std(("chain", "draw")).values
    assert np.max(np.abs(parts.coef_[0] - whole.coef_[0]) / sd) < 0.25  # two runs of 1,000 draws each
    shrunk = parts.posterior_["coef"].std(("chain", "draw")) / before.posterior["coef"].std(("chain", "draw"))
    assert np.all(np.abs(shrunk / np.sqrt(2 / 3) - 1) < 0.15)


def test_classes_that_the_first_rows_lack():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(300, 2)).astype(np.float32)
    y = np.argmax(np.c_[X, 0 * X[:, 0]], axis=1)
    order = np.argsort(y == 2, kind="stable")  # those of class 2 come last
    X, y, few = X[order], y[order], int(np.sum(y != 2))
    settings = {"n_draws": 100, "random_state": 0, "measure_bias": False}
    told = sc.LogisticRegression(**settings).partial_fit(X[:few], y[:few], classes=[0, 1, 2])
    assert told.coef_.shape == (3, 2)
    assert told.partial_fit(X[few:], y[few:]).trace_.description.parts.near
    assert told.score(X, y) > 0.9
    untold = sc.LogisticRegression(**settings).partial_fit(X[:few], y[:few])
    assert untold.coef_.shape == (1, 2)
    untold.partial_fit(X[few:], y[few:])  # begins anew
    assert not untold.trace_.description.parts.near
    assert untold.classes_.tolist() == [0, 1, 2]
    assert untold.score(X, y) > 0.9
