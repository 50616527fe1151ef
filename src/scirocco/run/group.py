"""A group of chains of a run: an engine, where its draws go, and its checkpoints."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from scirocco.core.clock import Clock
from scirocco.run import checkpoint
from scirocco.run.description import Stop
from scirocco.run.engine import Chunk, Engine, Measured
from scirocco.run.folder import newest_folder
from scirocco.run.moments import Moments
from scirocco.run.result import GroupResult
from scirocco.run.store import Store

CHUNK_SECONDS = 0.5
SAVE_SHARE = 0.1  # of the time, at most, goes into checkpoints
SAVED_FACTS = {"chains": int, "draws": int, "moment_count": int, "seconds": int | float, "stopped": list | None}
FACTS = SAVED_FACTS | {
    "step": int, "written": int, "newest": bool, "probes": int, "full_count": int, "finished": bool, "stored": int
}  # fmt: skip
"""What a checkpoint must say, of a group or of a saved trace, and how."""


@dataclass
class Group:
    """An engine and how far its chains are."""

    engine: Engine
    store: Store
    folder: Path | None
    """Where its checkpoints go."""
    moments: Moments = field(default_factory=Moments)
    """Of draws whose sums are complete."""
    probed: dict[str, np.ndarray] = field(default_factory=dict)
    probes: int = 0
    points: dict[str, list[np.ndarray]] = field(default_factory=dict)
    length: int = 0
    saved: float = field(default_factory=time.perf_counter)
    cost: float = 0.0  # seconds that the last checkpoint took
    diverged: Stop | None = None
    kept: int = 0  # steps whose draws and sums were taken from the engine

    @classmethod
    def begun(cls, engine: Engine, folder: Path | None, place: Path | None = None) -> tuple[Group, float]:
        """At its start, or where its checkpoint in the ``folder`` of the run left it; and the seconds used before.

        Its ``place`` there is the newest, if none is given.
        """
        if place is None and folder is not None:
            place = newest_folder(folder, engine.chains.start)
        group = cls(engine, engine.open_store(folder), place, length=engine.first_length)
        if place is not None and checkpoint.exists(place):
            return group, group._restore(place)
        engine.start()
        group.moments.start = engine.starts
        return group, 0.0

    @property
    def over(self) -> bool:
        """Whether all is done."""
        done, total, _ = self.engine.work
        return done >= total or self.diverged is not None

    @property
    def count(self) -> int:
        """Draws so far."""
        return self.store.count if self.engine.variables else self.moments.count + self.engine.pending_count

    @property
    def whole(self) -> bool:
        """Whether engine, store and moments are of the same step, and not what an error left."""
        return self.engine.whole and (self.store.newest or self.engine.step == self.kept)

    def streamed(self) -> Moments:
        """The streaming moments of all draws so far."""
        return self.moments.including(self.engine.pending)

    def result(self) -> GroupResult:
        """What the chains have made so far."""
        return GroupResult(
            self.engine.chains, self.count, self.store.moments(self.streamed()), self.store.draws,
            newest=self.store.newest, leaves=self.engine.leaves() if self.whole else {},
        )  # fmt: skip

    # Going on.

    def turn(self, clock: Clock, checkpoint_seconds: float) -> None:
        """One chunk, and what is due after it."""
        engine, began, before = self.engine, time.perf_counter(), self.engine.step
        due = sorted(step for step in {*engine.probe_steps, *engine.point_steps} if step > before)
        until = before + self.length
        chunk = engine.advance(min(due[0], until) if due else until, clock)
        made = engine.step - before
        if not chunk.finite:
            chunk, reason = engine.locate()
            self.diverged = Stop("diverged", f"diverged: {reason}")
        self._keep(chunk)
        self.length = next_length(self.length, made, time.perf_counter() - began)
        if self.diverged is None and due and engine.step == due[0]:
            self._measure()
        waited = time.perf_counter() - self.saved
        if self.folder is not None and waited > max(checkpoint_seconds, self.cost / SAVE_SHARE):
            self.save(clock)

    def _keep(self, chunk: Chunk) -> None:
        if chunk.draws:
            self.store.append(chunk.draws)
        for sums in chunk.sums:
            self.moments.merge(sums)
        self.kept = self.engine.step

    def _measure(self) -> None:
        """What is due at this step for the report."""
        if self.engine.step in self.engine.point_steps:
            for name, values in self.engine.point().items():
                self.points.setdefault(name, []).append(values)
        if self.engine.step in self.engine.probe_steps:
            self._probe()

    def measured(self) -> Measured:
        """All that was measured so far."""
        points = {name: np.stack(values, axis=1) for name, values in self.points.items()}
        return Measured(self.probed, self.probes, points)

    def _probe(self) -> None:
        """Probe the chains. A model that cannot be measured (not twice differentiable, say) is sampled still."""
        try:
            found = self.engine.probe(self.streamed(), self.probed)
        except Exception as error:
            if not self.probes:
                warnings.warn(f"no bias report: measuring failed with {type(error).__name__}: {error}", stacklevel=6)
            return
        self.probed = averaged([self.probed, found], [self.probes, 1])
        self.probes += 1

    # Keeping.

    def save(self, clock: Clock, *, stopped: Stop | None = None, result: GroupResult | None = None) -> None:
        """Write the checkpoint; the last one of a run with its ``result``, as the trace shows it."""
        assert self.folder is not None
        began = time.perf_counter()
        moments = self.streamed() if result is None else result.moments
        kinds = {
            "state": self.engine.pack(), "store": self.store.pack(), "mean": moments.mean, "square": moments.square,
            "start": self.moments.start, "probe": self.probed, "point": self.measured().points,
            "leaves": {} if result is None else result.leaves,
            # What the run goes on from: moments without the draws whose sums are part of the state.
            "full_mean": self.moments.mean, "full_square": self.moments.square,
        }  # fmt: skip
        arrays = {f"{kind}/{name}": array for kind, values in kinds.items() for name, array in values.items()}
        facts = {
            "chains": len(self.engine.chains), "step": self.engine.step, "draws": self.count,
            "written": self.store.written, "newest": self.store.newest, "probes": self.probes,
            "moment_count": moments.count, "full_count": self.moments.count, "seconds": clock.used,
            "stopped": stopped and [stopped.kind, stopped.text], "finished": result is not None,
            "stored": 0 if result is None else result.count,
        }  # fmt: skip
        checkpoint.write(self.folder, arrays, facts)
        self.saved = time.perf_counter()
        self.cost = self.saved - began

    def _restore(self, place: Path) -> float:
        """The inverse of ``save``; the seconds that the run had used."""
        arrays, facts = checkpoint.read(place, FACTS)
        self.engine.unpack(checkpoint.part(arrays, "state"))
        self.store.unpack(checkpoint.part(arrays, "store"), facts["written"])
        mean, square = (checkpoint.part(arrays, kind) for kind in ("full_mean", "full_square"))
        self.moments = Moments(facts["full_count"], mean, square, checkpoint.part(arrays, "start"))
        self.probed, self.probes, self.kept = checkpoint.part(arrays, "probe"), facts["probes"], self.engine.step
        self.points = {n: list(np.moveaxis(a, 1, 0)) for n, a in checkpoint.part(arrays, "point").items()}
        return float(facts["seconds"])


def averaged(parts: Sequence[dict[str, np.ndarray]], weights: Sequence[int]) -> dict[str, np.ndarray]:
    """Measurements by name, averaged; a part without any has weight 0."""
    found = [(part, weight) for part, weight in zip(parts, weights, strict=True) if weight]
    total = sum(weight for _, weight in found)
    names = found[0][0] if found else {}
    return {n: np.asarray(sum(part[n] * weight for part, weight in found) / total) for n in names}


def next_length(length: int, steps: int, seconds: float) -> int:
    """Chunks of about half a second, found by doubling: results do not depend on it."""
    if steps < length:
        return length  # cut short by something else than time
    wanted = steps * CHUNK_SECONDS / max(seconds, 1e-6)
    return int(np.clip(wanted, max(1, length // 2), 2 * length))
