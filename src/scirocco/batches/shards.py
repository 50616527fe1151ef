"""Data in shards that stay where they are: what is to be done with their rows goes to them.

A part is opened where it is worked on and kept there: in this process, or with a Dask ``client`` on its workers, of
which each has some of the parts. Only what is asked for travels: a sum over all rows is made of sums over the shards,
in their order, and is the same wherever these were made.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from scirocco.batches.base import row_bytes
from scirocco.batches.stream import BLOCK_BYTES, Stream, piece_rows
from scirocco.core.checks import require_count
from scirocco.core.executors import in_order
from scirocco.core.types import Data

Value = TypeVar("Value")


class Shards(Stream):
    """Data in ``parts``: each is arrays, a source, or a function without arguments that returns one of these.

    A function is called where the part is worked on, such as ``partial(sc.batches.Parquet, "/data/part-3.parquet")``
    for a file that only one machine has. With a Dask ``client`` its workers open the parts and no others do; ``hosts``
    names for each part the worker or the machine that has it, as Dask's ``workers=`` does. Without ``hosts`` any
    worker may open any part, and they share them evenly. ``keep`` limits how many parts a process holds at a time.

    Chains travel between the shards: see ``batches.Tours``.

    >>> source = Shards([np.arange(3.0), np.arange(3.0, 8.0)])
    >>> source.size, source.sizes.tolist(), source.rows(np.array([2, 3])).tolist()
    (8, [3, 5], [2.0, 3.0])
    """

    def __init__(
        self, parts: Sequence[Any], *, client: Any = None, hosts: Sequence[str] | None = None, keep: int | None = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:  # fmt: skip
        if isinstance(parts, str | dict | np.ndarray) or not isinstance(parts, Sequence):
            raise TypeError(f"parts must be a list, one entry for each shard; got {type(parts).__name__}")
        if not parts:
            raise ValueError("parts must hold at least one shard; the list is empty")
        if keep is not None:
            require_count("keep", keep)
        self._parts = Parts(tuple(parts), keep)
        self._homes = None if client is None else Homes(client, len(parts), hosts)
        if client is None and hosts is not None:
            raise ValueError("hosts= are those of a cluster: give client= too, or leave them out")
        self.block_bytes = block_bytes
        looked = self.each_part(_seen)
        self.lengths = np.array([size for size, _, _ in looked])
        self._fingerprints = [facts for _, _, facts in looked]
        shapes = [example for _, example, _ in looked]
        odd = next((s for s, shape in enumerate(shapes) if shape != shapes[0]), None)
        if odd is not None:
            raise ValueError(f"rows of part {odd} are {shapes[odd]}, and of part 0 {shapes[0]}: they must be alike")
        self._set_up(shapes[0], block_bytes)
        self.piece, self.wave = piece_rows(self.resident_rows, row_bytes(self.example)), len(parts)

    def __getstate__(self) -> dict[str, Any]:
        """Elsewhere parts are opened when they are asked for."""
        return self.__dict__ | {"_homes": None}

    @property
    def sizes(self) -> np.ndarray:
        """The rows of each shard."""
        return self.lengths

    def each_part(self, function: Callable[..., Value], given: Sequence[Any] | None = None) -> list[Value]:
        """``function`` of each part, and of what is ``given`` for it, where it is; in the order of the shards."""
        return self._on(range(len(self._parts.parts)), function, given)

    def part(self, number: int) -> Part:
        """A part in this process, whoever else has it."""
        return Part(self._parts, number)

    def _on(self, numbers: range, function: Callable[..., Value], given: Sequence[Any] | None = None) -> list[Value]:
        work = [(self.part(s), *([] if given is None else [given[s]])) for s in numbers]
        if self._homes is None:
            return [function(*own) for own in work]
        homes = [self._homes.executor(number) for number in numbers]
        return list(in_order([home.submit(function, *own) for home, own in zip(homes, work, strict=True)]))

    def executor_at(self, number: int) -> Executor | None:
        """The executor whose workers have a part; None if all is in this process."""
        return None if self._homes is None else self._homes.executor(number)

    @property
    def away(self) -> bool:
        """Whether the parts are on workers."""
        return self._homes is not None

    def read(self, group: int, start: int, stop: int) -> Data:
        """Rows of a part."""
        return self.take(group, np.arange(start, stop))

    def take(self, group: int, rows: np.ndarray) -> Data:
        """Rows of a part, which travel."""
        return self._on(range(group, group + 1), partial(_rows, rows))[0]

    def fingerprint(self) -> dict[str, Any]:
        """Those of all parts."""
        return {f"shard {s}: {name}": facts for s, own in enumerate(self._fingerprints) for name, facts in own.items()}

    def extends(self, known: dict[str, Any]) -> bool:
        """Not known: rows would follow in the middle."""
        del known
        return False


class Parts:
    """The parts in one process, where each is opened once: a copy that is sent where there is one is that one."""

    def __init__(self, parts: tuple[Any, ...], keep: int | None, token: str | None = None) -> None:
        self.parts, self.keep, self.token = parts, keep, token or os.urandom(8).hex()
        self._open: OrderedDict[int, dict[Hashable, Any]] = OrderedDict()
        self._lock = threading.RLock()
        _KNOWN[self.token] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return _known, (self.parts, self.keep, self.token)

    def kept(self, number: int, key: Hashable, make: Callable[[], Any]) -> Any:
        """What was made of a part, once."""
        with self._lock:  # chains run in threads
            held = self._open.setdefault(number, {})
            self._open.move_to_end(number)
            while self.keep is not None and len(self._open) > self.keep:
                self._open.popitem(last=False)
            if key not in held:
                held[key] = make()
            return held[key]


@dataclass(frozen=True)
class Part:
    """A part where it is worked on."""

    parts: Parts
    number: int

    @property
    def source(self) -> Any:
        """Its rows, opened."""
        from scirocco.batches import as_source

        given = self.parts.parts[self.number]
        return self.kept("rows", lambda: as_source(given() if callable(given) else given))

    def kept(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """What ``make`` makes of it, kept in this process with the part."""
        found: Value = self.parts.kept(self.number, key, make)
        return found


_KNOWN: weakref.WeakValueDictionary[str, Parts] = weakref.WeakValueDictionary()
_ARRIVED: deque[Parts] = deque(maxlen=2)
"""Those that came last from other processes, which nobody holds here between two tasks."""


def _known(parts: tuple[Any, ...], keep: int | None, token: str) -> Parts:
    found = _KNOWN.get(token) or Parts(parts, keep, token)
    if found not in _ARRIVED:
        _ARRIVED.append(found)
    return found


class Homes:
    """Which of a Dask client's workers has which part."""

    def __init__(self, client: Any, count: int, hosts: Sequence[str] | None) -> None:
        if not hasattr(client, "nthreads") or getattr(client, "asynchronous", False):
            raise TypeError(f"client must be a distributed.Client that is not asynchronous; got {client!r}")
        if client.status != "running":
            raise ValueError(f"the client is {client.status}: give one that is connected to its cluster")
        if hosts is not None and (isinstance(hosts, str) or len(hosts) != count):
            raise ValueError(f"hosts must name the worker or the machine of each of the {count} parts; got {hosts!r}")
        self.client, self.hosts = client, hosts
        self._homes: list[str] = [""] * count

    def executor(self, number: int) -> Executor:
        """The one that has a part: a worker that is gone has passed its parts on to those that had fewest."""
        if self.hosts is not None:
            found: Executor = self.client.get_executor(workers=[self.hosts[number]], pure=False)
            return found
        workers = sorted(self.client.nthreads())
        if self._homes[number] not in workers and workers:
            shares = Counter({worker: 0 for worker in workers})
            shares.update(home for home in self._homes if home in shares)
            self._homes[number] = min(workers, key=lambda worker: (shares[worker], worker))
        where = {"workers": [self._homes[number]], "allow_other_workers": True} if self._homes[number] else {}
        found = self.client.get_executor(pure=False, **where)
        return found


def _seen(part: Part) -> tuple[int, Data, dict[str, Any]]:
    source = part.source
    return source.size, source.example, source.fingerprint()


def _rows(which: np.ndarray, part: Part) -> Data:
    found: Data = part.source.rows(which)
    return found
