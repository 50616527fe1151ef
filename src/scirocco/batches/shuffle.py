"""Rows written once in random order, for data on disk that is sorted and cannot be read in small pieces."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np

from scirocco.batches.base import row_bytes
from scirocco.batches.stream import BLOCK_BYTES, MemoryMapped
from scirocco.core.checks import require_seed
from scirocco.core.seeds import Purpose, generator
from scirocco.core.trees import named_leaves


def shuffle_to(path: str | Path, source: Any, seed: int = 0, *, block_bytes: int = BLOCK_BYTES) -> MemoryMapped:
    """Write the rows of a source (or of arrays) in random order to a new folder: one ``.npy`` file for each array.

    Every order is equally likely. Two passes, in the memory of a few blocks of ``block_bytes``: the first sends each
    row to a random one of as many parts as the data has blocks, the second shuffles each part. The folder appears under
    its name when it is whole; later open its files with ``MemoryMapped({"x": "folder/x.npy", ...})``.

    >>> import tempfile
    >>> shuffled = shuffle_to(tempfile.mkdtemp() + "/rows", {"x": np.arange(5)})
    >>> shuffled.size, sorted(shuffled.first(5)["x"].tolist())
    (5, [0, 1, 2, 3, 4])
    """
    from scirocco.batches import as_source

    data, folder = as_source(source), Path(path)
    require_seed(seed)
    if folder.exists():
        raise FileExistsError(f"{folder} exists already; it is left alone: give shuffle_to a new folder")
    fresh = folder.with_name(folder.name + ".part")
    shutil.rmtree(fresh, ignore_errors=True)  # of a writing that was interrupted
    fresh.mkdir(parents=True)
    example = data.first(1)
    arrays = {
        name: np.lib.format.open_memmap(
            fresh / f"{name}.npy", mode="w+", dtype=a.dtype, shape=(data.size, *a.shape[1:])
        )
        for name, a in named_leaves(example, bare="data").items()
    }
    rows = max(1, block_bytes // row_bytes(data.example))
    parts = -(-data.size // rows)
    pieces = [min(rows, data.size - start) for start in range(0, data.size, rows)]

    def sent(number: int) -> np.ndarray:
        rng = generator(seed, Purpose.SHUFFLE_BINS, number)
        return rng.integers(parts, size=pieces[number])

    sizes = sum((np.bincount(sent(k), minlength=parts) for k in range(len(pieces))), np.zeros(parts, np.int64))
    borders = np.concatenate([[0], np.cumsum(sizes)])
    free = borders[:-1].copy()
    for number, piece in enumerate(data.in_order(rows)):
        part = sent(number)
        order, counts = np.argsort(part, kind="stable"), np.bincount(part, minlength=parts)
        ends = np.cumsum(counts)
        for name, values in named_leaves(piece, bare="data").items():
            together = np.asarray(values)[order]
            for k in np.flatnonzero(counts):
                arrays[name][free[k] : free[k] + counts[k]] = together[ends[k] - counts[k] : ends[k]]
        free += counts
    for last in range(parts):
        inside = slice(borders[last], borders[last + 1])
        order = generator(seed, Purpose.SHUFFLE_ROWS, last).permutation(int(sizes[last]))
        for array in arrays.values():
            array[inside] = np.asarray(array[inside])[order]
    for array in arrays.values():
        array.flush()
    names = list(arrays)
    arrays.clear()
    fresh.rename(folder)
    files = jax.tree.unflatten(jax.tree.structure(example), [folder / f"{name}.npy" for name in names])
    return MemoryMapped(files, block_bytes=block_bytes)
