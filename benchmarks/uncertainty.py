"""Are posterior means and sds right with automatic settings only, and does the verdict know? Thirty posteriors.

    python benchmarks/uncertainty.py [--only grouped robust] [--samplers UnderdampedLangevin SGLD] [--truths DIR]
    python benchmarks/uncertainty.py --kept DIR [--seconds 500]

Each sampler has ``step_size="auto"`` and nothing else set: default batch size, 4 chains of 5,000 draws, every tenth
step; each posterior has a seed of its own. The aim: all posterior sds within 5 % and all means within 0.1 sd, and where
that is missed a verdict other than 'use it'. Truth is a formula, or NUTS on all data (BlackJAX by ``sc.NUTS``, 4 chains
of 4,000 draws), whose own largest Monte Carlo errors are part of the table, and its seconds; ``--truths`` keeps it in a
folder. ``--kept`` keeps outcomes as well, each in a file: what is there is not run again, so that the whole table can
be made in parts, with ``--seconds`` after which no further run begins. Several modes are beyond any of these samplers:
there the verdict is the answer.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from posteriors import KINDS, Posterior

import scirocco as sc
from scirocco.diagnostics import ess

CHAINS, DRAWS, BURN_IN, THIN = 4, 5000, 1000, 10
NUTS_WARM_UP, NUTS_DRAWS = 1000, 4000
MEAN_LIMIT, SD_LIMIT = 0.1, 0.05
SAMPLERS = {
    "UnderdampedLangevin": sc.UnderdampedLangevin, "SGLD": sc.SGLD, "SGHMC": sc.SGHMC, "SGNHT": sc.SGNHT,
    "SMSUBU": sc.SMSUBU, "Barker": sc.Barker,
}  # fmt: skip
POSTERIORS = {name: make for kind in KINDS.values() for name, make in kind.items()}


class Truth(NamedTuple):
    """Posterior means and sds, the largest standard errors of both in units of the sd (0 if exact), and seconds."""

    mean: np.ndarray
    sd: np.ndarray
    mean_error: float = 0.0
    sd_error: float = 0.0
    seconds: float = 0.0


def flat(draws: Any) -> np.ndarray:
    """The variables of a dataset, (chain, draw, coordinate)."""
    parts = [v.values.reshape(*v.shape[:2], -1) for v in draws.data_vars.values()]
    return np.concatenate(parts, axis=2, dtype=np.float64)


def by_nuts(posterior: Posterior) -> Truth:
    """Long chains on all data."""
    began = time.perf_counter()
    trace = sc.sample(
        posterior.target, sc.NUTS(), posterior.initial, num_samples=NUTS_DRAWS, burn_in=NUTS_WARM_UP, chains=CHAINS,
        seed=1, progress=False, report=False,
    )  # fmt: skip
    seconds, draws = time.perf_counter() - began, flat(trace.posterior)
    errors = [1 / np.sqrt(np.min(ess(draws, "mean"))), 1 / np.sqrt(2 * np.min(ess(draws, "sd")))]
    return Truth(draws.mean(axis=(0, 1)), draws.std(axis=(0, 1)), *map(float, errors), seconds)


def truth_of(
    name: str, posterior: Posterior, folder: Path | None, make: Callable[[Posterior], Truth] = by_nuts
) -> Truth:
    """By a formula, from the folder, or by long chains."""
    if posterior.truth is not None:
        return Truth(*posterior.truth)
    place = None if folder is None else folder / f"truth_{name}.npz"
    if place is not None and place.exists():
        with np.load(place) as kept:
            return Truth(kept["mean"], kept["sd"], *(float(kept[n]) for n in Truth._fields[2:]))
    found = make(posterior)
    if place is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        np.savez(place, **found._asdict())
    return found


class Outcome(NamedTuple):
    """One run: sd over true sd and errors of means in sds, by coordinate; the verdict; seconds, with and without those
    that went into tuning."""

    ratio: np.ndarray
    shift: np.ndarray
    verdict: str
    seconds: float
    tuning: float

    def within(self, sd_limit: float = SD_LIMIT, mean_limit: float = MEAN_LIMIT) -> bool:
        """Whether everything is right to these limits."""
        return bool(np.all(np.abs(self.ratio - 1) <= sd_limit) and np.all(np.abs(self.shift) <= mean_limit))

    def __str__(self) -> str:
        answer = "yes" if self.within() else "NO"
        return (
            f"{self.ratio.min():5.2f} to {self.ratio.max():4.2f}  {np.max(np.abs(self.shift)):5.2f}  {answer:3s}  "
            f"{self.seconds:6.1f} s ({self.tuning:5.1f})  {self.verdict}"
        )


def attempt(posterior: Posterior, truth: Truth, name: str, seed: int) -> Outcome:
    """A run with automatic settings, judged."""
    began = time.perf_counter()
    trace = sc.sample(
        posterior.target, SAMPLERS[name](step_size="auto"), posterior.initial, num_samples=DRAWS, burn_in=BURN_IN,
        thin=THIN, chains=CHAINS, seed=seed, progress=False,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    mean, variance = (np.concatenate([np.ravel(v) for v in m.values()]) for m in (trace.mean, trace.variance))
    tuning: Any = trace.tuning
    ratio, shift = np.sqrt(variance) / truth.sd, (mean - truth.mean) / truth.sd
    return Outcome(ratio, shift, trace.verdict().kind, seconds, tuning.seconds)


def outcome_of(posterior: Posterior, truth: Truth, sampler: str, seed: int, place: Path | None) -> Outcome | str:
    """A run with automatic settings, or what is known of it; in words where it came to nothing, a result, too."""
    if place is not None and place.exists():
        known = json.loads(place.read_text())
        return known if isinstance(known, str) else Outcome(*map(np.array, known[:2]), *known[2:])
    found: Outcome | str
    try:
        found = attempt(posterior, truth, sampler, seed)
    except FloatingPointError as error:
        found = f"nothing: {error}"
    if place is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        plain = found if isinstance(found, str) else [found.ratio.tolist(), found.shift.tolist(), *found[2:]]
        place.write_text(json.dumps(plain))
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(POSTERIORS), choices=list(POSTERIORS))
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS), choices=list(SAMPLERS))
    parser.add_argument("--truths", type=Path, help="a folder in which truth by NUTS is kept")
    parser.add_argument("--kept", type=Path, help="a folder in which truth and outcomes are kept")
    parser.add_argument("--seconds", type=float, default=np.inf, help="after which no further run begins")
    parser.add_argument("--seed", type=int, default=0, help="of the first posterior; each has the next one")
    options = parser.parse_args(argv)
    print(
        f'step_size="auto", {CHAINS} chains of {DRAWS:,} draws: least and largest sd over the true one, largest error'
    )
    print(
        f"of a mean in sds, whether all sds are within {SD_LIMIT:.0%} and all means within {MEAN_LIMIT} sd, seconds and"
    )
    print(
        "those of tuning, and the verdict; beside the title the errors of truth, of means and sds, and NUTS's seconds"
    )
    outcomes: list[Outcome] = []
    began = time.perf_counter()
    for kind, posteriors in KINDS.items():
        wanted = [name for name in posteriors if name in options.only]
        if wanted:
            print(f"{kind}:")
        for name in wanted:
            if time.perf_counter() - began > options.seconds:
                print(f"  {name}: not yet")
                continue
            posterior = posteriors[name]()
            truth = truth_of(name, posterior, options.truths or options.kept)
            known = f"{truth.mean_error:.3f} {truth.sd_error:.1%}, {truth.seconds:.0f} s" if truth.seconds else "exact"
            print(f"  {posterior.title} ({truth.mean.size} parameters; truth: {known})", flush=True)
            for sampler in options.samplers:
                seed = options.seed + list(POSTERIORS).index(name)
                place = options.kept and options.kept / f"{name}_{sampler}_{seed}.json"
                if time.perf_counter() - began > options.seconds and not (place and place.exists()):
                    print(f"    {sampler:20s} not yet")
                    continue
                found = outcome_of(posterior, truth, sampler, seed, place)
                outcomes += [found] if isinstance(found, Outcome) else []
                print(f"    {sampler:20s} {found}", flush=True)
    held = sum(outcome.within() for outcome in outcomes)
    print(f"{held} of {len(outcomes)} runs within the limits")
    table = Counter((outcome.within(0.1, 0.2), outcome.verdict) for outcome in outcomes)
    for right, words in ((True, "right to 10 % and 0.2 sd"), (False, "wrong by more")):
        told = ", ".join(f"{verdict}: {n}" for (good, verdict), n in sorted(table.items()) if good == right)
        print(f"  {words}: {told or 'none'}")


if __name__ == "__main__":
    main()
