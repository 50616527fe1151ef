"""``scirocco.resume`` for the fit of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scirocco import models
from scirocco.models.home import Home
from scirocco.run.describe import rebuild
from scirocco.run.resume import Again, Resumer


class ModelResumer(Resumer):
    """Goes on with the fit of a model."""

    def __call__(self, path: Path, meta: dict[str, Any], X: Any, y: Any, again: Again) -> Any:
        """The model with its settings, fitted to the end."""
        again.refuse("a model", "sampler", "estimator", "batching", "blocks", "collect", "initial", "threads")
        name = meta["model"]
        if name not in models.__all__:
            raise ValueError(f"the run in {path} is of a model {name!r} that this version of scirocco does not have")
        settings = {key: rebuild(value) for key, value in meta["model_settings"].items()}
        return getattr(models, name)(**settings)._fit(X, y, Home(path, meta, again))
