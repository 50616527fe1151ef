"""The runner repeats the engines' ``advance`` and owns everything around it.

Chunking, storing draws, streaming moments, checkpoints, budgets, progress, divergence and Ctrl-C are here and nowhere
else. A run has one or more groups of chains, each an engine of its own (``run.engine``), which may be JAX or Numba: the
runner does not know which. Groups take turns, in several threads if wanted. A group neither sees the others nor the
clock (but for its budget), so its draws are the same whether groups run side by side, one after the other or elsewhere.
"""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from scirocco.core.clock import Clock
from scirocco.core.interrupt import Interrupt
from scirocco.core.parts import name_of
from scirocco.run import checkpoint, store
from scirocco.run.engine import Chunk, Engine
from scirocco.run.folder import REPORT, RunFolder, group_folder
from scirocco.run.moments import Moments
from scirocco.run.progress import Progress
from scirocco.run.ragged import concatenated, draws_of
from scirocco.run.store import Draws, MemoryStore, Store, ZarrStore
from scirocco.run.trace import Trace

CHUNK_SECONDS = 0.5
SAVE_SHARE = 0.1  # of the time, at most, goes into checkpoints


class DivergenceError(FloatingPointError):
    """A chain is no longer finite. ``trace`` holds everything sampled before."""

    def __init__(self, reason: str, trace: Trace) -> None:
        super().__init__(f"{reason}. {trace.count:,} draws made before are in the error's .trace")
        self.trace = trace


@dataclass
class Group:
    """An engine and how far its chains are."""

    engine: Engine
    store: Store
    folder: Path | None
    moments: Moments = field(default_factory=Moments)
    probed: dict[str, np.ndarray] = field(default_factory=dict)
    probes: int = 0
    length: int = 0
    saved: float = field(default_factory=time.perf_counter)
    cost: float = 0.0  # seconds that the last checkpoint took
    diverged: str | None = None

    def __post_init__(self) -> None:
        self.length = self.engine.first_length

    @property
    def over(self) -> bool:
        """Whether all is done."""
        done, total, _ = self.engine.work
        return done >= total or self.diverged is not None

    @property
    def count(self) -> int:
        """Draws so far."""
        if self.engine.second_half is not None:
            return self.engine.second_half.count
        return self.store.count if self.engine.variables else self.moments.count

    def turn(self, clock: Clock, checkpoint_seconds: float) -> None:
        """One chunk, and what is due after it."""
        engine, began, before = self.engine, time.perf_counter(), self.engine.step
        due = [step for step in engine.probe_steps if step > before]
        until = before + self.length
        chunk = engine.advance(min(due[0], until) if due else until, clock)
        made = engine.step - before
        if not chunk.finite:
            chunk, reason = engine.locate()
            self.diverged = f"diverged: {reason}"
        self._keep(chunk)
        self.length = _next_length(self.length, made, time.perf_counter() - began)
        if self.diverged is None and due and engine.step == due[0]:
            self._probe()
        waited = time.perf_counter() - self.saved
        if self.folder is not None and waited > max(checkpoint_seconds, self.cost / SAVE_SHARE):
            self.save(clock)

    def _keep(self, chunk: Chunk) -> None:
        if chunk.draws:
            self.store.append(chunk.draws)
        self.moments.merge(chunk.made, chunk.reference, chunk.first, chunk.second)

    def _probe(self) -> None:
        """Measure for the report. A model that cannot be measured (not twice differentiable, say) is sampled still."""
        try:
            found = self.engine.probe(self.moments, self.probed)
        except Exception as error:
            if not self.probes:
                warnings.warn(f"no bias report: measuring failed with {type(error).__name__}: {error}", stacklevel=6)
            return
        self.probed = _averaged([self.probed, found], [self.probes, 1])
        self.probes += 1

    def save(self, clock: Clock, *, stopped: str | None = None, final: Moments | None = None) -> None:
        """Write the checkpoint; the last one with the moments as the trace shows them."""
        assert self.folder is not None
        moments = self.moments if final is None else final
        began = time.perf_counter()
        arrays = {f"state/{name}": array for name, array in self.engine.pack().items()}
        kinds = {
            "tail": self.store.pack(), "mean": moments.mean, "square": moments.square, "start": moments.start,
            "probe": self.probed,
        }  # fmt: skip
        if self.engine.second_half is not None:
            kinds["half"] = self.engine.second_half.pack()
        for kind, values in kinds.items():
            arrays |= {f"{kind}/{name}": array for name, array in values.items()}
        facts = {
            "chains": len(self.engine.chains), "step": self.engine.step, "draws": self.count,
            "written": getattr(self.store, "written", 0), "moment_count": moments.count, "probes": self.probes,
            "seconds": clock.used, "stopped": stopped, "finished": final is not None,
        }  # fmt: skip
        checkpoint.write(self.folder, arrays, facts)
        self.saved = time.perf_counter()
        self.cost = self.saved - began

    def draws(self) -> Draws:
        """All draws of the group."""
        half = self.engine.second_half
        if half is None:
            return self.store.draws()
        return half.draws() or {name: v.empty(1) for name, v in self.engine.variables.items()}

    def settled(self) -> Moments:
        """The moments; those of a second half are the averages of its expectations and the variances of its draws."""
        half = self.engine.second_half
        return self.moments if half is None else half.moments()


