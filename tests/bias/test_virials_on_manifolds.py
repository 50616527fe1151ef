"""The virial identity on manifolds: exact draws of known laws, and runs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.bias.combinations import worst_combinations
from scirocco.bias.virials import Chart, Curvature, Virials, _gram, on_manifold
from scirocco.manifolds import Simplex, Sphere, Stiefel

temperatures = pytest.mark.parametrize("temperature", [1.0, 2.0])


def judged(manifold, x, gradient, temperature=1.0):
    """The virials of draws (chain, draw, ...), all of them points."""
    y, slopes, steepness = on_manifold(manifold, x, gradient, temperature)
    y = np.asarray(y, np.float64)
    found = Virials.of(y, slopes, y.var(axis=(0, 1)), temperature, steepness)
    return found.with_chance(y.var(axis=1))


def right(found):
    return np.all(np.abs(found.ratio - 1) < 4.5 * found.error)


def von_mises_fisher(rng, shape, kappa):
    """Draws on S^2 around the last axis (Ulrich 1984)."""
    u = rng.random(shape)
    height = 1 + np.log(u + (1 - u) * np.exp(-2 * kappa)) / kappa
    turn, away = 2 * np.pi * rng.random(shape), np.sqrt(1 - height**2)
    return np.stack([away * np.cos(turn), away * np.sin(turn), height], axis=-1)


def uphill(x, kappa):
    """Grad U of U = -kappa x_3."""
    return np.broadcast_to([0.0, 0.0, -kappa], x.shape)


@temperatures
@pytest.mark.parametrize("kappa", [0.5, 5.0, 500.0])
def test_von_mises_fisher_laws(kappa, temperature):
    x = von_mises_fisher(np.random.default_rng(0), (8, 2000), kappa / temperature)
    found = judged(Sphere(), x, uphill(x, kappa), temperature)
    assert right(found)
    assert np.max(found.error) < 0.1


def test_a_law_around_an_axis_that_single_precision_hardly_resolves():
    x = von_mises_fisher(np.random.default_rng(0), (8, 2000), 1e7).astype(np.float32)
    found = judged(Sphere(), x, uphill(x, 1e7))
    assert right(found)
    assert np.max(found.error) < 0.1


@temperatures
def test_the_uniform_law_needs_no_gradient(temperature):
    for manifold, shape in ((Sphere(), (5,)), (Stiefel(), (4, 2)), (Simplex(), (4,))):
        x = np.asarray(manifold.random(jax.random.key(1), (8, 1000, *shape)))
        found = judged(manifold, x, np.zeros(x.shape), temperature)
        assert right(found)
        assert np.max(found.error) < 0.1


@temperatures
@pytest.mark.parametrize(("parameter", "power"), [([3.0, 8.0, 20.0], 2.0), ([0.3, 0.6, 2.0], 1 / 0.3), ([1, 1, 2], 1)])
def test_dirichlet_laws(parameter, power, temperature):
    """exp(-U/T) is a density on the usual measure of probabilities, whatever T: sparse and flat at borders too."""
    x = np.random.default_rng(0).dirichlet(parameter, (8, 2000))
    x = np.maximum(x, 1e-12)
    gradient = -temperature * (np.array(parameter) - 1) / x
    assert right(judged(Simplex(power), x, gradient, temperature))


@temperatures
def test_a_matrix_law_on_the_stiefel_manifold(temperature):
    """exp(kappa tr M'X / T), by rejection from the uniform law."""
    rng, kappa = np.random.default_rng(0), 1.5
    centre = np.linalg.qr(rng.normal(size=(3, 2)))[0]
    x = np.asarray(Stiefel().random(jax.random.key(0), (80_000, 3, 2)), np.float64)
    density = kappa / temperature * (np.sum(centre * x, axis=(1, 2)) - 2)
    x = x[np.log(rng.random(len(x))) < density]
    x = x[: len(x) // 8 * 8].reshape(8, -1, 3, 2)
    assert x.shape[1] > 200
    assert right(judged(Stiefel(), x, np.broadcast_to(-kappa * centre, x.shape), temperature))
    assert not right(judged(Stiefel(), x, np.broadcast_to(-1.6 * kappa * centre, x.shape), temperature))


@pytest.mark.parametrize("factor", [0.01, 0.6, 1.5])
def test_chains_that_are_too_cold_or_too_hot(factor):
    """Draws at another temperature than the one that they are judged at."""
    x = von_mises_fisher(np.random.default_rng(0), (8, 2000), 200 / factor)
    found = judged(Sphere(), x, uphill(x, 200.0))
    np.testing.assert_allclose(found.ratio, factor, rtol=0.1)
    assert np.all(np.abs(found.ratio - 1) > 4.5 * found.error)
    probabilities = np.random.default_rng(0).dirichlet(np.array([50.0, 80.0, 200.0]) / factor, (8, 2000))
    found = judged(Simplex(), probabilities, -(np.array([50.0, 80.0, 200.0]) - 1) / probabilities)
    np.testing.assert_allclose(found.ratio, factor, rtol=0.15)


# Combinations.


def worst(manifold, x, gradient, temperature=1.0):
    """The narrowest and the widest, by how many standard errors they are off, and the chart."""
    chart = Chart.of(manifold, x, gradient, temperature)
    curvatures = Curvature.of_halves(chart.places, chart.slopes)
    found = worst_combinations(chart.places, chart.slopes, temperature, curvatures)
    return chart, found, [(c.ratio - 1) / c.error for c in found]


@temperatures
def test_combinations_of_right_laws_raise_no_alarm(temperature):
    rng, points = np.random.default_rng(0), (4, 200)
    for kappa in (0.5, 5.0, 500.0):
        x = von_mises_fisher(rng, points, kappa / temperature)
        assert np.max(np.abs(worst(Sphere(), x, uphill(x, kappa), temperature)[2])) < 4.5
    for manifold, shape, free in ((Sphere(), (3, 5), 15), (Stiefel(), (4, 2), 8), (Simplex(), (4,), 3)):
        x = np.asarray(manifold.random(jax.random.key(1), (*points, *shape)))
        chart, _, off = worst(manifold, x, np.zeros(x.shape), temperature)
        assert chart.places.shape[2] == free  # of probabilities one less than there are
        assert np.max(np.abs(off)) < 4.5
    parameter = np.array([0.1] * 20 + [5.0, 50.0])  # nearly always empty: too few points tell of their G
    x = np.maximum(rng.dirichlet(parameter, (4, 60)), 1e-12)
    chart, _, off = worst(Simplex(), x, -temperature * (parameter - 1) / x, temperature)
    assert chart.places.shape[2] < 21
    assert np.max(np.abs(off)) < 4.5


def test_the_chart_is_flat():
    """Its diagonal is the steepness, and there the mean of the products is the unit matrix."""
    parameter = np.array([3.0, 8.0, 20.0])
    x = np.random.default_rng(0).dirichlet(parameter, (8, 4000))
    chart = Chart.of(Simplex(), x, -(parameter - 1) / x, 1.0)
    with jax.enable_x64(True):
        gram = np.asarray(_gram(Simplex(), x.reshape(-1, 3)))[0]
    _, _, steepness = on_manifold(Simplex(), x, x, 1.0)
    np.testing.assert_allclose(np.diag(gram), steepness.mean(axis=(0, 1)), rtol=1e-9)
    np.testing.assert_allclose(chart.back.T @ gram @ chart.back, np.eye(2), atol=1e-9)
    slopes = chart.slopes - chart.slopes.mean(axis=(0, 1))
    products = (chart.places[..., :, None] * slopes[..., None, :]).mean(axis=1)
    assert np.all(np.abs(products.mean(0) - np.eye(2)) < 4.75 * products.std(0, ddof=1) / np.sqrt(8))


@pytest.mark.parametrize(("factor", "end"), [(0.3, 0), (2.5, 1)])
def test_a_combination_on_a_sphere_that_is_off(factor, end):
    """Around the diagonal of R^4 one tangent direction has a variance that is wrong; every coordinate has a part."""
    rng, kappa = np.random.default_rng(0), 2000.0
    axes = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2
    z = rng.normal(size=(4, 256, 3)) / np.sqrt(kappa)
    z[..., 0] *= np.sqrt(factor)
    x = np.concatenate([np.sqrt(1 - np.sum(z**2, axis=2, keepdims=True)), z], axis=2) @ axes
    chart, found, off = worst(Sphere(), x, np.broadcast_to(-kappa * axes[0], x.shape))
    assert abs(found[end].ratio - factor) < 4.5 * found[end].error
    assert abs(off[end]) > 4.5
    shown = chart.back @ found[end].weights
    tangent = shown - axes[0] * (shown @ axes[0])
    assert abs(tangent @ axes[1]) > 0.9 * np.linalg.norm(tangent)


# Runs.


def law(params):
    return 5 * params["direction"][2] - 0.5 * jnp.sum(params["place"] ** 2)


HEIGHT = 1 / np.tanh(5) - 0.2  # of the mean
TRUTH = np.array([HEIGHT / 5, HEIGHT / 5, 1 - 2 * HEIGHT / 5 - HEIGHT**2])


@pytest.mark.parametrize("h", [0.1, 1.0])
def test_a_step_that_is_too_long_for_a_sphere_is_seen(h):
    """The law is that of a Gaussian, and knows no sphere; beside it are two parameters in flat space."""
    target = sc.Target(law, lambda p, row: 0.0 * row, np.ones(8, np.float32), manifold={"direction": Sphere()})
    start = {"direction": jnp.array([0.0, 0.0, 1.0]), "place": jnp.zeros(2)}
    trace = sc.sample(
        target, sc.SGGMC(h, friction=1.0), start, num_samples=1500, burn_in=100, thin=5, batch_size=1.0, progress=False
    )
    stretch = np.sqrt(trace.variance["direction"] / TRUTH)
    found, report = trace.bias.virial["direction"], trace.bias
    assert report.virial["place"].shape == (2,)
    assert report.widest is not None
    if h == 0.1:
        np.testing.assert_allclose(stretch, 1, atol=0.1)
        assert not report.contradicted
        assert trace.verdict().kind != "do not use it"
        return
    assert stretch[2] > 1.5
    assert found[2] > 1.3
    assert report.conflicts["direction"][2]
    assert trace.verdict().kind == "do not use it"


def test_minibatches_that_heat_a_direction_are_seen():
    """A direction with a von Mises-Fisher posterior, whose variance is known, from few rows at a time."""
    rng = np.random.default_rng(0)
    rows = von_mises_fisher(rng, (500,), 2.0).astype(np.float32)
    target = sc.Target(lambda x: 0.0 * x[0], lambda x, row: 2 * row @ x, rows, manifold=Sphere())
    pull = 2 * rows.sum(axis=0, dtype=np.float64)
    centre, kappa = pull / np.linalg.norm(pull), np.linalg.norm(pull)
    sampler = sc.SGGMC(0.02, friction=10.0)
    trace = sc.sample(
        target, sampler, jnp.asarray(centre, jnp.float32), num_samples=1500, burn_in=200, thin=10, batch_size=10,
        batching=sc.batches.WithReplacement(), progress=False,
    )  # fmt: skip
    across = np.linalg.svd(centre[None])[2][1:]  # two axes on which the variance is 1/kappa
    draws = trace.posterior["theta"].values.astype(np.float64) @ across.T
    stretch = np.sqrt(np.mean(draws**2) * kappa)
    assert stretch > 1.1
    found = Virials(trace.bias.virial["theta"][:2], trace.bias.virial_error["theta"][:2])
    assert np.all(np.abs(1 + found.sd_error - stretch) < 4.5 * found.sd_error_error + 0.02)
    assert trace.verdict().kind in ("do not use it", "use means, not intervals")
