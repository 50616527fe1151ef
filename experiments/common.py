"""What the experiments share: chains side by side, minibatches as subsets, measures of error, and the report.

An experiment is one file that always reads in the same order: what the source claims, settings, ``run``, ``table``,
``check``, ``draw``, ``main``. Its criteria were fixed before it ran. A claim that does not hold is reported as such.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.ndimage import gaussian_filter

import scirocco as sc
from scirocco.batches import Batch, Batching
from scirocco.batches.draws import Draw
from scirocco.plots import canvas

Loaded = TypeVar("Loaded")

INK, FILL = canvas.INK, canvas.BAND  # the exact density: a line, or an area behind the histograms
COLOURS = canvas.COLOURS[:4]


class Claim(NamedTuple):
    """A claim of the source, whether it holds here by its criterion, and what was measured.

    None says that this run cannot tell: of growth, with one size.
    """

    claim: str
    holds: bool | None
    evidence: str

    @property
    def outcome(self) -> str:
        """In words."""
        return "not tested" if self.holds is None else "holds" if self.holds else "FAILS"


def among_sizes(sizes: Sized, holds: object) -> bool | None:
    """What a comparison of sizes says, which one size does not make."""
    return bool(holds) if len(sizes) > 1 else None


# Chains.


class Chains(NamedTuple):
    """What chains side by side left, arrays (chain, draw): positions, kinetic energy per coordinate, friction xi."""

    position: Any
    kinetic: np.ndarray
    friction: np.ndarray


def simulate(
    init: Callable[[Any], Any], step: Callable[[Any, Any, Any], Any], data: Any = None, *,
    seed: int, chains: int, draws: int, burn_in: int = 0, thin: int = 1,
) -> Chains:  # fmt: skip
    """Run ``state = init(key)``, ``state = step(key, state, data)``; keep every ``thin``-th position.

    Kinetic energy and friction are means over the steps between two kept positions, so that thinning loses nothing.
    """

    def one(key: Any, data: Any) -> Any:
        start_key, key = jax.random.split(key)

        def record(state: Any, number: Any) -> tuple[Any, Any]:
            def advance(inner: Any, carry: Any) -> Any:
                state, total = carry
                state = step(jax.random.fold_in(key, number * thin + inner), state, data)
                return state, total + _meters(state)

            state, total = jax.lax.fori_loop(0, thin, advance, (state, jnp.zeros(2)))
            return state, (state.position, total / thin)

        return jax.lax.scan(record, init(start_key), jnp.arange(burn_in // thin + draws))[1]

    position, meters = jax.jit(jax.vmap(one, (0, None)))(jax.random.split(jax.random.key(seed), chains), data)
    position, meters = jax.tree.map(lambda a: np.asarray(a)[:, -draws:], (position, meters))
    return Chains(position, meters[..., 0], meters[..., 1])


def _meters(state: Any) -> Any:
    """Kinetic energy per coordinate and thermostat (nan if there is none)."""
    state = getattr(state, "sampler", state)
    momentum, _ = ravel_pytree(state.momentum)
    return jnp.array([jnp.mean(momentum**2) / 2, getattr(state, "thermostat", jnp.nan)])


def simulate_posterior(target: sc.Target, sampler: Any, initial: Any, *, batch_size: int, **settings: Any) -> Chains:
    """Chains of ``sc.kernel`` on random subsets; ``sc.sample`` would do, but keeps no momenta and no thermostat."""
    kernel = sc.kernel(target, sampler, batch_size=batch_size, batching=Subsets())
    start = kernel.init(jax.random.key(0), initial)
    return simulate(
        lambda key: start._replace(sampler=sampler.init(key, start.position)),
        lambda key, state, data: kernel.program.transition(key, state, data)[0],
        kernel.data_at(0), **settings,
    )  # fmt: skip


@dataclass(frozen=True)
class Subsets(Batching):
    """Minibatches as the sources mean them: a uniformly random subset of the rows, independent from step to step.

    No row comes twice in a minibatch, so the gradient noise has V = (N^2/n)(1 - n/N) s^2. The library's own draws
    trade this for speed: on small data ``RandomBlocks`` joins independent rows, as ``WithReplacement`` does.
    """

    def bind(self, total: int, resident: int, batch_size: int, order: Any, ring: bool) -> _Subsets:
        """Fix the sizes."""
        return _Subsets(total, batch_size)


@dataclass(frozen=True)
class _Subsets(Draw):
    total: int
    batch_size: int

    def draw(self, key: Any, state: tuple[()], count: Any, data: Any) -> tuple[tuple[()], Batch]:
        """The rows with the largest of ``total`` random numbers."""
        indices = jax.lax.top_k(jax.random.uniform(key, (self.total,)), self.batch_size)[1]
        rows = jax.tree.map(lambda a: a[indices], data)
        return state, Batch(rows, jnp.float32(self.total / self.batch_size), indices)


# Measures.


def histogram(draws: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The share of the draws in each bin; the rest lies outside."""
    return np.histogram(draws, edges)[0] / draws.size


