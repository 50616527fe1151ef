"""Control variates for logistic regression as the data grow: Figures 3.5.1 and A.3.1 of Baker's thesis (2019).

SGLD, SGLD-CV and SAGA on minibatches of 500 rows out of 1 %, 10 % and all of the training rows of the cover type data,
with a Laplace prior of scale 1. SGLD-CV begins with stochastic gradient descent (SGD), makes its centre where that
ends, and goes on from there. The measure is the log predictive density of held-out rows at the current draw, every 10
iterations. The source claims that the gain of SGLD-CV over SGLD shows as the data grow, that SAGA is better still
because it converges quickly, and that the search for a centre is often faster than the burn-in of SGLD. Figure A.3.1
has the step sizes h (1 + k/1000)^-0.33. Its caption names them for SGLD alone; here SGLD is compared with both.

Step sizes are those of Table A.3.2, tuned by the source for each method and size. Its SGLD is (3.2.3), so that they are
twice those of ``sc.SGLD``; its SGD is (3.3.2), where they are the same. But in the source's published programs
(github.com/jackcbaker/control-variates-sgld) SGD takes half of them as well. So SGLD-CV runs both ways: 'SGLD-CV' as
printed, and 'SGD halved' as in the programs.

From the programs come what the text leaves open: the 10 measurements scaled to [0, 1], 44 indicators and a column of
ones; a quarter of the rows held out; 1,000 iterations of SGD, 20,000 of the samplers; 5 seeds; for SGD a start that is
uniform on [0, 1]. They differ from the text in two ways that matter. Their measure is the log loss of the predicted
classes, a number proportional to the share of errors. And their SAGA adds noise with the standard deviation h, not
sqrt(h), so that it hardly samples at all; it runs here too, as 'SAGA, little noise'.

What is compared is the computation, in gradients of single rows: n for an iteration of SGD, SGLD and SAGA, 2n for one
of SGLD-CV, N for the centre's full gradient and for the start of SAGA. The source counts seconds; those of one seed on
one core are in the table and the picture. 'The second half' is that of what SGLD spends in all, where SGLD-CV stops as
well. The reference is the log predictive density at the posterior mode of the same rows.

What differs: all methods have the same starts (in the programs SGLD and SAGA start at 0). The measure is taken on
10,000 held-out rows, the same for all sizes. SAGA starts from a table of mean gradients. Rows of a minibatch are
independent; a first full run had runs of neighbours in shuffled data (``RandomBlocks``), which do as well for SGLD and
SGLD-CV but made SAGA far noisier, because neighbours remember the same past. The source reports pictures only. Full
mode reads ``covertype.npz`` in the folder named by SCIROCCO_DATA. Short mode draws rows from the model.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import common
import jax
import jax.numpy as jnp
import numpy as np
from common import COLOURS, INK, Claim
from matplotlib.axes import Axes
from scipy.optimize import minimize

import scirocco as sc
from scirocco.batches import WithReplacement

THIN = 10  # iterations from one evaluation to the next
NEAR, ROLL = 0.01, 10  # converged: the mean of 10 evaluations lies within 0.01 of the reference
FALLING = sc.Decreasing(1.0, tau=1000.0, kappa=0.33)
MODES: dict[str, Any] = {  # sizes: rows, and the step sizes of Table A.3.2; in short mode one, as each is compiled anew
    "tiny": {"batch": 50, "held_out": 200, "seeds": 1, "descent": 20, "iterations": 100,
             "sizes": {6000: {"SGLD": 4e-4, "SGLD-CV": 4e-4, "SGD": 4e-4, "SAGA": 4e-4}}},
    "short": {"batch": 50, "held_out": 2000, "seeds": 2, "descent": 100, "iterations": 1000,
              "sizes": {6000: {"SGLD": 4e-4, "SGLD-CV": 4e-4, "SGD": 4e-4, "SAGA": 4e-4}}},
    "full": {"batch": 500, "held_out": 10_000, "seeds": 5, "descent": 1000, "iterations": 20_000,
             "sizes": {4357: {"SGLD": 5e-4, "SGLD-CV": 5e-4, "SGD": 7e-5, "SAGA": 1e-3},
                       43_575: {"SGLD": 5e-5, "SGLD-CV": 5e-5, "SGD": 5e-5, "SAGA": 1e-4},
                       435_759: {"SGLD": 5e-6, "SGLD-CV": 5e-6, "SGD": 5e-6, "SAGA": 1e-5}}},
}  # fmt: skip
HALVED, QUIET = "SGLD-CV, SGD halved", "SAGA, little noise"
METHODS, CONTROLLED = ("SGLD", "SGLD-CV", HALVED, "SAGA", QUIET), ("SGLD-CV", HALVED)
SCHEDULES = ("fixed", "falling")
COLOUR = dict(zip(METHODS, (COLOURS[1], COLOURS[0], COLOURS[3], COLOURS[2], "#999999"), strict=True))


class Rows(NamedTuple):
    """Rows to learn from in an order of chance, and rows to be predicted."""

    x: np.ndarray
    y: np.ndarray
    held_x: np.ndarray
    held_y: np.ndarray

    def first(self, size: int) -> Rows:
        """With only so many rows to learn from."""
        return self._replace(x=self.x[:size], y=self.y[:size])

    @property
    def target(self) -> sc.Target:
        """Their posterior."""
        return sc.Target(log_prior, log_likelihood, (self.x, self.y))


class Curve(NamedTuple):
    """Log predictive density (seed, mark) after so many gradients of single rows, and after so many seconds."""

    gradients: np.ndarray
    seconds: np.ndarray
    predictive: np.ndarray


class Results(NamedTuple):
    """A curve for each size, method and schedule; the log predictive density at the mode for each size."""

    curves: dict[tuple[int, str, str], Curve]
    mode: dict[int, float]
    budget: int  # gradients of single rows that SGLD spends

    @property
    def sizes(self) -> list[int]:
        """From the smallest."""
        return sorted(self.mode)

    def half(self, size: int, method: str, schedule: str = "fixed") -> np.ndarray:
        """The evaluations in the second half of the budget, (seed, mark)."""
        curve = self.curves[size, method, schedule]
        return curve.predictive[:, (curve.gradients > self.budget / 2) & (curve.gradients <= self.budget)]

    def level(self, size: int, method: str, schedule: str = "fixed") -> np.ndarray:
        """Their mean, seed by seed."""
        return self.half(size, method, schedule).mean(axis=1)

    def spread(self, size: int, method: str, schedule: str = "fixed") -> np.ndarray:
        """Their standard deviation, seed by seed."""
        return self.half(size, method, schedule).std(axis=1)

    def loss(self, size: int, method: str, schedule: str = "fixed") -> float:
        """How far the level lies below the reference, over all seeds."""
        return float(self.mode[size] - self.level(size, method, schedule).mean())

    def arrival(self, size: int, method: str, schedule: str = "fixed") -> float:
        """The gradients of single rows until a seed has converged, the mean of the seeds; infinite if one never has."""
        curve = self.curves[size, method, schedule]
        rolling = np.lib.stride_tricks.sliding_window_view(curve.predictive, ROLL, axis=1).mean(axis=-1)
        near = np.abs(rolling - self.mode[size]) < NEAR
        first = np.where(near.any(axis=1), curve.gradients[np.argmax(near, axis=1) + ROLL - 1], np.inf)
        return float(first.mean())


# The data and the model.


def rows(mode: str, held_out: int) -> Rows:
    """The cover type data, a quarter of it held out, or rows drawn from the model."""
    rng = np.random.default_rng(0)
    if mode != "full":
        x = np.hstack([np.ones((8000, 1)), rng.uniform(size=(8000, 7))]).astype(np.float32)
        y = rng.uniform(size=8000) < 1 / (1 + np.exp(-x @ rng.normal(0, 2, 8)))
    else:
        x, y = covertype()
    order = rng.permutation(len(y))
    x, y, train = x[order], y[order].astype(np.float32), 3 * len(y) // 4
    return Rows(x[:train], y[:train], x[train : train + held_out], y[train : train + held_out])


def covertype() -> tuple[np.ndarray, np.ndarray]:
    """A column of ones, measurements scaled to [0, 1] and indicators; lodgepole pine or not."""
    found = common.data_set(sc.datasets.load_covertype)
    low, high = found.quantitative.min(axis=0), found.quantitative.max(axis=0)
    scaled = (found.quantitative - low) / (high - low).astype(np.float32)
    parts = np.ones((len(scaled), 1)), scaled, np.eye(4)[found.wilderness], np.eye(40)[found.soil]
    return np.hstack(parts, dtype=np.float32, casting="same_kind"), found.cover_type == 2


def log_prior(beta: Any) -> Any:
    """Laplace with scale 1."""
    return -jnp.sum(jnp.abs(beta))


def log_likelihood(beta: Any, row: Any) -> Any:
    """Bernoulli with a logit link."""
    x, y = row
    logit = x @ beta
    return y * logit - jax.nn.softplus(logit)


def log_predictive(draws: np.ndarray, x: np.ndarray, y: np.ndarray, pieces: int = 50) -> np.ndarray:
    """The mean log density of rows, draw by draw."""
    found = []
    for some in np.array_split(np.asarray(draws, np.float32), max(1, len(draws) // pieces)):
        logit = x @ some.T
        softplus = np.maximum(logit, 0) + np.log1p(np.exp(-np.abs(logit)))
        found.append((y @ logit - softplus.sum(axis=0, dtype=np.float64)) / len(y))
    return np.concatenate(found)


def best(found: Rows) -> np.ndarray:
    """The posterior mode, by L-BFGS on the positive and the negative parts of beta: the prior is smooth in them."""
    x, y = found.x, found.y
    both = np.hstack([np.eye(x.shape[1]), -np.eye(x.shape[1])])

    def potential(parts: np.ndarray) -> tuple[float, np.ndarray]:
        logit = x @ (both @ parts).astype(np.float32)
        chance = 1 / (1 + np.exp(-logit))
        value = np.sum(np.logaddexp(0, logit) - y * logit, dtype=np.float64) + parts.sum()
        return value, both.T @ (x.T @ (chance - y)) + 1

    bounds = [(0, None)] * both.shape[1]
    reached = minimize(potential, np.zeros(len(bounds)), jac=True, method="L-BFGS-B", bounds=bounds,
                       options={"maxiter": 1000, "maxfun": 1500, "ftol": 1e-9})  # fmt: skip
    return both @ reached.x


# Chains.


class Settings(NamedTuple):
    """The step size of ``sc.SGLD``, whether it falls, and the temperature, 0 for SGD."""

    step_size: Any
    falls: Any = False
    temperature: Any = 1.0


class State(NamedTuple):
    """A state of SGLD with its settings."""

    position: Any
    step: Any
    settings: Settings


class Adjustable(sc.SGLD):
    """SGLD with its settings in its state, not in itself: one compiled program serves them all."""

    def init(self, key: Any, position: Any) -> State:
        """Start at ``position``; settings are still to come."""
        return State(position, jnp.int32(0), Settings(0.0))

    def step(self, key: Any, state: State, gradient: Any) -> tuple[State, Any]:
        """One step of ``sc.SGLD``."""
        h, falls, temperature = state.settings
        sampler = sc.SGLD(h * jnp.where(falls, FALLING(state.step), 1.0), temperature=temperature)
        new, info = sampler.step(key, sampler.init(key, state.position)._replace(step=state.step), gradient)
        return State(new.position, new.step, state.settings), info


class Made(NamedTuple):
    """The positions that were kept of a chain, and the seconds of its preparation and of its steps."""

    positions: np.ndarray
    preparation: float
    seconds: float


class Program:
    """The chain of an estimator on a data set, compiled before it is timed. Seconds are those of the processor."""

    def __init__(
        self, target: sc.Target, estimator: Any, batch: int, marks: int, *, thin: int = THIN, batching: Any = None
    ) -> None:
        batching = batching or WithReplacement()
        self.kernel = sc.kernel(target, Adjustable(1.0), batch_size=batch, estimator=estimator, batching=batching)
        self.marks, self.thin, self._compiled = marks, thin, None

    def prepare(self, position: Any) -> tuple[Any, float]:
        """What the estimator needs before the first step, and the seconds that it took."""
        start, kernel = time.process_time(), self.kernel
        prepared = jax.block_until_ready(kernel.estimator.init(kernel.target, jnp.asarray(position), None))
        return prepared, time.process_time() - start

    def run(
        self, seed: int, position: Any, settings: Settings, *, marks: int | None = None, prepared: Any = None
    ) -> Made:
        """Every ``thin``-th position of a chain that starts at ``position``."""
        prepared, before = self.prepare(position) if prepared is None else (prepared, 0.0)
        state = self.kernel.program.state(
            jax.random.key(0), jnp.asarray(position), None, prepared
        )  # nothing is drawn here
        typed = Settings(*(jnp.asarray(v, t) for v, t in zip(settings, ("float32", bool, "float32"), strict=True)))
        state = state._replace(sampler=state.sampler._replace(settings=typed))
        arguments = jax.random.key(seed), state, self.kernel.data_at(0), jnp.int32(marks or self.marks)
        if self._compiled is None:
            self._compiled = jax.jit(self._follow).lower(*arguments).compile()
        start = time.process_time()
        positions = jax.block_until_ready(self._compiled(*arguments))
        return Made(np.asarray(positions)[:marks], before, time.process_time() - start)

    def _follow(self, key: Any, state: Any, data: Any, marks: Any) -> Any:
        def mark(number: Any, carry: Any) -> Any:
            state, kept = carry
            state = jax.lax.fori_loop(0, self.thin, lambda _, s: self._advance(key, s, data), state)
            return state, kept.at[number].set(state.position)

        return jax.lax.fori_loop(0, marks, mark, (state, jnp.zeros((self.marks, *state.position.shape))))[1]

    def _advance(self, key: Any, state: Any, data: Any) -> Any:
        return self.kernel.program.transition(jax.random.fold_in(key, state.step), state, data)[0]


# The experiment.


def follow(found: Rows, steps: dict[str, float], *, batch: int, seeds: int, descent: int, iterations: int) -> Any:
    """The curve of each method and schedule on one data set."""
    target, size, d = found.target, len(found.y), found.x.shape[1]
    marks = iterations // THIN
    plain, controlled, remembered = (
        Program(target, estimator, batch, marks) for estimator in (sc.Plain(), sc.ControlVariate(), sc.SAGA())
    )
    starts = np.random.default_rng(1).uniform(size=(seeds, d)).astype(np.float32)
    saga = steps["SAGA"] / 2  # from here on as sc.SGLD has it
    runs = {"SGLD": (plain, Settings(steps["SGLD"] / 2)), "SAGA": (remembered, Settings(saga)),
            QUIET: (remembered, Settings(saga, temperature=steps["SAGA"]))}  # fmt: skip
    curves = {}
    for method, (program, settings) in runs.items():
        for schedule in SCHEDULES[: 1 if method == QUIET else 2]:
            made = [program.run(seed, starts[seed], settings._replace(falls=schedule == "falling"))
                    for seed in range(seeds)]  # fmt: skip
            before = 0 if method == "SGLD" else size
            curves[method, schedule] = curve(found, [made], [(before, batch)])
    rest = (batch * (iterations - descent) - size) // (
        2 * batch * THIN
    )  # marks of SGLD-CV until it spent what SGLD did
    for method in CONTROLLED:
        step = steps["SGD"] / (2 if method == HALVED else 1)
        searched = [plain.run(seed, starts[seed], Settings(step, temperature=0.0), marks=descent // THIN)
                    for seed in range(seeds)]  # fmt: skip
        for schedule in SCHEDULES:
            settings = Settings(steps["SGLD-CV"] / 2, schedule == "falling")
            made = [controlled.run(seeds + seed, searched[seed].positions[-1], settings, marks=rest)
                    for seed in range(seeds)]  # fmt: skip
            curves[method, schedule] = curve(found, [searched, made], [(0, batch), (size, 2 * batch)])
    return curves


def curve(found: Rows, parts: list[list[Made]], costs: list[tuple[int, int]]) -> Curve:
    """From the runs (by part and seed) and what each part costs: gradients to begin with, and for an iteration."""
    gradients, seconds, predictive = [], [], []
    spent, elapsed = 0, 0.0
    for part, (before, each) in zip(parts, costs, strict=True):
        count = np.arange(1, len(part[0].positions) + 1)
        gradients.append(spent + before + each * THIN * count)
        spent = int(gradients[-1][-1])
        first, lasted = (float(np.median(t)) for t in zip(*(made[1:] for made in part), strict=True))
        seconds.append(elapsed + first + lasted * count / count[-1])  # medians: the first preparation also compiles
        elapsed = float(seconds[-1][-1])
        predictive.append(np.array([log_predictive(made.positions, found.held_x, found.held_y) for made in part]))
    joined = np.concatenate(predictive, axis=1).astype(np.float64)
    return Curve(np.concatenate(gradients), np.concatenate(seconds), np.where(np.isfinite(joined), joined, -np.inf))


def run(mode: str) -> Results:
    """Each method on each size from each seed."""
    settings = {**MODES[mode]}
    sizes, held_out = settings.pop("sizes"), settings.pop("held_out")
    every = rows(mode, held_out)
    curves, reference = {}, {}
    for size, steps in sizes.items():
        found = every.first(size)
        reference[size] = float(log_predictive(best(found)[None], found.held_x, found.held_y)[0])
        curves |= {(size, *key): made for key, made in follow(found, steps, **settings).items()}
    return Results(curves, reference, settings["batch"] * settings["iterations"])


def table(results: Results) -> str:
    """Each curve in the second half of the budget, and the computation until it has converged."""
    rows = []
    for (size, method, schedule), made in results.curves.items():
        key = size, method, schedule
        rows.append((f"{size:,}, {method}", schedule, common.spread(results.level(*key), 4),
                     f"{results.loss(*key):.5f}", f"{results.spread(*key).mean():.5f}", _count(results.arrival(*key)),
                     _count(made.gradients[-1]), f"{made.seconds[-1]:.2f}"))  # fmt: skip
    header = ("rows, method", "steps", "log predictive, each seed", "below the mode", "sd in time",
              f"gradients to {NEAR:g}", "in all", "seconds")  # fmt: skip
    modes = ", ".join(f"{size:,}: {value:.4f}" for size, value in results.mode.items())
    return (
        f"{common.columns(header, rows)}\nat the mode: {modes}; the second half is that of {results.budget:,} gradients"
    )


def _count(gradients: float) -> str:
    return f"{gradients:.2e}"


def check(results: Results) -> list[Claim]:
    """The source's claims; the criteria were set before the first full run."""
    sizes = results.sizes

    def above(a: str, b: str, text: str, a_steps: str = "fixed", b_steps: str = "fixed") -> Claim:
        pairs = {size: (results.level(size, a, a_steps), results.level(size, b, b_steps)) for size in sizes}
        return Claim(f"{text} (mean of the second half, every seed above every seed, at every size)",
                     all(bool(x.min() > y.max()) for x, y in pairs.values()),
                     "; ".join(f"{size:,} {'holds' if x.min() > y.max() else 'fails'}: {common.spread(x, 4)} against "
                               f"{common.spread(y, 4)}" for size, (x, y) in pairs.items()))  # fmt: skip

    def growth(text: str, values: list[float], least: bool = True) -> Claim:
        holds = common.among_sizes(sizes, np.all(np.diff(values) > 0) and least)
        return Claim(text, holds, common.spread(values, 2))

    arrival = {m: [results.arrival(size, m) for size in sizes] for m in METHODS}

    def arrivals(methods: Sequence[str]) -> str:
        return "; ".join(f"{m} " + "/".join(_count(a) for a in arrival[m]) for m in methods)

    claims = []
    for method in CONTROLLED:
        gains = [results.loss(size, "SGLD") / results.loss(size, method) for size in sizes]
        calmer = [results.spread(size, "SGLD").mean() / results.spread(size, method).mean() for size in sizes]
        always = all(results.spread(size, "SGLD").min() > results.spread(size, method).max() for size in sizes)
        sooner = sum(a < b for a, b in zip(arrival[method], arrival["SGLD"], strict=True))
        claims += [
            above(method, "SGLD", f"{method} is above SGLD"),
            growth(f"and the more so, the more data (distance of SGLD below the mode over that of {method})", gains),
            growth(f"{method} varies less in time, the more so the more data (sd of SGLD over that of {method}; every "
                   "seed below every seed)", calmer, always),
            Claim(f"the centre of {method} is often found faster than SGLD burns in (within {NEAR:g} of the mode after "
                  "fewer gradients at more than half of the sizes)", sooner > len(sizes) / 2,
                  arrivals((method, "SGLD"))),
        ]  # fmt: skip
    first = all(a < min(arrival[m][i] for m in ("SGLD", *CONTROLLED)) for i, a in enumerate(arrival["SAGA"]))
    return [
        *claims,
        above("SAGA", "SGLD-CV", "SAGA is above SGLD-CV"),
        Claim(f"SAGA converges quickly (within {NEAR:g} of the mode after the fewest gradients, at every size)", first,
              arrivals(("SAGA", "SGLD", *CONTROLLED))),
        above(QUIET, "SAGA", "beyond the source: SAGA is better with the little noise of the source's programs"),
        above("SGLD-CV", "SGLD", "falling steps for SGLD alone: SGLD-CV is above it", "fixed", "falling"),
        above("SGLD-CV", "SGLD", "falling steps for all: SGLD-CV is above SGLD", "falling", "falling"),
        above("SAGA", "SGLD-CV", "falling steps for all: SAGA is above SGLD-CV", "falling", "falling"),
    ]  # fmt: skip


