"""How minibatches are drawn from the resident block.

    E sum_{i in S} w_i f_i = sum_i f_i,    w_i = N/n,  or 1/(n p_i) for rows that are drawn with probability p_i

``Shuffled`` (the default) reads contiguous blocks of data that was shuffled once, in an order that is new each epoch:
a contiguous read is 3 to 10 times faster than gathering rows. ``Sweeps`` reads each epoch a second time, backwards.
``RandomBlocks`` reads such blocks at independent random places. ``WithReplacement`` and ``Weighted`` gather independent
rows, for those who need the smaller variance. Each is a frozen description; ``bind`` fixes the sizes and gives an
init/draw pair of pure functions for jitted code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from scirocco.batches.base import Batch
from scirocco.batches.integers import below, integers
from scirocco.core.checks import numbers, require_count
from scirocco.core.keys import Use, fold
from scirocco.core.parts import part
from scirocco.core.program import program_part
from scirocco.core.seeds import Purpose, generator
from scirocco.core.types import Array, Data, Key

MAX_ORDER = 32_768  # entries of the epoch's order: it is carried through the loop, so it must stay small


if TYPE_CHECKING:  # ``Draw`` alone means ``Draw[Any]``; Python itself knows defaults from 3.13 on
    from typing_extensions import TypeVar as TypeVarWithDefault

    DrawState = TypeVarWithDefault("DrawState", default=Any)
else:
    DrawState = TypeVar("DrawState")


class Draw(ABC, Generic[DrawState]):
    """A way of drawing minibatches, bound to the sizes of a problem: a frozen dataclass that inherits from this."""

    wrap: int = 0
    """Rows that the resident block repeats at its end, so that a slice may run over it."""

    passes: ClassVar[int] = 1
    """How often each minibatch of an epoch is drawn: a block of data on disk is kept for so many epochs."""

    distinct: ClassVar[bool] = False
    """Whether no row is drawn twice into a minibatch, which is then less noisy by the share of rows it leaves out."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        program_part(cls)

    def init(self, key: Key) -> DrawState:
        """The state of the draws of one chain."""
        del key
        empty: Any = ()
        return empty

    @abstractmethod
    def draw(self, key: Key, state: DrawState, count: Array, data: Data) -> tuple[DrawState, Batch]:
        """Minibatch number ``count``."""

    def fresh(self, key: Key, data: Data) -> Batch:
        """A minibatch that has nothing to do with those of the chain, to measure with."""
        return self.draw(key, self.init(key), jnp.int32(0), data)[1]


