"""New documents and new words for a model that is fitted: its topics stay recognisable.

Assignments of the documents so far are kept with the model. An update assigns the new documents given them, and the
chains go on over all. A new word enters with its prior: no old token has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from scirocco.corpora.documents import Documents
from scirocco.corpora.store import Corpus
from scirocco.models.inputs import COUNTS, check_array, names_of

LISTED = 5  # words named in an error


class InOrder(NamedTuple):
    """Every token of all documents, in their order: its word, and its topic in each chain (chain, token)."""

    starts: np.ndarray  # document d has tokens starts[d] to starts[d + 1]
    words: np.ndarray
    topics: np.ndarray
    alphas: np.ndarray  # (chain, topic), the prior of each chain

    def joined(self, documents: Documents) -> Documents:
        """These documents, token by token, and others after them."""
        own = Documents(self.starts, self.words, np.ones(self.words.size, np.int32), documents.width)
        return Documents.joined([own, documents])


@dataclass(frozen=True, eq=False)
class Assignments:
    """What chains have assigned, as they left it: each has the documents in an order of its own."""

    orders: list[np.ndarray]  # which document stands where
    starts: list[np.ndarray]
    words: list[np.ndarray]
    topics: list[np.ndarray]
    alphas: np.ndarray

    @classmethod
    def of(cls, chains: Sequence[Any]) -> Assignments:
        """Those of chains with kept labels."""
        kept = [chain.kept for chain in chains]
        orders, starts = ([getattr(chain, name) for chain in chains] for name in ("order", "token_starts"))
        alphas = np.array([chain.alpha for chain in chains], np.float64)
        return cls(orders, starts, [k.codes for k in kept], [k.labels for k in kept], alphas)

    def in_order(self) -> InOrder:
        """All chains in the order of the documents, which takes as long as a sweep."""
        topics, words, starts = [], None, None
        for order, own, codes, labels in zip(self.orders, self.starts, self.words, self.topics, strict=True):
            back = np.argsort(order)
            places = Documents(own, codes, codes, 0).entries(back)
            topics.append(labels[places])
            if words is None:
                starts, words = np.concatenate([[0], np.cumsum(np.diff(own)[back])]), codes[places]
        assert starts is not None
        assert words is not None
        return InOrder(starts, words, np.array(topics), self.alphas)

    def pack(self) -> dict[str, np.ndarray]:
        """Arrays by name."""
        return {f"assigned_{name}": array for name, array in self.in_order()._asdict().items()}

    @classmethod
    def unpack(cls, arrays: dict[str, np.ndarray]) -> Assignments | None:
        """The inverse of ``pack``; None if there are none."""
        if "assigned_words" not in arrays:
            return None
        starts, words, topics, alphas = (arrays[f"assigned_{name}"] for name in InOrder._fields)
        chains, order = len(topics), np.arange(len(starts) - 1)
        return cls([order] * chains, [starts] * chains, [words] * chains, list(topics), alphas)


def widened(X: Any, vocabulary: Any, known: Any, width: int) -> tuple[Any, np.ndarray | None, int]:
    """Counts with a column for each word of the model and for new ones after them; the names; how many words are new.

    ``known`` are the names of the model's ``width`` words, None if it has none; ``vocabulary`` those of the columns
    of ``X``, by default the model's own. Without names columns mean what they meant, and further ones are new words.
    """
    if isinstance(X, Corpus):
        X, vocabulary = X.load().matrix(), X.vocabulary if vocabulary is None else vocabulary
    if vocabulary is None:
        vocabulary = names_of(X)
    matrix = sp.csr_array(check_array(X, accept_sparse="csr", dtype=COUNTS))
    if vocabulary is None:
        new = matrix.shape[1] - width
        if new and known is not None:
            raise ValueError(
                f"X has {matrix.shape[1]} columns, but the model knows {width} words by name: say which words they "
                "are, vocabulary="
            )
        if new < 0:
            raise ValueError(f"X has {matrix.shape[1]} columns, fewer than the {width} words of the model")
        return matrix, known, new
    names = np.asarray(vocabulary, dtype=object)
    if names.shape != (matrix.shape[1],):
        raise ValueError(f"vocabulary must name the {matrix.shape[1]} columns of X; got {names.shape}")
    words, counts = np.unique(names.astype(str), return_counts=True)
    if np.any(counts > 1):
        raise ValueError(f"vocabulary has words more than once: {', '.join(words[counts > 1][:LISTED])}")
    if known is None:
        raise ValueError(
            "the model does not know its words by name, so that columns with names cannot be told apart: fit it on a "
            "corpus or a DataFrame, or leave vocabulary out and keep the order of the columns, new words last"
        )
    places = {str(word): j for j, word in enumerate(known)}
    fresh = [name for name in names if str(name) not in places]
    places |= {str(name): width + j for j, name in enumerate(fresh)}
    columns = np.array([places[str(name)] for name in names], np.int64)
    matrix = sp.csr_array((matrix.data, columns[matrix.indices], matrix.indptr), shape=(matrix.shape[0], len(places)))
    matrix.sort_indices()
    return matrix, np.array([*known, *fresh], dtype=object), len(fresh)


def grown_topics(topics: np.ndarray, new: int, prior: np.ndarray, total: float) -> np.ndarray:
    """Topics (..., word) with ``new`` words after the others, at their prior share of a topic of ``total`` tokens."""
    if not new:
        return topics
    share = prior[-new:] / (total + prior.sum())
    added = np.broadcast_to(share, (*topics.shape[:-1], new))
    return np.concatenate([topics * (1 - share.sum()), added], axis=-1).astype(topics.dtype)
