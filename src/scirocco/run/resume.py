"""``resume``: the ways to go on register themselves, and a run names its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scirocco.core.checks import require_count
from scirocco.core.interrupt import Interrupt
from scirocco.core.parts import part, part_named
from scirocco.run.folder import read_meta


@dataclass(frozen=True)
class Again:
    """What ``resume`` was given: parts that a description cannot hold, and settings of this stretch of the run."""

    sampler: Any = None
    estimator: Any = None
    batching: Any = None
    blocks: tuple[Any, ...] = ()
    collect: Any = None
    initial: Any = None
    max_seconds: float | None = None
    checkpoint_seconds: float = 30.0
    progress: bool | None = None
    workers: int = 1
    threads: int | None = None

    def refuse(self, kind: str, *names: str) -> None:
        """Reject parts that a kind of run does not have."""
        values = {name: getattr(self, name) for name in names}
        given = [
            name for name, value in values.items() if value is not None and not (type(value) is tuple and not value)
        ]
        if given:
            raise ValueError(f"a run of {kind} has no {', '.join(given)}: leave it out")


class Resumer:
    """Goes on with one kind of run; subclasses register themselves by being defined."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        part(cls)

    def __call__(self, path: Path, meta: dict[str, Any], data: Any, y: Any, again: Again) -> Any:
        """Run to the end from the checkpoints in ``path``."""
        raise NotImplementedError


def resume(
    path: str | Path, data: Any, y: Any = None, *, num_samples: int | None = None, max_seconds: float | None = None,
    sampler: Any = None, estimator: Any = None, batching: Any = None, blocks: Sequence[Any] = (),
    collect: Callable[[Any], Any] | bool | None = None, initial: Any = None, checkpoint_seconds: float = 30.0,
    progress: bool | None = None, workers: int = 1, threads: int | None = None,
) -> Any:  # fmt: skip
    """Go on with a run from its last checkpoint, bit for bit as if it had never stopped.

    ``data`` is what the run was started with, because neither functions nor data are stored: the target of ``sample``,
    the codes of ``sample_dirichlet``, or the ``X`` (and ``y``) of a model's ``fit``, which is returned fitted. So is
    any part that JSON cannot hold (a schedule of optax, a block, a ``collect`` function); the error says which. A run
    that was killed before its first checkpoint starts again. ``num_samples`` and ``max_seconds`` extend a run.
    """
    folder = Path(path)
    meta = read_meta(folder)
    if meta.get("saved"):
        raise ValueError(f"{folder} holds a saved trace, not a run that can go on: start it with sample(..., path=...)")
    if num_samples is not None:
        require_count("num_samples", num_samples)
        if "num_samples" not in meta["settings"]:
            raise ValueError("num_samples cannot extend this run: its length is not counted in draws")
        meta["settings"]["num_samples"] = max(meta["settings"]["num_samples"], int(num_samples))
    if max_seconds is not None:
        meta["settings"]["max_seconds"] = float(max_seconds)
    again = Again(
        sampler, estimator, batching, tuple(blocks), collect, initial, max_seconds, checkpoint_seconds, progress,
        workers, threads,
    )  # fmt: skip
    with Interrupt():
        return part_named(meta["resumer"])()(folder, meta, data, y, again)
