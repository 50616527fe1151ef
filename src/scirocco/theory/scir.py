r"""Exact laws of the stochastic Cox-Ingersoll-Ross process, with and without control variates, at any step size.

Each component of the process moves towards Gamma(a) on a fresh minibatch estimate a_hat by

    theta' = c Gamma(a_hat + Poisson(theta R / c))

    scir           R = r,              c = 1 - r,              r = e^-h
    main           R = r,              c = (1 - r) / b_hat     only if a_hat > 1
    alternative    R = e^(-h b_hat),   c = (1 - R) / b_hat     any a_hat; c = h at b_hat = 0

with b_hat = (a_hat - 1) / (a - 1), the control variate at the mode, for which the centre a must be above 1. Given
theta and a_hat the mean is R theta + c a_hat and the variance 2 R c theta + c^2 a_hat. With m and V the mean and the
variance of theta, the minibatches independent and E over a_hat,

    m' = E[R] m + E[c a_hat]
    V' = E[R^2] V + E[2 R c] m + E[c^2 a_hat] + Var[R m + c a_hat]

A stationary law with a mean needs E[R] < 1, with a variance E[R^2] < 1. ``moments`` runs the recursion, which is linear
in (1, m, m^2, V), by repeated squaring. Given the path of the estimates, the moment generating function is found from
the last step to the first: a step turns s into s R / (1 - s c) and contributes (1 - s c)^(-a_hat).

Sources: Baker et al. (2018), "scir"; Barile and Nemeth, "main" (Section 2) and "alternative" (Appendix B). In three
places the sources are not followed. In Theorem 3.1 of the first, factor m belongs to a_hat_(M-m+1), not to a_hat_m.
The scale in (7) of the second is (1 - e^-h) / (2 b_hat), not over theta. Its variances (9) and (21) leave out the last
term of V', the variance of the mean over the minibatches; ``conditional_variance`` has them as printed. For
"alternative" this hides most of the variance before stationarity: 2.67 of 11.1 after the first step of Figure 3b.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.polynomial import Chebyshev
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import exprel, gammainc, logsumexp

from scirocco.theory.estimates import EstimateLaw, Floats

Form: TypeAlias = Literal["scir", "main", "alternative"]
FORMS: tuple[Form, ...] = ("scir", "main", "alternative")

NEGLIGIBLE = 1e-6
"""The form "main" does not exist at a_hat <= 1. Less probability than this is left out there, more is an error."""

DEGREES = (32, 64, 128, 256, 512)
"""Degrees of the interpolation in ``mgf``, tried in turn until two of them agree."""


class Moments(NamedTuple):
    """Mean and variance of one component; arrays if ``steps`` was one."""

    mean: float | Floats
    variance: float | Floats


class _Kernel(NamedTuple):
    """One step, for each value of the estimate: R, 1 - R (not to lose it where R is close to 1) and c."""

    shape: Floats
    probability: Floats
    kept: Floats
    lost: Floats
    scale: Floats


class _Recursion(NamedTuple):
    """x' = x + drift - pull x for x = m - a, and V' = V - damping V + (1, x, x^2) . source."""

    drift: float
    pull: float
    damping: float
    source: Floats


def moments(
    law: EstimateLaw,
    step_size: float,
    steps: int | ArrayLike,
    start: float,
    form: Form = "scir",
    centre: float | None = None,
) -> Moments:
    """The mean and the variance of theta after ``steps`` steps from ``start``, exact, minibatches included.

    ``steps`` may be an array, of any size of number: the cost is that of its logarithm. ``centre`` is the a of b_hat,
    by default the law's mean; "scir" has no use for it. Moments too large for float64 are inf.

    >>> law = EstimateLaw.hypergeometric(1000, 150, 100, prior=0.1)
    >>> print(np.round(moments(law, 0.1, [1, 10, 60], 7.67, "alternative").variance, 3))
    [ 11.105  77.501 150.136]
    """
    kernel = _kernel(law, step_size, form, centre)
    return _advanced(_recursion(kernel, law.mean), law.mean, steps, start)


def conditional_variance(
    law: EstimateLaw,
    step_size: float,
    steps: int | ArrayLike,
    start: float,
    form: Form = "scir",
    centre: float | None = None,
) -> float | Floats:
    """E Var(theta | minibatches), which Barile and Nemeth print as the variance in (9) and (21). Not the variance.

    >>> law = EstimateLaw.hypergeometric(1000, 150, 100, prior=0.1)
    >>> print(np.round(conditional_variance(law, 0.1, [1, 10, 60], 7.67, "alternative"), 3))
    [  2.675  63.6   150.133]
    """
    kernel = _kernel(law, step_size, form, centre)
    return _advanced(_recursion(kernel, law.mean, conditional=True), law.mean, steps, start).variance


def stationary_moments(law: EstimateLaw, step_size: float, form: Form = "scir", centre: float | None = None) -> Moments:
    """The limits of ``moments``; inf where there is none, the mean if E R >= 1 and the variance if E R^2 >= 1.

    >>> law = EstimateLaw.hypergeometric(1000, 100, 10, prior=0.1)
    >>> for form in ("scir", "alternative"):
    ...     print("mean {:.2f}, variance {:.1f}".format(*stationary_moments(law, 0.5, form)))
    mean 100.10, variance 2284.5
    mean 100.33, variance 147.3
    """
    bias, variance = _stationary(law, step_size, form, centre)
    return Moments(law.mean + bias, variance)


def asymptotic_bias(law: EstimateLaw, step_size: float, form: Form = "scir", centre: float | None = None) -> float:
    """The stationary mean minus the true parameter, the mean of the ``law``. Zero for "scir"."""
    return _stationary(law, step_size, form, centre)[0]


def variance_inflation(law: EstimateLaw, step_size: float, form: Form = "scir", centre: float | None = None) -> float:
    """The stationary variance over that of Gamma(a), which is a, the mean of the ``law``."""
    return _stationary(law, step_size, form, centre)[1] / law.mean


def approximate_bias(
    parameter: ArrayLike, variance: ArrayLike, step_size: float, form: Form = "scir"
) -> float | Floats:
    r"""The bias to second order in a_hat - a, from the ``parameter`` a and the ``variance`` of a_hat. May be arrays.

        main           sigma^2,                                    sigma^2 = Var[a_hat] / (a - 1)^2
        alternative    sigma^2 (1 - e^-h (1 + h)) / (1 - e^-h (1 + h^2 sigma^2 / 2))

    Barile and Nemeth, (10) and below Corollary 2.1. Good while sigma is small; ``asymptotic_bias`` is always right.
    inf where the approximate process has no stationary mean.
    """
    _check(form, step_size)
    a, noise = _positive("parameter", parameter), _positive("variance", variance, zero=True)
    if form == "scir":
        return np.zeros(np.broadcast_shapes(a.shape, noise.shape))[()]
    if not np.all(a > 1):
        raise ValueError(f"parameter must be above 1 for the form {form!r}; got {a.min()!r}")
    squared = noise / (a - 1) ** 2
    if form == "main":
        return squared[()]
    rate = -np.expm1(-step_size) - np.exp(-step_size) * step_size**2 * squared / 2
    bias = gammainc(2, step_size) * squared / np.where(rate > 0, rate, 1.0)
    return np.where(rate > 0, bias, np.inf)[()]


def scir_step_size(parameter: ArrayLike, variance: ArrayLike, inflation: ArrayLike) -> float | Floats:
    """The h at which "scir" has the stationary variance (1 + ``inflation``) a; inf if every h stays within it.

    From a + tanh(h/2) Var[a_hat]. All three may be arrays, e.g. one entry for each component.

    >>> print(scir_step_size(100.1, 9009.0, [0.1, 1.0, 100.0]).round(4))
    [0.0022 0.0222    inf]
    """
    a, noise = _positive("parameter", parameter), _positive("variance", variance, zero=True)
    allowed = a * _positive("inflation", inflation)
    reached = allowed < noise
    return np.where(reached, 2 * np.arctanh(np.where(reached, allowed / np.where(noise > 0, noise, 1), 0)), np.inf)[()]


def largest_step_size(law: EstimateLaw, inflation: float, form: Form = "scir", centre: float | None = None) -> float:
    """The largest h such that every step size up to it keeps the stationary variance within (1 + ``inflation``) a.

    inf if any step size will do. 0 if none will: "main" has more variance than a even as h goes to zero.

    >>> law = EstimateLaw.hypergeometric(1000, 100, 10, prior=0.1)
    >>> print(round(largest_step_size(law, 0.1), 4), round(largest_step_size(law, 0.1, "alternative"), 4))
    0.0022 0.1084
    """
    allowed = float(_positive("inflation", inflation))
    if form == "scir":
        return float(scir_step_size(law.mean, law.variance, allowed))

    def excess(log_step: float) -> float:
        # Infinite variances would stop the root finder; it needs only their sign.
        return min(variance_inflation(law, float(np.exp(log_step)), form, centre) - 1 - allowed, 1e9)

    # The excess is a smooth function of log h, of which a grid in steps of 5 % does not miss a change of sign.
    grid = np.arange(np.log(1e-12), np.log(1e9), 0.05)
    if excess(grid[0]) > 0:
        return 0.0
    for below, above in pairwise(grid):
        if excess(above) > 0:
            return float(np.exp(brentq(excess, below, above, xtol=1e-13, rtol=1e-13)))
    return float("inf")


def prefers_control_variate(law: EstimateLaw, step_size: float, centre: float | None = None) -> bool:
    """Whether a component is better off with "alternative" than with "scir", by their exact stationary moments.

    It is if a > 1, the variance exists, and bias^2 + |Var - a| is below the Var[a_hat] (1 - r)/(1 + r) of "scir".
    To be asked once for each component, before a minibatch is seen: to choose by minibatch biases the mean.

    >>> counts, step = (0, 5, 20, 100, 800), 0.5
    >>> [prefers_control_variate(EstimateLaw.hypergeometric(1000, c, 10, prior=0.1), step) for c in counts]
    [False, False, True, True, True]
    """
    if (law.mean if centre is None else centre) <= 1:
        return False
    bias, variance = _stationary(law, step_size, "alternative", centre)
    return bool(bias**2 + abs(variance - law.mean) < np.tanh(step_size / 2) * law.variance)


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
    _check(form, step_size)
    path = np.asarray(estimates, dtype=np.float64)
    if path.ndim != 1:
        raise ValueError(f"estimates must have shape (steps,); got {path.shape}")
    if not np.all(np.isfinite(path) & (path > 0)):
        raise ValueError(f"estimates must be positive and finite; got {path.min()!r}")
    if centre is None and form != "scir":
        raise ValueError(f"centre must be given for the form {form!r}: a path does not say what it estimates")
    if form == "main" and np.any(path <= 1):
        raise ValueError(f"estimates must be above 1 for the form 'main'; got {path.min()!r}")
    kept, _, scale = _coefficients(path, step_size, form, 0.0 if centre is None else centre)
    _positive("start", start, zero=True)
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
    steps ask for; good to about 1e-9. Atoms of the law count however rare they are: with a_hat < 1 among them, however
    rarely, the expectation at a given s > 0 is infinite after enough steps. ``log=True`` returns the logarithm.

    >>> law = EstimateLaw.hypergeometric(100, 30, 10, prior=1.5)
    >>> print(mgf([-0.1, 0.0, 0.1], law, 0.2, 8, 25.0, "alternative").round(4))
    [ 0.0562  1.     23.8397]
    """
    kernel = _kernel(law, step_size, form, centre)
    _positive("start", start, zero=True)
    if np.ndim(steps):
        raise ValueError(f"steps must be one whole number; got an array of shape {np.shape(steps)}")
    count = int(_steps(steps))
    _check_finite(kernel.kept)
    t = _arguments(s)
    logs = (_log_product if form == "scir" else _log_mixture)(t.ravel(), kernel, count, start)
    return _exponential(logs.reshape(t.shape), log)


