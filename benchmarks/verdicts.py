"""Does the verdict know? Runs whose truth is known, good and bad ones, against what ``verdict()`` says of them.

    python benchmarks/verdicts.py [--seeds 5]

Good runs, and runs that are too short, biased, stuck, unstable, of several modes, heavy-tailed, unidentified, on a
manifold, of shards and of counts. A result is right if every posterior sd is within 10 % and every mean within 0.2 sd.
The aim: no 'use it' of a wrong result, and 'use it' of four in five right ones among those that should be good. A run
of several modes whose starts all lie at one of them cannot be told from a good one: these are listed.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import scirocco as sc

SD_LIMIT, MEAN_LIMIT = 0.1, 0.2
DRAWS = 3000  # of each chain of a long run
NO_DATA = np.ones(500, np.float32)  # the prior is the posterior
ROWS = np.random.default_rng(0).normal(1, 1, 5000).astype(np.float32)
CODES = np.random.default_rng(1).choice(4, size=2000, p=[0.6, 0.3, 0.09, 0.01])


class Case(NamedTuple):
    """A kind of run, the run for a seed, and the true means and sds (infinite if there are none)."""

    kind: str
    title: str
    run: Callable[[int], Any]
    mean: Any
    sd: Any


def silent(x: Any, row: Any) -> Any:
    """A likelihood that says nothing."""
    return 0.0 * row * jnp.sum(x)


def normal(x: Any) -> Any:
    """Independent, of sd 1."""
    return -0.5 * jnp.sum(x**2)


def correlated(x: Any) -> Any:
    """Two that move together, and a narrow one."""
    return -0.5 * (x[0] ** 2 + (x[1] - 0.9 * x[0]) ** 2 / 0.19 + 100 * x[2] ** 2)


def student(x: Any) -> Any:
    """Five degrees of freedom."""
    return -3 * jnp.sum(jnp.log1p(x**2 / 5))


def cauchy(x: Any) -> Any:
    """No variance at all."""
    return -jnp.sum(jnp.log1p(x**2))


def two_modes(x: Any) -> Any:
    """Eight sds apart."""
    return jnp.logaddexp(-0.5 * jnp.sum((x - 4) ** 2), -0.5 * jnp.sum((x + 4) ** 2))


def flattened(x: Any) -> Any:
    """Steep at the mode and straight outside: a step that is too long does not end at infinity."""
    return -jnp.sum(jnp.logaddexp(5 * x, -5 * x))


def apart(key: Any) -> Any:
    """Starts of one parameter, on both sides."""
    return 6 * jax.random.normal(key, (1,))


def cases() -> Iterator[Case]:
    """All of them."""

    def sampled(target: sc.Target, sampler: Any, initial: Any, **settings: Any) -> Callable[[int], Any]:
        return lambda seed: sc.sample(target, sampler, initial, seed=seed, progress=False, **settings)

    def of(prior: Any, sampler: Any, initial: Any, **settings: Any) -> Callable[[int], Any]:
        return sampled(sc.Target(prior, silent, NO_DATA), sampler, initial, **settings)

    long = {"num_samples": DRAWS, "thin": 5}
    whole = {"batch_size": 1.0}
    three, sds = jnp.zeros(3), np.array([1, 1, 0.1])
    rows = sc.Target(lambda m: -0.5 * jnp.sum(m**2), lambda m, x: -0.5 * (x - m[0]) ** 2, ROWS)
    mean, sd = ROWS.mean(dtype=float) * 5000 / 5001, 5001**-0.5
    for make in (sc.UnderdampedLangevin, sc.SGLD):
        name = make.__name__
        yield Case("good", f"normal, {name}", of(normal, make("auto"), three), 0, 1)
        yield Case("good", f"correlated, {name}", of(correlated, make("auto"), three), 0, sds)
        yield Case("good", f"Student t, {name}", of(student, make("auto"), jnp.ones(3), **long), 0, np.sqrt(5 / 3))
        yield Case("good", f"rows, {name}", sampled(rows, make("auto"), jnp.zeros(1)), mean, sd)
    yield Case("good", "NUTS", of(correlated, sc.NUTS(), three), 0, sds)
    yield Case("too short", "normal", of(normal, sc.SGLD(0.02), three, num_samples=300, burn_in=50, **whole), 0, 1)
    yield Case("too short", "correlated", of(correlated, sc.SGLD(0.002), three, **whole), 0, sds)
    yield Case("biased", "a long step", of(normal, sc.SGLD(0.8), three, **whole, **long), 0, 1)
    yield Case("biased", "noise", sampled(rows, sc.SGLD(1e-4), jnp.zeros(1), batch_size=100, **long), mean, sd)
    hot = sc.SGHMC(5e-3, friction=10.0)
    yield Case("biased", "noise, momenta", sampled(rows, hot, jnp.zeros(1), batch_size=50, **long), mean, sd)
    yield Case("stuck", "normal", of(normal, sc.SGLD(1e-6), three, **whole), 0, 1)
    yield Case("stuck", "correlated", of(correlated, sc.UnderdampedLangevin(1e-4), three, **whole), 0, sds)
    yield Case("several modes", "starts apart", of(two_modes, sc.SGLD(0.05), apart, **whole, **long), 0, np.sqrt(17))
    automatic = sc.UnderdampedLangevin("auto")
    yield Case("several modes", "automatic", of(two_modes, automatic, jnp.ones(1)), 0, np.sqrt(17))
    yield Case("heavy-tailed", "Cauchy", of(cauchy, sc.SGLD(0.05), jnp.zeros(2), **whole, **long), 0, np.inf)
    yield Case("unstable", "flattened", of(flattened, sc.SGLD(0.5), jnp.zeros(2), **whole), 0, np.pi / np.sqrt(12) / 5)
    gauge = sc.Target(lambda w: 0.0 * w[0], lambda w, x: -0.5 * (x - w[0] - w[1]) ** 2, ROWS[:200])
    yield Case("unidentified", "a sum", sampled(gauge, sc.SGLD(1e-3), jnp.zeros(2), **whole), 0, np.inf)
    yield from _elsewhere(rows, mean, sd)


def _elsewhere(rows: sc.Target, mean: float, sd: float) -> Iterator[Case]:
    """On a manifold, of shards, of counts."""
    kappa, pole = 5.0, jnp.array([0.0, 0.0, 1.0])
    sphere = sc.Target(lambda x: kappa * x[2], silent, NO_DATA, manifold=sc.manifolds.Sphere())
    height = 1 / np.tanh(kappa) - 1 / kappa
    spread = np.sqrt([height / kappa] * 2 + [1 - 2 * height / kappa - height**2])
    yield Case("good", "a sphere", lambda seed: sc.sample(
        sphere, sc.SGGMC("auto"), pole, num_samples=DRAWS, thin=5, seed=seed, progress=False), np.array([0, 0, height]),
        spread)  # fmt: skip
    yield Case("good", "shards", lambda seed: sc.sample_shards(
        rows, sc.UnderdampedLangevin("auto"), jnp.zeros(1), shards=4, num_samples=DRAWS, seed=seed, progress=False),
        mean, sd)  # fmt: skip
    parameter = 0.1 + np.bincount(CODES)
    share = parameter / parameter.sum()
    width = np.sqrt(share * (1 - share) / (parameter.sum() + 1))
    for kind, sampler in (("good", sc.SCIR(0.005)), ("biased", sc.SGRLD(0.05))):
        yield Case(kind, f"codes, {type(sampler).__name__}", lambda seed, sampler=sampler: sc.sample_dirichlet(
            CODES, 0.1, sampler, batch_size=200, num_samples=500, thin=100, burn_in=2000, seed=seed, progress=False),
            share, width)  # fmt: skip


class Judged(NamedTuple):
    """A verdict, the largest error of a mean in sds, and the largest relative error of an sd."""

    verdict: str
    shift: float
    stretch: float

    @property
    def right(self) -> bool:
        """Whether the result can be used."""
        return self.shift < MEAN_LIMIT and self.stretch < SD_LIMIT


def judged(case: Case, seed: int) -> Judged:
    """A run and what is right and wrong with it."""
    try:
        found = case.run(seed)
    except sc.DivergenceError as error:
        found = error.trace  # type: ignore[attr-defined]
    draws = found.draws if isinstance(found, sc.Sharded) else found.posterior
    values = next(iter(draws.data_vars.values())).values.astype(np.float64)
    values = values.reshape(-1, values.shape[-1])
    if not len(values) or not np.all(np.isfinite(case.sd)):
        return Judged(found.verdict().kind, np.inf, np.inf)
    shift = np.max(np.abs(values.mean(axis=0) - case.mean) / case.sd)
    return Judged(found.verdict().kind, float(shift), float(np.max(np.abs(values.std(axis=0) / case.sd - 1))))


def main(argv: Sequence[str] | None = None) -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", help="only these")
    options = parser.parse_args(argv)
    table: Counter[tuple[str, bool, str]] = Counter()
    wrong = []
    for case in cases():
        if options.kinds and case.kind not in options.kinds:
            continue
        for seed in range(options.seeds):
            found = judged(case, seed)
            table[case.kind, found.right, found.verdict] += 1
            line = (
                f"  {case.kind}, {case.title}, seed {seed}: mean off by {found.shift:.2f} sd, sd by {found.stretch:.2f}"
                f": {found.verdict}"
            )
            print(line, flush=True)
            if found.verdict == "use it" and not found.right:
                wrong.append(line)
    print(f"{'kind':16s} {'result':8s} {'verdict':26s} runs")
    for (kind, right, verdict), count in sorted(table.items()):
        print(f"{kind:16s} {'right' if right else 'wrong':8s} {verdict:26s} {count:4d}")
    good = [n for (kind, right, verdict), n in table.items() if kind == "good" and right and verdict == "use it"]
    all_good = [n for (kind, right, _), n in table.items() if kind == "good" and right]
    print(f"{sum(table.values())} runs; of {sum(all_good)} good ones that are right {sum(good)} are 'use it'")
    print(f"'use it' of results that are wrong: {len(wrong)}", *wrong, sep="\n")


if __name__ == "__main__":
    main()
