"""Settings as JSON, so that a run can be resumed without its script: registered dataclasses, numbers, arrays, pytrees.

What JSON cannot hold (functions, closures of optax) is marked opaque, and ``resume`` asks for it again by name.
"""

from __future__ import annotations

import base64
import dataclasses
import sys
import zlib
from typing import Any

import jax
import numpy as np

MAX_ARRAY = 1000  # entries; the text of a checkpoint is written again and again, so larger arrays are only named


@dataclasses.dataclass(frozen=True)
class Outline:
    """The shape and dtype of an array."""

    shape: tuple[int, ...]
    dtype: str


def registry() -> dict[str, type]:
    """The classes that a description may name."""
    from scirocco import batches, estimators, samplers, schedules

    # The other engine is not loaded for this: who describes its samplers has loaded it.
    simplex = [sys.modules[name] for name in ("scirocco.simplex",) if name in sys.modules]
    modules = (samplers, estimators, batches, schedules, *simplex)
    classes = [c for module in modules for c in vars(module).values() if dataclasses.is_dataclass(c)]
    return {c.__name__: c for c in classes if isinstance(c, type)}


def describe(value: Any, keep: bool = False) -> Any:
    """A JSON description of a setting. With ``keep`` large arrays are written too, as their packed bytes."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Outline):
        return {"zeros": list(value.shape), "dtype": value.dtype}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray | jax.Array):
        array = np.asarray(value)
        if array.size > MAX_ARRAY and keep:
            return {
                "bytes": base64.b64encode(zlib.compress(array.tobytes())).decode(),
                "shape": array.shape,
                "dtype": str(array.dtype),
            }
        if array.size > MAX_ARRAY:
            return {"opaque": f"array {array.shape}", "checksum": zlib.crc32(np.ascontiguousarray(array).data)}
        return {"array": array.tolist(), "dtype": str(array.dtype)}
    if type(value) in registry().values():
        fields = {
            f.name: describe(getattr(value, f.name), keep=f.metadata.get("keep", False))
            for f in dataclasses.fields(value)
            if f.metadata.get("resume", True)
        }
        return {"type": type(value).__name__, "fields": fields}
    if type(value) is dict and all(isinstance(k, str) for k in value):
        return {"dict": {k: describe(v) for k, v in value.items()}}
    if type(value) in (list, tuple):
        return {type(value).__name__: [describe(v) for v in value]}
    return {"opaque": type(value).__name__}


def is_opaque(description: Any) -> bool:
    """Whether a description lost something."""
    if isinstance(description, dict):
        return "opaque" in description or any(is_opaque(v) for v in description.values())
    return isinstance(description, list) and any(is_opaque(v) for v in description)


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
        return registry()[description["type"]](**fields)
    if "dict" in description:
        return {k: rebuild(v) for k, v in description["dict"].items()}
    kind = next(iter(description))
    return {"list": list, "tuple": tuple}[kind](rebuild(v) for v in description[kind])


def outline(params: Any) -> Any:
    """The description of a pytree of arrays by their shapes and dtypes; rebuilt as zeros."""
    return describe(jax.tree.map(lambda x: Outline(x.shape, str(x.dtype)), params))
