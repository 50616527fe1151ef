"""Rounds over data that stay where they are: shards live on the workers of a Dask cluster, and little travels.

    driver    writes the message of a round into a folder that all see, and gives every worker the turns of its shards
    worker    advances a shard by the message, and answers
    driver    has the answers in the order of the shards, and makes the next message of them

A turn is a pure function of what is in the folder: of the shard at its start or where it was last saved, and of the
messages since. What a worker has in memory saves the reading, no more. So a turn may be given to any worker at any
time; one that has another round of the shard, or nothing, reads and repeats, and the answer is the same to the bit. No
turn needs the result of another, so that the scheduler keeps nothing.

    <place>/message-<round>            arrays (``run.checkpoint``), until all shards are saved at that round or later
    <place>/shard-<s>/round-<round>    the shard after it

It knows nothing of models: what a shard is says ``make``.
"""

from __future__ import annotations

import os
import shutil
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from scirocco.core.checks import require_count
from scirocco.core.interrupt import poll
from scirocco.run import checkpoint
from scirocco.run.checkpoint import Arrays
from scirocco.run.crew import require_version, require_workers
from scirocco.run.description import Software
from scirocco.run.folder import LOCK

PAUSE = 0.005  # seconds between two looks at a round
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

    def __call__(self) -> Arrays | None:
        """In the worker."""
        require_version(self.version)
        shard = self._brought(self.round - self.asked)
        answer = shard.advance(self.round, self._message(self.round)) if self.asked else None
        if self.save:
            folder = _saved_folder(self.place, self.shard, self.round)
            folder.mkdir(parents=True, exist_ok=True)
            with FileLock(folder / LOCK):  # a worker that was given up for lost may still be at work
                checkpoint.write(folder, shard.pack(), {})
        _held[self.place, self.shard] = _Held(self.owner, self.round, shard)
        return answer

    def _brought(self, until: int) -> Shard:
        """The shard after a round: from memory, or from where it was last saved."""
        held = _held.pop((self.place, self.shard), None)
        if held is not None and held.owner == self.owner and held.round <= until:
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
        self._owner = os.urandom(8).hex()
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
        with suppress(Exception):  # a client that is closed by now
            self._client.run(_forget, self._place)

    def _turns(self, number: int, *, save: bool, asked: bool) -> list[Any]:
        client, version = self._client, Software.here().scirocco
        self._homes = spread(self._homes, client.nthreads())
        futures = [
            client.submit(
                Turn(
                    self._place, self._make, shard, number, self._saved, save, asked, self._owner, version,
                    self._remembers,
                ),
                workers=[home] if home else None, allow_other_workers=bool(home), pure=False,
            )
            for shard, home in enumerate(self._homes)
        ]  # fmt: skip
        try:
            while not all(future.done() for future in futures):
                if not client.nthreads():
                    poll()  # nobody is there to end the round
                time.sleep(PAUSE)
            answers = client.gather(futures)
            where = client.who_has(futures)
        except BaseException:
            client.cancel(futures)
            raise
        self._homes = [next(iter(where.get(future.key, ())), "") for future in futures]
        return list(answers)

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
