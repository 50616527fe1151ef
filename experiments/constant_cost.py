"""The cost of SGLD-CV does not grow with the data, that of SGLD does: sections 3.3.3, 3.3.4 of Baker's thesis (2019).

The source proves that SGLD-CV needs a number of gradients that does not depend on N to come within a given number of
posterior standard deviations, once its centre is found at a cost linear in N (Theorem 3.3.7 and Corollary 3.3.8, which
need the corrections in ``scirocco.theory``). For SGLD it expects a cost linear in N. It measures neither; here both are
measured, on a logistic regression with 5 parameters, a standard normal prior and rows drawn on the spot.

The measure, fixed beforehand. Each method runs from several seeds. After K steps the error of the means is the root
mean square, over seeds and coordinates, of (mean of the draws - posterior mean) / posterior sd; that of the sds of (sd
of the draws / posterior sd - 1). The cost is n K gradients of single rows (2 n K for SGLD-CV, which needs two a row),
at the first of 400 evenly spread K from which on both errors stay within 5 % to the end of the run. All chains start at
the mode, which for SGLD is a gift: no burn-in is counted. A run is three times as long as the law below predicts, but
for SGLD no longer than its budget; a chain that has not come there is reported as 'more than' what it spent. The
set-up of SGLD-CV is reported apart, in rows read, whatever is done with a row: the search for the mode as
``ControlVariate()`` does it, and the full gradient there.

Step sizes come from the law of SGLD on a Gaussian (``sc.SGLD.stationary_variance``), along the eigenvectors of the
Hessian: the largest h at which the predicted error of the sds is 2 %. It needs the noise of the gradient: that of plain
minibatches is N^2/n times the covariance of the rows' gradients; that of SGLD-CV is the same for the differences from
the mode, to first order and averaged over the posterior. Then h N is constant for SGLD-CV and falls like 1/N for SGLD,
whose minibatches are larger, of 1,000 rows, to spare it the overhead of many small steps.

The truth is Laplace's approximation in float64 plus what importance sampling from it corrects (antithetic pairs, and
only the difference that the weights make is averaged, so that few draws do). Seconds are those of one core.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import common
import jax
import jax.numpy as jnp
import numpy as np
from common import COLOURS, INK, Claim
from logistic_growing_data import Program, Settings
from scipy.optimize import brentq

import scirocco as sc
from scirocco.batches import RandomBlocks
from scirocco.tuning import find_mode

BETA = np.array([0.6, -0.5, 0.4, -0.3, 0.2])
WITHIN, PREDICTED = 0.05, 0.02  # errors that count as arrived; the error of the sds that the step size allows
MARKS = 400  # places at which the errors of a run are looked at
BATCH = {"SGLD-CV": 100, "SGLD": 1000}
EACH = {"SGLD-CV": 2, "SGLD": 1}  # gradients for each row of a minibatch
PIECE = 500_000  # rows taken at a time in float64
MODES: dict[str, Any] = {  # how much longer than foretold a run is; the budget of one chain of SGLD; seeds by size
    "tiny": {"sizes": (1000,), "longer": 1, "budget": 1e5, "seeds": {"SGLD-CV": (2,), "SGLD": (1,)}},
    "short": {"sizes": (4000,), "longer": 3, "budget": 1e7, "seeds": {"SGLD-CV": (8,), "SGLD": (1,)}},
    "full": {"sizes": (10_000, 100_000, 1_000_000, 10_000_000), "longer": 3, "budget": 2e9,
             "seeds": {"SGLD-CV": (16, 16, 16, 16), "SGLD": (8, 6, 2, 2)}},
}  # fmt: skip
COLOUR = {"SGLD-CV": COLOURS[0], "SGLD": COLOURS[1]}


class Truth(NamedTuple):
    """The posterior, its curvature at the mode, and what importance sampling made of Laplace's approximation."""

    mode: np.ndarray
    hessian: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    moved: float  # of the means in sds, or of the sds relatively, whichever is more
    doubt: float  # the standard error of that
    noise: dict[str, np.ndarray]  # by method, the covariance of the gradient of a minibatch of one row


