"""Sweeps of minibatches: the law in closed form, the order of the error with and without them, data on disk."""

from __future__ import annotations

import gaussian as g
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.batches import RandomBlocks, Shuffled, Sweeps, WithReplacement
from scirocco.batches.draws import Swept
from scirocco.gradient.engine import GradientEngine
from scirocco.integrators.langevin import INTEGRATORS
from scirocco.integrators.law import euler_variance, stationary_variance
from scirocco.run.recording import Recording
from scirocco.samplers import Preconditioned, Scale

KEY = jax.random.key(0)


@pytest.mark.parametrize("scheme", ["euler", "baoab", "aboba", "ubu", "sgld"])
def test_the_law_is_the_sum_over_all_pairs_of_a_sweep(scheme):
    """Whole epochs, rows left over, a sweep of one minibatch, and several sweeps an epoch, as of blocks on disk."""
    lam, noise, friction, diffusion = 1.3, 4.0, 0.8, 1.7
    for size, batch, sweep, sweeps, h in (
        (100, 10, 10, 1, 0.3), (105, 10, 10, 1, 0.02), (15, 10, 1, 1, 0.2), (100, 5, 4, 5, 0.15), (100, 10, 10, 1, 1.2)
    ):  # fmt: skip
        wanted = g.swept_variance(scheme, lam, noise, h, friction, diffusion, size, batch, sweep, sweeps)
        epoch = Swept(size / batch, sweep)
        if scheme == "sgld":
            found = euler_variance(np.array(lam), np.array(noise), np.array(h), diffusion, epoch)
        else:
            found = stationary_variance(INTEGRATORS[scheme], lam, noise, h, friction, diffusion, epoch)
        assert float(found) == pytest.approx(wanted, rel=1e-9)


def test_the_error_is_of_second_order_with_sweeps_and_of_first_order_without():
    """Ten minibatches an epoch, whose noise is ten times the curvature, by the law at T = 2."""
    steps = np.array([0.008, 0.004, 0.002])

    def errors(scheme, epoch):
        law = [stationary_variance(INTEGRATORS[scheme], 1.0, 10.0, h, 1.0, 2.0, epoch) for h in steps]
        return np.abs(np.array(law, float) / 2 - 1)

    def order(values):
        return np.polyfit(np.log(steps), np.log(values), 1)[0]

    swept, independent = errors("ubu", Swept(10.0, 10)), errors("ubu", np.inf)
    assert order(independent) == pytest.approx(1, abs=0.05)
    assert order(swept) == pytest.approx(2, abs=0.1)
    np.testing.assert_allclose(swept[-1], steps[-1] ** 2 / 6, rtol=0.05)  # all that is left is UBU's own
    # BAOAB has no error of its own: that of the minibatches alone, in sweeps and in shuffled epochs.
    assert order(errors("baoab", Swept(10.0, 10))) == pytest.approx(4, abs=0.3)
    assert order(errors("baoab", 10.0)) == pytest.approx(3, abs=0.3)


DATA = np.array([[-1.2, 0.4], [0.3, 2.5], [0.9, 0.7], [-0.4, 1.5], [0.1, 0.5], [1.4, 1.1], [-0.8, 3.0], [0.6, 0.9],
                 [-0.1, 1.8], [0.5, 0.6], [-1.0, 1.2], [0.2, 2.0]], np.float32)  # fmt: skip
STEEP = sc.Target(
    lambda w: -0.005 * w**2, lambda w, r: -jnp.logaddexp(r[1] * (w - r[0]), -r[1] * (w - r[0])), DATA
)  # rows that differ in place and in sharpness: their curvatures do too


