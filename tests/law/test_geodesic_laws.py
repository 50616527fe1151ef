"""The stationary laws of geodesic samplers on targets with closed-form moments: von Mises-Fisher, Bingham and uniform
laws on spheres, Dirichlet laws on the simplex, matrix Langevin laws on Stiefel manifolds; at T = 1 and T = 2.

Expectations are computed here by quadrature or from gamma functions, independently of the package. Errors are
measured in the standard error over chains plus the discretisation error that the order of the method allows; 4.75
standard errors fail a right sampler with probability 2e-6 per comparison, and seeds are fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

import scirocco as sc
from scirocco.integrators import INTEGRATORS
from scirocco.manifolds import Euclidean, Geometry, Simplex, Sphere, Stiefel

LIMIT = 4.75
CHAINS = 32
FEW, MANY = 10, 100  # rows; what minibatches add has the moments of many
RNG = np.random.default_rng(0)


def rows(*shape):
    """Noise that minibatches add to the gradient: rows with mean zero, so that all data has none."""
    z = RNG.normal(size=shape).astype(np.float32)
    return z - z.mean(axis=0)


@dataclass(frozen=True)
class Law:
    """A density exp(-U/T) on a manifold, functions of the draws and their expectations at a temperature."""

    manifold: Any
    shape: tuple[int, ...]
    log_density: Any
    statistics: Any
    expected: Any
    noise: float = 1.0  # sd of a row's gradient
    size: int = FEW

    @property
    def target(self):
        def log_likelihood(x, row):
            return self.log_density(x) / self.size + self.noise * jnp.sum(row * x) / self.size

        return sc.Target(lambda x: 0.0, log_likelihood, rows(self.size, *self.shape), manifold=self.manifold)

    def start(self, key):
        return self.manifold.random(key, self.shape)

    def check(self, sampler, *, batch=None, temperature=1.0, steps=4000, burn_in=1000, slack=0.0, **options):
        trace = sc.sample(
            self.target, sampler, self.start, num_samples=steps, burn_in=burn_in, chains=CHAINS, batch_size=batch,
            seed=1, report=False, **options,
        )  # fmt: skip
        found = self.statistics(trace.posterior["theta"].values.astype(np.float64)).mean(axis=1)
        want = self.expected(temperature)
        se = found.std(axis=0, ddof=1) / np.sqrt(CHAINS)
        error = np.abs(found.mean(axis=0) - want)
        assert np.all(se < 0.02), f"too noisy to decide: {se}"
        assert np.all(error < LIMIT * se + slack), f"{found.mean(axis=0)} is not {want}; standard errors {se}"
        return trace


def cosine_moments(log_weight, dimension):
    """E c and E c^2 of the first coordinate on S^(d-1) with density proportional to exp(log_weight(c))."""

    def moment(power):
        return integrate.quad(
            lambda a: np.cos(a) ** power * np.exp(log_weight(np.cos(a))) * np.sin(a) ** (dimension - 2), 0, np.pi
        )[0]

    total = moment(0)
    return np.array([moment(1) / total, moment(2) / total])


def first_coordinate(x):
    return np.stack([x[..., 0], x[..., 0] ** 2, x[..., 1]], axis=-1)


def squares(x):
    """Both poles are alike and far from each other: what tells the law are squares and products."""
    return np.stack([x[..., 0] ** 2, x[..., 1] ** 2, x[..., 0] * x[..., 1]], axis=-1)


def bingham_moments(weight):
    cosine, angle = np.meshgrid((np.arange(400) + 0.5) / 200 - 1, (np.arange(400) + 0.5) / 200 * np.pi, indexing="ij")
    sine = np.sqrt(1 - cosine**2)
    x = np.stack([sine * np.cos(angle), sine * np.sin(angle), cosine], axis=-1)
    density = np.exp(weight * (4.0 * x[..., 0] ** 2 - 2.0 * x[..., 0] * x[..., 1]))
    return np.sum(density[..., None] * squares(x), axis=(0, 1)) / density.sum()


def on_sphere(log_weight, dimension=3, **options):
    return Law(
        Sphere(), (dimension,), lambda x: log_weight(x[0]), first_coordinate,
        lambda t: np.append(cosine_moments(lambda c: float(log_weight(c)) / t, dimension), 0.0), **options,
    )  # fmt: skip


def dirichlet(alpha, power=2.0):
    alpha = np.asarray(alpha)

    def expected(t):
        a = (alpha - 1) / t + 1
        total = a.sum()
        return np.concatenate([a / total, a * (a + 1) / (total * (total + 1))])

    return Law(
        Simplex(power), alpha.shape, lambda x: jnp.sum((alpha - 1) * jnp.log(x)),
        lambda x: np.concatenate([x, x**2], axis=-1), expected, noise=0.0,
    )  # fmt: skip


def langevin_expectation(t):
    """E tr(F'X) of the matrix Langevin law exp(k tr(F'X)/t) on V(3, 2) with F = [e1 e2], k = 3, by quadrature.

    The first column is u with cosine c = u_1; the second lies on the circle orthogonal to u.
    """
    k = 3.0 / t
    grid = (np.arange(120) + 0.5) / 120
    cosine, angle, turn = 2 * grid - 1, 2 * np.pi * grid, 2 * np.pi * grid
    c, a, b = np.meshgrid(cosine, angle, turn, indexing="ij")
    s = np.sqrt(1 - c**2)
    u2 = s * np.cos(a)  # u = (c, s cos a, s sin a); the plane orthogonal to it has the basis below
    basis = (-s, c * np.cos(a)), (0 * c, -np.sin(a))  # entries 1 and 2 of both
    v2 = basis[0][1] * np.cos(b) + basis[1][1] * np.sin(b)
    del u2
    weight = np.exp(k * (c + v2))
    return np.array([np.sum(weight * c) / weight.sum(), np.sum(weight * v2) / weight.sum()])


LAWS = {
    "von Mises-Fisher": on_sphere(lambda c: 5.0 * c),
    "Bingham": Law(
        Sphere(), (3,), lambda x: 4.0 * x[0] ** 2 - 2.0 * x[0] * x[1], squares, lambda t: bingham_moments(1 / t)
    ),
    "uniform": on_sphere(lambda c: 0.0 * c, dimension=4),
    "Dirichlet": dirichlet([2.0, 3.0, 5.0]),
    "sparse Dirichlet": dirichlet([0.1, 0.1, 2.0], power=10.0),
    "matrix Langevin": Law(
        Stiefel(), (3, 2), lambda x: 3.0 * (x[0, 0] + x[1, 1]),
        lambda x: np.stack([x[..., 0, 0], x[..., 1, 1]], axis=-1), langevin_expectation,
    ),
}  # fmt: skip


def sggmc(t, **options):
    return sc.SGGMC(0.05, friction=2.0, temperature=t, **options)


SAMPLERS = {
    "SGGMC": (sggmc, 0.004),
    "SGGMC aboba": (lambda t: sggmc(t, integrator="aboba"), 0.004),
    "SGGMC baoab": (lambda t: sggmc(t, integrator="baoab"), 0.004),
    "SGGMC euler": (lambda t: sggmc(t, integrator="euler"), 0.03),
    "SGGMC, 3 inner steps": (lambda t: sggmc(t, inner_steps=3), 0.004),
    "GeodesicSGNHT": (lambda t: sc.GeodesicSGNHT(0.05, diffusion=2.0, temperature=t), 0.006),
    "GeodesicSGNHT badodab": (
        lambda t: sc.GeodesicSGNHT(0.05, diffusion=2.0, temperature=t, integrator="badodab"), 0.006
    ),
    "GMC": (lambda t: sc.GMC(0.25, leapfrog_steps=6, temperature=t), 0.0),
}  # fmt: skip
OFTEN = {("SGGMC", name) for name in LAWS}
OFTEN |= {("GMC", name) for name in ("von Mises-Fisher", "sparse Dirichlet", "matrix Langevin")}
OFTEN |= {
    ("GeodesicSGNHT", "Bingham"),
    ("GeodesicSGNHT badodab", "von Mises-Fisher"),
    ("SGGMC baoab", "von Mises-Fisher"),
}


def combinations():
    for sampler in SAMPLERS:
        for law in LAWS:
            # exp(-U/2) of a sparse Dirichlet law is one that is not sparse: another power, no case of its own.
            for temperature in (1.0,) if law == "sparse Dirichlet" else (1.0, 2.0):
                always = (sampler, law) in OFTEN and temperature == (2.0 if law == "von Mises-Fisher" else 1.0)
                yield pytest.param(sampler, law, temperature, marks=() if always else pytest.mark.slow)


@pytest.mark.parametrize(("sampler", "law", "temperature"), list(combinations()))
def test_exact_gradients(sampler, law, temperature):
    make, slack = SAMPLERS[sampler]
    # Close to the border of the simplex forces grow without bound and steps must be short.
    slack = slack + 0.01 if "Dirichlet" in law and sampler != "GMC" else slack
    steps = {"GMC": 3000, "SGGMC, 3 inner steps": 3000}.get(sampler, 8000)
    made = make(temperature)
    if law == "Dirichlet" and "SGNHT" in sampler:  # one kick at the border, and a thermostat is cold for long
        made = replace(made, step_size=0.02)
    LAWS[law].check(made, batch=1.0, temperature=temperature, slack=slack, steps=steps)


# Minibatches: gradient noise of variance V = noise^2 (N^2/n)(1/N^2) per coordinate of independent rows.


@pytest.mark.parametrize("law", ["von Mises-Fisher", pytest.param("Bingham", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "known", ["number", "full", *(pytest.param(name, marks=pytest.mark.slow) for name in ("matrix", "diagonal"))]
)
def test_known_and_measured_noise_is_taken_off(law, known):
    """Batch 10 with noise of sd 60 a row: taken off the chain is right, ignored it is hot."""
    hot = replace(LAWS[law], noise=60.0, size=MANY)
    variance = hot.noise**2 / 10 * np.var(np.asarray(hot.target.source.arrays), axis=0)
    noise = {
        "number": sc.GradientNoise(float(variance.mean())), "matrix": sc.GradientNoise(sc.Matrix(np.diag(variance))),
        "diagonal": sc.GradientNoise("diagonal"), "full": sc.GradientNoise("full"),
    }[known]  # fmt: skip
    options = {"batch": 10, "batching": sc.batches.WithReplacement()}
    sampler = sc.SGGMC(0.02, friction=10.0, noise_estimate=noise)
    hot.check(sampler, steps=8000, slack=0.012, **options)
    if known == "number":
        with pytest.raises(AssertionError, match="is not"):
            hot.check(sc.SGGMC(0.02, friction=10.0), steps=8000, slack=0.012, **options)


def test_the_thermostat_absorbs_noise():
    """Isotropic noise of unknown size; with the dimension of the embedding in place of the manifold's it is too hot."""
    hot = replace(LAWS["von Mises-Fisher"], noise=60.0, size=MANY)
    options = {"batch": 10, "batching": sc.batches.WithReplacement(), "slack": 0.012}
    trace = hot.check(sc.GeodesicSGNHT(0.02, diffusion=1.0), steps=16_000, **options)
    assert abs(trace.sample_stats.kinetic_energy.values.mean() - 0.5) < 0.02

    class Wrong(sc.GeodesicSGNHT):
        """m = d instead of d - 1."""

        def step(self, key, state, gradient, geometry=None):
            class Counted(type(geometry)):
                def dimension(self, x):
                    return 3

                def each(self, function, tree, *rest):
                    if getattr(function, "__name__", "") == "surplus":
                        flat = Euclidean()
                        return jax.tree.map(lambda *leaves: function(flat, *leaves), tree, *rest)
                    return super().each(function, tree, *rest)

            return super().step(key, state, gradient, Counted(geometry.parts))

    with pytest.raises(AssertionError, match="is not"):
        hot.check(Wrong(0.02, diffusion=1.0), steps=16_000, **options)


