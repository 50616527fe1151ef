"""Data on disk, larger than memory: resident blocks, the next one read while the current one is used.

Each epoch puts the rows in a new random order, in pieces of a few rows, that is cut into resident blocks of equal size
from a random place on; the rows of a block are shuffled in memory. A block has pieces from every part of the file
(``batches.order``), so that rows may be sorted. Block number b is a function of the seed, the chain and b alone: a run
can resume anywhere, and chains can read in orders of their own.

A file that is mapped into memory can be read piece by piece. Row groups of Parquet files and compressed record batches
of Arrow files must be decoded as a whole: a wave of groups from all over the file, as many as fit in a cache of a few
blocks, is decoded and cut into the pieces of the blocks of that wave. Where groups are large and the rows sorted this
is not enough, and ``shuffle_to`` writes the rows once in random order.

The minibatches of one block come from its rows only. Choose ``block_bytes`` as large as memory allows: the larger
the block, the closer the draws are to those from the whole file.
"""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from mmap import mmap
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.batches.base import (
    LOOKED_AT,
    Source,
    check_rows,
    leading_size,
    row_bytes,
    row_struct,
    taken,
    warn_of_rounding,
)
from scirocco.batches.order import Order
from scirocco.core.checks import require_count
from scirocco.core.seeds import Purpose, generator
from scirocco.core.trees import named_leaves
from scirocco.core.types import Data

BLOCK_BYTES = 64 * 2**20
PIECES_PER_BLOCK = 4096  # at least, if the block has as many rows
PIECE_BYTES = 4096  # pieces of mapped files are not larger; of blocks below 16 MB they are smaller
GATHERED_BYTES = 4 * 2**20  # that are on their way into a block at a time
PLACES, PLACE_ROWS = 64, 16  # of a fingerprint


