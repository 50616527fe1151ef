"""What the models on the counts engine share: budgets, threads, seeds, the steps of a fit, and the file.

A model differs from others by the data that it reads, by its chains and by what it keeps of their run.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from scirocco.core.checks import positive_array, require_choice, require_count
from scirocco.core.compiled import available_threads
from scirocco.core.interrupt import interruptible
from scirocco.models import storage
from scirocco.models.fit_location import FitLocation
from scirocco.models.reported import Reported
from scirocco.run.crew import Crew
from scirocco.run.resume import GivenParts
from scirocco.run.rounds import Cluster
from scirocco.run.trace import Trace
from scirocco.run.verdict import Verdict, judge
from scirocco.samplers.base import automatic

AUTO = "auto"


@dataclass(frozen=True)
class SamplerChoice:
    """The sampler of a fit: its name, or one that was ``given``, whose name is that of its class."""

    name: str
    given: Any = None

    @classmethod
    def of(cls, sampler: Any) -> SamplerChoice:
        """What the user wrote."""
        return cls(sampler) if isinstance(sampler, str) else cls(type(sampler).__name__, sampler)

    @property
    def wanted(self) -> Any:
        """What the user wrote, or what "auto" became."""
        return self.name if self.given is None else self.given

    def require(self, names: tuple[str, ...], kinds: tuple[type, ...], others: str) -> None:
        """Reject a name that is none of ``names``, and objects that are none of ``kinds``, in words ``others``."""
        if self.given is None:
            require_choice("sampler", self.name, names)
        elif not isinstance(self.given, kinds):
            raise TypeError(f"sampler must be one of {', '.join(names)}{others}; got {self.given!r}")
        elif automatic(getattr(self.given, "step_size", None)) is not None:
            raise ValueError(f"sampler must have a step size: no law says which would do here; got {self.given!r}")


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


class CountModel(Reported, BaseEstimator):  # type: ignore[misc]
    """The part of a model of counts that is not the model."""

    sampler: Any
    max_iter: int | None
    max_seconds: float | None
    batch_size: int | None
    n_chains: int
    n_jobs: int | None
    random_state: Any
    verbose: bool

    posterior_: Any
    trace_: Trace
    sampler_: str
    n_iter_: float
    ended_: str
    seconds_: float
    n_features_in_: int

    default_passes: ClassVar[int]
    """Passes that ``fit`` makes if neither ``max_iter`` nor ``max_seconds`` is given."""

    _facts: ClassVar[tuple[str, ...]] = ("n_iter_", "ended_", "seconds_", "sampler_")
    """Fitted attributes that are kept in the file as JSON, if they are there."""

    # Fitting.

    @interruptible
    def fit(
        self, X: Any, y: Any = None, *, path: str | Path | None = None, executor: Executor | None = None,
        client: Any = None, shards: int | None = None,
    ) -> Self:  # fmt: skip
        """Sample the posterior given ``X``: counts, rows x columns, or what else the model says that it takes.

        With a ``path`` draws and checkpoints go to that folder, and ``scirocco.resume(path, X)`` goes on with a fit
        that was interrupted or killed, bit for bit. The workers of an ``executor`` advance the chains, each a task.

        The workers of a Dask ``client`` hold the data, in so many ``shards``, for sampler "gibbs": those that no
        machine has the memory for. The draws depend on the number of shards, not on that of workers.
        """
        cluster = Cluster.of(client, shards)
        if cluster is not None and executor is not None:
            raise ValueError("chains go to an executor or data to a client's workers: give executor or client")
        return self._fit(X, y, FitLocation.of(path, Crew.of(executor, X, GivenParts(), y), cluster))

    def _fit(self, X: Any, y: Any, location: FitLocation) -> Self:
        del y
        began = time.perf_counter()
        choice = SamplerChoice.of(self.sampler)
        if choice.name == AUTO and location.sampler is not None:
            choice = SamplerChoice(location.sampler)  # it was decided when the run began
        data, choice = self._read(X, choice, location)
        self._run(data, choice, location)
        self.sampler_, self.ended_ = choice.name, self._ended(given=self.max_iter is not None)
        self.seconds_ = time.perf_counter() - began
        return self

    @abstractmethod
    def _read(self, X: Any, choice: SamplerChoice, location: FitLocation) -> tuple[Any, SamplerChoice]:
        """Data as the chains take them, and the sampler, "auto" being decided."""

    @abstractmethod
    def _run(self, data: Any, choice: SamplerChoice, location: FitLocation) -> None:
        """Run the chains and set the fitted attributes."""

    def verdict(self) -> Verdict:
        """Whether to use the fit, by whether its chains agree; why, and what to do next."""
        check_is_fitted(self, "posterior_")
        kind, reasons, advice = judge(self.agreement_.findings())
        settings: dict[str, str] = {}
        if advice is not None and "chains" in advice.settings:
            settings["n_chains"] = advice.settings["chains"]
        if advice is not None and advice.factor > 1:
            if self.max_seconds is None:
                settings["max_iter"] = f"{math.ceil(advice.factor * self.n_iter_)}"
            else:
                settings["max_seconds"] = f"{advice.factor * self.max_seconds:g}"
        given = ", ".join(f"{name}={code}" for name, code in settings.items())
        return Verdict(kind, reasons, f"model.set_params({given}).fit(X)" if given else "")

    def _forget(self, *names: str) -> None:
        """Fitted attributes that no longer hold."""
        for name in names:
            self.__dict__.pop(name, None)

    @property
    def _passes(self) -> float:
        """Passes that ``fit`` may make."""
        return passes_allowed(self.max_iter, self.max_seconds, self.default_passes)

    def _require_run(self) -> None:
        """Check the settings of a run that all models of counts have."""
        require_budgets(self.max_iter, self.max_seconds)
        require_count("n_chains", self.n_chains)
        if self.batch_size is not None:
            require_count("batch_size", self.batch_size)
        if self.n_jobs not in (None, -1):
            require_count("n_jobs", self.n_jobs)

    @property
    def _threads(self) -> int:
        return available_threads() if self.n_jobs in (None, -1) else int(self.n_jobs)

    def _threads_beside(self, executor: Executor | None) -> int:
        """The same; tasks of an executor have one each."""
        return self._threads if executor is None else 1

    def _workers(self, chains: int) -> tuple[int, int]:
        """How many chains run side by side, and the threads of each."""
        workers = min(chains, self._threads)
        return workers, max(1, self._threads // workers)

    def _fixed_seed(self) -> int:
        """Asking twice gives the same answer."""
        return int(self.random_state) if isinstance(self.random_state, int | np.integer) else 0

    # What is said of a fit.

    def _ended(self, *, given: bool) -> str:
        """Which budget ended the run of ``trace_``; ``given`` says whether the number of passes was."""
        stopped = self.trace_.stopped
        if stopped is None:
            why = "max_iter" if given else "the default number, since no budget is given"
        else:
            why = "max_seconds was used up" if stopped.kind == "budget" else stopped.text
        return f"the fit ended after {self.n_iter_:.4g} passes: {why}"

    def _noted(self, note: str) -> str:
        """A note of ``summary`` and how the fit ended, if that is known."""
        ended = getattr(self, "ended_", None)
        return "\n".join(line for line in (note, ended and f"{ended}.") if line)

    # Keeping.

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, arrays and JSON; nothing is pickled."""
        check_is_fitted(self, "posterior_")
        facts = {name: getattr(self, name) for name in self._facts if hasattr(self, name)}
        more, arrays = self._packed()
        storage.write(self, Path(path), facts | more, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """A model written by ``save``."""
        return storage.read(cls, Path(path), cls._loaded)

    def _loaded(self, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        for name in self._facts:
            if name in meta:
                setattr(self, name, meta[name])
        self._restore(meta, arrays)

    @abstractmethod
    def _packed(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What else is kept in the file: JSON, and arrays by name."""

    @abstractmethod
    def _restore(self, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """The inverse of ``_packed``: the fitted attributes are set."""
