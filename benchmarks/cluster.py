"""Data on the workers of a cluster beside data in one process: speed, bytes and overhead of a round, what pays.

    python benchmarks/cluster.py [--only topics mixture stream cost] [--tokens 20_000_000] [--topics 50]
                                 [--rows 1_000_000] [--workers 1 2] [--turns 3]

Data are made on the spot. ``topics`` and ``mixture`` are sampled by "gibbs", a minibatch being everything: in one
process with so many threads, and in two shards on so many workers of this machine, each with one thread. They take
turns; the tables have medians. The overhead of a round is what it takes with hardly any data. From it and the speed
follows from which size on several workers are quicker than one thread. ``stream`` has the seconds of a step of SCIR by
minibatch, which say that themselves; ``cost`` what a token and a byte of a round take.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from dp_mixture import SPREAD, synthetic
from lda_scaling import PART, USED, documents

from scirocco.core.seeds import Purpose, stream_key
from scirocco.corpora import Corpus, write_corpus
from scirocco.corpora.documents import Documents
from scirocco.corpora.parts import Stretches
from scirocco.counts.minibatches import InMemory
from scirocco.models.dp_mixture.components import Encoding, Multinomial
from scirocco.models.dp_mixture.gibbs import Blocked
from scirocco.models.dp_mixture.partition import DirichletProcess
from scirocco.models.dp_mixture.resident import ResidentMixture, RowShardMaker, StoredRows, sampled_every
from scirocco.models.lda.gibbs import KeptGibbs
from scirocco.models.lda.kernels.vector_draw import padded
from scirocco.models.lda.resident import ResidentGibbs, ShardMaker, sampled
from scirocco.models.lda.resident_stream import Away, Itinerary, ResidentStream, StreamShardMaker
from scirocco.models.lda.stream import StreamChain
from scirocco.run import checkpoint
from scirocco.run.checkpoint import Arrays
from scirocco.run.rounds import Cluster, Rounds
from scirocco.simplex import SCIR

SHARDS, STEPS = 2, 10  # a save is among so many steps
SAMPLE, FEW = 10**6, 20  # tokens of the start; documents or rows of a round that is all overhead
BATCHES, SWEEPS = (500, 2_000, 8_000), (10, 3)  # documents of a minibatch; sweeps of each, and those not counted


class Weighed(Rounds):
    """Rounds that count bytes."""

    sent, answered = 0, 0

    def __call__(self, message: Arrays) -> list[Arrays]:
        """One round."""
        answers = super().__call__(message)
        self.sent = sum(array.nbytes for array in message.values())
        self.answered = sum(array.nbytes for answer in answers for array in answer.values())
        return answers


@contextmanager
def clients(workers: int) -> Any:
    """The client of a cluster of this machine."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


def seconds(step: Callable[[], None], steps: int = STEPS) -> float:
    """Of a step, after the first."""
    step()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    return (time.perf_counter() - began) / steps


def begun(chain: Any) -> Any:
    """A chain that samples by now."""
    while not chain.sampling:
        chain.step()
    return chain


# What is sampled, in memory and on workers.


def topics_here(corpus: Documents, topics: int, threads: int) -> KeptGibbs:
    """Everything at once."""
    chain: KeptGibbs = begun(
        KeptGibbs(
            corpus, np.full(topics, 0.1), np.full(corpus.width, 0.05), seed=0, chain=0, search_passes=0.0,
            batch_size=corpus.size, threads=threads,
        )
    )  # fmt: skip
    return chain


def topics_there(client: Any, place: Path, corpus: Corpus, topics: int) -> ResidentGibbs:
    """The same on the workers of a client."""
    maker = ShardMaker(Stretches(corpus.path, SHARDS), topics, 0, 0, learn_alpha=False)
    start = topics_here(sampled(corpus, tokens=SAMPLE), topics, 1)
    return ResidentGibbs(Weighed(Cluster(client, SHARDS), place, maker), start, 0.0, seed=0, chain=0)


