"""Counts of words as unit vectors.

    x_dw = n_dw log(D / (1 + df_w)),    then divided by the length of the row

D is the number of documents of the fit and df_w the number of them with the word w: appendix F of Liu, Zhu and Song
(2016).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from scirocco.models.inputs import COUNTS, refuse_text, validate_data


class TfIdf(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns counts, documents x words, into rows for ``SphericalAdmixture``.

    ``documents`` says what becomes of documents of which nothing is left, because none of their words is known or all
    are in every document: "error", or "keep" them as rows of zeros, for the caller to drop.

    >>> rows = TfIdf().fit_transform(np.array([[2, 1, 0, 0], [0, 1, 3, 0], [0, 0, 1, 2]]))
    >>> print(rows.toarray().round(2))
    [[1. 0. 0. 0.]
     [0. 0. 0. 0.]
     [0. 0. 0. 1.]]
    """

    def __init__(self, *, documents: str = "keep") -> None:
        self.documents = documents

    def fit(self, X: Any, y: Any = None) -> TfIdf:
        """Count the documents that have each word."""
        del y
        if self.documents not in ("error", "keep"):
            raise ValueError(f'documents must be "error" or "keep"; got {self.documents!r}')
        counts = self._counts(X, reset=True)
        self.idf_ = np.log(counts.shape[0] / (1 + np.bincount(counts.indices, minlength=counts.shape[1])))
        return self

    def transform(self, X: Any) -> sp.csr_matrix:
        """The tf-idf rows of counts ``X``, unit vectors, sparse."""
        check_is_fitted(self)
        counts = self._counts(X, reset=False)
        rows = counts.astype(np.float64) @ sp.diags(self.idf_)
        length = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
        empty = np.flatnonzero(length < 1e-12)
        if empty.size and self.documents == "error":
            raise ValueError(
                f"nothing is left of {empty.size} documents, the first in row {empty[0]}: they have no words, or only "
                'words that nearly all documents have; drop them, or set documents="keep"'
            )
        result = sp.csr_matrix(sp.diags(1 / np.where(length < 1e-12, 1, length)) @ rows)
        result.eliminate_zeros()
        return result

    def _counts(self, X: Any, *, reset: bool) -> sp.csr_matrix:
        refuse_text(X, "TfIdf")
        X = validate_data(self, X, accept_sparse="csr", dtype=COUNTS, reset=reset)
        counts = sp.csr_matrix(X)
        if counts.nnz and counts.data.min() < 0:
            raise ValueError("Negative values in data passed to TfIdf: counts of words are not negative")
        counts.eliminate_zeros()
        return counts

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = True
        return tags
