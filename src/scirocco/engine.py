"""The gradient engine: many steps of several chains in one compiled loop.

``advance(state, until)`` is all that the runner needs. The loop's bounds are arguments, so chunks of any length,
burn-in, thinning, new blocks of data and the last partial chunk all run the same compiled program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.blocks import split
from scirocco.chain import ChainState, Kernel, Probe
from scirocco.diagnostics.bias import BiasReport, bias_report
from scirocco.run import checkpoint
from scirocco.run.recording import Recording
from scirocco.run.runner import Chunk, Progressed
from scirocco.run.trace import GRADIENT
from scirocco.samplers.base import Info, Strain, has_law
from scirocco.trees import at_least_single, named_leaves, normal_like
from scirocco.types import Array, Data, Key, Params

DRAW_BYTES = 16 * 2**20  # of draws that a chunk may hold before it hands them over
PROBE_REPEATS = 16  # fresh minibatches each time that gradient noise is measured
PROBE_CHAINS = 8
POWER_ITERATIONS = 8  # at the first probe; later ones go on from there
GRADIENT_STREAM = 2**30  # of a step's key; its splits have small numbers


class Engine:
    """Several chains of a kernel."""

    def __init__(
        self,
        kernel: Kernel,
        initial: Params | Callable[[Key], Params],
        *,
        chains: int,
        recording: Recording,
        collect: Callable[[Params], Any] | bool | None = None,
        gradients: bool = False,
    ) -> None:
        self.kernel, self.chains, self.recording, self.gradients = kernel, chains, recording, gradients
        self.initial = initial
        root = jax.random.key(kernel.seed)
        init_root, step_root, start_root, probe_root = jax.random.split(root, 4)
        self._init_keys = jax.random.split(init_root, chains)
        self._step_keys = jax.random.split(step_root, chains)
        self._start_keys = jax.random.split(start_root, chains)
        self._probe_keys = jax.random.split(probe_root, chains)
        chosen = collect if callable(collect) else (lambda params: params)
        self._collect = (lambda params: {}) if collect is False else chosen
        self._bare = "theta" if collect is None else "value"
        values = jax.eval_shape(self._named, self.example)
        if gradients:
            moved, _ = split(self.example, kernel.blocks)
            values |= {f"{GRADIENT}{name}": jnp.asarray(leaf) for name, leaf in named_leaves(moved).items()}
        self.variables = {name: (tuple(v.shape), np.dtype(v.dtype)) for name, v in values.items()}
        size = sum(int(np.prod(shape)) * dtype.itemsize for shape, dtype in self.variables.values())
        self.capacity = int(np.clip(DRAW_BYTES // max(1, size * chains), 1, 10_000))
        self._advance = jax.jit(self._loop)
        self._probe = jax.jit(self._probed)
        self._one = jax.jit(self._single)

    # Starting.

    @property
    def example(self) -> Params:
        """The parameters that the first chain is given."""
        return self._initials()[0]

    def _initials(self) -> list[Params]:
        if is_function(self.initial):
            return [jax.tree.map(jnp.asarray, self.initial(key)) for key in self._start_keys]
        return [jax.tree.map(jnp.asarray, self.initial)]

    def init(self) -> ChainState:
        """The chains at their start; passes over the data if the estimator needs it."""
        kernel, prepared = self.kernel, []
        for initial in self._initials():
            position, held = kernel.start(initial)
            prepared.append((position, held, kernel.estimator.init(kernel.target, position, held)))
        return self._stack(prepared)

    def blank(self) -> ChainState:
        """A state of the right structure, made without touching the data, to be filled from a checkpoint."""
        kernel = self.kernel
        position, held = split(self.example, kernel.blocks)
        return self._stack([(position, held, kernel.estimator.blank(kernel.target, position, held))])

    def _stack(self, prepared: list[tuple[Params, Params, Any]]) -> ChainState:
        # One compilation instead of dozens of small ones; a sampler's own checks saw concrete values in kernel.start.
        common = len(prepared) == 1
        parts = prepared[0] if common else jax.tree.map(lambda *leaves: jnp.stack(leaves), *prepared)
        axes = None if common else 0
        make = jax.jit(jax.vmap(self.kernel.state, in_axes=(0, axes, axes, axes), out_axes=_axes(0)))
        state: ChainState = make(self._init_keys, *parts)
        return state

    # Advancing.

    def advance(self, state: ChainState, until: int) -> Chunk:
        """Run towards step ``until``; stops earlier when draws must be handed over or new data is due."""
        kernel, step = self.kernel, int(state.step)
        for border in (kernel.refresh_every, kernel.steps_per_block):
            if border:
                until = min(until, (step // border + 1) * border)
        return self.run_to(self._renewed(state), until, kernel.data_at(step))

    def run_to(self, state: ChainState, until: int, data: Data) -> Chunk:
        """Run to step ``until`` on one block of data (or until the buffer of draws is full)."""
        new, draws, count, reference, first, second, finite = jax.block_until_ready(
            self._advance(self._step_keys, state, data, jnp.int32(until))
        )
        made = int(count)
        # A copy: a view would keep the whole buffer alive, however few draws it holds.
        kept = {name: np.moveaxis(np.asarray(value)[:made], 0, 1).copy() for name, value in draws.items()}
        return Chunk(new, kept, made, _on_host(reference), _on_host(first), _on_host(second), bool(finite))

    def _renewed(self, state: ChainState) -> ChainState:
        """The state with its estimators refreshed, if this is a step for it."""
        every, step = self.kernel.refresh_every, int(state.step)
        if not every or not step or step % every:
            return state
        parts = [self.kernel.refreshed(_chain(state, c)) for c in range(self.chains)]
        return state._replace(estimator=jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts))

    def _loop(
        self, keys: Key, state: ChainState, data: Data, until: Array
    ) -> tuple[ChainState, Params, Array, Params, Params, Params, Array]:
        # A single chain runs without the chain axis: XLA multiplies a batch of one matrix more slowly than a matrix.
        single = self.chains == 1
        over = _unbatched if single else _over_chains
        if single:
            keys, state = keys[0], _chain(state, 0)
        transition = over(self.kernel.transition)
        each = _unbatched if single else lambda f: jax.vmap(f, in_axes=(0, _axes(0), None))
        collect = each(self._recorded)

        def step(state: ChainState) -> ChainState:
            fold = jax.random.fold_in if single else jax.vmap(jax.random.fold_in, (0, None))
            return transition(fold(keys, state.step), state, data)[0]

        def segment(carry: tuple[Any, ...]) -> tuple[Any, ...]:
            state, buffers, count, first, second = carry
            stop = jnp.minimum(until, self.recording.next_stop(state.step))
            state = jax.lax.while_loop(lambda s: s.step < stop, step, state)
            # The slot is written in any case and counted only if this is a draw: no branch that copies the buffer.
            buffers = jax.tree.map(
                lambda b, v: jax.lax.dynamic_update_index_in_dim(b, v, count, 0), buffers, collect(keys, state, data)
            )
            drawn = self.recording.is_draw(state.step)
            weight = drawn.astype(jnp.float32)
            deviation = jax.tree.map(lambda x, r: at_least_single(x - r), _floating(state.position), reference)
            first = jax.tree.map(lambda s, x: s + weight * x, first, deviation)
            second = jax.tree.map(lambda s, x: s + weight * x * x, second, deviation)
            return state, buffers, count + drawn.astype(jnp.int32), first, second

        reference = _floating(state.position)
        shapes = jax.eval_shape(collect, keys, state, data)
        buffers = jax.tree.map(lambda s: jnp.zeros((self.capacity, *s.shape), s.dtype), shapes)
        zeros = jax.tree.map(lambda r: jnp.zeros_like(at_least_single(r)), reference)
        state, buffers, count, first, second = jax.lax.while_loop(
            lambda c: (c[0].step < until) & (c[2] < self.capacity),
            segment,
            (state, buffers, jnp.int32(0), zeros, zeros),
        )
        finite = jnp.all(
            jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves((_floating(state.position), first))])
        )
        if single:
            state, reference, first, second = (_chained(tree) for tree in (state, reference, first, second))
            buffers = jax.tree.map(lambda b: b[:, None], buffers)
        return state, buffers, count, reference, first, second, finite

    def _recorded(self, key: Key, state: ChainState, data: Data) -> dict[str, Array]:
        """What is stored of a draw: the values collected and, if wanted, the gradient from a minibatch of its own."""
        values = self._named(state.position)
        if self.gradients:
            fresh = jax.random.fold_in(jax.random.fold_in(key, state.step), GRADIENT_STREAM)
            slope = self.kernel.fresh_gradient(fresh, state, data)
            values |= {f"{GRADIENT}{name}": leaf for name, leaf in named_leaves(slope).items()}
        return values

    def _named(self, params: Params) -> dict[str, Array]:
        return {name: jnp.asarray(v) for name, v in named_leaves(self._collect(params), self._bare).items()}

    # Looking closer.

    def probe(self, progressed: Progressed) -> dict[str, np.ndarray]:
        """Gradient noise, curvature and the sampler's own state where the chains are, averaged over some of them.

        Also the direction that strains the step most, by power iterations that go on from those of earlier probes.
        """
        state = progressed.state
        data = self.kernel.data_at(int(state.step))
        like = jax.tree.map(lambda leaf: leaf[0], state.sampler.position)

        def tree(values: dict[str, np.ndarray], like: Params) -> Params:
            leaves = [jnp.asarray(values[name], leaf.dtype) for name, leaf in named_leaves(like).items()]
            return jax.tree.unflatten(jax.tree.structure(like), leaves)

        some = range(min(self.chains, PROBE_CHAINS))
        known = checkpoint.part(progressed.probed, "covector")
        covector = tree(known, at_least_single(like)) if known else None
        rounds = 1
        if covector is None and has_law(self.kernel.sampler):
            covector = normal_like(jax.random.key(self.kernel.seed), at_least_single(like))
            rounds = -(-POWER_ITERATIONS // len(some))
        centres = progressed.moments.mean or _on_host(_floating(state.position))  # there may be no draw yet
        for number in range(rounds):
            each = []
            for c in some:
                key = jax.random.fold_in(self._probe_keys[c], number)
                centre = tree({name: mean[c] for name, mean in centres.items()}, like)
                each.append(self._probe(key, _chain(state, c), data, covector, centre))
                covector = each[-1].covector
        found = jax.tree.map(lambda *parts: np.mean(parts, axis=0), *each)._replace(covector=covector)
        arrays = {
            f"{kind}/{name}": v for kind, tree in found._asdict().items() for name, v in named_leaves(tree).items()
        }
        arrays |= {f"sampler/{i}": np.mean(np.asarray(v), axis=0) for i, v in enumerate(jax.tree.leaves(state.sampler))}
        return {name: np.asarray(v, np.float64) for name, v in arrays.items()}

    def _probed(self, key: Key, state: ChainState, data: Data, covector: Params, centre: Params) -> Probe:
        key = jax.random.fold_in(key, state.step)
        return self.kernel.probe(key, state, data, PROBE_REPEATS, covector, centre)

    def sampler_state(self, probed: dict[str, np.ndarray], blank: ChainState) -> Any:
        """The sampler's average state as ``probe`` reported it."""
        leaves, structure = jax.tree.flatten(blank.sampler)
        values = [jnp.asarray(probed[f"sampler/{i}"], leaf.dtype) for i, leaf in enumerate(leaves)]
        return jax.tree.unflatten(structure, values)

    def _single(self, keys: Key, state: ChainState, data: Data) -> tuple[ChainState, Info]:
        fold = jax.vmap(jax.random.fold_in, (0, None))
        return _over_chains(self.kernel.transition)(fold(keys, state.step), state, data)

    def locate(self, state: ChainState, bad: int) -> tuple[Chunk, str]:
        """The last good step before step ``bad``, found by repeating the stretch, and what the next step says.

        Steps are functions of the seed and their number, so a stretch can be repeated exactly: divergence costs
        nothing until it happens.
        """
        data, state = self.kernel.data_at(int(state.step)), self._renewed(state)
        low, high = int(state.step), bad
        while high - low > 1:
            middle = (low + high) // 2
            if self.run_to(state, middle, data).finite:
                low = middle
            else:
                high = middle
        chunk = self.run_to(state, low, data)
        failed, info = self._one(self._step_keys, chunk.state, data)
        return chunk, _explain(low, info, _on_host(_floating(failed.position)))

    # Keeping.

    def pack(self, state: ChainState) -> dict[str, np.ndarray]:
        """The leaves of a state, random keys as their words."""
        return {str(i): np.asarray(_words(leaf)) for i, leaf in enumerate(jax.tree.leaves(state))}

    def unpack(self, arrays: dict[str, np.ndarray]) -> ChainState:
        """The state with the saved leaves, after checking that they fit."""
        leaves, structure = jax.tree.flatten(self.blank())
        saved = [arrays[str(i)] for i in range(len(arrays))]
        if [(a.shape, a.dtype) for a in saved] != [(np.shape(w), np.dtype(w.dtype)) for w in map(_words, leaves)]:
            raise ValueError(
                "the checkpoint does not fit: give resume the run's sampler, estimator, blocks and parameters "
                "and the same setting of jax_enable_x64"
            )
        restored = [
            jax.random.wrap_key_data(jnp.asarray(a)) if _is_key(leaf) else jnp.asarray(a, leaf.dtype)
            for a, leaf in zip(saved, leaves, strict=True)
        ]
        state: ChainState = jax.tree.unflatten(structure, restored)
        return state

    def report(self, progressed: Progressed) -> BiasReport | None:
        """The bias report, if enough was measured."""
        if not progressed.probes or progressed.moments.count < 2:
            return None
        noise, curvature = (checkpoint.part(progressed.probed, kind) for kind in ("noise", "curvature"))
        state = self.sampler_state(progressed.probed, progressed.state)
        variance = progressed.moments.pooled()[1]
        direction, strain = (checkpoint.part(progressed.probed, kind) for kind in ("direction", "strain"))
        stiffest = (direction, Strain(**strain)) if strain else None
        return bias_report(self.kernel.sampler, state, variance, noise, curvature, self.kernel.epoch, stiffest)


