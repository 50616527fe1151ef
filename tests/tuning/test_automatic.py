"""``step_size="auto"``: the coordinates, the noise, the law that chooses h, and what a run with it samples."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.batches import Strata
from scirocco.optimise.curvature import curvature, hessian
from scirocco.samplers import Preconditioned, Scale
from scirocco.samplers.base import Auto
from scirocco.tuning import automatic
from scirocco.tuning.report import Tuning
from scirocco.tuning.strata import _changes, stratify

SEED = 3
RNG = np.random.default_rng(SEED)
MIXING = np.array([[1.0, 0.0, 0.0], [0.9, 0.3, 0.0], [0.0, 5.0, 20.0]])
X = (RNG.normal(size=(2000, 3)) @ MIXING).astype(np.float32)  # correlated, of different scales
Y = (X @ np.array([1.0, -0.5, 0.1]) + RNG.normal(size=2000)).astype(np.float32)
REGRESSION = sc.Target(lambda w: -0.5 * jnp.sum(w**2), lambda w, r: -0.5 * (r[1] - r[0] @ w) ** 2, (X, Y))
PRECISION = X.T.astype(np.float64) @ X + np.eye(3)
COVARIANCE = np.linalg.inv(PRECISION)
MEAN = COVARIANCE @ (X.T.astype(np.float64) @ Y)
SAMPLERS = [sc.SGLD, sc.PSGLD, sc.Barker, sc.SGHMC, sc.SGNHT, sc.UnderdampedLangevin, sc.SMSUBU]


@pytest.fixture(autouse=True)
def seeded(monkeypatch):
    """The same numbers in each test, whichever ran before."""
    monkeypatch.setattr(f"{__name__}.RNG", np.random.default_rng(SEED))


# Coordinates.


def scales():
    vectors = np.linalg.qr(RNG.normal(size=(4, 2)))[0]
    symmetric = RNG.normal(size=(4, 4))
    diagonal = np.array([1.0, 0.1, 5.0, 2.0])
    return [
        Scale(diagonal),
        Scale(diagonal, matrix=symmetric @ symmetric.T + np.eye(4)),
        Scale(diagonal, vectors=vectors, stretches=np.array([0.1, 3.0])),
        Scale(diagonal, matrix=symmetric[:2] @ symmetric[:2].T),
    ]


@pytest.mark.parametrize("scale", scales(), ids=["diagonal", "matrix", "low rank", "parts"])
def test_a_scale_is_one_matrix(scale):
    whole = np.stack([scale.forward(e) for e in np.eye(4)], axis=1)
    np.testing.assert_allclose(np.stack([scale.transposed(e) for e in np.eye(4)], axis=1), whole.T, atol=1e-12)
    np.testing.assert_allclose(np.diag(whole @ whole.T), scale.variance)


def test_a_preconditioned_step_is_the_step_in_phi():
    scale = Scale(np.array([1.0, 3.0, 0.5]), matrix=np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    inner = sc.UnderdampedLangevin(0.1, integrator="aboba")  # whose gradient is not taken where the step starts
    sampler = Preconditioned(inner, scale)
    position = {"a": jnp.array([1.0, -2.0]), "b": jnp.array(0.3)}
    state = sampler.init(jax.random.key(0), position)
    key = jax.random.key(1)

    def gradient(theta):
        return {"a": jnp.sin(theta["a"]), "b": theta["b"] ** 3}

    after, info = sampler.step(key, state, gradient)
    origin = np.array([1.0, -2.0, 0.3], np.float32)

    def white(phi):
        theta = origin + scale.forward(phi)
        return scale.transposed(jnp.concatenate([jnp.sin(theta[:2]), theta[2:] ** 3]))

    expected, expected_info = inner.step(key, state.inner, white)
    found = np.concatenate([after.position["a"], after.position["b"][None]])
    np.testing.assert_allclose(found, origin + scale.forward(np.asarray(expected.position)), rtol=1e-5)
    assert float(info.gradient_norm) == pytest.approx(float(expected_info.gradient_norm), rel=1e-5)
    assert int(after.step) == 1


def test_a_scale_must_fit():
    with pytest.raises(ValueError, match="scale has 2 coordinates; the parameters have 3"):
        Preconditioned(sc.SGLD(0.1), Scale(np.ones(2))).check(jnp.zeros(3))


# Curvature.


def test_full_curvature_is_the_hessian(monkeypatch):
    found = curvature(REGRESSION, jnp.asarray(MEAN, jnp.float32))
    whole = np.stack([found.scale.forward(e) for e in np.eye(3)], axis=1)
    np.testing.assert_allclose(whole @ whole.T, COVARIANCE, rtol=1e-3)
    assert (found.kind, found.flat) == ("full", 0)
    monkeypatch.setattr("scirocco.optimise.curvature.WORK", 500 * 9)  # on an even selection of the rows
    monkeypatch.setattr("scirocco.target.PASS_BYTES", 16 * 20)
    rough = hessian(REGRESSION, jnp.asarray(MEAN, jnp.float32))
    assert not np.allclose(rough, PRECISION, rtol=1e-6)
    np.testing.assert_allclose(np.diag(rough), np.diag(PRECISION), rtol=0.2)


def test_flat_directions_are_counted_and_not_stretched():
    target = sc.Target(lambda w: jnp.zeros(()), lambda w, r: -0.5 * (r - w[0] - w[1]) ** 2, jnp.arange(10.0))
    found = curvature(target, jnp.zeros(2))
    assert found.flat == 1
    assert np.sqrt(found.scale.variance).max() < 10


def test_large_models_get_their_largest_eigenvalues(monkeypatch):
    monkeypatch.setattr("scirocco.optimise.curvature.FULL", 10)
    monkeypatch.setattr("scirocco.optimise.curvature.RANK", 4)
    x = RNG.normal(size=(400, 30)).astype(np.float32)
    x[:, :8] += 3 * RNG.normal(size=(400, 1)).astype(np.float32)  # eight columns that move together
    y = RNG.normal(size=400).astype(np.float32)  # well specified at w = 0: Fisher information and Hessian agree
    target = sc.Target(lambda w: -0.5 * jnp.sum(w**2), lambda w, r: -0.5 * jnp.square(r[1] - r[0] @ w), (x, y))
    found = curvature(target, jnp.zeros(30))
    assert found.kind == "low-rank"
    hessian = x.T.astype(np.float64) @ x + np.eye(30)
    whole = np.stack([found.scale.forward(e) for e in np.eye(30)], axis=1)
    after = np.linalg.eigvalsh(whole.T @ hessian @ whole)
    scaled = hessian * np.outer(found.scale.diagonal, found.scale.diagonal)
    before = np.linalg.eigvalsh(scaled)
    assert before[-1] == pytest.approx(found.top, rel=0.05)
    assert after[-1] < 0.5 * before[-1]
    assert after[-1] == pytest.approx(found.largest, rel=0.3)


# Strata.


def test_rows_without_a_gradient_far_out_are_in_no_strata():
    """As of ``where`` with a branch that is not finite; the mean of no rows at all gave a warning."""
    target = sc.Target(lambda m: jnp.zeros(()), lambda m, x: -((x - m) ** 2) + 0 * jnp.sqrt(4 - m**2), np.ones(20))
    far, near = Scale(np.array([100.0])), Scale(np.array([1e-3]))
    assert not np.isfinite(_changes(target, far, jnp.zeros(()), None, 0)).all()
    assert np.isfinite(_changes(target, near, jnp.zeros(()), None, 0)).all()
    for scale in (far, near):
        assert stratify(target, scale, jnp.zeros(()), None, 0, 5) is None


def test_rows_without_their_like_are_drawn_more_often():
    rare = np.zeros(3000, np.float32)
    rare[:5] = 1
    x = np.stack([np.ones(3000), RNG.normal(size=3000), rare], axis=1).astype(np.float32)
    y = (RNG.random(3000) < 0.4).astype(np.float32)
    target = sc.Target(
        lambda w: -0.05 * jnp.sum(w**2), lambda w, r: r[1] * (r[0] @ w) - jax.nn.softplus(r[0] @ w), (x, y)
    )
    tuned = sc.tune(target, sc.SGLD("auto"), jnp.zeros(3), batch_size=100)
    batching = tuned.kernel.batching
    assert isinstance(batching, Strata)
    assert sum(batching.rows) == 100
    assert set(batching.labels[:5]) == {batching.labels.max()}
    sizes = np.bincount(batching.labels)
    assert batching.rows[-1] == sizes[-1] == 5  # so few, and so telling, that they are in every minibatch
    assert tuned.report.strata[-1] == (5, 5)
    assert "5 of 5 rows" in str(tuned.report)


# The choice.


@pytest.mark.parametrize("make", SAMPLERS, ids=lambda make: make.__name__)
def test_the_step_size_meets_the_limit_by_the_samplers_own_law(make):
    """On a Gaussian the noise is known, so the prediction can be checked by hand: plain minibatches, whitened."""
    tuned = sc.tune(
        REGRESSION, make(Auto(sd_error=0.1)), jnp.zeros(3), batch_size=200, estimator=sc.Plain(),
        batching=sc.batches.WithReplacement(),
    )  # fmt: skip
    report = tuned.report
    assert report.sd_error <= 0.06  # six tenths of the limit leave room for errors of the prediction
    assert report.estimator == "Plain"
    # Whitened plain noise is N/n times the identity, for residuals of variance 1 in a well-specified regression.
    assert report.noise == pytest.approx(10, rel=0.3)
    assert report.departure < 0.5
    law = tuned.sampler.sampler
    noise = np.full(3, 10.0)
    expected = automatic.predicted_error(law, noise, 1.0, 1.0, np.inf)
    assert expected == pytest.approx(0.06, abs=0.02) or (expected < 0.06 and "stable" in report.reason)
    if make is sc.SGLD:
        h = report.step_size
        assert np.sqrt((1 + h * 10 / 2) / (1 - h / 2)) - 1 == pytest.approx(0.06, abs=0.02)


@dataclass(frozen=True)
class Halved(sc.Plain):
    """An estimator of a user's own: the mean of the plain gradient and the exact one, with half of the noise."""

    def init(self, target, position, held):
        return target.full_likelihood_gradient(position, held), position

    def estimate(self, target, state, position, held, batch):
        plain, _ = super().estimate(target, (), position, held, batch)
        full, centre = state
        exact = jnp.asarray(full, position.dtype) + jnp.asarray(PRECISION - np.eye(3), position.dtype) @ (
            position - centre
        )
        return (plain + exact + target.prior_gradient(position, held)) / 2, state


