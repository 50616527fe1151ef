"""Topics from documents that live on the workers of a cluster (``run.rounds``).

    driver    phi_k ~ Dirichlet(beta + n_k)
    shard     z_di ~ (n_dk + alpha_k) phi_kw for all of its tokens; it answers their counts n

A Gibbs scan over all documents: exact, whatever the number of shards and of workers. A shard is a stretch of a corpus
on storage that all see, read by who has it; topics of tokens stay there, and phi and counts travel. The start is the
search of a chain in memory on a sample of the documents, given whose topics shards assign their tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from scirocco.core.seeds import Purpose, generator, stream_key
from scirocco.corpora.documents import Documents
from scirocco.corpora.parts import Stretches, every_nth
from scirocco.corpora.store import Corpus
from scirocco.counts.estimators import KeptCounts
from scirocco.counts.packing import Arrays
from scirocco.counts.resident import ResidentChain
from scirocco.models.lda.gibbs import KeptGibbs
from scirocco.models.lda.given import CountedTopics, sweep_given
from scirocco.models.lda.kernels.vector_draw import padded
from scirocco.models.lda.priors import alpha_sums, learnt_alpha, learnt_beta
from scirocco.run.rounds import Rounds, Shard

SAMPLE = 10**7  # tokens on which the search for a start is made: with fewer it ends in worse topics
FIRST = 5  # sweeps of the first round, which begins with topics at random


@dataclass(frozen=True)
class ShardMaker:
    """A shard of ``documents``, at its start."""

    documents: Stretches
    topics: int
    seed: int
    chain: int
    learn_alpha: bool

    def __call__(self, number: int) -> DocumentShard:
        """In the worker."""
        path = (self.chain, number)
        return DocumentShard(self.documents(number), self.topics, self.seed, path, learn_alpha=self.learn_alpha)


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


def summed(answers: Sequence[Arrays]) -> Arrays:
    """Everything that shards answer adds up."""
    found = {name: np.array(first, np.int64 if first.dtype.kind == "i" else None) for name, first in answers[0].items()}
    for answer in answers[1:]:
        for total, own in zip(found.values(), answer.values(), strict=True):
            np.add(total, own, out=total)
    return found


class ResidentGibbs(ResidentChain[KeptGibbs], CountedTopics):
    """Exact Gibbs in rounds; ``start`` is a chain in memory on a ``share`` of all tokens."""

    def __init__(self, rounds: Rounds, start: KeptGibbs, share: float, *, seed: int, chain: int) -> None:
        self.learn, self.threads = start.learn, start.threads
        self.key = stream_key(seed, Purpose.RESIDENT_TOPICS, chain)
        self.alpha, self.beta = start.alpha, start.beta
        self._counts, self._totals = start.counts, start.totals  # those of the sample before the first round
        super().__init__(rounds, start, share)

    @property
    def counts(self) -> np.ndarray:
        """Of all assignments, words x topics; before the first round those of the sample."""
        return self._counts

    @property
    def totals(self) -> np.ndarray:
        """Sums of the counts by topic."""
        return self._totals

    def begin_at(self, start: KeptGibbs) -> None:
        """The counts of the sample."""
        self._counts, self._totals = start.counts, start.totals

    def make_round(self) -> None:
        """Topics, then all assignments, and the priors if they are learnt."""
        found = summed(self.rounds({"phi": self._phi(), "alpha": self.alpha}))
        self._counts, self._totals = found["counts"], found["counts"].sum(axis=0)
        if "alpha" in self.learn:
            alpha = learnt_alpha(self.alpha.astype(np.float64), found["above"], float(found["below"]))
            self.alpha = alpha.astype(np.float32)
        if "beta" in self.learn:
            self.beta = learnt_beta(self.beta, self._counts)

    def _phi(self) -> np.ndarray:
        """A draw of the topics as kernels take it: words x topics, padded."""
        topics = self.draw().T
        phi = np.zeros((len(topics), padded(self.alpha.size)), np.float32)
        phi[:, : self.alpha.size] = topics
        return phi

    def found(self) -> np.ndarray:
        """What the search has found so far, or the expectation of ``draw``."""
        return self.mean().astype(np.float32) if self._start is None else self._start.found()

    def pack_statistics(self) -> Arrays:
        """Counts and priors."""
        return {"counts": self._counts, "alpha": self.alpha, "beta": self.beta}

    def unpack_statistics(self, arrays: Mapping[str, np.ndarray]) -> None:
        """The inverse of ``pack_statistics``."""
        self._counts, self.alpha, self.beta = (arrays[name] for name in ("counts", "alpha", "beta"))
        self._totals = self._counts.sum(axis=0)


def sampled(documents: Documents | Corpus, tokens: int = SAMPLE) -> Documents:
    """Every n-th document, so many that they have about so many tokens at the most."""
    return every_nth(documents, max(1, -(-documents.tokens // tokens)))
