"""What a page says of any posterior: the verdict, what ran, estimates, draws, bias, cost."""

from __future__ import annotations

import inspect
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor

from scirocco.core.credible import quantiles
from scirocco.report import charts
from scirocco.report.elements import Child, Element, code, element, number, percent, rounded
from scirocco.report.page import Page
from scirocco.report.tables import facts, table, told
from scirocco.run import convergence
from scirocco.run.calls import PART, part_code, sampled_again
from scirocco.run.describe import is_opaque, rebuild
from scirocco.run.description import Description, PassSettings, StepSettings
from scirocco.run.trace import LEAST_DRAWS, MAX_ROWS, PICKED, Trace, coordinates, label_of, thinned
from scirocco.run.verdict import KINDS, LONGER, MEANS, NOT, RHAT_LIMIT, USE, Verdict
from scirocco.verbs.choose import LEAPFROGS

MARKS = {USE: ("use", "✔"), MEANS: ("means", "◐"), LONGER: ("longer", "↻"), NOT: ("not", "✖")}
"""The class of the style sheet, and a mark beside the words, for each kind of verdict."""
assert set(MARKS) == set(KINDS)
LEVEL = 0.9  # of the intervals
WORST, PAIRED = 6, 3  # parameters whose draws are shown, and in pairs
TRACED, POINTS = 1000, 100  # draws of a chain in a trace, and in a scatter plot
WATCHED = 8  # chains of a trace
COUNTED = tuple((name, name) for name in ("documents", "tokens", "words"))  # in a fingerprint of counts
FEATURES = "features"  # in that of a table whose rows were made counts


def verdict_block(verdict: Verdict, *, script: bool = True) -> Element:
    """The verdict, its reasons, and what to run next; ``script`` says that the page has one."""
    kind, mark = MARKS[verdict.kind]
    parts: list[Child] = [
        element("p", f"{mark} {verdict.kind[0].upper()}{verdict.kind[1:]}", class_="kind"),
        element("ul", [element("li", reason) for reason in verdict.reasons]),
    ]
    if verdict.action:
        parts += [element("p", "Next:"), code(verdict.action, copied=script)]
    return element("div", parts, class_=f"verdict {kind}")


def add_posterior(page: Page, trace: Trace, model: Any = None) -> None:
    """All sections but the verdict; ``model`` is the one that the run is a fit of."""
    found = estimates(trace)
    add_run(page, trace, model)
    page.add("estimates", "Estimates", *_estimates(trace, *found))
    said = "The parameters that are known worst come first."
    if found[1]:
        said = "Of the coordinates in the table above those that are known worst."
    page.add("draws", "Draws", *draws_block(page, worst_draws(trace.posterior, found[0]), trace.chains, said))
    page.add("bias", "Bias", *_bias(trace))
    add_costs(page, trace, found[0])


def add_costs(page: Page, trace: Trace, found: Any = None) -> None:
    """What the run took, by what is known of its estimates."""
    page.add("cost", "Cost", facts(_costs(trace, found)))


def add_run(page: Page, trace: Trace, model: Any = None) -> None:
    """What ran, and how to run it again."""
    call = _sampled_again(trace) if model is None else _fitted_again(trace, model)
    again = element("div", element("h3", "To repeat it"), code(call)) if call else None
    page.add("run", "What ran", facts(run_facts(trace)), again)


# What ran.


def run_facts(trace: Trace) -> list[tuple[str, Child]]:
    """Names and values of what is known of the run."""
    known = trace.description
    draws = f"{trace.count:,} of each of {_plural(len(trace.chains), 'chain')}" if trace.count else "none"
    rows: list[tuple[str, Child]] = [("draws", draws)]
    if trace.stopped is not None:
        rows.append(("ended", str(trace.stopped)))
    if known is None:
        return rows
    steps = known.settings if isinstance(known.settings, StepSettings) else None
    if isinstance(known.settings, PassSettings):
        rows.append(("sampler", known.settings.sampler))
    elif known.parts.sampler is not None:
        rows.append(("sampler", _sampler(known.parts.sampler)))
    if known.choice:
        rows.append(("chosen because", known.choice))
    if steps is not None:
        every = f"{steps.thin:,} steps" if steps.thin and steps.thin > 1 else "step"
        rows += [
            ("burn-in, thinning", f"{steps.burn_in:,} steps, then a draw every {every}"),
            ("minibatch", _rows_of(known, steps)),
        ]
    if trace.tuning is not None and hasattr(trace.tuning, "reason"):
        rows.append(("step size", f"{trace.tuning.step_size:.3g} in units of the posterior sds: {trace.tuning.reason}"))
    rows += [("data", described_data(known.data)), ("seed", str(known.settings.seed))]
    rows += [("note", note) for note in known.notes]
    used = known.software
    rows.append(("software", f"scirocco {used.scirocco}, JAX {used.jax}, NumPy {used.numpy}; {used.processor}"))
    return rows