def test_the_noise_of_a_users_estimator_is_its_own():
    options = {"batch_size": 200, "batching": sc.batches.WithReplacement()}
    noise = [
        sc.tune(REGRESSION, sc.SGLD("auto"), jnp.zeros(3), estimator=e, **options).report.noise
        for e in (sc.Plain(), Halved())
    ]
    assert noise[1] == pytest.approx(noise[0] / 4, rel=0.05)  # the same minibatches, at the same draws


def test_smaller_limits_give_smaller_steps():
    steps = [
        sc.tune(REGRESSION, sc.SGLD(Auto(sd_error=e)), jnp.zeros(3), batch_size=200, estimator=sc.Plain()).report
        for e in (0.01, 0.05)
    ]
    assert 2 < steps[1].step_size / steps[0].step_size < 8  # epochs without replacement hide part of the noise
    assert steps[0].limit == 0.01


@pytest.mark.parametrize(
    "make", [pytest.param(m, marks=() if m is sc.UnderdampedLangevin else pytest.mark.slow) for m in SAMPLERS]
)
def test_a_run_has_the_posterior_it_promises(make):
    trace = sc.sample(
        REGRESSION, make("auto"), jnp.zeros(3), num_samples=6000, burn_in=1500, batch_size=200, chains=8, seed=1
    )
    sd = np.sqrt(np.diag(COVARIANCE))
    assert np.max(np.abs(trace.mean["theta"] - MEAN) / sd) < 0.1
    np.testing.assert_allclose(np.sqrt(trace.variance["theta"]) / sd, 1, atol=0.07)  # the limit and Monte Carlo error
    assert trace.bias.accurate
    whole = trace.posterior["theta"].values.reshape(-1, 3).astype(np.float64)
    correlation = COVARIANCE / np.outer(sd, sd)
    np.testing.assert_allclose(np.corrcoef(whole.T), correlation, atol=0.07)
    assert str(trace.tuning) in str(trace.summary())
    assert trace.tuning.sd_error <= 0.05