class Batching(ABC):
    """A description of a way of drawing minibatches: a frozen dataclass that inherits from this class."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        part(cls)

    @abstractmethod
    def bind(self, total: int, resident: int, batch_size: int, order: np.ndarray | None, ring: bool) -> Draw:
        """Fix the sizes.

        ``total`` is N, ``resident`` the rows in memory, ``order`` the order in which they are stored; ``ring`` says
        that the resident block repeats its first ``wrap`` rows at the end.
        """

    def order(self, total: int, batch_size: int, seed: int) -> np.ndarray | None:
        """The order in which data in memory is to be stored; None for as it is."""
        del total, batch_size, seed
        return None

    def epoch(self, total: int, batch_size: int, resident: int) -> float:
        """Minibatches in an epoch without replacement, ``Swept`` if they come in sweeps; infinite for independent
        draws."""
        del total, batch_size, resident
        return np.inf


class Swept(float):
    """The minibatches of an epoch, if they are drawn in sweeps of ``sweep`` minibatches, forwards and backwards.

    >>> epoch = Swept(10.0, sweep=5)
    >>> epoch == 10, epoch.sweep
    (True, 5)
    """

    sweep: int

    def __new__(cls, epoch: float, sweep: int) -> Swept:
        """A float with one more number."""
        new = super().__new__(cls, epoch)
        new.sweep = sweep
        return new


class EpochState(NamedTuple):
    """The order of the blocks in the current epoch."""

    key: Key
    order: Array
    offset: Array


@dataclass(frozen=True)
class Shuffled(Batching):
    """Contiguous blocks of shuffled rows, each row at most once an epoch, blocks and borders new each epoch.

    A minibatch is one contiguous block when the data has at least ``min_blocks`` of them; smaller data is cut finer,
    and a minibatch joins several pieces, so that the set of possible minibatches is always rich. Each epoch starts at
    a random row of the ring of rows, so every row is drawn equally often whatever N mod n.
    """

    min_blocks: int = 1000

    def __post_init__(self) -> None:
        require_count("min_blocks", self.min_blocks)

    def bind(self, total: int, resident: int, batch_size: int, order: np.ndarray | None, ring: bool) -> Draw:
        """Choose the block length."""
        if batch_size == total == resident:
            return _Everything(total)
        wanted = min(batch_size, -(-self.min_blocks * batch_size // resident))
        pieces = next(p for p in range(wanted, batch_size + 1) if batch_size % p == 0)
        groups = max(1, -(-(resident // batch_size) // MAX_ORDER)) if pieces == 1 else 1
        return _Shuffled(total, resident, batch_size, pieces, groups, ring)

    def order(self, total: int, batch_size: int, seed: int) -> np.ndarray | None:
        """Shuffled once."""
        return generator(seed, Purpose.MEMORY_ORDER).permutation(total) if batch_size < total else None

    def epoch(self, total: int, batch_size: int, resident: int) -> float:
        """All rows once."""
        del resident
        return total / batch_size if batch_size < total else np.inf


@dataclass(frozen=True)
class _Shuffled(Draw[EpochState]):
    distinct: ClassVar[bool] = True

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
    def wrap(self) -> int:  # type: ignore[override]
        return self.rows * self.groups if self.ring else 0

    def _shuffle(self, key: Key, epoch: Int[Array, ""]) -> tuple[Int[Array, " blocks"], Int[Array, ""]]:
        # One call for both: each call of the generator takes 0.2 s to compile.
        words = jax.random.bits(fold(key, Use.EPOCH, epoch), (self.blocks + 2,), jnp.uint32)
        order = jnp.argsort(words[2:]).astype(jnp.int32)
        return order, below(words[:2], self.resident if self.ring else 1)

    def init(self, key: Key) -> EpochState:
        # The first draw of an epoch makes the order; compiling the sort here as well would cost most of a second.
        return EpochState(key, jnp.zeros(self.blocks, jnp.int32), jnp.int32(0))

    def draw(self, key: Key, state: EpochState, count: Array, data: Data) -> tuple[EpochState, Batch]:
        del key  # the epoch's own key decides
        period = self.passes * self.epoch
        since = count % period
        order, offset = jax.lax.cond(
            since == 0,
            lambda: self._shuffle(state.key, count // period),
            lambda: (state.order, state.offset),
        )
        within = jnp.minimum(since, period - 1 - since) if self.passes == 2 else since
        first = within * self.pieces // self.groups
        chosen = jax.lax.dynamic_slice_in_dim(order, first, self.pieces) * (self.rows * self.groups)
        starts = offset + chosen + (within % self.groups) * self.rows
        batch = self._take(jnp.where(starts >= self.resident, starts - self.resident, starts), data)
        return EpochState(state.key, order, offset), batch

    def fresh(self, key: Key, data: Data) -> Batch:
        """Each block from a stretch of its own: of shuffled rows a random sample, for which no sort is compiled."""
        stretch = self.resident // self.pieces
        places = integers(key, (self.pieces,), stretch - self.rows + 1)
        return self._take(places + stretch * jnp.arange(self.pieces, dtype=jnp.int32), data)

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
class Sweeps(Shuffled):
    """Epochs as in ``Shuffled``, each followed by the same minibatches in reverse order, before the next shuffle.

    The order is its own mirror image, so that a symmetric integrator stays one: its error is of second order in the
    step size, whatever the minibatches (Paulin et al. 2024). A resident block of data on disk is swept by itself.

    >>> Sweeps().epoch(1000, 100, resident=500).sweep
    5
    """

    def bind(self, total: int, resident: int, batch_size: int, order: np.ndarray | None, ring: bool) -> Draw:
        """Choose the block length."""
        bound = super().bind(total, resident, batch_size, order, ring)
        return _Sweeps(**vars(bound)) if isinstance(bound, _Shuffled) else bound

    def epoch(self, total: int, batch_size: int, resident: int) -> float:
        """All rows once there and once back."""
        epoch = super().epoch(total, batch_size, resident)
        return Swept(epoch, resident // batch_size) if np.isfinite(epoch) else epoch


@dataclass(frozen=True)
class _Sweeps(_Shuffled):
    passes: ClassVar[int] = 2


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

    def epoch(self, total: int, batch_size: int, resident: int) -> float:
        """There is none."""
        del total, batch_size, resident
        return np.inf


@dataclass(frozen=True)
class _RandomBlocks(_Shuffled):
    distinct: ClassVar[bool] = False

    def init(self, key: Key) -> tuple[()]:  # type: ignore[override]
        del key
        return ()

    def draw(self, key: Key, state: tuple[()], count: Array, data: Data) -> tuple[tuple[()], Batch]:  # type: ignore[override]
        del count
        return state, self.fresh(key, data)

    def fresh(self, key: Key, data: Data) -> Batch:
        """Blocks at independent places."""
        top = self.resident if self.ring else self.resident - self.rows + 1
        return self._take(integers(key, (self.pieces,), top), data)


@dataclass(frozen=True)
class _Everything(Draw[tuple[()]]):
    """The full batch: nothing to draw."""

    distinct: ClassVar[bool] = True

    total: int

    def draw(self, key: Key, state: tuple[()], count: Array, data: Data) -> tuple[tuple[()], Batch]:
        del key, count
        return state, Batch(data, jnp.float32(1), jnp.arange(self.total, dtype=jnp.int32))


@dataclass(frozen=True)
class WithReplacement(Batching):
    """Independent uniform rows."""

    def bind(self, total: int, resident: int, batch_size: int, order: np.ndarray | None, ring: bool) -> Draw:
        """Fix the sizes."""
        return _Independent(total, resident, batch_size)


@dataclass(frozen=True)
class _Independent(Draw[tuple[()]]):
    total: int
    resident: int
    batch_size: int

    def draw(self, key: Key, state: tuple[()], count: Array, data: Data) -> tuple[tuple[()], Batch]:
        del count
        indices = integers(key, (self.batch_size,), self.resident)
        rows = jax.tree.map(lambda a: a.at[indices].get(mode="promise_in_bounds"), data)
        return state, Batch(rows, jnp.float32(self.total / self.batch_size), indices)


@dataclass(frozen=True, eq=False)
class Weighted(Batching):
    """Independent rows, row i with probability p_i proportional to ``weights[i]``; its example then counts 1/(n p_i).

    With ``ControlVariate`` and weights proportional to the Lipschitz constants L_i of the examples' gradients this is
    the weighted estimator of Baker et al. (2019). The probabilities are rounded to multiples of 2^-31 and the rounded
    ones are used on both sides, so the estimate is unbiased up to the rounding of single precision.
    """

    weights: Any

    def bind(self, total: int, resident: int, batch_size: int, order: np.ndarray | None, ring: bool) -> Draw:
        """Round the probabilities."""
        if resident != total:
            raise ValueError("Weighted needs data in memory; for data on disk use Shuffled or WithReplacement")
        parts = self._parts(total)
        if order is not None:
            parts = parts[order]
        upper = np.cumsum(parts).astype(np.int32)
        return _Weighted(batch_size, int(upper[-1]), upper, (parts.sum() / parts).astype(np.float32))

    def inverse_probabilities(self, total: int) -> np.ndarray:
        """1 / p_i of each row, as it is used."""
        parts = self._parts(total)
        return parts.sum() / parts

    def _parts(self, total: int) -> np.ndarray:
        """The probabilities as whole numbers of parts."""
        weights = numbers("weights", self.weights).astype(np.float64, copy=False)
        if weights.shape != (total,):
            raise ValueError(f"weights must be a vector with one entry per example, ({total},); got {weights.shape}")
        if not np.all(np.isfinite(weights)) or not np.all(weights > 0):
            raise ValueError("weights must be positive and finite: a row that is never drawn would bias the estimate")
        return np.maximum(1, np.floor(weights / weights.sum() * (2**31 - 1 - total))).astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Weighted(Draw[tuple[()]]):
    batch_size: int
    tickets: int
    upper: np.ndarray  # cumulative counts: row i owns the integers in [upper[i-1], upper[i])
    inverse: np.ndarray  # 1 / p_i

    def draw(self, key: Key, state: tuple[()], count: Array, data: Data) -> tuple[tuple[()], Batch]:
        del count
        tickets = integers(key, (self.batch_size,), self.tickets)
        indices = jnp.searchsorted(jnp.asarray(self.upper), tickets, side="right").astype(jnp.int32)
        rows = jax.tree.map(lambda a: a.at[indices].get(mode="promise_in_bounds"), data)
        return state, Batch(rows, jnp.asarray(self.inverse)[indices] / self.batch_size, indices)
