"""Distance from a Dirichlet posterior against the size of the minibatch: Figure 2 of Baker et al. (2018), section 2.2.

N = 1000 observations of 10 categories under a Dirichlet(0.1) prior. Sparse: counts 800, 100, 100 and seven zeros (the
'running experiment' of section 1.3). Dense: about 100 in each category, the posterior of Baker's thesis (2019, Appendix
B.5). Each step sees n of the N. The measure d_KS is the Kolmogorov-Smirnov distance of 1000 draws, after 1000 steps of
burn-in, averaged over the nine coordinates of Rosenblatt's transform. The source claims that on the sparse posterior
SCIR is much better than SGRLD and approaches the exact sampler as n grows, and that on the dense one the two are alike.

Run here: five seeds, and for each the best step size of Table B.5.1 of the thesis, as in the source. Table and plots
name SGRLD's step size by the source's h, which is twice that of ``sc.SGRLD``. Control variates (Barile and Nemeth, the
form of their appendix) run beside the two, on the step sizes of SCIR.

What differs: the source names no start. Here the chains start at a draw from the posterior; with a start from equal
weights or from the prior the best distances moved by less than 0.03. And one should not read too much into the best of
7 or 8 runs, chosen by the very distance that is then shown: it flatters. The exact sampler is therefore shown both as
one run and as the best of seven; 'as good as exact' would be the latter. The source reports pictures only.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import common
import numpy as np
from common import COLOURS, FILL, INK, Claim

import scirocco as sc

PRIOR, SEED = 0.1, 0
COUNTS = {
    "sparse": np.array([800, 100, 100, 0, 0, 0, 0, 0, 0, 0]),
    "dense": np.array([112, 119, 92, 98, 95, 96, 102, 92, 91, 103]),
}
SIZE = 1000
STEPS = {  # Table B.5.1
    "SCIR": (1.0, 5e-1, 1e-1, 5e-2, 1e-2, 5e-3, 1e-3),
    "SGRLD": (5e-1, 1e-1, 5e-2, 1e-2, 5e-3, 1e-3, 5e-4, 1e-4),
}
STEPS["SCIR-CV"] = STEPS["SCIR"]
SHORT = {"SCIR": (5e-1, 5e-2), "SGRLD": (1e-4,), "SCIR-CV": (5e-1,)}  # close to the best of the full mode
MODES = {
    "tiny": {"sizes": (10, 100), "seeds": 2, "steps": SHORT},
    "short": {"sizes": (10, 100), "seeds": 3, "steps": SHORT},
    "full": {"sizes": (1, 5, 10, 50, 100, 500), "seeds": 5, "steps": STEPS},
}
METHODS = {
    "SCIR": sc.SCIR,
    "SCIR-CV": lambda h: sc.SCIRCV(h, form="alternative"),
    "SGRLD": lambda h: sc.SGRLD(h / 2),  # the source moves by (h/2) drift + sqrt(h theta) noise
}
EXACT, REPEATS = "exact", 7
COLOUR = {"SCIR": COLOURS[0], "SGRLD": COLOURS[1], "SCIR-CV": COLOURS[2]}


class Distances(NamedTuple):
    """d_KS of every step size (rows) and seed (columns)."""

    steps: tuple[float, ...]
    values: np.ndarray

    @property
    def best(self) -> np.ndarray:
        """At the best step size of each seed."""
        return self.values.min(axis=0)

    @property
    def median(self) -> float:
        """Of the best, over the seeds."""
        return float(np.median(self.best))

    @property
    def chosen(self) -> float:
        """The step size that is the best most often."""
        return self.steps[int(np.bincount(self.values.argmin(axis=0)).argmax())]


Results = dict[tuple[str, str, int], Distances]  # by posterior, method and minibatch size


def sampled(
    counts: np.ndarray, sampler: Any, batch_size: int, *, chains: int, draws: int = 1000, burn_in: int = 1000
) -> Any:
    """The trace of ``sc.sample_dirichlet``: omega (chain, draw, category) from codes with these counts."""
    codes = np.repeat(np.arange(counts.size), counts)
    return sc.sample_dirichlet(
        codes, PRIOR, sampler, batch_size=batch_size, num_samples=draws, burn_in=burn_in, categories=counts.size,
        chains=chains, seed=SEED, lazy=False, progress=False,
    )  # fmt: skip


def distances(omega: np.ndarray, counts: np.ndarray) -> list[float]:
    """d_KS of each chain."""
    return [sc.diagnostics.ks_distance(draws, PRIOR + counts) for draws in omega]


def run(mode: str) -> Results:
    """Each method at each minibatch and step size; the exact sampler seven times for each seed."""
    sizes, seeds, grid = (MODES[mode][name] for name in ("sizes", "seeds", "steps"))
    found = {}
    for target, counts in COUNTS.items():
        for method, make in METHODS.items():
            for n in sizes:
                traces = (sampled(counts, make(h), n, chains=seeds) for h in grid[method])
                values = np.array([distances(trace.posterior["omega"].values, counts) for trace in traces])
                found[target, method, n] = Distances(grid[method], values)
        exact = sampled(counts, sc.simplex.Exact(), SIZE, chains=REPEATS * seeds, burn_in=0)
        values = np.array(distances(exact.posterior["omega"].values, counts)).reshape(REPEATS, seeds)
        found[target, EXACT, SIZE] = Distances((), values)
    return found


def sizes(results: Results) -> list[int]:
    """The minibatch sizes that were run."""
    return [n for target, method, n in results if (target, method) == ("sparse", "SCIR")]


def once(exact: Distances) -> float:
    """The median of single exact runs, which nobody chose."""
    return float(np.median(exact.values))


def table(results: Results) -> str:
    """The median [smallest, largest] of the seeds, and the step size that was the best most often."""
    rows = []
    for target in COUNTS:
        for n in sizes(results):
            cells = []
            for method in METHODS:
                here = results[target, method, n]
                cells += [f"{here.median:.3f} [{here.best.min():.3f}, {here.best.max():.3f}]", f"{here.chosen:g}"]
            rows.append((target, n, *cells, f"{ratio(results, target, n):.2f}"))
    header = ("posterior", "n", *(cell for method in METHODS for cell in (f"d_KS of {method}", "best h")), "SGRLD/SCIR")
    exact = ", ".join(
        f"{once(found):.3f} ({target}; best of {REPEATS}: {found.median:.3f})"
        for (target, method, _), found in results.items() if method == EXACT
    )  # fmt: skip
    return (
        f"{common.columns(header, rows)}\nexact sampler, one run: {exact}\n"
        "The others are the best of their step sizes, which flatters: compare them with the best of the exact runs too."
    )


def ratio(results: Results, target: str, n: int) -> float:
    """SGRLD's distance over SCIR's."""
    return results[target, "SGRLD", n].median / results[target, "SCIR", n].median


def check(results: Results) -> list[Claim]:
    """The source's claims, with criteria fixed beforehand for the median of five seeds."""
    ran = sizes(results)
    exact = {target: once(results[target, EXACT, SIZE]) for target in COUNTS}

    def within(target: str, method: str, limits: dict[int, float]) -> tuple[bool, str]:
        found = {n: results[target, method, n].median for n in limits if n in ran}
        words = ", ".join(f"{d:.3f} <= {limits[n]:.3f} (n = {n})" for n, d in found.items())
        return all(d <= limits[n] for n, d in found.items()), words

    def listed(values: dict[int, float], digits: int) -> str:
        return ", ".join(f"{value:.{digits}f} (n = {n})" for n, value in values.items())

    sparse, dense = ({n: ratio(results, target, n) for n in ran} for target in ("sparse", "dense"))
    floor = {n: results["sparse", "SGRLD", n].median for n in ran}
    near, far = (within(target, "SCIR", limits) for target, limits in (
        ("sparse", {10: 0.11, 100: 0.070, 500: 0.045}), ("dense", {10: 0.24, 100: 0.11, 500: 0.065})))  # fmt: skip
    controlled = [within(target, "SCIR-CV", limits) for target, limits in (
        ("sparse", {10: 0.045, 100: 0.040, 500: 0.040}), ("dense", {10: 0.070, 100: 0.045}))]  # fmt: skip
    return [
        Claim("sparse: SCIR is much better than SGRLD (SGRLD's d_KS at least 3 times SCIR's for n >= 10)",
              all(r >= 3 for n, r in sparse.items() if n >= 10), f"SGRLD/SCIR {listed(sparse, 1)}"),
        Claim("sparse: larger minibatches do not rescue SGRLD (d_KS >= 0.33 at every n)",
              all(d >= 0.33 for d in floor.values()), f"d_KS {listed(floor, 3)}"),
        Claim("sparse: SCIR converges towards the exact sampler as n grows",
              near[0], f"d_KS {near[1]}; exact, one run {exact['sparse']:.3f}"),
        Claim("dense: SCIR and SGRLD are alike (SGRLD/SCIR between 0.7 and 1.7 for n >= 10)",
              all(0.7 <= r <= 1.7 for n, r in dense.items() if n >= 10), f"SGRLD/SCIR {listed(dense, 2)}"),
        Claim("dense: SCIR converges towards the exact sampler as n grows",
              far[0], f"d_KS {far[1]}; exact, one run {exact['dense']:.3f}"),
        Claim("beyond the source: with control variates small minibatches do (sparse, then dense)",
              all(holds for holds, _ in controlled), f"d_KS {'; '.join(words for _, words in controlled)}"),
        Claim("the measure itself: one run of 1000 exact draws has d_KS between 0.022 and 0.034",
              all(0.022 <= d <= 0.034 for d in exact.values()),
              ", ".join(f"{d:.4f} ({target})" for target, d in exact.items())),
    ]  # fmt: skip