def run(
    engines: Sequence[Engine], meta: dict[str, Any], folder: RunFolder | None, *, max_seconds: float | None = None,
    checkpoint_seconds: float = 30.0, progress: bool | None = None, workers: int = 1,
) -> Trace:  # fmt: skip
    """Run groups of chains to their end, from their start or from their checkpoints.

    The trace of whatever was made; it is attached to any error that ends the run.
    """
    preparing = Clock()
    groups, used = _groups(engines, meta, folder)
    clock = Clock(max_seconds, used + preparing.used)  # a large corpus takes a while to be put in order
    stopped, failure = None, None
    with Interrupt() as interrupt, Progress(progress) as bar:
        try:
            stopped = _repeat(groups, clock, interrupt, bar, checkpoint_seconds, workers)
        except BaseException as error:
            stopped, failure = f"stopped by {type(error).__name__}: {error}", error
    try:
        trace = _conclude(groups, clock, meta, folder, stopped)
    except Exception as error:  # a full disk, say: the draws are still here
        failure = failure or error
        trace = _in_memory(groups, clock, meta, stopped or f"stopped by {type(error).__name__}: {error}")
    if failure is not None:
        failure.trace = trace  # type: ignore[attr-defined]
        failure.add_note(f"scirocco: {trace.count:,} draws made before are in the error's .trace")
        raise failure
    if stopped is not None and stopped.startswith("diverged"):
        raise DivergenceError(stopped, trace)
    return trace


def _groups(engines: Sequence[Engine], meta: dict[str, Any], folder: RunFolder | None) -> tuple[list[Group], float]:
    """The groups at their start or where their checkpoints left them, and the seconds that were used."""
    groups: list[Group] = []
    used = 0.0
    variables, streaming = engines[0].variables, engines[0].second_half is None
    if folder is not None:
        total = sum(len(engine.chains) for engine in engines)
        if streaming:
            wanted = meta["settings"]["num_samples"]
            store.make_arrays(folder.path, variables, total, len(engines[0].chains), wanted)
        folder.write(meta | {"variables": store.described(variables), "chains": total})
    for engine in engines:
        size = len(engine.chains)
        if folder is None:
            engine.start()
            groups.append(Group(engine, MemoryStore(variables, size), None, Moments(start=engine.starts)))
            continue
        place = group_folder(folder.path, engine.chains.start)
        kept: Store = ZarrStore(folder.path, variables, engine.chains) if streaming else MemoryStore({}, size)
        group = Group(engine, kept, place)
        if checkpoint.exists(place):
            arrays, facts = checkpoint.read(place)
            _restore(group, arrays, facts, folder.path)
            used = max(used, facts["seconds"])
        else:
            engine.start()
            group.moments.start = engine.starts
        groups.append(group)
    if folder is not None:
        for group in groups:
            assert group.folder is not None
            if not checkpoint.exists(group.folder):
                group.save(Clock(used=used))
    return groups, used


def _restore(group: Group, arrays: checkpoint.Arrays, facts: dict[str, Any], folder: Path) -> None:
    """The inverse of ``Group.save``."""
    engine, variables = group.engine, group.engine.variables
    engine.unpack(checkpoint.part(arrays, "state"))
    kinds = ("mean", "square", "start", "probe", "tail")
    mean, square, start, probed, tail = (checkpoint.part(arrays, kind) for kind in kinds)
    group.moments = Moments(facts["moment_count"], mean, square, start)
    group.probed, group.probes = probed, facts["probes"]
    if engine.second_half is not None:
        engine.second_half.unpack(checkpoint.part(arrays, "half"))
    else:
        store.verify(folder, variables, facts["written"], engine.chains)
        group.store = ZarrStore(folder, variables, engine.chains, facts["written"])
        group.store.append(store.unpacked(tail, variables))


def _repeat(
    groups: list[Group], clock: Clock, interrupt: Interrupt, bar: Progress, checkpoint_seconds: float, workers: int
) -> str | None:
    """Turns for all groups until everything is done. The reason why the run stopped earlier, or None."""

    def reason() -> str | None:
        diverged = next((group.diverged for group in groups if group.diverged), None)
        if diverged or all(group.over for group in groups):
            return diverged
        done, total, unit = _least(groups).engine.work
        place = f"step {int(done):,} of {int(total):,}" if unit == "steps" else f"{done:.4g} of {total:g} {unit}"
        if interrupt.asked:
            return f"interrupted at {place}"
        return f"the time budget of {clock.budget:g} s was used up at {place}" if clock.over else None

    def shown() -> None:
        engine = _least(groups).engine
        done, total, unit = engine.work
        draws = min(group.count for group in groups)
        share = max(done / max(total, 1e-300), clock.share)
        bar.update(engine.phase, done, total, unit, share=share, draws=draws, seconds=clock.used)

    with ThreadPoolExecutor(max(1, workers), thread_name_prefix="scirocco-chains") as pool:
        turns: dict[Future[None], Group] = {}
        waiting = [group for group in groups if not group.over]
        while (waiting or turns) and (turns or reason() is None):
            if workers <= 1 or len(groups) == 1:
                group = waiting.pop(0)
                group.turn(clock, checkpoint_seconds)
                ended = [group]
            else:
                while waiting and len(turns) < workers and reason() is None:
                    group = waiting.pop(0)
                    turns[pool.submit(group.turn, clock, checkpoint_seconds)] = group
                finished, _ = wait(turns, timeout=0.1, return_when=FIRST_COMPLETED)
                ended = [turns.pop(turn) for turn in finished if turn.result() is None]
            waiting += [group for group in ended if not group.over]
            shown()
    return reason()


