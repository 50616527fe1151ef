"""A double well under unknown gradient noise: Figures 1 and 4 of Ding et al. (2014), sections 3 and B.

The source samples exp(-U), U(theta) = (theta+4)(theta+1)(theta-1)(theta-3)/14 + 1/2, from gradients with noise
N(0, 2B/h), B = 1, h = 0.01, and injects none of its own (A = 0). It claims that fixed friction samples right only if it
is B, which nobody knows: with xi = 10 the chain cools and sticks in one well, with xi = 0.1 it boils. The thermostat
(SGNHT) finds the kinetic energy 1/2 and the right density by itself, and 'xi quickly converges to B = 1'.

Run here: 10^6 steps of each, as in the source; fixed friction is ``SGHMC(friction=xi, noise_estimate=xi)``, which
injects nothing. The source names no start and one chain; here all start at 0, four seeds each.

What differs: xi does not converge. Its stationary law is N(A + B, 1/mu) with mu = n = 1 (the source's own section 4.2),
so its running mean goes to 1 while xi itself keeps the standard deviation 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import common
import jax
import jax.numpy as jnp
import numpy as np
from common import COLOURS, FILL, INK, Chains, Claim

import scirocco as sc

STEP_SIZE, NOISE, SEED = 0.01, 1.0, 0
MODES = {"tiny": {"steps": 5_000, "chains": 2}, "short": {"steps": 100_000, "chains": 2},
         "full": {"steps": 1_000_000, "chains": 4}}  # fmt: skip
THIN = 10
EDGES = np.linspace(-6, 5, 67)
SAMPLERS = {
    f"xi = {xi:g}": sc.SGHMC(step_size=STEP_SIZE, friction=xi, noise_estimate=xi) for xi in (1.0, 10.0, 0.1)
} | {"SGNHT": sc.SGNHT(step_size=STEP_SIZE, diffusion=0.0)}  # fmt: skip
SOURCE = {
    "xi = 1": "accurate, K about 0.5", "xi = 10": "stuck in one well, K low", "xi = 0.1": "a random walk, K too high",
    "SGNHT": "accurate, K about 0.5",
}  # fmt: skip


def potential(theta: Any) -> Any:
    """U."""
    return (theta + 4) * (theta + 1) * (theta - 1) * (theta - 3) / 14 + 0.5


def density(theta: np.ndarray) -> np.ndarray:
    """The exact density exp(-U)/Z."""
    grid = np.linspace(-12, 12, 100_001)
    return np.exp(-potential(theta)) / np.trapezoid(np.exp(-potential(grid)), grid)


def masses() -> np.ndarray:
    """The exact probability of each bin."""
    fine = np.linspace(EDGES[:-1], EDGES[1:], 101)
    return np.trapezoid(density(fine), fine, axis=0)


def run(mode: str) -> dict[str, Chains]:
    """The chains of each sampler."""
    steps, chains = MODES[mode]["steps"], MODES[mode]["chains"]
    slope = jax.grad(potential)

    def chain(sampler: Any) -> Chains:
        def step(key: Any, state: Any, data: Any) -> Any:
            noise_key, step_key = jax.random.split(key)
            noise = jnp.sqrt(2 * NOISE / STEP_SIZE) * jax.random.normal(noise_key)
            return sampler.step(step_key, state, lambda theta: slope(theta) + noise)[0]

        def init(key: Any) -> Any:
            return sampler.init(key, jnp.array(0.0))

        return common.simulate(init, step, seed=SEED, chains=chains, draws=steps // THIN, thin=THIN)

    return {name: chain(sampler) for name, sampler in SAMPLERS.items()}


def variation(chains: Chains) -> list[float]:
    """Total variation distance to the target, seed by seed."""
    return [common.total_variation(draws, EDGES, masses()) for draws in chains.position]


def table(results: dict[str, Chains]) -> str:
    """Each sampler, seed by seed, beside what the source says of it."""
    rows = [
        (name, common.spread(variation(c)), common.spread(c.kinetic.mean(1)),
         common.spread(c.friction.mean(1)) if name == "SGNHT" else "fixed", SOURCE[name])
        for name, c in results.items()
    ]  # fmt: skip
    return common.columns(("sampler", "total variation", "kinetic energy", "mean xi", "the source (Figure 1)"), rows)


def check(results: dict[str, Chains]) -> list[Claim]:
    """The source's claims; for the thermostat every seed must meet the criterion."""
    thermostat, right, cold, hot = (results[name] for name in ("SGNHT", "xi = 1", "xi = 10", "xi = 0.1"))
    kinetic, xi, tv = thermostat.kinetic.mean(1), thermostat.friction.mean(1), variation(thermostat)
    scatter = float(thermostat.friction.std())
    return [
        Claim("SGNHT holds the kinetic energy at 1/2 (0.5 +- 0.01, every seed)",
              bool(np.all(np.abs(kinetic - 0.5) < 0.01)), f"K {common.spread(kinetic, 4)}"),
        Claim("SGNHT samples the density (total variation < 0.06, every seed)",
              max(tv) < 0.06, f"TV {common.spread(tv)}; with the right friction, xi = 1: "
              f"{common.spread(variation(right))}"),
        Claim("SGNHT's mean friction finds the noise (|mean xi - B| < 0.08, every seed)",
              bool(np.all(np.abs(xi - NOISE) < 0.08)), f"mean xi {common.spread(xi)}, B = 1"),
        Claim("'xi quickly converges to B', read literally (sd of xi < 0.1)",
              scatter < 0.1, f"sd of xi {scatter:.2f}; theory: xi ~ N(1, 1). Its mean converges, xi does not"),
        Claim("friction above B cools and sticks (xi = 10: K within 15 % of B/(2 xi) = 0.05, TV > 0.3)",
              abs(cold.kinetic.mean() - 0.05) < 0.0075 and min(variation(cold)) > 0.3,
              f"K {cold.kinetic.mean():.3f}, TV {common.spread(variation(cold))}"),
        Claim("friction below B boils (xi = 0.1: K within 15 % of B/(2 xi) = 5, TV > 0.3)",
              abs(hot.kinetic.mean() - 5) < 0.75 and min(variation(hot)) > 0.3,
              f"K {hot.kinetic.mean():.2f}, TV {common.spread(variation(hot))}"),
    ]  # fmt: skip


