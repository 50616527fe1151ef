"""Rows of a table put together by group: one example for each group, for what its rows share."""

from __future__ import annotations

from typing import Any

import numpy as np

from scirocco.batches.arrays import Arrays
from scirocco.core.types import Data

MOST_CELLS = 10**8  # of a column, beyond which padding
MOST_PADDING = 20  # must not be more than so many times the rows
MASK = "mask"


def grouped(data: Data, by: str) -> Arrays:
    """One example for each value of the column ``by`` of a table or a dictionary of columns, its rows side by side.

    Columns become (group, place, ...), filled up with zeros to the longest group; ``"mask"`` is 1 where there is a row.
    The column ``by`` has one entry a group.

    >>> import numpy as np
    >>> groups = grouped({"user": np.array([7, 3, 7]), "y": np.array([1.0, 2.0, 3.0])}, by="user")
    >>> groups.arrays["user"].tolist(), groups.arrays["y"].tolist(), groups.arrays["mask"].tolist()
    ([3, 7], [[2.0, 0.0], [1.0, 3.0]], [[1.0, 0.0], [1.0, 1.0]])
    """
    source = Arrays(data)
    columns: Any = source.arrays
    if not isinstance(columns, dict):
        raise TypeError(f"data must be a table or a dictionary of columns; got {type(data).__name__}")
    if by not in columns or columns[by].ndim != 1:
        raise ValueError(f"by must name a column with one entry a row, one of {sorted(columns)}; got {by!r}")
    if MASK in columns:
        raise ValueError(f"a column cannot be called {MASK!r}, which tells rows from padding: rename it")
    if columns[by].dtype.kind not in "iub":
        raise TypeError(f"column {by} has dtype {columns[by].dtype}: groups are whole numbers or categories")
    values, group, sizes = np.unique(columns[by], return_inverse=True, return_counts=True)
    longest = int(sizes.max())
    if len(values) * longest > max(MOST_CELLS, MOST_PADDING * source.size):
        raise ValueError(
            f"the largest group, {values[np.argmax(sizes)]} of {by}, has {longest:,} rows: {len(values):,} groups "
            f"filled up to that would be {len(values) * longest:,} rows; leave such groups out, or cut them"
        )
    order = np.argsort(group, kind="stable")
    place = np.arange(source.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)

    def filled(column: np.ndarray) -> np.ndarray:
        table = np.zeros((len(values), longest, *column.shape[1:]), column.dtype)
        table[group[order], place] = column[order]
        return table

    found = Arrays(
        {by: values, **{name: filled(column) for name, column in columns.items() if name != by}}
        | {MASK: filled(np.ones(source.size, np.float32))}
    )
    found.labels = source.labels
    return found
