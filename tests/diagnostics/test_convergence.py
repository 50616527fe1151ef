"""ESS and R-hat of what is given: arrays of all kinds, data sets, traces; and words for what they cannot take."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import scirocco as sc
from scirocco.diagnostics import ess, rhat

DRAWS = np.random.default_rng(0).normal(size=(2, 100, 3))


@pytest.mark.parametrize("statistic", [ess, rhat])
def test_lists_data_sets_and_traces_are_as_good_as_arrays(statistic):
    wanted = statistic(DRAWS)
    np.testing.assert_array_equal(statistic(DRAWS.tolist()), wanted)
    found = statistic(xr.Dataset({"x": (("chain", "draw", "k"), DRAWS)}))
    np.testing.assert_array_equal(found["x"], wanted)
    assert found["x"].dims == ("k",)
    turned = xr.Dataset({"x": (("k", "draw", "chain"), DRAWS.T)})
    np.testing.assert_array_equal(statistic(turned)["x"], wanted)
    target = sc.Target(lambda m: -(m**2) / 2, lambda m, x: -((x - m) ** 2) / 2, np.ones(5, np.float32))
    trace = sc.sample(target, sc.SGLD(0.05), np.float32(0), num_samples=50, chains=2, batch_size=5, report=False)
    assert statistic(trace)["theta"] == statistic(trace.posterior)["theta"]


@pytest.mark.parametrize("statistic", [ess, rhat])
def test_what_is_no_draws_is_said(statistic):
    with pytest.raises(ValueError, match=r"draws must have the shape \(chain, draw, ...\); got \(100,\): one chain"):
        statistic(DRAWS[0, :, 0])
    with pytest.raises(TypeError, match="draws must be a number or an array of numbers, not text"):
        statistic(["a", "b"])
    with pytest.raises(TypeError, match="draws must be a number or an array of numbers; got dict"):
        statistic({"x": DRAWS})
    with pytest.raises(ValueError, match=r"x must have the dimensions chain and draw; got \('a', 'b', 'c'\)"):
        statistic(xr.Dataset({"x": (("a", "b", "c"), DRAWS)}))
    with pytest.raises(ValueError, match="draws has masked entries"):
        statistic(np.ma.masked_array(DRAWS, DRAWS > 2))


@pytest.mark.parametrize("statistic", [ess, rhat])
def test_draws_that_are_nan_are_not_passed_over(statistic):
    spoilt = DRAWS.copy()
    spoilt[1, 7, 2] = np.nan
    with pytest.warns(UserWarning, match="draws has draws that are NaN in 1 of 3 coordinates"):
        found = statistic(spoilt)
    np.testing.assert_array_equal(found[:2], statistic(DRAWS)[:2])
    assert np.isnan(found[2])
