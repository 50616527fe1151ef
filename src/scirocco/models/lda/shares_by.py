"""Topics over time, or over any other groups of documents: the mean share of each topic in each group.

For every draw of the topics and of the documents' weights eta (``documents.document_draws``)

    share_gk = sum_{d in g} v_d eta_dk / sum_{d in g} v_d

with v_d = 1 for the documents themselves; where they are a sample of their group v_d ~ Exponential(1), the Bayesian
bootstrap (Rubin 1981), adds what the choice of documents does. Only sums are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.core.credible import quantiles
from scirocco.core.seeds import Purpose, generator
from scirocco.corpora.documents import Documents
from scirocco.models.lda.documents import apart, document_draws, in_parts

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class GroupShares:
    """Draws of the shares, (draw, group, topic), the groups in their order and how many documents each has."""

    draws: np.ndarray
    groups: pd.Index
    documents: np.ndarray
    labels: list[str]

    def table(self, level: float = 0.9) -> pd.DataFrame:
        """Mean and interval of each topic's share, by topic and group."""
        import pandas as pd

        low, high = quantiles(self.draws, level)
        topics, name = self.draws.shape[2], self.groups.name or "group"
        index = pd.MultiIndex.from_product([range(topics), self.groups], names=["topic", name])
        columns = {"mean": self.draws.mean(axis=0), "lower": low, "upper": high}
        table = pd.DataFrame({key: values.T.reshape(-1) for key, values in columns.items()}, index=index)
        table["documents"] = np.tile(self.documents, topics)
        if any(self.labels):
            table.insert(0, "label", np.repeat(np.asarray(self.labels, object), len(self.groups)))
        return table

    def plot(self, topics: Any = None, *, level: float = 0.9, ax: Any = None) -> Any:
        """The shares of some topics as lines: see ``plots.shares_by``."""
        from scirocco import plots

        return plots.shares_by(self, topics, level=level, ax=ax)

    def __str__(self) -> str:
        wide = self.table()["mean"].unstack(0)
        wide.columns = [f"{k} {label}".rstrip() for k, label in enumerate(self.labels)]
        wide.insert(0, "documents", self.documents)
        return f"{wide.to_string(float_format=lambda x: f'{x:.3f}')}\nmean shares; intervals: table()"

    __repr__ = __str__


def shares_by(
    draws: np.ndarray, alpha: np.ndarray, documents: Documents, by: Any, period: str | None, labels: list[str], *,
    sampled: bool, seed: int, threads: int | None,
) -> GroupShares:  # fmt: skip
    """The shares of all topics in all groups."""
    which, groups = grouped(by, period, documents.size)
    counts = np.bincount(which, minlength=len(groups))
    sums, totals = np.zeros((len(draws), len(groups), alpha.size)), np.zeros((len(draws), len(groups)))
    seeds, rng = apart(documents), generator(seed, Purpose.GROUP_SHARES)
    for where, some in in_parts(documents):
        eta = document_draws(draws, alpha, some, seeds[where], seed=seed, threads=threads)
        weights = rng.exponential(size=(some.size, len(draws))).T if sampled else np.ones((len(draws), some.size))
        for i, each in enumerate(weights):
            np.add.at(sums[i], which[where], each[:, None] * eta[i])
            totals[i] += np.bincount(which[where], each, minlength=len(groups))
    return GroupShares(sums / totals[..., None], groups, counts, labels)


def grouped(by: Any, period: str | None, size: int) -> tuple[np.ndarray, pd.Index]:
    """The number of each document's group, and the groups in their order."""
    import pandas as pd

    column = by if isinstance(by, pd.Series) else pd.Series(np.asarray(by) if np.ndim(by) == 1 else [by])
    if isinstance(by, str) or np.ndim(by) != 1 or len(column) != size:
        raise ValueError(f"by must have one value for each of {size} documents; got shape {np.shape(by)}")
    if column.isna().any():
        raise ValueError(f"by must not be missing; {int(column.isna().sum())} of {size} values are")
    if period is not None:
        if column.dtype.kind != "M":
            raise ValueError(f"period needs dates: by must be of dtype datetime64; got {column.dtype}")
        try:
            column = column.dt.to_period(period)
        except (ValueError, AttributeError) as error:
            raise ValueError(f'period must be one that pandas knows, such as "Y" or "M"; got {period!r}') from error
    which, groups = pd.factorize(column, sort=True)
    return which, pd.Index(groups, name=column.name)
