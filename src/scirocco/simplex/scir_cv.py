"""SCIR with control variates.

    theta <- c Gamma(a_hat + Poisson(theta R / c)),    b_hat = (a_hat - 1) / (a - 1)

    alternative    R = e^(-h b_hat),  c = (1 - R) / b_hat     dtheta = (a_hat - b_hat theta) dt + sqrt(2 theta) dW
    main           R = e^-h,          c = (1 - R) / b_hat     dtheta = (a_hat/b_hat - theta) dt + sqrt(2 theta/b_hat) dW

with c = h at b_hat = 0. At the mode theta = a - 1 the drift of the first is the same for every minibatch, which is the
control variate; a is the centre, known, given, or estimated from a larger batch every now and then. A centre a_c that
is off moves the mean to about a (a_c - 1) / (a - 1). Barile and Nemeth, eq. (18) of the appendix and eq. (7); the
printed scale of (7), over 2 theta, must read 2 b_hat.

The alternative form is a proper transition for b_hat < 0 too. The main form is not, so components with a chance of more
than 10^-6 of a_hat <= 1 cannot have it. Where a minibatch hardly ever sees a category, or a <= 1, control variates do
harm, up to an infinite variance; such components take plain SCIR steps. The choice is made for each component before a
minibatch is looked at, from its exact law where that is quick to compute (``theory.prefers_control_variate``): choosing
by minibatch would bias the mean by 30 %.

Biases of order Var(a_hat) / (a - 1)^2 remain; ``remove_bias`` takes the known value off the recorded weights.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from scirocco.core.checks import positive_array, require_choice, require_count, require_flag
from scirocco.core.compiled import jit
from scirocco.simplex.base import Centre, Counts, SimplexSampler, State, require_step_size, step_size_at
from scirocco.simplex.weights import Weights, normalised
from scirocco.theory import EstimateLaw, approximate_bias, asymptotic_bias, prefers_control_variate
from scirocco.theory.omega import counted_law

SMALL = 1e-9  # |h b_hat| below which its limit 0 is taken: to the last bit the same
SEEN = 2.0  # examples of a category that a minibatch must see on average
SURE = 20.0  # seen this often, control variates pay wherever they are stable
ENUMERATED = 200  # at most so many different counts are decided by their exact laws; a tenth for a moving centre


@jit
def _transition_parameters(a_hat: Any, centre: Any, h: float, alternative: bool, pull: Any, scale: Any) -> bool:
    """R/c and c of every component; False if the main form met a_hat <= 1, where a plain step is put instead."""
    plain_pull, plain_scale = 1.0 / np.expm1(h), -np.expm1(-h)
    valid = True
    for i in range(a_hat.shape[0]):
        for j in range(a_hat.shape[1]):
            pull[i, j], scale[i, j] = plain_pull, plain_scale
            if centre[i, j] > 1.0:
                b = (a_hat[i, j] - 1.0) / (centre[i, j] - 1.0)
                if not alternative:
                    valid &= b > 0.0
                    if b > 0.0:
                        pull[i, j], scale[i, j] = b * plain_pull, plain_scale / b
                elif abs(h * b) < SMALL:
                    pull[i, j], scale[i, j] = 1.0 / h, h
                else:
                    pull[i, j], scale[i, j] = b / np.expm1(h * b), -np.expm1(-h * b) / b
    return valid


def estimate_variance(count: np.ndarray, fraction: float) -> np.ndarray:
    """Var(a_hat) of simple random minibatches, for counts categories x rows."""
    total = np.maximum(count.sum(axis=0), 2.0)
    return count * (1 / fraction - 1) * (1 - count / total) * total / (total - 1)


def _distinct_laws(prior: np.ndarray, count: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Components with the same prior, count and size of the data have the same law: the different ones, and whose."""
    laws, which = np.unique(np.stack([prior, np.round(count), size]), axis=1, return_inverse=True)
    return laws, which.reshape(-1)


def _law(prior: float, count: float, size: float, fraction: float) -> EstimateLaw:
    whole = max(1, int(size))
    return counted_law(float(prior), float(count), whole, max(1, round(fraction * whole)))


