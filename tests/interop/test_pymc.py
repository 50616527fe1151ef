"""PyMC models as targets: densities against PyMC's own, what is refused, and runs whose answer is known."""

from __future__ import annotations

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
        x, group = pm.Data("x", X, dims=("row", "column")), pm.Data("group", GROUP, dims="row")
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


def places(target, number=2):
    """Free positions."""
    like = target.free().freed(target.change.start)
    for seed in range(number):
        yield jax.tree.map(lambda leaf, s=seed: 0.5 * jax.random.normal(jax.random.key(s), leaf.shape), like)


def theirs(model, place):
    """PyMC's own log density, with its Jacobians."""
    names = {model.rvs_to_values[rv].name: np.asarray(place[rv.name], rv.dtype) for rv in model.free_RVs}
    return float(model.compile_logp(mode=PLAIN)(names))


MODELS = [hierarchical, ordered, counts, mixture, correlated, bounded, potentials]


@pytest.mark.parametrize("make", MODELS)
def test_the_density_is_pymcs(make):
    model = make()
    target = sc.Target.from_pymc(model)
    assert target.size == N
    for place in places(target):
        assert target.free().log_posterior(place) == pytest.approx(theirs(model, place), rel=1e-5)
        back = target.change.free(target.change.parameters(place))
        for name in back:
            np.testing.assert_allclose(back[name], place[name], atol=2e-3)
