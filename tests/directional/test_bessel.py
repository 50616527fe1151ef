"""Bessel functions against mpmath, closed forms and recurrences; derivatives; what float32 leaves."""

from __future__ import annotations

from functools import cache, partial

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from scirocco import directional
from scirocco.directional import bessel_ratio, log_bessel_excess, log_bessel_i
from scirocco.directional.bessel import ratio_and_slope

ORDERS = [0.0, 0.5, 1.0, 1.5, 4.0, 9.0, 49.0, 191.0, 383.0, 499.0, 1499.0, 2499.0, 5000.0]


@cache
def reference(order):
    """x, log I, G, A and A', the four of them as mpmath numbers."""
    x = np.float32([1e-3, 0.7, 25.0, order * 0.66 + 0.1, order + 1, 3 * order + 2, 1e4, 1e6]).astype(np.float64)
    rows = []
    with mpmath.workdps(40):
        n = mpmath.mpf(order)
        for z in map(mpmath.mpf, x):
            value, following = (mpmath.besseli(n + k, z, maxterms=10**6) for k in (0, 1))
            ratio = following / value
            excess = mpmath.log(value) + mpmath.loggamma(n + 1) - n * mpmath.log(z / 2)
            rows.append((mpmath.log(value), excess, ratio, 1 - ratio**2 - (2 * n + 1) * ratio / z))
    return x, rows


def error(values, true, scale):
    """The largest error in units of ``scale(true)``."""
    with mpmath.workdps(40):
        return max(float(abs(mpmath.mpf(float(v)) - t) / scale(t)) for v, t in zip(values, true, strict=True))


@partial(jax.jit, static_argnums=0)
def evaluate(order, x):
    """log I, G, A and A'."""
    return (log_bessel_i(order, x), log_bessel_excess(order, x), *ratio_and_slope(order, x))


@pytest.mark.parametrize("order", ORDERS)
def test_float64_against_mpmath(order):
    x, rows = reference(order)
    logs, excesses, ratios, slopes = zip(*rows, strict=True)
    with jax.enable_x64(True):
        log, excess, ratio, slope = evaluate(order, x)
    assert log.dtype == ratio.dtype == np.float64
    assert error(log, logs, lambda t: max(abs(t), 1)) < 1e-12
    assert error(excess, excesses, abs) < 1e-14
    assert error(ratio, ratios, abs) < 1e-14
    assert error(slope, slopes, abs) < 1e-12


@pytest.mark.parametrize("order", ORDERS[::2])
def test_float32_against_mpmath(order):
    x, rows = reference(order)
    logs, excesses, ratios, slopes = zip(*rows, strict=True)
    log, excess, ratio, slope = evaluate(order, x)
    assert log.dtype == ratio.dtype == np.float32
    assert error(excess, excesses, abs) < 4e-7
    assert error(ratio, ratios, abs) < 4e-7
    assert error(slope, slopes, abs) < 5e-5
    # x log I' = sqrt(order^2 + x^2), nearly: where log I passes through 0, the rounding of x alone moves it by as much.
    moved = [max(1.0, abs(float(t)), np.hypot(order, z)) for t, z in zip(logs, x, strict=True)]
    assert error(np.asarray(log, np.float64) / moved, np.array(logs) / moved, lambda t: 1) < 4e-7


