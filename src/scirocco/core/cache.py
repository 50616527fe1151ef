"""Compiled programs are kept in the user's cache folder, so that the next process need not compile them again.

XLA's own cache does the work. A folder that the user has set for JAX (``JAX_COMPILATION_CACHE_DIR``) is left alone.
``SCIROCCO_CACHE`` names another folder, or is "off".

In memory JAX keeps a few thousand programs. On Linux that is too many: every program is a dozen maps of memory, and the
process that asks for one map more than ``vm.max_map_count`` is killed, so a loop over data sets whose targets are new
functions each time would end after about a hundred rounds. ``spare_maps`` forgets programs before that.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import jax
from platformdirs import user_cache_dir

SHORTEST = 0.0  # seconds of compilation that are worth a file: a first run has dozens of small programs
LARGEST = 2**30  # bytes; what was used longest ago goes first
MAPS, MOST = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
SHARE = 0.5  # of all maps that the process may have: the rest is for one run and for others in the process


def keep_programs() -> None:
    """Turn the cache on, unless it is on already or not wanted."""
    wanted = os.environ.get("SCIROCCO_CACHE", "")
    if wanted.lower() == "off" or jax.config.jax_compilation_cache_dir is not None:  # type: ignore[attr-defined]
        return
    folder = Path(wanted or user_cache_dir("scirocco", appauthor=False)) / "xla"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # nowhere to write to
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST)
    jax.config.update("jax_compilation_cache_max_size", LARGEST)


def spare_maps() -> bool:
    """Forget all compiled programs if their maps of memory become too many; says whether it did."""
    try:
        most = int(MOST.read_text())
        held = MAPS.read_bytes().count(b"\n")
    except OSError:  # no such limit here
        return False
    if held < SHARE * most:
        return False
    jax.clear_caches()
    gc.collect()  # programs and what they were made of refer to each other
    return True
