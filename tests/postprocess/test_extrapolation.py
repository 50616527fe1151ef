"""Extrapolation in the step size takes the leading bias off."""

import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.postprocess import extrapolate


def test_step_halving_on_a_gaussian():
    # SGLD's variance on N(0, 1) is 1 / (1 - h/2): 1.333 at h = 0.5, 1.143 at 0.25.
    target = sc.Target(lambda t: 0.0 * t, lambda t, x: -(t**2) / 2 + 0 * x, jnp.zeros(1))
    runs = [
        sc.sample(target, sc.SGLD(h), jnp.zeros(()), batch_size=1, num_samples=n, burn_in=100, thin=4, chains=4, seed=s)
        for h, n, s in ((0.5, 4000, 1), (0.25, 8000, 2))
    ]
    found = extrapolate(*runs, function=np.square)
    assert found.bias == pytest.approx((1 / 0.75 - 1 / 0.875) * 2, abs=4 * found.bias_se)
    assert found.biased
    exact = 2 / 0.875 - 1 / 0.75
    assert found.mean == pytest.approx(exact, abs=4 * found.se)
    assert abs(exact - 1) < 0.05
    assert found.se < 0.05


def test_errors_follow_the_formula():
    rng = np.random.default_rng(0)
    coarse, fine = rng.normal(1.3, 1.0, (4, 2000)), rng.normal(1.1, 1.0, (4, 2000))
    found = extrapolate(coarse, fine, ratio=2.0, order=1.0)
    assert found.mean == pytest.approx(2 * fine.mean() - coarse.mean())
    assert found.se == pytest.approx(np.sqrt(5 / 8000), rel=0.1)
    second = extrapolate(coarse, fine, ratio=2.0, order=2.0)
    assert second.mean == pytest.approx((4 * fine.mean() - coarse.mean()) / 3)


def test_wrong_input():
    with pytest.raises(ValueError, match="ratio must be above 1"):
        extrapolate(np.zeros((1, 5)), np.zeros((1, 5)), ratio=1.0)
    with pytest.raises(ValueError, match="same quantity"):
        extrapolate(np.zeros((1, 5)), np.zeros((1, 5, 2)))
    with pytest.raises(ValueError, match="at least 4 draws"):
        extrapolate(np.zeros((1, 3)), np.zeros((1, 3)))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_draws_that_are_not_finite_are_named(bad):
    good, spoilt = np.zeros((2, 5, 3)), np.zeros((2, 5, 3))
    spoilt[1, 2, 0] = bad
    with pytest.raises(ValueError, match=r"draws of coarse must be finite; 1 of 30 .* at \[1, 2, 0\]"):
        extrapolate(spoilt, good)
    with pytest.raises(ValueError, match=r"draws of fine must be finite"):
        extrapolate(good, spoilt)
    with pytest.raises(ValueError, match="function of the draws of coarse must be finite"):
        extrapolate(good, good, function=lambda draws: np.full_like(draws, bad))
