"""``sample_dirichlet``: its laws, its report, its data, resuming, threads and wrong input."""

import ast

import numpy as np
import pytest
from scipy import stats

import scirocco as sc
from scirocco import theory
from scirocco.batches import Strata
from scirocco.bias.dirichlet import dirichlet_spread
from scirocco.counts.codes import CodeBlocks, Codes
from scirocco.counts.estimators import PlainCounts
from scirocco.counts.minibatches import FromDisk, InMemory
from scirocco.run import convergence
from scirocco.run.verdict import draws_for
from scirocco.simplex import Counts, Exact, Natural, Weights

COUNTS = np.array([800, 100, 100, 0, 0])
CODES = np.random.default_rng(0).permutation(np.repeat(np.arange(5), COUNTS))
PRIOR = np.full(5, 0.1)
PARAMETER = PRIOR + COUNTS


def run(sampler=None, **settings):
    options = {"batch_size": 10, "num_samples": 200, "burn_in": 50, "chains": 2, "seed": 3} | settings
    return sc.sample_dirichlet(CODES, PRIOR, sc.SCIR(0.1) if sampler is None else sampler, **options)


# Laws.


@pytest.mark.parametrize(
    ("sampler", "settings", "limit"),
    [
        (Exact(), {"batch_size": 1.0}, 0.03),
        (sc.SCIR(1.0), {"batch_size": 1.0}, 0.03),
        (sc.SCIR(1.0), {"batch_size": 50, "lazy": True}, None),
        (sc.SCIR(0.05), {"batch_size": 500, "thin": 10}, 0.06),
        (sc.SCIRCV(0.4), {"batch_size": 100, "thin": 3}, 0.06),
        (sc.SCIRCV(0.4, remove_bias=True), {"batch_size": 100, "thin": 3, "lazy": True}, 0.06),
    ],
)
def test_the_posterior_is_sampled(sampler, settings, limit):
    trace = run(sampler, num_samples=400, burn_in=100, chains=4, **settings)
    omega = trace.posterior["omega"].values
    assert np.allclose(omega.sum(axis=2), 1)
    distance = sc.diagnostics.ks_distance(omega, PARAMETER)
    assert distance < (limit or 0.2)
    if limit is None:  # so large a step inflates the dense components: the distance must show it
        assert distance > 0.08


@pytest.mark.parametrize("sampler", [sc.SCIR(0.1), sc.SCIRCV(0.5)], ids=["SCIR", "SCIRCV"])
def test_the_bias_report_predicts_the_inflation(sampler):
    trace = run(sampler, num_samples=6000, burn_in=100, chains=2, thin=1)
    exact = np.sqrt(stats.dirichlet(PARAMETER).var())
    found = np.sqrt(trace.variance["omega"]) / exact - 1
    predicted = trace.bias.sd_error["omega"]
    assert predicted[0] > 0.1
    np.testing.assert_allclose(1 + found[:3], 1 + predicted[:3], rtol=0.15)
    assert np.all(predicted[3:] == pytest.approx(0, abs=0.02))  # empty categories are exact
    assert not trace.verdict().good
    assert "noise from minibatches" in str(trace.summary())


def test_no_report_where_no_law_is_known():
    assert run(sc.SGRLD(0.01), report=False).bias is None


def test_samplers_without_a_law_are_compared_with_the_posterior():
    """SGRLD keeps rare categories far too large, with R-hat 1.00 (category codes with a weight of 0.1 each)."""
    wrong = run(sc.SGRLD(0.01))
    exact = stats.dirichlet(PARAMETER)
    off = np.abs(wrong.mean["omega"] - exact.mean()) / np.sqrt(exact.var())
    assert np.max(off) > 1
    found = wrong.verdict()
    assert found.kind == "do not use it"
    assert "sc.sample_dirichlet(codes, prior, sc.SCIRCV(" in found.action
    right = run(Exact(), batch_size=1.0)
    assert right.bias.accurate
    assert "do not" not in right.verdict().kind


def test_the_report_knows_the_noise_of_a_moving_centre():
    codes = np.random.default_rng(1).choice(4, 20_000, p=[0.4, 0.3, 0.2, 0.1])
    trace = sc.sample_dirichlet(
        codes, 0.5, sc.SCIRCV(0.2, recentre_every=50, centre_batch=400), batch_size=200, num_samples=6000, chains=2
    )
    exact = np.sqrt(stats.dirichlet(0.5 + np.bincount(codes)).var())
    found = np.sqrt(trace.variance["omega"]) / exact
    assert np.all(found > 2)
    np.testing.assert_allclose(1 + trace.bias.sd_error["omega"], found, rtol=0.3)


def test_the_report_knows_each_prior_and_an_error_of_the_centre():
    prior = np.array([0.1, 0.1, 0.1, 50.0, 0.1])
    trace = sc.sample_dirichlet(CODES, prior, sc.SCIRCV(0.5), batch_size=10, num_samples=6000, chains=2)
    found = np.sqrt(trace.variance["omega"] / stats.dirichlet(prior + COUNTS).var())
    np.testing.assert_allclose(1 + trace.bias.sd_error["omega"][:4], found[:4], rtol=0.15)
    off = run(sc.SCIRCV(0.2, centre=PARAMETER * np.array([1.2, 1, 1, 1, 1])), batch_size=500, num_samples=20)
    assert off.bias.sd_error["omega"][0] > 1


