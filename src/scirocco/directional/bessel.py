"""Logarithms and ratios of modified Bessel functions of the first kind, for every order and argument at a fixed cost.

    I_n(x) = (x/2)^n / Gamma(n + 1) exp G_n(x),    A_n(x) = I_{n+1}(x) / I_n(x) = G_n'(x),    G_n(0) = 0

G, the *excess*, is what the law of von Mises and Fisher needs: neither the power of x nor the Gamma function, both
large where the order is, ever enters. For large orders m it follows from the uniform expansion of I_m (DLMF 10.41.3),
whose series is taken as exp D(t), D(t) = sum_k D_k(t) / m^k, and holds Stirling's series of the Gamma function as D(1).
With s = sqrt(m^2 + x^2), t = m / s and a = x / (m + s), for all x from 0 on,

    G  = x a - m log1p(x a / (2 m)) - log1p(x a / m) / 2 + D(t) - D(1)
    A  = a - (x / s^2) B,    B = 1/2 + t D'(t)
    A' = t / (m + s) + ((x^2 - m^2) B + x^2 t B'(t)) / s^4

Small orders are raised first; the recurrence that leads back, stable in this direction, is

    A_{k-1}  = x / (2 k + x A_k)
    A_{k-1}' = (2 k - x^2 A_k') / (2 k + x A_k)^2
    G_{k-1}  = G_k + log1p(x A_k / (2 k))

No term takes away more than a part of another: errors are a few units of rounding, for A' at orders near 0 and large x
a few hundred. The equation of Riccati, A' = 1 - A^2 - (2 n + 1) A / x, is true but not used: its terms are of size 1
where A' is (n + 1/2) / x^2, for large x. The order is static: it fixes the coefficients and the number of steps.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import Polynomial

from scirocco.core.checks import numbers
from scirocco.core.types import Array, Number

MOST_TERMS = 11  # of the expansion, which diverges: more would need larger orders
# By the bytes of a number:
LEAST_ORDER = {4: 10.0, 8: 20.0}  # for the expansion to be as exact as the type
LARGEST = {4: 1e19, 8: 1e38}  # an x whose square, and the product of a group, are numbers
GROUP = {4: 2, 8: 8}  # steps to one logarithm: more would overflow before the square of x does


def log_bessel_i(order: float, x: Number) -> Array:
    """log I_order(x) for x >= 0 and a static order >= 0; its derivative is A + order / x.

    >>> log_bessel_i(2499.0, 30.0).round()
    Array(-10290., dtype=float32)
    """
    return _log_bessel_i(_checked(order), _floating(x))


def log_bessel_excess(order: float, x: Number) -> Array:
    """G = log(I_order(x) Gamma(order + 1) / (x/2)^order): how far I is above its first term; its derivative is A.

    >>> log_bessel_excess(0.5, 0.0)                     # log(sinh(x) / x)
    Array(0., dtype=float32)
    """
    return _jitted_excess(_checked(order), _floating(x))


def bessel_ratio(order: float, x: Number) -> Array:
    """A = I_{order + 1}(x) / I_order(x), from 0 at x = 0 to 1 (which it is rounded to for very large x).

    >>> bessel_ratio(0.5, 2.0).round(4)                 # coth(2) - 1/2
    Array(0.5373, dtype=float32)
    """
    return _jitted_ratio(_checked(order), _floating(x))


def ratio_and_slope(order: float, x: Number) -> tuple[Array, Array]:
    """A and its derivative, 1 / (2 order + 2) at x = 0.

    >>> [float(value) for value in ratio_and_slope(1.0, 0.0)]
    [0.0, 0.25]
    """
    return _ratio_and_slope(_checked(order), _floating(x))


@partial(jax.jit, static_argnums=0)
def _log_bessel_i(order: float, x: Array) -> Array:
    excess = _excess(order, x)
    if order == 0:
        return excess
    # The power and the Gamma function in one logarithm: apart they cancel each other's digits.
    return excess + order * jnp.log(x / (2 * math.exp(math.lgamma(order + 1) / order)))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _excess(order: float, x: Array) -> Array:
    return _evaluate(order, x)[0]


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _ratio(order: float, x: Array) -> Array:
    return _evaluate(order, x)[1]


@_excess.defjvp
def _excess_jvp(order: float, primals: Any, tangents: Any) -> tuple[Array, Array]:
    (x,), (direction,) = primals, tangents
    return _excess(order, x), _ratio(order, x) * direction


@_ratio.defjvp
def _ratio_jvp(order: float, primals: Any, tangents: Any) -> tuple[Array, Array]:
    (x,), (direction,) = primals, tangents
    _, ratio, slope = _evaluate(order, x)
    return ratio, slope * direction


_jitted_excess = partial(jax.jit, static_argnums=0)(_excess)
_jitted_ratio = partial(jax.jit, static_argnums=0)(_ratio)


@partial(jax.jit, static_argnums=0)
def _ratio_and_slope(order: float, x: Array) -> tuple[Array, Array]:
    return _evaluate(order, x)[1:]


def _evaluate(order: float, x: Array) -> tuple[Array, Array, Array]:
    """G, A and A'; what is not used costs nothing once compiled."""
    given = x.dtype
    x = x.astype(jnp.promote_types(given, jnp.float32))  # squares leave the range of half precision
    group, least = GROUP[x.dtype.itemsize], LEAST_ORDER[x.dtype.itemsize]
    steps = max(0, math.ceil(least - order))
    raised = order + steps
    excess, ratio, slope = _expansion(raised, x)
    product = jnp.zeros_like(x)  # of the factors 1 + x A / (2 k), less 1
    for step in range(steps):
        twice = 2 * (raised - step)
        pull = x * ratio
        product += pull / twice * (1 + product)
        if step % group == group - 1 or step == steps - 1:
            excess, product = excess + jnp.log1p(product), jnp.zeros_like(x)
        slope = (twice - x * x * slope) / jnp.square(twice + pull)
        ratio = x / (twice + pull)
    ratio = jnp.minimum(ratio, 1)  # rounding may leave it above
    return excess.astype(given), ratio.astype(given), slope.astype(given)


