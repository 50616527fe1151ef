"""How minibatches are drawn from the resident block.

``Shuffled`` (the default) reads contiguous blocks of data that was shuffled once, in an order that is new each epoch:
a contiguous read is 3 to 10 times faster than gathering rows. ``RandomBlocks`` reads such blocks at independent random
places. ``WithReplacement`` and ``Weighted`` gather independent rows, for those who need the smaller variance. Each is
a frozen description; ``bind`` fixes the sizes and gives an init/draw pair of pure functions for jitted code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from scirocco.batches.base import Batch
from scirocco.batches.integers import below, integers
from scirocco.types import Array, Data, Key

MAX_ORDER = 32_768  # entries of the epoch's order: it is carried through the loop, so it must stay small


@runtime_checkable
class Draw(Protocol):
    """A way of drawing minibatches, bound to the sizes of a problem."""

    @property
    def wrap(self) -> int:
        """Rows that the resident block repeats at its end, so that a slice may run over it."""

    def init(self, key: Key) -> Any:
        """The state of the draws of one chain."""

    def draw(self, key: Key, state: Any, count: Array, data: Data) -> tuple[Any, Batch]:
        """Minibatch number ``count``."""


@runtime_checkable
class Batching(Protocol):
    """A description of a way of drawing minibatches."""

    def bind(self, total: int, resident: int, batch_size: int, order: np.ndarray | None, ring: bool) -> Draw:
        """Fix the sizes.

        ``total`` is N, ``resident`` the rows in memory, ``order`` the order in which they are stored; ``ring`` says
        that the resident block repeats its first ``wrap`` rows at the end.
        """


class EpochState(NamedTuple):
    """The order of the blocks in the current epoch."""

    key: Key
    order: Array
    offset: Array


@dataclass(frozen=True)
class Shuffled:
    """Contiguous blocks of shuffled rows, each row at most once an epoch, blocks and borders new each epoch.

    A minibatch is one contiguous block when the data has at least ``min_blocks`` of them; smaller data is cut finer,
    and a minibatch joins several pieces, so that the set of possible minibatches is always rich. Each epoch starts at
    a random row of the ring of rows, so every row is drawn equally often whatever N mod n.
    """

    min_blocks: int = 1000

    def bind(self, total: int, resident: int, batch_size: int, order: np.ndarray | None, ring: bool) -> Draw:
        """Choose the block length."""
        if batch_size == total == resident:
            return _Everything(total)
        wanted = min(batch_size, -(-self.min_blocks * batch_size // resident))
        pieces = next(p for p in range(wanted, batch_size + 1) if batch_size % p == 0)
        groups = max(1, -(-(resident // batch_size) // MAX_ORDER)) if pieces == 1 else 1
        return _Shuffled(total, resident, batch_size, pieces, groups, ring)


@dataclass(frozen=True)
class _Shuffled:
    total: int
    resident: int
    batch_size: int
    pieces: int  # blocks per batch
    groups: int  # batches per block (more than one only for very many batches)
    ring: bool

    @property
    def rows(self) -> int:
        return self.batch_size // self.pieces

    @property
    def blocks(self) -> int:
        return self.resident // (self.rows * self.groups)

    @property
    def epoch(self) -> int:
        """Batches in an epoch."""
        return self.blocks * self.groups // self.pieces

    @property
    def wrap(self) -> int:
        return self.rows * self.groups if self.ring else 0

    def _shuffle(self, key: Key, epoch: Int[Array, ""]) -> tuple[Int[Array, " blocks"], Int[Array, ""]]:
        # One call for both: each call of the generator takes 0.2 s to compile.
        words = jax.random.bits(jax.random.fold_in(key, epoch), (self.blocks + 2,), jnp.uint32)
        order = jnp.argsort(words[2:]).astype(jnp.int32)
        return order, below(words[:2], self.resident if self.ring else 1)

    def init(self, key: Key) -> EpochState:
        # The first draw of an epoch makes the order; compiling the sort here as well would cost most of a second.
        return EpochState(key, jnp.zeros(self.blocks, jnp.int32), jnp.int32(0))

    def draw(self, key: Key, state: EpochState, count: Array, data: Data) -> tuple[EpochState, Batch]:
        del key  # the epoch's own key decides
        within = count % self.epoch
        order, offset = jax.lax.cond(
            within == 0,
            lambda: self._shuffle(state.key, count // self.epoch),
            lambda: (state.order, state.offset),
        )
        first = within * self.pieces // self.groups
        chosen = jax.lax.dynamic_slice_in_dim(order, first, self.pieces) * (self.rows * self.groups)
        starts = offset + chosen + (within % self.groups) * self.rows
        batch = self._take(jnp.where(starts >= self.resident, starts - self.resident, starts), data)
        return EpochState(state.key, order, offset), batch

    def _take(self, starts: Int[Array, " pieces"], data: Data) -> Batch:
        """The rows of the blocks that begin at ``starts``."""
        indices = (starts[:, None] + jnp.arange(self.rows, dtype=jnp.int32)).reshape(-1)
        if self.pieces == 1:
            rows = jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, starts[0], self.rows), data)
        elif self.rows == 1:
            rows = jax.tree.map(lambda a: a.at[starts].get(mode="promise_in_bounds"), data)
        else:  # one gather of whole pieces: as fast as slices, and far quicker to compile than many of them
            pieces = jax.tree.map(
                lambda a: jax.vmap(lambda s: jax.lax.dynamic_slice_in_dim(a, s, self.rows))(starts), data
            )
            rows = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), pieces)
        indices = jnp.where(indices >= self.resident, indices - self.resident, indices)
        return Batch(rows, jnp.float32(self.total / self.batch_size), indices)


@dataclass(frozen=True)
class RandomBlocks(Shuffled):
    """Contiguous blocks as in ``Shuffled``, but drawn independently at every step.

    Minibatch noise is then independent from step to step, as thermostats and SAGA assume; without replacement the noise
    of an epoch sums to zero, which a thermostat mistakes for heat. Small data is cut into single rows; the draws are
    then those of ``WithReplacement``.
    """

    def bind(self, total: int, resident: int, batch_size: int, order: np.ndarray | None, ring: bool) -> Draw:
        """Choose the block length."""
        bound = super().bind(total, resident, batch_size, order, ring)
        return _RandomBlocks(**vars(bound)) if isinstance(bound, _Shuffled) else bound


@dataclass(frozen=True)
class _RandomBlocks(_Shuffled):
    def init(self, key: Key) -> tuple[()]:  # type: ignore[override]
        del key
        return ()

    def draw(self, key: Key, state: tuple[()], count: Array, data: Data) -> tuple[tuple[()], Batch]:  # type: ignore[override]
        del count
        top = self.resident if self.ring else self.resident - self.rows + 1
        return state, self._take(integers(key, (self.pieces,), top), data)


@dataclass(frozen=True)
class _Everything:
    """The full batch: nothing to draw."""

    total: int
    wrap: int = 0

    def init(self, key: Key) -> tuple[()]:
        del key
        return ()

    def draw(self, key: Key, state: tuple[()], count: Array, data: Data) -> tuple[tuple[()], Batch]:
        del key, count
        return state, Batch(data, jnp.float32(1), jnp.arange(self.total, dtype=jnp.int32))


@dataclass(frozen=True)
class WithReplacement:
    """Independent uniform rows."""

    def bind(self, total: int, resident: int, batch_size: int, order: np.ndarray | None, ring: bool) -> Draw:
        """Fix the sizes."""
        return _Independent(total, resident, batch_size)


@dataclass(frozen=True)
class _Independent:
    total: int
    resident: int
    batch_size: int
    wrap: int = 0

    def init(self, key: Key) -> tuple[()]:
        del key
        return ()

    def draw(self, key: Key, state: tuple[()], count: Array, data: Data) -> tuple[tuple[()], Batch]:
        del count
        indices = integers(key, (self.batch_size,), self.resident)
        rows = jax.tree.map(lambda a: a.at[indices].get(mode="promise_in_bounds"), data)
        return state, Batch(rows, jnp.float32(self.total / self.batch_size), indices)


@dataclass(frozen=True, eq=False)
class Weighted:
    """Independent rows, row i with probability p_i proportional to ``weights[i]``; its example then counts 1/(n p_i).

    With ``ControlVariate`` and weights proportional to the Lipschitz constants L_i of the examples' gradients this is
    the weighted estimator of Baker et al. (2019). The probabilities are rounded to multiples of 2^-31 and the rounded
    ones are used on both sides, so the estimate is unbiased up to the rounding of single precision.
    """

    weights: Any

    def bind(self, total: int, resident: int, batch_size: int, order: np.ndarray | None, ring: bool) -> Draw:
        """Round the probabilities."""
        weights = np.asarray(self.weights, dtype=np.float64)
        if resident != total:
            raise ValueError("Weighted needs data in memory; for data on disk use Shuffled or WithReplacement")
        if weights.shape != (total,):
            raise ValueError(f"weights must be a vector with one entry per example, ({total},); got {weights.shape}")
        if not np.all(np.isfinite(weights)) or not np.all(weights > 0):
            raise ValueError("weights must be positive and finite: a row that is never drawn would bias the estimate")
        if order is not None:
            weights = weights[order]
        parts = np.maximum(1, np.floor(weights / weights.sum() * (2**31 - 1 - total))).astype(np.int64)
        return _Weighted(batch_size, np.cumsum(parts).astype(np.int32), (parts.sum() / parts).astype(np.float32))


@dataclass(frozen=True, eq=False)
class _Weighted:
    batch_size: int
    upper: np.ndarray  # cumulative counts: row i owns the integers in [upper[i-1], upper[i])
    inverse: np.ndarray  # 1 / p_i
    wrap: int = 0

    def init(self, key: Key) -> tuple[Array, Array]:
        del key
        return jnp.asarray(self.upper), jnp.asarray(self.inverse)

    def draw(self, key: Key, state: tuple[Array, Array], count: Array, data: Data) -> tuple[tuple[Array, Array], Batch]:
        del count
        upper, inverse = state
        tickets = integers(key, (self.batch_size,), int(self.upper[-1]))
        indices = jnp.searchsorted(upper, tickets, side="right").astype(jnp.int32)
        rows = jax.tree.map(lambda a: a.at[indices].get(mode="promise_in_bounds"), data)
        return state, Batch(rows, inverse[indices] / self.batch_size, indices)
