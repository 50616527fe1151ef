"""What models accept: numbers without masks, text or dates; names of columns. Every array of a model passes here.

scikit-learn's own checks drop masks without a word, and take text that spells numbers, and dates, for numbers.
"""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
from sklearn.utils import validation

from scirocco.core.checks import require_unmasked

COUNTS = [np.float64, np.float32, np.int64, np.int32, np.uint16, np.uint8]  # types that are taken as they are
NO_NUMBERS = (str, bytes, datetime.date, datetime.timedelta)


def validate_data(model: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """scikit-learn's ``validate_data``, for numbers alone; with ``dtype=None`` values may be of any kind."""
    require_numbers("X", X, any_kind=options.get("dtype") is None)
    if not isinstance(y, str):
        require_unmasked("y", y)  # labels may be words
    return validation.validate_data(model, X, y, **options)


def check_array(X: Any, *, input_name: str = "X", **options: Any) -> Any:
    """scikit-learn's ``check_array``, for numbers alone."""
    require_numbers(input_name, X)
    return validation.check_array(X, input_name=input_name, **options)


def require_numbers(name: str, X: Any, *, any_kind: bool = False) -> None:
    """Reject masked entries and, but for ``any_kind``, text and dates; what else is wrong scikit-learn says."""
    require_unmasked(name, getattr(X, "data", ()) if hasattr(X, "tocsr") else X)  # a matrix by keys has no array
    if any_kind or hasattr(X, "tocsr"):
        return
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        for k in np.flatnonzero([getattr(kind, "kind", "O") in "OUSMm" for kind in X.dtypes]):
            _refuse_others(f"{name}, column {X.columns[k]!r},", X.iloc[:, k])
    else:
        _refuse_others(name, X)


def _refuse_others(name: str, value: Any) -> None:
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if isinstance(value, list | tuple) or kind == "O":
        for entry in value if isinstance(value, list | tuple) else np.asarray(value).flat:
            _refuse_others(name, entry)
    elif (kind and kind in "USMm") or isinstance(value, NO_NUMBERS):
        raise TypeError(f"{name} must hold numbers, not text or dates; got {value if np.ndim(value) else repr(value)}")


def names_of(X: Any) -> list[str] | None:
    """The names of the columns of a table, if they are words."""
    columns = list(getattr(X, "columns", ()))
    return columns if columns and all(isinstance(name, str) for name in columns) else None


def refuse_text(X: Any, model: str = "LDA") -> None:
    """Text is not counts, and the error of an array that it makes would not say what to do."""
    listed = isinstance(X, str) or (isinstance(X, list | tuple) and any(isinstance(x, str) for x in X[:5]))
    if listed or (isinstance(X, np.ndarray) and X.dtype.kind in "US"):
        raise TypeError(
            f"{model} takes counts, documents x words, not text: count words with sklearn.feature_extraction.text."
            "CountVectorizer().fit_transform(texts), or make a corpus on disk with scirocco.corpora.corpus_from_text"
        )
