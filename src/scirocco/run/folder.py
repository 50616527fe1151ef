"""The folder of a run: what it is, who works on it, and the places of its files.

run.json        what the run is: settings, parts, data; written before any work is done
lock            held by the process that works on the run, and by no dead one
stop            while there is one, groups of chains in other processes stop (``run.crew``)
chains-<first>  the checkpoints of each group of chains (``run.checkpoint``), and the lock of the process that has it
chains-<first>.<k>  the same of the k-th process that took the group over from one that hangs, and may wake up
tuning-<k>      the rounds of a search for a step size, until the chains have begun; of shard k
report          what the engine says of the run at its end
documents       of a model whose shards live on workers, where these can read them (``run.rounds``)
draws.zarr, ragged.zarr
"""

from __future__ import annotations

import shutil
import tempfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from scirocco.core.places import refuse_address
from scirocco.run import checkpoint
from scirocco.run.description import Description, Settings, StepSettings

if TYPE_CHECKING:
    from scirocco.run.crew import Crew

NAME, LOCK, REPORT, STOP = "run.json", "lock", "report", "stop"
FILES = (
    r"run\.json|lock|stop|report|chains-\d+(\.\d+)?|tuning-\d+|draws\.zarr|ragged\.zarr"  # of a run or a saved trace
)
HALF_WRITTEN = f".{NAME}.*.tmp"  # by a process that was killed


class RunFolder:
    """A folder that this process alone works on while it is entered; a ``crew`` may advance the chains."""

    keeps = True
    """Whether it stays when the run is over."""

    def __init__(self, path: str | Path, crew: Crew | None = None) -> None:
        self.path, self.crew = Path(path), crew
        self._lock = FileLock(self.path / LOCK)
        self._new = False

    @classmethod
    def new(cls, path: str | Path | None, crew: Crew | None = None) -> RunFolder:
        """The folder of a run that begins."""
        if path is None:
            return TemporaryFolder(crew)
        refuse_address("path", path)
        folder = cls(path, crew)
        folder.require_free()
        folder._new = True
        return folder

    def chains(self, settings: Settings) -> range:
        """Those that are worked on here."""
        return range(settings.chains)

    def require_free(self) -> None:
        """Reject a folder that holds something."""
        if has_state(self.path):
            raise FileExistsError(
                f"{self.path} is not empty, it holds a run: use scirocco.resume to go on with it, or another path"
            )
        if self.path.exists() and any(p.name != LOCK and not p.match(HALF_WRITTEN) for p in self.path.iterdir()):
            raise FileExistsError(f"{self.path} is not empty: give another path")

    def __enter__(self) -> RunFolder:
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise RuntimeError(f"another process works on the run in {self.path}: wait for it, or end it") from None
        if self.crew is not None:
            try:
                self.crew.require_workers(self.path)
            except BaseException as error:
                self.__exit__(type(error))
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        refused = self._new and kind is not None and issubclass(kind, TypeError | ValueError)
        if refused and not group_folders(self.path) and not any(self.path.glob("tuning-*")):
            (self.path / NAME).unlink(missing_ok=True)  # so that a call put right finds the place free
        self._lock.release()

    def write(self, description: Description) -> None:
        """Say what the run is."""
        for path in self.path.glob(HALF_WRITTEN):
            path.unlink(missing_ok=True)
        checkpoint.write_json(self.path / NAME, description.to_json())


class TemporaryFolder(RunFolder):
    """For a run that ends in memory, and whose groups of chains meet in files meanwhile."""

    keeps = False

    def __init__(self, crew: Crew | None) -> None:
        super().__init__(tempfile.mkdtemp(prefix="scirocco-run-"), crew)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        super().__exit__(kind)
        shutil.rmtree(self.path, ignore_errors=True)


def read_description(path: Path) -> Description:
    """What the run in a folder is."""
    if not (path / NAME).is_file():
        raise FileNotFoundError(f"{path} holds no scirocco run: {NAME} is missing")
    return Description.from_json(checkpoint.read_json(path / NAME), path / NAME)


def group_folder(path: Path, first: int, taken: int = 0) -> Path:
    """Where the group of chains that begins with chain ``first`` has checkpoints, if it was ``taken`` over so often."""
    return path / (f"chains-{first}.{taken}" if taken else f"chains-{first}")


def times_taken(path: Path, first: int) -> int:
    """How often a group of chains was taken over."""
    return next(k for k in count() if not group_folder(path, first, k + 1).is_dir())


def newest_folder(path: Path, first: int) -> Path:
    """Where a group of chains goes on from: who took it over last, and has a checkpoint."""
    places = (group_folder(path, first, k) for k in range(times_taken(path, first), 0, -1))
    return next((place for place in places if checkpoint.exists(place)), group_folder(path, first))


def tuning_folder(path: Path, number: int) -> Path:
    """Where the search for the step size of a posterior, of a shard or of all data, keeps what it has found."""
    return path / f"tuning-{number}"


def group_folders(path: Path) -> dict[int, Path]:
    """The groups that have begun, by their first chain."""
    firsts = sorted({int(p.name.removeprefix("chains-").split(".")[0]) for p in path.glob("chains-*")})
    found = {first: newest_folder(path, first) for first in firsts}
    return {first: place for first, place in found.items() if checkpoint.exists(place)}


def all_begun(path: Path, settings: Settings) -> bool:
    """Whether every group of chains has a checkpoint: then they hold all values of the start."""
    return set(range(0, settings.chains, group_size(settings))) <= set(group_folders(path))


def group_size(settings: Settings) -> int:
    """Chains of a group."""
    return settings.group_size if isinstance(settings, StepSettings) else 1


def has_state(path: Path) -> bool:
    """Whether a folder holds a run that can go on, and not a saved trace."""
    return (path / NAME).is_file() and read_description(path).saved_chains is None
