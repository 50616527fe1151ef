"""Topics merged by hand: several topics of a fitted model become one, in every draw.

    phi = sum_{k in group} s_k phi_k / sum_{k in group} s_k,    alpha = sum_{k in group} alpha_k

with the sizes s_k that the topics have in that draw (``words.sizes``), so that what a merged topic is said to be, its
intervals too, is what the draws say. Kept assignments are renamed: ``update`` goes on with the merged topics.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.corpora.documents import Documents
from scirocco.models.labels import checked_topic
from scirocco.models.lda.agreement import Agreement, align
from scirocco.models.lda.assignments import Assignments
from scirocco.models.lda.engine import TOPICS
from scirocco.models.lda.fitting import named_topics
from scirocco.models.lda.words import sizes

if TYPE_CHECKING:
    from scirocco.models.lda.estimator import LDA


def checked_groups(groups: Any, topics: int) -> list[list[int]]:
    """All topics in groups, those that stay alone too, by their smallest numbers."""
    if isinstance(groups, str) or not isinstance(groups, Sequence | np.ndarray):
        raise TypeError(f"groups must be a list of lists of topics, such as [[0, 3], [1, 5, 6]]; got {groups!r}")
    found, seen = [], set[int]()
    for group in groups:
        if np.ndim(group) != 1:
            raise ValueError(f"groups must be a list of lists of topics, such as [[0, 3], [1, 5, 6]]; got {groups!r}")
        members = sorted(checked_topic("groups", k, topics) for k in group)
        if len(set(members)) < len(members) or seen & set(members):
            raise ValueError(f"groups must name each topic once at most; got {groups!r}")
        seen |= set(members)
        found += [members] if members else []
    return sorted([*found, *([k] for k in range(topics) if k not in seen)])


def merged(model: LDA, groups: Any) -> LDA:
    """A model in which each group of topics is one; the given one stays as it is."""
    groups = checked_groups(groups, len(model.components_))
    together = np.zeros((len(groups), len(model.components_)))
    for number, members in enumerate(groups):
        together[number, members] = 1.0
    draws, single = model.posterior_[TOPICS].values, np.array([members[0] for members in groups])
    mixed = np.flatnonzero(together.sum(axis=1) > 1)
    every = np.ascontiguousarray(draws[:, :, single])
    for chain, own in enumerate(draws):
        weights = sizes(own, model.word_counts_)
        for row in mixed:
            members = groups[row]
            shares = weights[:, members] + 1e-12  # of topics that no token has, equal ones
            shares /= shares.sum(axis=1, keepdims=True)
            every[chain, :, row] = np.einsum("dk,dkw->dw", shares, own[:, members])
    new: LDA = copy.copy(model)
    agreement = Agreement.of(list(every.mean(axis=1, dtype=np.float64)), every)
    kept = {field.name: getattr(model.agreement_, field.name)[..., single].copy() for field in fields(Agreement)}
    for name, values in kept.items():
        values[..., mixed] = getattr(agreement, name)[..., mixed]
    new.agreement_ = replace(agreement, **kept)
    new.components_ = model.components_[single].copy()
    for row in mixed:
        found = every[new.agreement_.matched[:, row], :, row].mean(axis=(0, 1), dtype=np.float64)
        new.components_[row] = found / found.sum()
    new.alpha_ = together @ model.alpha_
    if np.ndim(model.beta) == 2:  # of a merged topic the mean of its priors
        new.beta = new.beta_ = together @ model.beta_ / together.sum(axis=1, keepdims=True)
    new.n_topics, new.alpha = len(groups), new.alpha_.copy()
    new.posterior_, new._n_features_out = named_topics(every, new), len(groups)
    names = [[model.labels_[k] for k in members if model.labels_[k]] for members in groups]
    new.labels_ = [" + ".join(found) for found in names]
    new.merged_ = [[k for own in members for k in model.merged_[own]] for members in groups]
    new._assigned = None if model._assigned is None else _renamed(model._assigned, draws.mean(axis=1), together)
    new._stream, new.inflation_ = None, _inflation(model.inflation_, single, mixed)
    new.seed_words = None  # they name topics that are no more; their counts have done their work
    new._forget("trace_", "moved_")
    return new


def _inflation(inflation: np.ndarray | None, single: np.ndarray, mixed: np.ndarray) -> np.ndarray | None:
    """Known for a merged topic where it is 1, of exact samplers."""
    if inflation is None or (mixed.size and not np.all(inflation == 1)):
        return None
    return inflation[single].copy()


def _renamed(assigned: Assignments, means: np.ndarray, together: np.ndarray) -> Assignments:
    """Topics of all tokens by their groups. Each chain has an order of its own, and ``means`` that of the first."""
    group, topics, alphas, words = together.argmax(axis=0), [], [], assigned.words
    for mean, labels, order, alpha in zip(means, assigned.topics, assigned.orders, assigned.alphas, strict=True):
        own = np.zeros(mean.shape)
        np.add.at(own, (labels, _words_in(assigned.starts, words, order)), 1.0)
        places = align(mean, own / np.maximum(own.sum(axis=1, keepdims=True), 1.0))
        renamed = np.empty_like(group)
        renamed[places] = group
        topics.append(renamed[labels].astype(labels.dtype))
        alphas.append(together @ alpha[places])
    return replace(assigned, topics=topics, alphas=np.array(alphas))


def _words_in(starts: np.ndarray, words: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The word of every token, documents in another order."""
    return words[Documents(starts, words, words, 0).entries(order)]