def draw(results: Results, path: Path) -> None:
    """A column for each size: fixed steps by gradients (Figure 3.5.1), falling ones (A.3.1), fixed ones by seconds."""
    figure = common.picture(4.8 * len(results.sizes), 11)
    panels = figure.subplots(3, len(results.sizes), squeeze=False)
    for column, size in zip(panels.T, results.sizes, strict=True):
        fixed, falling, timed = column
        for (rows_of, method, schedule), made in results.curves.items():
            if rows_of != size:
                continue
            _line(fixed if schedule == "fixed" else falling, made.gradients, made, method)
            if schedule == "fixed":
                _line(timed, made.seconds, made, method)
        for axes in column:
            axes.axhline(results.mode[size], color=INK, linestyle=":", linewidth=1, label="the posterior mode")
            right = axes.dataLim.x1
            axes.set(
                xscale="log", xlim=(right / 1000, right), ylim=(results.mode[size] - 0.05, results.mode[size] + 0.005)
            )
        y = "log predictive density"
        common.tidy(fixed, f"{size:,} rows, fixed steps", "gradients of single rows", y, legend="lower right")
        common.tidy(falling, f"{size:,} rows, falling steps", "gradients of single rows", y, legend=None)
        common.tidy(timed, f"{size:,} rows, fixed steps", "seconds", y, legend=None)
    figure.savefig(path)


def _line(axes: Axes, x: np.ndarray, made: Curve, method: str) -> None:
    axes.plot(x, made.predictive.mean(axis=0), color=COLOUR[method], linewidth=1, label=method)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    common.play(__doc__, "logistic_growing_data", run, table, check, draw, argv)


if __name__ == "__main__":
    main()
