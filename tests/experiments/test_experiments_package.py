"""The experiments on the R package sgmcmc (chapter 4 of Baker's thesis) in their short mode."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments_support import holds
from scipy import stats

pytest.importorskip("matplotlib", reason="the experiments need scirocco[experiments]")
pytest.importorskip("blackjax", reason="the experiments need scirocco[experiments]")


@pytest.mark.slow
def test_sgld_cv_on_a_normal_is_an_autoregression_that_mixes_by_its_step_alone(play):
    module, found, claims = play("against_nuts")
    small, large = found.sizes
    assert holds(claims, "SGLD-CV is poor beside NUTS")
    assert holds(claims, "beyond the source: the divergence of SGLD-CV")
    assert holds(claims, "beyond the source: with h = 0.15/N")
    assert found.divergence[module.SOURCE, large].mean() < found.divergence[module.SOURCE, small].mean() / 3
    assert max(found.divergence[module.NUTS, size].max() for size in found.sizes) < 0.02
    assert (module.strength(small), module.strength(large)) == pytest.approx((0.015, 0.125), rel=1e-3)
    wide = (np.log(2) + 1 / 2 - 1) / 2  # c = 1: independent draws of variance 2
    assert module.law(1.0, 5)[0] == pytest.approx(wide + 0.5 / module.DRAWS, rel=0.02)
    draws = np.sqrt(2) * np.array([-1.0, 1.0]) + 3  # variance 4
    assert module.divergence(draws, 1.0, 2.0) == pytest.approx((np.log(2) + (2 + 4) / 4 - 1) / 2)


@pytest.mark.slow
def test_the_six_samplers_explore_two_components_as_their_steps_allow(play):
    module, found, claims = play("gaussian_mixture")
    assert holds(claims, "SGLD over-estimates the uncertainty")
    assert holds(claims, "SGNHT collapses to a mode")
    assert holds(claims, "SGLD-CV, in turn over-estimates the uncertainty")
    assert not holds(claims, "SGLD-CV does not explore both components")
    assert np.isnan(found.crossed("SGLD-CV")).all()  # h times the curvature is 2.5: it diverges, but not in turn
    assert np.isfinite(found.draws[module.IN_TURN]).all()
    assert min(found.crossed(module.IN_TURN)) > 0.1
    assert found.draws["SGHMC"].shape == (4, 100, 2, 2)  # a fifth of the iterations
    assert module.valley(found.truth) < 0.5
    means = np.array([[[0.0, 0.0], [2.0, 2.0]], [[2.0, 2.0], [0.0, 0.0]], [[0.0, 0.2], [2.0, 2.0]]])
    assert module.lesser(means) == pytest.approx(1 / 3)
    assert module.width(means) == pytest.approx(np.std([0, 0, 0.2]))  # the same mean whatever its label
    assert module.distance(np.zeros((4, 2)), np.array([[0, 0], [0, 0], [9, 9], [0, 0.5]])) == pytest.approx(0.5)


@pytest.mark.slow
def test_control_variates_quieten_the_log_loss_of_logistic_regression(play, monkeypatch):
    module, found, claims = play("six_samplers_logistic")
    for method in ("SGLD", "SGHMC"):  # a thermostat absorbs the noise: its two short chains differ as much by chance
        assert holds(claims, f"{method}-CV varies less than {method}")
    assert found.spread("SGLD").min() > 3 * found.spread("SGLD-CV").max()
    assert max(loss.max() for loss in found.loss.values()) < found.frequency
    assert {method: loss.shape for method, loss in found.loss.items()} == {
        method: (2, 10 if "SGHMC" in method else 50) for method in module.METHODS
    }
    falling = np.concatenate([np.linspace(1, 0, 51), 0.01 * (-1.0) ** np.arange(149)])
    assert module.settled(np.stack([falling, np.zeros(200)])).tolist() == [49, 0]  # the first below 0.03
    monkeypatch.setenv("SCIROCCO_DATA", "nowhere")
    with pytest.raises(SystemExit, match=r"SCIROCCO_DATA .* covertype\.npz"):
        module.examples("full", 10)


@pytest.mark.slow
def test_the_six_samplers_learn_digits(play, monkeypatch):
    module, found, claims = play("six_samplers_network")
    # One short chain each, with the step sizes of the source's larger network: of the other two pairs chance decides.
    assert holds(claims, "SGLD-CV predicts better")
    for method in module.METHODS:
        assert found.level(method) < np.log(10)
    assert max(found.level(method) for method in ("SGLD", "SGLD-CV")) < 1.4
    params = module.start(3, 2)
    precision = np.exp(np.asarray(params["log_precision"], np.float64))
    groups = [np.asarray(params[group], np.float64) for group in module.GROUPS]
    expected = sum(
        stats.norm(0, r**-0.5).logpdf(w).sum() + w.size * np.log(2 * np.pi) / 2 + stats.gamma(1).logpdf(r) + np.log(r)
        for w, r in zip(groups, precision, strict=True)
    )
    assert float(module.log_prior(params)) == pytest.approx(expected, rel=1e-5)
    monkeypatch.setenv("SCIROCCO_DATA", "nowhere")
    with pytest.raises(SystemExit, match=r"SCIROCCO_DATA .* mnist\.npz"):
        module.images("full")


def test_the_methods_of_the_package_are_translated(load):
    module = load("six_samplers_logistic")
    assert module.sampler("SGLD-CV", 0.02, ()).step_size == 0.01
    hmc, thermostat = (module.sampler(method, 0.04, ()) for method in ("SGHMC", "SGNHT-CV"))
    assert (hmc.inner_steps, hmc.resample_momentum) == (5, True)
    assert (hmc.step_size, hmc.friction) == pytest.approx((0.2, 0.05))
    assert (thermostat.step_size, thermostat.diffusion) == pytest.approx((0.2, 0.05))
    # The second part sees the first where it has gone, and only so can h times the curvature exceed 2.
    curvature, parts = np.array([[1.0, 1.0], [1.0, 1.0]]), (np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    turns = module.InTurn(1.25, parts, temperature=0.0)
    state = turns.init(jax.random.key(0), jnp.array([1.0, 2.0]))
    for _ in range(3):
        x, y = np.asarray(state.position, np.float64)
        x = x - 1.25 * (x + y)
        y = y - 1.25 * (x + y)
        state, _ = turns.step(jax.random.key(1), state, lambda position: curvature @ position)
        assert np.asarray(state.position) == pytest.approx([x, y], rel=1e-5)
    assert int(state.step) == 3
