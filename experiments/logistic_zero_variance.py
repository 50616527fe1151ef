"""Zero-variance control variates after a run of SGLD-CV: Figure 3.5.2 of Baker's thesis (2019), and Theorem 3.4.2.

Logistic regression on the cover type data, as in ``logistic_growing_data.py``: minibatches of 500, a Laplace prior, the
step size of Table A.3.2 (twice that of ``sc.SGLD``), 10^4 iterations and 5 runs. The figure has box plots of the log
predictive density of held-out rows over the iterations, before and after the correction g + a'z with z half of an
estimate of grad U; the source claims good variance reduction. It also says that with plain minibatch gradients the
reduction diminishes as N grows and with those of SGLD-CV it does not. So there are three sizes, and both gradients at
the same draws.

The coefficients a = -Var(z)^-1 Cov(z, g) are printed without the minus, in the text and in Algorithm 2; 'as printed'
shows what that does. In the source's published programs (github.com/jackcbaker/control-variates-sgld) the sign is
right, but other things differ from the text. They store plain gradients. And they correct each parameter and then take
the log predictive density at the corrected parameters: 'at corrected parameters' does this with the gradients of
SGLD-CV. That is no estimate of the mean: it tends to the log predictive density at the posterior mean.

Shares of variance removed are those over the iterations of a run, as in the figure, with coefficients from all its
draws. Means and standard errors are those of ``sc.postprocess.zero_variance``, where each half of the draws is
corrected by the coefficients of the other half; 'gain' is how many times more draws the plain mean would need. It need
not follow: z has mean 0 only where the run has settled, and along some combinations of these columns only the prior
holds beta, so that no run of this length settles there. Moments of z about 0, its known mean, in place of Var(z) give
such combinations little weight; they were added ('about 0') after the first full run.

What differs: the gradients are from minibatches of their own (``gradients=True``), because those that made the next
draw would do but those that made this one would not. The centre is the posterior mode, in place of the end of 1,000
iterations of stochastic gradient descent. There are 1,000 iterations of burn-in, and 10,000 held-out rows. The box
plots are of all draws; those of the programs are of 20. The source reports pictures only. Full mode reads
``covertype.npz`` in the folder named by SCIROCCO_DATA. Short mode draws rows from the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import common
import jax.numpy as jnp
import logistic_growing_data as growing
import numpy as np
from common import COLOURS, FILL, INK, Claim

import scirocco as sc
from scirocco.batches import WithReplacement
from scirocco.postprocess import ZeroVariance, zero_variance
from scirocco.run.convergence import standard_error

CONTROLLED, PLAIN = "SGLD-CV", "plain"  # the gradients
MODES: dict[str, Any] = {  # sizes: rows, and the step size of Table A.3.2
    "tiny": {"batch": 50, "held_out": 200, "runs": 2, "draws": 100, "burn_in": 10, "sizes": {6000: 2e-4}},
    "short": {"batch": 50, "held_out": 2000, "runs": 2, "draws": 1000, "burn_in": 100, "sizes": {6000: 2e-4}},
    "full": {"batch": 500, "held_out": 10_000, "runs": 5, "draws": 10_000, "burn_in": 1000,
             "sizes": {4357: 5e-4, 43_575: 5e-5, 435_759: 5e-6}},
}  # fmt: skip
COLOUR = {CONTROLLED: COLOURS[0], PLAIN: COLOURS[1]}


class Chains(NamedTuple):
    """Log predictive densities at one size, (run, draw), as they are and corrected; and the library's estimates."""

    raw: np.ndarray
    corrected: dict[str, np.ndarray]  # by gradient
    printed: np.ndarray  # with the sign as printed
    about: np.ndarray  # with moments of z about 0
    parameters: np.ndarray  # at corrected parameters
    estimates: dict[str, list[ZeroVariance]]  # by gradient, of each run

    @property
    def mended(self) -> np.ndarray:
        """How many times more draws the plain mean would need than the one with moments about 0, run by run."""
        plain, mended = (standard_error(a.T[None]) for a in (self.raw, self.about))
        return np.square(plain / mended)

    def removed(self, gradient: str) -> np.ndarray:
        """The share of the variance over the draws that is gone, run by run."""
        return 1 - self.corrected[gradient].var(axis=1) / self.raw.var(axis=1)


Results = dict[int, Chains]


def corrected(values: np.ndarray, gradients: np.ndarray, sign: float = -1.0) -> np.ndarray:
    """g + a'z of one run, for values (draw,) or (draw, k); with ``sign`` 1 the coefficients are as printed."""
    z = gradients / 2
    centred = z - z.mean(axis=0)
    return values + z @ (sign * np.linalg.lstsq(centred, values - values.mean(axis=0), rcond=None)[0])


