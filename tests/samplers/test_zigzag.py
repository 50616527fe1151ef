"""The zig-zag process: a step against the formula, its law from minibatches of one row, and bounds that are wrong."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco import batches, tuning
from scirocco.samplers import Scale
from scirocco.samplers.zigzag import ZigZagState

LIMIT = 4.75  # standard errors over the chains: 2e-6 a comparison
CHAINS = 32
RNG = np.random.default_rng(3)
SIGMA, PRECISION = 0.5, 2.0


def log_prior(w):
    return -0.5 * PRECISION * jnp.sum(w**2)


def gaussian(w, row):
    return -0.5 * (row[1] - row[0] @ w) ** 2 / SIGMA**2


def logistic(w, row):
    logit = row[0] @ w
    return row[1] * logit - jax.nn.softplus(logit)


# Rows of different lengths: their gradients change at different rates, which control variates do not remove.
X = np.c_[np.ones(60), RNG.normal(size=60) * RNG.exponential(1.0, 60)].astype(np.float32)
LINEAR = sc.Target(log_prior, gaussian, (X, (X @ [1.0, -0.5] + SIGMA * RNG.normal(size=60)).astype(np.float32)))
HESSIAN = X.astype(np.float64).T @ X / SIGMA**2 + PRECISION * np.eye(2)
COVARIANCE = np.linalg.inv(HESSIAN)
MEAN = COVARIANCE @ X.T.astype(np.float64) @ LINEAR.data[1] / SIGMA**2
LOGISTIC = sc.Target(log_prior, logistic, (X[:12], (X[:12, 1] > 0.2).astype(np.float32)))
GLM = {"curvature": 1 / SIGMA**2, "prior_precision": PRECISION}
SD = float(np.sqrt(COVARIANCE[1, 1]))
BOUNDS = tuning.glm_bounds(X, **GLM)


class Anchored:
    """A gradient with a centre: that of a Gaussian, or what is given."""

    def __init__(self, curvature, centre, slope):
        self.curvature, self.centre, self.slope = curvature, centre, slope

    def __call__(self, x):
        return self.slope + self.curvature * (x - self.centre)

    def anchored(self):
        return self.centre, self.slope


def test_a_step_is_its_formula():
    """Time, coordinate and turn by hand, from the same three uniform numbers; with a scale and a temperature."""
    scale, temperature = Scale(np.array([0.5, 2.0]), np.array([[1.0, 0.3], [0.3, 1.0]])), 2.0
    change = np.diag([0.5, 2.0]) @ [[1.0, 0.3], [0.3, 1.0]]
    lipschitz, centre, slope, curvature = np.array([15.0, 30.0]), [1.0, -3.0], [0.4, -0.6], np.array([3.0, 5.0])
    sampler = sc.ZigZag(1.0, lipschitz=lipschitz, scale=scale, temperature=temperature)
    gradient = Anchored(*(jnp.array(v) for v in (curvature, centre, slope)))
    phi, s, seen = np.array([0.3, -0.7]), np.array([-1.0, -1.0]), set()
    start = sampler.init(jax.random.key(0), jnp.array(centre))
    step = jax.jit(lambda key, state: sampler.step(key, state, gradient)[0])
    for number in range(60):
        key = jax.random.key(number)
        u = np.asarray(jax.random.uniform(key, (3,)), np.float64)
        begun = start._replace(phi=jnp.array(phi, jnp.float32), direction=jnp.array(s, jnp.float32), left=0.04)
        after = step(key, ZigZagState(*map(jnp.asarray, begun)))
        level = (np.maximum(0, s * (change.T @ slope)) + lipschitz * np.linalg.norm(phi)) / temperature
        growth = lipschitz * np.sqrt(2) / temperature
        a, b, e = level.sum(), growth.sum(), -np.log(1 - u[0])
        time = (-a + np.sqrt(a**2 + 2 * b * e)) / b
        proposed, time = time < 0.04, min(time, 0.04)
        place = phi + s * time
        x = centre + change @ place
        m = level + growth * time
        i = 0 if u[1] * m.sum() <= m[0] else 1
        rate = s * (change.T @ (slope + curvature * (x - centre))) / temperature
        turns = proposed and u[2] < rate[i] / m[i]
        want = np.where((np.arange(2) == i) & turns, -s, s)
        np.testing.assert_allclose(after.phi, place, rtol=1e-5)
        np.testing.assert_allclose(after.position, x, rtol=1e-5)
        np.testing.assert_array_equal(after.direction, want)
        np.testing.assert_allclose(after.left, 0.04 - time, atol=1e-6)
        seen.add((proposed, i, bool(turns)))
    assert {(True, 0, True), (True, 1, True), (True, 1, False)} <= seen
    assert {proposed for proposed, _, _ in seen} == {True, False}


def test_turns_where_the_bound_is_the_rate():
    """In one dimension with C = lambda: on the way out each proposal turns, on the way in none before the centre."""
    sampler, gradient = sc.ZigZag(100.0, lipschitz=3.0), Anchored(3.0, jnp.array(5.0), jnp.array(0.0))
    state = sampler.begin(jax.random.key(0), sampler.init(jax.random.key(0), jnp.array(5.0)))
    step = jax.jit(lambda key, state: sampler.step(key, state, gradient)[0])
    seen = []
    for number in range(60):
        after = step(jax.random.key(number), state)
        before, now = (float(phi[0] * state.direction[0]) for phi in (state.phi, after.phi))
        seen.append((before >= 0, now > 0, float(after.direction[0]) != float(state.direction[0])))
        state = after
    assert set(seen) == {(True, True, True), (False, False, False), (False, True, True), (False, True, False)}
    assert float(state.violations) == 0


def squares(trace, mean=MEAN):
    """Per chain: the mean, and the mean square from the true mean."""
    x = trace.posterior["theta"].values.astype(np.float64)
    return x.mean(1), np.mean((x - mean) ** 2, axis=1)


def off(found, true):
    """Standard errors over the chains from the truth."""
    return np.abs(found.mean(0) - true) / (found.std(0, ddof=1) / np.sqrt(len(found)))


def run(target, parts, **options):
    settings = {"num_samples": 400, "burn_in": 20, "chains": CHAINS, "batch_size": 1, "report": False, "seed": 2}
    return sc.sample(target, **settings | parts | options)


@pytest.mark.parametrize(
    ("prepared", "temperature"),
    [(False, 2.0), (True, 1.0), pytest.param(False, 1.0, marks=pytest.mark.slow), (True, 2.0)],
)
def test_the_law_is_exact_from_single_rows(prepared, temperature):
    """Uniform rows in the parameters' own coordinates, and weighted ones in those of the curvature."""
    if prepared:
        parts = tuning.zigzag(LINEAR, X, jnp.zeros(2), **GLM, temperature=temperature, batch_size=1)
    else:
        sampler = sc.ZigZag(2 * SD, lipschitz=BOUNDS, temperature=temperature)
        parts = {"sampler": sampler, "initial": jnp.zeros(2)}
    trace = run(LINEAR, parts)
    mean, square = squares(trace)
    variance = temperature * np.diag(COVARIANCE)
    assert np.all(square.std(0, ddof=1) / np.sqrt(CHAINS) < 0.04 * variance)
    assert np.all(off(mean, MEAN) < LIMIT)
    assert np.all(off(square, variance) < LIMIT)
    assert trace.sample_stats.violations.max() == 0
    steps = trace.sample_stats.n_steps.values
    assert steps.min() >= 1
    assert np.ptp(steps) > 0


