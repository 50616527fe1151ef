"""A round of a warm-up or of a trial: a few chains from given places, their draws, and fresh gradients there.

What a round finds is a function of its settings and of where it begins. So a search that was killed goes on by making
its decisions again from the rounds that it had finished, which are kept in the folder of the run. A round is made in
pieces, between which Ctrl-C and the end of the time for tuning are noticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco.core.interrupt import poll
from scirocco.core.keys import Use, as_key, fold
from scirocco.core.program import QUICK
from scirocco.core.seeds import Purpose, key_words
from scirocco.core.trees import all_finite
from scirocco.core.types import Array, Data, Key, Params
from scirocco.diagnostics.virial import Virial, virial
from scirocco.gradient.kernel import Kernel
from scirocco.gradient.program import ChainState, Program
from scirocco.run import checkpoint
from scirocco.run.describe import describe

CHAINS, DRAWS = 4, 128  # draws of each chain
BURN_IN = 0.25  # of the steps
PIECE = 8  # draws, or steps that would make them
FARTHEST = 1e8  # no parameter is so large: the chain is lost, if not yet infinite


class Round(NamedTuple):
    """Draws and, at each, grad U from two minibatches that had no part in bringing the chain there."""

    draws: np.ndarray  # (chain, draw, coordinate)
    slopes: tuple[np.ndarray, np.ndarray]
    gap: int  # steps from draw to draw

    @property
    def last(self) -> np.ndarray:
        """Where the chains ended."""
        return self.draws[:, -1]

    @property
    def mean(self) -> np.ndarray:
        """Of all chains."""
        return self.draws.mean(axis=(0, 1))

    def pooled(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Deviations from the mean of all chains, and both gradients, all draws in one."""
        return _rows(self.draws - self.mean), _rows(self.slopes[0]), _rows(self.slopes[1])

    def within(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Deviations from the mean of each chain, of the gradients too: chains may still be far apart."""
        first, second, third = (_rows(a - a.mean(axis=1, keepdims=True)) for a in (self.draws, *self.slopes))
        return first, second, third

    def virial(self, temperature: float) -> Virial:
        """Whether the chains are as wide as their target."""
        return virial(self.draws, (self.slopes[0] + self.slopes[1]) / 2, temperature)

    @property
    def r_hat(self) -> float:
        """The largest R-hat of means, over halves of the chains."""
        half = self.draws.shape[1] // 2
        parts = np.concatenate([self.draws[:, :half], self.draws[:, half:]])
        within = np.maximum(parts.var(axis=1, ddof=1).mean(axis=0), np.finfo(float).tiny)
        return float(np.sqrt(1 + np.max(parts.mean(axis=1).var(axis=0, ddof=1) / within)))


def _rows(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, values.shape[2])


class Rounds:
    """Where rounds are made: each is shown, and kept in a folder if there is one."""

    def __init__(self, folder: Path | None = None, show: Callable[[str], None] = lambda text: None) -> None:
        self._folder, self._show = folder, show
        self._arrays: checkpoint.Arrays = {}
        self._keys: dict[str, str] = {}
        self._data: dict[str, Any] | None = None  # what tells them from others; a pass over those in memory
        if folder is not None and checkpoint.exists(folder):
            try:
                self._arrays, facts = checkpoint.read(folder, {"keys": dict})
                self._keys = facts["keys"]
            except checkpoint.DamagedError:
                pass  # all of it can be made again

    def run(
        self, kernel: Kernel, centre: Params, places: np.ndarray, held: Params, steps: int, number: int
    ) -> Round | None:  # fmt: skip
        """The round of this number, made now or before; None if a chain was lost."""
        self._show(f"{steps:,} steps, minibatches of {kernel.batch_size:,}")
        if self._folder is None:
            return run_round(kernel, centre, places, held, steps, number)
        if self._data is None:
            self._data = kernel.target.source.fingerprint()
        key = _key(kernel, self._data, centre, places, held, steps)
        names = [f"{number}/{part}" for part in ("draws", "first", "second")]
        if self._keys.get(str(number)) == key:
            if names[0] not in self._arrays:
                return None
            draws, first, second = (self._arrays[name].astype(np.float64) for name in names)
            return Round(draws, (first, second), _gap(steps))
        made = run_round(kernel, centre, places, held, steps, number)
        self._keys[str(number)] = key
        for name in names:
            self._arrays.pop(name, None)
        if made is not None:
            dtype = ravel_pytree(centre)[0].dtype  # in which chains move
            self._arrays |= {n: a.astype(dtype) for n, a in zip(names, (made.draws, *made.slopes), strict=True)}
        checkpoint.write(self._folder, self._arrays, {"keys": self._keys})
        return made


def _key(
    kernel: Kernel, data: dict[str, Any], centre: Params, places: np.ndarray, held: Params, steps: int
) -> str:  # fmt: skip
    """All that a round depends on, beside its number and functions, those of the target and of the sampler.

    The text of a function has its address in memory, which another process does not have.
    """
    parts = (centre, held, places, kernel.batch_size, kernel.seed, steps)
    made_of = describe((kernel.sampler, kernel.estimator, kernel.batching), keep=True)
    digest = hashlib.blake2b(repr((made_of, data, jax.tree.structure(parts))).encode(), digest_size=16)
    for leaf in jax.tree.leaves(parts):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()


def _gap(steps: int) -> int:
    """Steps from draw to draw of a round."""
    return max(1, int((1 - BURN_IN) * steps) // DRAWS)


def run_round(
    kernel: Kernel, centre: Params, places: np.ndarray, held: Params, steps: int, number: int
) -> Round | None:  # fmt: skip
    """The chains of a kernel from ``places``, its estimator around ``centre``; None if a chain is lost.

    ``number`` names the random numbers of the round and, of data on disk, the block that it runs on.
    """
    poll()
    flat, unravel = ravel_pytree(centre)
    estimator = kernel.estimator.init(kernel.target, centre, held)
    gap = _gap(steps)
    words = key_words(kernel.seed, Purpose.SEARCH_CHAINS, number)
    starts = jax.vmap(unravel)(jnp.asarray(places, flat.dtype))
    step = number * (kernel.steps_per_block or 0)
    data = kernel.data_at(step, end=step + 1)  # the next round may be on any block
    state, found = _begun(kernel.program, words, starts, held, estimator), []
    numbers, lengths = _plan(steps, gap)
    for piece in range(0, len(numbers), PIECE):
        poll()
        of = slice(piece, piece + PIECE)
        state, made = _chains(kernel.program, words, state, data, numbers[of], lengths[of])
        draws = [np.asarray(a, np.float64) for a in made]
        if not all_finite(draws) or np.max(np.abs(draws[0])) > FARTHEST:
            return None
        if numbers[piece] >= 0:
            found.append(draws)
    places, first, second = (np.concatenate(parts).swapaxes(0, 1) for parts in zip(*found, strict=True))
    return Round(places, (first, second), gap)


def _plan(steps: int, gap: int) -> tuple[np.ndarray, np.ndarray]:
    """The number of each draw, below zero in the burn-in, where none is made, and the steps up to it."""
    rest = max(1, steps - gap * (DRAWS - 1)) - gap
    before = -(-rest // (PIECE * gap)) * PIECE  # as many pieces as draws would take
    burn_in = np.diff(np.linspace(0, rest, before + 1).astype(np.int32))
    return np.arange(-before, DRAWS, dtype=np.int32), np.append(burn_in, np.full(DRAWS, gap, np.int32))


def _keys(words: Array) -> Key:
    own = jnp.asarray(words) + jnp.stack([jnp.arange(CHAINS, dtype=jnp.uint32), jnp.zeros(CHAINS, jnp.uint32)], 1)
    return jax.vmap(as_key)(own)


@partial(jax.jit, compiler_options=QUICK)
def _begun(program: Program, words: Array, starts: Params, held: Params, estimator: Any) -> ChainState:
    """The chains at their start."""
    return jax.vmap(lambda key, place: program.state(key, place, held, estimator))(_keys(words), starts)


@jax.jit
def _chains(
    program: Program, words: Array, state: ChainState, data: Data, numbers: Array, lengths: Array
) -> tuple[ChainState, tuple[Array, Array, Array]]:
    """Draws and two gradients of each, (draw, chain, coordinate); one program for all settings that are numbers."""
    keys = _keys(words)
    flat: Any = jax.vmap(lambda tree: ravel_pytree(tree)[0])
    move: Any = jax.vmap(lambda key, s: program.transition(key, s, data)[0])

    def slope(key: Key, state: ChainState, number: Array) -> Array:
        return ravel_pytree(program.fresh_gradient(fold(key, Use.GRADIENT, number), state, data))[0]

    def slopes(state: ChainState, number: Array) -> tuple[Array, Array]:
        first, second = (jax.vmap(slope, (0, 0, None))(keys, state, 2 * number + k) for k in range(2))
        return first, second

    def draw(state: ChainState, plan: tuple[Array, Array]) -> tuple[ChainState, tuple[Array, Array, Array]]:
        number, steps = plan
        state = jax.lax.fori_loop(0, steps, lambda _, s: move(keys, s), state)
        place = flat(state.sampler.position)
        first, second = jax.lax.cond(number < 0, lambda *_: (place, place), slopes, state, number)
        return state, (place, first, second)

    return jax.lax.scan(draw, state, (numbers, lengths))