def draw(results: dict[str, Chains], path: Path) -> None:
    """Densities above, kinetic energy in the middle (Figure 1), xi below (Figure 4)."""
    figure = common.picture(13, 8.6)
    grid = figure.add_gridspec(3, 4)
    theta = np.linspace(-7, 7, 500)
    wide = np.linspace(-8, 8, 97)
    for column, (name, chains) in enumerate(results.items()):
        colour = COLOURS[0] if name == "SGNHT" else COLOURS[1]
        axes = figure.add_subplot(grid[0, column])
        axes.fill_between(theta, density(theta), color=FILL, label="exact")
        for number, draws in enumerate(chains.position):
            label = None if number else "sampled, every seed"
            common.outline(axes, common.histogram(draws, wide), wide, colour, label)
        axes.set_ylim(0, 1.3 * axes.get_ylim()[1])
        common.tidy(axes, name, r"$\theta$", "density")
        axes = figure.add_subplot(grid[1, column])
        for draws in chains.kinetic:
            count, mean = common.running_mean(draws)
            axes.loglog(count * THIN, mean, color=colour, alpha=0.7, linewidth=1.2)
        axes.axhline(0.5, color=INK, linestyle="--", linewidth=1, label="1/2, as it must be")
        axes.set_ylim(0.03, 20)
        common.tidy(axes, "", "step", "kinetic energy, running mean", legend="upper right")
    friction = results["SGNHT"].friction
    axes = figure.add_subplot(grid[2, :3])
    pick = np.unique(np.geomspace(1, friction.shape[1], 4000).astype(int)) - 1
    axes.plot((pick + 1) * THIN, friction[0, pick], color=COLOURS[0], alpha=0.3, linewidth=0.5, label="one seed")
    for number, chain in enumerate(friction):
        count, mean = common.running_mean(chain)
        label = None if number else "running mean, every seed"
        axes.plot(count * THIN, mean, color=COLOURS[0], linewidth=1.5, label=label)
    axes.set_xscale("log")
    axes.axhline(NOISE, color=INK, linestyle="--", linewidth=1, label="B = 1")
    common.tidy(axes, r"SGNHT: the mean of $\xi$ finds B, $\xi$ itself goes on moving", "step", r"$\xi$",
                legend="upper left")  # fmt: skip
    axes = figure.add_subplot(grid[2, 3])
    xi = np.linspace(-4, 6, 300)
    axes.fill_between(xi, np.exp(-((xi - NOISE) ** 2) / 2) / np.sqrt(2 * np.pi), color=FILL, label="N(1, 1)")
    axes.hist(friction.ravel(), np.linspace(-4, 6, 81), density=True, histtype="step", color=COLOURS[0], linewidth=1.5,
              label="sampled")  # fmt: skip
    common.tidy(axes, r"the law of $\xi$", r"$\xi$", "density")
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    common.play(__doc__, "double_well", run, table, check, draw, argv)


if __name__ == "__main__":
    main()