def test_langevin_steps_of_the_same_length_are_not_exact():
    """What the same minibatches do to SGLD at a step that moves it as far."""
    options = {"estimator": sc.ControlVariate(), "batching": batches.RandomBlocks()}
    _, square = squares(run(LINEAR, {"sampler": sc.SGLD(0.2 * SD**2), "initial": jnp.zeros(2)}, **options))
    gap = (square.mean(0) - np.diag(COVARIANCE)) / (square.std(0, ddof=1) / np.sqrt(CHAINS))
    assert np.max(gap) > LIMIT


def test_a_skewed_posterior_against_quadrature():
    """Twelve rows of logistic regression, by a grid."""
    grid = np.stack(np.meshgrid(np.linspace(-4, 4, 161), np.linspace(-4, 5, 181), indexing="ij"), axis=-1)
    rows, labels = (np.asarray(part, np.float64) for part in LOGISTIC.data)
    logits = grid @ rows.T
    log_density = np.sum(labels * logits - np.logaddexp(0, logits), axis=-1) - PRECISION / 2 * np.sum(grid**2, -1)
    mass = np.exp(log_density - log_density.max())
    mean, third = (np.tensordot(mass / mass.sum(), f, 2) for f in (grid, grid**3))
    square = np.tensordot(mass / mass.sum(), (grid - mean) ** 2, 2)
    parts = tuning.zigzag(LOGISTIC, LOGISTIC.data[0], jnp.zeros(2), curvature=0.25, prior_precision=PRECISION)
    trace = run(LOGISTIC, parts | {"batch_size": 1})
    x = trace.posterior["theta"].values.astype(np.float64)
    assert abs(np.asarray(parts["initial"]) - mean).max() > 0.05  # the mode is elsewhere
    for found, true in ((x, mean), ((x - mean) ** 2, square), (x**3, third)):
        assert np.all(off(found.mean(1), true) < LIMIT)


