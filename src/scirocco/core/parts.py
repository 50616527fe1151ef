"""The parts of a run that can be named in a file: samplers, estimators, batchings, schedules, reports.

A frozen dataclass says ``@part`` (or inherits from a base that does it for it) and can then be written as JSON and made
anew from it. Nothing that did not register itself is ever made from a file.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any, TypeVar

_PARTS: dict[str, type] = {}
PACKAGE = __name__.split(".")[0]

Part = TypeVar("Part", bound=type)


def part(kind: Part) -> Part:
    """Register a class, a dataclass by the time it is used, under its full name."""
    _PARTS[name_of(kind)] = kind
    return kind


def name_of(kind: type) -> str:
    """The module and the name of a class."""
    return f"{kind.__module__}:{kind.__qualname__}"


def is_part(value: Any) -> bool:
    """Whether a value is an instance of a registered dataclass."""
    return _PARTS.get(name_of(type(value))) is type(value) and dataclasses.is_dataclass(value)


def public_name(value: Any) -> str | None:
    """The name by which users make a part, within the package: ``SGLD``, ``batches.Shuffled``; None of others."""
    if not is_part(value):
        return None
    name, folder = type(value).__name__, type(value).__module__.split(".")[1:2]
    for place in ([], folder):
        if name in getattr(importlib.import_module(".".join([PACKAGE, *place])), "__all__", ()):
            return ".".join([*place, name])
    return None


def part_named(name: str) -> type:
    """The class registered under a name; modules of this package are imported for it, no others."""
    module = name.split(":", maxsplit=1)[0]
    if name not in _PARTS and module.split(".")[0] == PACKAGE:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not module.startswith(error.name):
                raise  # the part is there, and lacks something
            raise ValueError(f"this version of {PACKAGE} has no part {name}") from None
    if name not in _PARTS:
        raise ValueError(f"the part {name} is not known: import the module that defines it first")
    return _PARTS[name]
