"""Control variates for topics, by iterations and by documents: Figure 2 of Barile and Nemeth, section 3.

Latent Dirichlet allocation with K = 50 topics, alpha = 1.1 and beta = 0.1 on minibatches of 50 out of 50,000 documents.
Every 5 iterations SCIR-CV estimates its centre, the parameter a of the topics' posterior, from 1,000 documents. The
source claims that the held-out perplexity of SCIR-CV is below that of SCIR, and that of SCIR below that of SGRLD; all
three have the step sizes h (1 + m/tau)^-kappa of its Table 1, h = 1 and tau = 1000. For ``sc.SGRLD`` that is h = 1/2.

The centre makes SCIR-CV read 250 documents an iteration where the others read 50, and the source does not count them.
So there are two panels: against iterations, as in the source, and against all documents read. To see what is due to the
step size alone, SCIR and SGRLD also run with those that Baker et al. (2018) tuned for them ('tuned'). And 'SCIR-CV,
centre seen' takes its centre every 20 iterations from a fading average of the minibatches themselves, which costs no
documents.

Which components get a control variate the source does not say. Its formulas exist for every a > 1, but a minibatch
that misses a component has b_hat = (beta - 1)/(a - 1) < 0, and the weight grows by e^(0.9 h/(a - 1)) until it is seen
or the centre moves: for a = 1.1 by 8,000 in a step. 'SCIR-CV' is therefore the library's default, which asks beforehand
whether a minibatch sees enough of a component. 'SCIR-CV, every a > 1' runs beside it, and works as long as no estimate
of a happens to lie just above 1. With 20 Gibbs sweeps, 15 of them counted, 1,000 documents give counts in multiples of
50/15, so that none does; with the 200 of the source some do, and five iterations are enough to see what happens.

What differs: Table 1 prints kappa = 3.32, with which the step sizes would sum to a finite time and the chains come to
rest wherever they are (``sc.Decreasing`` refuses it); here it is 0.33 as in Baker et al. SCIR-CV has the form of the
source's appendix, the only one that is a transition for every minibatch. There are 160 iterations of SCIR-CV and 800 of
the others, 40,000 documents read by each, 500 held-out documents in place of 1,000, and 20 Gibbs sweeps for the counts
of a document, 5 of them not counted, in place of 200. Perplexity says how well one draw predicts, not whether the draws
have the spread of the posterior. The documents are not the source's; it reports pictures only. Full mode reads
``wikipedia.npz`` in the folder named by SCIROCCO_DATA. Short mode draws a small corpus from the model, with 6 topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import common
import lda_stream
import numpy as np
from common import COLOURS, INK, Claim
from lda_stream import Curve

import scirocco as sc
from scirocco.models.lda.evaluation import unigram_perplexity

ALPHA, BETA, EVERY = 1.1, 0.1, 5
FINE = {"sweeps": 200, "skip_sweeps": 20}  # as many sweeps as in the source; it names no burn-in
MODES: dict[str, Any] = {
    "tiny": {"topics": 3, "documents": 400, "held_out": 40, "seeds": 1, "centre_batch": 60, "controlled": (5, 10),
             "plain": (5, 10, 12)},
    "short": {"topics": 6, "documents": 20_000, "held_out": 200, "seeds": 2, "centre_batch": 400,
              "controlled": (5, 10, 20, 40, 60), "plain": (5, 10, 20, 40, 60, 100, 156)},
    "full": {"topics": 50, "documents": 50_000, "held_out": 500, "seeds": 5, "centre_batch": 1000,
             "controlled": (5, 10, 20, 40, 80, 120, 160),
             "plain": (5, 10, 20, 40, 80, 120, 160, 240, 320, 480, 640, 800)},
}  # fmt: skip
SCHEDULE = {"tau": 1000.0, "kappa": 0.33}
ALL = "SCIR-CV, every a > 1"
SEEN = "SCIR-CV, centre seen"
METHODS = {
    "SCIR-CV": sc.SCIRCV(sc.Decreasing(1.0, **SCHEDULE), recentre_every=EVERY),
    SEEN: sc.SCIRCV(sc.Decreasing(1.0, **SCHEDULE), recentre_every=4 * EVERY, centre_from="seen"),
    ALL: sc.SCIRCV(sc.Decreasing(1.0, **SCHEDULE), recentre_every=EVERY, choose="always"),
    "SCIR": sc.SCIR(sc.Decreasing(1.0, **SCHEDULE)),
    "SGRLD": sc.SGRLD(sc.Decreasing(1.0 / 2, **SCHEDULE)),
    "SCIR, tuned": lda_stream.METHODS["SCIR"][0],
    "SGRLD, tuned": lda_stream.METHODS["SGRLD"][0],
}
COLOUR = {method: COLOURS[("SCIR", "SGRLD", "SCIR-CV").index(method.partition(",")[0])] for method in METHODS}
STYLE = {method: "-" for method in METHODS} | {m: "--" for m in METHODS if m.endswith("tuned")} | {ALL: ":", SEEN: "-."}


class Results(NamedTuple):
    """A curve for each method; the perplexities of word frequencies and of a few iterations with 200 sweeps."""

    curves: dict[str, Curve]
    unigram: float
    fine: float

    @property
    def last(self) -> int:
        """The last iteration of SCIR-CV."""
        return int(self.curves["SCIR-CV"].steps[-1])

    def after_iterations(self, method: str) -> np.ndarray:
        """Every seed of a method, where SCIR-CV ends by iterations."""
        return self.curves[method].at(self.last)

    def after_documents(self, method: str) -> np.ndarray:
        """Every seed of a method, where SCIR-CV ends by documents; that is the end of all."""
        return self.curves[method].perplexity[:, -1]


def run(mode: str) -> Results:
    """Each method from each seed, until it has read as many documents as the others."""
    settings = MODES[mode]
    found = lda_stream.texts(mode, settings["documents"], settings["held_out"], settings["topics"])
    shared = {"topics": settings["topics"], "centre_batch": settings["centre_batch"]}
    curves = {}
    for method, sampler in METHODS.items():
        counted = isinstance(sampler, sc.SCIRCV) and sampler.centre_from == "batch"
        marks = settings["controlled" if counted else "plain"]
        curves[method] = lda_stream.follow(found, sampler, ALPHA, BETA, seeds=settings["seeds"], marks=marks, **shared)
    try:
        few = lda_stream.follow(found, METHODS[ALL], ALPHA, BETA, seeds=1, marks=(EVERY,), **shared, **FINE)
        fine = float(few.perplexity[0, 0])
    except FloatingPointError:  # beyond double precision
        fine = np.inf
    return Results(curves, unigram_perplexity(found.train.word_counts(), found.held_out), fine)


def table(results: Results) -> str:
    """Each seed at the iteration and at the number of documents where SCIR-CV ends."""
    documents = results.curves["SCIR-CV"].documents[-1]
    rows = [(method, common.spread(results.after_iterations(method), 1),
             str(curve.documents[curve.steps == results.last][0]), common.spread(results.after_documents(method), 1),
             str(curve.steps[-1])) for method, curve in results.curves.items()]  # fmt: skip
    header = ("method", f"perplexity, {results.last} iterations", "documents", f"perplexity, {documents} documents",
              "iterations")  # fmt: skip
    return (
        f"{common.columns(header, rows)}\nword frequencies alone: {results.unigram:.1f}\n"
        f"{ALL}, after {EVERY} iterations with {FINE['sweeps']} sweeps: {results.fine:.4g}"
    )


def check(results: Results) -> list[Claim]:
    """The source's order, panel by panel: every seed of the one below every seed of the other."""

    def below(text: str, first: str, second: str, panel: str) -> Claim:
        ends = results.after_iterations if panel == "iterations" else results.after_documents
        a, b = ends(first), ends(second)
        return Claim(text, bool(a.max() < b.min()),
                     f"{first} {common.spread(a, 1)}, {second} {common.spread(b, 1)}")  # fmt: skip

    return [
        below("by iterations: SCIR-CV is below SCIR", "SCIR-CV", "SCIR", "iterations"),
        below("by iterations: SCIR is below SGRLD", "SCIR", "SGRLD", "iterations"),
        below("by documents: SCIR-CV is below SCIR", "SCIR-CV", "SCIR", "documents"),
        below("by documents: SCIR is below SGRLD", "SCIR", "SGRLD", "documents"),
        below("beyond the source, by documents: SCIR-CV is below SCIR with tuned steps too",
              "SCIR-CV", "SCIR, tuned", "documents"),
        below("beyond the source, by documents: SCIR is below SGRLD with tuned steps for both",
              "SCIR, tuned", "SGRLD, tuned", "documents"),
        below("beyond the source, by documents: a centre from what was seen is better than one counted for the purpose",
              SEEN, "SCIR-CV", "documents"),
        below("beyond the source, by documents: a control variate for every a > 1 beats SCIR with tuned steps",
              ALL, "SCIR, tuned", "documents"),
        Claim(f"every a > 1 can have one with {FINE['sweeps']} sweeps too (after {EVERY} iterations at most twice the "
              "perplexity of word frequencies)", results.fine <= 2 * results.unigram,
              f"{results.fine:.4g}, word frequencies {results.unigram:.4g}"),
    ]  # fmt: skip


