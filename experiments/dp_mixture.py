"""Users of a web site in clusters, SCIR against SGRLD: Figure 3b of Baker et al. (2018), section 4.2.

A Dirichlet process mixture of multinomials, theta ~ Dirichlet(a), for the areas of microsoft.com that users visited:
32,711 users to learn from, 5,000 to be predicted. The stochastic slice sampler (B.4 of Baker's thesis, 2019) moves
sticks and components by SCIR or SGRLD steps with counts estimated from 1,000 users, and allocates these anew. Settings
are those of its Table B.5.3, tuned by the source for each method. The measure is the mean log predictive of a test
user, whose visits are taken as a sequence, under one state of the chain; larger is better. The source claims that SCIR
is better than SGRLD and varies less, that SGRLD gets worse as it goes on and has many more clusters than are needed,
and that both are worse than the exact slice sampler on all users. Its h of SGRLD is twice that of ``sc.SGRLD``; the
code of its authors (github.com/jackcbaker/SCIR, dp-mixture) does not halve it, so that both readings are run.

Run here besides: SGRLD with a and K of SCIR, and the exact sampler with a and K of SGRLD, since the source gives the
two methods two models; and the minibatch sampler with kept allocations, whose counts are those of all users, so that
it is exact, with SCIR steps or exact draws. Last, the authors' code has two errors, of which the text has none, and
'published' runs repeat them. The users that move a component are looked up by their place in the minibatch instead of
their number: they are always the first 1,000, with the labels of others, so that all components become alike. And the
second weight of a stick is pulled by v in place of 1 - v when SGRLD moves it.

Kept allocations predict with weights and components integrated out; all others, and 'as drawn' in the table, with
those that the chain has. Chains start from labels at random among K, the same ones for all with this K and seed. The
prior of alpha is Gamma(1, 1), and the source's length 1,000 iterations, both from the authors' code: the text says
neither. Here there are 3,000, so that claims are checked at both lengths. The end is the mean over the states in the
last tenth. Seconds are those of the steps alone, on one thread. Corrections to the sampler as printed stand in
``scirocco.models.dp_mixture.slice_sampler``. Full mode reads ``msweb_train.npz`` and ``msweb_test.npz`` in the folder
named by SCIROCCO_DATA. Short mode draws 600 users from a mixture of 6.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import common
import numpy as np
import scipy.sparse as sp
from common import COLOURS, INK, Claim
from matplotlib.ticker import LogLocator, NullFormatter

import scirocco as sc
from scirocco.corpora.documents import Documents
from scirocco.models.dp_mixture.clusters import Statistics
from scirocco.models.dp_mixture.components import Multinomial
from scirocco.models.dp_mixture.partition import DirichletProcess
from scirocco.models.dp_mixture.predictive import Snapshot, log_predictive
from scirocco.models.dp_mixture.slice_sampler import SliceSampler
from scirocco.simplex import Exact
from scirocco.simplex.sgrld import _normals

ALPHA, ALPHA_PRIOR, NEAR = 1.0, (1.0, 1.0), 0.02  # NEAR: nats that count as the same predictive
MODES: dict[str, Any] = {  # source: iterations of the source
    "tiny": {"batch": 60, "seeds": 1, "source": 10, "marks": (1, 2, 5, 10, 20)},
    "short": {"batch": 60, "seeds": 2, "source": 100, "marks": (1, 2, 5, *range(10, 301, 10))},
    "full": {"batch": 1000, "seeds": 5, "source": 1000, "marks": (1, 2, 5, 10, *range(20, 3001, 20))},
}


class PublishedSticks(sc.SGRLD):
    """SGRLD of two weights, the second of them pulled as in the authors' code."""

    def step(self, weights: Any, counts: Any, state: Any = None) -> None:
        """Both are pulled by N_hat v, the second in place of N_hat (1 - v)."""
        h, theta, found, noise = self.step_size, weights.catch_up(), counts.values.T, _normals(weights)
        pull = found.sum(axis=0) * theta[0] / theta.sum(axis=0)
        drift = weights.prior + found - theta - pull
        weights.replace(np.abs(theta + h * drift + np.sqrt(2 * h * theta) * noise), h)
        weights.steps += 1


