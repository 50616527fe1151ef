"""What grows with what: cost with the vocabulary, memory with the corpus, speed with the threads.

    python benchmarks/lda_scaling.py [--picture scaling.png] [--tokens 100_000_000]

The same 5,000 documents, made on the spot, are given vocabularies of 10^4 to 10^6 words: a step of SCIR from a stream
reads and moves the words of its minibatch only. Then corpora on disk of 1 to 16 times 20,000 documents are sampled in
fresh processes, and the peak of their memory is compared with that of the smallest. Then the search for a start and the
sweeps of "gibbs" are timed with one and two threads, in turns.

``--tokens`` adds a corpus of so many tokens on disk: a stream from disk, and every token kept in memory, with the
tokens a second and the bytes a token that they take.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from scirocco.corpora import write_corpus
from scirocco.corpora.documents import Documents
from scirocco.counts.minibatches import Minibatch
from scirocco.models.lda.gibbs import KeptGibbs
from scirocco.models.lda.stream import StreamChain
from scirocco.simplex import SCIR

TOPICS, USED, DOCUMENTS, BATCH, STEPS = 50, 8_000, 5_000, 250, 40
VOCABULARIES = (10**4, 10**5, 10**6)
LENGTHS = (1, 4, 16)
TURNS = 3
SECONDS = 8.0  # of each run on a corpus on disk
PART = 20_000  # documents: corpora on disk are multiples of it

CHILD = """
import sys
from pathlib import Path
import scirocco as sc
corpus = sc.corpora.Corpus(sys.argv[1], block_entries=200_000)
model = sc.LDA(20, sampler="scir", batch_size=250, max_iter=10**6, max_seconds=float(sys.argv[2]),
               n_draws=2, random_state=0, n_jobs=1)
model.fit(corpus)
lines = Path("/proc/self/status").read_text().splitlines()
peak = next(line for line in lines if line.startswith("VmHWM"))  # not inherited, as ru_maxrss is
print(int(peak.split()[1]) / 1024)
"""


LARGE = """
import sys
from pathlib import Path
import scirocco as sc
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024
corpus, started = sc.corpora.Corpus(sys.argv[1]), peak()
options = dict(sampler=sys.argv[2], max_iter=10**6, n_draws=2, random_state=0, n_jobs=2)
model = sc.LDA(int(sys.argv[3]), max_seconds=60, **options).fit(corpus)
rate = float(model.trace_.sample_stats["tokens_per_second"].values.mean())
print(corpus.tokens, rate, peak(), started)
"""


def documents(count: int, seed: int = 0) -> sp.csr_matrix:
    """Bags of about 100 words each, drawn by Zipf's law from the first words of a vocabulary."""
    rng = np.random.default_rng(seed)
    chances = 1 / np.arange(1, USED + 1)
    words = rng.choice(USED, size=(count, 100), p=chances / chances.sum())
    rows = np.repeat(np.arange(count), 100)
    return sp.csr_matrix((np.ones(rows.size, np.int64), (rows, words.ravel())), shape=(count, USED))


def vocabulary_costs() -> dict[int, float]:
    """Milliseconds of a minibatch, median, for each size of the vocabulary."""
    counts, found = documents(DOCUMENTS), {}
    for size in VOCABULARIES:
        corpus = Documents.of(sp.csr_matrix((counts.data, counts.indices, counts.indptr), shape=(DOCUMENTS, size)))
        chain = StreamChain(
            SCIR(0.1),
            size,
            np.full(TOPICS, 0.1),
            np.full(size, 0.05),
            seed=0,
            chain=0,
            sweeps=10,
            skip_sweeps=3,
            threads=1,
        )
        times = []
        for step in range(STEPS + 5):
            batch = corpus.take(slice(step * BATCH % DOCUMENTS, step * BATCH % DOCUMENTS + BATCH))
            began = time.perf_counter()
            chain.step(Minibatch.of(batch, DOCUMENTS))
            times.append(time.perf_counter() - began)
        found[size] = float(np.median(times[5:])) * 1e3
        print(f"  {size:>9,} words: {found[size]:6.1f} ms a minibatch of {BATCH} documents", flush=True)
    return found


