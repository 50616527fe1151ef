"""Category codes as observations: the local step that has nothing to assign, and codes on disk."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from scirocco.batches import Strata, Stream
from scirocco.batches.stream import Loader
from scirocco.core.checks import numbers
from scirocco.core.compiled import jit
from scirocco.counts.local import Entries, LocalStep
from scirocco.counts.minibatches import Blocks, InMemory, Minibatch, Minibatches
from scirocco.simplex import Weights

COUNTED_AT_ONCE = 2**20
MOST_CATEGORIES = 10**9  # that are believed without being told
SO_MANY = 5  # times as many categories as observations: more look like counts, and must be said
AS_CODES = "If these are counts, np.repeat(np.arange(len(data)), data) makes codes of them"


@jit
def _tally(codes: Any, weights: Any, categories: int) -> Any:
    """Weighted counts of all categories, categories x 1."""
    counts = np.zeros((categories, 1))
    several = weights.size > 1
    for i in range(codes.size):
        counts[codes[i], 0] += weights[i * several]
    return counts


@jit
def _tally_touched(codes: Any, weights: Any) -> Any:
    """The categories that occur, and their weighted counts."""
    order = np.argsort(codes)
    columns, counts = np.empty(codes.size, np.int64), np.zeros((codes.size, 1))
    several = weights.size > 1
    m = -1
    for k in order:
        if m < 0 or columns[m] != codes[k]:
            m += 1
            columns[m] = codes[k]
        counts[m, 0] += weights[k * several]
    return columns[: m + 1], counts[: m + 1]


class Codes(LocalStep):
    """Category codes are observed: their counts do not depend on the weights.

    ``lazy`` names only the categories that a minibatch has. ``whole`` is the minibatch that is all data, if all are: it
    is counted once.
    """

    def __init__(self, minibatches: Minibatches, weights: Weights, *, lazy: bool) -> None:
        self.minibatches, self.weights, self.lazy = minibatches, weights, lazy
        self.whole = Minibatch.of(minibatches.data, minibatches.size) if minibatches.constant else None
        self._counted: dict[bool, tuple[np.ndarray | None, np.ndarray]] = {}

    def count(self, batch: Minibatch, at: Any = None, *, survey: bool = False) -> tuple[np.ndarray | None, np.ndarray]:
        """Weighted counts, categories x 1."""
        del at
        few = self.lazy and not survey
        if batch is not self.whole:
            return self._tallied(batch, few)
        if few not in self._counted:
            self._counted[few] = self._tallied(batch, few)
        return self._counted[few]

    def _tallied(self, batch: Minibatch, few: bool) -> tuple[np.ndarray | None, np.ndarray]:
        scale = np.atleast_1d(np.asarray(batch.scale, float))
        if few:
            return _tally_touched(batch.data, scale)
        return None, _tally(batch.data, scale, self.weights.categories)

    def entries(self, batch: Minibatch, at: Any = None, *, survey: bool = False) -> Entries:
        """Each code counts once, in its category."""
        del at, survey
        return Entries(batch.rows, batch.data, np.ones((len(batch.data), 1), np.uint16), 1.0)

    def total(self) -> np.ndarray:
        """The counts of all observations, in one pass."""
        return sum(
            (self.count(some, survey=True)[1][:, 0] for some in self.everything()), np.zeros(self.weights.categories)
        )

    def typical(self) -> np.ndarray:
        """The counts, or an estimate of them without another pass over the data."""
        if isinstance(self.minibatches, InMemory):
            return self.total()
        return self.count(self.minibatches.larger(0, self.minibatches.resident), survey=True)[1][:, 0]


class CodeBlocks(Blocks):
    """The shuffled resident blocks of a stream of codes, in the order of one chain."""

    def __init__(self, stream: Stream, categories: int, *, seed: int, chain: int) -> None:
        self.stream, self.categories, self.size = stream, categories, int(stream.size)
        self.resident = int(stream.resident_rows)
        self._loader = Loader(stream, seed, self.resident, chain)

    def place(self, position: int) -> tuple[int, int, int]:
        """All blocks have the same size."""
        number, place = divmod(position, self.resident)
        return number, place, self.resident

    def block(self, number: int) -> np.ndarray:
        """The codes of a block, looked at once."""
        return compact(require_codes(self._loader.get(number), self.categories))

    def joined(self, parts: list[np.ndarray]) -> np.ndarray:
        """Codes after others."""
        return np.concatenate(parts)

    def everything(self) -> Iterator[np.ndarray]:
        """All codes once, in the order of the file."""
        for piece in self.stream.in_order(COUNTED_AT_ONCE):
            yield compact(require_codes(piece, self.categories))

    def close(self) -> None:
        """Stop reading ahead."""
        self._loader.close()


def fingerprint(data: Any, way: Any) -> dict[str, Any]:
    """What tells codes in memory or on disk, and their strata, from others."""
    if isinstance(data, Stream):
        return data.fingerprint()
    found = {"codes": [len(data), zlib.crc32(np.ascontiguousarray(data).data)]}
    if isinstance(way, Strata):
        names, labels = np.unique(np.asarray(way.labels), return_inverse=True)
        found["strata"] = [len(names), zlib.crc32(np.ascontiguousarray(labels, np.int64).data)]
    return found


def require_codes(data: Any, categories: int | None) -> np.ndarray:
    """A vector of category codes from 0 to categories - 1."""
    if isinstance(data, dict):
        if len(data) != 1:
            raise ValueError(f"data must be one column of category codes; got {', '.join(data)}: choose with columns=")
        data = next(iter(data.values()))
    codes = numbers("data", data)
    if codes.ndim == 2 and codes.shape[1] > 1 and _one_hot(codes):
        raise ValueError(f"data has one-hot rows, shape {codes.shape}: give their codes, data.argmax(axis=1)")
    if codes.ndim != 1 or not codes.size:
        raise ValueError(f"data must be a vector of category codes, not empty; got shape {codes.shape}")
    if codes.dtype.kind == "f" and np.all(np.isfinite(codes)) and np.all(codes == np.floor(codes)):
        if np.abs(codes).max() >= (2**24 if codes.dtype.itemsize < 8 else 2**53):
            raise ValueError("data has codes too large for its floating dtype to tell apart: store them as integers")
        codes = codes.astype(np.int64)
    if codes.dtype.kind not in "iu":
        raise TypeError(f"data must be whole numbers, the codes of categories; got dtype {codes.dtype}")
    if codes.min() < 0:
        raise ValueError(f"data must not be negative: codes start at 0; got {codes.min()} in row {int(codes.argmin())}")
    if codes.max() >= (MOST_CATEGORIES if categories is None else categories):
        limit = f"{MOST_CATEGORIES:,}; re-code the categories" if categories is None else f"{categories}"
        counts = f". {AS_CODES}" if codes.size == categories else ""
        raise ValueError(f"data must lie below the number of categories, {limit}; got {codes.max()}{counts}")
    if categories is None and codes.max() >= SO_MANY * max(2, codes.size):
        raise ValueError(
            f"data must be category codes; {codes.size} observations whose largest code is {codes.max()} look like "
            f"counts. {AS_CODES}. If they are codes, say how many categories there are: categories="
        )
    return codes


def _one_hot(table: np.ndarray) -> bool:
    return bool(np.all((table == 0) | (table == 1)) and np.all(table.sum(axis=1) == 1))


def compact(codes: np.ndarray) -> np.ndarray:
    """Codes in as few bytes as the compiled code has versions for."""
    return codes.astype(np.int32 if codes.max() < 2**31 else np.int64, copy=False)
