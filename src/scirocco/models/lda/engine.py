"""LDA on the runner: one chain of topics, from memory or from a stream."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scirocco.counts.chains import Chain
from scirocco.counts.passes import PassEngine
from scirocco.models.lda.agreement import align
from scirocco.run.moments import Moments
from scirocco.run.result import GroupResult
from scirocco.run.second_half import Values
from scirocco.run.store import Draws, Variable

TOPICS = "topics"


class TopicChain(Chain):
    """A chain of topics with priors ``alpha`` (by topic) and ``beta`` (by word)."""

    alpha: np.ndarray
    beta: np.ndarray

    @abstractmethod
    def draw(self) -> np.ndarray:
        """The topics, topics x words; while it searches, what is found so far."""

    @abstractmethod
    def mean(self) -> np.ndarray:
        """Their expectation, if it is known: less noise in averages."""

    @abstractmethod
    def inflation(self) -> np.ndarray | None:
        """The predicted sd of each probability over that of the posterior, topics x words; None if not known."""


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

    def arranged(self, groups: Sequence[GroupResult]) -> list[GroupResult]:
        """The topics of all chains in the order of the first."""
        return [_ordered(group, order) for group, order in zip(groups, _alignments(groups), strict=True)]


def _ordered(group: GroupResult, order: Any) -> GroupResult:
    """The result of a chain with its topics in another order."""
    moments = group.moments
    tables = ({**t, TOPICS: t[TOPICS][:, order]} if t else t for t in (moments.mean, moments.square))

    def read() -> Draws:
        draws = group.read()
        return {**draws, TOPICS: draws[TOPICS][:, :, order]}

    return replace(group, moments=Moments(moments.count, *tables), read=read)


def _alignments(groups: Sequence[GroupResult]) -> list[Any]:
    return alignments([group.moments for group in groups])


def alignments(moments: Sequence[Moments]) -> list[Any]:
    """For each chain the order of its topics that matches those of the first; as they are where nothing is recorded."""
    tables: list[Any] = [known.mean[TOPICS][0] if known.mean else None for known in moments]
    first: Any = next((table for table in tables if table is not None), None)
    return [slice(None) if t is None or t is first else align(first, t) for t in tables]
