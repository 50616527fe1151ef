"""The bias report of simplex samplers on category codes: their law is known, and nothing need be measured."""

from __future__ import annotations

from typing import Any

import numpy as np

from scirocco.batches import Strata
from scirocco.batches.base import batch_rows
from scirocco.bias.report import BiasReport, moment_rhat, worst_rhat
from scirocco.counts.engine import DirichletEngine
from scirocco.counts.minibatches import Minibatches
from scirocco.run.moments import Moments
from scirocco.simplex import SCIR, SCIRCV
from scirocco.simplex.base import step_size_at
from scirocco.simplex.scir_cv import estimate_variance
from scirocco.theory import EstimateLaw, stationary_moments

DOUBT = 3.0  # standard errors that are left to chance
LAWS = 200  # components whose law is computed exactly; the others are interpolated


def dirichlet_report(engine: DirichletEngine, moments: Moments) -> BiasReport | None:
    """How far the sampled sds are from the posterior's, by the law of the sampler."""
    sampler, observed, prior = engine.sampler, engine.codes.minibatches, engine.prior
    if moments.count < 2:
        return None
    if not isinstance(sampler, SCIR | SCIRCV) or isinstance(observed.way, Strata) or observed.fraction == 1:
        return _against_posterior(engine, moments)
    size, n = observed.size, observed.batch_size
    last = max(engine.step - 1, 0)
    steps = np.linspace(min(engine.recording.burn_in, last), last, 50).astype(int)
    sizes = np.array([step_size_at(sampler.step_size, int(step)) for step in steps])
    h = float(sizes[-1])
    count = engine.codes.typical()
    parameter, share = prior + count, count / size
    omega = parameter / parameter.sum()
    # Noise of plain components, as far as it sums to zero, leaves the total alone; that of control variates is
    # small and taken as independent.
    plain = np.ones(share.size, bool)
    noise = float(np.mean(np.tanh(sizes / 2))) * size**2 / n
    noise *= 1.0 if observed.way == "with_replacement" else (size - n) / max(1, size - 1)
    centre = engine.estimator.centre(engine.memory)
    extra = noise * share * (1 - share)
    if isinstance(sampler, SCIRCV) and centre is not None:
        known = centre.parameter[:, 0]
        plain = known <= 1
        extra = np.where(plain, extra, _controlled_extra(observed, prior, sampler, count, known, h))
    among = share[plain].sum()
    total = extra[~plain].sum() + noise * among * (1 - among)
    with_total = np.where(plain, noise * share * (1 - among), extra)
    with np.errstate(invalid="ignore"):  # of infinite variances
        added = extra - 2 * omega * with_total + omega**2 * total
        ratio = 1 + added / np.maximum(parameter * (1 - omega), np.finfo(float).tiny)
        part = np.where(np.isinf(extra), 1.0, np.maximum(extra, 0) / (np.maximum(extra, 0) + parameter))
    agreement = moment_rhat(moments.mean, moments.variance(), moments.count)
    error = np.where(np.isnan(ratio), np.inf, np.sqrt(np.maximum(ratio, 0)) - 1)
    return BiasReport({"omega": part}, {"omega": error}, h, exact_steps=True, **worst_rhat(agreement))


def _against_posterior(engine: DirichletEngine, moments: Moments) -> BiasReport:
    """Of a sampler whose law is not known: what was sampled against the posterior, a Dirichlet law, which is.

    The error is that of the root mean square distance from the true mean, so that means that are off are seen too; as
    far as chains differ from each other by as much, it is chance.
    """
    parameter = engine.prior + engine.codes.typical()
    total = parameter.sum()
    mean = parameter / total
    variance = mean * (1 - mean) / (total + 1)
    square = (moments.variance()["omega"] + (moments.mean["omega"] - mean) ** 2) / variance  # (chain, category)
    ratio = square.mean(axis=0)
    chance = square.std(axis=0, ddof=1) / np.sqrt(len(square)) if len(square) > 1 else np.zeros(ratio.shape)
    # Rare categories have large squares now and then: no fewer standard errors than independent draws have.
    a, b = parameter, total - parameter
    spread = 2 + 6 * ((a - b) ** 2 * (total + 1) - a * b * (total + 2)) / (a * b * (total + 2) * (total + 3))
    chance = np.maximum(chance, np.sqrt(spread / (moments.count * len(square))))
    doubt = DOUBT * np.maximum(chance, np.median(chance))
    sure = np.where(ratio > 1, np.maximum(ratio - doubt, 1), np.minimum(ratio + doubt, 1))
    h = float(step_size_at(getattr(engine.sampler, "step_size", np.nan), max(engine.step - 1, 0)))
    agreement = moment_rhat(moments.mean, moments.variance(), moments.count)
    return BiasReport({}, {"omega": np.sqrt(sure) - 1}, h, exact_steps=True, **worst_rhat(agreement))


def _controlled_extra(
    observed: Minibatches, prior: np.ndarray, sampler: SCIRCV, count: np.ndarray, centre: np.ndarray, h: float
) -> np.ndarray:
    """Squared error beyond the posterior variance with a control variate: its law, and that of its centre.

    Exact laws of some of the components, interpolated in the counts where they are many. A centre a_c moves the
    mean by a (a_c - 1)/(a - 1) - a: a fixed one by its own error, one that is renewed after a time T by the noise
    of its batch, of which the chain follows the share 1 - (1 - e^-T)/T.
    """
    size, n = observed.size, observed.batch_size
    pairs, which = np.unique(np.stack([prior, np.round(count)]), axis=1, return_inverse=True)
    if pairs.shape[1] > LAWS:
        grid = np.unique(np.round(np.quantile(count, np.linspace(0, 1, LAWS))))
        pairs, which = np.stack([np.full(grid.size, np.median(prior)), grid]), np.array([], int)
    excess = np.array([_excess(sampler, size, int(c), n, float(p), h) for p, c in pairs.T])
    extra = excess[which.reshape(-1)] if which.size else np.interp(count, pairs[1], excess)
    parameter = prior + count
    pulled = np.square(parameter / np.maximum(parameter - 1, 1e-9))
    if sampler.recentre_every is None:
        return extra + pulled * np.square(np.where(centre > 1, centre - parameter, 0.0))
    seen = sampler.centre_from == "seen"  # weights (1 - r)^k r, r = 1/l: as many minibatches as (2 - r)/r
    wanted = n * (2 * sampler.recentre_every - 1) if seen else sampler.centre_batch
    batch = batch_rows(min(wanted, size), size)
    lasting = sampler.recentre_every * h
    followed = 1 + np.expm1(-lasting) / lasting
    return extra + pulled * followed * estimate_variance(count[:, None], batch / size)[:, 0]


def _excess(sampler: SCIRCV, size: int, count: int, n: int, prior: float, h: float) -> float:
    law = EstimateLaw.hypergeometric(size, min(count, size), n, prior)
    form: Any = sampler.form
    try:
        mean, variance = (float(m) for m in stationary_moments(law, h, form))
    except ValueError:  # too rare for a control variate: its components have none
        return 0.0
    return variance - law.mean + (mean - law.mean) ** 2
