"""The kernel: one step of a chain from a minibatch, an estimator and a sampler, as a pure function.

``Kernel`` puts the parts of a problem together and checks that they fit. ``kernel.step`` makes one step, for loops of
the user's own; ``run`` repeats the same transition inside a compiled loop.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.batches import Arrays, Batch, Batching, RandomBlocks, Shuffled, Strata, Stream
from scirocco.batches.base import batch_rows
from scirocco.batches.stream import Loader
from scirocco.blocks import Block, apply, split
from scirocco.estimators import Estimator, Plain
from scirocco.samplers.base import Info, Sampler, Strain, automatic, inner_steps
from scirocco.target import Target, merge
from scirocco.trees import at_least_single, inner, signs_like
from scirocco.types import Array, Data, Key, Params


class ChainState(NamedTuple):
    """Everything that a chain carries from step to step."""

    step: Array
    sampler: Any
    estimator: Any
    draws: Any
    held: Params

    @property
    def position(self) -> Params:
        """All parameters."""
        return merge(self.sampler.position, self.held)


class Probe(NamedTuple):
    """Measurements for the bias report."""

    noise: Params  # the variance of the gradient estimate
    curvature: Params  # the diagonal of the Hessian of U
    covector: Params  # H u, of length 1: q for the next power iteration
    direction: Params  # u_j^2 / q'u
    strain: Strain | None  # what was measured along u


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
        untuned: bool = False,
    ) -> None:
        _require_parts(target, sampler, estimator, batching, untuned=untuned)
        self.target, self.sampler = target, sampler
        self.estimator: Estimator = estimator or Plain()
        self.blocks = tuple(blocks)
        self.seed = seed
        self.inner = inner_steps(sampler)
        self.batch_size = batch_rows(batch_size, target.size)
        self.batching = batching = _batching(sampler, self.estimator, batching)
        without = type(batching) is Shuffled and self.batch_size < target.size
        self.epoch = target.size / self.batch_size if without else np.inf
        source = target.source
        if isinstance(source, Arrays):
            shuffle = isinstance(batching, Shuffled) and self.batch_size < target.size
            order = np.random.default_rng(seed).permutation(target.size) if shuffle else None
            if isinstance(batching, Strata):
                order = batching.layout(seed)
            self.draw = batching.bind(target.size, target.size, self.batch_size, order, ring=True)
            self._resident: Data = source.on_device(order, self.draw.wrap)
            self._loader: Loader | None = None
            self.steps_per_block: int | None = None
        else:
            assert isinstance(source, Stream)
            unit = self.batch_size * self.inner
            rows = source.resident_rows // unit * unit
            if rows == 0:
                raise ValueError(
                    f"one step needs {unit} rows in memory but a block of the data source has {source.resident_rows}: "
                    "take a smaller batch_size or a larger block_bytes"
                )
            self.draw = batching.bind(target.size, rows, self.batch_size, None, ring=False)
            self._loader = Loader(source, seed, rows)
            self.steps_per_block = rows // unit
        self._step = jax.jit(self.transition)

    def replaced(self, sampler: Sampler, estimator: Estimator | None = None) -> Kernel:
        """The same kernel with another sampler of the same kind, and perhaps another estimator; data is shared."""
        other = copy.copy(self)
        other.sampler, other.estimator = sampler, estimator or self.estimator
        other._step = jax.jit(other.transition)
        return other

    # The pure part.

    def transition(self, key: Key, state: ChainState, data: Data) -> tuple[ChainState, Info]:
        """One step of the chain: ``inner_steps`` gradient steps, each on a fresh minibatch, then the blocks."""
        begin_key, block_key, key = jax.random.split(key, 3) if self._needs_keys else (key, key, key)
        begin: Callable[[Key, Any], Any] | None = getattr(self.sampler, "begin", None)
        sampler = begin(begin_key, state.sampler) if begin else state.sampler

        def inner(number: Array, carry: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
            sampler, estimator, draws, _ = carry
            step_key = jax.random.fold_in(key, number) if self.inner > 1 else key
            sampler, estimator, draws, batch, info = self._gradient_step(
                step_key, state.step * self.inner + number, sampler, estimator, draws, state.held, data
            )
            return sampler, estimator, draws, (batch, info)

        carry = inner(jnp.int32(0), (sampler, state.estimator, state.draws, None))
        if self.inner > 1:
            carry = jax.lax.fori_loop(1, self.inner, inner, carry)
        sampler, estimator, draws, (batch, info) = carry
        held = apply(self.blocks, block_key, sampler.position, state.held, batch) if self.blocks else state.held
        return ChainState(state.step + 1, sampler, estimator, draws, held), info

    @property
    def _needs_keys(self) -> bool:
        return bool(self.blocks) or self.inner > 1 or hasattr(self.sampler, "begin")

    def _gradient_step(
        self, key: Key, count: Array, sampler: Any, estimator: Any, draws: Any, held: Params, data: Data
    ) -> tuple[Any, Any, Any, Batch, Info]:
        draw_key, step_key = jax.random.split(key)
        draws, batch = self.draw.draw(draw_key, draws, count, data)
        gradient = _Recorded(self, estimator, held, batch)
        sampler, info = self.sampler.step(step_key, sampler, gradient)
        return sampler, gradient.state, draws, batch, info

    def fresh_gradient(self, key: Key, state: ChainState, data: Data) -> Params:
        """An estimate of grad U where the chain is, from a minibatch that had no part in bringing it there."""
        _, batch = self.draw.draw(key, self.draw.init(key), jnp.int32(0), data)
        return self.estimator.estimate(self.target, state.estimator, state.sampler.position, state.held, batch)[0]

    def probe(
        self, key: Key, state: ChainState, data: Data, repeats: int, covector: Params = None, centre: Params = None
    ) -> Probe:
        """What the bias report needs to know where a chain is, from fresh minibatches.

        The diagonal of the Hessian is Hutchinson's estimate E[z * (H z)] with random signs z, noisy entry by entry,
        good in its sum. A sampler in coordinates of its own says with ``marginal`` which gradient each parameter feels.

        With a ``covector`` q also one power iteration towards the direction that the step size strains most. A step
        moves by P grad U, with P_jj the sampler's ``drift_scale``; what matters are the eigenvalues of P H, and the
        direction is u = P q. ``centre`` is the mean of the chain; gradients there, from the same minibatches, are taken
        off for the temperature, because minibatch noise is mostly the same at both.
        """
        position = state.sampler.position
        marginal: Callable[[Params], Params] = getattr(self.sampler, "marginal", lambda tree: tree)
        back: Callable[[Params], Params] = getattr(self.sampler, "marginal_transposed", lambda tree: tree)
        u = None
        if covector is not None:
            drift = self.sampler.drift_scale(state.sampler, at_least_single(position))  # type: ignore[attr-defined]
            u = jax.tree.map(jnp.multiply, marginal(covector), drift)

        def estimate(place: Params, batch: Batch) -> Params:
            return self.estimator.estimate(self.target, state.estimator, place, state.held, batch)[0]

        def once(number: Array) -> tuple[Params, Params, Params, Params]:
            draw_key, sign_key = jax.random.split(jax.random.fold_in(key, number))
            _, batch = self.draw.draw(draw_key, self.draw.init(draw_key), jnp.int32(0), data)
            gradient = estimate(position, batch)
            signs = signs_like(sign_key, position)
            directions = jax.tree.map(lambda *rows: jnp.stack(rows), back(signs), *([] if u is None else [u]))

            def times(direction: Params) -> Params:
                return jax.grad(lambda p: inner(self.target.potential_gradient(p, state.held, batch), direction))(
                    position
                )

            products = jax.vmap(times)(directions)
            curved = marginal(jax.tree.map(lambda rows: rows[0], products))
            strained = jax.tree.map(lambda rows: rows[-1], products)
            fall = gradient if u is None else jax.tree.map(jnp.subtract, gradient, estimate(centre, batch))
            return gradient, jax.tree.map(jnp.multiply, signs, curved), strained, fall

        measured = jax.lax.map(once, jnp.arange(repeats, dtype=jnp.int32))
        gradients, diagonals, products, falls = measured
        noise = jax.tree.map(lambda g: jnp.var(g, axis=0, ddof=1), jax.vmap(marginal)(gradients))
        diagonal = jax.tree.map(lambda rows: jnp.mean(rows, axis=0), diagonals)
        if u is None:
            return Probe(noise, diagonal, None, None, None)
        product, fall = (
            jax.tree.map(lambda rows: jnp.mean(rows, axis=0), at_least_single(t)) for t in (products, falls)
        )
        length, stretched = inner(covector, u), inner(u, product)
        away = inner(covector, at_least_single(jax.tree.map(jnp.subtract, position, centre)))
        slopes = jax.vmap(lambda g: inner(u, g))(at_least_single(gradients))
        # The sign keeps q from turning round, and its mean over probes from vanishing, where the curvature is negative.
        size = jnp.where(stretched < 0, -1, 1) * jnp.sqrt(inner(product, product))
        return Probe(
            noise,
            diagonal,
            jax.tree.map(lambda p: p / size, product),
            jax.tree.map(lambda x: x * x / length, u),
            Strain(stretched / length, jnp.var(slopes, ddof=1) / length, away * inner(u, fall) / length),
        )

    # The host's part.

    def start(self, initial: Params) -> tuple[Params, Params]:
        """Check the target at ``initial``; where the chain starts, and the parameters that blocks hold."""
        params = jax.tree.map(jnp.asarray, initial)
        position, held = split(params, self.blocks)
        self.target.check(position, held)
        if hasattr(self.sampler, "check"):
            self.sampler.check(position)
        self._try_a_step(position, held)
        return self.estimator.start(self.target, position, held, self.seed), held

    def _try_a_step(self, position: Params, held: Params) -> None:
        """Trace a step without running it: what does not fit the parameters is found before any work."""

        def start(key: Key) -> ChainState:
            return self.state(key, position, held, self.estimator.blank(self.target, position, held))

        key = jax.random.key(0)
        state = jax.eval_shape(start, key)
        after, _ = jax.eval_shape(self.transition, key, state, self.data_at(0))
        for (path, old), new in zip(
            jax.tree_util.tree_flatten_with_path(state)[0], jax.tree.leaves(after), strict=True
        ):
            if (old.shape, old.dtype) != (new.shape, new.dtype):
                raise ValueError(
                    f"a step of {type(self.sampler).__name__} changes {jax.tree_util.keystr(path)} from {old.dtype} "
                    f"{old.shape} to {new.dtype} {new.shape}: settings must have the parameters' shapes and dtypes"
                )

    def init(self, key: Key, initial: Params) -> ChainState:
        """A chain that starts at ``initial``, or at the centre if the estimator finds one."""
        position, held = self.start(initial)
        return self.state(key, position, held, self.estimator.init(self.target, position, held))

    def state(self, key: Key, position: Params, held: Params, estimator: Any) -> ChainState:
        """The first state of a chain whose estimator is ready."""
        sampler_key, draw_key = jax.random.split(key)
        return ChainState(
            jnp.int32(0), self.sampler.init(sampler_key, position), estimator, self.draw.init(draw_key), held
        )

    def step(self, key: Key, state: ChainState) -> tuple[ChainState, Info]:
        """One step with randomness from ``key``. Reads the next block of data or renews the estimator when due."""
        step = int(state.step)
        if self.refresh_every and step and step % self.refresh_every == 0:
            state = state._replace(estimator=self.refreshed(state))
        return self._step(key, state, self.data_at(step))

    @property
    def refresh_every(self) -> int | None:
        """Steps between two refreshes of the estimator, if it wants any."""
        return getattr(self.estimator, "refresh_every", None)

    def refreshed(self, state: ChainState) -> Any:
        """The estimator's state after a refresh at the chain's position."""
        refresh: Callable[..., Any] = self.estimator.refresh  # type: ignore[attr-defined]
        return refresh(self.target, state.estimator, state.sampler.position, state.held)

    def data_at(self, step: int) -> Data:
        """The resident block of data for a step."""
        if self._loader is None:
            return self._resident
        assert self.steps_per_block is not None
        return self._loader.get(step // self.steps_per_block)

    def close(self) -> None:
        """Stop reading ahead."""
        if self._loader is not None:
            self._loader.close()


class _Recorded:
    """The gradient as a function of the position; remembers the estimator's new state for the kernel."""

    def __init__(self, kernel: Kernel, state: Any, held: Params, batch: Batch) -> None:
        self._kernel, self.state, self._held, self._batch = kernel, state, held, batch

    def __call__(self, position: Params) -> Params:
        kernel = self._kernel
        gradient, self.state = kernel.estimator.estimate(kernel.target, self.state, position, self._held, self._batch)
        return gradient