def _log_product(t: Floats, kernel: _Kernel, steps: int, start: float) -> Floats:
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


def _log_mixture(s: Floats, kernel: _Kernel, steps: int, start: float) -> Floats:
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


def _log_step(phi: Callable[[Floats], Floats], kernel: _Kernel, t: Floats) -> Floats:
    """log E[(1 - t c)^(-a_hat) exp phi(t R / (1 - t c))]."""
    room = t[:, None] * kernel.scale
    values = phi(t[:, None] * kernel.kept / (1 - room)) - kernel.shape * np.log1p(-room)
    return np.asarray(logsumexp(values, axis=1, b=kernel.probability))


def _finite(s: Floats, kernel: _Kernel, steps: int) -> NDArray[np.bool_]:
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


def _domains(s: Floats, kernel: _Kernel, steps: int) -> list[tuple[float, float]]:
    """Intervals that hold the arguments of phi_(M-1), ..., phi_1. A step is increasing in t, so the ends suffice.

    They only grow: an interval that shrinks to a point is of no use to an interpolation.
    """
    low, high, domains = min(float(s.min(initial=0)), -1e-3), float(s.max(initial=0)), []
    for _ in range(steps - 1):
        low = min(low, float(np.min(low * kernel.kept / (1 - low * kernel.scale))))
        high = max(high, float(np.max(high * kernel.kept / (1 - high * kernel.scale))))
        domains.append((low, high))
    return domains


