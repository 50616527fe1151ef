"""Minibatches with a fixed number of rows from each stratum.

    sum_i f_i ~ sum_s (N_s / n_s) sum_{i in S_s} f_i,    S_s: n_s of the N_s rows of stratum s

Rows that matter more, such as the only ones of a rare category, belong to a stratum that is drawn more often; with
n_s = N_s they are part of every minibatch. The best rate is proportional to the sd of f in the stratum (Neyman 1934).
Each stratum is a ring of shuffled rows, of which a contiguous piece is read at a random place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.batches.base import Batch
from scirocco.batches.draws import Batching, Draw
from scirocco.batches.integers import integers
from scirocco.core.checks import require_unmasked
from scirocco.core.seeds import Purpose, generator
from scirocco.core.types import Array, Data, Key


@dataclass(frozen=True, eq=False)
class Strata(Batching):
    """``rows[s]`` rows of each stratum s in every minibatch; ``labels`` has the stratum of each row of the data.

    Without ``rows`` every stratum sends its share, at least one row.

    >>> batching = Strata(np.array([0, 0, 0, 0, 1, 1]), rows=(2, 2))
    >>> batching.bind(6, 6, 4, None, ring=False).weights
    array([2., 2., 1., 1.], dtype=float32)
    """

    labels: Any = field(metadata={"keep": True})
    rows: tuple[int, ...] | None = None

    def allocated(self, batch_size: int) -> tuple[int, ...]:
        """Rows of each stratum: those given, or shares of ``batch_size`` by size, at least one of each."""
        if self.rows is not None:
            return tuple(map(int, self.rows))
        sizes = np.bincount(np.asarray(self.labels))
        if len(sizes) > batch_size:
            raise ValueError(f"batch_size {batch_size} is smaller than the number of strata, {len(sizes)}")
        rows = np.clip(np.round(batch_size * sizes / sizes.sum()), 1, sizes).astype(int)
        while rows.sum() != batch_size:  # what rounding left over goes to, or comes from, the largest
            change = 1 if rows.sum() < batch_size else -1
            open_ = (rows < sizes) if change > 0 else (rows > 1)
            rows[np.argmax(np.where(open_, sizes, -1))] += change
        return tuple(map(int, rows))

    def order(self, total: int, batch_size: int, seed: int) -> np.ndarray:
        """The rows in the order in which they are stored: each stratum shuffled, its first rows again at its end."""
        del total
        rows = self.allocated(batch_size)
        shuffled = generator(seed, Purpose.MEMORY_ORDER).permutation(len(self.labels))
        members = [shuffled[np.asarray(self.labels)[shuffled] == s] for s in range(len(rows))]
        return np.concatenate([np.r_[m, m[: n - 1]] for m, n in zip(members, rows, strict=True)])

    def bind(self, total: int, resident: int, batch_size: int, order: np.ndarray | None, ring: bool) -> _Strata:
        """Check the sizes."""
        del order, ring
        require_unmasked("labels", self.labels)
        labels = np.asarray(self.labels)
        if resident != total:
            raise ValueError("Strata needs data in memory; for data on disk use Shuffled")
        if labels.shape != (total,) or labels.dtype.kind not in "iu":
            raise ValueError(f"labels must be whole numbers, one for each of the {total} examples; got {labels.shape}")
        rows = self.allocated(batch_size)
        if labels.min() < 0 or labels.max() >= len(rows):
            raise ValueError(f"labels must lie between 0 and {len(rows) - 1}, as rows has {len(rows)} entries")
        sizes = np.bincount(labels, minlength=len(rows))
        if not all(1 <= n <= size for n, size in zip(rows, sizes, strict=True)):
            raise ValueError(f"rows must lie between 1 and the sizes of the strata, {sizes.tolist()}; got {rows}")
        if sum(rows) != batch_size:
            raise ValueError(f"rows must sum to batch_size, {batch_size}; got {sum(rows)}")
        shares = np.array(rows)
        stored = sizes + shares - 1
        begin, ahead = np.cumsum(stored) - stored, np.cumsum(shares) - shares  # in memory, and in the minibatch
        places = np.where(sizes > shares, sizes, 1)
        which = np.repeat(np.arange(len(rows)), shares)
        return _Strata(
            batch_size, (begin - ahead).astype(np.int32), places.astype(np.uint32), which.astype(np.int32),
            (sizes / shares)[which].astype(np.float32),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Strata(Draw[tuple[()]]):
    """Numbers of rows and sizes are arguments of the program: strata that are found anew differ a little each time."""

    batch_size: int
    shifts: np.ndarray  # of each stratum: where its ring begins, less its place in the minibatch
    places: np.ndarray  # at which its piece may begin
    which: np.ndarray  # the stratum of each row of a minibatch
    weights: np.ndarray

    def draw(self, key: Key, state: tuple[()], count: Array, data: Data) -> tuple[tuple[()], Batch]:
        del count
        shifts = self.shifts + integers(key, self.places.shape, self.places)
        which = jnp.asarray(self.which)
        indices = shifts[which] + jnp.arange(self.batch_size, dtype=jnp.int32)

        def take(a: Array) -> Array:
            if len(self.shifts) > 2:
                return a.at[indices].get(mode="promise_in_bounds")
            # Row j of stratum s is at shifts[s] + j: to read all rows of both and choose is faster than to gather.
            first, second = (jax.lax.dynamic_slice_in_dim(a, shifts[s], self.batch_size) for s in (0, -1))
            return jnp.where(which.reshape(-1, *[1] * (a.ndim - 1)) == 0, first, second)

        return state, Batch(jax.tree.map(take, data), jnp.asarray(self.weights), indices)
