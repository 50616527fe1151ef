"""Draws of several shards, from wherever they come, as one array; and back again.

Data is cut into S shards, and shard s has the posterior p_s(theta) ~ p_0(theta)^(1/S) p(x_s | theta): their product is
the posterior of all data. What the methods of this package take is one set of draws for each shard: arrays (draw, ...),
pytrees of them, traces, ``xarray`` data sets; what they give back has the form of what they were given.

The order in which shards are given has no meaning, and no answer depends on it: they are put in an order of their own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from scirocco.core.checks import numbers, require_count
from scirocco.core.trees import named_leaves
from scirocco.run.trace import coordinate


@dataclass(frozen=True, eq=False)
class Shards:
    """``values`` are (shard, draw, coordinate), ``names`` those of the coordinates, ``restore`` makes of
    (draw, coordinate) what the caller's shards look like."""

    values: np.ndarray
    names: tuple[str, ...]
    restore: Callable[[np.ndarray], Any]

    @classmethod
    def of(cls, draws: Iterable[Any]) -> Shards:
        """Look at the draws of each shard: they must have the same variables and shapes, and finite values."""
        if isinstance(draws, dict) or hasattr(draws, "posterior"):
            raise TypeError(f"draws must be a sequence with the draws of each shard; got one {type(draws).__name__}")
        shards = list(draws)
        if len(shards) < 2:
            raise ValueError(f"draws must hold those of two shards or more; got {len(shards)}")
        return cls._looked_at(shards)

    @classmethod
    def single(cls, draws: Any) -> Shards:
        """Draws of one law."""
        return cls._looked_at([draws])

    @classmethod
    def _looked_at(cls, shards: list[Any]) -> Shards:
        found = [_leaves(shard, number) for number, shard in enumerate(shards)]
        shapes = [{name: leaf.shape[1:] for name, leaf in leaves.items()} for leaves in found]
        for number, shape in enumerate(shapes):
            if shape != shapes[0]:
                raise ValueError(
                    f"shards must have the same variables and shapes; shard 0 has {_shown(shapes[0])}, "
                    f"shard {number} {_shown(shape)}"
                )
        flat = [_flat(leaves, number) for number, leaves in enumerate(found)]
        fewest = min(len(one) for one in flat)
        flat = [thinned(one, fewest) for one in flat]
        flat.sort(key=lambda one: hashlib.sha256(np.ascontiguousarray(one).data).digest())
        return cls(np.stack(flat), _coordinates(shapes[0]), _restorer(shards[0], found[0]))

    @property
    def count(self) -> int:
        """S."""
        return self.values.shape[0]

    @property
    def draws(self) -> int:
        """Of each shard."""
        return self.values.shape[1]

    @property
    def dimension(self) -> int:
        """Coordinates."""
        return self.values.shape[2]

    def wanted(self, num_samples: int | None) -> int:
        """How many draws to make: as many as a shard has, if it is not said."""
        count = self.draws if num_samples is None else num_samples
        require_count("num_samples", count)
        return count

    @cached_property
    def means(self) -> np.ndarray:
        """Of each shard, (shard, coordinate)."""
        mean: np.ndarray = self.values.mean(axis=1)
        return mean

    @cached_property
    def covariances(self) -> np.ndarray:
        """Of each shard, (shard, coordinate, coordinate)."""
        centred = self.values - self.means[:, None]
        found: np.ndarray = np.swapaxes(centred, 1, 2) @ centred / (self.draws - 1)
        return found

    @cached_property
    def precisions(self) -> np.ndarray:
        """The inverses of the covariances, which must not be singular."""
        self.require_spread()
        if self.draws <= self.dimension:
            raise ValueError(
                f"{self.draws} draws of a shard have a singular covariance in {self.dimension} dimensions: draw more, "
                'or combine with weights="diagonal"'
            )
        found = []
        for number, covariance in enumerate(self.covariances):
            scale = np.sqrt(np.diag(covariance))
            values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
            if not values[0] > self.dimension * np.finfo(float).eps * values[-1]:
                worst = np.argsort(-np.abs(vectors[:, 0]))[:3]
                raise ValueError(
                    f"the covariance of a shard ({number} in the package's order) is singular: "
                    f"{', '.join(self.names[i] for i in worst)} depend on each other linearly"
                )
            found.append((vectors / values) @ vectors.T / np.outer(scale, scale))
        return np.stack(found)

    def require_spread(self) -> None:
        """Reject coordinates that are constant in a shard."""
        constant = np.flatnonzero(np.any(np.ptp(self.values, axis=1) == 0, axis=0))
        if constant.size:
            names = ", ".join(self.names[i] for i in constant[:5])
            raise ValueError(f"{names} have the same value in all draws of a shard: leave constants out")

    @cached_property
    def product(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the product of normal laws with the moments of the shards."""
        covariance = np.linalg.inv(self.precisions.sum(axis=0))
        mean = covariance @ np.einsum("sij,sj->i", self.precisions, self.means)
        return mean, (covariance + covariance.T) / 2

    def whitened(self) -> tuple[np.ndarray, np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """The draws and the precisions in coordinates in which that product is N(0, I), and the way back."""
        mean, covariance = self.product
        root = np.linalg.cholesky(covariance)
        z = np.linalg.solve(root, (self.values - mean)[..., None])[..., 0]
        return z, root.T @ self.precisions @ root, lambda z: mean + z @ root.T


def _leaves(shard: Any, number: int) -> dict[str, np.ndarray]:
    """The variables of a shard, draws of all chains along the first axis."""
    posterior = getattr(shard, "posterior", shard)
    if hasattr(posterior, "data_vars"):
        leaves = {}
        for name, variable in posterior.data_vars.items():
            leading = [dim for dim in ("chain", "draw") if dim in variable.dims]
            if "draw" not in leading:
                raise ValueError(f"shard {number}: {name} has no dimension called draw; got {variable.dims}")
            values = numbers(f"shard {number}: {name}", variable.transpose(*leading, ...).values)
            leaves[str(name)] = values.reshape(-1, *values.shape[len(leading) :])
    else:
        given = named_leaves(posterior, bare="draws")
        leaves = {name: numbers(f"shard {number}: {name}", leaf) for name, leaf in given.items()}
    if not leaves:
        raise ValueError(f"shard {number} has no variables")
    for name, leaf in leaves.items():
        if leaf.ndim == 0 or leaf.dtype.kind not in "fiu":
            raise TypeError(
                f"shard {number}: {name} must be an array of numbers (draw, ...); got {leaf.dtype} {leaf.shape}"
            )
    return leaves


def _flat(leaves: dict[str, np.ndarray], number: int) -> np.ndarray:
    counts = {name: len(leaf) for name, leaf in leaves.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(f"shard {number}: variables must have as many draws as each other; got {counts}")
    count = next(iter(counts.values()))
    if count < 2:
        raise ValueError(f"shard {number} has {count} draw{'s' * (count != 1)}: two at least are needed")
    for name, leaf in leaves.items():
        if not np.all(np.isfinite(leaf)):
            bad = int(np.flatnonzero(~np.isfinite(leaf.reshape(count, -1)).all(axis=1))[0])
            raise ValueError(f"shard {number}: {name} is not finite in draw {bad}")
    parts = [np.asarray(leaf, np.float64).reshape(count, -1) for leaf in leaves.values()]
    flat = np.concatenate(parts, axis=1)
    if flat.shape[1] == 0:
        raise ValueError(f"shard {number} has no coordinates")
    return flat


def thinned(draws: np.ndarray, most: int) -> np.ndarray:
    """At most so many of them, evenly."""
    return draws if len(draws) <= most else draws[np.linspace(0, len(draws) - 1, most).astype(int)]


def _coordinates(shapes: dict[str, tuple[int, ...]]) -> tuple[str, ...]:
    return tuple(coordinate(name, index) for name, shape in shapes.items() for index in np.ndindex(*shape))


def _shown(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "nothing"


def _restorer(shard: Any, leaves: dict[str, np.ndarray]) -> Callable[[np.ndarray], Any]:
    """(draw, coordinate) -> arrays with the shapes and dtypes of a shard, in its kind of container."""
    ends = np.cumsum([int(np.prod(leaf.shape[1:])) for leaf in leaves.values()])[:-1]

    def arrays(flat: np.ndarray) -> list[np.ndarray]:
        parts = np.split(flat, ends, axis=1)
        kinds = [leaf.dtype if leaf.dtype.kind == "f" else np.dtype(np.float64) for leaf in leaves.values()]
        return [
            part.reshape(len(flat), *leaf.shape[1:]).astype(kind)
            for part, leaf, kind in zip(parts, leaves.values(), kinds, strict=True)
        ]

    posterior = getattr(shard, "posterior", shard)
    if not hasattr(posterior, "data_vars"):
        structure = jax.tree.structure(posterior)
        return lambda flat: jax.tree.unflatten(structure, arrays(flat))

    def dataset(flat: np.ndarray) -> Any:
        import xarray as xr

        found = {}
        for name, values in zip(leaves, arrays(flat), strict=True):
            own = tuple(dim for dim in posterior[name].dims if dim not in ("chain", "draw"))
            found[name] = (("chain", "draw", *own), values[None])
        coordinates = {k: v for k, v in posterior.coords.items() if k not in ("chain", "draw")}
        return xr.Dataset(found, coords=coordinates)

    return dataset