def test_the_default_is_accurate():
    trace = sc.sample_dirichlet(np.random.default_rng(1).integers(0, 5, 20_000), 1.0, num_samples=100)
    assert trace.bias.accurate


# Step sizes that are found.


def sd_ratio(trace, codes, prior):
    """Sampled over posterior sd of each category."""
    parameter = np.broadcast_to(prior, trace.mean["omega"].shape) + np.bincount(codes, minlength=PRIOR.size)
    return np.sqrt(trace.variance["omega"] / stats.dirichlet(parameter).var())


def again(trace, codes, prior):
    """Run what a verdict says to do next, read as a call of literals."""
    call = ast.parse(trace.verdict().action, mode="eval").body
    assert ast.unparse(call.func) == "sc.sample_dirichlet"
    assert [ast.unparse(arg) for arg in call.args[:2]] == ["codes", "prior"]
    named = call.args[2]
    if isinstance(named, ast.Call):
        kind = {"sc.SCIR": sc.SCIR, "sc.SCIRCV": sc.SCIRCV}[ast.unparse(named.func)]
        sampler = kind(**{k.arg: ast.literal_eval(k.value) for k in named.keywords})
    else:
        sampler = ast.literal_eval(named)
    return sc.sample_dirichlet(codes, prior, sampler, **{k.arg: ast.literal_eval(k.value) for k in call.keywords})


@pytest.mark.parametrize("sampler", [sc.SCIR("auto"), sc.SCIRCV("auto")], ids=["SCIR", "SCIRCV"])
@pytest.mark.parametrize("batching", ["independent", "with_replacement"])
def test_the_step_size_is_the_largest_that_the_law_allows(sampler, batching):
    found = run(sampler, num_samples=10, batching=batching).tuning
    form = "scir" if isinstance(sampler, sc.SCIR) else "alternative"
    error, larger = (
        np.max(theory.omega_law(COUNTS, PRIOR, 10, h, form, batching=batching).sd_error)
        for h in (found.step_size, 1.1 * found.step_size)
    )
    assert found.sd_error == pytest.approx(error, rel=0.01)
    assert error <= 0.03 < larger  # 60 % of 5 %
    less = run(type(sampler)(sc.Auto(sd_error=0.02)), num_samples=10, batching=batching).tuning
    assert less.limit == 0.02
    assert less.step_size < 0.6 * found.step_size


def test_chains_with_such_a_step_have_the_sds_that_were_foreseen():
    trace = run(sc.SCIRCV(sc.Auto(sd_error=0.3)), batch_size=20, num_samples=3000, thin=2)
    found, foreseen = sd_ratio(trace, CODES, PRIOR)[:3] - 1, trace.bias.sd_error["omega"][:3]
    assert trace.tuning.sd_error == pytest.approx(0.18, rel=0.05)
    assert np.max(foreseen) == pytest.approx(trace.tuning.sd_error, rel=1e-6)
    ess = convergence.ess(trace.posterior["omega"].values[:, :, :3], "sd")
    assert np.all(np.abs(found - foreseen) < 4.5 * (1 + foreseen) / np.sqrt(2 * ess))
    assert f"predicted error of the posterior sd: {trace.tuning.sd_error:.1%}" in str(trace.summary())
    wide = "sds are off by up to"
    assert any(wide in reason for reason in trace.verdict().reasons)  # and the rarest categories need more draws
    enough = run(sc.SCIRCV(sc.Auto(sd_error=0.3)), batch_size=20, num_samples=15_000, thin=2)
    assert "sc.Auto(sd_error=0.05)" in enough.verdict().action  # less than was asked for


def test_the_default_says_use_it_and_is_right():
    for codes, prior in ((CODES, 0.1), (np.repeat(np.arange(5), [4, 3, 2, 1, 1]), 1.0)):
        trace = sc.sample_dirichlet(codes, prior, categories=5)
        if prior == 0.1:  # of empty categories, which have most of their variance in rare draws, it has too few
            assert trace.verdict().kind == "run longer"
            trace = again(trace, codes, prior)
        assert trace.verdict().good, str(trace.verdict())
        parameter = prior + np.bincount(codes, minlength=5)
        exact = stats.dirichlet(parameter)
        off = (trace.mean["omega"] - exact.mean()) / np.sqrt(exact.var())
        assert np.max(np.abs(off)) < 4.5 / np.sqrt(3500)  # h = 5: draws are all but independent
        assert np.max(np.abs(sd_ratio(trace, codes, prior)[parameter > 1] - 1)) < 4.5 * np.sqrt(8 / 4 / 3500)


@pytest.mark.parametrize(
    ("sampler", "settings"),
    [
        (sc.SCIR("auto"), {"batch_size": 50}),  # mixes in thousands of steps
        (sc.SCIRCV("auto"), {"batch_size": 10, "num_samples": 20}),
        (sc.SCIRCV("auto"), {"batch_size": 200, "num_samples": 30, "batching": "with_replacement"}),
        (sc.SCIR(0.5), {"batch_size": 10}),  # far too wide
        (sc.SGRLD(0.01), {"batch_size": 10}),
        ("exact", {"num_samples": 30, "chains": 1, "batch_size": None}),
    ],
)
def test_what_the_verdict_says_to_do_ends_well(sampler, settings):
    trace = run(sampler, **settings)
    assert not trace.verdict().good
    longer = again(trace, CODES, PRIOR)
    assert longer.verdict().good, f"{trace.verdict().action}: {longer.verdict()}"
    assert np.all(np.abs(sd_ratio(longer, CODES, PRIOR)[:3] - 1) < 0.1)


