"""How far means are off: of exact draws nothing, of draws that are too wide what is known; and of runs."""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special

import scirocco as sc
from scirocco.bias.shifts import Shift, possible, shifts

ROWS = np.ones(10, np.float32)
A = 3.0  # of the log of a gamma variable: skewed to the left
MEAN, SD = special.digamma(A), np.sqrt(special.polygamma(1, A))
MIXED = np.random.default_rng(0).normal(size=(4, 4)) / 2


def nothing(p, row):
    return 0.0 * row * jnp.sum(p)


def log_gammas(p):
    """Four of them, mixed."""
    return jnp.sum(A * p - jnp.exp(p))


def mixed(p):
    return log_gammas(jnp.asarray(np.linalg.inv(MIXED), jnp.float32) @ p)


def exact(seed, chains=4, count=256):
    return np.log(np.random.default_rng(seed).gamma(A, size=(chains, count, 4)))


def settled(draws, stretch):
    """Draws that are too wide, where a chain made of the gradient itself comes to rest: E grad U is zero."""
    wide = MEAN + stretch * (draws - MEAN)
    return wide + optimize.brentq(lambda c: np.mean(np.exp(wide + c)) - A, -1, 1)


def measured(draws, seed=0, matrix=None):
    """Of draws of the log-gamma variables, or of these times a matrix."""
    slopes, spread = np.exp(draws) - A, np.eye(4) / A
    target = sc.Target(log_gammas if matrix is None else mixed, nothing, ROWS)
    if matrix is not None:
        draws, slopes, spread = draws @ matrix.T, slopes @ np.linalg.inv(matrix), matrix @ spread @ matrix.T
    means, variances = {"theta": draws.mean(axis=1)}, {"theta": draws.var(axis=1)}
    blocks = shifts(target, jnp.zeros(4), draws, slopes, {"theta": draws.mean(axis=(0, 1))}, [spread] * 2, seed=seed)
    return Shift.of(blocks["theta"], means["theta"], variances["theta"])


@pytest.mark.parametrize("matrix", [None, MIXED], ids=["apart", "mixed"])
def test_of_exact_draws_it_is_their_monte_carlo_error(matrix):
    """Which is far larger than what is left of it."""
    for seed in range(10):
        draws = exact(seed)
        found = measured(draws, seed, matrix)
        truth = (draws.mean(axis=(0, 1)) - MEAN) / SD
        if matrix is not None:
            truth = truth @ matrix.T / np.linalg.norm(matrix, axis=1)
        assert np.all(np.abs(found.size - truth) < 4.5 * found.error), seed
        assert np.median(found.error) < np.median(found.chance)
        assert np.median(found.chance) == pytest.approx(1 / np.sqrt(1024), rel=0.8)


@pytest.mark.parametrize("stretch", [0.9, 1.1, 1.25])
def test_of_draws_whose_gradients_cancel_it_is_the_shift(stretch):
    """E grad U is zero, sds are off by a tenth, and the mean by what the skewness makes of that."""
    draws = settled(exact(0, count=4000), stretch)
    truth = (draws.mean(axis=(0, 1)) - MEAN) / draws.std(axis=(0, 1))
    assert np.all(np.abs(truth) > 0.04)
    assert np.allclose(measured(draws).size, truth, rtol=0.35)


def test_it_does_not_depend_on_the_units():
    draws = settled(exact(1), 1.2)
    units = np.diag([1e-3, 1.0, 10.0, 1e4])
    target = sc.Target(lambda p: log_gammas(p / jnp.asarray(np.diag(units), jnp.float32)), nothing, ROWS)
    x, g, spread = draws @ units, (np.exp(draws) - A) @ np.linalg.inv(units), units @ units / A
    moved = shifts(target, jnp.zeros(4), x, g, {"theta": x.mean(axis=(0, 1))}, [spread] * 2)["theta"]
    found = Shift.of(moved, x.mean(axis=1), x.var(axis=1))
    assert np.allclose(found.size, measured(draws).size, rtol=1e-2, atol=1e-4)


def test_what_is_possible_of_a_gaussian_is_nothing_and_grows_with_the_skewness():
    x = np.random.default_rng(0).normal(size=(4, 200, 3))
    assert possible(x, 2 * x, np.eye(3) / 2, 0.1) == pytest.approx(0, abs=1e-12)
    little, much = (possible(x, x + c * x**2, np.eye(3), 0.1) for c in (0.1, 0.5))
    assert 0.01 < little < much / 3


# Runs.


def hierarchy(p):
    """Fifty normal variables with a common precision exp(u), u the log of a gamma variable of mean one."""
    u = p[0]
    return 20 * (u - jnp.exp(u)) + jnp.sum(u / 2 - jnp.exp(u) * p[1:] ** 2 / 2)


@pytest.mark.parametrize(
    ("sampler", "verdict"), [(sc.SGNHT(0.1), "do not use it"), (sc.UnderdampedLangevin(0.15), "use it")]
)
def test_means_that_fifty_small_errors_of_sds_move_are_seen(sampler, verdict):
    """SGNHT's sds are 4 % too small each, for which it is used, and u pays for all of them."""
    trace = sc.sample(
        sc.Target(hierarchy, nothing, ROWS), sampler, jnp.zeros(51), num_samples=2000, burn_in=1000, thin=5,
        batch_size=1.0, seed=0, progress=False,
    )  # fmt: skip
    true = special.digamma(20) - np.log(20), np.sqrt(special.polygamma(1, 20))
    off = (trace.mean["theta"][0] - true[0]) / true[1]
    found = trace.bias.shift["theta"][0], trace.bias.shift_error["theta"][0]
    assert (off > 0.2) == (verdict != "use it")
    assert found[0] == pytest.approx(off, abs=max(0.35 * abs(off), 0.08))
    assert trace.verdict().kind == verdict
    assert ("means are off by up to" in str(trace.verdict())) == (verdict != "use it")


def test_of_a_parameter_with_a_constraint_it_is_that_of_the_parameter_itself():
    """exp(x) with x the log of a gamma variable: SGLD has its mean right, as it is in grad U, not that of x."""
    positive = sc.Target(
        lambda p: jnp.sum((A - 1) * jnp.log(p) - p), nothing, ROWS, constraints=sc.constraints.positive
    )
    run = partial(sc.sample, num_samples=4000, burn_in=500, thin=2, batch_size=1.0, seed=0, progress=False)
    constrained, free = (
        run(positive, sc.SGLD(0.2), jnp.ones(3)),
        run(sc.Target(log_gammas, nothing, ROWS), sc.SGLD(0.2), jnp.zeros(3)),
    )
    assert np.all(np.abs(constrained.bias.shift["theta"]) < 0.05)
    true = (free.mean["theta"] - MEAN) / SD
    assert np.all(true < -0.05)
    assert np.allclose(free.bias.shift["theta"], true, rtol=0.5)


def test_it_is_not_measured_where_it_cannot_be_large():
    normal = sc.Target(lambda p: -0.5 * jnp.sum(p**2), nothing, ROWS)
    trace = sc.sample(normal, sc.SGLD(0.05), jnp.zeros(3), batch_size=1.0, seed=0, progress=False)
    assert trace.bias.shift == {}
    assert trace.bias.mean_off == ("", 0.0, 0.0, 0.0)
