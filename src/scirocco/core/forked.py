"""A process forked from one that has used JAX waits for ever: the threads of JAX's backend stay with the parent.

JAX warns of it in the parent, where the warning is easily missed; what starts work of its own in the child says so.
Processes that are spawned, or forked before JAX was used, have a backend of their own.

A child that loads this module only after the fork finds JAX's backends as its parent left them, and says so if it has
one thread: a backend in use has others. That is Linux's to say; and a child that started threads before is not noticed.
"""

from __future__ import annotations

import os
import sys

_in_use: list[int] = []  # this process, if it was forked from one that had used JAX


def _note() -> None:
    """In a child, just after the fork or at the first look: remember whether the parent had used JAX."""
    # Without the lock that JAX has for it: another thread may have held it at the fork.
    bridge = sys.modules.get("jax._src.xla_bridge")
    if getattr(bridge, "_backends", None):
        _in_use.append(os.getpid())


def _one_thread() -> bool:
    """Whether this process has one thread, those of libraries counted; False where nobody says."""
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_note)
    if _one_thread():
        _note()


def refuse_after_fork() -> None:
    """Raise in a process that was forked after JAX had been used, in which the first step would never end."""
    if _in_use:
        raise RuntimeError(
            "this process was forked from one that had used JAX, whose threads stayed behind: sampling would never "
            "end. Start processes by multiprocessing.get_context('spawn') or 'forkserver', or use JAX in the child only"
        )
