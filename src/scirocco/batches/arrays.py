"""Data that fits in memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.batches.base import Shard, Source, check_rows, leading_size, row_struct, taken, warn_of_rounding
from scirocco.batches.frames import Labels, columns_of, is_frame, recoded
from scirocco.core.trees import named_leaves
from scirocco.core.types import Data


class Arrays(Source):
    """A pytree of arrays in memory, one entry per example along the leading axes, or a table.

    Of a DataFrame of pandas or polars and of an Arrow table the columns are arrays by name; categories become codes 0,
    1, ..., and ``labels`` has their names. ``known`` are labels of columns whose codes are settled already.

    >>> import numpy as np
    >>> source = Arrays({"x": np.ones((5, 2)), "y": np.arange(5)})
    >>> source.size, source.example["x"].shape
    (5, (2,))
    """

    def __init__(self, arrays: Data, known: Mapping[str, Labels] | None = None) -> None:
        self.labels = {}
        if is_frame(arrays):
            arrays, self.labels = columns_of(arrays, known)
        self.size = leading_size(arrays)
        check_rows(arrays)
        warn_of_rounding(arrays)
        self.arrays = jax.tree.map(np.asarray, arrays)
        self.example = row_struct(self.arrays)
        self.resident_rows = self.size

    def coded(self, known: Mapping[str, Labels]) -> Arrays:
        """The same rows, with the codes of these labels; others come after them."""
        other = {name: labels for name, labels in self.labels.items() if known.get(name, labels) != labels}
        if not other:
            return self
        new = {name: recoded(self.arrays[name], labels, known[name]) for name, labels in other.items()}
        found = Arrays({**self.arrays, **{name: codes for name, (codes, _) in new.items()}})
        found.labels = {**self.labels, **{name: labels for name, (_, labels) in new.items()}}
        return found

    def rows(self, which: np.ndarray) -> Data:
        """Rows by number."""
        return jax.tree.map(lambda a: a[which], self.arrays)

    def shard(self, number: int, count: int) -> Arrays:
        """Every ``count``-th row, in memory too."""
        found = Arrays(Shard(self, number, count).rows(np.arange(-(-(self.size - number) // count))))
        found.labels = self.labels
        return found

    def first(self, rows: int) -> Data:
        """The first rows."""
        return jax.tree.map(lambda a: a[:rows], self.arrays)

    def in_order(self, rows: int) -> Iterator[Data]:
        """All rows once, in pieces."""
        for start in range(0, self.size, rows):
            yield jax.tree.map(lambda a, s=start: a[s : s + rows], self.arrays)

    def _fingerprint(self, size: int) -> dict[str, Any]:
        """Shapes, dtypes and a checksum of every array, as far as these rows."""
        return {
            name: [str(a.dtype), list(a[:size].shape), zlib.crc32(np.ascontiguousarray(a[:size]).data)]
            for name, a in named_leaves(self.arrays, bare="data").items()
        }

    def on_device(self, order: np.ndarray | None = None, wrap: int = 0) -> Data:
        """The arrays for jitted code: rows in ``order``, the first ``wrap`` rows repeated at the end (a ring)."""

        def place(array: np.ndarray) -> jax.Array:
            if order is None and not wrap:
                return jnp.asarray(array)
            rows = np.arange(self.size) if order is None else order
            # Not jnp.asarray, which compiles a program for every shape.
            return jax.device_put(taken(array, np.concatenate([rows, rows[:wrap]])))

        return jax.tree.map(place, self.arrays)
