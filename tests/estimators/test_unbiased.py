"""Estimators are unbiased, and as accurate as they claim."""

from __future__ import annotations

import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.batches import Batch
from scirocco.core.seeds import Purpose
from scirocco.gradient.engine import GradientEngine
from scirocco.gradient.loop import advance_chains
from scirocco.run.recording import Recording
from scirocco.tuning import lipschitz_constants

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 2)).astype(np.float32)
Y = (RNG.random(6) < 0.5).astype(np.float32)


def log_likelihood(params, row):
    x, y = row
    z = x @ params["w"] + params["c"]
    return y * z - jax.nn.softplus(z)


TARGET = sc.Target(lambda p: -0.5 * jnp.sum(p["w"] ** 2) - p["c"] ** 2, log_likelihood, (X, Y))
HERE = {"w": jnp.array([0.5, -1.0]), "c": jnp.array(0.2)}
THERE = {"w": jnp.array([0.1, 0.4]), "c": jnp.array(-0.3)}


@jax.jit
def estimate(estimator, state, position, batch):
    """Compiled, as in a run: the sums over all minibatches below would take seconds step by step."""
    return estimator.estimate(TARGET, state, position, None, batch)


def batches(weights=None):
    """All ordered pairs of rows, with their probabilities, for draws with replacement."""
    p = np.full(6, 1 / 6) if weights is None else weights / weights.sum()
    for i, j in itertools.product(range(6), repeat=2):
        rows = np.array([i, j])
        yield p[i] * p[j], Batch((X[rows], Y[rows]), jnp.asarray(1 / (2 * p[rows]), jnp.float32), jnp.asarray(rows))


@pytest.mark.parametrize("weights", [None, np.array([1.0, 2, 3, 1, 5, 2])])
@pytest.mark.parametrize(
    "estimator",
    [sc.Plain(), sc.ControlVariate(centre=THERE), sc.ControlVariate(centre=THERE, order=2), sc.SVRG(10), sc.SAGA()],
)
def test_mean_over_all_minibatches_is_the_full_gradient(estimator, weights):
    state = estimator.init(TARGET, THERE, None)
    if isinstance(estimator, sc.SAGA):  # a table that is partly renewed, as in the middle of a run
        _, state = estimate(estimator, state, {"w": jnp.ones(2), "c": jnp.ones(())}, next(batches())[1])
    full = TARGET.full_gradient(HERE)
    mean = jax.tree.map(np.zeros_like, full)
    for p, batch in batches(weights):
        g, _ = estimate(estimator, state, HERE, batch)
        mean = jax.tree.map(lambda m, g, p=p: m + p * np.asarray(g, np.float64), mean, g)
    for name in full:
        np.testing.assert_allclose(mean[name], full[name], rtol=2e-5)


@pytest.mark.parametrize("estimator", [sc.ControlVariate(centre=HERE), sc.SVRG(10)])
def test_no_noise_at_the_centre(estimator):
    state = estimator.init(TARGET, HERE, None)
    full = TARGET.full_gradient(HERE)
    for _, batch in batches():
        g, _ = estimate(estimator, state, HERE, batch)
        np.testing.assert_allclose(g["w"], full["w"], rtol=1e-4, atol=1e-5)


def test_saga_keeps_the_sum_of_its_table():
    """Also when a row is drawn twice in a minibatch."""
    estimator = sc.SAGA()
    state = estimator.init(TARGET, THERE, None)
    for _, batch in batches():
        _, state = estimate(estimator, state, HERE, batch)
        for table, total in zip(jax.tree.leaves(state.table), jax.tree.leaves(state.total), strict=True):
            np.testing.assert_allclose(np.asarray(table).sum(0), total, atol=1e-5)
    exact = TARGET.example_gradients(HERE, None, (X, Y))
    np.testing.assert_allclose(state.table["w"], exact["w"], atol=1e-6)


def test_variance_of_control_variates_grows_with_the_distance_only():
    def variance(estimator, position):
        state = estimator.init(TARGET, THERE, None)
        found = [(p, np.asarray(estimate(estimator, state, position, b)[0]["w"])) for p, b in batches()]
        mean = sum(p * g for p, g in found)
        return sum(p * np.sum((g - mean) ** 2) for p, g in found)

    near = jax.tree.map(lambda t, h: t + 0.01 * (h - t), THERE, HERE)
    cv = sc.ControlVariate(centre=THERE)
    assert variance(cv, near) < 1e-3 * variance(sc.Plain(), near)
    assert variance(cv, HERE) / variance(cv, near) == pytest.approx(1e4, rel=0.5)
    second = sc.ControlVariate(centre=THERE, order=2)
    middle, nearer = (jax.tree.map(lambda t, h, s=s: t + s * (h - t), THERE, HERE) for s in (0.2, 0.1))
    assert variance(second, middle) < 0.05 * variance(cv, middle)
    assert variance(second, middle) / variance(second, nearer) == pytest.approx(16, rel=0.3)  # the fourth power


