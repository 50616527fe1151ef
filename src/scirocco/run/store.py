"""Where draws go: memory, or Zarr arrays on disk that only ever gain whole chunks.

    draws.zarr/<name>                       (chain, draw, ...): chunks of some draws of one group of chains
    ragged.zarr/<name>/lengths              (chain, draw)
    ragged.zarr/<name>/values.<chain>.<k>   the values of the draws of chunk k of one chain, end to end

Every chunk carries a checksum and is written once, when it is full; the rest waits in memory and in the checkpoint.
What was never written reads as NaN, and ``verify`` says whether everything that was is still there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from scirocco.run.checkpoint import DamagedError
from scirocco.run.ragged import Ragged, concatenated, draws_of
from scirocco.run.stored import REMEDY, StoredArray

CHUNK_BYTES = 4 * 2**20
DRAWS, RAGGED = "draws.zarr", "ragged.zarr"


class Variable(NamedTuple):
    """What is stored of a draw under one name; of a ``ragged`` one the shape and dtype of an entry."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    dims: tuple[str, ...] | None = None
    ragged: bool = False

    def named(self, name: str) -> tuple[str, ...]:
        """The names of the dimensions of a draw."""
        return self.dims or tuple(f"{name}_dim_{i}" for i in range(len(self.shape)))

    @property
    def nbytes(self) -> int:
        """Of a draw, or of an entry."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def empty(self, chains: int) -> Any:
        """No draws of it."""
        if self.ragged:
            return Ragged(np.empty((chains, 0), np.int64), [np.empty((0, *self.shape), self.dtype)] * chains)
        return np.empty((chains, 0, *self.shape), self.dtype)


Variables = dict[str, Variable]


def ragged_names(variables: Variables) -> list[str]:
    """Those whose draws change their length."""
    return [name for name, variable in variables.items() if variable.ragged]


Draws = dict[str, Any]  # arrays (chain, draw, ...) or Ragged


@runtime_checkable
class Store(Protocol):
    """Takes the draws of a group of chains by variable name."""

    @property
    def count(self) -> int:
        """Draws taken so far."""

    def append(self, draws: Draws) -> None:
        """Add draws."""

    def pack(self) -> dict[str, np.ndarray]:
        """The draws that are not safe on disk yet and must go into the checkpoint."""

    def finish(self) -> None:
        """Everything is written."""

    def draws(self) -> Draws:
        """All draws."""


def packed(draws: Draws) -> dict[str, np.ndarray]:
    """Draws as plain arrays, those of a ragged variable by chain."""
    arrays = {}
    for name, values in draws.items():
        if isinstance(values, Ragged):
            arrays[f"lengths/{name}"] = values.lengths
            arrays |= {f"values{chain}/{name}": v for chain, v in enumerate(values.values)}
        else:
            arrays[f"draws/{name}"] = values
    return arrays


def unpacked(arrays: dict[str, np.ndarray], variables: Variables) -> Draws:
    """The inverse of ``packed``."""
    draws: Draws = {}
    for name, variable in variables.items():
        if variable.ragged:
            lengths = arrays[f"lengths/{name}"]
            draws[name] = Ragged(lengths, [arrays[f"values{chain}/{name}"] for chain in range(len(lengths))])
        else:
            draws[name] = arrays[f"draws/{name}"]
    return draws


class MemoryStore:
    """Draws in memory."""

    def __init__(self, variables: Variables, chains: int, draws: Draws | None = None) -> None:
        self.variables, self.chains = variables, chains
        self.count = 0
        self._parts: dict[str, list[Any]] = {name: [v.empty(chains)] for name, v in variables.items()}
        if draws:
            self.append(draws)

    def append(self, draws: Draws) -> None:
        """Add draws."""
        for name, values in draws.items():
            self._parts[name].append(values)
        self.count += next((v.shape[1] for v in draws.values()), 0)

    def pack(self) -> dict[str, np.ndarray]:
        """Everything: nothing is on disk."""
        return packed(self.draws())

    def finish(self) -> None:
        """Nothing more to do."""

    def draws(self) -> Draws:
        """All draws."""
        self._parts = {name: [concatenated(parts)] for name, parts in self._parts.items()}
        return {name: parts[0] for name, parts in self._parts.items()}


class ZarrStore:
    """The draws of some ``chains`` of a run on disk: chunks along the draw axis are written once, when full.

    The arrays have their final shape from the start, so their description is not rewritten while a run goes on.
    """

    def __init__(self, folder: Path, variables: Variables, chains: range, written: int = 0) -> None:
        self.folder, self.variables, self.chains, self.written = folder, variables, chains, written
        self._opened: dict[str, Any] = {}
        self._pending = MemoryStore(variables, len(chains))

    @property
    def chunk(self) -> int:
        """Draws of a chunk."""
        return chunk_length(self.variables, len(self.chains))

    @property
    def count(self) -> int:
        """Draws taken so far."""
        return self.written + self._pending.count

    def append(self, draws: Draws) -> None:
        """Add draws; whole chunks go to disk."""
        self._pending.append(draws)
        whole = self._pending.count // self.chunk * self.chunk
        if whole:
            pending = self._pending.draws()
            self._write({name: draws_of(values, 0, whole) for name, values in pending.items()})
            self.written += whole
            rest = {name: draws_of(values, whole) for name, values in pending.items()}
            self._pending = MemoryStore(self.variables, len(self.chains), rest)

    def _write(self, draws: Draws) -> None:
        rows = slice(self.chains.start, self.chains.stop)
        for name, values in draws.items():
            count = values.shape[1]
            if not count:
                continue
            places = slice(self.written, self.written + count)
            if not isinstance(values, Ragged):
                self._array(DRAWS, name)[rows, places] = values
                continue
            self._array(RAGGED, f"{name}/lengths")[rows, places] = values.lengths
            for start in range(0, count, self.chunk):
                part = values.draws(start, min(start + self.chunk, count))
                for chain, entries in zip(self.chains, part.values, strict=True):
                    key = f"{name}/values.{chain}.{(self.written + start) // self.chunk}"
                    array = create(self._group(RAGGED), key, entries.shape, entries.shape, entries.dtype, None)
                    array[...] = entries

    def _group(self, name: str) -> Any:
        if name not in self._opened:
            self._opened[name] = open_group(self.folder / name)
        return self._opened[name]

    def _array(self, group: str, name: str) -> Any:
        key = f"{group}/{name}"
        if key not in self._opened:
            self._opened[key] = self._group(group)[name]
        return self._opened[key]

    def pack(self) -> dict[str, np.ndarray]:
        """The draws of the chunk that is not full yet."""
        return packed(self._pending.draws())

    def finish(self) -> None:
        """Write the last partial chunk; the checkpoint keeps it too, in case the run is extended."""
        self._write(self._pending.draws())

    def draws(self) -> Draws:
        """All draws, read from disk and from what is pending."""
        done = read_draws(self.folder, self.variables, self.written, self.chains)
        pending = self._pending.draws()
        return {name: concatenated([done[name], pending[name]]) for name in self.variables}


# Files.


def chunk_length(variables: Variables, chains: int) -> int:
    """Draws of a chunk of a few megabytes."""
    size = sum(v.nbytes * (16 if v.ragged else 1) for v in variables.values()) * chains
    return int(np.clip(CHUNK_BYTES // max(1, size), 1, 10_000))


def described(variables: Variables) -> dict[str, Any]:
    """The variables of a run, for its description."""
    return {n: [list(v.shape), str(v.dtype), v.dims and list(v.dims), v.ragged] for n, v in variables.items()}


def undescribed(facts: dict[str, Any]) -> Variables:
    """The inverse of ``described``."""
    return {
        name: Variable(tuple(shape), np.dtype(dtype), dims and tuple(dims), ragged)
        for name, (shape, dtype, dims, ragged) in facts.items()
    }


def open_group(path: Path, mode: Any = "a") -> Any:
    """A Zarr group."""
    import zarr

    try:
        return zarr.open_group(str(path), mode=mode)
    except (OSError, MemoryError):
        raise
    except Exception as error:  # Zarr has no common class for what a damaged description raises
        raise DamagedError(f"{path / 'zarr.json'} is damaged ({type(error).__name__}: {error}): {REMEDY}") from error


def create(group: Any, name: str, shape: Any, chunks: Any, dtype: Any, dims: Any) -> Any:
    """A new Zarr array whose chunks are checksummed; what is never written is NaN, or the least number there is."""
    from zarr.codecs import Crc32cCodec, ZstdCodec

    dtype = np.dtype(dtype)
    fill: Any = np.nan if dtype.kind in "fc" else np.iinfo(dtype).min if dtype.kind in "iu" else None
    return group.create_array(
        name, shape=shape, chunks=tuple(max(1, c) for c in chunks), dtype=dtype, fill_value=fill, overwrite=True,
        compressors=[ZstdCodec(level=1), Crc32cCodec()], dimension_names=dims, config={"write_empty_chunks": True},
    )  # fmt: skip


def make_arrays(folder: Path, variables: Variables, chains: int, group_size: int, num_samples: int) -> None:
    """Empty arrays for a run, or longer ones for a run that is extended."""
    length = chunk_length(variables, group_size)
    for name, variable in variables.items():
        ragged = variable.ragged
        group, key = open_group(folder / (RAGGED if ragged else DRAWS)), f"{name}/lengths" if ragged else name
        shape, dtype = ((), np.dtype(np.int64)) if ragged else (variable.shape, variable.dtype)
        dims = ["chain", "draw", *(() if ragged else variable.named(name))]
        if key not in group:
            create(group, key, (chains, num_samples, *shape), (group_size, length, *shape), dtype, dims)
        elif group[key].shape[1] < num_samples:
            group[key].resize((chains, num_samples, *shape))


def read_draws(folder: Path, variables: Variables, count: int, chains: range) -> Draws:
    """The first ``count`` draws of some chains."""
    draws: Draws = {}
    rows = slice(chains.start, chains.stop)
    for name, variable in variables.items():
        with _named(folder / (RAGGED if variable.ragged else DRAWS) / name):
            if not count:
                draws[name] = variable.empty(len(chains))
            elif not variable.ragged:
                least = chains.stop, count
                draws[name] = StoredArray(folder / DRAWS, name, variable.shape, variable.dtype, least)[rows, :count]
            else:
                draws[name] = _read_ragged(folder / RAGGED / name, variable, count, chains)
    return draws


def _read_ragged(place: Path, variable: Variable, count: int, chains: range) -> Ragged:
    stored = StoredArray(place, "lengths", (), np.dtype(np.int64), (chains.stop, count))
    lengths = np.maximum(stored[chains.start : chains.stop, :count], 0)  # 0 of chains that recorded nothing
    step, values = stored.chunks[1], []
    for chain, wanted in zip(chains, lengths.sum(axis=1), strict=True):
        names = [f"values.{chain}.{k}" for k in range(-(-count // step) if wanted else 0)]
        parts = [StoredArray(place, name, dtype=variable.dtype)[...] for name in names]
        values.append(np.concatenate([np.empty((0, *variable.shape), variable.dtype), *parts])[: int(wanted)])
    return Ragged(lengths, values)


def verify(folder: Path, variables: Variables, count: int, chains: range) -> None:
    """Say so if a chunk that was written is not there."""
    for name, variable in variables.items():
        if not count:
            continue
        place = folder / (RAGGED if variable.ragged else DRAWS) / name
        with _named(place):
            if variable.ragged:
                array = StoredArray(place, "lengths", (), np.dtype(np.int64), (chains.stop, count))
            else:
                array = StoredArray(folder / DRAWS, name, variable.shape, variable.dtype, (chains.stop, count))
            for number in _chunk_numbers(array, count, chains):
                if not array.chunk_file(number).is_file():
                    raise DamagedError(f"{array.chunk_file(number)}, a chunk that was written, is missing: {REMEDY}")


def _chunk_numbers(array: StoredArray, count: int, chains: range) -> Iterator[tuple[int, ...]]:
    rows, step = array.chunks[:2]
    for row in range(chains.start // rows, -(-chains.stop // rows)):
        for k in range(-(-count // step)):
            yield (row, k, *[0] * (len(array.shape) - 2))


class _named:
    """What goes wrong while draws are read becomes one error that names the place."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        expected = (ValueError, KeyError, TypeError, IndexError, OSError, RuntimeError, json.JSONDecodeError)
        if isinstance(error, expected) and not isinstance(error, DamagedError):
            raise DamagedError(
                f"{self.place} is damaged ({type(error).__name__}: {error}): restore it from a copy, or delete the run "
                "and start it again"
            ) from error
