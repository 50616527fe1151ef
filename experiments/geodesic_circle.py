"""Two bumps on a circle under gradient noise of known size: Figure 3 of Liu, Zhu and Song (2016), sections 5.1 and F.1.

The source samples exp(-U), U(x) = -log(exp(5 mu_1'x) + 2 exp(5 mu_2'x)), on the unit circle from gradients with noise
N(0, 1000 I), and tells SGGMC the variance V = 1000 I of that noise. It draws 10,000 samples with L = 30 steps of size
0.01 each, friction C = 0.1/0.01 = 10, compares histograms with bins of 0.1, GMC beside it, and sees 'no obvious
corruption of the result when using stochastic gradient'. V may also be taken as zero (section 3.3), because V h^2 is
small beside 2 C h as h goes to 0. The source runs neither this nor gSGNHT, which needs no V, on the circle.

Run here: 20 seeds of that length and 300,000 samples more, of four chains. All starts are uniform on the circle and
nothing is thrown away, since the source names no burn-in. What is reported is the total variation distance between the
histogram of the angle, 63 bins, and the exact probabilities of the bins. Of as many exact draws it is 0.026.

The noise comes from data, as it does in practice, so that chains are those of ``sc.sample``: the prior is exp(-U), row
z_i of 65,536 adds the linear term sqrt(1000) z_i'x / N to the log density, and minibatches are one row each, drawn
independently. The rows are normal vectors with their mean moved to zero and their covariance to I, exactly, so the
terms of all rows sum to nothing and the gradient of a minibatch has the covariance 1000 I exactly.

What to expect. The step adds gradient noise and injected noise at one place, so with V known both together are the
noise of an exact gradient in law. With V taken as zero there is too much by the share h V/(2 C) = 1/2: the momenta get
the temperature 3/2 and the positions, nearly, the law exp(-U/1.5). The thermostat settles at C + h V/2 = 15.

What differs: the source's 'mu_1 = -mu_2 = pi/3 (angle from +x direction)' is read as two angles, pi/3 and -pi/3. Read
as vectors, the bumps would lie opposite each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import common
import jax
import jax.numpy as jnp
import numpy as np
from common import COLOURS, FILL, INK, Claim
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

import scirocco as sc

STEP_SIZE, INNER, FRICTION, NOISE, SEED = 0.01, 30, 10.0, 1000.0, 0
ROWS = 2**16
KAPPA, ANGLES, WEIGHTS = 5.0, np.array([np.pi / 3, -np.pi / 3]), np.array([1.0, 2.0])
MU = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
HOT = 1 + STEP_SIZE * NOISE / (2 * FRICTION)  # the temperature with V taken as zero
SETTLED = FRICTION + STEP_SIZE * NOISE / 2  # of the thermostat
EDGES = np.linspace(-np.pi, np.pi, 64)
MODES: dict[str, Any] = {
    "tiny": {"draws": 200, "seeds": 2, "long": 200, "chains": 2},
    "short": {"draws": 2_000, "seeds": 4, "long": 4_000, "chains": 4},
    "full": {"draws": 10_000, "seeds": 20, "long": 75_000, "chains": 4},
}
SPHERE = sc.manifolds.Sphere()
KNOWN, ZERO, THERMOSTAT, EXACT, REFERENCE = "SGGMC, V known", "SGGMC, V = 0", "gSGNHT", "SGGMC, exact gradient", "GMC"
SAMPLERS = {
    KNOWN: sc.SGGMC(STEP_SIZE, friction=FRICTION, noise_estimate=sc.GradientNoise(NOISE), inner_steps=INNER),
    ZERO: sc.SGGMC(STEP_SIZE, friction=FRICTION, inner_steps=INNER),
    THERMOSTAT: sc.GeodesicSGNHT(STEP_SIZE, diffusion=FRICTION, inner_steps=INNER),
    EXACT: sc.SGGMC(STEP_SIZE, friction=FRICTION, inner_steps=INNER),
    REFERENCE: sc.GMC(STEP_SIZE, leapfrog_steps=INNER, jitter=0.0),
}
SOURCE = {KNOWN: "no obvious corruption", REFERENCE: "run as well"}
COLOUR = dict(zip(SAMPLERS, (COLOURS[0], COLOURS[1], COLOURS[2], INK, COLOURS[3]), strict=True))


class Run(NamedTuple):
    """Angles (chain, draw) of the seeds and of the long chains; of these the mean kinetic energy and thermostat."""

    seeds: np.ndarray
    long: np.ndarray
    kinetic: float
    thermostat: float


# The target.


def potential(x: Any) -> Any:
    """U at a point of the plane."""
    return -jax.nn.logsumexp(KAPPA * (jnp.asarray(MU, x.dtype) @ x) + jnp.log(jnp.asarray(WEIGHTS, x.dtype)))


def density(angle: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """The density of the angle, exp(-U/T)/Z."""

    def bumps(angle: np.ndarray) -> np.ndarray:
        return (WEIGHTS * np.exp(KAPPA * (np.cos(angle[..., None] - ANGLES) - 1))).sum(axis=-1) ** (1 / temperature)

    around = np.linspace(-np.pi, np.pi, 1000, endpoint=False)  # of a smooth period the mean is exact to rounding
    return bumps(np.asarray(angle)) / (2 * np.pi * bumps(around).mean())


def masses(temperature: float = 1.0) -> np.ndarray:
    """The exact probability of each bin."""
    fine = np.linspace(EDGES[:-1], EDGES[1:], 101)
    return np.trapezoid(density(fine, temperature), fine, axis=0)


def exact_draws(rng: np.random.Generator, size: int) -> np.ndarray:
    """Independent angles: the two bumps are von Mises with the same concentration."""
    return rng.vonmises(rng.choice(ANGLES, size, p=WEIGHTS / WEIGHTS.sum()), KAPPA)


def noise_rows() -> np.ndarray:
    """Normal vectors with the mean 0 and the covariance I."""
    z = np.random.default_rng(SEED).normal(size=(ROWS, 2))
    z -= z.mean(axis=0)
    return np.linalg.solve(np.linalg.cholesky(z.T @ z / ROWS), z.T).T.astype(np.float32)


def noisy() -> sc.Target:
    """exp(-U), and rows that make the gradient of a minibatch noisy."""
    scale = np.sqrt(NOISE) / ROWS
    return sc.Target(lambda x: -potential(x), lambda x, row: scale * (row @ x), noise_rows(), manifold=SPHERE)


def exact() -> sc.Target:
    """exp(-U) and one row that says nothing."""
    return sc.Target(lambda x: -potential(x), lambda x, row: row, np.zeros(1, np.float32), manifold=SPHERE)


# The runs.


def run(mode: str) -> dict[str, Run]:
    """The chains of each sampler."""
    settings = MODES[mode]
    corrupted, clean = noisy(), exact()

    def sample(name: str, chains: int, draws: int, seed: int) -> tuple[np.ndarray, Any]:
        target = clean if name in (EXACT, REFERENCE) else corrupted
        trace = sc.sample(
            target, SAMPLERS[name], lambda key: SPHERE.random(key, (2,)), num_samples=draws, burn_in=0, chains=chains,
            batch_size=1, batching=sc.batches.WithReplacement(), seed=seed, report=False, progress=False,
        )  # fmt: skip
        x = trace.posterior.theta.values.astype(np.float64)
        return np.arctan2(x[..., 1], x[..., 0]), trace.sample_stats

    def one(name: str) -> Run:
        seeds, _ = sample(name, settings["seeds"], settings["draws"], SEED)
        long, stats = sample(name, settings["chains"], settings["long"], SEED + 1)
        kinetic, thermostat = (
            float(stats[meter].mean()) if meter in stats else np.nan for meter in ("kinetic_energy", "thermostat")
        )
        return Run(seeds, long, kinetic, thermostat)

    return {name: one(name) for name in SAMPLERS}


# Measures.


def distance(angles: np.ndarray, temperature: float = 1.0) -> float:
    """The total variation of the histogram of angles from exp(-U/T)."""
    return common.total_variation(np.ravel(angles), EDGES, masses(temperature))


def each(run: Run) -> np.ndarray:
    """The distance of every seed."""
    return np.array([distance(angles) for angles in run.seeds])


def floor(run: Run) -> np.ndarray:
    """The distance of as many exact draws, as often."""
    rng = np.random.default_rng(SEED)
    return np.array([distance(exact_draws(rng, run.seeds.shape[1])) for _ in run.seeds])


def error(values: np.ndarray) -> float:
    """The standard error of a mean."""
    return float(values.std(ddof=1) / np.sqrt(values.size))


# The report.


def table(results: dict[str, Run]) -> str:
    """Each sampler beside the exact law."""
    rows = []
    for name, found in results.items():
        seeds = each(found)
        rows.append((
            name, f"{seeds.mean():.3f} ({seeds.min():.3f} to {seeds.max():.3f})", f"{distance(found.long):.3f}",
            *("" if np.isnan(value) else f"{value:.3f}" for value in (found.kinetic, found.thermostat)),
            SOURCE.get(name, "not run"),
        ))  # fmt: skip
    header = ("sampler", "total variation, seeds", "long", "kinetic", "mean xi", "the source (Figure 3)")
    found = results[KNOWN]
    return (
        f"{common.columns(header, rows)}\n{len(found.seeds)} seeds of {found.seeds.shape[1]:,} draws; long: "
        f"{found.long.size:,} draws. As many exact draws as of a seed: {floor(found).mean():.3f}; kinetic energy 0.5"
    )


def check(results: dict[str, Run]) -> list[Claim]:
    """The source's claims; the criteria are older than these runs."""
    seeds = {name: each(found) for name, found in results.items()}
    long = {name: distance(found.long) for name, found in results.items()}
    apart = seeds[KNOWN].mean() - seeds[EXACT].mean()
    doubt = float(np.hypot(error(seeds[KNOWN]), error(seeds[EXACT])))
    hot, thermostat = results[ZERO], results[THERMOSTAT]
    tempered, expected = distance(hot.long, HOT), float(np.abs(masses(HOT) - masses()).sum() / 2)

    def words(name: str) -> str:
        return f"mean of {seeds[name].size} seeds {seeds[name].mean():.3f}, long run {long[name]:.3f}"

    return [
        Claim("with V known SGGMC samples the density (mean TV of the seeds <= 0.08, of the long run <= 0.03)",
              seeds[KNOWN].mean() <= 0.08 and long[KNOWN] <= 0.03, words(KNOWN)),
        Claim("'no obvious corruption': it is as near as with the exact gradient (mean TV within 3 standard errors)",
              abs(apart) < 3 * doubt, f"apart by {apart:+.3f}, standard error {doubt:.3f}; {EXACT}: {words(EXACT)}"),
        Claim("GMC samples the density (TV of the long run <= 0.03)", long[REFERENCE] <= 0.03, words(REFERENCE)),
        Claim("V taken as zero, 'a simple way', is harmless at this step size (TV of the long run < 0.07)",
              long[ZERO] < 0.07, words(ZERO)),
        Claim("beyond the source: V taken as zero samples exp(-U/1.5) (kinetic energy 0.75 +- 0.02; TV of the long run "
              "from that law <= 0.03)",
              abs(hot.kinetic - HOT / 2) < 0.02 and tempered <= 0.03,
              f"kinetic energy {hot.kinetic:.3f}, TV from exp(-U/1.5) {tempered:.3f}; the two laws are {expected:.3f} "
              "apart"),
        Claim("gSGNHT absorbs the noise without V (mean TV of the seeds <= 0.08, of the long run <= 0.03)",
              seeds[THERMOSTAT].mean() <= 0.08 and long[THERMOSTAT] <= 0.03, words(THERMOSTAT)),
        Claim("its friction finds C + hV/2 = 15, with m = 1 the dimension of the circle, not of the plane (+- 0.5)",
              abs(thermostat.thermostat - SETTLED) < 0.5, f"mean xi {thermostat.thermostat:.2f}"),
        Claim("the momenta have their law with V known and with the thermostat (kinetic energy 0.5 +- 0.01)",
              all(abs(results[name].kinetic - 0.5) < 0.01 for name in (KNOWN, THERMOSTAT)),
              f"{results[KNOWN].kinetic:.3f} and {thermostat.kinetic:.3f}"),
    ]  # fmt: skip


