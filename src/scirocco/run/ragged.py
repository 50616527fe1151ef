"""Draws whose size changes from draw to draw: the clusters of a mixture, say.

Each chain has its values end to end, and a table of lengths says where a draw ends and the next begins. A draw is an
array (length, ...); only its first axis changes. There are no streaming moments of such draws: their entries have no
names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np


class Ragged:
    """Draws of changing length: ``lengths`` (chain, draw), and for each chain its ``values``, end to end.

    >>> draws = Ragged.of([[np.array([1.0, 2.0]), np.array([3.0])]])
    >>> draws[0, 1], draws.lengths.tolist(), draws.padded().tolist()
    (array([3.]), [[2, 1]], [[[1.0, 2.0], [3.0, nan]]])
    """

    def __init__(self, lengths: np.ndarray, values: Sequence[np.ndarray]) -> None:
        self.lengths = np.asarray(lengths, np.int64)
        self.values = [np.asarray(v) for v in values]
        ends = self.lengths.sum(axis=1).tolist()
        if self.lengths.ndim != 2 or len(self.values) != len(self.lengths) or ends != [len(v) for v in self.values]:
            raise ValueError(
                f"lengths {self.lengths.shape} do not fit values of {[len(v) for v in self.values]} entries"
            )

    @classmethod
    def of(cls, draws: Sequence[Sequence[np.ndarray]], like: np.ndarray | None = None) -> Ragged:
        """From a list of draws for each chain; ``like`` is an entry, for chains that have none yet."""
        empty = [] if like is None else [np.empty((0, *np.shape(like)), np.asarray(like).dtype)]
        lengths = np.array([[len(draw) for draw in chain] for chain in draws], np.int64).reshape(len(draws), -1)
        return cls(lengths, [np.concatenate([*empty, *chain]) for chain in draws])

    @property
    def shape(self) -> tuple[int, int]:
        """Chains and draws."""
        chains, count = self.lengths.shape
        return chains, count

    @property
    def nbytes(self) -> int:
        """Of values and lengths."""
        return self.lengths.nbytes + sum(v.nbytes for v in self.values)

    def __getitem__(self, place: tuple[int, int]) -> np.ndarray:
        """One draw, by chain and number."""
        chain, draw = place
        lengths = self.lengths[chain]
        draw = range(len(lengths))[draw]
        start = int(lengths[:draw].sum())
        return self.values[chain][start : start + int(lengths[draw])]

    def draws(self, first: int, last: int | None = None) -> Ragged:
        """Draws ``first`` to ``last`` of every chain."""
        last = self.shape[1] if last is None else last
        starts, stops = self.lengths[:, :first].sum(axis=1), self.lengths[:, :last].sum(axis=1)
        values = [v[a:b] for v, a, b in zip(self.values, starts, stops, strict=True)]
        return Ragged(self.lengths[:, first:last], values)

    def padded(self, fill: float = np.nan) -> np.ndarray:
        """One array (chain, draw, longest, ...), filled up."""
        longest = int(self.lengths.max(initial=0))
        entry = self._entry()
        kind = np.result_type(entry.dtype, type(fill)) if np.isnan(fill) else entry.dtype
        out = np.full((*self.shape, longest, *entry.shape), fill, kind)
        for chain, draw in np.ndindex(*self.shape):
            values = self[chain, draw]
            out[chain, draw, : len(values)] = values
        return out

    def _entry(self) -> np.ndarray:
        return np.empty(self.values[0].shape[1:], self.values[0].dtype)

    def __iter__(self) -> Iterator[list[np.ndarray]]:
        for chain in range(self.shape[0]):
            yield [self[chain, draw] for draw in range(self.shape[1])]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Ragged)
            and np.array_equal(self.lengths, other.lengths)
            and all(np.array_equal(a, b) for a, b in zip(self.values, other.values, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]


def concatenated(parts: Sequence[Any], *, chains: bool = False) -> Any:
    """Arrays or ragged draws joined along draws, or along chains."""
    if not isinstance(parts[0], Ragged):
        return np.concatenate(parts, axis=0 if chains else 1)
    if chains:
        return Ragged(np.concatenate([p.lengths for p in parts]), [v for p in parts for v in p.values])
    return Ragged(
        np.concatenate([p.lengths for p in parts], axis=1),
        [np.concatenate(values) for values in zip(*(p.values for p in parts), strict=True)],
    )


def draws_of(values: Any, first: int, last: int | None = None) -> Any:
    """Draws ``first`` to ``last`` of an array (chain, draw, ...) or of ragged draws."""
    return values.draws(first, last) if isinstance(values, Ragged) else values[:, first:last]
