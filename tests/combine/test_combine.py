"""Draws of shards are combined into draws of their product: against closed forms, in any container and any order."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from scipy import stats

import scirocco as sc
from scirocco.combine.density import KernelMixture
from scirocco.combine.kernels import bandwidth
from scirocco.combine.shards import Shards

METHODS = {
    name: getattr(sc.combine, name)
    for name in ("consensus", "kdemc", "parametric", "semiparametric", "swiss", "weierstrass")
}
every_method = pytest.mark.parametrize("name", METHODS)


def normal_shards(count=4, d=3, draws=20_000, seed=0, exact=False):
    """Draws of normal laws of different places and widths, and the mean and covariance of their product."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(count, d))
    roots = rng.normal(size=(count, d, d)) + 2 * np.eye(d)
    z = rng.normal(size=(count, draws, d))
    if exact:
        z -= z.mean(axis=1, keepdims=True)
        z = np.stack([one @ np.linalg.inv(np.linalg.cholesky(np.cov(one.T))).T for one in z])
    values = means[:, None] + np.einsum("sij,snj->sni", roots, z)
    precisions = np.linalg.inv(roots @ np.swapaxes(roots, 1, 2))
    covariance = np.linalg.inv(precisions.sum(axis=0))
    return values, covariance @ np.einsum("sij,sj->i", precisions, means), covariance


def whitened(draws, mean, covariance):
    """In coordinates in which they should be N(0, I)."""
    return np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).T).T


@every_method
def test_the_product_of_normal_laws(name):
    values, mean, covariance = normal_shards()
    z = whitened(METHODS[name](values), mean, covariance)
    # Smoothed by kernels of h^2 times its covariance each law is wider by 1 + h^2, and so is the product.
    wider = 1 + bandwidth(Shards.of(values)) ** 2 if name == "kdemc" else 1.0
    # Some 5,000 independent draws at least: standard errors of 0.014 and 0.02; means of shards err by 0.007.
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=0.07)
    np.testing.assert_allclose(np.cov(z.T), wider * np.eye(3), atol=0.09)
    assert stats.kstest(z[::4, 0] / np.sqrt(wider), "norm").pvalue > 1e-4