def _expansion(order: float, x: Array) -> tuple[Array, Array, Array]:
    """G, A and A' for large orders."""
    quotient, bend, bend_slope = _coefficients(order, float(np.finfo(x.dtype).eps))
    s = jnp.sqrt(order * order + x * x)
    t, sine, near = order / s, x / s, x / (s + order)
    rise = x * near  # s - order
    excess = (
        rise - order * jnp.log1p(rise / (2 * order)) - jnp.log1p(rise / order) / 2 - rise / s * _horner(quotient, t)
    )
    bent = _horner(bend, t)
    slope = t / (s + order) + ((sine * sine - t * t) * bent + sine * sine * _horner(bend_slope, t)) / (s * s)
    return excess, near - sine / s * bent, slope


@cache
def _coefficients(order: float, epsilon: float) -> tuple[list[float], list[float], list[float]]:
    """Of (D(1) - D(t)) / (1 - t), of 1/2 + t D'(t) and of t times its derivative, in powers of t."""
    # As many terms as the type can tell: the first left out is 1 / order^{terms + 2} of the ratio.
    terms = min(MOST_TERMS, max(1, math.ceil(-math.log(epsilon) / math.log(order)) - 2))
    slopes = _slopes()[:terms]
    slope = sum((d / order**k for k, d in enumerate(slopes, start=1)), Polynomial([0.0]))
    bend = Polynomial([0.0, 1.0]) * slope + 0.5
    # (1 - t^i) / (1 - t) is the sum of the powers below i.
    quotient = np.cumsum(slope.integ().coef[:0:-1])[::-1]
    return quotient.tolist(), bend.coef.tolist(), (Polynomial([0.0, 1.0]) * bend.deriv()).coef.tolist()


@cache
def _slopes() -> list[Polynomial]:
    """D_1', D_2', ...: the recurrence of DLMF 10.41.9 for the logarithm of its series."""
    weight = Polynomial([0.0, 0.0, 0.5, 0.0, -0.5])
    slopes = [Polynomial([1.0, 0.0, -5.0]) / 8]
    for _ in range(1, MOST_TERMS):
        products = sum((a * b for a, b in zip(slopes[:-1], slopes[-2::-1], strict=True)), Polynomial([0.0]))
        slopes.append((weight * slopes[-1]).deriv() + weight * products)
    return slopes


def _horner(coefficients: list[float], t: Array) -> Array:
    value = jnp.zeros_like(t)
    for c in reversed(coefficients):
        value = value * t + c
    return value


def _checked(order: float) -> float:
    if isinstance(order, jax.Array | np.ndarray) or not 0 <= order < math.inf:
        raise ValueError(f"order must be a number, not an array, finite and at least 0; got {order!r}")
    return float(order)


def _floating(x: Number) -> Array:
    if not isinstance(x, jax.core.Tracer):  # whose values are not known
        given = numbers("x", x).astype(np.float64, copy=False)
        kind = jnp.result_type(jax.dtypes.canonicalize_dtype(getattr(x, "dtype", float)), float)
        most = LARGEST[max(4, kind.itemsize)]
        if np.any(given > most):
            raise ValueError(f"x must be at most {most:g} in {kind}, whose range its powers leave; got {given.max():g}")
    x = jnp.asarray(x)
    return x.astype(jnp.result_type(x.dtype, float))
