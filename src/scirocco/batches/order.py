"""A random order of the rows of a file in which every stretch is spread over the whole file.

The file is cut into pieces of a few rows and the pieces, in the order of the file, into strata of equal size. The order
takes one piece of each stratum, then another one of each, and so on: which one is random, the strata come in an order
of which any part is spread evenly. A stretch of the order has as many pieces from each part of the file as that part's
share, so what changes slowly along the file (rows sorted by their values, by time, by group) does not make stretches
differ, as a plain random choice of the same pieces would: of K pieces of sorted rows the mean varies like 1/K^3, not
1/K. Nothing is stored for each piece: an order of any length takes the memory of one stretch.
"""

from __future__ import annotations

import numpy as np


class Order:
    """An order of ``total`` rows in pieces of ``piece``, for stretches of about ``stretch`` rows.

    >>> order = Order(12, 1, 4, np.random.default_rng(0))
    >>> sorted(int(row) // 3 for row in order.pieces(0, 4)[0])      # one row from each third part
    [0, 1, 2, 3]
    >>> sorted(int(row) for row in order.pieces(0, 12)[0]) == list(range(12))
    True
    """

    def __init__(self, total: int, piece: int, stretch: int, rng: np.random.Generator) -> None:
        self.total, self.piece = total, piece
        count = total // piece  # the rows that are left make a shorter piece, the last one
        self._strata = max(1, count // -(-total // stretch))
        self._borders = np.arange(self._strata + 1) * count // self._strata
        self._sizes = np.diff(self._borders)
        self._spread = _spread(self._strata, rng)
        # In a stratum of n the pieces come as (a + b c) mod n, b and n having no common divisor: each once.
        self._shifts = rng.integers(np.maximum(self._sizes, 1))
        self._steps = rng.integers(1, np.maximum(self._sizes, 2))
        while np.any(odd := np.gcd(self._steps, self._sizes) > 1):
            self._steps[odd] = rng.integers(1, np.maximum(self._sizes[odd], 2))
        self._full = self._strata * (count // self._strata)  # pieces before the last, incomplete turn
        self._rest = self._spread[self._sizes[self._spread] > count // self._strata]
        self._count = count

    def pieces(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows ``start`` to ``stop`` of the order: where their pieces begin in the file, and their lengths."""
        places = np.arange(start // self.piece, -(-stop // self.piece))
        turn, within = np.divmod(places, self._strata)
        strata = self._spread[within]
        late = (places >= self._full) & (places < self._count)
        strata[late] = self._rest[places[late] - self._full]
        turn[late] = self._full // self._strata
        sizes = np.maximum(self._sizes[strata], 1)
        chosen = self._borders[strata] + (self._shifts[strata] + turn * self._steps[strata]) % sizes
        chosen[places >= self._count] = self._count
        # The first and the last piece may be cut.
        first = np.maximum(start - places * self.piece, 0)
        last = np.minimum(np.minimum(stop - places * self.piece, self.piece), self.total - chosen * self.piece)
        return chosen * self.piece + first, last - first


def _spread(count: int, rng: np.random.Generator) -> np.ndarray:
    """The numbers below ``count`` in an order of which any part is spread evenly: van der Corput's, scrambled."""
    bits = max(1, (count - 1).bit_length())
    numbers, reversed_ = np.arange(2**bits), np.zeros(2**bits, np.int64)
    for b in range(bits):
        reversed_ |= (numbers >> b & 1) << (bits - 1 - b)
    reversed_ ^= rng.integers(2**bits)
    return reversed_[reversed_ < count]
