"""Barker's moves on a Gaussian: the law against a plain simulation, signs that know the noise, too long steps."""

from __future__ import annotations

import gaussian
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.integrators.barker import barker_variance
from scirocco.samplers import Preconditioned, Scale


@pytest.mark.parametrize(
    ("increments", "estimated"),
    [("bimodal", False), ("bimodal", True), ("normal", False), pytest.param("normal", True, marks=pytest.mark.slow)],
)
def test_the_law_is_that_of_a_simulation(increments, estimated):
    """Short and long steps, little noise and much, T = 1 and 2."""
    for lam, v, h, t in ((1.0, 0.0, 0.05, 1.0), (2.0, 8.0, 0.05, 2.0), (1.0, 3.0, 1.0, 1.0), (5.0, 9.0, 6.0, 2.0)):
        wanted, se = gaussian.barker_variance(
            lam, v, h, t, increments, estimate=v if estimated else None, chains=10_000, steps=300
        )
        found = barker_variance(lam, v, h, t, increments=increments, corrected=estimated)
        slack = 0.015 if h * lam == 30 else 0.003  # beyond the table, and within
        assert se < 0.01 * wanted
        assert abs(found - wanted) < 4.75 * se + slack * wanted, f"{found} at {(lam, v, h, t)}, simulated {wanted}"


def test_the_law_to_first_order_and_beyond_the_table():
    small = 1e-3
    for increments, fourth in (("bimodal", 0.99**2 + 6 * 0.99 * 0.01 + 3e-4), ("normal", 3.0)):
        law = [
            float(barker_variance(1.0, v, h, 1.0, increments=increments, corrected=False)) - 1
            for h, v in ((small, 0.0), (small / 100, 100.0))
        ]
        np.testing.assert_allclose(law, fourth * small / 2, rtol=0.05)
        # Signs decide: sd and noise in units of a move are all that matters.
        far = [
            barker_variance(1.0, 0.2 * s**2 / s, s, 1.0, increments=increments, corrected=False) / s for s in (20, 80)
        ]
        assert far[0] == pytest.approx(far[1], rel=1e-9)
    assert np.isinf(barker_variance(1.0, np.inf, 0.1, 1.0, increments="bimodal", corrected=False))


def test_signs_that_know_the_noise_have_less_bias():
    """The noise of 10 rows of 100, as large as it is: measured on each minibatch, or given."""
    problem, h = gaussian.SMALL, 5e-5
    noise = problem.gradient_variance(10, replacement=True)
    plain = [
        gaussian.barker_variance(lam, v, h, 1.0, "bimodal")[0] for lam, v in zip(problem.precision, noise, strict=True)
    ]
    law = [
        gaussian.barker_variance(lam, v, h, 1.0, "bimodal", estimate=v)[0]
        for lam, v in zip(problem.precision, noise, strict=True)
    ]
    assert np.all(np.array(law) * problem.precision - 1 < 0.6 * (np.array(plain) * problem.precision - 1))
    known = sc.GradientNoise({"a": noise[:2].astype(np.float32), "b": np.float32(noise[2])})
    for estimate in (sc.GradientNoise(), known):
        trace = sc.sample(
            problem.target, sc.Barker(h, noise_estimate=estimate), problem.initial, num_samples=1000, burn_in=200,
            thin=2, chains=32, batch_size=10, report=False, batching=sc.batches.WithReplacement(), progress=False,
        )  # fmt: skip
        alone = [np.var(trace.posterior[n].values.astype(float), axis=1).reshape(32, -1) for n in ("a", "b")]
        found = np.concatenate(alone, axis=1)
        # Noise that is measured on ten rows is off by a quarter, which costs a little of the correction.
        slack = 0.02 if estimate is known else 0.04
        error = found.mean(0) / law - 1
        assert np.all(np.abs(error) < 4.75 * found.std(0) / np.array(law) / np.sqrt(32) + slack), error


def test_noise_is_measured_in_the_coordinates_of_the_sampler():
    """Preconditioned by a diagonal, the moves are those of other step sizes."""
    scale = np.array([0.03, 0.05, 0.02])
    sizes = {"a": (0.1 * scale[:2] ** 2).astype(np.float32), "b": np.float32(0.1 * scale[2] ** 2)}
    problem, noise = gaussian.SMALL, sc.GradientNoise()
    options = {"num_samples": 20, "batch_size": 10, "chains": 1, "report": False, "progress": False}
    inner = sc.Barker(0.1, noise_estimate=noise)
    traces = [
        sc.sample(problem.target, sampler, problem.initial, **options)
        for sampler in (Preconditioned(inner, Scale(scale)), sc.Barker(sizes, noise_estimate=noise))
    ]
    for name in ("a", "b"):
        np.testing.assert_allclose(*(np.asarray(t.posterior[name]) for t in traces), rtol=1e-4)


def test_a_step_that_is_too_long_makes_a_chain_wide_where_sgld_is_lost():
    """A coordinate of a thousandth of the scale of the other, whose steps are right for the latter."""
    curvature = jnp.array([1.0, 1e6])
    target = sc.Target(lambda x: -0.5 * jnp.sum(curvature * x**2), lambda x, r: 0.0 * r, np.ones(10, np.float32))
    options = {"num_samples": 4000, "burn_in": 500, "chains": 8, "batch_size": 1.0, "report": False, "progress": False}
    trace = sc.sample(target, sc.Barker(0.1), jnp.zeros(2), **options)
    assert trace.variance["theta"][0] == pytest.approx(1.05, rel=0.15)
    law = barker_variance(1e6, 0.0, 0.1, 1.0, increments="bimodal", corrected=False)
    assert trace.variance["theta"][1] == pytest.approx(float(law), rel=0.05)
    with pytest.raises(sc.DivergenceError):
        sc.sample(target, sc.SGLD(0.1), jnp.zeros(2), **options)
