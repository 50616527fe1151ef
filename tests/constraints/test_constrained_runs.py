"""Runs with constraints: the law of a prior alone against its exact moments, and everything that a user sees of it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco import constraints
from scirocco.run.convergence import standard_error
from scirocco.tuning import warm_up

pytest.importorskip("numpyro", reason="the bijections of simplices and matrices are NumPyro's")

NOTHING = np.zeros(4, np.float32)  # data that says nothing: the prior is the posterior
ALPHA = np.array([2.0, 3.0, 5.0])
SHAPE, RATE = 3.0, 2.0


def nothing(params, row):
    return 0.0 * row


def gamma(p):
    return (SHAPE - 1) * jnp.log(p["s"]) - RATE * p["s"]


def beta(p):
    return jnp.log(p["s"]) + 2 * jnp.log1p(-p["s"])


def dirichlet(p):
    return jnp.sum((ALPHA - 1) * jnp.log(p["s"]))


def normal(p):
    return -jnp.sum(p["s"] ** 2) / 2


def wishart(p):
    """With 6 degrees of freedom in the plane, whose mean is 6 I."""
    return 1.5 * jnp.linalg.slogdet(p["s"])[1] - jnp.trace(p["s"]) / 2


def lkj(p):
    """Of a Cholesky factor L in the plane: L L' has correlation r with density (1 - r^2)^(eta - 1), eta = 2."""
    return 2 * jnp.log(p["s"][1, 1])


def cholesky(p):
    """Of the factor L of a Wishart matrix with 6 degrees of freedom: chi on the diagonal, normal below it."""
    s = p["s"]
    return 5 * jnp.log(s[0, 0]) + 4 * jnp.log(s[1, 1]) - jnp.sum(s**2) / 2


