"""SGLD-CV against NUTS on all data as the data grow: Figure 4.2.1 of Baker's thesis (2019).

N numbers from N(0, 1), likelihood N(x_i | theta, 1), prior N(0, 10): the posterior is known. The source runs Stan for
1,000 steps of warm-up and 1,000 draws, and SGLD with control variates for 1,000 steps of descent and 1,000 draws, from
5 seeds each. The measures are the Kullback-Leibler divergence from the posterior to a normal with the mean and variance
of the draws, and the run time with compilation. It claims that the time of Stan grows rapidly with N, that of SGLD-CV
slowly; that the divergence of SGLD-CV is poor beside Stan's when N is small; and that it becomes reasonable as N grows.

The thesis does not print its settings; they are those of the authors' scripts (jackcbaker/sgmcmc-simulations on
GitHub): minibatches of 1,000, from N = 500,000 on 5,000; the same epsilon for descent and chain. The R package moves by
epsilon/2 times the gradient: h = epsilon/2 here, and a learning rate of epsilon N on the mean for the descent.

Beyond the source: on this model all examples have the same curvature, so control variates make the gradient exact, and
SGLD-CV is the autoregression x <- (1 - c) x + sqrt(2 c) xi in posterior sds, with c = h (N + 1/10). The epsilon of the
source falls more slowly than 1/N: c grows from 0.015 to 0.25, and chains of 1,000 steps mix the better, the larger N
is. 'h = 0.15/N' has the same c at every N, the centre that the library finds, and minibatches of 100. Its seeds
draw the same noise at every N, so that it must come out alike up to rounding.

What differs: BlackJAX's NUTS in double precision in place of Stan, with its window adaptation. Time is that of the
processor, compilation included, so that other work on the machine does not count; NUTS is compiled once for each N and
that time counts for every seed. The prior has variance 10; the scripts sample with 100 and compare with 10. The source
reports pictures only.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import blackjax
import common
import jax
import jax.numpy as jnp
import numpy as np
import optax
from common import COLOURS, INK, Claim

import scirocco as sc

EPSILON = {1_000: 3e-5, 5_000: 1e-5, 10_000: 7e-6, 50_000: 5e-6, 100_000: 3e-6, 500_000: 1e-6, 1_000_000: 3e-7}
DRAWS, PRIOR = 1_000, 10.0
MODES: dict[str, Any] = {
    "tiny": {"sizes": (1_000,), "proportion": (1_000,), "seeds": 1},
    "short": {"sizes": (1_000, 50_000), "proportion": (1_000,), "seeds": 1},
    "full": {"sizes": tuple(EPSILON), "proportion": tuple(EPSILON), "seeds": 5},
}
NUTS, SOURCE, SCALED = "NUTS", "SGLD-CV", "SGLD-CV, h = 0.15/N"
STRENGTH = 0.15  # c of the third
COLOUR = {NUTS: COLOURS[1], SOURCE: COLOURS[0], SCALED: COLOURS[2]}


class Results(NamedTuple):
    """For each method and N: the divergence of each seed, and the seconds of the processor."""

    divergence: dict[tuple[str, int], np.ndarray]
    seconds: dict[tuple[str, int], np.ndarray]

    @property
    def sizes(self) -> list[int]:
        """From the smallest."""
        return sorted({size for _, size in self.divergence})


def precision(size: int) -> float:
    """Of the posterior."""
    return size + 1 / PRIOR


def strength(size: int) -> float:
    """The c of the source's step size."""
    return EPSILON[size] / 2 * precision(size)


def divergence(draws: np.ndarray, mean: float, variance: float) -> np.ndarray:
    """From the exact normal to the one with the moments of the draws, along the last axis."""
    centre, spread = draws.mean(axis=-1), draws.var(axis=-1, ddof=1)
    return (np.log(spread / variance) + (variance + (mean - centre) ** 2) / spread - 1) / 2


def log_prior(theta: Any) -> Any:
    """N(0, 10)."""
    return -(theta**2) / (2 * PRIOR)


def log_likelihood(theta: Any, x: Any) -> Any:
    """N(x | theta, 1) for each row of a batch."""
    return -((x - theta) ** 2) / 2


