"""The kernel: a target, a sampler, an estimator and a way of drawing minibatches, put together and checked.

``kernel.step`` makes one step, for loops of the user's own; the engine repeats the same ``Program`` inside a compiled
loop.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.batches import Arrays, Batching, RandomBlocks, Shards, Shuffled, Stream, Sweeps, Tours
from scirocco.batches.base import batch_rows, row_bytes
from scirocco.batches.draws import Draw
from scirocco.batches.keyed import Freshened
from scirocco.core.cache import spare_maps
from scirocco.core.types import Data, Key, Params
from scirocco.estimators import ControlVariate, Estimator, Plain
from scirocco.gradient.blocks import Block, split
from scirocco.gradient.feeds import Blocks, Feed, InMemory, Travelling
from scirocco.gradient.program import ChainState, Program
from scirocco.optimise.mode import find_mode
from scirocco.samplers.base import Info, Sampler, automatic
from scirocco.target import Target

LEAST_BYTES = 16 * 2**20  # of a chain's block of data from disk, if it is meant to be as large


class Kernel:
    """A sampler, an estimator and a way of drawing minibatches, bound to a target."""

    def __init__(
        self,
        target: Target,
        sampler: Sampler,
        *,
        batch_size: int | float,
        estimator: Estimator | None = None,
        batching: Batching | None = None,
        blocks: Sequence[Block] = (),
        seed: int = 0,
        chains: int = 1,
        untuned: bool = False,
    ) -> None:
        require_parts(target, sampler, estimator, batching, untuned=untuned)
        spare_maps()
        self.blocks = tuple(blocks)
        held = [name for block in self.blocks for name in block.names]
        self.target = target = target.free(getattr(sampler, "temperature", 1.0), held)
        self.sampler = sampler
        self.estimator: Estimator = estimator or (ControlVariate() if sampler.exact_minibatches else Plain())
        self.seed = seed
        self.inner = sampler.inner_steps
        self.batch_size = batch_rows(batch_size, target.size)
        require_all_data(sampler, self.batch_size, target.size)
        self.batching = batching = _batching(target, sampler, self.estimator, batching)
        self.feed: Feed
        self.steps_per_block: int | None = None
        source, rows = target.source, target.size
        if isinstance(batching, Tours):
            self.draw, self.feed = self._travelling(source, batching)
        elif isinstance(source, Arrays):
            order = batching.order(target.size, self.batch_size, seed)
            self.draw = batching.bind(target.size, rows, self.batch_size, order, ring=True)
            self.feed = InMemory(source, order, self.draw.wrap)
        else:
            assert isinstance(source, Stream)
            unit = self.batch_size * self.inner
            # Each chain has a block of its own; large ones share the memory, small ones would be used up too soon.
            shared = max(source.resident_rows // chains, LEAST_BYTES // row_bytes(source.example))
            rows = min(source.resident_rows, max(shared, unit)) // unit * unit
            if rows == 0:
                raise ValueError(
                    f"one step needs {unit} rows in memory but a block of the data source has {source.resident_rows}: "
                    "take a smaller batch_size or a larger block_bytes"
                )
            self.draw = batching.bind(target.size, rows, self.batch_size, None, ring=False)
            self.steps_per_block = rows // unit * self.draw.passes
            self.feed = Blocks(source, seed, rows, source.together(rows, chains), self.steps_per_block)
        if target.random:
            self.draw = Freshened(self.draw)
        self.epoch = batching.epoch(target.size, self.batch_size, rows)
        if sampler.exact_minibatches:
            require_exact(target, sampler, self.estimator, batching, self.epoch, self.blocks)
        self._bind()

    def _travelling(self, source: Arrays | Stream, batching: Tours) -> tuple[Draw, Feed]:
        if not isinstance(source, Shards):
            raise ValueError(
                "Tours are those of chains between shards of the data: give the Target a batches.Shards([...]); got a "
                f"{type(source).__name__}"
            )
        if self.blocks:
            raise ValueError("blocks are updated on minibatches of all data, not of the shard that a chain is on")
        if self.refresh_every and source.executor_at(0) is not None:
            raise ValueError(
                f"{type(self.estimator).__name__} reads all data again and again, and a chain that travels sees one "
                "shard: take ControlVariate, whose centre stays"
            )
        smallest = int(source.sizes.min())
        if self.batch_size > smallest:
            raise ValueError(
                f"batch_size must be at most {smallest}, the rows of the smallest shard, from which minibatches are "
                f"drawn too; got {self.batch_size}"
            )
        draw = batching.bind(source.size, smallest, self.batch_size, None, ring=True)
        itinerary = batching.itinerary(source.sizes, self.batch_size, self.inner, self.seed)
        return draw, Travelling(source, itinerary, self.batch_size, draw.wrap)

    def _bind(self) -> None:
        self.program = Program(self.target.density, self.sampler, self.estimator, self.draw, self.blocks)

    def replaced(self, sampler: Sampler, estimator: Estimator | None = None) -> Kernel:
        """The same kernel with another sampler of the same kind, and perhaps another estimator; data is shared."""
        other = copy.copy(self)
        other.sampler, other.estimator = sampler, estimator or self.estimator
        other._bind()
        return other

    def check(self, initial: Params, *, values: bool = True) -> tuple[Params, Params]:
        """What the chain moves and what the blocks hold of the parameters, after a look at whether all parts fit."""
        position, held = split(jax.tree.map(jnp.asarray, initial), self.blocks)
        self.target.check(position, held, values=values)
        self.program.dynamics.check(position)
        self._try_a_step(position, held)
        return position, held

    def start(self, initial: Params) -> tuple[Params, Params]:
        """Check everything at ``initial``; where the chain starts, and the parameters that blocks hold."""
        position, held = self.check(initial)
        if not self.target.geometry.flat:
            position = self.target.geometry.nearest(position)  # from a start that is a rounding off
        return self.estimator.start(self.target, position, held, partial(find_mode, seed=self.seed)), held

    def _try_a_step(self, position: Params, held: Params) -> None:
        """Trace a step without running it: what does not fit the parameters is found before any work."""

        key, state = self.shapes(position, held)
        # The function itself, not a method bound to this program: what was traced for another one need not be again.
        after, _ = jax.eval_shape(Program.transition, self.program, key, state, self.feed.like())
        for (path, old), new in zip(
            jax.tree_util.tree_flatten_with_path(state)[0], jax.tree.leaves(after), strict=True
        ):
            if (old.shape, old.dtype) != (new.shape, new.dtype):
                raise ValueError(
                    f"a step of {type(self.sampler).__name__} changes {jax.tree_util.keystr(path)} from {old.dtype} "
                    f"{old.shape} to {new.dtype} {new.shape}: settings must have the parameters' shapes and dtypes"
                )

    def shapes(self, position: Params, held: Params) -> tuple[Key, ChainState]:
        """The shapes of a key and of a chain's state, found without touching the data."""

        def start(key: Key) -> ChainState:
            return self.program.state(key, position, held, self.estimator.blank(self.target, position, held))

        key = jax.eval_shape(jax.random.key, 0)
        return key, jax.eval_shape(start, key)

    def init(self, key: Key, initial: Params) -> ChainState:
        """A chain that starts at ``initial``, or at the centre if the estimator finds one."""
        position, held = self.start(self.target.freed(initial))
        return self.program.state(key, position, held, self.estimator.init(self.target, position, held))

    def parameters(self, state: ChainState) -> Params:
        """The parameters of a chain, as the target has them: its position, where they are free."""
        return self.target.density.parameters(state.position)

    def step(self, key: Key, state: ChainState) -> tuple[ChainState, Info]:
        """One step with randomness from ``key``. Reads the next block of data or renews the estimator when due."""
        step = int(state.step)
        if self.refresh_every and step and step % self.refresh_every == 0:
            state = state._replace(estimator=self.refreshed(state))
        return _one_step(self.program, key, state, self.data_at(step))

    @property
    def refresh_every(self) -> int | None:
        """Steps between two refreshes of the estimator, if it wants any."""
        return self.estimator.refresh_every

    def refreshed(self, state: ChainState) -> Any:
        """The estimator's state after a refresh at the chain's position."""
        return self.estimator.refresh(self.target, state.estimator, state.sampler.position, state.held)

    def data_at(self, step: int, chains: range = range(1), end: float = np.inf) -> Data:
        """The data for a step; of several chains that have their own, theirs side by side.

        Nothing is read ahead for steps from ``end`` on.
        """
        return self.feed.at(step, chains, end)

    def close(self) -> None:
        """Stop the threads that read data ahead of the chains."""
        self.feed.close()