class Method(NamedTuple):
    """What moves components and sticks; a, K; whether allocations are kept; all users at once; the authors' errors."""

    sampler: Any
    sticks: Any
    base: float
    clusters: int
    kept: bool = False
    minibatch: bool = True
    published: bool = False


SCIR, HALVED, PRINTED = (sc.SCIR(0.1),) * 2, (sc.SGRLD(0.0005), sc.SGRLD(0.0025)), (sc.SGRLD(0.001), sc.SGRLD(0.005))
GIBBS, WRONG = (Exact(), Exact()), (sc.SGRLD(0.001), PublishedSticks(0.005))
OF_SCIR, OF_SGRLD = (0.5, 20), (0.001, 30)  # a, K
METHODS = {  # Table B.5.3
    "SCIR": Method(*SCIR, *OF_SCIR),
    "SGRLD": Method(*HALVED, *OF_SGRLD),
    "SGRLD, h not halved": Method(*PRINTED, *OF_SGRLD),
    "SGRLD, a and K of SCIR": Method(*HALVED, *OF_SCIR),
    "exact": Method(*GIBBS, *OF_SCIR, kept=True, minibatch=False),
    "exact, a and K of SGRLD": Method(*GIBBS, *OF_SGRLD, kept=True, minibatch=False),
    "kept, SCIR": Method(*SCIR, *OF_SCIR, kept=True),
    "kept, exact draws": Method(*GIBBS, *OF_SCIR, kept=True),
    "published SCIR": Method(*SCIR, *OF_SCIR, published=True),
    "published SGRLD": Method(*WRONG, *OF_SGRLD, published=True),
}
READINGS = ("SGRLD", "SGRLD, h not halved")
LOOK: dict[str, Any] = dict(zip(METHODS, (
    (COLOURS[0], "-"), (COLOURS[1], "-"), (COLOURS[1], "--"), (COLOURS[3], "-"), (INK, "-"), (INK, "--"),
    (COLOURS[2], "--"), (COLOURS[2], "-"), (COLOURS[0], ":"), (COLOURS[1], ":")), strict=True))  # fmt: skip


class Users(NamedTuple):
    """Users to learn from and users to be predicted."""

    train: Documents
    test: Documents


class Curve(NamedTuple):
    """Of the states after so many steps, (seed, mark); of their average over the second half, (seed)."""

    steps: np.ndarray
    seconds: np.ndarray
    score: np.ndarray
    drawn: np.ndarray  # the score with the weights and components of the state itself
    clusters: np.ndarray
    concentration: np.ndarray
    averaged: np.ndarray

    def end(self, values: np.ndarray, length: int) -> np.ndarray:
        """Of each seed, over the last tenth of ``length`` steps."""
        return self.among(values, 0.9 * length, length)

    def later(self, values: np.ndarray, length: int) -> np.ndarray:
        """Of each seed, over the second half of ``length`` steps."""
        return self.among(values, 0.5 * length, length)

    def among(self, values: np.ndarray, above: float, last: int) -> np.ndarray:
        """The mean over the marks in between."""
        return np.asarray(values[:, (self.steps > above) & (self.steps <= last)].mean(axis=1))


class Results(NamedTuple):
    """A curve for each method, the lengths at which claims are checked, the score of one multinomial."""

    curves: dict[str, Curve]
    lengths: tuple[int, int]
    single: float


