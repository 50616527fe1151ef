"""Checkpoints: arrays and JSON, never pickled, checksummed, and written so that a crash at any moment leaves a whole
one.

    checkpoint.json     the newest: facts, and the shape, dtype and pieces of every array
    previous.json       the one before, which serves if the newest is damaged
    pieces/<digest>     pieces of arrays as raw bytes, each named by its hash

A piece that has not changed since the last checkpoint is there already and is not written again: of a table of
gigabytes of which little changed, little is written. Files get their names when they are whole. The hash tells damage
from data. What is deleted are pieces that no checkpoint names, and files half written: never what looks different, and
never through a symbolic link. A file is checked against what a checkpoint holds before anything is allocated for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

NAME, PREVIOUS, PIECES = "checkpoint.json", "previous.json", "pieces"
FORMAT = 2
PIECE = 2**20  # bytes
SMALL = 2**14  # bytes; smaller arrays share their pieces
DIGEST = re.compile(r"[0-9a-f]{32}")
UNFINISHED = re.compile(rf"\.({DIGEST.pattern}|checkpoint\.json|previous\.json)\.\d+\.tmp")

Arrays = dict[str, np.ndarray]


class DamagedError(ValueError):
    """Files of a run are damaged or missing. The message names the file and what to do."""


def exists(folder: Path) -> bool:
    """Whether there is a checkpoint, whole or not."""
    return any((folder / name).is_file() for name in (NAME, PREVIOUS))


def write(folder: Path, arrays: Arrays, facts: dict[str, Any]) -> None:
    """Make a new checkpoint in ``folder``; the one before becomes the previous."""
    pieces = folder / PIECES
    _refuse_link(pieces)
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
        _copy(folder / NAME, folder / PREVIOUS)  # so that there is a newest one at any moment
    write_json(folder / NAME, {"facts": facts, "arrays": index, "shared": shared})
    _sweep(folder)


def read(folder: Path, facts: Mapping[str, Any] | None = None) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and facts of the newest whole checkpoint.

    ``facts`` are the names of those that it must have, with their types.
    """
    problems = []
    _refuse_link(folder / PIECES)
    for name in (NAME, PREVIOUS):
        if not (folder / name).is_file():
            if name == NAME and (folder / PREVIOUS).is_file():
                problems.append(f"{folder / NAME} is missing")
            continue
        try:
            found = _load(folder, name)
            require_fields(found[1], facts or {}, f"the facts of {folder / name}")
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


def remove(folder: Path) -> None:
    """Delete a checkpoint, and its folder if nothing else is in it."""
    for name in (NAME, PREVIOUS):
        _remove(folder / name)
    if (folder / PIECES).is_dir():
        _sweep(folder)
    with contextlib.suppress(OSError):  # what is not ours stays
        (folder / PIECES).rmdir()
        folder.rmdir()


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
    outer = _parsed(path, path.read_bytes())
    require_fields(outer, {"format": int}, str(path))
    if outer["format"] != FORMAT:
        raise ValueError(f"{path} has format {outer['format']}; this version of scirocco reads format {FORMAT}")
    require_fields(outer, {"checksum": str, "content": str}, str(path))
    inner = outer["content"].encode("utf-8", "surrogatepass")
    if outer["checksum"] != _digest(inner):
        raise DamagedError(f"{path} is damaged: its checksum does not fit")
    return _parsed(path, inner)


def require_fields(content: Mapping[str, Any], fields: Mapping[str, Any], where: str) -> None:
    """Reject JSON without the entries that it must have, each with its type (or tuple or union of types)."""
    for name, kind in fields.items():
        if name not in content:
            raise DamagedError(f"{where} is damaged or not a file of a scirocco run: it has no {name!r}")
        if not isinstance(content[name], kind) or (isinstance(content[name], bool) and kind is int):
            raise DamagedError(
                f"{where} is damaged or not a file of a scirocco run: {name!r} is {str(content[name])[:50]!r}"
            )


def _parsed(path: Path, text: bytes) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{path} is damaged or not a file of a scirocco run: {error}") from error
    if not isinstance(content, dict):
        raise DamagedError(f"{path} is damaged or not a file of a scirocco run: it holds no object of JSON")
    return content


