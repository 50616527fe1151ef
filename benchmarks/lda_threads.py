"""What a fit of LDA makes of two threads: passes in a budget of seconds, and held-out perplexity after it.

    python benchmarks/lda_threads.py [--documents 1_200_000] [--seconds 20] [--turns 5]

Short documents of two topics each, made on the spot, fitted with the default settings and one chain, by one thread and
by two in turns. A ratio is that of the passes of a turn; a machine whose second core is busy shows it there.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

import scirocco as sc

TOPICS, WORDS, LENGTH, HELD_OUT, PART = 50, 8_000, 12, 1_000, 100_000
FIRST = 0.7  # of the tokens of a document, on average, are of its first topic


def documents(count: int, seed: int = 0) -> sp.csr_matrix:
    """Counts of words."""
    rng = np.random.default_rng(seed)
    heights = np.cumsum(rng.dirichlet(np.full(WORDS, 0.02), TOPICS), axis=1)
    own = rng.integers(0, TOPICS, (count, 2))
    topics = np.where(rng.random((count, LENGTH)) < FIRST, own[:, :1], own[:, 1:])
    chances, words = rng.random((count, LENGTH)), np.empty((count, LENGTH), np.int32)
    for k, height in enumerate(heights):
        of_topic = topics == k
        words[of_topic] = np.minimum(np.searchsorted(height, chances[of_topic]), WORDS - 1)
    rows = np.repeat(np.arange(count), LENGTH)
    return sp.coo_matrix((np.ones(rows.size, np.int32), (rows, words.ravel())), shape=(count, WORDS)).tocsr()


def main(argv: Sequence[str] | None = None) -> None:
    """Print a line for each turn, and the median ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_200_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args(argv)
    counts = documents(args.documents + HELD_OUT)
    held_out, counts = counts[:HELD_OUT], counts[HELD_OUT:]
    for threads in (1, 2):  # compiled
        sc.LDA(TOPICS, n_chains=1, max_iter=2, random_state=0, n_jobs=threads).fit(counts[:PART])
    print(f"{counts.sum():,} tokens in documents of {LENGTH}, {TOPICS} topics, {args.seconds:g} s")
    ratios = []
    for turn in range(args.turns):
        passes = {}
        for threads in (1, 2):
            settings = {"n_chains": 1, "max_seconds": args.seconds, "random_state": turn, "n_jobs": threads}
            model = sc.LDA(TOPICS, **settings).fit(counts)
            passes[threads] = model.n_iter_
            perplexity = model.perplexity(held_out)
            print(f"  {threads} threads: {model.n_iter_:6.1f} passes, perplexity {perplexity:7.1f}", flush=True)
        ratios.append(passes[2] / passes[1])
    shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"passes of two threads over those of one: {shown}; median {np.median(ratios):.2f}")


if __name__ == "__main__":
    main()