class Published(SliceSampler):
    """Components are moved by the first users in the data, with the labels of those in the minibatch."""

    def _made(self, slots: int) -> Any:
        sticks, components = super()._made(slots)
        components.count = partial(self._misplaced, slots)  # type: ignore[method-assign]
        return sticks, components

    def _misplaced(self, slots: int, batch: Any, at: Any = None, *, survey: bool = False) -> tuple[None, np.ndarray]:
        del at, survey
        rows, own = self.clusters.rows.take(slice(0, batch.rows.size)), self.clusters.labels[batch.rows]
        table = np.zeros((rows.width, slots))
        np.add.at(table, (rows.words, np.repeat(own, np.diff(rows.starts))), rows.numbers * float(batch.scale))
        return None, table


def users(mode: str) -> Users:
    """The Microsoft web data, or some users from a mixture of few clusters."""
    if mode == "full":
        found = common.data_set(sc.datasets.load_msweb)
        return Users(Documents.of(found.train), Documents.of(found.test))
    rng = np.random.default_rng(0)
    theta = rng.dirichlet(np.full(30, 0.1), 6)
    drawn = Documents.of(rng.multinomial(8, theta[rng.integers(6, size=800)]))
    return Users(drawn.take(slice(0, 600)), drawn.take(slice(600, 800)))


def begin(found: Users, method: Method, batch: int, seed: int) -> Any:
    """A chain at its start."""
    law = Multinomial().encoding(found.train.matrix(), None).law(method.base)
    labels = np.random.default_rng((seed, method.clusters)).integers(0, method.clusters, found.train.size)
    return (Published if method.published else SliceSampler)(
        found.train, law, DirichletProcess(ALPHA, ALPHA_PRIOR), sampler=method.sampler, stick_sampler=method.sticks,
        kept=method.kept, batch_size=batch if method.minibatch else None, seed=seed, chain=0, threads=1, start=labels,
    )  # fmt: skip


def as_drawn(chain: Any) -> Snapshot:
    """The state's weights and components that have users; what is missing to 1 is the prior's."""
    used, theta = chain.clusters.used, chain.parts[1].weights.theta
    shares = (theta[:, used] / theta[:, used].sum(axis=0)).T
    return Snapshot.given(Statistics.of_features(chain.weights()[used], shares), chain.clusters.law)


def follow(found: Users, method: Method, *, batch: int, seeds: int, marks: Sequence[int]) -> Curve:
    """The curve of one method. The clock stops while a state is scored."""
    begin(found, method, batch, 0).step()  # compiled
    kept: dict[str, np.ndarray] = {name: np.empty((seeds, len(marks))) for name in Curve._fields[1:-1]}
    averaged = np.empty(seeds)
    for seed in range(seeds):
        chain, spent, later = begin(found, method, batch, seed), 0.0, []
        for step in range(1, marks[-1] + 1):
            began = time.perf_counter()
            chain.step()
            spent += time.perf_counter() - began
            if step not in marks:
                continue
            drawn = as_drawn(chain)
            state = Snapshot.of(chain.statistics(), drawn.law, chain.partition) if method.kept else drawn
            each = log_predictive([state], found.test, threads=1)
            raw = log_predictive([drawn], found.test, threads=1).mean() if method.kept else each.mean()
            now = (spent, each.mean(), raw, chain.clusters.number, chain.partition.concentration)
            for values, value in zip(kept.values(), now, strict=True):
                values[seed, marks.index(step)] = value
            if step > marks[-1] / 2:
                later.append(each)
        averaged[seed] = np.mean(np.logaddexp.reduce(later, axis=0) - np.log(len(later)))
    return Curve(np.array(marks), averaged=averaged, **kept)


def run(mode: str) -> Results:
    """Each method from each seed; the authors' errors for as long as the source's runs only."""
    settings = {**MODES[mode]}
    source, found = settings.pop("source"), users(mode)
    marks = settings["marks"]
    short = settings | {"marks": tuple(mark for mark in marks if mark <= source)}
    curves = {name: follow(found, method, **(short if method.published else settings))
              for name, method in METHODS.items()}  # fmt: skip
    counts = found.train.word_counts() + 0.5
    single = float((sp.csr_array(found.test.matrix()) @ np.log(counts / counts.sum())).mean())
    return Results(curves, (source, marks[-1]), single)


