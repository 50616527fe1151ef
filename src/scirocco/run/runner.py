"""The runner repeats an engine's ``advance`` and owns everything around it.

Chunking, storing draws, streaming moments, checkpoints, progress, divergence and Ctrl-C are here and nowhere else. An
engine offers the methods of ``RunEngine``; it may be JAX or Numba, and the runner does not know which.
"""

from __future__ import annotations

import signal
import threading
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from scirocco.diagnostics.bias import BiasReport
from scirocco.run import checkpoint
from scirocco.run.moments import Moments
from scirocco.run.progress import Progress
from scirocco.run.recording import Recording
from scirocco.run.store import Store, Variables

CHUNK_SECONDS = 0.5
PROBES = 8


class Chunk(NamedTuple):
    """What a stretch of steps made."""

    state: Any  # with the number of steps made as .step
    draws: dict[str, np.ndarray]  # (chain, draw, ...)
    made: int
    # Sums of the first and second powers of deviations from a reference point, by variable and chain.
    reference: dict[str, np.ndarray]
    first: dict[str, np.ndarray]
    second: dict[str, np.ndarray]
    finite: bool


@runtime_checkable
class RunEngine(Protocol):
    """What the runner needs of an engine."""

    @property
    def variables(self) -> Variables:
        """The shape and dtype of what is stored of a draw, by name."""

    @property
    def recording(self) -> Recording:
        """Which steps are draws."""

    def advance(self, state: Any, until: int) -> Chunk:
        """Run towards step ``until``; the given state must stay as it is."""

    def locate(self, state: Any, bad: int) -> tuple[Chunk, str]:
        """The last good stretch before the divergence found at step ``bad``, and what happened then."""

    def probe(self, progressed: Progressed) -> dict[str, np.ndarray]:
        """Measurements for the bias report."""

    def report(self, progressed: Progressed) -> BiasReport | None:
        """The bias report from the measurements and the moments."""

    def pack(self, state: Any) -> dict[str, np.ndarray]:
        """The state as arrays, for a checkpoint."""


@dataclass
class Progressed:
    """How far a run is: everything that a checkpoint must hold besides the draws."""

    state: Any
    moments: Moments = field(default_factory=Moments)
    probed: dict[str, np.ndarray] = field(default_factory=dict)
    probes: int = 0
    seconds: float = 0.0

    @property
    def step(self) -> int:
        """Steps made."""
        return int(self.state.step)


class Interrupt:
    """Ctrl-C asks the run to stop at the next chunk border; a second one stops at once."""

    def __init__(self) -> None:
        self.asked = False
        self._previous: Any = None

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *_: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)


def run(
    engine: RunEngine,
    store: Store,
    progressed: Progressed,
    *,
    total: int,
    folder: Path | None,
    meta: dict[str, Any],
    checkpoint_seconds: float,
    show_progress: bool | None,
) -> str | None:
    """Advance to step ``total``. The reason why the run stopped earlier, or None."""
    stopped: str | None = None
    began, saved = time.perf_counter(), time.perf_counter()
    before = progressed.seconds
    length = 64
    probe_at = _probe_steps(progressed.step, meta["settings"]["burn_in"], total)
    with Interrupt() as interrupt, Progress(total, progressed.step, show_progress) as bar:
        while progressed.step < total:
            started = time.perf_counter()
            chunk = engine.advance(progressed.state, min(probe_at[0], progressed.step + length))
            steps = int(chunk.state.step) - progressed.step
            if not chunk.finite:
                chunk, reason = engine.locate(progressed.state, int(chunk.state.step))
                stopped = f"diverged: {reason}"
            _keep(store, progressed, chunk)
            length = _next_length(length, steps, time.perf_counter() - started)
            progressed.seconds = before + time.perf_counter() - began
            bar.update(progressed.step, store.count, progressed.seconds - before)
            if stopped is None and progressed.step == probe_at[0]:
                probe_at = probe_at[1:]
                _probe(engine, progressed)
            if interrupt.asked and progressed.step < total:
                stopped = f"interrupted at step {progressed.step:,} of {total:,}"
            if stopped is not None:
                break
            if folder is not None and time.perf_counter() - saved > checkpoint_seconds:
                save(engine, folder, store, progressed, meta)
                saved = time.perf_counter()
    return stopped


def save(
    engine: RunEngine,
    folder: Path,
    store: Store,
    progressed: Progressed,
    meta: dict[str, Any],
    *,
    stopped: str | None = None,
    bias: Any = None,
    finished: bool = False,
) -> None:
    """Write the checkpoint; at the end of a run with the bias report, when all draws are in the store."""
    tail = store.tail()
    arrays = {f"state/{name}": array for name, array in engine.pack(progressed.state).items()}
    arrays |= {f"tail/{name}": array for name, array in tail.items()}
    for kind, values in (
        ("mean", progressed.moments.mean),
        ("square", progressed.moments.square),
        ("probe", progressed.probed),
    ):
        arrays |= {f"{kind}/{name}": array for name, array in values.items()}
    if bias is not None:
        arrays |= {f"bias/{name}": array for name, array in bias.to_arrays().items()}
    held = next((a.shape[1] for a in tail.values()), 0)
    facts = {
        "step": progressed.step,
        "draws": store.count if engine.variables else progressed.moments.count,
        "written": store.count - held,
        "moment_count": progressed.moments.count,
        "probes": progressed.probes,
        "seconds": progressed.seconds,
        "stopped": stopped,
        "finished": finished,
    }
    checkpoint.write(folder, arrays, {**meta, "run": facts})


def restore(arrays: dict[str, np.ndarray], facts: dict[str, Any], state: Any) -> Progressed:
    """The inverse of ``save``, for everything but the draws; ``state`` is unpacked by its engine."""
    mean, square, probed = (checkpoint.part(arrays, kind) for kind in ("mean", "square", "probe"))
    return Progressed(state, Moments(facts["moment_count"], mean, square), probed, facts["probes"], facts["seconds"])


def _keep(store: Store, progressed: Progressed, chunk: Any) -> None:
    progressed.state = chunk.state
    store.append(chunk.draws)
    progressed.moments.merge(chunk.made, chunk.reference, chunk.first, chunk.second)


def _next_length(length: int, steps: int, seconds: float) -> int:
    """Chunks of about half a second, found by doubling: results do not depend on it."""
    if steps < length:
        return length  # cut short by something else than time
    wanted = steps * CHUNK_SECONDS / max(seconds, 1e-6)
    return int(np.clip(wanted, max(1, length // 2), 2 * length))


def _probe_steps(start: int, burn_in: int, total: int) -> list[int]:
    """The steps after which gradient noise is measured: a few, spread over the second half, none in the burn-in."""
    steps = np.unique(np.linspace(max(total / 2, burn_in + 1), total, PROBES).astype(int))
    return [int(step) for step in steps if step > start]


def _probe(engine: RunEngine, progressed: Progressed) -> None:
    """Measure for the bias report. A model that cannot be measured (not twice differentiable, say) is sampled still."""
    try:
        found = engine.probe(progressed)
    except Exception as error:
        if not progressed.probes:
            warnings.warn(f"no bias report: measuring failed with {type(error).__name__}: {error}", stacklevel=5)
        return
    k = progressed.probes
    progressed.probed = {name: (progressed.probed.get(name, 0) * k + v) / (k + 1) for name, v in found.items()}
    progressed.probes = k + 1