# (constraint, log density, start, a function of the parameter, its exact mean and variance)
ORDERED = np.random.default_rng(0).normal(size=(400_000, 3))
CASES = {
    "positive": (constraints.positive, gamma, 1.0, lambda s: s, SHAPE / RATE, SHAPE / RATE**2),
    "interval": (constraints.interval(0, 1), beta, 0.5, lambda s: s, 2 / 5, 6 / (25 * 6)),
    "less_than": (constraints.less_than(0), lambda p: gamma({"s": -p["s"]}), -1.0, lambda s: s, -1.5, 0.75),
    "simplex": (
        constraints.simplex, dirichlet, np.full(3, 1 / 3), lambda s: s, ALPHA / 10, ALPHA * (10 - ALPHA) / 1100,
    ),
    "ordered": (
        constraints.ordered, normal, np.array([-1.0, 0.0, 1.0]), lambda s: s, np.sort(ORDERED, axis=1).mean(axis=0),
        np.sort(ORDERED, axis=1).var(axis=0),
    ),
    "positive_ordered": (
        constraints.positive_ordered, normal, np.array([0.5, 1.0, 1.5]), lambda s: s,
        np.sort(np.abs(ORDERED), axis=1).mean(axis=0), np.sort(np.abs(ORDERED), axis=1).var(axis=0),
    ),
    "zero_sum": (constraints.zero_sum, normal, np.array([0.5, -1.0, 0.5]), lambda s: s, np.zeros(3), np.full(3, 2 / 3)),
    "corr_cholesky": (constraints.corr_cholesky, lkj, np.eye(2), lambda s: s[..., 1, 0], 0.0, 1 / 5),
    "positive_definite": (
        constraints.positive_definite, wishart, np.eye(2), lambda s: s[..., [0, 1], [0, 1]], np.full(2, 6.0),
        np.full(2, 12.0),
    ),
    "lower_cholesky": (
        constraints.lower_cholesky, cholesky, np.eye(2), lambda s: s[..., [0, 1], [0, 1]] ** 2, np.array([6.0, 5.0]),
        np.array([12.0, 10.0]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_law_of_a_prior_alone(name):
    """By an exact sampler; means and variances within 4.5 standard errors, 1 in 10,000 for each number."""
    constraint, log_prior, start, function, mean, variance = CASES[name]
    target = sc.Target(log_prior, nothing, NOTHING, constraints={"s": constraint})
    initial = {"s": jnp.asarray(start, jnp.float32)}
    sampler, settings = sc.GMC(0.3, leapfrog_steps=8), {"num_samples": 3000, "burn_in": 300, "report": False}
    trace = sc.sample(target, sampler, initial, progress=False, **settings)
    draws = trace.posterior["s"].values.astype(np.float64)
    assert constraint.contains(draws).all()
    values = np.asarray(function(draws)).reshape(*draws.shape[:2], -1)
    squares = (values - mean) ** 2
    assert np.all(np.abs(values.mean(axis=(0, 1)) - mean) < 4.5 * standard_error(values))
    assert np.all(np.abs(squares.mean(axis=(0, 1)) - variance) < 4.5 * standard_error(squares))
    np.testing.assert_allclose(trace.mean["s"], draws.mean(axis=(0, 1)), atol=1e-4)
    assert set(trace.mean) == {"s"}


def test_a_simplex_of_a_thousand_entries():
    """Every third entry has the Dirichlet parameter 1/2, whose shares come near zero, the others 2: a Beta law."""
    few = np.arange(1000) % 3 == 0
    alpha = np.where(few, 0.5, 2.0).astype(np.float32)
    target = sc.Target(
        lambda p: jnp.sum((alpha - 1) * jnp.log(p["s"])), nothing, NOTHING, constraints={"s": constraints.simplex}
    )
    trace = sc.sample(
        target, sc.GMC(0.15, leapfrog_steps=12), {"s": jnp.full(1000, 1 / 1000)}, num_samples=250, burn_in=100,
        progress=False, report=False,
    )  # fmt: skip
    share = trace.posterior["s"].values[..., few].sum(axis=-1, dtype=np.float64)[..., None]
    a, total = alpha[few].sum(), alpha.sum()
    squares = (share - a / total) ** 2
    assert abs(share.mean() - a / total) < 4.5 * standard_error(share)[0]
    assert abs(squares.mean() - a * (total - a) / total**2 / (total + 1)) < 4.5 * standard_error(squares)[0]


def log_prior(p):
    return -(p["m"] ** 2) / 20 - p["s"]


def log_likelihood(p, x):
    return -jnp.log(p["s"]) - ((x - p["m"]) / p["s"]) ** 2 / 2


X = np.random.default_rng(1).normal(1.0, 2.0, 3000).astype(np.float32)
TARGET = sc.Target(log_prior, log_likelihood, X, constraints={"s": constraints.positive})
START = {"m": jnp.array(0.0), "s": jnp.array(1.0)}


def exact_moments():
    """Mean and sd of m and s by a grid."""
    m, s = np.meshgrid(np.linspace(0.7, 1.3, 400), np.linspace(1.8, 2.2, 400), indexing="ij")
    log = -(m**2) / 20 - s - len(X) * np.log(s)
    log = log - (np.sum((X.astype(float) - X.mean()) ** 2) + len(X) * (X.mean() - m) ** 2) / (2 * s**2)
    p = np.exp(log - log.max())
    p /= p.sum()
    means = {"m": np.sum(p * m), "s": np.sum(p * s)}
    return means, {"m": np.sqrt(np.sum(p * (m - means["m"]) ** 2)), "s": np.sqrt(np.sum(p * (s - means["s"]) ** 2))}


@pytest.fixture(scope="module")
def automatic():
    return sc.sample(TARGET, sc.UnderdampedLangevin("auto"), START, batch_size=300, progress=False)


def test_minibatches_and_an_automatic_step(automatic):
    means, sds = exact_moments()
    assert automatic.verdict().good, str(automatic.summary())
    for name in ("m", "s"):
        assert abs(automatic.mean[name] - means[name]) < 0.15 * sds[name]
        assert np.sqrt(automatic.variance[name]) == pytest.approx(sds[name], rel=0.07)
    assert "s" in automatic.summary().table.index
    assert not any("free" in name for name in automatic.summary().table.index)
    assert set(automatic.bias.sd_error) == {"m", "s"}


def test_functions_of_draws_see_parameters():
    seen = sc.sample(
        TARGET, sc.SGLD(1e-5), START, num_samples=20, burn_in=10, batch_size=300, progress=False,
        collect=lambda p: {"variance": p["s"] ** 2}, report=False,
    )  # fmt: skip
    plain = sc.sample(
        TARGET, sc.SGLD(1e-5), START, num_samples=20, burn_in=10, batch_size=300, progress=False, report=False
    )
    np.testing.assert_allclose(seen.posterior["variance"], plain.posterior["s"] ** 2, rtol=1e-6)


def test_a_run_goes_on_bit_for_bit(tmp_path):
    settings = {"burn_in": 20, "batch_size": 300, "progress": False, "report": False, "estimator": sc.ControlVariate()}
    whole = sc.sample(TARGET, sc.SGHMC(1e-5, friction=100.0), START, num_samples=200, **settings)
    sc.sample(TARGET, sc.SGHMC(1e-5, friction=100.0), START, num_samples=90, path=tmp_path / "run", **settings)
    again = sc.resume(tmp_path / "run", TARGET, num_samples=200)
    for name in ("m", "s"):
        np.testing.assert_array_equal(again.posterior[name], whole.posterior[name])
    assert sc.Trace.load(tmp_path / "run").mean["s"] == whole.mean["s"]


def test_an_automatic_run_goes_on_bit_for_bit(tmp_path, automatic):
    thin = automatic.description.settings.thin
    settings = {"batch_size": 300, "progress": False, "thin": thin, "path": tmp_path / "run"}
    sc.sample(TARGET, sc.UnderdampedLangevin("auto"), START, num_samples=400, **settings)
    again = sc.resume(tmp_path / "run", TARGET, num_samples=1000)
    np.testing.assert_array_equal(again.posterior["s"], automatic.posterior["s"])


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_the_change_of_variables_is_not_tempered(temperature):
    """exp(-U/T) of a Gamma density is one of shape 1 + (a - 1) / T and rate b / T."""
    target = sc.Target(gamma, nothing, NOTHING, constraints={"s": constraints.positive})
    sampler = sc.GMC(0.3, leapfrog_steps=8, temperature=temperature)
    settings = {"num_samples": 3000, "burn_in": 300, "progress": False, "report": False}
    trace = sc.sample(target, sampler, {"s": jnp.array(1.0)}, **settings)
    shape, rate = 1 + (SHAPE - 1) / temperature, RATE / temperature
    draws = trace.posterior["s"].values[..., None].astype(np.float64)
    assert abs(draws.mean() - shape / rate) < 4.5 * standard_error(draws)[0]
    squares = (draws - shape / rate) ** 2
    assert abs(squares.mean() - shape / rate**2) < 4.5 * standard_error(squares)[0]


def test_a_temperature_that_changes_is_refused():
    with pytest.raises(ValueError, match="one temperature"):
        sc.sample(TARGET, sc.SGLD(1e-5, temperature=lambda step: 1.0), START, num_samples=5)


def test_the_mode_is_given_as_parameters():
    mode = sc.find_mode(TARGET, START)
    assert mode["s"] == pytest.approx(X.std(), rel=0.01)
    assert sc.tune(TARGET, sc.SGLD("auto"), START, batch_size=300).initial["s"] == pytest.approx(X.std(), rel=0.01)


def test_a_centre_is_given_as_parameters():
    centre = {"m": jnp.array(1.0), "s": jnp.array(2.0)}
    kernel = sc.kernel(TARGET, sc.SGLD(1e-9), batch_size=300, estimator=sc.ControlVariate(centre))
    state = kernel.init(jax.random.key(0), START)
    assert kernel.parameters(state)["s"] == pytest.approx(2.0, rel=1e-5)


def test_blocks_have_parameters_of_their_own():
    """A block holds s itself, and sees m; the constraint of s is then the block's own affair."""

    def update(key, params, batch):
        return {"s": jnp.float32(2.0) + 0 * params["m"]}

    trace = sc.sample(
        TARGET, sc.SGLD(1e-5), START, blocks=[sc.Block("s", update)], num_samples=20, burn_in=5, batch_size=300,
        progress=False, report=False,
    )  # fmt: skip
    assert np.all(trace.posterior["s"] == 2.0)


def test_a_block_sees_parameters():
    seen = []

    def update(key, params, batch):
        jax.debug.callback(lambda s: seen.append(float(s)), params["s"])
        return {"m": params["m"]}

    trace = sc.sample(
        TARGET, sc.SGLD(1e-7), START, blocks=[sc.Block("m", update)], num_samples=3, burn_in=0, batch_size=300,
        chains=1, progress=False, report=False,
    )  # fmt: skip
    jax.effects_barrier()
    assert np.max(np.abs(np.array(seen)[:, None] - trace.posterior["s"].values.ravel()).min(axis=0)) == 0


def test_shards_are_combined_as_free_numbers():
    found = sc.sample_shards(
        TARGET, sc.GMC("auto"), START, shards=3, num_samples=500, burn_in=100, progress=False, thin=1
    )  # fmt: skip
    means, sds = exact_moments()
    assert found.certificate.trusted, str(found)
    for name in ("m", "s"):
        draws = found.draws[name].values
        assert abs(draws.mean() - means[name]) < 0.2 * sds[name]
        assert draws.std() == pytest.approx(sds[name], rel=0.15)
        assert found.certificate.mean[name] == pytest.approx(means[name], abs=0.2 * sds[name])


def test_the_report_is_in_the_space_of_the_parameters():
    """Far too long a step: the free numbers of a simplex are too wide, and so are its entries."""
    codes = np.random.default_rng(2).choice(3, 2000, p=[0.2, 0.3, 0.5]).astype(np.int32)
    target = sc.Target(dirichlet, lambda p, x: jnp.log(p["s"][x]), codes, constraints={"s": constraints.simplex})
    start = {"s": jnp.full(3, 1 / 3)}
    trace = sc.sample(target, sc.SGLD(7e-4), start, num_samples=4000, batch_size=200, progress=False)
    alpha = ALPHA + np.bincount(codes)
    exact = np.sqrt(alpha / alpha.sum() * (1 - alpha / alpha.sum()) / (alpha.sum() + 1))
    true = trace.posterior["s"].values.std(axis=(0, 1)) / exact - 1
    assert trace.bias.sd_error["s"].shape == (3,)
    assert np.all(true > 0.2)
    np.testing.assert_allclose(trace.bias.sd_error["s"], true, atol=0.1 * (1 + true.max()))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"q": constraints.positive}, "constraints name q"),
        ({"s": constraints.positive, "m": constraints.positive}, "initial: m is not positive"),
    ],
)
def test_wrong_input(given, words):
    with pytest.raises(ValueError, match=words):
        sc.sample(sc.Target(log_prior, log_likelihood, X, constraints=given), sc.SGLD(1e-5), START)


