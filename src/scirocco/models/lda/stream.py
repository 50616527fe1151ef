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
from typing import Any

import numpy as np

from scirocco.batches.base import batch_rows
from scirocco.core.compiled import over_blocks
from scirocco.core.seeds import Purpose, generator, stream_key
from scirocco.corpora.documents import Documents
from scirocco.models.lda import local
from scirocco.models.lda.estimates import Controlled, Plain, Remembered
from scirocco.models.lda.minibatches import Minibatches
from scirocco.models.lda.warm_up import WarmUp
from scirocco.run.checkpoint import part
from scirocco.run.describe import describe, is_opaque, rebuild
from scirocco.simplex import SCIR, SCIRCV, Natural, SimplexSampler, Weights
from scirocco.simplex.base import step_size_at

PIECES = 16  # of a minibatch, shared out to threads; each counts for itself
RECORD_STEPS = 10  # from record to record, at the least: each brings all words up to date
RECORD_COST = 4.0  # steps so that records take a tenth of the time, times tokens swept over weights brought up to date
PROBED = 1000  # documents that the noise of minibatches is measured on


class StreamChain:
    """A chain of topics that sees documents in minibatches."""

    def __init__(
        self, sampler: SimplexSampler, vocabulary: int, alpha: np.ndarray, beta: np.ndarray, *, seed: int, chain: int,
        sweeps: int, burn_in: int, threads: int | None, estimate: Plain | None = None,
    ) -> None:  # fmt: skip
        self.sampler, self.alpha, self.threads = sampler, alpha.astype(np.float32), threads
        self.sweeps, self.burn_in, self.counted = sweeps, burn_in, sweeps - burn_in
        self.estimate = Plain() if estimate is None else estimate
        # Every topic starts near the mean of the prior, a little different from the others.
        self.key, self._centre_key, self._survey_key = (
            stream_key(seed, purpose, chain)
            for purpose in (Purpose.STREAM_SWEEPS, Purpose.STREAM_CENTRE, Purpose.STREAM_SURVEY)
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
        sampler.start(self.weights)
        self._lookup = np.full(vocabulary, -1)
        self.steps, self.surveyed = 0, 0

    def begin_at(self, parameter: np.ndarray) -> None:
        """Start from other topics, by their Dirichlet parameter, words x topics."""
        self.weights.replace(parameter)
        self.sampler.start(self.weights)

    def step(
        self, batch: Documents, total: int, *, larger: Documents | None = None, which: np.ndarray | None = None
    ) -> None:  # fmt: skip
        """One minibatch out of ``total`` documents.

        ``larger`` is the batch that a new centre is estimated from, ``which`` the places of the documents in the
        corpus.
        """
        if larger is not None:
            assert isinstance(self.sampler, SCIRCV)
            columns, table = self._swept(self._centre_key, self.steps, larger, None)
            full = np.zeros((self._lookup.size, self.alpha.size))
            full[columns] = table * (total / larger.size / self.counted)
            self.sampler.recentre(self.weights, full.T, min(1.0, batch.size / total))
        self.sampler.step(self.weights, self.estimate.counts(self, batch, total, which))
        self.steps += 1
        if not np.all(np.isfinite(self.weights.totals)):
            raise FloatingPointError(
                f"a weight is no longer finite after minibatch {self.steps:,}: take a smaller step_size, or SCIR, "
                "whose weights cannot diverge"
            )

    # The local step.

    def swept(
        self, batch: Documents, topics: np.ndarray | None = None, *, survey: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Words of a batch, and how often each had each topic in all counted sweeps, words x topics.

        ``topics`` are those to count at, words x topics, by default the present ones. The same random numbers are used
        for all topics at one step; a ``survey`` has its own.
        """
        return self._swept(*self._stream(survey), batch, topics)

    def swept_entries(
        self, batch: Documents, topics: np.ndarray | None = None, *, survey: bool = False
    ) -> np.ndarray:  # fmt: skip
        """The same for each entry of the batch by itself, entries x topics."""
        columns, places = local.touched(batch.words, self._lookup)
        phi = self._topics(columns, topics)[places]  # one row for each entry, so that each has its own count
        key, step = self._stream(survey)
        entries = np.arange(batch.words.size, dtype=np.int32)
        return fresh_assignments(
            key, step, batch, entries, phi, self.alpha, self.sweeps, self.burn_in, apart=True, threads=self.threads
        )[0]

    def _stream(self, survey: bool) -> tuple[np.ndarray, int]:
        self.surveyed += survey
        return (self._survey_key, self.surveyed) if survey else (self.key, self.steps)

    def _topics(self, columns: np.ndarray, topics: np.ndarray | None) -> np.ndarray:
        found = self.weights.read(columns).T if topics is None else topics[columns]
        return np.ascontiguousarray(found, dtype=np.float32)

    def _swept(self, key: np.ndarray, step: int, batch: Documents, topics: Any) -> tuple[np.ndarray, np.ndarray]:
        columns, places = local.touched(batch.words, self._lookup)
        table, _ = fresh_assignments(
            key, step, batch, places, self._topics(columns, topics), self.alpha, self.sweeps, self.burn_in,
            threads=self.threads,
        )  # fmt: skip
        return columns, table

    # What it has found.

    def draw(self) -> np.ndarray:
        """The topics, topics x words."""
        return self.sampler.recorded(self.weights).astype(np.float32)

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
        if type(self.estimate) is not Plain:
            return None
        counts = self.swept_entries(sample, survey=True) / self.counted
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
            ratio = self.sampler.sd_ratio(self.weights, parameter, noise)
            return None if ratio is None else ratio.T
        h = step_size_at(self.sampler.step_size, 3 * self.steps // 4)
        return np.asarray(np.sqrt(1 + np.tanh(h / 2) * noise / parameter).T)


class StreamFit:
    """A chain from a stream on a corpus that can be read again: a search for a start, a survey, then the chain."""

    def __init__(
        self, stream: StreamChain, minibatches: Minibatches, warm: WarmUp, beta: np.ndarray, choose: Any = None
    ) -> None:  # fmt: skip
        self.stream, self.minibatches, self.warm, self._choose = stream, minibatches, warm, choose
        self.alpha, self.beta = stream.alpha, beta
        self.size = minibatches.documents.size
        share = minibatches.batch_size / self.size
        swept = max(1.0, minibatches.documents.tokens * share * stream.sweeps)
        self.passes = 0.0
        self.record_every = share * max(RECORD_STEPS, RECORD_COST * self.alpha.size * beta.size / swept)
        self.sampling = False
        self._survey: Iterator[None] | None = None
        self._before = (0.0, 0)  # passes and surveys at the beginning of the survey
        if warm.done:
            self._begin()

    def _begin(self) -> None:
        """From the search to the survey, or to the chain itself."""
        stream, share = self.stream, self.minibatches.batch_size / self.size
        # Without a search, no topic can have a word more often than it occurs.
        parameter = self.warm.parameter() if self.warm.steps else self.minibatches.documents.word_counts()
        if self._choose is not None:  # a sampler whose step size depends on where it starts
            stream.sampler = self._choose(parameter, share)
            stream.sampler.start(stream.weights)
        if self.warm.steps:
            stream.begin_at(parameter)
        self._begin_survey(share)

    def _begin_survey(self, share: float) -> None:
        """Count everything once, if the sampler or the estimate needs it."""
        stream = self.stream
        self._before = (self.passes, stream.surveyed)
        sampler, estimate = stream.sampler, stream.estimate
        everything = self._counted(self.minibatches.everything())
        if isinstance(estimate, Controlled | Remembered):
            self._survey = estimate.survey(stream, everything)
        elif isinstance(sampler, SCIRCV) and sampler.recentre_every is None and sampler.centre is None:
            self._survey = self._find_centre(sampler, everything, share)
        else:
            if isinstance(sampler, SCIRCV) and sampler.centre is not None:
                sampler.recentre(stream.weights, np.asarray(sampler.centre, float) - self.beta, share)
            self.sampling = True

    def _find_centre(self, sampler: SCIRCV, parts: Iterator[Documents], share: float) -> Iterator[None]:
        """Count all documents once, one part at a time, as the centre that stays."""
        table = np.zeros((self.beta.size, self.alpha.size))
        for some in parts:
            columns, counts = self.stream.swept(some, survey=True)
            table[columns] += counts / self.stream.counted
            yield
        sampler.recentre(self.stream.weights, table.T, share)

    def _counted(self, parts: Iterator[Documents]) -> Iterator[Documents]:
        for some in parts:
            self.passes += some.size / self.size
            yield some

    def step(self) -> None:
        """The next minibatch, or the next part of the survey."""
        if self._survey is not None:
            if next(self._survey, self) is self:  # nothing left
                self._survey, self.sampling = None, True
            return
        batch, which = self.minibatches.next()
        self.passes += batch.size / self.size
        if not self.sampling:
            self.warm.step(batch)
            if self.warm.done:
                self._begin()
        else:
            sampler, larger = self.stream.sampler, None
            if isinstance(sampler, SCIRCV) and sampler.centre_due(self.stream.steps):
                rows = batch_rows(min(sampler.centre_batch, self.size), self.size)
                larger = self.minibatches.larger(self.stream.steps, rows)
            self.stream.step(batch, self.size, larger=larger, which=which)

    def pack(self) -> dict[str, np.ndarray]:
        """Everything that changes, as arrays. A survey in progress is packed as one that has not begun."""
        stream, surveying = self.stream, self._survey is not None
        passes, surveyed = self._before if surveying else (self.passes, stream.surveyed)
        facts = np.array([passes, surveyed, stream.steps, self.sampling, surveying])
        text = json.dumps(describe(stream.sampler)).encode()
        arrays = {"facts": facts, "sampler": np.frombuffer(text, np.uint8)}
        parts: dict[str, Any] = {"weights": stream.weights, "minibatches": self.minibatches, "warm": self.warm}
        if self.sampling:
            parts["estimate"] = stream.estimate
        for name, kept in parts.items():
            arrays |= {f"{name}/{key}": array for key, array in kept.pack().items()}
        return arrays

    def unpack(self, arrays: dict[str, np.ndarray]) -> None:
        """The inverse of ``pack``."""
        stream = self.stream
        description = json.loads(arrays["sampler"].tobytes())
        if self._choose is not None and not is_opaque(description):
            stream.sampler = rebuild(description)  # its step size was chosen at the start of the chain
        for name, kept in (("weights", stream.weights), ("minibatches", self.minibatches), ("warm", self.warm)):
            kept.unpack(part(arrays, name))
        self.passes, surveyed, steps, sampling, surveying = map(float, arrays["facts"])
        stream.surveyed, stream.steps, self.sampling = int(surveyed), int(steps), bool(sampling)
        self._survey = None
        if self.sampling:
            stream.estimate.unpack(part(arrays, "estimate"))
        elif surveying:
            self._begin_survey(self.minibatches.batch_size / self.size)

    def draw(self) -> np.ndarray:
        """The topics, topics x words."""
        return self.stream.draw() if self.sampling else self.warm.phi().T

    mean = draw

    def inflation(self) -> np.ndarray | None:
        """That of the chain, measured on documents at hand."""
        if not self.sampling or not self.stream.steps:
            return None
        sample = self.minibatches.larger(self.stream.steps, PROBED)
        return self.stream.inflation(sample, self.minibatches.batch_size, self.size)


def fresh_assignments(
    key: np.ndarray, step: int, documents: Documents, places: np.ndarray, phi: np.ndarray, alpha: np.ndarray,
    sweeps: int, burn_in: int, *, seeds: np.ndarray | None = None, counted: bool = True, weighed: bool = False,
    apart: bool = False, threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Summed over the sweeps after the burn-in: counts by place and topic, and by document and topic.

    ``apart`` says that no two documents share a place, so that all threads may count in one table.
    """
    masses = local.word_masses(phi, alpha)
    borders = np.linspace(0, documents.size, PIECES + 1).astype(int)
    tables = np.zeros((PIECES if counted and not apart else 1, *(phi.shape if counted else (0, 0))), np.int32)
    weights = np.zeros((documents.size if weighed else 0, alpha.size), np.int32)
    seeds = np.arange(documents.size) if seeds is None else seeds
    limit = int(documents.lengths.max(initial=1))

    def work(first: int, last: int) -> None:
        for piece in range(first, last):
            local.sweep_fresh(
                key, step, borders[piece], borders[piece + 1], seeds, documents.starts, places, documents.numbers, phi,
                masses, alpha, sweeps, burn_in, tables[piece % len(tables)], weights, limit,
            )  # fmt: skip

    over_blocks(work, PIECES, threads)
    return tables.sum(axis=0) if len(tables) > 1 else tables[0], weights
