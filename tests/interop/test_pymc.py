"""PyMC models as targets: densities against PyMC's own, what is refused, and runs whose answer is known."""

from __future__ import annotations

import os
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc

pm = pytest.importorskip("pymc", reason="its models are what is tested: pip install 'scirocco[pymc]'")
import pytensor  # noqa: E402
import pytensor.tensor as pt  # noqa: E402

RNG = np.random.default_rng(0)
N = 200
X = RNG.normal(size=(N, 2))
GROUP = RNG.integers(4, size=N)
Y = X @ [1.0, -0.5] + np.array([1.0, -1.0, 0.5, 2.0])[GROUP] + RNG.normal(size=N)
COUNT = RNG.poisson(3.0, size=N)
LEVEL = RNG.integers(4, size=N)
PLAIN = pytensor.compile.mode.Mode(linker="py", optimizer=None)  # neither rewrites nor a compiler


@pytest.fixture(autouse=True)
def _no_compiler():
    with pytensor.config.change_flags(cxx=""):
        yield


def hierarchical():
    """Non-centred, with coords, a deterministic variable of rows and one of none, data in containers."""
    with pm.Model(coords={"group": list("abcd"), "column": ["p", "q"]}) as model:
        x, group = pm.Data("x", X, dims=("row", "column")), pm.Data("which", GROUP, dims="row")
        mu, tau = pm.Normal("mu", 0, 2), pm.HalfCauchy("tau", 1)
        z = pm.Normal("z", dims="group")
        alpha = pm.Deterministic("alpha", mu + tau * z, dims="group")
        beta = pm.Normal("beta", 0, 1, dims="column")
        mean = pm.Deterministic("mean", alpha[group] + x @ beta, dims="row")
        pm.Normal("y", mean, 1.0, observed=Y, dims="row")
    return model


def ordered():
    """Constants of the graph are rows; cutpoints in order."""
    with pm.Model() as model:
        beta = pm.Normal("beta", shape=2)
        in_order = pm.distributions.transforms.ordered
        cuts = pm.Normal("cuts", 0, 2, shape=3, transform=in_order, initval=[-1.0, 0.0, 1.0])
        pm.OrderedLogistic("y", eta=pt.dot(X, beta), cutpoints=cuts, observed=LEVEL)
    return model


def counts():
    """Negative binomial with an offset, and its data in a container of whole numbers."""
    with pm.Model() as model:
        count = pm.Data("count", COUNT)
        beta, alpha = pm.Normal("beta"), pm.Exponential("alpha", 1.0)
        pm.NegativeBinomial("y", mu=pm.math.exp(beta * X[:, 0] + np.log(2.0 + GROUP)), alpha=alpha, observed=count)
    return model


def mixture():
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", np.ones(3))
        mu = pm.Normal("mu", [-2.0, 0.0, 2.0], 1.0, shape=3)
        pm.NormalMixture("y", w=weights, mu=mu, sigma=1.0, observed=Y)
    return model


def correlated():
    """LKJ, and outcomes that are vectors."""
    with pm.Model() as model:
        factor, _, _ = pm.LKJCholeskyCov("factor", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0, size=2))
        pm.MvNormal("x", mu=pm.Normal("mu", shape=2), chol=factor, observed=X)
    return model


def bounded():
    """Censored, truncated, a support that depends on another variable, and a term of no row."""
    with pm.Model() as model:
        low = pm.Normal("low", -5, 1)
        mid = pm.Uniform("mid", low, 10.0)
        sigma = pm.TruncatedNormal("sigma", 1.0, 1.0, lower=0.2)
        pm.Censored("y", pm.Normal.dist(mid, sigma), lower=None, upper=1.0, observed=np.minimum(Y, 1.0))
        pm.Truncated("x", pm.Normal.dist(mid, 2.0), lower=-6.0, observed=X)
        pm.Binomial("pilot", n=10, p=pm.math.invlogit(mid), observed=7)
    return model