def test_moments_that_are_exact():
    values, mean, covariance = normal_shards(draws=500, exact=True)
    found = sc.combine.swiss(values)
    assert found.shape == (2000, 3)
    np.testing.assert_allclose(found.mean(axis=0), mean, atol=1e-10)
    np.testing.assert_allclose(np.cov(found.T, bias=True), covariance * 499 / 500, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(sc.combine.consensus(values).mean(axis=0), mean, atol=1e-10)
    product = Shards.of(values).product
    np.testing.assert_allclose(product[0], mean, atol=1e-10)
    np.testing.assert_allclose(product[1], covariance, rtol=1e-9, atol=1e-12)


def test_diagonal_weights():
    """Of independent coordinates they are the full ones; and they need no more draws than coordinates."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3, 50_000, 2)) * [[[1.0, 2.0]], [[2.0, 1.0]], [[1.0, 1.0]]]
    full, diagonal = (sc.combine.consensus(values, weights) for weights in ("full", "diagonal"))
    np.testing.assert_allclose(full, diagonal, atol=0.05)
    assert sc.combine.consensus(rng.normal(size=(2, 5, 8)), "diagonal").shape == (5, 8)
    with pytest.raises(ValueError, match="weights must be one of"):
        sc.combine.consensus(values, "none")


# Subposteriors that are not normal.

SHAPES, RATES = np.array([1.5, 2.0, 1.7]), np.array([0.6, 0.5, 1.0])
PRODUCT = stats.gamma(SHAPES.sum() - 2, scale=1 / RATES.sum())


def gamma_shards(draws, seed=0):
    return np.random.default_rng(seed).gamma(SHAPES[:, None], 1 / RATES[:, None], (3, draws))


def distance(draws, law=PRODUCT):
    """Of Kolmogorov and Smirnov."""
    return stats.kstest(np.ravel(draws), law.cdf).statistic


@pytest.mark.parametrize("name", ["kdemc", "weierstrass"])
def test_methods_without_a_normal_law_converge(name):
    """A product of Gamma laws is one; averages of draws are not near it, however many there are."""
    errors = [
        np.mean([distance(METHODS[name](gamma_shards(n, seed), 20_000, seed=seed)) for seed in range(3)])
        for n in (100, 2000, 40_000)
    ]
    assert errors[2] < errors[1] < errors[0], errors
    assert errors[2] < 0.03, errors
    for other in ("consensus", "swiss", "parametric"):
        assert distance(METHODS[other](gamma_shards(40_000))) > 2 * errors[2]


@pytest.mark.parametrize("name", ["kdemc", "weierstrass", "semiparametric"])
def test_two_modes_in_two_dimensions(name):
    """The product of laws with modes at +-2.5 of the first coordinate: normal kernels keep both, averages do not."""
    rng = np.random.default_rng(1)
    shards, draws, wide = 2, 20_000, 1.5
    sides = rng.choice([-1, 1], (shards, draws))
    values = rng.normal(size=(shards, draws, 2)) * wide
    values[..., 0] += 2.5 * sides
    found = METHODS[name](values)
    # Components (s, t) of the product: centre 2.5 (s + t)/2, weight exp(-2.5^2 (s - t)^2 / (4 wide^2)).
    middle = np.exp(-(5**2) / (4 * wide**2))
    true = middle / (1 + middle)
    share = np.mean(np.abs(found[:, 0]) < 0.5)
    sd = wide / np.sqrt(2)
    inside = sum(w * np.diff(stats.norm(m, sd).cdf([-0.5, 0.5]))[0]
                 for m, w in ((0.0, true), (2.5, (1 - true) / 2), (-2.5, (1 - true) / 2)))  # fmt: skip
    assert abs(share - inside) < 0.035, (share, inside)
    averaged = sc.combine.consensus(values)
    assert np.mean(np.abs(averaged[:, 0]) < 0.5) > inside + 0.08
    np.testing.assert_allclose(found[:, 1].std(), sd, rtol=0.1)


def test_more_proposals_come_closer():
    """One of one is the consensus of pairs; one of many has nearly the law of the product."""
    draws = gamma_shards(20_000)[:2]
    law = stats.gamma(SHAPES[:2].sum() - 1, scale=1 / RATES[:2].sum())
    errors = [distance(sc.combine.weierstrass(draws, proposals=p), law) for p in (1, 4, 100)]
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[0] == pytest.approx(distance(sc.combine.consensus(draws), law), abs=0.02)


# What goes in and what comes out.


@every_method
def test_the_order_of_shards_and_the_units_do_not_matter(name):
    values, _, _ = normal_shards(draws=2000)
    found = METHODS[name](values)
    np.testing.assert_array_equal(METHODS[name](values[[2, 0, 3, 1]]), found)
    units = np.array([1e-6, 1.0, 1e5])
    scaled = METHODS[name]([one * units for one in values])
    # Other bytes are put in another order: the same law, not the same draws, where there is chance.
    sd = found.std(axis=0)
    np.testing.assert_allclose(np.mean(scaled, axis=0) / (units * sd), found.mean(axis=0) / sd, atol=0.2)
    np.testing.assert_allclose(np.std(scaled, axis=0) / units, found.std(axis=0), rtol=0.15)


@every_method
def test_containers_come_back(name):
    values, _, _ = normal_shards(draws=200)
    method = METHODS[name]
    flat = method(values)
    single = [{"b": jnp.asarray(one[:, :2], jnp.float32), "a": (one[:, 2],)} for one in values]
    found = method(single)
    assert set(found) == {"a", "b"}
    assert isinstance(found["a"], tuple)
    assert found["b"].shape == (len(flat), 2)
    assert found["b"].dtype == np.float32
    assert found["a"][0].dtype == np.float64
    data = [
        xr.Dataset({"m": (("chain", "draw", "word"), one.reshape(2, 100, 3))}, {"word": ["x", "y", "z"]})
        for one in values
    ]
    again = method(data)
    assert again["m"].dims == ("chain", "draw", "word")
    assert list(again["word"].values) == ["x", "y", "z"]
    np.testing.assert_allclose(again["m"].values[0], flat, rtol=1e-6)
    scalars = method([one[:, 0] for one in values])
    assert scalars.shape == (len(flat),)


def test_traces_and_draws_of_different_number():
    target = sc.Target(lambda m: -(m**2) / 2, lambda m, x: -((x - m) ** 2) / 2, np.arange(10.0, dtype=np.float32))
    traces = [
        sc.sample(target, sc.SGLD(0.01), jnp.float32(0), num_samples=n, chains=2, progress=False) for n in (40, 60)
    ]
    found = sc.combine.consensus(traces)
    assert found["theta"].shape == (1, 80)


@pytest.mark.parametrize("name", ["parametric", "kdemc", "semiparametric", "weierstrass"])
def test_numbers_of_draws_and_seeds(name):
    values, _, _ = normal_shards(draws=300)
    method = METHODS[name]
    assert method(values, 7).shape == (7, 3)
    assert method(values, 1000).shape == (1000, 3)
    np.testing.assert_array_equal(method(values, 50, seed=3), method(values, 50, seed=3))
    assert not np.array_equal(method(values, 50, seed=3), method(values, 50, seed=4))
    with pytest.raises(ValueError, match="num_samples must be"):
        method(values, 0)


@every_method
@pytest.mark.parametrize(
    ("draws", "words"),
    [
        ([np.ones((5, 2))], "two shards or more; got 1"),
        ([np.zeros((5, 2)), np.zeros((5, 3))], r"same variables and shapes; shard 0 has draws \(2,\), shard 1 draws"),
        ([{"a": np.zeros(5)}, {"b": np.zeros(5)}], r"shard 0 has a \(\), shard 1 b \(\)"),
        ([np.zeros((0, 2)), np.zeros((5, 2))], "shard 0 has 0 draws"),
        ([np.zeros((1, 2)), np.zeros((5, 2))], "shard 0 has 1 draw: two at least"),
        ([np.zeros((5, 2)), np.array([[0, 1], [np.nan, 1.0]])], "shard 1: draws is not finite in draw 1"),
        ([np.ones((9, 2)), np.ones((9, 2))], r"draws\[0\], draws\[1\] have the same value in all draws"),
        ([{"a": np.zeros(5), "b": np.zeros(4)}] * 2, "as many draws as each other"),
        ([{}, {}], "shard 0 has no variables"),
        ([np.zeros((5, 0))] * 2, "has no coordinates"),
    ],
)
def test_bad_shards(name, draws, words):
    with pytest.raises(ValueError, match=words):
        METHODS[name](draws)


def test_more_bad_shards():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 50, 2))
    with pytest.raises(TypeError, match="a sequence with the draws of each shard; got one dict"):
        sc.combine.consensus({"a": x})
    with pytest.raises(TypeError, match="array of numbers"):
        sc.combine.consensus([np.array(["a", "b"])] * 2)
    with pytest.raises(ValueError, match=r"is singular: draws\[.\], .* depend on each other linearly"):
        sc.combine.consensus([np.concatenate([one, one.sum(axis=1, keepdims=True)], axis=1) for one in x])
    with pytest.raises(ValueError, match=r'5 draws of a shard have a singular covariance in 8 .*weights="diagonal"'):
        sc.combine.consensus(rng.normal(size=(2, 5, 8)))
    with pytest.raises(ValueError, match="9 draws of a shard are too few for a covariance in 8 dimensions: 11"):
        sc.combine.parametric(rng.normal(size=(2, 9, 8)))


# The density by which draws are weighed.


def test_the_kernel_mixture_is_a_density_with_the_moments_of_the_draws():
    rng = np.random.default_rng(0)
    draws = np.concatenate([rng.normal(-4, 1, (300, 1)), rng.normal(3, 0.5, (300, 1))])
    found = KernelMixture.fitted(draws)
    grid = np.linspace(-40, 40, 40_001)
    mass = np.exp(found.log_density(grid[:, None])) * (grid[1] - grid[0])
    assert mass.sum() == pytest.approx(1, abs=1e-4)
    assert mass @ grid == pytest.approx(draws.mean(), abs=1e-3)
    assert mass @ grid**2 - (mass @ grid) ** 2 == pytest.approx(draws.var(ddof=1), rel=2e-2)
    fresh = found.sample(50_000, rng)
    edges = np.quantile(fresh, np.linspace(0, 1, 21))
    shares = np.diff(np.interp(edges, grid, np.cumsum(mass)))
    np.testing.assert_allclose(shares[1:-1], 0.05, atol=0.006)
    assert found.width < 0.5  # two modes need narrow kernels
    normal = KernelMixture.fitted(rng.normal(size=(1000, 20)))
    assert normal.width > 0.8  # one law is enough for a normal one
