"""What a run says of itself: typed, versioned, and obeyed by ``resume``."""

from __future__ import annotations

import json
import signal
import threading

import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.core.interrupt import Interrupt, poll
from scirocco.run import checkpoint, group, runner
from scirocco.run.description import Description, ModelSettings, RunOptions, Settings, ShardSettings, Stop, TunedParts
from scirocco.run.folder import read_description
from scirocco.run.store import Variable

X = np.random.default_rng(0).normal(2.0, 1.0, (200, 2)).astype(np.float32)


def log_prior(m):
    return -0.5 * jnp.sum(m**2)


def log_likelihood(m, x):
    return -0.5 * jnp.sum((x - m) ** 2)


TARGET = sc.Target(log_prior, log_likelihood, X)
CODES = np.random.default_rng(0).integers(0, 9, 1000)
COUNTS = np.random.default_rng(0).poisson(0.4, (60, 30))


def begin(path, **options):
    settings = {"num_samples": 100, "burn_in": 50, "batch_size": 20, "chains": 2, "report": False} | options
    return sc.sample(TARGET, sc.SGLD(1e-3), jnp.zeros(2), path=path, **settings)


# Round trip and versions.


def test_a_description_survives_json(tmp_path):
    settings = ShardSettings(3, 8, 10, 0, 1, 2, None, shards=4, method="swiss")
    tuned = TunedParts({"a": 1}, {"type": "x"}, None, None, {"zeros": [2], "dtype": "float32"}, 20)
    whole = Description(
        "scirocco.verbs.sample_shards:ShardsResumer", settings, RunOptions(max_seconds=2.0, workers=3),
        data={"rows": [1, "x"]}, tuned=(tuned,) * 4, variables={"m": Variable((2,), np.dtype("float32"), ("d",))},
        model=ModelSettings("LDA", {"n_topics": 3}),
    )  # fmt: skip
    content = json.loads(json.dumps(whole.to_json()))
    assert Description.from_json(content, tmp_path) == whole
    assert content["software"]["scirocco"] == sc.__version__
    assert content["software"]["processor"]


@pytest.mark.parametrize("kind", ["schema", "lacks", "strange", "type", "nested", "list"])
def test_a_description_that_does_not_fit_is_refused_in_words(kind, tmp_path):
    begin(tmp_path / "run")
    content = read_description(tmp_path / "run").to_json()
    if kind == "schema":
        content["schema"] = 99
    elif kind == "lacks":
        del content["settings"]["burn_in"]
    elif kind == "strange":
        content["options"]["colour"] = "red"
    elif kind == "type":
        content["settings"]["chains"] = "four"
    elif kind == "nested":
        content["variables"] = {"theta": [[2]]}
    elif kind == "list":
        content = [content]
    checkpoint.write_json(tmp_path / "run" / "run.json", content)
    words = {"schema": "version 99 of the format.*reads 5", "list": "holds no object of JSON"}
    words = words.get(kind, "does not describe a run")
    with pytest.raises(ValueError, match=rf"run.json.*{words}"):
        sc.Trace.load(tmp_path / "run")
    with pytest.raises(ValueError, match=words):
        sc.resume(tmp_path / "run", TARGET)


def test_what_goes_on_must_be_a_resumer(tmp_path):
    begin(tmp_path / "run")
    content = read_description(tmp_path / "run").to_json() | {"resumer": "scirocco.samplers.sgld:SGLD"}
    checkpoint.write_json(tmp_path / "run" / "run.json", content)
    with pytest.raises(ValueError, match="cannot go on with a run"):
        sc.resume(tmp_path / "run", TARGET)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_seconds": -1}, "max_seconds must be positive"),
        ({"max_seconds": float("nan")}, "max_seconds must be positive"),
        ({"max_seconds": True}, "max_seconds must be positive"),
        ({"checkpoint_seconds": -1}, "checkpoint_seconds must not be negative"),
        ({"workers": 0}, "workers must be"),
        ({"progress": "yes"}, "progress must be True or False"),
        ({"report": 1}, "report must be True or False"),
        ({"threads": 2}, "a run of sample has no threads: leave it out"),
    ],
)
def test_options_are_checked_when_a_run_goes_on(options, words, tmp_path):
    begin(tmp_path / "run")
    with pytest.raises((ValueError, TypeError), match=words):
        sc.resume(tmp_path / "run", TARGET, **options)


