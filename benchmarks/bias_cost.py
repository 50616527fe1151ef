"""Bias against cost: errors of posterior sds and means by step and batch size, beside NUTS of equal computing time.

    python benchmarks/bias_cost.py [--only covertype logistic grouped] [--truths DIR] [--output results]

Rows are batch sizes, columns step sizes as multiples of the one that ``step_size="auto"`` finds for the sampler. All
chains move in the coordinates that "auto" finds, in which the posterior is near N(0, I), and start at draws of the
normal law there: so a step means the same on each posterior, and plain SGLD has a better scale than in the literature.
Minibatches are uniform; ``UnderdampedLangevin`` has control variates, of second order where "auto" takes these, and the
plain gradient on all rows. Beside them, at the same cost: "auto" with all defaults, ``GMC("auto")`` and ``NUTS``.

Cost is seconds of computing, those of all threads (``time.process_time``), on one core, without compilation. A cell
samples in pieces, each at most a tenth of its seconds, until they are used up. Tuning (mode, curvature, step size) is
counted apart, when its programs are compiled: NUTS, which tunes itself, has its seconds too, so that all totals
are the same. Of each run the first fifth of the draws is left out, of NUTS the warm-up (or, if that is not over, the
first half of what there is).

An error is the largest of all parameters, with its Monte Carlo standard error from the ESS. A star says that it is more
than six times that error and the truth's together: it is bias. What has no mark may be chance, and a question mark
says that there are fewer than 100 effective draws, of which no standard error is sure. Truth is a formula or NUTS
(``uncertainty.py``); for both logistic regressions 4 chains of ``GMC("auto")``, their moments corrected by the exact
gradients (``covertype.py``). SCIROCCO_DATA names the folder with covertype's data; without it covertype is left out.
``--truths`` keeps the truth in a folder, and every cell that was measured, so that a run that was ended goes on with
the others, after tuning; ``--within`` seconds it begins no further cell. The figure and all numbers go to ``--output``,
from which ``--redraw`` makes the table and the figure again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from covertype import stein_moments, target_of
from gradient_engine import Logistic
from jax.flatten_util import ravel_pytree
from posteriors import Posterior
from uncertainty import POSTERIORS, Truth, by_nuts, flat, truth_of

import scirocco as sc
from scirocco.gradient.engine import GradientEngine
from scirocco.plots.canvas import COLOURS
from scirocco.run.convergence import standard_error
from scirocco.run.recording import Recording

CLOCK = time.process_time
CHAINS = 4
PIECES = 20  # of a run between looks at the clock, half of them at least
BATCHES = (32, 256, 2048, 1.0)
FACTORS = (1 / 64, 1 / 16, 1 / 4, 1.0, 4.0)
SECONDS = {"covertype": 3.0}
OTHERWISE = 1.5  # of the other posteriors
MOST_DRAWS = 8000  # of a chain that are kept
LEAST_DRAWS = 4  # of a chain, for an ESS
DROPPED = 0.2
LOST = 1000.0  # times the posterior sd: chains that wide are on their way to infinity
ADAPTATION = 500  # steps of NUTS
NUTS_PIECE = 4  # steps between looks at the clock: a later one may take a thousand times as long as the first
TRUTH_DRAWS = {"covertype": 250, "logistic": 4000}  # of each chain of GMC
TRUTH_BURN_IN, BLOCKS = 20, 8
SURE = 6.0  # standard errors: they are the largest of many, and themselves estimates
ENOUGH = 100  # effective draws, below which a standard error is not trusted
BIAS, CHANCE, UNKNOWN = "*", " ", "?"
SGLD, UNDERDAMPED = "SGLD, plain gradients", "UnderdampedLangevin, control variates"
AUTO, GMC, NUTS = 'step_size="auto"', 'GMC("auto")', "NUTS"


# The truth.


def covertype() -> Posterior:
    """581,012 x 54."""
    problem = Logistic()
    return Posterior("logistic regression on covertype", target_of(problem), problem.initial)


MAKERS = {"covertype": covertype} | POSTERIORS


def by_gmc(draws: int, posterior: Posterior) -> Truth:
    """Exact chains in the coordinates of the curvature, their moments corrected by the gradients there."""
    began = time.perf_counter()
    tuned = sc.tune(posterior.target, sc.GMC("auto"), posterior.initial, look_elsewhere=False)
    trace = sc.sample(
        posterior.target, tuned.sampler, tuned.initial, num_samples=draws, burn_in=TRUTH_BURN_IN, chains=CHAINS,
        seed=1, gradients=True, progress=False, report=False,
    )  # fmt: skip
    seconds, centre = time.perf_counter() - began, np.asarray(ravel_pytree(tuned.initial)[0], np.float64)
    lower = np.stack([np.asarray(tuned.sampler.scale.forward(row)) for row in np.eye(centre.size)], axis=1)
    phi = np.linalg.solve(lower, (flat(trace.posterior) - centre).reshape(-1, centre.size).T).T
    slopes = flat(trace.gradients).reshape(-1, centre.size) @ lower

    def moments(phi: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, covariance = stein_moments(phi, slopes)
        return centre + lower @ mean, np.sqrt(np.einsum("ij,jk,ik->i", lower, covariance, lower))

    mean, sd = moments(phi, slopes)
    parts = zip(np.array_split(phi, BLOCKS), np.array_split(slopes, BLOCKS), strict=True)
    means, sds = (np.array(part) for part in zip(*(moments(*part) for part in parts), strict=True))
    errors = [float(np.max(part.std(axis=0, ddof=1) / sd)) / np.sqrt(BLOCKS) for part in (means, sds)]
    return Truth(mean, sd, *errors, seconds)


# The runs.


class Run(NamedTuple):
    """Draws (chain, draw, coordinate), the steps of each chain, seconds of computing, and whether all is finite."""

    draws: np.ndarray
    steps: int
    seconds: float
    finite: bool


def run_for(seconds: float, kernel: Any, initial: Any, thin: int, longest: float = np.inf) -> Run:
    """Chains for so many seconds of computing, with at most ``longest`` steps between looks at the clock."""
    engine = GradientEngine(kernel, initial, chains=CHAINS, recording=Recording(0, thin))
    names = [name for name, variable in engine.variables.items() if variable.role == "draw"]
    engine.start()
    parts, piece, finite = [], 1, True
    began = last = CLOCK()
    while finite and last < began + seconds:
        end = engine.step + piece
        while finite and engine.step < end:
            chunk = engine.advance(end)
            parts.append([chunk.draws[name] for name in names])
            finite = chunk.finite
        now = CLOCK()
        piece *= 2 if now - last < seconds / PIECES and 2 * piece <= longest else 1
        last = now
    joined = [np.concatenate(variable, axis=1) for variable in zip(*parts, strict=True)]
    count = joined[0].shape[1]
    draws = np.concatenate([v.reshape(CHAINS, count, v[0, 0].size if count else 0) for v in joined], axis=2)
    return Run(draws.astype(np.float64), engine.step, last - began, finite)


def thinning(seconds: float, kernel: Any, initial: Any) -> int:
    """Steps from draw to draw so that they fit into memory, when the program is compiled, by a run that is short."""
    run_for(1e-9, kernel, initial, 1)
    pilot = run_for(seconds / 20, kernel, initial, 1)
    return max(1, int(pilot.steps * seconds / pilot.seconds / MOST_DRAWS))


class Worst(NamedTuple):
    """The largest error of all parameters, its Monte Carlo standard error, and a mark that says what it is."""

    error: float
    chance: float
    mark: str

    @classmethod
    def of(cls, errors: np.ndarray, chance: np.ndarray, of_truth: float, effective: np.ndarray) -> Worst:
        """By coordinate, with the number of effective draws of each."""
        k = int(np.argmax(np.abs(errors)))
        surely = abs(errors[k]) > SURE * np.hypot(chance[k], of_truth)
        mark = UNKNOWN if effective[k] < ENOUGH else BIAS if surely else CHANCE
        return cls(float(errors[k]), float(chance[k]), mark)


@dataclass(frozen=True)
class Cell:
    """One run: what it was, what it cost, and its errors, relative of sds and in sds of means, unless it was lost."""

    sampler: str
    rows: int
    factor: float | None
    steps: int
    draws: int
    seconds: float
    sd: Worst | None
    mean: Worst | None
    note: str = ""

    @classmethod
    def of(cls, sampler: str, kernel: Any, factor: float | None, run: Run, truth: Truth, warm_up: int = 0) -> Cell:
        """A run judged; of one that adapts the first ``warm_up`` draws do not count."""
        made = run.draws.shape[1]
        over = made >= warm_up + LEAST_DRAWS or not warm_up
        first = warm_up if warm_up and over else int(made * (DROPPED if over else 0.5))
        note = "" if over else f"{run.steps} of {warm_up} steps of its warm-up"
        cost = (sampler, kernel.batch_size, factor, run.steps, made - first, run.seconds)
        draws = run.draws[:, first:]
        if not run.finite or draws.shape[1] < LEAST_DRAWS:
            return cls(*cost, None, None, note if run.finite else "lost")
        mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
        if np.any(sd > LOST * truth.sd):
            return cls(*cost, None, None, "lost")
        of_mean = standard_error(draws)
        some = np.maximum(sd, np.finfo(float).tiny)  # where no chain has moved there is none
        of_sd = standard_error((draws - mean) ** 2) / (2 * some)  # a variance moves by 2 sd times what the sd moves by
        effective = np.divide(sd, of_mean, out=np.zeros_like(sd), where=of_mean > 0) ** 2
        errors = (
            Worst.of(sd / truth.sd - 1, of_sd / truth.sd, truth.sd_error, effective),
            Worst.of((mean - truth.mean) / truth.sd, of_mean / truth.sd, truth.mean_error, effective),
        )
        return cls(*cost, *errors, note)

    @classmethod
    def again(cls, kept: dict[str, Any]) -> Cell:
        """From what was written."""
        return cls(**kept | {kind: kept[kind] and Worst(*kept[kind]) for kind in ("sd", "mean")})


@dataclass(frozen=True)
class Table:
    """All runs on a posterior, with the units of their steps, seconds of tuning and the errors of the truth."""

    title: str
    parameters: int
    rows: int
    truth: tuple[float, float]
    tuning: float
    seconds: float
    units: dict[str, float]
    cells: list[Cell]

    def find(self, sampler: str, rows: int | None = None, factor: float | None = None) -> Cell:
        """The run with these settings."""
        return next(c for c in self.cells if c.sampler == sampler and c.factor == factor and rows in (None, c.rows))

    @classmethod
    def again(cls, kept: dict[str, Any]) -> Table:
        """From what was written."""
        return cls(**kept | {"cells": [Cell.again(cell) for cell in kept["cells"]]})


class Late(Exception):
    """There is no time for further cells."""


class Cells:
    """Cells as they are measured, each kept in a file if there is a folder."""

    def __init__(self, folder: Path | None, name: str, within: float) -> None:
        self._folder, self._name, self._end = folder, name, time.perf_counter() + within
        self.all: list[Cell] = []

    def add(self, sampler: str, rows: Any, factor: float | None, make: Callable[[], Cell]) -> None:
        """The cell with these settings, made now or before."""
        words = "".join(c for c in f"{sampler}_{rows}_{factor}" if c.isalnum() or c in "._")
        place = None if self._folder is None else self._folder / f"cell_{self._name}_{words}.json"
        if place is not None and place.exists():
            cell = Cell.again(json.loads(place.read_text()))
        elif time.perf_counter() > self._end:
            raise Late
        else:
            cell = make()
            if place is not None:
                place.write_text(json.dumps(asdict(cell)))
        self.all.append(cell)
        print(f"{sampler}, {rows} rows, {factor}: {cell.sd}", file=sys.stderr, flush=True)


def measure(posterior: Posterior, truth: Truth, seconds: float, cells: Cells) -> Table:
    """All runs on a posterior."""
    target, initial = posterior.target, posterior.initial
    plain = sc.tune(target, sc.SGLD("auto"), initial, look_elsewhere=False)
    exact = sc.tune(target, sc.GMC("auto"), initial, look_elsewhere=False)
    for _ in range(2):  # the second time nothing is compiled
        began = CLOCK()
        auto = sc.tune(target, sc.UnderdampedLangevin("auto"), initial)
        tuning = CLOCK() - began
    found = auto.estimator
    controlled = found if isinstance(found, sc.ControlVariate) else sc.ControlVariate(centre=auto.initial)
    for sampler, tuned, estimator in ((SGLD, plain, sc.Plain()), (UNDERDAMPED, auto, controlled)):
        for size in BATCHES:
            bound = sc.kernel(
                target, tuned.sampler, batch_size=size, estimator=sc.Plain() if size == 1.0 else estimator
            )
            for factor in FACTORS:
                inner = replace(tuned.sampler.sampler, step_size=factor * tuned.report.step_size)
                kernel = bound.replaced(replace(tuned.sampler, sampler=inner))

                def cell(
                    sampler: str = sampler, factor: float = factor, kernel: Any = kernel, tuned: Any = tuned
                ) -> Cell:
                    thin = thinning(seconds, kernel, tuned.initial)
                    return Cell.of(sampler, kernel, factor, run_for(seconds, kernel, tuned.initial, thin), truth)

                cells.add(sampler, size, factor, cell)
    for sampler, tuned in ((AUTO, auto), (GMC, exact)):

        def whole(sampler: str = sampler, tuned: Any = tuned) -> Cell:
            thin = thinning(seconds, tuned.kernel, tuned.initial)
            run = run_for(seconds, tuned.kernel, tuned.initial, thin)
            return Cell.of(sampler, tuned.kernel, None, run, truth)

        cells.add(sampler, "all", None, whole)

    def by_itself() -> Cell:
        nuts = sc.kernel(target, sc.NUTS(adaptation=ADAPTATION))
        run_for(1e-9, nuts, initial, 1)
        return Cell.of(NUTS, nuts, None, run_for(seconds + tuning, nuts, initial, 1, NUTS_PIECE), truth, ADAPTATION)

    cells.add(NUTS, "all", None, by_itself)
    units = {SGLD: plain.report.step_size, UNDERDAMPED: auto.report.step_size}
    return Table(
        posterior.title, truth.mean.size, target.size, (truth.mean_error, truth.sd_error), tuning, seconds, units,
        cells.all,
    )  # fmt: skip


# What is shown of them.


def show(table: Table) -> None:
    """Print everything."""
    print(f"\n{table.title}: {table.rows:,} rows, {table.parameters} parameters")
    exact = "exact" if not any(table.truth) else f"errors {table.truth[0]:.3f} sd and {table.truth[1]:.1%}"
    used = [cell.seconds for cell in table.cells if cell.factor and cell.sd]
    print(f"  truth: {exact}; {table.tuning:.1f} s of tuning, {min(used):.1f} to {max(used):.1f} s of sampling a cell")
    sizes = list(dict.fromkeys(cell.rows for cell in table.cells if cell.factor))
    for sampler, unit in table.units.items():
        for kind, words, scale in (("sd", "largest error of an sd, %", 100), ("mean", "of a mean, in sds", 1)):
            print(f"  {sampler}, {words}; steps times {unit:.3g}")
            print(f"    {'rows':>9s} {'steps':>9s} " + " ".join(f"{_fraction(f):>15s}" for f in FACTORS))
            for rows in sizes:
                cells = [table.find(sampler, rows, factor) for factor in FACTORS]
                steps = max(cell.steps for cell in cells)
                print(f"    {rows:9,d} {steps:9,d} " + " ".join(f"{_worst(cell, kind, scale):>15s}" for cell in cells))
    print(f"  {'at the same cost':17s} {'seconds':>9s} {'steps':>9s} {'sd, %':>15s} {'mean':>15s}")
    for name in (AUTO, GMC, NUTS):
        cell = table.find(name)
        errors = f"{_worst(cell, 'sd', 100):>15s} {_worst(cell, 'mean', 1):>15s}"
        print(f"  {name:17s} {cell.seconds:9.1f} {cell.steps:9,d} {errors}  {cell.note}")


def _fraction(factor: float) -> str:
    return f"{factor:g}" if factor >= 1 else f"1/{1 / factor:g}"


def _worst(cell: Cell, kind: str, scale: float) -> str:
    found = getattr(cell, kind)
    if found is None:
        return cell.note if cell.note == "lost" else "-"
    error, chance = scale * found.error, scale * found.chance
    digits = max(0, (1 if scale > 1 else 2) - int(np.log10(max(1.0, abs(error)))))
    return f"{error:+,.{digits}f} ± {chance:,.{digits}f}{found.mark}"


LEVELS = {AUTO: "-", GMC: ":", NUTS: "--"}
BOTTOM, TOP = 2e-3, 500.0


def draw(tables: Sequence[Table], path: Path) -> None:
    """Error of the sd against the step, one line a batch size; a row of panels a sampler, a column a posterior."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(tables) + 2.4, 7.4), dpi=150, layout="constrained")
    grid = figure.subplots(2, len(tables), sharex=True, sharey=True, squeeze=False)
    for column, table in enumerate(tables):
        for row, (sampler, unit) in enumerate(table.units.items()):
            axes = grid[row, column]
            sizes = list(dict.fromkeys(cell.rows for cell in table.cells if cell.factor))
            for number, (colour, rows) in enumerate(zip(COLOURS, sizes, strict=False)):
                cells = [table.find(sampler, rows, factor) for factor in FACTORS]
                errors = [np.clip(abs(c.sd.error), BOTTOM, TOP) if c.sd else np.nan for c in cells]
                label = f"{rows:,} rows" if BATCHES[number] != 1.0 else "all rows"
                axes.plot(FACTORS, errors, color=colour, linewidth=1.6, label=label if column == 0 else None)
                for x, y, cell in zip(FACTORS, errors, cells, strict=True):
                    if cell.sd is None:
                        axes.plot(x, TOP * 0.8**number, "x", color=colour, markersize=7)
                    else:
                        axes.plot(x, y, "o", color=colour, markerfacecolor=colour if cell.sd.mark == BIAS else "white")
            for name, style in LEVELS.items():
                cell = table.find(name)
                if cell.sd is not None:
                    level = np.clip(abs(cell.sd.error), BOTTOM, TOP)
                    axes.axhline(
                        level, color="#222222", linestyle=style, linewidth=1.1, label=name if column == 0 else None
                    )
            axes.set(xscale="log", yscale="log", ylim=(BOTTOM / 1.2, TOP * 1.3))
            axes.set_xticks(FACTORS, [_fraction(f) for f in FACTORS])
            axes.set_xlabel(f'step size / that of "auto" ({unit:.2g} posterior sds)', fontsize=9)
            axes.minorticks_off()
            axes.set_title(f"{table.title}, {table.rows:,} rows\n{sampler}", fontsize=9)
            axes.grid(alpha=0.25, linewidth=0.6)
    for axes in grid[:, 0]:
        axes.set_ylabel("largest relative error of a posterior sd")
    figure.suptitle("Error of posterior sds against the step size, at equal seconds of computing")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=9)
    figure.supxlabel(
        "filled: bias, beyond six standard errors; hollow: may be chance; x: the chains were lost",
        fontsize=9,
    )
    figure.savefig(path)
    print(f"figure: {path}")


