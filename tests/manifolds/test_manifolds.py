"""Laws of geodesic flows and tangent projections, for every manifold, in double precision."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

import scirocco as sc
from scirocco.manifolds import Euclidean, Geometry, Manifold, Simplex, Sphere, Stiefel
from scirocco.manifolds.base import nearest
from scirocco.manifolds.stiefel import exponential

CASES = {
    "circle": (Sphere(), (2,)), "spheres": (Sphere(), (3, 5)), "large sphere": (Sphere(), (400,)),
    "simplex": (Simplex(), (4,)), "simplices": (Simplex(), (2, 3)), "simplex of power 5": (Simplex(5.0), (4,)),
    "stiefel": (Stiefel(), (5, 2)), "stiefels": (Stiefel(), (2, 4, 3)), "orthogonal": (Stiefel(), (3, 3)),
    "one column": (Stiefel(), (4, 1)), "flat": (Euclidean(), (2, 3)),
}  # fmt: skip
every_manifold = pytest.mark.parametrize("name", CASES)


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def point(manifold, shape, seed=0):
    if isinstance(manifold, Euclidean):
        return jax.random.normal(jax.random.key(seed), shape, jnp.float64)
    return manifold.random(jax.random.key(seed), shape, jnp.float64)


def tangent(manifold, x, seed=1):
    return manifold.project(x, jax.random.normal(jax.random.key(seed), x.shape, jnp.float64))


@partial(jax.jit, static_argnums=(0, 1))
def start(manifold, shape, seed):
    x = point(manifold, shape, seed)
    return x, tangent(manifold, x, seed + 1)


@partial(jax.jit, static_argnums=0)
def flow(manifold, x, v, t):
    return manifold.flow(x, v, t)


@partial(jax.jit, static_argnums=0)
def project(manifold, x, u):
    return manifold.project(x, u)


@partial(jax.jit, static_argnums=0)
def embedded(manifold, x):
    """The point in the space that velocities belong to."""
    return manifold.root(x) if isinstance(manifold, Simplex) else x


@every_manifold
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), s=st.floats(-2, 2), t=st.floats(0, 3))
def test_flow(name, seed, s, t):
    """It stays on the manifold, keeps the speed, composes, and turns back."""
    manifold, shape = CASES[name]
    with jax.enable_x64(True):
        x, v = start(manifold, shape, seed)
        y, w = flow(manifold, x, v, t)
        assert manifold.distance(y) < 1e-13
        np.testing.assert_allclose(project(manifold, y, w), w, atol=1e-12)
        np.testing.assert_allclose(np.sum(np.square(w)), np.sum(np.square(v)), rtol=1e-10)
        further, direct = flow(manifold, y, w, s), flow(manifold, x, v, s + t)
        back = flow(manifold, y, -np.asarray(w), t)
        # Where a root of a probability is close to zero, so few digits of it are kept.
        for one, other in ((further, direct), (back, (x, -np.asarray(v)))):
            np.testing.assert_allclose(one[0], other[0], atol=1e-9)
            np.testing.assert_allclose(one[1], other[1], atol=1e-6)


@every_manifold
def test_velocity_is_the_derivative_and_the_acceleration_is_normal(name):
    manifold, shape = CASES[name]
    x, v = start(manifold, shape, 0)
    e = 1e-4
    before, here, after = (np.asarray(embedded(manifold, flow(manifold, x, v, 0.1 + k * e)[0])) for k in (-1, 0, 1))
    y, w = flow(manifold, x, v, 0.1)
    np.testing.assert_allclose((after - before) / (2 * e), w, atol=1e-5)
    bend = (after - 2 * here + before) / e**2
    np.testing.assert_allclose(project(manifold, y, bend), 0, atol=1e-4)
    assert isinstance(manifold, Euclidean) or np.max(np.abs(bend)) > 1e-2


@every_manifold
def test_projection_is_symmetric_idempotent_and_has_the_rank_of_the_dimension(name):
    manifold, shape = CASES[name]
    x, _ = start(manifold, shape, 0)
    size = int(np.prod(shape))
    unit = np.eye(size).reshape(size, *shape)
    matrix = np.asarray(jax.jit(jax.vmap(lambda u: manifold.project(x, u).ravel()))(unit))
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-13)
    np.testing.assert_allclose(matrix @ matrix, matrix, atol=1e-12)
    assert round(np.trace(matrix)) == manifold.dimension(shape)


@every_manifold
def test_nearest_and_distance(name):
    manifold, shape = CASES[name]
    x, _ = start(manifold, shape, 0)
    np.testing.assert_allclose(nearest(manifold, x), x, atol=1e-12)
    if isinstance(manifold, Euclidean):
        return
    rng = np.random.default_rng(3)
    off = np.asarray(x) + 0.05 * rng.normal(size=shape)
    near = nearest(manifold, off)
    assert manifold.distance(near) < 1e-12
    assert 0.001 < manifold.distance(off) < 1
    for _ in range(20):  # no other point is nearer
        other = flow(manifold, x, project(manifold, x, rng.normal(size=shape)), 0.03)[0]
        axes = tuple(range(len(shape) - manifold.point_axes, len(shape)))
        gaps = [np.sqrt(np.sum((np.asarray(p) - off) ** 2, axis=axes)) for p in (near, other)]
        assert np.all(gaps[0] <= gaps[1] + 1e-9)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("spheres", 10**6),
        ("simplex", 10**5),
        ("stiefel", 10**4),
        pytest.param("stiefel", 10**6, marks=pytest.mark.slow),
    ],
)
def test_a_long_run_stays_on_the_manifold(name, steps):
    manifold, shape = CASES[name]
    x, v = start(manifold, shape, 0)

    @partial(jax.jit, static_argnums=2)
    def run(x, v, steps):
        def step(carry, _):
            return manifold.flow(*carry, 0.01), None

        return jax.lax.scan(step, (x, v), None, length=steps)[0]

    y, w = run(x, v, steps)
    assert manifold.distance(y) < 1e-12
    np.testing.assert_allclose(project(manifold, y, w), w, rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.sum(np.square(w)), np.sum(np.square(v)), rtol=1e-8)


def test_without_the_correction_a_long_run_leaves_the_sphere():
    """The error that the division by the length takes off; so the test above can fail."""

    def plain(carry, _):
        x, v = carry
        a = jnp.linalg.norm(v)
        return (
            jnp.cos(a * 0.01) * x + jnp.sin(a * 0.01) / a * v,
            jnp.cos(a * 0.01) * v - a * jnp.sin(a * 0.01) * x,
        ), None

    begun = tuple(np.asarray(a, np.float32) for a in start(Sphere(), (5,), 0))
    y, _ = jax.jit(lambda begun: jax.lax.scan(plain, begun, None, length=10**6))(begun)[0]
    assert Sphere().distance(y) > 1e-5


def test_random_points_are_uniform():
    """Second moments, and for the sphere and the simplex fourth or third ones, within 5 standard errors."""
    n = 20_000
    x = np.asarray(Sphere().random(jax.random.key(0), (n, 3)))
    z = np.asarray(Simplex().random(jax.random.key(1), (n, 3)))
    q = np.asarray(Stiefel().random(jax.random.key(2), (n, 3, 2)))
    for draws, mean in (
        (x[:, 0], 0), (x[:, 0] ** 2, 1 / 3), (x[:, 0] ** 4, 1 / 5), (x[:, 0] * x[:, 1], 0),
        (z[:, 0], 1 / 3), (z[:, 0] ** 2, 1 / 6), (z.prod(axis=1), 1 / 60),
        (q[:, 0, 0] ** 2, 1 / 3), (q[:, 0, 0] * q[:, 1, 1], 0), (q[:, 0, 0] ** 2 * q[:, 1, 1] ** 2, 2 / 15),
    ):  # fmt: skip
        assert abs(draws.mean() - mean) < 5 * draws.std() / np.sqrt(n), mean


@pytest.mark.parametrize("power", [1.5, 2.0, 10.0])
def test_the_density_on_the_sphere_that_stands_for_one_on_the_simplex(power):
    """The slope is the gradient of U(theta(x)) less the change; the change integrates: mass on the circle is 1."""
    manifold = Simplex(power)
    potential = lambda t: -jnp.sum(np.array([1.5, 0.2, 3.0]) * jnp.log(t)) + jnp.sin(t[0])  # noqa: E731

    def on_sphere(x):
        powers = x**power / jnp.sum(x**power)
        change = (power - 1) * jnp.sum(jnp.log(x)) - 3 * jnp.log(jnp.sum(x**power))
        return potential(powers) - change

    @jax.jit
    def both(theta):
        root = manifold.root(theta)
        slopes = manifold.slope(theta, jax.grad(potential)(theta)), Sphere().project(root, jax.grad(on_sphere)(root))
        return slopes, (potential(theta) - manifold.change(theta), on_sphere(root))

    slopes, values = both(np.array([0.2, 0.5, 0.3]))
    np.testing.assert_allclose(*slopes, rtol=1e-9)
    np.testing.assert_allclose(*values, rtol=1e-12)
    # Two categories: the orthant is a quarter of the circle; Beta(2, 3) must have mass 1 there.
    angle = (np.arange(200_000) + 0.5) / 200_000 * np.pi / 2
    x = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    t = x**power / np.sum(x**power, axis=-1, keepdims=True)
    density = jax.jit(jax.vmap(lambda t: 12 * t[0] * t[1] ** 2 * jnp.exp(Simplex(power).change(t))))(t)
    np.testing.assert_allclose(power * np.mean(density) * np.pi / 2, 1.0, rtol=1e-4)


def test_geometry_of_a_pytree():
    geometry = Geometry.of({"a": Sphere(), "b": {"c": Simplex()}, "d": Euclidean()})
    x = {"a": jnp.array([0.0, 1.0]), "b": {"c": jnp.array([0.5, 0.5]), "e": jnp.zeros(3)}, "d": jnp.ones(2)}
    assert geometry.dimension(x) == 1 + 1 + 3 + 2
    assert geometry == Geometry.of({"d": Euclidean(), "b": {"c": Simplex()}, "a": Sphere()})
    geometry.check(x)
    h = jax.tree.map(lambda _: 0.1, x)
    v = geometry.normal(jax.random.key(0), x)
    y, w = geometry.flow(x, v, h)
    np.testing.assert_allclose(y["a"], Sphere().flow(x["a"], v["a"], 0.1)[0])
    np.testing.assert_allclose(y["b"]["e"], 0.1 * v["b"]["e"])
    np.testing.assert_allclose(w["b"]["c"], Simplex().flow(x["b"]["c"], v["b"]["c"], 0.1)[1])
    whole = Geometry.of({"b": Sphere()})  # a name stands for all that it holds
    assert whole.dimension({"b": {"c": jnp.ones(3), "e": jnp.ones(4)}, "a": jnp.ones(2)}) == 2 + 3 + 2
    drawn = geometry.random(jax.random.key(1), x)
    geometry.check(drawn)
    assert not np.allclose(drawn["a"], x["a"])
    np.testing.assert_array_equal(drawn["d"], x["d"])
    assert geometry.without({"a"}) == Geometry.of({"b": {"c": Simplex()}})
    assert Geometry.of(None).flat
    assert Geometry.of({"a": Euclidean()}).flat


@pytest.mark.parametrize(
    ("manifold", "x", "words"),
    [
        (Sphere(), jnp.array([1.0, 1.0]), r"off its manifold Sphere\(\) by 0\.414.*target\.geometry\.nearest"),
        (Simplex(), jnp.array([0.5, 0.6]), r"off its manifold .* by 0\.0707"),
        (Simplex(), jnp.array([1.2, -0.2]), "off its manifold"),
        (Stiefel(), jnp.ones((3, 2)), r"off its manifold Stiefel\(\) by 1\."),
        (Stiefel(), jnp.ones((2, 3)), "3 orthonormal columns need as many rows"),
        (Stiefel(), jnp.ones(3), "2 axes or more"),
        (Sphere(), jnp.ones(1), "2 coordinates or more"),
        (Sphere(), jnp.array([jnp.nan, 1.0]), "off its manifold"),
        ({"b": Sphere()}, {"a": jnp.ones(2)}, "manifold names b, which is not among the parameters"),
    ],
)  # fmt: skip
def test_points_off_the_manifold(manifold, x, words):
    with pytest.raises(ValueError, match=words):
        Geometry.of(manifold).check(x)


def test_what_is_no_manifold():
    with pytest.raises(TypeError, match=r"manifold must be a manifold such as .*Sphere\(\).*got 'sphere'"):
        sc.Target(lambda x: 0.0, lambda x, r: x[0], np.ones(3), manifold="sphere")
    with pytest.raises(ValueError, match="power must be a number of at least 1"):
        Simplex(0.5)
    with pytest.raises(ValueError, match="no uniform law"):
        Euclidean().random(jax.random.key(0), (2,))


@pytest.mark.parametrize("name", [name for name in CASES if name != "large sphere"])
def test_derivatives_of_coordinates_are_those_along_geodesics(name):
    """The formulas of each manifold against what holds for any."""
    manifold, shape = CASES[name]
    x, v = start(manifold, shape, 3)
    for function, places in (("rates", (x, v)), ("steepness", (x,)), ("laplacian", (x,))):
        both = jax.jit(lambda *p, name=function: (getattr(manifold, name)(*p), getattr(Manifold, name)(manifold, *p)))
        np.testing.assert_allclose(*both(*places), atol=1e-12)


def test_the_laplacian_on_the_circle_and_in_flat_space():
    angle = 0.3
    x = jnp.array([jnp.cos(angle), jnp.sin(angle)])
    np.testing.assert_allclose(Sphere().laplacian(x), [-np.cos(angle), -np.sin(angle)])  # d^2/da^2 cos a
    np.testing.assert_allclose(Sphere().steepness(x), [np.sin(angle) ** 2, np.cos(angle) ** 2])
    np.testing.assert_allclose(Euclidean().laplacian(x), 0)
    np.testing.assert_allclose(Euclidean().steepness(x), 1)


def test_matrix_exponential():
    for shape, scale in (((4, 4), 0.1), ((3, 6, 6), 1.0), ((20, 20), 3.0), ((2, 2), 0.0)):
        m = scale * jax.random.normal(jax.random.key(1), shape)
        want = expm(m)
        np.testing.assert_allclose(jax.jit(exponential)(m), want, atol=1e-11 * np.max(np.abs(want)))
    assert not np.any(np.isfinite(exponential(jnp.full((2, 2), jnp.inf))))
