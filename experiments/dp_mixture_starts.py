"""Mixtures of real data stay where they start: which mode is right, and what the search for a start makes of it.

The users of ``dp_mixture.py``, base 0.1, concentration learnt, collapsed Gibbs. Without a search, chains whose users
come one by one and chains that start in 100 random clusters end with very different numbers of clusters, and stay
there. Which mode has more probability is measured by taking users out again, one in a hundred at a time with sweeps in
between: log p(user | those left) adds up to the evidence of the mode that the chain was in. In each direction such a
path is biased, here upwards for either mode; what counts is a difference far above the spread of seeds.

With the search, every start is to score -11.26 or better within ten seconds, and the number of clusters to be the same
(R-hat below 1.05). Reference: a plain collapsed loop scored -11.261 from 100 random clusters in 28 s and -11.341 from
users one by one. Not from the literature. Full mode reads ``msweb_train.npz`` and ``msweb_test.npz`` in the folder
named by SCIROCCO_DATA; short mode has users from a mixture of 6, where all starts find the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import common
import dp_mixture
import numpy as np
from common import COLOURS, Claim

import scirocco as sc
from scirocco.corpora.documents import Documents
from scirocco.models.dp_mixture.clusters import Statistics
from scirocco.models.dp_mixture.density import count_rows, log_scores
from scirocco.models.dp_mixture.gibbs import Collapsed
from scirocco.models.dp_mixture.partition import DirichletProcess
from scirocco.models.dp_mixture.predictive import Snapshot
from scirocco.run import convergence

MODES: dict[str, Any] = {
    "tiny": {"seeds": 1, "seconds": 0.2, "passes": 10, "melted": 100, "melt_passes": 5},
    "short": {"seeds": 2, "seconds": 1.0, "passes": 50, "melted": 400, "melt_passes": 30},
    "full": {"seeds": 3, "seconds": 10.0, "passes": 1000, "melted": 8000, "melt_passes": 2000},
}
BASE, STARTS, SWEEPS, TENTHS = 0.1, ("one", "sequential", "random"), 3, 100
ENOUGH, AGREED = -11.26, 1.05


class Results(NamedTuple):
    """By start and seed: scores and mean numbers of clusters, without a search and with it; evidence of the modes."""

    plain: dict[str, np.ndarray]  # (seed, 2): score, clusters
    searched: dict[str, np.ndarray]
    numbers: list[np.ndarray]  # of all chains with a search
    evidence: dict[str, np.ndarray]  # (seed, 2): log evidence, clusters at first


def fitted(users: dp_mixture.Users, seed: int, **settings: Any) -> Any:
    """A model; its score and mean number of clusters."""
    model = sc.DirichletProcessMixture(base=BASE, n_chains=1, random_state=seed, n_jobs=1, **settings)
    model.fit(users.train.matrix())
    number = model.posterior_["n_clusters"].values
    return number[0], np.array([model.score(users.test.matrix()), number.mean()])


def melted(rows: Documents, start: str, passes: int, seed: int) -> np.ndarray:
    """The evidence of the mode that a chain without a search is in, and its clusters at first."""
    encoding = dp_mixture.Multinomial().encoding(rows.matrix(), None)
    chain = Collapsed(
        rows, encoding.law(BASE), encoding.counted, DirichletProcess(1.5), seed=seed, chain=0, threads=1, moves=False,
        start=start,
    )  # fmt: skip
    while chain.passes < passes:
        chain.step()
    clusters, total, left, first = chain.clusters, 0.0, rows.size, chain.clusters.number
    while left:
        fewer = left - max(1, left // TENTHS)
        for i in range(left - 1, fewer - 1, -1):  # one by one: each is predicted by those before it
            clusters.labels[i] = -1
        clusters.relabel(clusters.labels.copy())
        for i in range(fewer, left):
            used, sizes = clusters.used, clusters.tables.sizes
            known = Statistics.of_features(sizes[used], clusters.tables.counts[:, used].T)
            state = Snapshot.of(known, clusters.law, chain.partition)
            scores = log_scores(clusters.rows.take(slice(i, i + 1)), state.law, state.tables, state.weights, 1)[0]
            total += np.logaddexp.reduce(scores)
            shares = np.exp(scores - np.logaddexp.reduce(scores))
            place = np.random.default_rng((seed, i)).choice(len(shares), p=shares / shares.sum())
            if place == used.size:
                clusters.make_room(used.size + 2)
            clusters.labels[i] = used[place] if place < used.size else np.flatnonzero(clusters.tables.sizes == 0)[0]
            count_rows(clusters.entries, clusters.labels, i, i + 1, clusters.tables, clusters.law)
        clusters.labels[fewer:] = -1
        clusters.relabel(clusters.labels.copy())
        left = fewer
        for _ in range(SWEEPS if left else 0):
            chain.sweep_collapsed(0, left, left)
    return np.array([total, first])


def run(mode: str) -> Results:
    """All starts and seeds."""
    settings, users = MODES[mode], dp_mixture.users(mode)
    seeds = range(settings["seeds"])
    plain = {
        start: np.array([
            fitted(users, seed, start=start, search=False, split_merge=False, max_iter=settings["passes"])[1]
            for seed in seeds
        ])
        for start in STARTS[1:]
    }  # fmt: skip
    found = {
        start: [fitted(users, seed, start=start, max_seconds=settings["seconds"], max_iter=10**9) for seed in seeds]
        for start in STARTS
    }
    order = np.random.default_rng(5).permutation(users.train.size)[: settings["melted"]]
    part = users.train.take(order)
    evidence = {
        start: np.array([melted(part, start, settings["melt_passes"], seed) for seed in seeds]) for start in STARTS[1:]
    }
    numbers = [number for own in found.values() for number, _ in own]
    return Results(plain, {s: np.array([score for _, score in own]) for s, own in found.items()}, numbers, evidence)


def table(results: Results) -> str:
    """Scores and numbers of clusters by start, seeds side by side."""
    rows = []
    for name, found in (("no search", results.plain), ("search", results.searched)):
        for start, values in found.items():
            rows.append((f"{name}, {start}", common.spread(values[:, 0]), common.spread(values[:, 1], 1), ""))
    for start, values in results.evidence.items():
        logs = common.spread(values[:, 0], 0)
        rows.append((f"taken out, {start}", "", common.spread(values[:, 1], 0), logs))
    return common.columns(("start", "score", "clusters", "log evidence"), rows)


def rhat(results: Results) -> float:
    """Of the number of clusters, over all chains with a search."""
    least = min(map(len, results.numbers))
    return float(convergence.rhat(np.array([own[-least:] for own in results.numbers])[..., None])[0])


def check(results: Results) -> list[Claim]:
    """What the issue of starts is, and how far the search mends it."""
    few, many = (results.plain[start] for start in STARTS[1:])
    low, high = (results.evidence[start] for start in STARTS[1:])
    scores = np.concatenate([own[:, 0] for own in results.searched.values()])
    gap, slack = high[:, 0].mean() - low[:, 0].mean(), np.ptp(high[:, 0]) + np.ptp(low[:, 0])
    found = rhat(results)
    return [
        Claim(
            "without a search the start decides: users one by one score worse than random clusters",
            bool(few[:, 0].max() < many[:, 0].min()),
            f"{common.spread(few[:, 0])} and {common.spread(many[:, 0])}",
        ),
        Claim(
            "the mode with more clusters has more evidence", bool(gap > slack),
            f"{gap:.0f} nats more, spread of the seeds {slack:.0f}",
        ),
        Claim(
            f"with the search every start scores {ENOUGH} or better", bool(scores.min() >= ENOUGH),
            f"worst {scores.min():.4f}, best {scores.max():.4f}",
        ),
        Claim(f"R-hat of the number of clusters is below {AGREED}", bool(found < AGREED), f"{found:.2f}"),
    ]  # fmt: skip


def draw(results: Results, path: Path) -> None:
    """Score against the number of clusters, and the numbers as they are drawn."""
    figure = common.picture(10, 4)
    left, right = figure.subplots(1, 2)
    for marker, found in (("x", results.plain), ("o", results.searched)):
        for start, values in found.items():
            name = f"{start}, {'no ' if marker == 'x' else ''}search"
            colour = COLOURS[STARTS.index(start)]
            left.plot(values[:, 1], values[:, 0], marker, color=colour, label=name)
    colours = np.repeat(STARTS, len(results.numbers) // len(STARTS))
    for start, number in zip(colours, results.numbers, strict=True):
        right.plot(number, color=COLOURS[STARTS.index(str(start))], linewidth=0.8)
    common.tidy(left, "by start", "mean number of clusters", "mean log predictive")
    common.tidy(right, "draws after a search", "draw", "clusters", legend=None)
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    """From the command line."""
    common.play(__doc__, "dp_mixture_starts", run, table, check, draw, argv)


if __name__ == "__main__":
    main()
