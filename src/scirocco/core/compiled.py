"""How the Numba engine compiles and how it uses threads.

Kernels release the interpreter's lock and work on a range of blocks; ``over_blocks`` spreads the ranges over threads.
Each block draws from a random stream of its own (``scirocco.core.random``), so the result does not depend on the number
of threads. Machine code is cached by Numba beside the package, as Python does with its byte code.

A kernel compiles when it is first called with new types, for seconds, which ``core.clock`` is told of: they are no part
of a budget of time. Nothing compiles side by side: Numba and LLVM have one lock each.
"""

from __future__ import annotations

import functools
import gc
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from numba.core.event import Event, Listener, register
from numba.core.registry import CPUDispatcher

from scirocco.core.clock import add_compile_seconds


def _compiler(*, cache: bool = True, **options: Any) -> Any:
    """A decorator: no interpreter lock, cached, division by zero gives infinity."""
    options |= {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(cache=cache, **options)(function)
        except RuntimeError:  # nowhere to write a cache to
            return numba.njit(**options)(function)

    return decorate


class _Inner(CPUDispatcher):  # type: ignore[misc]
    """A function without an entry for Python, which for a small one takes much of the time to compile."""

    def __call__(self, *args: Any) -> Any:
        """From Python after all: by a copy that has an entry."""
        return _entered(self.py_func)(*args)


@functools.cache
def _entered(function: Callable[..., Any]) -> Any:
    return numba.njit(nogil=True, error_model="numpy")(function)


def _inner_compiler(**options: Any) -> Any:
    compiler = _compiler(no_cpython_wrapper=True, **options)

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = compiler(function)
        if isinstance(dispatcher, CPUDispatcher):  # a plain function if Numba is switched off
            dispatcher.__class__ = _Inner
        return dispatcher

    return decorate


jit = _compiler()
"""Compile a function for the Numba engine."""

uncached = _compiler(cache=False)
"""The same, for functions that are not the same in every process."""

inner = _inner_compiler()
"""The same, for functions that compiled code calls."""

inlined = _inner_compiler(forceinline=True)
"""The same, for small functions inside loops: a call would keep the random stream in memory, at half the speed."""

fast_sums = _compiler(fastmath=True)
"""The same, for loops whose sums may be taken in any order, which lets them run in vector instructions."""

ZERO: Any = np.int64(0)
"""A counter's start: a plain 0 is a type of its own, for which all that the counter is passed to would compile too."""


class _Clock(Listener):  # type: ignore[misc]
    """Counts the time spent compiling; Numba's lock lets in one thread at a time."""

    def __init__(self) -> None:
        self.began, self.depth, self.collecting = 0.0, 0, False

    def on_start(self, event: Event) -> None:
        """A function, or one that it calls."""
        if not self.depth:
            # Compiling makes objects by the million, and every search for garbage among them goes through all that
            # the process has imported: a tenth of the time.
            self.collecting = gc.isenabled()
            gc.disable()
            self.began = time.perf_counter()
        self.depth += 1

    def on_end(self, event: Event) -> None:
        """Whether it succeeded or not."""
        self.depth -= 1
        if not self.depth:
            add_compile_seconds(time.perf_counter() - self.began)
            if self.collecting:
                gc.enable()


register("numba:compile", _Clock())

BLOCK = 1024  # entries that share a random stream: their scratch space stays in the first caches

_pool: ThreadPoolExecutor | None = None


def available_threads() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def over_blocks(work: Callable[[int, int], None], blocks: int, threads: int | None = None) -> None:
    """Call ``work(first, last)`` on ranges that cover all blocks, in as many threads as there are cores."""
    wanted = min(blocks, available_threads() if threads is None else threads)
    if wanted <= 1:
        work(0, blocks)
        return
    borders = [blocks * k // wanted for k in range(wanted + 1)]
    others = [_shared_pool().submit(work, borders[k], borders[k + 1]) for k in range(1, wanted)]
    try:
        work(0, borders[1])
    finally:
        for other in others:
            other.result()


def _shared_pool() -> ThreadPoolExecutor:
    global _pool  # noqa: PLW0603 - one pool for the life of the process
    if _pool is None:
        _pool = ThreadPoolExecutor(max(1, available_threads()), thread_name_prefix="scirocco")
    return _pool


def _forget_pool() -> None:
    global _pool  # noqa: PLW0603
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)  # threads do not survive a fork
