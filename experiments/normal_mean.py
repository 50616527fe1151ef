"""The mean of a normal from minibatches: Figure 2 (plots 1 to 3) and Figure 5 of Ding et al. (2014), section 5.1.

N = 100 examples from N(0, 1), likelihood N(x_i | mu, 1), an improper uniform prior: the posterior is N(mean x, 1/N).
Each step sees 10 examples. The source claims that SGNHT samples this for every step size h in {0.01, 0.001} and
diffusion A in {1, 10}, because xi absorbs the noise of the gradient; that SGHMC without an estimate of that noise does
so only when h is small and A large; and that the kinetic energy shows it.

Run here: 10^6 draws of each, as in the source. 'Randomly select 10 examples', 'a random subset', is read as it stands:
10 different rows, uniformly, independent from step to step. So the gradient has the variance V = (N^2/n)(1 - n/N) s^2,
and xi settles near A + hV/2; with Euler's steps closer to the root of xi (1 - h xi/2) = A + hV/2, the column 'Euler'.
What SGHMC does is known exactly on this target: its linear recursion gives the standard deviation in the column 'law'
(``stationary_variance`` of the sampler).

What differs: the source's data is not published, so the posterior is that of another 100 numbers; 10^4 steps of burn-in
(the source names none); three seeds. The source reports pictures only, so its column holds words.
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
from matplotlib.axes import Axes

import scirocco as sc

SIZE, BATCH, SEED = 100, 10, 0
SETTINGS = ((0.01, 1.0), (0.01, 10.0), (0.001, 1.0), (0.001, 10.0))  # (h, A)
MODES = {  # short runs leave out h = 0.001, where so few steps say nothing
    "tiny": {"draws": 2_000, "burn_in": 100, "chains": 2},
    "short": {"draws": 50_000, "burn_in": 1_000, "chains": 2},
    "full": {"draws": 1_000_000, "burn_in": 10_000, "chains": 3},
}
METHODS = {
    "SGNHT": lambda h, a: sc.SGNHT(step_size=h, diffusion=a),
    "SGHMC": lambda h, a: sc.SGHMC(step_size=h, friction=a),
}
SAFE = (0.001, 10.0)  # the only setting at which the source finds SGHMC accurate

X = np.random.default_rng(SEED).normal(size=SIZE)
CENTRE, SD = X.mean(), SIZE**-0.5
NOISE = SIZE**2 / BATCH * (1 - BATCH / SIZE) * X.var(ddof=1)  # V

Results = dict[tuple[str, float, float], Chains]


def run(mode: str) -> Results:
    """The chains of each method at each setting."""
    target = sc.Target(lambda mu: jnp.zeros(()), lambda mu, x: -((x - mu) ** 2) / 2, X.astype(np.float32))
    return {
        (method, h, a): common.simulate_posterior(
            target, make(h, a), jnp.array(0.0), batch_size=BATCH, seed=SEED, **MODES[mode]
        )
        for method, make in METHODS.items()
        for h, a in SETTINGS[: 2 if mode != "full" else 4]
    }


def settings(results: Results) -> list[tuple[float, float]]:
    """The (h, A) that were run."""
    return [(h, a) for method, h, a in results if method == "SGNHT"]


def deviation(chains: Chains) -> np.ndarray:
    """The standard deviation of mu, seed by seed."""
    return chains.position.std(axis=1, dtype=np.float64)


def law(h: float, a: float) -> float:
    """The standard deviation that SGHMC has on this target, from its linear recursion."""
    sampler = METHODS["SGHMC"](h, a)
    state = sampler.init(jax.random.key(0), jnp.array(0.0))
    return float(np.sqrt(sampler.stationary_variance(state, np.array(float(SIZE)), np.array(NOISE))))


def settled(h: float, a: float) -> float:
    """Where the mean of xi settles: the root of xi (1 - h xi/2) = A + h V/2."""
    return float((1 - np.sqrt(1 - 2 * h * (a + h * NOISE / 2))) / h)


def table(results: Results) -> str:
    """Each run beside the exact posterior, the theory and the source's words."""
    rows = []
    for (method, h, a), chains in results.items():
        xi = (chains.friction.mean(), a + h * NOISE / 2, settled(h, a)) if method == "SGNHT" else ()
        rows.append((
            method, h, a, common.spread(deviation(chains), 4), "" if method == "SGNHT" else f"{law(h, a):.4f}",
            f"{chains.kinetic.mean():.4f}", *([f"{x:.2f}" for x in xi] or [""] * 3),
            "accurate" if method == "SGNHT" or (h, a) == SAFE else "not accurate",
        ))  # fmt: skip
    header = ("method", "h", "A", "sd of mu", "law", "kinetic", "mean xi", "A + hV/2", "Euler", "the source (Figure 2)")
    return f"{common.columns(header, rows)}\nexact: sd {SD:.4f}, kinetic energy 0.5; V = {NOISE:.1f}"