def test_a_step_that_was_found_survives(tmp_path):
    sampler = sc.SCIRCV("auto", remove_bias=True)
    whole = run(sampler, num_samples=60)
    run(sampler, num_samples=25, path=tmp_path / "run")
    loaded = sc.Trace.load(tmp_path / "run")
    assert loaded.tuning == whole.tuning
    assert str(whole.tuning) in str(loaded.summary())
    resumed = sc.resume(tmp_path / "run", CODES, num_samples=60)
    np.testing.assert_array_equal(whole.posterior["omega"], resumed.posterior["omega"])
    assert resumed.tuning == whole.tuning
    whole.save(tmp_path / "saved")
    assert sc.Trace.load(tmp_path / "saved").tuning == whole.tuning


def test_a_run_that_was_killed_while_it_was_tuned_starts_again(tmp_path, monkeypatch):
    from scirocco.verbs import sample_dirichlet as verb

    with monkeypatch.context() as patched:
        patched.setattr(verb, "tune_simplex", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            sc.sample_dirichlet(CODES, PRIOR, num_samples=30, path=tmp_path / "run")
    resumed = sc.resume(tmp_path / "run", CODES)
    whole = sc.sample_dirichlet(CODES, PRIOR, num_samples=30)
    np.testing.assert_array_equal(whole.posterior["omega"], resumed.posterior["omega"])
    assert resumed.tuning.batch_size == 1000  # all of it, since nothing was said of minibatches


def test_a_stream_is_counted_or_estimated(tmp_path):
    np.save(tmp_path / "codes.npy", np.tile(CODES, 20))
    source = sc.batches.MemoryMapped(tmp_path / "codes.npy", block_bytes=40_000)
    settings = {"num_samples": 5, "burn_in": 5, "chains": 1}
    counted = sc.sample_dirichlet(source, PRIOR, **settings).tuning
    estimated = sc.sample_dirichlet(source, PRIOR, sc.SCIR("auto"), batch_size=400, **settings).tuning
    assert counted.counted
    assert counted.count == 20 * COUNTS[counted.category]
    assert not estimated.counted
    assert "estimated from a part" in str(estimated)
    known = sc.sample_dirichlet(np.load(tmp_path / "codes.npy"), PRIOR, sc.SCIR("auto"), batch_size=400, **settings)
    assert estimated.step_size == pytest.approx(known.tuning.step_size, rel=0.1)
    slow = sc.sample_dirichlet(source, PRIOR, sc.SCIR("auto"), **settings).tuning
    assert slow.batch_size == source.resident_rows > 200  # as many as there are at a time


def test_draws_are_as_far_apart_as_the_law_asks_for():
    """Effective draws are those that the correlation e^-h of a step foresees; other samplers record every step."""
    codes, settings = np.repeat(np.arange(4), [400, 300, 200, 100]), {"batch_size": 20, "report": False}
    trace = sc.sample_dirichlet(codes, 1.0, "scir_cv", **settings)
    h, thin = trace.tuning.step_size, trace.description.settings.thin
    assert 1 < thin < 200
    wanted = draws_for(4, 0.5, np.max(dirichlet_spread(1 + np.bincount(codes))))
    for between, enough in ((thin, True), (thin - 1, False)):
        assert (4000 * np.tanh(between * h / 2) >= wanted) == enough
    ess = convergence.ess(trace.posterior["omega"].values, "mean")
    np.testing.assert_allclose(ess, 4000 * np.tanh(thin * h / 2), rtol=0.25)
    fewer = sc.sample_dirichlet(codes, 1.0, "scir", num_samples=50, **settings)
    assert fewer.description.settings.thin == min(200, int(np.ceil(2.0 / fewer.tuning.step_size)))
    for sampler in (sc.SCIR(0.01), "exact"):
        every = sc.sample_dirichlet(codes, 1.0, sampler, num_samples=20, report=False)
        assert every.description.settings.thin == 1
    assert sc.sample_dirichlet(codes, 1.0, num_samples=20, thin=3, **settings).description.settings.thin == 3


@pytest.mark.parametrize(
    ("name", "kind"), [("scir", sc.SCIR), ("scir_cv", sc.SCIRCV), ("exact", Exact), (None, sc.SCIRCV)]
)
def test_samplers_have_names(name, kind):
    trace = sc.sample_dirichlet(CODES, PRIOR, name, num_samples=5, chains=2)
    assert trace.description.parts.sampler["type"].endswith(f":{kind.__name__}")
    assert trace.description.settings.batch_size == 1000
    assert (trace.tuning is None) == (kind is Exact)


def test_all_data_are_counted_once(monkeypatch):
    """The draws are those of counting them at every step."""
    from scirocco.counts import codes

    calls = []
    tallied = codes.Codes._tallied
    monkeypatch.setattr(codes.Codes, "_tallied", lambda *a: calls.append(a) or tallied(*a))
    once = run(sc.SCIR(0.5), batch_size=1.0, num_samples=20, report=False)
    assert len(calls) == 4  # two chains: their start, and all data
    monkeypatch.setattr(InMemory, "constant", False)
    anew = run(sc.SCIR(0.5), batch_size=1.0, num_samples=20, report=False)
    assert len(calls) > 100
    np.testing.assert_array_equal(once.posterior["omega"], anew.posterior["omega"])


def test_the_report_says_which_categories_have_control_variates():
    said = run(sc.SCIRCV(0.5), num_samples=10).bias.note
    assert (
        said == "control variates for 3 of 5 categories; the others, seen too rarely to gain by them, take plain steps"
    )
    main = run(sc.SCIRCV(0.5, form="main"), num_samples=10)
    assert "control variates for 1 of 5 categories; the others, for which the main form does not exist" in str(
        main.bias
    )
    every = sc.sample_dirichlet(CODES, PRIOR + 2, sc.SCIRCV(0.5, choose="always"), batch_size=500, num_samples=5)
    assert "control variates for all 5 categories" in str(every.summary())
    assert run(sc.SCIR(0.5), num_samples=10).bias.note == ""


@pytest.mark.parametrize("sampler", ["scir", "exact"])
def test_all_data_leave_no_bias_however_many_rare_categories(sampler):
    """The worst of 4,000 heavy tails is 5 % off in so few draws."""
    trace = sc.sample_dirichlet(CODES, 0.01, sampler, categories=4000, num_samples=100, burn_in=20, chains=2)
    assert trace.bias.worst[1] == pytest.approx(0, abs=1e-12)


def test_rare_categories_do_not_look_like_chains_that_differ():
    """Gamma(0.01) has a kurtosis of 600: variances of exact draws differ from chain to chain."""
    trace = sc.sample_dirichlet(CODES, 0.01, "exact", categories=40)
    variances = trace.moments.variance()["omega"][:, 10:]
    assert np.max(variances.std(axis=0, ddof=1) / variances.mean(axis=0)) > 0.5
    assert trace.bias.r_hat < 1.05


def test_a_centre_that_moves():
    trace = run(sc.SCIRCV(0.2, recentre_every=20, centre_batch=500), batch_size=100, num_samples=2000, chains=4)
    np.testing.assert_allclose(trace.mean["omega"][:3], PARAMETER[:3] / PARAMETER.sum(), rtol=0.03)


def test_a_centre_that_is_given():
    known = run(sc.SCIRCV(0.2), num_samples=20)
    given = run(sc.SCIRCV(0.2, centre=PARAMETER), num_samples=20)
    np.testing.assert_array_equal(known.posterior["omega"], given.posterior["omega"])


def test_the_main_form_is_taken_where_it_exists():
    weights = Weights(PRIOR, seed=1)
    centre = sc.SCIRCV(0.5, form="main").centre_at(weights, COUNTS[None].astype(float), 0.01)
    # P(a_hat <= 1) is 8.5e-8 for 800 of 1000 and 0.35 for 100.
    np.testing.assert_allclose(centre.parameter[:, 0], [800.1, 0, 0, 0, 0])


def test_the_main_form_is_not_taken_where_it_is_biased():
    weights = Weights(1.1, categories=2)
    centre = sc.SCIRCV(0.1, form="main").centre_at(weights, [[20.0, 80.0]], 0.1)
    assert centre.parameter[0, 0] == 0  # its mean would be 40 in place of 21


def test_the_known_bias_is_removed_from_what_is_recorded():
    from scirocco.theory import EstimateLaw, asymptotic_bias

    weights = Weights(1.5, categories=2, initial=[40.0, 160.0])
    sampler = sc.SCIRCV(0.5, form="main", choose="always", remove_bias=True)
    centre = sampler.centre_at(weights, [[40.0, 160.0]], 0.1)
    bias = [asymptotic_bias(EstimateLaw.hypergeometric(200, n, 20, 1.5), 0.5, "main") for n in (40, 160)]
    np.testing.assert_allclose(1 / centre.shift[:, 0] - 1, np.array(bias) / [41.5, 161.5])
    shifted = weights.theta[:, 0] * centre.shift[:, 0]
    np.testing.assert_allclose(sampler.recorded(weights, centre)[0], shifted / shifted.sum())
    with pytest.raises(ValueError, match="no finite mean"):
        sc.SCIRCV(0.5, choose="always", remove_bias=True).centre_at(
            Weights(0.1, categories=3), [[900.0, 97.0, 3.0]], 0.01
        )


# Minibatches.


def observed(n, way, *, seed=2, lazy=False):
    """The plain estimate of a step."""
    codes = Codes(InMemory(CODES, n, way, seed=seed, chain=0), Weights(1.0, categories=5), lazy=lazy)
    return lambda step: PlainCounts().counts(codes, codes.minibatches.at(step), {})


@pytest.mark.parametrize("n", [30, 400])
def test_independent_minibatches_are_hypergeometric(n):
    seen = observed(n, "independent", seed=1)
    counts = np.array([seen(t).values[0] for t in range(2000)]) * n / 1000
    assert np.allclose(counts, np.round(counts))
    values = np.arange(int(stats.hypergeom.ppf(1e-3, 1000, 100, n)), int(stats.hypergeom.ppf(0.999, 1000, 100, n)) + 1)
    expected = np.diff(np.r_[0, stats.hypergeom.cdf(values[:-1], 1000, 100, n), 1]) * 2000
    found = np.histogram(np.round(counts[:, 1]), np.r_[-1, values[:-1], 1e9] + 0.5)[0]
    assert stats.chisquare(found, expected).pvalue > 1e-4


@pytest.mark.parametrize("way", ["independent", "with_replacement", "shuffled"])
@pytest.mark.parametrize("lazy", [False, True])
def test_estimates_are_unbiased(way, lazy):
    seen = observed(50, way, lazy=lazy)
    counts = np.array([seen(t).dense(5)[0] for t in range(2000)])
    error = counts.std(axis=0) / np.sqrt(len(counts)) + 1e-9
    assert np.all(np.abs(counts.mean(axis=0) - COUNTS) < 4.5 * error)
    if way == "shuffled":  # an epoch sees everything once
        np.testing.assert_allclose(counts[:20].mean(axis=0), COUNTS)


def test_stratified_minibatches():
    labels = np.where(CODES == 0, "big", "small")
    seen = observed(33, Strata(labels))  # 26 of 800 and 7 of 200
    counts = np.array([seen(t).values[0] for t in range(1000)])
    np.testing.assert_allclose(counts[:, 0], 800)
    assert np.all(np.abs(counts.mean(axis=0) - COUNTS)[1:3] < 4.5 * counts.std(axis=0)[1:3] / np.sqrt(1000))
    # With a_hat above 1 in every minibatch the main form exists, and it says so where not.
    trace = run(sc.SCIRCV(0.3, form="main", choose="always"), batching=Strata(CODES), num_samples=500, chains=4)
    assert trace.mean["omega"][0] == pytest.approx(0.8, abs=0.01)
    with pytest.raises(FloatingPointError, match="a_hat <= 1"):
        run(sc.SCIRCV(0.3, form="main", choose="always"))


def test_batches_for_a_centre_are_not_the_minibatches():
    first, second = (InMemory(CODES, 50, "independent", seed=2, chain=chain) for chain in (0, 1))
    assert not np.array_equal(first.larger(3, 50).rows, first.at(3).rows)
    assert not np.array_equal(first.at(3).rows, second.at(3).rows)


@pytest.mark.parametrize("estimator", ["control_variate", "saga"])
def test_estimators_that_know_all_counts_leave_no_noise(tmp_path, estimator):
    # Categories are observed, so that differences vanish: the chain is the one with all data, minibatch or not.
    natural = Natural(sc.SGLD(3e-4))
    settings = {"num_samples": 30, "burn_in": 10, "chains": 2, "seed": 1}
    noisy, full = (sc.sample_dirichlet(CODES, 1.0, natural, batch_size=n, **settings) for n in (20, 1000))
    known = sc.sample_dirichlet(
        CODES, 1.0, natural, batch_size=20, estimator=estimator, path=tmp_path / "r", **settings
    )
    np.testing.assert_allclose(known.posterior["omega"], full.posterior["omega"], rtol=1e-4)
    assert np.abs(noisy.posterior["omega"] - full.posterior["omega"]).max() > 0.01
    longer = sc.resume(tmp_path / "r", CODES, num_samples=50)
    np.testing.assert_array_equal(longer.posterior["omega"][:, :30], known.posterior["omega"])
    with pytest.raises(ValueError, match="the run had estimator"):
        sc.resume(tmp_path / "r", CODES, estimator="plain", num_samples=60)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sampler": sc.SCIR(0.1), "estimator": "saga"}, "natural parameters"),
        ({"estimator": "best"}, "estimator must be one of"),
        ({"estimator": 3}, "or a CountEstimator"),
        ({"estimator": "saga", "batching": "with_replacement"}, "each row drawn once"),
        ({"estimator": "saga", "batching": Strata(CODES % 2)}, "each row drawn once"),
    ],
)
def test_estimators_that_do_not_fit(settings, words):
    with pytest.raises((TypeError, ValueError), match=words):
        sc.sample_dirichlet(CODES, 1.0, **({"sampler": Natural(sc.SGLD(1e-4)), "batch_size": 20} | settings))