def test_a_manifold_and_a_constraint_are_one_too_many():
    with pytest.raises(ValueError, match="s has a manifold and a constraint"):
        sc.Target(
            log_prior, log_likelihood, X, manifold={"s": sc.manifolds.Simplex()}, constraints={"s": constraints.simplex}
        )


GROUPS, ROWS = 10, 1000
GROUP = np.random.default_rng(3).integers(GROUPS, size=ROWS).astype(np.int32)
EFFECT = np.random.default_rng(4).normal(0.5, 1.0, ROWS).astype(np.float32)  # groups do not differ


def log_prior_of_groups(p):
    inner = jnp.sum((p["a"] - p["mu"]) ** 2) / (2 * p["tau"] ** 2) + GROUPS * jnp.log(p["tau"])
    return -(p["mu"] ** 2) / 50 - jnp.log1p(p["tau"] ** 2) - inner


def log_likelihood_in_groups(p, row):
    return -((row["y"] - p["a"][row["group"]]) ** 2) / 2


def test_a_hierarchy_whose_density_has_no_maximum(monkeypatch):
    """It rises without end as tau goes to zero and all groups are equal; the posterior mean of tau is 0.028."""
    monkeypatch.setattr(warm_up, "MOST_ROUNDS", 2)
    data = {"group": GROUP, "y": EFFECT}
    target = sc.Target(log_prior_of_groups, log_likelihood_in_groups, data, constraints={"tau": constraints.positive})
    start = {"mu": jnp.array(0.0), "tau": jnp.array(1.0), "a": jnp.zeros(GROUPS)}
    assert sc.find_mode(target, start)["tau"] < 1e-3  # where a search runs off to
    tuned = sc.tune(target, sc.UnderdampedLangevin("auto"), start)
    assert len(tuned.report.rounds) > 0
    assert 0.003 < tuned.initial["tau"] < 1.0  # on the way from the start


