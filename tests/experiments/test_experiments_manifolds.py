"""The experiments on manifolds in their short mode, as in ``test_experiments.py``, and the laws they compare with."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments_support import holds

import scirocco as sc

pytest.importorskip("matplotlib", reason="the experiments need scirocco[experiments]")


@pytest.mark.slow
def test_known_gradient_noise_leaves_no_trace_on_the_circle_and_noise_taken_as_zero_does(play):
    module, found, claims = play("geodesic_circle")
    assert len(claims) == 8
    assert holds(claims, "'no obvious corruption'")
    assert holds(claims, "its friction finds")
    assert not holds(claims, "V taken as zero")
    for name, run in found.items():
        assert np.all(np.abs(run.seeds) <= np.pi)
        temperature = module.HOT if name == module.ZERO else 1.0
        assert module.distance(run.long, temperature) < 0.1
        if name != module.REFERENCE:
            assert run.kinetic == pytest.approx(temperature / 2, abs=0.02)
    assert found[module.THERMOSTAT].thermostat == pytest.approx(15, abs=0.5)


def test_the_density_on_the_circle_is_that_of_the_potential(load):
    module = load("geodesic_circle")
    angles = np.linspace(-np.pi, np.pi, 400, endpoint=False)
    exact = module.density(angles)
    assert 2 * np.pi * exact.mean() == pytest.approx(1, abs=1e-12)
    assert module.masses().sum() == pytest.approx(1, abs=1e-6)
    x = jnp.asarray(np.stack([np.cos(angles), np.sin(angles)], axis=1), jnp.float32)
    logs = -np.asarray(jax.vmap(module.potential)(x), np.float64)
    np.testing.assert_allclose(logs - logs[0], np.log(exact / exact[0]), atol=2e-5)
    tempered = np.log(module.density(angles, 1.5))
    np.testing.assert_allclose(1.5 * (tempered - tempered[0]), np.log(exact / exact[0]), atol=1e-9)


def test_exact_angles_are_near_their_law_and_others_are_not(load):
    module = load("geodesic_circle")
    rng = np.random.default_rng(1)
    draws = module.exact_draws(rng, 10_000)
    assert module.distance(draws) < 0.035
    assert module.distance(module.exact_draws(rng, 300_000)) < 0.007
    assert module.distance(draws, module.HOT) > 0.07
    assert module.distance(-draws) > 0.3  # the bumps exchanged
    assert module.distance(rng.uniform(-np.pi, np.pi, 10_000)) > 0.3


def test_rows_give_the_gradient_the_noise_of_the_source_exactly(load):
    module = load("geodesic_circle")
    noisy, x = module.noisy(), jnp.array([0.6, 0.8])
    np.testing.assert_allclose(noisy.full_gradient(x), jax.grad(module.potential)(x), atol=1e-3)
    rows = np.asarray(noisy.example_gradients(x, None, noisy.data), np.float64) * module.ROWS  # as minibatches of one
    np.testing.assert_allclose(np.cov(rows.T, bias=True), module.NOISE * np.eye(2), atol=0.1)
    assert np.mean((rows / rows.std(axis=0)) ** 4, axis=0) == pytest.approx([3, 3], abs=0.1)


@pytest.mark.slow
def test_one_minibatch_for_all_inner_steps_heats_the_mixture_and_fresh_ones_do_not(play):
    module, found, claims = play("geodesic_mixture")
    assert len(claims) == 10
    assert holds(claims, "shallow: the posterior has two modes")
    assert holds(claims, "shallow: 'no observable corruption")
    assert not holds(claims, "shallow: beyond the source: V may be taken as zero")
    assert not holds(claims, "shallow: Algorithm 1 as printed")
    assert not holds(claims, "shallow: the likelihood as printed")  # the misprint of the source
    (shallow,) = found.values()
    for method, kinetic, width in (
        (module.OURS, 0.5, 1.0), (module.FULL, 0.5, 1.0), (module.ZERO, 0.57, 1.12), (module.ONCE, 1.05, 1.8),
    ):  # fmt: skip
        assert shallow.runs[method].kinetic == pytest.approx(kinetic, rel=0.05)
        assert shallow.width(method) == pytest.approx(width, rel=0.1)
    assert shallow.together(module.ONCE) > 0.17
    assert shallow.changes(module.OURS) >= 1


def test_the_grid_has_the_posterior_of_the_target(load):
    module = load("geodesic_mixture")
    x = module.points(module.POINTS["deep"])
    exact, target = module.truth(x), module.posterior(x)
    assert exact.mass.sum() == pytest.approx(1, abs=1e-12)
    assert exact.pooled(module.CELLS).sum() == pytest.approx(1, abs=1e-12)
    places = [(250, 250), (240, 283), (263, 220), (252, 300)]

    def log_posterior(place):
        one, two = (jnp.array([np.cos(a), np.sin(a)], jnp.float32) for a in module.GRID[list(place)])
        return target.log_posterior({"v1": one, "v2": two})

    logs, mass = np.array([log_posterior(place) for place in places]), np.array([exact.mass[p] for p in places])
    np.testing.assert_allclose(logs - logs[0], np.log(mass / mass[0]), atol=2e-3)


def test_the_points_are_those_that_the_experiment_says(load):
    module = load("geodesic_mixture")
    none, shallow, between, deep = (module.truth(module.points(seed)) for seed in range(4))
    expected = np.array([module.GENERATED, -module.GENERATED])
    assert none.valley == 1
    assert 0.5 < shallow.valley < 0.9
    assert np.abs(shallow.peaks - expected).max() > 0.05
    assert np.abs(between.peaks - expected).max() > 0.05
    assert np.abs(deep.peaks - expected).max() < 0.05
    swapped = module.truth(module.points(3), printed=True).mass  # v_1 and v_2 can be exchanged
    np.testing.assert_allclose(swapped, swapped.T, atol=1e-15)


def test_exact_draws_of_the_mixture_are_near_their_law_and_others_are_not(load):
    module = load("geodesic_mixture")
    exact, rng = module.truth(module.points(1)), np.random.default_rng(2)
    draws = exact.draws(rng, 25_000)
    assert module.joint(draws, exact) < 0.02
    assert max(module.marginal(draws, exact, which) for which in (0, 1)) < 0.02
    assert draws.std(axis=0) == pytest.approx(exact.sds, rel=0.02)
    assert np.corrcoef(draws.T)[0, 1] == pytest.approx(exact.correlation, abs=0.003)
    assert (draws[:, 1] > 0).mean() == pytest.approx(exact.share, abs=0.015)
    assert (draws @ module.ACROSS).std() == pytest.approx(exact.of(module.ACROSS)[1], rel=0.02)
    hot = draws + 0.03 * rng.normal(size=draws.shape)
    assert module.joint(hot, exact) > 0.06
    loose = np.stack([draws[:, 0], rng.permutation(draws[:, 1])], axis=1)  # the marginals are right
    assert max(module.marginal(loose, exact, which) for which in (0, 1)) < 0.02
    assert module.joint(loose, exact) > 0.3
    one = draws[draws[:, 1] > 0]
    assert module.joint(one, exact) > 0.4


def test_changes_are_counted_from_beyond_one_peak_to_beyond_the_other(load):
    changes = load("geodesic_mixture").changes
    assert changes(np.array([0.0, 1.2, 0.4, -0.9, 1.1, -1.1, -0.2, -1.3]), -1.0, 1.0) == 1
    assert changes(np.array([1.2, -1.2, 0.0, 1.2]), -1.0, 1.0) == 2
    assert changes(np.zeros(5), -1.0, 1.0) == 0


def test_steps_on_one_minibatch_are_those_of_sggmc_on_it(load):
    module = load("geodesic_mixture")
    geometry = sc.manifolds.Geometry.of(module.MANIFOLD)
    cold = {"friction": 3.0, "temperature": 0.0}
    start = {"v1": jnp.array([0.6, 0.8]), "v2": jnp.array([1.0, 0.0])}
    push = {"v1": jnp.array([1.0, -2.0]), "v2": jnp.array([0.5, 3.0])}
    sampler, printed = sc.SGGMC(0.1, **cold), module.OneMinibatch(0.1, repeats=3, **cold)
    state = first = sampler.init(jax.random.key(0), start, geometry)
    for number in range(3):
        state, _ = sampler.step(jax.random.key(number), state, lambda v: push, geometry)
    found, _ = printed.step(jax.random.key(9), first, lambda v: push, geometry)
    assert int(found.step) == 3
    for name in start:
        np.testing.assert_allclose(found.position[name], state.position[name], atol=1e-6)
        np.testing.assert_allclose(found.momentum[name], state.momentum[name], atol=1e-6)