def mixture_here(rows: Documents, encoding: Encoding, labels: np.ndarray, threads: int) -> Blocked:
    """Everything at once, at the true clusters."""
    chain: Blocked = begun(
        Blocked(
            rows, encoding.law(0.1), encoding.counted, DirichletProcess(1.0, (1.0, 1.0)), seed=0, chain=0,
            threads=threads, moves=False, start=labels, batch_size=rows.size,
        )
    )  # fmt: skip
    return chain


def mixture_there(client: Any, place: Path, rows: Documents, encoding: Encoding, labels: np.ndarray) -> ResidentMixture:
    """The same on the workers of a client."""
    source, every = StoredRows(place / "rows"), sampled_every(rows.size, rows.tokens)
    source.write(rows, SHARDS)
    maker = RowShardMaker(source, encoding.law(0.1), rows.size, SHARDS, every, 0, 0)
    chosen = np.arange(0, rows.size, every)
    start = mixture_here(rows.take(chosen), encoding, labels[chosen], 1)
    return ResidentMixture(Weighed(Cluster(client, SHARDS), place, maker), start, 0.0)


# The tables.


def compare(
    here: Callable[[int], Any], there: Callable[[Any, Path], Any], few: Callable[[Any, Path], Any], size: int,
    unit: str, options: Any, folder: Path,
) -> None:  # fmt: skip
    """Passes of chains in memory and on workers."""
    found: dict[tuple[str, int], list[float]] = {}
    bytes_of_a_round = (0, 0)
    for turn in range(options.turns):
        for number in options.workers:
            found.setdefault(("threads", number), []).append(seconds(here(number).step))
            with clients(number) as client:
                chain = there(client, folder / f"{unit}-{turn}-{number}")
                found.setdefault(("workers", number), []).append(seconds(chain.step))
                bytes_of_a_round = (chain.rounds.sent, chain.rounds.answered)
                small = few(client, folder / f"few-{unit}-{turn}-{number}")
                found.setdefault(("overhead", number), []).append(seconds(small.step))
    sent, answered = bytes_of_a_round
    print(
        f"{size:,} {unit}, {SHARDS} shards; in a round {sent / 1e6:.1f} MB are sent to each, and {answered / 1e6:.1f} "
        f"MB answered by all; load {os.getloadavg()[0]:.1f}"
    )
    one = float(np.median(found["threads", min(options.workers)])) * min(options.workers)
    for number in options.workers:
        threads, workers, overhead = (
            float(np.median(found[kind, number])) for kind in ("threads", "workers", "overhead")
        )
        pays = overhead * size / one * number / (number - 1) if number > 1 else np.inf
        said = f"; quicker than one thread from {pays:,.0f} {unit} on" if number > 1 else ""
        print(
            f"  {number} threads {size / threads / 1e6:6.2f} million {unit} a second, {number} workers "
            f"{size / workers / 1e6:6.2f}: {threads / workers:.2f} times as many; overhead {1e3 * overhead:.0f} ms a "
            f"round{said}",
            flush=True,
        )


def topics_table(corpus: Corpus, options: Any, folder: Path) -> None:
    """LDA."""
    whole, topics = corpus.load(), options.topics
    few = write_corpus(folder / "few", [documents(FEW)], USED)
    compare(
        lambda threads: topics_here(whole, topics, threads),
        lambda client, place: topics_there(client, place, corpus, topics),
        lambda client, place: topics_there(client, place, few, topics),
        corpus.tokens, "tokens", options, folder,
    )  # fmt: skip


def mixture_table(options: Any, folder: Path) -> None:
    """A mixture of multinomial rows."""
    data = synthetic(options.rows, SPREAD["synthetic"])
    assert data.truth is not None
    encoding = Multinomial().encoding(data.train, None)
    rows, labels = encoding.rows(data.train), data.truth.astype(np.int32)
    few = np.arange(min(FEW, rows.size))
    compare(
        lambda threads: mixture_here(rows, encoding, labels, threads),
        lambda client, place: mixture_there(client, place, rows, encoding, labels),
        lambda client, place: mixture_there(client, place, rows.take(few), encoding, labels[few]),
        rows.size, "rows", options, folder,
    )  # fmt: skip


