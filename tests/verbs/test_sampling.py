"""The interface as a user sees it: what comes back, what is refused, what survives."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import xarray as xr

import scirocco as sc
from scirocco.gradient.engine import GradientEngine

RNG = np.random.default_rng(0)
X = RNG.normal(2.0, 1.0, (200, 2)).astype(np.float32)
MEAN = X.sum(0) / 201


def log_prior(m):
    return -0.5 * jnp.sum(m**2)


def log_likelihood(m, x):
    return -0.5 * jnp.sum((x - m) ** 2)


TARGET = sc.Target(log_prior, log_likelihood, X)
SGLD = sc.SGLD(1e-3)
START = jnp.zeros(2)
FAST = {"num_samples": 200, "burn_in": 50, "batch_size": 20, "chains": 2, "report": False}


def theta(trace):
    return trace.posterior["theta"].values


# What comes back.


@pytest.mark.quick
def test_names_and_shapes_of_any_pytree():
    def likelihood(p, row):
        w, (c, d) = p["layer"]["w"], p["pair"]
        return -0.5 * jnp.sum((row["x"] @ w - c - d * row["y"]) ** 2)

    def prior(p):
        return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(p))

    data = {"x": X, "y": np.arange(200) % 2}
    initial = {"layer": {"w": jnp.ones((2, 3))}, "pair": (jnp.zeros(3), jnp.zeros(()))}
    trace = sc.sample(sc.Target(prior, likelihood, data), SGLD, initial, **FAST)
    assert {n: v.shape for n, v in trace.posterior.data_vars.items()} == {
        "layer.w": (2, 200, 2, 3),
        "pair.0": (2, 200, 3),
        "pair.1": (2, 200),
    }
    assert trace.posterior["layer.w"].dims == ("chain", "draw", "layer.w_dim_0", "layer.w_dim_1")
    assert "layer.w[1, 2]" in trace.summary().table.index


def test_a_bare_array_is_theta():
    assert list(sc.sample(TARGET, SGLD, START, **FAST).posterior.data_vars) == ["theta"]


@pytest.mark.quick
def test_batched_and_single_likelihoods_agree_bit_for_bit():
    batched = sc.Target(log_prior, lambda m, x: -0.5 * jnp.sum((x - m) ** 2, axis=1), X, batched=True)
    np.testing.assert_array_equal(
        theta(sc.sample(TARGET, SGLD, START, **FAST)), theta(sc.sample(batched, SGLD, START, **FAST))
    )


def test_the_same_seed_gives_the_same_draws_and_another_does_not():
    a, b = (sc.sample(TARGET, SGLD, START, seed=3, **FAST) for _ in range(2))
    c = sc.sample(TARGET, SGLD, START, seed=4, **FAST)
    np.testing.assert_array_equal(theta(a), theta(b))
    assert not np.array_equal(theta(a), theta(c))
    assert not np.array_equal(theta(a)[0], theta(a)[1])


def test_a_chain_does_not_depend_on_how_it_is_cut_into_chunks(monkeypatch):
    from scirocco.gradient import engine
    from scirocco.run import group

    whole = sc.sample(TARGET, SGLD, START, thin=3, **FAST)
    monkeypatch.setattr(engine, "DRAW_BYTES", 7 * 16)
    monkeypatch.setattr(group, "CHUNK_SECONDS", 1e-4)
    cut = sc.sample(TARGET, SGLD, START, thin=3, **FAST)
    np.testing.assert_array_equal(theta(whole), theta(cut))
    np.testing.assert_allclose(whole.mean["theta"], cut.mean["theta"], rtol=1e-6)


def test_thinning_and_burn_in_select_from_the_same_chain():
    every = theta(sc.sample(TARGET, SGLD, START, num_samples=300, burn_in=0, batch_size=20, chains=2, report=False))
    some = theta(
        sc.sample(TARGET, SGLD, START, num_samples=50, burn_in=100, thin=4, batch_size=20, chains=2, report=False)
    )
    np.testing.assert_array_equal(some, every[:, 103:300:4])


def test_one_chain_is_the_first_of_several():
    """The same keys and minibatches; a vectorised program may round in another way, which grows slowly."""
    short = {"num_samples": 20, "burn_in": 0, "batch_size": 20, "report": False}
    several = theta(sc.sample(TARGET, sc.SGHMC(0.01, friction=5.0), START, chains=3, **short))
    alone = theta(sc.sample(TARGET, sc.SGHMC(0.01, friction=5.0), START, chains=1, **short))
    np.testing.assert_allclose(several[:1], alone, rtol=1e-4, atol=1e-5)
    assert np.abs(several[1] - alone[0]).max() > 0.01  # another chain is another one


def test_streaming_moments_are_those_of_the_draws():
    trace = sc.sample(TARGET, SGLD, START, **FAST)
    draws = theta(trace).astype(np.float64)
    np.testing.assert_allclose(trace.mean["theta"], draws.mean((0, 1)), rtol=1e-5)
    np.testing.assert_allclose(trace.moments.variance()["theta"], draws.var(1, ddof=1), rtol=1e-3)


def test_nothing_stored_still_has_moments():
    trace = sc.sample(TARGET, SGLD, START, collect=False, **FAST)
    stored = sc.sample(TARGET, SGLD, START, **FAST)
    assert not list(trace.posterior.data_vars)
    np.testing.assert_allclose(trace.mean["theta"], stored.mean["theta"], rtol=1e-6)  # chunks are summed in float32
    assert "moments only" in str(trace.summary())


def test_collect_stores_a_function_of_the_parameters():
    trace = sc.sample(TARGET, SGLD, START, collect=lambda m: {"norm": jnp.sum(m**2), "first": m[0]}, **FAST)
    draws = theta(sc.sample(TARGET, SGLD, START, **FAST))
    np.testing.assert_allclose(trace.posterior["norm"].values, np.sum(draws**2, -1), rtol=1e-5)
    bare = sc.sample(TARGET, SGLD, START, collect=lambda m: m[0], **FAST)
    np.testing.assert_array_equal(bare.posterior["value"].values, draws[..., 0])


def test_dispersed_starts():
    trace = sc.sample(TARGET, sc.SGLD(1e-9), lambda key: 5 * jax.random.normal(key, (2,)), **{**FAST, "chains": 4})
    assert np.all(np.std(theta(trace)[:, 0], axis=0) > 1)


def test_cyclical_records_the_sampling_stage_only():
    sampler = sc.cyclical(sc.SGLD(2e-3), period=20, exploration=0.5)
    trace = sc.sample(TARGET, sampler, START, num_samples=100, burn_in=0, batch_size=20, chains=1, report=False)
    every = sc.kernel(TARGET, sampler, batch_size=20)
    assert trace.count == 100
    from scirocco.run.recording import Recording

    recording = Recording.of(0, 1, every.sampler)
    steps = [t for t in range(1, 201) if recording.is_draw(t)]
    assert steps[:12] == [*range(11, 21), 31, 32]
    assert recording.steps_for(100) == steps[99]


def test_nothing_is_compiled_between_chunks(monkeypatch):
    """One program serves burn-in, all chunks, the partial last one, and blocks of data from disk."""
    from scirocco.gradient.loop import advance_chains
    from scirocco.run import group

    monkeypatch.setattr(group, "CHUNK_SECONDS", 1e-3)
    before = advance_chains._cache_size()
    trace = sc.sample(TARGET, SGLD, START, num_samples=301, burn_in=137, thin=7, batch_size=20, estimator=sc.SVRG(97))
    assert trace.count == 301
    assert advance_chains._cache_size() == before + 1


def test_a_run_and_its_summary_load_only_what_they_need():
    """Each of these takes from 0.2 s to a second to load, as long as a short run."""
    code = """
        import sys
        import jax.numpy as jnp, scirocco as sc
        target = sc.Target(lambda m: -m**2 / 2, lambda m, x: -(x - m)**2 / 2, jnp.arange(10.0))
        trace = sc.sample(target, sc.SGLD(0.01), jnp.array(4.0), num_samples=10, batch_size=5)
        str(trace.summary())
        print({"numba", "sklearn", "scipy.stats", "scipy.optimize", "optax", "arviz", "zarr"} & set(sys.modules))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_kernel_makes_steps_one_by_one():
    kernel = sc.kernel(TARGET, SGLD, batch_size=20, estimator=sc.SVRG(5))
    state = kernel.init(jax.random.key(0), START)
    positions = []
    for t in range(12):
        state, info = kernel.step(jax.random.key(t), state)
        positions.append(np.asarray(state.position))
    assert int(state.step) == 12
    assert info.step_size == np.float32(1e-3)
    np.testing.assert_array_equal(state.estimator.centre, positions[9])  # renewed after steps 5 and 10


