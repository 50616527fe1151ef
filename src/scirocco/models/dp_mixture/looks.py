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


def component_for(X: Any) -> tuple[str, str]:
    """The name of the component that a table asks for, and why.

    Text, missing entries and yes or no written as such are categories; so are codes, whole numbers of which none is 0.
    Zeros and ones are yes and no, other whole numbers counts; so is all that is sparse. What is none of these is
    refused.
    """
    if isinstance(X, Corpus) or hasattr(X, "tocsr"):
        return "multinomial", "it is sparse"
    if holds_text(X):
        return "categorical", "it holds text"
    table = np.asarray(X, dtype=object) if hasattr(X, "iloc") else np.asarray(X)
    if table.ndim != 2 or table.dtype.kind not in "biufO":
        return "multinomial", "nothing else fits"  # and what is wrong with it is said there
    if table.dtype.kind == "b":
        return "categorical", "it holds true and false"
    numbers = _numbers(table)
    if np.isnan(numbers).any():
        return "categorical", "entries are missing"
    if np.any(numbers % 1):
        column = int(np.argmax(np.any(numbers % 1, axis=0)))
        raise ValueError(
            f"component='auto' found a continuous column, {_name(X, column)}: no component is for it. Make categories "
            "of it first, such as pandas.qcut(column, 5)"
        )
    if looks_like_codes(numbers):
        return "categorical", f"it holds whole numbers from 1 to {numbers.max():.0f}, and no 0"
    if numbers.max(initial=0) <= 1:
        return "bernoulli", "it holds 0 and 1"
    return "multinomial", "it holds counts"


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


def _name(X: Any, column: int) -> str:
    return repr(X.columns[column]) if hasattr(X, "columns") else str(column)
