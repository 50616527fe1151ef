"""One of Barker's moves against the formula, with the random numbers that the key gives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.core.trees import normal_like

KEY = jax.random.key(7)
H = 0.1


def leaves(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("increments", ["bimodal", "normal"])
@pytest.mark.parametrize("noise", [None, 6.0])
def test_barker_is_its_formula(temperature, increments, noise):
    """Lengths and signs as the key gives them, for gradients that leave the signs open and for those that do not."""
    theta = {"x": jnp.zeros(300), "y": jnp.array(0.7)}
    force = {"x": jnp.linspace(-12.0, 12.0, 300), "y": jnp.array(1.0)}
    sampler = sc.Barker(
        H, increments=increments, temperature=temperature, noise_estimate=noise and sc.GradientNoise(noise)
    )
    state, info = sampler.step(KEY, sampler.init(KEY, theta), lambda _: force)
    n, u = (leaves(z).astype(float) for z in normal_like(KEY, (theta, theta)))
    z = np.sqrt(2 * H * temperature) * (n if increments == "normal" else np.sqrt(0.99) + 0.1 * n)
    tilt = z * leaves(force) / temperature
    if noise is not None:
        tilt = tilt / np.sqrt(np.maximum(1 - (z * np.sqrt(noise) / temperature / 1.702) ** 2, 1e-30))
    sign = np.where(np.asarray(jax.scipy.special.ndtr(u)) < 1 / (1 + np.exp(np.clip(tilt, -80, 80))), 1, -1)
    assert 50 < np.sum(sign > 0) < 250
    np.testing.assert_allclose(leaves(state.position), leaves(theta) + sign * z, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(info.gradient_norm, np.linalg.norm(leaves(force)), rtol=1e-5)


def test_no_gradient_throws_a_move_out_and_none_that_is_no_number_hides():
    theta = jnp.zeros(4)
    sampler = sc.Barker(H)
    huge = jnp.array([1e30, -1e30, jnp.inf, jnp.nan])
    after = np.asarray(sampler.step(KEY, sampler.init(KEY, theta), lambda _: huge)[0].position)
    assert np.all(np.abs(after[:3]) < 1)
    assert list(np.sign(after[:3])) == [-1, 1, -1]
    assert np.isnan(after[3])


def test_wrong_settings():
    with pytest.raises(ValueError, match="temperature must be positive and finite; got 0"):
        sc.Barker(H, temperature=0.0)
    with pytest.raises(ValueError, match="temperature must be positive"):
        sc.cyclical(sc.Barker(H), period=10)  # which explores at temperature 0, where nothing would move
    with pytest.raises(ValueError, match="increments must be one of bimodal, normal; got 'uniform'"):
        sc.Barker(H, increments="uniform")
    for noise in (sc.GradientNoise("full"), sc.GradientNoise(sc.Matrix(np.eye(2)))):
        with pytest.raises(ValueError, match="noise_estimate must have a number for each coordinate"):
            sc.Barker(H, noise_estimate=noise)
    with pytest.raises(ValueError, match="noise_estimate must be zero or positive"):
        sc.Barker(H, noise_estimate=sc.GradientNoise(-1.0))