# Streams, resuming, threads.


def test_minibatches_of_a_sorted_file_are_mixed(tmp_path):
    np.save(tmp_path / "sorted.npy", np.repeat(np.arange(4), 5000))
    source = sc.batches.MemoryMapped(tmp_path / "sorted.npy", block_bytes=16_000)
    firsts = []
    for chain in range(2):
        seen = FromDisk(CodeBlocks(source, 4, seed=0, chain=chain), 200, seed=0, chain=chain)
        counts = np.array([np.bincount(seen.at(step).data, minlength=4) * 100.0 for step in range(100)])
        firsts.append(counts[1])
        seen.close()
        assert counts.std(axis=0).max() < 3 * 20_000 * np.sqrt(0.25 * 0.75 / 200) + 2000
        np.testing.assert_allclose(counts.mean(axis=0), 5000, rtol=0.15)
    assert not np.array_equal(*firsts)


@pytest.mark.slow
def test_scir_on_sorted_codes_is_scir_on_shuffled_ones(tmp_path, monkeypatch):
    """Contiguous blocks gave sds 40 % too large, and the report did not know."""
    from scirocco.batches import stream

    monkeypatch.setattr(stream, "PIECES_PER_BLOCK", 400)  # pieces of several rows
    codes, sds = np.repeat(np.arange(4), [2000, 4000, 6000, 8000]).astype(np.int32), []
    for name, rows in (("sorted", codes), ("shuffled", np.random.default_rng(1).permutation(codes))):
        np.save(tmp_path / f"{name}.npy", rows)
        source = sc.batches.MemoryMapped(tmp_path / f"{name}.npy", block_bytes=8000)
        assert source.piece == 5
        trace = sc.sample_dirichlet(
            source, 1.0, sc.SCIR(0.01), categories=4, batch_size=400, num_samples=1500, burn_in=500, thin=10, seed=1
        )
        sds.append(np.sqrt(trace.variance["omega"]))
        between = np.corrcoef(trace.posterior["omega"].values[:, :, 0])[np.triu_indices(4, 1)]
        assert np.abs(between).max() < 0.4  # 75 independent draws of each chain; chains that shared blocks had 0.8
    # 4 * 15,000 * 0.01 / 2 = 300 independent draws of three free entries: an error of 2.4 % of each average.
    assert np.mean(sds[0] / sds[1]) == pytest.approx(1, abs=0.1)
    share = np.bincount(codes) / len(codes)
    exact = np.sqrt(share * (1 - share) / len(codes))
    assert np.mean(sds[0] / exact) == pytest.approx(
        1.05, abs=0.1
    )  # at most 1.12, by the law of independent minibatches


