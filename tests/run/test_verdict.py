"""The verdict: 'use it' where it must not be said, and where it may."""

from __future__ import annotations

import ast
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.run.calls import part_code
from scirocco.run.convergence import relative_errors
from scirocco.run.describe import describe
from scirocco.run.trace_verdict import _exchanged, action_of
from scirocco.run.verdict import Advice, Finding, judge

NOTHING = np.ones(8, np.float32)  # data that says nothing: the prior is the posterior


def run(log_prior, initial, sampler, **options):
    target = sc.Target(log_prior, lambda p, x: 0.0 * x, NOTHING)
    settings = {"num_samples": 4000, "burn_in": 500, "thin": 5, "batch_size": 1.0, "progress": False} | options
    return sc.sample(target, sampler, initial, **settings)


def modes(x):
    return jnp.logaddexp(-0.5 * (x - 4) ** 2, -0.5 * (x + 4) ** 2)


def funnel(p):
    return -(p["v"] ** 2) / 18 - 0.5 * jnp.sum(p["x"] ** 2) * jnp.exp(-p["v"]) - 2 * p["v"]


def test_two_modes_from_one_start_look_like_one():
    trace = run(modes, jnp.array(4.0), sc.SGLD(0.02), num_samples=1500)
    assert trace.posterior["theta"].values.min() > 0  # no chain has seen the other mode
    assert trace.bias.accurate
    assert trace.bias.r_hat < 1.05
    assert trace.bias.started_apart is False
    assert "other modes would not be seen" in str(trace.bias)
    assert "would not see a mode elsewhere" in str(trace.verdict())


def test_two_modes_from_starts_apart_disagree():
    trace = run(modes, lambda key: 6 * jax.random.normal(key), sc.SGLD(0.02), chains=6)
    assert np.unique(np.sign(trace.posterior["theta"].values[:, -1])).size == 2
    assert trace.bias.r_hat > 1.5
    assert trace.verdict().kind == "do not use it"
    assert "the chains DISAGREE" in str(trace.bias)


