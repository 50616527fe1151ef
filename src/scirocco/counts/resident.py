"""A chain whose observations live on the workers of a cluster (``run.rounds``), their assignments with them.

    search for a start, by a chain in memory on a sample  ->  rounds over all observations

A round sends what assignments depend on and gets back the statistics of the new ones. The search's result is an initial
value like any other: given it, the shards assign their observations in the first round.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

import numpy as np

from scirocco.counts.chains import Chain, PassChain
from scirocco.counts.packing import Arrays, nested, packed, unpack_into
from scirocco.run.checkpoint import part
from scirocco.run.rounds import Rounds

C = TypeVar("C", bound=PassChain)


class ResidentChain(Chain, Generic[C]):
    """``start`` is the chain in memory, on a ``share`` of all observations, whose search is taken."""

    numbers: ClassVar[tuple[str, ...]] = ("calls", "searched")
    """Attributes that are numbers and change."""

    def __init__(self, rounds: Rounds, start: C, share: float) -> None:
        self.rounds = rounds
        self.calls = 0  # streams of random numbers that were opened
        self.searched = 0.0  # passes over all observations that the search was worth
        self._start: C | None = start
        self._share = share
        self._search_over()

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
        if self._start is None:
            self.make_round()
        else:
            self._start.step()
            self._search_over()

    def _search_over(self) -> None:
        """What was found is the start, and the chain that found it is no longer needed."""
        assert self._start is not None
        self.searched = self._share * self._start.passes
        if self._start.sampling:
            self.begin_at(self._start)
            self._start = None

    @abstractmethod
    def begin_at(self, start: C) -> None:
        """Take what a chain in memory has found in its sample."""

    @abstractmethod
    def make_round(self) -> None:
        """One round over all observations, and what is due after it."""

    # Keeping.

    @abstractmethod
    def pack_statistics(self) -> Arrays:
        """The statistics of all assignments, and what else changes with the rounds."""

    @abstractmethod
    def unpack_statistics(self, arrays: Mapping[str, np.ndarray]) -> None:
        """The inverse of ``pack_statistics``."""

    def pack(self) -> Arrays:
        """The search; or the statistics, while shards are saved as they are."""
        found = packed(self, self.numbers)
        if self._start is not None:
            return found | nested(start=self._start.pack())
        return found | nested(statistics=self.pack_statistics()) | {"round": np.asarray(self.rounds.pin())}

    def unpack(self, arrays: Arrays) -> None:
        """The inverse of ``pack``."""
        unpack_into(self, self.numbers, arrays)
        self.rounds.begin(int(arrays.get("round", 0)))
        if "round" in arrays:
            self._start = None
            self.unpack_statistics(part(arrays, "statistics"))
        elif self._start is not None:
            self._start.unpack(part(arrays, "start"))
