"""Rows of a table: features with numbers, as documents have words, and beside them columns of numbers."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scirocco.corpora.documents import Documents


@dataclass(frozen=True, eq=False)
class Rows(Documents):
    """``values`` are (row, column), NaN where they are missing."""

    values: np.ndarray

    def take(self, documents: np.ndarray | slice) -> Rows:
        """Some of the rows."""
        return Rows(**vars_of(super().take(documents)), values=np.ascontiguousarray(self.values[documents]))

    rows = take

    def fingerprint(self) -> dict[str, Any]:
        """What tells these rows from others, for resuming."""
        return super().fingerprint() | {"values": zlib.crc32(np.ascontiguousarray(self.values).data)}


def vars_of(rows: Documents) -> dict[str, Any]:
    """What rows of features are made of."""
    return {"starts": rows.starts, "words": rows.words, "numbers": rows.numbers, "width": rows.width}


def values_of(rows: Documents) -> np.ndarray:
    """The columns of numbers, (row, column); none of them if rows have only features."""
    return rows.values if isinstance(rows, Rows) else np.empty((rows.size, 0))


def joined(parts: Sequence[Documents]) -> Documents:
    """Some rows after others."""
    features = Documents.joined(list(parts))
    if not isinstance(parts[0], Rows):
        return features
    return Rows(**vars_of(features), values=np.concatenate([values_of(part) for part in parts]))


def entries_in(rows: Documents) -> int:
    """How many entries a pass looks at."""
    return int(rows.words.size + np.count_nonzero(~np.isnan(values_of(rows))))


def entries_of(rows: Documents) -> tuple[np.ndarray, ...]:
    """What the kernels read of rows: the columns of numbers come fourth, if there are some.

    A tuple's length is known when a kernel is compiled, so that rows of features alone cost what they did without.
    """
    features = (rows.starts, rows.words, rows.numbers)
    return (*features, rows.values) if isinstance(rows, Rows) else features
