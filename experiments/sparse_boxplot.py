"""Small probabilities on a sparse simplex: Figure 1 of Baker et al. (2018), sections 1.3 and 2.2.

N = 1000 observations of 10 categories, counts 800, 100, 100 and seven zeros, prior 0.1: the posterior of omega_5, never
observed, is Beta(0.1, 1000.9), of which a twentieth lies below 10^-16. Each step sees 10 observations. The source
claims that SGRLD hardly ever proposes such small values, since its Euler steps are pushed off the boundary, and that
SCIR, which has no discretisation error, has no trouble with them.

Run here: 1000 draws after 1000 steps of burn-in, at the step size of Table B.5.1 of Baker's thesis (2019) with the best
d_KS for each seed, which is how ``ks_distance.py`` reads 'optimally tuned'; the exact sampler beside.

What differs: the source shows one run, and so does the picture; beside it, and in the criteria, are the draws of all
seeds together, because 1000 dependent draws leave the quantiles uncertain. The chains start at a draw from the
posterior. The source reports pictures only.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import common
import ks_distance
import numpy as np
from common import COLOURS, FILL, INK, Claim
from matplotlib.axes import Axes
from scipy import stats

import scirocco as sc

BATCH, COMPONENT = 10, 4  # the fifth of the ten
COUNTS = ks_distance.COUNTS["sparse"]
LAW = stats.beta(ks_distance.PRIOR, COUNTS.sum() + (COUNTS.size - 1) * ks_distance.PRIOR)  # omega_5
LEVELS = (0.05, 0.5, 0.95)
EXACT = np.log10(LAW.ppf(LEVELS))
MODES = {
    "tiny": {"seeds": 2, "steps": {"SCIR": (1e-1,), "SGRLD": (1e-4,)}},
    "short": {"seeds": 5, "steps": {"SCIR": (1e-1,), "SGRLD": (1e-4,)}},  # the most frequent choices
    "full": {"seeds": 20, "steps": ks_distance.STEPS},
}
METHODS = ("exact", "SCIR", "SGRLD")
COLOUR = {"exact": FILL, "SCIR": COLOURS[0], "SGRLD": COLOURS[1]}


class Draws(NamedTuple):
    """log10 omega_5 (seed, draw), and the step size of each seed."""

    logs: np.ndarray
    steps: np.ndarray


def run(mode: str) -> dict[str, Draws]:
    """The draws of each method, at the step size that suits each seed best."""
    seeds, grid = MODES[mode]["seeds"], MODES[mode]["steps"]
    exact = ks_distance.sampled(COUNTS, sc.simplex.Exact(), ks_distance.SIZE, chains=seeds)
    found = {"exact": Draws(_logs(exact.posterior["omega"].values), np.full(seeds, np.nan))}
    for method in METHODS[1:]:
        make = ks_distance.METHODS[method]
        tried = [ks_distance.sampled(COUNTS, make(h), BATCH, chains=seeds) for h in grid[method]]
        omegas = [trace.posterior["omega"].values for trace in tried]
        best = np.argmin([ks_distance.distances(omega, COUNTS) for omega in omegas], axis=0)
        logs = np.stack([_logs(omegas[k][seed]) for seed, k in enumerate(best)])
        found[method] = Draws(logs, np.array(grid[method])[best])
    return found


def _logs(omega: np.ndarray) -> np.ndarray:
    return np.log10(np.maximum(omega[..., COMPONENT], np.finfo(float).tiny))


def quantiles(draws: Draws) -> np.ndarray:
    """Those of ``LEVELS``, all seeds together."""
    return np.quantile(draws.logs, LEVELS)


def below(draws: Draws) -> float:
    """The share of the draws in the lower half of the posterior."""
    return float(np.mean(draws.logs < EXACT[1]))


def table(results: dict[str, Draws]) -> str:
    """Quantiles of log10 omega_5, all seeds together, and how they scatter from seed to seed."""
    rows = [("posterior", *(f"{q:.1f}" for q in EXACT), "", "50.0 %", "")]
    for method, draws in results.items():
        lowest = np.quantile(draws.logs, LEVELS[0], axis=1)
        steps = "" if method == "exact" else ", ".join(f"{h:g}" for h in np.unique(draws.steps)[::-1])
        rows.append((method, *(f"{q:.1f}" for q in quantiles(draws)), f"{lowest.min():.1f} to {lowest.max():.1f}",
                     f"{100 * below(draws):.1f} %", steps))  # fmt: skip
    header = ("log10 omega_5", "5 %", "50 %", "95 %", "5 %, by seed", "below the median", "best h")
    return common.columns(header, rows)


def check(results: dict[str, Draws]) -> list[Claim]:
    """The source's claims, for all seeds together; the tolerances were set from trial runs, before the full one."""
    found = {method: quantiles(draws) for method, draws in results.items()}
    off = {method: q - EXACT for method, q in found.items()}
    share = below(results["SGRLD"])

    def words(method: str) -> str:
        return f"{method} {common.spread(found[method], 1)}, posterior {common.spread(EXACT, 1)}"

    return [
        Claim("SGRLD rarely proposes small values (its 5 % quantile more than 5 orders of magnitude too high, and "
              "less than 10 % of its draws in the lower half of the posterior)",
              bool(off["SGRLD"][0] > 5 and share < 0.1), f"{words('SGRLD')}; {100 * share:.1f} % in the lower half"),
        Claim("SCIR handles small values (5, 50, 95 % quantiles within 1.5, 0.6, 0.4 of the posterior's)",
              bool(np.all(np.abs(off["SCIR"]) < (1.5, 0.6, 0.4))), words("SCIR")),
        Claim("the exact sampler, for comparison (within 1, 0.25, 0.15)",
              bool(np.all(np.abs(off["exact"]) < (1, 0.25, 0.15))), words("exact")),
    ]  # fmt: skip


