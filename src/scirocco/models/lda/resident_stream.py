"""Stream samplers whose documents live on the workers of a cluster (``run.rounds``): minibatches are drawn from all.

    driver    which documents the minibatch has, a function of (seed, chain, step); topics of their words
    shard     the local step of those that it has; it answers their counts, and the words of its part of the next one

A document's random numbers are those of its place in the minibatch, and counts are whole, so that the chain is that of
one process with all documents in memory, to the bit, whatever the number of shards. What a shard answers depends on
nothing before: there is nothing to save. The search for a start, of a few passes at the most, fetches its documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scirocco.corpora.documents import Documents
from scirocco.corpora.parts import Stretches, borders
from scirocco.counts.minibatches import InMemory, Minibatch
from scirocco.counts.packing import Arrays
from scirocco.models.lda.stream import StreamChain, fresh_assignments
from scirocco.run.rounds import Rounds, Shard

PLACE = 2**32  # entries that a document has fewer of


@dataclass(frozen=True)
class Away:
    """So many documents that are elsewhere, or some of them by their numbers; for ``counts.InMemory``."""

    size: int
    chosen: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> Away:
        """Some of them."""
        return Away(len(rows), rows if self.chosen is None else self.chosen[rows])


@dataclass(frozen=True)
class StreamShardMaker:
    """A shard of ``documents``, ``size`` in all, whose local step has ``sweeps``."""

    documents: Stretches
    size: int
    key: np.ndarray
    sweeps: int
    skip_sweeps: int

    def __call__(self, number: int) -> StreamShard:
        """In the worker."""
        first = borders(self.size, self.documents.parts, number)[0]
        return StreamShard(self.documents(number), first, self.key, self.sweeps, self.skip_sweeps)


class StreamShard(Shard):
    """Documents from number ``first`` on."""

    def __init__(self, documents: Documents, first: int, key: np.ndarray, sweeps: int, skip_sweeps: int) -> None:
        self.documents, self.first, self.key = documents, first, key
        self.sweeps, self.skip_sweeps = sweeps, skip_sweeps
        self._lookup = np.zeros(documents.width, np.int32)

    def advance(self, round_number: int, message: Arrays) -> Arrays:
        """What it has of the documents that are ``fetched``, ``counted``, or ``announced`` for the next message."""
        del round_number
        answer: Arrays = {}
        if "fetched" in message:
            places, own = self._own(message["fetched"])
            answer |= {"places": places, "starts": own.starts, "words": own.words, "numbers": own.numbers}
        if "counted" in message:
            places, own = self._own(message["counted"])
            columns, phi = message["columns"], message["phi"]
            self._lookup[columns] = np.arange(columns.size)
            answer["counts"], _ = fresh_assignments(
                self.key, int(message["step"]), own, self._lookup[own.words], phi, message["alpha"], self.sweeps,
                self.skip_sweeps, seeds=places, threads=1,
            )  # fmt: skip
        if "announced" in message:
            places, own = self._own(message["announced"])
            entry = np.arange(own.words.size)
            owner = np.repeat(np.arange(own.size), np.diff(own.starts))
            words, at = np.unique(own.words, return_index=True)
            answer |= {"next": words, "seen": places[owner[at]] * PLACE + entry[at] - own.starts[owner[at]]}
        return answer

    def _own(self, rows: np.ndarray) -> tuple[np.ndarray, Documents]:
        """Those of some documents that are here, and their places among them."""
        places = np.flatnonzero((rows >= self.first) & (rows < self.first + self.documents.size))
        return places, self.documents.take(rows[places] - self.first)

    def pack(self) -> Arrays:
        """Nothing changes."""
        return {}

    def unpack(self, arrays: Arrays) -> None:
        """Nothing."""


class Itinerary(InMemory):
    """Minibatches of documents that are ``Away``, which knows what comes next."""

    def at(self, step: int) -> Minibatch:
        """The minibatch of a step."""
        self._step = step
        return super().at(step)

    @property
    def upcoming(self) -> np.ndarray:
        """The documents of the step after that."""
        rows = super().at(self._step + 1).rows
        assert rows is not None
        return rows


class ResidentStream(StreamChain):
    """A chain of topics whose documents are ``Away``."""

    minibatches: Itinerary

    def __init__(self, rounds: Rounds, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.rounds = rounds
        self._announced = np.empty(0, np.int64)  # documents whose words are known
        self._columns = np.empty(0, np.int64)  # these words, in the order in which they occur

    def documents_of(self, batch: Minibatch) -> Documents:
        """Fetched from where they are."""
        assert batch.rows is not None
        answers = self.rounds({"fetched": batch.rows})
        width = self._lookup.size
        every = Documents.joined([Documents(a["starts"], a["words"], a["numbers"], width) for a in answers])
        return every.take(np.argsort(np.concatenate([answer["places"] for answer in answers])))

    def count(self, batch: Minibatch, at: Any = None, *, survey: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """The same as of documents that are here."""
        assert batch.rows is not None
        assert not survey
        if not np.array_equal(batch.rows, self._announced):
            self._take(batch.rows, self.rounds({"announced": batch.rows}))
        columns, upcoming = self._columns, self.minibatches.upcoming
        answers = self.rounds({
            "counted": batch.rows, "columns": columns, "phi": self._topics(columns, at), "alpha": self.alpha,
            "step": np.asarray(self.steps), "announced": upcoming,
        })  # fmt: skip
        self._take(upcoming, answers)
        return columns, sum(answer["counts"] for answer in answers) * (batch.scale / self.counted)

    def _take(self, rows: np.ndarray, answers: list[Arrays]) -> None:
        """What the shards announce of some documents: their words in the order in which they occur."""
        words, seen = (np.concatenate([answer[name] for answer in answers]) for name in ("next", "seen"))
        words = words[np.argsort(seen)]
        self._announced, self._columns = rows, words[np.sort(np.unique(words, return_index=True)[1])].astype(np.int64)
