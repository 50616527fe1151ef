"""A chain of a model of counts on the runner, when nobody knows beforehand how many passes there will be.

    search for a start  ->  survey, of some streams  ->  sampling

A step is a minibatch, whatever the phase. Of what is recorded the second half counts (``run.second_half``). Chains
share nothing, so each is a group by itself.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from scirocco.core.clock import Clock
from scirocco.counts.chains import Chain
from scirocco.counts.packing import nested, packed, unpack_into
from scirocco.counts.settling import Settling
from scirocco.run.checkpoint import part
from scirocco.run.engine import Chunk, Engine
from scirocco.run.second_half import SecondHalf, Values
from scirocco.run.store import STATS, Store, Variable, Variables

PASSES, SPEED = f"{STATS}passes", f"{STATS}tokens_per_second"
SEARCH_SHARE = 0.4  # of a budget, at most
NUMBERS = ("step", "_due")  # that change
WAIT = 0.002  # seconds between two looks at chains that others wait for


C = TypeVar("C", bound=Chain)


class PassEngine(Engine, Generic[C]):
    """Chain number ``number``; ``make`` gives it at its start. It passes over so many ``tokens``."""

    chain: C

    second_half: SecondHalf
    first_length = 1  # steps of the first chunk: one may be a twentieth of a large corpus
    watched: tuple[str, ...] = ()  # expectations by which ``settling`` decides

    def __init__(
        self, make: Callable[[], C], number: int, variables: Variables, *, draws: int, passes: float | Settling,
        tokens: int,
    ) -> None:  # fmt: skip
        self._make, self.chains, self._tokens = make, range(number, number + 1), tokens
        self.settling = passes if isinstance(passes, Settling) else None
        self._limit = math.inf if isinstance(passes, Settling) else float(passes)
        small = np.dtype(np.float64)
        self.variables = variables | {name: Variable((), small, role="stats") for name in (PASSES, SPEED)}
        self.second_half = SecondHalf(draws, self.variables)
        self.step, self.whole = 0, True
        self._due = 0.0  # passes at which the next record is made
        self._reason = ""
        self._began: float | None = None  # share of the time when the search was first paced

    @property
    def _begun(self) -> bool:
        return hasattr(self, "chain")

    @abstractmethod
    def recorded(self, *, draw: bool) -> tuple[Values, Values]:
        """The expectations that are averaged, and the variables of a draw if that is wanted."""

    @property
    def phase(self) -> str:
        """Search, survey (of some streams), sampling."""
        if not self._begun or self.chain.searching:
            return "search for a start"
        return "sampling" if self.chain.sampling else "survey"

    @property
    def _passes(self) -> float:
        return self._limit if self.settling is None else self.settling.passes

    @property
    def work(self) -> tuple[float, float, str]:
        """Passes over the data; a search on little of it may take them all, and one of the sampler follows.

        A chain that waits for others to decide whether to go on has a last step to make.
        """
        done = self.chain.passes if self._begun else 0.0
        sampled = self._begun and self.chain.sampling and self.second_half.records
        if self.settling is not None and not self.settling.over:
            return done, max(self._passes, done + 1e-9), "passes"
        return done, self._passes if sampled else max(self._passes, done + 1), "passes"

    def open_store(self, folder: Path | None) -> Store:
        """The second half of the records; they go to the folder at the end of the run."""
        del folder
        return self.second_half

    def start(self) -> None:
        """The chain at its start."""
        self.chain = self._make()

    def advance(self, until: int, clock: Clock) -> Chunk:
        """Minibatches towards step ``until``, while there is time; records go to ``second_half``."""
        chain, began, before = self.chain, time.perf_counter(), self.chain.passes
        finite = True
        while self.step < until and self.work[0] < self.work[1] and not clock.over:
            self.waits = self._waits()
            if self.waits:
                break
            if chain.searching and clock.share > 0:
                self._pace(clock.share)
            self.whole, searched = False, not chain.sampling
            try:
                chain.step()
            except FloatingPointError as error:
                self._reason, finite = str(error), False
                break
            self.step += 1
            if searched and chain.sampling:  # what was found by a search is no draw
                self._due = chain.passes + chain.record_every
            if chain.sampling and chain.passes >= self._due:
                self._due = chain.passes + chain.record_every
                speed = (chain.passes - before) * self._tokens / max(time.perf_counter() - began, 1e-9)
                self._record(speed)
            self.whole = True
        return Chunk({}, finite=finite)

    def _waits(self) -> bool:
        """Whether the passes are made and other chains have still to make theirs."""
        settling = self.settling
        if settling is None or not self.second_half.records or self.chain.passes < settling.passes:
            return False
        settling.arrive(self.chains.start)
        if settling.over or self.chain.passes < settling.passes:
            return settling.over
        time.sleep(WAIT)
        return True

    def _pace(self, share: float) -> None:
        """The search gets its share of the time that was left when it began."""
        self._began = share if self._began is None else self._began
        self.chain.pace((share - self._began) / (SEARCH_SHARE * max(1e-9, 1 - self._began)))

    def _record(self, speed: float) -> None:
        half = self.second_half
        expectation, draw = self.recorded(draw=half.due)
        speeds: Values = {PASSES: np.asarray(self.chain.passes), SPEED: np.asarray(speed)}
        half.add(expectation, draw | speeds if half.due else None)
        if self.settling is not None:
            values = np.array([float(expectation[name]) for name in self.watched])
            self.settling.watched[self.chains.start].append(values)

    def locate(self) -> tuple[Chunk, str]:
        """What the sampler said; all records were made before."""
        return Chunk({}), self._reason

    # Keeping.

    def pack(self) -> dict[str, np.ndarray]:
        """The arrays of the chain."""
        found = packed(self, NUMBERS) | nested(chain=self.chain.pack())
        if self.settling is not None:
            watched = self.settling.watched[self.chains.start]
            found["watched"] = np.reshape(watched, (-1, len(self.watched)))
            found["passes"] = np.asarray(self.settling.passes)
        return found

    def unpack(self, arrays: dict[str, np.ndarray]) -> None:
        """The inverse of ``pack``."""
        self.start()
        self.chain.unpack(part(arrays, "chain"))
        unpack_into(self, NUMBERS, arrays)
        if self.settling is not None and "watched" in arrays:
            self.settling.watched[self.chains.start] = list(arrays["watched"])
            self.settling.went_on(float(arrays["passes"]))
