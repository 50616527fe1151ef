"""Chains from a stream: topics move by a simplex sampler, assignments are drawn anew for each minibatch and forgotten.

    counts_kw = (D/n) sum_{d in minibatch} E[n_dkw | topics],    estimated by Gibbs sweeps on each document

    theta moves by a simplex sampler given prior beta + counts;    topics phi_k = theta_k / sum_w theta_kw

Baker et al. (2018, 4.1) and Barile and Nemeth (section 3) with SCIR, SCIRCV and SGRLD; Baker et al. (2019) and Ding et
al. (2014) with gradient samplers on natural parameters. The local step uses the normalised topics. With SCIR and SCIRCV
words that no document of the minibatch has wait, so a step costs what its minibatch does, whatever the vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from scirocco.batches.base import batch_rows
from scirocco.core.compiled import over_blocks
from scirocco.core.seeds import Purpose, generator, stream_key
from scirocco.corpora.documents import Documents
from scirocco.counts.estimators import PlainCounts, chosen_estimator
from scirocco.counts.local import Entries, LocalStep
from scirocco.counts.minibatches import InMemory, Minibatch, Minibatches
from scirocco.counts.packing import Arrays, nested, packed, unpack_into
from scirocco.models.lda.engine import TopicChain
from scirocco.models.lda.kernels import sweeps_stream
from scirocco.models.lda.start.em import StochasticEM
from scirocco.run.checkpoint import part
from scirocco.run.describe import describe, is_opaque, rebuild
from scirocco.simplex import SCIR, SCIRCV, Natural, SimplexSampler, Weights
from scirocco.simplex.base import State, step_size_at

PIECES = 16  # of a minibatch, shared out to threads; each counts for itself
RECORD_STEPS = 10  # from record to record, at the least: each brings all words up to date
RECORD_COST = 4.0  # steps so that records take a tenth of the time, times tokens swept over weights brought up to date
PROBED = 1000  # documents that the noise of minibatches is measured on
NUMBERS = ("read", "_sampling")  # of a fit, that change


class StreamChain(LocalStep):
    """A chain of topics that sees documents in minibatches; of ``minibatches`` it knows nothing in ``partial_fit``."""

    def __init__(
        self, sampler: SimplexSampler, vocabulary: int, alpha: np.ndarray, beta: np.ndarray, *, seed: int, chain: int,
        sweeps: int, skip_sweeps: int, threads: int | None, estimator: Any = "plain",
        minibatches: Minibatches | None = None,
    ) -> None:  # fmt: skip
        self.sampler, self.alpha, self.threads = sampler, alpha.astype(np.float32), threads
        self.sweeps, self.skip_sweeps, self.counted = sweeps, skip_sweeps, sweeps - skip_sweeps
        self.estimator = chosen_estimator(estimator, sampler)
        if minibatches is not None:
            self.minibatches = minibatches
        # Every topic starts near the mean of the prior, a little different from the others.
        self.key, self._survey_key = (
            stream_key(seed, purpose, chain) for purpose in (Purpose.STREAM_SWEEPS, Purpose.STREAM_SURVEY)
        )
        start = generator(seed, Purpose.STREAM_START, chain).gamma(100.0, 0.01, (alpha.size, vocabulary))
        self.weights = Weights(
            beta,
            rows=alpha.size,
            categories=vocabulary,
            initial=start,
            seed=seed,
            path=(Purpose.STREAM_WEIGHTS, chain),
            threads=threads,
        )
        self.state = sampler.start(self.weights)
        self.memory: State = {}  # of the estimator
        self._lookup = np.full(vocabulary, -1)
        self.steps, self.surveyed = 0, 0

    def use(self, sampler: SimplexSampler, estimator: Any = "plain") -> None:
        """Go on with another sampler, from the present topics."""
        self.sampler, self.estimator = sampler, chosen_estimator(estimator, sampler)
        self.state, self.memory = sampler.start(self.weights), {}

    def grow(self, beta: np.ndarray) -> None:
        """Add words with these parameters of the prior."""
        if isinstance(self.sampler, Natural) or self.memory:
            raise ValueError("new words need a sampler of weights without a memory: SCIR or SGRLD")
        self.weights.grow(beta)
        self._lookup = np.concatenate([self._lookup, np.full(beta.size, -1)])

    def begin_at(self, parameter: np.ndarray) -> None:
        """Start from other topics, by their Dirichlet parameter, words x topics."""
        self.weights.replace(parameter)
        self.state = self.sampler.start(self.weights)

    def survey(self) -> Iterator[Minibatch]:
        """What the estimator must count before the first step, part by part."""
        return self.estimator.survey(self, self.memory)

    def step(self, batch: Minibatch) -> None:
        """One minibatch."""
        self._present = batch
        self.sampler.step(self.weights, self.estimator.counts(self, batch, self.memory), self.state)
        self.steps += 1
        if not np.all(np.isfinite(self.weights.totals)):
            raise FloatingPointError(
                f"a weight is no longer finite after minibatch {self.steps:,}: take a smaller step_size, or SCIR, "
                "whose weights cannot diverge"
            )

    # The local step.

    def count(self, batch: Minibatch, at: Any = None, *, survey: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Words of a batch, and how often each has each topic on average over the counted sweeps, words x topics."""
        columns, places = sweeps_stream.touched(batch.data.words, self._lookup)
        table, _ = fresh_assignments(
            *self._stream(survey), batch.data, places, self._topics(columns, at), self.alpha, self.sweeps,
            self.skip_sweeps, threads=self.threads,
        )  # fmt: skip
        return columns, table * (batch.scale / self.counted)

    def entries(self, batch: Minibatch, at: Any = None, *, survey: bool = False) -> Entries:
        """The same for each entry of the batch by itself, in multiples of one sweep."""
        documents = batch.data
        columns, places = sweeps_stream.touched(documents.words, self._lookup)
        phi = self._topics(columns, at)[places]  # one row for each entry, so that each has its own count
        table, _ = fresh_assignments(
            *self._stream(survey), documents, np.arange(documents.words.size, dtype=np.int32), phi, self.alpha,
            self.sweeps, self.skip_sweeps, apart=True, threads=self.threads,
        )  # fmt: skip
        known = batch.rows is not None and isinstance(self.minibatches, InMemory)
        where = self.minibatches.data.entries(batch.rows) if known else None
        return Entries(where, documents.words, table, 1 / self.counted)

    @property
    def entry_total(self) -> int:
        """Entries of all documents, which are in memory."""
        return int(self._documents.words.size)

    @property
    def entry_limit(self) -> int:
        """The largest count of an entry in all counted sweeps."""
        return int(self._documents.numbers.max(initial=1)) * self.counted

    @property
    def _documents(self) -> Documents:
        if not isinstance(self.minibatches, InMemory):
            raise ValueError("an estimator that remembers documents needs them in memory")
        documents: Documents = self.minibatches.data
        return documents

    def point(self) -> np.ndarray:
        """The present topics, words x topics."""
        return np.ascontiguousarray(self.draw().T, dtype=np.float32)

    def larger(self, n: int | float) -> Minibatch:
        """Another random part of the corpus; a stream that is not read again has the minibatch at hand only."""
        if not hasattr(self, "minibatches"):
            return self._present
        rows = batch_rows(min(n, self.minibatches.size), self.minibatches.size)
        return self.minibatches.larger(self.steps, min(rows, self.minibatches.resident))

    def documents_of(self, batch: Minibatch) -> Documents:
        """Those of a minibatch, here."""
        found: Documents = batch.data
        return found

    def _stream(self, survey: bool) -> tuple[np.ndarray, int]:
        self.surveyed += survey
        return (self._survey_key, self.surveyed) if survey else (self.key, self.steps)

    def _topics(self, columns: np.ndarray, topics: np.ndarray | None) -> np.ndarray:
        found = self.weights.read(columns).T if topics is None else topics[columns]
        return np.ascontiguousarray(found, dtype=np.float32)

    # What it has found.

    def draw(self) -> np.ndarray:
        """The topics, topics x words."""
        return self.sampler.recorded(self.weights, self.estimator.centre(self.memory)).astype(np.float32)

    mean = draw

    def inflation(self, sample: Documents, batch_size: int, total: int) -> np.ndarray | None:
        """The predicted sd of each probability over that of the posterior, topics x words; None if it is not known.

        ``sample`` are documents that the noise of minibatches is measured on. Words that it does not have are taken to
        have none. For SCIR the variance is a + tanh(h/2) Var(a_hat): that the counts depend on the topics in their turn
        slows the chain and widens the posterior, but by the same factor. The step size is that of a quarter of the
        steps ago, in the middle of what is kept.
        """
        if isinstance(self.sampler, SCIRCV) or not isinstance(self.sampler, SCIR | Natural) or sample.size < 2:
            return None
        if type(self.estimator) is not PlainCounts:
            return None
        found = self.entries(Minibatch(sample, 1.0, 1.0), survey=True)
        counts = found.values * found.unit
        owner = np.repeat(np.arange(sample.size), np.diff(sample.starts))
        topics = np.zeros((sample.size, self.alpha.size))  # tokens of each document
        np.add.at(topics, owner, counts)
        first, second, mixed = (np.zeros((self._lookup.size, self.alpha.size)) for _ in range(3))
        for table, values in ((first, counts), (second, counts**2), (mixed, counts * topics[owner])):
            np.add.at(table, sample.words, values)
        # A document with more of a topic has more of all its words: that moves the total, not the proportions omega.
        parameter = self.weights.prior + first * (total / sample.size)
        omega = parameter / parameter.sum(axis=0)
        spread = np.maximum(second - 2 * omega * mixed + omega**2 * np.square(topics).sum(axis=0), 0.0)
        noise = spread / (sample.size - 1) * total**2 / batch_size * max(0.0, 1 - batch_size / total)
        parameter *= 1 - omega
        if isinstance(self.sampler, Natural):
            ratio = self.sampler.sd_ratio(self.state, parameter, noise)
            return None if ratio is None else ratio.T
        h = step_size_at(self.sampler.step_size, 3 * self.steps // 4)
        return np.asarray(np.sqrt(1 + np.tanh(h / 2) * noise / parameter).T)


class StreamFit(TopicChain):
    """A chain from a stream on a corpus that can be read again: a search for a start, a survey, then the chain."""

    def __init__(
        self, stream: StreamChain, documents: Any, search: StochasticEM, beta: np.ndarray, choose: Any = None
    ) -> None:
        self.stream, self.minibatches, self.search, self._choose = stream, stream.minibatches, search, choose
        self.documents, self.alpha, self.beta, self.size = documents, stream.alpha, beta, self.minibatches.size
        share = self.minibatches.fraction
        swept = max(1.0, documents.tokens * share * stream.sweeps)
        self._passes = 0.0
        self._record_every = share * max(RECORD_STEPS, RECORD_COST * self.alpha.size * beta.size / swept)
        self.read = 1  # minibatches, of the search and of the chain; of the first some documents are put aside
        self._sampling = False
        self._survey: Iterator[Minibatch] | None = None
        self._before = (0.0, 0)  # passes and surveys at the beginning of the survey
        if search.done:
            self._begin()

    @property
    def searching(self) -> bool:
        """Whether the search for a start goes on."""
        return not self.search.done

    @property
    def sampling(self) -> bool:
        """Whether the chain samples by now."""
        return self._sampling

    @property
    def passes(self) -> float:
        """Passes over all documents, those of the search too."""
        return self._passes

    @property
    def record_every(self) -> float:
        """Passes from record to record."""
        return self._record_every

    def pace(self, taken: float) -> None:
        """So much of the search's time is taken, 1 being all."""
        self.search.pace(taken)

    def _begin(self) -> None:
        """From the search to the survey."""
        stream = self.stream
        # Without a search, no topic can have a word more often than it occurs.
        parameter = self.search.parameter() if self.search.steps else self.documents.word_counts()
        if self._choose is not None:  # a sampler whose step size depends on where it starts
            stream.use(self._choose(parameter, self.minibatches.fraction), stream.estimator)
        if self.search.steps:
            stream.begin_at(parameter)
        self._begin_survey()

    def _begin_survey(self) -> None:
        """Count everything once, if the estimator needs it."""
        self._before = (self._passes, self.stream.surveyed)
        self._survey = self.stream.survey()

    def step(self) -> None:
        """The next minibatch, or the next part of the survey."""
        if self._survey is not None:
            counted = next(self._survey, None)
            if counted is not None:
                self._passes += counted.data.size / self.size
                return
            self._survey, self._sampling = None, True
        batch = self.minibatches.at(self.read)
        self.read += 1
        self._passes += batch.data.size / self.size
        if self._sampling:
            self.stream.step(batch)
            return
        self.search.step(self.stream.documents_of(batch))
        if self.search.done:
            self._begin()

    def pack(self) -> Arrays:
        """Everything that changes, as arrays. A survey in progress is packed as one that has not begun."""
        stream, surveying = self.stream, self._survey is not None
        passes, surveyed = self._before if surveying else (self._passes, stream.surveyed)
        text = json.dumps(describe(stream.sampler)).encode()
        arrays = {
            "passes": np.asarray(passes), "surveyed": np.asarray(surveyed), "steps": np.asarray(stream.steps),
            "surveying": np.asarray(surveying), "sampler": np.frombuffer(text, np.uint8),
        }  # fmt: skip
        parts = {"weights": stream.weights.pack(), "search": self.search.pack(), "state": stream.state}
        if self._sampling:
            parts["memory"] = stream.memory
        return arrays | packed(self, NUMBERS) | nested(**parts)

    def unpack(self, arrays: Arrays) -> None:
        """The inverse of ``pack``."""
        stream = self.stream
        description = json.loads(arrays["sampler"].tobytes())
        if self._choose is not None and not is_opaque(description):
            stream.sampler = rebuild(description)  # its step size was chosen at the start of the chain
        for name, kept in (("weights", stream.weights), ("search", self.search)):
            kept.unpack(part(arrays, name))
        stream.state, stream.memory = part(arrays, "state"), part(arrays, "memory")
        unpack_into(self, NUMBERS, arrays)
        unpack_into(stream, ("surveyed", "steps"), arrays)
        self._passes, self._survey = float(arrays["passes"]), None
        if arrays["surveying"]:
            self._begin_survey()

    def draw(self) -> np.ndarray:
        """The topics, topics x words."""
        return self.stream.draw()

    def found(self) -> np.ndarray:
        """What the search has found so far, or the topics."""
        if not self._sampling:
            return self.search.phi().T
        with self._unchanged():
            return self.stream.draw()

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Reading brings words up to date, and surveys have random numbers of their own: a run that goes on must not
        know that it was asked.
        """
        stream = self.stream
        weights, surveyed = stream.weights, stream.surveyed
        stream.weights = weights.copy()
        try:
            yield
        finally:
            stream.weights, stream.surveyed = weights, surveyed

    def mean(self) -> np.ndarray:
        """The topics themselves: their expectation is not known."""
        return self.draw()

    def inflation(self) -> np.ndarray | None:
        """That of the chain, measured on documents at hand."""
        if not self._sampling or not self.stream.steps:
            return None
        with self._unchanged():
            sample = self.stream.documents_of(self.stream.larger(min(PROBED, self.size)))
            return self.stream.inflation(sample, self.minibatches.batch_size, self.size)


def fresh_assignments(
    key: np.ndarray, step: int, documents: Documents, places: np.ndarray, phi: np.ndarray, alpha: np.ndarray,
    sweeps: int, skip_sweeps: int, *, seeds: np.ndarray | None = None, counted: bool = True, weighed: bool = False,
    squares: np.ndarray | None = None, apart: bool = False, threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Summed over the sweeps that are counted: counts by place and topic, and by document and topic.

    ``apart`` says that no two documents share a place, so that all threads may count in one table. Squares of the
    counts by document and topic are added to ``squares``.
    """
    masses = sweeps_stream.word_masses(phi, alpha)
    borders = np.linspace(0, documents.size, PIECES + 1).astype(int)
    several = counted and not apart and threads != 1
    tables = np.zeros((PIECES if several else 1, *(phi.shape if counted else (0, 0))), np.int32)
    weights = np.zeros((documents.size if weighed else 0, alpha.size), np.int32)
    squares = np.zeros((0, alpha.size), np.int64) if squares is None else squares
    seeds = np.arange(documents.size) if seeds is None else seeds
    limit = int(documents.lengths.max(initial=1))

    def work(first: int, last: int) -> None:
        for piece in range(first, last):
            sweeps_stream.sweep_fresh(
                key, step, borders[piece], borders[piece + 1], seeds, documents.starts, places, documents.numbers, phi,
                masses, alpha, sweeps, skip_sweeps, tables[piece % len(tables)], weights, squares,
                limit,
            )  # fmt: skip

    over_blocks(work, PIECES, threads)
    return tables.sum(axis=0) if len(tables) > 1 else tables[0], weights
