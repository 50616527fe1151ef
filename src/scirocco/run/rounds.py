"""Rounds over data that stay where they are: shards live on the workers of a Dask cluster, and little travels.

    driver    writes the message of a round into a folder that all see, and gives every worker the turns of its shards
    worker    advances a shard by the message, and answers
    driver    has the answers in the order of the shards, and makes the next message of them

A turn is a pure function of what is in the folder: of the shard at its start or where it was last saved, and of the
messages since. What a worker has in memory saves the reading, no more. So a turn may be given to any worker at any
time; one that has another round of the shard, or nothing, reads and repeats, and the answer is the same to the bit. No
turn needs the result of another, so that the scheduler keeps nothing. A turn whose worker shows no sign of life goes to
another beside, and the first answer counts.

    <place>/message-<round>            arrays (``run.checkpoint``), until all shards are saved at that round or later
    <place>/shard-<s>/round-<round>    the shard after it

It knows nothing of models: what a shard is says ``make``.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from scirocco.core.checks import require_count
from scirocco.core.interrupt import poll
from scirocco.run import checkpoint
from scirocco.run.checkpoint import Arrays
from scirocco.run.crew import require_version, require_workers
from scirocco.run.description import Software
from scirocco.run.patience import PATIENCE, Pauses

LOOK = 1.0  # seconds between two looks at a round that does not end
FORGETTING = 5.0  # seconds for which workers that hang are waited for at the end
SAVE_EVERY = 10  # rounds, which are repeated at the most when a worker dies


class Shard(ABC):
    """A part of the data and what is kept of it, in the memory of a worker."""

    @abstractmethod
    def advance(self, round_number: int, message: Arrays) -> Arrays:
        """The answer to a message. Rounds are counted from 1, in which the shard is at its start."""

    @abstractmethod
    def pack(self) -> Arrays:
        """What has changed since the start."""

    @abstractmethod
    def unpack(self, arrays: Arrays) -> None:
        """The inverse of ``pack``, on a shard at its start."""


@dataclass(frozen=True)
class Cluster:
    """The workers of a Dask ``client``, and the parts that they hold the data in."""

    client: Any
    shards: int

    @classmethod
    def of(cls, client: Any, shards: Any) -> Cluster | None:
        """For the ``client=`` and ``shards=`` of a model; None if there is none."""
        if client is None:
            if shards is not None:
                raise ValueError("shards= are those of a cluster: give client= too, or leave them out")
            return None
        if not hasattr(client, "nthreads") or getattr(client, "asynchronous", False):
            raise TypeError(f"client must be a distributed.Client that is not asynchronous; got {client!r}")
        if client.status != "running":
            raise ValueError(f"the client is {client.status}: give one that is connected to its cluster")
        if shards is None:
            raise ValueError("shards= must say how many parts the data are in: one for each thread of the workers")
        require_count("shards", shards)
        return cls(client, int(shards))

    def require_workers(self, folder: Path) -> None:
        """Reject workers that have another version, or do not see the folder of the run; before any work is done."""
        folder.mkdir(parents=True, exist_ok=True)
        require_workers(self.client.get_executor(), folder)


@dataclass(frozen=True)
class _Held:
    """A shard in the memory of a worker, after a round."""

    owner: str
    round: int
    shard: Shard


_held: dict[tuple[Path, int], _Held] = {}


class Answer(NamedTuple):
    """What a turn gave, and the address of the worker that made it, if it has one."""

    arrays: Arrays | None
    worker: str


@dataclass(frozen=True)
class Turn:
    """Bring a shard to the end of a round."""

    place: Path
    make: Callable[[int], Shard]
    shard: int
    round: int
    saved: int
    """The last round after which all shards were saved; 0 if none were."""
    save: bool
    """Whether it is to be saved after this one."""
    asked: bool
    """Whether the answer is wanted."""
    owner: str
    """The process that asks: it alone knows that the shard in memory is of its run."""
    version: str
    remembers: bool
    """Whether an answer depends on the messages before."""

    def __call__(self) -> Answer:
        """In the worker."""
        require_version(self.version)
        shard = self._brought(self.round - self.asked)
        arrays = shard.advance(self.round, self._message(self.round)) if self.asked else None
        if self.save:
            self._keep(shard)
        _held[self.place, self.shard] = _Held(self.owner, self.round, shard)
        return Answer(arrays, _address())

    def _keep(self, shard: Shard) -> None:
        """Save it, whole or not at all: a worker that was given up for lost may do the same, or stop amid it."""
        folder = _saved_folder(self.place, self.shard, self.round)
        aside = folder.with_name(f".{folder.name}.{os.urandom(8).hex()}")
        try:
            checkpoint.write(aside, shard.pack(), {})
            aside.rename(folder)
        except OSError:
            if not checkpoint.exists(folder):  # by the other
                raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def _brought(self, until: int) -> Shard:
        """The shard after a round: from memory, or from where it was last saved."""
        held = _held.pop((self.place, self.shard), None)
        if held is not None and held.owner == self.owner and self.saved <= held.round <= until:
            begin, shard = held.round, held.shard
        else:
            begin, shard = self.saved, self.make(self.shard)
            if begin and self.remembers:
                shard.unpack(checkpoint.read(_saved_folder(self.place, self.shard, begin))[0])
        if self.remembers:
            for number in range(begin + 1, until + 1):
                shard.advance(number, self._message(number))
        return shard

    def _message(self, number: int) -> Arrays:
        return checkpoint.read(_message_folder(self.place, number))[0]


class Rounds:
    """The driver's side: ``rounds(message)`` is what all shards answer.

    Shards that remember nothing of the messages before are never saved.
    """

    def __init__(
        self, cluster: Cluster, place: Path, make: Callable[[int], Shard], *, remembers: bool = True
    ) -> None:  # fmt: skip
        self.round = 0
        """Rounds that were made."""
        self._client, self._number, self._place, self._make = cluster.client, cluster.shards, place, make
        self._remembers = remembers
        self._saved = 0
        self._pinned = [0, 0]  # rounds that checkpoints of the run, the newest and the one before, go on from
        self._owner, self._life = os.urandom(8).hex(), Life(cluster.client)
        self._homes: list[str] = [""] * self._number

    def __call__(self, message: Arrays) -> list[Arrays]:
        """One round; answers are in the order of the shards."""
        number = self.round + 1
        checkpoint.write(_message_folder(self._place, number), message, {})
        save = self._remembers and number % SAVE_EVERY == 0
        answers = self._turns(number, save=save, asked=True)
        self.round = number
        if save or not self._remembers:
            self._all_saved()
        return answers

    def begin(self, number: int) -> None:
        """At the start, or after the round that a checkpoint of the run goes on from."""
        self.round = self._saved = number
        self._pinned = [number, number]
        self._sweep()

    def pin(self) -> int:
        """Have all shards saved as they are, for a checkpoint of the run; the number of the round."""
        if self.round != self._saved:
            self._turns(self.round, save=True, asked=False)
        self._pinned = [self._pinned[1], self.round]
        self._all_saved()
        return self.round

    def forget(self) -> None:
        """The workers need no longer hold the shards."""

        def ask() -> None:
            with suppress(Exception):  # a client that is closed by now
                self._client.run(_forget, self._place)

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(FORGETTING)

    def _turns(self, number: int, *, save: bool, asked: bool) -> list[Any]:
        version = Software.here().scirocco
        turns = [
            Turn(
                self._place, self._make, shard, number, self._saved, save, asked, self._owner, version, self._remembers
            )
            for shard in range(self._number)
        ]  # fmt: skip
        try:
            threads, lost = self._client.nthreads(), self._life.lost and self._life.silent()
            living = {worker: number for worker, number in threads.items() if worker not in lost}
            self._homes = spread(self._homes, living or threads)
            answers = Answers(self._client, turns, self._homes, self._life).all()
        except (CancelledError, OSError) as error:
            if self._client.status == "running" and not isinstance(error, CancelledError):
                raise
            raise RuntimeError(
                f"the client has lost its scheduler in round {number}: scirocco.resume(path, ..., client=) goes on "
                "with another client, if the run has a path"
            ) from error
        self._homes = [answer.worker for answer in answers]
        return [answer.arrays for answer in answers]

    def _all_saved(self) -> None:
        self._saved = self.round
        self._sweep()

    def _sweep(self) -> None:
        """Remove what nobody will ask for."""
        for path in self._place.glob("message-*"):
            if not self._saved < _number_of(path) <= self.round:
                shutil.rmtree(path, ignore_errors=True)
        for path in self._place.glob("shard-*/round-*"):
            if _number_of(path) not in (self._saved, *self._pinned):
                shutil.rmtree(path, ignore_errors=True)
        for path in self._place.glob("shard-*/.round-*"):  # of workers that were killed
            if _number_of(path.with_suffix("")) <= self._saved:
                shutil.rmtree(path, ignore_errors=True)


class Answers:
    """The turns of one round, each with a worker or with several, whose first answer counts."""

    def __init__(self, client: Any, turns: Sequence[Turn], homes: Sequence[str], life: Life) -> None:
        self._client, self._turns, self._workers = client, turns, client.get_executor()
        self._running: dict[Future[Answer], int] = {}
        self._later: dict[int, float] = {}  # turns that storage has failed, and when they are made again
        self._found: dict[int, Answer] = {}
        self._pauses, self._life, self._looked = Pauses(), life, time.perf_counter()
        self._homes = list(homes)
        for shard in range(len(turns)):
            self._give(shard)

    def _give(self, shard: int) -> None:
        home = self._homes[shard]
        future = self._workers.submit(
            self._turns[shard], workers=[home] if home else None, allow_other_workers=bool(home), pure=False
        )
        self._running[future] = shard

    def all(self) -> list[Answer]:
        """In the order of the shards."""
        try:
            while len(self._found) < len(self._turns):
                self._collect()
                self._repeat()
        finally:
            for future in self._running:
                future.cancel()
        return [self._found[shard] for shard in range(len(self._turns))]

    def _collect(self) -> None:
        if not self._running:
            time.sleep(LOOK)
        for future in wait(self._running, timeout=LOOK, return_when=FIRST_COMPLETED).done:
            shard = self._running.pop(future)
            try:
                self._found.setdefault(shard, future.result())
            except OSError as error:
                pause = self._pauses.after(error, "a worker could not read or save its shard")
                if pause is None:
                    raise
                self._later[shard] = time.perf_counter() + pause

    def _repeat(self) -> None:
        """What storage has failed, and what a worker has that shows no sign of life."""
        now = time.perf_counter()
        for shard in [shard for shard, due in self._later.items() if due <= now]:
            del self._later[shard]
            self._give(shard)
        if now - self._looked < LOOK:
            return
        self._looked = now
        present = self._client.nthreads()
        if not present:
            poll()  # nobody is there to end the round
            return
        silent = self._life.silent()
        living = sorted(worker for worker in present if worker not in silent)
        for shard in sorted({shard for shard in self._running.values() if self._homes[shard] not in ("", *present)}):
            # Of those whose only worker has died Dask gives none to a worker that comes later.
            self._call_off(shard)
            self._move(shard, living)
        for shard in [shard for shard in self._running.values() if self._homes[shard] in silent]:
            poll()
            warnings.warn(
                f"the worker {self._homes[shard]} has shown no sign of life for {PATIENCE:g} s: another takes shard "
                f"{shard}",
                stacklevel=2,
            )
            self._move(shard, living)

    def _move(self, shard: int, living: Sequence[str]) -> None:
        """Give it to another worker, or to whoever comes."""
        self._homes[shard] = living[shard % len(living)] if living else ""
        self._give(shard)

    def _call_off(self, shard: int) -> None:
        for future in [future for future, own in self._running.items() if own == shard]:
            del self._running[future]
            future.cancel()


class Life:
    """Which workers a scheduler still hears of."""

    def __init__(self, client: Any) -> None:
        self.lost: set[str] = set()
        """Those that were silent at the last look."""
        self._client = client
        self._heard: dict[str, tuple[float, float]] = {}

    def silent(self) -> set[str]:
        """Those of which it has heard nothing for long."""
        now = time.perf_counter()
        for worker, known in self._client.scheduler_info(n_workers=-1)["workers"].items():
            if worker not in self._heard or self._heard[worker][0] != known["last_seen"]:
                self._heard[worker] = known["last_seen"], now
        self.lost = {worker for worker, (_, heard) in self._heard.items() if now - heard > PATIENCE}
        return self.lost


def _address() -> str:
    """Of the worker that this is."""
    distributed = sys.modules.get("distributed")
    try:
        return "" if distributed is None else str(distributed.get_worker().address)
    except ValueError:
        return ""


def spread(homes: Sequence[str], threads: Mapping[str, int]) -> list[str]:
    """The worker of each shard: where it is, unless another worker has fewer than its threads say."""
    if not threads:
        return [""] * len(homes)  # whoever comes first
    known = Counter(home for home in homes if home in threads)
    share, left = divmod(len(homes), sum(threads.values()))
    order = sorted(threads, key=lambda worker: (-known[worker] / threads[worker], worker))
    slots = [worker for worker in order for _ in range(threads[worker])]
    free = Counter({worker: share * threads[worker] for worker in order}) + Counter(slots[:left])
    found = []
    for home in homes:
        stays = free[home] > 0
        free[home] -= stays
        found.append(home if stays else "")
    others = iter(free.elements())
    return [home or next(others) for home in found]


def _forget(place: Path) -> None:
    """In a worker."""
    for key in [key for key in _held if key[0] == place]:
        _held.pop(key, None)


def _message_folder(place: Path, number: int) -> Path:
    return place / f"message-{number}"


def _saved_folder(place: Path, shard: int, number: int) -> Path:
    return place / f"shard-{shard}" / f"round-{number}"


def _number_of(path: Path) -> int:
    return int(path.name.rpartition("-")[2])