def potentials():
    """One of rows and one of none; effects that sum to zero; a noise that is scaled by what is known of a row."""
    with pm.Model(coords={"group": list("abcd")}) as model:
        effect = pm.ZeroSumNormal("effect", dims="group")
        mu = pm.Normal("mu")
        x = pm.Data("x", X)
        pm.Potential("none", -(mu**4))
        pm.Potential("rows", -0.1 * (mu + effect[GROUP] - x[:, 1]) ** 2)
        pm.StudentT("y", nu=4, mu=mu + effect[GROUP], sigma=1 + x[:, 0] ** 2, observed=Y)
    return model


def minibatched():
    """What PyMC would do itself."""
    x, y = pm.Minibatch(X, Y, batch_size=10)
    with pm.Model() as model:
        beta = pm.Normal("beta", shape=2)
        pm.Normal("y", pt.dot(x, beta), 1.0, observed=y, total_size=N)
    return model


def of_all_rows():
    with pm.Model() as model:
        beta = pm.Normal("beta", shape=2)
        pm.Normal("y", pt.dot(X, beta), 1.0, observed=Y)
    return model


@pytest.fixture(scope="module")
def grouped():
    return sc.Target.from_pymc(hierarchical())


def places(target, number=3):
    """Free positions."""
    like = target.free().freed(target.change.start)
    for seed in range(number):
        yield jax.tree.map(lambda leaf, s=seed: 0.5 * jax.random.normal(jax.random.key(s), leaf.shape), like)


def theirs(model):
    """PyMC's own log density, with its Jacobians, of free positions."""
    function = model.compile_logp(mode=PLAIN)
    names = {rv.name: model.rvs_to_values[rv].name for rv in model.free_RVs}
    return lambda place: float(function({name: np.asarray(place[rv], np.float64) for rv, name in names.items()}))


MODELS = [hierarchical, ordered, counts, mixture, correlated, bounded, potentials]


@pytest.mark.parametrize("make", MODELS)
def test_the_density_is_pymcs(make):
    model = make()
    target, expected = sc.Target.from_pymc(model), theirs(model)
    assert target.size == N
    for place in places(target):
        assert target.free().log_posterior(place) == pytest.approx(expected(place), rel=1e-5)
        back = target.change.free(target.change.parameters(place))
        for name in back:
            np.testing.assert_allclose(back[name], place[name], atol=2e-3)


def test_a_minibatch_of_the_model_is_ours():
    """Neither its rows nor its total_size are taken."""
    ours, whole = sc.Target.from_pymc(minibatched()), sc.Target.from_pymc(of_all_rows())
    params = {"beta": jnp.array([0.3, -1.0])}
    assert ours.size == N
    assert ours.log_posterior(params) == pytest.approx(whole.log_posterior(params), rel=1e-5)


def test_minibatches_are_unbiased(grouped):
    params = grouped.change.parameters(next(places(grouped)))
    batches = [sc.batches.Batch(grouped.source.rows(w), np.float32(4), w) for w in np.arange(N).reshape(4, -1)]
    values = [float(grouped.log_density(params, batch)) for batch in batches]
    assert np.mean(values) == pytest.approx(grouped.log_posterior(params), rel=1e-5)


def test_a_run_has_the_known_answer_on_other_rows_than_the_models(tmp_path):
    """A table on disk; the model was written on a few rows of it, and has data that are not rows."""
    rng = np.random.default_rng(1)
    x, group = rng.normal(size=3000), rng.integers(3, size=3000)
    y = 2.0 * x + np.array([1.0, 0.0, -1.0])[group] + 0.5 * rng.normal(size=3000)
    frame = pytest.importorskip("pandas").DataFrame({"x": x, "group": group, "y": y})
    frame.to_parquet(tmp_path / "table.parquet")
    with pm.Model(coords={"which": ["a", "b", "c"]}) as model:
        few = {name: pm.Data(name, frame[name][:20].to_numpy()) for name in ("x", "group")}
        spread = pm.Data("spread", np.array([2.0, 2.0, 2.0]))
        effect, slope = pm.Normal("effect", 0, spread, dims="which"), pm.Normal("slope", 0, 3)
        pm.Normal("y", effect[few["group"]] + slope * few["x"], 0.5, observed=frame["y"][:20].to_numpy())
    target = sc.Target.from_pymc(model, sc.batches.Parquet(tmp_path / "table.parquet"))
    assert target.size == 3000
    trace = sc.sample(
        target, sc.UnderdampedLangevin("auto"), num_samples=800, batch_size=300, progress=False, report=False
    )  # fmt: skip
    design = np.concatenate([np.eye(3)[group], x[:, None]], axis=1)
    precision = 4 * design.T @ design + np.diag([0.25, 0.25, 0.25, 1 / 9])
    mean, sd = np.linalg.solve(precision, 4 * design.T @ y), np.sqrt(np.diag(np.linalg.inv(precision)))
    found = trace.posterior["effect"].mean(("chain", "draw")).values
    assert np.all(np.abs(found - mean[:3]) < 0.25 * sd[:3])
    assert abs(float(trace.posterior["slope"].mean()) - mean[3]) < 0.25 * sd[3]
    np.testing.assert_allclose(trace.posterior["effect"].std(("chain", "draw")), sd[:3], rtol=0.12)
    assert trace.posterior["effect"].sel(which="b").dims == ("chain", "draw")


