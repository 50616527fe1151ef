"""Seeded topics: words that a reader wants in a topic.

    phi_k ~ Dirichlet(beta + s_k),    s_kw = max(1, round(weight * occurrences of w)) for seed words w of topic k

Whole numbers, so that the prior is that of s_kw tokens which no document has and nobody moves: they stand in the table
of counts from the beginning, and the search for a start, the samplers and the draws all see them there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scirocco.core.checks import real_number
from scirocco.models.lda.gibbs import CollapsedGibbs, KeptGibbs


def checked_seed_words(seed_words: Any, topics: int, names: Any, width: int) -> tuple[list[list[int]], list[str]]:
    """The columns of each topic's seed words, and the labels of the topics, "" where there are none."""
    by_label = isinstance(seed_words, Mapping)
    if isinstance(seed_words, str) or not (by_label or isinstance(seed_words, Sequence)):
        raise TypeError(f"seed_words must be {{label: words}} or a list of lists of words; got {seed_words!r}")
    lists = list(seed_words.values()) if by_label else list(seed_words)
    if len(lists) > topics:
        raise ValueError(f"seed_words has {len(lists)} topics, but n_topics is {topics}")
    places = {str(name): j for j, name in enumerate(names)} if names is not None else {}
    found = []
    for words in lists:
        if isinstance(words, str) or not isinstance(words, Sequence):
            raise TypeError(f"seed_words must have a list of words for each topic; got {words!r}")
        found.append([_column(word, places, width) for word in words])
    labels = [str(label) for label in seed_words] if by_label else [""] * len(lists)
    return found, labels + [""] * (topics - len(labels))


def _column(word: Any, places: dict[str, int], width: int) -> int:
    """The place of a word, by its name or, where words have none, by its number."""
    if isinstance(word, str) and word in places:
        return places[word]
    if not isinstance(word, str | bool) and isinstance(word, int | np.integer) and 0 <= word < width:
        return int(word)
    known = "in the vocabulary" if places else f"a column, from 0 to {width - 1}: the words of X have no names"
    raise ValueError(f"seed_words must be words of the model; {word!r} is not {known}")


def seed_counts(columns: list[list[int]], weight: Any, counts: np.ndarray, topics: int) -> np.ndarray:
    """The tokens that nobody has, words x topics."""
    weight = real_number("seed_weight", weight, least=0.0, open_end=True)
    found = np.zeros((counts.size, topics), np.int32)
    for k, words in enumerate(columns):
        found[words, k] = np.maximum(1, np.round(weight * counts[words]))
    return found


class SeededGibbs(KeptGibbs):
    """``KeptGibbs`` with tokens that nobody has."""

    def lend(self, lent: np.ndarray) -> None:
        """Tokens that nobody has, words x topics: before the first step."""
        self.kept.lend(lent)
        if not self.search.done:
            self.search._give_up()  # expectation maximisation knows nothing of them: doubling alone


class SeededCollapsedGibbs(SeededGibbs, CollapsedGibbs):
    """``CollapsedGibbs`` with tokens that nobody has."""