def test_blocks_update_their_parameters_on_the_same_minibatch():
    """Normal with unknown mean (gradient) and precision (Gibbs): against the conjugate posterior."""
    x = np.random.default_rng(3).normal(1.0, 0.5, 400).astype(np.float32)
    seen = {}

    def gibbs(key, params, batch):
        seen["rows"] = batch.data.shape
        squares = jnp.sum(batch.weights * (batch.data - params["mean"]) ** 2)
        return {"precision": jax.random.gamma(key, 2.0 + 200.0) / (1.0 + squares / 2)}

    target = sc.Target(
        lambda p: 0.0 * p["mean"] + jnp.log(p["precision"]) - p["precision"],
        lambda p, x: 0.5 * jnp.log(p["precision"]) - 0.5 * p["precision"] * (x - p["mean"]) ** 2,
        x,
    )
    trace = sc.sample(
        target, sc.SGLD(2e-5), {"mean": jnp.array(0.0), "precision": jnp.array(1.0)}, batch_size=1.0, num_samples=3000,
        burn_in=1000, thin=10, chains=4, blocks=[sc.Block("precision", gibbs)], report=False,
    )  # fmt: skip
    # theta is centred at the sample mean given any precision; the precision's marginal is Gamma(2 + (N-1)/2, ...).
    deviation = np.sum((x - x.mean()) ** 2)
    exact = (2.0 + 399 / 2) / (1.0 + deviation / 2)
    precision = trace.posterior["precision"].values
    assert seen["rows"] == (400,)
    assert abs(trace.mean["mean"] - x.mean()) < 4.5 * np.sqrt(trace.variance["mean"] / 800)
    assert abs(precision.mean() - exact) < 4.5 * precision.std() / np.sqrt(4000)
    assert precision.std() == pytest.approx(exact / np.sqrt(201.5), rel=0.1)


