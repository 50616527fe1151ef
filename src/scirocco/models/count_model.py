"""What the models on the counts engine share: budgets, threads, seeds, and how a fit ended."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from scirocco.core.checks import positive_array, require_count
from scirocco.core.compiled import available_threads
from scirocco.run.trace import Trace


def passes_allowed(max_iter: int | None, max_seconds: float | None, default: int) -> float:
    """Passes that a budget allows: no limit if it is one of seconds alone; ``default`` if none is given."""
    if max_iter is not None:
        return float(max_iter)
    return float(default) if max_seconds is None else math.inf


def require_budgets(max_iter: object, max_seconds: object) -> None:
    """Reject passes that are no count, and seconds that are not one positive number; None is no limit."""
    if max_iter is not None:
        require_count("max_iter", max_iter)
    if max_seconds is not None and positive_array("max_seconds", max_seconds).ndim:
        raise ValueError("max_seconds must be one number; got an array")


class CountModel(BaseEstimator):  # type: ignore[misc]
    """The part of a model of counts that is not the model."""

    max_iter: int | None
    max_seconds: float | None
    n_chains: int
    n_jobs: int | None
    random_state: Any
    verbose: bool

    trace_: Trace
    n_iter_: float
    ended_: str

    default_passes: ClassVar[int]
    """Passes that ``fit`` makes if neither ``max_iter`` nor ``max_seconds`` is given."""

    @property
    def _passes(self) -> float:
        """Passes that ``fit`` may make."""
        return passes_allowed(self.max_iter, self.max_seconds, self.default_passes)

    def _require_run(self) -> None:
        """Check the settings of a run that all models of counts have."""
        require_budgets(self.max_iter, self.max_seconds)
        require_count("n_chains", self.n_chains)
        if self.n_jobs not in (None, -1):
            require_count("n_jobs", self.n_jobs)

    @property
    def _threads(self) -> int:
        return available_threads() if self.n_jobs in (None, -1) else int(self.n_jobs)

    def _fixed_seed(self) -> int:
        """Asking twice gives the same answer."""
        return int(self.random_state) if isinstance(self.random_state, int | np.integer) else 0

    def _ended(self, *, given: bool) -> str:
        """Which budget ended the run of ``trace_``; ``given`` says whether the number of passes was."""
        made = f"{self.n_iter_:.4g} passes"
        stopped = self.trace_.stopped
        if stopped is None:
            why = "max_iter" if given else "the default number, since no budget is given"
        else:
            why = "max_seconds was used up" if stopped.startswith("the time budget") else stopped
        return f"the fit ended after {made}: {why}"

    def _noted(self, note: str) -> str:
        """A note of ``summary`` and how the fit ended, if that is known."""
        ended = getattr(self, "ended_", None)
        return "\n".join(line for line in (note, ended and f"{ended}.") if line)
