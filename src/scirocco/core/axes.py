"""Names of the axes of parameters, and of the entries along them, as ArviZ has them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

FEW = 5  # names in a message


class Axes(NamedTuple):
    """The names of the axes of parameters, by parameter, and of the entries along them, by axis."""

    dims: dict[str, tuple[str, ...]]
    coords: dict[str, tuple[Any, ...]]

    def check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Reject names that do not fit the shapes of the parameters, by name."""
        for name, dims in self.dims.items():
            if name not in shapes:
                raise ValueError(f"dims name {name}, which is not among the parameters {sorted(shapes)}")
            if len(dims) != len(shapes[name]):
                raise ValueError(f"dims: {name} has the shape {shapes[name]}, and {len(dims)} names, {list(dims)}")
            for dim, length in zip(dims, shapes[name], strict=True):
                if dim in ("chain", "draw"):
                    raise ValueError(f"dims: an axis of {name} cannot be called {dim!r}, which is one of every draw")
                entries = len(self.coords.get(dim, range(length)))
                if entries != length:
                    raise ValueError(f"coords: {dim} has {entries} names, and {name} {length} entries along it")
                double = [entry for entry, count in Counter(self.coords.get(dim, ())).items() if count > 1]
                if double:
                    raise ValueError(f"coords: {dim} has the name {double[0]!r} more than once")

    def require_same(self, before: Mapping[str, tuple[Any, ...]]) -> None:
        """Reject entries that are not those of an earlier run: its parameters along them are others."""
        for axis, entries in self.coords.items():
            known = before.get(axis, entries)
            if known == entries:
                continue
            if sorted(map(str, known)) == sorted(map(str, entries)):
                few = ", ".join(map(repr, known[:FEW])) + (", ..." if len(known) > FEW else "")
                raise ValueError(
                    f"the entries of {axis} stand in another order than in the earlier run, and so do their codes: "
                    f"give the target coords={{{axis!r}: [{few}]}}, the order of then"
                )
            raise ValueError(
                f"the {len(entries)} entries of {axis} are not the {len(known)} of the earlier run: parameters along "
                "it are others; start again with sample"
            )

    def entries(self, name: str, shape: tuple[int, ...]) -> Iterator[list[Any]]:
        """The indices of a parameter, by the names of entries where axes have any; free numbers may be fewer."""
        dims = self.dims.get(name, ())
        named = [self.coords.get(dim, ()) for dim in dims] if len(dims) == len(shape) else [()] * len(shape)
        axes = [
            entries if len(entries) == length else range(length) for entries, length in zip(named, shape, strict=True)
        ]
        return map(list, itertools.product(*axes))


def names_given(argument: str, given: Any) -> dict[str, tuple[Any, ...]]:
    """Lists of names by name."""
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"{argument} must be a dictionary of lists of names; got {type(given).__name__}")
    for name, names in (given or {}).items():
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise TypeError(f"{argument}: {name} must have a list of names; got {names!r}")
    return {name: tuple(names) for name, names in (given or {}).items()}
