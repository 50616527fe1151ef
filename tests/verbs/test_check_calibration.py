"""Posterior SBC: right samplers pass, wrong ones and simulations that do not fit are seen."""

from __future__ import annotations

import copy
import signal
from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.run.describe import describe
from scirocco.run.description import CodeSettings, Stop
from scirocco.verbs import check_calibration as module

N, D = 30, 20
X = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
GMC = sc.GMC(0.07, leapfrog_steps=4)  # a quarter of a period of a posterior with sds of 0.18
CODES = CodeSettings(0, 2, 100, 0, 1, 1, 10, lazy=None, batching="Shuffled")
SETTINGS = {"num_samples": 100, "burn_in": 20, "chains": 2, "report": False}


def log_prior(m):
    return -0.5 * jnp.sum(m**2) / 100


def log_likelihood(m, x):
    return -0.5 * jnp.sum((x - m) ** 2)


def simulate(m, key):
    return m + jax.random.normal(key, (N, D))


TARGET = sc.Target(log_prior, log_likelihood, X)


def run(sampler, **settings):
    return sc.sample(TARGET, sampler, jnp.zeros(D), **{**SETTINGS, **settings})


@pytest.fixture(scope="module")
def trace():
    return run(GMC)


# What it says.


def test_the_right_sampler_passes_whatever_the_workers(trace, sending):
    def quantities(m):
        return {"norm": jnp.sqrt(jnp.sum(m**2)), "largest": jnp.max(m)}

    found = sc.check_calibration(TARGET, trace, simulate, repeats=20, quantities=quantities)
    assert found.names == (*(f"theta[{k}]" for k in range(D)), "largest", "norm", "log likelihood")
    assert found.verdict().good, str(found)
    assert found.exact
    assert found.own
    assert np.median(found.independent) > 40
    again = sc.check_calibration(TARGET, trace, simulate, repeats=20, quantities=quantities, workers=2)
    np.testing.assert_array_equal(again.ranks, found.ranks)
    there = sc.check_calibration(TARGET, trace, simulate, repeats=3, quantities=quantities, executor=sending)
    first = sc.check_calibration(TARGET, trace, simulate, repeats=3, quantities=quantities)
    np.testing.assert_array_equal(there.ranks, first.ranks)
    other = sc.check_calibration(TARGET, trace, simulate, repeats=2, seed=1)
    assert np.all(other.ranks[:, 0] != found.ranks[:2, 0])


def test_only_the_first_repeat_compiles(trace, monkeypatch, compiled):
    programs, call = [], module.Repeat.__call__

    def noted(self, number):
        programs.append(len(compiled))
        return call(self, number)

    monkeypatch.setattr(module.Repeat, "__call__", noted)
    sc.check_calibration(TARGET, trace, lambda m, key: simulate(m, key)[:7], repeats=4)
    assert programs[0] < programs[1] == programs[3] == len(compiled)


def test_a_sampler_that_is_too_wide_is_seen():
    """SGLD on small minibatches: the sd is sqrt(1 + h V / 2) times the right one, V = N^2 / n (1 - n / N) = 270."""
    h, n = 0.01, 3
    wide = run(sc.SGLD(h), batch_size=n, batching=sc.batches.WithReplacement(), thin=5, num_samples=300)
    width = np.sqrt((1 + h * N**2 / n / 2) / (1 - h * N / 2))
    assert np.sqrt(np.mean(wide.variance["theta"]) * N) == pytest.approx(width, rel=0.1)
    verdict = sc.check_calibration(TARGET, wide, simulate, repeats=25).verdict()
    assert verdict.kind == "do not use it"
    line = next(line for line in verdict.reasons if "intervals too wide: sds of all parameters" in line)
    low, high = (float(part.strip(" +%")) / 100 for part in line.split("(")[2].split(")")[0].split("to"))
    assert low < width - 1 < high
    assert 'sc.UnderdampedLangevin(step_size="auto")' in verdict.action


