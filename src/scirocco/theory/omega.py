r"""The law of omega = theta / sum theta for a whole vector of counts, under SCIR and its control variate forms.

With a = prior + counts, A = sum a, and minibatches of a fixed number of observations, so that sum a_hat = A, "scir" has

    E omega_k = a_k / A,      Var omega_k = (a_k (1 - a_k/A) + g Var[a_hat_k]) / (A (A + 1))

    g = E sum_m ((1 - r) r^m (1 - x) / ((1 - x r^m) (1 - x r^(m+1))))^2,      x ~ Beta(2, A),   r = e^-h

exactly, for any counts however small: given the minibatches the weights are independent, their generating functions
multiply to that of Gamma(A), and E theta_k^j e^(-s sum theta), integrated over s, gives the moments of omega. g is
tanh(h/2) for large A and tanh(h/2) (A + 1/3) / (A - 1) for small h, if A > 2.

A component with a control variate has the mean and the variance of ``stationary_moments``; its minibatch noise is
small, of second order, and taken as independent of the others. What noise adds to the moments of theta is then brought
to the simplex to first order in 1/A, that of the plain components with its correlations: it no longer sums to zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from scirocco.core.checks import positive_array, real_array, require_choice, require_count
from scirocco.theory.estimates import EstimateLaw, Floats
from scirocco.theory.kernels import Form, require_form
from scirocco.theory.scir import prefers_control_variate, stationary_moments

LAWS = 100  # different counts whose law is computed; those between them are interpolated
LARGE_TOTAL = 1e4  # above which g has reached its limit, to a part in a thousand, as it has for small steps:
SMALL_STEP, SOME = 0.01, 3.0  # below this one, for totals above ``SOME``,
LEAST_STEP, FEW = 0.001, 2.0  # and below this one, for totals above ``FEW``; there is no such limit for fewer
NODES = 64
REMEMBERED = 1000  # laws of estimates, which a search for a step size asks for again and again

Ways = Literal["independent", "shuffled", "with_replacement"]


@dataclass(frozen=True, eq=False)
class OmegaLaw:
    """Means and sds of every omega under a sampler, and those of the posterior; which have ``controlled`` steps.

    ``noise`` is what minibatches add to the variance of each theta, which is a without them.
    """

    mean: Floats
    sd: Floats
    posterior_mean: Floats
    posterior_sd: Floats
    controlled: NDArray[np.bool_]
    noise: Floats

    @property
    def sd_error(self) -> Floats:
        """The root mean square distance from the posterior mean over the posterior sd, minus 1: bias counts too."""
        square = np.square(self.sd) + np.square(self.mean - self.posterior_mean)
        ratio = np.sqrt(square) / np.maximum(self.posterior_sd, np.finfo(float).tiny)
        return np.where(np.isnan(ratio), np.inf, ratio - 1)


def omega_law(
    counts: ArrayLike,
    prior: ArrayLike,
    batch_size: int,
    step_size: float,
    form: Form = "scir",
    *,
    batching: Ways = "independent",
    controlled: ArrayLike | None = None,
    centre: ArrayLike | None = None,
    centre_variance: ArrayLike = 0.0,
) -> OmegaLaw:
    """The stationary law of omega from minibatches of ``batch_size`` of the observations that were counted.

    ``prior`` is a number or one for each category. ``controlled`` says which components have a control variate; by
    default those that gain by it, as in ``SCIRCV``. ``centre`` is the parameter that these are exact at, by default
    prior + counts, and ``centre_variance`` the noise in it that the chain follows. "shuffled" epochs have less noise
    than independent minibatches, whose law is then a bound.

    >>> law = omega_law([800, 100, 100, 0], 0.1, batch_size=10, step_size=0.5, form="alternative")
    >>> law.controlled, law.sd_error.round(2)
    (array([ True,  True,  True, False]), array([0.17, 0.2 , 0.2 , 0.  ]))
    >>> omega_law([800, 100, 100, 0], 0.1, batch_size=10, step_size=0.5).sd_error.round(2)
    array([4.03, 4.03, 4.03, 0.  ])
    """
    require_form(form, step_size)
    require_choice("batching", batching, ("independent", "shuffled", "with_replacement"))
    count = real_array("counts", counts, least=0.0)
    if count.ndim != 1 or count.size < 2:
        raise ValueError(f"counts must be a vector, one for each of two categories or more; got shape {count.shape}")
    size = round(float(count.sum()))
    require_count("batch_size", batch_size)
    if size < 1 or (batch_size > size and batching != "with_replacement"):
        raise ValueError(f"batch_size must be at most the number of observations, {size}; got {batch_size!r}")
    alpha = np.broadcast_to(_fitting("prior", positive_array("prior", prior), count), count.shape)
    replaced = batching == "with_replacement"
    parameter, share = alpha + count, count / size
    total = parameter.sum()
    spread = size**2 / batch_size * (1.0 if replaced else (size - batch_size) / max(1, size - 1))
    noise = noise_gain(step_size, total) * spread  # of a_hat, in units of share (1 - share)
    laws = _Laws(alpha, count, size, int(batch_size), replaced)
    if controlled is None:
        chosen = laws.preferring(step_size, form)
    else:
        chosen = np.asarray(_fitting("controlled", np.asarray(controlled), count), bool) & (parameter > 1)
        chosen = np.broadcast_to(chosen & (form != "scir"), count.shape)
    extra, bias = noise * share * (1 - share), np.zeros(count.shape)
    if chosen.any():
        bias[chosen], extra[chosen] = laws.moments(chosen, step_size, form)
        pulled = parameter[chosen] / (parameter[chosen] - 1)
        if centre is not None:
            off = np.broadcast_to(_fitting("centre", positive_array("centre", centre), count), count.shape) - parameter
            bias[chosen] += pulled * off[chosen]
        moving = _fitting("centre_variance", real_array("centre_variance", centre_variance, least=0.0), count)
        extra[chosen] += pulled**2 * np.broadcast_to(moving, count.shape)[chosen]
    omega = parameter / total
    variance = omega * (1 - omega) / (total + 1)
    plain = share[~chosen].sum()
    of_total = extra[chosen].sum() + noise * plain * (1 - plain)
    with_total = np.where(chosen, extra, noise * share * (1 - plain))
    with np.errstate(invalid="ignore"):  # of infinite moments
        added = extra - 2 * omega * with_total + omega**2 * of_total
        sd = np.sqrt(np.maximum(variance + added / (total * (total + 1)), 0.0))
        mean = (parameter + bias) / (total + bias.sum()) + (omega * of_total - with_total) / total**2
    return OmegaLaw(mean, sd, omega, np.sqrt(variance), chosen, np.maximum(extra, 0.0))


def noise_gain(step_size: float, total: float) -> float:
    """g: how much of the variance of a_hat reaches omega, A (A + 1) times; to a part in a thousand.

    For A up to 2 and steps below 0.001 it is a bound, the g of that step.

    >>> print(round(noise_gain(0.5, 1e6), 4), round(noise_gain(0.5, 10.0), 4))
    0.2449 0.2769
    """
    small = (step_size < SMALL_STEP and total > SOME) or (step_size < LEAST_STEP and total > FEW)
    if small or total > LARGE_TOTAL:
        return float(np.tanh(step_size / 2)) * (total + 1 / 3) / (total - 1)
    h = max(step_size, LEAST_STEP)
    at, weights = np.polynomial.legendre.leggauss(NODES)
    root = (at + 1) / 2  # of the quantile of 1 - x: small steps leave a peak where that is small
    rest = stats.beta.ppf(root**2, total, 2)[:, None]
    times = h * np.arange(np.ceil(40 / h) + 2)
    below = -np.expm1(-times) + rest * np.exp(-times)  # 1 - x r^m
    terms = -np.expm1(-h) * np.exp(-times[:-1]) * rest / (below[:, :-1] * below[:, 1:])
    return float((weights * root) @ np.sum(np.square(terms), axis=1))


class _Laws:
    """Of the components of a vector of counts; those with the same prior and count have the same."""

    def __init__(self, prior: Floats, count: Floats, size: int, batch_size: int, replaced: bool) -> None:
        self.prior, self.count = prior, np.round(count)
        self.common = (size, batch_size, replaced)

    def preferring(self, step_size: float, form: Form) -> NDArray[np.bool_]:
        """Which components gain by a control variate."""
        chosen = (self.prior + self.count > 1) & (form != "scir")
        if chosen.any():
            (gains,) = self._each(chosen, lambda law: (float(prefers_control_variate(law, step_size, form)),))
            chosen[chosen] = gains > 0.5
        return chosen

    def moments(self, chosen: NDArray[np.bool_], step_size: float, form: Form) -> tuple[Floats, Floats]:
        """Bias and variance beyond a of the chosen components."""
        # Shares of a change slowly from count to count.
        bias, extra = self._each(chosen, lambda law: tuple(m / law.mean for m in _excess(law, step_size, form)))
        parameter = (self.prior + self.count)[chosen]
        return bias * parameter, extra * parameter

    def _each(self, chosen: NDArray[np.bool_], found: Callable[[EstimateLaw], tuple[float, ...]]) -> tuple[Floats, ...]:
        """What is found of the law of each chosen component; interpolated in the count where they are many."""
        pairs, which = np.unique(np.stack([self.count[chosen], self.prior[chosen]]), axis=1, return_inverse=True)
        picked = np.unique(np.linspace(0, pairs.shape[1] - 1, LAWS).astype(int))
        table = np.array([found(counted_law(float(p), float(c), *self.common)) for c, p in pairs[:, picked].T])
        return tuple(np.interp(which.reshape(-1), picked, column) for column in table.T)


@lru_cache(REMEMBERED)
def counted_law(prior: float, count: float, size: int, batch_size: int, replaced: bool = False) -> EstimateLaw:
    """The law of a_hat for a category with this count out of ``size``; remembered."""
    make = EstimateLaw.with_replacement if replaced else EstimateLaw.hypergeometric
    return make(size, min(int(count), size), batch_size, prior)


def _excess(law: EstimateLaw, step_size: float, form: Form) -> tuple[float, float]:
    """The bias and what the variance has beyond a; infinite where the form has no transition."""
    try:
        mean, variance = (float(m) for m in stationary_moments(law, step_size, form))
    except ValueError:  # the main form, where a_hat <= 1 is too likely
        return np.inf, np.inf
    return mean - law.mean, variance - law.mean


def _fitting(name: str, values: np.ndarray, count: Floats) -> np.ndarray:
    """Values that are one number, or one for each category."""
    if values.shape not in ((), count.shape):
        raise ValueError(f"{name} must be a number or one for each of {count.size} categories; got {values.shape}")
    return values