def stream_table(corpus: Corpus, options: Any, folder: Path) -> None:
    """SCIR, by minibatch."""
    whole, topics = corpus.load(), options.topics
    sweeps, skipped = SWEEPS
    number, alpha, beta = max(options.workers), np.full(options.topics, 0.1), np.full(whole.width, 0.05)
    common: dict[str, Any] = {"seed": 0, "chain": 0, "sweeps": sweeps, "skip_sweeps": skipped}
    print(f"SCIR, {whole.size:,} documents, {topics} topics, seconds a step; load {os.getloadavg()[0]:.1f}")
    for size in (batch for batch in BATCHES if batch <= whole.size):
        found: dict[str, list[float]] = {"one": [], "threads": [], "workers": []}
        for turn in range(options.turns):
            for name, threads in (("one", 1), ("threads", number)):
                batches = InMemory(whole, size, seed=0, chain=0)
                stream = StreamChain(SCIR(0.1), whole.width, alpha, beta, threads=threads, **common)
                found[name].append(seconds(steps_of(stream, batches)))
            with clients(number) as client:
                maker = StreamShardMaker(
                    Stretches(corpus.path, SHARDS), whole.size, stream_key(0, Purpose.STREAM_SWEEPS, 0), sweeps, skipped
                )
                place = folder / f"stream-{turn}-{size}"
                rounds = Weighed(Cluster(client, SHARDS), place, maker, remembers=False)
                batches = Itinerary(Away(whole.size), size, seed=0, chain=0)
                stream = ResidentStream(
                    rounds, SCIR(0.1), whole.width, alpha, beta, threads=1, minibatches=batches, **common
                )
                found["workers"].append(seconds(steps_of(stream, batches)))
        one, threads, workers = (float(np.median(found[name])) for name in ("one", "threads", "workers"))
        print(
            f"  {size:6,} documents: one thread {one:.3f}, {number} threads {threads:.3f}, {number} workers "
            f"{workers:.3f}; {rounds.sent / 1e6:.1f} MB to each shard, {rounds.answered / 1e6:.1f} MB from all",
            flush=True,
        )


def steps_of(stream: StreamChain, batches: InMemory) -> Callable[[], None]:
    """One minibatch after the other."""
    return lambda: stream.step(batches.at(stream.steps))


def cost_table(corpus: Corpus, options: Any, folder: Path) -> None:
    """Seconds of the processor, which a busy machine does not change as it does those of the clock."""
    topics, place = options.topics, folder / "cost"
    shard = ShardMaker(Stretches(corpus.path, 1), topics, 0, 0, learn_alpha=False)(0)
    phi = np.zeros((USED, padded(topics)), np.float32)
    phi[:, :topics] = np.random.default_rng(0).dirichlet(np.full(USED, 0.1), topics).T
    message = {"phi": phi, "alpha": np.full(topics, 0.1, np.float32)}
    shard.advance(1, message)
    found = []
    for work in (
        lambda: shard.advance(2, message), lambda: checkpoint.write(place, message, {}), lambda: checkpoint.read(place)
    ):  # fmt: skip
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    a_round, written, read = found
    print(
        f"{topics} topics, nanoseconds of the processor: {1e9 * a_round / corpus.tokens:.0f} a token of a round, "
        f"{1e9 * written / phi.nbytes:.2f} a byte of a message written, {1e9 * read / phi.nbytes:.2f} read"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """The tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only",
        nargs="+",
        choices=("topics", "mixture", "stream", "cost"),
        default=["topics", "mixture", "stream", "cost"],
    )
    parser.add_argument("--tokens", type=int, default=20_000_000)
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if {"topics", "stream", "cost"} & set(options.only):
            parts = (documents(PART, seed) for seed in range(-(-options.tokens // (100 * PART))))
            corpus = write_corpus(folder / "corpus", parts, USED)
            if "topics" in options.only:
                topics_table(corpus, options, folder)
            if "cost" in options.only:
                cost_table(corpus, options, folder)
            if "stream" in options.only:
                stream_table(corpus, options, folder)
        if "mixture" in options.only:
            mixture_table(options, folder)


if __name__ == "__main__":
    main()