def total_variation(draws: np.ndarray, edges: np.ndarray, exact: np.ndarray) -> float:
    """Between a histogram and the exact probabilities of its bins, everything outside taken as one more bin."""
    shares = histogram(draws, edges)
    return float((np.abs(shares - exact).sum() + abs(shares.sum() - exact.sum())) / 2)


def density_rmse(draws: np.ndarray, edges: np.ndarray, exact: np.ndarray) -> float:
    """The root mean square, over bins, of the error of the histogram as a density."""
    return float(np.sqrt(np.mean(((histogram(draws, edges) - exact) / np.diff(edges)) ** 2)))


def autocorrelation_time(draws: np.ndarray, window: float = 5.0) -> float:
    """1 + 2 sum rho_k in steps, summed up to the first lag M >= ``window`` tau(M) (Sokal)."""
    centred = np.asarray(draws, np.float64) - np.mean(draws, dtype=np.float64)
    spectrum = np.abs(np.fft.rfft(centred, 2 * centred.size)) ** 2
    covariance = np.fft.irfft(spectrum)[: centred.size]
    tau = 2 * np.cumsum(covariance / covariance[0]) - 1
    wide = np.arange(tau.size) >= window * tau
    return float(tau[np.argmax(wide)] if wide.any() else tau[-1])


