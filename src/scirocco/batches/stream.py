"""Data on disk, larger than memory: resident blocks, the next one read while the current one is used.

A file is a list of pieces (ranges of rows, or the row groups of a Parquet file). Each epoch puts the pieces in a new
random order; the rows of the pieces, in that order and starting from a random row of the ring they form, are cut into
resident blocks of equal size, and the rows of a block are shuffled in memory. A block therefore mixes rows from
many places of the file, and block number b is a function of the seed and b alone: a run can resume anywhere.

The minibatches of one block come from its rows only. Choose ``block_bytes`` as large as memory allows: the larger
the block, the closer the draws are to those from the whole file.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.batches.base import check_rows, leading_size, row_bytes, row_struct
from scirocco.core.trees import named_leaves
from scirocco.core.types import Data

BLOCK_BYTES = 64 * 2**20
PIECES_PER_BLOCK = 64


class Stream(ABC):
    """What the sources on disk share. A subclass sets ``lengths`` and reads rows of a piece."""

    lengths: np.ndarray  # rows of each piece
    size: int
    example: Data
    resident_rows: int

    @abstractmethod
    def read(self, piece: int, start: int, stop: int) -> Data:
        """Rows ``start`` to ``stop`` of a piece, as arrays of their own (not views of a mapped file)."""

    def _set_up(self, example: Data, block_bytes: int) -> None:
        self.size = int(self.lengths.sum())
        self.example = example
        rows = max(1, block_bytes // row_bytes(example))
        self.resident_rows = min(self.size, rows)

    def first(self, rows: int) -> Data:
        """The first rows."""
        return self._rows(np.arange(len(self.lengths)), 0, min(rows, self.size))

    def in_order(self, rows: int) -> Iterator[Data]:
        """All rows once, in pieces; the next piece is read while the caller works on this one."""
        starts = range(0, self.size, rows)
        natural = np.arange(len(self.lengths))
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(self._rows, natural, 0, min(rows, self.size))
            for start in starts:
                current = coming.result()
                after = start + rows
                if after < self.size:
                    coming = reader.submit(self._rows, natural, after, min(after + rows, self.size))
                check_rows(current, f"rows {start} to {after}")
                yield current

    def fingerprint(self) -> dict[str, Any]:
        """Size, shape of a row, the sums of the first 16 rows (the rest is not read), and how the rows are cut."""
        head = named_leaves(self.first(16), bare="data")
        cut = [self.resident_rows, zlib.crc32(self.lengths.astype(np.int64).data)]
        rows = {n: [str(a.dtype), self.size, list(a.shape[1:]), float(np.sum(a, dtype=float))] for n, a in head.items()}
        return {**rows, "block_bytes": cut}

    def _parts(self, order: np.ndarray, start: int, stop: int) -> Iterator[Data]:
        """Rows ``start`` to ``stop`` (modulo N) of the pieces put in ``order``, piece by piece."""
        ends = np.cumsum(self.lengths[order])
        position = start
        while position < stop:
            k = int(np.searchsorted(ends, position % self.size, side="right"))
            low = int(position % self.size - (ends[k] - self.lengths[order[k]]))
            high = min(int(self.lengths[order[k]]), low + stop - position)
            yield self.read(int(order[k]), low, high)
            position += high - low

    def _rows(self, order: np.ndarray, start: int, stop: int, places: np.ndarray | None = None) -> Data:
        """The same rows in one block, row i at ``places[i]``; each piece is let go of before the next is read."""
        places = np.arange(stop - start) if places is None else places
        block: Data = None
        done = 0
        for part in self._parts(order, start, stop):
            if block is None:
                block = jax.tree.map(lambda a: np.empty((stop - start, *a.shape[1:]), a.dtype), part)
            here = places[done : done + jax.tree.leaves(part)[0].shape[0]]
            for whole, rows in zip(jax.tree.leaves(block), jax.tree.leaves(part), strict=True):
                whole[here] = rows
            done += len(here)
        return block

    def block(self, seed: int, rows: int, number: int) -> Data:
        """Resident block ``number`` of the run with this seed: shuffled, on the device."""
        per_epoch = self.size // rows
        epoch, k = divmod(number, per_epoch)
        rng = np.random.default_rng(np.random.SeedSequence([seed, 1, epoch]))
        order, phase = rng.permutation(len(self.lengths)), int(rng.integers(self.size))
        places = np.random.default_rng(np.random.SeedSequence([seed, 2, epoch, k])).permutation(rows)
        data = self._rows(order, phase + k * rows, phase + (k + 1) * rows, places)
        check_rows(data, f"block {number}")
        return jax.tree.map(jnp.asarray, data)


class Loader:
    """Hands out the resident blocks of a stream one after the other, reading one ahead in a thread."""

    def __init__(self, stream: Stream, seed: int, rows: int) -> None:
        self.stream, self.seed, self.rows = stream, seed, rows
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="scirocco-reader")
        self._coming: dict[int, Future[Data]] = {}
        self._current: tuple[int, Data] | None = None

    def get(self, number: int) -> Data:
        """Block ``number``; the next one starts to be read."""
        if self._current is None or self._current[0] != number:
            self._current = None  # let go of the old block before the new one arrives
            self._current = (number, self._start(number).result())
            self._coming.pop(number)
            self._coming = {k: f for k, f in self._coming.items() if k == number + 1}
            self._start(number + 1)
        return self._current[1]

    def _start(self, number: int) -> Future[Data]:
        if number not in self._coming:
            self._coming[number] = self._reader.submit(self.stream.block, self.seed, self.rows, number)
        return self._coming[number]

    def close(self) -> None:
        """Stop reading."""
        self._reader.shutdown(wait=True, cancel_futures=True)
        self._coming.clear()
        self._current = None


class MemoryMapped(Stream):
    """Memory-mapped arrays: a pytree of ``numpy.memmap`` or of paths of ``.npy`` files, with equal leading lengths.

    ``data`` given to a ``Target`` as ``numpy.memmap`` arrays is wrapped in this class by itself.
    """

    def __init__(self, arrays: Data, *, block_bytes: int = BLOCK_BYTES) -> None:
        self.arrays = jax.tree.map(lambda a: np.load(a, mmap_mode="r") if isinstance(a, str | Path) else a, arrays)
        size = leading_size(self.arrays)
        example = row_struct(self.arrays)
        piece = max(1, block_bytes // PIECES_PER_BLOCK // row_bytes(example))
        self.starts = np.arange(0, size, piece)
        self.lengths = np.diff(np.append(self.starts, size))
        self._set_up(example, block_bytes)

    def read(self, piece: int, start: int, stop: int) -> Data:
        """Copy rows out of the mapped files."""
        base = self.starts[piece]
        return jax.tree.map(lambda a: np.array(a[base + start : base + stop]), self.arrays)


class Parquet(Stream):
    """Parquet files, read by row group; needs ``pyarrow``.

    ``transform`` turns the columns of some rows (a dict of arrays, fixed-size lists as matrices) into the pytree that
    the likelihood expects. Peak memory holds a few blocks and one row group: write files with row groups no larger
    than a block.
    """

    def __init__(
        self,
        paths: str | Path | list[str | Path],
        *,
        columns: list[str] | None = None,
        transform: Any = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        parquet = _pyarrow("pyarrow.parquet")
        self.files = [parquet.ParquetFile(p) for p in _listed(paths)]
        self.columns, self.transform = columns, transform
        groups = [(f, g) for f in range(len(self.files)) for g in range(self.files[f].num_row_groups)]
        rows = [self.files[f].metadata.row_group(g).num_rows for f, g in groups]
        self.groups = [group for group, n in zip(groups, rows, strict=True) if n]
        self.lengths = np.array([n for n in rows if n])
        self._last: tuple[int, Any] | None = None
        _require_columns(columns, self.files[0].schema_arrow.names)
        _require_rows(self.lengths)
        self._set_up(row_struct(self.read(0, 0, 1)), block_bytes)

    def read(self, piece: int, start: int, stop: int) -> Data:
        """Decode a row group (kept until the next one, because a block may end inside it)."""
        last = self._last
        if last is None or last[0] != piece:
            file, group = self.groups[piece]
            last = (piece, self.files[file].read_row_group(group, columns=self.columns, use_threads=False))
            self._last = last
        return _table_rows(last[1].slice(start, stop - start), self.transform)


class Arrow(Stream):
    """Arrow (Feather v2) files, memory-mapped; needs ``pyarrow``. ``transform`` as for ``Parquet``."""

    def __init__(
        self,
        paths: str | Path | list[str | Path],
        *,
        columns: list[str] | None = None,
        transform: Any = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        pyarrow, ipc = _pyarrow("pyarrow"), _pyarrow("pyarrow.ipc")
        self.readers = [ipc.open_file(pyarrow.memory_map(str(p))) for p in _listed(paths)]
        self.columns, self.transform = columns, transform
        batches = [(r, b) for r in range(len(self.readers)) for b in range(self.readers[r].num_record_batches)]
        rows = [self.readers[r].get_batch(b).num_rows for r, b in batches]
        self.batches = [batch for batch, n in zip(batches, rows, strict=True) if n]
        self.lengths = np.array([n for n in rows if n])
        _require_columns(columns, self.readers[0].schema.names)
        _require_rows(self.lengths)
        self._set_up(row_struct(self.read(0, 0, 1)), block_bytes)

    def read(self, piece: int, start: int, stop: int) -> Data:
        """Copy rows of a record batch out of the mapped file."""
        reader, batch = self.batches[piece]
        table = self.readers[reader].get_batch(batch).slice(start, stop - start)
        return _table_rows(table.select(self.columns) if self.columns else table, self.transform)


def _pyarrow(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError("reading Parquet and Arrow files needs pyarrow: pip install 'scirocco[parquet]'") from None


def _listed(paths: str | Path | list[str | Path]) -> list[str | Path]:
    listed = [paths] if isinstance(paths, str | Path) else list(paths)
    missing = [str(p) for p in listed if not Path(p).is_file()]
    if missing or not listed:
        raise FileNotFoundError(
            f"paths must name existing files; missing: {', '.join(missing) or 'all, the list is empty'}"
        )
    return listed


def _require_columns(columns: list[str] | None, present: list[str]) -> None:
    unknown = [c for c in columns or [] if c not in present]
    if unknown:
        raise ValueError(f"columns {unknown} are not in the file; it has {present}")


def _require_rows(lengths: np.ndarray) -> None:
    if not len(lengths):
        raise ValueError("data must hold at least one example; the files have no rows")


def _table_rows(table: Any, transform: Any) -> Data:
    columns = {}
    for name, column in zip(table.schema.names, table.columns, strict=True):
        combined = column.combine_chunks() if hasattr(column, "combine_chunks") else column
        if combined.null_count:
            raise ValueError(f"column {name} has {combined.null_count} missing values; fill or drop them first")
        width = getattr(combined.type, "list_size", None)
        flat = combined.flatten() if width else combined
        values = np.array(flat.to_numpy(zero_copy_only=False))
        columns[name] = values.reshape(-1, width) if width else values
    return transform(columns) if transform else columns
