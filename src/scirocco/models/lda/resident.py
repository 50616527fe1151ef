"""Topics from documents that live on the workers of a cluster (``run.rounds``).

    driver    phi_k ~ Dirichlet(beta + n_k)
    shard     z_di ~ (n_dk + alpha_k) phi_kw for all of its tokens; it answers their counts n

A Gibbs scan over all documents: exact, whatever the number of shards and of workers. A shard is a stretch of a corpus
on storage that all see, read by who has it; topics of tokens stay there, and phi and counts travel. The start is the
search of a chain in memory on a sample of the documents, given whose topics shards assign their tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import ClassVar

import numpy as np

from scirocco.core.seeds import Purpose, generator, stream_key
from scirocco.corpora.documents import Documents
from scirocco.corpora.store import Corpus
from scirocco.counts.estimators import KeptCounts
from scirocco.counts.packing import Arrays, nested, packed, unpack_into
from scirocco.models.lda.gibbs import KeptGibbs
from scirocco.models.lda.given import CountedTopics, sweep_given
from scirocco.models.lda.kernels.vector_draw import padded
from scirocco.models.lda.priors import alpha_sums, learnt_alpha, learnt_beta
from scirocco.run.checkpoint import part
from scirocco.run.rounds import Cluster, Rounds, Shard

SAMPLE = 2 * 10**6  # tokens on which the search for a start is made
FIRST = 5  # sweeps of the first round, which begins with topics at random


@dataclass(frozen=True)
class ShardMaker:
    """Shard ``number`` of so many ``shards`` of a corpus, at its start."""

    corpus: Path
    shards: int
    topics: int
    seed: int
    chain: int
    learn_alpha: bool

    def __call__(self, number: int) -> DocumentShard:
        """In the worker."""
        corpus = Corpus(self.corpus)
        begin, end = (corpus.size * k // self.shards for k in (number, number + 1))
        path = (self.chain, number)
        return DocumentShard(corpus.read(begin, end), self.topics, self.seed, path, learn_alpha=self.learn_alpha)


class DocumentShard(Shard):
    """Documents and the topics of their tokens."""

    def __init__(
        self, documents: Documents, topics: int, seed: int, path: tuple[int, int], *, learn_alpha: bool
    ) -> None:  # fmt: skip
        self.seed, self.path, self.learn_alpha = seed, path, learn_alpha
        self.key = stream_key(seed, Purpose.RESIDENT_SWEEPS, *path)
        self.starts = documents.token_starts
        self.kept = KeptCounts(
            documents.token_words(), rows=topics, categories=documents.width, width=padded(topics)
        )  # fmt: skip

    def advance(self, round_number: int, message: Arrays) -> Arrays:
        """New topics of all tokens given ``phi`` and ``alpha``; their counts, and what learning alpha needs."""
        kept, alpha = self.kept, message["alpha"]
        first = round_number == 1
        if first:
            rng = generator(self.seed, Purpose.RESIDENT_START, *self.path)
            kept.labels[:] = rng.integers(kept.rows, size=kept.size, dtype=kept.labels.dtype)
            kept.add(0, kept.size)
        calls = count(0 if first else 2 * (FIRST + round_number))  # two a sweep at the most
        for _ in range(FIRST if first else 1):
            sweep_given(
                self.key, calls.__next__, 0, self.starts.size - 1, self.starts, kept, message["phi"], alpha, threads=1
            )  # fmt: skip
        answer = {"counts": kept.used.copy()}
        if self.learn_alpha:
            above, below = alpha_sums(alpha.astype(np.float64), self.starts, kept.labels)
            answer |= {"above": above, "below": np.asarray(below)}
        return answer

    def pack(self) -> Arrays:
        """The topics of all tokens."""
        return {"z": self.kept.labels}

    def unpack(self, arrays: Arrays) -> None:
        """The inverse of ``pack``."""
        self.kept.labels[:] = arrays["z"]
        self.kept.add(0, self.kept.size)


class ResidentGibbs(CountedTopics):
    """Exact Gibbs in rounds; ``start`` is a chain in memory on a ``share`` of all tokens, whose search is taken."""

    numbers: ClassVar[tuple[str, ...]] = ("calls", "searched")

    def __init__(
        self, rounds: Rounds, start: KeptGibbs, share: float, *, seed: int, chain: int, learn: tuple[str, ...]
    ) -> None:  # fmt: skip
        self.rounds, self.learn, self.threads = rounds, learn, start.threads
        self.key = stream_key(seed, Purpose.RESIDENT_TOPICS, chain)
        self.alpha, self.beta = start.alpha, start.beta
        self.calls = 0
        self.searched = 0.0  # passes over all documents that the search was worth
        self._start: KeptGibbs | None = start
        self._share = share
        self._counts, self._totals = start.counts, start.totals
        self._search_over()

    @property
    def counts(self) -> np.ndarray:
        """Of all assignments, words x topics; before the first round those of the sample."""
        return self._counts

    @property
    def totals(self) -> np.ndarray:
        """Sums of the counts by topic."""
        return self._totals

    @property
    def searching(self) -> bool:
        """Whether the search for a start goes on."""
        return self._start is not None

    @property
    def sampling(self) -> bool:
        """Whether the chain samples by now."""
        return self._start is None

    @property
    def passes(self) -> float:
        """Rounds, and what the search was worth."""
        return self.searched + self.rounds.round

    def next_call(self) -> int:
        """The number of the next stream of random numbers."""
        self.calls += 1
        return self.calls

    def pace(self, taken: float) -> None:
        """So much of the search's time is taken, 1 being all."""
        if self._start is not None:
            self._start.pace(taken)

    def step(self) -> None:
        """A part of the search, or a round."""
        if self._start is not None:
            self._start.step()
            self._search_over()
            return
        answers = self.rounds({"phi": self._phi(), "alpha": self.alpha})
        self._counts = sum((answer["counts"] for answer in answers), start=np.zeros(self._counts.shape, np.int64))
        self._totals = self._counts.sum(axis=0)
        if "alpha" in self.learn:
            above, below = (np.sum([answer[name] for answer in answers], axis=0) for name in ("above", "below"))
            self.alpha = learnt_alpha(self.alpha.astype(np.float64), above, float(below)).astype(np.float32)
        if "beta" in self.learn:
            self.beta = learnt_beta(self.beta, self._counts)

    def _phi(self) -> np.ndarray:
        """A draw of the topics as kernels take it: words x topics, padded."""
        topics = self.draw().T
        phi = np.zeros((len(topics), padded(self.alpha.size)), np.float32)
        phi[:, : self.alpha.size] = topics
        return phi

    def _search_over(self) -> None:
        """What was found is the start, and the chain that found it is no longer needed."""
        assert self._start is not None
        self.searched = self._share * self._start.passes
        if self._start.sampling:
            self._counts, self._totals, self._start = self._start.counts, self._start.totals, None

    def found(self) -> np.ndarray:
        """What the search has found so far, or the expectation of ``draw``."""
        return self.mean().astype(np.float32) if self._start is None else self._start.found()

    def pack(self) -> Arrays:
        """The search, or the counts, while shards are saved as they are; priors."""
        found = packed(self, self.numbers) | {"alpha": self.alpha, "beta": self.beta}
        if self._start is not None:
            return found | nested(start=self._start.pack())
        return found | {"counts": self._counts, "round": np.asarray(self.rounds.pin())}

    def unpack(self, arrays: Mapping[str, np.ndarray]) -> None:
        """The inverse of ``pack``."""
        unpack_into(self, self.numbers, arrays)
        self.alpha, self.beta = arrays["alpha"], arrays["beta"]
        self.rounds.begin(int(arrays.get("round", 0)))
        if "counts" in arrays:
            self._start, self._counts = None, arrays["counts"]
            self._totals = self._counts.sum(axis=0)
        elif self._start is not None:
            self._start.unpack(part(dict(arrays), "start"))


def sampled(documents: Documents | Corpus, tokens: int = SAMPLE) -> Documents:
    """Every n-th document, so many that they have about so many tokens at the most."""
    every = max(1, -(-documents.tokens // tokens))
    if isinstance(documents, Documents):
        return documents.shard(0, every)
    parts, offset = [], 0
    for block in documents:
        parts.append(block.take(np.arange(-offset % every, block.size, every)))
        offset += block.size
    return Documents.joined(parts)


def _exists(path: Path) -> bool:
    """In a worker."""
    return path.exists()


def require_seen(cluster: Cluster, corpus: Path) -> None:
    """Reject workers that do not see the documents, before any work is done."""
    if not cluster.client.get_executor().submit(_exists, corpus).result():
        raise ValueError(f"the workers of the client do not see {corpus}: put the corpus where all machines see it")
