"""Parquet and Arrow files as streams: rows come in groups, which must be decoded as a whole.

A wave of groups from all over the file, as many as fit in a cache of a few blocks, is decoded and cut into the pieces
of the blocks of that wave. Uncompressed Arrow files lie in mapped memory and need no decoding.
"""

from __future__ import annotations

import threading
import warnings
import zlib
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from scirocco.batches.base import row_struct, taken
from scirocco.batches.stream import BLOCK_BYTES, PLACES, Stream, evenly, piece_rows
from scirocco.core.checks import import_pyarrow, require_count
from scirocco.core.places import is_address, place
from scirocco.core.trees import named_leaves
from scirocco.core.types import Data

CACHED_BLOCKS = 4  # decoded groups take as much memory as this many blocks,
CACHED_BYTES = 4 * 2**20  # but may always take this
MAPPED_GROUPS = 1024  # in one block, of groups that need no decoding
LOOKED_AT = (8, 64)  # groups: least and most, for a judgement on whether rows are sorted
SORTED_RATIO = 10.0
AT_ONCE = 4096  # rows
PLACE_GROUPS = 8  # that a fingerprint looks into


class _Grouped(Stream):
    """Files whose rows come in groups of columns; decoded groups are kept while there is room."""

    paths: list[str]
    columns: list[str] | None
    transform: Any
    block_bytes: int
    cached_bytes: int
    storage_options: Mapping[str, Any] | None = None
    mapped = False  # whether groups lie in a mapped file and need no decoding
    groups: list[tuple[int, int]]  # (file, number in the file)

    @abstractmethod
    def _decode(self, group: int) -> Any:
        """The table of a group."""

    def _start(self, groups: list[tuple[int, int]], rows: list[int], transform: Any, block_bytes: int) -> None:
        require_count("block_bytes", block_bytes)
        self.groups = [group for group, n in zip(groups, rows, strict=True) if n]
        self.lengths = np.array([n for n in rows if n])
        if not len(self.lengths):
            raise ValueError("data must hold at least one example; the files have no rows")
        self.transform, self.block_bytes = transform, block_bytes
        self._cache: OrderedDict[int, dict[str, np.ndarray]] = OrderedDict()
        self._lock = threading.Lock()  # chains read in threads of their own
        self._seen: dict[int, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
        self._judged = False
        self.cached_bytes = max(CACHED_BYTES, CACHED_BLOCKS * block_bytes)
        first = self.read(0, 0, 1)
        _require_numbers(first)
        self._set_up(row_struct(first), block_bytes)
        stored = sum(a.nbytes for a in self._columns(0).values()) / int(self.lengths[0])
        self.piece = piece_rows(self.resident_rows, int(stored))
        self.wave = max(1, int(self.cached_bytes / (stored * self.lengths.mean())))

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the files itself."""
        settings = {"columns": self.columns, "transform": self.transform, "block_bytes": self.block_bytes}
        if self.storage_options:
            settings["storage_options"] = self.storage_options
        return partial(type(self), **settings), (self.paths,)

    def _columns(self, group: int) -> dict[str, np.ndarray]:
        with self._lock:
            if group not in self._cache:
                columns = _as_arrays(self._decode(group))
                # Buffers of Arrow are larger than what they hold; views of a mapped file stay views.
                self._cache[group] = columns if self.mapped else {name: np.array(a) for name, a in columns.items()}
                while len(self._cache) > 1 and self._full():
                    self._cache.popitem(last=False)
            self._cache.move_to_end(group)
            return self._cache[group]

    def _full(self) -> bool:
        return sum(a.nbytes for columns in self._cache.values() for a in columns.values()) > self.cached_bytes

    def _used(self, group: int) -> None:
        if not self.mapped:
            with self._lock:
                self._cache.pop(group, None)

    def together(self, rows: int, chains: int) -> int:
        """As many as fill the memory of decoded groups, which does not do for several chains: each needs others."""
        if self.mapped or chains == 1 or len(self.lengths) <= self.wave:
            return 1
        return max(1, CACHED_BLOCKS * self.resident_rows // (chains * rows))

    def read(self, group: int, start: int, stop: int) -> Data:
        """Copy rows of a decoded group."""
        columns = {name: np.array(a[start:stop]) for name, a in self._columns(group).items()}
        return self.transform(columns) if self.transform else columns

    def take(self, group: int, rows: np.ndarray) -> Data:
        """Copy rows of a decoded group."""
        decoded = self._columns(group)
        if len(self.lengths) > self.wave and not self._judged:
            self._judge(group, decoded)
        columns = {name: taken(a, rows) for name, a in decoded.items()}
        return self.transform(columns) if self.transform else columns

    def _places(self) -> list[int]:
        if len(self.lengths) <= PLACE_GROUPS:
            return super()._places()
        ends = np.cumsum(self.lengths)
        groups = np.linspace(0, len(ends) - 1, PLACE_GROUPS).astype(int)
        return [p for g in groups for p in evenly(int(ends[g] - self.lengths[g]), int(ends[g]), PLACES // PLACE_GROUPS)]

    def _judge(self, group: int, decoded: dict[str, np.ndarray]) -> None:
        """Warn, once, if the means of groups differ far more than those of rows in random order would."""
        if group in self._seen:
            return
        numbers = {name: a.reshape(len(a), -1) for name, a in decoded.items() if a.dtype.kind in "fiub"}
        with np.errstate(all="ignore"):
            self._seen[group] = {name: _mean_and_variance(a) for name, a in numbers.items()}
        least, most = LOOKED_AT
        if len(self._seen) < least:
            return
        looked = list(self._seen)
        sizes = self.lengths[looked].astype(float)[:, None]
        for name in numbers:
            means, variances = (np.array([self._seen[g][name][i] for g in looked]) for i in (0, 1))
            between = np.sum(sizes * (means - np.average(means, axis=0, weights=sizes[:, 0])) ** 2, axis=0)
            within = np.sum(sizes * variances, axis=0) / max(1.0, sizes.sum() - len(looked))
            ratio = between / (len(looked) - 1) - SORTED_RATIO * within
            if np.any(ratio > 1e-9 * np.abs(means).max(axis=0) ** 2):  # not of rounding
                self._judged = True
                warnings.warn(
                    f"rows look sorted: the mean of column {name} differs between groups of rows far more than random "
                    "order would allow. A block is made of whole groups, so minibatches may be far from the data "
                    "and posterior sds too large: write the rows once in random order with "
                    "scirocco.batches.shuffle_to(folder, source), or take a larger block_bytes",
                    UserWarning,
                    stacklevel=2,
                )
                return
        self._judged = len(self._seen) >= most


class Parquet(_Grouped):
    """Parquet files, read by row group; needs ``pyarrow``.

    ``paths`` may be addresses such as "s3://bucket/rows.parquet", which fsspec reads with these ``storage_options``.
    ``transform`` turns the columns of some rows (a dict of arrays, fixed-size lists as matrices) into the pytree that
    the likelihood expects. Decoded row groups take at most four blocks of memory, or one row group if that is more:
    write files with many small row groups. Rows that are sorted in large row groups need ``shuffle_to``.
    """

    def __init__(
        self,
        paths: str | Path | list[str | Path],
        *,
        columns: list[str] | None = None,
        transform: Any = None,
        block_bytes: int = BLOCK_BYTES,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        parquet = import_pyarrow("pyarrow.parquet")
        listed = _listed(paths, storage_options)
        self.storage_options = storage_options
        self.files = [
            parquet.ParquetFile(p) if isinstance(p, Path)
            else parquet.ParquetFile(p.path, filesystem=p.fs, pre_buffer=True)  # few requests for a group
            for p in listed
        ]  # fmt: skip
        self.paths = [str(p) for p in listed]
        self.bytes = [p.stat().st_size for p in listed]
        self.columns = columns
        groups = [(f, g) for f in range(len(self.files)) for g in range(self.files[f].num_row_groups)]
        rows = [self.files[f].metadata.row_group(g).num_rows for f, g in groups]
        _require_columns(columns, self.files[0].schema_arrow.names)
        self._start(groups, rows, transform, block_bytes)

    def _facts(self) -> dict[str, Any]:
        seen = 0
        for file, number in self.groups:
            found = self.files[file].metadata.row_group(number)
            for k in range(found.num_columns):
                chunk = found.column(k)
                extremes = chunk.statistics and (chunk.statistics.min, chunk.statistics.max)
                wanted = self.columns is None or chunk.path_in_schema.split(".")[0] in self.columns
                facts = (chunk.total_compressed_size, chunk.total_uncompressed_size, extremes)
                seen = zlib.crc32(repr(facts).encode(), seen) if wanted else seen
        return {"files": [*self.bytes, seen]}

    def _decode(self, group: int) -> Any:
        file, number = self.groups[group]
        return self.files[file].read_row_group(number, columns=self.columns, use_threads=False)


class Arrow(_Grouped):
    """Arrow (Feather v2) files, memory-mapped; needs ``pyarrow``. ``transform`` as for ``Parquet``.

    Record batches that are compressed are treated as row groups of Parquet files are; others are read row by row.
    """

    def __init__(
        self,
        paths: str | Path | list[str | Path],
        *,
        columns: list[str] | None = None,
        transform: Any = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        pyarrow, ipc = import_pyarrow("pyarrow"), import_pyarrow("pyarrow.ipc")
        listed = _listed(paths)
        remote = [str(p) for p in listed if not isinstance(p, Path)]
        if remote:
            raise ValueError(
                f"Arrow files are mapped into memory, which {remote[0]} cannot be: Parquet reads addresses"
            )
        maps = [pyarrow.memory_map(str(p)) for p in listed]
        self.paths = [str(p) for p in listed]
        self.bytes = [p.stat().st_size for p in listed]
        self.readers = [ipc.open_file(m) for m in maps]
        self.columns = columns
        batches = [(r, b) for r in range(len(self.readers)) for b in range(self.readers[r].num_record_batches)]
        rows = [self.readers[r].get_batch(b).num_rows for r, b in batches]
        _require_columns(columns, self.readers[0].schema.names)
        self._start(batches, rows, transform, block_bytes)
        self.mapped = all(_is_mapped(self._decode(g), maps[r]) for g, (r, b) in enumerate(self.groups) if b == 0)
        if self.mapped:
            self.wave = MAPPED_GROUPS
            self._cache.clear()

    def _facts(self) -> dict[str, Any]:
        return {"files": self.bytes}

    def _full(self) -> bool:
        return len(self._cache) > MAPPED_GROUPS if self.mapped else super()._full()

    def _decode(self, group: int) -> Any:
        reader, number = self.groups[group]
        table = self.readers[reader].get_batch(number)
        return table.select(self.columns) if self.columns else table


def _is_mapped(table: Any, mapped: Any) -> bool:
    """Whether the columns of a record batch lie in the mapped file, not in memory of their own."""
    mapped.seek(0)
    whole = mapped.read_buffer()
    buffers = [b for column in table.columns for b in column.buffers() if b is not None and b.size]
    return all(whole.address <= b.address < whole.address + whole.size for b in buffers)


def _mean_and_variance(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each column, in double precision, by parts that stay in the cache."""
    shift = array[0].astype(float)
    first, second = np.zeros_like(shift), np.zeros_like(shift)
    for start in range(0, len(array), AT_ONCE):
        part = array[start : start + AT_ONCE] - shift
        first, second = first + part.sum(axis=0), second + np.einsum("ij,ij->j", part, part)
    mean = first / len(array)
    return shift + mean, second / len(array) - mean**2


def _listed(paths: str | Path | list[str | Path], storage_options: Mapping[str, Any] | None = None) -> list[Any]:
    try:
        listed = [paths] if isinstance(paths, str | Path) else list(paths)
    except TypeError:
        listed = [cast(Any, paths)]
    strange = [path for path in listed if not isinstance(path, str | Path)]
    if strange:
        raise TypeError(f"paths must be a path or a list of paths; got {strange[0]!r}")
    places = [place(p, storage_options if is_address(p) else None).absolute() for p in listed]
    if storage_options and not any(map(is_address, listed)):
        raise ValueError(f"storage_options are for addresses such as s3://bucket/name; got the paths {listed}")
    missing = [str(p) for p in places if not p.is_file()]
    if missing or not listed:
        raise FileNotFoundError(
            f"paths must name existing files; missing: {', '.join(missing) or 'all, the list is empty'}"
        )
    return places


def _require_columns(columns: list[str] | None, present: list[str]) -> None:
    unknown = [c for c in columns or [] if c not in present]
    if unknown:
        raise ValueError(f"columns {unknown} are not in the file; it has {present}")


def _require_numbers(rows: Data) -> None:
    """Refuse columns of text, categories and dates: no row group says which categories the others have."""
    for name, column in named_leaves(rows, bare="data").items():
        if column.dtype.kind not in "fiub":
            raise TypeError(
                f"column {name} holds {'dates' if column.dtype.kind in 'mM' else 'text or categories'}, no numbers: "
                "leave it out, columns=[...], or make numbers of it, such as codes by transform=lambda c: "
                f"c | {{{name!r}: np.searchsorted(sorted_labels, c[{name!r}])}}"
            )


def _as_arrays(table: Any) -> dict[str, np.ndarray]:
    columns = {}
    for name, column in zip(table.schema.names, table.columns, strict=True):
        combined = column.combine_chunks() if hasattr(column, "combine_chunks") else column
        if combined.null_count:
            raise ValueError(f"column {name} has {combined.null_count} missing values; fill or drop them first")
        width = getattr(combined.type, "list_size", None)
        flat = combined.flatten() if width else combined
        values = np.asarray(flat.to_numpy(zero_copy_only=False))
        columns[name] = values.reshape(-1, width) if width else values
    return columns
