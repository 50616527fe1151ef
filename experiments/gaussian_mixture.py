"""A mixture of two normals by the six samplers of sgmcmc: Figure 4.6.1 of Baker's thesis (2019), section 4.6.1.

N = 1,000 points of the plane, half of them from N(theta_1, I) and half from N(theta_2, I), priors N(0, 10 I) on both
means; minibatches of 100. The labels can be exchanged, so the posterior of theta_1 has two components, and the source
looks at how the samplers explore them. SGLD, SGHMC and SGNHT run 10^4 iterations after 10^4 of burn-in from a point of
N(0, I); their versions with control variates (CV) run 10^4 iterations from a centre that 10^4 steps of stochastic
gradient descent found; SGHMC makes 5 gradient steps an iteration and a fifth of the iterations. Against them stands a
full-data NUTS as the truth. The source claims that SGLD explores both components best, though it over-estimates the
uncertainty; that SGHMC explores both, unevenly; that SGNHT collapses to a mode; that the CV methods do not explore both
components; that of these SGLD-CV is the best and over-estimates the uncertainty of one, and that SGNHT-CV collapses.

Step sizes are those of the thesis: its SGLD moves by epsilon/2 times the gradient, h = epsilon/2 here; its SGHMC and
SGNHT have h = sqrt(epsilon), friction or diffusion 0.01/sqrt(epsilon). See ``six_samplers_logistic.py``.

Two things of the thesis are read as in the authors' scripts (jackcbaker/sgmcmc-simulations on GitHub). The points come
from means (0, 0) and (0.5, 0.5); the thesis prints (0.1, 0.1), where the posterior of theta_1 has one component.
Full mode runs NUTS on both. And the CV chains share one centre, as those of the source share one seed.

Run here besides, since a first run showed chains to diverge. SGLD-CV 'in turn' moves theta_2 at the new theta_1, as the
package does. The step of SGLD-CV is stable only like that: if both move at once, h times the largest curvature, near
N/2, is 2.5, and Euler's steps need 2. And 'SGNHT-CV, 0.001' has the epsilon of the scripts; the thesis prints 0.003.

What differs: 20 chains of each method in place of one, because one chain says little on how often it crosses. NUTS is
BlackJAX's in double precision in place of Stan's, 4 chains of 5,000 draws, made symmetric by exchanging labels. One
thermostat serves all four coordinates, where the package has one for each mean. The prior has variance 10 for all; the
scripts give their samplers 100 and Stan 10. A chain that diverges is 'lost'. Short mode has 4 chains and a twentieth of
the iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import blackjax
import common
import jax
import jax.numpy as jnp
import numpy as np
from common import COLOURS, INK, Claim
from six_samplers_logistic import COLOUR, CONTROLLED, IN_TURN, METHODS, PLAIN, cost, descend, follow

import scirocco as sc

SMALLER = "SGNHT-CV, 0.001"
SIZE, BATCH, PRIOR, APART, PRINTED = 1_000, 100, 10.0, 0.5, 0.1
STEPS = {"SGLD": 5e-3, "SGHMC": 5e-4, "SGNHT": 3e-4, "SGLD-CV": 1e-2, "SGHMC-CV": 1.5e-3, "SGNHT-CV": 3e-3,
         IN_TURN: 1e-2, SMALLER: 1e-3, "descent": 5e-5}  # fmt: skip
MODES: dict[str, Any] = {
    "tiny": {"iterations": 60, "chains": 2, "draws": 60, "references": 1},
    "short": {"iterations": 500, "chains": 4, "draws": 1_000, "references": 1},
    "full": {"iterations": 10_000, "chains": 20, "draws": 5_000, "references": 4},
}
EVERY = (*METHODS, IN_TURN, SMALLER)
LINE = np.full(2, 0.5**0.5)  # through the two means
EDGES, BINS = np.linspace(-1.0, 1.5, 26), np.linspace(-1.2, 1.7, 88)


class Results(NamedTuple):
    """Draws (chain, draw, mean, coordinate) of each method and of NUTS; those of NUTS for the means as printed."""

    draws: dict[str, np.ndarray]
    truth: np.ndarray
    printed: np.ndarray | None

    def each(self, method: str, measure: Callable[[np.ndarray], float], lost: float = np.nan) -> np.ndarray:
        """A measure of every chain; ``lost`` for those that diverged."""
        return np.array([measure(chain) if np.isfinite(chain).all() else lost for chain in self.draws[method]])

    def crossed(self, method: str) -> np.ndarray:
        """The share of draws in the component that each chain visits less."""
        return self.each(method, lesser)

    def variation(self, method: str) -> np.ndarray:
        """The total variation of theta_1 in each chain from the truth, on squares of side 0.1."""
        return self.each(method, lambda chain: distance(chain[:, 0], everyone(self.truth)), 1.0)

    def widths(self, method: str) -> np.ndarray:
        """How wide the lower component is in each chain, in units of the truth's width."""
        return self.each(method, width) / width(self.truth.reshape(-1, 2, 2))

    def extent(self, method: str) -> np.ndarray:
        """The sd of theta_1 along the line in each chain, in units of the truth's."""
        return self.each(method, lambda chain: (chain[:, 0] @ LINE).std()) / (everyone(self.truth) @ LINE).std()


