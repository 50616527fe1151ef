"""Settings as JSON, so that a run can be resumed without its script: registered parts, numbers, arrays, pytrees.

What JSON cannot hold (functions, closures of optax) is marked opaque, and ``resume`` asks for it again by name.
"""

from __future__ import annotations

import base64
import dataclasses
import zlib
from typing import Any

import numpy as np

from scirocco.core.parts import is_part, name_of, part_named

MAX_ARRAY = 1000  # entries; larger arrays are only named, unless their field says "keep"


@dataclasses.dataclass(frozen=True)
class Outline:
    """The shape and dtype of an array."""

    shape: tuple[int, ...]
    dtype: str


def describe(value: Any, keep: bool = False) -> Any:
    """A JSON description of a setting. With ``keep`` large arrays are written too, as their packed bytes."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Outline):
        return {"zeros": list(value.shape), "dtype": value.dtype}
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "__array__") and hasattr(value, "dtype"):
        array = np.asarray(value)
        if array.dtype.kind in "cmM":  # which JSON has no word for
            return {"opaque": f"array {array.dtype}"}
        if array.size > MAX_ARRAY and keep:
            return {
                "bytes": base64.b64encode(zlib.compress(array.tobytes())).decode(),
                "shape": array.shape,
                "dtype": str(array.dtype),
            }
        if array.size > MAX_ARRAY:
            return {"opaque": f"array {array.shape}", "checksum": zlib.crc32(np.ascontiguousarray(array).data)}
        return {"array": array.tolist(), "dtype": str(array.dtype)}
    if is_part(value):
        fields = {
            f.name: describe(getattr(value, f.name), keep=keep or f.metadata.get("keep", False))
            for f in dataclasses.fields(value)
            if f.metadata.get("resume", True)
        }
        return {"type": name_of(type(value)), "fields": fields}
    if type(value) is dict and all(isinstance(k, str) for k in value):
        return {"dict": {k: describe(v, keep) for k, v in value.items()}}
    if type(value) in (list, tuple):
        return {type(value).__name__: [describe(v, keep) for v in value]}
    return {"opaque": type(value).__name__}


def is_opaque(description: Any) -> bool:
    """Whether a description lost something."""
    if not isinstance(description, dict):
        return False
    if "opaque" in description:
        return True
    inner = description.get("fields") or description.get("dict") or {}
    listed = description.get("list") or description.get("tuple") or ()
    return any(is_opaque(v) for v in (*inner.values(), *listed))


def rebuild(description: Any) -> Any:
    """The inverse of ``describe``."""
    if not isinstance(description, dict):
        return description
    if "zeros" in description:
        return np.zeros(description["zeros"], dtype=description["dtype"])
    if "bytes" in description:
        array = np.frombuffer(zlib.decompress(base64.b64decode(description["bytes"])), dtype=description["dtype"])
        return array.reshape(description["shape"])
    if "array" in description:
        return np.asarray(description["array"], dtype=description["dtype"])
    if "type" in description:
        fields = {name: rebuild(v) for name, v in description["fields"].items()}
        return part_named(description["type"])(**fields)
    if "dict" in description:
        return {k: rebuild(v) for k, v in description["dict"].items()}
    kind = next(iter(description))
    return {"list": list, "tuple": tuple}[kind](rebuild(v) for v in description[kind])


def outline(params: Any) -> Any:
    """The description of a pytree of arrays by their shapes and dtypes; rebuilt as zeros."""
    return describe(_outlined(params))


def _outlined(value: Any) -> Any:
    if type(value) is dict:
        return {k: _outlined(v) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_outlined(v) for v in value)
    return Outline(tuple(value.shape), str(value.dtype)) if hasattr(value, "shape") else value


def part_again(name: str, recorded: Any, given: Any, argument: str | None = None) -> Any:
    """A part of a run from its description, or the one given, if it is the same."""
    if given is None:
        if is_opaque(recorded):
            raise ValueError(
                f"the run's {name} cannot be rebuilt from its checkpoint: give it again as {argument or name}="
            )
        return rebuild(recorded)
    if describe(given) != recorded:
        raise ValueError(f"the run had {name} {recorded}; got {describe(given)}")
    return given
