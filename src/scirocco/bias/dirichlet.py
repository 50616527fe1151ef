"""The bias report of simplex samplers on category codes: their law is known, and nothing need be measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from scirocco.batches import Strata
from scirocco.batches.base import batch_rows
from scirocco.bias.report import BiasReport, moment_rhat, worst_rhat
from scirocco.counts.engine import DirichletEngine
from scirocco.run.moments import Moments
from scirocco.run.verdict import chance as worst_of
from scirocco.simplex import SCIR, SCIRCV, Exact
from scirocco.simplex.base import step_size_at
from scirocco.simplex.scir_cv import estimate_variance
from scirocco.theory import OmegaLaw, omega_law

DOUBT = 3.0  # standard errors that are left to chance, at least


def dirichlet_report(engine: DirichletEngine, moments: Moments) -> BiasReport | None:
    """How far the sampled sds are from the posterior's, by the law of the sampler."""
    sampler, observed, prior = engine.sampler, engine.codes.minibatches, engine.prior
    if moments.count < 2:
        return None
    centre = engine.estimator.centre(engine.memory)
    known = None if centre is None else centre.parameter[:, 0]
    note = "" if observed.constant else _said(sampler, known)
    if isinstance(sampler, Exact):  # which takes no estimates
        agreement = _agreement(moments, prior + engine.codes.typical())
        return BiasReport({}, {"omega": np.zeros(prior.shape)}, np.nan, exact_steps=True, **agreement)
    if not isinstance(sampler, SCIR | SCIRCV) or isinstance(observed.way, Strata):
        return replace(_against_posterior(engine, moments), note=note)
    last = max(engine.step - 1, 0)
    steps = np.linspace(min(engine.recording.burn_in, last), last, 50).astype(int)
    sizes = np.array([step_size_at(sampler.step_size, int(step)) for step in steps])
    # A schedule has the noise of a step size between its first and its last.
    h = sizes[-1] if np.ptp(sizes) == 0 else 2 * np.arctanh(np.mean(np.tanh(sizes / 2)))
    count = engine.codes.typical()
    if known is not None and isinstance(sampler, SCIRCV) and sampler.counts_all:
        count = np.where(known > 0, known - prior, count)  # on disk better known than by a part
    law = law_of(sampler, count, prior, observed.batch_size, observed.way, float(h), known)
    share = 1 - (prior + count) / (prior + count + law.noise)
    return BiasReport(
        {"omega": share}, {"omega": law.sd_error}, float(sizes[-1]), exact_steps=True, note=note,
        **_agreement(moments, prior + count),
    )  # fmt: skip


def law_of(
    sampler: SCIR | SCIRCV, count: np.ndarray, prior: np.ndarray, batch_size: int, way: Any, h: float,
    centre: np.ndarray | None,
) -> OmegaLaw:  # fmt: skip
    """The law of omega under a sampler with the step size ``h`` whose control variates have this ``centre``.

    A centre that is renewed after a time T has the noise of its batch, of which the chain follows the share
    1 - (1 - e^-T)/T.
    """
    if not isinstance(sampler, SCIRCV) or centre is None:
        return omega_law(count, prior, batch_size, h, batching=way)
    form: Any = sampler.form
    controlled, size = centre > 1, round(float(count.sum()))
    if sampler.recentre_every is None:
        at = np.where(controlled, centre, prior + count)
        law = omega_law(count, prior, batch_size, h, form, batching=way, controlled=controlled, centre=at)
        if not (sampler.remove_bias and sampler.counts_all):
            return law
        return replace(law, mean=law.posterior_mean, sd=law.sd * law.posterior_mean / law.mean)
    seen = sampler.centre_from == "seen"  # weights (1 - r)^k r, r = 1/l: as many minibatches as (2 - r)/r
    wanted = batch_size * (2 * sampler.recentre_every - 1) if seen else sampler.centre_batch
    batch = batch_rows(min(wanted, size), size)
    lasting = sampler.recentre_every * h
    followed = 1 + np.expm1(-lasting) / lasting
    noise = followed * estimate_variance(count[:, None], batch / size)[:, 0]
    return omega_law(
        count, prior, batch_size, h, form, batching=way, controlled=controlled, centre_variance=noise
    )  # fmt: skip


def _said(sampler: Any, centre: np.ndarray | None) -> str:
    """Which components have control variates, and why the others have none."""
    if not isinstance(sampler, SCIRCV) or centre is None:
        return ""
    held, every = int(np.sum(centre > 1)), centre.size
    if held == every:
        return f"control variates for all {every:,} categories"
    why = "seen too rarely to gain by them"
    if sampler.choose == "always":
        why = "with a parameter of at most 1"
    elif sampler.form == "main":
        why = "for which the main form does not exist, because a minibatch may give a_hat <= 1, or does harm"
    return f"control variates for {held:,} of {every:,} categories; the others, {why}, take plain steps"


def _agreement(moments: Moments, parameter: np.ndarray) -> dict[str, Any]:
    """R-hat of means and variances, given how far the squares of such draws spread; and that itself."""
    spread = {"omega": dirichlet_spread(parameter)}
    return {"spread": spread, **worst_rhat(moment_rhat(moments.mean, moments.variance(), moments.count, spread))}


def dirichlet_spread(parameter: np.ndarray) -> np.ndarray:
    """The variance of a squared deviation over the squared variance, 2 for normal laws, of each category."""
    a, total = parameter, parameter.sum()
    b = total - a
    return 2 + 6 * ((a - b) ** 2 * (total + 1) - a * b * (total + 2)) / (a * b * (total + 2) * (total + 3))


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
    chance = np.maximum(chance, np.sqrt(dirichlet_spread(parameter) / (moments.count * len(square))))
    doubt = max(DOUBT, worst_of(parameter.size)) * np.maximum(chance, np.median(chance))
    sure = np.where(ratio > 1, np.maximum(ratio - doubt, 1), np.minimum(ratio + doubt, 1))
    h = float(step_size_at(getattr(engine.sampler, "step_size", np.nan), max(engine.step - 1, 0)))
    return BiasReport({}, {"omega": np.sqrt(sure) - 1}, h, exact_steps=True, **_agreement(moments, parameter))