def _sampler(described: Any) -> str:
    """A sampler as code, or by its name where only the model can write it."""
    code = part_code(described)
    if code != PART:
        return code
    return "the caller's own" if is_opaque(described) else type(rebuild(described)).__name__


def _rows_of(known: Description, steps: StepSettings) -> str:
    size = _batch_size(known, steps)
    if size is None:
        return "the sampler's own"
    return f"{size:,} rows" if isinstance(size, int) else f"{size:.3g} of the rows"


def _batch_size(known: Description, steps: StepSettings) -> int | float | None:
    """What tuning has found, if that is one number, else what was asked for."""
    tuned = {found.batch_size for found in known.tuned} - {None}
    return tuned.pop() if len(tuned) == 1 else steps.batch_size


def described_data(fingerprint: Any) -> str:
    """Names, types and shapes of the arrays that a fingerprint knows, or how many documents, tokens and words."""
    sizes = sizes_of(fingerprint).items()
    return "; ".join(f"{size:,} {name}" if isinstance(size, int) else f"{name}: {size}" for name, size in sizes)


def sizes_of(fingerprint: Any) -> dict[str, int | str]:
    """How many documents, tokens and words a fingerprint knows, of a table rows, and shapes and types of arrays."""
    known = fingerprint or {}
    counted = (("documents", "rows"),) if FEATURES in known else COUNTED
    found: dict[str, int | str] = {title: known[name] for name, title in counted if isinstance(known.get(name), int)}
    for name, entry in known.items():
        if (shape := _shape(entry)) is not None:
            found[name] = f"{' x '.join(f'{n:,}' for n in shape)} {entry[0]}"
    return found


def _shape(entry: Any) -> list[int] | None:
    """The shape of an array by its entry in a fingerprint; None of an entry that is no array's."""
    match entry:
        case [str(), int(size), [*rest], *_]:
            return [size, *rest]
        case [str(), [*shape], *_] if shape:
            return shape
    return None


def _sampled_again(trace: Trace) -> str:
    """The call that repeats the run of a target, where the pieces have their usual names."""
    known = trace.description
    if known is None or known.of_model or type(known.settings) is not StepSettings or known.parts.sampler is None:
        return ""
    return f"trace = {sampled_again(known)}"


def _fitted_again(trace: Trace, model: Any) -> str:
    """The call that repeats a fit: the settings that were changed, and the seed, which may have been drawn."""
    defaults = inspect.signature(type(model).__init__).parameters
    changed = {n: v for n, v in model.get_params(deep=False).items() if repr(v) != repr(defaults[n].default)}
    if trace.description is not None and "random_state" in defaults:
        changed["random_state"] = trace.description.settings.seed
    said = ", ".join(f"{name}={value!r}" for name, value in changed.items())
    supervised = is_classifier(model) or is_regressor(model)
    return f"model = sc.{type(model).__name__}({said}).fit(X{', y' if supervised else ''})"


# Estimates.


def estimates(trace: Trace) -> tuple[Any, str]:
    """``estimates_of`` a trace with its bias report; empty without draws."""
    import pandas as pd

    if trace.count < LEAST_DRAWS or not trace.posterior.data_vars:
        return pd.DataFrame(), "" if trace.count else "There are no draws."
    return estimates_of(trace.posterior, trace.bias)


def estimates_of(posterior: Any, bias_report: Any = None) -> tuple[Any, str]:
    """A row for each coordinate, or for an even selection of very many, and what was left out.

    Errors of mean and sd are Monte Carlo errors in units of the sd, ``bias`` is that of the sd by the bias report.
    """
    import pandas as pd

    selected, note = thinned(posterior, MAX_ROWS)
    rows: list[dict[str, Any]] = []
    for name, variable in selected.data_vars.items():
        values = variable.values.reshape(*variable.shape[:2], -1).astype(np.float64)
        labels = [label_of(selected, str(name), index) for index in np.ndindex(variable.shape[2:])]
        bias = _bias_of(bias_report, selected, str(name), values.shape[2])
        for k, label in enumerate(labels):
            rows.append({"parameter": label, "variable": str(name)} | _estimate(values[..., k]) | {"bias": bias[k]})
    return pd.DataFrame(rows), note


