"""The runner repeats the engines' ``advance`` and owns everything around it.

Chunking, storing draws, streaming moments, checkpoints, budgets, progress, divergence and Ctrl-C are here and in
``run.group``, and nowhere else. A run has one or more groups of chains, each an engine of its own (``run.engine``),
which may be JAX or Numba: the runner does not know which. Groups take turns, in several threads if wanted. A group
neither sees the others nor the clock (but for its budget), so its draws are the same whether groups run side by side,
one after the other or elsewhere.
"""

from __future__ import annotations

import math
import shutil
import signal
import warnings
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from scirocco.core.clock import Clock
from scirocco.core.interrupt import Interrupt, undisturbed
from scirocco.run import checkpoint, store
from scirocco.run.crew import Crew, GroupFolder
from scirocco.run.description import Description, RunOptions, StepSettings, Stop
from scirocco.run.engine import Engine, Measured
from scirocco.run.files import read_trace, write_report
from scirocco.run.folder import REPORT, RunFolder
from scirocco.run.group import Group, averaged
from scirocco.run.moments import Moments
from scirocco.run.progress import Progress
from scirocco.run.result import GroupResult, trace_of
from scirocco.run.store import ZarrStore
from scirocco.run.trace import Trace


class DivergenceError(FloatingPointError):
    """A chain is no longer finite. ``trace`` holds everything sampled before."""

    def __init__(self, stop: Stop, trace: Trace) -> None:
        super().__init__(f"{stop}. {trace.count:,} draws made before are in the error's .trace")
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return FloatingPointError, self.args  # to another process its words are sent, its draws stay


def run(
    engines: Sequence[Engine], description: Description, folder: RunFolder | None, since: Clock | None = None
) -> Trace:  # fmt: skip
    """Run groups of chains to their end, from their start or from their checkpoints.

    What was done before, ``since`` a clock began to go, is part of a budget of seconds.

    The trace of whatever was made; it is attached to any error that ends the run.
    """
    options = description.options
    if isinstance(folder, GroupFolder):
        folder.advance(engines, options)
    preparing = since or Clock()  # a large corpus takes a while to be put in order, a step size to be found
    description = replace(description, variables=engines[0].variables)
    groups, used = _groups(engines, description, folder, preparing)
    clock = Clock(options.max_seconds, used + preparing.used)
    stopped, failure = None, None
    with Interrupt() as interrupt, Progress(options.progress) as bar:
        try:
            if folder is None or folder.crew is None:
                stopped = _repeat(groups, clock, interrupt, bar, options)
            else:
                stopped = _repeat_by_crew(groups, clock, interrupt, bar, folder, folder.crew)
        except BaseException as error:
            stopped, failure = _failed(error), error
    try:
        trace = _conclude(groups, clock, description, folder, stopped)
    except Exception as error:  # a full disk, say: the draws are still here
        failure = failure or error
        trace = _in_memory(groups, clock, description, stopped or _failed(error))
    if failure is not None:
        failure.trace = trace  # type: ignore[attr-defined]
        failure.add_note(f"scirocco: {trace.count:,} draws made before are in the error's .trace")
        raise failure
    if stopped is not None and stopped.kind == "diverged":
        raise DivergenceError(stopped, trace)
    return trace


def _failed(error: BaseException) -> Stop:
    return Stop("failed", f"stopped by {type(error).__name__}: {error}")


def _groups(
    engines: Sequence[Engine], description: Description, folder: RunFolder | None, preparing: Clock
) -> tuple[list[Group], float]:  # fmt: skip
    """The groups at their start or where their checkpoints left them, and the seconds that were used."""
    place = None if folder is None else folder.path
    if folder is not None:
        store.require_storable(description.variables)
        if isinstance(description.settings, StepSettings):
            _make_arrays(folder.path, description, len(engines[0].chains), description.settings.num_samples)
        folder.write(description)
    found = [Group.begun(engine, place) for engine in engines]
    used = max(seconds for _, seconds in found)
    groups = [group for group, _ in found]
    for group in groups:
        if group.folder is not None and not checkpoint.exists(group.folder):
            group.save(Clock(used=used + preparing.used))
    return groups, used


def _make_arrays(folder: Path, description: Description, group_size: int, count: int) -> None:
    store.make_arrays(folder, description.variables, description.settings.chains, group_size, count)


def _repeat(
    groups: list[Group], clock: Clock, interrupt: Interrupt, bar: Progress, options: RunOptions
) -> Stop | None:  # fmt: skip
    """Turns of the groups until all are over; why it ended before that, if it did."""

    def reason() -> Stop | None:
        return _reason(groups, clock, interrupt)

    def shown() -> None:
        engine = _least(groups).engine
        done, total, unit = engine.work
        draws = min(group.count for group in groups)
        share = max(done / max(total, 1e-300), clock.share)
        bar.update(engine.phase, done, total, unit, share=share, draws=draws, seconds=clock.used)

    workers = options.workers
    with ThreadPoolExecutor(max(1, workers), thread_name_prefix="scirocco-chains") as pool:
        turns: dict[Future[None], Group] = {}
        waiting = [group for group in groups if not group.over]
        while (waiting or turns) and (turns or reason() is None):
            if workers <= 1 or len(groups) == 1:
                group = waiting.pop(0)
                group.turn(clock, options.checkpoint_seconds)
                ended = [group]
            else:
                while waiting and len(turns) < workers and reason() is None:
                    group = waiting.pop(0)
                    turns[pool.submit(group.turn, clock, options.checkpoint_seconds)] = group
                finished, _ = wait(turns, timeout=0.1, return_when=FIRST_COMPLETED)
                ended = [turns.pop(turn) for turn in finished if turn.result() is None]
            waiting += [group for group in ended if not group.over]
            shown()
    return reason()


