"""A process forked from one that has used JAX waits for ever: the threads of JAX's backend stay with the parent.

JAX warns of it in the parent, where the warning is easily missed; what starts work of its own in the child says so.
Processes that are spawned, or forked before JAX was used, have a backend of their own.
"""

from __future__ import annotations

import os
import sys

_in_use: list[int] = []  # this process, if it was forked from one that had used JAX


def _note() -> None:
    """In a child, just after the fork: remember whether the parent had used JAX."""
    # Without the lock that JAX has for it: another thread may have held it at the fork.
    bridge = sys.modules.get("jax._src.xla_bridge")
    if getattr(bridge, "_backends", None):
        _in_use.append(os.getpid())


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_note)


def refuse_after_fork() -> None:
    """Raise in a process that was forked after JAX had been used, in which the first step would never end."""
    if _in_use:
        raise RuntimeError(
            "this process was forked from one that had used JAX, whose threads stayed behind: sampling would never "
            "end. Start processes by multiprocessing.get_context('spawn') or 'forkserver', or use JAX in the child only"
        )