def test_a_run_goes_on_bit_for_bit_and_has_variables_with_their_dims(grouped, tmp_path):
    settings = {"burn_in": 10, "batch_size": 50, "progress": False, "report": False}
    whole = sc.sample(grouped, sc.SGLD(1e-3), num_samples=30, **settings)
    sc.sample(grouped, sc.SGLD(1e-3), num_samples=12, path=tmp_path / "run", **settings)
    again = sc.resume(tmp_path / "run", sc.Target.from_pymc(hierarchical()), num_samples=30)
    posterior = again.posterior
    for name in whole.posterior:
        np.testing.assert_array_equal(posterior[name], whole.posterior[name])
    assert set(posterior) == {"mu", "tau", "z", "beta", "alpha"}  # not the mean of rows
    assert posterior["alpha"].dims == ("chain", "draw", "group")
    assert posterior["alpha"].sel(group="d").dims == posterior["beta"].sel(column="q").dims == ("chain", "draw")
    assert (posterior["tau"] > 0).all()
    alpha = posterior["mu"] + posterior["tau"] * posterior["z"]
    np.testing.assert_allclose(posterior["alpha"], alpha, rtol=1e-4, atol=1e-4)


def local():
    z = pm.Normal("z", shape=N)
    pm.Normal("y", z, 1.0, observed=Y)


def local_of_data():
    y = pm.Data("y_data", Y, dims="row")
    pm.Normal("y", pm.Normal("z", dims="row"), 1.0, observed=y)


def discrete():
    pm.Normal("y", pm.Poisson("k", 3.0), 1.0, observed=Y)


def missing():
    with warnings.catch_warnings(action="ignore"):
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=np.where(Y > 2, np.nan, Y))


def prior_sees_rows():
    y = pm.Data("y_data", Y)
    pm.Normal("y", pm.Normal("mu", y.mean(), 1.0), 1.0, observed=y)


def prior_counts_rows():
    y = pm.Data("y_data", Y)
    pm.Normal("y", pm.Normal("mu", 0.0, 1.0 / y.shape[0]), 1.0, observed=y)


def rows_see_each_other():
    x = pm.Data("x", X)
    pm.Normal("y", pt.dot(x - x.mean(axis=0), pm.Normal("beta", shape=2)), 1.0, observed=Y)


def one_value():
    pm.MvNormal("y", mu=np.zeros(N), cov=np.eye(N) * pm.HalfNormal("s"), observed=Y)


def time_series():
    pm.AR("y", rho=pm.Normal("rho"), sigma=1.0, init_dist=pm.Normal.dist(0, 10), observed=Y)


def wrong_axis():
    pm.Normal("y", pt.dot(pm.Normal("beta", shape=2), X.T.copy()), 1.0, observed=Y)


def other_size():
    pm.Normal("y", pm.Normal("mu"), 1.0, observed=Y, total_size=1000)


def nothing_free():
    pm.Normal("y", 0.0, 1.0, observed=Y)


def nothing_observed():
    pm.Normal("mu")