@pytest.mark.quick
def test_codes_on_disk(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    many = np.tile(CODES, 20)
    np.save(tmp_path / "codes.npy", many)
    pq.write_table(pa.table({"code": many}), tmp_path / "codes.parquet", row_group_size=3000)
    sources = [
        sc.batches.MemoryMapped(tmp_path / "codes.npy", block_bytes=40_000),
        sc.batches.Parquet(tmp_path / "codes.parquet", block_bytes=40_000),
    ]
    for source in sources:
        assert source.resident_rows < len(many)
        trace = sc.sample_dirichlet(source, PRIOR, sc.SCIRCV(0.2), batch_size=500, num_samples=300, chains=2)
        np.testing.assert_allclose(trace.mean["omega"][:3], COUNTS[:3] / 1000, rtol=0.05)
        assert trace.bias is not None
    trace = sc.sample_dirichlet(np.load(tmp_path / "codes.npy", mmap_mode="r"), PRIOR, num_samples=50, burn_in=10)
    assert trace.count == 50


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    "sampler",
    [
        sc.SCIR(sc.Decreasing(0.1)),
        sc.SCIRCV(0.2, recentre_every=7),
        sc.SCIRCV(0.2, recentre_every=7, centre_from="seen"),
        sc.SGRLD(0.01),
        sc.simplex.Natural(sc.SGHMC(0.01)),
    ],
)
def test_resuming_is_bit_identical(tmp_path, sampler, lazy):
    whole = run(sampler, num_samples=60, thin=2, lazy=lazy)
    run(sampler, num_samples=25, thin=2, lazy=lazy, path=tmp_path / "run")
    resumed = sc.resume(tmp_path / "run", CODES, num_samples=60)
    np.testing.assert_array_equal(whole.posterior["omega"], resumed.posterior["omega"])
    np.testing.assert_allclose(whole.mean["omega"], resumed.mean["omega"])


