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
in (1, m, m^2, V), by repeated squaring.

Sources: Baker et al. (2018), "scir"; Barile and Nemeth, "main" (Section 2) and "alternative" (Appendix B). In two
places the second source is not followed. The scale in its (7) is (1 - e^-h) / (2 b_hat), not over theta. Its variances
(9) and (21) leave out the last term of V', the variance of the mean over the minibatches; ``conditional_variance`` has
them as printed. For "alternative" this hides most of the variance before stationarity: 2.67 of 11.1 after the first
step of Figure 3b.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import gammainc

from scirocco.core.checks import positive_array, real_array, real_number, require_choice
from scirocco.theory.estimates import EstimateLaw, Floats
from scirocco.theory.kernels import FORMS, Form, Kernel, kernel_of, require_form, require_law, whole_steps


class Moments(NamedTuple):
    """Mean and variance of one component; arrays if ``steps`` was one."""

    mean: float | Floats
    variance: float | Floats


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
    kernel = kernel_of(law, step_size, form, centre)
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
    kernel = kernel_of(law, step_size, form, centre)
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
    require_form(form, step_size)
    a, noise = positive_array("parameter", parameter), real_array("variance", variance, least=0.0)
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
    a, noise = positive_array("parameter", parameter), real_array("variance", variance, least=0.0)
    allowed = a * positive_array("inflation", inflation)
    reached = allowed < noise
    return np.where(reached, 2 * np.arctanh(np.where(reached, allowed / np.where(noise > 0, noise, 1), 0)), np.inf)[()]


def largest_step_size(law: EstimateLaw, inflation: float, form: Form = "scir", centre: float | None = None) -> float:
    """The largest h such that every step size up to it keeps the stationary variance within (1 + ``inflation``) a.

    inf if any step size will do. 0 if none will: "main" has more variance than a even as h goes to zero.

    >>> law = EstimateLaw.hypergeometric(1000, 100, 10, prior=0.1)
    >>> print(round(largest_step_size(law, 0.1), 4), round(largest_step_size(law, 0.1, "alternative"), 4))
    0.0022 0.1084
    """
    allowed = real_number("inflation", inflation, least=0.0, open_end=True)
    require_law(law, centre)
    require_choice("form", form, FORMS)
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


def prefers_control_variate(
    law: EstimateLaw, step_size: float, form: Form = "alternative", centre: float | None = None
) -> bool:
    """Whether a component is better off with a control variate than with "scir", by their exact stationary moments.

    It is if a > 1, the form exists, and bias^2 + |Var - a| is below the Var[a_hat] (1 - r)/(1 + r) of "scir".
    To be asked once for each component, before a minibatch is seen: to choose by minibatch biases the mean.

    >>> counts, step = (0, 5, 20, 100, 800), 0.5
    >>> [prefers_control_variate(EstimateLaw.hypergeometric(1000, c, 10, prior=0.1), step) for c in counts]
    [False, False, True, True, True]
    """
    require_law(law, centre)
    if (law.mean if centre is None else centre) <= 1:
        return False
    try:
        bias, variance = _stationary(law, step_size, form, centre)
    except ValueError:  # "main", where a_hat <= 1 is too likely
        return False
    return bool(bias**2 + abs(variance - law.mean) < np.tanh(step_size / 2) * law.variance)


def _recursion(kernel: Kernel, a: float, *, conditional: bool = False) -> _Recursion:
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
    drift, pull, damping, source = _recursion(kernel_of(law, step_size, form, centre), law.mean)
    if not pull > 0:
        return float("inf"), float("inf")
    x = drift / pull
    return x, float(source @ [1.0, x, x * x]) / damping if damping > 0 else float("inf")


def _advanced(recursion: _Recursion, a: float, steps: int | ArrayLike, start: float) -> Moments:
    real_number("start", start, least=0.0)
    counts = whole_steps(steps)
    drift, pull, damping, source = recursion
    # The step of (1, x, x^2, V) is the identity plus this.
    change = np.zeros((4, 4))
    change[1, :2] = drift, -pull
    change[2, :3] = drift * drift, 2 * drift * (1 - pull), -pull * (2 - pull)
    change[3] = *source, -damping
    x = start - a
    state = np.array([1.0, x, x * x, 0.0])
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
