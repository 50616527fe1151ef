"""Control variates for topics as the data grow, SGLD-CV and SAGA against SGLD: Figure 3.5.5 of Baker's thesis (2019).

Latent Dirichlet allocation with K = 20 topics and alpha = beta = 1 on the 1,000 most frequent words of Wikipedia, on
minibatches of 50 out of D documents. The natural parameters of the topics move by SGLD; the counts of the corpus are
estimated from the minibatch alone, by differences from a centre (SGLD-CV), or by differences from what each document
had when it was last seen (SAGA). SGLD-CV begins with stochastic gradient descent (SGD), makes its centre where that
ends, and goes on from there. The source claims that the gain of SGLD-CV over SGLD is clear as D grows, that SAGA takes
the longest, and that the perplexity of SGLD-CV drops suddenly at the switch from SGD.

Step sizes are those of its Table A.3.4, tuned by the source for each method and D. Its SGLD is (3.2.3), so that they
are twice those of ``sc.SGLD``; its SGD is (3.3.2), where they are the same. But with these SGD does not settle, and its
authors may have used one routine for both. So SGLD-CV also runs with half of them ('SGD halved'), a reading that was
added after the first full run.

The source counts iterations or time. So there are two rows: by minibatches, and by documents swept, in passes over the
data. SGLD-CV sweeps each minibatch twice, there and at the centre, and all D documents once for the centre; SAGA sweeps
all documents once at its start. SGLD goes on until it has swept as many documents as SGLD-CV.

What differs: there are 1,000 minibatches, 300 of them SGD for SGLD-CV; where the source ends and switches it does not
say. That is 5 passes over the smallest data and 0.6 over the largest. D is 10,000, 50,000 and 81,538. The measure is
the held-out perplexity of one draw by document completion, 10 % of the tokens of 300 new documents given the others.
The counts of a document come from 10 Gibbs sweeps, the first 3 not counted; differences share their random numbers.
Minibatches are independent, for all methods. The perplexity is infinite if a held-out token has probability 0, as when
a word was thrown out of all topics: where e^theta is large so is the prior's gradient, and a step too far ends at a
theta far below zero, from where there is hardly a way back. The documents are not the source's, which reports pictures
only; here each has at least 10 tokens and the longest has thousands. Full mode reads ``wikipedia.npz`` in the folder
named by SCIROCCO_DATA. Short mode draws a small corpus from the model, with 6 topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import common
import lda_stream
import numpy as np
from common import COLOURS, INK, Claim
from lda_stream import Curve, Texts

import scirocco as sc
from scirocco.corpora.documents import Documents
from scirocco.counts.estimators import ControlVariateCounts
from scirocco.counts.minibatches import InMemory
from scirocco.models.lda.evaluation import unigram_perplexity
from scirocco.models.lda.stream import StreamChain
from scirocco.simplex.natural import Natural

ALPHA, BETA, BATCH, SWEEPS, SKIPPED = 1.0, 1.0, 50, 10, 3
VOCABULARY, SHORTEST = 1000, 10
HALVED = "SGLD-CV, SGD halved"
METHODS, CONTROLLED = ("SGLD", "SGLD-CV", HALVED, "SAGA"), ("SGLD-CV", HALVED)
MODES: dict[str, Any] = {  # sizes: documents, and the step sizes of Table A.3.4
    "tiny": {"topics": 3, "held_out": 30, "seeds": 1, "switch": 6, "near": 3, "marks": (1, 3, 6, 9, 12),
             "sizes": {n: {"SGLD": 4e-4, "SGLD-CV": 4e-4, "SGD": 2e-4, "SAGA": 4e-4} for n in (200, 400)}},
    "short": {"topics": 6, "held_out": 150, "seeds": 2, "switch": 30, "near": 15, "marks": (1, 15, 30, 45, 60),
              "sizes": {2000: {"SGLD": 4e-4, "SGLD-CV": 4e-4, "SGD": 2e-4, "SAGA": 4e-4},
                        4000: {"SGLD": 4e-4, "SGLD-CV": 4e-4, "SGD": 2e-4, "SAGA": 4e-4}}},
    "full": {"topics": 20, "held_out": 300, "seeds": 5, "switch": 300, "near": 50,
             "marks": (1, 10, 20, 50, 100, 150, 250, 300, 310, 350, 400, 500, 700, 850, 1000),
             "sizes": {10_000: {"SGLD": 8e-4, "SGLD-CV": 8e-4, "SGD": 7e-4, "SAGA": 5e-4},
                       50_000: {"SGLD": 8e-5, "SGLD-CV": 8e-5, "SGD": 1e-4, "SAGA": 5e-5},
                       81_538: {"SGLD": 5e-5, "SGLD-CV": 5e-5, "SGD": 1e-4, "SAGA": 5e-5}}},
}  # fmt: skip
COLOUR = dict(zip(METHODS, (COLOURS[1], COLOURS[0], COLOURS[3], COLOURS[2]), strict=True))


class Results(NamedTuple):
    """A curve for each size and method, which counts documents swept; perplexity of word frequencies."""

    curves: dict[tuple[int, str], Curve]
    last: int  # minibatch that all methods reach
    switch: int
    near: int  # minibatches before and after the switch that are compared
    unigram: float

    @property
    def sizes(self) -> list[int]:
        """From the smallest."""
        return sorted({size for size, _ in self.curves})

    def after_minibatches(self, size: int, method: str) -> np.ndarray:
        """Every seed at the last minibatch of all methods."""
        return self.curves[size, method].at(self.last)

    def after_documents(self, size: int, method: str) -> np.ndarray:
        """Every seed at its end, where SGLD has swept as many documents as SGLD-CV."""
        return self.curves[size, method].perplexity[:, -1]

    def drop(self, size: int, method: str) -> tuple[np.ndarray, np.ndarray]:
        """By how many per cent SGLD-CV falls just before the switch and just after it, seed by seed."""
        curve = self.curves[size, method]
        before, at, after = (curve.at(self.switch + m) for m in (-self.near, 0, self.near))
        with np.errstate(invalid="ignore"):  # infinite before and after
            return 100 * (1 - at / before), 100 * (1 - after / at)


def texts(mode: str, documents: int, held_out: int, topics: int) -> Texts:
    """Wikipedia in an order of chance, or a small corpus drawn from the model."""
    if mode != "full":
        return lda_stream.texts(mode, documents, held_out, topics)
    every = Documents.of(lda_stream.most_frequent(common.data_set(sc.datasets.load_wikipedia).counts, VOCABULARY))
    order = np.random.default_rng(0).permutation(np.flatnonzero(every.lengths >= SHORTEST))
    return Texts(every.take(order[:documents]), every.take(order[-held_out:]))


def marks_of(method: str, size: int, marks: Sequence[int], switch: int) -> list[int]:
    """The marks of a method; SGLD goes on, in four parts, until it has swept the documents of SGLD-CV."""
    last = marks[-1]
    if method != "SGLD":
        return list(marks)
    end = switch + 2 * (last - switch) + round(size / BATCH)
    return [*marks, *np.linspace(last, end, 5).round().astype(int)[1:].tolist()]


def follow(
    found: Texts, size: int, method: str, steps: dict[str, float], *, topics: int, seeds: int, marks: Sequence[int],
    switch: int,
) -> Curve:  # fmt: skip
    """The curve of one method on the first ``size`` documents."""
    train, alpha = found.train.take(slice(0, size)), np.full(topics, ALPHA)
    wanted = marks_of(method, size, marks, switch)
    perplexity, swept = np.full((seeds, len(wanted)), np.inf), np.zeros(len(wanted), int)
    langevin = Natural(sc.SGLD(steps[method.partition(",")[0]] / 2))
    descent = Natural(sc.SGLD(steps["SGD"] / (2 if method == HALVED else 1), temperature=0.0))
    for seed in range(seeds):
        minibatches = InMemory(train, BATCH, "independent", seed=seed, chain=0)
        chain = StreamChain(
            descent if method in CONTROLLED else langevin, train.width, alpha, np.full(train.width, BETA),
            seed=seed, chain=0, sweeps=SWEEPS, skip_sweeps=SKIPPED, threads=1, minibatches=minibatches,
            estimator="saga" if method == "SAGA" else "plain",
        )  # fmt: skip
        documents = sum(part.data.size for part in chain.survey())
        try:
            for step in range(1, wanted[-1] + 1):
                chain.step(minibatches.at(step))
                documents += BATCH * (2 if isinstance(chain.estimator, ControlVariateCounts) else 1)
                if step in wanted:
                    place = wanted.index(step)
                    swept[place] = documents
                    with np.errstate(divide="ignore"):  # a probability of 0
                        perplexity[seed, place] = lda_stream.score(chain, alpha, found.held_out)
                if step == switch and method in CONTROLLED:
                    chain.use(langevin, "control_variate")
                    documents += sum(part.data.size for part in chain.survey())
        except FloatingPointError:  # the rest of the seed is infinite
            continue
    return Curve(np.array(wanted), swept, perplexity)


def run(mode: str) -> Results:
    """Each method on each size from each seed."""
    settings = {**MODES[mode]}
    sizes, near, held_out = (settings.pop(name) for name in ("sizes", "near", "held_out"))
    found = texts(mode, max(sizes), held_out, settings["topics"])
    curves = {(size, method): follow(found, size, method, steps, **settings)
              for size, steps in sizes.items() for method in METHODS}  # fmt: skip
    unigram = unigram_perplexity(found.train.word_counts(), found.held_out)
    return Results(curves, settings["marks"][-1], settings["switch"], near, unigram)


def table(results: Results) -> str:
    """Each seed at the last common minibatch and at its end, with the passes that all sweeps together make."""
    rows = []
    for (size, method), curve in results.curves.items():
        place = int(np.flatnonzero(curve.steps == results.last)[0])
        early = (f"{curve.at(m).mean():.1f}" for m in (results.switch // 2, results.switch))
        rows.append((f"{size:,}, {method}", *early,
                     common.spread(results.after_minibatches(size, method), 1), f"{curve.documents[place] / size:.2f}",
                     common.spread(results.after_documents(size, method), 1), f"{curve.documents[-1] / size:.2f}",
                     str(curve.steps[-1])))  # fmt: skip
    header = ("documents, method", f"minibatch {results.switch // 2}, mean", f"{results.switch}, mean",
              f"{results.last}, each seed", "passes swept", "at its end, each seed", "passes",
              "minibatches")  # fmt: skip
    drops = [f"{size:,}, {method}: {common.spread(before, 1)} % before, {common.spread(after, 1)} % after"
             for size in results.sizes for method in CONTROLLED
             for before, after in [results.drop(size, method)]]  # fmt: skip
    heading = f"fall in {results.near} minibatches around the switch"
    lines = [common.columns(header, rows), heading, *drops, f"word frequencies alone: {results.unigram:.1f}"]
    return "\n".join(lines)


def check(results: Results) -> list[Claim]:
    """The source's claims; the criteria were set before the first full run, which had no halved steps of SGD."""

    def below(method: str, size: int, by: str) -> Claim:
        ends = results.after_minibatches if by == "minibatches" else results.after_documents
        a, b = ends(size, method), ends(size, "SGLD")
        text = f"{size:,} documents, by {by}: {method} ends below SGLD (every seed below every seed)"
        return Claim(
            text if by == "minibatches" else f"beyond the source, {text}",
            bool(a.max() < b.min()), f"{method} {common.spread(a, 1)}, SGLD {common.spread(b, 1)}",
        )  # fmt: skip

    end = {key: float(results.after_minibatches(*key).mean()) for key in results.curves}
    half = {key: float(curve.at(results.last // 2).mean()) for key, curve in results.curves.items()}
    claims = []
    for method in CONTROLLED:
        gains = [100 * (1 - end[size, method] / end[size, "SGLD"]) for size in results.sizes]
        drops = [results.drop(size, method) for size in results.sizes]
        sudden = [after.mean() > max(2.0, 3 * before.mean()) for before, after in drops]
        claims += [
            *(below(method, size, "minibatches") for size in results.sizes),
            Claim(f"and {method} by more, the more documents there are (means of the seeds, in per cent)",
                  common.among_sizes(gains, np.all(np.diff(gains) > 0) and gains[-1] > 0),
                  f"by {common.spread(gains, 1)} %"),
            Claim(f"{method} drops suddenly at the switch (in the {results.near} minibatches after it by over 2 % and "
                  f"over 3 times as much as in the {results.near} before, at every size)", all(sudden),
                  "; ".join(f"{size:,}: {before.mean():.1f} % before, {after.mean():.1f} % after"
                            for size, (before, after) in zip(results.sizes, drops, strict=True))),
        ]  # fmt: skip
    return [
        *claims,
        Claim("SAGA is the slowest (half-way its mean is above those of all others, at every size)",
              all(half[size, "SAGA"] > max(half[size, m] for m in METHODS if m != "SAGA") for size in results.sizes),
              "; ".join(f"{size:,}: " + ", ".join(f"{m} {half[size, m]:.1f}" for m in METHODS)
                        for size in results.sizes)),
        *(below(method, size, "documents swept") for method in CONTROLLED for size in results.sizes),
    ]  # fmt: skip


def draw(results: Results, path: Path) -> None:
    """A column for each size; by minibatches above, by passes of all sweeps below."""
    figure = common.picture(4.5 * len(results.sizes), 8)
    panels = figure.subplots(2, len(results.sizes), sharey=True, squeeze=False)
    for (above, under), size in zip(panels.T, results.sizes, strict=True):
        for method in METHODS:
            curve = results.curves[size, method]
            shown = curve.steps <= results.last
            part = Curve(curve.steps[shown], curve.documents[shown], curve.perplexity[:, shown])
            lda_stream.lines(above, part, part.steps, COLOUR[method], method)
            if method in CONTROLLED:  # the sweep of all documents, during which nothing moves
                place = int(np.flatnonzero(curve.steps == results.switch)[0])
                curve = Curve(np.insert(curve.steps, place + 1, results.switch),
                              np.insert(curve.documents, place + 1, curve.documents[place] + size),
                              np.insert(curve.perplexity, place + 1, curve.perplexity[:, place], axis=1))  # fmt: skip
            lda_stream.lines(under, curve, curve.documents / size, COLOUR[method], method)
        above.axvline(results.switch, color=INK, linewidth=0.6, label="switch of SGLD-CV")
        for axes in (above, under):
            axes.axhline(results.unigram, color=INK, linestyle=":", linewidth=1, label="word frequencies alone")
            axes.set_yscale("log")
            every = [c.perplexity[np.isfinite(c.perplexity)] for c in results.curves.values()]
            ticks = np.geomspace(min(v.min() for v in every), max(v.max() for v in every), 7).round(-1)
            axes.set_yticks(np.unique(ticks), [f"{tick:.0f}" for tick in np.unique(ticks)])
            axes.minorticks_off()
        common.tidy(above, f"{size:,} documents", "minibatches", "held-out perplexity")
        common.tidy(under, "by all sweeps", "documents swept, in passes over the data", "held-out perplexity",
                    legend=None)  # fmt: skip
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    common.play(__doc__, "lda_growing_data", run, table, check, draw, argv)


if __name__ == "__main__":
    main()
