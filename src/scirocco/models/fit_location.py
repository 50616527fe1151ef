"""Where a model is fitted: in memory or in a folder, and whether its run begins or goes on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from scirocco.core.places import refuse_address
from scirocco.models.storage import settings_of
from scirocco.run.crew import Crew
from scirocco.run.description import Description, ModelSettings, PassSettings, RunOptions
from scirocco.run.engine import Engine
from scirocco.run.folder import RunFolder, all_begun, group_folder
from scirocco.run.resume import GivenParts
from scirocco.run.rounds import Cluster, Rounds, Shard
from scirocco.run.runner import run
from scirocco.run.trace import Trace

SHARDS = "shards"  # of data on the workers of a cluster, among what is said of the data
RESUMER = "scirocco.models.resuming:ModelResumer"  # not imported: it knows all models


@dataclass
class Meeting:
    """Where this process and the workers that hold the data meet."""

    folder: Path
    cluster: Cluster
    held: list[Rounds] = field(default_factory=list)

    def rounds(self, chain: int, make: Callable[[int], Shard], *, remembers: bool = True) -> Rounds:
        """Those of a chain, whose shards are made by ``make``."""
        self.held.append(Rounds(self.cluster, group_folder(self.folder, chain), make, remembers=remembers))
        return self.held[-1]

    def require_seen(self, corpus: Path) -> None:
        """Reject workers that do not see a corpus, before any work is done."""
        if not self.cluster.client.get_executor().submit(_exists, corpus).result():
            raise ValueError(f"the workers of the client do not see {corpus}: put the corpus where all machines see it")


def _exists(path: Path) -> bool:
    """In a worker; of an address too."""
    return path.exists()


@dataclass(frozen=True)
class FitLocation:
    """The folder of a fit, if it has one; ``description`` is that of a run there that goes on."""

    path: Path | None = None
    description: Description | None = None
    given: GivenParts = field(default_factory=GivenParts)
    crew: Crew | None = None
    """Who advances the chains of a new fit, if not this process."""
    cluster: Cluster | None = None
    """Who holds the data, if not this process."""

    @classmethod
    def of(
        cls, path: str | Path | None, crew: Crew | None = None, cluster: Cluster | None = None
    ) -> FitLocation:  # fmt: skip
        """The folder for a new fit."""
        refuse_address("path", path)
        return cls(None if path is None else Path(path), crew=crew, cluster=cluster)

    @property
    def begun(self) -> bool:
        """Whether there are chains to go on with."""
        known = self.description
        return known is not None and self.path is not None and all_begun(self.path, known.settings)

    @property
    def sampler(self) -> str | None:
        """The sampler that a run of passes that goes on has, whatever "auto" would take now."""
        settings = self.description and self.description.settings
        return settings.sampler if isinstance(settings, PassSettings) else None

    def seed(self, random_state: Any) -> int:
        """That of the run, or a new one as scikit-learn has it."""
        if self.description is not None:
            return self.description.settings.seed
        if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
            return int(random_state)
        return int(check_random_state(random_state).randint(2**31 - 1))

    def model(self, model: Any) -> ModelSettings | None:
        """What a run on disk must know of its model, so that ``resume`` can make it again."""
        if self.path is None and self.crew is None:
            return None
        return ModelSettings(type(model).__name__, settings_of(model))

    def run(
        self, engines: Sequence[Engine], model: Any, data: dict[str, Any], *, seed: int, sampler: str,
        seconds: float | None, workers: int,
    ) -> Trace:  # fmt: skip
        """Run the chains of a model of counts on data with this fingerprint, from their start or where they were."""
        if self.description is not None:
            description = self.description
            if description.data != data:
                raise ValueError(f"the data differ from those of the run in {self.path}")
        else:
            options = RunOptions(max_seconds=seconds, progress=bool(model.verbose), workers=workers)
            settings = PassSettings(seed, len(engines), sampler)
            description = Description(RESUMER, settings, options, data=data, model=self.model(model))
        if self.path is None and self.crew is None:
            trace = run(engines, description, None)
        else:
            with self._folder() as folder:
                folder.write(description)
                trace = run(engines, description, folder)
        warn_if_interrupted(trace)
        return trace

    @contextmanager
    def meeting(self) -> Iterator[Meeting]:
        """A folder that the workers of the cluster see, temporary if there is none; at the end they let go of it all.

        Workers that do not see it, or have another version, are rejected.
        """
        assert self.cluster is not None
        if self.path is not None and self.description is None:
            RunFolder(self.path).require_free()
        temporary = partial(TemporaryDirectory, prefix="scirocco-run-", ignore_cleanup_errors=True)
        with temporary() if self.path is None else nullcontext(self.path) as place:
            found = Meeting(Path(place).resolve(), self.cluster)
            self.cluster.require_workers(found.folder)
            try:
                yield found
            finally:
                for own in found.held:
                    own.forget()

    def _folder(self) -> RunFolder:
        if self.description is None or self.path is None:
            return RunFolder.new(self.path, self.crew)
        return self.given.folder(self.path)


def require_no_more_shards(location: FitLocation, size: int, what: str) -> None:
    """Reject more shards than there are documents, or rows."""
    if location.cluster is not None and location.cluster.shards > size:
        raise ValueError(f"shards must not exceed the number of {what}, {size:,}; got {location.cluster.shards:,}")


def warn_if_interrupted(trace: Trace) -> None:
    """Say that a fit has less than it should."""
    if trace.stopped is not None and trace.stopped.kind in ("interrupted", "terminated"):
        warnings.warn(f"fit was interrupted: it stops with what it has ({trace.stopped})", stacklevel=7)
