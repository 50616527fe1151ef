"""How the Numba engine compiles and how it uses threads.

Kernels release the interpreter's lock and work on a range of blocks; ``over_blocks`` spreads the ranges over threads.
Each block draws from a random stream of its own (``scirocco.random``), so the result does not depend on the number of
threads. Machine code is cached by Numba beside the package, as Python does with its byte code.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba


def _compiler(**options: Any) -> Any:
    """A decorator: no interpreter lock, cached, division by zero gives infinity."""

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(nogil=True, cache=True, error_model="numpy", **options)(function)
        except RuntimeError:  # nowhere to write a cache to
            return numba.njit(nogil=True, error_model="numpy", **options)(function)

    return decorate


jit = _compiler()
"""Compile a function for the Numba engine."""

inlined = _compiler(forceinline=True)
"""The same, for small functions inside loops: a call would keep the random stream in memory, at half the speed."""

fast_sums = _compiler(fastmath=True)
"""The same, for loops whose sums may be taken in any order, which lets them run in vector instructions."""

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