def check(results: Results) -> list[Claim]:
    """The source's claims, with criteria fixed beforehand."""
    ran = settings(results)
    sds = {key: deviation(chains) for key, chains in results.items()}
    kinetic = {key: float(chains.kinetic.mean()) for key, chains in results.items()}
    friction = {(h, a): float(results["SGNHT", h, a].friction.mean()) for h, a in ran}
    theory = {(h, a): a + h * NOISE / 2 for h, a in ran}
    unsafe = [setting for setting in ran if setting != SAFE]
    wrong = [(h, a) for h, a in ran if abs(sds["SGHMC", h, a].mean() / SD - 1) > 0.06]
    hot = [(h, a) for h, a in ran if abs(kinetic["SGHMC", h, a] - 0.5) > 0.05]
    ratios = [float(sds["SGHMC", h, a].mean() / law(h, a)) for h, a in ran]

    def listed(values: dict[tuple[str, float, float], Any], method: str) -> str:
        return ", ".join(f"{np.mean(values[method, h, a]):.4f} (h {h:g}, A {a:g})" for h, a in ran)

    return [
        Claim("SGNHT samples accurately at every setting (sd within 6 % of 0.1, every seed)",
              all(np.all(np.abs(sds["SGNHT", h, a] / SD - 1) < 0.06) for h, a in ran), f"sd {listed(sds, 'SGNHT')}"),
        Claim("SGHMC is accurate only when h is small and A large (mean sd beyond 6 % at every other setting)",
              wrong == unsafe, f"sd {listed(sds, 'SGHMC')}"),
        Claim("SGHMC at h = 0.01, A = 1 is more than twice too wide (sd > 0.2, every seed)",
              bool(np.all(sds["SGHMC", 0.01, 1.0] > 0.2)), f"sd {common.spread(sds['SGHMC', 0.01, 1.0], 4)}"),
        Claim("beyond the source: SGHMC's sd is that of its linear recursion (within 3 %)",
              max(abs(ratio - 1) for ratio in ratios) < 0.03, f"sd / law {common.spread(ratios)}"),
        Claim("xi absorbs the noise: its mean is near A + hV/2 (within 10 %)",
              all(abs(friction[s] / theory[s] - 1) < 0.1 for s in ran),
              ", ".join(f"{friction[s]:.2f} (theory {theory[s]:.2f})" for s in ran)),
        Claim("SGNHT keeps the kinetic energy at 1/2 (0.5 +- 0.01)",
              all(abs(kinetic["SGNHT", h, a] - 0.5) < 0.01 for h, a in ran), f"K {listed(kinetic, 'SGNHT')}"),
        Claim("SGHMC's kinetic energy is right only when h is small and A large (beyond 0.5 +- 0.05 at every other)",
              hot == unsafe, f"K {listed(kinetic, 'SGHMC')}"),
    ]  # fmt: skip


def draw(results: Results, path: Path) -> None:
    """Densities of both methods, xi (Figure 2) and kinetic energy (Figure 5)."""
    figure = common.picture(12, 8)
    density, other, friction, kinetic = figure.subplots(2, 2).ravel()
    _densities(density, results, "SGNHT")
    _densities(other, results, "SGHMC")
    other.sharey(density)
    for colour, (h, a) in zip(COLOURS, settings(results), strict=False):
        count, mean = common.running_mean(results["SGNHT", h, a].friction[0])
        friction.semilogx(count, mean, color=colour, label=f"h = {h:g}, A = {a:g}")
        friction.axhline(settled(h, a), color=colour, linestyle=":", linewidth=1)
        for method, style in (("SGNHT", "-"), ("SGHMC", "--")):
            count, mean = common.running_mean(results[method, h, a].kinetic[0])
            label = f"{method}, h = {h:g}, A = {a:g}"
            kinetic.loglog(count, mean, color=colour, linestyle=style, linewidth=1.2, label=label)
    friction.plot([], [], color=INK, linestyle=":", label="theory")
    kinetic.axhline(0.5, color=INK, linewidth=0.8)
    kinetic.set(xlim=(100, None), ylim=(0.25, 10))
    friction.set(xlim=(100, None), ylim=(0, 22))
    common.tidy(friction, r"SGNHT: $\xi$ absorbs the noise (after burn-in)", "step", r"running mean of $\xi$",
                legend=None)  # fmt: skip
    friction.legend(fontsize=8, frameon=False, ncols=3, loc="upper left")
    common.tidy(kinetic, "kinetic energy: 1/2 is right (after burn-in)", "step", "running mean of $p^2/2$", legend=None)
    kinetic.legend(fontsize=7, frameon=False, ncols=2, loc="upper right")
    figure.savefig(path)


def _densities(axes: Axes, results: Results, method: str) -> None:
    mu, edges = np.linspace(CENTRE - 0.6, CENTRE + 0.6, 400), np.linspace(CENTRE - 0.6, CENTRE + 0.6, 81)
    exact = np.exp(-(((mu - CENTRE) / SD) ** 2) / 2) / (SD * np.sqrt(2 * np.pi))
    axes.fill_between(mu, exact, color=FILL, label="exact")
    for colour, (h, a) in zip(COLOURS, settings(results), strict=False):
        shares = common.histogram(results[method, h, a].position, edges)
        common.outline(axes, shares, edges, colour, f"h = {h:g}, A = {a:g}")
    common.tidy(axes, f"{method}: density of $\\mu$", r"$\mu$", "density", legend="upper right")


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    common.play(__doc__, "normal_mean", run, table, check, draw, argv)


if __name__ == "__main__":
    main()
