"""Where draws go: memory, or Zarr arrays on disk that only ever gain whole chunks.

    draws.zarr/<name>                       (chain, draw, ...): chunks of some draws of one group of chains
    ragged.zarr/<name>/lengths              (chain, draw)
    ragged.zarr/<name>/values.<chain>.<k>   the values of the draws of chunk k of one chain, end to end

Every chunk carries a checksum and is written once, when it is full; the rest waits in memory and in the checkpoint.
What was never written reads as NaN, and ``verify`` says whether everything that was is still there.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scirocco.run.checkpoint import DamagedError
from scirocco.run.moments import Moments
from scirocco.run.ragged import Ragged, concatenated, draws_of
from scirocco.run.stored import REMEDY, StoredArray, lazy

if TYPE_CHECKING:
    import xarray as xr

CHUNK_BYTES = 4 * 2**20
DRAWS, RAGGED = "draws.zarr", "ragged.zarr"
GRADIENT, STATS = "gradient__", "stats__"  # what the names of stored gradients and of the steps' reports begin with


class Variable(NamedTuple):
    """What is stored of a draw under one name; of a ``ragged`` one the shape and dtype of an entry.

    Its ``role`` is "draw" for what is sampled or collected, "gradient" for stored gradients and "stats" for what the
    steps say of themselves; the names of the latter two begin with ``GRADIENT`` and ``STATS``.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    dims: tuple[str, ...] | None = None
    ragged: bool = False
    role: str = "draw"

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


def dimensions(variables: Variables) -> dict[str, tuple[str, ...]]:
    """The names of the dimensions of a draw of each variable; none is the name of a variable."""
    found = {}
    for name, variable in variables.items():
        dims = list(variable.dims or (f"{name}_dim_{i}" for i in range(len(variable.shape))))
        for i in range(len(dims)):
            while dims[i] in variables:
                dims[i] += "_"
        found[name] = tuple(dims)
    return found


def require_storable(variables: Variables) -> None:
    """Reject names that no file can have, and numbers that the format does not know."""
    for name, variable in variables.items():
        if not name.strip(".") or "/" in name or name == "zarr.json" or name.startswith("__"):
            raise ValueError(
                f"a variable named {name!r} cannot be stored on disk: give it another name, of letters and digits"
            )
        if variable.dtype.kind not in "fiub" or variable.dtype.itemsize > 8:
            raise ValueError(
                f"{name} cannot be stored on disk as {variable.dtype}: let collect= make real numbers of it, such as "
                "float32"
            )


def ragged_names(variables: Variables) -> list[str]:
    """Those whose draws change their length."""
    return [name for name, variable in variables.items() if variable.ragged]


Draws = dict[str, Any]  # arrays (chain, draw, ...) or Ragged


class Store(ABC):
    """Takes the draws of a group of chains by variable name."""

    written: int = 0
    """Draws that are safe in the folder of the run."""

    newest: bool = False
    """Whether draws are numbered from the end, because older ones are forgotten."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Draws of each chain."""

    @abstractmethod
    def append(self, draws: Draws) -> None:
        """Add draws."""

    @abstractmethod
    def draws(self) -> Draws:
        """All draws."""

    @abstractmethod
    def pack(self) -> dict[str, np.ndarray]:
        """The draws that are not safe on disk yet and must go into the checkpoint."""

    @abstractmethod
    def unpack(self, arrays: dict[str, np.ndarray], written: int) -> None:
        """The inverse of ``pack``, of a store that has nothing yet, beside the draws that were written."""

    def finish(self) -> None:  # noqa: B027 - most have nothing more to do
        """All draws are made: those that wait are written."""

    def moments(self, streaming: Moments) -> Moments:
        """The moments of the run, from those that were streamed or its own."""
        return streaming


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


