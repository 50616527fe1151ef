"""The words and the verdict of the bias report, from numbers made by hand; against the truth see tests/run."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.bias.report import RHAT_LIMIT, BiasReport, bias_report, moment_rhat, spread_apart

GOOD = BiasReport({"w": np.array([0.1, 0.2])}, {"w": np.array([0.01, -0.02])}, 0.1)


def moments(draws):
    """Means and variances of each chain."""
    return {"x": draws.mean(axis=1)}, {"x": draws.var(axis=1, ddof=1)}


# R-hat from moments.


def test_r_hat_from_moments_is_the_classic_one():
    x = np.random.default_rng(0).normal(size=(4, 500, 3)) + np.array([[0.0, 0.5, -0.5, 0.2]]).T[..., None]
    within, among = x.var(axis=1, ddof=1).mean(axis=0), x.mean(axis=1).var(axis=0, ddof=1)
    expected = np.sqrt((499 / 500 * within + among) / within)
    assert np.all(expected > 1.02)
    np.testing.assert_allclose(moment_rhat(*moments(x), 500)["x"], expected, rtol=1e-12)


def test_chains_of_one_law_agree():
    x = np.random.default_rng(0).normal(size=(4, 500, 200))
    assert np.max(moment_rhat(*moments(x), 500)["x"]) < 1.02


def test_r_hat_sees_tails_that_each_chain_follows_to_a_different_distance():
    """Symmetric Cauchy draws, medians removed: the variances differ, by the largest draw of each chain."""
    for seed in range(10):
        x = np.random.default_rng(seed).standard_cauchy(size=(4, 2000))
        assert moment_rhat({"x": np.zeros(4)}, {"x": x.var(axis=1)}, 2000)["x"] > RHAT_LIMIT


def test_r_hat_sees_a_funnel_that_some_chains_do_not_enter():
    rng = np.random.default_rng(0)
    width = rng.normal(0, 3, (4, 1))  # a chain stays where its width is
    x = np.exp(width / 2) * rng.normal(size=(4, 1000))
    assert moment_rhat(*moments(x), 1000)["x"] > 1.2


def test_r_hat_of_constants_and_of_nothing():
    still = {"x": np.zeros((3, 2))}
    assert np.all(moment_rhat({"x": np.ones((3, 2))}, still, 100)["x"] <= 1)  # a parameter that no chain moves
    stuck = moment_rhat({"x": np.array([[0.0, 0.0], [1.0, 0.0]])}, {"x": np.zeros((2, 2))}, 100)["x"]
    assert np.isinf(stuck[0])
    assert stuck[1] <= 1
    assert np.isinf(moment_rhat({"x": np.array([0.0, np.nan])}, {"x": np.ones(2)}, 100)["x"])
    assert moment_rhat({"x": np.zeros((1, 2))}, {"x": np.ones((1, 2))}, 100) == {}  # a single chain
    assert moment_rhat(still, still, 3) == {}
    assert moment_rhat({}, {}, 100) == {}


def test_starts_around_one_mode_are_not_apart():
    rng = np.random.default_rng(0)
    variance = {"x": np.ones((4, 20))}
    assert not spread_apart({"x": np.ones((4, 20))}, variance)
    assert not spread_apart({"x": rng.normal(size=(4, 20))}, variance)  # as step_size="auto" starts them
    assert spread_apart({"x": rng.normal(0, 5, (4, 20))}, variance)
    assert not spread_apart({"x": np.ones((1, 20))}, {"x": np.ones((1, 20))})


# The verdict.


def test_an_accurate_step_alone_is_not_trusted():
    assert GOOD.accurate
    assert not GOOD.trusted
    assert "agreement between chains was not measured" in str(GOOD)
    assert "describe the posterior" not in str(GOOD)


def test_one_start_is_not_trusted_and_the_report_says_why():
    one = replace(GOOD, r_hat=1.001, r_hat_in="w", started_apart=False)
    assert not one.trusted
    assert "all started around one point: other modes would not be seen" in str(one)
    assert "describe the posterior" not in str(one)
    unknown = replace(one, started_apart=None)
    assert not unknown.trusted
    assert "may all have started at one point: other modes would not be seen" in str(unknown)


def test_chains_that_disagree_are_not_trusted():
    apart = replace(GOOD, r_hat=2.56, r_hat_in="w", started_apart=True)
    assert not apart.trusted
    assert "the chains DISAGREE: R-hat of means and variances is 2.56 (in w), above 1.05" in str(apart)
    assert "describe the posterior" not in str(apart)


def test_accurate_chains_that_started_apart_and_agree_are_trusted():
    report = replace(GOOD, r_hat=1.01, r_hat_in="w", started_apart=True)
    assert report.trusted
    assert "chains that started apart agree: R-hat 1.01 (in w)" in str(report)
    assert "R-hat and ESS describe the posterior" in str(report)
    assert not replace(report, sd_error={"w": np.array([0.2])}).trusted
    assert not replace(report, stiffest_error=np.inf).trusted


def test_a_dirichlet_law_has_one_mode():
    report = replace(GOOD, exact_steps=True, r_hat=1.01, r_hat_in="omega")
    assert report.trusted
    assert not replace(report, r_hat=1.2).trusted


@pytest.mark.parametrize("apart", [True, False, None])
def test_reports_are_kept(apart):
    report = replace(GOOD, r_hat=1.25, r_hat_in="w", started_apart=apart, note="of weights")
    back = BiasReport.from_arrays({name: np.asarray(a) for name, a in report.to_arrays().items()})
    assert str(back) == str(report)
    assert str(back).endswith("of weights")
    assert (back.r_hat, back.r_hat_in, back.started_apart) == (1.25, "w", apart)
    old = {name: a for name, a in GOOD.to_arrays().items() if not name.startswith("r_hat")}  # of an earlier version
    assert BiasReport.from_arrays(old).r_hat is None


def test_the_report_names_the_variable_with_the_largest_r_hat():
    sampler = sc.SGLD(1e-3)
    state = sampler.init(jax.random.key(0), {"a": jnp.zeros(2), "b": jnp.zeros(())})
    ones = {"a": np.ones(2), "b": np.ones(())}
    r_hat = {"a": np.array([1.0, 1.01]), "b": np.asarray(1.03)}
    report = bias_report(sampler, state, ones, ones, ones, r_hat=r_hat, started_apart=True)
    assert (report.r_hat, report.r_hat_in, report.trusted) == (1.03, "b", True)
    for missing in (None, {}):
        report = bias_report(sampler, state, ones, ones, ones, r_hat=missing)
        assert report.r_hat is None
        assert not report.trusted