def draw(results: dict[str, Run], path: Path) -> None:
    """Samples in the plane and densities of the angle as in Figure 3; below the distances and the law with V = 0."""
    figure = common.picture(12, 9)
    (plane, angle), (variation, hot) = figure.subplots(2, 2)
    _plane(plane, results[KNOWN].seeds[0])
    theta = np.linspace(-np.pi, np.pi, 500)
    angle.fill_between(theta, density(theta), color=FILL, label="exact")
    for name in (REFERENCE, EXACT, KNOWN):
        common.outline(angle, common.histogram(results[name].seeds[0], EDGES), EDGES, COLOUR[name], name)
    common.tidy(angle, f"one seed, {results[KNOWN].seeds.shape[1]:,} samples", "angle", "density", legend="upper right")
    _variation(variation, results)
    hot.fill_between(theta, density(theta), color=FILL, label="exact")
    hot.plot(theta, density(theta, HOT), color=INK, linestyle="--", linewidth=1, label="exp(-U/1.5)")
    for name in (KNOWN, ZERO, THERMOSTAT):
        shares = common.histogram(results[name].long, EDGES)
        common.outline(hot, shares, EDGES, COLOUR[name], name)
    common.tidy(hot, f"{results[KNOWN].long.size:,} samples: with V = 0 the chain is too hot", "angle", "density",
                legend="upper right")  # fmt: skip
    for axes in (angle, hot):
        axes.set_ylim(0, 0.75)
        axes.set_xticks(np.pi * np.arange(-3, 4) / 3, ["$-π$", "$-2π/3$", "$-π/3$", "$0$", "$π/3$", "$2π/3$", "$π$"])
        axes.set_xlim(-np.pi, np.pi)
    figure.savefig(path)