def _alternative_pays(prior: np.ndarray, count: np.ndarray, h: float, fraction: float) -> tuple[np.ndarray, np.ndarray]:
    """The rule for the alternative form: where it needs a closer look, and its answer without one.

    The minibatch must see two examples on average, and rho = E e^(-2 h b_hat), with Binomial(count, fraction) for what
    it sees, must be well below 1. On a grid of 6,860 settings this was wrong in 11 of the 2,080 that it chose, by a
    factor of at most 1.6 in error. It is careful: with one example seen, control variates can gain as well.
    """
    a, seen = prior + count, fraction * count
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        per_example = 2 * h / (fraction * (a - 1))
        log_rho = -2 * h * (prior - 1) / (a - 1) + count * np.log1p(fraction * np.expm1(-per_example))
    stable = (log_rho < 0) & ((log_rho < np.log(0.9)) | (log_rho < np.log(1.1) - 2 * h))
    return (a > 1) & (log_rho < 0) & (seen < SURE), (seen >= SEEN) & stable


@dataclass(frozen=True)
class SCIRCV(SimplexSampler):
    """SCIR with control variates; ``step_size`` is h, a number or a schedule, or "auto" as for ``SCIR``.

    ``form`` is "alternative" or "main". ``centre`` is the Dirichlet parameter a at which control variates are exact:
    None lets the engine count the whole data set once; an array is taken as it is; with ``recentre_every=l`` it is
    estimated anew every l steps from ``centre_batch`` examples, whose noise then widens the posterior, or at no cost
    from about the last l minibatches, whose estimates go into a fading average (``centre_from="seen"``).
    ``choose="always"`` gives every component with a > 1 a control variate, for minibatches that are stratified; the
    default, "rule", only those that gain by it.

    >>> weights = Weights(prior=0.1, categories=3)
    >>> sampler = SCIRCV(step_size=0.5)
    >>> centre = sampler.centre_at(weights, [[600.0, 390.0, 10.0]], fraction=0.01)
    >>> centre.parameter.T                                      # the third is too rare for it
    array([[600.1, 390.1,   0. ]])
    >>> sampler.step(weights, Counts([[700.0, 200.0, 100.0]], fraction=0.01, centre=centre))
    """

    step_size: Any
    _: KW_ONLY
    form: str = "alternative"
    centre: Any = None
    recentre_every: int | None = None
    centre_batch: int | float = 1000
    centre_from: str = "batch"
    choose: str = "rule"
    remove_bias: bool = False

    def __post_init__(self) -> None:
        require_step_size(self.step_size, law_known=True)
        require_choice("form", self.form, ("alternative", "main"))
        require_choice("choose", self.choose, ("rule", "always"))
        require_choice("centre_from", self.centre_from, ("batch", "seen"))
        if self.centre_from == "seen" and self.recentre_every is None:
            raise ValueError("centre_from='seen' needs recentre_every: how many steps a centre serves")
        if self.recentre_every is not None:
            require_count("recentre_every", self.recentre_every)
            if self.centre is not None:
                raise ValueError("centre and recentre_every cannot both be given: a centre is fixed or estimated")
        if self.centre is not None:
            positive_array("centre", self.centre)
        require_flag("remove_bias", self.remove_bias)
        if (
            isinstance(self.centre_batch, bool)
            or not isinstance(self.centre_batch, int | float)
            or self.centre_batch <= 0
        ):
            raise ValueError(f"centre_batch must be a count or a fraction of the data; got {self.centre_batch!r}")

    @property
    def counts_all(self) -> bool:
        """Whether the centre is known by counting all data once."""
        return self.centre is None and self.recentre_every is None

    def centre_at(self, weights: Weights, counts: Any, fraction: float) -> Centre:
        """The centre prior + ``counts`` (rows x categories), for minibatches of this ``fraction`` of the data.

        Where control variates do not pay it is 0, which means a plain step.
        """
        given = Counts(counts, fraction=fraction)
        given.require_fit(weights)
        expected = np.asarray(given.values.T)
        parameter = weights.prior + expected
        h = step_size_at(self.step_size, weights.steps)
        chosen = parameter > 1
        if self.choose == "rule":
            chosen &= self._pays(weights.prior, expected, h, fraction)
        controlled = np.ascontiguousarray(np.where(chosen, parameter, 0.0))
        if not self.remove_bias:
            return Centre(controlled)
        bias = self._bias(weights.prior, expected, chosen, h, fraction)
        if not np.all(np.isfinite(bias)):
            raise ValueError("remove_bias: a controlled component has no finite mean; take choose='rule'")
        return Centre(controlled, np.where(chosen, parameter / (parameter + bias), 1.0))

    def _bias(self, prior: np.ndarray, count: np.ndarray, chosen: np.ndarray, h: float, fraction: float) -> np.ndarray:
        """Of the stationary mean, by the exact law of each component, or to second order if they are many."""
        form: Any = self.form
        prior = np.broadcast_to(prior, count.shape)
        size = np.broadcast_to(np.round(count.sum(axis=0)), count.shape)
        bias = np.zeros(count.shape)
        laws, which = _distinct_laws(prior[chosen], count[chosen], size[chosen])
        if laws.shape[1] <= ENUMERATED:
            found = [asymptotic_bias(_law(p, c, n, fraction), h, form) for p, c, n in laws.T]
            bias[chosen] = np.array(found, float)[which]
        else:
            variance = estimate_variance(count, fraction)[chosen]
            bias[chosen] = approximate_bias((prior + count)[chosen], variance, h, form)
        return bias

    def _pays(self, prior: np.ndarray, count: np.ndarray, h: float, fraction: float) -> np.ndarray:
        """Whether a control variate helps, by the exact law of each component, or by a rule if they are many."""
        form: Any = self.form
        prior = np.broadcast_to(prior, count.shape)
        size = np.broadcast_to(np.round(count.sum(axis=0)), count.shape)
        seen = fraction * count
        if self.form == "main":
            doubtful, pays = (prior + count > 1) & (seen > 0), (prior > 1) & (seen >= SURE)
        else:
            doubtful, pays = _alternative_pays(prior, count, h, fraction)
        laws, which = _distinct_laws(prior[doubtful], count[doubtful], size[doubtful])
        if laws.shape[1] <= (ENUMERATED if self.recentre_every is None else ENUMERATED // 10):
            found = [prefers_control_variate(_law(p, c, n, fraction), h, form) for p, c, n in laws.T]
            pays[doubtful] = np.array(found, bool)[which]
        return pays

    def step(self, weights: Weights, counts: Counts, state: State | None = None) -> None:
        """One exact transition; components without a control variate that ``counts`` does not name wait."""
        del state
        counts.require_fit(weights)
        if counts.centre is None:
            raise ValueError("SCIRCV needs counts with a centre: Counts(..., centre=sampler.centre_at(...))")
        h = step_size_at(self.step_size, weights.steps)
        columns, values = counts.columns, counts.values
        if columns is not None:
            # Those with a control variate move at a rate of their own and are never left behind.
            due = np.union1d(columns, counts.centre.controlled)
            full = np.zeros((values.shape[0], len(due)))
            full[:, np.searchsorted(due, columns)] = values
            columns, values = due, full
        every = (weights.prior, counts.centre.parameter)
        prior, centre = every if columns is None else (a[columns] for a in every)
        a_hat = np.ascontiguousarray(prior + values.T)
        pull, scale = np.empty_like(a_hat), np.empty_like(a_hat)
        valid = _transition_parameters(a_hat, centre, h, self.form == "alternative", pull, scale)
        if not valid and self.choose == "always":
            raise FloatingPointError(
                "a minibatch gave a_hat <= 1, for which the main form has no transition: take form='alternative', "
                "choose='rule', or minibatches stratified by category"
            )
        weights.advance(columns, a_hat, pull, scale, h)

    def recorded(self, weights: Weights, centre: Centre | None = None) -> np.ndarray:
        """The points of the simplex, their known bias removed if that is wanted."""
        if centre is None or centre.shift is None:
            return weights.proportions()
        return normalised((weights.catch_up() * centre.shift).T)
