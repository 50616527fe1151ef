"""Zarr arrays of a run, read so that damage is one error with the name of the file.

Zarr itself reports a damaged chunk by its checksum alone, and a damaged description by whatever its parser raises.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.run.checkpoint import DamagedError

if TYPE_CHECKING:
    import xarray as xr

REMEDY = "restore it from a copy, or delete the run and start it again"


class StoredArray:
    """An array of a Zarr group on disk.

    It must have the ``shape`` (behind chain and draw), the ``dtype`` and at ``least`` the chains and draws given.
    """

    def __init__(
        self, group: Path, name: str, shape: tuple[int, ...] | None = None, dtype: np.dtype[Any] | None = None,
        least: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        import zarr

        self.place = group / name
        description = self.place / "zarr.json"
        if not description.is_file():
            raise DamagedError(f"{description} is missing: {REMEDY}")
        try:
            array = zarr.open_array(str(self.place), mode="r")
            self.shape, self.chunks, self.dtype = array.shape, array.chunks, array.dtype
            self.dims = tuple(getattr(array.metadata, "dimension_names", None) or ())
        except (OSError, MemoryError):
            raise
        except Exception as error:  # Zarr has no common class for what a damaged description raises
            raise DamagedError(f"{description} is damaged ({type(error).__name__}: {error}): {REMEDY}") from error
        if (shape is not None and self.shape[2:] != shape) or (dtype is not None and self.dtype != dtype):
            raise DamagedError(
                f"{description} is damaged: it describes {self.dtype} {self.shape}, not {dtype} (chain, draw, "
                f"{', '.join(map(str, shape or ()))}) as the run does: {REMEDY}"
            )
        if len(self.shape) < len(least) or any(has < wanted for has, wanted in zip(self.shape, least, strict=False)):
            raise DamagedError(
                f"{description} is damaged: it describes {self.shape}, and {least} were written: {REMEDY}"
            )
        self._array: Any = array

    def __getitem__(self, selection: Any) -> np.ndarray:
        return self._read(self._array, selection)

    def orthogonal(self, selection: Any) -> np.ndarray:
        """By numbers, slices and arrays, each along its own axis."""
        return self._read(self._array.oindex, selection)

    def _read(self, indexer: Any, selection: Any) -> np.ndarray:
        try:
            return np.asarray(indexer[selection])
        except MemoryError:
            raise
        except Exception as error:  # of a checksum, of Zstandard, of the file system: no common class
            bad = self._damaged_chunk()
            if bad is None:
                raise
            raise DamagedError(f"{bad} is damaged ({type(error).__name__}: {error}): {REMEDY}") from error

    def chunk_file(self, number: tuple[int, ...]) -> Path:
        """Where a chunk is."""
        return self.place.joinpath("c", *map(str, number))

    def _damaged_chunk(self) -> Path | None:
        """The first chunk that cannot be read."""
        counts = [range(-(-size // step)) for size, step in zip(self.shape, self.chunks, strict=True)]
        for number in product(*counts):
            try:
                self._array[tuple(slice(k * step, (k + 1) * step) for k, step in zip(number, self.chunks, strict=True))]
            except Exception:
                return self.chunk_file(number)
        return None


def lazy(
    group: Path, name: str, shape: tuple[int, ...] | None = None, dtype: np.dtype[Any] | None = None,
    least: tuple[int, ...] = (),
) -> xr.Variable:  # fmt: skip
    """A ``StoredArray`` as a variable of ``xarray`` that is read when it is used, and then kept."""
    import xarray as xr
    from xarray.core import indexing

    array = StoredArray(group, name, shape, dtype, least)
    unread: Any = indexing.LazilyIndexedArray(_backend()(array))
    kept: Any = indexing.MemoryCachedArray
    return xr.Variable(array.dims, kept(indexing.CopyOnWriteArray(unread)))


@cache
def _backend() -> Any:
    """The class that ``xarray`` reads through, made when it is first needed: ``xarray`` takes a while to load."""
    from xarray.backends import BackendArray
    from xarray.core import indexing

    class OnDisk(BackendArray):
        def __init__(self, array: StoredArray) -> None:
            self.stored, self.shape, self.dtype = array, array.shape, array.dtype

        def __getitem__(self, key: Any) -> Any:
            return indexing.explicit_indexing_adapter(
                key, self.shape, indexing.IndexingSupport.OUTER, self.stored.orthogonal
            )

    return OnDisk
