"""How topic shares depend on what is known of the documents.

    eta_dk = x_d' b_k + noise,    for every draw of the topics and of the documents' weights

The method of composition: each draw of the weights (``documents.document_draws``) gives a least-squares fit with its
normal law, of which one draw of b_k is taken; together they are draws of b_k that contain the uncertainty of the
topics, of the weights and of the regression. Only the sums x'x, x'eta and eta'eta are kept, so any number of documents
takes the same memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.core.seeds import Purpose, generator
from scirocco.corpora.documents import Documents
from scirocco.models.lda.credible import quantiles
from scirocco.models.lda.documents import apart, document_draws, in_parts

if TYPE_CHECKING:
    import pandas as pd

INTERCEPT = "intercept"


@dataclass(frozen=True, eq=False)
class Effects:
    """Draws of the coefficients, (draw, covariate, topic), and the names of the covariates."""

    draws: np.ndarray
    names: list[str]
    note: str = ""
    labels: list[str] = field(default_factory=list)

    def table(self, level: float = 0.9) -> pd.DataFrame:
        """Mean, sd, interval and the probability of being positive, by topic and covariate."""
        import pandas as pd

        low, high = quantiles(self.draws, level)
        columns = {
            "mean": self.draws.mean(axis=0), "sd": self.draws.std(axis=0, ddof=1), "lower": low, "upper": high,
            "positive": (self.draws > 0).mean(axis=0),
        }  # fmt: skip
        index = pd.MultiIndex.from_product([range(self.draws.shape[2]), self.names], names=["topic", "covariate"])
        table = pd.DataFrame({name: values.T.reshape(-1) for name, values in columns.items()}, index=index)
        if any(self.labels):
            table.insert(0, "label", np.repeat(np.asarray(self.labels, object), len(self.names)))
        return table

    def __str__(self) -> str:
        table = self.table().to_string(float_format=lambda x: f"{x:.4g}")
        return f"{table}\n{self.note}" if self.note else table

    __repr__ = __str__


def design(covariates: Any, rows: int) -> tuple[np.ndarray, list[str]]:
    """The matrix of a table of covariates with an intercept, and the names of its columns.

    Columns of text or categories become 0 and 1 for all values but the first.
    """
    import pandas as pd

    if isinstance(covariates, pd.Series):
        covariates = covariates.to_frame(covariates.name if covariates.name is not None else "x")
    if not isinstance(covariates, pd.DataFrame | dict):
        array = np.asarray(covariates)
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2:
            raise ValueError(f"covariates must be a table with a row for each document; got shape {array.shape}")
        covariates = {f"x{j}": array[:, j] for j in range(array.shape[1])}
    table = pd.DataFrame(covariates).reset_index(drop=True)
    if len(table) != rows:
        raise ValueError(f"covariates must have a row for each of {rows} documents; got {len(table)}")
    if table.isna().any(axis=None):
        bad = [str(name) for name in table.columns[table.isna().any()]]
        raise ValueError(f"covariates must not be missing; {', '.join(bad)} have missing values")
    dates = [str(name) for name in table.columns if table[name].dtype.kind in "mM"]
    if dates:
        raise ValueError(f"covariates must be numbers or categories; {', '.join(dates)} have dates: give years, say")
    wide = pd.get_dummies(table, drop_first=True, dtype=float)
    matrix = np.column_stack([np.ones(rows), wide.to_numpy(np.float64)])
    names = [INTERCEPT, *map(str, wide.columns)]
    if not np.all(np.isfinite(matrix)):
        raise ValueError("covariates must be finite")
    if np.linalg.matrix_rank(matrix) < matrix.shape[1]:
        raise ValueError(
            f"the covariates {', '.join(names[1:])} and the intercept depend on each other linearly, or are more than "
            "the documents: leave some out"
        )
    return matrix, names


def effects(
    draws: np.ndarray, alpha: np.ndarray, documents: Documents, covariates: Any, *, seed: int, threads: int | None,
    labels: list[str],
) -> Effects:  # fmt: skip
    """The regression of topic shares on covariates, over draws of the topics."""
    matrix, names = design(covariates, documents.size)
    size, width = matrix.shape
    cross, squares = np.zeros((len(draws), width, alpha.size)), np.zeros((len(draws), alpha.size))
    seeds = apart(documents)
    for where, some in in_parts(documents):
        eta = document_draws(draws, alpha, some, seeds[where], seed=seed, threads=threads)
        cross += np.einsum("np,snk->spk", matrix[where], eta)
        squares += np.square(eta).sum(axis=1)
    inverse = np.linalg.inv(matrix.T @ matrix)
    fitted = inverse @ cross
    residual = np.maximum(squares - (fitted * cross).sum(axis=1), 0.0) / max(1, size - width)
    rng = generator(seed, Purpose.EFFECTS)
    noise = np.linalg.cholesky(inverse) @ rng.standard_normal(cross.shape)
    return Effects(fitted + noise * np.sqrt(residual)[:, None], names, labels=labels)
