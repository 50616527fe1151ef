"""``scirocco.resume`` for the fit of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scirocco import models
from scirocco.models.fit_location import SHARDS, FitLocation
from scirocco.run.describe import rebuild
from scirocco.run.description import Description, PassSettings
from scirocco.run.resume import GivenParts, Resumer
from scirocco.run.rounds import Cluster


class ModelResumer(Resumer):
    """Goes on with the fit of a model."""

    kind = "a model"
    resident = True

    def __call__(self, path: Path, description: Description, X: Any, y: Any, given: GivenParts) -> Any:
        """The model with its settings, fitted to the end."""
        given.refuse(self.kind, "sampler", "estimator", "batching", "blocks", "collect", "initial")
        model = description.model
        if model is None or model.name not in models.__all__:
            name = None if model is None else model.name
            raise ValueError(f"the run in {path} is of a model {name!r} that this version of scirocco does not have")
        shards = description.data.get(SHARDS)
        if shards is None and given.client is not None:
            raise ValueError(f"the rows of the run in {path} are not on workers: leave out client=")
        if shards is not None and given.client is None:
            raise ValueError(f"the data of the run in {path} are on the workers of a cluster: give client= again")
        cluster = Cluster.of(given.client, shards)
        settings = {key: rebuild(value) for key, value in model.settings.items()}
        if isinstance(description.settings, PassSettings):  # a budget of seconds says how many passes there may be
            settings["max_seconds"] = description.options.max_seconds
        location = FitLocation(path, description, given, cluster=cluster)
        return getattr(models, model.name)(**settings)._fit(X, y, location)
