"""Control variates for matrix factorisation as users are added: Figures 3.5.3 and A.3.2 of Baker's thesis (2019).

SGLD, SGLD-CV and SAGA on the Bayesian matrix factorisation of MovieLens-100k, 20 factors, tau = 3 and precisions from
Gamma(1, 300), on minibatches of 5,000 ratings of 100, 500 and all 943 users. SGLD-CV begins with stochastic gradient
descent (SGD), makes its centre where that ends, and goes on from there. The measure is the log predictive density of
held-out ratings at the current draw, every 10 iterations. The source claims that SGLD-CV is better and varies less,
that SAGA converges slowly even in comparison to SGLD, above all with many ratings, and that the burn-in of SGLD becomes
more competitive with SGD as users are added. Figure A.3.2 has the step sizes h (1 + k/1000)^-0.33, by its caption for
SGLD alone; here SAGA has them too.

Step sizes are those of Table A.3.3, each divided by sqrt(S), where S is the running mean of the squared gradient of a
parameter (the printed recursion for S_k lacks a term S_{k-1}). The source's SGLD is (3.2.3), so that they are twice
those of ``sc.SGLD``; its SGD is (3.3.2), where they are the same. The step sizes of SGLD-CV are a thousandth of those
of SGLD and less. So SGLD-CV also runs with the step sizes of SGLD ('larger steps'), and how far the predictions of a
chain roam is measured: the standard deviation in time of a held-out prediction, root mean square over the ratings.

The source's published programs (github.com/jackcbaker/control-variates-sgld) say what the text leaves open: the first
100 and 500 users, minibatches with replacement, 5,000 iterations of SGD and 20,000 of the samplers, 5 seeds. They also
differ from the text, so that its pictures can hardly be had from the text alone. They give the rate of the Gamma law of
a precision as a scale, use the prior for the last factor only, have a misplaced bracket in the prediction, measure the
root mean square error, and SAGA starts from the sum over one minibatch in place of all ratings. None of that is
repeated here.

What is compared is the computation, in gradients of single ratings, n for an iteration of SGD, SGLD and SAGA, 2n for
one of SGLD-CV, N for the centre and for the start of SAGA. All methods have the same, that of 3,000 iterations of SGLD;
750 of them are SGD for SGLD-CV. There are 3 seeds. 'The second half' is that of the computation. A fifth of the ratings
is held out by chance. Ratings have their mean taken off, factors start at small random values, and the precisions are
drawn at every iteration. The table of SAGA holds for each rating only what is not zero, 2D + 1 numbers: the gradient of
one rating touches one user and one item. A chain that leaves the finite numbers has minus infinity. Full mode reads
``ml100k.npz`` in the folder named by SCIROCCO_DATA. Short mode draws ratings from the model.

What came out: the log predictive density of single draws is highest early in a run and falls as a chain spreads out,
for 100 users below that of the mean rating. SGLD is still falling at the end, so that its level is no stationary one.
SGLD-CV with the printed steps stays where SGD was stopped, and its better score is the score of that point; with the
step sizes of SGLD it falls as well. That SAGA would converge slowly is not to be seen: it is the first to level off.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import common
import jax
import numpy as np
from common import COLOURS, INK, Claim
from rating_chains import THIN, Chains, Program, Ratings, Settings, SparseSAGA, log_predictive, ratings

import scirocco as sc

FAR, ROLL = 3, 10  # arrived: the mean of 10 evaluations stays within 3 sd in time of the level of the second half
MODES: dict[str, Any] = {  # sizes: users, and the step sizes of Table A.3.3; one size is what compiles in short time
    "tiny": {"factors": 2, "batch": 200, "seeds": 1, "iterations": 200,
             "sizes": {40: {"SGLD": 5e-3, "SGLD-CV": 1e-6, "SGD": 2e-2, "SAGA": 1e-2}}},
    "short": {"factors": 3, "batch": 200, "seeds": 2, "iterations": 400,
              "sizes": {40: {"SGLD": 5e-3, "SGLD-CV": 1e-6, "SGD": 2e-2, "SAGA": 1e-2}}},
    "full": {"factors": 20, "batch": 5000, "seeds": 3, "iterations": 3000,
             "sizes": {100: {"SGLD": 1e-3, "SGLD-CV": 5e-7, "SGD": 1e-2, "SAGA": 5e-3},
                       500: {"SGLD": 5e-3, "SGLD-CV": 1e-6, "SGD": 1e-2, "SAGA": 1e-2},
                       943: {"SGLD": 5e-3, "SGLD-CV": 1e-6, "SGD": 1e-2, "SAGA": 1e-2}}},
}  # fmt: skip
LARGER, FALLS = "SGLD-CV, larger steps", ("SGLD, falling", "SAGA, falling")
METHODS = ("SGLD", "SGLD-CV", LARGER, "SAGA", *FALLS)
COLOUR = dict(zip(METHODS, (COLOURS[1], COLOURS[0], COLOURS[3], COLOURS[2], COLOURS[1], COLOURS[2]), strict=True))


class Curve(NamedTuple):
    """Log predictive density (seed, mark) after so many gradients of single ratings; how far predictions roam."""

    gradients: np.ndarray
    predictive: np.ndarray
    roam: np.ndarray  # seed by seed


class Results(NamedTuple):
    """A curve for each number of users and method; what the mean rating alone predicts, and gradients of a chain."""

    curves: dict[tuple[int, str], Curve]
    naive: dict[int, float]
    ratings: dict[int, int]
    budget: int

    @property
    def sizes(self) -> list[int]:
        """Users, from the fewest."""
        return sorted(self.naive)

    def half(self, size: int, method: str) -> np.ndarray:
        """The second half of the computation, (seed, mark)."""
        curve = self.curves[size, method]
        return curve.predictive[:, curve.gradients > self.budget / 2]

    def level(self, size: int, method: str) -> np.ndarray:
        """Its mean, seed by seed."""
        return self.half(size, method).mean(axis=1)

    def spread(self, size: int, method: str) -> np.ndarray:
        """Its standard deviation in time, seed by seed; a diverged chain has none."""
        half = self.half(size, method)
        return np.array([h.std() if np.isfinite(h).all() else np.inf for h in half])

    def arrival(self, size: int, method: str) -> float:
        """Gradients after which a seed stays where it ends, the mean of the seeds; infinite if one never does."""
        curve, found = self.curves[size, method], []
        for values, level, sd in zip(
            curve.predictive, self.level(size, method), self.spread(size, method), strict=True
        ):
            rolling = np.lib.stride_tricks.sliding_window_view(values, ROLL).mean(axis=-1)
            away = np.flatnonzero(~(np.abs(rolling - level) <= FAR * sd))
            last = away[-1] + 1 if away.size else 0
            found.append(curve.gradients[last + ROLL - 1] if last < rolling.size else np.inf)
        return float(np.mean(found))


# The experiment.


def follow(
    found: Ratings, steps: dict[str, float], *, factors: int, batch: int, seeds: int, iterations: int
) -> dict[str, Curve]:
    """The curve of each method on one data set."""
    marks, pass_marks = iterations // THIN, len(found.train[1]) / batch / THIN
    model = found.model(factors)
    plain, controlled, remembered = (
        Program(found, factors, estimator, batch) for estimator in (sc.Plain(), sc.ControlVariate(), SparseSAGA())
    )
    chains, starts = Chains(found, factors), [model.initial(jax.random.key(seed)) for seed in range(seeds)]
    left = round(marks - pass_marks)  # what the start of SAGA leaves
    plans = {
        "SGLD": (plain, Settings(steps["SGLD"] / 2), marks), "SAGA": (remembered, Settings(steps["SAGA"] / 2), left),
        FALLS[0]: (plain, Settings(steps["SGLD"] / 2, True), marks),
        FALLS[1]: (remembered, Settings(steps["SAGA"] / 2, True), left),
    }  # fmt: skip
    curves = {}
    for method, (program, settings, count) in plans.items():
        made = [chains.run(program, seed, starts[seed], settings, count) for seed in range(seeds)]
        before = pass_marks if program is remembered else 0
        curves[method] = curve([made], [(before, 1)], batch)
    descent = marks // 4
    searched = [chains.run(plain, seed, starts[seed], Settings(steps["SGD"], temperature=0.0), descent)
                for seed in range(seeds)]  # fmt: skip
    for method, name in (("SGLD-CV", "SGLD-CV"), (LARGER, "SGLD")):
        made = [chains.run(controlled, seeds + seed, searched[seed][0], Settings(steps[name] / 2),
                               round((marks - descent - pass_marks) / 2)) for seed in range(seeds)]  # fmt: skip
        curves[method] = curve([searched, made], [(0, 1), (pass_marks, 2)], batch)
    return {method: curves[method] for method in METHODS}


def curve(parts: list[list[Any]], costs: list[tuple[float, int]], batch: int) -> Curve:
    """From the runs (by part and seed) and what each part costs: minibatches before it, and for an iteration."""
    gradients, spent = [], 0.0
    for part, (before, each) in zip(parts, costs, strict=True):
        gradients.append(spent + before + each * np.arange(1, len(part[0][1]) + 1))
        spent = gradients[-1][-1]
    predictive = np.concatenate([[values for _, values, _ in part] for part in parts], axis=1)
    return Curve(np.concatenate(gradients) * THIN * batch, predictive, np.array([roam for *_, roam in parts[-1]]))


def run(mode: str) -> Results:
    """Each method on each number of users from each seed."""
    settings = {**MODES[mode]}
    sizes, every = settings.pop("sizes"), ratings(mode)
    curves, naive, counts = {}, {}, {}
    for users, steps in sizes.items():
        found = every.first(users)
        model = found.model(settings["factors"])
        naive[users] = float(log_predictive(model.mean_, found.held_out[1]))
        counts[users] = len(found.train[1])
        curves |= {(users, method): made for method, made in follow(found, steps, **settings).items()}
    return Results(curves, naive, counts, settings["batch"] * settings["iterations"])


def table(results: Results) -> str:
    """Each curve in the second half of the computation, its arrival, and how far its predictions roam."""
    rows = [(f"{users} users, {method}", common.spread(results.level(users, method), 4),
             common.spread(1000 * results.spread(users, method), 2), f"{results.arrival(users, method):.2e}",
             common.spread(made.roam, 3), f"{made.gradients[-1] / results.ratings[users]:.0f}")
            for (users, method), made in results.curves.items()]  # fmt: skip
    header = ("users, method", "log predictive, each seed", "1000 sd in time", "gradients to arrive", "roam", "passes")
    naive = ", ".join(f"{users}: {value:.4f}" for users, value in results.naive.items())
    return f"{common.columns(header, rows)}\nthe mean rating alone: {naive}"


def check(results: Results) -> list[Claim]:
    """The source's claims; the criteria were set before the first full run.

    With one exception, the arrival. At first it was the first time near the level of SGLD, and meant nothing: the log
    predictive density rises above that level within 100 iterations and falls to it later, so that every method had
    arrived at its first evaluation. The claims on SAGA held then by the gradients of its start alone, 1.02, 1.09 and
    1.16 times those of SGLD. Now a chain has arrived when it stays where it ends. That favours a chain that drifts to
    the end, as SGLD does, because drift widens the 3 sd. The claim on stationarity was added then, too.
    """
    sizes = results.sizes

    def above(a: str, b: str, text: str) -> Claim:
        pairs = {size: (results.level(size, a), results.level(size, b)) for size in sizes}
        return Claim(f"{text} (mean of the second half, every seed above every seed, at every size)",
                     all(bool(x.min() > y.max()) for x, y in pairs.values()),
                     "; ".join(f"{size}: {common.spread(x, 4)} against {common.spread(y, 4)}"
                               for size, (x, y) in pairs.items()))  # fmt: skip

    def calmer(a: str, b: str, text: str) -> Claim:
        pairs = {size: (1000 * results.spread(size, a), 1000 * results.spread(size, b)) for size in sizes}
        return Claim(f"{text} (sd in time of the second half, every seed below every seed, at every size)",
                     all(bool(x.max() < y.min()) for x, y in pairs.values()),
                     "1000 sd: " + "; ".join(f"{size}: {common.spread(x, 2)} against {common.spread(y, 2)}"
                                             for size, (x, y) in pairs.items()))  # fmt: skip

    def later(a: str, b: str) -> list[float]:
        return [results.arrival(size, a) / results.arrival(size, b) for size in sizes]

    def arrivals(*methods: str) -> str:
        return "; ".join(f"{m} " + "/".join(f"{results.arrival(size, m):.2e}" for size in sizes) for m in methods)

    slow, fast = later("SAGA", "SGLD"), later("SGLD", "SGLD-CV")
    roam = [results.curves[size, "SGLD-CV"].roam.max() / results.curves[size, "SGLD"].roam.min() for size in sizes]
    drift = {}
    for size in sizes:
        early, late = np.array_split(results.half(size, "SGLD"), 2, axis=1)
        drift[size] = late.mean(axis=1) - early.mean(axis=1)
    return [
        above("SGLD-CV", "SGLD", "SGLD-CV has the better log predictive density"),
        calmer("SGLD-CV", "SGLD", "SGLD-CV varies less"),
        Claim(f"SAGA converges slowly even in comparison to SGLD (within {FAR} sd of its own level for good after more "
              "gradients, at every size)", all(r > 1 for r in slow), arrivals("SAGA", "SGLD")),
        Claim("and above all with many ratings (the ratio of their gradients grows with the users)",
              common.among_sizes(sizes, np.all(np.diff(slow) > 0)), common.spread(slow, 2)),
        Claim("the burn-in of SGLD becomes more competitive with SGD (the ratio of the gradients until SGLD and "
              "SGLD-CV arrive falls with the users)", common.among_sizes(sizes, np.all(np.diff(fast) < 0)),
              common.spread(fast, 2) + "; " + arrivals("SGLD", "SGLD-CV")),
        above("SGLD-CV", FALLS[0], "falling steps for SGLD: SGLD-CV has the better log predictive density"),
        calmer("SGLD-CV", FALLS[0], "falling steps for SGLD: SGLD-CV varies less"),
        Claim("falling steps for both: SAGA converges slowly even in comparison to SGLD (as above)",
              all(r > 1 for r in later(FALLS[1], FALLS[0])), arrivals(FALLS[1], FALLS[0])),
        Claim("beyond the source: SGLD-CV hardly leaves its centre (its predictions roam less than a tenth as far as "
              "those of SGLD, at every size)", all(r < 0.1 for r in roam), f"ratios {common.spread(roam, 4)}"),
        Claim("beyond the source: SGLD is stationary (the means of the last two quarters within 0.02, every seed and "
              "size)", all(bool(np.all(np.abs(d) < 0.02)) for d in drift.values()),
              "; ".join(f"{size}: moved by {common.spread(d, 3)}" for size, d in drift.items())),
        above(LARGER, "SGLD", "beyond the source: with the step sizes of SGLD, SGLD-CV has the better log predictive"),
        calmer(LARGER, "SGLD", "beyond the source: with the step sizes of SGLD, SGLD-CV varies less"),
    ]  # fmt: skip


def draw(results: Results, path: Path) -> None:
    """A column for each number of users: fixed steps (Figure 3.5.3) above falling ones (Figure A.3.2)."""
    figure = common.picture(4.8 * len(results.sizes), 8)
    panels = figure.subplots(2, len(results.sizes), squeeze=False)
    for column, users in zip(panels.T, results.sizes, strict=True):
        shown = ("SGLD", "SGLD-CV", LARGER, "SAGA"), (FALLS[0], "SGLD-CV", FALLS[1])
        levels = [level for m in METHODS if np.isfinite(level := results.level(users, m).mean())]
        top = max(results.curves[users, m].predictive.max() for m in METHODS)
        for axes, methods, title in zip(column, shown, ("fixed steps", "falling steps"), strict=True):
            for method in methods:
                made = results.curves[users, method]
                for number, values in enumerate(made.predictive):
                    axes.plot(made.gradients / results.ratings[users], values, color=COLOUR[method], linewidth=0.8,
                              alpha=0.8, label=method if number == 0 else None)  # fmt: skip
            axes.axhline(results.naive[users], color=INK, linestyle=":", linewidth=1, label="the mean rating alone")
            axes.set_ylim(min(results.naive[users], *levels) - 0.1, top + 0.03)
            common.tidy(axes, f"{users} users, {title}", "passes over the data (gradients / N)",
                        "log predictive density", legend="upper right")  # fmt: skip
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    common.play(__doc__, "matrix_factorization_growing_data", run, table, check, draw, argv)


if __name__ == "__main__":
    main()
