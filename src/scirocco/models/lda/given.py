"""Given topics: the assignments of documents, which are independent; and topics given the counts of assignments."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np

from scirocco.core.compiled import over_blocks
from scirocco.counts.estimators import KeptCounts
from scirocco.models.lda.collapsed import are_many
from scirocco.models.lda.engine import TopicChain
from scirocco.models.lda.kernels import sweeps_kept, sweeps_proposed
from scirocco.models.lda.kernels.vector_draw import padded
from scirocco.simplex.exact import draw_gammas


def padded_alpha(alpha: np.ndarray) -> np.ndarray:
    """As rows of topics are."""
    return np.pad(alpha, (0, padded(alpha.size) - alpha.size))


def sweep_given(
    key: np.ndarray, next_call: Callable[[], int], begin: int, end: int, starts: np.ndarray, kept: KeptCounts,
    phi: np.ndarray, alpha: np.ndarray, threads: int | None,
) -> None:  # fmt: skip
    """New assignments of documents ``begin`` to ``end``, whose tokens begin at ``starts``, and their counts.

    ``phi`` is words x topics, padded.
    """
    low, high = starts[begin], starts[end]
    old, call = kept.labels[low:high].copy(), next_call()
    if not are_many(kept.rows):
        blocks, wide = -(-(end - begin) // sweeps_kept.DOCUMENTS), padded_alpha(alpha)
        over_blocks(
            lambda first, last: sweeps_kept.sweep_given(
                key, call, first, last, begin, end, starts, kept.codes, kept.labels, phi, wide, kept.rows
            ),
            blocks,
            threads,
        )
    else:
        proposed = _proposed(key, next_call(), low, high, kept, phi, threads)
        over_blocks(
            lambda first, last: sweeps_proposed.sweep_given(
                key, call, first, last, begin, end, starts, kept.codes, kept.labels, proposed, phi, alpha, kept.rows
            ),
            -(-(end - begin) // sweeps_proposed.DOCUMENTS),
            threads,
        )
    kept.moved(low, old)


def _proposed(
    key: np.ndarray, call: int, low: int, high: int, kept: KeptCounts, phi: np.ndarray, threads: int | None
) -> np.ndarray:  # fmt: skip
    """A topic for each token from ``low`` to ``high``, drawn from its word's row of phi."""
    starts, places = kept.by_code
    lows, highs = (sweeps_proposed.in_reach(starts, places, int(limit)) for limit in (low, high))
    proposed = np.empty(high - low, kept.labels.dtype)
    over_blocks(
        lambda first, last: sweeps_proposed.propose(
            key, call, first, last, starts, places, lows, highs, phi, kept.rows, int(low), proposed
        ),
        -(-kept.categories // sweeps_proposed.WORDS),
        threads,
    )
    return proposed


class CountedTopics(TopicChain):
    """A chain whose topics, given the counts of all assignments, are Dirichlet."""

    key: np.ndarray
    threads: int | None

    @property
    @abstractmethod
    def counts(self) -> np.ndarray:
        """Of all assignments, words x topics."""

    @property
    @abstractmethod
    def totals(self) -> np.ndarray:
        """Sums of the counts by topic."""

    @abstractmethod
    def next_call(self) -> int:
        """The number of the next stream of random numbers."""

    @property
    def prior(self) -> np.ndarray:
        """Of the topics, words x topics, or x 1 where it is the same for all."""
        return self.beta[:, None]

    def draw(self) -> np.ndarray:
        """Topics given all assignments, topics x words."""
        theta = draw_gammas(self.key, self.next_call(), self.counts + self.prior, self.threads)
        return np.ascontiguousarray((theta / theta.sum(axis=0)).T, dtype=np.float32)

    def mean(self) -> np.ndarray:
        """The expectation of ``draw``: less noise in averages."""
        if are_many(self.alpha.size):  # in the memory of one table
            found = np.add(self.counts, self.prior, dtype=np.float32, casting="unsafe")
            found /= (self.totals + self.prior.sum(axis=0)).astype(np.float32)
            return found.T
        parameter = self.counts + self.prior
        return (parameter / parameter.sum(axis=0)).T

    def inflation(self) -> np.ndarray | None:
        """Exact: minibatches add no noise."""
        return None if self.searching else np.ones((self.alpha.size, 1))