class Run(NamedTuple):
    """A method at a size: its settings, the errors along the run, the cost and what the law foretold."""

    step_size: float
    gradients: np.ndarray  # of single rows, at each mark
    means: np.ndarray  # errors at each mark
    sds: np.ndarray
    seconds: float  # for a gradient of a single row
    predicted: float  # gradients of single rows

    @property
    def cost(self) -> float:
        """Gradients of single rows from which on both errors are within 5 %; infinite if the end is not."""
        late = np.flatnonzero(np.maximum(self.means, self.sds) > WITHIN)
        first = late[-1] + 1 if late.size else 0
        return float(self.gradients[first]) if first < len(self.gradients) else np.inf


class Setup(NamedTuple):
    """What SGLD-CV costs before the first step."""

    rows: int
    seconds: float
    distance: float  # of the centre from the mode, in sds


class Results(NamedTuple):
    """Runs by method and size, and by size the set-up and the truth."""

    runs: dict[tuple[str, int], Run]
    setups: dict[int, Setup]
    truths: dict[int, Truth]

    @property
    def sizes(self) -> list[int]:
        """From the smallest."""
        return sorted(self.truths)

    def costs(self, method: str) -> list[float]:
        """By size."""
        return [self.runs[method, size].cost for size in self.sizes]


# The posterior.


@dataclass(frozen=True, eq=False)
class Counted(sc.Target):
    """A target that counts the rows it hands out."""

    read: list[int] = field(default_factory=list)

    def passes(self) -> Iterator[Any]:
        """All rows."""
        for batch in super().passes():
            self.read.append(int(np.sum(batch.weights)))
            yield batch

    def shuffled(self, rows: int, seed: int, epoch: int = 0) -> Iterator[Any]:
        """Minibatches of an epoch."""
        for data in super().shuffled(rows, seed, epoch):
            self.read.append(rows)
            yield data


def log_prior(beta: Any) -> Any:
    """Standard normal."""
    return -0.5 * jnp.sum(beta**2)


def log_likelihood(beta: Any, row: Any) -> Any:
    """The log of the logistic function; a row is x if y = 1 and -x if y = 0. A quick form of log_sigmoid."""
    logit = row @ beta
    return jnp.minimum(logit, 0) - jnp.log1p(jnp.exp(-jnp.abs(logit)))


def draw_rows(size: int) -> np.ndarray:
    """Rows x ~ N(0, I) with their y, as the likelihood takes them."""
    rng = np.random.default_rng(size)
    x = rng.standard_normal((size, len(BETA)), np.float32)
    chance = 1 / (1 + np.exp(-x @ BETA.astype(np.float32)))
    x[rng.uniform(size=size) >= chance] *= -1
    return x


def pieces(rows: np.ndarray) -> Iterator[np.ndarray]:
    """The rows in float64."""
    for start in range(0, len(rows), PIECE):
        yield rows[start : start + PIECE].astype(np.float64)