@pytest.mark.parametrize(
    "sampler", [sc.SGLD("auto"), pytest.param(sc.SGNHT("auto", thermostats="coordinate"), marks=pytest.mark.slow)]
)
def test_a_temperature_is_kept(sampler):
    warm = type(sampler)(**{**vars(sampler), "temperature": 4.0})
    settings = {"num_samples": 4000, "burn_in": 2000, "batch_size": 200, "chains": 4, "report": False}
    trace = sc.sample(REGRESSION, warm, jnp.zeros(3), **settings)
    np.testing.assert_allclose(np.sqrt(trace.variance["theta"] / np.diag(COVARIANCE)), 2, rtol=0.1)


@pytest.mark.slow
def test_auto_with_blocks_keeps_what_the_blocks_hold():
    def gibbs(key, params, batch):
        return {"tau": jax.random.gamma(key, 2.0) / (1.0 + jnp.sum(params["w"] ** 2) / 2)}

    target = sc.Target(
        lambda p: -0.5 * p["tau"] * jnp.sum(p["w"] ** 2) + 1.5 * jnp.log(p["tau"]) - p["tau"],
        lambda p, r: -0.5 * (r[1] - r[0] @ p["w"]) ** 2,
        (X, Y),
    )
    trace = sc.sample(
        target, sc.SGLD("auto"), {"w": jnp.zeros(3), "tau": jnp.array(1.0)}, batch_size=200, num_samples=500,
        burn_in=100, chains=2, blocks=[sc.Block("tau", gibbs)],
    )  # fmt: skip
    assert trace.tuning.parameters == 3
    assert trace.posterior["tau"].values.std() > 0.1


