"""How what a model finds of rows depends on what else is known of them: draws of coefficients as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.core.credible import quantiles

if TYPE_CHECKING:
    import pandas as pd

INTERCEPT = "intercept"


@dataclass(frozen=True, eq=False)
class Effects:
    """Draws of the coefficients, (draw, covariate, topic or cluster), and the names of the covariates."""

    draws: np.ndarray
    names: list[str]
    note: str = ""
    of: str = "topic"
    each: Sequence[Any] | None = None
    """What the last axis of ``draws`` has; numbers if it is left out."""
    labels: Sequence[str] = ()
    """Texts to be shown beside, if any is not empty."""

    def table(self, level: float = 0.9) -> pd.DataFrame:
        """Mean, sd, interval and the probability of being positive, by topic or cluster and covariate."""
        import pandas as pd

        low, high = quantiles(self.draws, level)
        columns = {
            "mean": self.draws.mean(axis=0), "sd": self.draws.std(axis=0, ddof=1), "lower": low, "upper": high,
            "positive": (self.draws > 0).mean(axis=0),
        }  # fmt: skip
        each = range(self.draws.shape[2]) if self.each is None else self.each
        index = pd.MultiIndex.from_product([each, self.names], names=[self.of, "covariate"])
        table = pd.DataFrame({name: values.T.reshape(-1) for name, values in columns.items()}, index=index)
        if any(self.labels):
            table.insert(0, "label", np.repeat(np.asarray(self.labels, object), len(self.names)))
        return table

    def __str__(self) -> str:
        table = self.table().to_string(float_format=lambda x: f"{x:.4g}")
        return f"{table}\n{self.note}" if self.note else table

    __repr__ = __str__


def design(covariates: Any, rows: int, things: str = "documents") -> tuple[np.ndarray, list[str]]:
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
            raise ValueError(
                f"covariates must be a table with a row for each of {rows} {things}; got shape {array.shape}"
            )
        covariates = {f"x{j}": array[:, j] for j in range(array.shape[1])}
    table = pd.DataFrame(covariates).reset_index(drop=True)
    if len(table) != rows:
        raise ValueError(f"covariates must have a row for each of {rows} {things}; got {len(table)}")
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
            f"the {things}: leave some out"
        )
    return matrix, names
