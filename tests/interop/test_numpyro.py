"""NumPyro models as targets: densities against NumPyro's own, what is refused, and a run beside NUTS's answer."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import scirocco as sc

numpyro = pytest.importorskip("numpyro", reason="its models are what is tested")
import numpyro.distributions as dist  # noqa: E402
from numpyro.handlers import mask, reparam, scale  # noqa: E402
from numpyro.infer.reparam import LocScaleReparam  # noqa: E402
from numpyro.infer.util import potential_energy  # noqa: E402

RNG = np.random.default_rng(0)
N = 200
X = RNG.normal(size=(N, 2)).astype(np.float32)
GROUP = RNG.integers(4, size=N).astype(np.int32)
Y = (X @ [1.0, -0.5] + np.array([1.0, -1.0, 0.5, 2.0])[GROUP] + RNG.normal(size=N)).astype(np.float32)
DATA = {"x": X, "group": GROUP, "y": Y}


def hierarchical(x, group, y):
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    tau = numpyro.sample("tau", dist.HalfCauchy(1))
    with numpyro.plate("groups", 4):
        alpha = numpyro.sample("alpha", dist.Normal(mu, tau))
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([2]).to_event(1))
    numpyro.deterministic("total", jnp.sum(beta))
    with numpyro.plate("rows", len(y)):
        mean = numpyro.deterministic("mean", alpha[group] + x @ beta)
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def horseshoe(x, group, y):
    scales = numpyro.sample("scales", dist.HalfCauchy(1).expand([2]))
    sigma = numpyro.sample("sigma", dist.Gamma(2, 2))
    beta = numpyro.sample("beta", dist.Normal(0, scales))
    with numpyro.plate("rows", N):  # of all rows, whatever is given
        numpyro.sample("y", dist.StudentT(4.0, x @ beta, sigma), obs=y)


def correlated(x, group, y):
    """LKJ, a covariance in a plate inside and outside that over rows, simplex and ordered sites."""
    factor = numpyro.sample("factor", dist.LKJCholesky(2, 2.0))
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(3)))
    cuts = numpyro.sample("cuts", dist.TransformedDistribution(
        dist.Normal(0, 1).expand([3]), dist.transforms.OrderedTransform()))  # fmt: skip
    with numpyro.plate("rows", len(y)):
        numpyro.sample("x", dist.MultivariateNormal(jnp.zeros(2), scale_tril=factor), obs=x)
        parts = dist.Normal(cuts, 1.0)
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(probs=weights), parts), obs=y)


def dynamic(x, group, y):
    """A support that depends on a site before."""
    low = numpyro.sample("low", dist.Normal(-5, 1))
    mid = numpyro.sample("mid", dist.Uniform(low, 10.0))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(mid, 1.0), obs=y)


def handled(x, group, y):
    """scale, mask, factor inside and outside the plate, nested plates."""
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    numpyro.factor("outside", -(mu**4))
    with numpyro.plate("columns", 2, dim=-2), numpyro.plate("rows", len(y), dim=-1), scale(scale=0.5):
        numpyro.sample("x", dist.Normal(mu, 1.0), obs=x.T)
    with numpyro.plate("rows", len(y)), mask(mask=y > 0):
        numpyro.sample("y", dist.Normal(mu, 2.0), obs=y)
    with numpyro.plate("rows", len(y)):
        numpyro.factor("inside", -0.1 * (mu - y) ** 2)


def subsampled(x, group, y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("rows", N, subsample_size=50) as at:
        numpyro.sample("y", dist.Normal(mu, 2.0), obs=y[at])


def bounded(x, group, y):
    """A likelihood that is zero for some rows at some draws of the prior."""
    width = numpyro.sample("width", dist.HalfNormal(5))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Uniform(-width, width), obs=y)


noncentred = reparam(hierarchical, config={"alpha": LocScaleReparam(0)})
MODELS = [hierarchical, horseshoe, correlated, dynamic, handled, noncentred]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: getattr(m, "__name__", "noncentred"))
def test_the_density_is_numpyros(model):
    target = sc.Target.from_numpyro(model, DATA)
    free = target.free()
    like = jax.eval_shape(target.change.free, target.change.start)
    there_and_back = jax.jit(lambda place: target.change.free(target.change.parameters(place)))
    ours = jax.jit(lambda place: free.log_prior(place) + jnp.sum(free.density.log_likelihoods(place, DATA)))
    theirs = jax.jit(lambda place: -potential_energy(model, (), DATA, place))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        place = jax.tree.map(lambda leaf, rng=rng: 0.5 * rng.normal(size=leaf.shape).astype(np.float32), like)
        assert float(ours(place)) == pytest.approx(float(theirs(place)), rel=1e-5, abs=1e-3)
        for name, back in there_and_back(place).items():
            np.testing.assert_allclose(back, place[name], atol=2e-3)


def test_rows_that_a_draw_of_the_prior_excludes():
    target = sc.Target.from_numpyro(bounded, DATA)
    assert target.log_posterior({"width": jnp.array(10.0)}) > -np.inf
    assert target.log_posterior({"width": jnp.array(0.1)}) == -np.inf


def test_a_subsample_of_the_model_is_ours():
    target = sc.Target.from_numpyro(subsampled, DATA)
    params = {"mu": jnp.array(0.3)}
    expected = -(0.3**2) / 2 - np.log(2 * np.pi) / 2
    expected += np.sum(-((Y - 0.3) ** 2) / 8 - np.log(2) - np.log(2 * np.pi) / 2)
    assert target.log_posterior(params) == pytest.approx(expected, rel=1e-5)


def test_a_run_has_sites_with_their_plates():
    target = sc.Target.from_numpyro(hierarchical, DATA)
    trace = sc.sample(
        target, sc.UnderdampedLangevin("auto"), num_samples=600, batch_size=100, progress=False
    )  # fmt: skip
    assert trace.verdict().kind in ("use it", "run longer"), str(trace.summary())
    assert trace.posterior["alpha"].dims == ("chain", "draw", "groups")
    assert set(trace.posterior) == {"mu", "tau", "alpha", "beta", "total"}
    np.testing.assert_allclose(trace.posterior["total"], trace.posterior["beta"].sum("beta_dim_0"), rtol=1e-4)
    assert (trace.posterior["tau"] > 0).all()
    # the groups are far apart: their spread hardly matters to beta, which is that of a linear regression, nearly
    both = np.concatenate([X, np.eye(4)[GROUP]], axis=1)
    precision = both.T @ both + np.diag([1, 1, 0.5, 0.5, 0.5, 0.5])
    sd = np.sqrt(np.diag(np.linalg.inv(precision)))[:2]
    mean = np.linalg.solve(precision, both.T @ Y)[:2]
    assert np.all(np.abs(trace.mean["beta"] - mean) < 0.2 * sd)
    np.testing.assert_allclose(np.sqrt(trace.variance["beta"]), sd, rtol=0.12)


def local(x, group, y):
    with numpyro.plate("rows", len(y)):
        z = numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(z, 1.0), obs=y)


def discrete(x, group, y):
    k = numpyro.sample("k", dist.Poisson(3.0))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(k, 1.0), obs=y)


def with_params(x, group, y):
    sigma = numpyro.param("sigma", 1.0, constraint=dist.constraints.positive)
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(mu, sigma), obs=y)


def without_plate(x, group, y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


def prior_sees_rows(x, group, y):
    mu = numpyro.sample("mu", dist.Normal(jnp.mean(y), 1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


def rows_see_each_other(x, group, y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(mu + jnp.mean(y), 1.0), obs=y)


def other_size(x, group, y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("rows", 7):
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y[:7])


def other_size_of_vectors(x, group, y):
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("rows", 150):  # of a table that has grown since
        numpyro.sample("y", dist.Normal(x @ beta, 1.0), obs=y)


def sphere(x, group, y):
    mu = numpyro.sample("mu", dist.ProjectedNormal(jnp.ones(2)))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(x @ mu, 1.0), obs=y)


def unobserved(x, group, y):
    numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y)):
        numpyro.deterministic("mean", y)


def scanned(x, group, y):
    from numpyro.contrib.control_flow import scan

    mu = numpyro.sample("mu", dist.Normal(0, 1))
    scan(lambda c, row: (c, numpyro.sample("y", dist.Normal(mu, 1.0), obs=row)), 0.0, y)
    with numpyro.plate("rows", len(y)):
        numpyro.factor("nothing", jnp.zeros(len(y)))


def two_plates(x, group, y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    for name in ("rows", "again"):
        with numpyro.plate(name, len(y)):
            numpyro.sample(f"y {name}", dist.Normal(mu, 1.0), obs=y)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (local, "z is a latent site of each row"),
        (discrete, "k is discrete"),
        (with_params, "sigma is a param site"),
        (without_plate, "no plate over the 200 rows"),
        (prior_sees_rows, "outside the plate 'rows' depends on the rows"),
        (rows_see_each_other, "depends on the other rows"),
        (other_size, "no plate over the 200 rows"),
        (other_size_of_vectors, "no plate over the 200 rows .it has {'rows': 150}"),
        (sphere, "mu has the support"),
        (unobserved, "nothing is observed inside the plate"),
        (scanned, "y is observed there"),
        (two_plates, "give plate="),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_minibatches_cannot_sample_is_refused(model, words):
    with pytest.raises(ValueError, match=words):
        sc.Target.from_numpyro(model, DATA)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"plate": "groups"}, ValueError, "the plate 'groups' has 4 entries, and there are 200 rows"),
        ({"plate": "nowhere"}, ValueError, "no plate 'nowhere'; it has"),
        ({"rows": X}, TypeError, "rows must be arguments of the model by name"),
        ({"rows": {"x": X, "group": GROUP}}, TypeError, "y"),
        ({"model": 3}, TypeError, "model must be a function"),
    ],
)
def test_wrong_input(settings, error, words):
    given = {"model": hierarchical, "rows": DATA} | settings
    with pytest.raises(error, match=words):
        sc.Target.from_numpyro(given.pop("model"), given.pop("rows"), **given)


@pytest.mark.parametrize(
    ("initial", "words"),
    [
        ({"mu": 0.0}, "must have the latent sites"),
        ({"tau": -1.0}, "tau is not in the support of its prior"),
        ({"alpha": np.zeros(3, np.float32)}, r"alpha must have the shape \(4,\)"),
    ],
)
def test_a_wrong_start_is_refused(initial, words):
    target = sc.Target.from_numpyro(hierarchical, DATA)
    start = initial if "mu" in initial else dict(target.change.start) | initial
    with pytest.raises(ValueError, match=words):
        sc.sample(target, sc.SGLD(1e-3), start)


def test_rows_among_fixed_arguments_are_named():
    with pytest.raises(Exception, match="shapes") as caught:
        sc.Target.from_numpyro(hierarchical, {"x": X, "group": GROUP}, fixed={"y": Y}, plate="rows")
    assert "scirocco: y in fixed has an entry for each row: give it in rows" in caught.value.__notes__


def test_a_start_may_be_lists():
    target = sc.Target.from_numpyro(horseshoe, DATA)
    start = {"scales": [1.0, 1.0], "sigma": 1.0, "beta": [0.0, 0.0]}
    trace = sc.sample(target, sc.SGLD(1e-4), start, num_samples=2, burn_in=1, batch_size=100, report=False)
    assert trace.posterior["beta"].shape == (4, 2, 2)


def test_axes_have_names_and_categories_labels():
    frame = pd.DataFrame({"group": pd.Categorical.from_codes(GROUP, list("dcba")), "y": Y})
    target = sc.Target.from_numpyro(
        hierarchical, {"x": X, "group": frame["group"], "y": frame["y"]}, dims={"beta": ["column"]},
        coords={"column": ["age", "income"], "groups": list("dcba")},
    )  # fmt: skip
    trace = sc.sample(target, sc.SGLD(1e-4), num_samples=2, burn_in=1, batch_size=100, report=False)
    assert {"alpha[b]", "beta[income]"} <= set(trace.summary().table.index)
    found = trace.predict(lambda p, row: p["total"] + p["alpha"][row["group"]], {"group": frame["group"][:5]})
    expected = trace.posterior["total"] + trace.posterior["alpha"].isel(groups=list(GROUP[:5]))
    np.testing.assert_allclose(found.mean, expected.mean(("chain", "draw")), rtol=1e-4, atol=1e-5)
    assert target.source.labels["group"] == tuple("dcba")


def test_a_run_goes_on_bit_for_bit(tmp_path):
    target = sc.Target.from_numpyro(hierarchical, DATA)
    settings = {"burn_in": 10, "batch_size": 50, "progress": False, "report": False}
    whole = sc.sample(target, sc.SGLD(1e-3), num_samples=30, **settings)
    sc.sample(target, sc.SGLD(1e-3), num_samples=12, path=tmp_path / "run", **settings)
    again = sc.resume(tmp_path / "run", sc.Target.from_numpyro(hierarchical, DATA), num_samples=30)
    for name in whole.posterior:
        np.testing.assert_array_equal(again.posterior[name], whole.posterior[name])
    assert again.posterior["alpha"].dims == ("chain", "draw", "groups")
