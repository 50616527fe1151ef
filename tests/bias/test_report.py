"""The words and the findings of the bias report, from numbers made by hand; against the truth see tests/run."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.bias.combinations import Combination
from scirocco.bias.report import RHAT_LIMIT, BiasReport, _checked, bias_report, moment_rhat, spread_apart
from scirocco.bias.virials import Virials

SHIFTS = ("shift", "shift_error", "shift_chance")
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


# What it says.


def kinds(report):
    return [finding.kind for finding in report.findings()]


def test_one_chain_is_compared_with_none():
    assert GOOD.accurate
    assert "agreement between chains was not measured" in str(GOOD)


def test_one_start_is_named():
    one = replace(GOOD, r_hat=1.001, r_hat_in="w", started_apart=False)
    assert "all started around one point: other modes would not be seen" in str(one)
    assert set(kinds(one)) == {"use it"}
    unknown = replace(one, started_apart=None)
    assert "may all have started at one point: other modes would not be seen" in str(unknown)
    apart = replace(one, started_apart=True)
    assert "chains that started apart agree: R-hat 1.00 (in w)" in str(apart)


def test_chains_that_disagree_should_run_longer_or_not_be_used():
    apart = replace(GOOD, r_hat=2.56, r_hat_in="w", started_apart=True)
    assert kinds(apart) == ["do not use it"]
    assert "the chains DISAGREE: R-hat of means and variances is 2.56 (in w), above 1.05" in str(apart)
    assert kinds(replace(apart, r_hat=1.1)) == ["run longer"]


def test_errors_of_the_sd_have_their_kinds():
    assert kinds(replace(GOOD, sd_error={"w": np.array([0.07])})) == ["use means, not intervals"]
    assert kinds(replace(GOOD, sd_error={"w": np.array([0.4])})) == ["do not use it"]
    assert kinds(replace(GOOD, sd_error={"w": np.array([-0.9])})) == ["do not use it"]
    assert kinds(replace(GOOD, sd_error={"w": np.array([np.inf])})) == ["do not use it"]
    assert kinds(replace(GOOD, stiffest_error=np.inf)) == ["do not use it"]
    assert kinds(replace(GOOD, stiffest_error=2.6)) == ["use means, not intervals"]
    assert "hardly moved" in replace(GOOD, sd_error={"w": np.array([-0.9])}).findings()[0].text


# The virial identity beside the law.


def checked(ratio, error, foretold=0.01):
    """A report whose law foretells an error of the sd, with a virial that was measured."""
    report = BiasReport({"w": np.array([0.1])}, {"w": np.array([foretold])}, 0.1)
    return _checked(report, {"w": Virials(np.array([ratio]), np.array([error]))})


def test_a_virial_that_agrees_leaves_the_law_its_say():
    report = checked(1.1, 0.05)
    assert report.sd_error["w"] == 0.01
    assert not report.contradicted
    assert "virial identity, sampled over true sd: 1.05" in str(report)


@pytest.mark.parametrize(("ratio", "kind"), [(0.01, "do not use it"), (1.2, "use means, not intervals")])
def test_a_virial_that_contradicts_the_law_counts(ratio, kind):
    report = checked(ratio, 0.01)
    assert report.sd_error["w"] == pytest.approx(np.sqrt(ratio) - 1)
    assert report.contradicted == 1
    assert "CONTRADICTS" in str(report)
    assert kinds(report) == [kind]


def test_an_infinite_error_of_the_law_is_contradicted_by_any_virial():
    assert checked(1.5, 0.05, foretold=np.inf).sd_error["w"] == pytest.approx(np.sqrt(1.5) - 1)


def test_a_ratio_of_variances_that_is_large_by_chance_is_as_far_from_one_as_it_is():
    """In sds it is as many errors away as in variances; below one as the slope of the root says, the same at one."""
    found = Virials(np.array([20.0, 1.0 + 1e-9, 1.0, 0.25]), np.array([6.0, 0.2, 0.2, 0.1]))
    far = found.sd_error / found.sd_error_error
    np.testing.assert_allclose(far[[0, 3]], [19 / 6, -0.5 / 0.1])
    np.testing.assert_allclose(found.sd_error_error[1:3], 0.1)
    assert checked(20.0, 6.0).contradicted == 0 < checked(20.0, 4.0).contradicted


def test_few_chains_leave_more_to_chance():
    found = Virials(np.array([1.0, 1.0]), np.array([0.01, 0.01])).with_chance(np.array([[1.0, 2.0], [1.2, 2.4]]))
    relative = np.var([1.0, 1.2], ddof=1) / 1.1**2 / 2
    np.testing.assert_allclose(found.error, np.sqrt(1e-4 + relative))
    alone = Virials(np.array([1.0]), np.array([0.01]))
    assert alone.with_chance(np.array([[1.0]])) is alone


def combined(narrowest, widest, error=0.01):
    """A report whose worst combinations have these ratios of variances."""
    return replace(
        GOOD, narrowest=narrowest, narrowest_error=error, narrowest_in="0.80 w[0] - 0.60 w[1]",
        widest=widest, widest_error=error, widest_in="1.00 w[0]",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("narrowest", "widest", "expected"),
    [
        (0.99, 1.02, ["use it"]), (0.99, 1.2, ["use means, not intervals"]), (0.01, 1.02, ["do not use it"]),
        (0.01, 4.0, ["do not use it", "do not use it"]),
    ],
)  # fmt: skip
def test_combinations_have_their_kinds(narrowest, widest, expected):
    assert kinds(combined(narrowest, widest)) == expected


def test_combinations_are_named_and_chance_is_not():
    report = combined(0.49, 1.96)
    texts = [finding.text for finding in report.findings()]
    assert "a combination of parameters (0.80 w[0] - 0.60 w[1]) is sampled 30% too narrow" in texts
    assert "a combination of parameters (1.00 w[0]) is sampled 40% too wide" in texts
    assert "measured in the others: 0.70 and 1.40 (standard errors 0.01 and 0.00)" in str(report)
    uncertain = combined(0.49, 1.96, error=0.5)
    assert kinds(uncertain) == ["use it"]
    assert "0.70 and 1.40" in str(uncertain)
    assert "is sampled" not in str(uncertain)
    assert "worst" not in str(GOOD)  # nothing was measured


def test_the_narrower_of_both_combinations_is_the_narrowest():
    """They were chosen on other points than they are measured on, and change places by chance."""
    one, other = ("1.00 a", Combination(1.08**2, 0.02, np.ones(1))), ("1.00 b", Combination(0.91**2, 0.04, np.ones(1)))
    virials = {"w": Virials(np.ones(1), np.full(1, 0.1))}
    for worst in ((one, other), (other, one)):
        report = bias_report(sc.SGLD(0.1), None, {}, {}, {}, virials=virials, worst=worst)
        assert (report.narrowest_in, report.narrowest_error, report.widest_in) == ("1.00 b", 0.04, "1.00 a")
        assert "0.91 and 1.08 (standard errors 0.02 and 0.01)" in str(report)


def shifted(size, error=0.01, chance=0.01):
    """The mean of the second of two parameters is off."""
    tables = (np.array([0.0, size]), np.full(2, error), np.full(2, chance))
    return replace(GOOD, **{name: {"w": table} for name, table in zip(SHIFTS, tables, strict=True)})


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (shifted(0.05), ["use it"]), (shifted(-0.12), ["use it", "use it"]), (shifted(0.3), ["do not use it"]),
        (shifted(0.3, error=0.1), ["use it"]), (shifted(0.3, chance=0.15), ["run longer"]),
        (shifted(np.nan), ["use it"]), (shifted(0.3, error=np.inf), ["use it"]),
    ],
)  # fmt: skip
def test_means_that_are_off_have_their_kinds(report, expected):
    """Beyond doubt and beyond what is small; what may be Monte Carlo error asks for a longer run."""
    assert kinds(report) == expected


def test_means_that_are_off_are_said():
    assert "means are off by up to -0.30 sd (w, standard error 0.01)" in shifted(-0.3).findings()[0].text
    assert "means are off, by Stein's identity: up to -0.30 sd in w" in str(shifted(-0.3))
    assert "nowhere beyond doubt" in str(shifted(0.3, error=0.1))
    assert "Stein" not in str(GOOD)  # nothing was measured


@pytest.mark.parametrize("apart", [True, False, None])
def test_reports_are_kept(apart):
    report = shifted(0.3)
    back = BiasReport.from_arrays({name: np.asarray(a) for name, a in report.to_arrays().items()})
    assert (str(back), back.mean_off) == (str(report), report.mean_off)
    report = replace(combined(0.49, 1.96), r_hat=1.1)
    back = BiasReport.from_arrays({name: np.asarray(a) for name, a in report.to_arrays().items()})
    assert str(back) == str(report)
    assert back.combinations_off == report.combinations_off
    report = replace(checked(1.2, 0.01), r_hat=1.25, r_hat_in="w", started_apart=apart, note="of weights")
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
    assert (report.r_hat, report.r_hat_in) == (1.03, "b")
    for missing in (None, {}):
        report = bias_report(sampler, state, ones, ones, ones, r_hat=missing)
        assert report.r_hat is None
