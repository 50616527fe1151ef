"""One step against the formula: with the noise off exactly, and with the noise that the key gives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import scirocco as sc
from scirocco.core.trees import normal_like
from scirocco.integrators.langevin import INTEGRATORS, aboba, baoab, coast, euler, ornstein_uhlenbeck, ubu
from scirocco.integrators.law import euler_variance, stationary_variance
from scirocco.integrators.matrix import LowRank
from scirocco.samplers.sgnht import SGNHTState

THETA = {"x": jnp.array([0.3, -1.2]), "y": jnp.array(0.7)}
P = {"x": jnp.array([0.5, 0.1]), "y": jnp.array(-0.4)}
CURVATURE = {"x": jnp.array([2.0, 5.0]), "y": jnp.array(0.5)}
KEY = jax.random.key(7)
H, A = 0.1, 3.0


def gradient(theta):
    return jax.tree.map(lambda c, t: c * t + 0.1, CURVATURE, theta)


def leaves(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def spread(value):
    return jax.tree.map(lambda _: value, THETA)


ZERO = jax.tree.map(jnp.zeros_like, THETA)
C, T0, P0 = leaves(CURVATURE), leaves(THETA), leaves(P)


def test_sgld_is_its_formula():
    for temperature in (1.0, 0.25):
        sampler = sc.SGLD(H, temperature=temperature)
        state, info = sampler.step(KEY, sampler.init(KEY, THETA), gradient)
        want = T0 - H * (C * T0 + 0.1) + np.sqrt(2 * H * temperature) * leaves(normal_like(KEY, THETA))
        np.testing.assert_allclose(leaves(state.position), want, rtol=1e-6)
        np.testing.assert_allclose(info.gradient_norm, np.linalg.norm(C * T0 + 0.1), rtol=1e-6)


def test_euler_without_noise():
    position, momentum, _ = euler(THETA, P, gradient, ZERO, spread(H), spread(A), spread(A))
    p = P0 - H * A * P0 - H * (C * T0 + 0.1)
    np.testing.assert_allclose(leaves(momentum), p, rtol=1e-6)
    np.testing.assert_allclose(leaves(position), T0 + H * p, rtol=1e-6)


def test_baoab_without_noise():
    position, momentum, _ = baoab(THETA, P, gradient, ZERO, spread(H), spread(A), spread(A))
    p = P0 - H * (C * T0 + 0.1)
    middle = T0 + H / 2 * p
    p = np.exp(-A * H) * p
    np.testing.assert_allclose(leaves(momentum), p, rtol=1e-6)
    np.testing.assert_allclose(leaves(position), middle + H / 2 * p, rtol=1e-6)


def test_aboba_without_noise():
    position, momentum, _ = aboba(THETA, P, gradient, ZERO, spread(H), spread(A), spread(A))
    middle = T0 + H / 2 * P0
    force = C * middle + 0.1
    p = np.exp(-A * H) * (P0 - H / 2 * force) - H / 2 * force
    np.testing.assert_allclose(leaves(momentum), p, rtol=1e-6)
    np.testing.assert_allclose(leaves(position), middle + H / 2 * p, rtol=1e-6)


def test_ubu_without_noise():
    position, momentum, _ = ubu(THETA, P, gradient, (ZERO,) * 4, spread(H), spread(A), spread(A))
    decay, move = np.exp(-A * H / 2), -np.expm1(-A * H / 2) / A
    middle = T0 + move * P0
    p = decay * P0 - H * (C * middle + 0.1)
    np.testing.assert_allclose(leaves(momentum), decay * p, rtol=1e-6)
    np.testing.assert_allclose(leaves(position), middle + move * p, rtol=1e-6)


@pytest.mark.parametrize("friction", [0.0, 1e-5, 0.03, 1.6, 1.7, 9.0, 400.0])
def test_u_is_the_exact_solution(friction):
    """Means and covariances of drift, friction and noise over 0.3, against those of the linear SDE (van Loan 1978)."""
    h, d = 0.3, 1.7
    pull = np.array([[0.0, 1], [0, -friction]]) * h
    block = expm(np.block([[-pull, np.diag([0.0, 2 * d * h])], [np.zeros((2, 2)), pull.T]]))
    mean = block[2:, 2:].T
    with jax.enable_x64(True):
        units = jnp.eye(4)
        found = coast(units[0], units[1], (units[2], units[3]), *(np.full(4, x) for x in (h, friction, d)))
    move, noise = np.array(found)[:, :2], np.array(found)[:, 2:]
    np.testing.assert_allclose(move, mean, rtol=1e-6, atol=1e-9)
    if friction < 100:  # beyond, the reference overflows
        np.testing.assert_allclose(noise @ noise.T, mean @ block[:2, 2:], rtol=1e-6, atol=1e-9)
    else:
        np.testing.assert_allclose(noise @ noise.T, d / friction * np.array([
            [(2 * h - 3 / friction) / friction, 1 / friction], [1 / friction, 1.0]
        ]), rtol=1e-6)  # fmt: skip


def test_sgnht_is_algorithm_1():
    sampler = sc.SGNHT(H, diffusion=A)
    state = sampler.init(KEY, THETA)
    p, xi = leaves(state.momentum), float(state.thermostat)
    assert xi == A
    new, _ = sampler.step(KEY, state, gradient)
    p = p - H * xi * p - H * (C * T0 + 0.1) + np.sqrt(2 * A * H) * leaves(normal_like(KEY, THETA))
    np.testing.assert_allclose(leaves(new.momentum), p, rtol=1e-5)
    np.testing.assert_allclose(leaves(new.position), T0 + H * p, rtol=1e-5)
    np.testing.assert_allclose(new.thermostat, xi + H * (p @ p / 3 - 1), rtol=1e-5)


def test_thermostats_of_leaves_of_coordinates_and_of_products():
    """Driven by the kinetic energy of what shares them; the next momentum feels them."""

    def moved(thermostats, theta=THETA):
        sampler = sc.SGNHT(H, diffusion=A, thermostats=thermostats, temperature=2.0)
        state = sampler.init(KEY, theta)
        return sampler.step(KEY, state, gradient)[0], sampler

    new, _ = moved("coordinate")
    p = new.momentum
    np.testing.assert_allclose(leaves(new.thermostat), A + H * (leaves(p) ** 2 - 2.0), rtol=1e-5)
    new, sampler = moved("leaf")
    for name, xi in new.thermostat.items():
        np.testing.assert_allclose(xi, A + H * (np.mean(np.square(p[name])) - 2.0), rtol=1e-5)
    new, sampler = moved("matrix")
    outer = np.outer(p["x"], p["x"])
    np.testing.assert_allclose(new.thermostat["x"], A * np.eye(2) + H * (outer - 2 * np.eye(2)), rtol=1e-5)
    again, _ = sampler.step(jax.random.key(3), new, gradient)
    stirred = np.sqrt(2 * A * 2.0 * H) * np.asarray(normal_like(jax.random.key(3), THETA)["x"])
    felt = p["x"] - H * np.asarray(new.thermostat["x"]) @ p["x"] - H * np.asarray(gradient(new.position)["x"])
    np.testing.assert_allclose(again.momentum["x"], felt + stirred, rtol=1e-4)


@pytest.mark.parametrize("integrator", ["euler", "baoab", "split_friction"])
def test_a_friction_of_low_rank_is_the_matrix_that_it_stands_for(integrator):
    v = jnp.asarray(np.linalg.qr(np.random.default_rng(0).normal(size=(4, 2)))[0], jnp.float32)
    along, rest = jnp.array([[1.5, 0.7], [0.7, 0.9]]), jnp.float32(0.4)
    whole = sc.Matrix(v @ along @ v.T + rest * (jnp.eye(4) - v @ v.T))
    x = jnp.array([0.3, -0.4, 0.8, 0.1])
    one, other = (
        INTEGRATORS[integrator](x, 2 - x, lambda x: 2.0 * x, normal_like(KEY, x), 0.3, friction, 0.8)
        for friction in (whole, LowRank(v, along, rest))
    )
    for mine, wanted in zip(other[:2], one[:2], strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=2e-5)


def test_a_thermostat_along_directions_and_its_law():
    """With the axes for directions it is what a matrix is, and one number, between them."""
    theta, v = jnp.zeros(3), np.eye(3, dtype=np.float32)[:, :1]
    sampler, whole = (
        sc.SGNHT(H, diffusion=0.5, thermostats=kind, temperature=2.0)
        for kind in (sc.samplers.AlongDirections(v), "matrix")
    )
    state = sampler.init(KEY, theta)
    new, _ = sampler.step(KEY, state, lambda x: 2.0 * x)
    p = np.asarray(new.momentum)
    np.testing.assert_allclose(new.thermostat.along, [[0.5 + H * (p[0] ** 2 - 2.0)]], rtol=1e-5)
    np.testing.assert_allclose(new.thermostat.rest, 0.5 + H * (np.mean(p[1:] ** 2) - 2.0), rtol=1e-5)
    assert float(sampler.stats(new)["thermostat"]) == pytest.approx(0.5 + H * (np.mean(p**2) - 2.0), rel=1e-5)
    precision, noise = np.array([1.0, 2.0, 3.0]), np.array([8.0, 3.0, 3.0]) / H
    laws = [
        s.stationary_variance(s.settled(s.init(KEY, theta), precision, noise), precision, noise)
        for s in (sampler, whole)
    ]
    np.testing.assert_allclose(*laws, rtol=1e-5)


def test_thermostats_that_do_not_fit():
    v = np.eye(3, dtype=np.float32)[:, :1]
    theta = jnp.zeros(3)
    along = sc.samplers.AlongDirections
    for kind, h, noise, words in (
        ("matrix", np.full(3, H, np.float32), 0.0, 'thermostats="matrix" wants one step_size for each leaf'),
        (along(v), np.full(3, H, np.float32), 0.0, "wants one step_size for each leaf"),
        (along(v), H, sc.GradientNoise("diagonal"), "takes no noise_estimate that is measured"),
        (along(v), H, np.full(3, 0.1, np.float32), "wants one noise_estimate for each leaf"),
        (along({"x": v}), H, 0.0, "basis must have the structure"),
        (along(np.eye(3, dtype=np.float32)), H, 0.0, "fewer columns"),
        (along(2 * v), H, 0.0, "orthonormal columns"),
    ):
        with pytest.raises(ValueError, match=words):
            sc.SGNHT(h, diffusion=A, thermostats=kind, noise_estimate=noise).check(theta)
    with pytest.raises(ValueError, match="thermostats must be one of one, leaf, coordinate, matrix; got 'all'"):
        sc.SGNHT(H, thermostats="all")


def test_the_algorithms_1_and_2_of_the_source_are_one_chain():
    """eta = h^2, a = A h, u = p h: the reformulated algorithm moves the same positions."""
    sampler = sc.SGNHT(H, diffusion=A)
    state = sampler.init(KEY, THETA)
    eta, a = H**2, A * H
    theta, u, alpha = T0, H * leaves(state.momentum), a
    for number in range(5):
        key = jax.random.fold_in(KEY, number)
        state, _ = sampler.step(key, state, gradient)
        u = u - alpha * u - eta * (C * theta + 0.1) + np.sqrt(2 * a * eta) * leaves(normal_like(key, THETA))
        theta = theta + u
        alpha = alpha + u @ u / 3 - eta
    np.testing.assert_allclose(leaves(state.position), theta, rtol=1e-4)


def test_psgld_is_its_formula_and_freezes():
    sampler = sc.PSGLD(0.01, alpha=0.9, epsilon=1e-3, adaptation_steps=1)
    state = sampler.init(KEY, THETA)
    new, _ = sampler.step(KEY, state, gradient)
    g = C * T0 + 0.1
    v = 0.9 * 4 / 0.01**2 + 0.1 * g**2
    h = 0.01 / (1e-3 + np.sqrt(v))
    np.testing.assert_allclose(
        leaves(new.position), T0 - h * g + np.sqrt(2 * h) * leaves(normal_like(KEY, THETA)), rtol=1e-5
    )
    later, _ = sampler.step(KEY, new, gradient)
    np.testing.assert_array_equal(leaves(later.square), leaves(new.square))


def test_noise_estimate_lowers_the_injected_noise():
    warm, cold = sc.SGHMC(H, friction=A), sc.SGHMC(H, friction=A, noise_estimate=A)
    state = warm.init(KEY, THETA)
    gap = leaves(warm.step(KEY, state, gradient)[0].momentum) - leaves(cold.step(KEY, state, gradient)[0].momentum)
    np.testing.assert_allclose(gap, np.sqrt(2 * A * H) * leaves(normal_like(KEY, THETA)), rtol=1e-5)


def test_step_sizes_per_parameter():
    sizes = {"x": jnp.array([0.1, 0.2]), "y": jnp.array(0.3)}
    cold = {"temperature": 0.0}
    state, _ = sc.SGLD(sizes, **cold).step(KEY, sc.SGLD(sizes, **cold).init(KEY, THETA), gradient)
    np.testing.assert_allclose(leaves(state.position), T0 - leaves(sizes) * (C * T0 + 0.1), rtol=1e-6)


def test_schedules_are_read_at_the_step():
    sampler = sc.SGLD(sc.Decreasing(H, tau=1.0, kappa=1.0), temperature=0.0)
    state = sampler.init(KEY, THETA)
    state, _ = sampler.step(KEY, state, gradient)
    second, info = sampler.step(KEY, state, gradient)
    np.testing.assert_allclose(info.step_size, H / 2, rtol=1e-6)
    np.testing.assert_allclose(
        leaves(second.position), leaves(state.position) - H / 2 * leaves(gradient(state.position)), rtol=1e-5
    )


def test_optax_schedules_serve():
    import optax

    sampler = sc.SGLD(optax.exponential_decay(0.1, 10, 0.5))
    state = sampler.init(KEY, THETA)._replace(step=jnp.int32(10))
    np.testing.assert_allclose(sampler.step(KEY, state, gradient)[1].step_size, 0.05, rtol=1e-6)


def test_cyclical_explores_cold_and_samples_warm():
    sampler = sc.cyclical(sc.SGLD(0.2), period=10, exploration=0.5)
    sizes = np.array([float(sampler.step_size(t)) for t in range(20)])
    np.testing.assert_allclose(sizes[:10], sizes[10:])
    assert np.all(np.diff(sizes[:10]) < 0)
    assert sizes[9] > 0
    assert [float(sampler.temperature(t)) for t in range(10)] == [0.0] * 5 + [1.0] * 5


def test_ornstein_uhlenbeck_for_any_friction():
    """Against the exact moments, for negative, tiny and large frictions."""
    for friction in (-2.0, -1e-7, 0.0, 1e-7, 0.3, 50.0):
        h, d = 0.3, 1.7
        move = float(ornstein_uhlenbeck(jnp.float32(1), jnp.float32(0), h, jnp.float32(friction), d))
        spread_ = float(ornstein_uhlenbeck(jnp.float32(0), jnp.float32(1), h, jnp.float32(friction), d)) ** 2
        exact = 2 * d * h if abs(friction) < 1e-6 else d / friction * -np.expm1(-2 * friction * h)
        assert move == pytest.approx(np.exp(-friction * h), rel=1e-5)
        assert spread_ == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize("scheme", [euler, baoab, aboba, ubu])
def test_order_of_the_langevin_integrators(scheme):
    """The slope of log |bias of the variance| on log h: 2 without gradient noise (or no bias at all), 1 with it."""
    steps = np.array([0.4, 0.2, 0.1, 0.05])

    def bias(noise):
        return [float(stationary_variance(scheme, np.array(1.0), np.array(noise), h, 1.0, 1.0)) - 1 for h in steps]

    if scheme is euler:
        assert np.polyfit(np.log(steps), np.log(bias(0.0)), 1)[0] == pytest.approx(2, abs=0.25)
    elif scheme is ubu:
        np.testing.assert_allclose(bias(0.0), -(steps**2) / 6, rtol=0.01)
    else:  # exact on a Gaussian
        assert np.all(np.abs(bias(0.0)) < 1e-9)
    assert np.polyfit(np.log(steps), np.log(bias(1.0)), 1)[0] == pytest.approx(1, abs=0.25)


@pytest.mark.parametrize(("integrator", "order"), [("euler", 1), ("badodab", 2)])
def test_order_of_the_thermostats(integrator, order):
    """Without injected noise the thermostat is an ODE: the slope of log error on log h at time 2."""

    def force(t, z):
        theta, p, xi = z
        return [p, -np.sinh(theta) - xi * p, p * p - 1]

    start = [0.7, 0.9, 0.0]
    exact = solve_ivp(force, (0, 2), start, rtol=1e-11, atol=1e-12).y[:, -1]
    errors, steps = [], np.array([0.1, 0.05, 0.025])
    with jax.enable_x64(True):
        for h in steps:
            sampler = sc.SGNHT(h, diffusion=0.0, integrator=integrator)
            # Half kicks that meet are made as one, so a step starts half a kick early: begin half a kick behind.
            lead = h / 2 * np.sinh(start[0]) if integrator == "badodab" else 0.0
            state = SGNHTState(jnp.array([start[0]]), jnp.int32(0), jnp.array([start[1] + lead]), jnp.array(start[2]))
            for _ in range(round(2 / h)):
                state, _ = sampler.step(KEY, state, jnp.sinh)
            errors.append(abs(float(state.position[0]) - exact[0]))
    assert np.polyfit(np.log(steps), np.log(errors), 1)[0] == pytest.approx(order, abs=0.2)


def test_the_laws_of_the_report_agree_with_closed_forms():
    lam, v, h = np.array([1.0, 3.0]), np.array([2.0, 0.5]), np.array(0.1)
    np.testing.assert_allclose(euler_variance(lam, v, h, 2.0), (2 + h * v / 2) / (lam * (1 - h * lam / 2)))
    assert np.isinf(euler_variance(np.array(30.0), np.array(0.0), h, 1.0))
    assert np.isinf(stationary_variance(euler, np.array(500.0), np.array(0.0), 0.1, 1.0, 1.0))


@pytest.mark.parametrize("integrator", ["euler", "badodab"])
@pytest.mark.parametrize("thermostats", ["one", "coordinate", "matrix"])
def test_a_diffusion_may_follow_a_schedule(integrator, thermostats):
    """Step 5 of a schedule is a step with the number that it has there; so are its law and its noise."""
    options = {"integrator": integrator, "thermostats": thermostats, "temperature": 2.0}
    scheduled = sc.SGNHT(H, diffusion=lambda step: A / (1.0 + step), **options)
    start = scheduled.init(KEY, THETA)
    np.testing.assert_array_equal(
        leaves(start.thermostat), leaves(sc.SGNHT(H, diffusion=A, **options).init(KEY, THETA).thermostat)
    )
    later = start._replace(step=jnp.int32(5))
    fixed = sc.SGNHT(H, diffusion=A / 6, **options)
    for mine, other in zip(
        jax.tree.leaves(jax.jit(scheduled.step, static_argnums=2)(KEY, later, gradient)[0]),
        jax.tree.leaves(fixed.step(KEY, later, gradient)[0]),
        strict=True,
    ):
        np.testing.assert_allclose(mine, other, rtol=1e-5)
    noise = jax.tree.map(jnp.ones_like, THETA)
    for method in ("settled", "stationary_variance"):
        mine, other = (getattr(s, method)(later, CURVATURE, noise) for s in (scheduled, fixed))
        np.testing.assert_allclose(leaves(mine), leaves(other), rtol=1e-5)
    np.testing.assert_allclose(
        leaves(scheduled.injected_noise(later, THETA)), leaves(fixed.injected_noise(later, THETA)), rtol=1e-6
    )


@pytest.mark.parametrize("make", [sc.SGLD, sc.PSGLD, sc.SGHMC, sc.SGNHT, sc.UnderdampedLangevin, sc.SMSUBU])
def test_wrong_settings(make):
    for bad in (-0.1, 0.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="step_size must be positive"):
            make(bad)
    with pytest.raises(TypeError, match="step_size must be a number"):
        make("large")
    with pytest.raises(TypeError, match="step_size must be a number"):
        make(None)
    for bad in ({"a": "1"}, np.array(["1"]), np.datetime64("2020"), np.array([1 + 1j])):
        with pytest.raises(TypeError, match="step_size must be a number"):
            make(bad)
    with pytest.raises(ValueError, match="step_size has masked entries"):
        make(np.ma.masked_array([1.0, 2.0], [False, True]))
    with pytest.raises(TypeError, match="temperature must be a number"):
        make(0.1, temperature="1")
    with pytest.raises(ValueError, match="temperature must be zero or positive"):
        make(0.1, temperature=-1.0)


def test_wrong_settings_of_momentum_samplers():
    with pytest.raises(
        ValueError, match="integrator must be one of euler, baoab, aboba, split_friction, ubu; got 'leapfrog'"
    ):
        sc.SGHMC(0.1, integrator="leapfrog")
    matrix = {"x": sc.Matrix(np.eye(2)), "y": 1.0}
    for wrong in ({"friction": matrix}, *({"noise_estimate": sc.GradientNoise(v)} for v in (matrix, "full"))):
        with pytest.raises(
            ValueError, match="integrator 'ubu' is for flat space, and for frictions and noise that are"
        ):
            sc.SMSUBU(0.1, **wrong).check(THETA)
    with pytest.raises(ValueError, match="integrator must be one of euler, badodab, split_friction"):
        sc.SGNHT(0.1, integrator="baoab")
    with pytest.raises(ValueError, match="noise_estimate must not exceed friction"):
        sc.SGHMC(0.1, friction=1.0, noise_estimate=2.0).check(THETA)
    with pytest.raises(ValueError, match="inner_steps must be a whole number"):
        sc.SGHMC(0.1, inner_steps=0)
    with pytest.raises(ValueError, match="friction must be zero or positive"):
        sc.SGHMC(0.1, friction=-1.0)


def test_switches_are_true_or_false():
    for sampler, name in (
        (sc.NUTS(0.1), "dense"), (sc.SGHMC(H, friction=1.0), "resample_momentum"), (sc.SCIRCV(0.1), "remove_bias"),
    ):  # fmt: skip
        for value in (b"x", 1, "no", None):
            # Not by the constructor, whose types the tests' own checker guards.
            object.__setattr__(sampler, name, value)
            with pytest.raises(TypeError, match=f"{name} must be True or False; got {value!r}"):
                sampler.__post_init__()


def test_cycles_need_a_sampler():
    for given in (5, None, sc.SGLD):
        with pytest.raises(TypeError, match="sampler must be one with a step size, such as"):
            sc.cyclical(given, period=10)
    with pytest.raises(ValueError, match="period must be a whole number of at least 2; got True"):
        sc.cyclical(sc.SGLD(0.1), period=True)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_gmc_keeps_its_types_under_x64(dtype):
    with jax.enable_x64(True):
        rows = jnp.asarray(np.random.default_rng(0).normal(1.0, 1.0, 20), dtype)
        target = sc.Target(lambda m: -(m**2) / 2, lambda m, x: -((x - m) ** 2) / 2, rows)
        found = sc.sample(target, sc.GMC(0.2), jnp.zeros((), dtype), num_samples=200, burn_in=20, chains=2)
    assert found.posterior["theta"].dtype == dtype
    np.testing.assert_allclose(found.mean["theta"], np.sum(np.asarray(rows)) / 21, atol=5 * 21**-0.5 / np.sqrt(100))