def _plane(axes: Axes, angles: np.ndarray) -> None:
    """The circle with 100 samples, and their histogram standing on it."""
    around, scale = np.linspace(-np.pi, np.pi, 400), 0.8
    axes.plot(np.cos(around), np.sin(around), color=INK, linewidth=0.8)
    middle = (EDGES[1:] + EDGES[:-1]) / 2
    heights = 1 + scale * common.histogram(angles, EDGES) / np.diff(EDGES)
    foot, top = (np.stack([r * np.cos(middle), r * np.sin(middle)], axis=1) for r in (1.0, heights))
    axes.add_collection(LineCollection(np.stack([foot, top], axis=1), colors=COLOURS[0], linewidths=3, alpha=0.45))
    axes.plot([], [], color=COLOURS[0], linewidth=3, alpha=0.45, label=f"{angles.size:,} samples")
    radius = 1 + scale * density(around)
    axes.plot(radius * np.cos(around), radius * np.sin(around), color=INK, linestyle="--", linewidth=1, label="exact")
    few = angles[:: angles.size // 100][:100]
    axes.plot(np.cos(few), np.sin(few), "o", color=COLOURS[1], markersize=4, alpha=0.7, label="100 of them")
    axes.set_aspect("equal")
    axes.set(xlim=(-1.5, 1.7), ylim=(-1.6, 1.5))
    common.tidy(axes, f"{KNOWN}: samples in the plane", "$x_1$", "$x_2$", legend="upper left")


def _variation(axes: Axes, results: dict[str, Run]) -> None:
    """The distances of all seeds, one row a method."""
    rng = np.random.default_rng(SEED)
    rows = {name: (each(found), distance(found.long), COLOUR[name]) for name, found in results.items()}
    rows["exact draws"] = (floor(results[KNOWN]), np.nan, "#888888")
    for place, (seeds, long, colour) in enumerate(rows.values()):
        axes.plot(seeds, place + rng.uniform(-0.18, 0.18, seeds.size), "o", color=colour, markersize=4, alpha=0.5)
        axes.plot([seeds.mean()] * 2, [place - 0.3, place + 0.3], color=colour, linewidth=2)
        axes.plot(long, place, "D", color="white", markeredgecolor=colour, markeredgewidth=1.5, markersize=7)
    axes.plot([], [], "o", color=INK, markersize=4, alpha=0.5, label="one seed")
    axes.plot([], [], "|", color=INK, markersize=12, markeredgewidth=2, label="their mean")
    axes.plot([], [], "D", color="white", markeredgecolor=INK, markeredgewidth=1.5, label="long run")
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    common.tidy(axes, "distance from the exact law", "total variation", "", legend="lower right")


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    common.play(__doc__, "geodesic_circle", run, table, check, draw, argv)


if __name__ == "__main__":
    main()