def test_integer_parameters_may_be_held_by_blocks():
    target = sc.Target(
        lambda p: -0.5 * p["m"] ** 2, lambda p, x: -0.5 * (x - p["m"] - p["k"].astype(jnp.float32)) ** 2, X[:, 0]
    )
    flip = sc.Block("k", lambda key, p, batch: {"k": 1 - p["k"]})
    trace = sc.sample(target, SGLD, {"m": jnp.array(0.0), "k": jnp.array(0)}, blocks=[flip], **FAST)
    assert set(np.unique(trace.posterior["k"])) == {0, 1}


# What is refused, before any work.


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"batch_size": 201}, ValueError, "batch_size must lie between 1 and the number of examples, 200; got 201"),
        ({"num_samples": 0}, ValueError, "num_samples must be a whole number of at least 1; got 0"),
        ({"thin": 1.5}, ValueError, "thin must be a whole number"),
        ({"chains": -1}, ValueError, "chains must be a whole number"),
        ({"burn_in": -1}, ValueError, "burn_in must be a whole number of at least 0; got -1"),
        ({"seed": -1}, ValueError, "seed must be a whole number"),
        ({"sampler": "sgdl"}, ValueError, "unknown sampler name 'sgdl'"),
        ({"sampler": sc.SGLD}, TypeError, r"an instance with its settings, such as SGLD\(step_size"),
        ({"sampler": sc.SGLD({"a": 0.1})}, ValueError, "structure of the sampled parameters"),
        ({"estimator": "cv"}, TypeError, "estimator must be a scirocco.estimators.Estimator"),
        ({"batching": "shuffled"}, TypeError, "batching must be a scirocco.batches.Batching"),
        ({"target": log_prior}, TypeError, "target must be a scirocco.Target; got function"),
        ({"initial": jnp.array([0, 1])}, TypeError, "sampled parameters must be floating"),
        ({"initial": jnp.array([0.0, jnp.nan])}, ValueError, "initial has NaN or infinite values in theta"),
        ({"collect": "theta"}, TypeError, "collect must be a function"),
        ({"gradients": "all"}, TypeError, "gradients must be True or False"),
        ({"blocks": [sc.Block("k", lambda *a: {})]}, TypeError, "must then be a dict"),
        ({"checkpoint_seconds": -1}, ValueError, "checkpoint_seconds"),
    ],
)
def test_wrong_arguments(changes, error, message):
    arguments = {"target": TARGET, "sampler": SGLD, "initial": START, **FAST, **changes}
    with pytest.raises(error, match=message):
        sc.sample(**arguments)