def test_a_sampler_that_is_too_narrow_is_seen():
    """Of data whose errors are larger than the likelihood says: its posterior is that at temperature 1/2."""
    cold = sc.Target(log_prior, lambda m, x: 2 * log_likelihood(m, x), X)
    trace = sc.sample(cold, sc.GMC(0.05, leapfrog_steps=4), jnp.zeros(D), **SETTINGS)
    verdict = sc.check_calibration(cold, trace, simulate, repeats=25).verdict()
    assert "intervals too narrow: sds of all parameters" in str(verdict)


def test_a_simulation_that_does_not_fit_is_seen(trace):
    def louder(m, key):
        return m + 1.5 * jax.random.normal(key, (N, D))

    verdict = sc.check_calibration(TARGET, trace, louder, repeats=25).verdict()
    assert verdict.kind == "do not use it"
    assert "the sampler is exact: simulate does not follow log_likelihood" in str(verdict)
    assert verdict.action == ""


@pytest.fixture
def begun(monkeypatch):
    """What a repeat samples: the arguments, without a run."""
    seen = {}

    def noted(target, **given):
        seen.update(given, size=target.size)
        raise RuntimeError("begun")

    monkeypatch.setattr(module, "sample", noted)

    def check(target, trace, simulate, **settings):
        with pytest.raises(RuntimeError, match="begun"):
            sc.check_calibration(target, trace, simulate, repeats=2, **settings)
        return seen

    return check


def with_parts(trace, settings=None, **parts):
    """A trace whose run is said to have had other parts."""
    known, other = trace.description, copy.copy(trace)
    described = replace(known.parts, **{name: describe(part) for name, part in parts.items()})
    other.description = replace(known, parts=described, settings=replace(known.settings, **settings or {}))
    return other


def test_step_size_and_minibatches_follow_the_data(trace, begun):
    plain = with_parts(trace, {"batch_size": 10}, sampler=sc.SGLD(1e-3), estimator=sc.ControlVariate())
    seen = begun(TARGET, plain, simulate)
    assert seen["size"] == 2 * N
    assert seen["batch_size"] == pytest.approx(1 / 3)
    assert isinstance(seen["estimator"], sc.ControlVariate)
    np.testing.assert_allclose(seen["sampler"].scale.diagonal, np.sqrt(0.5), rtol=1e-6)
    assert (seen["burn_in"], seen["chains"]) == (20, 2)
    assert 50 <= seen["num_samples"] <= 100
    seen = begun(TARGET, with_parts(trace, sampler=sc.NUTS()), simulate, data_sets=3, num_samples=7, chains=3)
    assert isinstance(seen["sampler"], sc.NUTS)
    assert (seen["size"], seen["num_samples"], seen["chains"]) == (4 * N, 7, 3)


def test_another_sampler_is_used_as_it_is(trace, begun):
    sampler = sc.SGLD(1e-3)
    seen = begun(TARGET, trace, simulate, sampler=sampler)
    assert seen["sampler"] is sampler
    assert seen["batch_size"] is None


def test_parameters_of_blocks_are_not_the_sampler_s(begun):
    target = sc.Target(lambda p: 0.0, lambda p, x: -p["tau"] * jnp.sum((x - p["m"]) ** 2) / 2, X[:, :2])
    blocks = [sc.Block("tau", lambda key, params, batch: {"tau": params["tau"]})]
    start = {"m": jnp.zeros(2), "tau": jnp.array(1.0)}
    trace = sc.sample(target, sc.SGLD(1e-3), start, batch_size=10, blocks=blocks, **SETTINGS)
    seen = begun(target, trace, lambda p, key: X[:, :2], blocks=blocks)
    assert seen["sampler"].scale.diagonal.shape == (2,)
    assert seen["blocks"] == tuple(blocks)