@pytest.mark.parametrize(
    "estimator",
    [
        sc.ControlVariate(centre=jnp.array([1.0, 0.0, 0.0])),
        pytest.param(sc.SVRG(500), marks=pytest.mark.slow),
        pytest.param(sc.SAGA(), marks=pytest.mark.slow),
    ],
)
def test_every_estimator(estimator):
    """The noise of this target does not depend on the position, so that control variates remove all of it."""
    law = replace(LAWS["von Mises-Fisher"], size=MANY)
    law.check(sggmc(1.0), batch=10, estimator=estimator, steps=8000, slack=0.006)


@pytest.mark.parametrize("integrator", ["split_friction", "aboba", pytest.param("euler", marks=pytest.mark.slow)])
def test_matrix_friction(integrator):
    """C with a correlation: the law does not depend on it."""
    friction = sc.Matrix(np.array([[2.0, 0.8, 0.0], [0.8, 1.0, -0.3], [0.0, -0.3, 3.0]]))
    sampler = sc.SGGMC(0.05, friction=friction, integrator=integrator)
    LAWS["von Mises-Fisher"].check(sampler, batch=1.0, steps=8000, slack=0.03 if integrator == "euler" else 0.004)


def test_a_product_of_manifolds():
    """A point of a sphere, one of a simplex and a number, which do not know of each other but are moved together."""
    alpha = np.array([2.0, 3.0, 5.0])

    def log_prior(p):
        return 5.0 * p["u"][0] + jnp.sum((alpha - 1) * jnp.log(p["w"])) - p["z"] ** 2 / 2

    target = sc.Target(
        log_prior, lambda p, row: 0.0 * row, np.zeros(10, np.float32), manifold={"u": Sphere(), "w": Simplex()}
    )
    start = {"u": jnp.array([0.0, 1.0, 0.0]), "w": jnp.full(3, 1 / 3), "z": jnp.zeros(())}
    for sampler in (sggmc(1.0), sc.GMC(0.2)):
        batch = None if sampler.full_data else 1.0
        trace = sc.sample(target, sampler, start, num_samples=8000, chains=CHAINS, batch_size=batch, report=False)
        u, w, z = (trace.posterior[name].values.astype(float) for name in "uwz")
        wanted = [*cosine_moments(lambda c: 5 * c, 3), *(alpha / 10), 0.0, 1.0]
        found = [u[..., 0], u[..., 0] ** 2, *np.moveaxis(w, -1, 0), z, z**2]
        for draws, want in zip(found, wanted, strict=True):
            each = draws.mean(axis=1)
            se = each.std(ddof=1) / np.sqrt(CHAINS)
            assert abs(each.mean() - want) < LIMIT * se + 0.006, (type(sampler).__name__, each.mean(), want, se)


