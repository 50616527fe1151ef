"""Where draws go: memory, or Zarr arrays on disk that only ever gain whole chunks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

CHUNK_BYTES = 4 * 2**20

Variables = dict[str, tuple[tuple[int, ...], np.dtype[Any]]]


@runtime_checkable
class Store(Protocol):
    """Takes draws of shape (chain, draw, ...) by variable name."""

    @property
    def count(self) -> int:
        """Draws taken so far."""

    def append(self, draws: dict[str, np.ndarray]) -> None:
        """Add draws."""

    def tail(self) -> dict[str, np.ndarray]:
        """The draws that are not safe on disk yet and must go into the checkpoint."""

    def finish(self) -> None:
        """Everything is written."""

    def arrays(self) -> dict[str, Any]:
        """All draws, as arrays or as Zarr arrays that are read when used."""


class MemoryStore:
    """Draws in memory."""

    def __init__(self, variables: Variables, chains: int) -> None:
        self.variables, self.chains = variables, chains
        self.count = 0
        self._parts: dict[str, list[np.ndarray]] = {name: [] for name in variables}

    def append(self, draws: dict[str, np.ndarray]) -> None:
        """Add draws."""
        for name, values in draws.items():
            self._parts[name].append(values)
        self.count += next((v.shape[1] for v in draws.values()), 0)

    def tail(self) -> dict[str, np.ndarray]:
        """Everything: nothing is on disk."""
        return self.arrays()

    def finish(self) -> None:
        """Join the parts."""
        self._parts = {name: [array] for name, array in self.arrays().items()}

    def arrays(self) -> dict[str, np.ndarray]:
        """All draws."""
        empty = {name: np.empty((self.chains, 0, *shape), dtype) for name, (shape, dtype) in self.variables.items()}
        return {name: np.concatenate([empty[name], *parts], axis=1) for name, parts in self._parts.items()}


class ZarrStore:
    """Draws in ``draws.zarr``: while a run goes on, chunks along the draw axis are written once, when full.

    The rest waits in memory and in the checkpoint. The arrays have their final shape from the start, so their
    description is not rewritten while a run goes on.
    """

    def __init__(self, folder: Path, variables: Variables, chains: int, num_samples: int) -> None:
        import zarr

        self.variables, self.chains = variables, chains
        self.num_samples = num_samples
        size = sum(int(np.prod(shape)) * dtype.itemsize for shape, dtype in variables.values()) * chains
        self.chunk = int(np.clip(CHUNK_BYTES // max(1, size), 1, 10_000))
        self.written = 0
        self._pending = MemoryStore(variables, chains)
        self._group = zarr.open_group(str(folder / "draws.zarr"), mode="a")
        for name, (shape, dtype) in variables.items():
            if name in self._group:
                array = self._group[name]
                self.chunk = array.chunks[1]  # type: ignore[union-attr]
                if array.shape[1] < num_samples:  # type: ignore[union-attr]
                    array.resize((chains, num_samples, *shape))  # type: ignore[union-attr]
            else:
                self._group.create_array(
                    name,
                    shape=(chains, num_samples, *shape),
                    chunks=(chains, self.chunk, *shape),
                    dtype=dtype,
                    dimension_names=["chain", "draw", *(f"{name}_dim_{i}" for i in range(len(shape)))],
                )

    @property
    def count(self) -> int:
        """Draws taken so far."""
        return self.written + self._pending.count

    def restore(self, written: int, tail: dict[str, np.ndarray]) -> None:
        """Go on from a checkpoint."""
        self.written = written
        self._pending = MemoryStore(self.variables, self.chains)
        self._pending.append(tail)

    def append(self, draws: dict[str, np.ndarray]) -> None:
        """Add draws; whole chunks go to disk."""
        self._pending.append(draws)
        whole = self._pending.count // self.chunk * self.chunk
        if whole:
            pending = self._pending.arrays()
            self._write({name: array[:, :whole] for name, array in pending.items()})
            self.written += whole
            self._pending = MemoryStore(self.variables, self.chains)
            self._pending.append({name: array[:, whole:] for name, array in pending.items()})

    def _write(self, draws: dict[str, np.ndarray]) -> None:
        for name, array in draws.items():
            self._group[name][:, self.written : self.written + array.shape[1]] = array  # type: ignore[index]

    def tail(self) -> dict[str, np.ndarray]:
        """The draws of the chunk that is not full yet."""
        return self._pending.arrays()

    def finish(self) -> None:
        """Write the last partial chunk; the checkpoint keeps it too, in case the run is extended."""
        self._write(self._pending.arrays())

    def arrays(self) -> dict[str, Any]:
        """The Zarr arrays; only the first ``count`` draws are meant."""
        return {name: self._group[name] for name in self.variables}