def test_on_a_manifold(begun):
    target = sc.Target(lambda m: 0.0, lambda p, row: row @ p["m"], X[:, :3], manifold={"m": sc.manifolds.Sphere()})
    trace = sc.sample(target, sc.GMC(0.1), {"m": jnp.array([1.0, 0.0, 0.0])}, **SETTINGS)
    assert begun(target, trace, lambda p, key: X[:, :3])["sampler"].scale["m"] == pytest.approx(np.sqrt(0.5))


def test_the_dimension_is_that_of_what_is_sampled(monkeypatch):
    """A sphere in space, and a parameter that a block holds."""
    monkeypatch.setattr(module.Repeat, "__call__", lambda self, number: (np.full(5, 0.5), np.full(5, 100)))
    target = sc.Target(
        lambda p: 0.0, lambda p, row: p["tau"] * row @ p["m"], X[:, :3], manifold={"m": sc.manifolds.Sphere()}
    )
    blocks = [sc.Block("tau", lambda key, params, batch: {"tau": params["tau"]})]
    start = {"m": jnp.array([1.0, 0.0, 0.0]), "tau": jnp.array(1.0)}
    trace = sc.sample(target, sc.SGGMC(0.01), start, batch_size=10, blocks=blocks, **SETTINGS)
    found = sc.check_calibration(target, trace, lambda p, key: X[:, :3], repeats=2, blocks=blocks, thin=7)
    assert (found.dimension, found.thin) == (2, 7)


def test_the_zig_zag_process_is_exact_too(trace, monkeypatch):
    monkeypatch.setattr(module.Repeat, "__call__", lambda self, number: (np.full(D + 1, 0.5), np.full(D + 1, 100)))
    zigzag = sc.ZigZag(0.1, lipschitz=2.0 * N)
    assert sc.check_calibration(TARGET, trace, simulate, repeats=2, sampler=zigzag, batch_size=1).exact
    assert not sc.check_calibration(TARGET, trace, simulate, repeats=2, sampler=sc.SGLD(1e-3)).exact


def test_a_step_size_left_open_is_found_in_each_repeat(trace, begun, monkeypatch):
    asked = {}

    def found(target, **given):
        asked.update(given, size=target.size)
        kernel = SimpleNamespace(batching=sc.batches.Shuffled())
        return SimpleNamespace(sampler=GMC, estimator=None, batch_size=5, initial="the mode", kernel=kernel)

    monkeypatch.setattr(module, "tune", found)
    seen = begun(TARGET, with_parts(trace, sampler=sc.UnderdampedLangevin("auto")), simulate)
    assert (asked["size"], asked["batch_size"], asked["look_elsewhere"]) == (2 * N, 1.0, False)
    assert (seen["sampler"], seen["initial"], seen["batch_size"]) == (GMC, "the mode", 5)


@pytest.mark.slow
def test_with_a_step_size_left_open_and_a_dict_of_parameters():
    x = np.random.default_rng(0).normal(size=400).astype(np.float32)

    def with_numpy(params, key):
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        return {"x": params["mean"] + rng.normal(size=400)}

    target = sc.Target(lambda p: -(p["mean"] ** 2) / 2, lambda p, row: -((row["x"] - p["mean"]) ** 2) / 2, {"x": x})
    trace = sc.sample(target, sc.UnderdampedLangevin("auto"), {"mean": jnp.array(0.0)}, batch_size=100, **SETTINGS)
    found = sc.check_calibration(target, trace, with_numpy, repeats=25)
    assert found.names == ("mean", "log likelihood")
    assert found.verdict().good


@pytest.mark.slow
def test_runs_on_a_manifold():
    """Directions of von Mises law."""

    def directions(m, key):
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        angle = rng.vonmises(np.arctan2(m[1], m[0]), 2.0, size=40)
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)

    x = directions(np.array([0.6, 0.8]), jax.random.key(0)).astype(np.float32)
    target = sc.Target(lambda m: 0.0, lambda m, row: 2 * row @ m, x, manifold=sc.manifolds.Sphere())
    trace = sc.sample(target, sc.GMC(0.05, leapfrog_steps=8), jnp.array([1.0, 0.0]), **SETTINGS)
    assert sc.check_calibration(target, trace, directions, repeats=25).verdict().good


