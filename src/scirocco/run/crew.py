"""Groups of chains that other processes advance, on this machine or on others.

    driver    describes the run, starts the chains, and gives each group of them to an executor as a ``Task``
    worker    goes on with its group from the last checkpoint, as ``resume`` would, and writes draws and checkpoints
    driver    takes all groups from their checkpoints and ends the run as if it had made all steps itself

They meet in the folder of the run and nowhere else, so a task may be given to another worker at any time: it goes on
from the checkpoint, and draws are the same to the bit. Functions and data travel with the task; what is in files
travels as their names. A worker that runs several tasks of a run unpacks these once, so that its programs stay
compiled.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from filelock import FileLock, Timeout

from scirocco.core.clock import Clock, add_compile_seconds
from scirocco.core.executors import LOOK, Placed, Portable, require_executor
from scirocco.core.interrupt import Interrupt, poll
from scirocco.core.parts import part_named
from scirocco.run import checkpoint
from scirocco.run.description import Description, RunOptions, Settings, Software, Stop
from scirocco.run.engine import Engine
from scirocco.run.folder import (
    LOCK,
    STOP,
    RunFolder,
    group_folder,
    group_size,
    newest_folder,
    read_description,
    times_taken,
)
from scirocco.run.group import Group
from scirocco.run.patience import PATIENCE, Pauses
from scirocco.run.progress import Progress, waiting

if TYPE_CHECKING:
    from scirocco.run.resume import GivenParts

BEACON, PROBE, ALIVE = "progress.json", "probe", "alive"
LEGS, LEAST_LEG = 8, 5.0  # parts of a budget, and seconds, after which a group makes room for others


class Leg(NamedTuple):
    """How a worker's part in a group ended."""

    diverged: Stop | None
    finished: bool
    """Whether the group is over, or waits for what others do."""
    place: int | None = None
    """Where it goes on."""


class LegEnded(BaseException):
    """Leaves the verb or model that prepared the chains: what comes after them is the driver's."""

    def __init__(self, leg: Leg) -> None:
        super().__init__(leg)
        self.leg = leg


@dataclass(frozen=True)
class Task:
    """Advance the group of chains that begins with chain ``first``."""

    path: Path
    first: int
    given: Portable[tuple[Any, Any, GivenParts]]
    """Data, outcomes, parts: what is in no file of the run."""
    version: str
    used: float
    """Seconds of the budget that were used before."""
    seconds: float | None
    """After which it makes room for others."""

    def __call__(self) -> Leg:
        """In the worker."""
        require_version(self.version)
        if (self.path / STOP).exists():
            return Leg(None, finished=False)
        description = read_description(self.path)
        opened = partial(GroupFolder, task=self)
        resumer: Any = part_named(description.resumer)
        data, y, given = self.given.value
        engine = self.given.kept.pop(self.engine_key(description), None)  # a task that hangs keeps it for itself
        try:
            if engine is not None:
                with opened(self.path) as folder:
                    folder.advance([engine], description.options)
            resumer()(self.path, description, data, y, replace(given, folder=opened))
        except LegEnded as ended:
            return ended.leg
        raise AssertionError("a run ended without its runner")

    def engine_key(self, description: Description) -> tuple[Any, ...]:
        """What an engine that is kept for the next leg depends on."""
        return self.path, self.first, description.settings, description.options.report


