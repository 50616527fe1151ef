"""A budget of seconds is for the whole call: tuning has a share, and where it is cut short the verdict says so."""

from __future__ import annotations

import itertools
from inspect import signature
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.core import clock
from scirocco.core.interrupt import poll
from scirocco.run.trace_verdict import cut_short
from scirocco.tuning import automatic, rounds, warm_up

ROWS = np.random.default_rng(0).normal(size=400).astype(np.float32)
FUNNEL = sc.Target(
    lambda p: -0.5 * p["v"] ** 2 - 0.5 * jnp.sum(p["x"] ** 2) * jnp.exp(-p["v"]) - 2 * p["v"],
    lambda p, row: 0.0 * row * p["v"],
    ROWS,
)  # v ~ N(0, 1), x ~ N(0, e^v) in four dimensions
START = {"v": jnp.zeros(()), "x": jnp.ones(4)}
SETTINGS = {"num_samples": 200, "burn_in": 50, "thin": 1, "chains": 2, "report": False}


@pytest.fixture(autouse=True)
def _few_rounds(monkeypatch):
    monkeypatch.setattr(warm_up, "MOST_ROUNDS", 3)


@pytest.fixture
def budget(monkeypatch, ticking):
    """``budget(step)``: a clock that stands still until a step of tuning, and goes on by a second a look from there."""

    def start(module, name, number=0):
        function, calls = getattr(module, name), itertools.count()
        monkeypatch.setattr(clock, "compile_seconds", lambda: 0.0)
        monkeypatch.setattr("time.perf_counter", lambda: 0.0)

        def called(*given, **named):
            if next(calls) == number:
                ticking(1.0)
            return function(*given, **named)

        monkeypatch.setattr(module, name, called)

    return start


def sample(**settings):
    return sc.sample(FUNNEL, sc.UnderdampedLangevin("auto"), START, **(SETTINGS | settings))


@pytest.mark.parametrize(
    ("module", "name", "number", "where"),
    [
        (automatic, "other_modes", 0, "the search for other modes"),
        (rounds, "run_round", 2, "the warm-up, after 2 rounds"),
        (automatic, "try_steps", 0, "the trial of the step"),
    ],
)
def test_tuning_ends_with_what_it_has_and_the_verdict_says_so(budget, module, name, number, where):
    budget(module, name, number)
    if name == "other_modes":  # from there on there is nothing to sample with, far from a Gaussian
        target = sc.Target(lambda m: -(m**2) / 2, lambda m, x: -((x - m) ** 2) / 2, ROWS)
        trace = sc.sample(target, sc.UnderdampedLangevin("auto"), jnp.array(0.0), max_seconds=40.0, **SETTINGS)
    else:
        trace = sample(max_seconds=40.0)
    assert trace.tuning.unfinished == where
    assert f"cut short, for want of time, in {where}" in str(trace.tuning)
    assert trace.tuning.seconds <= 20 + 4  # half of it, and a few looks by what is left to do
    assert trace.count > 0
    verdict = trace.verdict()
    assert verdict.kind in ("run longer", "do not use it")
    assert f"tuning was cut short, for want of time, in {where}" in verdict.reasons
    library = SimpleNamespace(sample=signature(sc.sample).bind, UnderdampedLangevin=sc.UnderdampedLangevin)
    asked = eval(verdict.action, {"sc": library, "target": 1, "initial": 2}).arguments
    assert asked["max_seconds"] == 160
    assert not {"thin", "batch_size"} & set(asked)  # which tuning is to find


def test_chains_that_an_untried_step_has_lost_are_told_of_the_time(budget, monkeypatch):
    """The step is no longer than that of the last round; a longer one loses them."""
    budget(rounds, "run_round", 2)
    assert (trace := sample(max_seconds=40.0)).tuning.step_size <= trace.tuning.rounds[-1].step_size
    budget(rounds, "run_round", 2)
    monkeypatch.setattr(automatic, "_borne", lambda *_: 20.0)
    with pytest.raises(sc.DivergenceError) as error:
        sample(max_seconds=40.0)
    assert "tuning was cut short" in error.value.__notes__[-1]
    assert "max_seconds=160" in error.value.__notes__[-1]


def test_without_anything_to_sample_with_there_is_a_line_and_the_run_goes_on_later(budget, tmp_path):
    budget(automatic, "measure")
    with pytest.raises(TimeoutError, match=r"the 1\.5 s for tuning were over before there was anything to sample with"):
        sample(max_seconds=3.0, path=tmp_path / "run")
    trace = sc.resume(tmp_path / "run", FUNNEL, max_seconds=1e6)
    assert trace.tuning.unfinished == ""
    assert trace.count == SETTINGS["num_samples"]


@pytest.mark.parametrize("number", [0, 1])
def test_shards_share_the_time(budget, number):
    budget(automatic, "other_modes", number)
    target = sc.Target(lambda m: -(m**2) / 2, lambda m, x: -((x - m) ** 2) / 2, ROWS)
    settings = {"num_samples": 200, "burn_in": 50, "shards": 2, "max_seconds": 40.0}
    if number == 0:  # of 20 s each shard has 10, and the search for the second mode takes more looks than that
        with pytest.raises(TimeoutError, match="for tuning were over"):
            sc.sample_shards(target, sc.UnderdampedLangevin("auto"), jnp.array(0.0), **settings)
        return
    found = sc.sample_shards(target, sc.UnderdampedLangevin("auto"), jnp.array(0.0), **settings)
    assert found.trace.seconds > 20  # tuning is part of what was used
    assert cut_short(found.trace)[0].text == "tuning was cut short, for want of time, in the search for other modes"


def test_a_limit_is_told_once_and_only_inside():
    poll()
    with clock.limited(1e-9):
        with pytest.raises(clock.OutOfTimeError):
            poll()
        poll()  # what is left to do is little
        assert clock.time_is_over()
    poll()
    assert not clock.time_is_over()
