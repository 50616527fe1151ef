"""Work for the executors of ``concurrent.futures``: threads, processes, clusters.

What goes to other processes travels by cloudpickle, in memory and never on disk: functions that users write in a script
or a notebook have no name that a worker could import.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, wait
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from scirocco.core.clock import compile_seconds
from scirocco.core.interrupt import poll

Argument = TypeVar("Argument")
Value = TypeVar("Value")

LOOK = 0.2  # seconds between two looks at the workers
UNDER_WAY, FEWEST = 2**29, 4  # bytes of a function, sent and not answered, at the most; tasks that are, at least


@runtime_checkable
class Placed(Protocol):
    """Data of which parts may be on certain workers."""

    def executor_at(self, place: int) -> Executor | None:
        """The executor whose workers have a part; None if the data are with whoever has this."""


class Portable(Generic[Value]):
    """A value that can be sent to another process, and that is one object there however often it is sent."""

    def __init__(self, value: Value, *, arrived: bool = False) -> None:
        self.value = value
        self.kept: dict[Any, Any] = {}
        """What work in this process has made of it, for the next."""
        self._before = compile_seconds() if arrived else None

    @property
    def compiled(self) -> float:
        """Seconds that compilers took for it in a process that it was sent to; in its own they are known."""
        return 0.0 if self._before is None else compile_seconds() - self._before

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self.packed,)

    @cached_property
    def packed(self) -> bytes:
        """What is sent."""
        found: bytes = _cloudpickle().dumps(self.value)
        return found


@lru_cache(maxsize=2)
def _arrived(packed: bytes) -> Portable[Any]:
    """Once: functions that are equal are then one function, compiled once."""
    return Portable(_cloudpickle().loads(packed), arrived=True)


def _cloudpickle() -> Any:
    try:
        import cloudpickle
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "executors of other processes need cloudpickle: pip install 'scirocco[cluster]'", name="cloudpickle"
        ) from None
    return cloudpickle


def require_executor(executor: Any) -> Executor:
    """Reject what is no executor; a client of Dask has one."""
    if not isinstance(executor, Executor):
        hint = ": give client.get_executor()" if hasattr(executor, "get_executor") else ""
        raise TypeError(f"executor must be a concurrent.futures.Executor; got {type(executor).__name__}{hint}")
    return executor


def submit(
    executor: Executor, function: Portable[Callable[..., Value]], *given: Any
) -> Future[Portable[Value]]:  # fmt: skip
    """Have a worker call a function, which need not have a name; neither need what it returns."""
    return executor.submit(_called, function, *given)


def _called(function: Portable[Callable[..., Value]], *given: Any) -> Portable[Value]:
    return Portable(function.value(*given))


def call_each(
    executor: Executor, function: Callable[[Argument], Value], arguments: Iterable[Argument]
) -> Iterator[Value]:  # fmt: skip
    """``function`` of each argument by the workers, in order; a large one is not sent to all at once."""
    sent, waiting, running = Portable(function), iter(arguments), deque[Future[Portable[Value]]]()
    most = max(FEWEST, UNDER_WAY // len(sent.packed))
    try:
        while True:
            for own in islice(waiting, most - len(running)):
                running.append(submit(require_executor(executor), sent, own))
            if not running:
                return
            yield _awaited(running[0]).value
            running.popleft()
    finally:
        for future in running:
            future.cancel()


def in_order(running: Sequence[Future[Value]]) -> Iterator[Value]:
    """What work gives, in the order in which it was given out; what is not asked for is called off."""
    try:
        yield from map(_awaited, running)
    finally:
        for future in running:
            future.cancel()


def _awaited(future: Future[Value]) -> Value:
    while wait([future], timeout=LOOK).not_done:
        poll()
    return future.result()