def test_second_order_control_variates_are_exact_on_a_quadratic():
    x = RNG.normal(size=(50, 3)).astype(np.float32)
    target = sc.Target(lambda w: -jnp.sum(w**2), lambda w, r: -0.5 * (r @ w - 1) ** 2, x)
    estimator = sc.ControlVariate(centre=jnp.zeros(3), order=2)
    state = estimator.init(target, jnp.zeros(3), None)
    here = jnp.array([1.0, -2.0, 0.5])
    for rows in ([0], [3, 7], [5, 5, 9]):
        batch = Batch(x[rows], jnp.float32(50 / len(rows)), jnp.asarray(rows))
        found, _ = estimator.estimate(target, state, here, None, batch)
        np.testing.assert_allclose(found, target.full_gradient(here), rtol=1e-4, atol=1e-3)


def test_second_order_has_limits():
    with pytest.raises(ValueError, match="order must be 1 or 2; got 3"):
        sc.ControlVariate(order=3)
    target = sc.Target(lambda w: -jnp.sum(w**2), lambda w, r: -jnp.sum(w) * r, np.ones(4, np.float32))
    with pytest.raises(ValueError, match="for at most 1,000 parameters; there are 1,001"):
        sc.ControlVariate(order=2).start(target, jnp.zeros(1001), None, sc.find_mode)


def test_weights_by_lipschitz_constants_lower_the_variance():
    """Linear regression with a few long rows: L_i = |x_i|^2 exactly, and p_i ~ L_i helps the control variate."""
    x = RNG.normal(size=(200, 3)).astype(np.float32) * np.where(np.arange(200) % 20 == 0, 6, 1)[:, None]
    y = (x @ np.ones(3) + RNG.normal(size=200)).astype(np.float32)
    target = sc.Target(lambda w: -0.5 * jnp.sum(w**2), lambda w, r: -0.5 * (r[1] - r[0] @ w) ** 2, (x, y))
    constants = lipschitz_constants(target, jnp.zeros(3))
    np.testing.assert_allclose(constants, np.maximum(np.sum(x**2, 1), 0.01 * np.sum(x**2, 1).mean()), rtol=1e-3)
    here, there = jnp.full(3, 0.9), jnp.ones(3)
    difference = np.asarray(
        target.example_gradients(here, None, (x, y)) - target.example_gradients(there, None, (x, y))
    )

    def variance(p):
        return np.sum(difference**2 / p[:, None]) - np.sum(difference.sum(0) ** 2)

    assert variance(constants / constants.sum()) < 0.5 * variance(np.full(200, 1 / 200))


def test_control_variate_finds_the_mode_and_starts_there():
    kernel = sc.kernel(TARGET, sc.SGLD(1e-3), batch_size=2, estimator=sc.ControlVariate())
    state = kernel.init(jax.random.key(0), THERE)
    np.testing.assert_allclose(TARGET.full_gradient(state.position)["w"], 0, atol=2e-4)
    np.testing.assert_array_equal(state.estimator.centre["w"], state.position["w"])


def test_wrong_centre():
    kernel = sc.kernel(
        TARGET, sc.SGLD(1e-3), batch_size=2, estimator=sc.ControlVariate(centre={"w": jnp.ones(3), "c": 0.0})
    )
    with pytest.raises(ValueError, match="centre must have the shapes of the parameters"):
        kernel.init(jax.random.key(0), THERE)


def test_saga_refuses_epochs_without_replacement():
    with pytest.raises(ValueError, match="independent minibatches"):
        sc.kernel(TARGET, sc.SGLD(1e-3), batch_size=2, estimator=sc.SAGA(), batching=sc.batches.Shuffled())


def test_full_sums_are_accumulated_in_float64():
    """A million rows whose gradients cancel: float32 sums would be off by far more."""
    x = np.random.default_rng(1).normal(1000.0, 1.0, 1_000_000).astype(np.float32)
    target = sc.Target(lambda m: 0.0 * m, lambda m, x: -0.5 * (x - m) ** 2, x)
    centre = jnp.float32(1000.0)
    exact = np.sum(np.float64(centre) - x.astype(np.float64))
    assert float(target.full_gradient(centre)) == pytest.approx(exact, rel=1e-3)


def test_the_table_of_saga_is_not_copied_at_every_step():
    """XLA writes into a buffer only if all that reads it comes before; a copy of the table costs more than the step."""
    x = np.ones((5003, 3), np.float32)
    target = sc.Target(lambda m: -0.5 * jnp.sum(m**2), lambda m, x: -0.5 * jnp.sum((x - m) ** 2), x)
    kernel = sc.kernel(target, sc.SGLD(1e-5), estimator=sc.SAGA(), batch_size=10)
    engine = GradientEngine(kernel, jnp.zeros(3), chains=1, recording=Recording(0, 10))
    engine.start()
    compiled = advance_chains.lower(
        kernel.program, engine.recording.leaves(), engine._words[Purpose.CHAIN_STEP], (engine.state, engine._sums),
        kernel.data_at(0), jnp.int32(10), jnp.int32(100), engine.stored, 10, True,
    ).compile()  # fmt: skip
    assert re.search(r"f32\[(?:1,)?5003,3\]", compiled.as_text())
    assert not re.findall(r"= f32\[(?:1,)?5003,3\]\S* copy\((\S+)\)", compiled.as_text())  # the state is given away
