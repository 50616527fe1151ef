"""Which kernel sweeps over kept assignments: topics are looked at, all of them, or proposed, two at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scirocco.counts.estimators import KeptCounts
from scirocco.models.lda.cells import Cells
from scirocco.models.lda.kernels import sweeps_proposed

MANY = 1000  # measured: at 300 sweeps that look at all led sooner to good topics, from 600 on proposals did


def are_many(topics: int) -> bool:
    """Whether so many topics are better proposed than looked at."""
    return topics >= MANY


def sweep_collapsed(
    key: np.ndarray, next_call: Callable[[], int], begin: int, end: int, cells: Cells, kept: KeptCounts,
    alpha: np.ndarray, beta: np.ndarray, threads: int | None, *, fresh: bool = False,
) -> None:  # fmt: skip
    """Documents ``begin`` to ``end``, the topics integrated out; ``alpha`` is padded as the table of counts is.

    ``fresh`` documents, and those after them, have no topics yet.
    """
    if are_many(kept.rows):
        sweeps_proposed.sweep_collapsed(
            key, next_call(), begin, end, cells.starts, kept.codes, kept.labels, *kept.by_code, kept.table,
            kept.totals, alpha.astype(np.float64), beta, kept.rows, fresh,
        )  # fmt: skip
    else:
        cells.sweep(key, next_call, begin, end, kept, alpha, beta, threads, fresh=fresh)
