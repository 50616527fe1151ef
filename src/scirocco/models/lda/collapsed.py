"""Collapsed sweeps, by the kernel that suits the number of topics."""

from __future__ import annotations

import numpy as np

from scirocco.counts.estimators import KeptCounts
from scirocco.models.lda.kernels import sweeps_kept, sweeps_proposed

MANY = 600  # topics, from which on those of a token are proposed, two at a time, in place of looking at all


def are_many(topics: int) -> bool:
    """Whether so many topics are better proposed than looked at."""
    return topics >= MANY


class CollapsedSweeps:
    """Sweeps over ``kept`` assignments of documents, whose tokens begin at ``starts``.

    ``alpha`` is padded as the table of counts is.
    """

    def __init__(self, kept: KeptCounts, starts: np.ndarray, key: np.ndarray) -> None:
        self.kept, self.starts, self.key = kept, starts, key
        self.many = are_many(kept.rows)

    def block(
        self, call: int, block: int, begin: int, end: int, *, alpha: np.ndarray, beta: np.ndarray, table: np.ndarray,
        totals: np.ndarray, have: int, fresh: bool = False, seen: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        """Documents ``begin`` to ``end``, on a table of counts that nobody else changes; ``have`` of all have topics.

        ``seen`` has the topics of all tokens as they were, if other blocks change them meanwhile.
        """
        kept, starts = self.kept, self.starts
        if self.many:
            sweeps_proposed.sweep_collapsed(
                self.key, call, block, begin, end, starts, kept.codes, kept.labels,
                kept.labels if seen is None else seen, *kept.by_code, int(starts[have]), table, totals,
                alpha.astype(np.float64), beta.astype(np.float64), kept.rows, fresh,
            )  # fmt: skip
            return
        sweeps_kept.sweep_collapsed(
            self.key, call, block, begin, end, starts, kept.codes, kept.labels, table, totals, alpha,
            beta.astype(np.float32), np.float32(beta.sum()), kept.rows, fresh,
        )  # fmt: skip
