"""What models of counts accept: types of numbers, names of columns, and no text."""

from __future__ import annotations

from typing import Any

import numpy as np

COUNTS = [np.float64, np.float32, np.int64, np.int32, np.uint16, np.uint8]  # types that are taken as they are


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