def two_lengths():
    mu = pm.Normal("mu")
    pm.Normal("y", mu, 1.0, observed=Y)
    pm.Normal("w", mu, 1.0, observed=Y[:50])


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (local, "z is a latent variable of each row"),
        (local_of_data, "z is a latent variable of each row"),
        (discrete, "k is discrete"),
        (missing, "y_unobserved are missing values of rows"),
        (prior_sees_rows, "the prior of mu depends on the rows"),
        (prior_counts_rows, "the prior of mu depends on the rows"),
        (rows_see_each_other, "depends on the other rows"),
        (one_value, "the model cannot be made of 1 of its 200 rows"),
        (time_series, "the log density of y has the shape|depends on the other rows"),
        (wrong_axis, "a constant of shape .2, 200. is as long as the rows"),
        (other_size, "y has total_size=1,000, and there are 200 rows"),
        (nothing_free, "no free variables"),
        (nothing_observed, "no observed variables"),
        (two_lengths, "Their lengths differ"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_minibatches_cannot_sample_is_refused(write, words):
    with pm.Model() as model:
        write()
    with pytest.raises(ValueError, match=words):
        sc.Target.from_pymc(model)


def test_a_name_chooses_between_lengths():
    with pm.Model() as model:
        two_lengths()
    target = sc.Target.from_pymc(model, ["y"])
    place = {"mu": jnp.array(0.3)}
    assert target.size == N
    assert target.log_posterior(place) == pytest.approx(theirs(model)(place), rel=1e-5)  # w belongs to the prior


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        (["x", "q"], ValueError, "'q', which is neither data nor an observed variable"),
        (["x", "beta"], ValueError, "'beta', which is neither"),
        (X, TypeError, "rows must be a list of names"),
        (["x"], ValueError, "which of shape .200,. is as long as the rows and not among them"),
        ({"x": X, "which": GROUP}, ValueError, "y of shape .200,. is as long as the rows"),
        ({"x": X[:, :1], "which": GROUP, "y": Y}, ValueError, "a row of x has the shape .1,.; in the model"),
        ({"x": X, "which": GROUP + 0.5, "y": Y}, TypeError, "which has dtype float"),
    ],
)
def test_wrong_rows(rows, error, words):
    with pytest.raises(error, match=words):
        sc.Target.from_pymc(hierarchical(), rows)


def test_a_wrong_model():
    with pytest.raises(TypeError, match=r"a pymc.Model or a bambi.Model; got int"):
        sc.Target.from_pymc(3)


def test_a_wrong_start_is_refused(grouped):
    for initial, words in (
        ({"mu": 0.0}, "must have the free variables"),
        (grouped.change.start | {"tau": np.float32(-1.0)}, "tau is not in the support of its prior"),
        (grouped.change.start | {"z": np.zeros(3, np.float32)}, r"z must have the shape \(4,\)"),
    ):
        with pytest.raises(ValueError, match=words):
            sc.sample(grouped, sc.SGLD(1e-3), initial)


def test_a_model_of_bambi():
    """Its intercept is shown as Bambi shows it, for predictors as they were given."""
    bambi = pytest.importorskip("bambi", reason="its models are tested where it is installed")
    frame = pytest.importorskip("pandas").DataFrame({"y": Y, "x": X[:, 0] + 3, "g": np.array(list("abcd"))[GROUP]})
    frame["g"] = frame["g"].astype("category")
    model = bambi.Model("y ~ x + (1|g)", frame)
    target = sc.Target.from_pymc(model)
    inner = model.backend.model
    place = next(places(target))
    own = {name.removesuffix("_centered"): value for name, value in place.items()}
    assert target.free().log_posterior(place) == pytest.approx(theirs(inner)(own), rel=1e-5)
    params = target.change.parameters(place)
    expected = params["Intercept_centered"] - params["x"] * frame["x"].mean()
    np.testing.assert_allclose(params["Intercept"], expected, rtol=1e-5)
    trace = sc.sample(target, sc.SGLD(1e-4), num_samples=5, burn_in=0, progress=False, report=False)
    assert trace.posterior["1|g"].dims == ("chain", "draw", "g__factor_dim")
    assert trace.posterior["1|g"]["g__factor_dim"].values.tolist() == list("abcd")


def test_settings_of_jax_are_left_alone():
    """PyTensor and PyMC change them when they are imported."""
    assert "device_count=100" not in os.environ.get("XLA_FLAGS", "")
    assert not jax.config.jax_enable_x64