# What resume is given is used, and is from then on the run's.


@pytest.mark.parametrize("kind", ["dirichlet", "topics"])
def test_options_given_to_resume_are_those_of_the_run(kind, tmp_path, monkeypatch):
    if kind == "dirichlet":
        sc.sample_dirichlet(CODES, 0.1, sc.SCIR(0.1), num_samples=5, path=tmp_path / "run")
        data = CODES
    else:
        sc.LDA(3, max_iter=8, n_chains=2, n_jobs=1, random_state=0).fit(COUNTS, path=tmp_path / "run")
        data = COUNTS
    shown, used = [], []
    real = runner.Progress
    monkeypatch.setattr(runner, "Progress", lambda show: shown.append(show) or real(False))
    pool = runner.ThreadPoolExecutor
    monkeypatch.setattr(runner, "ThreadPoolExecutor", lambda n, **names: used.append(n) or pool(n, **names))
    sc.resume(tmp_path / "run", data, workers=2, progress=True, max_seconds=50.0, checkpoint_seconds=7.0)
    assert (shown, used) == ([True], [2])
    expected = RunOptions(50.0, 7.0, True, 2)
    assert read_description(tmp_path / "run").options == expected
    sc.resume(tmp_path / "run", data)
    assert (shown, used) == ([True, True], [2, 2])
    assert read_description(tmp_path / "run").options == expected


# Numbers of chains.


def interrupted_after(monkeypatch, turns):
    """Ctrl-C after so many turns of groups."""
    turn, made = group.Group.turn, []

    def counted(self, *given):
        turn(self, *given)
        made.append(self)
        if len(made) == turns:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(group.Group, "turn", counted)


def shifted(rows):
    """Shard s of four has rows around 10 s."""
    return rows + np.float32(10) * np.arange(len(rows), dtype=np.float32)[:, None] % 40


@pytest.mark.parametrize("disk", [False, True])
def test_shards_of_a_run_that_stops_early_are_not_mixed_up(disk, tmp_path, monkeypatch):
    target = sc.Target(log_prior, log_likelihood, shifted(X))
    settings = {"shards": 4, "chains": 2, "num_samples": 40, "burn_in": 0, "batch_size": 50}
    path = tmp_path / "run" if disk else None
    with monkeypatch.context() as patched:
        interrupted_after(patched, 2)
        stopped = sc.sample_shards(target, sc.SGLD(1e-2), jnp.zeros(2), path=path, **settings)
    assert stopped.trace.stopped.kind == "interrupted"
    assert stopped.trace.posterior["chain"].values.tolist() == [0, 1, 2, 3]
    found = [stopped]
    if disk:
        with pytest.raises(ValueError, match=r"posteriors of shards.*Sharded\.load"):
            sc.Trace.load(path)
        found.append(sc.Sharded.load(path, target))
    for sharded in found:
        assert sharded.missing == [2, 3]
        assert float(sharded.shard(1)["theta"].mean()) == pytest.approx(11.5, abs=2)
        assert sharded.shard(1)["chain"].values.tolist() == [2, 3]
        with pytest.raises(ValueError, match=r"shard 2 has no draws yet \(interrupted at step"):
            sharded.shard(2)
        with pytest.raises(ValueError, match=r"shards 2, 3 of 4 have no draws yet"):
            _ = sharded.draws
        assert "of which 2, 3 have no draws" in str(sharded)
    if disk:
        whole = sc.resume(path, target)
        assert whole.missing == []
        again = sc.Sharded.load(path, target)
        np.testing.assert_array_equal(again.draws["theta"], whole.draws["theta"])
        with pytest.raises(ValueError, match=r"use scirocco\.Sharded\.load"):
            sc.Trace.load(path)
        begin(tmp_path / "other")
        with pytest.raises(ValueError, match="holds no run of sample_shards"):
            sc.Sharded.load(tmp_path / "other", TARGET)


