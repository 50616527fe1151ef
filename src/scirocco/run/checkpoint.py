"""Checkpoints: arrays and JSON in one file, never pickled, written under a temporary name and renamed.

A run's folder holds ``checkpoint.npz`` and ``draws.zarr``. The checkpoint names how many draws of the Zarr arrays count
and carries those that do not fill a chunk yet, so whatever moment a run is killed at, the checkpoint and the chunks it
names are whole.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

NAME = "checkpoint.npz"
FORMAT = 1


def write(folder: Path, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
    """Replace the checkpoint in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": FORMAT, **meta}).encode()
    temporary = folder / f".{NAME}.{os.getpid()}.tmp"
    with temporary.open("wb") as file:
        np.savez(file, meta=np.frombuffer(text, np.uint8), **arrays)  # type: ignore[arg-type]
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / NAME)


def read(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the description of the checkpoint in ``folder``."""
    path = folder / NAME
    if not path.is_file():
        raise FileNotFoundError(f"{folder} holds no scirocco run: {NAME} is missing")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(arrays.pop("meta").tobytes())
    except (ValueError, KeyError, OSError, EOFError) as error:
        raise ValueError(f"{path} is damaged or not a scirocco checkpoint: {error}") from error
    if meta.get("format") != FORMAT:
        raise ValueError(f"{path} has format {meta.get('format')}; this version of scirocco reads format {FORMAT}")
    return arrays, meta


def part(arrays: dict[str, np.ndarray], kind: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with ``kind/``, without it."""
    return {name.removeprefix(f"{kind}/"): array for name, array in arrays.items() if name.startswith(f"{kind}/")}
