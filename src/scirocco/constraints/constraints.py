"""The constraints of all parameters of a target, by their paths.

Constraints.of({"sigma": positive, "weights": simplex})      leaves that are not named are free
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.constraints.base import Constraint, Parametrisation
from scirocco.constraints.numpyro import NumPyroConstraint, is_numpyro
from scirocco.constraints.sums import Simplex
from scirocco.core.trees import Path, named_leaves, names_of, part_at, shown
from scirocco.core.types import Array, Params


@dataclass(frozen=True)
class Constraints(Parametrisation):
    """``parts`` are paths of leaves, or of what holds them, and their constraints.

    Compared by value, so that compiled programs can be made for it.
    """

    parts: tuple[tuple[Path, Constraint], ...] = ()

    @classmethod
    def of(cls, given: Any) -> Constraints:
        """From a constraint for all leaves, a pytree of them by the names of the parameters, or None for none."""
        if isinstance(given, cls):
            return given
        leaves = jax.tree_util.tree_flatten_with_path(
            given, is_leaf=lambda c: isinstance(c, Constraint) or is_numpyro(c)
        )
        return cls(tuple((names_of(path), _as_constraint(value)) for path, value in leaves[0]))

    def __bool__(self) -> bool:
        return bool(self.parts)

    def at(self, path: Path) -> Constraint | None:
        """The constraint of a leaf."""
        return part_at(self.parts, path)

    def without(self, names: Any) -> Constraints:
        """Those of what is left when a dict of parameters loses some of its keys."""
        return Constraints(tuple((path, c) for path, c in self.parts if not path or path[0] not in names))

    def constrain(self, position: Params) -> tuple[Params, Array]:
        """The parameters at a free position, and the log of the determinant of the change of variables."""
        total = [jnp.zeros(())]

        def one(constraint: Constraint, free: Array) -> Array:
            value = constraint.constrained(free)
            total.append(constraint.log_det(free, value))
            return value

        params = self._each(one, position)
        return params, sum(total[1:], start=total[0])

    def parameters(self, position: Params) -> Params:
        """The parameters at a free position."""
        return self._each(lambda constraint, free: constraint.constrained(free), position)

    def free(self, params: Params) -> Params:
        """The free position of parameters."""
        return self._each(lambda constraint, value: constraint.freed(value).astype(value.dtype), params)

    def _each(self, function: Callable[[Constraint, Array], Array], tree: Params) -> Params:
        if not self.parts:
            return tree

        def leaf(path: Any, value: Any) -> Any:
            constraint = self.at(names_of(path))
            return value if constraint is None else function(constraint, jnp.asarray(value))

        return jax.tree_util.tree_map_with_path(leaf, tree)

    def constrained_names(self, tree: Params) -> list[str]:
        """The names of the leaves that are not free."""
        paths = jax.tree_util.tree_flatten_with_path(tree)[0]
        return [name for name, (path, _) in zip(named_leaves(tree), paths, strict=True) if self.at(names_of(path))]

    def check(self, params: Params, *, values: bool = True) -> None:
        """Reject a start that does not obey, in words; without ``values`` look at shapes only."""
        leaves = named_leaves(params)
        paths = [names_of(path) for path, _ in jax.tree_util.tree_flatten_with_path(params)[0]]
        for path, constraint in self.parts:
            if not any(place[: len(path)] == path for place in paths):
                name = f"{'.'.join(path)} ({constraint})"
                if paths == [()]:
                    raise ValueError(
                        f"constraints name {name}, and the parameters are one array without names: give the constraint "
                        f"itself, constraints={constraint}, or make them a dictionary"
                    )
                raise ValueError(f"constraints name {name}, which is not among the parameters {sorted(leaves)}")
        for (name, leaf), path in zip(leaves.items(), paths, strict=True):
            own = self.at(path)
            if own is None:
                continue
            if not jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.floating):
                raise TypeError(
                    f"initial: {name} has dtype {jnp.asarray(leaf).dtype}; sampled parameters must be floating"
                )
            try:
                own.check_shape(np.shape(leaf))
            except (ValueError, TypeError) as error:
                raise ValueError(f"initial: {name} of shape {np.shape(leaf)} cannot be {own}: {error}") from None
            if values and not np.all(own.contains(np.asarray(leaf))):
                raise ValueError(f"initial: {name} is not {own}, or at the border of it: {shown(leaf)}")


def _as_constraint(given: Any) -> Constraint:
    if isinstance(given, Constraint):
        return given
    if is_numpyro(given):
        theirs = NumPyroConstraint(given)
        return Simplex() if str(theirs) == "simplex" else theirs  # a long stick, broken, has no finite gradient
    raise TypeError(
        "constraints must be constraints such as scirocco.constraints.positive, or NumPyro's, by the names of the "
        f"parameters; got {given!r}"
    )