@jax.jit
def _one_step(program: Program, key: Key, state: ChainState, data: Data) -> tuple[ChainState, Info]:
    return program.transition(key, state, data)


def _batching(target: Target, sampler: Sampler, estimator: Estimator, batching: Batching | None) -> Batching:
    """The sampler's own by default; independent blocks where noise is independent, or has to be."""
    if type(batching) in (Shuffled, Sweeps) and target.random:
        raise ValueError(
            f"the likelihood is random, and its noise does not add up to nothing in an epoch as {batching!r} would "
            "have it: leave batching out, or give RandomBlocks() or WithReplacement()"
        )
    if type(batching) in (Shuffled, Sweeps) and estimator.independent_draws:
        raise ValueError(
            f"{type(estimator).__name__} is unbiased only with independent minibatches: with {type(batching).__name__} "
            "the next rows depend on which gradients are old. Use batching=RandomBlocks() or WithReplacement()"
        )
    if batching is None and isinstance(target.source, Shards):
        return Tours()
    independent = estimator.independent_draws or target.random
    return batching or (RandomBlocks() if independent else sampler.default_batching())


def require_exact(
    target: Target, sampler: Sampler, estimator: Estimator, batching: Batching, epoch: float, blocks: Sequence[Block]
) -> None:
    """Reject what would make a sampler inexact that is exact from minibatches."""
    name = type(sampler).__name__
    if not isinstance(estimator, ControlVariate) or estimator.order != 1:
        raise ValueError(
            f"{name} is exact with control variates of first order around a fixed centre, whose changes its bounds "
            f"are about: leave the estimator out or give scirocco.ControlVariate(); got {estimator!r}"
        )
    if epoch < np.inf:
        raise ValueError(
            f"{name} is exact with minibatches that are independent of each other: leave batching out or give "
            f"batches.RandomBlocks(), WithReplacement() or Weighted(p); got {batching!r}"
        )
    if not isinstance(target.source, Arrays):
        raise ValueError(
            f"{name} is exact with minibatches of all data, and those of a block that is in memory are not: it takes "
            f"data in memory; got a {type(target.source).__name__}"
        )
    if blocks:
        raise ValueError(f"{name} knows bounds around a centre, which blocks would move: leave blocks out")


