"""What a table looks like: which component fits it, and what would be taken for something that it is not."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from scirocco.corpora.store import Corpus

CODES = 10  # answers are codes up to this
LEVELS = 20  # different numbers of a column up to which they may be categories
FEW = 20  # rows of which nothing is said
CATEGORICAL, NORMALS, COUNTED = KINDS = ("categorical", "gaussian", "poisson")  # what a column may be
SHOWN = 12  # columns that are listed
DISPERSED = 5.0  # the variance of counts over their mean, at most


def column_kind(X: Any, j: int) -> str:
    """What a column of a table of several kinds is.

    Text, yes and no, and numbers that repeat are categories: up to 20 different ones, and at most half as many as
    entries. Whole numbers from 0 on are counts if there are more of them than a scale from 0 to 10 has, and if their
    variance is at most five times their mean: what varies more a Poisson law would cut into many clusters. Other
    numbers are normal.
    """
    column = X.iloc[:, j].to_numpy(dtype=object) if hasattr(X, "iloc") else np.asarray(X)[:, j]
    if column.dtype.kind not in "iuf":
        import pandas as pd

        known = column[~np.asarray(pd.isna(column))]
        if not all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in known):
            return CATEGORICAL
    numbers = _numbers(np.asarray(column))
    numbers = numbers[~np.isnan(numbers)]
    different = np.unique(numbers).size
    counts = bool(numbers.size) and numbers.min() == 0 and not np.any(numbers % 1)
    counts = counts and numbers.var() <= DISPERSED * numbers.mean()
    if different <= min(CODES + 1 if counts else LEVELS, max(2, numbers.size // 2)):
        return CATEGORICAL
    return COUNTED if counts else NORMALS


def component_for(X: Any) -> tuple[str, str]:
    """The name of the component that a table asks for, and why.

    Text, missing entries and yes or no written as such are categories; so are codes, whole numbers of which none is 0.
    Zeros and ones are yes and no, other whole numbers counts; so is all that is sparse. Where columns have numbers that
    are none of these, beside text or missing entries, with fractions or negative, or with many values but no 0, each
    column is looked at by itself.
    """
    if isinstance(X, Corpus) or hasattr(X, "tocsr"):
        return "multinomial", "it is sparse"
    if holds_text(X):
        return _by_column(X, "categorical", "it holds text")
    table = np.asarray(X, dtype=object) if hasattr(X, "iloc") else np.asarray(X)
    if table.ndim != 2 or table.dtype.kind not in "biufO":
        return "multinomial", "nothing else fits"  # and what is wrong with it is said there
    if table.dtype.kind == "b":
        return "categorical", "it holds true and false"
    numbers = _numbers(table)
    if np.isnan(numbers).any():
        return _by_column(X, "categorical", "entries are missing")
    if np.any(numbers % 1) or numbers.min(initial=0) < 0:
        return _by_column(X, "categorical", "numbers are not counts, and repeat")
    if looks_like_codes(numbers):
        return "categorical", f"it holds whole numbers from 1 to {numbers.max():.0f}, and no 0"
    if numbers.max(initial=0) <= 1:
        return "bernoulli", "it holds 0 and 1"
    if numbers.size and numbers.min() > 0:
        return _by_column(X, "multinomial", "it holds counts")
    return "multinomial", "it holds counts"


def _by_column(X: Any, otherwise: str, why: str) -> tuple[str, str]:
    """ "mixed" if some column has numbers that are no categories, or what it is ``otherwise``."""
    kinds = [column_kind(X, j) for j in range(X.shape[1] if hasattr(X, "shape") else len(X[0]))]
    if NORMALS not in kinds and (COUNTED not in kinds or otherwise != "categorical"):
        return otherwise, why
    if set(kinds) == {NORMALS}:
        return "gaussian", "every column has numbers that are neither counts nor repeat"
    return "mixed", f"columns are of several kinds: {listed(X, kinds)}"


def listed(X: Any, kinds: Sequence[str]) -> str:
    """What the first columns are."""
    names = list(X.columns) if hasattr(X, "columns") else list(range(len(kinds)))
    more = f", and {len(kinds) - SHOWN} more" if len(kinds) > SHOWN else ""
    return ", ".join(f"{name} {kind}" for name, kind in zip(names[:SHOWN], kinds, strict=False)) + more


def holds_text(X: Any) -> bool:
    """Whether a table of two dimensions has text in it, or categories."""
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        kinds = [getattr(kind, "kind", "O") for kind in X.dtypes]
        return any(kind not in "biufMm" and _text(X.iloc[:, k].to_numpy(dtype=object)) for k, kind in enumerate(kinds))
    if hasattr(X, "tocsr") or np.ndim(X) != 2:
        return False
    table = np.asarray(X)
    return table.dtype.kind in "US" or (table.dtype.kind == "O" and _text(table.ravel()))


def looks_like_codes(table: np.ndarray) -> bool:
    """Whether whole numbers, of which none is 0, are more likely answers to questions than counts."""
    if len(table) < FEW or table.shape[1] < 2 or table.min() != 1 or table.max() > CODES or np.any(table % 1):
        return False
    return bool(np.unique(table).size > 1)


def warn_of_codes(table: Any, component: str) -> None:
    """Say that a table of counts looks like answers."""
    if not hasattr(table, "tocsr") and looks_like_codes(np.asarray(table)):
        warnings.warn(
            f"X has whole numbers from {table.min():.0f} to {table.max():.0f} and no 0, as codes of answers have, and "
            f"component={component!r} takes them for counts. If they are codes, component='categorical' finds what "
            "classes differ in",
            stacklevel=8,
        )


def warn_of_many(categories: list[list[Any]], columns: list[np.ndarray], names: Sequence[str] | None) -> None:
    """Say which columns have too many categories to be categories."""
    for j, (own, column) in enumerate(zip(categories, columns, strict=True)):
        if len(own) <= LEVELS or len(column) < FEW:
            continue
        continuous = all(isinstance(value, int | float) for value in own)
        if continuous or 2 * len(own) > len(column):
            kind = "numbers, and their order says nothing to categories" if continuous else "values"
            warnings.warn(
                f"column {j if names is None else names[j]!r} has {len(own)} different {kind}: clusters will follow "
                "it alone. Leave it out, or make few categories of it, such as pandas.qcut(column, 5)",
                stacklevel=9,
            )


def _text(values: np.ndarray) -> bool:
    return any(isinstance(value, str) for value in values)


def _numbers(table: np.ndarray) -> np.ndarray:
    """Entries as numbers, NaN where they are missing."""
    import pandas as pd

    if table.dtype.kind != "O":
        return table.astype(float)
    return np.where(pd.isna(table), np.nan, table).astype(float)