class GroupFolder(RunFolder):
    """The folder of a run of which a worker has one group of chains; the run itself belongs to another process."""

    def __init__(self, path: str | Path, task: Task) -> None:
        super().__init__(path)
        self._task, self._taken = task, 0
        self._living = ExitStack()

    @property
    def _place(self) -> Path:
        return group_folder(self.path, self._task.first, self._taken)

    def __enter__(self) -> GroupFolder:
        self._taken = times_taken(self.path, self._task.first)
        lock = self._own_lock()
        if not checkpoint.exists(self._place):
            before = newest_folder(self.path, self._task.first)
            if checkpoint.exists(before):
                checkpoint.write(self._place, *checkpoint.read(before))
        self._living.callback(lock.release)
        self._living.enter_context(_shown_alive(self._place))
        return self

    def __exit__(self, *_: object) -> None:
        self._living.close()

    def _own_lock(self) -> FileLock:
        """That of the group's place, or of one of its own where its holder shows no sign of life."""
        while True:
            lock, seen = FileLock(self._place / LOCK), _sign_of_life(self._place)
            try:
                lock.acquire(timeout=PATIENCE)
            except Timeout:  # a worker that was given up for lost may still be at work: its steps are as good
                if self._stopped:
                    raise LegEnded(Leg(None, finished=False)) from None
                if seen == _sign_of_life(self._place):
                    self._taken += 1
                    self._place.mkdir(exist_ok=True)
            else:
                return lock

    def chains(self, settings: Settings) -> range:
        """Those of the group."""
        first = self._task.first
        return range(first, min(first + group_size(settings), settings.chains))

    def write(self, description: Description) -> None:
        """The run is described already."""

    def advance(self, engines: Sequence[Engine], options: RunOptions) -> NoReturn:
        """Towards the end of the group, until the driver or a signal says stop, or time is up, or it was taken over."""
        task = self._task
        (engine,) = (engine for engine in engines if engine.chains.start == task.first)
        with Interrupt() as interrupt:
            group, used = Group.begun(engine, self.path, self._place)
            place = engine.place
            clock, leg = Clock(options.max_seconds, max(used, task.used)), Clock(task.seconds)
            begun = group.engine.step
            try:
                while not (group.over or engine.waits or clock.over or interrupt.asked or self._stopped or self._lost):
                    group.turn(clock, options.checkpoint_seconds)
                    self._show(group)
                    if leg.over or engine.place != place:
                        break
            finally:
                if group.whole and group.engine.step != begun:  # else the driver may have gone on with it
                    group.save(clock)
        if place is not None:  # the group will come back
            task.given.kept[task.engine_key(read_description(self.path))] = engine
        raise LegEnded(Leg(group.diverged, finished=group.over or engine.waits, place=engine.place))

    @property
    def _stopped(self) -> bool:
        return (self.path / STOP).exists()

    @property
    def _lost(self) -> bool:
        return times_taken(self.path, self._task.first) > self._taken

    def _show(self, group: Group) -> None:
        """Say how far the group is; nobody minds if it is lost."""
        done, total, unit = group.engine.work
        shown = [group.engine.phase, done, total, unit, group.count, self._task.given.compiled]
        place = self._place / f".{BEACON}.{os.getpid()}.tmp"
        with suppress(OSError):
            place.write_text(json.dumps(shown))
            place.replace(self._place / BEACON)