def _coefficients(estimates: Floats, step_size: float, form: Form, centre: float) -> tuple[Floats, Floats, Floats]:
    """R, 1 - R and c for each of the estimates."""
    _check(form, step_size)
    if form != "scir" and not (np.isfinite(centre) and centre > 1):
        raise ValueError(f"centre must be finite and above 1 for the form {form!r}; got {centre!r}")
    if form == "alternative":
        exponent = -step_size * (estimates - 1) / (centre - 1)
        with np.errstate(over="ignore"):
            return np.exp(exponent), -np.expm1(exponent), step_size * exprel(exponent)
    ones = np.ones(estimates.shape)
    lost = -np.expm1(-step_size) * ones
    return np.exp(-step_size) * ones, lost, lost if form == "scir" else lost * (centre - 1) / (estimates - 1)


def _kernel(law: EstimateLaw, step_size: float, form: Form, centre: float | None) -> _Kernel:
    centre = law.mean if centre is None else centre
    if form == "main" and np.any(law.values <= 1):
        missing = float(law.probabilities[law.values <= 1].sum())
        if missing > NEGLIGIBLE:
            raise ValueError(
                f"law must have estimates above 1 for the form 'main', but for a probability of {NEGLIGIBLE}; this one "
                f"has {missing:.3g} at or below. Take 'alternative', or law.above(1) for the law given the others"
            )
        law = law.above(1)
    return _Kernel(law.values, law.probabilities, *_coefficients(law.values, step_size, form, centre))


