"""Ranks of truths among draws: exact bands and p values, and what they say of intervals."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import factorial
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import bdtr, bdtrc, ndtr
from scipy.stats import false_discovery_control, kstest

from scirocco.diagnostics.calibration import (
    LIKELIHOOD,
    Calibration,
    adjusted,
    ecdf_band,
    rank_among,
    shape_p_value,
)


def calibration(scores, ratio=1.0, independent=200, size=10, **settings):
    """From normal scores (repeat, quantity); the last quantity is the log likelihood."""
    scores = np.asarray(scores)
    names = (*(f"theta[{k}]" for k in range(scores.shape[1] - 1)), LIKELIHOOD)
    trace = SimpleNamespace(description=None, tuning=None)
    among = np.full(scores.shape, independent)
    return Calibration(trace, names, ndtr(scores), among, ratio, len(scores), dimension=size, **settings)


def normal(repeats=100, quantities=6, seed=0):
    return np.random.default_rng(seed).normal(size=(repeats, quantities))


# Ranks.


@pytest.mark.parametrize("draw", [lambda rng, n: rng.normal(size=n), lambda rng, n: rng.poisson(1.0, size=n)])
def test_ranks_of_one_law_are_uniform_with_ties_too(draw):
    rng = np.random.default_rng(0)
    found = []
    for number in range(400):
        values = draw(rng, 13 + number % 7).astype(float)
        found.append(rank_among(values[0], values[1:][None], rng)[0])
    assert kstest(found, "uniform").pvalue > 0.01
    assert 0 < min(found) < max(found) < 1


def test_draws_are_thinned_to_as_many_as_they_are_worth():
    rng, rho, ranks, counts = np.random.default_rng(0), 0.95, [], []
    for _ in range(200):
        chains = rng.normal(size=(4, 100))
        for k in range(1, 100):
            chains[:, k] = rho * chains[:, k - 1] + np.sqrt(1 - rho**2) * chains[:, k]
        truth = rng.normal()
        rank, count = rank_among(truth, chains, rng)
        ranks.append(rank)
        counts.append(count)
    assert 4 * 100 * (1 - rho) / (1 + rho) / 2 < np.median(counts) < 40
    assert shape_p_value(np.array(ranks)) > 0.01


# Bands.


def test_the_chance_of_staying_inside_is_that_of_all_counts():
    size = 5
    tails = [
        [min(1, 2 * min(bdtr(c, size, k / size), bdtrc(c - 1, size, k / size) if c else 1)) for c in range(size + 1)]
        for k in range(1, size)
    ]
    law = {}
    for cells in product(range(size + 1), repeat=size):
        if sum(cells) == size:
            least = min(tails[k][c] for k, c in enumerate(np.cumsum(cells)[:-1]))
            chance = factorial(size) / np.prod([factorial(c) for c in cells]) / size**size
            law[round(least, 9)] = law.get(round(least, 9), 0) + chance
    for ranks in (np.full(5, 0.1), np.array([0.05, 0.1, 0.3, 0.5, 0.55]), (np.arange(5) + 0.5) / 5):
        counts = [np.sum(ranks <= k / size) for k in range(1, size)]
        least = min(tails[k][c] for k, c in enumerate(counts))
        expected = sum(chance for value, chance in law.items() if value <= least + 1e-9)
        assert shape_p_value(ranks) == pytest.approx(expected, rel=1e-6)


def test_a_function_is_outside_its_band_where_the_p_value_is_small():
    rng, size = np.random.default_rng(0), 40
    band = ecdf_band(size)
    outside, p = [], []
    for power in np.repeat([1.0, 1.4], 300):
        ranks = rng.random(size) ** power
        ecdf = np.searchsorted(np.sort(ranks), band.points, side="right") / size
        outside.append(np.any((ecdf < band.low - 1e-9) | (ecdf > band.high + 1e-9)))
        p.append(shape_p_value(ranks))
    assert np.array_equal(outside, np.array(p) <= 0.05)
    assert np.sum(outside[:300]) < 15 + 4 * np.sqrt(15)
    assert np.sum(outside[300:]) > 60


def test_holm():
    p = np.array([0.01, 0.04, 0.03, 0.9])
    np.testing.assert_allclose(adjusted(p), [0.04, 0.09, 0.09, 0.9])
    assert np.all(adjusted(p) >= false_discovery_control(p))


# Verdicts.


def test_the_right_posterior_is_called_wrong_once_in_twenty_times():
    wrong = sum(not calibration(normal(50, 4, seed)).verdict().good for seed in range(100))
    assert wrong < 5 + 4 * np.sqrt(5)


@pytest.mark.parametrize("ratio", [1.0, 3.0])
@pytest.mark.parametrize("width", [0.6, 1.2, 1.6])
def test_the_error_of_sds_is_told(width, ratio):
    spread = np.sqrt((width**2 + ratio) / ((1 + ratio) * width**2))
    found = calibration(normal(1000, 2) * [spread, 1.0], ratio)
    squares = np.array(found.table["spread"]) ** 2
    assert found._width(squares[0]) == pytest.approx(width, rel=0.12)
    verdict = found.verdict()
    assert verdict.kind == ("do not use it" if width > 1.5 else "use means, not intervals")
    assert f"intervals too {'narrow' if width < 1 else 'wide'}: sds of theta[0] off by" in verdict.reasons[0]
    other = calibration(normal(1000, 2) * [1 / width, 1.0], own=False)
    assert other._width(other.table["spread"].iloc[0] ** 2) == pytest.approx(width, rel=0.12)


@pytest.mark.parametrize(
    ("spread", "words"),
    [(0.6, "off by more than can be measured"), (0.68, "% or more, p"), (0.74, "% or more, p"), (0.85, "% to +")],
)
def test_what_cannot_be_measured_is_not_told(spread, words):
    """A spread of sqrt(1/2) is that of the widest law, if the truths are as wide."""
    scores = normal(200, 2)
    scores[:, 0] *= spread / scores[:, 0].std(ddof=1)
    assert words in calibration(scores).verdict().reasons[0]


def test_a_bias_is_told():
    verdict = calibration(normal() + np.array([0, 0, 0.9, 0, 0, 0])).verdict()
    assert verdict.kind == "do not use it"
    size = -0.9 / (1 - np.sqrt(0.5))
    assert abs(float(verdict.reasons[0].split("about ")[1].split()[0]) - size) < 4 * 0.1 / 0.29
    assert "means of theta[2]" in verdict.reasons[0]


def test_another_shape_is_told():
    scores = normal()
    scores[:, 1] = np.sign(scores[:, 1]) * np.random.default_rng(1).uniform(0.9, 1.1, 100)  # no shift, no spread
    verdict = calibration(scores).verdict()
    assert verdict.kind == "use means, not intervals"
    assert "the law of theta[1] is not the posterior" in verdict.reasons[0]


@pytest.mark.parametrize("width", [0.7, 1.5])
def test_the_log_likelihood_tells_the_error_of_all(width):
    rng, size = np.random.default_rng(0), 10
    draws = rng.chisquare(size, size=(200, 400))
    truth = rng.chisquare(size, size=200) * (width**2 + 1) / (2 * width**2)
    likelihood = (1 + np.sum(draws > truth[:, None], axis=1)) / 402
    found = calibration(normal(200, 1), size=size)
    found = replace(found, ranks=likelihood[:, None])
    verdict = found.verdict()
    assert verdict.kind == ("use means, not intervals" if width < 1 else "do not use it")
    told = float(verdict.reasons[0].split("off by ")[1].split("%")[0]) / 100
    assert told == pytest.approx(width - 1, abs=0.25 if width > 1 else 0.08)
    assert "the sampler is exact" in str(replace(found, exact=True).verdict())


def test_what_would_have_been_seen_is_seen_four_times_out_of_five():
    """By the log likelihood, for an error in all parameters."""
    repeats, size = 100, 10
    words = calibration(normal(repeats, 2), size=size).sensitivity
    small = 1 - float(words.split(", ")[1].split("%")[0]) / 100
    assert 0.8 < small < 0.95
    rng, seen = np.random.default_rng(0), []
    for _ in range(100):
        draws = rng.chisquare(size, size=(repeats, 200))
        truth = rng.chisquare(size, size=repeats) * (small**2 + 1) / (2 * small**2)
        ranks = (np.sum(draws > truth[:, None], axis=1) + rng.random(repeats)) / 201
        found = calibration(normal(repeats, 2, int(rng.integers(2**31))), size=size)
        both = np.stack([found.ranks[:, 0], ranks], axis=1)
        seen.append(replace(found, ranks=both).table["p_adjusted"].iloc[1])
    assert np.mean(np.array(seen) < 0.05) == pytest.approx(0.8, abs=4 * 0.04)


def test_few_repeats_few_draws_and_failures():
    few = calibration(normal(5)).verdict()
    assert few.kind == "run longer"
    assert few.action == "sc.check_calibration(target, trace, simulate, repeats=20)"
    sticky = calibration(normal(50), independent=5).verdict()
    assert sticky.kind == "run longer"
    assert "worth 5 independent ones" in sticky.reasons[0]
    assert "thin=6)" in sticky.action
    assert "thin=42)" in calibration(normal(50), independent=5, thin=8).verdict().action  # 8 * 1.3 * 20 / 5
    failed = calibration(normal(50), failures=("a chain is no longer finite",)).verdict()
    assert failed.kind == "do not use it"
    assert "1 of 51 repeats failed" in failed.reasons[0]


@pytest.mark.parametrize("own", [True, False])
def test_a_single_repeat_says_nothing(own):
    band = ecdf_band(1)
    assert (band.low.tolist(), band.high.tolist(), shape_p_value(np.array([0.01]))) == ([0.0], [1.0], 1.0)
    found = calibration(normal(1), own=own)
    assert "1 repeat is too few to say anything" in str(found)
    found.plot()


def test_summary_and_data_set():
    found = calibration(normal(60, 15) * ([1.0] * 14 + [2.0]), note="(some coordinates)")
    text = str(found)
    assert text.startswith("verdict: use means, not intervals")
    assert text.count("in four of five such checks") == 1
    assert "(some coordinates)" in text
    assert str(calibration(normal())).count("in four of five such checks") == 1
    assert found.to_dataset()["rank"].sel(quantity="theta[1]").shape == (60,)