def _reason(groups: list[Group], clock: Clock, interrupt: Interrupt) -> Stop | None:
    """Why a run is to end before all is done."""
    diverged = next((group.diverged for group in groups if group.diverged), None)
    if diverged is not None or all(group.over for group in groups):
        return diverged
    done, total, unit = _least(groups).engine.work
    limit = "" if math.isinf(total) else f" of {_counted(total)}"
    place = f"step {int(done):,} of {int(total):,}" if unit == "steps" else f"{_counted(done)}{limit} {unit}"
    if interrupt.asked:
        ended = interrupt.request == signal.SIGTERM
        return Stop("terminated" if ended else "interrupted", f"{'ended' if ended else 'interrupted'} at {place}")
    if clock.over:
        return Stop("budget", f"the time budget of {clock.budget:g} s was used up at {place}")
    return None


def _counted(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 1000 else f"{amount:.4g}"


def _repeat_by_crew(
    groups: list[Group], clock: Clock, interrupt: Interrupt, bar: Progress, folder: RunFolder, crew: Crew
) -> Stop | None:  # fmt: skip
    """The same by workers; ``groups`` are in the end as their checkpoints have them."""
    while True:
        diverged: list[Stop | None] = [None] * len(groups)
        try:
            crew.advance(groups, folder, clock, interrupt, bar)
            diverged = [group.diverged for group in groups]
        finally:
            groups[:] = [Group.begun(group.engine, folder.path)[0] for group in groups]
            for group, stop in zip(groups, diverged, strict=True):
                group.diverged = stop
        stopped = _reason(groups, clock, interrupt)
        if stopped is not None or all(group.over for group in groups):
            return stopped
        for group in groups:  # they wait for each other: here they meet
            if not group.over:
                group.turn(clock, math.inf)
                group.save(clock)


def _least(groups: list[Group]) -> Group:
    """The group that has most left to do."""
    return min(groups, key=lambda group: group.engine.work[0] / max(group.engine.work[1], 1e-300))


# The end.


def _conclude(
    groups: list[Group], clock: Clock, description: Description, folder: RunFolder | None, stopped: Stop | None
) -> Trace:  # fmt: skip
    """Everything in its place, and the trace of it."""
    if folder is None or not folder.keeps or not all(group.whole for group in groups):
        return _in_memory(groups, clock, description, stopped)
    for group in groups:
        group.store.finish()
    results = _results(groups)
    if groups[0].store.newest:
        if any((folder.path / name).exists() for name in (store.DRAWS, store.RAGGED)):
            for group in groups:  # draws of a run that was extended are replaced: it is not finished meanwhile
                group.save(clock)
        results = _written(results, description, folder.path)
    report = _report(groups)
    shutil.rmtree(folder.path / REPORT, ignore_errors=True)  # that of a shorter run
    if report is not None:
        write_report(folder.path, report)
    for group, result in zip(groups, results, strict=True):
        group.save(clock, stopped=stopped, result=result)
    return read_trace(folder.path, description)


def _in_memory(groups: list[Group], clock: Clock, description: Description, stopped: Stop | None) -> Trace:
    """The trace of what is here, whatever became of the files."""
    return trace_of(
        _results(groups), description, None, bias=_report(groups), stopped=stopped, seconds=clock.used
    )  # fmt: skip


def _results(groups: list[Group]) -> Sequence[GroupResult]:
    return groups[0].engine.arranged([group.result() for group in groups])


def _written(results: Sequence[GroupResult], description: Description, folder: Path) -> list[GroupResult]:
    """Draws of a run of unknown length go to disk at its end, as many of each chain."""
    for name in (store.DRAWS, store.RAGGED):
        shutil.rmtree(folder / name, ignore_errors=True)
    count = min((result.count for result in results if result.count), default=0)
    if count:
        _make_arrays(folder, description, 1, count)
    for result in results:
        if result.count:
            kept = ZarrStore(folder, description.variables, result.chains)
            kept.append(result.draws(count))
            kept.finish()
    return [replace(result, count=min(count, result.count)) for result in results]


def _report(groups: list[Group]) -> Any:
    found = [group.measured() for group in groups]
    probed = averaged([m.probed for m in found], [m.probes for m in found])
    measured = Measured(probed, sum(m.probes for m in found), _side_by_side([m.points for m in found]))
    moments = Moments.joined([group.store.moments(group.streamed()) for group in groups])
    try:
        with undisturbed():  # what was drawn before a Ctrl-C or the end of the time has its report
            return groups[0].engine.report(moments, measured)
    except Exception as error:  # a report must never cost the run that it is about
        warnings.warn(f"no bias report: {type(error).__name__}: {error}", stacklevel=5)
        return None


def _side_by_side(groups: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Points of all chains, as many of each as all of them have; none if a group has none."""
    names = groups[0].keys() if all(groups) else ()
    count = {name: min(points[name].shape[1] for points in groups) for name in names}
    return {name: np.concatenate([points[name][:, : count[name]] for points in groups]) for name in names}
