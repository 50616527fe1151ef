"""What a fitted model says of new documents or rows, by the workers of an executor: parts as tasks that share nothing.

A part in memory travels with its task, one of a corpus on disk as the name of its folder. What is asked depends on each
document by itself, so that the answers, in order, are those of one process to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from scirocco.core.executors import call_each, require_executor
from scirocco.corpora.documents import Documents
from scirocco.corpora.parts import Stretches, borders
from scirocco.corpora.store import Corpus

PART, LEAST = 2**18, 16  # tokens of a part, about; those that a document counts for at the least

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Part:
    """A part of documents: in memory, or number ``number`` of a corpus."""

    documents: Documents | Stretches
    number: int = 0

    def read(self) -> Documents:
        """The documents, where this is called."""
        return self.documents if isinstance(self.documents, Documents) else self.documents(self.number)


def parts_of(documents: Documents | Corpus) -> Iterator[Part]:
    """All documents, in order."""
    parts = max(1, min(documents.size, -(-max(documents.tokens, LEAST * documents.size) // PART)))
    for number in range(parts):
        if isinstance(documents, Corpus):
            yield Part(Stretches(documents.path.absolute(), parts), number)
        else:
            yield Part(documents.take(slice(*borders(documents.size, parts, number))))


def asked_of_parts(
    executor: Executor, question: Callable[[Documents], Answer], documents: Documents | Corpus
) -> list[Answer]:  # fmt: skip
    """The answers for all parts, in order."""
    return list(call_each(require_executor(executor), partial(_answered, question), parts_of(documents)))


def _answered(question: Callable[[Documents], Answer], part: Part) -> Answer:
    return question(part.read())
