"""The experiments with gradients of logistic regressions in their short mode, as in ``test_experiments.py``."""

from __future__ import annotations

import numpy as np
import pytest
from experiments_support import holds

pytest.importorskip("matplotlib", reason="the experiments need scirocco[experiments]")


@pytest.mark.slow
def test_control_variates_calm_a_logistic_regression_and_their_gradients_are_counted(play, monkeypatch):
    module, found, claims = play("logistic_growing_data")
    (size,) = found.sizes
    settings = module.MODES["short"]
    n, marks = settings["batch"], np.arange(1, settings["iterations"] // module.THIN + 1)
    assert len(claims) == 14
    plain, controlled, saga = (found.curves[size, m, "fixed"] for m in ("SGLD", "SGLD-CV", "SAGA"))
    assert np.array_equal(plain.gradients, n * module.THIN * marks)
    assert np.array_equal(saga.gradients, size + n * module.THIN * marks)
    searched, each = n * settings["descent"], 2 * n * module.THIN
    steps = np.diff(controlled.gradients)
    assert controlled.gradients[settings["descent"] // module.THIN - 1] == searched
    assert sorted(set(steps)) == [each // 2, each, size + each]  # SGD, SGLD-CV, and the full gradient between them
    assert found.budget - each < controlled.gradients[-1] <= found.budget
    for method in ("SGLD-CV", "SAGA"):  # the noise of minibatches is gone
        assert found.spread(size, "SGLD").min() > 1.5 * found.spread(size, method).max()
    assert found.spread(size, module.QUIET).mean() < 0.6 * found.spread(size, "SAGA").mean()
    for key, curve in found.curves.items():
        assert curve.predictive[:, 0].max() < found.mode[size] - 0.05  # a start that is farther than the end below
        assert found.loss(*key) < 0.02
    monkeypatch.setenv("SCIROCCO_DATA", "nowhere")
    with pytest.raises(SystemExit, match=r"SCIROCCO_DATA .* covertype\.npz"):
        module.rows("full", 100)


def test_the_mode_of_a_laplace_prior_has_zeros_where_the_data_say_little(load):
    module = load("logistic_growing_data")
    rng = np.random.default_rng(0)
    x = np.hstack([rng.normal(size=(500, 2)), 0.01 * rng.normal(size=(500, 2))]).astype(np.float32)
    y = (x[:, 0] + rng.logistic(size=500) > 0).astype(np.float32)
    beta = module.best(module.Rows(x, y, x, y))
    slope = x.T @ (1 / (1 + np.exp(-x @ beta)) - y)
    assert np.all(beta[2:] == 0)
    assert np.all(np.abs(slope[2:]) < 1)
    np.testing.assert_allclose(slope[:2], -np.sign(beta[:2]), atol=0.02)
    expected = np.mean(y * (x @ beta) - np.logaddexp(0, x @ beta))
    assert module.log_predictive(beta[None], x, y) == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_gradients_of_control_variates_correct_a_log_predictive_density_and_plain_ones_do_not(play):
    module, found, claims = play("logistic_zero_variance")
    assert holds(claims, "the correction reduces the variance well")
    assert holds(claims, "it leaves the mean where it is")
    assert holds(claims, "at corrected parameters the variance falls")
    assert not holds(claims, "with its sign as printed")  # the misprint of the source
    (chains,) = found.values()
    assert np.all(chains.removed(module.PLAIN) < 0.2)
    assert np.all(chains.printed.var(axis=1) > 2 * chains.raw.var(axis=1))
    assert np.all(chains.parameters.mean(axis=1) > chains.raw.mean(axis=1))  # the value at the mean is not the mean
    rows = module.growing.rows("short", 2000).first(300)
    beta = np.linspace(-1, 1, 8, dtype=np.float32)
    exact = rows.target.full_gradient(beta)
    found = module.plain_gradients(rows, np.tile(beta, (1, 4000, 1)), 30)[0]
    assert np.all(np.abs(found.mean(axis=0) - exact) < 4.5 * found.std(axis=0) / np.sqrt(len(found)))


@pytest.mark.slow
def test_the_law_foretells_what_sgld_costs_with_and_without_control_variates(play):
    module, found, claims = play("constant_cost")
    (size,) = found.sizes
    assert holds(claims, "SGLD-CV arrives")
    assert holds(claims, "SGLD-CV is cheaper")
    assert holds(claims, "the truth is known")
    controlled, plain = (found.runs[method, size] for method in module.BATCH)
    assert 0.5 < controlled.cost / controlled.predicted < 2  # what the experiment claims
    assert controlled.sds[-1] == pytest.approx(module.PREDICTED, abs=0.015)
    assert plain.cost == np.inf  # the budget is a fifth of what it needs
    assert plain.predicted > 4 * plain.gradients[-1]
    assert found.setups[size].distance < 0.01
    # Laplace's approximation is off by more than importance sampling leaves open.
    assert 0.01 < found.truths[size].moved < 0.1
    assert found.truths[size].doubt < 0.1 * found.truths[size].moved
