"""The counts engine on category codes: one chain of a simplex sampler.

    counts of a minibatch  ->  sampler.step(weights, counts)  ->  omega = theta / sum theta

Weights advance in place. A chain is a group by itself: its draws do not depend on the others in a single bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from scirocco.core.clock import Clock
from scirocco.core.interrupt import poll
from scirocco.core.seeds import Purpose
from scirocco.counts.codes import Codes
from scirocco.counts.estimators.base import CountEstimator
from scirocco.counts.minibatches import Minibatches
from scirocco.run.checkpoint import part
from scirocco.run.engine import Chunk, Measured, Report, SteppedEngine
from scirocco.run.moments import SUMMED, Moments, Sums
from scirocco.run.recording import Recording
from scirocco.run.store import Variable
from scirocco.simplex import SimplexSampler, Weights
from scirocco.simplex.base import State, step_size_at

DRAW_BYTES = 16 * 2**20  # of draws that a chunk may hold before it hands them over
START_BATCH = 1000  # observations that the starting points are made from


class DirichletEngine(SteppedEngine):
    """Chain number ``chain`` of a simplex sampler on some observations."""

    def __init__(
        self, minibatches: Minibatches, sampler: SimplexSampler, estimator: CountEstimator, prior: np.ndarray, *,
        lazy: bool, chain: int, seed: int, recording: Recording,
        collect: Callable[[np.ndarray], Any] | bool | None, threads: int | None, num_samples: int,
        initial: np.ndarray | None = None,
        report: Callable[[DirichletEngine, Moments], Report | None] | None = None,
    ) -> None:  # fmt: skip
        self.sampler, self.estimator, self.prior = sampler, estimator, prior
        self.chains, self.recording, self.collect = range(chain, chain + 1), recording, collect
        self.weights = Weights(prior, seed=seed, path=(Purpose.DIRICHLET_WEIGHTS, chain), threads=threads)
        self.codes = Codes(minibatches, self.weights, lazy=lazy)
        self.state: State = {}  # of the sampler
        self.memory: State = {}  # of the estimator
        self.total, self.step, self.whole = recording.steps_for(num_samples), 0, True
        self._initial, self._report = initial, report
        self._good: Chunk | None = None
        example = self._collected(prior / prior.sum())
        self.variables = {name: Variable(value.shape, value.dtype) for name, value in example.items()}
        size = sum(value.nbytes for value in example.values())
        self.capacity = int(np.clip(DRAW_BYTES // max(1, size), 1, 10_000))

    def _collected(self, omega: np.ndarray) -> dict[str, np.ndarray]:
        if self.collect is False:
            return {}
        if not callable(self.collect):
            return {"omega": omega}
        value = self.collect(omega.copy())  # theirs to change
        named = value if isinstance(value, dict) else {"value": value}
        return {name: np.asarray(v) for name, v in named.items()}

    @property
    def pending_count(self) -> int:  # type: ignore[override]
        """Draws of the sums that are not complete."""
        pending = self.pending  # looked at once: another thread may hand it over
        return 0 if pending is None else pending.number

    # Starting.

    def start(self) -> None:
        """Where the user says, or at a draw given a first, small part of the data."""
        weights, minibatches = self.weights, self.codes.minibatches
        if self._initial is None:
            seen = min(max(START_BATCH, minibatches.batch_size), minibatches.resident)
            _, counts = self.codes.count(minibatches.larger(0, seen), survey=True)
            theta = np.zeros_like(weights.theta)
            weights.transition(theta, weights.prior + counts, 0.0, 1.0)
            weights.replace(theta)
        else:
            weights.replace(self._initial[:, None])
        self.state = self.sampler.start(weights)
        for _ in self.estimator.survey(self.codes, self.memory):
            poll()

    # Advancing.

    def advance(self, until: int, clock: Clock | None = None) -> Chunk:
        """Run towards step ``until``; stops earlier when draws must be handed over, or the chain is not finite."""
        del clock
        draws: dict[str, list[np.ndarray]] = {name: [] for name in self.variables}
        complete: list[Sums] = []
        made, finite = 0, bool(np.isfinite(self.weights.totals.sum()))
        until = int(min(until, self.total))
        whole = None if self.estimator.remembers else self.codes.whole
        while self.step < until and made < self.capacity and finite:
            batch = self.codes.minibatches.at(self.step) if whole is None else whole
            self.whole = False  # until the draws are handed over
            counts = self.estimator.counts(self.codes, batch, self.memory)
            self.sampler.step(self.weights, counts, self.state)
            self.step += 1
            finite = bool(np.isfinite(self.weights.totals.sum()))
            if finite and self.recording.is_draw(self.step):
                omega = self.sampler.recorded(self.weights, self.estimator.centre(self.memory))
                self.pending = _with_draw(self.pending, omega)
                made += 1
                for name, value in self._collected(omega[0]).items():
                    draws[name].append(value)
                if self.pending.number == SUMMED:
                    complete.append(self.pending)
                    self.pending = None
        kept = {
            name: np.stack(draws[name])[None] if made else variable.empty(1)
            for name, variable in self.variables.items()
        }
        chunk = Chunk(kept, tuple(complete), finite)
        self._good = None if finite else chunk
        self.whole = True
        return chunk

    def locate(self) -> tuple[Chunk, str]:
        """The draws before the step that failed, and what happened then."""
        assert self._good is not None
        h = step_size_at(getattr(self.sampler, "step_size", np.nan), self.step - 1)
        return self._good, (
            f"a weight of chain {self.chains.start} is no longer finite after step {self.step:,} (step size {h:.3g}). "
            "Try a smaller step_size, a larger batch_size, or SCIR, whose weights cannot diverge"
        )

    # Keeping and reporting.

    def pack(self) -> dict[str, np.ndarray]:
        """The arrays of the chain."""
        parts = {"weights": self.weights.pack(), "sampler": self.state, "estimator": self.memory}
        packed = {f"{kind}/{name}": array for kind, arrays in parts.items() for name, array in arrays.items()}
        if self.pending is not None:
            number, *tables = self.pending
            packed |= {"sums/number": np.array(number)}
            packed |= {f"sums/{n}": t["omega"] for n, t in zip(("reference", "first", "second"), tables, strict=True)}
        return packed | {"step": np.array(self.step), "prior": self.prior}

    def unpack(self, arrays: dict[str, np.ndarray]) -> None:
        """The inverse of ``pack``."""
        self.weights.unpack(part(arrays, "weights"))
        self.state, self.memory = dict(part(arrays, "sampler")), dict(part(arrays, "estimator"))
        self.step = int(arrays["step"])
        sums = part(arrays, "sums")
        if sums:
            tables = ({"omega": sums[name]} for name in ("reference", "first", "second"))
            self.pending = Sums(int(sums["number"]), *tables)

    def report(self, moments: Moments, measured: Measured) -> Report | None:
        """What whoever built the engine has to say of the run."""
        del measured
        return None if self._report is None else self._report(self, moments)


def _with_draw(sums: Sums | None, omega: np.ndarray) -> Sums:
    """Sums with one more draw; without any it is the point that deviations are from."""
    if sums is None:
        return Sums(1, {"omega": omega.copy()}, *({"omega": np.zeros_like(omega)} for _ in range(2)))
    deviation = omega - sums.reference["omega"]
    sums.first["omega"] += deviation
    sums.second["omega"] += np.square(deviation)
    return sums._replace(number=sums.number + 1)
