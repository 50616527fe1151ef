"""Parts of compiled programs: dataclasses whose numbers are arguments of the program and whose functions are part of
it.

A program is compiled once for its functions, shapes and kinds of parts. A step size, a temperature or a scale is a leaf
of the part that has it, so another value runs the same program; a schedule, a choice by name or a count that decides
shapes is static, and another one is another program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np

from scirocco.core.cache import keep_programs

keep_programs()

QUICK = {"xla_backend_optimization_level": 0}
"""Options for programs that run a few times only: they are compiled faster and run slower."""


@dataclasses.dataclass(frozen=True)
class Given:
    """A function whose first arguments are given, equal to another one if they are: the program is compiled once.

    ``functools.partial`` and closures are equal to nothing but themselves.

    >>> Given(max, 3) == Given(max, 3), Given(max, 3)(2)
    (True, 3)
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "arguments", arguments)

    def __call__(self, *others: Any) -> Any:
        """The function of the arguments given before and now."""
        return self.function(*self.arguments, *others)


Kind = TypeVar("Kind", bound=type)
_REGISTERED: set[type] = set()


def program_part(kind: Kind) -> Kind:
    """Make a dataclass a pytree.

    Fields with ``metadata={"program": False}`` are for the host and are left out; those with ``{"constant": True}`` are
    part of the program whatever they hold, because it is worth being compiled for them.
    """
    if kind not in _REGISTERED:
        _REGISTERED.add(kind)
        jax.tree_util.register_pytree_node(kind, _flatten, lambda static, leaves: _unflatten(kind, static, leaves))
    return kind


def _flatten(value: Any) -> tuple[list[Any], tuple[tuple[str, ...], tuple[tuple[str, Any], ...]]]:
    names, leaves, static = [], [], []
    known = value.__dict__.get("_leaves")  # of a part that JAX put together: its leaves may be anything
    for field in dataclasses.fields(value):
        if not field.metadata.get("program", True):
            continue
        setting = getattr(value, field.name)
        if field.metadata.get("constant"):
            static.append((field.name, _Same(setting)))
        elif field.name in known if known is not None else _is_dynamic(setting):
            names.append(field.name)
            leaves.append(setting)
        else:
            static.append((field.name, setting))
    return leaves, (tuple(names), tuple(static))


def _unflatten(kind: type, static: Any, leaves: Any) -> Any:
    names, fixed = static
    new: Any = object.__new__(kind)  # settings were checked when they were given; here they may be tracers
    for field in dataclasses.fields(kind):
        object.__setattr__(new, field.name, None)
    for name, setting in (*fixed, *zip(names, leaves, strict=True)):
        object.__setattr__(new, name, setting.value if isinstance(setting, _Same) else setting)
    object.__setattr__(new, "_leaves", names)
    return new


class _Same:
    """A value that is compared by identity: another array, even an equal one, is another program."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _is_dynamic(setting: Any) -> bool:
    """Numbers that are no counts, arrays, pytrees of them, and other parts."""
    if type(setting) in _REGISTERED:
        return True
    leaves = jax.tree.leaves(setting)
    if not leaves or not all(isinstance(leaf, int | float | np.ndarray | np.generic | jax.Array) for leaf in leaves):
        return False
    return isinstance(setting, dict | list) or not all(isinstance(leaf, int | np.integer) for leaf in leaves)
