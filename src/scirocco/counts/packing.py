"""The state of a chain as arrays by name, so that a new field cannot shift the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

Arrays = dict[str, np.ndarray]


def packed(owner: object, names: Sequence[str]) -> Arrays:
    """Attributes that are numbers, each an array of its own."""
    return {name.lstrip("_"): np.asarray(getattr(owner, name)) for name in names}


def unpack_into(owner: object, names: Sequence[str], arrays: Mapping[str, np.ndarray]) -> None:
    """The inverse of ``packed``: the attributes are set."""
    for name in names:
        setattr(owner, name, arrays[name.lstrip("_")].item())


def nested(**parts: Mapping[str, np.ndarray]) -> Arrays:
    """The arrays of several parts in one, named ``part/name``; the inverse is ``run.checkpoint.part``."""
    return {f"{kind}/{name}": array for kind, arrays in parts.items() for name, array in arrays.items()}