@pytest.mark.parametrize(
    ("prior", "likelihood", "batched", "error", "message"),
    [
        (
            log_prior,
            lambda m, x: -0.5 * (x - m) ** 2,
            False,
            ValueError,
            r"scalar for one example; it returned shape \(2,\)",
        ),
        (log_prior, lambda m, x: jnp.sum(x - m), True, ValueError, "one value per row"),
        (
            lambda m: -(m**2),
            log_likelihood,
            False,
            ValueError,
            r"log_prior must return a scalar; it returned shape \(2,\)",
        ),
        (lambda m: jnp.log(-1.0 - jnp.sum(m**2)), log_likelihood, False, ValueError, "log_prior is nan at the initial"),
        (log_prior, lambda m, x: jnp.log(jnp.sum(m) * 0) + jnp.sum(x), False, ValueError, "for example 0 of the data"),
        (
            lambda m: -jnp.sqrt(jnp.sum(m**2)),
            log_likelihood,
            False,
            ValueError,
            "gradient with respect to theta is not finite",
        ),
        (lambda m: 1, log_likelihood, False, TypeError, "log_prior must return"),
        (lambda m: (m, m), log_likelihood, False, TypeError, "must return one array"),
    ],
)
def test_wrong_targets(prior, likelihood, batched, error, message):
    with pytest.raises(error, match=message):
        sc.sample(sc.Target(prior, likelihood, X, batched=batched), SGLD, START, **FAST)


def test_an_error_inside_the_likelihood_names_it():
    with pytest.raises(TypeError) as caught:
        sc.sample(sc.Target(log_prior, lambda m, x: m @ jnp.ones(5), X), SGLD, START, **FAST)
    assert any("log_likelihood was first evaluated" in note for note in caught.value.__notes__)


def test_wrong_target_parts():
    with pytest.raises(TypeError, match="log_prior must be a function; got int"):
        sc.Target(1, log_likelihood, X)


