"""Minibatches of which each of several devices has its part.

    sum_i f_i ~ sum_d (D N_d / n) sum_{i in S_d} f_i,    S_d: n/D of the N_d rows of part d, a contiguous block

The shuffled rows lie in D parts of equal length, each a ring. On a mesh of D devices each has one part and takes its
share of every minibatch from it; the sum over the minibatch is then a sum over devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.batches.base import Batch
from scirocco.batches.draws import Batching, Draw
from scirocco.batches.integers import integers
from scirocco.core.checks import require_count
from scirocco.core.seeds import Purpose, generator
from scirocco.core.types import Array, Data, Key


@dataclass(frozen=True)
class Spread(Batching):
    """As many rows of each of ``parts`` equal parts of the data in every minibatch.

    >>> Spread(2).order(5, 4, seed=0).size    # 3 and 2 rows; the rings go on for a block of 2
    10
    """

    parts: int

    def __post_init__(self) -> None:
        require_count("parts", self.parts)

    def order(self, total: int, batch_size: int, seed: int) -> np.ndarray:
        """The rows of each part, begun anew at its end as far as a minibatch may go on."""
        length = -(-total // self.parts) + batch_size // self.parts
        shuffled = generator(seed, Purpose.MEMORY_ORDER).permutation(total)
        return np.concatenate([np.resize(part, length) for part in np.array_split(shuffled, self.parts)])

    def bind(self, total: int, resident: int, batch_size: int, order: np.ndarray | None, ring: bool) -> Draw:
        """Check the sizes."""
        del order, ring
        if resident != total:
            raise ValueError("Spread needs data in memory; for data on disk use Shuffled")
        if batch_size % self.parts or batch_size // self.parts > total // self.parts:
            raise ValueError(
                f"batch_size must be a multiple of parts, {self.parts}, and at most {total}; got {batch_size}"
            )
        return _Spread(total, batch_size, self.parts)


@dataclass(frozen=True)
class _Spread(Draw[tuple[()]]):
    distinct: ClassVar[bool] = True

    total: int
    batch_size: int
    parts: int

    def draw(self, key: Key, state: tuple[()], count: Array, data: Data) -> tuple[tuple[()], Batch]:
        del count
        sizes = np.array([len(part) for part in np.array_split(np.arange(self.total), self.parts)])
        rows = self.batch_size // self.parts
        starts = integers(key, (self.parts,), sizes)

        def take(a: Array) -> Array:
            parts = a.reshape(self.parts, -1, *a.shape[1:])
            found = jax.vmap(lambda part, start: jax.lax.dynamic_slice_in_dim(part, start, rows))(parts, starts)
            return found.reshape(-1, *a.shape[1:])

        stored = jax.tree.leaves(data)[0].shape[0] // self.parts
        places = (starts[:, None] + jnp.arange(rows, dtype=jnp.int32)) % sizes[:, None].astype(np.int32)
        indices = places + stored * jnp.arange(self.parts, dtype=jnp.int32)[:, None]
        weights = np.repeat((sizes / rows).astype(np.float32), rows)
        return state, Batch(jax.tree.map(take, data), jnp.asarray(weights), indices.reshape(-1))