def test_a_tuned_run_resumes_bit_for_bit(tmp_path):
    settings = {"batch_size": 200, "burn_in": 20, "chains": 2, "seed": 4, "report": False}
    whole = sc.sample(REGRESSION, sc.SGLD("auto"), jnp.zeros(3), num_samples=60, **settings)
    sc.sample(REGRESSION, sc.SGLD("auto"), jnp.zeros(3), num_samples=20, path=tmp_path / "run", **settings)
    longer = sc.resume(tmp_path / "run", REGRESSION, num_samples=60)
    np.testing.assert_array_equal(longer.posterior["theta"].values, whole.posterior["theta"].values)
    assert longer.tuning.step_size == whole.tuning.step_size
    assert isinstance(longer.tuning, Tuning)
    assert longer.tuning == sc.Trace.load(tmp_path / "run").tuning


# Far from Gaussian.


def banana(p):
    return -0.5 * p[0] ** 2 - 0.5 * (p[1] - 2 * p[0] ** 2) ** 2 / 0.5


def test_a_warm_up_finds_the_typical_set_where_the_posterior_is_far_from_gaussian():
    target = sc.Target(
        banana, lambda p, x: -0.5 * (x - 0.01 * p[0]) ** 2 / 100, RNG.normal(size=400).astype(np.float32)
    )
    tuned = sc.tune(target, sc.SGHMC("auto"), jnp.array([0.1, 0.1]), batch_size=50)
    report = tuned.report
    assert report.departure > 0.5
    assert len(report.rounds) >= 3
    assert report.rounds[-1].r_hat < 1.1
    assert report.trials[-1].good
    assert report.trials[-1].step_size == report.step_size
    for said in (*report.rounds, *report.trials):
        assert str(said) in str(report)
    assert tuned.initial[1] == pytest.approx(2, abs=0.7)  # the mean of 2 x^2; at the mode it is 0


def test_samplers_without_a_law_are_searched_for_in_their_own_coordinates():
    recipe = sc.Recipe("auto", diffusion=1.0)
    tuned = sc.tune(REGRESSION, recipe, jnp.zeros(3), batch_size=200)
    assert isinstance(tuned.sampler, sc.Recipe)
    assert tuned.report.sd_error is None
    assert 0 < tuned.sampler.step_size < 2 / np.linalg.eigvalsh(PRECISION)[-1]


# Boundaries.


@pytest.mark.parametrize("start", [1.7, 3.0])
def test_a_hard_boundary_is_named(start):
    """The likelihood pulls the mode of the prior's support to its edge at 1.5."""
    data = RNG.normal(size=200).astype(np.float32)
    target = sc.Target(lambda r: jnp.where(r > 1.5, -r, -jnp.inf), lambda r, x: -0.5 * (x - r) ** 2, data)
    with pytest.raises(ValueError, match="point that the search for the mode ended at: the density has a hard bound"):
        sc.tune(target, sc.SGLD("auto"), jnp.array(start), batch_size=50)


def test_a_boundary_within_reach_of_the_posterior_is_named():
    """Three exponential waiting times: the rate's sd is half of its mode, and zero is two sds away."""
    data = np.array([0.5, 1.0, 1.5], np.float32)
    target = sc.Target(lambda r: jnp.where(r > 0, -0.1 * r, -jnp.inf), lambda r, x: jnp.log(r) - r * x, data)
    with pytest.raises(ValueError, match="within a few posterior sds of the mode: the density has a hard boundary"):
        sc.tune(target, sc.SGLD("auto"), jnp.array(1.0), batch_size=3)