def table(results: Results) -> str:
    """Means of the seeds and, of the ends, their standard deviations; clusters and alpha in the second half."""
    source, last = results.lengths
    rows = []
    for name, curve in results.curves.items():
        length = int(curve.steps[-1])
        ends = [_spelt(curve.end(curve.score, n)) if n <= length else "" for n in results.lengths]
        rows.append((
            name, *ends, f"{curve.end(curve.drawn, length).mean():.3f}", f"{curve.averaged.mean():.3f}",
            f"{curve.later(curve.clusters, source).mean():.1f}", f"{curve.later(curve.clusters, length).mean():.1f}",
            f"{curve.later(curve.concentration, length).mean():.2f}",
            f"{1000 * curve.seconds[:, -1].mean() / length:.1f}",
        ))  # fmt: skip
    header = ("sampler", f"end of {source}", f"end of {last}", "as drawn", "2nd half averaged", f"clusters, {source}",
              "at its end", "alpha", "ms a step")  # fmt: skip
    return f"{common.columns(header, rows)}\none multinomial: {results.single:.3f}"


def _spelt(values: np.ndarray) -> str:
    return f"{values.mean():.3f} ({values.std(ddof=1):.3f})"


def clear(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether a is larger than b in the mean over seeds by more than the standard error of the difference."""
    return bool(a.mean() - b.mean() > np.sqrt(a.var(ddof=1) / a.size + b.var(ddof=1) / b.size))


def check(results: Results) -> list[Claim]:
    """The source's claims; criteria were set before the full run, after 1,000 steps from one seed.

    Larger and smaller mean: by more than the standard error of the difference of the seeds' means. The claim on
    averaged states was added after the full run: what a single state lacks may be noise, which averages out.
    """
    curves, claims = results.curves, []
    exact, scir = curves["exact"], curves["SCIR"]

    def ends(length: int, *names: str) -> str:
        return ", ".join(f"{name} {_spelt(curves[name].end(curves[name].score, length))}" for name in names)

    def numbers(length: int, *names: str) -> str:
        return ", ".join(f"{n} {curves[n].later(curves[n].clusters, length).mean():.1f}" for n in names)

    for length in results.lengths:
        ours = scir.end(scir.score, length)
        theirs = [curves[name].end(curves[name].score, length) for name in READINGS]
        found = [curves[name].later(curves[name].clusters, length) for name in READINGS]
        needed = [curve.later(curve.clusters, length) for curve in (scir, exact)]
        half = [curves[name].end(curves[name].score, length // 2) for name in READINGS]
        goal = exact.end(exact.drawn, length)
        after = f"after {length:,} steps"
        claims += [
            Claim(f"{after} SCIR predicts better than SGRLD (with either reading of its h)",
                  all(clear(ours, other) for other in theirs), ends(length, "SCIR", *READINGS)),
            Claim(f"{after} SCIR varies less (standard deviation of the seeds, with either reading)",
                  all(ours.std() < other.std() for other in theirs), ends(length, "SCIR", *READINGS)),
            Claim(f"{after} SGRLD has got worse (its end below that of half as many steps, with either reading)",
                  all(clear(before, now) for before, now in zip(half, theirs, strict=True)),
                  f"{ends(length // 2, *READINGS)}, then {ends(length, *READINGS)}"),
            Claim(f"{after} SGRLD has too many clusters (in the second half more than SCIR and exact, either reading)",
                  all(clear(a, b) for a in found for b in needed), numbers(length, "SCIR", "exact", *READINGS)),
            Claim(f"{after} SCIR and SGRLD are worse than the exact sampler (all as drawn, with either reading)",
                  all(clear(goal, other) for other in (ours, *theirs)),
                  f"exact {_spelt(goal)}, {ends(length, 'SCIR', *READINGS)}"),
        ]  # fmt: skip
    source, last = results.lengths
    same, own = curves["SGRLD, a and K of SCIR"], curves["exact, a and K of SGRLD"]
    claims += [
        Claim("beyond the source: SCIR predicts better than SGRLD with the same a and K too, at the last step",
              clear(scir.end(scir.score, last), same.end(same.score, last)),
              ends(last, "SCIR", "SGRLD, a and K of SCIR")),
        Claim("beyond the source: SGRLD has more clusters than the exact sampler with the same a and K (either pair)",
              all(clear(a.later(a.clusters, last), b.later(b.clusters, last))
                  for a, b in ((curves["SGRLD"], own), (same, exact))),
              numbers(last, "SGRLD", "exact, a and K of SGRLD", "SGRLD, a and K of SCIR", "exact")),
        Claim("beyond the source: SCIR and SGRLD are worse than the exact sampler when states are averaged (either h)",
              all(clear(exact.averaged, curves[name].averaged) for name in ("SCIR", *READINGS)),
              ", ".join(f"{name} {_spelt(curves[name].averaged)}" for name in ("exact", "SCIR", *READINGS))),
    ]  # fmt: skip
    for name in ("kept, SCIR", "kept, exact draws"):
        gap = exact.end(exact.score, last).mean() - curves[name].end(curves[name].score, last).mean()
        claims.append(Claim(
            f"beyond the source: {name}: minibatches reach the exact sampler (means at the last step within {NEAR})",
            bool(abs(gap) < NEAR), ends(last, name, "exact")))  # fmt: skip
    wrong = curves["published SCIR"], curves["published SGRLD"]
    claims.append(Claim(
        "beyond the source: its claims hold with the errors of the published code (better, more clusters, worse)",
        clear(wrong[0].end(wrong[0].score, source), wrong[1].end(wrong[1].score, source))
        and clear(wrong[1].later(wrong[1].clusters, source), wrong[0].later(wrong[0].clusters, source))
        and all(clear(exact.end(exact.drawn, source), own.end(own.score, source)) for own in wrong),
        f"{ends(source, 'published SCIR', 'published SGRLD')}; clusters: "
        f"{numbers(source, 'published SCIR', 'published SGRLD')}; one multinomial {results.single:.3f}"))  # fmt: skip
    return claims


def draw(results: Results, path: Path) -> None:
    """Scores by steps and by seconds, and the number of clusters."""
    figure = common.picture(15, 5.2)
    steps, seconds, number = figure.subplots(1, 3)
    for name, curve in results.curves.items():
        colour, style = LOOK[name]
        for axes, against, values in (
            (steps, curve.steps, curve.score), (seconds, curve.seconds.mean(axis=0), curve.score),
            (number, curve.steps, curve.clusters),
        ):  # fmt: skip
            axes.plot(against, values.T, color=colour, linewidth=0.4, alpha=0.35)
            axes.plot(against, values.mean(axis=0), style, color=colour, linewidth=1.6, label=name)
    for axes in (steps, seconds):
        axes.axhline(results.single, color="#999999", linewidth=1, label="one multinomial")
        best = max(curve.score.max() for curve in results.curves.values())
        axes.set_ylim(results.single - 0.4 * (best - results.single), best + 0.05 * (best - results.single))
    for axes in (steps, seconds, number):
        axes.set_xscale("log")
    number.set_yscale("log")
    number.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    number.yaxis.set_major_formatter("{x:g}")
    number.yaxis.set_minor_formatter(NullFormatter())
    common.tidy(steps, "seeds thin, mean thick", "iterations", "mean log predictive of a test user", legend=None)
    common.tidy(seconds, "by time", "seconds of one core", "mean log predictive of a test user", legend=None)
    common.tidy(number, "clusters with users", "iterations", "clusters", legend=None)
    figure.legend(*steps.get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    common.play(__doc__, "dp_mixture", run, table, check, draw, argv)


if __name__ == "__main__":
    main()