def _load(folder: Path, name: str) -> tuple[Arrays, dict[str, Any]]:
    content = _content(folder / name)
    outlines = {key: _outline(folder, name, key, entry) for key, entry in content["arrays"].items()}
    together = _size(folder, content["shared"])
    for key, (dtype, shape, size) in outlines.items():
        entry = content["arrays"][key]
        held = _size(folder, entry["pieces"]) if "pieces" in entry else min(size, max(0, together - entry["at"]))
        if held != size:
            raise DamagedError(
                f"{folder / name} is damaged: {key} is {dtype} {shape} of {size} bytes, and its pieces have {held}"
            )
    shared, arrays = _get(folder, content["shared"]), {}
    for key, (dtype, shape, size) in outlines.items():
        entry = content["arrays"][key]
        raw = _get(folder, entry["pieces"]) if "pieces" in entry else shared[entry["at"] : entry["at"] + size]
        arrays[key] = np.frombuffer(raw, np.uint8).view(dtype).reshape(shape).copy()
    return arrays, content["facts"]


def _content(path: Path) -> dict[str, Any]:
    """What a checkpoint's file says, after a look at whether it is one."""
    content = read_json(path)
    require_fields(content, {"facts": dict, "arrays": dict, "shared": list}, str(path))
    lists = [content["shared"]]
    for key, entry in content["arrays"].items():
        if not isinstance(entry, dict):
            raise DamagedError(f"{path} is damaged: its array {key!r} is described by {str(entry)[:50]!r}")
        require_fields(entry, {"pieces": list} if "pieces" in entry else {"at": int}, f"{path}, array {key!r},")
        lists.append(entry.get("pieces", []))
        if entry.get("at", 0) < 0:
            raise DamagedError(f"{path} is damaged: its array {key!r} begins at {entry['at']}")
    for names in lists:
        bad = [name for name in names if not isinstance(name, str) or not DIGEST.fullmatch(name)]
        if bad:
            raise DamagedError(f"{path} is damaged: {str(bad[0])[:50]!r} is not the name of a piece")
    return content


def _outline(folder: Path, name: str, key: str, entry: dict[str, Any]) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """The dtype, shape and bytes of an array."""
    where = f"{folder / name}, array {key!r},"
    require_fields(entry, {"dtype": str, "shape": list}, where)
    try:
        dtype = np.dtype(entry["dtype"])
    except (TypeError, ValueError, SyntaxError):
        dtype = np.dtype(object)
    shape = tuple(entry["shape"])
    if dtype.hasobject or dtype.names is not None or not dtype.itemsize:
        raise DamagedError(f"{where} is damaged: {entry['dtype'][:50]!r} is no dtype of numbers")
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in shape) or len(shape) > 32:
        raise DamagedError(f"{where} is damaged: {str(shape)[:50]} is no shape")
    return dtype, shape, dtype.itemsize * math.prod(shape)


def _size(folder: Path, names: list[str]) -> int:
    """The bytes of some pieces, without reading them."""
    try:
        sizes = {name: (folder / PIECES / name).stat().st_size for name in set(names)}
    except OSError as error:
        raise DamagedError(f"{error.filename}, a piece of a checkpoint, cannot be read: {error}") from error
    return sum(sizes[name] for name in names)


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


def _copy(source: Path, target: Path) -> None:
    """A file under a second name, in place of what was there."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        os.link(source, temporary)
    except OSError:  # a file system without links
        _write(target, source.read_bytes())
    else:
        os.replace(temporary, target)


def _refuse_link(pieces: Path) -> None:
    """Pieces are deleted when they are old: not in a folder somewhere else."""
    if pieces.is_symlink():
        raise DamagedError(
            f"{pieces} is a symbolic link, and old pieces are deleted there: put the folder itself in its place, or "
            "link the whole run"
        )


def _sweep(folder: Path) -> None:
    """Remove pieces that neither checkpoint names, and what a killed process left half written."""
    _refuse_link(folder / PIECES)
    named: set[str] = set()
    for name in (NAME, PREVIOUS):
        if (folder / name).is_file():
            try:
                content = _content(folder / name)
            except ValueError:
                continue
            named.update(content["shared"])
            lists: Iterable[list[str]] = (entry.get("pieces", []) for entry in content["arrays"].values())
            named.update(piece for pieces in lists for piece in pieces)
    for path in (folder / PIECES).iterdir():
        if (DIGEST.fullmatch(path.name) and path.name not in named) or UNFINISHED.fullmatch(path.name):
            _remove(path)
    for path in folder.glob(".*.tmp"):
        if UNFINISHED.fullmatch(path.name):
            _remove(path)


def _remove(path: Path) -> None:
    if path.is_file() and not path.is_symlink():
        path.unlink(missing_ok=True)


def _digest(data: Any) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
