"""What the runner needs of an engine: a group of chains that advance in place and can be packed into arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from scirocco.core.clock import Clock
from scirocco.run.moments import Moments, Sums
from scirocco.run.recording import Recording
from scirocco.run.result import GroupResult
from scirocco.run.store import Draws, MemoryStore, Store, Variables, ZarrStore


class Chunk(NamedTuple):
    """What a stretch of steps made."""

    draws: Draws  # (chain, draw, ...)
    sums: tuple[Sums, ...] = ()  # those that are complete; what is not is the engine's ``pending``
    finite: bool = True


@runtime_checkable
class Report(Protocol):
    """What an engine says of a run at its end; its class is a registered part with ``from_arrays``."""

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For saving."""


class Measured(NamedTuple):
    """What was measured during a run, for the report."""

    probed: dict[str, np.ndarray] = {}  # noqa: RUF012 - averages over the probes
    probes: int = 0
    points: dict[str, np.ndarray] = {}  # noqa: RUF012 - (chain, point, ...) of ``Engine.point``


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

    starts: dict[str, np.ndarray] = {}  # noqa: RUF012 - replaced, never changed
    """Where the chains began, by variable; {} if that says nothing."""

    place: int | None = None
    """Where the data of the next step are, if they are in parts that others may have."""

    waits: bool = False
    """Whether it can go on only when other groups have come as far."""

    pending: Sums | None = None
    """Sums of the newest draws, which a chunk has not handed over yet."""

    pending_count: int = 0
    """How many draws these are; others may ask while the engine advances."""

    first_length: int = 64
    """Steps of the first chunk; later ones take about half a second."""

    probe_steps: Sequence[int] = ()
    """Steps after which ``probe`` is to be called; known beforehand, so that it does not depend on chunks."""

    point_steps: Sequence[int] = ()
    """Steps after which ``point`` is to be called."""

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

    def open_store(self, folder: Path | None) -> Store:
        """Where the draws go: to the folder of the run if it has one, in chunks, or into memory."""
        if folder is None:
            return MemoryStore(self.variables, len(self.chains))
        return ZarrStore(folder, self.variables, self.chains)

    def leaves(self) -> dict[str, np.ndarray]:
        """What a model needs to know of its chains after the run, beside the draws."""
        return {}

    def probe(self, moments: Moments, probed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Measurements for the report, given those made before."""
        del moments, probed
        return {}

    def point(self) -> dict[str, np.ndarray]:
        """Where the chains are, and what is to be kept of it for the report: (chain, ...) by name."""
        return {}

    def report(self, moments: Moments, measured: Measured) -> Report | None:
        """The report on all chains of the run, from their moments and what was measured."""
        del moments, measured
        return None

    def arranged(self, groups: Sequence[GroupResult]) -> Sequence[GroupResult]:
        """The results of all groups in one order, where entries have no names of their own, such as topics."""
        return groups


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