def points(apart: float) -> np.ndarray:
    """The data."""
    rng = np.random.default_rng(2)
    return (rng.normal(size=(SIZE, 2)) + apart * rng.integers(2, size=(SIZE, 1))).astype(np.float32)


def log_prior(theta: Any) -> Any:
    """N(0, 10 I) on both means."""
    return -jnp.sum(theta**2) / (2 * PRIOR)


def log_likelihood(theta: Any, x: Any) -> Any:
    """Of each row of a batch; theta is (mean, coordinate)."""
    return jax.nn.logsumexp(-jnp.sum((x[:, None] - theta) ** 2, axis=-1) / 2, axis=1)


def nuts(x: np.ndarray, chains: int, draws: int) -> np.ndarray:
    """Draws (chain, draw, mean, coordinate) from all data."""

    def one(key: Any, x: Any) -> Any:
        def log_density(theta: Any) -> Any:
            return log_prior(theta) + jnp.sum(log_likelihood(theta, x))

        start_key, warm_key, key = jax.random.split(key, 3)
        warm_up = blackjax.window_adaptation(blackjax.nuts, log_density)
        (state, found), _ = warm_up.run(warm_key, jax.random.normal(start_key, (2, 2)), num_steps=1_000)
        step = blackjax.nuts(log_density, **found).step

        def advance(state: Any, key: Any) -> tuple[Any, Any]:
            state = step(key, state)[0]
            return state, state.position

        return jax.lax.scan(advance, state, jax.random.split(key, draws))[1]

    with jax.enable_x64(True):
        keys, data = jax.random.split(jax.random.key(0), chains), jnp.asarray(x, jnp.float64)
        return np.asarray(jax.jit(lambda keys, x: jax.lax.map(lambda key: one(key, x), keys))(keys, data))


def run(mode: str) -> Results:
    """The draws of each method and of NUTS."""
    iterations, chains, draws, references = MODES[mode].values()
    x = points(APART)
    target = sc.Target(log_prior, log_likelihood, x, batched=True)
    starts = jnp.asarray(np.random.default_rng(0).normal(size=(chains, 2, 2)), jnp.float32)
    centre = descend(target, starts[0], STEPS["descent"], iterations, BATCH)
    parts = np.float32([[1], [0]]), np.float32([[0], [1]])
    found = {
        method: follow(
            target, method, STEPS[method], starts, lambda theta, _: theta, None, batch=BATCH, every=1, together=True,
            burn_in=iterations // cost(method) if method in PLAIN else 0, iterations=iterations // cost(method),
            centre=None if method in PLAIN else centre, batching=common.Subsets(), parts=parts,
        )
        for method in EVERY
    }  # fmt: skip
    printed = nuts(points(PRINTED), references, draws) if mode == "full" else None
    return Results(found, nuts(x, references, draws), printed)


def difference(draws: np.ndarray) -> np.ndarray:
    """Of the two means, along the line."""
    return (draws[..., 0, :] - draws[..., 1, :]) @ LINE


def everyone(draws: np.ndarray) -> np.ndarray:
    """Draws of theta_1 made symmetric: those of both means."""
    return draws.reshape(-1, 2)


def distance(draws: np.ndarray, other: np.ndarray) -> float:
    """Total variation on squares; everything outside is one more."""
    shares = [np.histogram2d(*d.T, (EDGES, EDGES))[0] / len(d) for d in (draws, other)]
    return float((np.abs(shares[0] - shares[1]).sum() + abs(shares[0].sum() - shares[1].sum())) / 2)


def width(draws: np.ndarray) -> float:
    """The root of the summed variances of the lower mean."""
    lower = np.where((difference(draws) > 0)[:, None], draws[:, 1], draws[:, 0])
    return float(np.sqrt(lower.var(axis=0).sum()))