def stationary_mean(step, h, kappa=4.0, waves=25, speeds=32, fastest=6.0):
    """E cos of the law that one step keeps on the circle, from the step itself: no simulation.

    E f(step(phi, v)) is a matrix on values at nodes, equidistant angles and Chebyshev's points for velocities; the
    noise, two normal numbers in the plane, is integrated by Gauss-Hermite. What the matrix keeps is the law.
    """
    angle = 2 * np.pi * np.arange(waves) / waves
    turns = np.pi * (np.arange(speeds) + 0.5) / speeds
    nodes, signs = np.cos(turns), (-1.0) ** np.arange(speeds) * np.sin(turns)
    phi, v = (a.ravel() for a in np.meshgrid(angle, fastest * nodes, indexing="ij"))
    points, weights = np.polynomial.hermite_e.hermegauss(10)
    weights = weights / weights.sum()
    geometry = Geometry.of(Sphere())

    def force(x):
        return jnp.stack([jnp.full(len(x), -kappa), jnp.zeros(len(x))], axis=-1)

    @jax.jit
    def moved(z):
        x = jnp.stack([jnp.cos(phi), jnp.sin(phi)], axis=-1)
        p = jnp.asarray(v)[:, None] * jnp.stack([-jnp.sin(phi), jnp.cos(phi)], axis=-1)
        x, p, _ = step(x, p, force, jnp.broadcast_to(z, x.shape), h, 1.0, 1.0, geometry)
        return jnp.arctan2(x[:, 1], x[:, 0]), p[:, 1] * x[:, 0] - p[:, 0] * x[:, 1]

    matrix = np.zeros((phi.size, phi.size))
    for a, wa in zip(points, weights, strict=True):
        for b, wb in zip(points, weights, strict=True):
            new, speed = map(np.asarray, moved(np.array([a, b])))
            half = (new[:, None] - angle) / 2 + 1e-13  # trigonometric interpolation: Dirichlet's kernel
            around = np.sin(waves * half) / (waves * np.sin(half))
            along = signs / (np.clip(speed / fastest, -1, 1)[:, None] - nodes + 1e-15)
            along /= along.sum(axis=1, keepdims=True)
            matrix += wa * wb * (around[:, :, None] * along[:, None, :]).reshape(phi.size, -1)
    system = matrix.T - np.eye(phi.size)
    system[0] = 1.0  # the law has mass 1, which one of the equations does not say
    law = np.linalg.solve(system, np.eye(phi.size)[0])
    assert np.max(np.abs(matrix.T @ law - law)) < 1e-9
    return law @ np.cos(phi)


