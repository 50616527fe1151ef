"""Chains of models of counts: what the engine of passes asks of them, and what chains in memory share.

    search for a start  ->  minibatch by minibatch over all observations, then what ends a pass, again and again

A chain in memory keeps the assignment of every observation. Its minibatches are fixed: they lie between ``borders``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Protocol

import numpy as np

from scirocco.counts.packing import Arrays, nested, packed, unpack_into
from scirocco.run.checkpoint import part


class Search(Protocol):
    """The search for a start of one chain."""

    @property
    def done(self) -> bool:
        """Whether it is over."""

    @property
    def work(self) -> float:
        """In passes over all observations."""

    def step(self) -> None:
        """A small part of it."""

    def pace(self, taken: float) -> None:
        """So much of its time is taken, 1 being all."""

    def pack(self) -> Arrays:
        """Where it is."""

    def unpack(self, arrays: Arrays) -> None:
        """The inverse of ``pack``."""


class Chain(ABC):
    """One chain of a model of counts."""

    @property
    @abstractmethod
    def searching(self) -> bool:
        """Whether the search for a start goes on."""

    @property
    @abstractmethod
    def sampling(self) -> bool:
        """Whether the chain samples by now."""

    @property
    @abstractmethod
    def passes(self) -> float:
        """Passes over all observations, those of the search too."""

    @property
    def record_every(self) -> float:
        """Passes from record to record."""
        return 1.0

    @abstractmethod
    def pace(self, taken: float) -> None:
        """So much of the search's time is taken, 1 being all."""

    @abstractmethod
    def step(self) -> None:
        """A part of the search, or a minibatch."""

    @abstractmethod
    def pack(self) -> Arrays:
        """Everything that changes, as arrays; what can be counted again may be left out."""

    @abstractmethod
    def unpack(self, arrays: Arrays) -> None:
        """The inverse of ``pack``."""


class PassChain(Chain):
    """A chain in memory that passes over its observations in minibatches."""

    numbers: ClassVar[tuple[str, ...]] = ("calls", "position", "sampled")
    """Attributes that are numbers and change."""

    search: Search
    borders: np.ndarray
    """Where minibatches begin and end."""

    def __init__(self) -> None:
        self.calls = 0  # streams of random numbers that were opened
        self.position = 0  # of the next minibatch in a pass
        self.sampled = 0.0  # passes of the sampler itself

    @property
    def searching(self) -> bool:
        """Whether the search for a start goes on."""
        return not self.search.done

    @property
    def sampling(self) -> bool:
        """Whether the chain samples by now."""
        return self.search.done

    @property
    def passes(self) -> float:
        """Passes over all observations, those of the search too."""
        return self.search.work + self.sampled

    def next_call(self) -> int:
        """The number of the next stream of random numbers."""
        self.calls += 1
        return self.calls

    def pace(self, taken: float) -> None:
        """So much of the search's time is taken, 1 being all."""
        self.search.pace(taken)

    def step(self) -> None:
        """A part of the search, or a minibatch; after the last of a pass what ends it."""
        if self.searching:
            self.search.step()
            return
        begin, end = self.borders[self.position], self.borders[self.position + 1]
        self.sweep(begin, end)
        self.position = (self.position + 1) % (len(self.borders) - 1)
        self.sampled += self.share(begin, end)
        if self.position == 0:
            self.end_pass()

    @abstractmethod
    def sweep(self, begin: int, end: int) -> None:
        """New assignments of observations ``begin`` to ``end``."""

    @abstractmethod
    def share(self, begin: int, end: int) -> float:
        """Of a pass, that observations ``begin`` to ``end`` are."""

    @abstractmethod
    def end_pass(self) -> None:
        """What is due after every pass."""

    # Keeping.

    @abstractmethod
    def pack_assignments(self) -> Arrays:
        """Assignments, and what else the model keeps beside ``numbers``."""

    @abstractmethod
    def unpack_assignments(self, arrays: Mapping[str, np.ndarray]) -> None:
        """The inverse of ``pack_assignments``."""

    def pack(self) -> Arrays:
        """Assignments, the place in the data and in the search."""
        return packed(self, self.numbers) | self.pack_assignments() | nested(search=self.search.pack())

    def unpack(self, arrays: Arrays) -> None:
        """The inverse of ``pack``."""
        unpack_into(self, self.numbers, arrays)
        self.unpack_assignments(arrays)
        self.search.unpack(part(arrays, "search"))