# How it ends.


def test_ctrl_c_keeps_what_is_done(trace):
    calls = []

    def interrupting(m, key):
        calls.append(1)
        if len(calls) == 4:  # once to be looked at, then in each repeat
            signal.raise_signal(signal.SIGINT)
        return simulate(m, key)

    found = sc.check_calibration(TARGET, trace, interrupting, repeats=50)
    assert 1 <= found.repeats < 50
    assert found.stopped == Stop("interrupted", f"interrupted after {found.repeats} of 50 repeats")
    assert "interrupted after" in str(found.verdict())


def test_a_budget_of_time(trace, ticking):
    ticking(0.01)
    found = sc.check_calibration(TARGET, trace, simulate, repeats=50, max_seconds=1.0)
    assert 1 <= found.repeats < 50
    assert found.stopped.kind == "budget"
    ticking(1.0)
    used_up = sc.check_calibration(TARGET, trace, simulate, repeats=5, max_seconds=1e-9)
    assert (used_up.repeats, used_up.stopped.kind) == (1, "budget")
    assert "1 repeat is too few" in str(used_up)


def test_divergence_is_told(trace, monkeypatch):
    call, diverging = module.Repeat.__call__, {1}

    def some_diverge(self, number):
        if number in diverging:
            raise sc.DivergenceError(Stop("diverged", "a chain is no longer finite"), trace)
        return call(self, number)

    monkeypatch.setattr(module.Repeat, "__call__", some_diverge)
    found = sc.check_calibration(TARGET, trace, simulate, repeats=3)
    assert found.repeats == 2
    assert "1 of 3 repeats failed: a chain is no longer finite" in str(found.verdict())
    diverging |= {0, 2}
    with pytest.raises(sc.DivergenceError):
        sc.check_calibration(TARGET, trace, simulate, repeats=3)


# What is refused, before anything is sampled.


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda m, key: (simulate(m, key),), "structure of the target's"),
        (lambda m, key: simulate(m, key)[:, :3], r"rows of data must have the shape \(20,\); got \(3,\)"),
        (lambda m, key: simulate(m, key)[:0], "simulate: data must hold at least one example"),
        (lambda m, key: simulate(m, key) * jnp.nan, "simulate: data has 600 entries that are NaN"),
        (lambda m, key: 1e30 * simulate(m, key), "log_likelihood is -inf where data were simulated from"),
    ],
)
def test_what_simulate_returns_is_looked_at(trace, monkeypatch, wrong, message):
    monkeypatch.setattr(module, "sample", None)
    with pytest.raises(ValueError, match=message):
        sc.check_calibration(TARGET, trace, wrong, repeats=2)


def test_whole_numbers_stay_whole():
    target = sc.Target(log_prior, log_likelihood, np.ones((N, D), np.int32))
    trace = sc.sample(target, sc.SGLD(1e-3), jnp.zeros(D), num_samples=2, burn_in=0, report=False)
    with pytest.raises(TypeError, match="simulate: data must be int32, as in the data; got float32"):
        sc.check_calibration(target, trace, simulate, repeats=2)


def test_as_many_rows_each_time(trace):
    rows = iter([N, N, 6])
    with pytest.raises(ValueError, match="as many rows each time: 30 at first, then 6"):
        sc.check_calibration(TARGET, trace, lambda m, key: simulate(m, key)[: next(rows)], repeats=3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"repeats": 0}, "repeats must be a whole number of at least 1"),
        ({"repeats": 1000}, "repeats must not be more than the draws of the trace, 200"),
        ({"data_sets": 0}, "data_sets must be"),
        ({"seed": -1}, "seed must be"),
        ({"thin": 0}, "thin must be"),
        ({"max_seconds": 0}, "max_seconds must be positive"),
        ({"workers": 0}, "workers must be"),
        ({"blocks": [sc.Block("tau", lambda key, params, batch: {})]}, "the run had blocks for"),
        ({"quantities": lambda m: m}, "quantities must return a dict of named scalars"),
        ({"quantities": lambda m: {"a": m}}, "quantities must return a dict of named scalars"),
        ({"quantities": lambda m: {"theta[0]": m[0]}}, "quantities must have names of their own"),
    ],
)
def test_wrong_arguments(trace, given, message):
    with pytest.raises(ValueError, match=message):
        sc.check_calibration(TARGET, trace, simulate, **{"repeats": 2, **given})


