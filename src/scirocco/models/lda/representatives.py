"""The documents that a topic is best seen in.

Documents are ranked by the lower end of the interval of their share: a long document that is surely about the topic
comes before a short one that may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.core.credible import quantiles
from scirocco.corpora.documents import Documents
from scirocco.models.lda.documents import apart, document_draws, document_moments, in_parts

if TYPE_CHECKING:
    import pandas as pd

LOOKED_AT = 4  # times the documents that are wanted, by mean and sd
MOMENT_DRAWS = 5  # of the topics, for these


def representatives(
    draws: np.ndarray, alpha: np.ndarray, documents: Documents, topics: Sequence[int], n_documents: int, names: Any, *,
    level: float, seed: int, threads: int | None,
) -> pd.DataFrame:  # fmt: skip
    """The table of the first documents of some topics: those that moments promise, with intervals of draws."""
    import pandas as pd
    from scipy.stats import norm

    some_draws = draws[np.unique(np.linspace(0, len(draws) - 1, MOMENT_DRAWS).astype(int))]
    best: dict[int, list[np.ndarray]] = {k: [] for k in topics}  # (document, mean) of the most promising
    for where, some in in_parts(documents):
        mean, sd = document_moments(some_draws, alpha, some, seed=seed, threads=threads)
        surely = mean + norm.ppf((1 - level) / 2) * sd
        for k in topics:
            chosen = np.argsort(-surely[:, k], kind="stable")[: LOOKED_AT * n_documents]
            best[k].append(np.column_stack([where.start + chosen, mean[chosen, k], surely[chosen, k]]))
    promising = {}
    for k, parts in best.items():
        found = np.concatenate(parts)
        promising[k] = found[np.argsort(-found[:, 2], kind="stable")[: LOOKED_AT * n_documents]]
    numbers = np.unique(np.concatenate([found[:, 0] for found in promising.values()])).astype(int)
    drawn = document_draws(draws, alpha, documents.take(numbers), apart(documents)[numbers], seed=seed, threads=threads)
    tables = []
    for k, found in promising.items():
        number = found[:, 0].astype(int)
        low, high = quantiles(drawn[:, np.searchsorted(numbers, number), k], level)
        first = np.argsort(-low, kind="stable")[:n_documents]
        columns = {"document": names[number[first]], "mean": found[first, 1], "lower": low[first], "upper": high[first]}
        tables.append(pd.DataFrame({"topic": k, **columns}))
    return pd.concat(tables, ignore_index=True)


def names_of_documents(X: Any, names: Any, size: int) -> np.ndarray:
    """Names that are given, the index of a DataFrame, or numbers."""
    if names is None:
        return np.asarray(getattr(X, "index", np.arange(size)))
    found = np.empty(len(names), object)
    found[:] = list(names)
    if len(found) != size:
        raise ValueError(f"names must have one for each of {size} documents; got {len(found)}")
    return found