def draw(results: dict[str, Draws], path: Path) -> None:
    """One run as in the source, and all seeds together."""
    figure = common.picture(11, 5)
    one, every = figure.subplots(1, 2, sharey=True)
    _boxes(one, {method: draws.logs[0] for method, draws in results.items()})
    drawn = "boxes: quartiles; whiskers: 5 % and 95 % quantiles"
    common.tidy(one, "one seed, 1000 draws (as in the source)", drawn, r"$\log_{10}\,\omega_5$", legend=None)
    _boxes(every, {method: draws.logs.ravel() for method, draws in results.items()})
    seeds = len(results["SCIR"].logs)
    common.tidy(every, f"{seeds} seeds together", drawn, "", legend="lower right")
    one.set_ylim(-40, 0)
    figure.savefig(path)


def _boxes(axes: Axes, logs: dict[str, np.ndarray]) -> None:
    """One box for each method, over lines at the quantiles of the posterior."""
    boxes = axes.boxplot(
        list(logs.values()), whis=(5, 95), widths=0.55, patch_artist=True, medianprops={"color": INK},
        flierprops={"marker": ".", "markersize": 2, "markeredgecolor": INK, "alpha": 0.15},
    )  # fmt: skip
    for box, method in zip(boxes["boxes"], logs, strict=True):
        box.set(facecolor=COLOUR[method], alpha=0.8)
    axes.set_xticks(range(1, len(logs) + 1), list(logs))
    for level, style in ((EXACT[0], ":"), (EXACT[1], "--"), (EXACT[2], ":")):
        label = {EXACT[0]: "posterior: 5 % and 95 % quantiles", EXACT[1]: "posterior: median"}.get(level)
        axes.axhline(level, color=INK, linestyle=style, linewidth=0.9, label=label, zorder=0)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    common.play(__doc__, "sparse_boxplot", run, table, check, draw, argv)


if __name__ == "__main__":
    main()