def _batching(sampler: Sampler, estimator: Estimator, batching: Batching | None) -> Batching:
    """Shuffled by default; independent blocks where a part relies on independent minibatches."""
    if type(batching) is Shuffled and getattr(estimator, "independent_draws", False):
        raise ValueError(
            f"{type(estimator).__name__} is unbiased only with independent minibatches: with Shuffled the next rows "
            "are always those whose gradients are oldest. Use batching=RandomBlocks() or WithReplacement()"
        )
    independent = any(getattr(part, "independent_draws", False) for part in (sampler, estimator))
    return batching or (RandomBlocks() if independent else Shuffled())


def _require_parts(target: object, sampler: object, estimator: object, batching: object, *, untuned: bool) -> None:
    if not isinstance(target, Target):
        raise TypeError(f"target must be a scirocco.Target; got {type(target).__name__}")
    if isinstance(sampler, str):
        raise ValueError(
            f"unknown sampler name {sampler!r}: give a sampler with its settings, one of "
            "SGLD, PSGLD, SGHMC, SGNHT, UnderdampedLangevin or a Recipe, such as scirocco.SGLD(step_size=1e-4)"
        )
    if isinstance(sampler, type):
        raise TypeError(f"sampler must be an instance with its settings, such as {sampler.__name__}(step_size=1e-4)")
    for name, part, methods, example in (
        ("sampler", sampler, ("init", "step"), "scirocco.SGLD(step_size=1e-4)"),
        ("estimator", estimator, ("start", "init", "estimate"), "scirocco.ControlVariate()"),
        ("batching", batching, ("bind",), "scirocco.batches.Shuffled()"),
    ):
        if part is not None and not all(hasattr(part, method) for method in methods):
            raise TypeError(f"{name} must have {' and '.join(methods)}, like {example}; got {part!r}")
    if automatic(getattr(sampler, "step_size", None)) is not None and not untuned:
        raise ValueError(
            "step_size='auto' is found before a run, by scirocco.sample or scirocco.tune(target, sampler, initial), "
            "which has the kernel"
        )
    if sampler is None:
        raise TypeError("sampler must be given, for example scirocco.SGLD(step_size=1e-4)")