def truth(rows: np.ndarray) -> Truth:
    """Newton's method, then importance sampling from N(mode, H^-1)."""
    size, d = rows.shape
    mode = BETA.copy()
    for _ in range(6):
        slope, hessian = mode.copy(), np.eye(d)
        for x in pieces(rows):
            miss = 1 / (1 + np.exp(x @ mode))
            slope -= miss @ x
            hessian += (x.T * (miss * (1 - miss))) @ x
        mode = mode - np.linalg.solve(hessian, slope)
    covariance = np.linalg.inv(hessian)
    half = int(np.clip(2e7 / size, 16, 2000))
    away = np.random.default_rng(0).standard_normal((half, d)) @ np.linalg.cholesky(covariance).T
    away = np.concatenate([away, -away])
    change = -np.sum((mode + away) ** 2 - mode**2, axis=1) / 2  # of the log posterior
    own, others = np.zeros((d, d)), np.zeros((d, d))
    for x in pieces(rows):
        logit = x @ mode
        miss = 1 / (1 + np.exp(logit))
        own += (x.T * miss**2) @ x
        others += (x.T * ((miss * (1 - miss)) ** 2 * np.einsum("ni,ij,nj->n", x, covariance, x))) @ x
        here = np.logaddexp(0, -logit).sum()
        for number, shift in enumerate(away):
            change[number] += here - np.logaddexp(0, -(logit + x @ shift)).sum()
    weights = np.exp(change + np.einsum("ni,ij,nj->n", away, hessian, away) / 2)
    extra = (weights / weights.mean() - 1)[:, None]
    before = np.sqrt(np.diag(covariance))
    shift, square = extra * away / before, extra * ((away / before) ** 2 - 1) / 2
    moved, widened = shift.mean(axis=0), square.mean(axis=0)
    pairs = [(a[:half] + a[half:]) / 2 for a in (shift, square)]
    doubt = max(float(a.std(axis=0).max()) for a in pairs) / np.sqrt(half)
    most = max(float(np.abs(a).max()) for a in (moved, widened))
    # The mean gradient of the likelihood is next to 0 at the mode; that of the differences is H (beta - mode) / N.
    noise = {"SGLD": size * own, "SGLD-CV": size * others - hessian}
    return Truth(mode, hessian, mode + moved * before, (1 + widened) * before, most, doubt, noise)


# What the law foretells.


def law(found: Truth, method: str, h: float) -> tuple[np.ndarray, np.ndarray]:
    """The relative error of each coordinate's sd, and the steps until the error of the means is within 5 %."""
    values, vectors = np.linalg.eigh(found.hessian)
    noise = np.einsum("ji,jk,ki->i", vectors, found.noise[method], vectors) / BATCH[method]
    sampler = sc.SGLD(h)
    state = sampler.init(jax.random.key(0), jnp.zeros(()))
    variance = np.asarray(sampler.stationary_variance(state, values, noise))
    exact, heated = (vectors**2 @ v for v in (1 / values, variance))
    # The draws along an eigenvector are an AR(1) with coefficient 1 - h lambda.
    slow = vectors**2 @ (variance * (2 - h * values) / (h * values))
    return np.sqrt(heated / exact) - 1, np.mean(slow / exact) / WITHIN**2


def step_size(found: Truth, method: str) -> float:
    """The h whose predicted error of the sds is 2 %, root mean square over the coordinates."""
    top = 1 / np.linalg.eigvalsh(found.hessian)[-1]

    def excess(log_h: float) -> float:
        return float(np.sqrt(np.mean(law(found, method, np.exp(log_h))[0] ** 2)) - PREDICTED)

    return float(np.exp(brentq(excess, np.log(top) - 25, np.log(top))))


# The experiment.


