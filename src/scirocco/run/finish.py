"""From an engine to a trace: run to the end, and keep what was sampled whatever ends the run."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from scirocco.run import checkpoint, runner
from scirocco.run.runner import Progressed, RunEngine
from scirocco.run.store import MemoryStore, Store, ZarrStore
from scirocco.run.trace import Trace


class DivergenceError(FloatingPointError):
    """A chain is no longer finite. ``trace`` holds everything sampled before."""

    def __init__(self, reason: str, trace: Trace) -> None:
        super().__init__(f"{reason}. {trace.count:,} draws made before are in the error's .trace")
        self.trace = trace


def empty_folder(path: str | Path | None) -> Path | None:
    """The folder for a new run, if it is wanted and free."""
    folder = None if path is None else Path(path)
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty: use scirocco.resume to go on with a run there, or another path")
    return folder


def begin(
    engine: RunEngine, progressed: Progressed, meta: dict[str, Any], folder: Path | None, *,
    checkpoint_seconds: float, progress: bool | None,
) -> Trace:  # fmt: skip
    """A new run, to its end."""
    settings = meta["settings"]
    store: Store = MemoryStore(engine.variables, settings["chains"])
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        store = ZarrStore(folder, engine.variables, settings["chains"], settings["num_samples"])
        runner.save(engine, folder, store, progressed, meta)
    return _finish(engine, store, progressed, meta, folder, checkpoint_seconds, progress)


def go_on(
    engine: RunEngine, state: Any, arrays: dict[str, Any], meta: dict[str, Any], folder: Path, *,
    checkpoint_seconds: float, progress: bool | None,
) -> Trace:  # fmt: skip
    """A run from its checkpoint to its end."""
    settings, facts = meta["settings"], meta["run"]
    progressed = runner.restore(arrays, facts, state)
    store = ZarrStore(folder, engine.variables, settings["chains"], settings["num_samples"])
    store.restore(facts["written"], checkpoint.part(arrays, "tail"))
    meta = {key: value for key, value in meta.items() if key not in ("run", "format")}
    return _finish(engine, store, progressed, meta, folder, checkpoint_seconds, progress)


def _finish(
    engine: RunEngine, store: Store, progressed: Progressed, meta: dict[str, Any], folder: Path | None,
    checkpoint_seconds: float, progress: bool | None,
) -> Trace:  # fmt: skip
    total = engine.recording.steps_for(meta["settings"]["num_samples"])
    try:
        stopped = runner.run(
            engine, store, progressed, total=total, folder=folder, meta=meta, checkpoint_seconds=checkpoint_seconds,
            show_progress=progress,
        )  # fmt: skip
    except BaseException as error:
        stopped = f"stopped by {type(error).__name__}: {error}"
        error.trace = _conclude(engine, store, progressed, meta, folder, stopped)  # type: ignore[attr-defined]
        error.add_note(f"scirocco: {store.count:,} draws made before are in the error's .trace")
        raise
    trace = _conclude(engine, store, progressed, meta, folder, stopped)
    if stopped is not None and stopped.startswith("diverged"):
        raise DivergenceError(stopped, trace)
    return trace


def _conclude(
    engine: RunEngine, store: Store, progressed: Progressed, meta: dict[str, Any], folder: Path | None,
    stopped: str | None,
) -> Trace:  # fmt: skip
    """Everything in its place, and the trace of it."""
    store.finish()
    try:
        bias = engine.report(progressed)
    except Exception as error:  # a report must never cost the run that it is about
        warnings.warn(f"no bias report: {type(error).__name__}: {error}", stacklevel=4)
        bias = None
    if folder is not None:
        runner.save(engine, folder, store, progressed, meta, stopped=stopped, bias=bias, finished=True)
        return Trace.load(folder)
    count = store.count if engine.variables else progressed.moments.count
    return Trace(
        store.arrays(), count, progressed.moments, bias=bias, stopped=stopped, seconds=progressed.seconds, meta=meta
    )
