"""Minibatches of the counts engine: one chain's, from memory or from disk, whatever the observations are.

    independent         a new simple random sample without replacement at every step
    with_replacement    independent draws
    shuffled            epochs: every observation once, in an order that is new each time
    Strata(labels)      independent samples of each stratum, as large as its share of the data

Data in memory is anything with ``size`` and ``take(rows)``: an array of codes, documents. Data on disk comes in blocks
whose observations are shuffled; minibatches are cut from one after the other, and the rest of a block goes with the
first of the next, so that all have the same size. Minibatches are functions of (seed, chain, step) alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from scirocco.batches import Strata
from scirocco.batches.base import batch_rows
from scirocco.core.checks import require_choice
from scirocco.core.compiled import jit
from scirocco.core.random import below, open_stream
from scirocco.core.seeds import Purpose, generator, stream_key

WAYS = ("independent", "with_replacement", "shuffled")
PART = 2000  # observations of a part when all are counted once, unless the data says another number


class Minibatch(NamedTuple):
    """Some observations, and what they stand for."""

    data: Any
    scale: Any  # how many observations each stands for: N/n, or one number for each
    fraction: float  # n/N
    rows: np.ndarray | None = None  # which they are; None if the data is on disk

    @classmethod
    def of(cls, data: Any, total: int, rows: np.ndarray | None = None) -> Minibatch:
        """A simple random part of ``total`` observations."""
        return cls(data, total / data.size, min(1.0, data.size / total), rows)


@jit
def _distinct(key: Any, step: int, part: int, size: int, n: int) -> Any:
    """n of the whole numbers below ``size``, without replacement."""
    s = open_stream(key, step, part)
    if 3 * n > size:
        order = np.arange(size)
        for i in range(n):
            j = i + below(s, size - i)
            order[i], order[j] = order[j], order[i]
        return order[:n]
    # Few of many: draw, and replace those that were drawn before until all are distinct.
    chosen = np.empty(n, np.int64)
    found = 0
    while found < n:
        for i in range(found, n):
            chosen[i] = below(s, size)
        chosen.sort()
        found = 1
        for i in range(1, n):
            if chosen[i] != chosen[found - 1]:
                chosen[found] = chosen[i]
                found += 1
    return chosen


@jit
def _with_replacement(key: Any, step: int, size: int, n: int) -> Any:
    s = open_stream(key, step, 0)
    chosen = np.empty(n, np.int64)
    for i in range(n):
        chosen[i] = below(s, size)
    return chosen


class Minibatches(ABC):
    """The minibatches of one chain."""

    size: int  # observations of all data
    batch_size: int
    resident: int  # observations in memory at a time, at the least
    way: Any  # how they are drawn
    data: Any = None  # in memory

    def __init__(self, seed: int, chain: int) -> None:
        self.seed, self.chain = seed, chain
        self._key = stream_key(seed, Purpose.MINIBATCH_ROWS, chain)
        self._larger_key = stream_key(seed, Purpose.MINIBATCH_LARGER, chain)

    @property
    def fraction(self) -> float:
        """n/N."""
        return self.batch_size / self.size

    @property
    def constant(self) -> bool:
        """Whether every minibatch is all data."""
        return False

    @abstractmethod
    def at(self, step: int) -> Minibatch:
        """The minibatch of a step."""

    @abstractmethod
    def larger(self, step: int, n: int | float) -> Minibatch:
        """Another random part of the data, of ``n`` observations or a fraction, for a centre or a start."""

    @abstractmethod
    def everything(self) -> Iterator[Minibatch]:
        """All observations once, in parts, each standing for itself."""

    def close(self) -> None:  # noqa: B027, most have nothing to let go of
        """Let go of what is read ahead."""


class InMemory(Minibatches):
    """Of data with ``size`` and ``take(rows)``; ``part`` observations at a time when all are counted."""

    def __init__(
        self, data: Any, batch_size: int | float, way: Any = "shuffled", *, seed: int, chain: int, part: int = PART
    ) -> None:
        super().__init__(seed, chain)
        self.data, self.way, self.part = data, way, part
        self.size = self.resident = int(data.size)
        self.batch_size = batch_rows(batch_size, self.size)
        self._epoch, self._order = -1, np.empty(0, np.int64)
        if isinstance(way, Strata):
            self._strata = self._stratify(way)
            self.batch_size = sum(n for _, n in self._strata)
        else:
            require_choice("batching", way, WAYS)

    def _stratify(self, way: Strata) -> list[tuple[np.ndarray, int]]:
        """The observations of each stratum, and how many of them a minibatch takes; each then counts N_s/n_s."""
        array = np.asarray(way.labels)
        if array.shape != (self.size,):
            raise ValueError(f"labels must name the stratum of each of {self.size} observations; got {array.shape}")
        names, codes = np.unique(array, return_inverse=True)
        if len(names) > self.batch_size:
            raise ValueError(f"batch_size {self.batch_size} is smaller than the number of strata, {len(names)}")
        members = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        if way.rows is None:
            return [(rows, max(1, round(self.fraction * len(rows)))) for rows in members]
        if len(way.rows) != len(members) or not all(1 <= n <= len(m) for n, m in zip(way.rows, members, strict=True)):
            raise ValueError(f"rows must lie between 1 and the sizes of the strata, {[len(m) for m in members]}")
        return list(zip(members, map(int, way.rows), strict=True))

    @property
    def constant(self) -> bool:
        """Whether every minibatch is all data."""
        return self.way in ("independent", "shuffled") and self.batch_size == self.size

    def at(self, step: int) -> Minibatch:
        """The minibatch of a step."""
        n = self.batch_size
        scale: Any = self.size / n
        if isinstance(self.way, Strata):
            some = [rows[_distinct(self._key, step, i, len(rows), k)] for i, (rows, k) in enumerate(self._strata)]
            rows = np.concatenate(some)
            scale = np.repeat([len(rows) / k for rows, k in self._strata], [k for _, k in self._strata])
        elif self.constant:
            rows = np.arange(n)
        elif self.way == "with_replacement":
            rows = _with_replacement(self._key, step, self.size, n)
        elif self.way == "shuffled":
            epoch, k = divmod(step, self.size // n)
            if self._epoch != epoch:
                rng = generator(self.seed, Purpose.MINIBATCH_EPOCH, self.chain, epoch)
                self._epoch, self._order = epoch, rng.permutation(self.size)
            rows = self._order[k * n : (k + 1) * n]
        else:
            rows = _distinct(self._key, step, 0, self.size, n)
        return Minibatch(self.data.take(rows), scale, self.fraction, rows)

    def larger(self, step: int, n: int | float) -> Minibatch:
        """Another random part of the data."""
        n = batch_rows(min(n, self.size), self.size)
        rows = _distinct(self._larger_key, step, 0, self.size, n)
        return Minibatch(self.data.take(rows), self.size / n, n / self.size, rows)

    def everything(self) -> Iterator[Minibatch]:
        """All observations once, in parts."""
        for first in range(0, self.size, self.part):
            rows = np.arange(first, min(first + self.part, self.size))
            yield Minibatch(self.data.take(rows), 1.0, len(rows) / self.size, rows)

    def close(self) -> None:
        """Let go of the order of an epoch."""
        self._epoch, self._order = -1, np.empty(0, np.int64)


class Blocks(ABC):
    """One chain's data on disk, as an endless sequence of blocks with shuffled observations."""

    size: int  # observations of all data
    resident: int  # of the smallest block

    @abstractmethod
    def place(self, position: int) -> tuple[int, int, int]:
        """Of an observation of the sequence: the number of its block, its place there, the size of the block."""

    @abstractmethod
    def block(self, number: int) -> Any:
        """A block, with ``size`` and ``take(rows)``."""

    @abstractmethod
    def joined(self, parts: list[Any]) -> Any:
        """Observations after others."""

    @abstractmethod
    def everything(self) -> Iterator[Any]:
        """All observations once, in the order of the files."""

    def close(self) -> None:  # noqa: B027, most do not read ahead
        """Stop reading ahead."""