def test_the_same_on_a_posterior_that_is_not_gaussian():
    """12 rows, two at a time. Half the step has half the error of the variance, with sweeps less than a quarter."""
    w = np.linspace(-6, 6, 8001)
    places, slopes = DATA.T.astype(float)[:, :, None]
    u = 0.005 * w**2 + np.sum(np.logaddexp(slopes * (w - places), -slopes * (w - places)), axis=0)
    density = np.exp(u.min() - u) / np.sum(np.exp(u.min() - u))
    mean = density @ w
    sd = np.sqrt(density @ (w - mean) ** 2)

    def error(batching, share, chains=768):
        burn_in, steps = round(10 / share), round(100 / share)
        kernel = sc.kernel(STEEP, sc.SMSUBU(share * sd, friction=1 / sd), batch_size=2, batching=batching)
        engine = GradientEngine(kernel, jnp.float32(mean), chains=chains, recording=Recording(burn_in, 1))
        engine.start()
        squares = []
        while engine.step < burn_in + steps:
            squares.append((engine.advance(burn_in + steps).draws["theta"].astype(np.float64) - mean) ** 2)
        ratios = np.mean(np.concatenate(squares, axis=1), axis=1) / sd**2 - 1
        return np.mean(ratios), np.std(ratios) / np.sqrt(chains)

    (long, se), (short, _) = (error(WithReplacement(), share) for share in (0.2, 0.1))
    assert se < 0.02
    assert long > 0.5
    assert 1.7 < long / short < 2.3
    (long, _), (short, se) = (error(None, share) for share in (0.2, 0.1))
    assert 0.05 < long < 0.2
    assert short < long / 4 + 3 * se


def test_the_default_is_that_of_the_sampler():
    def batching(sampler, **options):
        return type(sc.kernel(STEEP, sampler, batch_size=2, **options).batching)

    assert batching(sc.SMSUBU(0.1)) is Sweeps
    assert batching(Preconditioned(sc.SMSUBU(0.1), Scale(np.ones(1)))) is Sweeps
    assert batching(sc.SMSUBU(0.1, noise_estimate=0.1)) is RandomBlocks
    assert batching(sc.SMSUBU(0.1), estimator=sc.SAGA()) is RandomBlocks
    assert batching(sc.SMSUBU(0.1), batching=Shuffled()) is Shuffled
    assert batching(sc.UnderdampedLangevin(0.1)) is Shuffled
    assert batching(sc.SGNHT(0.1)) is batching(sc.Barker(0.1)) is RandomBlocks
    with pytest.raises(ValueError, match="SAGA is unbiased only with independent minibatches: with Sweeps"):
        batching(sc.UnderdampedLangevin(0.1), estimator=sc.SAGA(), batching=Sweeps())


def test_manifolds_are_refused():
    target = sc.Target(lambda w: 0.0, lambda w, r: r @ w, np.ones((10, 3), np.float32), manifold=sc.manifolds.Sphere())
    start = jnp.array([1.0, 0.0, 0.0])
    for sampler in (sc.SMSUBU(0.1), sc.SGHMC(0.1, integrator="ubu")):
        with pytest.raises(ValueError, match="moves in straight lines and the target lives on a manifold"):
            sc.sample(target, sampler, start, batch_size=2)
        with pytest.raises(ValueError, match="integrator 'ubu' is for flat space"):
            sampler.check(start, target.geometry)
        with pytest.raises(ValueError, match="Rescaled is for samplers that move on manifolds"):
            sc.samplers.Rescaled(sampler, np.ones(1, np.float32)).check(start)


def test_blocks_of_data_on_disk_are_swept_one_by_one(tmp_path):
    """Each block is there for both ways; over an epoch every row comes twice."""
    rows = np.arange(6000, dtype=np.float32)
    np.save(tmp_path / "x.npy", rows)
    source = sc.batches.MemoryMapped({"x": tmp_path / "x.npy"}, block_bytes=4 * 2000)
    target = sc.Target(lambda w: -(w**2), lambda w, r: 0.0 * r["x"], source)
    kernel = sc.kernel(target, sc.SMSUBU(0.1), batch_size=100)
    sweep = kernel.epoch.sweep
    assert kernel.epoch == 60
    assert kernel.steps_per_block == 2 * sweep < 2 * 60
    state, seen, draw = kernel.draw.init(KEY), [], jax.jit(kernel.draw.draw)
    for step in range(2 * sweep * (6000 // (100 * sweep))):
        state, batch = draw(KEY, state, jnp.int32(step), kernel.data_at(step))
        seen.append(np.sort(np.asarray(batch.data["x"])))
    kernel.close()
    for first in range(0, len(seen), 2 * sweep):
        there = seen[first : first + 2 * sweep]
        np.testing.assert_array_equal(there, there[::-1])
    assert np.all(np.bincount(np.concatenate(seen).astype(int), minlength=6000) <= 2)
    assert np.sum(np.bincount(np.concatenate(seen).astype(int))) == 100 * len(seen)
