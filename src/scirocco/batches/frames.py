"""Tables of pandas, polars and Arrow as columns of numbers, with the labels of their categories."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Labels = tuple[Any, ...]


class Columns(NamedTuple):
    """The columns of a table by name, codes in place of categories, and the labels of these."""

    arrays: dict[str, np.ndarray]
    labels: dict[str, Labels]


def is_frame(data: Any) -> bool:
    """Whether data is a table of one of these libraries; asks without importing them."""
    kinds = {(kind.__module__.split(".")[0], kind.__name__) for kind in type(data).__mro__}
    return bool(kinds & {("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table")})


def columns_of(frame: Any) -> Columns:
    """The columns; text, dates and missing values are refused, with the name of the column and the way out."""
    names = [str(name) for name in getattr(frame, "column_names", None) or frame.columns]
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        raise ValueError(f"data has several columns named {', '.join(double)}: rename them")
    kind = type(frame).__module__.split(".")[0]
    one = _of_pandas if kind == "pandas" else _of_arrow
    table = frame.to_arrow() if kind == "polars" else frame
    found = {name: one(name, table[key]) for name, key in zip(names, _keys(table), strict=True)}
    return Columns({n: a for n, (a, _) in found.items()}, {n: labels for n, (_, labels) in found.items() if labels})


def _keys(table: Any) -> list[Any]:
    return list(getattr(table, "column_names", None) or table.columns)


def _of_pandas(name: str, column: Any) -> tuple[np.ndarray, Labels]:
    import pandas as pd

    _require_complete(name, int(column.isna().sum()))
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy().astype(np.int32), plain(column.cat.categories)
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype):
        numpy = getattr(column.dtype, "numpy_dtype", None)  # of a nullable type
        return column.to_numpy(dtype=numpy), ()
    raise _refused(name, str(column.dtype), "datetime" in str(column.dtype) or "timedelta" in str(column.dtype))


def _of_arrow(name: str, column: Any) -> tuple[np.ndarray, Labels]:
    import pyarrow as pa

    _require_complete(name, column.null_count)
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
        f"column {name} holds {kind}, no numbers: make it a category, such as frame[{name!r}].astype('category'), or "
        "leave it out"
    )
