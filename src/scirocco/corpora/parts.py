"""Parts of a corpus for other processes: what travels is the name of its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scirocco.corpora.documents import Documents
from scirocco.corpora.store import Corpus


@dataclass(frozen=True)
class Stretches:
    """A corpus on storage that all see, in so many parts that follow each other."""

    corpus: Path
    parts: int

    def __call__(self, number: int) -> Documents:
        """The documents of a part, read where this is called."""
        corpus = Corpus(self.corpus)
        return corpus.read(*borders(corpus.size, self.parts, number))


def borders(size: int, parts: int, number: int) -> tuple[int, int]:
    """Where part ``number`` of so many begins and ends."""
    return size * number // parts, size * (number + 1) // parts


def every_nth(documents: Documents | Corpus, every: int) -> Documents:
    """Every so many-th document."""
    if isinstance(documents, Documents):
        return documents.shard(0, every)
    parts, offset = [], 0
    for block in documents:
        parts.append(block.take(np.arange(-offset % every, block.size, every)))
        offset += block.size
    return Documents.joined(parts)
