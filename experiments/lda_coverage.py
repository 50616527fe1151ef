"""Do the intervals of topics and of documents cover what made the data?

Corpora are drawn from the model: topics ~ Dirichlet(beta), shares of documents ~ Dirichlet(alpha), words. ``LDA`` is
fitted with the same priors, its topics are matched with the true ones, and 90 % intervals are held against the truth:
of the ten first words of each topic (``top_words``), and of the shares of documents of the same law that the fit has
not seen (``transform_draws``, ``transform(return_std=True)`` with 1.645 sds on either side, and the ten documents of
each topic in ``representative_documents``), and of the mean shares in groups of those (``shares_by``). Under the model
90 % of intervals from the posterior cover; what can break it is a chain in a wrong mode, too few draws, or a wrong sd.
Only topics that are matched within a total variation of 1/2 are counted, and how many are not is printed.

One chain is enough here, because the corpora are large and their topics apart; ten first words by the posterior mean
are chosen by the data, which favours words whose mean is above their true value. Not from the literature.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import common
import numpy as np
from common import COLOURS, Claim

import scirocco as sc
from scirocco.core.credible import quantiles
from scirocco.models.lda.agreement import STRANGERS, align

MODES = {
    "tiny": {"corpora": 2, "documents": 60, "topics": 3, "words": 30, "length": 40, "passes": 20},
    "short": {"corpora": 3, "documents": 500, "topics": 5, "words": 150, "length": 80, "passes": 100},
    "full": {"corpora": 40, "documents": 1000, "topics": 10, "words": 300, "length": 80, "passes": 200},
}
ALPHA, BETA, LEVEL, NEW, DRAWS = 0.3, 0.1, 0.9, 100, 100
OFF = 0.03
GROUPS, FIRST = 20, 10  # groups of the new documents; representative ones of each topic
WORDS, SHARES, NORMAL = "first words of topics", "shares of documents, draws", "shares of documents, mean and sd"
REPRESENTED, IN_GROUPS = "shares of representative documents", "mean shares of groups"
KINDS = (WORDS, SHARES, NORMAL, REPRESENTED, IN_GROUPS)


class Coverage(NamedTuple):
    """Of each corpus: the share of intervals that cover, by kind; topics without a match, and all topics."""

    shares: dict[str, np.ndarray]
    lost: int
    topics: int


def one(
    seed: int, *, documents: int, topics: int, words: int, length: int, passes: int
) -> tuple[dict[str, float], int]:
    """The coverage on one corpus, and the number of topics without a match."""
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.full(words, BETA), topics)
    eta = rng.dirichlet(np.full(topics, ALPHA), documents + NEW)
    counts = np.array([rng.multinomial(length, p) for p in eta @ phi])
    model = sc.LDA(topics, alpha=ALPHA, beta=BETA, max_iter=passes, n_draws=50, random_state=seed)
    model.fit(counts[:documents])
    order = align(phi, model.components_)  # the fitted topic of each true one
    matched = np.abs(model.components_[order] - phi).sum(axis=1) / 2 < STRANGERS
    best = model.top_words(10, level=LEVEL)
    best = best[matched[np.argsort(order)][best["topic"]]]
    known = phi[np.argsort(order)[best["topic"]], best["word"]]
    new, true = counts[documents:], eta[documents:][:, matched]
    low, high = quantiles(model.transform_draws(new, DRAWS), LEVEL)
    mean, sd = model.transform(new, return_std=True)
    kept = order[matched]
    first = model.representative_documents(new, FIRST, topics=kept, level=LEVEL)
    known_first = true[first["document"], np.repeat(np.arange(len(kept)), FIRST)]
    group = np.arange(NEW) % GROUPS
    in_groups = model.shares_by(new, group, n_draws=DRAWS, sampled=False).draws[..., kept]
    group_low, group_high = quantiles(in_groups, LEVEL)
    group_true = np.array([true[group == g].mean(axis=0) for g in range(GROUPS)])
    return {
        WORDS: float(np.mean((best["lower"] <= known) & (known <= best["upper"]))),
        SHARES: float(np.mean((low[:, kept] <= true) & (true <= high[:, kept]))),
        NORMAL: float(np.mean(np.abs(mean[:, kept] - true) < 1.645 * sd[:, kept])),
        REPRESENTED: float(np.mean((first["lower"] <= known_first) & (known_first <= first["upper"]))),
        IN_GROUPS: float(np.mean((group_low <= group_true) & (group_true <= group_high))),
    }, int(np.sum(~matched))  # fmt: skip


def run(mode: str) -> Coverage:
    """All corpora."""
    settings = {**MODES[mode]}
    found = [one(seed, **settings) for seed in range(settings.pop("corpora"))]
    shares = {kind: np.array([share[kind] for share, _ in found]) for kind in KINDS}
    return Coverage(shares, sum(lost for _, lost in found), len(found) * settings["topics"])


def error(values: np.ndarray) -> float:
    """The standard error of a mean over corpora."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def table(results: Coverage) -> str:
    """Coverage by kind."""
    rows = [(kind, float(v.mean()), error(v), float(v.min())) for kind, v in results.shares.items()]
    lost = f"{results.lost} of {results.topics} true topics have no match and are left out"
    return f"{common.columns(('90 % intervals of', 'cover', 'standard error', 'worst corpus'), rows)}\n{lost}"


def check(results: Coverage) -> list[Claim]:
    """Each kind covers 87 to 93 %."""
    claims = []
    for kind, values in results.shares.items():
        mean = float(values.mean())
        covered = f"{mean:.1%} +- {error(values):.1%}"
        claims.append(Claim(f"{kind}: 90 % intervals cover 87 to 93 %", abs(mean - LEVEL) < OFF, covered))
    share = results.lost / results.topics
    return [*claims, Claim("nearly all true topics are found", share < 0.05, f"{share:.1%} are not")]


def draw(results: Coverage, path: Path) -> None:
    """The coverage of each corpus."""
    figure = common.picture(8, 3.2)
    axes = figure.subplots()
    for row, (values, colour) in enumerate(zip(results.shares.values(), COLOURS, strict=False)):
        axes.plot(values, np.full(len(values), row) + np.linspace(-0.2, 0.2, len(values)), ".", color=colour)
        axes.plot(values.mean(), row, "|", color=colour, markersize=30)
    axes.axvline(LEVEL, color="0.6", linewidth=0.8)
    axes.set_yticks(range(len(results.shares)), list(results.shares))
    common.tidy(axes, "coverage of the truth, by corpus", "share of 90 % intervals", "", legend=None)
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    """From the command line."""
    common.play(__doc__, "lda_coverage", run, table, check, draw, argv)


if __name__ == "__main__":
    main()