def test_verdicts_know_whether_bounds_held():
    """Right bounds: use it. Too small ones are seen from the first draw on, and never used."""
    parts = tuning.zigzag(LINEAR, X, jnp.zeros(2), **GLM, batch_size=1)
    good = run(LINEAR, parts, num_samples=1500, chains=4, report=True)
    assert good.verdict().good, good.verdict()
    assert good.bias.worst[1] == 0
    sampler = replace(parts["sampler"], lipschitz=parts["sampler"].lipschitz / 5)
    wrong = run(LINEAR, parts | {"sampler": sampler}, num_samples=1500, chains=4, report=True)
    assert wrong.sample_stats.violations.values[:, -1].min() > 0
    assert wrong.verdict().kind == "do not use it"
    assert "lipschitz must be larger" in str(wrong.verdict())
    assert "lipschitz must be larger" in str(wrong.bias)
    again = type(wrong.bias).from_arrays(wrong.bias.to_arrays())
    assert again.fault == wrong.bias.fault
    assert str(wrong.verdict()).count("above their bounds") == 1
    wrong.bias = None  # left out, or not yet measured
    verdict = wrong.verdict()
    assert (verdict.kind, verdict.action) == ("do not use it", "")
    count = int(wrong.sample_stats.violations.values[:, -1].sum())
    assert f"rates were above their bounds {count:,} times" in str(verdict)
    good.bias = None
    assert "above their bounds" not in str(good.verdict())


def test_a_gradient_that_is_no_number_is_a_violation():
    sampler, gradient = sc.ZigZag(1e6, lipschitz=3.0), Anchored(jnp.nan, jnp.array(0.0), jnp.array(0.0))
    state = sampler.begin(jax.random.key(0), sampler.init(jax.random.key(0), jnp.array(0.0)))
    assert float(sampler.step(jax.random.key(1), state, gradient)[0].violations) == 1


def test_chains_that_are_done_wait():
    """A chain makes the same step alone and beside others, which need other numbers of proposals."""
    kernel = sc.kernel(LINEAR, sc.ZigZag(2 * SD, lipschitz=BOUNDS), batch_size=1)
    state, keys = kernel.init(jax.random.key(0), jnp.zeros(2)), jax.random.split(jax.random.key(1), 8)
    beside = jax.jit(jax.vmap(lambda key: kernel.program.transition(key, state, kernel.data_at(0))[0]))(keys)
    steps = np.asarray(beside.sampler.step)
    assert len(np.unique(steps)) > 3
    for key, position, count in zip(keys, beside.position, steps, strict=True):
        alone, _ = kernel.step(key, state)
        assert int(alone.sampler.step) == count
        np.testing.assert_allclose(alone.position, position, rtol=1e-5)


