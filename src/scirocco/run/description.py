"""What a run is and how it ended: frozen dataclasses, and the JSON of ``run.json``.

    Description   settings (which draws there will be), options (how they are made), parts, data, what was stored
    Stop          why a run ended before all was done

Functions and data are not in it: ``resume`` takes them again, and the description says whether they are the same.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from scirocco.core.checks import require_budget, require_count, require_flag, require_seed
from scirocco.run.checkpoint import DamagedError
from scirocco.run.store import Variables, described, undescribed

SCHEMA = 5  # of run.json; raised whenever its fields change

Described = Any  # a part as ``run.describe`` writes it
Made = TypeVar("Made")


@dataclass(frozen=True)
class Stop:
    """Why a run ended before all was done."""

    kind: Literal["interrupted", "terminated", "budget", "diverged", "failed", "unfinished"]
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class RunOptions:
    """How a run is carried out. No draw depends on it; a budget decides how many there are."""

    max_seconds: float | None = None
    checkpoint_seconds: float = 30.0
    progress: bool | None = None
    workers: int = 1
    threads: int | None = None
    report: bool = True

    def __post_init__(self) -> None:
        for name in (f.name for f in dataclasses.fields(self)):  # numbers of NumPy are not for JSON
            if isinstance(getattr(self, name), np.generic):
                object.__setattr__(self, name, getattr(self, name).item())
        require_budget(self.max_seconds)
        seconds = self.checkpoint_seconds
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
            raise ValueError(f"checkpoint_seconds must not be negative; got {seconds!r}")
        require_count("workers", self.workers)
        if self.threads is not None:
            require_count("threads", self.threads)
        require_flag("report", self.report)
        if self.progress is not None:
            require_flag("progress", self.progress)


@dataclass(frozen=True)
class Settings:
    """The numbers that draws depend on, of a run whose length is not known beforehand."""

    seed: int
    chains: int  # of the whole run

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", require_seed(self.seed))
        self._count("chains")

    def _count(self, name: str, least: int = 1) -> None:
        """Check a whole number, and make one of NumPy's an int, for JSON."""
        require_count(name, getattr(self, name), least)
        object.__setattr__(self, name, int(getattr(self, name)))


@dataclass(frozen=True)
class StepSettings(Settings):
    """Those of a run that is counted in steps."""

    num_samples: int
    burn_in: int
    thin: int | None  # None: to be found, by tuning
    group_size: int
    batch_size: int | float | None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("num_samples", 1), ("burn_in", 0), ("thin", 1), ("group_size", 1)):
            if getattr(self, name) is not None or name != "thin":
                self._count(name, least)
        if isinstance(self.batch_size, np.generic):
            object.__setattr__(self, "batch_size", self.batch_size.item())


@dataclass(frozen=True)
class ShardSettings(StepSettings):
    """Those of ``sample_shards``: chains of shard 0, then of shard 1, ..., ``group_size`` of each."""

    shards: int
    method: str

    def __post_init__(self) -> None:
        super().__post_init__()
        self._count("shards", least=2)


@dataclass(frozen=True)
class CodeSettings(StepSettings):
    """Those of ``sample_dirichlet``."""

    lazy: bool | None
    batching: str


@dataclass(frozen=True)
class PassSettings(Settings):
    """Those of a model of counts; ``sampler`` is the name of the one that "auto" took."""

    sampler: str


@dataclass(frozen=True)
class Parts:
    """What a run is made of, described; what JSON cannot hold is marked as such and given again."""

    sampler: Described = None
    estimator: Described = None
    batching: Described = None
    collect: Literal["function", False] | None = None
    blocks: list[list[str]] = field(default_factory=list)
    initial: Described = None
    parameters: Described = None  # shapes of the start, when its values are in the checkpoints
    gradients: bool = False
    near: bool = False  # the start is near the mode or among the draws, as tuning need not find out
    prior: Described = None  # of the categories of ``sample_dirichlet``


@dataclass(frozen=True)
class TunedParts:
    """What ``step_size="auto"`` found for a posterior, and its report."""

    report: Described
    sampler: Described
    estimator: Described
    batching: Described
    initial: Described
    batch_size: int | float | None


@dataclass(frozen=True)
class ModelSettings:
    """The model that a run is the fit of."""

    name: str
    settings: dict[str, Described]