def stream_memory() -> dict[int, float]:
    """Peak memory in MB of a process that samples corpora of growing length for the same time."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for times in LENGTHS:
            path = Path(folder) / str(times)
            write_corpus(path, (documents(PART, seed) for seed in range(times)), USED)
            done = subprocess.run(
                [sys.executable, "-c", CHILD, str(path), str(SECONDS)], capture_output=True, text=True, check=True
            )  # fmt: skip
            found[times * PART] = float(done.stdout)
            print(f"  {times * PART:>9,} documents on disk: {found[times * PART]:6.0f} MB at the peak", flush=True)
    return found


def thread_speeds() -> None:
    """Millions of tokens a second of the search and of sweeps, with one and two threads."""
    corpus = Documents.of(sp.vstack([documents(PART, seed) for seed in range(4)]).tocsr())
    times: dict[tuple[str, int], list[float]] = {}
    for turn in range(TURNS):
        for threads in (1, 2):
            chain = KeptGibbs(
                corpus, np.full(TOPICS, 0.1), np.full(USED, 0.05), seed=turn, chain=0, search_passes=6.0,
                batch_size=None, threads=threads,
            )  # fmt: skip
            for phase, more in (("search", lambda c: c.searching), ("sweeps", lambda c: c.sampled < 5)):
                began, before = time.perf_counter(), chain.passes
                while more(chain):
                    chain.step()
                rate = (chain.passes - before) * corpus.tokens / 1e6 / (time.perf_counter() - began)
                times.setdefault((phase, threads), []).append(rate)
    for phase in ("search", "sweeps"):
        one, two = (float(np.median(times[phase, threads])) for threads in (1, 2))
        print(f"  {phase}: {one:5.1f} with one thread, {two:5.1f} with two, {two / one:.2f} times as much", flush=True)


def large_corpus(tokens: int) -> None:
    """A corpus on disk, as a stream and in memory, in processes of their own."""
    blocks = [documents(PART, seed) for seed in range(5)]
    each = int(blocks[0].sum())
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "corpus")
        write_corpus(path, (blocks[i % len(blocks)] for i in range(max(1, tokens // each))), USED)
        for sampler in ("scir", "gibbs"):
            command = [sys.executable, "-c", LARGE, path, sampler, str(TOPICS)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            total, rate, peak, started = map(float, done.stdout.split())
            print(
                f"  {sampler}, {total:,.0f} tokens: {rate / 1e6:.1f} million a second on two threads, peak "
                f"{peak:,.0f} MB, {(peak - started) * 2**20 / total:.1f} bytes a token",
                flush=True,
            )


def main(argv: Sequence[str] | None = None) -> None:
    """All tables, and the picture if one is wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--tokens", type=int, default=0)
    options = parser.parse_args(argv)
    print("cost of a minibatch against the vocabulary")
    costs = vocabulary_costs()
    factor = costs[VOCABULARIES[-1]] / costs[VOCABULARIES[0]]
    print(f"  from {VOCABULARIES[0]:,} to {VOCABULARIES[-1]:,} words: a factor of {factor:.2f}")
    print("memory of a stream against the length of the corpus")
    peaks = stream_memory()
    smallest, largest = (peaks[n * PART] for n in (LENGTHS[0], LENGTHS[-1]))
    print(f"  from {LENGTHS[0] * PART:,} to {LENGTHS[-1] * PART:,} documents: {largest - smallest:+.0f} MB")
    print(f"millions of tokens a second, K = {TOPICS}, median of {TURNS} turns")
    thread_speeds()
    if options.tokens:
        print("a large corpus")
        large_corpus(options.tokens)
    if options.picture:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3.5), layout="constrained")
        for axes, found, words, label in zip(
            figure.subplots(1, 2), (costs, peaks), ("words in the vocabulary", "documents on disk"),
            ("ms a minibatch", "peak memory, MB"), strict=True,
        ):  # fmt: skip
            axes.plot(list(found), list(found.values()), "o-", color="#0072b2")
            axes.set(xscale="log", xlabel=words, ylabel=label, ylim=(0, 1.3 * max(found.values())))
        figure.savefig(options.picture, dpi=150)
        print(f"picture: {options.picture}")


if __name__ == "__main__":
    main()
