"""What a fitted LDA keeps in its file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.models.lda.agreement import Agreement
from scirocco.models.lda.assignments import Assignments
from scirocco.models.lda.engine import TOPICS
from scirocco.models.lda.fitting import named_topics

if TYPE_CHECKING:
    from scirocco.models.lda.estimator import LDA

ARRAYS = ("components_", "alpha_", "beta_", "word_counts_")
NAMES = ("feature_names_in_", "vocabulary_")


def packed(model: LDA) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Names of words, and arrays."""
    facts = {name: [str(word) for word in getattr(model, name)] for name in NAMES if hasattr(model, name)}
    arrays: dict[str, np.ndarray] = {name: getattr(model, name) for name in ARRAYS}
    arrays |= {"topics": model.posterior_[TOPICS].values, **model.agreement_.pack()}
    if model._assigned is not None:
        arrays |= model._assigned.pack()
    if model.inflation_ is not None:
        arrays["inflation_"] = model.inflation_
    return facts, arrays


def restore(model: LDA, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """The inverse of ``packed``."""
    for name in ARRAYS:
        setattr(model, name, arrays[name])
    if model.components_.shape != (model.n_topics, model.word_counts_.size):
        raise ValueError(f"its topics have shape {model.components_.shape}")
    model.n_features_in_, model.inflation_ = model.word_counts_.size, arrays.get("inflation_")
    if not (hasattr(model, "labels_") and hasattr(model, "merged_")):  # files of the first versions have none
        model._number_topics()
    if not len(model.labels_) == len(model.merged_) == model.n_topics:
        raise ValueError(f"it has {len(model.labels_)} labels of {model.n_topics} topics")
    model._n_features_out = model.n_topics
    for name in NAMES:
        if name in meta:
            setattr(model, name, np.array(meta[name], dtype=object))
    model.posterior_, model.agreement_ = named_topics(arrays["topics"], model), Agreement.unpack(arrays)
    model._assigned = Assignments.unpack(arrays)