def test_no_digits_are_lost_far_from_zero():
    """A hundred steps of 1e-6 at 1000, where single precision has steps of 6e-5."""
    sampler, centre = sc.ZigZag(1e-6, lipschitz=1e-3), jnp.float32(1000.0)
    state, gradient = sampler.init(jax.random.key(0), centre), Anchored(0.0, centre, jnp.float32(0.0))
    for number in range(100):
        state, _ = sampler.step(jax.random.key(number), sampler.begin(jax.random.key(0), state), gradient)
    np.testing.assert_allclose(abs(float(state.phi[0])), 1e-4, rtol=1e-4)
    np.testing.assert_allclose(abs(float(state.position) - 1000), 1e-4, atol=3.1e-5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"estimator": sc.Plain()}, "first order around a fixed centre"),
        ({"estimator": sc.SVRG(10)}, "first order around a fixed centre"),
        ({"estimator": sc.ControlVariate(order=2)}, "first order around a fixed centre"),
        ({"batching": batches.Shuffled()}, "independent of each other"),
        ({"blocks": [sc.Block(("w",), lambda key, params, held, batch: held)]}, "leave blocks out"),
        ({"sampler": sc.ZigZag(1.0, lipschitz=np.ones(3))}, "lipschitz has 3 entries; there are 2"),
        ({"sampler": sc.ZigZag(1.0, lipschitz=1.0, scale=Scale(np.ones(3)))}, "scale has 3 coordinates"),
        ({"sampler": sc.ZigZag(1e4, lipschitz=10.0)}, "step_size must be the time of a posterior sd or so"),
        ({"sampler": sc.samplers.Preconditioned(sc.ZigZag(1.0, lipschitz=1.0), Scale(np.ones(2)))}, "centre of a"),
    ],
)  # fmt: skip
def test_what_is_not_exact_is_refused(options, words):
    parts = {"sampler": sc.ZigZag(1.0, lipschitz=1.0), "initial": jnp.zeros(2)} | options
    with pytest.raises((ValueError, TypeError), match=words):
        run(LINEAR, parts)


def test_data_on_disk_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", X)
    target = sc.Target(log_prior, lambda w, row: -jnp.sum((row - w) ** 2), np.load(tmp_path / "x.npy", mmap_mode="r"))
    with pytest.raises(ValueError, match="data in memory"):
        run(target, {"sampler": sc.ZigZag(1.0, lipschitz=1.0), "initial": jnp.zeros(2)})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"step_size": "auto"}, "step_size"), ({"step_size": sc.Decreasing(0.1)}, "step_size"),
        ({"temperature": 0.0}, "temperature"), ({"lipschitz": -1.0}, "lipschitz"), ({"lipschitz": "a"}, "lipschitz"),
        ({"lipschitz": np.ones((2, 2))}, "lipschitz"), ({"scale": 2.0}, "scale"),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused(settings, words):
    with pytest.raises((ValueError, TypeError), match=words):
        sc.ZigZag(**{"step_size": 1.0, "lipschitz": 1.0} | settings)


def test_bounds_are_those_of_the_worst_row():
    """Against every row and a thousand places; attained in the uniform case by the row that makes them."""
    rng = np.random.default_rng(0)
    x = X.astype(np.float64)
    scale = Scale(np.array([0.2, 0.7]), np.array([[1.0, -0.4], [-0.4, 1.0]]))
    change = np.diag(scale.diagonal) @ scale.matrix
    row = rng.exponential(1.0, 60) + 0.01
    weighted = batches.Weighted(row)
    for batching, inverse in ((None, np.full(60, 60.0)), (weighted, row.sum() / row)):
        bounds = tuning.glm_bounds(X, curvature=4.0, prior_precision=[2.0, 5.0], scale=scale, batching=batching)
        phi = rng.normal(size=(1000, 2))
        z = x @ change
        likelihood = 4.0 * inverse[:, None, None] * (z @ phi.T)[:, :, None] * z[:, None, :]
        prior = phi @ change.T * [2.0, 5.0] @ change
        share = np.abs(likelihood + prior) / np.linalg.norm(phi, axis=1)[:, None] / bounds
        assert share.max() < 1 + 1e-6
        assert np.all(share.max(axis=(0, 1)) > 0.9)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"features": X[:, ::-1]}, "features and curvature do not bound"), ({"curvature": 2.0}, "features and curvat"),
        ({"prior_precision": 1.0}, "prior_precision do not bound"), ({"features": X[:5]}, "a row for each of the 60"),
        ({"features": X[:, :1]}, "a column for each of the 2"), ({"curvature": np.inf}, "curvature must be finite"),
        ({"curvature": np.ones(3)}, "curvature must be a number or one for each"), ({"step_size": -1.0}, "step_size"),
        ({"prior_precision": [1.0] * 3}, "prior_precision must be"), ({"temperature": 0.0}, "temperature"),
    ],
)  # fmt: skip
def test_a_model_that_is_not_so_is_refused(change, words):
    arguments = {"features": X, "initial": jnp.zeros(2), **GLM} | change
    with pytest.raises(ValueError, match=words):
        tuning.zigzag(LINEAR, **arguments)
