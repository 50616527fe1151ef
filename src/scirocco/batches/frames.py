"""Tables of pandas, polars and Arrow as columns of numbers, with the labels of their categories.

A code means the label that it has where the model was made: a table that comes later, whose categories stand in another
order or are fewer, or are text, is coded by the labels that are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

Labels = tuple[Any, ...]
TABLES = {("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table")}
COLUMNS = {("pandas", "Series"), ("polars", "Series"), ("pyarrow", "ChunkedArray")}
MOST_NAMED = 5  # labels in a message


class Columns(NamedTuple):
    """The columns of a table by name, codes in place of categories, and the labels of these."""

    arrays: dict[str, np.ndarray]
    labels: dict[str, Labels]


def is_frame(data: Any) -> bool:
    """Whether data is a table of one of these libraries, or has columns of one by name; asks without importing them."""
    if type(data) is dict:
        return any(_is(COLUMNS, column) for column in data.values())
    return _is(TABLES, data)


def _is(kinds: set[tuple[str, str]], data: Any) -> bool:
    return any((kind.__module__.split(".")[0], kind.__name__) in kinds for kind in type(data).__mro__)


def columns_of(frame: Any, known: Mapping[str, Labels] | None = None) -> Columns:
    """The columns; text, dates and missing values are refused, with the name of the column and the way out.

    Categories of columns whose labels are ``known`` have the codes of these, and may be text; others come after them.
    """
    known = known or {}
    found = {name: _column(name, column, known.get(name, ())) for name, column in _named(frame)}
    return Columns({n: a for n, (a, _) in found.items()}, {n: labels for n, (_, labels) in found.items() if labels})


def _named(frame: Any) -> list[tuple[str, Any]]:
    """The columns of a table by their names."""
    if isinstance(frame, dict):
        return list(frame.items())
    keys = list(getattr(frame, "column_names", None) or frame.columns)
    names = [str(key) for key in keys]
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        raise ValueError(f"data has several columns named {', '.join(double)}: rename them")
    return [(name, frame[key]) for name, key in zip(names, keys, strict=True)]


def _column(name: str, column: Any, known: Labels) -> tuple[Any, Labels]:
    """Numbers, or codes and their labels."""
    if not _is(COLUMNS, column):
        return column, ()  # of a dictionary: an array as it is
    library = type(column).__module__.split(".")[0]
    if library == "polars":
        import pyarrow as pa

        column = pa.chunked_array([column.to_arrow()])
    values, labels = (_of_pandas if library == "pandas" else _of_arrow)(name, column, texts=bool(known))
    if known and labels:
        return recoded(values, labels, known)
    if known and values.dtype.kind in "iu" and not any(isinstance(label, str) for label in known):
        raise TypeError(
            f"column {name} holds numbers, and so do the names of its entries, {_some(known)}: make it a category if "
            "it has names, or give it as an array, in a dictionary, if it has codes"
        )
    return values, labels


def recoded(codes: np.ndarray, labels: Labels, known: Labels) -> tuple[np.ndarray, Labels]:
    """Codes of these labels as codes of the known ones; those that are not known follow them."""
    if labels == known:
        return codes, known
    used = [labels[k] for k in np.unique(codes)]
    every = (*known, *(label for label in used if label not in known))
    place = {label: k for k, label in enumerate(every)}
    return np.array([place.get(label, -1) for label in labels], np.int32)[codes], every


def _some(labels: Labels) -> str:
    """A few labels."""
    return ", ".join(map(str, labels[:MOST_NAMED])) + (", ..." if len(labels) > MOST_NAMED else "")


def _of_pandas(name: str, column: Any, *, texts: bool) -> tuple[np.ndarray, Labels]:
    import pandas as pd

    _require_complete(name, int(column.isna().sum()))
    numbers = pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype)
    if texts and not numbers:
        column = column.astype("category")
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy().astype(np.int32), plain(column.cat.categories)
    if numbers:
        numpy = getattr(column.dtype, "numpy_dtype", None)  # of a nullable type
        return column.to_numpy(dtype=numpy), ()
    raise _refused(name, str(column.dtype), "datetime" in str(column.dtype) or "timedelta" in str(column.dtype))


def _of_arrow(name: str, column: Any, *, texts: bool) -> tuple[np.ndarray, Labels]:
    import pyarrow as pa

    _require_complete(name, column.null_count)
    if texts and (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        column = column.dictionary_encode()
    if pa.types.is_dictionary(column.type):
        whole = column.unify_dictionaries().combine_chunks()
        whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
        return whole.indices.to_numpy(zero_copy_only=False).astype(np.int32), plain(whole.dictionary.to_pylist())
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    if any(is_kind(column.type) for is_kind in kinds):
        return np.asarray(column.to_numpy()), ()
    raise _refused(name, str(column.type), pa.types.is_temporal(column.type))


def plain(values: Any) -> Labels:
    """Labels as numbers and text that JSON can hold."""
    found = (value.item() if isinstance(value, np.generic) else value for value in values)
    return tuple(value if isinstance(value, bool | int | float | str) else str(value) for value in found)


def _require_complete(name: str, missing: int) -> None:
    if missing:
        raise ValueError(f"column {name} has {missing:,} missing values: drop those rows, or fill them in")


def _refused(name: str, kind: str, date: bool) -> TypeError:
    if date:
        return TypeError(f"column {name} holds dates ({kind}): give numbers, such as days since the first of them")
    return TypeError(
        f"column {name} holds {kind}, no numbers: make it a category (pandas: astype('category'), polars: "
        "cast(pl.Categorical), Arrow: dictionary_encode()), or leave it out"
    )
