"""Checkpoints: arrays and JSON, never pickled, checksummed, and written so that a crash at any moment leaves a whole
one.

    checkpoint.json     the newest: facts, and the shape, dtype and pieces of every array
    previous.json       the one before, which serves if the newest is damaged
    pieces/<digest>     pieces of arrays as raw bytes, each named by its hash

A piece that has not changed since the last checkpoint is there already and is not written again: of a table of
gigabytes of which little changed, little is written. Files get their names when they are whole. The hash tells damage
from data.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

NAME, PREVIOUS, PIECES = "checkpoint.json", "previous.json", "pieces"
FORMAT = 2
PIECE = 2**20  # bytes
SMALL = 2**14  # bytes; smaller arrays share their pieces

Arrays = dict[str, np.ndarray]


class DamagedError(ValueError):
    """Files of a run are damaged or missing. The message names the file and what to do."""


def exists(folder: Path) -> bool:
    """Whether there is a checkpoint, whole or not."""
    return any((folder / name).is_file() for name in (NAME, PREVIOUS))


def write(folder: Path, arrays: Arrays, facts: dict[str, Any]) -> None:
    """Make a new checkpoint in ``folder``; the one before becomes the previous."""
    pieces = folder / PIECES
    pieces.mkdir(parents=True, exist_ok=True)
    index: dict[str, Any] = {}
    together = bytearray()
    for name, given in arrays.items():
        array = np.ascontiguousarray(given).reshape(np.shape(given))  # a scalar stays one
        entry: dict[str, Any] = {"shape": array.shape, "dtype": str(array.dtype)}
        if array.nbytes <= SMALL:
            entry["at"] = len(together)
            together += array.tobytes()
        else:
            entry["pieces"] = _put(pieces, array.reshape(-1).view(np.uint8))
        index[name] = entry
    shared = _put(pieces, np.frombuffer(bytes(together), np.uint8))
    if (folder / NAME).is_file():
        os.replace(folder / NAME, folder / PREVIOUS)
    write_json(folder / NAME, {"facts": facts, "arrays": index, "shared": shared})
    _sweep(folder)


def read(folder: Path) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and facts of the newest whole checkpoint."""
    problems = []
    for name in (NAME, PREVIOUS):
        if not (folder / name).is_file():
            continue
        try:
            found = _load(folder, name)
        except DamagedError as error:
            problems.append(str(error))
            continue
        if problems:
            warnings.warn(f"{problems[0]}; the previous checkpoint is used instead", stacklevel=2)
        return found
    if problems:
        raise DamagedError(
            f"{problems[0]}; there is no whole checkpoint to go on from: restore the folder from a copy, or delete it "
            "and start the run again"
        )
    raise FileNotFoundError(f"{folder} holds no checkpoint")


def part(arrays: Arrays, kind: str) -> Arrays:
    """The arrays whose names begin with ``kind/``, without it."""
    return {name.removeprefix(f"{kind}/"): array for name, array in arrays.items() if name.startswith(f"{kind}/")}


def write_json(path: Path, content: dict[str, Any]) -> None:
    """JSON under its own checksum, in place of what was there."""
    text = json.dumps(content)
    whole = json.dumps({"format": FORMAT, "checksum": _digest(text.encode()), "content": text})
    _write(path, whole.encode())


def read_json(path: Path) -> dict[str, Any]:
    """The inverse of ``write_json``."""
    try:
        outer = json.loads(path.read_text(encoding="utf-8"))
        if outer["format"] != FORMAT:
            raise ValueError(f"{path} has format {outer['format']}; this version of scirocco reads format {FORMAT}")
        if outer["checksum"] != _digest(outer["content"].encode()):
            raise DamagedError(f"{path} is damaged: its checksum does not fit")
        content: dict[str, Any] = json.loads(outer["content"])
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DamagedError(f"{path} is damaged or not a file of a scirocco run: {error}") from error
    return content


def _load(folder: Path, name: str) -> tuple[Arrays, dict[str, Any]]:
    content = read_json(folder / name)
    shared, arrays = _get(folder, content["shared"]), {}
    for key, entry in content["arrays"].items():
        dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        raw = _get(folder, entry["pieces"]) if "pieces" in entry else shared[entry["at"] : entry["at"] + size]
        arrays[key] = np.frombuffer(raw, np.uint8).view(dtype).reshape(shape).copy()
    return arrays, content["facts"]


def _put(folder: Path, data: np.ndarray) -> list[str]:
    """The names of the pieces of some bytes, each written if it is new."""
    names = []
    for start in range(0, max(1, len(data)), PIECE):
        piece = data[start : start + PIECE]
        names.append(_digest(piece))
        if not (folder / names[-1]).is_file():
            _write(folder / names[-1], piece)
    return names


def _get(folder: Path, names: list[str]) -> bytes:
    parts = []
    for name in names:
        path = folder / PIECES / name
        try:
            piece = path.read_bytes()
        except OSError as error:
            raise DamagedError(f"{path}, a piece of a checkpoint, cannot be read: {error}") from error
        if _digest(piece) != name:
            raise DamagedError(f"{path}, a piece of a checkpoint, is damaged: its checksum does not fit")
        parts.append(piece)
    return b"".join(parts)


def _write(path: Path, data: Any) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _sweep(folder: Path) -> None:
    """Remove pieces that neither checkpoint names, and what a killed process left half written."""
    named: set[str] = set()
    for name in (NAME, PREVIOUS):
        if (folder / name).is_file():
            try:
                content = read_json(folder / name)
            except ValueError:
                continue
            named.update(content["shared"])
            lists: Iterable[list[str]] = (entry.get("pieces", []) for entry in content["arrays"].values())
            named.update(piece for pieces in lists for piece in pieces)
    for path in (folder / PIECES).iterdir():
        if path.name not in named:
            path.unlink(missing_ok=True)
    for path in folder.glob(".*.tmp"):
        path.unlink(missing_ok=True)


def _digest(data: Any) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
