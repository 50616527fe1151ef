"""The invariance checker on every dynamics of the sources, right and wrong; and the recipe as a sampler."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scirocco import Recipe, check_invariance

TARGET = np.array([[2.0, 0.6], [0.6, 1.0]])  # NumPy constants keep their float64 inside the checker


def potential(theta):
    """Not Gaussian, not separable."""
    return theta @ TARGET[: theta.size, : theta.size] @ theta / 2 + jnp.sum(theta**4) / 8 + jnp.sin(theta[0])


slope = jax.grad(potential)
join = jnp.concatenate


def langevin(z):
    return -slope(z)


def underdamped(friction, temperature=1.0):
    """v, D and H/T of dtheta = p, dp = -grad U - C p + N(0, 2 C T), for two coordinates."""
    c = np.asarray(friction)

    def drift(z):
        return join([z[2:], -slope(z[:2]) - c @ z[2:]])

    d = np.zeros((4, 4))
    d[2:, 2:] = temperature * c
    return drift, d, lambda z: (potential(z[:2]) + z[2:] @ z[2:] / 2) / temperature


def thermostat(per_coordinate, noise=0.7):
    """SGNHT of Ding et al. (2014): the friction xi finds the unknown noise by itself."""
    mu = 1.0 if per_coordinate else 2.0

    def drift(z):
        p, xi = z[2:4], z[4:]
        heat = p**2 - 1 if per_coordinate else jnp.array([p @ p - 2]) / mu
        return join([p, -slope(z[:2]) - xi * p, heat])

    def energy(z):
        return potential(z[:2]) + z[2:4] @ z[2:4] / 2 + mu * jnp.sum((z[4:] - noise) ** 2) / 2

    d = np.r_[0.0, 0.0, noise, noise, np.zeros(2 if per_coordinate else 1)]
    return drift, d, energy


def matrix_thermostat(noise=((0.9, 0.4), (0.4, 0.6))):
    """Their equation 11 with mu = 1: a friction Xi that finds correlated noise."""
    noise = np.asarray(noise)

    def drift(z):
        p, xi = z[2:4], z[4:].reshape(2, 2)
        return join([p, -slope(z[:2]) - xi @ p, (jnp.outer(p, p) - jnp.eye(2)).ravel()])

    def energy(z):
        return potential(z[:2]) + z[2:4] @ z[2:4] / 2 + jnp.sum((z[4:].reshape(2, 2) - noise) ** 2) / 2

    d = np.zeros((8, 8))
    d[2:4, 2:4] = noise
    return drift, d, energy


COUNTS, ALPHA = jnp.array([3.0, 0.0, 1.0]), 0.5


def riemannian_gamma(z):
    """SGRLD on the expanded mean, full data, in CIR time: D = diag(theta)."""
    return ALPHA + COUNTS - z - COUNTS.sum() * z / z.sum()


def riemannian_energy(z):
    """omega ~ Dirichlet(alpha + n) and sum theta ~ Gamma(d alpha), independent."""
    return z.sum() - (ALPHA + COUNTS - 1) @ jnp.log(z) + COUNTS.sum() * jnp.log(z.sum())


def metric(q):
    """Of the unit sphere in colatitude and longitude."""
    return jnp.array([1.0, jnp.sin(q[0]) ** 2])


def on_sphere(q):
    """-log density with respect to the surface measure."""
    x = jnp.array([jnp.sin(q[0]) * jnp.cos(q[1]), jnp.sin(q[0]) * jnp.sin(q[1]), jnp.cos(q[0])])
    return -2 * x @ jnp.array([0.6, 0.0, 0.8]) + x[1] * x[2]


def sphere_potential(q):
    return on_sphere(q) - jnp.sum(jnp.log(metric(q))) / 2


def geodesic(friction, thermostatted=False, size=2):
    """SGGMC and gSGNHT of Liu, Zhu and Song (2016) in coordinates, p = G dq/dt. ``size``: of the manifold."""

    def hamiltonian(z):
        kinetic = jnp.sum(z[2:4] ** 2 / metric(z[:2])) / 2
        return on_sphere(z[:2]) + kinetic + (size * (z[4] - friction) ** 2 / 2 if thermostatted else 0.0)

    def drift(z):
        g, p = jax.grad(hamiltonian)(z), z[2:4]
        flow = [p / metric(z[:2]), -g[:2] - (z[4] if thermostatted else friction) * p]
        return join([*flow, jnp.array([jnp.sum(p**2 / metric(z[:2])) / size - 1])] if thermostatted else flow)

    def diffusion(z):
        return join([jnp.zeros(2), friction * metric(z[:2]), jnp.zeros(z.size - 4)])

    return drift, diffusion, hamiltonian


def draws(dimension, positive=0, angles=False):
    z = np.random.default_rng(0).standard_normal((24, dimension))
    z[:, :positive] = np.exp(z[:, :positive])
    if angles:
        z[:, 0] = np.linspace(0.3, 2.8, len(z))
    return z


def spinning(kappa=2.0):
    """On the circle the metric is flat: underdamped Langevin in the angle."""
    return (
        lambda z: join([z[1:], -kappa * jnp.sin(z[:1]) - z[1:]]),
        jnp.array([0.0, 1.0]),
        lambda z: -kappa * jnp.cos(z[0]) + z[1] ** 2 / 2,
    )


FULL = [[1.5, 0.4], [0.4, 0.8]]
RIGHT = {
    "sgld": ((langevin, 1.0, potential), 2, 2, potential, None),
    "barker, T = 2": ((langevin, 2.0, lambda z: potential(z) / 2), 2, 2, lambda x: potential(x) / 2, None),
    "sghmc, T = 0.4": (underdamped(1.3 * np.eye(2), 0.4), 4, 2, lambda x: potential(x) / 0.4, None),
    "sghmc, underdamped Langevin, sms-ubu, full friction": (underdamped(FULL), 4, 2, potential, None),
    "sgnht": (thermostat(False), 5, 2, potential, None),
    "sgnht, one per coordinate": (thermostat(True), 6, 2, potential, None),
    "sgnht, a matrix": (matrix_thermostat(), 8, 2, potential, None),
    "sgrld": ((riemannian_gamma, lambda z: z, riemannian_energy), 3, 3, riemannian_energy, draws(3, positive=3)),
    "sggmc, circle": (spinning(), 2, 1, lambda q: -2 * jnp.cos(q[0]), None),
    "sggmc, sphere": (geodesic(1.2), 4, 2, sphere_potential, draws(4, angles=True)),
    "gsgnht, sphere": (geodesic(1.2, True), 5, 2, sphere_potential, draws(5, angles=True)),
}


SLOW = {"sgnht, one per coordinate", "sggmc, sphere"}  # to compile; the scalar and the geodesic thermostat are near


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in RIGHT])
def test_right_dynamics_pass(name):
    sde, dimension, n, u, points = RIGHT[name]
    report = check_invariance(*sde, dimension, potential=u, position_dimension=n, points=points)
    assert report, str(report)
    assert report.stationary
    assert report.marginal is True
    assert report.residual < 1e-12
    assert report.marginal_spread < 1e-8
    assert "FAILS" not in str(report)


def mismatched(z):
    return jnp.zeros((4, 4)).at[2:, 2:].set(jnp.diag(jnp.array([1.3, 1.4])))


WRONG = {
    "more noise than friction (002 D.2)": ((*underdamped(1.3 * np.eye(2))[:1], mismatched), underdamped(FULL)[2], 4),
    "sgld with gradient noise (002 D.1)": ((langevin, 1.2), potential, 2),
    "sghmc at T checked at 1": (underdamped(1.3 * np.eye(2), 0.4)[:2], underdamped(FULL)[2], 4),
    "Gamma dropped": ((lambda z: -(1 + z**2) * slope(z), lambda z: 1 + z**2), potential, 2),
    "thermostat that counts ambient dimensions": (geodesic(1.2, True, size=3)[:2], geodesic(1.2, True)[2], 5),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_dynamics_fail_stationarity(name):
    sde, energy, dimension = WRONG[name]
    report = check_invariance(*sde, energy, dimension, points=draws(dimension, angles=dimension == 5))
    assert not report
    assert not report.stationary
    assert report.residual > 1e-3
    assert report.marginal is None
    assert "stationarity FAILS" in str(report)


def test_sgrld_is_not_a_product_of_gammas():
    product = check_invariance(
        riemannian_gamma,
        lambda z: z,
        lambda z: z.sum() - (ALPHA + COUNTS - 1) @ jnp.log(z),
        3,
        points=draws(3, positive=3),
    )
    assert not product.stationary


@pytest.mark.parametrize("determinant", [True, False])
def test_mass_that_depends_on_theta_needs_its_determinant(determinant):
    """Without the log-determinant (9) holds and (8) does not: the case the paper warns of in section 4.1."""

    def mass(z):
        return 1 + z[0] ** 2

    def hamiltonian(z):
        return potential(z[:1]) + z[1] ** 2 / (2 * mass(z)) + determinant * jnp.log(mass(z)) / 2

    def drift(z):
        g = jax.grad(hamiltonian)(z)
        return jnp.array([g[1], -g[0] - 2 * g[1]])

    report = check_invariance(
        drift, jnp.array([0.0, 2.0]), hamiltonian, 2, potential=potential, position_dimension=1, seed=3
    )
    assert report.stationary
    assert report.marginal is determinant
    assert bool(report) is determinant
    if not determinant:
        low, high = (1 + point[0] ** 2 for point in report.marginal_points)
        assert report.marginal_spread == pytest.approx(np.log(high / low) / 2, rel=1e-9)
        assert "marginalisation FAILS" in str(report)


@pytest.mark.parametrize(("q", "wrong"), [(2, False), (5, False), (5, True)])
def test_marginal_of_auxiliaries_that_are_not_gaussian(q, wrong):
    """A relativistic (heavy-tailed) and a quartic energy, stretched by theta, with and without the volume of that."""

    def energy(theta, a):
        b = a / jnp.exp(theta[0] / 2)
        tail = 3 * jnp.sum(jnp.sqrt(1 + b[1:] ** 2)) + b[0] ** 4
        return tail + (0.0 if wrong else q * theta[0] / 2)

    report = check_invariance(
        jnp.zeros_like,
        0.0,
        lambda z: potential(z[:1]) + energy(z[:1], z[1:]),
        q + 1,
        potential=potential,
        position_dimension=1,
    )
    assert report.stationary  # nothing moves
    assert report.marginal is not wrong
    assert report.marginal_error < 1e-3
    if wrong:
        low, high = report.marginal_points
        assert report.marginal_spread == pytest.approx(q * (high[0] - low[0]) / 2, abs=1e-3)


def test_an_uncertain_integral_is_undecided():
    def hamiltonian(z):  # wells so narrow and many that a fit to one of them tells nothing
        return potential(z[:1]) + z[1] ** 2 / 2 + 50 * jnp.sin(400 * z[1] * z[0]) ** 2

    report = check_invariance(
        jnp.zeros_like, 0.0, hamiltonian, 2, potential=potential, position_dimension=1, num_points=3
    )
    assert report.marginal is None
    assert not report
    assert "marginalisation is UNDECIDED" in str(report)


def test_float64_stays_inside():
    check_invariance(langevin, 1.0, potential, 2)
    assert jnp.ones(1).dtype == jnp.float32


def test_the_point_reported_is_the_worst():
    """The residual of v = -z + bump against N(0, I) is largest where the bump is."""
    points = np.array([[0.0], [2.0], [5.0]])
    report = check_invariance(
        lambda z: -z + jnp.exp(-50 * (z - 2) ** 2), 1.0, lambda z: z @ z / 2, 1, points=points, tolerance=1e-3
    )
    assert report.point == (2.0,)
    assert "z = (2)" in str(report)


# The recipe as a sampler.


def quadratic(theta):
    return theta @ TARGET @ theta / 2


def swap(n):
    """The symplectic Q: dtheta = p, dp = -grad U."""
    zero, one = np.zeros((n, n)), np.eye(n)
    return jnp.asarray(np.block([[zero, -one], [one, zero]]), jnp.float32)


def jit_step(sampler, gradient):
    return jax.jit(lambda key, state: sampler.step(key, state, gradient))


def test_one_step_is_sgld():
    theta, h = jnp.array([0.3, -1.2]), 0.05
    sampler = Recipe(h, diffusion=1.0, temperature=0.0)
    state = sampler.init(jax.random.key(0), theta)
    new, info = jit_step(sampler, jax.grad(quadratic))(jax.random.key(1), state)
    np.testing.assert_allclose(new.position, theta - h * TARGET @ theta, rtol=1e-6)
    assert new.step == 1
    assert new.auxiliary.shape == (0,)
    np.testing.assert_allclose(info.gradient_norm, jnp.linalg.norm(TARGET @ theta), rtol=1e-6)
    np.testing.assert_allclose(info.step_size, h, rtol=1e-6)


def test_one_step_is_sghmc():
    theta, h, c = jnp.array([0.3, -1.2]), 0.05, 1.7
    friction = jnp.zeros((4, 4)).at[2:, 2:].set(c * jnp.eye(2))
    p = jnp.array([0.5, 2.0])
    sampler = Recipe(
        lambda t: h / (1.0 + t), diffusion=friction, curl=swap(2), auxiliary=lambda key, flat: p, temperature=0.0
    )
    state = sampler.init(jax.random.key(0), theta)
    new, _ = jit_step(sampler, jax.grad(quadratic))(jax.random.key(1), state)
    np.testing.assert_allclose(new.position, theta + h * p, rtol=1e-6)
    np.testing.assert_allclose(new.auxiliary, p - h * (TARGET @ theta) - h * c * p, rtol=1e-6)
    later, info = jit_step(sampler, jax.grad(quadratic))(jax.random.key(1), new)
    np.testing.assert_allclose(later.position, new.position + h / 2 * new.auxiliary, rtol=1e-6)
    np.testing.assert_allclose(info.step_size, h / 2, rtol=1e-6)


@pytest.mark.parametrize("diffusion", [[[2.0, 1.0], [1.0, 0.5]], [1.0, 0.0]])
def test_noise_has_covariance_2hTD_for_singular_D(diffusion):
    # 20,000 draws, each entry within 4.5 standard errors: one seed in 25,000 fails.
    h, temperature, n = 0.1, 0.5, 20_000
    sampler = Recipe(h, diffusion=jnp.array(diffusion), temperature=temperature)
    state = sampler.init(jax.random.key(0), jnp.zeros(2))
    keys = jax.random.split(jax.random.key(2), n)
    x = np.asarray(jax.vmap(jit_step(sampler, jnp.zeros_like), (0, None))(keys, state)[0].position, float)
    d = np.array(diffusion) if np.ndim(diffusion) == 2 else np.diag(diffusion)
    wanted = 2 * h * temperature * d
    error = np.sqrt((wanted**2 + np.outer(np.diag(wanted), np.diag(wanted))) / n)
    assert np.all(np.abs(x.T @ x / n - wanted) <= 4.5 * error + 1e-9)
    assert np.all(np.isfinite(x))


def test_recipe_keeps_its_law():
    """Any D and Q, however strange, pass the checker once Gamma is in."""
    temperature = 0.6

    def diffusion(z):
        column = jnp.array([1.0, jnp.sin(z[0]), z[2]])
        return jnp.outer(column, column) + jnp.diag(jnp.exp(z / 3))

    def curl(z):
        a = z[0] * z[1] + jnp.cos(z[2])
        return jnp.array([[0.0, a, -1.0], [-a, 0.0, z[1]], [1.0, -z[1], 0.0]])

    sampler = Recipe(0.1, diffusion=diffusion, curl=curl, auxiliary=1, temperature=temperature)
    report = check_invariance(
        lambda z: sampler.drift(z, slope(z[:2])),
        lambda z: temperature * diffusion(z),
        lambda z: (potential(z[:2]) + z[2] ** 2 / 2) / temperature,
        3,
        potential=lambda x: potential(x) / temperature,
        position_dimension=2,
    )
    assert report, str(report)


class WithoutGamma(Recipe):
    def drift(self, z, gradient, step=0):
        return -self.diffusion(z) * gradient


@pytest.mark.parametrize("sampler", [Recipe, WithoutGamma])
def test_law_of_a_diffusion_that_depends_on_position(sampler):
    """N(0, 1) by dz = [-D z + D'] dt + sqrt(2 D) dW, D = (1 + z^2)/2.

    Without Gamma = D' the stationary density is exp(-z^2/2) / D instead, and E z^2 = 0.53. The Euler bias at h = 0.02
    is below 0.02 and the standard error of 512 chains below 0.01, so the bound of 0.02 + 4 standard errors fails by
    chance less than once in 10,000 seeds.
    """
    h, chains, steps = 0.02, 512, 3000
    kernel = sampler(h, diffusion=lambda z: (1 + z**2) / 2)

    def chain(key):
        def body(state, k):
            state, _ = kernel.step(k, state, lambda x: x)
            return state, state.position[0] ** 2

        state = kernel.init(key, jax.random.normal(key, (1,)))
        return jnp.mean(jax.lax.scan(body, state, jax.random.split(key, steps))[1][500:])

    means = np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(4), chains)))
    error = means.std(ddof=1) / np.sqrt(chains)
    grid = np.linspace(-12, 12, 20001)
    density = np.exp(-(grid**2) / 2) / (1.0 if sampler is Recipe else 1 + grid**2)
    wanted = np.sum(density * grid**2) / np.sum(density)
    assert abs(means.mean() - wanted) < 0.02 + 4 * error
    assert error < 0.01
    assert bool(abs(means.mean() - 1) > 0.3) is (sampler is WithoutGamma)


def test_pytrees_and_jit():
    position = {"a": jnp.ones((2, 2)), "b": (jnp.zeros(()), jnp.arange(3.0))}
    n = 8
    d = jnp.asarray(np.r_[np.zeros(n), np.ones(n)])
    sampler = Recipe(0.01, diffusion=d, curl=swap(n), auxiliary=n)

    def gradient(p):
        return jax.tree.map(lambda x: 2 * x, p)

    state = sampler.init(jax.random.key(0), position)
    assert state.auxiliary.shape == (n,)
    new, _ = jit_step(sampler, gradient)(jax.random.key(1), state)
    assert jax.tree.structure(new.position) == jax.tree.structure(position)
    flat_p = jax.flatten_util.ravel_pytree(position)[0]
    np.testing.assert_allclose(
        jax.flatten_util.ravel_pytree(new.position)[0], flat_p + 0.01 * state.auxiliary, rtol=1e-5, atol=1e-7
    )
    assert jax.tree.map(lambda x: (x.shape, x.dtype), new) == jax.tree.map(lambda x: (x.shape, x.dtype), state)
    started = jax.jit(lambda k: sampler.init(k, position))(jax.random.key(0))
    np.testing.assert_allclose(started.auxiliary, state.auxiliary, rtol=1e-6)


def run_init(**settings):
    Recipe(**{"step_size": 0.1, "diffusion": 1.0} | settings).init(jax.random.key(0), jnp.zeros(2))


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"step_size": -0.1}, ValueError, "step_size must be positive and finite; got -0.1"),
        ({"step_size": {"a": 0.1}}, TypeError, "step_size must be one number or a function"),
        ({"step_size": "large"}, TypeError, "step_size must be a number"),
        ({"temperature": np.nan}, ValueError, "temperature must be zero or positive"),
        ({"auxiliary": 0}, ValueError, "auxiliary must be a whole number of at least 1; got 0"),
        ({"auxiliary_energy": lambda x, a: 0.0}, ValueError, "auxiliary must be a count or a function"),
        (
            {"auxiliary": lambda k, x: jnp.zeros((1, 1))},
            ValueError,
            r"auxiliary must return a vector; got shape",
        ),
        ({"auxiliary": 1, "auxiliary_energy": lambda x, a: a}, ValueError, r"auxiliary_energy must return shape \(\)"),
        (
            {"diffusion": lambda z: jnp.eye(3)},
            ValueError,
            r"diffusion must be .* shape \(2, 2\) here; got shape",
        ),
        ({"curl": jnp.zeros((2, 3))}, ValueError, r"curl must be .* got shape \(2, 3\)"),
        ({"diffusion": jnp.array([[1.0, 0.5], [0.0, 1.0]])}, ValueError, "diffusion must be symmetric; at z"),
        ({"diffusion": jnp.array([1.0, -2.0])}, ValueError, "diffusion must be positive semidefinite.* eigenvalue -2"),
        ({"curl": jnp.array([[0.0, 1.0], [1.0, 0.0]])}, ValueError, "curl must be skew-symmetric"),
        ({"curl": 1.0}, ValueError, "curl must be skew-symmetric"),
    ],
)
def test_bad_recipes_are_named(settings, error, words):
    with pytest.raises(error, match=words):
        run_init(**settings)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dimension": 0}, "dimension must be a whole number of at least 1; got 0"),
        ({"drift": lambda z: z[:1]}, r"drift must return shape \(2,\) for z of shape \(2,\); got \(1,\)"),
        ({"hamiltonian": lambda z: z}, r"hamiltonian must return shape \(\)"),
        (
            {"diffusion": jnp.ones(3)},
            r"diffusion must be a number, shape \(2,\) or shape \(2, 2\) here; got",
        ),
        ({"diffusion": jnp.array([[1.0, 1.0], [0.0, 1.0]])}, "diffusion must be symmetric"),
        ({"diffusion": -1.0}, "diffusion must be positive semidefinite"),
        ({"hamiltonian": lambda z: -jnp.sum(jnp.log(z))}, "Pass points inside the domain"),
        ({"points": np.zeros((3, 5))}, r"points must be .* dimension = 2\); got \(3, 5\)"),
        ({"num_points": 0}, "num_points must be a whole number"),
        ({"scale": 0.0}, "scale must be positive"),
        ({"potential": potential}, "position_dimension must be between 1 and dimension = 2 .* got None"),
        ({"potential": potential, "position_dimension": 3}, "position_dimension must be .* got 3"),
    ],
)
def test_bad_checks_are_named(changes, words):
    arguments = {"drift": langevin, "diffusion": 1.0, "hamiltonian": potential, "dimension": 2}
    with pytest.raises(ValueError, match=words):
        check_invariance(**(arguments | changes))
