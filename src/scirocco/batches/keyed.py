"""Rows with random keys, for likelihoods that are themselves random.

    key of row i = fold_in(k, i),    k = one constant at rest, new for every minibatch of a chain

At rest (in sums over all data, the search for the mode, the centre of a control variate) every look at a row sees the
same random numbers, so that what is summed is one function. In a chain they are new at each step and in each chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.batches.arrays import Arrays
from scirocco.batches.base import Batch
from scirocco.batches.draws import Draw
from scirocco.batches.stream import Stream
from scirocco.core.keys import Use, as_key, fold
from scirocco.core.types import Array, Data, Key

REST = (0, 1)  # the words of the key at rest


class Keyed(NamedTuple):
    """Rows, their numbers, and two words of a key for each: None at rest."""

    example: Data
    number: Any
    fresh: Any = None

    def keys(self) -> Key:
        """The key of a row, or of each of several."""
        number = jnp.asarray(self.number)
        key = as_key(np.array(REST, np.uint32)) if self.fresh is None else as_key(self.fresh)
        if number.ndim == 0:
            return jax.random.fold_in(key, number)
        return jax.vmap(jax.random.fold_in, in_axes=(None if self.fresh is None else 0, 0))(key, number)


def keyed(source: Arrays | Stream) -> Arrays | Stream:
    """The same rows with numbers, from which their keys follow."""
    if isinstance(source.example, Keyed):
        return source
    if isinstance(source, Stream):
        return KeyedStream(source)
    found = Arrays(Keyed(source.arrays, np.arange(source.size, dtype=np.uint32)))
    found.labels = source.labels
    return found


def at_rest(batch: Batch) -> Batch:
    """The same rows with the keys that they have in sums over all data."""
    data: Any = batch.data
    return batch._replace(data=data._replace(fresh=None)) if isinstance(data, Keyed) else batch


class KeyedStream(Stream):
    """A stream whose rows have numbers."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.labels = stream, stream.labels
        self.lengths, self.piece, self.wave = stream.lengths, stream.piece, stream.wave
        self.size, self.resident_rows, self.block_bytes = stream.size, stream.resident_rows, stream.block_bytes
        self.example = Keyed(stream.example, jax.ShapeDtypeStruct((), jnp.uint32))
        self._starts = np.cumsum(self.lengths) - self.lengths

    def read(self, group: int, start: int, stop: int) -> Data:
        """Rows of the stream."""
        return self._numbered(group, np.arange(start, stop), self.stream.read(group, start, stop))

    def take(self, group: int, rows: np.ndarray) -> Data:
        """Rows of the stream."""
        return self._numbered(group, rows, self.stream.take(group, rows))

    def _numbered(self, group: int, rows: np.ndarray, data: Data) -> Keyed:
        return Keyed(data, (self._starts[group] + rows).astype(np.uint32))

    def fingerprint(self) -> dict[str, Any]:
        """That of the stream."""
        return self.stream.fingerprint()

    def extends(self, known: dict[str, Any]) -> bool:
        """Whether the stream does."""
        return self.stream.extends(known)

    def together(self, rows: int, chains: int) -> int:
        """As many as of the stream."""
        return self.stream.together(rows, chains)

    def _used(self, group: int) -> None:
        self.stream._used(group)


@dataclass(frozen=True)
class Freshened(Draw):
    """The minibatches of another draw, their keys new at each."""

    inner: Draw

    @property
    def wrap(self) -> int:  # type: ignore[override]
        """That of the other."""
        return self.inner.wrap

    @property
    def passes(self) -> int:  # type: ignore[override]
        """That of the other."""
        return self.inner.passes

    @property
    def distinct(self) -> bool:  # type: ignore[override]
        """Random numbers come anew with every row, so that not even all rows together are without noise."""
        return False

    def init(self, key: Key) -> Any:
        """That of the other."""
        return self.inner.init(key)

    def draw(self, key: Key, state: Any, count: Array, data: Data) -> tuple[Any, Batch]:
        """A minibatch with keys of its own."""
        state, batch = self.inner.draw(key, state, count, data)
        return state, self._freshened(key, batch)

    def fresh(self, key: Key, data: Data) -> Batch:
        """The same, of a minibatch to measure with."""
        return self._freshened(key, self.inner.fresh(key, data))

    def _freshened(self, key: Key, batch: Batch) -> Batch:
        data: Any = batch.data
        words = jax.random.key_data(fold(key, Use.LIKELIHOOD))
        return batch._replace(data=data._replace(fresh=jnp.broadcast_to(words, (*data.number.shape, 2))))
