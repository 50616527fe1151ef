"""Documents on disk as blocks for minibatches: in an order that is new each pass, documents shuffled within a block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scirocco.core.seeds import Purpose, generator
from scirocco.corpora.documents import Documents
from scirocco.corpora.store import Corpus
from scirocco.counts.minibatches import Blocks


class CorpusBlocks(Blocks):
    """The blocks of a corpus in the order of one chain.

    ``independent`` draws the documents of a block with replacement.
    """

    def __init__(self, corpus: Corpus, *, seed: int, chain: int, independent: bool = False) -> None:
        self.corpus, self.size, self.path, self.independent = corpus, corpus.size, (seed, chain), independent
        self.resident = int(corpus.block_sizes.min())
        self._turn, self._order, self._ends = -1, np.empty(0, np.int64), np.empty(0, np.int64)

    def _turn_to(self, turn: int) -> None:
        """The order of the blocks in a pass."""
        if turn != self._turn:
            seed, chain = self.path
            self._turn = turn
            self._order = generator(seed, Purpose.DOCUMENT_ORDER, chain, turn).permutation(self.corpus.blocks)
            self._ends = np.cumsum(self.corpus.block_sizes[self._order])

    def place(self, position: int) -> tuple[int, int, int]:
        """The number of the block counts all passes."""
        turn, place = divmod(position, self.size)
        self._turn_to(turn)
        k = int(np.searchsorted(self._ends, place, side="right"))
        size = int(self.corpus.block_sizes[self._order[k]])
        return turn * self.corpus.blocks + k, place - int(self._ends[k]) + size, size

    def block(self, number: int) -> Documents:
        """A block, its documents shuffled."""
        turn, k = divmod(number, self.corpus.blocks)
        self._turn_to(turn)
        block = self.corpus.block(int(self._order[k]))
        rng = generator(self.path[0], Purpose.DOCUMENT_BLOCK, self.path[1], number)
        rows = rng.integers(block.size, size=block.size) if self.independent else rng.permutation(block.size)
        return block.take(rows)

    def joined(self, parts: list[Documents]) -> Documents:
        """Documents after others."""
        return Documents.joined(parts)

    def everything(self) -> Iterator[Documents]:
        """All blocks in the order of the files."""
        return iter(self.corpus)