def draw(results: Results, path: Path) -> None:
    """One panel by iterations, one by documents."""
    figure = common.picture(13, 5)
    panels = figure.subplots(1, 2, sharey=True)
    for method, curve in results.curves.items():
        shown = curve.steps <= results.last
        part = Curve(curve.steps[shown], curve.documents[shown], curve.perplexity[:, shown])
        for axes, some, against in ((panels[0], part, part.steps), (panels[1], curve, curve.documents)):
            lda_stream.lines(axes, some, against, COLOUR[method], method, linestyle=STYLE[method])
    for axes in panels:
        axes.axhline(results.unigram, color=INK, linestyle=(0, (1, 3)), linewidth=1, label="word frequencies alone")
        axes.set(xscale="log", yscale="log")
        low, high = (f([f(c.perplexity) for c in results.curves.values()]) for f in (np.min, np.max))
        ticks = np.unique(np.round(np.geomspace(low, high, 7), -2 if low > 1000 else 0))
        axes.set_yticks(ticks, [f"{tick:.0f}" for tick in ticks])
    for axes, ticks in zip(panels, ((5, 10, 20, 40, 80, 160), (300, 1000, 3000, 10_000, 30_000)), strict=True):
        low, high = axes.get_xlim()
        inside = [tick for tick in ticks if low <= tick <= high]
        axes.set_xticks(inside, [str(tick) for tick in inside])
        axes.minorticks_off()
    common.tidy(panels[0], "by iterations, as in the source", "iterations", "held-out perplexity", legend=None)
    common.tidy(panels[1], "by documents read, those for the centre too", "documents", "", legend=None)
    panels[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    common.play(__doc__, "lda_control_variate", run, table, check, draw, argv)


if __name__ == "__main__":
    main()