def test_wrong_targets_and_traces(trace, tmp_path):
    for simulation, settings in ((None, {}), (simulate, {"quantities": 1})):
        with pytest.raises(TypeError, match="must be a function"):
            sc.check_calibration(TARGET, trace, simulation, **settings)
    with pytest.raises(TypeError, match=r"trace must be a scirocco\.Trace.*Models are not checked"):
        sc.check_calibration(TARGET, sc.LogisticRegression(), simulate)
    known = trace.description
    for other in (None, replace(known, resumer="scirocco.models.base.Model"), replace(known, settings=CODES)):
        foreign = copy.copy(trace)
        foreign.description = other
        with pytest.raises(ValueError, match="must be that of a run of sample"):
            sc.check_calibration(TARGET, foreign, simulate)
    np.save(tmp_path / "x.npy", X)
    mapped = sc.Target(log_prior, log_likelihood, np.load(tmp_path / "x.npy", mmap_mode="r"))
    with pytest.raises(ValueError, match="target must have its data in memory"):
        sc.check_calibration(mapped, trace, simulate)
    with pytest.raises(ValueError, match="trace must have all parameters"):
        sc.check_calibration(TARGET, with_parts(trace, collect="function"), simulate)
    with pytest.raises(ValueError, match="trace must have the parameters"):
        sc.check_calibration(TARGET, with_parts(trace, parameters={"a": np.zeros(2)}), simulate)
    with pytest.raises(ValueError, match="must be arrays in dicts, lists and tuples"):
        sc.check_calibration(TARGET, with_parts(trace, parameters={"a": {1, 2}}), simulate)
    with pytest.raises(ValueError, match="a step size for each parameter: give sampler="):
        sc.check_calibration(TARGET, with_parts(trace, sampler=sc.SGLD(np.full(D, 1e-3))), simulate)
    labels = np.repeat([0, 1], N // 2)
    for parts, words in (
        ({"sampler": sc.ZigZag(0.1, lipschitz=float(N))}, "bounds of ZigZag for its own data: give sampler="),
        ({"sampler": sc.SGHMC(1e-3, friction={"a": 1.0})}, "settings of SGHMC for each parameter: give sampler="),
        ({"sampler": sc.SGGMC(1e-3, noise_estimate=sc.GradientNoise({"a": 1.0}))}, "settings of SGGMC for each"),
        ({"batching": sc.batches.Weighted(np.ones(N))}, "by Weighted, which knows its 30 rows.*give batching=, for 60"),
        ({"batching": sc.batches.Strata(labels)}, "by Strata, which knows its 30 rows.*give batching=, for 60 rows"),
        ({"sampler": sc.GMC(0.1, temperature=0.5)}, r"GMC has temperature=0\.5: calibration is that of the posterior"),
    ):
        with pytest.raises(ValueError, match=words):
            sc.check_calibration(TARGET, with_parts(trace, **parts), simulate)
    with pytest.raises(ValueError, match="calibration is that of the posterior itself"):
        sc.check_calibration(TARGET, trace, simulate, sampler=sc.SGLD(1e-3, temperature=2.0))
    elsewhere = copy.copy(trace)
    elsewhere.description = replace(known, data=sc.batches.Arrays(X + 1).fingerprint())
    with pytest.raises(ValueError, match="other data than the run"):
        sc.check_calibration(TARGET, elsewhere, simulate)
