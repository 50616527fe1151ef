"""``resume``: the ways to go on register themselves, and a run names its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from scirocco.core.checks import require_count
from scirocco.core.interrupt import interruptible
from scirocco.core.parts import part, part_named
from scirocco.core.places import refuse_address
from scirocco.run.crew import Crew
from scirocco.run.description import Description, StepSettings
from scirocco.run.folder import RunFolder, read_description


@dataclass(frozen=True)
class GivenParts:
    """Parts of a run that ``resume`` was given again, because its description cannot hold them."""

    sampler: Any = None
    estimator: Any = None
    batching: Any = None
    blocks: tuple[Any, ...] = ()
    collect: Any = None
    initial: Any = None
    client: Any = None
    folder: Callable[[Path], RunFolder] = RunFolder
    """Opens the folder of the run: who works on it, and where."""

    def refuse(self, kind: str, *names: str) -> None:
        """Reject parts that a kind of run does not have."""
        values = {name: getattr(self, name) for name in names}
        given = [
            name for name, value in values.items() if value is not None and not (type(value) is tuple and not value)
        ]
        if given:
            raise ValueError(f"a run of {kind} has no {', '.join(given)}: leave it out")


class Resumer(ABC):
    """Goes on with one kind of run; subclasses register themselves by being defined."""

    kind: ClassVar[str]
    """What such a run is called in messages."""

    threaded: ClassVar[bool] = False
    """Whether threads can be chosen."""

    resident: ClassVar[bool] = False
    """Whether the data may be on the workers of a client."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        part(cls)

    @abstractmethod
    def __call__(self, path: Path, description: Description, data: Any, y: Any, given: GivenParts) -> Any:
        """Run to the end from the checkpoints in ``path``."""


@interruptible
def resume(
    path: str | Path, data: Any, y: Any = None, *, num_samples: int | None = None, max_seconds: float | None = None,
    sampler: Any = None, estimator: Any = None, batching: Any = None, blocks: Sequence[Any] = (),
    collect: Callable[[Any], Any] | bool | None = None, initial: Any = None, checkpoint_seconds: float | None = None,
    progress: bool | None = None, workers: int | None = None, threads: int | None = None, report: bool | None = None,
    executor: Executor | None = None, client: Any = None,
) -> Any:  # fmt: skip
    """Go on with a run from its last checkpoint, bit for bit as if it had never stopped.

    ``data`` is what the run was started with, because neither functions nor data are stored: the target of ``sample``,
    the codes of ``sample_dirichlet``, or the ``X`` (and ``y``) of a model's ``fit``, which is returned fitted. So is
    any part that JSON cannot hold (a schedule of optax, a block, a ``collect`` function); the error says which. A run
    that was killed before its first checkpoint starts again.

    ``num_samples`` and ``max_seconds`` (counted from its beginning) extend a run; a model of counts that was fitted
    without a budget then makes as many passes as the seconds allow. They and the other options of how it is carried out
    are from now on those of the run; without them it goes on as it was started. An ``executor`` is for this call alone.
    A fit whose documents were on the workers of a Dask ``client`` needs one again.
    """
    refuse_address("path", path)
    folder = Path(path)
    description = read_description(folder)
    if description.saved_chains is not None:
        raise ValueError(f"{folder} holds a saved trace, not a run that can go on: start it with sample(..., path=...)")
    kind = part_named(description.resumer)
    if not (isinstance(kind, type) and issubclass(kind, Resumer)):
        raise ValueError(f"{folder} names {description.resumer}, which cannot go on with a run")
    settings = description.settings
    if num_samples is not None:
        require_count("num_samples", num_samples)
        if not isinstance(settings, StepSettings):
            raise ValueError("num_samples cannot extend this run: its length is not counted in draws")
        settings = replace(settings, num_samples=max(settings.num_samples, int(num_samples)))
    if threads is not None and not kind.threaded:
        raise ValueError(f"a run of {kind.kind} has no threads: leave it out")
    if client is not None and (executor is not None or not kind.resident):
        raise ValueError(f"client= is for data on its workers, and a run of {kind.kind} has none there: leave it out")
    options: dict[str, Any] = {
        "max_seconds": max_seconds, "checkpoint_seconds": checkpoint_seconds, "progress": progress, "workers": workers,
        "threads": threads, "report": report,
    }  # fmt: skip
    changed = replace(description.options, **{name: v for name, v in options.items() if v is not None})
    description = replace(description, settings=settings, options=changed)
    given = GivenParts(sampler, estimator, batching, tuple(blocks), collect, initial, client)
    crew = Crew.of(executor, data, given, y, workers or 1)
    given = replace(given, folder=partial(RunFolder, crew=crew))
    return kind()(folder, description, data, y, given)
