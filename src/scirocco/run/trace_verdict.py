"""The verdict on a trace: how its run ended, whether its chains agree, Monte Carlo error, and the bias report."""

from __future__ import annotations

import numpy as np

from scirocco.run import convergence
from scirocco.run.describe import is_opaque, rebuild
from scirocco.run.description import CodeSettings, StepSettings
from scirocco.run.trace import FEW, LEAST_DRAWS, MAX_ROWS, Trace, label_of, thinned
from scirocco.run.verdict import LONGER, MEANS, NOT, Advice, Finding, Findings, Verdict, judge, monte_carlo

CONTROLLED = "sc.SCIRCV(step_size=0.1)"
ENOUGH = 1000  # draws to ask for where there are next to none
REACH = 4.0  # sds of the draws from their mean: farther away they have not been
MOST_LONGER = 100.0  # times as long as it was: more is never asked for
OF_MODELS = {"num_samples": "n_draws", "chains": "n_chains", "report": "measure_bias"}
"""Settings that models call by another name."""


def verdict_of(trace: Trace) -> Verdict:
    """Whether to use a trace, why, and what to do next."""
    kind, reasons, advice = judge([*_ended(trace), *_elsewhere(trace), *_converged(trace), *_biased(trace)])
    return Verdict(kind, reasons, "" if advice is None else _action(trace, advice))


def _biased(trace: Trace) -> list[Finding]:
    """What the bias report says; without one only a sampler without bias can be relied on."""
    if isinstance(trace.bias, Findings):
        return list(trace.bias.findings())
    known = trace.description
    sampler = known.parts.sampler if known is not None else None
    if sampler is None or is_opaque(sampler) or getattr(rebuild(sampler), "full_data", False):
        return []
    unknown = "how far the sampled law is from the posterior was not measured"
    measure = Advice(settings={"report": "True"}) if known is not None and not known.options.report else None
    return [Finding(MEANS, unknown, measure)]


def _ended(trace: Trace) -> list[Finding]:
    if trace.stopped is not None and trace.stopped.kind == "diverged":
        return [Finding(NOT, str(trace.stopped), Advice(less_bias=True))]
    return []


def _elsewhere(trace: Trace) -> list[Finding]:
    """Other modes, found before the run, that its draws do not reach."""
    mean, variance = trace.moments.pooled() if trace.moments.mean else ({}, {})
    place = np.concatenate([np.ravel(v) for v in mean.values()]) if mean else np.zeros(0)
    sd = np.sqrt(np.concatenate([np.ravel(v) for v in variance.values()])) if mean else place
    missed = [
        mode for mode in getattr(trace.tuning, "elsewhere", ())
        if len(mode) == place.size and np.any(np.abs(np.asarray(mode) - place) > REACH * sd)
    ]  # fmt: skip
    if not missed:
        return []
    return [Finding(NOT, f"other modes, as likely as the one that the chains are at: {len(missed)} found")]


def _converged(trace: Trace) -> list[Finding]:
    """R-hat and Monte Carlo error of the draws."""
    if trace.count < LEAST_DRAWS:
        return [Finding(LONGER, f"{trace.count} {FEW}", Advice(factor=ENOUGH / max(1, trace.count)))]
    if not trace.posterior.data_vars:
        return [Finding(LONGER, "no draws were stored, and so their Monte Carlo error is not known")]
    selected, _ = thinned(trace.posterior, MAX_ROWS)
    rows, labels = [], []
    for name, variable in selected.data_vars.items():
        values = variable.values.reshape(*variable.shape[:2], -1).astype(np.float64)
        names = [label_of(selected, str(name), index) for index in np.ndindex(variable.shape[2:])]
        for k in np.flatnonzero(np.ptp(values, axis=(0, 1)) > 0):  # what never changes has no error
            column = values[:, :, [k]]
            found = convergence.rhat(column), convergence.ess(column, "mean"), convergence.ess(column, "sd")
            rows.append([float(part[0]) for part in found])
            labels.append(names[k])
    if not rows:
        return [Finding(NOT, "no parameter has moved", Advice(less_bias=True))]
    findings = monte_carlo(rows, labels)
    if len(trace.chains) < 2:
        alone = "a single chain cannot be compared with others"
        findings.append(Finding(LONGER, alone, Advice(settings={"chains": "4"})))
    return findings


def _action(trace: Trace, advice: Advice) -> str:
    """What to run next, as code, where target, sampler, start, model and data have their usual names."""
    known, settings = trace.description, dict(advice.settings)
    steps = known.settings if known is not None and isinstance(known.settings, StepSettings) else None
    longer = advice.factor > 1
    codes = isinstance(steps, CodeSettings)
    if advice.less_bias and codes:
        longer, settings["sampler"] = False, CONTROLLED
    elif advice.less_bias and (trace.tuning is None or not longer):
        longer = False
        limit = getattr(trace.tuning, "limit", None)
        step = '"auto"' if limit is None else f"sc.Auto(sd_error={limit / 2:g})"
        settings["sampler"] = f"sc.UnderdampedLangevin(step_size={step})"
    if longer and steps is not None:
        thin = int(np.ceil(steps.thin * min(advice.factor, MOST_LONGER)))
        settings |= {"thin": str(thin), "burn_in": str(max(steps.burn_in, steps.burn_in * thin // (2 * steps.thin)))}
    if known is not None and known.of_model:
        given = ", ".join(f"{OF_MODELS.get(name, name)}={code}" for name, code in settings.items())
        return f"model.set_params({given}).fit(X)" if given else ""
    if steps is None or known is None or known.parts.sampler is None:
        return ""
    sampler = settings.pop("sampler", "sampler")
    kept = {"num_samples": str(steps.num_samples), "chains": str(steps.chains), "seed": str(steps.seed)}
    given = ", ".join(f"{name}={code}" for name, code in (kept | settings).items())
    if codes:
        return f"sc.sample_dirichlet(codes, prior, {sampler}, {given})"
    return f"sc.sample(target, {sampler}, initial, {given})"