def test_wrong_blocks():
    target = sc.Target(lambda p: -0.5 * p["m"] ** 2, lambda p, x: -0.5 * (x - p["m"]) ** 2 * p["k"], X[:, 0])
    start = {"m": jnp.array(0.0), "k": jnp.array(1.0)}
    for blocks, message in (
        ([sc.Block("z", lambda *a: {})], r"different keys of \['k', 'm'\]; got \['z'\]"),
        ([sc.Block(("m", "k"), lambda *a: {})], "blocks hold all parameters"),
        ([sc.Block("k", lambda key, p, b: p["k"])], r"must return a dict with the keys \['k'\]"),
        ([sc.Block("k", lambda key, p, b: {"k": jnp.ones(3)})], r"changed the shape of k from \(\) to \(3,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            sc.sample(target, SGLD, start, blocks=blocks, **FAST)


def test_a_nan_in_the_data_names_its_row():
    bad = X.copy()
    bad[17, 1] = np.nan
    with pytest.raises(ValueError, match="first in row 17"):
        sc.Target(log_prior, log_likelihood, bad)


def test_settings_that_change_the_shape_of_the_parameters_are_found_before_any_work():
    with pytest.raises(ValueError, match=r"a step of SGLD changes .*position"):
        sc.sample(TARGET, sc.SGLD(np.full((3, 2), 1e-3, np.float32)), START, **FAST)


def test_names_that_a_dataset_cannot_hold():
    target = sc.Target(lambda p: -0.5 * jnp.sum(p["chain"] ** 2), lambda p, x: -0.5 * jnp.sum((x - p["chain"]) ** 2), X)
    with pytest.raises(ValueError, match="must not be 'chain' or 'draw'"):
        sc.sample(target, SGLD, {"chain": START}, **FAST)


def test_slashes_in_names_survive_the_disk(tmp_path):
    target = sc.Target(lambda p: -0.5 * jnp.sum(p["a/b"] ** 2), lambda p, x: -0.5 * jnp.sum((x - p["a/b"]) ** 2), X)
    trace = sc.sample(target, SGLD, {"a/b": START}, path=tmp_path / "run", **FAST)
    np.testing.assert_array_equal(trace.posterior["a.b"].values, theta(sc.sample(TARGET, SGLD, START, **FAST)))


def test_half_precision_parameters():
    trace = sc.sample(TARGET, sc.SGLD(1e-3), START.astype(jnp.float16), **FAST)
    assert trace.posterior["theta"].dtype == np.float16
    np.testing.assert_allclose(trace.mean["theta"], theta(trace).astype(float).mean((0, 1)), rtol=1e-3)


# What survives.


def test_an_error_in_the_middle_of_a_run_keeps_the_draws(tmp_path):
    """A NaN far down a file is met when the run gets there."""
    x = np.ones((5000, 2), np.float32)
    x[4500] = np.nan
    np.save(tmp_path / "x.npy", x)
    data = sc.batches.MemoryMapped(tmp_path / "x.npy", block_bytes=100 * 8)
    target = sc.Target(log_prior, log_likelihood, data)
    for path in (None, tmp_path / "run"):
        with pytest.raises(ValueError, match="NaN or infinite") as caught:
            sc.sample(
                target, sc.SGLD(1e-6), START, num_samples=5000, burn_in=0, batch_size=10, chains=1, path=path, seed=2
            )
        assert caught.value.trace.count > 50
        assert "ValueError" in caught.value.trace.stopped.text
    assert sc.Trace.load(tmp_path / "run").count == caught.value.trace.count


def test_a_model_that_cannot_be_differentiated_twice_is_sampled_without_a_report():
    @jax.custom_vjp
    def square(x):
        return jnp.sum(x**2)

    def backward(x, g):
        return (jax.lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, 2 * g * x), (0, jnp.zeros_like(x)))[1],)

    square.defvjp(lambda x: (square(x), x), backward)
    target = sc.Target(log_prior, lambda m, x: -0.5 * square(x - m), X)
    with pytest.warns(UserWarning, match="no bias report: measuring failed"):
        trace = sc.sample(target, SGLD, START, **FAST | {"report": True})
    assert trace.count == 200
    assert trace.bias is None


def test_divergence_names_the_variable_that_failed():
    target = sc.Target(lambda p: -0.5 * p["m"] ** 2, lambda p, x: -0.5 * (x - p["m"]) ** 2 * p["k"], X[:, 0])
    bad = sc.Block("k", lambda key, p, b: {"k": jnp.where(jax.random.uniform(key) < 0.02, jnp.nan, 1.0)})
    with pytest.raises(sc.DivergenceError, match=r"diverged: k of chain \d is no longer finite"):
        sc.sample(
            target, SGLD, {"m": jnp.array(0.0), "k": jnp.array(1.0)}, blocks=[bad], **{**FAST, "num_samples": 5000}
        )


@pytest.mark.parametrize(("step", "words"), [(0.5, "is too large for sums of it"), (1e4, "is no longer finite")])
def test_a_tail_beyond_single_precision_is_not_the_fault_of_the_step(step, words):
    """Chains move the logarithm of tau, on which this prior is flat; long steps leap over what sums can hold."""
    positive = {"tau": sc.constraints.positive}
    target = sc.Target(lambda p: -jnp.log(p["tau"]), lambda p, x: 0.0 * x, X[:, 0], constraints=positive)
    with pytest.raises(sc.DivergenceError, match=rf"tau of chain \d {words}") as caught:
        sc.sample(target, sc.SGLD(step), {"tau": jnp.exp(jnp.array(85.0))}, **{**FAST, "burn_in": 0})
    for said in ("Its step is not to blame", "that of tau has come to", "take its logarithm as the parameter"):
        assert said in str(caught.value)
    assert np.isfinite(caught.value.trace.posterior["tau"]).all()


