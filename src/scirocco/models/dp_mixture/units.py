"""Columns of numbers in units of their own, and the priors that they have in these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from scirocco.models.dp_mixture.numeric import FAMILY, POISSON

FINEST = 20  # powers of 1/2: of a step, at least
EXACT = 52  # powers of 2 up to which all sums of squares are exact


@dataclass(frozen=True, eq=False)
class Units:
    """Column ``places[j]`` of a table is ``centers[j] + scales[j] x``, where x is a multiple of ``step``."""

    places: np.ndarray
    names: list[str]
    centers: np.ndarray
    scales: np.ndarray
    step: float
    priors: np.ndarray  # (column, number), see ``numeric``

    @classmethod
    def of(cls, X: Any, places: list[int], names: list[str], priors: np.ndarray) -> Units:
        """Those of training data: sds from the mean for normal columns, the counts themselves for Poisson ones."""
        table = numbers_of(X, places, names)
        empty = np.isnan(table).all(axis=0)
        if empty.any():
            raise ValueError(f"column {names[int(empty.argmax())]} has no entry: every one is missing")
        normal = priors[:, FAMILY] != POISSON
        spread = np.nanstd(table, axis=0)
        centers = np.where(normal, np.nanmean(table, axis=0), 0.0)
        scales = np.where(normal & (spread > 0), np.where(spread > 0, spread, 1.0), 1.0)
        bits = min(FINEST, (EXACT - int(np.ceil(np.log2(len(table) + 1)))) // 2)
        found = cls(np.array(places), names, centers, scales, 2.0**-bits, priors)
        found.values(X)  # whether they are counts
        return found

    def values(self, X: Any) -> np.ndarray:
        """The columns of a table, (row, column)."""
        table = numbers_of(X, self.places, self.names)
        counts = self.priors[:, FAMILY] == POISSON
        for j in np.flatnonzero(counts):
            own = table[:, j][~np.isnan(table[:, j])]
            if np.any(own < 0) or np.any(own % 1):
                raise ValueError(
                    f"column {self.names[j]} is 'poisson', that is counts: whole numbers from 0 on; it has "
                    f"{own[(own < 0) | (own % 1 > 0)][0]:g}"
                )
        values = (table - self.centers) / self.scales
        return np.ascontiguousarray(np.where(counts, values, np.round(values / self.step) * self.step))

    def constants(self, values: np.ndarray) -> np.ndarray:
        """What the log densities of rows have in the units of the table, and factorials of counts."""
        terms = np.where(
            self.priors[:, FAMILY] == POISSON, -gammaln(np.maximum(values, 0.0) + 1.0), -np.log(self.scales)
        )
        return np.asarray(np.where(np.isnan(values), 0.0, terms).sum(axis=1))


def numbers_of(X: Any, places: Any, names: list[str]) -> np.ndarray:
    """Some columns as numbers, NaN where they are missing."""
    import pandas as pd

    table = np.empty((len(X), len(places)))
    for j, place in enumerate(places):
        column = pd.Series(X.iloc[:, place].to_numpy(dtype=object) if hasattr(X, "iloc") else np.asarray(X)[:, place])
        try:
            table[:, j] = pd.to_numeric(column, errors="raise").astype(float)
        except (TypeError, ValueError) as error:
            raise ValueError(f"column {names[j]} must hold numbers: {error}") from None
        if np.isinf(table[:, j]).any():
            raise ValueError(f"column {names[j]} must hold finite numbers; got infinite ones")
    return table
