"""``step_size="auto"``, the mode and the bias report on manifolds, against posteriors in closed form."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.directional import log_bessel_excess, mean_resultant_length, sample
from scirocco.manifolds import Simplex, Sphere, Stiefel
from scirocco.optimise.chart import chart

D, N, KAPPA = 10, 5000, 30.0
ROWS = sample(np.random.default_rng(0), np.eye(D)[0], KAPPA, N).astype(np.float32)


def log_prior(p):
    return -(p["k"] ** 2) / 8


def log_likelihood(p, row):
    return jnp.exp(p["k"]) * (row @ p["m"]) - log_bessel_excess(D / 2 - 1, jnp.exp(p["k"]))


TARGET = sc.Target(log_prior, log_likelihood, ROWS, manifold={"m": Sphere()})
START = {"m": Sphere().random(jax.random.key(1), (D,)), "k": jnp.float32(1.0)}
DIRECTION = ROWS.sum(axis=0, dtype=np.float64) / np.linalg.norm(ROWS.sum(axis=0, dtype=np.float64))


def laplace():
    """The posterior sds of a tangent direction and of log kappa, for large N."""
    mode = sc.find_mode(TARGET, START)
    kappa = float(np.exp(mode["k"]))
    with jax.enable_x64(True):
        slope = float(jax.grad(lambda x: mean_resultant_length(D, x))(kappa))
    length = np.linalg.norm(ROWS.sum(axis=0, dtype=np.float64))
    return 1 / np.sqrt(kappa * length), 1 / (kappa * np.sqrt(N * slope))


def test_the_mode_on_a_manifold():
    mode = sc.find_mode(TARGET, START)
    np.testing.assert_allclose(mode["m"], DIRECTION, atol=1e-4)
    resultant = np.linalg.norm(ROWS.mean(axis=0, dtype=np.float64))
    assert abs(float(mean_resultant_length(D, np.exp(mode["k"]))) - resultant) < 1e-4


@pytest.mark.slow
def test_the_mode_on_a_stiefel_manifold():
    stiefel = sc.Target(
        lambda x: 0.0, lambda x, row: row[:2] @ x[:2, 0] + 2 * row[2] * x[1, 1], np.ones((50, 3), np.float32),
        manifold=Stiefel(),
    )  # fmt: skip
    found = sc.find_mode(stiefel, Stiefel().random(jax.random.key(0), (3, 2)))
    np.testing.assert_allclose(found.T @ found, np.eye(2), atol=1e-5)
    slope = Stiefel().slope(found, jnp.asarray(stiefel.full_gradient(found), jnp.float32))
    assert np.max(np.abs(slope)) < 0.05  # of gradients of size 50 and more


def test_the_mode_on_a_simplex_is_that_of_the_density_on_the_sphere():
    """Counts n and a flat prior: theta_j ~ n_j + 1/2, because x_j = 0 has no mass on the sphere."""
    codes = np.repeat(np.arange(3), [10, 30, 60])
    target = sc.Target(lambda t: 0.0, lambda t, c: jnp.log(t[c]), codes, manifold=Simplex())
    np.testing.assert_allclose(
        sc.find_mode(target, jnp.full(3, 1 / 3)), (np.array([10, 30, 60]) + 0.5) / 101.5, atol=1e-4
    )


def test_normal_coordinates():
    """The gradient and the Hessian of the chart at its origin are the Riemannian ones."""
    point = {"m": jnp.asarray(DIRECTION, jnp.float32), "k": jnp.float32(3.0)}
    around, origin = chart(TARGET, point)
    slope = TARGET.geometry.slope(point, jax.tree.map(jnp.asarray, TARGET.full_gradient(point)))
    found = around.full_gradient(origin)
    for name in slope:
        np.testing.assert_allclose(found[name], slope[name], rtol=1e-3, atol=1.0)  # of 10^5
    # Along the sphere U = -kappa R cos t: its second derivative at the mean direction is kappa R.
    from scirocco.optimise.curvature import hessian

    h = hessian(around, origin)[1:, 1:]
    tangent = np.eye(D) - np.outer(DIRECTION, DIRECTION)
    want = np.exp(3.0) * np.linalg.norm(ROWS.sum(axis=0, dtype=np.float64))
    np.testing.assert_allclose(tangent @ h @ tangent, want * tangent, atol=2e-3 * want)


@pytest.mark.parametrize(
    "sampler",
    [
        sc.UnderdampedLangevin("auto"),
        pytest.param(sc.SGGMC("auto"), marks=pytest.mark.slow),
        pytest.param(sc.GeodesicSGNHT("auto"), marks=pytest.mark.slow),
        pytest.param(sc.GMC("auto"), marks=pytest.mark.slow),
    ],
)
def test_auto_on_a_sphere_and_a_line(sampler):
    trace = sc.sample(TARGET, sampler, START, num_samples=2500, burn_in=300, chains=4, seed=2)
    tangent, radial = laplace()
    m = trace.posterior["m"].values.astype(np.float64)
    # Two directions that are tangent at the mean.
    across = m @ np.linalg.svd(DIRECTION[None])[2][1:3].T
    for sd, want in [
        *zip(across.std(axis=(0, 1)), [tangent] * 2, strict=True),
        (trace.posterior["k"].values.std(), radial),
    ]:
        assert abs(sd / want - 1) < 0.08, (sd, want)
    assert trace.tuning.sd_error <= 0.05
    assert trace.bias.accurate, str(trace.bias)
    if isinstance(sampler, sc.GMC):
        assert max(correlation(across[..., 0]), correlation(trace.posterior["k"].values)) < 0.3


def correlation(draws):
    """Of neighbouring draws of chains, (chain, draw)."""
    centred = draws - draws.mean()
    return float(np.mean(centred[:, 1:] * centred[:, :-1]) / np.mean(centred**2))


def test_a_trajectory_of_a_whole_period_goes_somewhere_all_the_same():
    target = sc.Target(lambda x: -(x**2) / 2, lambda x, row: 0.0 * row, np.zeros(2, np.float32))
    found = {
        jitter: sc.sample(
            target, sc.GMC(2 * np.pi / 50, leapfrog_steps=50, jitter=jitter), jnp.float32(0.5), num_samples=1000,
            burn_in=100, chains=4, report=False,
        ).posterior["theta"].values
        for jitter in (0.0, 0.5)
    }  # fmt: skip
    assert correlation(found[0.0]) > 0.9
    assert abs(correlation(found[0.5])) < 0.1
    np.testing.assert_allclose([found[0.5].mean(), found[0.5].std()], [0, 1], atol=0.07)


@pytest.mark.parametrize("d", [pytest.param(2, marks=pytest.mark.slow), 400])
def test_auto_chooses_trajectories_of_gmc(d):
    """As long as the posterior is wide, of steps that are mostly accepted."""
    target = sc.Target(lambda x: 0.0, lambda x, row: -jnp.sum((x - row) ** 2) / 2, np.zeros((100, d), np.float32))
    settings = {"num_samples": 500, "burn_in": 50, "chains": 4, "report": False}
    trace = sc.sample(target, sc.GMC("auto"), jnp.ones(d), **settings)
    assert 0.7 < trace.sample_stats["acceptance"].values.mean() < (1.0 if d == 2 else 0.95)
    assert correlation(trace.posterior["theta"].values[..., 0]) < 0.3
    np.testing.assert_allclose(trace.posterior["theta"].values.std(), 0.1, rtol=0.05)


@pytest.mark.slow
def test_auto_on_a_stiefel_manifold_and_a_simplex():
    """Orthonormal means and shares: posterior sds of GMC, which is exact, and of minibatches agree."""
    rng = np.random.default_rng(3)
    codes = np.eye(3)[rng.choice(3, 600, p=[0.2, 0.3, 0.5])]
    rows = np.concatenate([codes, rng.normal([2, 0, 0, 0, 1, 0], 1, (600, 6))], axis=1).astype(np.float32)

    def likelihood(p, row):
        means = jnp.concatenate([2 * p["q"][:, 0], p["q"][:, 1]])
        return row[:3] @ jnp.log(p["w"]) - jnp.sum((row[3:] - means) ** 2) / 2

    target = sc.Target(lambda p: 0.0, likelihood, rows, manifold={"q": Stiefel(), "w": Simplex()})
    start = {"q": jnp.eye(3)[:, :2], "w": jnp.full(3, 1 / 3)}
    found = []
    for sampler in (sc.UnderdampedLangevin("auto"), sc.GMC("auto")):
        trace = sc.sample(target, sampler, start, num_samples=2000, burn_in=200, chains=4, seed=1, progress=False)
        w, q = (trace.posterior[name].values.astype(float) for name in "wq")
        gram = np.einsum("cdij,cdik->cdjk", q, q)
        np.testing.assert_allclose(gram, np.broadcast_to(np.eye(2), gram.shape), atol=1e-4)
        found.append(np.concatenate([w.std(axis=(0, 1)), q.std(axis=(0, 1)).ravel()]))
        assert trace.bias is not None
    counts = rows[:, :3].sum(axis=0) + 1
    exact = np.sqrt(counts * (counts.sum() - counts) / (counts.sum() ** 2 * (counts.sum() + 1)))
    for sds in found:
        np.testing.assert_allclose(sds[:3], exact, rtol=0.08)
    np.testing.assert_allclose(found[0], found[1], rtol=0.12, atol=1e-4)


@pytest.mark.slow
def test_auto_resumes(tmp_path):
    settings = {"burn_in": 50, "chains": 2, "seed": 4, "report": False}
    whole = sc.sample(TARGET, sc.SGGMC("auto"), START, num_samples=200, **settings)
    sc.sample(TARGET, sc.SGGMC("auto"), START, num_samples=80, path=tmp_path / "run", **settings)
    longer = sc.resume(tmp_path / "run", TARGET, num_samples=200, progress=False)
    for name in whole.posterior:
        np.testing.assert_array_equal(longer.posterior[name], whole.posterior[name])


def test_the_report_sees_a_step_that_is_too_long_and_noise():
    tangent, radial = laplace()
    scale = {"m": tangent, "k": radial}
    # Frictions in units of the posterior's own time.
    friction = jax.tree.map(lambda s: 1 / s, scale)
    noisy = sc.SGGMC(jax.tree.map(lambda s: 0.5 * s, scale), friction=friction)
    trace = sc.sample(TARGET, noisy, {"m": jnp.asarray(DIRECTION, jnp.float32), "k": jnp.float32(3.4)}, batch_size=20,
                      num_samples=2000, burn_in=500, chains=4, seed=1, batching=sc.batches.WithReplacement(),
                      progress=False)  # fmt: skip
    m = trace.posterior["m"].values.astype(np.float64)
    across = (m @ np.linalg.svd(DIRECTION[None])[2][1:].T).std(axis=(0, 1)).mean()
    seen = np.median(trace.bias.sd_error["m"])
    assert across / tangent > 1.5
    assert not trace.bias.accurate
    assert abs((1 + seen) / (across / tangent) - 1) < 0.2, (seen, across / tangent)


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        (sc.SGLD("auto"), "SGLD moves in straight lines and the target lives on a manifold"),
        (sc.SGGMC(sc.Auto(search=True)), "there is no warm-up on manifolds"),
        (sc.SGGMC("auto", resample_momentum=True), "needs a sampler that knows its law"),
        (sc.SGGMC("auto", friction={"m": np.ones(D), "k": 1.0}), "friction must be one number for each point"),
        (sc.SGNHT("auto", thermostats="coordinate"), 'thermostats="coordinate" gives coordinates frictions'),
    ],
)
def test_what_cannot_be_tuned(sampler, words):
    with pytest.raises(ValueError, match=words):
        sc.sample(TARGET, sampler, START, report=False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": 10}, "GMC has a Metropolis-Hastings test, which needs all data"),
        ({"estimator": sc.ControlVariate()}, "leave the estimator out"),
    ],
)
def test_gmc_needs_all_data(options, words):
    with pytest.raises(ValueError, match=words):
        sc.sample(TARGET, sc.GMC(0.01), START, report=False, **options)


def test_starts_off_the_manifold():
    with pytest.raises(
        ValueError, match=r"initial: m is off its manifold Sphere\(\) by 2\.16.*target\.geometry\.nearest"
    ):
        sc.sample(TARGET, sc.SGGMC(0.001), START | {"m": jnp.ones(D)}, report=False)
    near = TARGET.geometry.nearest(START | {"m": jnp.ones(D)})
    TARGET.check(near)
    with pytest.raises(ValueError, match=r"size 3, but a point has 10 entries"):
        sc.sample(TARGET, sc.SGGMC(0.01, friction={"m": sc.Matrix(np.eye(3)), "k": 1.0}), START, report=False)
    with pytest.raises(ValueError, match="noise_estimate must not exceed friction"):
        sc.sample(TARGET, sc.SGGMC(0.01, noise_estimate=sc.GradientNoise(1e6)), START, report=False)