def test_a_density_that_overflows_is_left_to_the_chains_and_not_called_a_boundary():
    """The log of a scale has the sd 100: exp(80) squared is no number in single precision, and one in double."""

    def log_prior(p):
        return -(jnp.log(p["s"]) ** 2) / 2e4 - jnp.log(p["s"]) - jnp.log1p((p["s"] / 1e10) ** 2)

    nothing = np.zeros(50, np.float32)
    target = sc.Target(log_prior, lambda p, x: 0.0 * x, nothing, constraints={"s": sc.constraints.positive})
    start, settings = {"s": jnp.array(1.0)}, {"batch_size": 50}
    with pytest.raises(ValueError, match=r"no value in single precision within.* and one in double precision"):
        sc.tune(target, sc.SGLD(sc.Auto(search=False)), start, **settings)
    with pytest.raises(sc.DivergenceError) as error:
        sc.sample(target, sc.UnderdampedLangevin("auto"), start, **settings)
    assert "no value in single precision" in error.value.__notes__[-1]


def test_a_boundary_out_of_reach_is_no_hindrance():
    data = RNG.exponential(size=500).astype(np.float32)
    target = sc.Target(lambda r: jnp.where(r > 0, -r, -jnp.inf), lambda r, x: jnp.log(r) - r * x, data)
    settings = {"num_samples": 2000, "burn_in": 200, "batch_size": 50, "report": False}
    trace = sc.sample(target, sc.SGLD("auto"), jnp.array(0.5), **settings)
    rate = 1 + data.sum(dtype=float)
    assert trace.mean["theta"] == pytest.approx(501 / rate, rel=0.01)
    assert np.sqrt(trace.variance["theta"]) == pytest.approx(np.sqrt(501) / rate, rel=0.07)


# Wrong use.


def test_wrong_use():
    with pytest.raises(ValueError, match="step_size='auto' is found before a run"):
        sc.kernel(REGRESSION, sc.SGLD("auto"), batch_size=200)
    with pytest.raises(ValueError, match="tune finds a step size that is left open"):
        sc.tune(REGRESSION, sc.SGLD(1e-3), jnp.zeros(3))
    with pytest.raises(ValueError, match='"auto" needs a positive temperature; got 0'):
        sc.tune(REGRESSION, sc.SGLD("auto", temperature=0.0), jnp.zeros(3))
    with pytest.raises(ValueError, match="sd_error must lie between 0 and 1"):
        Auto(sd_error=5.0)
    with pytest.raises(TypeError, match="pytree of numbers or \"auto\"; got 'automatic'"):
        sc.SGLD("automatic")
    for steps in (np.inf, -1, 2.5):
        with pytest.raises(ValueError, match="steps must be a whole number of at least 0"):
            sc.find_mode(REGRESSION, jnp.zeros(3), steps=steps)
    with pytest.raises(ValueError, match="batch_size must be a whole number of at least 1; got 0"):
        sc.find_mode(REGRESSION, jnp.zeros(3), batch_size=0)
    with pytest.raises(TypeError, match="cyclical needs a sampler with a constant step_size"):
        sc.cyclical(sc.SGLD("auto"), period=10)


@pytest.mark.parametrize("rows", [46, pytest.param(80, marks=pytest.mark.slow)])
def test_few_rows_and_small_minibatches_do_not_throw_the_chain_out(rows):
    """Control variates of second order go on growing where gradients of single rows do not."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, 8)).astype(np.float32)
    y = (rng.random(rows) < 1 / (1 + np.exp(-x @ np.linspace(-1, 1, 8)))).astype(np.float32)
    target = sc.Target(
        lambda w: -jnp.sum(w**2) / 200, lambda w, r: r[1] * (r[0] @ w) - jax.nn.softplus(r[0] @ w), (x, y)
    )
    settings = {"num_samples": 3000, "burn_in": 500, "thin": 2, "seed": 1, "report": False}
    small, full = (
        sc.sample(target, sc.UnderdampedLangevin("auto"), jnp.zeros(8), batch_size=n, **settings) for n in (9, 1.0)
    )
    np.testing.assert_allclose(np.sqrt(small.variance["theta"] / full.variance["theta"]), 1, atol=0.1)


def test_a_mode_needs_a_target():
    with pytest.raises(TypeError, match=r"target must be a scirocco.Target; got bool"):
        sc.find_mode(True, 1.0)