def _estimate(values: np.ndarray) -> dict[str, float]:
    """Of one coordinate, (chain, draw)."""
    low, high = quantiles(values.ravel(), LEVEL)
    found = {"mean": values.mean(), "sd": values.std(ddof=1), "low": low, "high": high}
    unknown = dict.fromkeys(("mean_error", "sd_error", "ess", "r_hat"), np.nan)
    if np.ptp(values) == 0 or not np.isfinite(values).all():
        return found | unknown
    errors = convergence.relative_errors(values)
    column = values[..., None]
    ess, r_hat = float(convergence.ess(column)[0]), float(convergence.rhat(column)[0])
    return found | {"mean_error": errors[0], "sd_error": errors[1], "ess": ess, "r_hat": r_hat}


def _bias_of(report: Any, selected: Any, name: str, size: int) -> np.ndarray:
    """The relative error of each coordinate's sd by the bias report; NaN where it says nothing."""
    known = getattr(report, "sd_error", {}).get(name)
    if known is None or not getattr(report, "stable", True):  # of an unstable step the law knows nothing
        return np.full(size, np.nan)
    at = selected[name].attrs.get(PICKED)
    flat = np.ravel(known)
    if at is not None:
        return np.asarray(flat[at]) if flat.size > max(at) else np.full(size, np.nan)
    return np.asarray(flat) if flat.size == size else np.full(size, np.nan)


def _estimates(trace: Trace, found: Any, note: str) -> list[Child]:
    if found.empty:
        said = "No draws were stored: means and sds are all there is."
        if trace.count < LEAST_DRAWS or not trace.moments.mean:
            said = f"{_plural(trace.count, 'draw')} of each chain are too few for estimates." if trace.count else note
        return [element("p", said, class_="note"), _moments(trace) if trace.moments.mean else None]
    return estimates_table(found, note)


def estimates_table(found: Any, note: str) -> list[Child]:
    """What ``estimates_of`` found, as a table."""
    ends = {
        name: (float(own["low"].min()), float(own["high"].max())) for name, own in found.groupby("variable", sort=False)
    }
    shown = found.drop(columns=["variable", "low", "high"])
    bars = [
        ((mean, low, high), ends[variable])
        for mean, low, high, variable in found[["mean", "low", "high", "variable"]].itertuples(index=False)
    ]
    ranges = found[["low", "high", "sd"]].itertuples(index=False)
    shown.insert(3, "interval", [f"{rounded(low, sd)} to {rounded(high, sd)}" for low, high, sd in ranges])
    shown["mean"] = told(found["mean"], found["sd"])
    shown.insert(4, "picture", bars)
    if shown["bias"].isna().all():
        shown = shown.drop(columns="bias")
    made = table(
        shown, f"Means, sds and {LEVEL:.0%} intervals {note}".rstrip(), name="estimates", text=("interval", "picture"),
        titles={
            "interval": f"{LEVEL:.0%} interval", "picture": "on one axis", "ess": "ESS",
            "r_hat": "R-hat", "mean_error": "error of mean, sds", "sd_error": "error of sd", "bias": "bias of sd",
        },
        formats={
            "picture": lambda bar: charts.interval_bar(*bar), "mean_error": percent, "sd_error": percent,
            "bias": lambda value: percent(value, sign=True), "ess": _whole,
            "r_hat": _flagged,
        },
    )  # fmt: skip
    said = "Errors of mean and sd are what the number of draws leaves open."
    if "bias" in shown:
        said += " Bias is how far the sampled law is from the posterior, by the bias report."
    return [made, element("p", said, class_="note")]


def _whole(value: float) -> str:
    return f"{value:,.0f}" if np.isfinite(value) else "–"