@pytest.mark.parametrize("start", [jnp.array(0.0), lambda key: 10 * jax.random.normal(key)], ids=["one", "apart"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_cauchy_posterior_is_not_to_be_used(start, seed):
    trace = run(lambda x: -jnp.log1p(x**2), start, sc.SGLD(0.05), seed=seed)
    assert not trace.verdict().good


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_funnel_is_not_to_be_used(seed):
    def start(key):
        return {"v": 3 * jax.random.normal(key), "x": jnp.zeros(4)}

    trace = run(funnel, start, sc.SGLD(0.01), seed=seed)
    assert not trace.verdict().good


def test_a_normal_posterior_from_starts_apart_is_to_be_used():
    trace = run(lambda x: -0.5 * jnp.sum(x**2), lambda key: 5 * jax.random.normal(key, (3,)), sc.SGLD(0.05))
    assert trace.bias.started_apart
    assert trace.verdict().kind == "use it"
    assert str(trace.summary()).startswith("verdict: use it\n")


def test_a_single_chain_is_compared_with_none():
    trace = run(lambda x: -0.5 * x**2, jnp.array(0.0), sc.SGLD(0.05), chains=1)
    assert trace.bias.r_hat is None
    assert trace.verdict().kind == "run longer"
    assert "chains=4" in trace.verdict().action
    assert "agreement between chains was not measured" in str(trace.bias)


def test_what_is_known_of_the_agreement_survives_a_resume(tmp_path):
    target = sc.Target(lambda x: -0.5 * jnp.sum(x**2), lambda p, x: 0.0 * x, NOTHING)
    settings = {"burn_in": 500, "thin": 5, "batch_size": 1.0, "progress": False, "path": tmp_path / "run"}
    sc.sample(target, sc.SGLD(0.05), lambda key: 5 * jax.random.normal(key, (3,)), num_samples=1000, **settings)
    longer = sc.resume(tmp_path / "run", target, num_samples=4000, progress=False)
    assert longer.bias.started_apart
    assert longer.bias.r_hat < 1.05
    assert longer.verdict().good


# What it weighs.


def normal(x):
    return -0.5 * jnp.sum(x**2)


def test_chains_that_stand_still_are_not_to_be_used():
    """Short steps from the mode: the sampler's law sees no error, and R-hat might not."""
    trace = run(normal, jnp.zeros(3), sc.SGLD(1e-5), num_samples=1000, thin=1)
    assert np.max(np.sqrt(trace.variance["theta"])) < 0.2
    found = trace.verdict()
    assert found.kind == "do not use it"
    assert any("hardly moved" in reason for reason in found.reasons)
    assert 'step_size="auto"' in found.action


def test_too_few_draws_are_told_how_many_more():
    trace = run(normal, jnp.zeros(3), sc.SGLD(0.1), num_samples=300, burn_in=300, thin=2)
    found = trace.verdict()
    assert found.kind == "run longer"
    assert "Monte Carlo error" in found.reasons[0]
    target, initial = sc.Target(normal, lambda p, x: 0.0 * x, NOTHING), jnp.zeros(3)
    longer = eval(found.action, {"sc": sc, "target": target, "initial": initial})
    assert longer.verdict().good, str(longer.verdict())


def test_what_to_do_next_is_code_that_keeps_what_was_set():
    """Of names that the caller has, with the settings of the run that are not the reason for the advice."""
    sampler = sc.SGLD(0.1, temperature=1.0)
    trace = run(
        normal, jnp.zeros(3), sampler, num_samples=600, thin=3, burn_in=70, chains=1, estimator=sc.ControlVariate(),
        batching=sc.batches.WithReplacement(), batch_size=4, collect=False, report=False,
    )  # fmt: skip
    assert action_of(trace, Advice(settings={"chains": "4"})) == (
        "sc.sample(target, sc.SGLD(step_size=0.1), initial, num_samples=600, chains=4, seed=0, burn_in=70, thin=3, "
        "batch_size=4, estimator=sc.ControlVariate(), batching=sc.batches.WithReplacement(), collect=False)"
    )
    better = action_of(trace, Advice(less_bias=True))
    assert better == (
        'sc.sample(target, sc.UnderdampedLangevin(step_size="auto"), initial, num_samples=600, chains=1, seed=0, '
        "collect=False)"
    )


@pytest.mark.parametrize(
    ("efficiency", "factor", "wanted"),
    [(0.0, 3.0, (100, 6, 75)), (1.0, 3.0, (300, 2, 50)), (0.25, 4.0, (200, 4, 50)), (0.0, 1e9, (100, 200, 2500))],
)
def test_draws_that_do_not_depend_on_each_other_gain_by_their_number(efficiency, factor, wanted):
    trace = run(normal, jnp.zeros(3), sc.SGLD(0.1), num_samples=100, thin=2, burn_in=50, report=False)
    call = ast.parse(action_of(trace, Advice(factor, efficiency=efficiency)), mode="eval").body
    given = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
    assert (given["num_samples"], given["thin"], given["burn_in"]) == wanted


def test_a_run_that_was_stopped_is_first_done_as_it_was_meant():
    trace = run(normal, jnp.zeros(3), sc.SGLD(0.1), num_samples=10**6, thin=1, burn_in=0, max_seconds=1e-6)
    assert trace.count < 10**5
    assert "num_samples=1000000, chains=4, seed=0, burn_in=0, thin=1," in action_of(trace, Advice(factor=5.0))


def test_a_hot_chain_is_seen_by_the_virial_where_the_law_is_unknown():
    trace = run(normal, jnp.zeros(2), sc.Recipe(1.0, diffusion=1.0), num_samples=2000)
    ratio = np.mean(trace.variance["theta"])
    assert ratio == pytest.approx(2, rel=0.1)  # 1/(1 - h/2)
    np.testing.assert_allclose(np.mean(trace.bias.virial["theta"]), ratio, rtol=0.05)
    assert trace.verdict().kind == "do not use it"


def test_draws_that_were_not_stored_are_no_reason_to_trust():
    trace = run(normal, jnp.zeros(2), sc.SGLD(0.1), num_samples=500, collect=False)
    assert trace.verdict().kind == "run longer"
    assert "no draws were stored" in trace.verdict().reasons[0]


def test_a_run_that_diverged_is_not_to_be_used():
    with pytest.raises(sc.DivergenceError) as caught:
        run(lambda x: -jnp.sum(x**4), jnp.ones(2), sc.SGLD(2.0), burn_in=0, num_samples=500)
    assert caught.value.trace.verdict().kind == "do not use it"


def test_a_run_that_is_biased_and_too_short_gets_another_sampler_at_once():
    settings = {"num_samples": 200, "thin": 1, "burn_in": 100, "batch_size": 1.0}
    trace = run(normal, jnp.zeros(3), sc.SGLD(0.4), chains=1, **settings)  # the variance is 1.25
    found = trace.verdict()
    assert found.kind == "run longer"
    assert found.action == (
        'sc.sample(target, sc.UnderdampedLangevin(step_size="auto"), initial, num_samples=200, chains=4, seed=0)'
    )


def test_trajectories_of_nuts_that_diverged_are_said():
    settings = {"num_samples": 300, "burn_in": 100, "thin": 1, "chains": 2, "report": False}
    trace = run(funnel, {"v": jnp.zeros(()), "x": jnp.ones(4)}, sc.NUTS(adaptation=100), **settings)
    count = int(trace.sample_stats["diverging"].sum())
    assert count > 0
    assert any(reason.startswith(f"{count} of 600 trajectories diverged") for reason in trace.verdict().reasons)
    assert not trace.verdict().good


@pytest.mark.parametrize(("acceptance", "wanted"), [(0.8, 0.95), (0.95, 0.99), (0.99, None)])
def test_trajectories_that_diverged_ask_for_shorter_steps(acceptance, wanted):
    trace = run(normal, jnp.zeros(2), sc.NUTS(adaptation=100, acceptance=acceptance), num_samples=1000, thin=2)
    assert trace.verdict().good
    trace.sample_stats["diverging"][0, 0] = True
    found = trace.verdict()
    assert found.kind == "use means, not intervals"
    again = f"sc.NUTS(adaptation=100, acceptance={wanted}), initial, num_samples=1000, chains=4, seed=0, burn_in=500"
    assert again in found.action if wanted else not found.action


def test_the_gravest_finding_is_the_verdict():
    kind, reasons, advice = judge(
        [Finding("use it", "fine"), Finding("do not use it", "lost"), Finding("run longer", "short", Advice(factor=2))]
    )
    assert (kind, reasons, advice) == ("do not use it", ("lost", "short"), None)  # to run longer would not help
    cold = Finding("do not use it", "cold", Advice(less_bias=True))
    assert judge([Finding("do not use it", "lost"), cold])[2].less_bias
    uncertain = [Finding("run longer", "apart"), Finding("run longer", "short", Advice(factor=2))]
    assert judge(uncertain)[2].factor == 2
    alone, wide = Advice(settings={"chains": "4"}), Advice(less_bias=True)
    several = [Finding("use means, not intervals", "wide", wide), *uncertain, Finding("run longer", "alone", alone)]
    assert judge(several)[2] == Advice(2, {"chains": "4"}, less_bias=True)  # one step for all
    assert judge([Finding("use it", "fine")])[:2] == ("use it", ("fine",))
    assert judge([])[0] == "do not use it"


def test_samplers_are_written_as_code_that_runs():
    def written(sampler):
        return part_code(json.loads(json.dumps(describe(sampler))))  # as a folder has it

    assert written(sc.SCIRCV(0.5, centre=np.array([[600.0, 400.0]]))) == "sampler"
    assert written(sc.SCIRCV(0.5, recentre_every=50)) == "sc.SCIRCV(step_size=0.5, recentre_every=50)"


def test_points_of_a_run_survive_a_kill(tmp_path):
    """A run that goes on has the virial of one that never stopped."""
    target = sc.Target(normal, lambda p, x: 0.0 * x, NOTHING)
    settings = {"num_samples": 1000, "burn_in": 100, "batch_size": 1.0, "seed": 5}
    whole = sc.sample(target, sc.SGLD(0.1), jnp.zeros(2), **settings)
    sc.sample(target, sc.SGLD(0.1), jnp.zeros(2), **settings, path=tmp_path / "run", max_seconds=1e-9)
    longer = sc.resume(tmp_path / "run", target, max_seconds=1e9)
    np.testing.assert_array_equal(longer.bias.virial["theta"], whole.bias.virial["theta"])


@pytest.mark.parametrize("draw", ["normal", "gamma", "uniform"])
def test_the_error_of_an_sd_grows_with_the_fourth_moment(draw):
    rng = np.random.default_rng(0)
    make = {"normal": rng.normal, "gamma": lambda size: rng.gamma(0.3, size=size), "uniform": rng.random}[draw]
    runs = [make(size=(4, 1000)) for _ in range(200)]
    spread = np.std([x.std() for x in runs]) / np.mean([x.std() for x in runs])
    told = np.mean([relative_errors(x)[1] for x in runs])
    assert spread == pytest.approx(told, rel=0.2)  # 200 repeats know it to 5 %


# Modes that are elsewhere.


def test_components_that_have_changed_places_are_told_from_other_modes():
    """By the vector in which they lie farthest apart; what is shared stays where it is."""
    mean = {"m": np.array([-3.0, 0.5, 4.0]), "rest": np.array(7.0), "s": np.array([1.0, 1.1, 3.0]), "v": np.eye(3)}
    sd = np.full(16, 0.05)

    def flat(m, rest, s, v):
        return np.concatenate([np.ravel(a) for a in (m, rest, s, v)])

    for order in ([1, 0, 2], [2, 0, 1], [1, 2, 0]):
        other = flat(*(a[order] if a.ndim else a for a in mean.values()))
        assert _exchanged(mean, sd, other + 0.1) == "m"
        assert _exchanged(mean, sd, np.where(np.arange(16) == 3, 9.0, other)) is None  # something else has moved too
    elsewhere = flat(mean["m"][[1, 0, 2]], mean["rest"], mean["s"][[0, 2, 1]], mean["v"])
    assert _exchanged(mean, sd, elsewhere) is None
    assert _exchanged({"x": np.zeros(1), "y": np.array(0.0)}, sd[:2], np.array([8.0, 0.0])) is None


@pytest.mark.slow
def test_of_components_that_may_change_their_names_one_order_is_kept():
    pytest.importorskip("numpyro")
    x = np.random.default_rng(0).normal(np.repeat([-2.0, 2.0], 300)).astype(np.float32)

    def likelihood(p, x):
        return jnp.logaddexp(-0.5 * (x - p["m"][0]) ** 2, -0.5 * (x - p["m"][1]) ** 2)

    target, initial = sc.Target(lambda p: -0.02 * jnp.sum(p["m"] ** 2), likelihood, x), {"m": jnp.array([0.5, -0.5])}
    found = sc.sample(target, sc.UnderdampedLangevin("auto"), initial, seed=0, progress=False).verdict()
    assert found.kind == "do not use it"
    assert "the entries of m in another order" in found.reasons[0]
    again = eval(found.action, {"sc": sc, "jnp": jnp, "target": target, "initial": initial})
    assert again.verdict().good, str(again.verdict())
    assert np.allclose(again.mean["m"], [-2, 2], atol=0.3)