@dataclass(frozen=True)
class Software:
    """The versions that draws may depend on, and the kind of processor."""

    scirocco: str
    jax: str
    numpy: str
    processor: str

    @classmethod
    def here(cls) -> Software:
        """Those of this process."""
        return _software()


@cache
def _software() -> Software:
    versions = {name: importlib.metadata.version(name) for name in ("scirocco", "jax", "numpy")}
    return Software(**versions, processor=f"{platform.machine()} {_processor_name()}".strip())


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


@dataclass(frozen=True)
class Description:
    """What a run is."""

    resumer: str
    """The registered name of the class that goes on with it."""
    settings: Settings
    options: RunOptions = field(default_factory=RunOptions)
    parts: Parts = field(default_factory=Parts)
    data: dict[str, Any] = field(default_factory=dict)
    """The fingerprint of the data."""
    model: ModelSettings | None = None
    tuned: tuple[TunedParts, ...] = ()
    """One for each posterior of the run, a shard or all data, if its step size was left open."""
    variables: Variables = field(default_factory=dict)
    """What is stored of a draw."""
    coords: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """The names of the entries along axes of draws."""
    notes: tuple[str, ...] = ()
    """What a reader of a result should know of the posterior."""
    software: Software = field(default_factory=Software.here)
    choice: str = ""
    """Why this sampler, if none was given."""
    saved_chains: tuple[int, ...] | None = None
    """The numbers of the chains of a saved trace; None for a run, which can go on."""

    @property
    def of_model(self) -> bool:
        """Whether it is the fit of a model, whose settings have names of their own."""
        return self.resumer.startswith("scirocco.models.")

    def to_json(self) -> dict[str, Any]:
        """As a dictionary of what JSON can hold."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        fields["variables"] = described(self.variables)
        fields["tuned"] = [dataclasses.asdict(tuned) for tuned in self.tuned]
        for name in ("settings", "options", "parts", "model", "software"):
            fields[name] = None if fields[name] is None else dataclasses.asdict(fields[name])
        return {"schema": SCHEMA, "kind": type(self.settings).__name__, **fields}

    @classmethod
    def from_json(cls, content: Any, place: Path) -> Description:
        """The inverse of ``to_json``; what does not fit is an error that names ``place``."""
        schema = content.get("schema") if isinstance(content, dict) else None
        if schema != SCHEMA:
            writer = _writer(content)
            raise ValueError(
                f"{place} describes a run in version {schema!r} of the format; this version of scirocco reads "
                f"{SCHEMA}: go on with the version that wrote it{writer}, or start the run again"
            )
        fields = {name: value for name, value in content.items() if name not in ("schema", "kind")}
        try:
            kind = {kind.__name__: kind for kind in _KINDS}[content["kind"]]
            fields["settings"] = _made(kind, fields["settings"])
            fields["options"] = _made(RunOptions, fields["options"])
            fields["parts"] = _made(Parts, fields["parts"])
            fields["software"] = _made(Software, fields["software"])
            fields["model"] = None if fields["model"] is None else _made(ModelSettings, fields["model"])
            fields["tuned"] = tuple(_made(TunedParts, tuned) for tuned in fields["tuned"])
            fields["variables"] = undescribed(fields["variables"])
            fields["notes"] = tuple(map(str, fields["notes"]))
            fields["coords"] = {name: tuple(values) for name, values in fields["coords"].items()}
            chains = fields["saved_chains"]
            fields["saved_chains"] = None if chains is None else tuple(map(int, chains))
            return _made(cls, fields)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise DamagedError(
                f"{place} does not describe a run of scirocco ({type(error).__name__}: {error}): restore it from a "
                "copy, or delete the run and start it again"
            ) from error


_KINDS: tuple[type[Settings], ...] = (Settings, StepSettings, ShardSettings, CodeSettings, PassSettings)


def _made(kind: type[Made], fields: Any) -> Made:
    """A dataclass from all of its fields, and no others."""
    names = {f.name for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    given = set(fields)
    if given != names:
        lacks, strange = sorted(names - given), sorted(given - names)
        raise ValueError(f"{kind.__name__} lacks {lacks}" if lacks else f"{kind.__name__} has no {strange}")
    return kind(**fields)


def _writer(content: Any) -> str:
    try:
        return f" ({content['software']['scirocco']})"
    except (KeyError, TypeError):
        return ""
