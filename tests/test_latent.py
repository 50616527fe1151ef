"""Latent values of rows, integrated out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import scirocco as sc

RNG = np.random.default_rng(0)


def normal(x, mean, sd):
    return jax.scipy.stats.norm.logpdf(x, mean, sd)


# Normal rows: the marginal law of a group is known.


def with_intercept(p, u, row):
    return normal(u, p["mean"], p["tau"]) + jnp.sum(row["mask"] * normal(row["y"], u, p["sigma"]))


def with_slope(p, u, row):
    mean = u[0] + u[1] * row["x"]
    return normal(u, p["mean"], p["tau"]).sum() + jnp.sum(row["mask"] * normal(row["y"], mean, p["sigma"]))


def marginal(p, row):
    """Of ``with_slope``; of ``with_intercept`` with x = 0."""
    design = jnp.stack([jnp.ones_like(row["x"]), row["x"]], axis=1)
    covariance = design @ jnp.diag(p["tau"] ** 2) @ design.T + p["sigma"] ** 2 * jnp.eye(len(row["x"]))
    return jax.scipy.stats.multivariate_normal.logpdf(row["y"], design @ p["mean"], covariance)


ROW = {"y": jnp.array([2.0, 3.5, 1.0, 0.5]), "x": jnp.array([0.1, 1.0, -1.0, 2.0]), "mask": jnp.ones(4)}
PARAMS = {"mean": jnp.array([0.3, -0.2]), "tau": jnp.array([1.5, 0.7]), "sigma": jnp.array(0.8)}


@pytest.mark.parametrize("slope", [False, True])
def test_normal_effects_have_the_marginal_law(slope):
    if slope:
        params, row, found = PARAMS, ROW, sc.Latent(with_slope, size=2).log_likelihood
    else:
        params = {"mean": jnp.array(0.3), "tau": jnp.array(1.5), "sigma": jnp.array(0.8)}
        row, found = {**ROW, "x": jnp.zeros(4)}, sc.Latent(with_intercept).log_likelihood

    def exact(p, row):
        vector = p if slope else p | {name: jnp.append(p[name], 0.0) for name in ("mean", "tau")}
        return marginal(vector, row)

    def derivatives(f):
        return jax.value_and_grad(f)(params, row), jax.hessian(lambda s: f(params | {"sigma": s}, row))(params["sigma"])

    (here, curved), (there, bent) = (jax.jit(derivatives, static_argnums=0)(f) for f in (found, exact))
    np.testing.assert_allclose(here[0], there[0], rtol=1e-5)
    for name in params:
        np.testing.assert_allclose(here[1][name], there[1][name], rtol=2e-4, atol=1e-5)
    np.testing.assert_allclose(curved, bent, rtol=2e-3)


def logistic(p, u, row):
    eta = p["a"] + p["s"] * u
    return normal(u, 0.0, 1.0) + row["y"] * eta - row["n"] * jax.nn.softplus(eta)


def test_the_maximum_is_found_in_a_few_steps_whatever_the_rounding():
    """Of one group that values in single precision cannot bring closer all others would wait for the end."""
    count = 2000
    n = RNG.choice([10, 1000, 100_000], count).astype(np.float32)
    groups = {"n": n, "y": RNG.binomial(n.astype(int), 0.3).astype(np.float32)}
    params = {"a": jnp.array(-0.5), "s": jnp.array(0.8)}
    centre, scale = jax.vmap(sc.Latent(logistic)._laplace, (None, 0))(params, groups)
    slope = jax.vmap(jax.grad(logistic, 1), (None, 0, 0))(params, centre[:, 0], groups)
    assert np.max(np.abs(scale[:, 0, 0] * slope)) < 1e-3


QUADRATURE = jax.jit(jax.value_and_grad(sc.Latent(logistic).log_likelihood))


@pytest.mark.parametrize(("y", "n"), [(0.0, 1.0), (10.0, 10.0), (3.0, 7.0), (0.0, 5000.0), (2500.0, 5000.0)])
@pytest.mark.parametrize("s", [0.1, 3.0])
def test_logistic_effects_by_quadrature(y, n, s):
    """Against sums over a fine grid, in double precision; the widest and the narrowest effects among them."""
    a = -0.5
    u = np.linspace(-80, 80, 800_001)
    eta = a + s * u
    log_f = stats.norm.logpdf(u) + y * eta - n * np.logaddexp(0, eta)
    weight = np.exp(log_f - log_f.max())
    exact = log_f.max() + np.log(weight.sum() * (u[1] - u[0]))
    scores = np.array([np.ones_like(u), u]) * (y - n / (1 + np.exp(-eta)))
    slopes, squares = (values @ weight / weight.sum() for values in (scores, scores**2))
    rounding = 3e-4 * np.sqrt(squares)  # of terms that cancel, in single precision
    value, gradient = QUADRATURE({"a": jnp.array(a), "s": jnp.array(s)}, {"y": jnp.array(y), "n": jnp.array(n)})
    assert value == pytest.approx(exact, rel=1e-4, abs=1e-3)
    assert gradient["a"] == pytest.approx(slopes[0], rel=5e-3, abs=2e-3 + rounding[0])
    assert gradient["s"] == pytest.approx(slopes[1], rel=5e-3, abs=2e-3 + rounding[1])


def test_by_chance_the_likelihood_is_right_in_the_mean():
    effect = sc.Latent(with_slope, size=2, draws=40)
    keys = jax.random.split(jax.random.key(0), 4000)
    values = np.asarray(jax.jit(jax.vmap(lambda key: effect.log_likelihood(PARAMS, ROW, key)))(keys), np.float64)
    ratio = np.exp(values - float(marginal(PARAMS, ROW)))
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / np.sqrt(len(keys))
    assert ratio.std() < 0.3


def test_draws_of_effects_have_their_law():
    precision = 1 / 1.5**2 + 4 / 0.8**2
    mean = (0.3 / 1.5**2 + ROW["y"].sum() / 0.8**2) / precision
    params = {"mean": jnp.array(0.3), "tau": jnp.array(1.5), "sigma": jnp.array(0.8)}
    effect = sc.Latent(with_intercept)
    keys = jax.random.split(jax.random.key(1), 4000)
    draws = np.asarray(jax.jit(jax.vmap(lambda key: effect.draw(key, params, ROW)))(keys))
    assert stats.kstest(draws, stats.norm(mean, precision**-0.5).cdf).pvalue > 1e-3


def test_a_hierarchy_without_parameters_of_groups():
    """Normal groups of different sizes: the posterior by a run, the effects after it."""
    sizes = RNG.integers(1, 9, 300)
    user = np.repeat(np.arange(300), sizes)
    effects = RNG.normal(1.0, 0.8, 300)
    y = (effects[user] + 0.5 * RNG.normal(size=len(user))).astype(np.float32)
    order = RNG.permutation(len(user))
    groups = sc.batches.grouped({"user": user[order], "y": y[order]}, by="user")
    assert groups.size == 300
    np.testing.assert_array_equal(groups.arrays["mask"].sum(axis=1), sizes)
    np.testing.assert_allclose(groups.arrays["y"].sum(axis=1), np.bincount(user, y), rtol=1e-4)

    effect = sc.Latent(with_intercept)
    target = sc.Target(
        lambda p: -(p["mean"] ** 2) / 2 - p["tau"] - p["sigma"], effect.log_likelihood, groups,
        constraints={"tau": sc.constraints.positive, "sigma": sc.constraints.positive},
    )  # fmt: skip
    start = {"mean": jnp.array(0.0), "tau": jnp.array(1.0), "sigma": jnp.array(1.0)}
    trace = sc.sample(target, sc.SGLD(1e-4), start, num_samples=300, thin=5, batch_size=300, chains=2, report=False)
    for name, true in (("mean", 1.0), ("tau", 0.8), ("sigma", 0.5)):
        assert abs(trace.mean[name] - true) < 4 * np.sqrt(trace.variance[name])
    some = {name: column[:40] for name, column in groups.arrays.items()}
    found = trace.posterior_predictive(effect.draw, some, draws=200)
    tau, sigma, mean = (float(trace.mean[name]) for name in ("tau", "sigma", "mean"))
    precision = 1 / tau**2 + sizes[:40] / sigma**2
    shrunk = (mean / tau**2 + np.bincount(user, y)[:40] / sigma**2) / precision
    assert np.sqrt(np.mean((found.mean - shrunk) ** 2 * precision)) < 0.15  # 200 draws: 0.07, and those of parameters
    assert np.mean(found.sd * np.sqrt(precision)) == pytest.approx(1, abs=0.1)


def test_bad_settings():
    with pytest.raises(ValueError, match="3 nodes for each of 7 dimensions are 2,187 for each row"):
        sc.Latent(with_slope, size=7, nodes=3)
    with pytest.raises(ValueError, match="give one of them"):
        sc.Latent(with_slope, nodes=5, draws=100)
    with pytest.raises(TypeError, match="log_joint must be a function"):
        sc.Latent(3)
    with pytest.raises(ValueError, match="size must be"):
        sc.Latent(with_slope, size=0)


def test_bad_groups():
    columns = {"user": np.array([0, 1]), "y": np.array([1.0, 2.0])}
    with pytest.raises(ValueError, match=r"one of \['user', 'y'\]; got 'group'"):
        sc.batches.grouped(columns, by="group")
    with pytest.raises(TypeError, match="groups are whole numbers or categories"):
        sc.batches.grouped(columns, by="y")
    with pytest.raises(ValueError, match="cannot be called 'mask'"):
        sc.batches.grouped({**columns, "mask": columns["y"]}, by="user")
    users = np.concatenate([np.zeros(20_000, np.int64), np.arange(10_000)])
    with pytest.raises(ValueError, match="the largest group, 0 of user, has 20,001 rows"):
        sc.batches.grouped({"user": users}, by="user")