def test_what_comes_after_a_run_knows_of_free_numbers():
    """A simplex has fewer of them than entries: calibration, Stein's discrepancy and zero-variance averages."""
    codes = np.random.default_rng(5).choice(3, 60, p=[0.2, 0.3, 0.5]).astype(np.int32)
    target = sc.Target(dirichlet, lambda p, x: jnp.log(p["s"][x]), codes, constraints={"s": constraints.simplex})
    trace = sc.sample(
        target, sc.GMC(0.2, leapfrog_steps=5), {"s": jnp.full(3, 1 / 3)}, num_samples=500, burn_in=100, gradients=True,
        progress=False,
    )  # fmt: skip

    def simulate(params, key):
        return jax.random.choice(key, 3, (60,), p=jnp.asarray(params["s"])).astype(jnp.int32)

    found = sc.check_calibration(target, trace, simulate, repeats=8, progress=False)
    assert found.dimension == 2
    assert found.exact
    near = sc.diagnostics.trace_ksd(trace, target, max_draws=300)
    moved = sc.Target(lambda p: 20 * jnp.log(p["s"][0]), target.log_likelihood, codes, constraints=target.constraints)
    assert near < 0.5 * sc.diagnostics.trace_ksd(trace, moved, max_draws=300)
    averaged = sc.postprocess.trace_zero_variance(trace)
    alpha = ALPHA + np.bincount(codes)
    np.testing.assert_allclose(averaged.mean, alpha / alpha.sum(), atol=4.5 * np.max(averaged.se))
    with pytest.raises(ValueError, match="take degree=1"):
        sc.postprocess.trace_zero_variance(trace, degree=2)