def full_data(x: np.ndarray, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """NUTS: draws (seed, draw) and seconds. In single precision a sum of 10^6 terms is too coarse for it to accept."""

    def chain(key: Any, x: Any) -> Any:
        def log_density(theta: Any) -> Any:
            return log_prior(theta) + jnp.sum(log_likelihood(theta, x))

        warm_key, key = jax.random.split(key)
        warm_up = blackjax.window_adaptation(blackjax.nuts, log_density)
        (state, found), _ = warm_up.run(warm_key, jnp.zeros(()), num_steps=DRAWS)
        step = blackjax.nuts(log_density, **found).step

        def advance(state: Any, key: Any) -> tuple[Any, Any]:
            state = step(key, state)[0]
            return state, state.position

        return jax.lax.scan(advance, state, jax.random.split(key, DRAWS))[1]

    with jax.enable_x64(True):
        begin = time.process_time()
        data = jnp.asarray(x, jnp.float64)
        compiled = jax.jit(chain).lower(jax.random.key(0), data).compile()
        before, draws, seconds = time.process_time() - begin, [], []
        for seed in range(seeds):
            begin = time.process_time()
            draws.append(np.asarray(compiled(jax.random.key(seed), data)))
            seconds.append(before + time.process_time() - begin)
    return np.stack(draws), np.array(seconds)


def minibatches(x: np.ndarray, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """SGLD-CV with the settings of the source: draws (seed, draw) and seconds."""
    size, epsilon, draws, seconds = x.size, EPSILON[x.size], [], []
    batch = 1_000 if size < 500_000 else 5_000
    search = {"optimizer": optax.sgd(epsilon * size), "steps": DRAWS, "batch_size": batch, "polish": False}
    for seed in range(seeds):
        begin = time.process_time()
        target = sc.Target(log_prior, log_likelihood, x.astype(np.float32), batched=True)
        trace = sc.sample(
            target, sc.SGLD(epsilon / 2), jnp.zeros(()), num_samples=DRAWS, burn_in=0, batch_size=batch, chains=1,
            estimator=sc.ControlVariate(options=search), seed=seed, progress=False,
        )  # fmt: skip
        draws.append(trace.posterior["theta"].values[0])
        seconds.append(time.process_time() - begin)
    return np.stack(draws).astype(np.float64), np.array(seconds)


def in_proportion(x: np.ndarray, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """SGLD-CV with a step in proportion to the variance of the posterior, all seeds in one run."""
    begin = time.process_time()
    target = sc.Target(log_prior, log_likelihood, x.astype(np.float32), batched=True)
    trace = sc.sample(
        target, sc.SGLD(STRENGTH / precision(x.size)), jnp.zeros(()), num_samples=DRAWS, burn_in=0, batch_size=100,
        estimator=sc.ControlVariate(), chains=seeds, progress=False,
    )  # fmt: skip
    return trace.posterior["theta"].values.astype(np.float64), np.array([time.process_time() - begin])


def run(mode: str) -> Results:
    """Each method on each size."""
    every = np.random.default_rng(2).normal(size=max(MODES[mode]["sizes"]))
    results = Results({}, {})
    for size in MODES[mode]["sizes"]:
        x = every[:size]
        samples = {NUTS: full_data, SOURCE: minibatches}
        if size in MODES[mode]["proportion"]:
            samples[SCALED] = in_proportion
        for method, sample in samples.items():
            draws, results.seconds[method, size] = sample(x, MODES[mode]["seeds"])
            results.divergence[method, size] = divergence(draws, x.sum() / precision(size), 1 / precision(size))
    return results


@cache
def law(strength: float, seeds: int) -> tuple[float, float, float]:
    """The mean divergence of ``seeds`` autoregressions from the mode: its mean, and an interval of 99.8 %."""
    rng, x = np.random.default_rng(0), np.zeros(2_000 * seeds)
    total, square = np.zeros_like(x), np.zeros_like(x)
    for _ in range(DRAWS):
        x = (1 - strength) * x + np.sqrt(2 * strength) * rng.normal(size=x.size)
        total, square = total + x, square + x**2
    centre = total / DRAWS
    spread = (square - DRAWS * centre**2) / (DRAWS - 1)
    means = ((np.log(spread) + (1 + centre**2) / spread - 1) / 2).reshape(-1, seeds).mean(axis=1)
    low, high = np.quantile(means, [0.001, 0.999])
    return float(means.mean()), float(low), float(high)


def table(results: Results) -> str:
    """The mean divergence and the mean time of each method at each size."""
    rows = []
    for size in results.sizes:
        seeds = results.divergence[NUTS, size].size
        found, times = (
            [f"{values[method, size].mean():.{digits}f}" if (method, size) in values else "" for method in COLOUR]
            for values, digits in ((results.divergence, 4), (results.seconds, 1))
        )
        rows.append((f"{size:,}", *found, f"{strength(size):.3f}", f"{law(strength(size), seeds)[0]:.4f}", *times))
    header = ("N", "divergence: NUTS", "SGLD-CV", "h = 0.15/N", "c of SGLD-CV", "its law", "seconds: NUTS", "SGLD-CV",
              "h = 0.15/N, all seeds")  # fmt: skip
    seeds = results.divergence[NUTS, results.sizes[0]].size
    note = f"law at c = 0.15: {law(STRENGTH, seeds)[0]:.4f}; of {DRAWS:,} independent draws: {1 / DRAWS:.4f}"
    return f"{common.columns(header, rows)}\n{note}"


def check(results: Results) -> list[Claim]:
    """The source's claims, with criteria fixed beforehand."""
    small, large = results.sizes[0], results.sizes[-1]
    kl = {key: float(values.mean()) for key, values in results.divergence.items()}
    added = {m: float(results.seconds[m, large].mean() - results.seconds[m, small].mean()) for m in (NUTS, SOURCE)}
    ratio = {size: kl[SOURCE, size] / kl[NUTS, size] for size in (small, large)}
    seeds = results.divergence[NUTS, small].size

    def lawful(method: str, strengths: dict[int, float]) -> tuple[bool, str]:
        """Whether the mean of the seeds lies in the interval at every size, and the words."""
        laws = {size: law(c, seeds) for size, c in strengths.items()}
        inside = [low <= kl[method, size] <= high for size, (_, low, high) in laws.items()]
        words = (
            f"{size:,}: {kl[method, size]:.4f} in {low:.4f} to {high:.4f}" for size, (_, low, high) in laws.items()
        )
        return all(inside), "; ".join(words)

    return [
        Claim("the time of NUTS grows rapidly with N, that of SGLD-CV slowly (seconds added from the smallest to the "
              "largest N: over 3 times as many)",
              common.among_sizes(ratio, added[NUTS] > 3 * max(added[SOURCE], 0)),
              f"NUTS {added[NUTS]:+.1f} s, SGLD-CV {added[SOURCE]:+.1f} s"),
        Claim("SGLD-CV is poor beside NUTS when N is small (mean divergence over 3 times as large)",
              ratio[small] > 3, f"N = {small:,}: {kl[SOURCE, small]:.4f} against {kl[NUTS, small]:.4f}"),
        Claim("and becomes reasonable as N grows (the ratio falls below a third of that)",
              common.among_sizes(ratio, ratio[large] < ratio[small] / 3),
              f"ratio {ratio[small]:.1f} at N = {small:,}, {ratio[large]:.1f} at {large:,}"),
        Claim("beyond the source: the divergence of SGLD-CV is that of an autoregression, minibatches play no part "
              "(mean of the seeds within 99.8 % of its law, at every N)",
              *lawful(SOURCE, {size: strength(size) for size in results.sizes})),
        Claim("beyond the source: with h = 0.15/N it is the same at every N (within 99.8 % of one law)",
              *lawful(SCALED, {size: STRENGTH for size in results.sizes if (SCALED, size) in kl})),
    ]  # fmt: skip


def draw(results: Results, path: Path) -> None:
    """Divergence and time over N, from the smallest to the largest of the seeds, as in the source."""
    figure = common.picture(11, 4.5)
    left, right = figure.subplots(1, 2)
    sizes = results.sizes
    for method, colour in COLOUR.items():
        for axes, found in ((left, results.divergence), (right, results.seconds)):
            if method == SCALED and axes is right:  # all seeds in one run: not the same thing
                continue
            present = [size for size in sizes if (method, size) in found]
            values = [found[method, size] for size in present]
            axes.fill_between(present, [v.min() for v in values], [v.max() for v in values], color=colour, alpha=0.25)
            axes.plot(present, [v.mean() for v in values], color=colour, marker="o", markersize=3, label=method)
    seeds = results.divergence[NUTS, sizes[0]].size
    left.plot(sizes, [law(strength(size), seeds)[0] for size in sizes], color=INK, linestyle=":", linewidth=1,
              label="law of SGLD-CV")  # fmt: skip
    left.set(xscale="log", yscale="log")
    right.set(xscale="log", ylim=(0, None))
    common.tidy(left, "Kullback-Leibler divergence (mean, smallest and largest)", "observations N", "divergence")
    common.tidy(right, "time of the processor, with compilation", "observations N", "seconds")
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    common.play(__doc__, "against_nuts", run, table, check, draw, argv)


if __name__ == "__main__":
    main()