class FromDisk(Minibatches):
    """Minibatches cut from ``blocks`` one after the other."""

    way = "shuffled"

    def __init__(self, blocks: Blocks, batch_size: int | float, *, seed: int, chain: int) -> None:
        super().__init__(seed, chain)
        self.blocks, self.size, self.resident = blocks, blocks.size, blocks.resident
        self.batch_size = batch_rows(batch_size, self.size)
        self._resident: tuple[int, Any] | None = None

    def _block(self, number: int) -> Any:
        if self._resident is None or self._resident[0] != number:
            self._resident = None  # let go of the old block before the new one arrives
            self._resident = (number, self.blocks.block(number))
        return self._resident[1]

    def at(self, step: int) -> Minibatch:
        """The minibatch of a step; the next block is read when one is used up."""
        position, end, parts = step * self.batch_size, (step + 1) * self.batch_size, []
        while position < end:
            number, first, size = self.blocks.place(position)
            last = min(size, first + end - position)
            parts.append(self._block(number).take(np.arange(first, last)))
            position += last - first
        data = parts[0] if len(parts) == 1 else self.blocks.joined(parts)
        return Minibatch(data, self.size / self.batch_size, self.fraction)

    def larger(self, step: int, n: int | float) -> Minibatch:
        """Another random part of the block that the minibatch of this step ends in."""
        block = self._block(self.blocks.place((step + 1) * self.batch_size - 1)[0])
        n = batch_rows(min(n, self.size), self.size)
        if n > block.size:
            raise ValueError(f"a batch of {n} is larger than the resident block of {block.size}: use larger blocks")
        rows = _distinct(self._larger_key, step, 0, block.size, n)
        return Minibatch(block.take(rows), self.size / n, n / self.size)

    def everything(self) -> Iterator[Minibatch]:
        """All observations once, in parts."""
        for data in self.blocks.everything():
            yield Minibatch(data, 1.0, data.size / self.size)

    def close(self) -> None:
        """Stop reading ahead."""
        self._resident = None
        self.blocks.close()
