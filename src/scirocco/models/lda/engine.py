"""LDA on the runner: one chain of topics, from memory or from a stream.

    search for a start  ->  survey, of some streams  ->  sampling

A step is a minibatch, whatever the phase. Nobody need know how many passes there will be: of what is recorded the
second half counts (``run.second_half``). Chains share nothing, so each is a group by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scirocco.core.clock import Clock
from scirocco.models.lda.agreement import align
from scirocco.run.engine import Chunk, Engine
from scirocco.run.moments import Moments
from scirocco.run.second_half import SecondHalf
from scirocco.run.store import Draws, Variable
from scirocco.run.trace import STATS

TOPICS, PASSES, SPEED = "topics", f"{STATS}passes", f"{STATS}tokens_per_second"
SEARCH_SHARE = 0.4  # of a time budget, at most


class TopicEngine(Engine):
    """Chain number ``number``; ``make`` gives its sampler at the start (``KeptGibbs``, ``StreamFit``, ...)."""

    second_half: SecondHalf
    first_length = 1  # steps of the first chunk: one may be a twentieth of a large corpus

    def __init__(
        self, make: Callable[[], Any], number: int, *, draws: int, passes: float, topics: int, vocabulary: int,
        tokens: int,
    ) -> None:  # fmt: skip
        self._make, self.chains, self._passes, self._tokens = make, range(number, number + 1), float(passes), tokens
        self.second_half = SecondHalf(draws)
        single, small = np.dtype(np.float32), np.dtype(np.float64)
        self.variables = {
            TOPICS: Variable((topics, vocabulary), single, ("topic", "word")),
            PASSES: Variable((), small),
            SPEED: Variable((), small),
        }
        self.step, self.whole = 0, True
        self._due = 0.0  # passes at which the next record is made
        self._reason = ""
        self._began: float | None = None  # share of the time when the search was first paced
        self.chain: Any = None

    @property
    def phase(self) -> str:
        """Search, survey (of some streams), sampling."""
        if self.chain is None or self.chain.searching:
            return "search for a start"
        return "sampling" if self.chain.sampling else "survey"

    @property
    def work(self) -> tuple[float, float, str]:
        """Passes over the documents; a search on a small corpus may take them all, and one of the sampler follows."""
        done = self.chain.passes if self.chain is not None else 0.0
        sampled = self.chain is not None and self.chain.sampling and self.second_half.records
        return done, self._passes if sampled else max(self._passes, done + 1), "passes"

    def start(self) -> None:
        """The chain at its start."""
        self.chain = self._make()

    def advance(self, until: int, clock: Clock) -> Chunk:
        """Minibatches towards step ``until``, while there is time; records go to ``second_half``."""
        chain, began, before = self.chain, time.perf_counter(), self.chain.passes
        finite = True
        while self.step < until and self.work[0] < self.work[1] and not clock.over:
            if chain.searching and clock.share > 0:
                self._pace(clock.share)
            self.whole = False
            try:
                chain.step()
            except FloatingPointError as error:
                self._reason, finite = str(error), False
                break
            self.step, self.whole = self.step + 1, True
            if chain.sampling and chain.passes >= self._due:
                self._due = chain.passes + chain.record_every
                speed = (chain.passes - before) * self._tokens / max(time.perf_counter() - began, 1e-9)
                self._record(speed)
        return Chunk({}, 0, {}, {}, {}, finite)

    def _pace(self, share: float) -> None:
        """The search gets its share of the time that was left when it began."""
        self._began = share if self._began is None else self._began
        self.chain.search.pace((share - self._began) / (SEARCH_SHARE * max(1e-9, 1 - self._began)))

    def _record(self, speed: float) -> None:
        half, chain = self.second_half, self.chain
        draw = None
        if half.due:
            draw = {TOPICS: chain.draw(), PASSES: np.float64(chain.passes), SPEED: np.float64(speed)}
        half.add({TOPICS: chain.mean()}, draw)

    def locate(self) -> tuple[Chunk, str]:
        """What the sampler said; all records were made before."""
        return Chunk({}, 0, {}, {}, {}), self._reason

    def arranged(self, draws: Sequence[Draws], moments: Sequence[Moments]) -> tuple[list[Draws], list[Moments]]:
        """The topics of all chains in the order of the first."""
        orders = alignments(moments)
        put, settled = [], []
        for order, values, known in zip(orders, draws, moments, strict=True):
            put.append({**values, TOPICS: values[TOPICS][:, :, order]})
            tables = ({**t, TOPICS: t[TOPICS][:, order]} if t else t for t in (known.mean, known.square))
            settled.append(Moments(known.count, *tables))
        return put, settled

    # Keeping.

    def pack(self) -> dict[str, np.ndarray]:
        """The arrays of the chain."""
        arrays = {f"chain/{name}": array for name, array in self.chain.pack().items()}
        return arrays | {"facts": np.array([self.step, self._due])}

    def unpack(self, arrays: dict[str, np.ndarray]) -> None:
        """The inverse of ``pack``."""
        self.start()
        self.chain.unpack({name.removeprefix("chain/"): a for name, a in arrays.items() if name != "facts"})
        self.step, self._due = int(arrays["facts"][0]), float(arrays["facts"][1])


def alignments(moments: Sequence[Moments]) -> list[Any]:
    """For each chain the order of its topics that matches those of the first; as they are where nothing is recorded."""
    tables: list[Any] = [known.mean[TOPICS][0] if known.mean else None for known in moments]
    first: Any = next((table for table in tables if table is not None), None)
    return [slice(None) if t is None or t is first else align(first, t) for t in tables]
