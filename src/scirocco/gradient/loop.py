"""The compiled programs of the gradient engine: many steps of several chains in one loop, and what it takes along.

What differs from run to run in numbers only is an argument of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.clock import add_compile_seconds
from scirocco.core.keys import Use, as_key, fold
from scirocco.core.program import QUICK, program_part
from scirocco.core.trees import at_least_single, named_leaves
from scirocco.core.types import Array, Data, Key, Params
from scirocco.density import Density
from scirocco.gradient.program import ChainState, Probe, Program
from scirocco.run.moments import FREE, SUMMED, Sums
from scirocco.run.recording import Recording
from scirocco.run.store import GRADIENT, STATS
from scirocco.samplers.base import Info

POWER_ITERATIONS = 8  # at the first probe; later ones go on from there


def _count_compilation(event: str, duration_secs: float, **_: Any) -> None:
    if event.startswith("/jax/core/compile"):
        add_compile_seconds(duration_secs)


jax.monitoring.register_event_duration_secs_listener(_count_compilation)
program_part(Recording)  # here, because ``run`` knows nothing of JAX


class Stored(NamedTuple):
    """What is stored of a draw: static for compiled programs."""

    collect: Callable[[Params], Any] | None  # None for the parameters as they are
    bare: str  # the name of a value that has none
    nothing: bool
    gradients: bool

    def values(self, params: Params) -> dict[str, Array]:
        """The values collected, by name."""
        if self.nothing:
            return {}
        found = params if self.collect is None else self.collect(params)
        return {name: jnp.asarray(v) for name, v in named_leaves(found, self.bare).items()}

    def __call__(self, program: Program, key: Key, state: ChainState, info: Info, data: Data) -> dict[str, Array]:
        """The values collected, what the step said and, if wanted, the gradient from a minibatch of its own."""
        values: dict[str, Array] = self.values(program.density.parameters(state.position))
        beside: dict[str, Array] = {}
        if self.gradients:
            slope = program.fresh_gradient(fold(key, Use.GRADIENT, state.step), state, data)
            beside |= {f"{GRADIENT}{name}": leaf for name, leaf in named_leaves(slope).items()}
        if not self.nothing:
            said = program.stats(state, info)
            beside |= {f"{STATS}{name}": jnp.asarray(v, jnp.float32) for name, v in said.items()}
        taken = sorted(values.keys() & beside.keys())
        if taken:
            raise ValueError(f"{', '.join(taken)} is the name of something that is stored with the draws: rename it")
        return values | beside

    def role(self, name: str, sampled: Collection[str]) -> str:
        """What is stored under a name, given the names of what is sampled or collected."""
        if name in sampled:
            return "draw"
        return "gradient" if name.startswith(GRADIENT) else "stats"


class RunningSums(NamedTuple):
    """Sums of the newest draws on the device: at ``SUMMED`` they are handed over, and begin anew."""

    number: Array
    reference: dict[str, Array]
    first: dict[str, Array]
    second: dict[str, Array]

    @classmethod
    def none(cls, density: Density, state: ChainState) -> RunningSums:
        """No sums: those that are complete begin anew where the chains are."""
        place = watched_in_chains(density, state.position)
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, jnp.promote_types(x.dtype, jnp.float32)), place)
        copies = jax.tree.map(jnp.copy, (place, zeros, zeros))  # programs are given their memory away
        return cls(jnp.int32(SUMMED), *copies)

    def host(self) -> Sums:
        """As arrays of the host."""
        return Sums(int(self.number), *(on_host(tree) for tree in self[1:]))


@partial(jax.jit, static_argnums=0)
def stored_draw(stored: Stored, program: Program, key: Key, state: ChainState, data: Data) -> dict[str, Array]:
    """What is stored after one step: for its shapes alone."""
    state, info = program.transition(key, state, data)
    return stored(program, key, state, info, data)


@jax.jit
def copied(here: tuple[ChainState, RunningSums]) -> tuple[ChainState, RunningSums]:
    """The same in memory of its own, which a program may be given away."""
    return jax.tree.map(jnp.copy, here)


def states_of(program: Program, words: Array, parts: tuple[Params, Params, Any], common: bool) -> ChainState:
    """The first states of chains with these keys; their parts are ``common`` to all, or have a leading axis."""
    axes = None if common else 0
    make = jax.vmap(program.state, in_axes=(0, axes, axes, axes), out_axes=_axes(0))
    state: ChainState = make(jax.vmap(as_key)(words), *parts)
    return state


# One compilation instead of dozens of small ones; a sampler's own checks saw concrete values in kernel.start.
first_states = partial(jax.jit, static_argnums=3, compiler_options=QUICK)(states_of)


@partial(jax.jit, static_argnums=(7, 8, 9, 10), donate_argnums=3)
def advance_chains(
    program: Program, recording: Recording, words: Array, here: tuple[ChainState, RunningSums], data: Data,
    until: Array, most: Array, stored: Stored, capacity: int, single: bool, apart: bool = False,
) -> tuple[ChainState, RunningSums, Params, Array, Array]:  # fmt: skip
    """Steps to ``until``, or until ``capacity`` draws are made or ``most`` are in the sums."""
    state, sums = here
    # A single chain runs without the chain axis: XLA multiplies a batch of one matrix more slowly than a matrix.
    keys = jax.vmap(as_key)(words)
    if single:
        keys, state = keys[0], one_chain(state, 0)
        sums = RunningSums(sums.number, *jax.tree.map(lambda x: x[0], sums[1:]))
    transition = program.transition if single else _over_chains(program.transition, apart)

    def collected(key: Key, state: ChainState, info: Info, data: Data) -> dict[str, Array]:
        return stored(program, key, state, info, data)

    collect = collected if single else jax.vmap(collected, in_axes=(0, _axes(0), 0, 0 if apart else None))
    watch = partial(watched, program.density) if single else jax.vmap(partial(watched, program.density))

    def step(carry: tuple[ChainState, Info]) -> tuple[ChainState, Info]:
        return transition(keys, carry[0], data)

    def segment(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        state, info, buffers, count, summed, first, second = carry
        stop = jnp.minimum(until, recording.next_stop(state.step))
        state, info = jax.lax.while_loop(lambda c: c[0].step < stop, step, (state, info))
        # The slot is written in any case and counted only if this is a draw: no branch that copies the buffer.
        buffers = jax.tree.map(
            lambda b, v: jax.lax.dynamic_update_index_in_dim(b, v, count, 0), buffers, collect(keys, state, info, data)
        )
        drawn = recording.is_draw(state.step)
        weight, more = drawn.astype(jnp.float32), drawn.astype(jnp.int32)
        deviation = jax.tree.map(lambda x, r: at_least_single(x - r), watch(state.position), reference)
        first = jax.tree.map(lambda s, x: s + weight * x, first, deviation)
        second = jax.tree.map(lambda s, x: s + weight * x * x, second, deviation)
        return state, info, buffers, count + more, summed + more, first, second

    complete = sums.number >= most  # they were handed over, and begin anew where the chain is
    summed = jnp.where(complete, 0, sums.number)
    reference = jax.tree.map(lambda new, old: jnp.where(complete, new, old), watch(state.position), sums.reference)
    first, second = (jax.tree.map(lambda s: jnp.where(complete, 0, s), tree) for tree in (sums.first, sums.second))
    info = jax.tree.map(
        lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(lambda s: transition(keys, s, data)[1], state)
    )
    shapes = jax.eval_shape(collect, keys, state, info, data)
    buffers = jax.tree.map(lambda s: jnp.zeros((capacity, *s.shape), s.dtype), shapes)
    state, _, buffers, count, summed, first, second = jax.lax.while_loop(
        lambda c: (c[0].step < until) & (c[3] < capacity) & (c[4] < most),
        segment,
        (state, info, buffers, jnp.int32(0), summed, first, second),
    )
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves((floating(state.position), first))]))
    if single:
        state, reference, first, second = (_chained(tree) for tree in (state, reference, first, second))
        buffers = jax.tree.map(lambda b: b[:, None], buffers)
    return state, RunningSums(summed, reference, first, second), buffers, count, finite


@partial(jax.jit, static_argnums=4)
def single_step(
    program: Program, words: Array, state: ChainState, data: Data, apart: bool
) -> tuple[ChainState, Info]:  # fmt: skip
    """One step of all chains."""
    after: tuple[ChainState, Info] = _over_chains(program.transition, apart)(jax.vmap(as_key)(words), state, data)
    return after


@partial(jax.jit, static_argnums=(8, 9), compiler_options=QUICK)
def probed_chain(
    program: Program, words: Array, number: Array, state: ChainState, chain: Array, data: Data, covector: Params,
    centre: Params, apart: bool, repeats: int,
) -> Probe:  # fmt: skip
    """What the report needs to know where one of the chains is, from ``repeats`` fresh minibatches."""
    own = one_chain(state, chain)
    data = jax.tree.map(lambda a: a[chain], data) if apart else data
    key = fold(as_key(words), Use.NOISE, state.step * POWER_ITERATIONS + number)
    return program.probe(key, own, data, repeats, covector, centre)


@partial(jax.jit, static_argnums=4, compiler_options=QUICK)
def slopes_of_chains(program: Program, words: Array, state: ChainState, data: Data, apart: bool) -> Params:
    """Grad U where each chain is, from minibatches that had no part in bringing it there."""

    def one(key: Key, state: ChainState, data: Data) -> Params:
        return program.fresh_gradient(fold(key, Use.GRADIENT, state.step), state, data)

    slopes = jax.vmap(one, in_axes=(0, _axes(0), 0 if apart else None))
    return slopes(jax.vmap(as_key)(words), state, data)


def _axes(value: Any) -> ChainState:
    return ChainState(None, value, value, value, value)  # type: ignore[arg-type]


def _over_chains(function: Callable[..., Any], apart: bool) -> Callable[..., Any]:
    """Map over chains; the step count is common to all, which keeps branches on it branches."""
    return jax.vmap(function, in_axes=(0, _axes(0), 0 if apart else None), out_axes=(_axes(0), 0))


def one_chain(state: ChainState, number: Any) -> ChainState:
    """One chain of several; the step count is common to all."""
    return jax.tree.map(lambda x: x[number], state._replace(step=None))._replace(step=state.step)  # type: ignore[arg-type]


def _chained(tree: Any) -> Any:
    if isinstance(tree, ChainState):
        return jax.tree.map(lambda x: x[None], tree)._replace(step=tree.step)
    return jax.tree.map(lambda x: x[None], tree)


def on_host(tree: dict[str, Array]) -> dict[str, np.ndarray]:
    """As arrays of NumPy."""
    return {name: np.asarray(v) for name, v in tree.items()}


def watched(density: Density, position: Params) -> dict[str, Array]:
    """What has moments: the parameters, and the free numbers in place of those that have constraints."""
    free = named_leaves(position)
    names = density.change.constrained_names(position)
    return floating(density.parameters(position)) | {f"{FREE}{name}": free[name] for name in names}


def watched_in_chains(density: Density, position: Params) -> dict[str, Array]:
    """The same of several chains, along a leading axis; one program in place of the many small ones of bijections."""
    return _watched_in_chains(density, position) if density.change else floating(position)


@partial(jax.jit, static_argnums=0)  # without options, which a program inside another may not have
def _watched_in_chains(density: Density, position: Params) -> dict[str, Array]:
    return jax.vmap(partial(watched, density))(position)


def floating(params: Params) -> dict[str, Array]:
    """The parameters that have moments, by name: those that are not whole numbers."""
    return {name: x for name, x in named_leaves(params).items() if jnp.issubdtype(x.dtype, jnp.floating)}
