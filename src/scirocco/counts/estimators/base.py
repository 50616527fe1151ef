"""The grammar of count estimators.

An estimator is a frozen dataclass: ``counts`` turns a minibatch into an unbiased estimate of the counts of all data.
What it keeps from step to step stands in ``state``, named arrays that it changes in place, so that any engine can
save it. Estimators know no model: it comes as a ``LocalStep``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from scirocco.core.parts import part
from scirocco.counts.local import LocalStep
from scirocco.counts.minibatches import Minibatch
from scirocco.simplex.base import Centre, Counts, State


class CountEstimator(ABC):
    """Estimates the counts of all data from minibatches."""

    signed = False  # whether estimates can fall below 0, which only samplers on natural parameters take
    remembers = False  # whether it needs to know which observations a minibatch has

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        part(cls)

    def survey(self, local: LocalStep, state: State) -> Iterator[Minibatch]:
        """What must be counted before the first step, part by part; yields each part once it is counted."""
        del local, state
        yield from ()

    @abstractmethod
    def counts(self, local: LocalStep, batch: Minibatch, state: State) -> Counts:
        """The estimate of a step."""

    def centre(self, state: State) -> Centre | None:
        """The centre of ``SCIRCV`` at present."""
        del state
        return None
