"""What the exact diffusions share: the words of their interface and how a transition is spread over threads.

A diffusion is a frozen dataclass whose parameters are numbers or arrays that broadcast with the state. ``transition``
is a function of its arguments, the seed and the step number alone; the number of threads changes nothing.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Protocol, runtime_checkable

import numpy as np

from scirocco.core.checks import positive_array, real_array, require_count, require_seed
from scirocco.core.compiled import BLOCK, jit, over_blocks
from scirocco.core.random import make_key, normal, open_stream

SQRT_TWO = 2.0**0.5


@runtime_checkable
class Diffusion(Protocol):
    """A diffusion with known transitions."""

    def transition(self, x: Any, time: Any, *, seed: int = 0, step: int = 0, threads: int | None = None) -> np.ndarray:
        """The state after ``time``, drawn exactly."""

    def transition_mean(self, x: Any, time: Any) -> np.ndarray:
        """The mean of the state after ``time``."""

    def transition_variance(self, x: Any, time: Any) -> np.ndarray:
        """The variance of the state after ``time``."""

    def transition_mgf(self, s: Any, x: Any, time: Any) -> np.ndarray:
        """E exp(s X) of the state X after ``time``; infinite where it does not exist."""

    def stationary(self) -> Any:
        """The stationary law, as a frozen distribution of ``scipy.stats``."""


def draw(
    kernel: Any, x: np.ndarray, parameters: tuple[Any, ...], *, seed: int, step: int, threads: int | None
) -> np.ndarray:
    """Call a compiled kernel on the entries of ``x`` and of parameters that broadcast with it."""
    require_seed(seed)
    require_count("step", step, least=0)
    if threads is not None:
        require_count("threads", threads)
    shape = np.broadcast_shapes(x.shape, *(np.shape(p) for p in parameters))
    state = np.ascontiguousarray(np.broadcast_to(x, shape)).reshape(-1, 1)
    flat = tuple(_flat(p, shape) for p in parameters)
    out = np.empty(state.shape)
    key = make_key(seed)
    over_blocks(lambda first, last: kernel(key, step, first, last, state, flat, out), -(-state.size // BLOCK), threads)
    return out.reshape(shape)


def _flat(parameter: Any, shape: tuple[int, ...]) -> np.ndarray:
    """One entry that serves all, or one for each."""
    array = np.asarray(parameter, np.float64)
    spread = array if array.size == 1 else np.broadcast_to(array, shape)
    return np.ascontiguousarray(spread).reshape(-1, 1)


@jit
def normal_kernel(key: Any, step: int, first: int, last: int, x: Any, parameters: Any, out: Any) -> None:
    """x -> decay x + shift + scale N(0, 1), for blocks ``first`` to ``last``."""
    decay, shift, scale = parameters
    a, b, c = decay.size > 1, shift.size > 1, scale.size > 1  # one entry for all, or one for each
    for block in range(first, last):
        s = open_stream(key, step, block)
        for i in range(block * BLOCK, min(x.size, (block + 1) * BLOCK)):
            out[i, 0] = decay[i * a, 0] * x[i, 0] + shift[i * b, 0] + scale[i * c, 0] * normal(s)


def times(time: Any, process: Any, x: Any) -> np.ndarray:
    """The length of a step: positive and finite, of a shape that goes with those of ``x`` and of the parameters."""
    lengths = positive_array("time", time)
    own = {field.name: np.shape(getattr(process, field.name)) for field in fields(process)}
    shapes = {"x": np.shape(x), "time": lengths.shape, **own}
    try:
        np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items() if shape)
        raise ValueError(f"x, time and parameters must broadcast with each other; got the shapes {listed}") from None
    return lengths


def states(x: Any, *, positive: bool = False) -> np.ndarray:
    """The state: finite; not negative for diffusions on the half-line."""
    return real_array("x", x, least=0.0) if positive else real_array("x", x)
