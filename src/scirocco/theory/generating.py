"""Moment generating functions of SCIR and of its control variate forms.

Given the path of the estimates, the function is found from the last step to the first: a step turns s into
s R / (1 - s c) and contributes (1 - s c)^(-a_hat). Over independent minibatches

    phi_m(s) = E[(1 - s c)^(-a_hat) phi_(m-1)(s R / (1 - s c))],    phi_0(s) = exp(theta_0 s)

Theorem 3.1 of Baker et al. (2018), in which factor m belongs to a_hat_(M-m+1), not to a_hat_m as printed; Theorems 1
and 2 of Barile and Nemeth.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.polynomial import Chebyshev
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from scirocco.core.checks import numbers, real_number
from scirocco.theory.estimates import EstimateLaw, Floats
from scirocco.theory.kernels import Form, Kernel, coefficients, kernel_of, require_form, whole_steps

MOST_STEPS = 10**7

DEGREES = (32, 64, 128, 256, 512)
"""Degrees of the interpolation in ``mgf``, tried in turn until two of them agree."""


def mgf_given_path(
    s: ArrayLike,
    estimates: ArrayLike,
    step_size: float,
    start: float,
    form: Form = "scir",
    centre: float | None = None,
    *,
    log: bool = False,
) -> float | Floats:
    """E[exp(s theta) | a_hat_1 ... a_hat_M] after one step from ``start`` with each of ``estimates``, in this order.

    Theorem 3.1 of Baker et al. with its index put right, Theorems 1 and 2 of Barile and Nemeth. inf where the
    expectation is. ``centre`` must be given unless the form is "scir"; ``log=True`` returns the logarithm.

    >>> print(round(mgf_given_path(0.5, [2.0, 1.0], 0.7, 1.5), 6))       # not symmetric in the estimates
    2.591463
    >>> print(round(mgf_given_path(0.5, [1.0, 2.0], 0.7, 1.5), 6))
    2.884683
    """
    require_form(form, step_size)
    if centre is not None:
        real_number("centre", centre)
    path = numbers("estimates", estimates).astype(np.float64, copy=False)
    if path.ndim != 1:
        raise ValueError(f"estimates must have shape (steps,); got {path.shape}")
    if not np.all(np.isfinite(path) & (path > 0)):
        raise ValueError(f"estimates must be positive and finite; got {path.min()!r}")
    if centre is None and form != "scir":
        raise ValueError(f"centre must be given for the form {form!r}: a path does not say what it estimates")
    if form == "main" and np.any(path <= 1):
        raise ValueError(f"estimates must be above 1 for the form 'main'; got {path.min()!r}")
    kept, _, scale = coefficients(path, step_size, form, 0.0 if centre is None else centre)
    real_number("start", start, least=0.0)
    _check_finite(kept)
    t = _arguments(s)
    finite, value = np.ones(t.shape, dtype=bool), np.zeros(t.shape)
    for shape, R, c in zip(path[::-1], kept[::-1], scale[::-1], strict=True):
        finite &= t * c < 1
        t = np.where(finite, t, 0.0)
        value -= shape * np.log1p(-t * c)
        t = t * R / (1 - t * c)
    return _exponential(np.where(finite, value + start * t, np.inf), log)


def mgf(
    s: ArrayLike,
    law: EstimateLaw,
    step_size: float,
    steps: int,
    start: float,
    form: Form = "scir",
    centre: float | None = None,
    *,
    log: bool = False,
) -> float | Floats:
    """E exp(s theta) after ``steps`` steps from ``start``, over independent minibatches. inf where the expectation is.

    For "scir" a product over the steps. Otherwise phi_m(s) = E[(1 - s c)^(-a_hat) phi_(m-1)(s R / (1 - s c))] from
    phi_0(s) = exp(start s), with log phi_m interpolated on an interval that holds all the arguments which the later
    steps ask for; good to about 1e-8. Atoms of the law count however rare they are: with a_hat < 1 among them, however
    rarely, the expectation at a given s > 0 is infinite after enough steps. ``log=True`` returns the logarithm.

    >>> law = EstimateLaw.hypergeometric(100, 30, 10, prior=1.5)
    >>> print(mgf([-0.1, 0.0, 0.1], law, 0.2, 8, 25.0, "alternative").round(4))
    [ 0.0562  1.     23.8397]
    """
    kernel = kernel_of(law, step_size, form, centre)
    real_number("start", start, least=0.0)
    if np.ndim(steps):
        raise ValueError(f"steps must be one whole number; got an array of shape {np.shape(steps)}")
    count = int(whole_steps(steps))
    if count > MOST_STEPS:
        raise ValueError(f"steps must be at most {MOST_STEPS:,}, as the function is found step by step; got {count}")
    _check_finite(kernel.kept)
    t = _arguments(s)
    logs = (_log_product if form == "scir" else _log_mixture)(t.ravel(), kernel, count, start)
    return _exponential(logs.reshape(t.shape), log)


def _log_product(t: Floats, kernel: Kernel, steps: int, start: float) -> Floats:
    """R and c are the same for all estimates, so all of them pass the same argument on to the step before."""
    R, c = kernel.kept[0], kernel.scale[0]
    finite, value = np.ones(t.shape, dtype=bool), np.zeros(t.shape)
    for _ in range(steps):
        finite &= t * c < 1
        t = np.where(finite, t, 0.0)
        if not np.any(t):
            break
        value += _log_step(lambda x: np.zeros(x.shape), kernel, t)
        t = t * R / (1 - t * c)
    return np.where(finite, value + start * t, np.inf)


def _log_mixture(s: Floats, kernel: Kernel, steps: int, start: float) -> Floats:
    """Estimates pass different arguments on. Their number would multiply at each step, so phi is tabulated."""
    if not steps:
        return start * s
    finite = _finite(s, kernel, steps)
    inside = np.where(finite, s, 0.0)
    domains = _domains(inside, kernel, steps)
    before: Floats | None = None
    for degree in DEGREES:
        phi: Callable[[Floats], Floats] = partial(np.multiply, start)
        for domain in reversed(domains):
            phi = _interpolated(partial(_log_step, phi, kernel), degree, domain, float(kernel.scale.max()))
        value = _log_step(phi, kernel, inside)
        # The error falls geometrically with the degree: at twice the degree it is about the square of this difference.
        if before is not None and np.all(np.abs(value - before) <= 1e-6 * (1 + np.abs(value))):
            return np.where(finite, value, np.inf)
        before = value
    raise ValueError(
        "s must be further from where the expectation becomes infinite, or from minus infinity: "
        f"no polynomial of degree {DEGREES[-1]} follows log phi on [{s.min():.6g}, {s.max():.6g}]"
    )


def _interpolated(
    function: Callable[[Floats], Floats], degree: int, domain: tuple[float, float], scale: float
) -> Callable[[Floats], Floats]:
    """By a polynomial in u = log(1 - t c) with the largest c, of which log phi is nearly linear far from zero."""
    low, high = domain
    series = Chebyshev.interpolate(
        lambda u: function(-np.expm1(u) / scale), degree, [np.log1p(-high * scale), np.log1p(-low * scale)]
    )
    return lambda t: series(np.log1p(-t * scale))


def _log_step(phi: Callable[[Floats], Floats], kernel: Kernel, t: Floats) -> Floats:
    """log E[(1 - t c)^(-a_hat) exp phi(t R / (1 - t c))]."""
    room = t[:, None] * kernel.scale
    values = phi(t[:, None] * kernel.kept / (1 - room)) - kernel.shape * np.log1p(-room)
    return np.asarray(logsumexp(values, axis=1, b=kernel.probability))


def _finite(s: Floats, kernel: Kernel, steps: int) -> NDArray[np.bool_]:
    """Where the expectation exists: where no sequence of estimates makes a step see t c >= 1."""
    finite, t = np.ones(s.shape, dtype=bool), np.maximum(s, 0.0)
    for _ in range(steps):
        finite &= t * kernel.scale.max() < 1
        t = np.where(finite, t, 0.0)
        following = (t[:, None] * kernel.kept / (1 - t[:, None] * kernel.scale)).max(axis=1)
        if np.all(following <= t):  # R/(1 - t c) grows with t: what does not grow now never will
            break
        t = following
    return finite


def _domains(s: Floats, kernel: Kernel, steps: int) -> list[tuple[float, float]]:
    """Intervals that hold the arguments of phi_(M-1), ..., phi_1. A step is increasing in t, so the ends suffice.

    They only grow: an interval that shrinks to a point is of no use to an interpolation.
    """
    low, high, domains = min(float(s.min(initial=0)), -1e-3), float(s.max(initial=0)), []
    for _ in range(steps - 1):
        low = min(low, float(np.min(low * kernel.kept / (1 - low * kernel.scale))))
        high = max(high, float(np.max(high * kernel.kept / (1 - high * kernel.scale))))
        domains.append((low, high))
    return domains


def _exponential(logs: Floats, log: bool) -> float | Floats:
    with np.errstate(over="ignore"):
        return (logs if log else np.exp(logs))[()]


def _arguments(s: ArrayLike) -> Floats:
    values = numbers("s", s).astype(np.float64, copy=False)
    if not np.all(np.isfinite(values)):
        raise ValueError(f"s must be finite; got {s!r}")
    return values


def _check_finite(kept: Floats) -> None:
    if not np.all(np.isfinite(kept)):
        raise ValueError("step_size must be smaller here: e^(-h b_hat) overflows for the smallest estimate")
