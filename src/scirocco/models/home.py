"""Where a model's run lives, and whether it begins or goes on."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from scirocco.models.storage import settings_of
from scirocco.run.engine import Engine
from scirocco.run.folder import RunFolder, group_folders
from scirocco.run.resume import Again
from scirocco.run.runner import run
from scirocco.run.trace import Trace

RESUMER = "scirocco.models.resuming:ModelResumer"  # not imported: it knows all models


@dataclass(frozen=True)
class Home:
    """The folder of a fit, if it has one; ``meta`` is what a run there that goes on is known by."""

    path: Path | None = None
    meta: dict[str, Any] | None = None
    again: Again = field(default_factory=Again)

    @classmethod
    def of(cls, path: str | Path | None) -> Home:
        """The folder for a new fit."""
        return cls(None if path is None else Path(path))

    @property
    def begun(self) -> bool:
        """Whether there are chains to go on with."""
        return self.meta is not None and self.path is not None and bool(group_folders(self.path))

    def seed(self, random_state: Any) -> int:
        """That of the run, or a new one as scikit-learn has it."""
        if self.meta is not None:
            return int(self.meta["settings"]["seed"])
        if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
            return int(random_state)
        return int(check_random_state(random_state).randint(2**31 - 1))

    def budget(self, max_seconds: float | None) -> float | None:
        """Seconds that the fit may take."""
        return max_seconds if self.again.max_seconds is None else self.again.max_seconds

    def facts(self, model: Any) -> dict[str, Any]:
        """What a run must know of its model, so that ``resume`` can make it again."""
        if self.path is None:
            return {}
        return {"resumer": RESUMER, "model": type(model).__name__, "model_settings": settings_of(model)}

    def run(
        self, engines: Sequence[Engine], model: Any, data: dict[str, Any], *, seed: int, sampler: str,
        seconds: float | None, workers: int,
    ) -> Trace:  # fmt: skip
        """Run the chains of a model of counts on data with this fingerprint, from their start or where they were."""
        meta = self.meta or {
            "settings": {"seed": seed, "chains": len(engines)}, "data": data, "sampler": sampler, **self.facts(model)
        }  # fmt: skip
        options: dict[str, Any] = {
            "max_seconds": self.budget(seconds), "progress": bool(model.verbose), "workers": workers,
            "checkpoint_seconds": self.again.checkpoint_seconds,
        }  # fmt: skip
        if self.path is None:
            trace = run(engines, meta, None, **options)
        else:
            folder = RunFolder(self.path)
            if self.meta is None:
                folder.require_free()
            elif meta["data"] != data:
                raise ValueError(f"the data differ from those of the run in {self.path}")
            with folder:
                folder.write(meta)
                trace = run(engines, meta, folder, **options)
        if trace.stopped and trace.stopped.startswith("interrupted"):
            warnings.warn(f"fit was interrupted: it stops with what it has ({trace.stopped})", stacklevel=5)
        return trace