@pytest.mark.parametrize("disk", [False, True])
def test_chains_keep_their_numbers(disk, tmp_path, monkeypatch):
    path = tmp_path / "run" if disk else None
    with monkeypatch.context() as patched:
        interrupted_after(patched, 1)
        some = begin(path, chains=3, group_size=1, burn_in=0, num_samples=60)
    assert some.posterior["chain"].values.tolist() == some.chains == [0]
    some.save(tmp_path / "saved")
    assert sc.Trace.load(tmp_path / "saved").chains == [0]
    middle = sc.Trace({"x": np.zeros((2, 5))}, 5, some.moments.__class__(), chains=[1, 4])
    middle.save(tmp_path / "middle")
    back = sc.Trace.load(tmp_path / "middle")
    assert back.posterior["chain"].values.tolist() == [1, 4]
    np.testing.assert_array_equal(back.posterior["x"].sel(chain=4), np.zeros(5))


# Collected quantities.


def test_what_is_collected_under_a_parameters_name_is_its_own_quantity(tmp_path):
    target = sc.Target(lambda p: log_prior(p["a"]), lambda p, x: log_likelihood(p["a"], x), X)
    settings = {"num_samples": 50, "burn_in": 10, "batch_size": 20, "chains": 2, "report": False}
    trace = sc.sample(
        target, sc.SGLD(1e-3), {"a": jnp.zeros(2)}, collect=lambda p: {"a": jnp.exp(p["a"])}, path=tmp_path / "run",
        **settings,
    )  # fmt: skip
    again = sc.Trace.load(tmp_path / "run")
    np.testing.assert_array_equal(again.posterior["a"], trace.posterior["a"])
    assert np.all(again.posterior["a"].values > 0)
    np.testing.assert_array_equal(again.mean["a"], trace.mean["a"])


NAMES = {"stats__a": (), "gradient__a": (), "a": (3,), "a_dim_0": (), "b": (1,)}


@pytest.mark.parametrize("disk", [False, True])
def test_no_parameter_vanishes(disk, tmp_path):
    start = {name: jnp.zeros(shape) for name, shape in NAMES.items()}

    def prior(p):
        return sum(log_prior(leaf) for leaf in p.values())

    target = sc.Target(prior, lambda p, x: log_likelihood(p["b"], x), X)
    path = tmp_path / "run" if disk else None
    trace = sc.sample(
        target, sc.SGLD(1e-3), start, num_samples=5, burn_in=0, batch_size=20, chains=2, path=path, report=False
    )
    assert set(trace.posterior.data_vars) == set(NAMES)
    assert trace.gradients is None
    assert trace.posterior["a"].shape == (2, 5, 3)
    assert set(trace.sample_stats.data_vars) == {"step_size", "gradient_norm"}
    trace.save(tmp_path / "saved")
    assert set(sc.Trace.load(tmp_path / "saved").posterior.data_vars) == set(NAMES)


def test_a_name_that_is_stored_already_is_refused():
    target = sc.Target(lambda p: log_prior(p["stats__step_size"]), lambda p, x: 0.0 * x[0], X)
    with pytest.raises(ValueError, match="stats__step_size is the name of something that is stored with the draws"):
        sc.sample(target, sc.SGLD(1e-3), {"stats__step_size": jnp.zeros(2)}, num_samples=5, batch_size=20)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        (".", lambda p: p), ("zarr.json", lambda p: p), ("__x", lambda p: p),
        ("half", lambda p: p.astype(jnp.bfloat16)), ("wave", lambda p: p + 1j),
    ],
)  # fmt: skip
def test_what_no_file_can_hold_is_refused_before_any_work(name, make, tmp_path):
    options = {"num_samples": 5, "burn_in": 0, "batch_size": 20, "report": False}

    def collect(p):
        return {name: make(p)}

    held = sc.sample(TARGET, sc.SGLD(1e-3), jnp.zeros(2), collect=collect, **options)
    assert name in held.posterior
    with pytest.raises(ValueError, match="cannot be stored on disk"):
        sc.sample(TARGET, sc.SGLD(1e-3), jnp.zeros(2), collect=collect, path=tmp_path / "run", **options)
    assert not (tmp_path / "run" / "draws.zarr").exists()


def test_a_parameter_without_entries_is_stored(tmp_path):
    target = sc.Target(lambda p: log_prior(p["a"]), lambda p, x: log_likelihood(p["a"], x), X)
    trace = sc.sample(
        target, sc.SGLD(1e-3), {"a": jnp.zeros(2), "none": jnp.zeros((0, 3))}, num_samples=5, burn_in=0, batch_size=20,
        path=tmp_path / "run", report=False,
    )  # fmt: skip
    assert trace.posterior["none"].shape == (4, 5, 0, 3)
    assert sc.resume(tmp_path / "run", target, num_samples=9).posterior["none"].shape == (4, 9, 0, 3)