def sampled(
    target: sc.Target, found: Truth, method: str, centre: Any, *, seeds: range, longer: float, budget: float
) -> Run:
    """The errors of a method along its run."""
    batch = BATCH[method]
    h = step_size(found, method)
    steps = float(law(found, method, h)[1])
    thin = max(1, round(steps / 40_000))  # far less than the chain's memory, which is steps / 400
    marks = -(-int(min(longer * steps, budget / (batch * EACH[method])) / thin) // MARKS) * MARKS
    estimator = sc.ControlVariate() if method == "SGLD-CV" else sc.Plain()
    program = Program(target, estimator, batch, marks, thin=thin, batching=RandomBlocks())
    prepared, _ = program.prepare(centre)
    each = [program.run(seed, centre, Settings(h), prepared=prepared) for seed in seeds]
    draws = np.array([made.positions for made in each], np.float64) - found.mean
    count = np.arange(1, marks + 1)[:, None]
    mean = np.cumsum(draws, axis=1) / count
    variance = np.cumsum(draws**2, axis=1) / count - mean**2
    looked = slice(marks // MARKS - 1, None, marks // MARKS)
    means = np.sqrt(np.mean((mean[:, looked] / found.sd) ** 2, axis=(0, 2)))
    sds = np.sqrt(np.mean((np.sqrt(variance[:, looked]) / found.sd - 1) ** 2, axis=(0, 2)))
    gradients = EACH[method] * batch * thin * count[looked, 0]
    seconds = float(np.median([made.seconds for made in each])) / gradients[-1]
    return Run(h, gradients, means, sds, seconds, EACH[method] * batch * steps)


def run(mode: str) -> Results:
    """Both methods at each size."""
    settings = MODES[mode]
    runs, setups, truths = {}, {}, {}
    for number, size in enumerate(settings["sizes"]):
        rows = draw_rows(size)
        found = truths[size] = truth(rows)
        target = Counted(log_prior, log_likelihood, rows)
        start = time.process_time()
        centre = find_mode(target, jnp.zeros(len(BETA)))
        target.full_likelihood_gradient(centre)
        distance = float(np.abs((np.asarray(centre, np.float64) - found.mode) / found.sd).max())
        setups[size] = Setup(sum(target.read), time.process_time() - start, distance)
        for method in BATCH:
            budget = settings["budget"] if method == "SGLD" else np.inf
            first = 100 * number  # seeds of their own: with the same noise all sizes would have the same luck
            seeds = range(first, first + settings["seeds"][method][number])
            runs[method, size] = sampled(target, found, method, centre, seeds=seeds, longer=settings["longer"],
                                         budget=budget)  # fmt: skip
    return Results(runs, setups, truths)


def table(results: Results) -> str:
    """The cost of each method and of the set-up by size."""
    rows = []
    for (method, size), made in results.runs.items():
        cost = made.cost
        rows.append((f"{method}, {size:,}", f"{made.step_size * size:.2e}", _cost(made), f"{made.predicted:.2e}",
                     ("" if np.isfinite(cost) else "> ") + f"{made.seconds * min(cost, made.gradients[-1]):.2f}",
                     f"{made.means[-1]:.3f}", f"{made.sds[-1]:.3f}"))  # fmt: skip
    header = ("method, N", "h N", "gradients of rows", "predicted", "seconds", "means off at the end", "sds off")
    before = [(f"{size:,}", f"{made.rows:.2e}", f"{made.rows / size:.1f}", f"{made.seconds:.2f}",
               f"{made.distance:.4f}", f"{100 * found.moved:.3f} % +- {100 * found.doubt:.3f}")
              for size, made in results.setups.items() for found in [results.truths[size]]]  # fmt: skip
    heading = ("set-up, N", "rows read", "passes", "seconds", "sds from the mode", "Laplace corrected by")
    return f"{common.columns(header, rows)}\n\n{common.columns(heading, before)}"


def _cost(made: Run) -> str:
    return f"{made.cost:.2e}" if np.isfinite(made.cost) else f"> {made.gradients[-1]:.2e}"


def check(results: Results) -> list[Claim]:
    """The criteria were set before the first full run."""
    sizes, fixed, grown = results.sizes, results.costs("SGLD-CV"), results.costs("SGLD")
    reached = [(n, c) for n, c in zip(sizes, grown, strict=True) if np.isfinite(c)]
    slope = float(np.polyfit(*np.log10(np.array(reached)).T, 1)[0]) if len(reached) > 1 else np.nan
    # Where SGLD has not arrived, it must have been expected to need more than it was given.
    beyond = [results.runs["SGLD", n] for n in sizes if not np.isfinite(results.runs["SGLD", n].cost)]
    ratios = [made.cost / made.predicted for made in results.runs.values() if np.isfinite(made.cost)]
    setups = np.array([results.setups[n].rows for n in sizes]) / np.array(sizes)
    doubts = [results.truths[n].doubt for n in sizes]
    listed = {m: "; ".join(f"{n:,}: {_cost(results.runs[m, n])}" for n in sizes) for m in BATCH}
    return [
        Claim("SGLD-CV arrives at every size (means and sds within 5 %)", bool(np.all(np.isfinite(fixed))),
              listed["SGLD-CV"]),
        Claim("its cost is flat in N (the largest within a factor 3 of the smallest, over all sizes)",
              common.among_sizes(sizes, max(fixed) < 3 * min(fixed)),
              f"largest / smallest {max(fixed) / min(fixed):.2f}"),
        Claim("that of SGLD grows about linearly (slope of log cost in log N between 0.7 and 1.3 where it arrived, and "
              "where it did not the budget was below the prediction)",
              common.among_sizes(sizes, 0.7 < slope < 1.3 and all(made.gradients[-1] < made.predicted
                                                                           for made in beyond)),
              f"slope {slope:.2f} from {len(reached)} sizes; {listed['SGLD']}"),
        Claim("SGLD-CV is cheaper than SGLD at every size, even with its set-up (in gradients of rows, or rows read)",
              all(f + results.setups[n].rows < (g if np.isfinite(g) else results.runs["SGLD", n].gradients[-1])
                  for n, f, g in zip(sizes, fixed, grown, strict=True)),
              "; ".join(f"{n:,}: {f + results.setups[n].rows:.2e} against {_cost(results.runs['SGLD', n])}"
                        for n, f in zip(sizes, fixed, strict=True))),
        Claim("the set-up is linear in N at most (passes over the data at the largest size no more than at the "
              "smallest)",
              common.among_sizes(sizes, setups[-1] <= setups[0]), f"{common.spread(setups, 1)} passes"),
        Claim("beyond the source: the law foretells the cost (within a factor 2, wherever a method arrived)",
              bool(ratios and max(ratios) < 2 and min(ratios) > 0.5),
              f"measured / predicted {common.spread(ratios, 2)}"),
        Claim("the truth is known (standard error of the correction of Laplace's approximation below 0.5 % of an sd)",
              max(doubts) < 0.005, ", ".join(f"{100 * doubt:.3f} %" for doubt in doubts)),
    ]  # fmt: skip


def draw(results: Results, path: Path) -> None:
    """Cost by size; and the errors along the runs."""
    figure = common.picture(12, 4.8)
    cost, errors = figure.subplots(1, 2)
    for method in BATCH:
        found = [(n, results.runs[method, n]) for n in results.sizes]
        cost.plot(
            [n for n, made in found if np.isfinite(made.cost)],
            [made.cost for _, made in found if np.isfinite(made.cost)],
            "o-",
            color=COLOUR[method],
            label=method,
        )
        beyond = [(n, made.gradients[-1]) for n, made in found if not np.isfinite(made.cost)]
        if beyond:
            cost.plot(*zip(*beyond, strict=True), "^", color=COLOUR[method], mfc="none", label=f"{method}, more than")
        cost.plot(*zip(*((n, made.predicted) for n, made in found), strict=True), ":", color=COLOUR[method],
                  label=f"{method}, foretold by its law")  # fmt: skip
        for number, (n, made) in enumerate(found):
            shade = 1 - 0.7 * number / max(1, len(found) - 1)
            errors.plot(made.gradients, np.maximum(made.means, made.sds), color=COLOUR[method], alpha=shade,
                        label=f"{method}, N = {n:,}")  # fmt: skip
    cost.plot(results.sizes, [results.setups[n].rows for n in results.sizes], "s--", color=INK, markersize=4,
              label="set-up of SGLD-CV, rows read")  # fmt: skip
    cost.set(xscale="log", yscale="log")
    errors.axhline(WITHIN, color=INK, linestyle=":", linewidth=1)
    errors.set(xscale="log", yscale="log")
    common.tidy(cost, "until means and sds are within 5 %", "N", "gradients of single rows")
    common.tidy(
        errors, "errors along the runs", "gradients of single rows", "the larger of the two errors", legend=None
    )
    errors.legend(fontsize=7, frameon=False, ncols=2, loc="lower left")
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    common.play(__doc__, "constant_cost", run, table, check, draw, argv)


if __name__ == "__main__":
    main()
