"""The gradient engine: many steps of several chains in one compiled loop.

The loop's bounds are arguments, so chunks of any length, burn-in, thinning, new blocks of data and the last partial
chunk all run the same compiled program; and so do other runs with the same functions, shapes and kinds of parts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.clock import Clock
from scirocco.core.keys import as_key
from scirocco.core.seeds import Purpose, generator, key_words
from scirocco.core.trees import at_least_single, named_leaves
from scirocco.core.types import Array, Data, Key, Params
from scirocco.gradient.blocks import split
from scirocco.gradient.devices import Home
from scirocco.gradient.feeds import Travelling
from scirocco.gradient.kernel import Kernel
from scirocco.gradient.loop import (
    POWER_ITERATIONS,
    RunningSums,
    Stored,
    advance_chains,
    copied,
    first_states,
    floating,
    on_host,
    one_chain,
    probed_chain,
    single_step,
    slopes_of_chains,
    states_of,
    stored_draw,
    watched_in_chains,
)
from scirocco.gradient.program import ChainState
from scirocco.run import checkpoint
from scirocco.run.engine import Chunk, Measured, Report, SteppedEngine
from scirocco.run.moments import FREE, SUMMED, Moments, Sums
from scirocco.run.recording import Recording
from scirocco.run.store import Variable
from scirocco.samplers.base import Info, has_law

DRAW_BYTES = 16 * 2**20  # of draws that a chunk may hold before it hands them over
SNAPSHOT_BYTES = 64 * 2**20  # of state that is copied before a chunk, so that a divergence can be found in it
REPORT_SHARE = 0.1  # of the work of the steps goes into probes for the report
PROBE_COST = 7  # gradients, about, that the measurements on one minibatch cost
PROBES = 8
PROBE_CHAINS = 8
POINT_SHARE = 0.02  # of the steps: gradients for the virial identity
LEAST_POINTS, MOST_POINTS = 16, 256
POINT_BYTES = 32 * 2**20  # of positions and gradients that are kept


class ProbePlan(NamedTuple):
    """What the report may measure: minibatches are fresh each time that gradient noise is."""

    probes: int  # over the second half of the run
    chains: int  # at each of them
    first: int  # power iterations at the first one
    repeats: int  # minibatches

    @classmethod
    def of(cls, gradients: float) -> ProbePlan:
        """For a share of the work of so many gradients: known beforehand, so that it does not depend on the clock."""
        budget = REPORT_SHARE * gradients / PROBE_COST
        repeats = next((n for n in (16, 8) if budget >= 2 * n * POWER_ITERATIONS), 4)
        rounds = max(1, int(budget / repeats))
        first = min(POWER_ITERATIONS, -(-rounds // 3))
        probes = min(PROBES, 1 + rounds - first)
        return cls(probes, min(PROBE_CHAINS, max(1, (rounds - first) // max(1, probes - 1))), first, repeats)


class GradientEngine(SteppedEngine):
    """Some chains of a kernel, those with the numbers ``chains``; without ``num_samples`` they have no end."""

    def __init__(
        self, kernel: Kernel, initial: Params | Callable[[Key], Params], *, chains: int | range, recording: Recording,
        collect: Callable[[Params], Any] | bool | None = None, gradients: bool = False, num_samples: int | None = None,
        shapes_only: bool = False, free: bool = False, home: Home | None = None,
        report: Callable[[GradientEngine, Moments, Measured], Report | None] | None = None,
    ) -> None:  # fmt: skip
        self.kernel, self.recording, self._report = kernel, recording, report
        self.chains = range(chains) if isinstance(chains, int) else chains
        self.initial = initial
        self._shapes_only = shapes_only  # of a run that goes on, whose values are in its checkpoints
        self._home = home  # where it runs; None for wherever JAX does
        self._free = free or shapes_only  # a position of the chains, not parameters of the user's
        self.total = np.inf if num_samples is None else recording.steps_for(num_samples)
        self._words = {
            purpose: np.stack([key_words(kernel.seed, purpose, chain) for chain in self.chains])
            for purpose in (Purpose.CHAIN_INIT, Purpose.CHAIN_STEP, Purpose.CHAIN_START, Purpose.CHAIN_PROBE)
        }
        self.stored = Stored(
            collect if callable(collect) else None, "theta" if collect is None else "value", collect is False, gradients
        )
        if gradients and isinstance(kernel.feed, Travelling):
            raise ValueError(
                "gradients=True stores estimates of grad U with the draws, and those of the shard that a chain is on "
                "are none: leave it out for chains that travel"
            )
        self._state: ChainState | None = None
        self._sums: RunningSums | None = None
        self.step = 0  # a number of the host: others may ask while a program runs on the state
        self._before: tuple[ChainState, RunningSums] | None = None
        self._bad = 0
        self._common: Params = None

    # Shapes.

    @property
    def variables(self) -> dict[str, Variable]:  # type: ignore[override]
        """What is stored of a draw."""
        if not hasattr(self, "_variables"):
            kernel = self.kernel
            key, state = kernel.shapes(*kernel.check(self.example, values=not self._shapes_only))
            shapes = stored_draw.eval_shape(self.stored, kernel.program, key, state, kernel.feed.like())
            sampled = jax.eval_shape(lambda p: self.stored.values(kernel.program.density.parameters(p)), self.example)
            taken = [name for name in named_leaves(self.example) if name.startswith(FREE)]
            if taken:
                raise ValueError(
                    f"{', '.join(taken)}: names that begin with {FREE} are those of free numbers, rename it"
                )
            axes = kernel.target.axes
            if self.stored.collect is None and not self.stored.nothing:
                axes.check({name: v.shape for name, v in sampled.items()})
            dims = {
                name: dims for name, dims in axes.dims.items()
                if dims and name in sampled and len(dims) == len(sampled[name].shape)
            }  # fmt: skip
            self._variables = {
                name: Variable(tuple(v.shape), np.dtype(v.dtype), dims.get(name), role=self.stored.role(name, sampled))
                for name, v in shapes.items()
            }
        return self._variables

    @property
    def capacity(self) -> int:
        """Draws that a chunk may hold."""
        size = sum(variable.nbytes for variable in self.variables.values()) * len(self.chains)
        return int(np.clip(DRAW_BYTES // max(1, size), 1, 10_000))

    @property
    def place(self) -> int | None:  # type: ignore[override]
        """The shard that the chain is on; several chains are on several."""
        return self.kernel.feed.place(self.step, self.chains.start) if len(self.chains) == 1 else None

    @property
    def probe_words(self) -> np.ndarray:
        """Of a key for measurements, of the first chain."""
        return self._words[Purpose.CHAIN_PROBE][0]

    # Starting.

    @property
    def example(self) -> Params:
        """Where the first chain is put."""
        if self._common is None:
            self._common = self._initial(0)
        return self._common

    def _initial(self, number: int) -> Params:
        given = self.initial
        if is_function(given):
            given = given(as_key(self._words[Purpose.CHAIN_START][number]))
        if not self._free:
            given = self.kernel.target.freed(given)
        return jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, jnp.asarray(leaf).dtype), given)

    def start(self) -> None:
        """The chains at their start; passes over the data if the estimator needs it."""
        kernel, prepared = self.kernel, []
        initials = [self.example]
        if is_function(self.initial):
            initials += [self._initial(number) for number in range(1, len(self.chains))]
        for initial in initials:
            position, held = kernel.start(initial)
            prepared.append((position, held, kernel.estimator.init(kernel.target, position, held)))
        common = len(prepared) == 1
        parts = prepared[0] if common else jax.tree.map(lambda *leaves: jnp.stack(leaves), *prepared)
        self._state = first_states(kernel.program, self._words[Purpose.CHAIN_INIT], parts, common)
        density = kernel.program.density
        self._sums = RunningSums.none(density, self._state)
        self.starts = on_host(watched_in_chains(density, self._state.position))

    @property
    def state(self) -> ChainState:
        """The state of all chains, along a leading axis."""
        assert self._state is not None, "the engine was not started"
        return self._state

    @property
    def whole(self) -> bool:  # type: ignore[override]
        """Whether there is a state: while a program runs on it, it is given away."""
        return self._state is not None

    @property
    def pending(self) -> Sums | None:  # type: ignore[override]
        """Sums of the newest draws; after an error in a chunk those before it."""
        sums = self._sums
        if sums is None and self._before is not None:
            sums = self._before[1]
        return None if sums is None or int(sums.number) >= SUMMED else sums.host()

    @property
    def probe_steps(self) -> list[int]:  # type: ignore[override]
        """The steps at which the bias report's measurements are made: a few of the second half, none in the burn-in."""
        if np.isinf(self.total) or self._report is None:
            return []
        first, count = max(self.total / 2, self.recording.burn_in + 1), self._plan.probes
        steps = np.linspace(first, self.total, count) if count > 1 else np.array([self.total])
        return [int(step) for step in np.unique(steps.astype(int))]

    @property
    def point_steps(self) -> list[int]:  # type: ignore[override]
        """Steps evenly spread over the draws, at which the gradient is kept with the position."""
        if np.isinf(self.total) or self._report is None or not self._has_virial:
            return []
        size = sum(np.size(leaf) for leaf in jax.tree.leaves(self.example))
        room = POINT_BYTES // (8 * max(1, size) * len(self.chains))
        count = int(min(POINT_SHARE * self.total, MOST_POINTS, room))
        if count < LEAST_POINTS:
            return []
        begin = self.recording.burn_in
        return [int(step) for step in np.unique(np.linspace(begin, self.total, count + 1)[1:].astype(int))]

    @property
    def _has_virial(self) -> bool:
        """Whether the identity holds for what is recorded: at one temperature that is not zero."""
        temperature = self.kernel.sampler.temperature
        return not callable(temperature) and float(np.asarray(temperature)) > 0

    @property
    def _plan(self) -> ProbePlan:
        return ProbePlan.of(self.total * len(self.chains))

    # Advancing.

    @property
    def _apart(self) -> bool:
        """Whether each chain has data of its own, along a leading axis."""
        return self.kernel.feed.apart and len(self.chains) > 1

    def _data(self, step: int) -> Data:
        data = self.kernel.data_at(step, self.chains, self.total)
        return data if self._home is None else self._home.put(data)

    def advance(self, until: int, clock: Clock | None = None) -> Chunk:
        """Run towards step ``until``; stops earlier when draws must be handed over or new data is due."""
        del clock
        kernel, step = self.kernel, self.step
        until = int(min(until, self.total))
        until = int(min(until, kernel.feed.until(step, self.chains)))
        if kernel.refresh_every:
            until = min(until, (step // kernel.refresh_every + 1) * kernel.refresh_every)
        if step < self.recording.burn_in:  # sums begin where it ends, whatever the chunks
            until = min(until, self.recording.burn_in)
        data = self._data(step)
        state = self._renewed(self.state)
        assert self._sums is not None
        here = (state, self._sums)
        self._before = copied(here) if _bytes(state) <= SNAPSHOT_BYTES else None
        self._state = self._sums = None
        self._state, self._sums, chunk = self._run(here, until, data)
        self.step = self._bad = int(self._state.step)
        self._count_pending()
        return chunk

    def _count_pending(self) -> None:
        assert self._sums is not None
        number = int(self._sums.number)
        self.pending_count = 0 if number >= SUMMED else number

    def _run(
        self, here: tuple[ChainState, RunningSums], until: int, data: Data
    ) -> tuple[ChainState, RunningSums, Chunk]:  # fmt: skip
        """From a state and sums, which are given away, to step ``until`` on one block of data, or until all is full."""
        new, sums, draws, count, finite = jax.block_until_ready(
            advance_chains(
                self.kernel.program, self.recording.leaves(), self._words[Purpose.CHAIN_STEP], here, data,
                np.int32(until), np.int32(SUMMED), self.stored, self.capacity, len(self.chains) == 1, self._apart,
            )
        )  # fmt: skip
        made = int(count)
        # A copy: a view would keep the whole buffer alive, however few draws it holds.
        recorded = {name: np.moveaxis(np.asarray(draws[name])[:made], 0, 1).copy() for name in self.variables}
        complete = (sums.host(),) if int(sums.number) >= SUMMED else ()
        if int(new.step) <= self.recording.burn_in:
            sums = sums._replace(number=jnp.int32(SUMMED))  # nothing to sum yet
        return new, sums, Chunk(recorded, complete, bool(finite))

    def _renewed(self, state: ChainState) -> ChainState:
        """The state with its estimators refreshed, if this is a step for it."""
        every, step = self.kernel.refresh_every, int(state.step)
        if not every or not step or step % every:
            return state
        parts = [self.kernel.refreshed(one_chain(state, c)) for c in range(len(self.chains))]
        return state._replace(estimator=jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts))

    def locate(self) -> tuple[Chunk, str]:
        """The last good step of the chunk that failed, found by repeating it, and what the next step says.

        Steps are functions of the seed and their number, so a stretch can be repeated exactly: divergence costs
        nothing until it happens. A state too large to be copied before each chunk is not repeated.
        """
        if self._before is None:
            self._sums = RunningSums.none(self.kernel.program.density, self.state)  # they are no longer finite
            self._count_pending()
            return Chunk({name: v.empty(len(self.chains)) for name, v in self.variables.items()}), (
                f"a parameter is no longer finite; it happened in the last chunk, which ended at step {self._bad:,}. "
                "Try a smaller step_size"
            )
        before = self._before

        def again(until: int) -> tuple[ChainState, RunningSums, Chunk]:
            return self._run(copied(before), until, data)

        began = int(before[0].step)
        data = self._data(began)
        low, high = began, self._bad
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if again(middle)[2].finite else (low, middle)
        self._state, self._sums, chunk = again(low)
        self._count_pending()
        self.step = low
        failed, info = single_step(self.kernel.program, self._words[Purpose.CHAIN_STEP], self.state, data, self._apart)
        values = watched_in_chains(self.kernel.program.density, failed.position)
        return chunk, _explain(self.chains, low, info, on_host(values))

    # Looking closer.

    def probe(self, moments: Moments, probed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Gradient noise, curvature and the sampler's own state where the chains are, averaged over some of them.

        Also the direction that strains the step most, by power iterations that go on from those of earlier probes.
        """
        state = self.state
        data = self._data(int(state.step))
        like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), state.sampler.position)

        def tree(values: dict[str, np.ndarray], like: Params) -> Params:
            leaves = [np.asarray(values[name], leaf.dtype) for name, leaf in named_leaves(like).items()]
            return jax.tree.unflatten(jax.tree.structure(like), leaves)

        single = jax.eval_shape(at_least_single, like)
        plan = self._plan
        some = range(min(len(self.chains), plan.chains))
        known = checkpoint.part(probed, "covector")
        covector = tree(known, single) if known else None
        rounds = 1
        if covector is None and has_law(self.kernel.sampler):
            rng = generator(self.kernel.seed, Purpose.POWER_START)
            covector = jax.tree.map(lambda leaf: rng.standard_normal(leaf.shape).astype(leaf.dtype), single)
            rounds = -(-plan.first // len(some))
        centres = moments.free().mean or on_host(floating(state.position))  # there may be no draw yet
        for number in range(rounds):
            each = []
            for c in some:
                centre = tree({name: mean[c] for name, mean in centres.items()}, like)
                words = self._words[Purpose.CHAIN_PROBE][c]
                each.append(
                    probed_chain(
                        self.kernel.program, words, number, state, c, data, covector, centre, self._apart, plan.repeats
                    )
                )  # fmt: skip
                covector = each[-1].covector
        found = jax.tree.map(lambda *parts: np.mean(parts, axis=0), *each)._replace(covector=covector)
        arrays = {
            f"{kind}/{name}": v for kind, tree in found._asdict().items() for name, v in named_leaves(tree).items()
        }
        arrays |= {f"sampler/{i}": np.mean(np.asarray(v), axis=0) for i, v in enumerate(jax.tree.leaves(state.sampler))}
        return {name: np.asarray(v, np.float64) for name, v in arrays.items()}

    def point(self) -> dict[str, np.ndarray]:
        """The parameters that the sampler moves and grad U there, of each chain.

        The shard that a chain is on has drawn it where it is: gradients of others are taken at the end.
        """
        state = self.state
        found = {f"place/{name}": v for name, v in named_leaves(state.sampler.position).items()}
        if isinstance(self.kernel.feed, Travelling):
            return {name: np.asarray(v, np.float32) for name, v in found.items()}
        data = self._data(int(state.step))
        slopes = slopes_of_chains(self.kernel.program, self._words[Purpose.CHAIN_PROBE], state, data, self._apart)
        found |= {f"slope/{name}": v for name, v in named_leaves(slopes).items()}
        return {name: np.asarray(v, np.float32) for name, v in found.items()}

    def report(self, moments: Moments, measured: Measured) -> Report | None:
        """What whoever built the engine has to say of the run, if enough was measured."""
        if self._report is None or not measured.probes or moments.count < 2:
            return None
        return self._report(self, moments, measured)

    def mean_state(self, probed: dict[str, np.ndarray]) -> Any:
        """The sampler's state averaged over the probes."""
        leaves, structure = jax.tree.flatten(self._blank.sampler)
        values = [probed[f"sampler/{i}"].astype(leaf.dtype) for i, leaf in enumerate(leaves)]
        return jax.tree.unflatten(structure, jax.device_put(values))

    # Keeping.

    @cached_property
    def _blank(self) -> ChainState:
        """The shapes of the state, found without touching the data."""
        kernel = self.kernel
        position, held = split(self.example, kernel.blocks)

        def make(words: Array) -> ChainState:
            estimator = kernel.estimator.blank(kernel.target, position, held)
            return states_of(kernel.program, words, (position, held, estimator), common=True)

        shapes: ChainState = jax.eval_shape(make, self._words[Purpose.CHAIN_INIT])
        return shapes

    @cached_property
    def _outline(self) -> tuple[list[str], list[Any], list[Any], Any]:
        """What is saved: names, shapes, shapes of what stands for them, and the tree that they make."""
        blank = self._blank
        named, structure = jax.tree_util.tree_flatten_with_path(
            (blank, jax.eval_shape(partial(RunningSums.none, self.kernel.program.density), blank))
        )
        leaves = [leaf for _, leaf in named]
        names = [jax.tree_util.keystr(path) for path, _ in named]
        return names, leaves, [jax.eval_shape(_words, leaf) for leaf in leaves], structure

    def pack(self) -> dict[str, np.ndarray]:
        """The leaves of the state and of the sums by their paths, random keys as their words."""
        paths = jax.tree_util.tree_flatten_with_path((self.state, self._sums))[0]
        return {jax.tree_util.keystr(path): np.asarray(_words(leaf)) for path, leaf in paths}

    def unpack(self, arrays: dict[str, np.ndarray]) -> None:
        """The state with the saved leaves, after checking that they fit."""
        names, leaves, words, structure = self._outline
        saved = [arrays.get(name, np.empty(0, bool)) for name in names]
        if [(a.shape, a.dtype) for a in saved] != [(w.shape, np.dtype(w.dtype)) for w in words]:
            raise ValueError(
                "the checkpoint does not fit: give resume the run's sampler, estimator, blocks and parameters "
                "and the same setting of jax_enable_x64"
            )
        restored = [
            jax.random.wrap_key_data(jnp.asarray(a)) if _is_key(leaf) else jnp.asarray(a, leaf.dtype)
            for a, leaf in zip(saved, leaves, strict=True)
        ]
        self._state, self._sums = jax.tree.unflatten(structure, restored)
        self._count_pending()
        self.step = int(self.state.step)


def is_function(initial: Any) -> bool:
    """Whether an initial position is a function of a key, and not a pytree that happens to be callable."""
    return callable(initial) and jax.tree_util.all_leaves([initial])


def _explain(chains: range, step: int, info: Info, failed: dict[str, np.ndarray]) -> str:
    bad = {name: ~np.isfinite(v).reshape(len(v), -1).all(axis=1) for name, v in failed.items()}
    names = sorted({name.removeprefix(FREE) for name, chains in bad.items() if chains.any()})
    chain = int(np.argmax(np.any(list(bad.values()), axis=0)))
    where = f"{', '.join(names)} of chain {chains[chain]} is no longer finite after step {step + 1:,}"
    if not names:  # their sums are
        largest = max((n for n in failed if failed[n].size), key=lambda n: float(np.max(np.abs(failed[n]))))
        names, chain = [largest], int(np.argmax(np.abs(failed[largest]).reshape(len(failed[largest]), -1).max(axis=1)))
        where = (
            f"{largest} of chain {chains[chain]} is too large for sums of it in single precision at step {step + 1:,}"
        )
    far = [name for name in names if FREE + name in failed and not bad[FREE + name][chain]]
    norm, h = np.ravel(info.gradient_norm)[chain], np.ravel(info.step_size)[chain]
    reach = max((float(np.max(np.abs(failed[FREE + name][chain]))) for name in far), default=0.0)
    if far and not h * norm > reach:  # a step as long as that has leapt there
        return (
            f"{where}. Its step is not to blame: chains move free numbers, and that of {far[0]} has come to "
            f"{reach:.3g}. The posterior has a tail that reaches so far: give {far[0]} a prior with a lighter one, or "
            "take its logarithm as the parameter"
        )
    return (
        f"{where} (step size {h:.3g}, gradient norm {norm:.3g}). Try a smaller step_size, a start nearer to the mode "
        "(estimator=ControlVariate()), or a larger batch_size"
    )


def _bytes(tree: Any) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def _is_key(leaf: Any) -> bool:
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _words(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf
