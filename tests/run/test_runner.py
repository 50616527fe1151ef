"""What the runner owns: groups, budgets, statistics, Ctrl-C."""

from __future__ import annotations

import signal
import threading
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.counts.engine import DirichletEngine
from scirocco.gradient.engine import GradientEngine
from scirocco.models.lda.start.em import StochasticEM
from scirocco.models.lda.start.race import Race
from scirocco.run import group
from scirocco.run.moments import Sums

X = np.random.default_rng(0).normal(2.0, 1.0, (200, 2)).astype(np.float32)


def log_prior(m):
    return -0.5 * jnp.sum(m**2)


def log_likelihood(m, x):
    return -0.5 * jnp.sum((x - m) ** 2)


TARGET = sc.Target(log_prior, log_likelihood, X)
FAST = {"num_samples": 200, "burn_in": 50, "batch_size": 20, "report": False}
SAMPLER = sc.SGHMC(0.01, friction=5.0)


def theta(trace):
    return trace.posterior["theta"].values


# Groups.


@pytest.mark.quick
def test_a_group_does_not_depend_on_the_others():
    """Chains 2 and 3 are the same to the bit alone with each other, after or beside two others, and in any order."""
    four = sc.sample(TARGET, SAMPLER, jnp.zeros(2), chains=4, group_size=2, **FAST)
    beside = sc.sample(TARGET, SAMPLER, jnp.zeros(2), chains=4, group_size=2, workers=2, **FAST)
    six = sc.sample(TARGET, SAMPLER, jnp.zeros(2), chains=6, group_size=2, **FAST)
    np.testing.assert_array_equal(theta(four), theta(beside))
    np.testing.assert_array_equal(theta(four), theta(six)[:4])
    np.testing.assert_allclose(four.mean["theta"], beside.mean["theta"], rtol=1e-6)


def test_another_size_of_groups_is_the_same_up_to_rounding():
    """Vectorised programs may add in another order: the first draws agree to the precision of float32."""
    short = {"num_samples": 20, "burn_in": 0, "batch_size": 20, "chains": 4, "report": False}
    together = theta(sc.sample(TARGET, SAMPLER, jnp.zeros(2), **short))
    apart = theta(sc.sample(TARGET, SAMPLER, jnp.zeros(2), group_size=1, **short))
    np.testing.assert_allclose(together, apart, rtol=1e-4, atol=1e-5)


def test_chains_of_counts_and_topics_do_not_depend_on_each_other():
    codes = np.random.default_rng(0).integers(0, 9, 1000)
    three, two = (
        sc.sample_dirichlet(codes, 0.1, sc.SCIR(0.1), batch_size=50, num_samples=50, chains=n, workers=w)
        for n, w in ((3, 2), (2, 1))
    )
    np.testing.assert_array_equal(three.posterior["omega"][:2], two.posterior["omega"])
    counts = np.random.default_rng(0).poisson(0.4, (80, 30))
    beside, alone = (sc.LDA(3, max_iter=12, n_chains=n, n_jobs=n, random_state=0).fit(counts) for n in (2, 1))
    np.testing.assert_array_equal(beside.posterior_["topics"][0], alone.posterior_["topics"][0])


def test_counting_draws_leaves_alone_what_a_program_was_given(monkeypatch):
    """The sums of the newest draws are the program's while it runs: whoever reads them then may find them deleted."""
    settings = FAST | {"num_samples": 300, "chains": 2, "group_size": 1, "collect": False}
    alone = sc.sample(TARGET, SAMPLER, jnp.zeros(2), **settings)
    program, pending, count = GradientEngine._run, GradientEngine.pending, group.Group.count
    running, counts, counted = set(), [], threading.Event()

    def until_counted(self, *given):
        if self.chains.start == 1 and self.pending_count and not counted.is_set():
            running.add(self)
            assert counted.wait(60), "nobody asked while the program ran"
        try:
            return program(self, *given)
        finally:
            running.discard(self)

    def whose(self):
        assert self not in running, "the program has them"
        return pending.fget(self)

    def asked(self):
        during = self.engine in running
        try:
            found = count.fget(self)
        finally:
            if during:
                counted.set()
        if during:
            counts.append(found)
        return found

    monkeypatch.setattr(group, "next_length", lambda *_: 64)
    monkeypatch.setattr(GradientEngine, "_run", until_counted)
    monkeypatch.setattr(GradientEngine, "pending", property(whose))
    monkeypatch.setattr(group.Group, "count", property(asked))
    beside = sc.sample(TARGET, SAMPLER, jnp.zeros(2), workers=2, **settings)
    assert set(counts) == {64}  # those of the chunks before
    assert beside.count == alone.count == 300
    np.testing.assert_array_equal(beside.mean["theta"], alone.mean["theta"])


def test_sums_that_are_handed_over_while_somebody_counts_them():
    looks = [Sums(5, {}, {}, {}), None]

    class Advancing:
        """An engine whose sums are complete after the first look at them."""

        pending = property(lambda self: looks.pop(0))

    assert DirichletEngine.pending_count.fget(Advancing()) == 5


# Budgets.


@pytest.mark.parametrize("kind", ["gradient", "dirichlet", "model"])
def test_a_budget_of_seconds_ends_a_run_with_what_it_has(kind, tmp_path, ticking):
    ticking(0.02)
    if kind == "gradient":
        options = {"burn_in": 10, "batch_size": 20, "chains": 2, "path": tmp_path / "run", "report": False}
        trace = sc.sample(TARGET, SAMPLER, jnp.zeros(2), num_samples=10**8, collect=False, max_seconds=0.7, **options)
    elif kind == "dirichlet":
        codes = np.random.default_rng(0).integers(0, 9, 1000)
        options = {"num_samples": 10**7, "burn_in": 10, "collect": False}
        trace = sc.sample_dirichlet(codes, 0.1, sc.SCIR(0.1), max_seconds=0.7, **options)
    else:
        model = sc.LogisticRegression(sampler=sc.SGLD(1e-3), n_draws=10**6, max_seconds=0.7, random_state=0)
        trace = model.fit(X, X[:, 0] > 2).trace_
    assert trace.stopped.text.startswith("the time budget of 0.7 s was used up at step")
    assert 0 < trace.count < 10**6 if kind == "model" else 0 < trace.count < 10**8
    assert 0.7 <= trace.seconds < 1.0
    if kind == "gradient":
        longer = sc.resume(tmp_path / "run", TARGET, max_seconds=1.4)
        assert longer.count > trace.count
        assert longer.seconds >= 1.4


# Statistics.


def test_steps_say_what_they_did():
    thermostat = sc.SGNHT(0.01, diffusion=5.0, temperature=2.0)
    trace = sc.sample(
        TARGET,
        thermostat,
        jnp.full(2, 2.0),
        num_samples=3000,
        burn_in=2000,
        thin=3,
        chains=3,
        batch_size=100,
        report=False,
    )
    stats = trace.sample_stats
    assert set(stats) == {"step_size", "gradient_norm", "kinetic_energy", "thermostat"}
    assert stats["kinetic_energy"].shape == (3, 3000)
    np.testing.assert_allclose(stats["step_size"], 0.01, rtol=1e-6)
    assert float(stats["kinetic_energy"].mean()) == pytest.approx(1.0, rel=0.2)  # T/2 a coordinate
    assert float(stats["gradient_norm"].min()) > 0
    assert "sample_stats" in trace.to_arviz()
    assert not sc.sample(TARGET, SAMPLER, jnp.zeros(2), collect=False, **FAST).sample_stats


def test_the_gradient_norm_is_that_of_the_step():
    """Full batches: a draw of SGLD is its step away from the one before, plus noise of a known size."""
    h = 1e-6
    trace = sc.sample(TARGET, sc.SGLD(h), jnp.ones(2), num_samples=50, burn_in=0, batch_size=1.0, chains=1)
    before = np.concatenate([np.ones((1, 2), np.float32), theta(trace)[0, :-1]])
    gradients = 201 * before - X.sum(axis=0)
    np.testing.assert_allclose(trace.sample_stats["gradient_norm"][0], np.linalg.norm(gradients, axis=1), rtol=1e-3)


# Ctrl-C.


class Press:
    """A log prior that presses Ctrl-C when it is traced for the ``when``-th time: while something is compiled."""

    def __init__(self, when):
        self.when, self.calls = when, 0

    def __call__(self, m):
        self.calls += 1
        if self.calls == self.when:
            signal.raise_signal(signal.SIGINT)
        return -0.5 * jnp.sum(m**2)


@pytest.mark.parametrize("when", [1, 2, 3, 4, 5, 6])
def test_ctrl_c_while_compiling_is_not_lost(when):
    press = Press(when)
    target = sc.Target(press, log_likelihood, X)
    trace = sc.sample(target, SAMPLER, jnp.zeros(2), num_samples=10**5, batch_size=20, chains=1, collect=False)
    assert press.calls >= when
    assert trace.stopped.kind == "interrupted"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("when", [2, 5, 9])
def test_ctrl_c_while_tuning_is_not_lost(when, tmp_path):
    press = Press(when)
    target = sc.Target(press, log_likelihood, X)
    try:
        trace = sc.sample(target, sc.SGLD("auto"), jnp.zeros(2), num_samples=100, batch_size=20, path=tmp_path / "run")
    except KeyboardInterrupt:
        pass
    else:  # it came when the tuning was as good as done
        assert trace.stopped.kind == "interrupted"
    assert press.calls >= when
    press.when = -1
    assert sc.resume(tmp_path / "run", target).count == 100
    with pytest.raises(KeyboardInterrupt):
        sc.tune(sc.Target(Press(2), log_likelihood, X), sc.SGLD("auto"), jnp.zeros(2), batch_size=20)


@pytest.mark.parametrize(("sampler", "search"), [("gibbs", Race), ("scir", StochasticEM)])
def test_ctrl_c_reaches_topics(monkeypatch, sampler, search, ticking):
    ticking(0.5)  # chunks of one step, as on a large corpus
    step, calls = search.step, []

    def pressing(*given):
        calls.append(1)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        step(*given)

    monkeypatch.setattr(search, "step", pressing)
    counts = np.random.default_rng(0).poisson(0.4, (80, 30))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = sc.LDA(3, sampler=sampler, max_iter=10**6, search_passes=10**5, random_state=0).fit(counts)
    assert any("fit was interrupted" in str(w.message) for w in caught)
    assert any("before the sampler began" in str(w.message) for w in caught)
    assert len(calls) < 10
    np.testing.assert_allclose(model.components_.sum(axis=1), 1, rtol=1e-6)


def test_a_second_ctrl_c_stops_at_once():
    from scirocco.core.interrupt import Interrupt, poll

    with Interrupt() as outer, Interrupt() as inner:
        signal.raise_signal(signal.SIGINT)
        assert outer.asked
        assert inner.asked
        with pytest.raises(KeyboardInterrupt):
            poll()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    poll()  # nothing is asked any more


# Describing.


def test_names_of_parameters_mean_nothing_to_a_checkpoint(tmp_path):
    start = {"opaque": jnp.zeros(2), "dict": jnp.zeros(())}
    target = sc.Target(
        lambda p: log_prior(p["opaque"]) - p["dict"] ** 2, lambda p, x: log_likelihood(p["opaque"], x), X
    )
    sc.sample(target, sc.SGLD(1e-3), start, path=tmp_path / "run", chains=1, **FAST)
    longer = sc.resume(tmp_path / "run", target, num_samples=250)
    assert longer.count == 250


def test_variables_keep_their_order_on_disk(tmp_path):
    def collect(m):
        return {"z": m[0], "a": m[1], "m": m}

    memory = sc.sample(TARGET, SAMPLER, jnp.zeros(2), collect=collect, chains=1, **FAST)
    disk = sc.sample(TARGET, SAMPLER, jnp.zeros(2), collect=collect, chains=1, path=tmp_path / "run", **FAST)
    assert list(memory.posterior) == list(disk.posterior) == list(sc.Trace.load(tmp_path / "run").posterior)


def test_resume_of_codes_refuses_what_it_would_ignore(tmp_path):
    codes = np.random.default_rng(0).integers(0, 9, 1000)
    sc.sample_dirichlet(codes, 0.1, sc.SCIR(0.1), num_samples=5, threads=1, path=tmp_path / "run")
    with pytest.raises(TypeError, match="or a CountEstimator"):
        sc.resume(tmp_path / "run", codes, estimator=sc.Plain())
    for name, value in (("initial", np.ones(9)), ("blocks", [sc.Block("a", print)])):
        with pytest.raises(ValueError, match=f"has no {name}: leave it out"):
            sc.resume(tmp_path / "run", codes, **{name: value})
    assert sc.resume(tmp_path / "run", codes, num_samples=9).description.options.threads == 1
    with pytest.raises(ValueError, match="leave y out"):
        sc.resume(tmp_path / "run", codes, codes)


# Compiled once.


def test_a_second_run_compiles_nothing(compiled):
    """Other data, numbers and seeds, the same functions, shapes and kinds of parts."""

    def likelihood(mean, x):  # of this test alone: no other has compiled programs with it
        return log_likelihood(mean, x)

    def once(shift, h, seed, auto):
        target = sc.Target(log_prior, likelihood, X + np.float32(shift))
        sampler = sc.UnderdampedLangevin("auto") if auto else sc.SGHMC(h, friction=5 * h, temperature=1 + h)
        return sc.sample(target, sampler, jnp.full(2, h), num_samples=50 + seed, thin=2, batch_size=20, seed=seed)

    for auto in (False, True):
        once(0.0, 0.01, 0, auto)
        before = len(compiled)
        assert before > 0
        once(0.3, 0.02, 1, auto)
        assert len(compiled) == before


def test_other_strata_compile_nothing(compiled):
    """Strata are found anew for each seed: their sizes are arguments of the program."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 3)).astype(np.float32)
    target = sc.Target(log_prior, lambda w, row: -jax.nn.softplus(row[:2] @ w * jnp.sign(row[2])), x)
    found = []
    for seed in (0, 1):
        before = len(compiled)
        trace = sc.sample(
            target, sc.UnderdampedLangevin("auto"), jnp.zeros(2), num_samples=50, batch_size=100, seed=seed
        )  # fmt: skip
        found.append(trace.tuning.strata)
    assert len(compiled) == before > 0
    assert found[0] != found[1]
    assert len(found[0]) == len(found[1]) > 1