def test_resuming_a_stream_is_bit_identical(tmp_path):
    np.save(tmp_path / "codes.npy", CODES)
    source = sc.batches.MemoryMapped(tmp_path / "codes.npy", block_bytes=2400)
    settings = {"batch_size": 50, "burn_in": 5, "chains": 2}
    whole = sc.sample_dirichlet(source, PRIOR, sc.SCIR(0.1), num_samples=60, **settings)
    sc.sample_dirichlet(source, PRIOR, sc.SCIR(0.1), num_samples=20, path=tmp_path / "run", **settings)
    resumed = sc.resume(tmp_path / "run", source, num_samples=60)
    np.testing.assert_array_equal(whole.posterior["omega"], resumed.posterior["omega"])


def test_resuming_with_strata_and_a_long_prior(tmp_path):
    codes, prior = np.random.default_rng(0).integers(0, 2000, 5000), np.linspace(0.1, 1, 2000)  # too long for JSON
    settings = {"batch_size": 100, "burn_in": 3, "chains": 1, "thin": 2, "batching": Strata(codes % 3)}
    whole = sc.sample_dirichlet(codes, prior, sc.SCIR(0.1), num_samples=12, **settings)
    sc.sample_dirichlet(codes, prior, sc.SCIR(0.1), num_samples=5, path=tmp_path / "run", **settings)
    with pytest.raises(ValueError, match="the run was stratified"):
        sc.resume(tmp_path / "run", codes)
    with pytest.raises(ValueError, match="the data differs"):
        sc.resume(tmp_path / "run", codes, batching=Strata(codes % 2))
    resumed = sc.resume(tmp_path / "run", codes, num_samples=12, batching=Strata(codes % 3))
    np.testing.assert_array_equal(whole.posterior["omega"], resumed.posterior["omega"])