def lopsided(position, momentum, gradient, noise, h, friction, diffusion, geometry):
    """The same three moves once each, without symmetry."""
    position, momentum = geometry.flow(position, momentum, h)
    momentum = np.exp(-friction * h) * momentum - h * geometry.slope(position, gradient(position))
    momentum = momentum + geometry.project(position, np.sqrt(2 * diffusion * h) * noise)
    return position, momentum, None


@pytest.mark.parametrize(
    ("step", "order"),
    [(INTEGRATORS["split_friction"], 2), (INTEGRATORS["aboba"], 2), (INTEGRATORS["baoab"], 2), (lopsided, 1)],
)
def test_weak_order(step, order):
    """The bias of E cos under the von Mises law, by regression on the step; a scheme without symmetry has order 1."""
    angle = (np.arange(4000) + 0.5) / 4000 * 2 * np.pi
    weight = np.exp(4.0 * np.cos(angle))
    exact = np.sum(weight * np.cos(angle)) / weight.sum()
    steps = np.array([0.2, 0.14, 0.1])
    with jax.enable_x64(True):
        biases = np.array([stationary_mean(step, h) - exact for h in steps])
    slope = np.polyfit(np.log(steps), np.log(np.abs(biases)), 1)[0]
    assert abs(slope - order) < 0.35, f"order {slope} from biases {biases}"


def test_the_limit_tells_a_density_on_another_measure():
    """Coordinates of the simplex without the change of measure are another law, and the machinery says so."""

    class Unchanged(Simplex):
        def slope(self, x, gradient, temperature=1.0):
            pull = x * gradient
            return self.project(x, 2 * (pull - x * jnp.sum(pull, axis=-1, keepdims=True)) / self.root(x))

    wrong = replace(LAWS["Dirichlet"], manifold=Unchanged())
    with pytest.raises(AssertionError, match="is not"):
        wrong.check(sggmc(1.0), batch=1.0, slack=0.015)
