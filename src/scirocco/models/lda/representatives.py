"""The documents that a topic is best seen in.

Documents are ranked by the lower end of the interval of their share: a long document that is surely about the topic
comes before a short one that may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.corpora.documents import Documents
from scirocco.models.lda.credible import beta_interval
from scirocco.models.lda.documents import document_moments, in_parts

if TYPE_CHECKING:
    import pandas as pd

LOOKED_AT = 5  # times the documents that are wanted, by mean and sd


def representatives(
    draws: np.ndarray, alpha: np.ndarray, documents: Documents, topics: Sequence[int], n_documents: int, names: Any, *,
    level: float, seed: int, threads: int | None,
) -> pd.DataFrame:  # fmt: skip
    """The table of the first documents of some topics."""
    import pandas as pd
    from scipy.stats import norm

    kept = LOOKED_AT * n_documents
    best: dict[int, list[np.ndarray]] = {k: [] for k in topics}  # (document, mean, sd) of the most promising
    for where, some in in_parts(documents):
        mean, sd = document_moments(draws, alpha, some, seed=seed, threads=threads)
        surely = mean + norm.ppf((1 - level) / 2) * sd
        for k in topics:
            chosen = np.argsort(-surely[:, k], kind="stable")[:kept]
            best[k].append(np.column_stack([where.start + chosen, mean[chosen, k], sd[chosen, k]]))
    tables = []
    for k in topics:
        number, mean, sd = np.concatenate(best[k]).T
        low, high = beta_interval(mean, sd**2, level)
        first = np.argsort(-low, kind="stable")[:n_documents]
        found = {"document": names[number[first].astype(int)], "mean": mean[first], "lower": low[first]}
        tables.append(pd.DataFrame({"topic": k, **found, "upper": high[first]}))
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