def test_closed_forms_of_order_one_half():
    x = np.geomspace(0.1, 300.0, 50)
    with jax.enable_x64(True):
        log, excess, ratio, slope = evaluate(0.5, x)
    np.testing.assert_allclose(excess, np.log(np.sinh(x) / x), rtol=1e-12)
    np.testing.assert_allclose(log, np.log(np.sqrt(2 / (np.pi * x)) * np.sinh(x)), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(ratio, 1 / np.tanh(x) - 1 / x, rtol=1e-12)
    np.testing.assert_allclose(slope, 1 / x**2 - 1 / np.sinh(x) ** 2, rtol=1e-9)


@pytest.mark.parametrize(("x64", "order"), [(False, 10.3), (True, 20.4), (True, 21.0)])
def test_neighbouring_orders_agree_where_the_number_of_steps_changes(x64, order):
    """I_{n-1} = I_{n+1} + (2 n / x) I_n."""
    x = np.geomspace(1e-2, 1e5, 40)
    with jax.enable_x64(x64):
        (_, excess_before, before, _), (_, excess, here, _) = (
            [np.asarray(value, np.float64) for value in evaluate(n, x)] for n in (order - 1, order)
        )
    tolerance = 2e-14 if x64 else 1e-6
    np.testing.assert_allclose(before * (2 * order / x + here), 1, rtol=tolerance)
    np.testing.assert_allclose(excess_before, excess + np.log1p(x * here / (2 * order)), rtol=tolerance)


def derivatives(function, order, times=1):
    """The derivative of a number at each entry of an array."""
    derivative = lambda z: function(order, z)  # noqa: E731
    for _ in range(times):
        derivative = jax.grad(derivative)
    return jax.jit(jax.vmap(derivative))


def differences(values, x):
    """Of what ``values`` gives for an array, by (x + h, x - h) in one call."""
    above, below = np.asarray(values(np.stack([x * (1 + 1e-4), x * (1 - 1e-4)])))
    return (above - below) / (2e-4 * x)


@pytest.mark.parametrize("order", [0.0, 1.5, 191.0, 2499.0])
def test_derivatives(order):
    x = np.array([0.3, 2.0, 40.0, 700.0, 3000.0])
    with jax.enable_x64(True):
        _, _, ratio, slope = map(np.asarray, evaluate(order, x))
        np.testing.assert_allclose(slope, 1 - ratio**2 - (2 * order + 1) * ratio / x, rtol=1e-9, atol=1e-12)
        for k, (function, exact) in enumerate(
            [(log_bessel_i, ratio + order / x), (log_bessel_excess, ratio), (bessel_ratio, slope)]
        ):
            np.testing.assert_allclose(derivatives(function, order)(x), exact, rtol=1e-14)
            np.testing.assert_allclose(differences(lambda z, k=k: evaluate(order, z)[k], x), exact, rtol=1e-6)


@pytest.mark.parametrize("order", [16.0, 191.0])
def test_higher_derivatives(order):
    x = np.array([0.0, 0.3, 2.0, 40.0, 700.0, 3000.0])
    with jax.enable_x64(True):
        slope = np.asarray(ratio_and_slope(order, x)[1])
        forward = jax.jvp(lambda z: bessel_ratio(order, z), (x,), (2 * x,))[1]
        np.testing.assert_allclose(forward, 2 * x * slope, rtol=1e-14)
        np.testing.assert_allclose(derivatives(log_bessel_excess, order, 2)(x), slope, rtol=1e-13)
        curvature = np.asarray(derivatives(bessel_ratio, order, 2)(x))
        expected = differences(lambda z: ratio_and_slope(order, z)[1], x[1:])
    np.testing.assert_allclose(curvature[1:], expected, rtol=1e-6, atol=1e-12)
    assert curvature[0] == 0  # an odd function


@pytest.mark.parametrize("order", [0.0, 0.5, 50.0])
def test_at_zero(order):
    zero = jnp.zeros(1)
    assert log_bessel_i(order, zero) == (0 if order == 0 else -np.inf)
    assert log_bessel_excess(order, zero) == 0
    assert bessel_ratio(order, zero) == 0
    assert derivatives(log_bessel_i, order)(zero) == (0 if order == 0 else np.inf)
    assert derivatives(log_bessel_excess, order)(zero) == 0
    np.testing.assert_allclose(derivatives(bessel_ratio, order)(zero), 1 / (2 * order + 2), rtol=2e-7)


@pytest.mark.parametrize("order", [0.0, 49.0])
def test_far_out(order):
    """A = 1 - (n + 1/2) / x, of which float32 sees nothing where its derivative is still right."""
    x = jnp.array([1e8, 1e12, 1e17])
    assert np.all(bessel_ratio(order, x) <= 1)
    np.testing.assert_allclose(bessel_ratio(order, x), 1, rtol=1e-6)
    np.testing.assert_allclose(log_bessel_i(order, x), x, rtol=1e-6)
    np.testing.assert_allclose(ratio_and_slope(order, x)[1] * x**2, order + 0.5, rtol=1e-4)


def test_the_ratio_grows_with_x_and_falls_with_the_order():
    x = np.geomspace(1e-3, 1e6, 500)
    with jax.enable_x64(True):
        ratios = np.array([bessel_ratio(order, x) for order in (0.0, 0.5, 9.0, 49.0, 2499.0)])
    assert np.all(np.diff(ratios, axis=1) > 0)
    assert np.all(np.diff(ratios, axis=0) < 0)
    assert np.all((ratios > 0) & (ratios < 1))


@pytest.mark.parametrize("function", [log_bessel_i, log_bessel_excess, bessel_ratio])
def test_transformations_and_shapes(function):
    x = jnp.linspace(0.5, 300.0, 12).reshape(3, 4)
    plain = function(4.0, x)
    assert plain.shape == (3, 4)
    np.testing.assert_allclose(jax.jit(lambda z: function(4.0, z))(x), plain, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(jax.vmap(lambda z: function(4.0, z)))(x), plain, rtol=1e-6)
    assert np.isnan(function(4.0, jnp.nan))


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32])
def test_types_are_kept(dtype):
    x = jnp.array([0.5, 300.0, 6e4], dtype)  # whose squares float16 does not hold
    for function in (log_bessel_i, log_bessel_excess, bessel_ratio):
        value = function(4.0, x)
        assert value.dtype == dtype
        wide = function(4.0, x.astype(jnp.float32))
        np.testing.assert_allclose(value.astype(jnp.float32), wide, rtol=float(jnp.finfo(dtype).eps))
    assert bessel_ratio(4, 3).dtype == jnp.float32
    np.testing.assert_allclose(bessel_ratio(4, 3), bessel_ratio(4.0, 3.0))


@pytest.mark.parametrize("order", [-0.5, np.nan, np.inf, np.ones(2), jnp.float32(1)])
def test_orders_that_are_not(order):
    with pytest.raises(ValueError, match="order must be a number"):
        bessel_ratio(order, 1.0)


@pytest.mark.parametrize(("x64", "most"), [(False, 1e19), (True, 1e38)])
def test_arguments_beyond_the_range_are_refused(x64, most):
    calls = (
        lambda x: directional.log_bessel_i(1.0, x), lambda x: directional.log_bessel_excess(0.5, x),
        lambda x: directional.bessel_ratio(0.5, x), lambda x: directional.log_normaliser(3, x),
        lambda x: directional.mean_resultant_length(3, x),
        lambda x: directional.log_density(np.eye(3)[0], np.eye(3)[1], x),
    )  # fmt: skip
    with jax.enable_x64(x64):
        for call in calls:
            assert np.isfinite(call(most))
            with pytest.raises(ValueError, match=r"x must be at most 1e\+\d+ in float\d\d, .*; got 1e\+300"):
                call(1e300)
            with pytest.raises(ValueError, match=r"x must be at most 1e\+\d+"):
                call(np.inf)
            assert np.isnan(call(np.nan))
            with pytest.raises(TypeError, match="x must be a number or an array of numbers, not complex"):
                call(1j)