def is_function(initial: Any) -> bool:
    """Whether an initial position is a function of a key, and not a pytree that happens to be callable."""
    return callable(initial) and jax.tree_util.all_leaves([initial])


def _explain(step: int, info: Info, failed: dict[str, np.ndarray]) -> str:
    bad = {name: ~np.isfinite(v).reshape(len(v), -1).all(axis=1) for name, v in failed.items()}
    names = [name for name, chains in bad.items() if chains.any()]
    chain = int(np.argmax(np.any(list(bad.values()), axis=0)))
    norm, h = np.ravel(info.gradient_norm)[chain], np.ravel(info.step_size)[chain]
    return (
        f"{', '.join(names)} of chain {chain} is no longer finite after step {step + 1:,} "
        f"(step size {h:.3g}, gradient norm {norm:.3g}). Try a smaller step_size, a start nearer to the mode "
        "(estimator=ControlVariate()), or a larger batch_size"
    )


def _is_key(leaf: Any) -> bool:
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _words(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _axes(value: Any) -> ChainState:
    return ChainState(None, value, value, value, value)  # type: ignore[arg-type]


def _over_chains(function: Callable[..., Any]) -> Callable[..., Any]:
    """Map over chains; the step count is common to all, which keeps branches on it branches."""
    return jax.vmap(function, in_axes=(0, _axes(0), None), out_axes=(_axes(0), 0))


def _unbatched(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _chain(state: ChainState, number: int) -> ChainState:
    """One chain of several; the step count is common to all."""
    return jax.tree.map(lambda x: x[number], state._replace(step=None))._replace(step=state.step)  # type: ignore[arg-type]


def _chained(tree: Any) -> Any:
    if isinstance(tree, ChainState):
        return jax.tree.map(lambda x: x[None], tree)._replace(step=tree.step)
    return jax.tree.map(lambda x: x[None], tree)


def _on_host(tree: dict[str, Array]) -> dict[str, np.ndarray]:
    return {name: np.asarray(v) for name, v in tree.items()}


def _floating(params: Params) -> dict[str, Array]:
    return {name: x for name, x in named_leaves(params).items() if jnp.issubdtype(x.dtype, jnp.floating)}