def running_mean(values: np.ndarray, points: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the first k values at ``points`` counts k, evenly spread on a log scale: (k, mean)."""
    counts = np.unique(np.geomspace(1, values.size, points).astype(int))
    return counts, np.cumsum(values, dtype=np.float64)[counts - 1] / counts


# The report.


def data_set(load: Callable[..., Loaded], *given: Any) -> Loaded:
    """Real data for the full mode, or the end of the program with a word on where to get them."""
    try:
        return load(*given)
    except FileNotFoundError as error:
        sys.exit(f"full mode needs real data: {error}")


def play(
    description: str, name: str, run: Callable[[str], Any], table: Callable[[Any], str],
    check: Callable[[Any], list[Claim]], draw: Callable[[Any, Path], None], argv: Sequence[str] | None,
) -> None:  # fmt: skip
    """The whole of an experiment from the command line: run, print the table and the claims, write picture and result.

    The result, ``NAME.json``, is what the documentation shows and quotes: those of the repository are in
    ``experiments/results``.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = ("tiny", "short", "full")
    parser.add_argument("--mode", choices=modes, default="full", help="full is as long as its docstring says")
    parser.add_argument("--output", type=Path, default=Path("results"), help="the folder for the picture")
    options = parser.parse_args(argv)
    start = time.perf_counter()
    results = run(options.mode)
    printed, claims = table(results), check(results)
    print(f"{description.splitlines()[0]}\n\n{printed}\n")
    if options.mode != "full":
        print("A shorter mode: the criteria are those of the full length and may fail for lack of draws.\n")
    for claim in claims:
        print(f"[{claim.outcome}] {claim.claim}\n        {claim.evidence}")
    options.output.mkdir(parents=True, exist_ok=True)
    picture = options.output / f"{name}.png"
    draw(results, picture)
    seconds = time.perf_counter() - start
    arguments = re.sub(r"--output[ =]\S+", "", " ".join(sys.argv[1:])).split()
    result = {
        "title": description.splitlines()[0],
        "command": " ".join([f"python experiments/{name}.py", *arguments]),
        "mode": options.mode,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "seconds": round(seconds),
        "versions": {package: version(package) for package in ("scirocco", "jax", "numba", "numpy")},
        "table": printed,
        "commit": _commit(),
        "settings": {name: str(value) for name, value in sys.modules[check.__module__].MODES[options.mode].items()},
        "claims": [
            {"claim": c.claim, "holds": None if c.holds is None else bool(c.holds), "evidence": c.evidence}
            for c in claims
        ],
    }
    (options.output / f"{name}.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    print(f"\nPicture: {picture} ({seconds:.0f} s in all)")


def _commit() -> str | None:
    """The commit of the repository that this runs in, with a + if files have changed since; None without one."""

    def git(*arguments: str) -> str:
        asked = ["git", "-C", str(Path(__file__).parent), *arguments]
        return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(exclude)results")
        return git("rev-parse", "--short=12", "HEAD") + "+" * bool(changed)
    except (OSError, subprocess.CalledProcessError):
        return None


def columns(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table in plain text, numbers with four digits."""
    cells = [list(header), *([f"{c:.4g}" if isinstance(c, float) else str(c) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = ["  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
             for row in cells]  # fmt: skip
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def spread(values: Sequence[float], digits: int = 3) -> str:
    """The values of the seeds, side by side."""
    return "/".join(f"{v:.{digits}f}" for v in values)


def outline(axes: Axes, shares: np.ndarray, bins: np.ndarray, colour: str, label: str | None) -> None:
    """A histogram as a density, without its area."""
    axes.stairs(shares / np.diff(bins), bins, baseline=None, color=colour, linewidth=1.2, label=label)
    axes.set_ylim(bottom=0)


def boxes(axes: Axes, kinds: dict[str, tuple[Sequence[np.ndarray], str]]) -> None:
    """Box plots side by side for each run; ``kinds`` has the values of all runs and a colour by label."""
    for number, (label, (values, colour)) in enumerate(kinds.items()):
        places = np.arange(len(values)) + 0.8 * ((number + 0.5) / len(kinds) - 0.5)
        made = axes.boxplot(list(values), positions=places, widths=0.6 / len(kinds), patch_artist=True,
                            manage_ticks=False, flierprops={"markersize": 1.5, "markeredgewidth": 0.3},
                            medianprops={"color": INK})  # fmt: skip
        for box in made["boxes"]:
            box.set(facecolor=colour, linewidth=0.6)
        made["boxes"][0].set_label(label)
        axes.set_xticks(range(len(values)), [str(1 + i) for i in range(len(values))])


def contours(axes: Axes, draws: np.ndarray, bins: tuple[np.ndarray, np.ndarray], colour: str) -> None:
    """Of a smoothed histogram of draws of the plane, at 10 to 90 % of its maximum."""
    density = gaussian_filter(np.histogram2d(*draws.T, bins)[0], 1.5)
    middle = [(edges[1:] + edges[:-1]) / 2 for edges in bins]
    axes.contour(*middle, density.T, levels=density.max() * np.array([0.1, 0.3, 0.5, 0.7, 0.9]), colors=colour,
                 linewidths=1)  # fmt: skip


def tidy(axes: Axes, title: str, x: str, y: str, *, legend: str | None = "best") -> None:
    """Labels, a light grid and no box."""
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    if legend:
        axes.legend(loc=legend, fontsize=8, frameon=False)


def picture(width: float, height: float) -> Figure:
    """An empty figure that needs no display."""
    return Figure(figsize=(width, height), dpi=150, layout="constrained")
