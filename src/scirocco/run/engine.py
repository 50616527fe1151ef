"""What the runner needs of an engine: a group of chains that advance in place and can be packed into arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from scirocco.core.clock import Clock
from scirocco.run.moments import Moments
from scirocco.run.recording import Recording
from scirocco.run.second_half import SecondHalf
from scirocco.run.store import Draws, Variables


class Chunk(NamedTuple):
    """What a stretch of steps made."""

    draws: Draws  # (chain, draw, ...)
    made: int
    # Sums of the first and second powers of deviations from a reference point, by variable and chain.
    reference: dict[str, np.ndarray]
    first: dict[str, np.ndarray]
    second: dict[str, np.ndarray]
    finite: bool = True


@runtime_checkable
class Report(Protocol):
    """What an engine says of a run at its end; its class is a registered part with ``from_arrays``."""

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For saving."""


class Engine(ABC):
    """Some chains of a run. Their draws depend on the seed, their numbers, and how many of them the group has."""

    chains: range
    """The numbers of the chains among all of the run."""

    step: int
    """Steps made, of all phases."""

    whole: bool
    """Whether the state is that between two steps, and not what an error left."""

    variables: Variables
    """What is stored of a draw."""

    starts: dict[str, np.ndarray]
    """Where the chains began, by variable; {} if that says nothing."""

    second_half: SecondHalf | None = None
    """Where draws are when the length of the run is not known beforehand; None if chunks bring them."""

    first_length: int = 64
    """Steps of the first chunk; later ones take about half a second."""

    probe_steps: Sequence[int] = ()
    """Steps after which ``probe`` is to be called; known beforehand, so that it does not depend on chunks."""

    def __new__(cls, *_: object, **__: object) -> Engine:
        """Every engine has its own."""
        new = super().__new__(cls)
        new.starts = {}
        return new

    @property
    @abstractmethod
    def phase(self) -> str:
        """What the chains do now: look for a start, burn in, sample."""

    @property
    @abstractmethod
    def work(self) -> tuple[float, float, str]:
        """How much is done of how much, and in which unit; the run ends when all is done."""

    @abstractmethod
    def start(self) -> None:
        """Put the chains at their start; this may pass over the data."""

    @abstractmethod
    def advance(self, until: int, clock: Clock) -> Chunk:
        """Run in place towards step ``until``; may stop earlier, when draws must be handed over or time is up."""

    @abstractmethod
    def locate(self) -> tuple[Chunk, str]:
        """After a chunk that was not finite: the part of it that was, and what happened then."""

    @abstractmethod
    def pack(self) -> dict[str, np.ndarray]:
        """The state as arrays; they may be views, and are used before the engine goes on."""

    @abstractmethod
    def unpack(self, arrays: dict[str, np.ndarray]) -> None:
        """The inverse of ``pack``, in place of ``start``."""

    def probe(self, moments: Moments, probed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Measurements for the report, given those made before."""
        del moments, probed
        return {}

    def report(self, moments: Moments, probed: dict[str, np.ndarray], probes: int) -> Report | None:
        """The report on all chains of the run, from their moments and the averages of what was measured."""
        del moments, probed, probes
        return None

    def arranged(self, draws: Sequence[Draws], moments: Sequence[Moments]) -> tuple[Sequence[Draws], Sequence[Moments]]:
        """The draws of all groups in one order, where entries have no names of their own, such as topics."""
        return draws, moments


class SteppedEngine(Engine):
    """An engine whose work is a number of steps, known beforehand."""

    recording: Recording
    """Which steps are draws."""

    total: float
    """Steps to make; infinite for no end."""

    @property
    def phase(self) -> str:
        """Burn-in or sampling."""
        return "burn-in" if self.step < self.recording.burn_in else "sampling"

    @property
    def work(self) -> tuple[float, float, str]:
        """Steps."""
        return self.step, self.total, "steps"