def measured(name: str, options: argparse.Namespace) -> Table:
    """All runs on the posterior of this name, from its truth on."""
    posterior = MAKERS[name]()
    make = partial(by_gmc, TRUTH_DRAWS[name]) if name in TRUTH_DRAWS else by_nuts
    truth = truth_of(name, posterior, options.truths, make)
    cells = Cells(options.truths, name, options.within)
    return measure(posterior, truth, options.seconds or SECONDS.get(name, OTHERWISE), cells)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=["covertype", "logistic", "grouped"], choices=list(MAKERS))
    parser.add_argument("--seconds", type=float, help="of computing a cell; by default 3 on covertype, 1.5 on others")
    parser.add_argument("--truths", type=Path, help="a folder in which the truth and cells are kept")
    parser.add_argument("--within", type=float, default=np.inf, help="seconds, after which no further cell begins")
    parser.add_argument("--output", type=Path, default=Path("results"), help="the folder of the figure and the numbers")
    parser.add_argument("--redraw", action="store_true", help="from the numbers that an earlier run left in --output")
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    parser.add_argument("--core", type=int, default=cores[-1], help="the one that everything runs on")
    options = parser.parse_args(argv)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {options.core})
    options.output.mkdir(parents=True, exist_ok=True)
    tables = []
    for name in options.only:
        numbers = options.output / f"bias_cost_{name}.json"
        if options.redraw:
            tables.append(Table.again(json.loads(numbers.read_text())))
        elif name == "covertype" and not os.environ.get("SCIROCCO_DATA"):
            print("covertype is left out: set SCIROCCO_DATA to the folder that holds covertype.npz", flush=True)
            continue
        else:
            try:
                tables.append(measured(name, options))
            except Late:
                print(f"{name}: the rest another time, with the same --truths", flush=True)
                continue
            numbers.write_text(json.dumps(asdict(tables[-1]), indent=1))
        show(tables[-1])
    if tables:
        draw(tables, options.output / "bias_cost.png")


if __name__ == "__main__":
    main()