def require_all_data(sampler: Sampler, batch_size: int, size: int) -> None:
    """Reject minibatches for a sampler that takes none."""
    if sampler.full_data and batch_size < size:
        raise ValueError(
            f"{type(sampler).__name__} has a Metropolis-Hastings test, which needs all data at each step: leave "
            f"batch_size out or give {size}; got {batch_size}"
        )


def require_parts(target: object, sampler: object, estimator: object, batching: object, *, untuned: bool) -> None:
    """Reject parts that are none, and those that do not go together."""
    if not isinstance(target, Target):
        raise TypeError(f"target must be a scirocco.Target; got {type(target).__name__}")
    if isinstance(sampler, str):
        raise ValueError(
            f"unknown sampler name {sampler!r}: give a sampler with its settings, one of SGLD, PSGLD, Barker, SGHMC, "
            "SGNHT, UnderdampedLangevin, SMSUBU, SGGMC, GeodesicSGNHT, GMC, NUTS, ZigZag or a Recipe, such as "
            "scirocco.SGLD(step_size=1e-4)"
        )
    if isinstance(sampler, type):
        raise TypeError(f"sampler must be an instance with its settings, such as {sampler.__name__}(step_size=1e-4)")
    for name, part, kind, example in (
        ("sampler", sampler, Sampler, "scirocco.SGLD(step_size=1e-4)"),
        ("estimator", estimator, Estimator, "scirocco.ControlVariate()"),
        ("batching", batching, Batching, "scirocco.batches.Shuffled()"),
    ):
        if part is not None and not isinstance(part, kind):
            base = f"{kind.__module__.rsplit('.', 1)[0]}.{kind.__name__}"
            raise TypeError(f"{name} must be a {base}, such as {example}, or inherit from it; got {part!r}")
    if automatic(getattr(sampler, "step_size", None)) is not None and not untuned:
        raise ValueError(
            "step_size='auto' is found before a run, by scirocco.sample or scirocco.tune(target, sampler, initial), "
            "which has the kernel"
        )
    if sampler is None:
        raise TypeError("sampler must be given, for example scirocco.SGLD(step_size=1e-4)")
    assert isinstance(sampler, Sampler)
    if not target.geometry.flat and not sampler.geodesic:
        raise ValueError(
            f"{type(sampler).__name__} moves in straight lines and the target lives on a manifold: take a sampler with "
            "momenta and an integrator along geodesics, such as scirocco.SGGMC(step_size=1e-3), scirocco.GeodesicSGNHT "
            "or scirocco.GMC"
        )
    if target.random and (sampler.full_data or sampler.exact_minibatches):
        raise ValueError(
            f"{type(sampler).__name__} is exact, which a likelihood that is random does not allow: take a sampler of "
            'noisy gradients, such as scirocco.UnderdampedLangevin(step_size="auto")'
        )
    if sampler.full_data and not isinstance(estimator, Plain | None):
        raise ValueError(
            f"{type(sampler).__name__} takes the gradient of all data at each step: leave the estimator out"
        )
