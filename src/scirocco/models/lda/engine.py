"""LDA on the runner: one chain of topics, from memory or from a stream."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from scirocco.counts.chains import Chain
from scirocco.counts.packing import Arrays
from scirocco.counts.passes import PassEngine
from scirocco.models.lda.agreement import align
from scirocco.run.moments import Moments
from scirocco.run.result import GroupResult
from scirocco.run.second_half import Values
from scirocco.run.store import Draws, Variable

TOPICS = "topics"
ORDER = "topic_order"  # of a chain's own topics, that matches those of the first chain


class TopicChain(Chain):
    """A chain of topics with priors ``alpha`` (by topic) and ``beta`` (by word)."""

    alpha: np.ndarray
    beta: np.ndarray

    @abstractmethod
    def draw(self) -> np.ndarray:
        """A draw of the topics, topics x words."""

    @abstractmethod
    def mean(self) -> np.ndarray:
        """Their expectation, if it is known: less noise in averages."""

    @abstractmethod
    def inflation(self) -> np.ndarray | None:
        """The predicted sd of each probability over the posterior's, topics x words (or x 1); None if not known."""

    @abstractmethod
    def found(self) -> np.ndarray:
        """The topics so far, topics x words, without drawing any; of a search too."""

    def assignments(self) -> Arrays:
        """The topics of all tokens, if they are kept: ``topics`` by token, documents in the ``order`` of the chain."""
        return {}


class TopicEngine(PassEngine[TopicChain]):
    """Chain number ``number``; ``make`` gives its sampler at the start (``KeptGibbs``, ``StreamFit``, ...)."""

    def __init__(
        self, make: Callable[[], TopicChain], number: int, *, draws: int, passes: float, topics: int, vocabulary: int,
        tokens: int,
    ) -> None:  # fmt: skip
        variables = {TOPICS: Variable((topics, vocabulary), np.dtype(np.float32), ("topic", "word"))}
        super().__init__(make, number, variables, draws=draws, passes=passes, tokens=tokens)

    def recorded(self, *, draw: bool) -> tuple[Values, Values]:
        """Topics given the assignments."""
        drawn = {TOPICS: self.chain.draw()} if draw else {}
        return {TOPICS: self.chain.mean()}, drawn

    def leaves(self) -> Arrays:
        """Passes, priors, what minibatches add to sds, assignments if they are kept; topics, if there is no draw."""
        chain, inflation = self.chain, self.chain.inflation()
        found = {"passes": np.asarray(float(self.work[0])), "alpha": chain.alpha, "beta": chain.beta}
        found |= {f"assigned/{name}": array for name, array in chain.assignments().items()}
        if inflation is not None:
            found["inflation"] = inflation
        if not self.second_half.records:
            found["topics"] = chain.found()
        return found

    def arranged(self, groups: Sequence[GroupResult]) -> list[GroupResult]:
        """The topics of all chains in the order of the first; leaves say which order that is of their own."""
        return [_ordered(group, order) for group, order in zip(groups, _alignments(groups), strict=True)]


def _ordered(group: GroupResult, order: np.ndarray | None) -> GroupResult:
    """The result of a chain with its topics in another order, None for its own."""
    leaves = group.leaves
    if leaves:
        leaves = leaves | {ORDER: np.arange(leaves["alpha"].size) if order is None else order}
    if order is None:
        return replace(group, leaves=leaves)
    moments = group.moments
    tables = ({**t, TOPICS: t[TOPICS][:, order]} for t in (moments.mean, moments.square))

    def read() -> Draws:
        draws = group.read()
        return {**draws, TOPICS: draws[TOPICS][:, :, order]}

    return replace(group, moments=Moments(moments.count, *tables), read=read, leaves=leaves)


def _alignments(groups: Sequence[GroupResult]) -> list[np.ndarray | None]:
    """For each chain the order of its topics that matches those of the first; None for its own, or without records."""
    tables = [group.moments.mean[TOPICS][0] if group.moments.mean else None for group in groups]
    first = next((table for table in tables if table is not None), None)
    return [None if t is None or first is None or t is first else align(first, t) for t in tables]
