"""Minibatches of documents, from memory or from disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from scirocco.core.seeds import Purpose, generator
from scirocco.corpora.documents import Documents

SURVEYED = 2000  # documents of a part when all are read once


class Minibatches:
    """Minibatches of a corpus in memory, in an order that is new each pass, or ``independent`` of each other."""

    def __init__(
        self, documents: Any, batch_size: int, *, seed: int, chain: int, independent: bool = False
    ) -> None:  # fmt: skip
        self.documents, self.path, self.independent = documents, (seed, chain), independent
        self.batch_size = min(batch_size, documents.size)
        self.position, self.epoch = 0, -1
        self.order = np.empty(0, np.int64)

    def next(self) -> tuple[Documents, np.ndarray | None]:
        """The next minibatch, and which documents of the corpus it has (None if the corpus is on disk)."""
        if self.position + self.batch_size > self.order.size:
            self.epoch, self.position = self.epoch + 1, 0
            self._open()
        chosen = self.order[self.position : self.position + self.batch_size]
        self.position += self.batch_size
        return self.documents.take(chosen), chosen

    def _open(self) -> None:
        """The order of this epoch."""
        self.order = self._shuffled(self.documents.size, Purpose.DOCUMENT_ORDER, self.epoch)

    def pack(self) -> dict[str, np.ndarray]:
        """The place in the data."""
        return {"place": np.array([self.epoch, self.position])}

    def unpack(self, arrays: dict[str, np.ndarray]) -> None:
        """The inverse of ``pack``."""
        self.epoch, self.position = map(int, arrays["place"])
        if self.epoch >= 0:
            self._open()

    def larger(self, step: int, size: int) -> Documents:
        """Another random part of the corpus."""
        size = min(size, self.documents.size)
        return self.documents.take(
            self._rng(Purpose.DOCUMENTS_LARGER, step).choice(self.documents.size, size, replace=False)
        )

    def everything(self) -> Iterator[Documents]:
        """All documents once, in parts."""
        for first in range(0, self.documents.size, SURVEYED):
            yield self.documents.take(slice(first, first + SURVEYED))

    def _rng(self, purpose: Purpose, number: int) -> np.random.Generator:
        seed, chain = self.path
        return generator(seed, purpose, chain, number)

    def _shuffled(self, size: int, purpose: Purpose, number: int) -> np.ndarray:
        rng = self._rng(purpose, number)
        return rng.integers(size, size=size) if self.independent else rng.permutation(size)


class BlockMinibatches(Minibatches):
    """The same from a corpus on disk: blocks in an order that is new each pass, documents shuffled within a block.

    All minibatches have the same size, of which each document then has the same share: the rest of a block goes with
    the first of the next.
    """

    block: Documents

    def next(self) -> tuple[Documents, np.ndarray | None]:
        """The next minibatch; the next block is read when this one is used up."""
        parts, missing = [], self.batch_size
        while missing:
            if self.position >= self.order.size:
                self.epoch, self.position = self.epoch + 1, 0
                self._open()
            chosen = self.order[self.position : self.position + missing]
            parts.append(self.block.take(chosen))
            self.position, missing = self.position + len(chosen), missing - len(chosen)
        return parts[0] if len(parts) == 1 else Documents.joined(parts), None

    def _open(self) -> None:
        """Read the block of this number, and shuffle it."""
        turn, place = divmod(self.epoch, self.documents.blocks)
        self.block = self.documents.block(
            int(self._rng(Purpose.DOCUMENT_ORDER, turn).permutation(self.documents.blocks)[place])
        )
        self.order = self._shuffled(self.block.size, Purpose.DOCUMENT_BLOCK, self.epoch)

    def larger(self, step: int, size: int) -> Documents:
        """Another random part of the block in memory."""
        return self.block.take(self._rng(Purpose.DOCUMENTS_LARGER, step).permutation(self.block.size)[:size])

    def everything(self) -> Iterator[Documents]:
        """All blocks."""
        return iter(self.documents)
