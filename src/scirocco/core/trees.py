"""Small helpers for pytrees of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco.core.types import Array, Key, Params

Path = tuple[str, ...]
Part = TypeVar("Part")


def normal_like(key: Key, tree: Params) -> Params:
    """Independent standard normal noise with the structure, shapes and dtypes of ``tree``.

    One vector for all leaves: the generator is compiled once, and is slow on arrays with short rows.
    """
    flat, like = ravel_pytree(tree)
    return like(jax.random.normal(key, flat.shape, flat.dtype))


def signs_like(key: Key, tree: Params) -> Params:
    """Independent random signs with the structure of ``tree``."""
    return jax.tree.map(lambda z: jnp.where(z < 0, -1, 1).astype(z.dtype), normal_like(key, tree))


def inner(a: Params, b: Params) -> Array:
    """The inner product of all leaves together."""
    return sum(jax.tree.leaves(jax.tree.map(lambda x, y: jnp.sum(x * y), a, b)), start=jnp.zeros(()))


def at_least_single(tree: Params) -> Params:
    """The leaves in single precision at least."""
    return jax.tree.map(lambda x: x.astype(jnp.promote_types(x.dtype, jnp.float32)), tree)


def zeros_like(tree: Params) -> Params:
    """Zeros with the structure of ``tree``."""
    return jax.tree.map(jnp.zeros_like, tree)


def named_leaves(tree: Any, bare: str = "theta") -> dict[str, Any]:
    """The leaves by their path in the tree: ``{"w": {"a": x}}`` gives ``"w.a"``; a bare array is ``theta``.

    Slashes become dots too, because files on disk would read them as folders.
    """
    paths = jax.tree_util.tree_flatten_with_path(tree)[0]
    names = [jax.tree_util.keystr(path, simple=True, separator=".").replace("/", ".") or bare for path, _ in paths]
    if len(set(names)) < len(names) or {"chain", "draw"} & set(names):
        raise ValueError(f"paths of variables must differ and must not be 'chain' or 'draw'; got {sorted(names)}")
    return {name: leaf for name, (_, leaf) in zip(names, paths, strict=True)}


def shown(leaf: Any) -> str:
    """A few numbers of an array."""
    flat = np.ravel(np.asarray(leaf))
    return ", ".join(f"{x:g}" for x in flat[:5]) + (", ..." if flat.size > 5 else "")


def names_of(path: Any) -> Path:
    """The path of a leaf as names."""
    return tuple(jax.tree_util.keystr((key,), simple=True) for key in path)


def part_at(parts: Sequence[tuple[Path, Part]], path: Path) -> Part | None:
    """What was given for a leaf, by its own path or by that of what holds it."""
    return next((part for name, part in parts if path[: len(name)] == name), None)


def all_finite(tree: Any) -> bool:
    """Whether no floating leaf has a NaN or an infinity (on the host)."""
    return all(
        bool(np.all(np.isfinite(leaf)))
        for leaf in map(np.asarray, jax.tree.leaves(tree))
        if np.issubdtype(leaf.dtype, np.floating)
    )
