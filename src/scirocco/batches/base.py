"""What a data source is and what a minibatch is.

A source knows its size N and the shape of one example. Data in memory is one resident block that holds everything;
data on disk comes as a stream of resident blocks. Minibatches are always drawn from the resident block, inside jitted
code, so the sampler never waits for a file.
"""

from __future__ import annotations

import warnings
import zlib
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import jax
import numpy as np

from scirocco.core.checks import require_count, require_unmasked
from scirocco.core.trees import named_leaves
from scirocco.core.types import Array, Data

LOOKED_ROWS = 2**16  # at which the spread of columns is measured
DIGITS = 1e-3  # rounding may change a column by this part of its spread
LOOKED_AT = "(looked at)"  # in a fingerprint: the number of rows, and those that were looked at
EXACT = 2**24  # whole numbers up to here are exact in single precision


class Batch(NamedTuple):
    """A minibatch: ``sum_i weights_i f(data_i)`` is an unbiased estimate of the sum of f over the whole data set."""

    data: Data
    weights: Array  # N/n for uniform draws (a scalar), 1/(n p_i) for weighted ones
    indices: Array  # the rows of the resident block


class Source(ABC):
    """Where data lives: its size and its rows by number. What else is here follows from the two.

    A source of your own inherits from this class, sets ``size`` and reads ``rows``; ``Target`` then treats it as data
    on disk: resident blocks of rows from everywhere, each chain in an order of its own, resumable by its fingerprint.

    >>> class Squares(Source):
    ...     size = 1000
    ...     def rows(self, which):
    ...         return which.astype(np.float32) ** 2
    >>> Squares().shard(1, 4).rows(np.arange(3)).tolist()
    [1.0, 25.0, 81.0]
    """

    size: int
    """The number of examples N."""

    block_bytes: int = 64 * 2**20
    """Memory for a resident block."""

    labels: dict[str, tuple[Any, ...]] = {}  # noqa: RUF012 - replaced, never changed
    """The names of codes, of columns that are categories."""

    @abstractmethod
    def rows(self, which: np.ndarray) -> Data:
        """The rows with these numbers, in this order: a pytree of arrays."""

    def shard(self, number: int, count: int) -> Source:
        """Every ``count``-th row from row ``number`` on: the shards of a data set are disjoint and cover it."""
        return Shard(self, number, count)

    def fingerprint(self) -> dict[str, Any]:
        """What tells this data set from another one, for resuming: its size and 16 rows at each of 64 places."""
        return self._fingerprint(self.size)

    def _fingerprint(self, size: int) -> dict[str, Any]:
        """That of the first rows."""
        places = np.unique(np.linspace(0, max(0, size - 16), 64).astype(np.int64)[:, None] + np.arange(16))
        looked = named_leaves(self.rows(places[places < size]), bare="data")
        return {
            name: [str(a.dtype), size, list(a.shape[1:]), zlib.crc32(np.ascontiguousarray(a).tobytes())]
            for name, a in looked.items()
        }

    def extends(self, known: dict[str, Any]) -> bool:
        """Whether the first rows are those that ``known`` is the fingerprint of, and more follow.

        >>> class Numbers(Source):
        ...     def __init__(self, size):
        ...         self.size = size
        ...     def rows(self, which):
        ...         return np.asarray(which, np.float32)
        >>> Numbers(300).extends(Numbers(200).fingerprint()), Numbers(200).extends(Numbers(300).fingerprint())
        (True, False)
        """
        rows = known_rows(known)
        return rows is not None and rows < self.size and self._fingerprint(rows) == known


def known_rows(known: dict[str, Any]) -> int | None:
    """The number of rows of the data that a fingerprint is of; None if it does not say."""
    for name, facts in known.items():
        if name == LOOKED_AT:
            return int(facts[0])
        if len(facts) in (3, 4):  # of an array: its dtype, its shape or its rows, ...
            return int(np.ravel(facts[1])[0])
    return None


class Shard(Source):
    """Every ``count``-th row of another source."""

    def __init__(self, source: Source, number: int, count: int) -> None:
        require_count("count", count)
        require_count("number", number, least=0)
        if number >= count:
            raise ValueError(f"number must lie below count, {count}; got {number}")
        if number >= source.size:
            raise ValueError(f"shard {number} of {count} is empty: there are {source.size} rows")
        self.source, self.number, self.count = source, number, count
        self.size, self.block_bytes = -(-(source.size - number) // count), source.block_bytes

    def rows(self, which: np.ndarray) -> Data:
        """Rows of the whole."""
        return self.source.rows(self.number + self.count * np.asarray(which, np.int64))


def leading_size(arrays: Data) -> int:
    """The common length of the leading axes, or an error that names the odd one."""
    leaves = named_leaves(arrays, bare="data")
    if not leaves:
        raise ValueError("data must hold at least one array; got an empty pytree")
    for name, leaf in leaves.items():
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            raise TypeError(f"data must be a pytree of arrays or a scirocco.batches source; {name} is {type(leaf)}")
        if len(leaf.shape) == 0:
            raise ValueError(f"data arrays need a leading axis with one entry per example; {name} is a scalar")
    sizes = {name: leaf.shape[0] for name, leaf in leaves.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name}: {n}" for name, n in sizes.items())
        raise ValueError(f"all data arrays must have the same leading length; got {listed}")
    size = next(iter(sizes.values()))
    if size == 0:
        raise ValueError("data must hold at least one example; the leading length is 0")
    return int(size)


def check_rows(arrays: Data, where: str = "data") -> None:
    """Reject values that a likelihood cannot take: NaN, infinities, masks, objects, numbers beyond 32 bits."""
    for name, leaf in named_leaves(arrays, bare="data").items():
        require_unmasked(f"{where}: {name}", leaf)
        array = np.asarray(leaf)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"{where}: {name} has dtype {array.dtype}; allowed are floats, integers and booleans")
        if array.dtype.kind == "f":
            # The sum is finite if all entries are; only a suspicious sum pays for the search.
            with np.errstate(over="ignore", invalid="ignore"):
                suspicious = not np.isfinite(np.sum(array))
            if suspicious and not np.all(np.isfinite(array)):
                bad = np.argwhere(~np.isfinite(array))
                raise ValueError(
                    f"{where}: {name} has {len(bad)} entries that are NaN or infinite, the first in row {bad[0][0]}; "
                    "remove or impute them"
                )
            if _is_rounded(array) and array.size and max(array.max(), -array.min()) > np.finfo(np.float32).max:
                raise ValueError(
                    f"{where}: {name} has numbers beyond the range of float32, which would become infinite; re-scale "
                    "them or enable jax_enable_x64"
                )
        wide = array.dtype.itemsize == 8 and array.dtype.kind in "iu" and not jax.config.jax_enable_x64  # type: ignore[attr-defined]
        if wide and array.size and (array.max() > 2**31 - 1 or array.min() < -(2**31)):
            raise ValueError(f"{where}: {name} has integers beyond 32 bits; enable jax_enable_x64 or re-code them")