def draw(results: Results, path: Path) -> None:
    """One panel for each posterior: every seed a point, the median a line."""
    figure = common.picture(12, 5)
    panels = figure.subplots(1, 2, sharey=True)
    shares = np.array(sizes(results)) / SIZE
    for axes, target, name in zip(panels, COUNTS, "ab", strict=True):
        exact = results[target, EXACT, SIZE]
        axes.axhspan(*np.quantile(exact.values, (0.05, 0.95)), color=FILL, label="exact, one run (5 to 95 %)")
        axes.axhline(exact.median, color=INK, linestyle=":", linewidth=1, label=f"exact, best of {REPEATS} runs")
        for method in ("SGRLD", "SCIR", "SCIR-CV"):
            found = [results[target, method, n] for n in sizes(results)]
            axes.plot(shares, [f.median for f in found], color=COLOUR[method], linewidth=1.5, label=method)
            for share, f in zip(shares, found, strict=True):
                axes.plot(np.full(f.best.size, share), f.best, "o", color=COLOUR[method], markersize=3.5, alpha=0.5)
        axes.set(xscale="log", yscale="log", ylim=(0.02, 0.6))
        axes.set_yticks((0.02, 0.05, 0.1, 0.2, 0.5), ("0.02", "0.05", "0.1", "0.2", "0.5"), minor=False)
        axes.set_xticks(shares, [f"{share:g}" for share in shares])
        axes.minorticks_off()
        common.tidy(axes, f"({name}) {target} posterior", "share of the data in a minibatch",
                    "$d_{KS}$ at the best step size", legend=None)  # fmt: skip
    panels[1].set_ylabel("")
    panels[1].legend(fontsize=8, frameon=False, loc="upper right")
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    common.play(__doc__, "ks_distance", run, table, check, draw, argv)


if __name__ == "__main__":
    main()