class Stream(Source):
    """What the sources on disk share. A subclass sets ``lengths``, ``piece`` and ``wave`` and reads rows of a group."""

    lengths: np.ndarray  # rows of each group: what is decoded at once, or the whole of a mapped file
    piece: int  # rows that stay together
    wave: int  # groups that blocks may be made of at a time
    size: int
    example: Data
    resident_rows: int
    _looked = False

    @abstractmethod
    def read(self, group: int, start: int, stop: int) -> Data:
        """Rows ``start`` to ``stop`` of a group, as arrays of their own (not views of a mapped file)."""

    @abstractmethod
    def take(self, group: int, rows: np.ndarray) -> Data:
        """Some rows of a group, given in increasing order, as arrays of their own."""

    def _set_up(self, example: Data, block_bytes: int) -> None:
        require_count("block_bytes", block_bytes)
        self.size = int(self.lengths.sum())
        self.example = example
        self.resident_rows = min(self.size, max(1, block_bytes // row_bytes(example)))

    def _check(self, data: Data, where: str) -> None:
        check_rows(data, where)
        if not self._looked:
            self._looked = True
            warn_of_rounding(data)

    def rows(self, which: np.ndarray) -> Data:
        """Rows by number, read in the order of the file."""
        which = np.asarray(which, np.int64)
        order = np.argsort(which, kind="stable")
        starts = np.cumsum(self.lengths) - self.lengths
        groups = np.searchsorted(starts, which[order], side="right") - 1
        block = _Block(len(which))
        for group in np.unique(groups):
            here = order[groups == group]
            block.put(here, self.take(int(group), which[here] - starts[group]))
        return block.data

    def first(self, rows: int) -> Data:
        """The first rows."""
        return self._rows(0, min(rows, self.size))

    def in_order(self, rows: int) -> Iterator[Data]:
        """All rows once, in pieces; the next piece is read while the caller works on this one."""
        starts = range(0, self.size, rows)
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(self._rows, 0, min(rows, self.size))
            for start in starts:
                current = coming.result()
                after = start + rows
                if after < self.size:
                    coming = reader.submit(self._rows, after, min(after + rows, self.size))
                self._check(current, f"rows {start} to {after}")
                yield current

    def fingerprint(self) -> dict[str, Any]:
        """Size, dtype and shape of the rows, a checksum of 16 rows at each of 64 places, and how the rows are cut.

        The places are spread evenly, first and last rows included. Parquet and Arrow files are looked at in 8 groups of
        rows, and give their sizes too, Parquet files also the sizes and extremes of all column chunks. Names and times
        of files do not count. What it does not see is a change of rows between those places that leaves these facts
        alone: a whole pass over a large file would cost more than it is worth.
        """
        places = self._places()
        cut = [self.resident_rows, self.piece, self.wave, zlib.crc32(self.lengths.astype(np.int64).data)]
        looked = {LOOKED_AT: [self.size, *places]}
        return {**looked, **self._checksums(places, self.size), "block_bytes": cut, **self._facts()}

    def _checksums(self, places: Sequence[int], size: int) -> dict[str, list[Any]]:
        """Of a few rows at each of these places, among the first ``size``."""
        sums: dict[str, list[Any]] = {}
        for start in places:
            for name, a in named_leaves(self._rows(start, min(start + PLACE_ROWS, size)), bare="data").items():
                known = sums.setdefault(name, [str(a.dtype), size, list(a.shape[1:]), 0])
                known[3] = zlib.crc32(np.ascontiguousarray(a).tobytes(), known[3])
        return sums

    def extends(self, known: dict[str, Any]) -> bool:
        """Whether the first rows are those that ``known`` is the fingerprint of, and more follow.

        Rows are compared where that fingerprint looked at them, however files are cut into groups now.
        """
        size, *places = known.get(LOOKED_AT, [self.size])
        if size >= self.size:
            return False
        return all(known.get(name) == facts for name, facts in self._checksums(places, size).items())

    def _places(self) -> list[int]:
        """Rows where the fingerprint looks."""
        return evenly(0, self.size, PLACES)

    def _facts(self) -> dict[str, Any]:
        """What else tells the files from others."""
        return {}

    def _rows(self, start: int, stop: int) -> Data:
        """Rows ``start`` to ``stop`` as they stand in the file."""
        ends = np.cumsum(self.lengths)
        block, position = _Block(stop - start), start
        while position < stop:
            k = int(np.searchsorted(ends, position, side="right"))
            low = position - int(ends[k] - self.lengths[k])
            high = min(int(self.lengths[k]), low + stop - position)
            block.put(slice(position - start, position - start + high - low), self.read(k, low, high))
            position += high - low
        return block.data

    def _waves(self, rng: np.random.Generator) -> list[np.ndarray]:
        """The groups of each wave of an epoch, each wave spread over the file."""
        groups = len(self.lengths)
        if groups <= self.wave:
            return [np.arange(groups)]
        order = Order(groups, 1, self.wave, rng).pieces(0, groups)[0]
        return [np.sort(wave) for wave in np.array_split(order, -(-groups // self.wave))]

    def block(self, seed: int, rows: int, number: int, chain: int = 0) -> Data:
        """Resident block ``number`` of a chain of the run with this seed: shuffled, on the device."""
        return jax.tree.map(jnp.asarray, self.blocks(seed, rows, range(number, number + 1), chain)[0])

    def blocks(self, seed: int, rows: int, numbers: range, chain: int = 0) -> list[Data]:
        """Several resident blocks, on the host: of groups that they share each is decoded once."""
        blocks = [_Block(rows) for _ in numbers]
        waves: dict[tuple[int, ...], list[_Stretch]] = {}
        for block, number in zip(blocks, numbers, strict=True):
            for groups, stretch in self._stretches(seed, rows, number, chain, block):
                waves.setdefault(tuple(groups.tolist()), []).append(stretch)
        for wave, stretches in waves.items():
            self._gather(wave, stretches, once=len(numbers) > 1)
        for block, number in zip(blocks, numbers, strict=True):
            self._check(block.data, f"block {number}")
        return [block.data for block in blocks]

    def _stretches(
        self, seed: int, rows: int, number: int, chain: int, block: _Block
    ) -> Iterator[tuple[np.ndarray, _Stretch]]:
        """The waves that a block is made of, as groups, and what it takes from each."""
        epoch, k = divmod(number, self.size // rows)
        rng = generator(seed, Purpose.BLOCK_WAVES, chain, epoch)
        waves, phase = self._waves(rng), int(rng.integers(self.size))
        ends = np.cumsum([self.lengths[wave].sum() for wave in waves])
        shuffle = generator(seed, Purpose.BLOCK_ROWS, chain, epoch, k)
        places = shuffle.permutation(np.arange(rows, dtype=np.int32 if rows < 2**31 else np.int64))
        first, done = phase + k * rows, 0
        while done < rows:  # on the ring of all rows
            position = (first + done) % self.size
            w = int(np.searchsorted(ends, position, side="right"))
            total = int(self.lengths[waves[w]].sum())
            low = position - int(ends[w] - total)
            high = min(total, low + rows - done)
            rng = generator(seed, Purpose.BLOCK_PIECES, chain, epoch, w)
            pieces = Order(total, self.piece, rows, rng).pieces(low, high)
            yield waves[w], _Stretch(block, places[done : done + high - low], *pieces)
            done += high - low

    def _gather(self, wave: Sequence[int], stretches: list[_Stretch], once: bool) -> None:
        """Put the pieces of a wave's rows into their blocks, in the order of the file: each group is needed once."""
        some = max(1, GATHERED_BYTES // (row_bytes(self.example) * self.piece))
        end = 0
        for group in wave:
            begin, end = end, end + int(self.lengths[group])
            for stretch in stretches:
                for rows, places in stretch.inside(begin, end, some):
                    stretch.block.put(places, self.take(group, rows - begin))
            if once:
                self._used(group)

    def _used(self, group: int) -> None:
        """A group was cut into several blocks: it need not be kept for the next one."""

    def together(self, rows: int, chains: int) -> int:
        """How many blocks of so many rows each of several chains should read at a time."""
        del rows, chains
        return 1


class _Stretch:
    """Rows of a wave that belong to one block: pieces in the order of the file, and the places of their rows."""

    def __init__(self, block: _Block, places: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> None:
        order = np.argsort(starts)
        self.block, self.places, self.starts, self.lengths = block, places, starts[order], lengths[order]
        self.ends = self.starts + self.lengths
        self.ahead = np.cumsum(self.lengths) - self.lengths  # rows of the pieces before each

    def inside(self, begin: int, end: int, some: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows from ``begin`` to ``end`` of the wave, and their places in the block, ``some`` pieces at a time."""
        first = int(np.searchsorted(self.ends, begin, side="right"))
        last = int(np.searchsorted(self.starts, end))
        for part in range(first, last, some):
            which = slice(part, min(part + some, last))
            starts, n, ahead = self.starts[which], self.lengths[which], self.ahead[which]
            rows = np.repeat(starts - (ahead - ahead[0]), n) + np.arange(n.sum())
            places = self.places[ahead[0] : ahead[0] + len(rows)]
            low, high = np.searchsorted(rows, (begin, end))  # a piece may lie across a border
            yield rows[low:high], places[low:high]


class _Block:
    """Rows that are put in their places, part by part."""

    def __init__(self, rows: int) -> None:
        self.rows, self.data = rows, None

    def put(self, places: Any, part: Data) -> None:
        if self.data is None:
            self.data = jax.tree.map(lambda a: np.empty((self.rows, *a.shape[1:]), a.dtype), part)
        for whole, some in zip(jax.tree.leaves(self.data), jax.tree.leaves(part), strict=True):
            whole[places] = some


class Loader:
    """Hands out the resident blocks of a stream one after the other, reading ahead in a thread.

    ``chain`` chooses the order: each chain has its own. ``together`` blocks are read at a time, and the next ones when
    fewer than half of them are left.
    """

    def __init__(self, stream: Stream, seed: int, rows: int, chain: int = 0, together: int = 1) -> None:
        self.stream, self.seed, self.rows, self.chain, self.together = stream, seed, rows, chain, together
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="scirocco-reader")
        self._coming: dict[range, Future[list[Data]]] = {}
        self._ready: dict[int, Data] = {}
        self._current: tuple[int, Data] | None = None

    def get(self, number: int, last: float = np.inf) -> Data:
        """Block ``number``; the next ones start to be read, up to the ``last`` that will be asked for."""
        turn = self._turn(number)
        after = self._turn(turn.stop)
        if self._current is None or self._current[0] != number:
            self._current = None  # let go of the old block before the new one arrives
            if number not in self._ready:
                self._ready = {}
                self._ready = dict(zip(turn, self._start(turn).result(), strict=True))
            self._coming = {numbers: f for numbers, f in self._coming.items() if numbers == after}
            self._ready = {n: block for n, block in self._ready.items() if n >= number}
            self._current = (number, jax.tree.map(jnp.asarray, self._ready.pop(number)))
        if len(self._ready) <= (self.together - 1) // 2 and after.start <= last:
            self._start(after)  # of a block that is held already too: it may have been asked for alone before
        return self._current[1]

    def expect(self, number: int) -> None:
        """Block ``number`` will be asked for: start to read it."""
        if number not in self._ready and (self._current is None or self._current[0] != number):
            self._start(self._turn(number))

    def forget(self) -> None:
        """The current block was copied elsewhere."""
        self._current = None

    def _turn(self, number: int) -> range:
        """The blocks that are read with this one."""
        first = number // self.together * self.together
        return range(first, first + self.together)

    def _start(self, numbers: range) -> Future[list[Data]]:
        if numbers not in self._coming:
            self._coming[numbers] = self._reader.submit(self.stream.blocks, self.seed, self.rows, numbers, self.chain)
        return self._coming[numbers]

    def close(self) -> None:
        """Stop reading."""
        self._reader.shutdown(wait=True, cancel_futures=True)
        self._coming.clear()
        self._ready.clear()
        self._current = None


class MemoryMapped(Stream):
    """Memory-mapped arrays: a pytree of ``numpy.memmap`` or of paths of ``.npy`` files, with equal leading lengths.

    ``data`` given to a ``Target`` as ``numpy.memmap`` arrays is wrapped in this class by itself.
    """

    def __init__(self, arrays: Data, *, block_bytes: int = BLOCK_BYTES) -> None:
        self.arrays = jax.tree.map(lambda a: np.load(a, mmap_mode="r") if isinstance(a, str | Path) else a, arrays)
        self.lengths = np.array([leading_size(self.arrays)])
        self.block_bytes = block_bytes
        self._set_up(row_struct(self.arrays), block_bytes)
        stored = sum(int(np.prod(a.shape[1:])) * a.dtype.itemsize for a in jax.tree.leaves(self.arrays))
        self.piece, self.wave = piece_rows(self.resident_rows, stored), 1

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process maps the files itself."""
        return _mapped_again, (jax.tree.map(MappedFile.of, self.arrays), self.block_bytes)

    def read(self, group: int, start: int, stop: int) -> Data:
        """Copy rows out of the mapped files."""
        del group  # there is one
        return jax.tree.map(lambda a: np.array(a[start:stop]), self.arrays)

    def take(self, group: int, rows: np.ndarray) -> Data:
        """Copy rows out of the mapped files."""
        del group
        return jax.tree.map(lambda a: taken(np.asarray(a), rows), self.arrays)


class MappedFile:
    """A mapped array by the name of its file and its place there; another array by itself."""

    def __init__(self, content: Any) -> None:
        self.content = content

    @classmethod
    def of(cls, array: Any) -> MappedFile:
        """Of a leaf of ``MemoryMapped``; a view of a mapped array has no place of its own."""
        if not isinstance(array, np.memmap) or array.filename is None or not isinstance(array.base, mmap):
            return cls(np.asarray(array))
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        return cls((str(Path(array.filename).absolute()), array.dtype, "r", array.offset, array.shape, order))

    def open(self) -> np.ndarray:
        """The array."""
        return np.memmap(*self.content) if isinstance(self.content, tuple) else self.content


def _mapped_again(files: Any, block_bytes: int) -> MemoryMapped:
    return MemoryMapped(jax.tree.map(MappedFile.open, files), block_bytes=block_bytes)


class Rows(Stream):
    """Any ``Source`` as a stream of resident blocks; ``Target`` wraps sources that are not of this library in it."""

    def __init__(self, source: Source) -> None:
        self.source = source
        require_count("size", source.size)
        self.lengths = np.array([source.size])
        self._set_up(row_struct(source.rows(np.arange(1))), source.block_bytes)
        self.piece, self.wave = piece_rows(self.resident_rows, row_bytes(self.example)), 1

    def read(self, group: int, start: int, stop: int) -> Data:
        """Rows of the source."""
        return self.take(group, np.arange(start, stop))

    def take(self, group: int, rows: np.ndarray) -> Data:
        """Rows of the source, copied: it may keep what it gave."""
        del group
        return jax.tree.map(np.array, self.source.rows(rows))

    def fingerprint(self) -> dict[str, Any]:
        """That of the source."""
        return self.source.fingerprint()

    def extends(self, known: dict[str, Any]) -> bool:
        """Whether the source does."""
        return self.source.extends(known)


def evenly(low: int, high: int, places: int) -> list[int]:
    """Where rows are looked at: the first and the last of the range are among them."""
    return np.unique(np.linspace(low, max(low, high - PLACE_ROWS), places).astype(int)).tolist()


def piece_rows(resident: int, stored: int) -> int:
    """Rows of a piece: few enough for thousands in a block, enough for a page of a file."""
    return max(1, min(PIECE_BYTES // max(1, stored), resident // PIECES_PER_BLOCK))
