"""Tokens a second of a sweep by number of topics: scirocco's samplers in memory, tomotopy and topica, one thread.

    SCIROCCO_DATA=... python benchmarks/lda_speed.py --corpus newsgroups20 --topics 20 50 200 1000 10000

"dense" and "proposed" are the two kernels of "collapsed", which looks at all topics of a token or at two; ``MANY`` in
``models/lda/collapsed.py`` says which is taken. topica has a sparse sampler, and those of LightLDA and WarpLDA.
``--without dense`` leaves out what would take too long.

All take turns, so that a busy machine slows all of them; the median of the turns counts. Every sampler is measured
after the same number of sweeps from its own start. "gibbs" includes the draws of the topics. topica cannot be
continued: its sweeps are the difference between a long and a short fit. ``--threads 2`` measures "gibbs" with two
threads beside one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import lda
import numpy as np

from scirocco.corpora.documents import Documents
from scirocco.models.lda.gibbs import CollapsedGibbs, KeptGibbs

ALPHA, BETA = lda.ALPHA, lda.BETA


def ours(kind: Any, documents: Documents, topics: int, sweeps: int, threads: int, many: float | None = None) -> Any:
    """Seconds of a sweep, one at a time; topics are proposed from ``many`` on."""
    alpha, beta = np.full(topics, ALPHA), np.full(documents.width, BETA)
    with lda.proposed_from(many):
        chain = kind(documents, alpha, beta, seed=0, chain=0, search_passes=1.0, batch_size=None, threads=threads)
        while chain.searching:
            chain.step()

    def sweep() -> float:
        began, before = time.perf_counter(), chain.passes
        with lda.proposed_from(many):
            while chain.passes < before + 0.999:
                chain.step()
        return time.perf_counter() - began

    for _ in range(sweeps):
        sweep()
    return sweep


def tomotopy(counts: Any, topics: int, sweeps: int) -> Any:
    """The same of tomotopy."""
    import tomotopy as tp

    model = tp.LDAModel(k=topics, alpha=ALPHA, eta=BETA, seed=0)
    for d in range(counts.shape[0]):
        row = slice(counts.indptr[d], counts.indptr[d + 1])
        if counts.indptr[d] < counts.indptr[d + 1]:
            model.add_doc([str(w) for w in np.repeat(counts.indices[row], counts.data[row])])
    model.optim_interval = 0
    model.train(sweeps, workers=1)

    def sweep() -> float:
        began = time.perf_counter()
        model.train(1, workers=1)
        return time.perf_counter() - began

    return sweep


def topica(counts: Any, topics: int, sweeps: int, sampler: str = "sparse") -> Any:
    """The same of topica, from fits of two lengths."""
    import topica as library

    texts = [
        [str(w) for w in np.repeat(counts.indices[a:b], counts.data[a:b])]
        for a, b in zip(counts.indptr[:-1], counts.indptr[1:], strict=True)
    ]

    def fit(iterations: int) -> float:
        model = library.LDA(
            topics, alpha_sum=ALPHA * topics, beta=BETA, optimize_interval=0, burn_in=0, seed=0, sampler=sampler
        )
        began = time.perf_counter()
        model.fit(texts, iters=iterations, num_samples=1, sample_interval=1, keep_theta_draws=False, progress=False)
        return time.perf_counter() - began

    return lambda: (fit(sweeps + 8) - fit(sweeps)) / 8


def main(argv: Sequence[str] | None = None) -> None:
    """A table of millions of tokens a second."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="newsgroups20")
    parser.add_argument("--topics", type=int, nargs="+", default=[20, 50, 200, 1000])
    parser.add_argument("--sweeps", type=int, default=10)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--without", nargs="*", default=[])
    options = parser.parse_args(argv)
    counts = lda.corpus(options.corpus)
    documents = Documents.of(counts)
    print(f"{options.corpus}, {documents.tokens:,} tokens: millions a second, median of {options.turns} turns")
    for topics in options.topics:
        makers: dict[str, Any] = {
            "dense": lambda k=topics: ours(CollapsedGibbs, documents, k, options.sweeps, 1, np.inf),
            "proposed": lambda k=topics: ours(CollapsedGibbs, documents, k, options.sweeps, 1, 1),
            "gibbs": lambda k=topics: ours(KeptGibbs, documents, k, options.sweeps, 1),
            "tomotopy": lambda k=topics: tomotopy(counts, k, options.sweeps),
            "topica": lambda k=topics: topica(counts, k, options.sweeps),
            "topica LightLDA": lambda k=topics: topica(counts, k, options.sweeps, "lightlda"),
            "topica WarpLDA": lambda k=topics: topica(counts, k, options.sweeps, "warp"),
        }
        if options.threads > 1:
            name = f"gibbs, {options.threads} threads"
            makers[name] = lambda k=topics: ours(KeptGibbs, documents, k, options.sweeps, options.threads)
        sweeps = {name: make() for name, make in makers.items() if name not in options.without}
        times: dict[str, list[float]] = {name: [] for name in sweeps}
        for _ in range(options.turns):
            for name, sweep in sweeps.items():
                times[name].append(sweep())
        rates = {name: documents.tokens / 1e6 / float(np.median(found)) for name, found in times.items()}
        print(f"K = {topics:5d}  " + "  ".join(f"{name} {rate:5.1f}" for name, rate in rates.items()), flush=True)


if __name__ == "__main__":
    main()