def _least(groups: list[Group]) -> Group:
    """The group that has most left to do."""
    return min(groups, key=lambda group: group.engine.work[0] / max(group.engine.work[1], 1e-300))


def _conclude(
    groups: list[Group], clock: Clock, meta: dict[str, Any], folder: RunFolder | None, stopped: str | None
) -> Trace:  # fmt: skip
    """Everything in its place, and the trace of it."""
    if folder is None or not all(group.engine.whole for group in groups):
        return _in_memory(groups, clock, meta, stopped)
    for group in groups:
        group.store.finish()
    begun = [group for group in groups if group.count]
    draws, moments = _arranged(begun)
    if groups[0].engine.second_half is not None and begun:
        _write_kept(begun, draws, folder)
    report = _report(groups)
    if report is not None:
        checkpoint.write(folder.path / REPORT, report.to_arrays(), {"type": name_of(type(report))})
    settled = {group.engine.chains.start: known for group, known in zip(begun, moments, strict=True)}
    for group in groups:
        group.save(clock, stopped=stopped, final=settled.get(group.engine.chains.start, Moments()))
    return Trace.load(folder.path)


def _arranged(groups: list[Group]) -> tuple[Sequence[Draws], Sequence[Moments]]:
    """Draws and moments of all groups; of a run whose draws are on disk already, moments only."""
    kept = [group.draws() if group.folder is None or group.engine.second_half else {} for group in groups]
    moments = [group.settled() for group in groups]
    return groups[0].engine.arranged(kept, moments) if groups else (kept, moments)


def _write_kept(groups: list[Group], draws: Sequence[Draws], folder: RunFolder) -> None:
    """Draws of a run of unknown length go to disk at its end."""
    for name in (store.DRAWS, store.RAGGED):
        shutil.rmtree(folder.path / name, ignore_errors=True)
    variables, count = groups[0].engine.variables, min(group.count for group in groups)
    last = max(group.engine.chains.stop for group in groups)
    store.make_arrays(folder.path, variables, last, 1, count)
    for group, values in zip(groups, draws, strict=True):
        kept = ZarrStore(folder.path, variables, group.engine.chains)
        kept.append({name: draws_of(v, group.count - count) for name, v in values.items()})
        kept.finish()


def _in_memory(groups: list[Group], clock: Clock, meta: dict[str, Any], stopped: str | None) -> Trace:
    """The trace of what is here, whatever became of the files."""
    begun = [group for group in groups if group.count] or groups[:1]
    count = min(group.count for group in begun)
    half = groups[0].engine.second_half is not None
    draws, moments = begun[0].engine.arranged([group.draws() for group in begun], [group.settled() for group in begun])
    parts = [
        {n: draws_of(v, v.shape[1] - count if half else 0, None if half else count) for n, v in p.items()}
        for p in draws
    ]
    joined = {name: concatenated([part[name] for part in parts], chains=True) for name in parts[0]}
    return Trace(
        joined, count, Moments.joined(moments), bias=_report(groups), stopped=stopped,
        seconds=clock.used, meta=meta, variables=groups[0].engine.variables,
    )  # fmt: skip


def _report(groups: list[Group]) -> Any:
    measured = [group for group in groups if group.probes]
    probed = _averaged([group.probed for group in measured], [group.probes for group in measured])
    moments = Moments.joined([group.settled() for group in groups])
    try:
        return groups[0].engine.report(moments, probed, sum(group.probes for group in measured))
    except Exception as error:  # a report must never cost the run that it is about
        warnings.warn(f"no bias report: {type(error).__name__}: {error}", stacklevel=5)
        return None


def _averaged(parts: Sequence[dict[str, np.ndarray]], weights: Sequence[int]) -> dict[str, np.ndarray]:
    """Measurements by name, averaged; a part without any has weight 0."""
    found = [(part, weight) for part, weight in zip(parts, weights, strict=True) if weight]
    total = sum(weight for _, weight in found)
    names = found[0][0] if found else {}
    return {n: np.asarray(sum(part[n] * weight for part, weight in found) / total) for n in names}


def _next_length(length: int, steps: int, seconds: float) -> int:
    """Chunks of about half a second, found by doubling: results do not depend on it."""
    if steps < length:
        return length  # cut short by something else than time
    wanted = steps * CHUNK_SECONDS / max(seconds, 1e-6)
    return int(np.clip(wanted, max(1, length // 2), 2 * length))