def test_resume_refuses_what_differs(tmp_path):
    run(num_samples=5, path=tmp_path / "run")
    with pytest.raises(ValueError, match="the data differs"):
        sc.resume(tmp_path / "run", CODES[::-1].copy())
    with pytest.raises(ValueError, match="the run had sampler"):
        sc.resume(tmp_path / "run", CODES, sampler=sc.SCIR(0.2))
    with pytest.raises(ValueError, match="collect"):
        sc.resume(tmp_path / "run", CODES, collect=np.max)
    with pytest.raises(ValueError, match="the run had batching='independent'"):
        sc.resume(tmp_path / "run", CODES, batching="shuffled")
    with pytest.raises(FileExistsError, match="not empty"):
        run(num_samples=5, path=tmp_path / "run")


@pytest.mark.parametrize("lazy", [False, True])
def test_results_depend_on_the_seed_alone(lazy):
    codes = np.random.default_rng(1).integers(0, 5000, 20_000)
    settings = {"batch_size": 2000, "num_samples": 3, "burn_in": 5, "chains": 2, "lazy": lazy}
    one, five, again = (
        sc.sample_dirichlet(codes, 0.1, sc.SCIR(0.1), seed=seed, threads=threads, **settings).posterior["omega"].values
        for seed, threads in ((1, 1), (1, 5), (2, 1))
    )
    np.testing.assert_array_equal(one, five)
    assert not np.any(one == again)
    assert not np.any(one[0] == one[1])


@pytest.mark.quick
def test_trace_arviz_and_collect():
    trace = run(collect=lambda omega: {"largest": omega.max(), "entropy": -np.sum(omega[:3] * np.log(omega[:3]))})
    assert dict(trace.posterior.sizes) == {"chain": 2, "draw": 200}
    assert set(trace.posterior.data_vars) == {"largest", "entropy"}
    assert trace.to_arviz() is not None
    assert trace.mean["omega"].shape == (5,)  # moments of everything, whatever is stored
    nothing = run(collect=False)
    assert nothing.count == 200
    assert "moments only" in str(nothing.summary())


def test_collected_values_keep_their_type():
    trace = run(
        collect=lambda w: {"big": np.int64(2**60 + 1), "flag": w[0] > 0.5, "half": np.float32(w[0])}, burn_in=300
    )
    assert trace.posterior["big"].dtype == np.int64
    assert int(trace.posterior["big"][0, 0]) == 2**60 + 1
    assert trace.posterior["flag"].dtype == bool
    assert trace.posterior["half"].dtype == np.float32
    changed = run(collect=lambda w: w.sort() or w[0])  # a collector may do what it likes with its copy
    np.testing.assert_array_equal(changed.mean["omega"], run().mean["omega"])


def test_moments_alone_on_disk(tmp_path):
    trace = run(collect=False, path=tmp_path / "run")
    assert trace.count == 200
    assert "200 draws of no variables" in repr(trace)
    assert sc.resume(tmp_path / "run", CODES, num_samples=250).count == 250


def test_a_report_that_fails_does_not_cost_the_run(monkeypatch):
    from scirocco.counts.engine import DirichletEngine

    def fail(*_):
        raise OSError("disk gone")

    monkeypatch.setattr(DirichletEngine, "report", fail)
    with pytest.warns(UserWarning, match="no bias report: OSError: disk gone"):
        assert run(num_samples=10).count == 10


def test_divergence_keeps_what_was_sampled():
    rare = np.repeat([0, 1], [997, 3])  # an unseen category with a > 1 grows: the variance is infinite
    with pytest.raises(sc.DivergenceError, match="no longer finite after step") as caught:
        sc.sample_dirichlet(rare, 0.1, sc.SCIRCV(20.0, choose="always"), batch_size=10, num_samples=5000, burn_in=0)
    trace = caught.value.trace
    assert 0 < trace.count < 5000
    assert not trace.verdict().good
    assert np.all(np.isfinite(trace.posterior["omega"]))