def test_divergence_is_found_on_the_same_path_with_a_refreshing_estimator():
    with pytest.raises(sc.DivergenceError) as caught:
        sc.sample(
            TARGET,
            sc.SGLD(0.0102),
            START + 1,
            num_samples=10_000,
            burn_in=0,
            batch_size=50,
            estimator=sc.SVRG(7),
            report=False,
        )
    trace = caught.value.trace
    assert np.isfinite(theta(trace)).all()
    assert f"after step {trace.count + 1:,}" in str(caught.value)


def test_divergence_names_the_step_and_keeps_the_draws():
    with pytest.raises(sc.DivergenceError, match="no longer finite after step") as caught:
        sc.sample(TARGET, sc.SGLD(0.0102), START + 1, num_samples=10_000, burn_in=0, batch_size=1.0, chains=2)
    trace = caught.value.trace
    assert 100 < trace.count < 10_000
    assert np.isfinite(theta(trace)).all()
    assert f"after step {trace.count + 1:,}" in str(caught.value)
    assert "step size 0.0102" in str(caught.value)
    assert "Try a smaller step_size" in str(caught.value)


def test_a_divergence_on_disk_can_be_loaded(tmp_path):
    with pytest.raises(sc.DivergenceError):
        sc.sample(
            TARGET, sc.SGLD(0.0102), START + 1, num_samples=10_000, burn_in=0, batch_size=1.0, path=tmp_path / "run"
        )
    trace = sc.Trace.load(tmp_path / "run")
    assert trace.stopped.kind == "diverged"
    assert np.isfinite(theta(trace)).all()


def test_ctrl_c_keeps_everything_and_resume_goes_on(tmp_path, monkeypatch):
    settings = {"num_samples": 4000, "burn_in": 10, "batch_size": 20, "chains": 1, "seed": 5}
    whole = sc.sample(TARGET, SGLD, START, **settings)
    advance, calls = GradientEngine.advance, []

    def pressing(*given):
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return advance(*given)

    monkeypatch.setattr(GradientEngine, "advance", pressing)
    trace = sc.sample(TARGET, SGLD, START, **settings, path=tmp_path / "run")
    assert trace.stopped.text.startswith("interrupted at step")
    assert 0 < trace.count < 4000
    assert len(calls) == 3
    np.testing.assert_array_equal(theta(trace), theta(whole)[:, : trace.count])
    resumed = sc.resume(tmp_path / "run", TARGET)
    assert resumed.stopped is None
    np.testing.assert_array_equal(theta(resumed), theta(whole))
    np.testing.assert_allclose(resumed.mean["theta"], whole.mean["theta"], rtol=1e-6)


SCRIPT = """
    import os
    import signal
    import sys
    import jax.numpy as jnp
    import numpy as np
    import scirocco as sc
    from scirocco.gradient.engine import GradientEngine
    from scirocco.run.group import Group

    advance, turn = GradientEngine.advance, Group.turn

    def killed(self, *given):
        chunk = advance(self, *given)
        if self.step >= 2500:
            os.kill(os.getpid(), signal.SIGKILL)
        return chunk

    def saved(self, clock, checkpoint_seconds):
        before = self.engine.step
        turn(self, clock, checkpoint_seconds)
        if self.engine.step // 300 > before // 300:
            self.save(clock)

    GradientEngine.advance, Group.turn = killed, saved

    x = np.random.default_rng(0).normal(2.0, 1.0, (200, 2)).astype(np.float32)
    np.save(sys.argv[1] + "/x.npy", x)
    data = sc.batches.MemoryMapped(sys.argv[1] + "/x.npy", block_bytes=60 * 8)
    target = sc.Target(lambda m: -0.5 * jnp.sum(m**2), lambda m, x: -0.5 * jnp.sum((x - m) ** 2), data)
    sc.sample(target, sc.SGNHT(0.01, diffusion=5.0), jnp.zeros(2), num_samples=1700, burn_in=10, thin=2,
              batch_size=20, estimator=sc.SVRG(1000), chains=2, seed=5, report=False, path=sys.argv[1] + "/run",
              checkpoint_seconds=1e9)
"""