def _is_rounded(array: np.ndarray) -> bool:
    """Whether JAX will hold the array in single precision."""
    return array.dtype.kind == "f" and array.dtype.itemsize > 4 and not jax.config.jax_enable_x64  # type: ignore[attr-defined]


def warn_of_rounding(arrays: Data, stacklevel: int = 3) -> None:
    """Warn of double-precision data of which single precision keeps too little.

    That is a column whose offset is so large that rounding changes entries by more than a thousandth of the column's
    standard deviation, or one of whole numbers of which some are beyond 2^24 and not exact. Columns that do not vary,
    or only as rounding in double precision does, have nothing to lose.
    """
    for name, leaf in named_leaves(arrays, bare="data").items():
        array = np.asarray(leaf)
        if not _is_rounded(array) or not array.size:
            continue
        some = array[:: -(-len(array) // LOOKED_ROWS)]
        some = some.reshape(len(some), -1)
        with np.errstate(under="ignore"):
            error = np.abs(some - some.astype(np.float32)).max(axis=0)
        offset = np.abs(some).max(axis=0)
        scale = np.where(offset > 0, offset, 1.0)
        spread = (some / scale).std(axis=0)  # relative to the offset: squares of extreme numbers overflow
        relative = error / scale
        lost = (relative > DIGITS * spread) & (spread > 1e-12)
        remedy = "centre and scale it, or enable jax_enable_x64"
        if lost.any():
            k = int(np.argmax(np.where(lost, relative / np.maximum(spread, 1e-12), 0)))
            sd, worst = spread[k] * scale[k], relative[k] / spread[k]
            warnings.warn(
                f"{_column(name, some, k)} is float64 with an offset of {some[:, k].mean():.3g} and a standard "
                f"deviation of {sd:.3g}: float32 changes it by up to {worst:.1%} of that; {remedy}",
                UserWarning,
                stacklevel=stacklevel,
            )
            continue
        whole = (offset > EXACT) & (error > 0) & np.all(some == np.floor(some), axis=0)
        if whole.any():
            k = int(np.argmax(whole))
            warnings.warn(
                f"{_column(name, some, k)} is float64 with whole numbers up to {offset[k]:.0f}: above 2^24 float32 "
                f"does not tell neighbours apart (a relative error of up to {relative[k]:.1g}). If they are codes, "
                f"store them as integers; if they are quantities, {remedy}",
                UserWarning,
                stacklevel=stacklevel,
            )


def _column(name: str, table: np.ndarray, k: int) -> str:
    return f"{name}, column {k}," if table.shape[1] > 1 else name


def row_struct(arrays: Data) -> Data:
    """The shape and dtype of one row, as JAX will hold it."""
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(tuple(leaf.shape[1:]), jax.dtypes.canonicalize_dtype(leaf.dtype)), arrays
    )


def row_bytes(example: Data) -> int:
    """The bytes of one example."""
    return max(1, sum(int(np.prod(s.shape)) * s.dtype.itemsize for s in jax.tree.leaves(example)))


def batch_rows(batch_size: int | float, size: int) -> int:
    """``batch_size`` as a number of rows: a count, or a fraction of N."""
    if isinstance(batch_size, bool) or not isinstance(batch_size, int | float | np.integer | np.floating):
        raise TypeError(f"batch_size must be a count (500) or a fraction (0.01); got {batch_size!r}")
    if isinstance(batch_size, float | np.floating):
        if not 0 < batch_size <= 1:
            raise ValueError(f"batch_size given as a fraction must lie in (0, 1]; got {batch_size!r}")
        return max(1, round(float(batch_size) * size))
    if not 1 <= batch_size <= size:
        raise ValueError(f"batch_size must lie between 1 and the number of examples, {size}; got {batch_size!r}")
    return int(batch_size)


def taken(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Some rows, as an array of their own."""
    # take copies an array that is not contiguous as a whole first
    return np.take(array, rows, axis=0) if array.flags.c_contiguous else np.array(array[rows])
