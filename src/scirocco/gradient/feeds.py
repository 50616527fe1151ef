"""Where the data of a chain's steps come from: memory, blocks read from disk, shards between which chains travel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.batches import Arrays, Shards, Stream
from scirocco.batches.base import taken
from scirocco.batches.shards import Part
from scirocco.batches.stream import Loader
from scirocco.batches.tours import Itinerary, Resident
from scirocco.core.seeds import Purpose, generator
from scirocco.core.types import Data


class Feed(ABC):
    """The data from which minibatches are drawn."""

    apart: bool = True
    """Whether each chain has data of its own, along a leading axis if there are several."""

    @abstractmethod
    def at(self, step: int, chains: range, end: float) -> Data:
        """The data for a step of some chains; nothing is read ahead for steps from ``end`` on."""

    def until(self, step: int, chains: range) -> float:
        """The step before which some of these chains need other data."""
        del step, chains
        return np.inf

    def like(self) -> Data:
        """The shapes of the data of one chain."""
        return self.at(0, range(1), 1)

    def place(self, step: int, chain: int) -> int | None:
        """The shard that a chain is on, if there are any."""
        del step, chain
        return None

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Stop the threads that read data ahead of the chains."""


class InMemory(Feed):
    """Data in memory, put on the device when it is first asked for: tuning may find another order before."""

    apart = False

    def __init__(self, source: Arrays, order: np.ndarray | None, wrap: int) -> None:
        self._place = partial(source.on_device, order, wrap)

    def at(self, step: int, chains: range, end: float) -> Data:
        """The same for all."""
        del step, chains, end
        return self._data

    @cached_property
    def _data(self) -> Data:
        """Shared by all kernels that were made of one."""
        return self._place()


class Blocks(Feed):
    """Resident blocks of data on disk, read in an order of its own by each chain."""

    def __init__(self, source: Stream, seed: int, rows: int, together: int, steps: int) -> None:
        self._source, self._seed, self._rows, self._together, self.steps = source, seed, rows, together, steps
        self._loaders: dict[int, Loader] = {}
        self._stacked: tuple[int, range, Data] | None = None

    def at(self, step: int, chains: range, end: float) -> Data:
        """The block for the step; of several chains theirs side by side."""
        number, last = step // self.steps, (end - 1) / self.steps
        if len(chains) == 1:
            return self.loader(chains[0]).get(number, last)
        if self._stacked is None or self._stacked[:2] != (number, chains):
            self._stacked = None  # let go of the old blocks before the new ones arrive
            loaders = [self.loader(chain) for chain in chains]
            for loader in loaders:
                loader.expect(number)  # all read at the same time
            blocks = [loader.get(number, last) for loader in loaders]
            self._stacked = (number, chains, jax.tree.map(lambda *parts: jnp.stack(parts), *blocks))
            for loader in loaders:
                loader.forget()
        return self._stacked[2]

    def until(self, step: int, chains: range) -> float:
        """Blocks of all chains end together."""
        del chains
        return (step // self.steps + 1) * self.steps

    def loader(self, chain: int) -> Loader:
        """What reads the blocks of a chain."""
        if chain not in self._loaders:
            self._loaders[chain] = Loader(self._source, self._seed, self._rows, chain, self._together)
        return self._loaders[chain]

    def close(self) -> None:
        """Stop all threads."""
        for loader in self._loaders.values():
            loader.close()
        self._loaders.clear()
        self._stacked = None


class Travelling(Feed):
    """The shard that each chain is on. Shards are filled up to the largest, so that one program serves all."""

    def __init__(self, source: Shards, itinerary: Itinerary, batch_size: int, wrap: int) -> None:
        self.source, self.itinerary = source, itinerary
        self._length = int(source.sizes.max()) + wrap
        self._weights = source.sizes / (batch_size * itinerary.frequencies)
        self._stacked: tuple[tuple[int, ...], Data] | None = None

    def at(self, step: int, chains: range, end: float) -> Data:
        """The shards of these chains, side by side if they are several."""
        del end
        places = tuple(self.itinerary.at(chain, step).shard for chain in chains)
        if len(places) == 1:
            return self.shard(places[0])
        if self._stacked is None or self._stacked[0] != places:
            self._stacked = None
            self._stacked = (places, _side_by_side([self.shard(place) for place in places]))
        return self._stacked[1]

    def until(self, step: int, chains: range) -> float:
        """The end of the first leg to end."""
        return min(self.itinerary.at(chain, step).until for chain in chains)

    def like(self) -> Data:
        """The shapes of any shard."""
        rows = jax.tree.map(lambda s: jax.ShapeDtypeStruct((self._length, *s.shape), s.dtype), self.source.example)
        size, weight = (jax.ShapeDtypeStruct((), dtype) for dtype in (np.uint32, np.float32))
        like: Any = Resident
        return like(rows, size, weight)

    def place(self, step: int, chain: int) -> int:
        """By the itinerary."""
        return self.itinerary.at(chain, step).shard

    def shard(self, number: int) -> Resident:
        """A shard on the device."""
        return self.put(number)(self.source.part(number))

    def put(self, number: int) -> Callable[[Part], Resident]:
        """What puts a shard on the device of the process that has the part, and keeps it there."""
        sizes = int(self.source.sizes[number]), self._length
        return partial(_put, self.itinerary.seed, sizes, float(self._weights[number]))


@jax.jit
def _side_by_side(parts: list[Resident]) -> Resident:
    """One program, where each of many chains would take some."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)


def _put(seed: int, sizes: tuple[int, int], weight: float, part: Part) -> Resident:
    rows = part.kept((seed, sizes), lambda: _shuffled(seed, sizes, part))
    return Resident(rows, *jax.device_put((np.uint32(sizes[0]), np.float32(weight))))


def _shuffled(seed: int, sizes: tuple[int, int], part: Part) -> Data:
    """The rows of a shard in random order, and as many of them again as make the common length."""
    source, (size, length) = part.source, sizes
    order = np.resize(generator(seed, Purpose.SHARD_ORDER, part.number).permutation(size), length)
    rows = source.arrays if isinstance(source, Arrays) else source.first(size)
    return jax.tree.map(lambda a: jax.device_put(taken(np.asarray(a), order)), rows)