def about_zero(values: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """The same with moments of z about 0; each half of the draws is corrected by the coefficients of the other."""
    halves = np.array_split(np.arange(len(values)), 2)
    found = np.empty_like(values)
    for fitted, applied in (halves, halves[::-1]):
        a = np.linalg.lstsq(gradients[fitted], values[fitted] - values[fitted].mean(), rcond=None)[0]
        found[applied] = values[applied] - gradients[applied] @ a
    return found


def plain_gradients(found: growing.Rows, draws: np.ndarray, batch: int) -> np.ndarray:
    """The gradient of U from a plain minibatch at each of the draws (run, draw, parameter)."""
    rng = np.random.default_rng(1)
    slopes = np.empty(draws.shape)
    for place in np.ndindex(draws.shape[:2]):
        rows = rng.integers(len(found.y), size=batch)
        x, y, beta = found.x[rows], found.y[rows], draws[place]
        slopes[place] = len(found.y) / batch * ((1 / (1 + np.exp(-x @ beta)) - y) @ x) + np.sign(beta)
    return slopes


def run(mode: str) -> Results:
    """The chains of SGLD-CV at each size, with their gradients and what comes of them."""
    settings = MODES[mode]
    every = growing.rows(mode, settings["held_out"])
    results = {}
    for size, h in settings["sizes"].items():
        found = every.first(size)
        trace = sc.sample(
            found.target, sc.SGLD(h / 2), jnp.zeros(found.x.shape[1]), num_samples=settings["draws"],
            burn_in=settings["burn_in"], batch_size=settings["batch"],
            estimator=sc.ControlVariate(centre=growing.best(found)),
            batching=WithReplacement(), chains=settings["runs"], gradients=True, report=False, progress=False,
        )  # fmt: skip
        draws = trace.posterior["theta"].values
        slopes = {CONTROLLED: trace.gradients["theta"].values.astype(np.float64),
                  PLAIN: plain_gradients(found, draws, settings["batch"])}  # fmt: skip
        results[size] = processed(found, draws.astype(np.float64), slopes)
    return results


def processed(found: growing.Rows, draws: np.ndarray, slopes: dict[str, np.ndarray]) -> Chains:
    """Everything that is made of the draws and gradients of one size."""

    def score(positions: np.ndarray) -> np.ndarray:
        return np.array([growing.log_predictive(one, found.held_x, found.held_y) for one in positions])

    raw, runs = score(draws), range(len(draws))
    return Chains(
        raw,
        {kind: np.array([corrected(raw[i], slope[i]) for i in runs]) for kind, slope in slopes.items()},
        np.array([corrected(raw[i], slopes[CONTROLLED][i], 1.0) for i in runs]),
        np.array([about_zero(raw[i], slopes[CONTROLLED][i]) for i in runs]),
        score(np.array([corrected(draws[i], slopes[CONTROLLED][i]) for i in runs])),
        {kind: [zero_variance(raw[i : i + 1], draws[i : i + 1], slope[i : i + 1]) for i in runs]
         for kind, slope in slopes.items()},
    )  # fmt: skip


def table(results: Results) -> str:
    """Each run at each size."""
    rows = []
    for size, chains in results.items():
        for kind, estimates in chains.estimates.items():
            gains = common.spread([float(e.variance_ratio) for e in estimates], 2)
            worst = max(float(abs(e.mean - e.plain_mean) / e.plain_se) for e in estimates)
            rows.append((f"{size:,}, {kind}", common.spread(1e4 * chains.raw.std(axis=1), 2),
                         common.spread(1e4 * chains.corrected[kind].std(axis=1), 2),
                         common.spread(100 * chains.removed(kind), 1), gains, f"{worst:.2f}"))  # fmt: skip
    header = ("rows, gradient", "sd of each run, 1e-4", "corrected", "% of variance removed", "gain of the mean",
              "mean moved, se")  # fmt: skip
    others = [f"{size:,}: gain {common.spread(c.mended, 2)} about 0; "
              f"sd {common.spread(1e4 * c.printed.std(axis=1), 2)} as printed, "
              f"{common.spread(1e4 * c.parameters.std(axis=1), 2)} at corrected parameters, whose mean lies "
              f"{common.spread(1e4 * (c.parameters.mean(axis=1) - c.raw.mean(axis=1)), 2)} higher (all 1e-4)"
              for size, c in results.items()]  # fmt: skip
    return "\n".join([common.columns(header, rows), *others])


def check(results: Results) -> list[Claim]:
    """The source's claims; the criteria were set before the first full run."""
    sizes = sorted(results)
    largest = results[sizes[-1]]
    raw = largest.raw.var(axis=1)
    removed = {kind: [results[size].removed(kind) for size in sizes] for kind in COLOUR}
    mean = {kind: [float(share.mean()) for share in shares] for kind, shares in removed.items()}
    listed = {kind: "; ".join(f"{size:,}: {common.spread(100 * share, 1)} %"
                              for size, share in zip(sizes, shares, strict=True))
              for kind, shares in removed.items()}  # fmt: skip
    shifts = [float(abs(e.mean - e.plain_mean) / e.plain_se) for c in results.values() for e in c.estimates[CONTROLLED]]
    printed, parameters = largest.printed.var(axis=1) / raw, largest.parameters.var(axis=1) / raw
    errors = np.array([float(e.plain_se) for e in largest.estimates[CONTROLLED]])
    gains = [float(e.variance_ratio) for e in largest.estimates[CONTROLLED]]
    higher = (largest.parameters.mean(axis=1) - largest.raw.mean(axis=1)) / errors
    return [
        Claim("the correction reduces the variance well (by more than half in every run, on all data)",
              bool(removed[CONTROLLED][-1].min() > 0.5),
              f"removed {common.spread(100 * removed[CONTROLLED][-1], 1)} %"),
        Claim("it leaves the mean where it is (within 3 standard errors, every run and size)", max(shifts) < 3,
              f"at most {max(shifts):.2f}"),
        Claim("with plain gradients the reduction diminishes as N grows (mean of the runs, from size to size, to below "
              "10 %)", common.among_sizes(sizes, np.all(np.diff(mean[PLAIN]) < 0) and mean[PLAIN][-1] < 0.1),
              listed[PLAIN]),
        Claim("with those of SGLD-CV it does not (at the largest size at least 0.9 times that at the smallest)",
              common.among_sizes(sizes, mean[CONTROLLED][-1] > 0.9 * mean[CONTROLLED][0]), listed[CONTROLLED]),
        Claim("with its sign as printed the correction reduces the variance (in every run, on all data)",
              bool(printed.max() < 1), f"variance times {common.spread(printed, 2)}"),
        Claim("at corrected parameters the variance falls as well (by more than half in every run, on all data)",
              bool(parameters.max() < 0.5), f"variance times {common.spread(parameters, 3)}"),
        Claim("beyond the source: means gain as well (more than 1 in every run, on all data)", min(gains) > 1,
              f"gain {common.spread(gains, 2)}"),
        Claim("beyond the source: with moments of z about 0 they do (more than 1 in every run, on all data)",
              bool(largest.mended.min() > 1), f"gain {common.spread(largest.mended, 2)}"),
        Claim("beyond the source: at corrected parameters one does not estimate the mean (it is more than 3 standard "
              "errors off in every run)",
              bool(np.abs(higher).min() > 3), f"higher by {common.spread(higher, 1)} standard errors"),
    ]  # fmt: skip


def draw(results: Results, path: Path) -> None:
    """Box plots of each run on all data (Figure 3.5.2); the shares removed by size."""
    figure = common.picture(13, 4.8)
    boxes, shares = figure.subplots(1, 2, width_ratios=(2, 1))
    size = max(results)
    chains = results[size]
    kinds = {"as sampled": (chains.raw, FILL), "corrected": (chains.corrected[CONTROLLED], COLOURS[0]),
             "by plain gradients": (chains.corrected[PLAIN], COLOURS[1]),
             "at corrected parameters": (chains.parameters, COLOURS[2])}  # fmt: skip
    common.boxes(boxes, kinds)
    common.tidy(boxes, f"log predictive density over the draws, {size:,} rows", "run", "log predictive density")
    for kind, colour in COLOUR.items():
        sizes = sorted(results)
        each = np.array([results[s].removed(kind) for s in sizes])
        shares.plot(sizes, 100 * each, "o", color=colour, markersize=3)
        shares.plot(sizes, 100 * each.mean(axis=1), color=colour, label=f"{kind} gradients")
    shares.axhline(0, color=INK, linewidth=0.6)
    shares.set(xscale="log", ylim=(-5, 105))
    common.tidy(shares, "variance removed", "rows N", "per cent")
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    common.play(__doc__, "logistic_zero_variance", run, table, check, draw, argv)


if __name__ == "__main__":
    main()
