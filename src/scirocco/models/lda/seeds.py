"""Topics that are not alike beforehand: words that a reader wants in a topic, or a prior for each.

    phi_k ~ Dirichlet(beta + s_k),    s_kw = max(1, round(weight * occurrences of w)) for seed words w of topic k

Whole numbers, so that the prior is that of s_kw tokens which no document has and nobody moves: they stand in the table
of counts, where samplers and draws see them. The search for a start is that of any fit; of the topics that it finds
each seeded one gets those in which its seed words mostly are, one to one.

A table ``beta``, topics x words, is any prior. It is for ``InformedGibbs``, which draws the topics: a collapsed sweep
reads one number of a common prior beside the counts of a word, and would read as many more as there are topics. The
search has the mean of the priors, and its topics go to those under which their tokens are most likely, integrated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln

from scirocco.core.checks import real_number
from scirocco.corpora.documents import Documents
from scirocco.counts.packing import Arrays
from scirocco.models.lda.gibbs import CollapsedGibbs, KeptGibbs

MATCHED = 10**7  # gamma functions for which topics are compared with their priors


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

    lent: np.ndarray
    _in_order = False

    def lend(self, lent: np.ndarray, *, in_order: bool) -> None:
        """Before the first step: the tokens, words x topics, and whether topics have their order by now."""
        self.lent, self._in_order = lent, in_order
        if self.sampling:
            self._seed()

    def step(self) -> None:
        """The search ends with topics in the order of the seeds."""
        before = self.searching
        super().step()
        if before and self.sampling:
            self._seed()

    def unpack(self, arrays: Arrays) -> None:
        """The inverse of ``pack``."""
        super().unpack(arrays)
        self._in_order = self.sampling
        if self.sampling:
            self._seed()

    def _places(self) -> np.ndarray:
        """For each topic found the number that it gets."""
        return matching(self.lent, self.kept.used)

    def _seed(self) -> None:
        kept = self.kept
        if not self._in_order:
            kept.labels[:] = self._places()[kept.labels]
            kept.clear()
            kept.add(0, kept.size)
        kept.used[:] += self.lent
        kept.totals += self.lent.sum(axis=0)


class InformedGibbs(SeededGibbs):
    """``KeptGibbs`` with a prior ``beta`` for each topic, topics x words."""

    def __init__(self, documents: Documents, alpha: np.ndarray, beta: np.ndarray, **options: Any) -> None:
        super().__init__(documents, alpha, beta.mean(axis=0), **options)
        self.beta = beta
        self.lend(np.zeros((1, self.topics), np.int32), in_order=options.get("assigned") is not None)

    @property
    def prior(self) -> np.ndarray:
        """Of the topics, words x topics."""
        return self.beta.T

    def _places(self) -> np.ndarray:
        return informed(self.beta, self.kept.used)


class SeededCollapsedGibbs(SeededGibbs, CollapsedGibbs):
    """``CollapsedGibbs`` with tokens that nobody has."""


def matching(lent: np.ndarray, used: np.ndarray) -> np.ndarray:
    """For each topic found the number that it gets: seed words vote for the topics that have most of their tokens."""
    shares = used / np.maximum(used.sum(axis=1, keepdims=True), 1)
    seeded = np.flatnonzero(lent.any(axis=0))
    votes = (lent[:, seeded] > 0).T @ shares / (lent[:, seeded] > 0).sum(axis=0)[:, None]
    rows, found = linear_sum_assignment(-votes)
    places = np.full(used.shape[1], -1)
    places[found] = seeded[rows]
    places[places < 0] = np.setdiff1d(np.arange(used.shape[1]), seeded)
    return places


def informed(beta: np.ndarray, used: np.ndarray) -> np.ndarray:
    """For each topic found the number that it gets: priors and counts are paired so that counts are most likely."""
    differ = np.flatnonzero(np.ptp(beta, axis=0))  # other words have the same part in all pairs
    most = np.argsort(-used[differ].sum(axis=1), kind="stable")[: max(1, MATCHED // len(beta) ** 2)]
    counts, sums = used[differ[most]], used.sum(axis=0)
    scores = np.empty((len(beta), len(beta)))
    for k, prior in enumerate(beta):
        own = prior[differ[most], None]
        scores[:, k] = (gammaln(own + counts) - gammaln(own)).sum(axis=0)
        scores[:, k] += gammaln(prior.sum()) - gammaln(prior.sum() + sums)
    return np.asarray(linear_sum_assignment(-scores)[1])