def test_initial_weights_and_categories():
    trace = sc.sample_dirichlet(CODES, 0.1, sc.SCIR(1e-6), initial=[1, 2, 3, 4], categories=4, burn_in=0, num_samples=2)
    np.testing.assert_allclose(trace.posterior["omega"][0, 0], [0.1, 0.2, 0.3, 0.4], atol=0.02)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": np.array([0, -1])}, "data must not be negative"),
        ({"data": np.array([0, 7])}, "below the number of categories, 5; got 7"),
        ({"data": np.array([0.5, 1.0])}, "data must be whole numbers"),
        ({"data": np.array([0.0, np.nan])}, "data must be whole numbers"),
        ({"data": np.array(["a", "b"])}, "data must be a number or an array of numbers, not text"),
        ({"data": np.array([], int)}, "not empty"),
        ({"data": np.zeros((2, 2), int)}, "vector of category codes"),
        ({"data": np.eye(5, dtype=int)[CODES]}, r"one-hot rows, shape \(1000, 5\): .*data.argmax\(axis=1\)"),
        (
            {"data": COUNTS, "prior": 0.1},
            r"5 observations .* 800 look like counts. .*np.repeat\(np.arange.*categories=",
        ),
        ({"data": COUNTS}, r"below the number of categories, 5; got 800. If these are counts, np.repeat"),
        ({"sampler": "scir-cv"}, "sampler must be one of scir_cv, scir, exact; got 'scir-cv'"),
        ({"sampler": "sgrld"}, r"no law says which step size would do for SGRLD: give sc.SGRLD\(step_size"),
        ({"sampler": Natural(sc.SGLD("auto"))}, "no law says which step size would do for Natural"),
        ({"sampler": sc.SCIR("auto"), "batching": Strata(CODES)}, "simple random minibatches only"),
        ({"sampler": sc.SCIRCV("auto", form="main", choose="always")}, "no step size keeps all sds within 5.0%"),
        ({"prior": 0.0}, "prior must be finite and greater than 0"),
        ({"prior": [0.1, np.nan, 0.1, 0.1, 0.1]}, r"prior must be finite.*at \[1\]"),
        ({"prior": [0.1, 0.1], "categories": 5}, "prior must have one entry for each of 5"),
        ({"sampler": sc.SGLD(0.1)}, "sampler must be scir_cv, scir, exact, SCIR"),
        ({"batch_size": 0}, "batch_size must lie between"),
        ({"batch_size": 1001}, "batch_size must lie between"),
        ({"num_samples": 0}, "num_samples must be"),
        ({"burn_in": -1}, "burn_in must be"),
        ({"chains": 1.5}, "chains must be"),
        ({"seed": -1}, "seed must be"),
        ({"batching": "sorted"}, "batching must be one of"),
        ({"batching": Strata([1, 2])}, "labels must name the stratum"),
        ({"batching": Strata(np.arange(1000))}, "smaller than the number of strata"),
        ({"initial": np.zeros(5)}, "not all zero"),
        ({"initial": [1.0, -1.0, 1.0, 1.0, 1.0]}, "none negative"),
        ({"collect": "omega"}, "collect must be"),
        ({"sampler": Exact()}, "Exact needs exact counts"),
        ({"sampler": sc.SCIRCV(0.1, centre=[1.0, 2.0])}, "centre must have one entry for each of 5"),
        ({"sampler": sc.SCIRCV(0.1, centre=[0.05, 2, 2, 2, 2])}, "centre must not lie below the prior"),
        ({"sampler": sc.SCIR(lambda t: 0.1 if t < 1002 else 0.0)}, "the schedule gives 0.0 at step 1002"),
        ({"data": np.array([0, 10**12]), "prior": 0.1}, "re-code the categories"),
        ({"data": np.array([0, 2**25], np.float32), "prior": 0.1}, "store them as integers"),
        ({"threads": 0}, "threads must be"),
        ({"lazy": "yes"}, "lazy must be"),
        ({"initial": "here"}, "initial must be"),
        (
            {"sampler": sc.SCIRCV(0.1, remove_bias=True), "batching": Strata(CODES)},
            "remove_bias knows simple random",
        ),
    ],
)
def test_bad_input(change, words):
    arguments = {"data": CODES, "prior": PRIOR, "sampler": sc.SCIR(0.1), "batch_size": 10, "num_samples": 5} | change
    with pytest.raises((ValueError, TypeError), match=words):
        sc.sample_dirichlet(**arguments)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sc.SCIRCV(0.1, form="other"), "form must be one of"),
        (lambda: sc.SCIRCV(0.1, choose="never"), "choose must be one of"),
        (lambda: sc.SCIRCV(0.1, centre=[2.0], recentre_every=3), "cannot both be given"),
        (lambda: sc.SCIRCV(0.1, recentre_every=0), "recentre_every must be"),
        (lambda: sc.SCIRCV(0.1, centre_batch=-5), "centre_batch must be"),
        (lambda: sc.SGRLD(0.1, parametrization="natural"), "parametrization must be one of"),
        (lambda: sc.SGRLD(np.nan), "step_size must be finite"),
        (lambda: sc.SGRLD("auto"), "no law says which"),
        (lambda: sc.SCIR("auto").step(Weights(0.1, categories=2), Counts([[1, 2]])), "still to be found"),
        (lambda: sc.models.LDA(2, sampler=sc.SCIR("auto")).fit(np.eye(3, dtype=int)), "sampler must have a step size"),
        (lambda: sc.SCIRCV(0.1).step(Weights(0.1, categories=2), Counts([[1, 2]])), "counts with a centre"),
    ],
)
def test_bad_settings(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_the_rule_for_control_variates_is_careful():
    """Where the quick rule chooses a control variate, the exact laws nearly always do too, and never regret it much."""
    from scirocco.simplex.scir_cv import _alternative_pays
    from scirocco.theory import EstimateLaw, prefers_control_variate, stationary_moments

    wrong, worst, chosen = 0, 1.0, 0
    for size in (100, 1000):
        for n in (size // 50, size // 10, size // 2):
            for count in np.unique(np.geomspace(1, 0.8 * size, 9).astype(int)):
                for h in (0.01, 0.1, 0.5, 1.0):
                    _, pays = _alternative_pays(np.array([0.1]), np.array([float(count)]), h, n / size)
                    if pays[0]:
                        chosen += 1
                        law = EstimateLaw.hypergeometric(size, int(count), n, 0.1)
                        if not prefers_control_variate(law, h):
                            wrong += 1
                            mean, variance = stationary_moments(law, h, "alternative")
                            error = (mean - law.mean) ** 2 + abs(variance - law.mean)
                            worst = max(worst, error / (np.tanh(h / 2) * law.variance))
    assert chosen > 50
    assert wrong <= 0.02 * chosen
    assert worst < 2
