"""What a fitted LDA keeps in its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from scirocco.models import storage
from scirocco.models.lda.agreement import Agreement
from scirocco.models.lda.assignments import Assignments
from scirocco.models.lda.engine import TOPICS
from scirocco.models.lda.fitting import named_topics

ARRAYS = ("components_", "alpha_", "beta_", "word_counts_")
FACTS = ("updates_", "n_iter_", "ended_", "seconds_", "sampler_", "documents_seen_")
NAMES = ("feature_names_in_", "vocabulary_")


def write(model: Any, path: Path) -> None:
    """Write a model."""
    facts = {name: getattr(model, name) for name in FACTS if hasattr(model, name)}
    facts |= {name: [str(word) for word in getattr(model, name)] for name in NAMES if hasattr(model, name)}
    arrays: dict[str, Any] = {name: getattr(model, name) for name in ARRAYS}
    arrays |= {"topics": model.posterior_[TOPICS].values, **model.agreement_.pack()}
    if getattr(model, "_assigned", None) is not None:
        arrays |= model._assigned.pack()
    if model.inflation_ is not None:
        arrays["inflation_"] = model.inflation_
    storage.write(model, path, facts, arrays)


def read(kind: Any, path: Path) -> Any:
    """A model of the class ``kind`` from its file."""
    return storage.read(kind, path, _restore)


def _restore(model: Any, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    for name in ARRAYS:
        setattr(model, name, arrays[name])
    if model.components_.shape != (model.n_topics, model.word_counts_.size):
        raise ValueError(f"its topics have shape {model.components_.shape}")
    model.n_features_in_, model.inflation_ = model.word_counts_.size, arrays.get("inflation_")
    model._n_features_out = model.n_topics
    for name in FACTS:
        if name in meta:
            setattr(model, name, meta[name])
    for name in NAMES:
        if name in meta:
            setattr(model, name, np.array(meta[name], dtype=object))
    model.posterior_, model.agreement_ = named_topics(arrays["topics"], model), Agreement.unpack(arrays)
    model._assigned = Assignments.unpack(arrays)
