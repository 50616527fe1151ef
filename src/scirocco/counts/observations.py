"""Category codes of the observations, in memory or on disk, and the minibatches drawn from them.

    independent         a new simple random sample without replacement at every step: hypergeometric counts
    with_replacement    independent draws: binomial counts
    shuffled            epochs: every observation once, in an order that is new each time
    Strata(labels)      independent samples of each stratum, as large as its share of the data

Data on disk comes in resident blocks whose rows are shuffled (``batches.stream``), in an order of its own for each
chain; the minibatches of a block are its rows, each once. Minibatches are functions of (seed, chain, step) alone.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from scirocco.batches import Strata
from scirocco.batches.base import batch_rows
from scirocco.core.checks import require_choice
from scirocco.core.compiled import jit
from scirocco.core.random import below, open_stream
from scirocco.core.seeds import Purpose, generator, stream_key
from scirocco.simplex.base import Counts

WAYS = ("independent", "with_replacement", "shuffled")
COUNTED_AT_ONCE = 2**20
MOST_CATEGORIES = 10**9  # that are believed without being told


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


@jit
def _tally(codes: Any, weights: Any, categories: int) -> Any:
    """Weighted counts of all categories."""
    counts = np.zeros((1, categories))
    several = weights.size > 1
    for i in range(codes.size):
        counts[0, codes[i]] += weights[i * several]
    return counts


@jit
def _tally_touched(codes: Any, weights: Any) -> Any:
    """The categories that occur, and their weighted counts."""
    order = np.argsort(codes)
    columns, counts = np.empty(codes.size, np.int64), np.zeros((1, codes.size))
    several = weights.size > 1
    m = -1
    for k in order:
        if m < 0 or columns[m] != codes[k]:
            m += 1
            columns[m] = codes[k]
        counts[0, m] += weights[k * several]
    return columns[: m + 1], counts[:, : m + 1]


class Observations:
    """Codes in memory; ``counts(chain, step)`` is the estimate of a minibatch."""

    def __init__(
        self, codes: np.ndarray, categories: int, batch_size: int | float, way: Any, *, seed: int, lazy: bool
    ) -> None:
        self.codes, self.categories, self.lazy, self.seed = _compact(codes), categories, lazy, seed
        self.size = len(codes)
        self.batch_size = batch_rows(batch_size, self.size)
        self.way = way
        self._orders: dict[int, tuple[int, np.ndarray]] = {}
        self._keys: dict[int, np.ndarray] = {}
        if isinstance(way, Strata):
            self._strata = self._stratify(way)
            self.batch_size = sum(n for _, n in self._strata)
        else:
            require_choice("batching", way, WAYS)

    @property
    def fraction(self) -> float:
        """n/N."""
        return self.batch_size / self.size

    @property
    def resident(self) -> int:
        """Observations in memory at a time."""
        return self.size

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

    def _key(self, chain: int) -> np.ndarray:
        if chain not in self._keys:
            self._keys[chain] = stream_key(self.seed, Purpose.CODES_MINIBATCH, chain)
        return self._keys[chain]

    def _rows(self, chain: int, step: int, n: int) -> np.ndarray:
        if n == self.size:
            return np.arange(n)
        if self.way == "with_replacement":
            return np.asarray(_with_replacement(self._key(chain), step, self.size, n))
        if self.way == "shuffled":
            epoch, k = divmod(step, self.size // n)
            if self._orders.get(chain, (-1,))[0] != epoch:
                rng = generator(self.seed, Purpose.CODES_EPOCH, chain, epoch)
                self._orders[chain] = (epoch, rng.permutation(self.size))
            return self._orders[chain][1][k * n : (k + 1) * n]
        return np.asarray(_distinct(self._key(chain), step, 0, self.size, n))

    def counts(self, chain: int, step: int) -> Counts:
        """The estimated counts of the minibatch of a step."""
        if isinstance(self.way, Strata):
            parts = [
                rows[_distinct(self._key(chain), step, i, len(rows), n)] for i, (rows, n) in enumerate(self._strata)
            ]
            weights = np.repeat([len(rows) / n for rows, n in self._strata], [n for _, n in self._strata])
            return self._tallied(self.codes[np.concatenate(parts)], weights)
        rows = self._rows(chain, step, self.batch_size)
        return self._tallied(self.codes[rows], np.array([self.size / self.batch_size]))

    def _tallied(self, codes: np.ndarray, weights: np.ndarray) -> Counts:
        if self.lazy:
            columns, values = _tally_touched(codes, weights)
            return Counts(values, columns, self.fraction)
        return Counts(_tally(codes, weights, self.categories), None, self.fraction)

    def larger(self, chain: int, step: int, batch_size: int | float) -> np.ndarray:
        """Counts estimated from a larger batch, 1 x categories, for a centre or a start."""
        n = batch_rows(min(batch_size, self.size), self.size)
        rows = np.asarray(_distinct(stream_key(self.seed, Purpose.CODES_LARGER, chain), step, 0, self.size, n))
        return np.asarray(_tally(self.codes[rows], np.array([self.size / n]), self.categories))

    def total(self) -> np.ndarray:
        """The counts of all observations, 1 x categories."""
        return np.bincount(self.codes, minlength=self.categories)[None].astype(float)

    def typical(self) -> np.ndarray:
        """The counts, or an estimate of them without another pass over the data."""
        return self.total()

    def fingerprint(self) -> dict[str, Any]:
        """What tells this data from another."""
        found = {"codes": [self.size, zlib.crc32(np.ascontiguousarray(self.codes).data)]}
        if isinstance(self.way, Strata):
            found["strata"] = [len(self._strata), zlib.crc32(np.concatenate([rows for rows, _ in self._strata]).data)]
        return found

    def close(self) -> None:
        """Let go of the orders of epochs."""
        self._orders.clear()


class StreamedObservations(Observations):
    """Codes on disk, in shuffled resident blocks of each chain, of which minibatches are cut one after the other."""

    def __init__(self, stream: Any, categories: int, batch_size: int | float, *, seed: int, lazy: bool) -> None:
        self.stream, self.categories, self.lazy, self.seed = stream, categories, lazy, seed
        self.size, self.way = stream.size, "shuffled"
        self.batch_size = batch_rows(batch_size, self.size)
        if self.batch_size > stream.resident_rows:
            raise ValueError(
                f"batch_size must be at most the rows of a resident block, {stream.resident_rows}; "
                f"got {self.batch_size}: use a larger block_bytes"
            )
        self._orders, self._keys = {}, {}
        self._loaders: dict[int, Any] = {}
        self._resident: dict[int, tuple[int, np.ndarray]] = {}
        self._typical: np.ndarray | None = None

    @property
    def resident(self) -> int:
        """Observations in memory at a time."""
        return int(self.stream.resident_rows)

    @property
    def _per_block(self) -> int:
        """Minibatches of a block."""
        return int(self.stream.resident_rows) // self.batch_size

    def _block(self, chain: int, number: int) -> np.ndarray:
        """The codes of a resident block of a chain, looked at once."""
        from scirocco.batches.stream import Loader

        if chain not in self._loaders:
            self._loaders[chain] = Loader(self.stream, self.seed, self.stream.resident_rows, chain)
        if self._resident.get(chain, (-1,))[0] != number:
            self._resident.pop(chain, None)  # let go of the old block before the new one arrives
            codes = _compact(require_codes(self._loaders[chain].get(number), self.categories))
            self._resident[chain] = (number, codes)
        return self._resident[chain][1]

    def counts(self, chain: int, step: int) -> Counts:
        """The estimated counts of the minibatch of a step."""
        number, k = divmod(step, self._per_block)
        # The rows of a block are shuffled: a stretch of them is a random sample.
        chosen = self._block(chain, number)[k * self.batch_size : (k + 1) * self.batch_size]
        return self._tallied(chosen, np.array([self.size / self.batch_size]))

    def larger(self, chain: int, step: int, batch_size: int | float) -> np.ndarray:
        """Counts estimated from a larger batch of the resident block."""
        codes = self._block(chain, step // self._per_block)
        n = batch_rows(min(batch_size, self.size), self.size)
        if n > len(codes):
            raise ValueError(
                f"a batch of {n} is larger than the resident block of {len(codes)} rows: use a larger block_bytes"
            )
        chosen = np.asarray(_distinct(stream_key(self.seed, Purpose.CODES_LARGER, chain), step, 0, len(codes), n))
        return np.asarray(_tally(codes[chosen], np.array([self.size / n]), self.categories))

    def total(self) -> np.ndarray:
        """The counts of all observations, in one pass over the files."""
        counts = np.zeros(self.categories)
        for piece in self.stream.in_order(COUNTED_AT_ONCE):
            counts += np.bincount(require_codes(piece, self.categories), minlength=self.categories)
        return counts[None]

    def typical(self) -> np.ndarray:
        """The counts, estimated from a resident block."""
        if self._typical is None:
            codes = self._block(0, 0)
            self._typical = np.bincount(codes, minlength=self.categories)[None] * (self.size / len(codes))
        return self._typical

    def fingerprint(self) -> dict[str, Any]:
        """What tells this data from another."""
        found: dict[str, Any] = self.stream.fingerprint()
        return found

    def close(self) -> None:
        """Stop reading ahead."""
        for loader in self._loaders.values():
            loader.close()
        self._loaders.clear()
        self._resident.clear()


def require_codes(data: Any, categories: int | None) -> np.ndarray:
    """A vector of category codes from 0 to categories - 1."""
    if isinstance(data, dict):
        if len(data) != 1:
            raise ValueError(f"data must be one column of category codes; got {', '.join(data)}: choose with columns=")
        data = next(iter(data.values()))
    if np.ma.is_masked(data):
        raise ValueError(f"data has {np.ma.getmaskarray(data).sum()} masked entries: drop them first (.compressed())")
    codes = np.asarray(data)
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
        raise ValueError(f"data must lie below the number of categories, {limit}; got {codes.max()}")
    return codes


def _compact(codes: np.ndarray) -> np.ndarray:
    """Codes in as few bytes as the compiled code has versions for."""
    return codes.astype(np.int32 if codes.max() < 2**31 else np.int64, copy=False)
