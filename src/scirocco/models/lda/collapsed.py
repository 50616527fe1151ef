"""Which kernel sweeps over kept assignments: topics are looked at, all of them, or proposed, two at a time."""

from __future__ import annotations

import numpy as np

from scirocco.counts.estimators import KeptCounts
from scirocco.models.lda.kernels import sweeps_kept, sweeps_proposed

MANY = 1000  # measured: at 300 sweeps that look at all led sooner to good topics, from 600 on proposals did


def are_many(topics: int) -> bool:
    """Whether so many topics are better proposed than looked at."""
    return topics >= MANY


def sweep_collapsed(
    key: np.ndarray, call: int, begin: int, end: int, starts: np.ndarray, kept: KeptCounts, alpha: np.ndarray,
    beta: np.ndarray, *, fresh: bool = False,
) -> None:  # fmt: skip
    """Documents ``begin`` to ``end``, the topics integrated out; ``alpha`` is padded as the table of counts is.

    ``fresh`` documents, and those after them, have no topics yet.
    """
    if are_many(kept.rows):
        sweeps_proposed.sweep_collapsed(
            key, call, begin, end, starts, kept.codes, kept.labels, *kept.by_code, kept.table, kept.totals,
            alpha.astype(np.float64), beta, kept.rows, fresh,
        )  # fmt: skip
    else:
        sweeps_kept.sweep_collapsed(
            key, call, 0, begin, end, starts, kept.codes, kept.labels, kept.table, kept.totals, alpha,
            beta.astype(np.float32), np.float32(beta.sum()), kept.rows, fresh,
        )  # fmt: skip