def _recursion(kernel: _Kernel, a: float, *, conditional: bool = False) -> _Recursion:
    """Centred at a and written by the differences from doing nothing, so that neither large a nor small h cancels."""
    shape, p, kept, lost, scale = kernel
    with np.errstate(over="ignore", invalid="ignore"):
        moved = scale * shape - lost * a
        drift, pull, damping = p @ moved, p @ lost, p @ (lost * (1 + kept))
        source = np.array([p @ (scale * (scale * shape + 2 * kept * a)), p @ (2 * kept * scale), 0.0])
        if not conditional:
            u, v = moved - drift, pull - lost
            source += [p @ u**2, 2 * p @ (u * v), p @ v**2]
    return _Recursion(float(drift), float(pull), float(damping), source)


def _stationary(law: EstimateLaw, step_size: float, form: Form, centre: float | None) -> tuple[float, float]:
    """The bias and the variance."""
    drift, pull, damping, source = _recursion(_kernel(law, step_size, form, centre), law.mean)
    if not pull > 0:
        return float("inf"), float("inf")
    x = drift / pull
    return x, float(source @ [1.0, x, x**2]) / damping if damping > 0 else float("inf")


def _advanced(recursion: _Recursion, a: float, steps: int | ArrayLike, start: float) -> Moments:
    _positive("start", start, zero=True)
    counts = _steps(steps)
    drift, pull, damping, source = recursion
    # The step of (1, x, x^2, V) is the identity plus this.
    change = np.zeros((4, 4))
    change[1, :2] = drift, -pull
    change[2, :3] = drift**2, 2 * drift * (1 - pull), -pull * (2 - pull)
    change[3] = *source, -damping
    x = start - a
    state = np.array([1.0, x, x**2, 0.0])
    # The mean by itself: a variance that overflows must not touch it.
    mean, variance = a + _powered(change[:2, :2], state[:2], counts), _powered(change, state, counts)
    mean, variance = (np.where(np.isnan(value), np.inf, value) for value in (mean, variance))
    return Moments(mean[()], variance[()])


def _powered(change: Floats, state: Floats, counts: NDArray[np.int64]) -> Floats:
    """The last entry of (1 + change)^counts state, by repeated squaring: (1 + D)^2 = 1 + (2 D + D^2)."""
    states = np.multiply.outer(state, np.ones(counts.shape))
    with np.errstate(over="ignore", invalid="ignore"):
        for bit in range(int(counts.max(initial=0)).bit_length()):
            states = np.where(counts >> bit & 1, states + np.tensordot(change, states, 1), states)
            change = 2 * change + change @ change
    return states[-1]


def _exponential(logs: Floats, log: bool) -> float | Floats:
    with np.errstate(over="ignore"):
        return (logs if log else np.exp(logs))[()]


def _arguments(s: ArrayLike) -> Floats:
    values = np.asarray(s, dtype=np.float64)
    if not np.all(np.isfinite(values)):
        raise ValueError(f"s must be finite; got {s!r}")
    return values


def _steps(steps: int | ArrayLike) -> NDArray[np.int64]:
    counts = np.asarray(steps)
    if counts.dtype.kind not in "iu" or np.any(counts < 0):
        raise ValueError(f"steps must be whole numbers of at least 0; got {steps!r}")
    return counts.astype(np.int64)


def _positive(name: str, value: ArrayLike, *, zero: bool = False) -> Floats:
    values = np.asarray(value, dtype=np.float64)
    if not np.all(np.isfinite(values) & ((values >= 0) if zero else (values > 0))):
        raise ValueError(f"{name} must be {'nonnegative' if zero else 'positive'} and finite; got {value!r}")
    return values


def _check(form: Form, step_size: float) -> None:
    if form not in FORMS:
        raise ValueError(f"form must be one of {FORMS}; got {form!r}")
    if _positive("step_size", step_size).ndim:
        raise ValueError(f"step_size must be one number; got {step_size!r}")


def _check_finite(kept: Floats) -> None:
    if not np.all(np.isfinite(kept)):
        raise ValueError("step_size must be smaller here: e^(-h b_hat) overflows for the smallest estimate")
