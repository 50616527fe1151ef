"""A fitted model as one file: arrays and JSON in NumPy's own archive, never pickled.

A file is checked before anything is allocated for it: the headers of all arrays must agree with each other, with the
list of arrays that the model wrote, and with the size of the file. Arrays are unpacked when the model asks for them.
"""

from __future__ import annotations

import io
import json
import math
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from sklearn.utils import check_random_state

from scirocco.run.describe import describe, is_opaque, rebuild

FORMAT = 1
META = "meta"
UNSURE = "agreement_"  # what these arrays begin with: a diagnostic may say NaN, nothing else may
DENSEST = 1032  # bytes that one byte of a deflated stream can stand for
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
DAMAGE = (
    ValueError, KeyError, IndexError, TypeError, AttributeError, EOFError, OSError, BadZipFile, zlib.error, SyntaxError,
    RuntimeError, OverflowError,
)  # fmt: skip
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
    found: dict[str, Any] = {name: np.asarray(array) for name, array in arrays.items()}
    listed = {name: [list(array.shape), str(array.dtype)] for name, array in found.items()}
    meta = {
        "format": FORMAT, "model": type(model).__name__, "settings": settings_of(model), "arrays": listed, **facts
    }  # fmt: skip
    text: dict[str, Any] = {META: np.frombuffer(json.dumps(meta).encode(), np.uint8)}
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            np.savez_compressed(file, **text, **found)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


class _Header(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Archive(Mapping[str, np.ndarray]):
    """The arrays of a file, each unpacked when it is asked for. All headers are looked at first."""

    def __init__(self, content: bytes) -> None:
        self._file = ZipFile(io.BytesIO(content))
        self._unpacked: dict[str, np.ndarray] = {}
        entries = self._file.infolist()
        self._entries = {entry.filename.removesuffix(".npy"): entry for entry in entries}
        if len(self._entries) < len(entries):
            raise ValueError("two of its arrays have the same name")
        if sum(entry.compress_size for entry in entries) > len(content):
            raise ValueError("its arrays are larger than the file")
        self._headers = {name: self._header(name, entry) for name, entry in self._entries.items()}

    def _header(self, name: str, entry: ZipInfo) -> _Header:
        if entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED) or not entry.filename.endswith(".npy"):
            raise ValueError(f"{entry.filename} is not an array of NumPy")
        with self._file.open(entry) as file:
            version = np.lib.format.read_magic(file)
            if version not in HEADERS:
                raise ValueError(f"{name} has a header of version {version}")
            shape, _, dtype = HEADERS[version](file)
            ends = file.tell()
        if dtype.kind not in "biufSU":
            raise ValueError(f"{name} has dtype {dtype}: not numbers or text")
        if ends + dtype.itemsize * math.prod(shape) != entry.file_size:
            raise ValueError(f"{name} is {dtype} {shape} by its header and has {entry.file_size - ends} bytes")
        if entry.file_size > DENSEST * (entry.compress_size + 64):
            raise ValueError(f"{name} cannot have {entry.file_size} bytes in {entry.compress_size} of the file")
        return _Header(shape, dtype)

    def require(self, listed: Any) -> None:
        """Reject a file whose arrays are not those that the model wrote."""
        found = {
            name: [list(header.shape), str(header.dtype)] for name, header in self._headers.items() if name != META
        }
        if found != listed:
            raise ValueError("its arrays are not those that it lists")

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._unpacked:
            self._unpacked[name] = self._unpack(name)
        return self._unpacked[name]

    def _unpack(self, name: str) -> np.ndarray:
        with self._file.open(self._entries[name]) as file:
            array: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
        if array.dtype.kind == "f" and not name.startswith(UNSURE) and not np.all(np.isfinite(array)):
            raise ValueError(f"{name} has entries that are NaN or infinite")
        return array

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._entries if name != META)

    def __len__(self) -> int:
        return len(self._entries) - (META in self._entries)


def read(kind: type[Model], path: Path, restore: Callable[[Model, dict[str, Any], Any], None]) -> Model:
    """A model of the class ``kind`` from its file; ``restore`` gives it back its fitted attributes.

    It is called with the model, the facts, and a mapping of the arrays.
    """
    name = kind.__name__
    try:
        arrays = Archive(path.read_bytes())
        meta = json.loads(arrays[META].tobytes())
        if (meta["model"], meta["format"]) != (name, FORMAT):
            raise ValueError(f"it holds {meta['model']} in format {meta['format']}; expected {name}, {FORMAT}")
        if "arrays" in meta:  # files of the first versions have no list
            arrays.require(meta["arrays"])
        model = kind(**{name: rebuild(value) for name, value in meta["settings"].items()})
        restore(model, meta, arrays)
    except FileNotFoundError:
        raise
    except DAMAGE as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"{path} is damaged or not a saved {name} model: {what}") from error
    return model