class MemoryStore(Store):
    """Draws in memory."""

    def __init__(self, variables: Variables, chains: int, draws: Draws | None = None) -> None:
        self.variables, self.chains = variables, chains
        self._count = 0
        self._parts: dict[str, list[Any]] = {name: [v.empty(chains)] for name, v in variables.items()}
        if draws:
            self.append(draws)

    @property
    def count(self) -> int:
        """Draws taken so far."""
        return self._count

    def append(self, draws: Draws) -> None:
        """Add draws."""
        for name, values in draws.items():
            self._parts[name].append(values)
        self._count += next((v.shape[1] for v in draws.values()), 0)

    def pack(self) -> dict[str, np.ndarray]:
        """Everything: nothing is on disk."""
        return packed(self.draws())

    def unpack(self, arrays: dict[str, np.ndarray], written: int) -> None:
        """The inverse of ``pack``."""
        del written
        self.append(unpacked(arrays, self.variables))

    def draws(self) -> Draws:
        """All draws."""
        self._parts = {name: [concatenated(parts)] for name, parts in self._parts.items()}
        return {name: parts[0] for name, parts in self._parts.items()}


class ZarrStore(Store):
    """The draws of some ``chains`` of a run on disk: chunks along the draw axis are written once, when full.

    The arrays have their final shape from the start, so their description is not rewritten while a run goes on.
    """

    def __init__(self, folder: Path, variables: Variables, chains: range, written: int = 0) -> None:
        self.folder, self.variables, self.chains, self.written = folder, variables, chains, written
        self._opened: dict[str, Any] = {}
        self._pending = MemoryStore(variables, len(chains))

    @cached_property
    def chunk(self) -> int:
        """Draws of a chunk of the arrays, which the largest group of chains decides and not this one."""
        for name, variable in self.variables.items():
            group, key = (RAGGED, f"{name}/lengths") if variable.ragged else (DRAWS, name)
            return int(StoredArray(self.folder / group, key).chunks[1])
        return chunk_length(self.variables, len(self.chains))  # nothing is stored

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

    def unpack(self, arrays: dict[str, np.ndarray], written: int) -> None:
        """The inverse of ``pack``, after a look whether what was written is there."""
        verify(self.folder, self.variables, written, self.chains)
        self.written = written
        self.append(unpacked(arrays, self.variables))

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
    return {n: [list(v.shape), str(v.dtype), v.dims and list(v.dims), v.ragged, v.role] for n, v in variables.items()}


def undescribed(facts: dict[str, Any]) -> Variables:
    """The inverse of ``described``."""
    return {
        name: Variable(tuple(shape), np.dtype(dtype), dims and tuple(dims), ragged, role)
        for name, (shape, dtype, dims, ragged, role) in facts.items()
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
    length, named = chunk_length(variables, group_size), dimensions(variables)
    for name, variable in variables.items():
        ragged = variable.ragged
        place, key = folder / (RAGGED if ragged else DRAWS), f"{name}/lengths" if ragged else name
        group = open_group(place)
        shape, dtype = ((), np.dtype(np.int64)) if ragged else (variable.shape, variable.dtype)
        dims = ["chain", "draw", *(() if ragged else named[name])]
        if not (place / key / "zarr.json").is_file() and not (place / key / "c").exists():
            create(group, key, (chains, num_samples, *shape), (group_size, length, *shape), dtype, dims)
        elif StoredArray(place, key, shape, dtype).shape[1] < num_samples:
            group[key].resize((chains, num_samples, *shape))


def read_draws(folder: Path, variables: Variables, count: int, chains: Sequence[int]) -> Draws:
    """The first ``count`` draws of some chains."""
    if not isinstance(chains, range):
        parts = [read_draws(folder, variables, count, range(chain, chain + 1)) for chain in chains]
        return {name: concatenated([part[name] for part in parts], chains=True) for name in variables if parts}
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


def open_draws(folder: Path, variables: Variables, chains: Sequence[int], count: int) -> xr.Dataset:
    """The first ``count`` draws of some chains, as a dataset that reads them when they are used."""
    import xarray as xr

    least = (max(chains, default=-1) + 1, count)
    found = {name: lazy(folder / DRAWS, name, v.shape, v.dtype, least) for name, v in variables.items()}
    return xr.Dataset(found).isel(chain=list(chains), draw=slice(0, count)) if found else xr.Dataset()


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
        if not count or not variable.nbytes:
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