# Moments.


@pytest.mark.parametrize("kind", ["gradient", "codes"])
def test_moments_are_the_same_to_the_bit_whatever_the_chunks(kind, tmp_path, monkeypatch):
    from scirocco.counts import engine as counts
    from scirocco.gradient import engine as gradient
    from scirocco.gradient import loop

    for module in (gradient, loop, counts):
        monkeypatch.setattr(module, "SUMMED", 64)

    def once(length, path=None, draws=300):
        monkeypatch.setattr(group, "next_length", lambda *_: length)
        if kind == "gradient":
            return begin(path, num_samples=draws, thin=3, burn_in=20)
        return sc.sample_dirichlet(
            CODES, 0.1, sc.SCIR(0.1), batch_size=50, num_samples=draws, burn_in=20, thin=3, path=path, chains=2
        )

    whole = once(10**6)
    name = next(iter(whole.mean))
    for length in (7, 100):
        other = once(length)
        np.testing.assert_array_equal(other.mean[name], whole.mean[name])
        np.testing.assert_array_equal(other.variance[name], whole.variance[name])
    once(13, tmp_path / "run", draws=170)
    longer = sc.resume(tmp_path / "run", TARGET if kind == "gradient" else CODES, num_samples=300)
    np.testing.assert_array_equal(longer.mean[name], whole.mean[name])
    np.testing.assert_array_equal(longer.variance[name], whole.variance[name])
    np.testing.assert_allclose(whole.mean[name], whole.posterior[name].mean(("chain", "draw")), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("collect", [None, False])
def test_a_run_that_is_not_finished_has_the_moments_of_its_draws(collect, tmp_path, monkeypatch):
    whole = begin(None, num_samples=1000, collect=collect)
    seen = []
    turn = group.Group.turn

    def looked(self, *given):
        turn(self, *given)
        self.save(given[0])
        if 0 < self.count < 1000:
            seen.append(sc.Trace.load(tmp_path / "run"))

    monkeypatch.setattr(group.Group, "turn", looked)
    monkeypatch.setattr(group, "next_length", lambda *_: 300)
    begin(tmp_path / "run", num_samples=1000, collect=collect)
    early = seen[0]
    assert early.stopped.kind == "unfinished"
    assert early.moments.count == early.count
    if collect is None:
        np.testing.assert_allclose(early.mean["theta"], early.posterior["theta"].mean(("chain", "draw")), rtol=1e-5)
    assert early.moments.mean["theta"].shape == whole.moments.mean["theta"].shape
    assert not early.summary().table.empty


def test_an_error_in_a_chunk_keeps_the_moments_before_it(monkeypatch):
    from scirocco.gradient.engine import GradientEngine

    step, calls = GradientEngine._run, []

    def failing(self, *given):
        calls.append(1)
        if len(calls) == 4:
            raise MemoryError("no room")
        return step(self, *given)

    monkeypatch.setattr(GradientEngine, "_run", failing)
    monkeypatch.setattr(group, "next_length", lambda *_: 64)
    for collect in (None, False):
        calls.clear()
        with pytest.raises(MemoryError) as caught:
            begin(None, num_samples=1000, collect=collect)
        trace = caught.value.trace
        assert trace.count == trace.moments.count == 2 * 64
        assert np.isfinite(trace.mean["theta"]).all()


def test_a_divergence_without_a_snapshot_does_not_spoil_the_moments(monkeypatch):
    from scirocco.gradient import engine

    monkeypatch.setattr(engine, "SNAPSHOT_BYTES", 0)
    target = sc.Target(lambda m: 0.0 * jnp.sum(m), lambda m, x: jnp.sum(m**4) / 100, X)
    with pytest.raises(sc.DivergenceError) as caught:
        sc.sample(target, sc.SGLD(1e-3), jnp.ones(2), num_samples=5000, burn_in=0, batch_size=20, report=False)
    assert all(np.isfinite(mean).all() for mean in caught.value.trace.mean.values())


def test_groups_without_a_checkpoint_start_where_the_run_was_told_to(tmp_path, monkeypatch):
    """Killed between the first checkpoints of two groups: the others must not start at zeros."""
    settings = {"chains": 2, "group_size": 1, "num_samples": 20, "burn_in": 0, "batch_size": 20, "report": False}
    whole = sc.sample(TARGET, sc.SGLD(1e-5), jnp.full(2, 5.0), **settings)
    save, calls = group.Group.save, []

    def killing(self, *given, **named):
        calls.append(1)
        if len(calls) == 2:
            raise SystemExit
        save(self, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(group.Group, "save", killing)
        with pytest.raises(SystemExit):
            sc.sample(TARGET, sc.SGLD(1e-5), jnp.full(2, 5.0), path=tmp_path / "run", **settings)
    assert sorted(p.name for p in (tmp_path / "run").glob("chains-*")) == ["chains-0"]
    again = sc.resume(tmp_path / "run", TARGET)
    np.testing.assert_array_equal(again.posterior["theta"], whole.posterior["theta"])


def test_a_collect_function_that_fails_costs_no_draw(tmp_path):
    calls = []

    def collect(omega):
        calls.append(1)
        if len(calls) == 40:
            raise ValueError("once")
        return omega[0]

    settings = {"batch_size": 50, "num_samples": 100, "burn_in": 10, "chains": 1}
    whole = sc.sample_dirichlet(CODES, 0.1, sc.SCIR(0.1), collect=lambda omega: omega[0], **settings)
    with pytest.raises(ValueError, match="once"):
        sc.sample_dirichlet(CODES, 0.1, sc.SCIR(0.1), collect=collect, path=tmp_path / "run", **settings)
    again = sc.resume(tmp_path / "run", CODES, collect=collect)
    np.testing.assert_array_equal(again.posterior["value"], whole.posterior["value"])
    np.testing.assert_array_equal(again.mean["omega"], whole.mean["omega"])


def test_a_store_that_fails_costs_neither_draws_nor_moments(tmp_path, monkeypatch):
    from scirocco.run.store import ZarrStore

    whole = begin(None, num_samples=400)
    append, calls = ZarrStore.append, []

    def failing(self, draws):
        calls.append(1)
        if len(calls) == 3:
            raise OSError("the disk is gone")
        append(self, draws)

    with monkeypatch.context() as patched:
        patched.setattr(ZarrStore, "append", failing)
        patched.setattr(group, "next_length", lambda *_: 64)
        with pytest.raises(OSError, match="the disk is gone"):
            begin(tmp_path / "run", num_samples=400)
    again = sc.resume(tmp_path / "run", TARGET)
    np.testing.assert_array_equal(again.posterior["theta"], whole.posterior["theta"])
    np.testing.assert_array_equal(again.mean["theta"], whole.mean["theta"])


def test_a_report_is_that_of_the_draws_beside_it(tmp_path):
    assert begin(tmp_path / "run", num_samples=2000, report=True).bias is not None
    assert sc.resume(tmp_path / "run", TARGET, num_samples=2100, report=False).bias is None


def test_numbers_of_numpy_are_numbers(tmp_path):
    trace = begin(
        tmp_path / "run", workers=np.int64(1), report=np.bool_(False), max_seconds=np.int64(50),
        checkpoint_seconds=np.float32(5),
    )  # fmt: skip
    assert trace.description.options == RunOptions(50, 5.0, None, 1, report=False)


def test_shards_have_no_report_and_their_saved_trace_loads(tmp_path):
    target = sc.Target(log_prior, log_likelihood, shifted(X))
    settings = {"shards": 2, "chains": 1, "num_samples": 200, "burn_in": 0, "batch_size": 50}
    found = sc.sample_shards(target, sc.SGLD(1e-3), jnp.zeros(2), path=tmp_path / "run", **settings)
    assert sc.resume(tmp_path / "run", target, num_samples=210, report=True).trace.bias is None
    memory = sc.sample_shards(target, sc.SGLD(1e-3), jnp.zeros(2), **settings)
    memory.trace.save(tmp_path / "saved")
    back = sc.Sharded.load(tmp_path / "saved", target)
    np.testing.assert_array_equal(back.shard(1)["theta"], memory.shard(1)["theta"])
    np.testing.assert_array_equal(back.shard(1)["theta"], found.shard(1)["theta"])


# The user's files.


def test_a_saved_trace_replaces_nothing_but_a_saved_trace(tmp_path):
    trace = begin(None)
    trace.save(tmp_path / "t")
    trace.save(tmp_path / "t")
    (tmp_path / "t" / "notes.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match=r"holds 'notes.txt', which is no part of a trace; it is left alone"):
        trace.save(tmp_path / "t")
    assert (tmp_path / "t" / "notes.txt").read_text() == "years of work"
    assert sc.Trace.load(tmp_path / "t").count == 100
    (tmp_path / "link").symlink_to(tmp_path / "t")
    with pytest.raises(FileExistsError, match="is not a folder; it is left alone"):
        trace.save(tmp_path / "link")
    assert not list(tmp_path.glob(".*"))


# Signals.


def test_a_fit_in_another_thread_does_not_disarm_the_main_one():
    inside, done = threading.Event(), threading.Event()
    seen = []

    def work():
        with Interrupt() as own:
            inside.set()
            done.wait(30)
            seen.append(own.asked)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(30)
    with Interrupt() as main:
        signal.raise_signal(signal.SIGINT)
        assert main.asked
        with pytest.raises(KeyboardInterrupt):
            poll()
    done.set()
    thread.join(30)
    assert seen == [True]  # Ctrl-C is for everything that goes on
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.fixture
def ended():
    """The calls of a handler of SIGTERM of the user's own."""
    calls = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: calls.append(number))
    yield calls
    signal.signal(signal.SIGTERM, before)


def test_sigterm_is_obeyed_at_the_next_border_and_then_takes_its_course(tmp_path, monkeypatch, ended):
    turn, made = group.Group.turn, []

    def counted(self, *given):
        turn(self, *given)
        made.append(1)
        if len(made) == 2:
            signal.raise_signal(signal.SIGTERM)
            assert not ended

    monkeypatch.setattr(group.Group, "turn", counted)
    trace = begin(tmp_path / "run", num_samples=10**6, collect=False)
    assert trace.stopped.kind == "terminated"
    assert ended == [signal.SIGTERM]
    assert len(made) == 2
    assert sc.Trace.load(tmp_path / "run").stopped == trace.stopped


def test_ctrl_c_after_sigterm_stops_at_once_and_the_signal_still_takes_its_course(ended):
    with Interrupt() as interrupt:
        signal.raise_signal(signal.SIGTERM)
        assert interrupt.request == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert not ended
    assert ended == [signal.SIGTERM]


def test_an_ignored_ctrl_c_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Interrupt() as interrupt:
        signal.raise_signal(signal.SIGINT)
        assert not interrupt.asked
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_stop_has_a_kind_and_words():
    assert str(Stop("budget", "the time was used up")) == "the time was used up"
    with pytest.raises(ValueError, match="chains must be"):
        Settings(0, 0)


@pytest.mark.parametrize("kind", ["topics", "mixture", "regression"])
def test_ctrl_c_before_the_first_step_of_a_fit_is_not_lost(kind, monkeypatch):
    """It is noted from the first line of ``fit`` on: it neither raises where it may be swallowed nor goes unheard."""
    from sklearn.utils import validation

    module = {"topics": "lda.estimator", "mixture": "dp_mixture.estimator", "regression": "logistic"}[kind]
    real, seen = validation.validate_data, []

    def pressing(*given, **named):
        if not seen:
            seen.append(signal.raise_signal(signal.SIGINT))
        return real(*given, **named)

    monkeypatch.setattr(f"scirocco.models.{module}.validate_data", pressing)
    if kind == "regression":
        model = sc.LogisticRegression(sampler=sc.SGLD(1e-3), n_draws=10**6, random_state=0)
        with pytest.raises(ValueError, match=r"the run ended before its first draw.*interrupted at step 0"):
            model.fit(X, X[:, 0] > 2)
    else:
        kinds = {"topics": lambda: sc.LDA(3, random_state=0), "mixture": sc.DirichletProcessMixture}
        with pytest.warns(UserWarning, match="fit was interrupted|before the sampler began"):
            model = kinds[kind]().fit(COUNTS)
        assert model.trace_.stopped.kind == "interrupted"
    assert len(seen) == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
