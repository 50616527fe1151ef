"""A fitted model as one file: arrays and JSON in NumPy's own archive. Nothing is pickled."""

from __future__ import annotations

import io
import json
import os
import zlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from sklearn.utils import check_random_state

from scirocco.run.describe import describe, is_opaque, rebuild

FORMAT = 1
ARRAYS = ("components_", "posterior_", "alpha_", "beta_", "word_counts_")
FACTS = ("n_iter_", "seconds_", "sampler_", "documents_seen_")
NAMES = ("feature_names_in_", "vocabulary_")


def write(model: Any, path: Path) -> None:
    """Write a model under a temporary name, then rename it."""
    settings = {}
    for name, value in model.get_params(deep=False).items():
        drawn = isinstance(value, np.random.RandomState | np.random.Generator)
        settings[name] = describe(int(check_random_state(value).randint(2**31 - 1)) if drawn else value)
    lost = [name for name, value in settings.items() if is_opaque(value)]
    if lost:
        raise ValueError(f"{', '.join(lost)} cannot be written: settings must be numbers, arrays and samplers")
    meta = {"format": FORMAT, "model": "LDA", "settings": settings}
    meta |= {name: getattr(model, name) for name in FACTS if hasattr(model, name)}
    meta |= {name: [str(word) for word in getattr(model, name)] for name in NAMES if hasattr(model, name)}
    arrays: dict[str, Any] = {name: getattr(model, name) for name in ARRAYS}
    if model.inflation_ is not None:
        arrays["inflation_"] = model.inflation_
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        np.savez_compressed(file, meta=np.frombuffer(json.dumps(meta).encode(), np.uint8), **arrays)
    temporary.replace(path)


def read(kind: Any, path: Path) -> Any:
    """A model of the class ``kind`` from its file."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(arrays.pop("meta").tobytes())
        if (meta["model"], meta["format"]) != ("LDA", FORMAT):
            raise ValueError(f"it holds {meta['model']} in format {meta['format']}; expected LDA, {FORMAT}")
        model = kind(**{name: rebuild(value) for name, value in meta["settings"].items()})
        for name in ARRAYS:
            setattr(model, name, arrays[name])
        if model.components_.shape != (model.n_topics, model.word_counts_.size):
            raise ValueError(f"its topics have shape {model.components_.shape}")
    except FileNotFoundError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, OSError, BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged or not a saved LDA model: {error}") from error
    model.n_features_in_, model.inflation_ = model.word_counts_.size, arrays.get("inflation_")
    model._n_features_out = model.n_topics
    for name in FACTS:
        if name in meta:
            setattr(model, name, meta[name])
    for name in NAMES:
        if name in meta:
            setattr(model, name, np.array(meta[name], dtype=object))
    return model
