"""The verdict on a trace: how its run ended, whether its chains agree, Monte Carlo error, and the bias report."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from scirocco.run import convergence
from scirocco.run.calls import part_code, sampled_again
from scirocco.run.describe import describe, is_opaque, rebuild
from scirocco.run.description import CodeSettings, Description, StepSettings
from scirocco.run.trace import FEW, LEAST_DRAWS, MAX_ROWS, PICKED, Trace, coordinate, label_of, thinned
from scirocco.run.verdict import (
    LONGER,
    MARGIN,
    MEANS,
    MOST_THIN,
    NECK,
    NOT,
    SD_LIMIT,
    Advice,
    Finding,
    Findings,
    Verdict,
    chance,
    judge,
    monte_carlo,
)

ENOUGH = 1000  # draws to ask for where there are next to none
SEVERAL = 4  # chains, where one has none to be compared with
ALONE = "theta"  # the name of a parameter that has none
REACH = 4.0  # sds of the draws from their mean: farther away they have not been
MORE_TIME = 4.0  # times as many seconds, where tuning had not enough
MOST_LONGER = 100.0  # times as long as it was: more is never asked for
MOST_ASKED = 0.05  # of an error of sds: a verdict accepts no more
ACCEPTANCES = (0.95, 0.99)  # of NUTS, where trajectories diverge
OF_MODELS = {"num_samples": "n_draws", "chains": "n_chains", "report": "measure_bias"}
"""Settings that models call by another name."""


def verdict_of(trace: Trace) -> Verdict:
    """Whether to use a trace, why, and what to do next."""
    late = cut_short(trace)
    found = [
        late,
        _ended(trace),
        _elsewhere(trace),
        _out_of_bounds(trace),
        _converged(trace),
        _biased(trace),
        _turned_away(trace),
    ]
    kind, reasons, advice = judge(chain.from_iterable(found))
    advice = late[0].advice if late else advice  # nothing else is known to be wrong
    return Verdict(kind, reasons, "" if advice is None else action_of(trace, advice))


def cut_short(trace: Trace) -> list[Finding]:
    """Tuning that was not finished in its time, by which nothing is to be used."""
    known = trace.description
    reports = [] if known is None else [rebuild(tuned.report) for tuned in known.tuned]
    where = next((report.unfinished for report in reports if getattr(report, "unfinished", "")), "")
    if not where or known is None:
        return []
    wanted = Advice(settings={"max_seconds": f"{MORE_TIME * (known.options.max_seconds or 1):g}"})
    return [Finding(LONGER, f"tuning was cut short, for want of time, in {where}", wanted)]


def _biased(trace: Trace) -> list[Finding]:
    """What the bias report says; without one only a sampler without bias can be relied on."""
    if isinstance(trace.bias, Findings):
        return list(trace.bias.findings())
    known = trace.description
    sampler = known.parts.sampler if known is not None else None
    if sampler is None or is_opaque(sampler):
        return []
    part = rebuild(sampler)
    if getattr(part, "full_data", False) or getattr(part, "exact_minibatches", False):
        return []
    unknown = "how far the sampled law is from the posterior was not measured"
    measure = Advice(settings={"report": "True"}) if known is not None and not known.options.report else None
    return [Finding(MEANS, unknown, measure)]


def _ended(trace: Trace) -> list[Finding]:
    if trace.stopped is not None and trace.stopped.kind == "diverged":
        return [Finding(NOT, str(trace.stopped), Advice(less_bias=True))]
    return []


def _out_of_bounds(trace: Trace) -> list[Finding]:
    """Bounds that a sampler is exact by, and that did not hold, unless the bias report says it."""
    stats = trace.sample_stats
    if not trace.count or "violations" not in stats or getattr(trace.bias, "fault", None):
        return []
    count = int(stats["violations"].isel(draw=-1).sum())  # so far
    return [Finding(NOT, f"rates were above their bounds {count:,} times: lipschitz must be larger")] if count else []


def _turned_away(trace: Trace) -> list[Finding]:
    """Trajectories of NUTS whose energy went astray, where its step is too long."""
    stats = trace.sample_stats
    count = int(stats["diverging"].sum()) if trace.count and "diverging" in stats else 0
    if not count:
        return []
    text = f"{count:,} of {stats['diverging'].size:,} trajectories diverged: {NECK}"
    return [Finding(MEANS, text, _shorter_steps(trace.description))]


def _shorter_steps(known: Description | None) -> Advice | None:
    """NUTS that accepts more, by shorter steps, if it does not accept nearly all already."""
    if known is None or known.of_model or is_opaque(known.parts.sampler):
        return None
    nuts: Any = rebuild(known.parts.sampler)
    higher = [rate for rate in ACCEPTANCES if rate > nuts.acceptance]
    if not higher:
        return None
    steps: Any = known.settings
    settings = {"burn_in": repr(steps.burn_in), "thin": repr(steps.thin)}
    return Advice(settings=settings | {"sampler": part_code(describe(replace(nuts, acceptance=higher[0])))})


def _elsewhere(trace: Trace) -> list[Finding]:
    """Other modes, found before the run, that its draws do not reach."""
    mean, variance = trace.moments.free().pooled() if trace.moments.mean else ({}, {})
    place = np.concatenate([np.ravel(v) for v in mean.values()]) if mean else np.zeros(0)
    sd = np.sqrt(np.concatenate([np.ravel(v) for v in variance.values()])) if mean else place
    missed = [
        mode for mode in getattr(trace.tuning, "elsewhere", ())
        if len(mode) == place.size and np.any(np.abs(np.asarray(mode) - place) > REACH * sd)
    ]  # fmt: skip
    if not missed:
        return []
    text = f"other modes, as likely as the one that the chains are at: {len(missed)} found"
    exchanged = _exchanged(mean, sd, np.asarray(missed[0]))
    if exchanged is not None:
        alone = len(mean) == 1 and exchanged == ALONE
        text += f". They are the same with the entries of {exchanged} in another order: keep one order"
        return [Finding(NOT, text, Advice(ordered="" if alone else exchanged))]
    k = int(np.argmax(np.abs(np.asarray(missed[0]) - place) / sd))
    labels = [label for name, v in mean.items() for label in (coordinate(name, index) for index in np.ndindex(v.shape))]
    return [Finding(NOT, f"{text}, one at {labels[k]} = {missed[0][k]:.3g} (here {place[k]:.3g})")]


def _exchanged(mean: dict[str, np.ndarray], sd: np.ndarray, other: np.ndarray) -> str | None:
    """The vector by which to tell the components apart that have changed places in another mode, if that is all."""
    ends = np.cumsum([v.size for v in mean.values()])[:-1]
    shapes = [v.shape for v in mean.values()]
    wide, there = (
        {name: part.reshape(shape) for name, part, shape in zip(mean, np.split(a, ends), shapes, strict=True)}
        for a in (sd, other)
    )

    def near(name: str, place: np.ndarray) -> bool:
        return bool(np.all(np.abs(there[name] - place) <= REACH * wide[name]))

    moved = [name for name, v in mean.items() if v.ndim == 1 and len(v) > 1 and not near(name, v)]
    gaps = {name: np.min(np.diff(np.sort(mean[name]))) / np.max(wide[name]) for name in moved}
    vector = max(gaps, key=lambda name: gaps[name], default=None)
    if vector is None:
        return None
    order = np.argsort(mean[vector])[np.argsort(np.argsort(there[vector]))]
    exchanged = all(
        near(name, v) or (v.ndim > 0 and len(v) == len(order) and near(name, v[order])) for name, v in mean.items()
    )
    return vector if exchanged else None


def _converged(trace: Trace) -> list[Finding]:
    """R-hat and Monte Carlo error of the draws."""
    if trace.count < LEAST_DRAWS:
        return [Finding(LONGER, f"{trace.count} {FEW}", Advice(factor=ENOUGH / max(1, trace.count), efficiency=1.0))]
    if not trace.posterior.data_vars:
        return [Finding(LONGER, "no draws were stored, and so their Monte Carlo error is not known")]
    selected, _ = thinned(trace.posterior, MAX_ROWS)
    rows, labels = [], []
    for name, variable in selected.data_vars.items():
        values = variable.values.reshape(*variable.shape[:2], -1).astype(np.float64)
        names = [label_of(selected, str(name), index) for index in np.ndindex(variable.shape[2:])]
        spread = _spread(trace, selected, str(name), values.shape[2])
        for k in np.flatnonzero(np.ptp(values, axis=(0, 1)) > 0):  # what never changes has no error
            column = values[:, :, [k]]
            rows.append([float(convergence.rhat(column)[0]), *convergence.relative_errors(column[..., 0], spread[k])])
            labels.append(names[k])
    if not rows:
        return [Finding(NOT, "no parameter has moved", Advice(less_bias=True))]
    findings = monte_carlo(rows, labels, trace.count * len(trace.chains))
    if len(trace.chains) < 2:
        alone = "a single chain cannot be compared with others"
        findings.append(Finding(LONGER, alone, Advice(settings={"chains": "4"})))
    return findings


def _spread(trace: Trace, selected: Any, name: str, size: int) -> list[float | None]:
    """How far squares of each coordinate spread, if the report knows the posterior; None where it does not."""
    known = getattr(trace.bias, "spread", {}).get(name)
    if known is None:
        return [None] * size
    at = selected[name].attrs.get(PICKED)
    return list(known if at is None else known[at])


def action_of(trace: Trace, advice: Advice) -> str:
    """What to run next, as code, where target, sampler, start, model and data have their usual names."""
    known, settings = trace.description, dict(advice.settings)
    steps = known.settings if known is not None and isinstance(known.settings, StepSettings) else None
    longer = advice.factor > 1
    if advice.less_bias and (trace.tuning is None or not longer):
        longer = False
        limit = getattr(trace.tuning, "limit", None)
        step = '"auto"' if limit is None else f"sc.Auto(sd_error={min(limit / 2, MOST_ASKED):g})"
        kind = "SCIRCV" if isinstance(steps, CodeSettings) else "UnderdampedLangevin"
        settings["sampler"] = f"sc.{kind}(step_size={step})"
    if known is not None and isinstance(steps, CodeSettings):
        return _action_on_codes(trace, known, steps, settings, advice.factor if longer else 1.0)
    if longer and steps is not None:
        settings |= _longer(trace, steps, advice)
    if known is not None and known.of_model:
        given = ", ".join(f"{OF_MODELS.get(name, name)}={code}" for name, code in settings.items())
        return f"model.set_params({given}).fit(X)" if given else ""
    if steps is None or known is None or known.parts.sampler is None:
        return ""
    if advice.ordered is None:
        return sampled_again(known, settings)
    name = json.dumps(advice.ordered) if advice.ordered else ""
    initial = f"initial | {{{name}: jnp.sort(initial[{name}])}}" if name else "jnp.sort(initial)"
    return sampled_again(known, settings, f"target.ordered({name})", initial)


def _longer(trace: Trace, steps: StepSettings, advice: Advice) -> dict[str, str]:
    """Settings of a longer run: more steps from draw to draw, and more draws where these hardly depend on each other.

    What a run that was stopped had not done yet is part of it.
    """
    now = steps.thin or 1
    factor = max(1.0, min(advice.factor, MOST_LONGER) * trace.count / steps.num_samples)
    more = float(np.clip(2 * advice.efficiency * factor, 1.0, factor))
    draws, thin = int(np.ceil(steps.num_samples * more)), int(np.ceil(now * factor / more))
    burn_in = max(steps.burn_in, steps.burn_in * thin // (2 * now))
    return {"num_samples": str(draws), "thin": str(thin), "burn_in": str(burn_in)}


def _action_on_codes(
    trace: Trace, known: Description, steps: CodeSettings, settings: dict[str, str], factor: float
) -> str:  # fmt: skip
    """What to run next on category codes."""
    sampler = settings.pop("sampler", None) or part_code(known.parts.sampler)
    chains = steps.chains if steps.chains > 1 else SEVERAL
    kept: dict[str, Any] = {
        "categories": rebuild(known.parts.prior).size, "num_samples": max(steps.num_samples, _enough(trace, chains)),
        "chains": chains, "seed": steps.seed,
    }  # fmt: skip
    if factor > 1:
        moves = "step_size" in known.parts.sampler.get("fields", {"step_size"})
        kept |= _longer_on_codes(trace.tuning, steps, min(factor, MOST_LONGER), kept["num_samples"], moves=moves)
    given = ", ".join(f"{name}={code}" for name, code in (kept | settings).items())
    return f"sc.sample_dirichlet(codes, prior, {sampler}, {given})"


def _enough(trace: Trace, chains: int) -> int:
    """Draws of each chain, independent of each other, that a verdict would be content with."""
    spread = getattr(trace.bias, "spread", {}).get("omega", np.full(1, 2.0))
    wanted = MARGIN * (chance(spread.size) / SD_LIMIT) ** 2 * np.max(spread) / 4
    return max(ENOUGH, int(np.ceil(wanted / chains)))


def _longer_on_codes(tuning: Any, steps: CodeSettings, factor: float, least: int, *, moves: bool) -> dict[str, Any]:
    """Settings of a longer run. Draws that forget each other gain by their number, others by their distance."""
    now: dict[str, Any] = {"batch_size": steps.batch_size, "thin": steps.thin or 1, "burn_in": steps.burn_in}
    more = {"num_samples": max(least, int(np.ceil(steps.num_samples * factor)))}
    if tuning is not None:  # it knows how fast they do
        wanted = tuning.longer()
        known = now | {"burn_in": max(wanted["burn_in"], now["burn_in"])}
        known["batch_size"] = wanted.get("batch_size", steps.batch_size)
        longer = known | more if known == now and steps.num_samples >= least else known
        if wanted["thin"] > MOST_THIN:
            return longer | {"thin": max(wanted["thin"], now["thin"])}
        return {name: value for name, value in longer.items() if name != "thin"}  # which then follows
    if not moves:
        return now | more
    thin = int(np.ceil(now["thin"] * factor))
    return now | {"thin": thin, "burn_in": max(steps.burn_in, steps.burn_in * thin // (2 * now["thin"]))}
