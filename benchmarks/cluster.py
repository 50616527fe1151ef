"""Documents on the workers of a cluster beside documents in one process: tokens a second, and what a round costs.

    python benchmarks/cluster.py [--tokens 20_000_000] [--topics 50] [--workers 1 2] [--turns 3]

A corpus made on the spot is sampled by "gibbs", a minibatch being everything: in one process with so many threads, and
in two shards on so many workers of this machine, each with one thread. They take turns; the table has medians.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from lda_scaling import PART, USED, documents

from scirocco.corpora import write_corpus
from scirocco.corpora.documents import Documents
from scirocco.corpora.parts import Stretches
from scirocco.models.lda.gibbs import KeptGibbs
from scirocco.models.lda.kernels.vector_draw import padded
from scirocco.models.lda.resident import ResidentGibbs, ShardMaker, sampled
from scirocco.run.rounds import Cluster, Rounds

SHARDS, STEPS = 2, 10  # a save is among so many steps


@contextmanager
def clients(workers: int) -> Any:
    """The client of a cluster of this machine."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


def kept(corpus: Documents, topics: int, threads: int) -> KeptGibbs:
    """A chain in memory that samples by now, everything at once."""
    chain = KeptGibbs(
        corpus, np.full(topics, 0.1), np.full(corpus.width, 0.05), seed=0, chain=0, search_passes=0.0,
        batch_size=corpus.size, threads=threads,
    )  # fmt: skip
    while not chain.sampling:
        chain.step()
    return chain


def seconds(chain: Any) -> float:
    """Of a pass, after the first."""
    chain.step()
    began = time.perf_counter()
    for _ in range(STEPS):
        chain.step()
    return (time.perf_counter() - began) / STEPS


def main(argv: Sequence[str] | None = None) -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=20_000_000)
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args(argv)
    topics, found = options.topics, {}
    with tempfile.TemporaryDirectory() as folder:
        parts = (documents(PART, seed) for seed in range(-(-options.tokens // (100 * PART))))
        corpus = write_corpus(Path(folder) / "corpus", parts, USED)
        whole = corpus.load()
        for turn in range(options.turns):
            for number in options.workers:
                found.setdefault(("threads", number), []).append(seconds(kept(whole, topics, number)))
                with clients(number) as client:
                    make = ShardMaker(Stretches(corpus.path, SHARDS), topics, 0, 0, learn_alpha=False)
                    rounds = Rounds(Cluster(client, SHARDS), Path(folder) / f"{turn}-{number}", make)
                    start = kept(sampled(corpus, tokens=10**6), topics, number)
                    chain = ResidentGibbs(rounds, start, 0.0, seed=0, chain=0)
                    found.setdefault(("workers", number), []).append(seconds(chain))
    table = USED * 4 * (padded(topics) + topics) * SHARDS
    print(f"{corpus.tokens:,} tokens, {topics} topics, {SHARDS} shards; {table / 1e6:.1f} MB travel in a round")
    for number in options.workers:
        here, there = (float(np.median(found[kind, number])) for kind in ("threads", "workers"))
        print(
            f"  {number} threads {corpus.tokens / here / 1e6:6.2f} million tokens a second, {number} workers "
            f"{corpus.tokens / there / 1e6:6.2f}: {here / there:.2f} times as many, {1e3 * (there - here):.1f} ms more",
            flush=True,
        )


if __name__ == "__main__":
    main()