@contextmanager
def _shown_alive(place: Path) -> Iterator[None]:
    """Meanwhile a file in this place is touched again and again, even while the process compiles."""
    over = threading.Event()

    def touch() -> None:
        while True:
            with suppress(OSError):
                (place / ALIVE).touch()
            if over.wait(PATIENCE / 8):
                return

    thread = threading.Thread(target=touch, name="scirocco-alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _sign_of_life(place: Path) -> int:
    """The last that the process which has a group has given, 0 if it has given none."""
    try:
        return (place / ALIVE).stat().st_mtime_ns
    except OSError:
        return 0


@dataclass(frozen=True)
class Crew:
    """Where the chains of a run are advanced, and what the run was given."""

    executor: Executor
    data: Any
    y: Any
    given: GivenParts

    @classmethod
    def of(cls, executor: Any, data: Any, given: GivenParts, y: Any = None, workers: int = 1) -> Crew | None:
        """For the ``executor=`` of a verb or model, or where the data are; None if that is here."""
        home = data.executor_at(0) if isinstance(data, Placed) else None
        if executor is not None and home is not None:
            raise ValueError("the data are on the workers of a client, which advance the chains: leave executor out")
        executor = executor or home
        if executor is None:
            return None
        if workers != 1:
            raise ValueError(f"the executor has workers of its own: give executor or workers={workers}, not both")
        return cls(require_executor(executor), data, y, given)

    def advance(
        self, groups: list[Group], folder: RunFolder, clock: Clock, interrupt: Interrupt, bar: Progress
    ) -> None:  # fmt: skip
        """Until all groups are over or wait for each other, or the run is to end; they end at a checkpoint each."""
        watch = Watch(folder.path, bar, clock)
        legs = Legs(self, folder.path, clock, watch)
        watch.begin()
        try:
            for group in groups:
                if not group.over:
                    legs.begin(group)
            while legs.running and not watch.gone:
                watch.look(legs.collect())
                lost = legs.failure is not None or any(group.diverged for group in groups)
                if lost or interrupt.asked or clock.over:
                    watch.stop()
                legs.repeat()
        except BaseException:
            watch.stop()  # who is still at work finds it, however late
            raise
        legs.cancel()
        if not legs.running:
            watch.begin()
        failure = legs.failure
        if failure is not None and not (interrupt.asked and isinstance(failure, BrokenExecutor | CancelledError)):
            if isinstance(failure, CancelledError):
                failure = RuntimeError(
                    "the executor has cancelled the tasks of the run: it lost its scheduler, perhaps"
                )
            if folder.keeps:
                failure.add_note(f"scirocco.resume({str(folder.path)!r}, ..., executor=) goes on from the checkpoints")
            raise failure

    def executor_at(self, place: int | None) -> Executor:
        """Where the data are."""
        home = self.data.executor_at(place) if place is not None and isinstance(self.data, Placed) else None
        return home or self.executor

    def require_workers(self, folder: Path) -> None:
        """Reject those that cannot do it, before any work is done."""
        require_workers(self.executor, folder)


class Legs:
    """The tasks of a run: one for each group that is not over, and another where its worker hangs."""

    def __init__(self, crew: Crew, folder: Path, clock: Clock, watch: Watch) -> None:
        self.running: dict[Future[Leg], Group] = {}
        self.failure: BaseException | None = None
        self._crew, self._folder, self._clock, self._watch = crew, folder, clock, watch
        self._given = Portable((crew.data, crew.y, crew.given))
        self._seconds = None if clock.budget is None else max(LEAST_LEG, clock.budget / LEGS)
        self._pauses = Pauses()
        self._later: dict[Future[Leg], float] = {}  # that storage has failed, and when they are made again
        self._places: dict[int, int | None] = {}  # where groups go on that have come back

    def begin(self, group: Group) -> None:
        """Give a group to the executor."""
        first = group.engine.chains.start
        task = Task(self._folder, first, self._given, Software.here().scirocco, self._clock.used, self._seconds)
        self._watch.sent(first)
        executor = self._crew.executor_at(self._places.get(first, group.engine.place))
        self.running[executor.submit(task)] = group

    def collect(self) -> bool:
        """Wait a little, and take what has ended meanwhile, if something has."""
        done, _ = wait(self.running.keys() - self._later.keys(), timeout=LOOK, return_when=FIRST_COMPLETED)
        if len(self._later) == len(self.running):
            time.sleep(LOOK)
        for future in done:
            if future not in self.running:
                continue  # another has ended its group
            try:
                self._ended(future, future.result())
            except (Exception, CancelledError) as error:
                pause = self._pauses.after(error, "a worker could not read or write its chains")
                if pause is None:
                    self.failure = self.failure or error
                    del self.running[future]
                else:
                    self._later[future] = time.perf_counter() + pause
        return bool(done)

    def _ended(self, future: Future[Leg], leg: Leg) -> None:
        group = self.running.pop(future)
        group.diverged = leg.diverged
        self._places[group.engine.chains.start] = leg.place
        others = [other for other, own in self.running.items() if own is group]
        if leg.finished:  # whoever was given up for lost, or took over
            for other in others:
                del self.running[other]
                other.cancel()
        elif not (others or self._watch.told):
            self.begin(group)

    def repeat(self) -> None:
        """Give to another what storage has failed, and what a worker has that shows no sign of life."""
        now = time.perf_counter()
        for future in [future for future, due in self._later.items() if self._watch.told or due <= now]:
            del self._later[future]
            group = self.running.pop(future)
            if not self._watch.told:
                self.begin(group)
        silent = self._watch.silent()
        for group in {group.engine.chains.start: group for group in self.running.values()}.values():
            first = group.engine.chains.start
            if first in silent:
                warnings.warn(
                    f"the worker that has chain {first} has shown no sign for {PATIENCE:g} s: another goes on with it",
                    stacklevel=2,
                )
                self.begin(group)

    def cancel(self) -> None:
        """Who has not begun need not begin."""
        for future in self.running:
            future.cancel()


class Watch:
    """What is seen of the workers of a run."""

    def __init__(self, folder: Path, bar: Progress, clock: Clock) -> None:
        self.folder, self.bar, self.clock, self.told = folder, bar, clock, False
        self._compiled, self._seen, self._heard = 0.0, list[Any](), time.perf_counter()
        self._looked = self._heard
        self._lives: dict[int, tuple[int, float | None]] = {}  # the last sign of each group's worker, and when it came

    def begin(self) -> None:
        """Nobody is to stop."""
        (self.folder / STOP).unlink(missing_ok=True)

    def stop(self) -> None:
        """Tell them to stop at the next border of their work, or before they begin."""
        (self.folder / STOP).touch()
        if not self.told:
            self.told, self._heard = True, time.perf_counter()

    @property
    def gone(self) -> bool:
        """Whether they were told to stop, and have shown no sign since: killed, all of them, or cut off."""
        return self.told and time.perf_counter() - self._heard > PATIENCE

    def sent(self, first: int) -> None:
        """A group was given to the executor: who begins with it, now or later, gives a sign."""
        self._lives[first] = self._sign(first), None

    def silent(self) -> list[int]:
        """Groups whose worker has begun, and shows no sign any more."""
        now, found = time.perf_counter(), list[int]()
        if self.told or now - self._looked < PATIENCE / 8:
            return found
        self._looked = now
        for first, (before, heard) in self._lives.items():
            sign = self._sign(first)
            if sign != before:
                self._lives[first] = sign, now
            elif heard is not None and now - heard > PATIENCE:
                found.append(first)
        return found

    def _sign(self, first: int) -> int:
        """The last of whoever has the group, or had it."""
        taken = times_taken(self.folder, first)
        return max(_sign_of_life(group_folder(self.folder, first, k)) for k in range(taken + 1))

    def look(self, ended: bool) -> None:
        """Show the one that has most left to do; what they compile is not part of the budget. Some may have ended."""
        shown = []
        for place in self.folder.glob(f"chains-*/{BEACON}"):
            try:
                *seen, compiled = json.loads(place.read_text())
            except (OSError, ValueError):
                continue
            shown.append(seen)
            add_compile_seconds(max(0.0, compiled - self._compiled))
            self._compiled = max(compiled, self._compiled)
        if ended or shown != self._seen:
            self._seen, self._heard = shown, time.perf_counter()
        if shown:
            phase, done, total, unit, draws = min(shown, key=lambda seen: seen[1] / max(seen[2], 1e-300))
            share = max(done / max(total, 1e-300), self.clock.share)
            self.bar.update(phase, done, total, unit, share=share, draws=draws, seconds=self.clock.used)


class Surroundings(NamedTuple):
    """What a worker finds where it is."""

    host: str
    seen: str
    left: str


def require_workers(executor: Executor, folder: Path) -> None:
    """Reject workers that have another version, or do not see the folder of the run."""
    said = os.urandom(8).hex()
    (folder / PROBE).write_text(said)
    try:
        with waiting("waiting for a worker", None):
            found = _looked(executor, folder, said)
    except ModuleNotFoundError as error:
        raise RuntimeError(f"the workers of the executor lack {error.name}: install it there too") from error
    finally:
        (folder / PROBE).unlink(missing_ok=True)
    if found.seen != said or not (folder / found.left).exists():
        raise ValueError(
            f"a worker on {found.host} does not see {folder}, where its draws belong: give path=, a folder on "
            "storage that all machines share"
        )
    (folder / found.left).unlink()


def _looked(executor: Executor, folder: Path, said: str) -> Surroundings:
    """What a worker finds, whenever there is one."""
    try:
        looking = executor.submit(_look_around, folder, said, Software.here().scirocco)
    except RuntimeError as error:
        raise RuntimeError(f"the executor takes no work ({error}): give one that is open") from error
    try:
        while wait([looking], timeout=LOOK).not_done:
            poll()
        return looking.result()
    except CancelledError:
        raise RuntimeError("the executor has cancelled a task: it is closed, or lost its scheduler") from None
    finally:
        looking.cancel()


def _look_around(folder: Path, said: str, version: str) -> Surroundings:
    """In a worker: what it sees of a run's folder, and a file that it leaves there."""
    require_version(version)
    seen, left = "", f"{PROBE}-{said}"
    with suppress(OSError):
        seen = (folder / PROBE).read_text()
        (folder / left).touch()
    return Surroundings(socket.gethostname(), seen, left)


def require_version(version: str) -> None:
    """Reject work from a process with another version of the library."""
    here, host = Software.here().scirocco, socket.gethostname()
    if here != version:
        raise RuntimeError(f"the worker on {host} has scirocco {here}, and the run is of {version}: install the same")