def test_resume_after_kill_is_bit_exact(tmp_path):
    """A run on data from disk, with a refreshing estimator and momenta, killed by SIGKILL between two checkpoints.

    The estimator is refreshed every 1000 steps: twice before the kill, and once after it.
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(SCRIPT), str(tmp_path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    data = sc.batches.MemoryMapped(tmp_path / "x.npy", block_bytes=60 * 8)
    target = sc.Target(log_prior, log_likelihood, data)
    settings = FAST | {"num_samples": 1700, "burn_in": 10, "thin": 2, "estimator": sc.SVRG(1000), "seed": 5}
    whole = sc.sample(target, sc.SGNHT(0.01, diffusion=5.0), START, **settings)
    partial = sc.Trace.load(tmp_path / "run")
    assert partial.stopped.kind == "unfinished"
    assert 1000 < partial.count < (2500 - 10) // 2
    np.testing.assert_array_equal(theta(partial), theta(whole)[:, : partial.count])
    resumed = sc.resume(tmp_path / "run", target)
    assert resumed.count == 1700
    np.testing.assert_array_equal(theta(resumed), theta(whole))


@pytest.mark.quick
def test_a_finished_run_can_be_extended(tmp_path):
    sc.sample(TARGET, SGLD, START, path=tmp_path / "run", **FAST)
    longer = sc.resume(tmp_path / "run", TARGET, num_samples=500)
    whole = sc.sample(TARGET, SGLD, START, **{**FAST, "num_samples": 500})
    np.testing.assert_array_equal(theta(longer), theta(whole))


@pytest.mark.parametrize("estimator", [sc.ControlVariate(), sc.SAGA()])
def test_resume_restores_estimators(tmp_path, estimator):
    sc.sample(TARGET, SGLD, START, path=tmp_path / "run", estimator=estimator, **FAST)
    longer = sc.resume(tmp_path / "run", TARGET, num_samples=400)
    whole = sc.sample(TARGET, SGLD, START, estimator=estimator, **{**FAST, "num_samples": 400})
    np.testing.assert_array_equal(theta(longer), theta(whole))


def test_resume_where_the_density_has_no_value_at_zero(tmp_path):
    # A run that goes on knows the shapes of its parameters before their values: zeros stand in for them.
    target = sc.Target(lambda m: -jnp.sum(jnp.log(m) ** 2), lambda m, x: -jnp.sum((x - m) ** 2), np.abs(X))
    settings = {**FAST, "chains": 1, "num_samples": 20}
    sc.sample(target, SGLD, jnp.ones(2), path=tmp_path / "run", **settings)
    longer = sc.resume(tmp_path / "run", target, num_samples=40)
    whole = sc.sample(target, SGLD, jnp.ones(2), **{**settings, "num_samples": 40})
    np.testing.assert_array_equal(theta(longer), theta(whole))


def test_resume_asks_for_what_it_cannot_know(tmp_path):
    sampler = sc.SGLD(optax.constant_schedule(1e-3))
    sc.sample(TARGET, sampler, START, path=tmp_path / "a", collect=lambda m: m[0], **FAST)
    with pytest.raises(ValueError, match="give the same function as collect="):
        sc.resume(tmp_path / "a", TARGET)
    with pytest.raises(ValueError, match="sampler cannot be rebuilt from its checkpoint: give it again as sampler="):
        sc.resume(tmp_path / "a", TARGET, collect=lambda m: m[0])
    trace = sc.resume(tmp_path / "a", TARGET, collect=lambda m: m[0], sampler=sampler, num_samples=250)
    assert trace.count == 250


@pytest.mark.parametrize("dtype", [np.int32, np.complex64])
def test_a_start_that_is_refused_leaves_the_place_free(dtype, tmp_path):
    with pytest.raises(TypeError, match="sampled parameters must be floating"):
        sc.sample(TARGET, SGLD, np.zeros(2, dtype), path=tmp_path / "run", **FAST)
    trace = sc.sample(TARGET, SGLD, START, path=tmp_path / "run", **FAST)
    with pytest.raises(ValueError, match="the data differs"):  # no new run: it stays
        sc.resume(tmp_path / "run", sc.Target(log_prior, log_likelihood, X + 1))
    assert sc.Trace.load(tmp_path / "run").count == trace.count


def test_resume_refuses_what_does_not_fit(tmp_path):
    sc.sample(TARGET, SGLD, START, path=tmp_path / "run", **FAST)
    other = sc.Target(log_prior, log_likelihood, X + 1)
    with pytest.raises(ValueError, match="the data differs from that of the run"):
        sc.resume(tmp_path / "run", other)
    with pytest.raises(ValueError, match="the run had no collect function"):
        sc.resume(tmp_path / "run", TARGET, collect=lambda m: m[0])
    with pytest.raises(FileExistsError, match="holds a run that can be resumed"):
        sc.Trace.load(tmp_path / "run").save(tmp_path / "run")
    assert sc.resume(tmp_path / "run", TARGET, num_samples=np.int64(210)).count == 210
    with pytest.raises(ValueError, match="the run had sampler"):
        sc.resume(tmp_path / "run", TARGET, sampler=sc.SGLD(2e-3))
    with pytest.raises(FileNotFoundError, match="holds no scirocco run"):
        sc.resume(tmp_path / "nowhere", TARGET)
    with pytest.raises(FileExistsError, match="is not empty"):
        sc.sample(TARGET, SGLD, START, path=tmp_path / "run", **FAST)
    (tmp_path / "run" / "run.json").write_bytes(b"not a run")
    with pytest.raises(sc.run.DamagedError, match=r"run.json is damaged or not a file of a scirocco run"):
        sc.resume(tmp_path / "run", TARGET)


@pytest.mark.quick
def test_draws_on_disk_are_those_in_memory(tmp_path, monkeypatch):
    from scirocco.run import store

    monkeypatch.setattr(store, "CHUNK_BYTES", 37 * 16)
    memory = sc.sample(TARGET, SGLD, START, **FAST)
    disk = sc.sample(TARGET, SGLD, START, path=tmp_path / "run", **FAST)
    np.testing.assert_array_equal(theta(disk), theta(memory))
    stored = xr.open_dataset(tmp_path / "run" / "draws.zarr", engine="zarr", consolidated=False)
    np.testing.assert_array_equal(stored["theta"].values, theta(memory))
    assert not list((tmp_path / "run").glob("*.tmp"))
    kinds = {p.suffix for p in (tmp_path / "run").rglob("*") if p.is_file() and "draws.zarr" not in p.parts}
    assert kinds <= {".json", ""}  # JSON, the lock, and pieces named by their hash
    for piece in (tmp_path / "run").glob("*/pieces/*"):
        assert hashlib.blake2b(piece.read_bytes(), digest_size=16).hexdigest() == piece.name


def test_progress_is_shown_on_request_and_cannot_break_a_run(capsys, monkeypatch):
    sc.sample(TARGET, SGLD, START, progress=True, **FAST)
    out, lines = capsys.readouterr()
    assert out == ""
    assert re.search(r"^sampling 100%, 250/250 steps, .*200 draws, \d+ s$", lines, re.MULTILINE)
    from scirocco.run import progress

    monkeypatch.setattr(progress, "interactive", lambda: True)
    sc.sample(TARGET, SGLD, START, **FAST)
    out, bar = capsys.readouterr()
    assert out == ""
    assert "250/250" in bar
    assert "200 draws" in bar
    import rich.progress

    calls = []

    def broken(*args, **kwargs):
        calls.append(args)
        raise OSError("no terminal")

    for method in ("update", "start"):
        monkeypatch.setattr(rich.progress.Progress, method, broken)
        assert sc.sample(TARGET, SGLD, START, progress=True, **FAST).count == 200
    assert len(calls) == 2  # each was met once, and no bar was shown after it
