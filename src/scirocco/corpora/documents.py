"""Bags of words: documents as rows of a sparse matrix of counts."""

from __future__ import annotations

import warnings
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from scirocco.core import checks
from scirocco.core.compiled import jit


@jit
def _add_lengths(starts: Any, numbers: Any, lengths: Any) -> None:
    for d in range(lengths.size):
        for j in range(starts[d], starts[d + 1]):
            lengths[d] += numbers[j]


@jit
def _add_counts(words: Any, numbers: Any, counts: Any) -> None:
    for j in range(words.size):
        counts[words[j]] += numbers[j]


@jit
def _gather(chosen: Any, old: Any, new: Any, words: Any, numbers: Any, new_words: Any, new_numbers: Any) -> None:
    for i in range(chosen.size):
        shift = old[chosen[i]] - new[i]
        for j in range(new[i], new[i + 1]):
            new_words[j], new_numbers[j] = words[j + shift], numbers[j + shift]


@jit
def _spell_out(words: Any, numbers: Any, tokens: Any) -> None:
    t = 0
    for j in range(words.size):
        for _ in range(numbers[j]):
            tokens[t] = words[j]
            t += 1


@dataclass(frozen=True, eq=False)
class Documents:
    """Words and their numbers of occurrences, document after document (compressed sparse rows)."""

    starts: np.ndarray  # document d has entries starts[d] to starts[d + 1]
    words: np.ndarray
    numbers: np.ndarray
    width: int  # words of the vocabulary

    @classmethod
    def of(cls, matrix: Any) -> Documents:
        """From a matrix of counts, documents x words.

        Counts must be whole and not negative. Fractional ones, such as tf-idf weights, have no meaning in a model of
        counts: they are rounded, with a warning.
        """
        if sp.issparse(matrix):
            checks.require_unmasked("counts", getattr(matrix, "data", None))
        else:
            matrix = checks.numbers("counts", matrix)
        if matrix.ndim != 2:
            raise ValueError(f"counts must be a matrix, documents x words; got the shape {matrix.shape}")
        rows: Any = sp.csr_array(matrix)
        if not rows.has_canonical_format:  # in a copy: the matrix is the user's
            rows = rows.astype(np.float64 if rows.dtype.kind == "f" else np.int64, copy=True)
            rows.sum_duplicates()
        data = rows.data
        if data.size and not np.all(np.isfinite(data)):
            raise ValueError("counts must be finite; the matrix has NaN or infinite entries")
        if data.size and data.min() < 0:
            row = int(np.searchsorted(rows.indptr, int(np.argmin(data)), side="right")) - 1
            raise ValueError(f"Negative values in data: counts must be 0 or more; got {data.min():g} in document {row}")
        if data.dtype.kind == "f" and np.any(data != np.round(data)):
            warnings.warn(
                "counts must be whole numbers: fractional ones (tf-idf?) are rounded; give the counts themselves",
                UserWarning,
                stacklevel=3,
            )
        if data.size and data.max() > 2**31 - 1:
            raise ValueError(f"counts must be below 2^31; got {data.max():g}")
        numbers = (np.round(data) if data.dtype.kind == "f" else data).astype(np.int32)
        if numbers.size and not numbers.min():
            rows = sp.csr_array((numbers, rows.indices.copy(), rows.indptr.copy()), shape=rows.shape)
            rows.eliminate_zeros()
            numbers = rows.data
        return cls(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), numbers, rows.shape[1])

    @property
    def size(self) -> int:
        """The number of documents."""
        return len(self.starts) - 1

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each document."""
        lengths = np.zeros(self.size, np.int64)
        _add_lengths(self.starts, self.numbers, lengths)
        return lengths

    @cached_property
    def tokens(self) -> int:
        """Tokens of all documents."""
        return int(self.lengths.sum())

    @property
    def token_starts(self) -> np.ndarray:
        """Where the tokens of each document begin among all."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def token_words(self) -> np.ndarray:
        """The word of every token, document after document."""
        tokens = np.empty(self.tokens, self.words.dtype)
        _spell_out(self.words, self.numbers, tokens)
        return tokens

    def take(self, documents: np.ndarray | slice) -> Documents:
        """Some of the documents."""
        chosen = np.arange(*documents.indices(self.size)) if isinstance(documents, slice) else documents
        starts = np.concatenate([[0], np.cumsum(self.starts[chosen + 1] - self.starts[chosen])])
        words, numbers = np.empty(starts[-1], self.words.dtype), np.empty(starts[-1], self.numbers.dtype)
        _gather(chosen, self.starts, starts, self.words, self.numbers, words, numbers)
        return Documents(starts, words, numbers, self.width)

    rows = take

    def matrix(self) -> sp.csr_array:
        """Counts, documents x words."""
        return sp.csr_array((self.numbers, self.words, self.starts), shape=(self.size, self.width))

    def shard(self, number: int, count: int) -> Documents:
        """Every ``count``-th document from document ``number`` on."""
        return self.take(np.arange(number, self.size, count))

    def fingerprint(self) -> dict[str, Any]:
        """What tells these documents from others, for resuming."""
        parts = (self.starts, self.words, self.numbers)
        sums = [zlib.crc32(np.ascontiguousarray(part).data) for part in parts]
        return {"documents": self.size, "tokens": self.tokens, "words": self.width, "entries": sums}

    @staticmethod
    def joined(parts: list[Documents]) -> Documents:
        """Some documents after others."""
        ends = np.cumsum([0, *(part.starts[-1] for part in parts)])
        starts = [part.starts[1:] + end for part, end in zip(parts, ends[:-1], strict=True)]
        return Documents(
            np.concatenate([[0], *starts]), np.concatenate([part.words for part in parts]),
            np.concatenate([part.numbers for part in parts]), parts[0].width,
        )  # fmt: skip

    def entries(self, documents: np.ndarray) -> np.ndarray:
        """Where the entries of some documents stand, document after document."""
        widths = self.starts[documents + 1] - self.starts[documents]
        ends = np.cumsum(widths)
        return np.repeat(self.starts[documents] - (ends - widths), widths) + np.arange(ends[-1] if ends.size else 0)

    def split(self, share: float, seed: int | np.random.Generator) -> tuple[Documents, Documents]:
        """Each token to the second part with probability ``share``, to the first otherwise.

        One generator for documents that follow each other splits them as all of them at once.
        """
        second = np.random.default_rng(seed).binomial(self.numbers, share).astype(np.int32)
        first = Documents(self.starts, self.words, self.numbers - second, self.width)
        return first, Documents(self.starts, self.words, second, self.width)

    def word_counts(self) -> np.ndarray:
        """How often each word occurs."""
        counts = np.zeros(self.width)
        _add_counts(self.words, self.numbers, counts)
        return counts
