"""Documents put aside, on which a search for a start measures whether it still gets better."""

from __future__ import annotations

import numpy as np

from scirocco.models.lda.kernels import sweeps_stream

MOST_DOCUMENTS, LEAST_DOCUMENTS = 300, 30  # documents, but at most a twentieth
TOKENS = 30_000  # that are enough
ROUNDS = 5  # of the fixed point of a document's weights


def held_out_size(size: int, tokens: int) -> int:
    """How many of so many documents with so many tokens."""
    return min(size // 20, int(np.clip(TOKENS * size / max(1, tokens), LEAST_DOCUMENTS, MOST_DOCUMENTS)))


class HeldOut:
    """Documents from number ``first`` on, each split into tokens that are seen and others to be predicted.

    ``words`` has the word of every token and ``starts`` says where the tokens of each document begin. ``columns`` are
    the words that there are.
    """

    def __init__(self, words: np.ndarray, starts: np.ndarray, first: int = 0) -> None:
        self.size = starts.size - 1 - first
        self.columns, places = np.unique(words[starts[first] :], return_inverse=True)
        owner = np.repeat(np.arange(self.size), np.diff(starts[first:]))
        seen = (np.arange(len(owner)) + starts[first] - starts[first:][owner]) % 2 == 0
        self.starts = np.concatenate([[0], np.cumsum(np.bincount(owner[seen], minlength=self.size))])
        self.seen, self.ones = places[seen].astype(np.int32), np.ones(int(seen.sum()), np.int32)
        self.hidden, self.owner = places[~seen], owner[~seen]

    def score(self, phi: np.ndarray, alpha: np.ndarray) -> float:
        """The mean logarithm of the probability of the hidden tokens, given those that are seen.

        ``phi`` has the topics, ``columns`` x topics.
        """
        if not self.hidden.size:
            return 0.0
        weights, none = np.empty((self.size, alpha.size), np.float32), np.empty((0, 0), np.float32)
        sweeps_stream.expected_counts(
            0, self.size, self.starts, self.seen, self.ones, phi, alpha, ROUNDS, none, weights
        )
        weights /= weights.sum(axis=1, keepdims=True)
        return float(np.mean(np.log(np.einsum("ik,ik->i", weights[self.owner], phi[self.hidden]))))
