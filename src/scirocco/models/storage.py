"""A fitted model as one file: arrays and JSON in NumPy's own archive, never pickled."""

from __future__ import annotations

import io
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np
from sklearn.utils import check_random_state

from scirocco.run.describe import describe, is_opaque, rebuild

FORMAT = 1
Model = TypeVar("Model")


def settings_of(model: Any) -> dict[str, Any]:
    """What ``__init__`` was given, as JSON."""
    settings = {}
    for name, value in model.get_params(deep=False).items():
        drawn = isinstance(value, np.random.RandomState | np.random.Generator)
        settings[name] = describe(int(check_random_state(value).randint(2**31 - 1)) if drawn else value)
    lost = [name for name, value in settings.items() if is_opaque(value)]
    if lost:
        raise ValueError(f"{', '.join(lost)} cannot be written: settings must be numbers, arrays and samplers")
    return settings


def write(model: Any, path: Path, facts: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write the settings of a model, ``facts`` (JSON) and ``arrays``."""
    meta = {"format": FORMAT, "model": type(model).__name__, "settings": settings_of(model), **facts}
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        np.savez_compressed(file, meta=np.frombuffer(json.dumps(meta).encode(), np.uint8), **arrays)
    temporary.replace(path)


def read(
    kind: type[Model], path: Path, restore: Callable[[Model, dict[str, Any], dict[str, np.ndarray]], None]
) -> Model:
    """A model of the class ``kind`` from its file; ``restore`` gives it back its fitted attributes."""
    name = kind.__name__
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(arrays.pop("meta").tobytes())
        if (meta["model"], meta["format"]) != (name, FORMAT):
            raise ValueError(f"it holds {meta['model']} in format {meta['format']}; expected {name}, {FORMAT}")
        model = kind(**{name: rebuild(value) for name, value in meta["settings"].items()})
        restore(model, meta, arrays)
    except FileNotFoundError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, OSError, BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged or not a saved {name} model: {error}") from error
    return model
