"""Counts of assignments that are kept: each observation has a code, which is data, and a label, which is not.

    KeptCounts     table[code, label] counts all observations: exact at all times
    StaleCounts    estimate = table + (N/n) sum_{i in S} (z_i new - z_i old)

With ``KeptCounts`` a step of a sampler is a step of a Gibbs sampler, however small the minibatch: no error of
stochastic gradients at all. ``StaleCounts`` is for labels that are kept but old: it looks ahead to what the counts
would be if every label were renewed as those of the minibatch were, as SAGA does. Its estimate is unbiased for them and
has no variance once nothing changes any more. It can fall below 0, where no Dirichlet parameter can follow; such
entries are set to 0, and ``clipped`` says how many there were.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from scirocco.core.checks import require_count
from scirocco.core.compiled import jit
from scirocco.simplex.base import Counts


@jit
def _add(codes: Any, labels: Any, low: int, high: int, table: Any, totals: Any) -> None:
    for i in range(low, high):
        table[codes[i], labels[i]] += 1
        totals[labels[i]] += 1


@jit
def _move(codes: Any, old: Any, labels: Any, low: int, table: Any, totals: Any) -> None:
    for j in range(old.size):
        i = low + j
        if old[j] != labels[i]:
            table[codes[i], old[j]] -= 1
            table[codes[i], labels[i]] += 1
            totals[old[j]] -= 1
            totals[labels[i]] += 1


@jit
def _by_code(codes: Any, categories: int) -> Any:
    starts = np.zeros(categories + 1, np.int64)
    for i in range(codes.size):
        starts[codes[i] + 1] += 1
    for c in range(categories):
        starts[c + 1] += starts[c]
    places, free = np.empty(codes.size, np.int32), starts.copy()
    for i in range(codes.size):
        places[free[codes[i]]] = i
        free[codes[i]] += 1
    return starts, places


@jit
def _relabel(codes: Any, labels: Any, chosen: Any, new: Any, table: Any, totals: Any) -> None:
    for k in range(chosen.size):
        i = chosen[k]
        table[codes[i], labels[i]] -= 1
        totals[labels[i]] -= 1
        labels[i] = new[k]
        table[codes[i], labels[i]] += 1
        totals[labels[i]] += 1


class KeptCounts:
    """Labels of all observations and their counts.

    ``labels`` is an array of small whole numbers that a kernel may change in place, and then says so by ``moved``.
    Without ``labels`` nothing is counted yet: fill them in from the beginning and say so by ``add``. ``table`` is
    categories x rows, with empty columns up to ``width`` for kernels that want rows of a certain length.

    >>> kept = KeptCounts(codes=[0, 1, 1, 2], labels=[0, 0, 0, 1], rows=2, categories=3)
    >>> kept.relabel([1, 2], [1, 0])
    >>> kept.counts.values
    array([[1., 1., 0.],
           [0., 1., 1.]])
    """

    def __init__(self, codes: Any, rows: int, categories: int, labels: Any = None, *, width: int | None = None) -> None:
        require_count("rows", rows)
        require_count("categories", categories)
        self.rows, self.categories = rows, categories
        self.codes = _whole("codes", codes, categories).astype(
            np.int32 if categories <= 2**31 else np.int64, copy=False
        )
        small = np.uint8 if rows <= 2**8 else np.uint16 if rows <= 2**16 else np.uint32
        self.labels = np.zeros(self.codes.size, small)
        if self.size >= 2**31:
            raise ValueError(
                f"at most 2^31 - 1 observations can be kept; got {self.size:,}: take a sampler for streams"
            )
        self.table = np.zeros((categories, rows if width is None else width), np.int32)
        self.totals = np.zeros(rows, np.int64)
        if labels is not None:
            given = _whole("labels", labels, rows)
            if given.shape != self.codes.shape:
                raise ValueError(f"labels must have one entry for each code, {self.codes.size}; got {given.size}")
            self.labels[:] = given
            self.add(0, self.size)

    @property
    def size(self) -> int:
        """The number of observations."""
        return len(self.codes)

    @property
    def counts(self) -> Counts:
        """The counts, rows x categories."""
        return Counts(self.used.T, exact=True)

    @property
    def used(self) -> np.ndarray:
        """The columns of ``table`` that are rows."""
        return self.table[:, : self.rows]

    @functools.cached_property
    def by_code(self) -> tuple[np.ndarray, np.ndarray]:
        """The observations of each code in their order, one code after the other, and where each code begins."""
        starts, places = _by_code(self.codes, self.categories)
        return starts, places

    def add(self, low: int, high: int) -> None:
        """Observations ``low`` to ``high`` have labels now, for the first time."""
        _add(self.codes, self.labels, low, high, self.table, self.totals)

    def clear(self) -> None:
        """Nothing is counted any more."""
        self.table[:], self.totals[:] = 0, 0

    def moved(self, low: int, old: np.ndarray) -> None:
        """The labels from ``low`` on were ``old`` and have been changed in place."""
        _move(self.codes, old, self.labels, low, self.table, self.totals)

    def relabel(self, observations: Any, labels: Any) -> None:
        """Give the ``observations`` (distinct) new labels; costs nothing for the others."""
        chosen, new = _whole("observations", observations, self.size), _whole("labels", labels, self.rows)
        if chosen.shape != new.shape:
            raise ValueError(f"labels must have one entry for each observation, {chosen.size}; got {new.size}")
        _relabel(self.codes, self.labels, chosen, new, self.table, self.totals)


class StaleCounts(KeptCounts):
    """Counts that look ahead from old labels, with the labels of a minibatch as a guide.

    >>> stale = StaleCounts(codes=[0, 0, 0, 0], labels=[0, 0, 0, 0], rows=2, categories=1)
    >>> stale.estimate([0, 1], [0, 1]).values.T                # one of two has changed: so would two of four
    array([[2., 2.]])
    >>> stale.counts.values.T                                  # what is kept
    array([[3., 1.]])
    """

    clipped = 0

    def estimate(self, observations: Any, labels: Any) -> Counts:
        """The unbiased estimate from a minibatch, after which its new labels are kept."""
        chosen = np.asarray(observations)
        if not chosen.size:
            raise ValueError("observations must name at least one: an empty minibatch says nothing")
        before = self.used.copy()
        self.relabel(chosen, labels)
        ahead = before + self.size / chosen.size * (self.used - before)
        self.clipped += int(np.sum(ahead < 0))
        return Counts(np.maximum(ahead, 0.0).T, fraction=min(1.0, chosen.size / self.size))


def _whole(name: str, values: Any, limit: int) -> np.ndarray:
    """A vector of whole numbers from 0 to ``limit`` - 1."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(f"{name} must be a vector of whole numbers; got dtype {array.dtype}, shape {array.shape}")
    if array.size and not (array.min() >= 0 and array.max() < limit):
        raise ValueError(f"{name} must lie between 0 and {limit - 1}; got {array.min()} to {array.max()}")
    return array if array.size else array.astype(np.int64)