def valley(draws: np.ndarray) -> float:
    """The density of the difference of the means at 0, in units of its maximum: 1 if there is one component."""
    values = difference(draws).ravel()
    counts = np.histogram(np.concatenate([values, -values]), np.linspace(-1.5, 1.5, 26))[0]
    return float(counts[counts.size // 2] / counts.max())


def lesser(draws: np.ndarray) -> float:
    """The share of the lesser component."""
    share = float((difference(draws) > 0).mean())
    return min(share, 1 - share)


def table(results: Results) -> str:
    """The median chain of each method, with the smallest and the largest."""

    def three(values: np.ndarray) -> str:
        if np.isnan(values).any():
            return f"{np.isnan(values).sum()} of {values.size} lost"
        return f"{np.median(values):.3f} ({values.min():.3f} to {values.max():.3f})"

    rows = [(method, three(results.crossed(method)), three(results.variation(method)), three(results.widths(method)),
             three(results.extent(method))) for method in EVERY]  # fmt: skip
    header = ("method", "share of the lesser component", "variation from NUTS", "width of a component", "extent")
    halves = np.array_split(results.truth.reshape(-1, 2, 2), 2)
    floor = distance(everyone(halves[0]), everyone(halves[1]))
    note = f"the lesser component of NUTS: {lesser(results.truth):.3f}; variation between its halves: {floor:.3f}"
    return f"{common.columns(header, rows)}\n{note}"


def check(results: Results) -> list[Claim]:
    """The source's claims; the criteria were set before the first run, which had only the six methods."""
    crossed, variation, widths, extent = (
        {method: float(np.median(measure(method))) for method in EVERY}
        for measure in (results.crossed, results.variation, results.widths, results.extent)
    )

    def words(values: dict[str, float], methods: Sequence[str]) -> str:
        return ", ".join(f"{m} {'lost' if np.isnan(values[m]) else f'{values[m]:.3f}'}" for m in methods)

    claims = [
        Claim("SGLD explores both components (median chain: at least 20 % of the draws in each)",
              crossed["SGLD"] >= 0.2, f"lesser component: {words(crossed, PLAIN)}"),
        Claim("of all SGLD does so best (smallest median variation from NUTS)",
              min(variation, key=variation.__getitem__) == "SGLD", words(variation, EVERY)),
        Claim("SGLD over-estimates the uncertainty (width of a component over 1.1 of the truth's)",
              widths["SGLD"] > 1.1, words(widths, PLAIN)),
        Claim("SGHMC explores both components, unevenly (5 to 40 % of the draws in the lesser)",
              0.05 <= crossed["SGHMC"] <= 0.4, f"lesser component: {words(crossed, ['SGHMC'])}"),
        Claim("SGNHT collapses to a mode (under 5 % of the draws in the lesser component)",
              crossed["SGNHT"] < 0.05, f"lesser component: {words(crossed, ['SGNHT'])}"),
        *(Claim(f"{method} does not explore both components (under 5 % of the draws in the lesser)",
                crossed[method] < 0.05, f"lesser component: {words(crossed, [method])}")
          for method in EVERY[3:]),
    ]  # fmt: skip
    for version in ("SGLD-CV", IN_TURN):
        rivals = (version, *CONTROLLED[1:])
        claims += [
            Claim(f"of the CV methods {version} explores best (smallest median variation)",
                  min(rivals, key=variation.__getitem__) == version, words(variation, rivals)),
            Claim(f"{version} over-estimates the uncertainty of a component (width over 1.1 of the truth's)",
                  widths[version] > 1.1, words(widths, rivals)),
        ]  # fmt: skip
    claims += [
        Claim(f"{version} collapses to a mode (extent of theta_1 below half of the truth's)",
              extent[version] < 0.5, f"extent: {words(extent, [version])}") for version in ("SGNHT-CV", SMALLER)
    ]  # fmt: skip
    if results.printed is not None:
        valleys = valley(results.truth), valley(results.printed)
        claims.append(
            Claim("beyond the source: means (0, 0) and (0.5, 0.5) leave two components, those printed, (0, 0) and "
                  "(0.1, 0.1), one (the density of their difference at 0 below half of its maximum; above 0.8)",
                  valleys[0] < 0.5 and valleys[1] > 0.8, f"{valleys[0]:.2f} and {valleys[1]:.2f}")
        )  # fmt: skip
    return claims


def draw(results: Results, path: Path) -> None:
    """Contours of theta_1: the first chain of each method over NUTS."""
    figure = common.picture(16, 8)
    order = (*PLAIN, SMALLER, *CONTROLLED, IN_TURN)
    for axes, method in zip(figure.subplots(2, 4, sharex=True, sharey=True).ravel(), order, strict=True):
        common.contours(axes, everyone(results.truth), (BINS, BINS), INK)
        axes.plot([], [], color=INK, label="NUTS, all data")
        share, colour = results.crossed(method)[0], COLOUR.get(method, COLOURS[3])
        if np.isfinite(share):
            common.contours(axes, results.draws[method][0, :, 0], (BINS, BINS), colour)
            axes.plot([], [], color=colour, label=method)
        axes.set(xlim=(-0.7, 1.2), ylim=(-0.7, 1.2))
        found = f"{100 * share:.0f} % in the lesser component" if np.isfinite(share) else "diverges"
        common.tidy(axes, f"{method}: {found}", r"first coordinate of $\theta_1$", "second coordinate")
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    common.play(__doc__, "gaussian_mixture", run, table, check, draw, argv)


if __name__ == "__main__":
    main()