def _three(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "–"


def _flagged(value: float) -> Child:
    text = _three(value)
    return (
        element("span", f"{text} !", class_="warn", title="above what chains that agree have")
        if value > RHAT_LIMIT
        else text
    )


def _moments(trace: Trace) -> Element:
    frame = trace.moment_table().reset_index(names="parameter")
    return table(frame, "Streaming moments", name="moments")


# Draws.


def worst_draws(posterior: Any, found: Any) -> list[tuple[str, np.ndarray]]:
    """The coordinates that are known worst, those on which chains differ first, with their draws (chain, draw)."""
    if found.empty:
        return []
    order = found.assign(r_hat=found["r_hat"].fillna(-1), error=found["sd_error"].fillna(-1))
    worst = order.sort_values(["r_hat", "error"], ascending=False, kind="stable")["parameter"].head(WORST)
    values, labels, _ = coordinates(posterior, MAX_ROWS)
    return [(name, values[:, :, labels.index(name)]) for name in worst]


def draws_block(page: Page, values: list[tuple[str, np.ndarray]], chains: list[int], said: str) -> list[Child]:
    """Traces, ranks by chain, and pairs of some coordinates, the first of which matter most."""
    if not values:
        return []
    count = values[0][1].shape[1]
    picks = np.unique(np.linspace(0, count - 1, min(TRACED, count)).astype(int))
    thin = f" {picks.size:,} of {count:,} draws of each chain are drawn." if picks.size < count else ""
    few = f" Of {len(chains)} chains the {WATCHED} that differ most are drawn." if len(chains) > WATCHED else ""
    parts: list[Child] = [element("p", f"{said}{thin}{few}", class_="note")]
    page.data["traces"] = []
    for k, (name, own) in enumerate(values):
        known, watched = _estimate(own), _watched(own)
        shown = [chains[c] for c in watched]
        page.data["traces"].append({"name": name, "chains": shown, "at": picks, "values": own[watched][:, picks]})
        head = f"{name}: R-hat {_three(known['r_hat'])}, ESS {_whole(known['ess'])}"
        plot = element("div", element("noscript", "The trace needs the page's script."), class_="trace", data_trace=k)
        trace = element("div", plot, role="img", aria_label=f"Draws of {name} in each chain")
        beside: Child = None
        if len(chains) > 1:  # the ranks of a single one are always flat
            rank = charts.ranks(own, shown, watched, f"Ranks of the draws of {name} in each chain")
            beside = charts.figure(rank, "Ranks by chain: flat where all chains have the same law.")
        parts += [element("h3", head), element("div", trace, beside, class_="row")]
    some = picks[np.unique(np.linspace(0, picks.size - 1, min(POINTS, picks.size)).astype(int))]
    pairs = [
        charts.scatter(x[_watched(x)][:, some], y[_watched(x)][:, some], (a, b), f"Draws of {a} and {b}")
        for (a, x), (b, y) in combinations(values[:PAIRED], 2)
    ]
    if pairs:
        words = "A shape for each chain: circles, squares, triangles and diamonds, in turn." if len(chains) > 1 else ""
        parts += [element("h3", "In pairs"), charts.figure([element("div", pairs, class_="row")], words)]
    return parts


def _watched(draws: np.ndarray) -> np.ndarray:
    """The places of the chains whose means differ most from all, (chain, draw), in their order."""
    apart = np.abs(draws.mean(axis=1) - draws.mean())
    return np.sort(np.argsort(-apart, kind="stable")[:WATCHED])


# Bias and cost.


def _bias(trace: Trace) -> list[Child]:
    if trace.bias is None:
        return []
    parts: list[Child] = [element("pre", str(trace.bias), class_="plain", tabindex="0")]
    if trace.tuning is not None:
        parts += [
            element("h3", "How the step size was found"),
            element("pre", str(trace.tuning), class_="plain", tabindex="0"),
        ]
    return parts


def _costs(trace: Trace, found: Any) -> list[tuple[str, Child]]:
    known = trace.description
    rows: list[tuple[str, Child]] = [("sampling", f"{trace.seconds:.3g} s, compiling not counted")]
    if trace.tuning is not None and hasattr(trace.tuning, "seconds"):
        rows.append(("tuning", f"{trace.tuning.seconds:.3g} s"))
    done = [float(leaf["passes"]) for leaf in trace.leaves.values() if "passes" in leaf]
    if done:
        rows.append(("passes over the data", f"{number(max(done))} of each chain"))
    known_draws = found is not None and not found.empty and found["ess"].notna().any()
    worst = float(found["ess"].min()) if known_draws else np.nan
    if np.isfinite(worst) and trace.seconds > 0:
        rows.append(
            (
                "effective draws",
                f"{worst:,.0f} of the worst parameter, {worst / trace.seconds:,.0f} a second of sampling",
            )
        )
    steps = known.settings if known is not None and isinstance(known.settings, StepSettings) else None
    if known is None or steps is None or known.parts.sampler is None:
        return rows
    made = len(trace.chains) * (steps.burn_in + trace.count * (steps.thin or 1))
    rows.append(("steps", f"{made:,} of all chains"))
    share = _share_of_rows(known, steps)
    if share is None or getattr(rebuild(known.parts.sampler), "full_data", True):
        return rows
    rows.append(("passes over the data", f"{number(made * share)}, each chain its own"))
    if np.isfinite(worst):
        passes = LEAPFROGS * worst
        seconds = passes * trace.seconds / (made * share)
        words = f"about {passes:,.0f} passes over the data for as many effective draws of the worst parameter"
        pace = f"{number(seconds)} s at the time that a row of a minibatch took here"
        rows.append(("NUTS", f"{words}, if each takes {LEAPFROGS} gradients; {pace}"))
    return rows


def _share_of_rows(known: Description, steps: StepSettings) -> float | None:
    """The share of all rows that a minibatch has, if it is known."""
    size = _batch_size(known, steps)
    if isinstance(size, float):
        return size
    shapes = map(_shape, (known.data or {}).values())
    lengths = {shape[0] for shape in shapes if shape}
    return size / lengths.pop() if size is not None and len(lengths) == 1 else None


def _plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
