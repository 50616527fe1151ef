"""Compiled programs are kept in the user's cache folder, so that the next process need not compile them again.

XLA's own cache does the work. A folder that the user has set for JAX (``JAX_COMPILATION_CACHE_DIR``) is left alone.
``SCIROCCO_CACHE`` names another folder, or is "off". What was used longest ago goes once a day, if the folder is too
large: JAX would look at every file of it whenever it adds one, which with some thousand files takes longer than to
compile a small program.

In memory JAX keeps a few thousand programs. On Linux that is too many: every program is a dozen maps of memory, and the
process that asks for one map more than ``vm.max_map_count`` is killed, so a loop over data sets whose targets are new
functions each time would end after about a hundred rounds. ``spare_maps`` forgets programs before that.
"""

from __future__ import annotations

import contextlib
import gc
import os
import time
import warnings
from pathlib import Path

import jax
from platformdirs import user_cache_dir

SHORTEST = 0.0  # seconds of compilation that are worth a file: a first run has dozens of small programs
LARGEST = 2**30  # bytes
DAY, STAMP = 86_400.0, "trimmed"
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
        trim(folder)
    except OSError:  # nowhere to write to
        return
    # Of a file that another process is writing now, or did not end: the program is compiled instead.
    warnings.filterwarnings("ignore", message="Error reading persistent compilation cache entry")
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST)


def trim(folder: Path) -> None:
    """Once a day, remove what was used longest ago from a folder that is too large, until half of that is left."""
    stamp = folder / STAMP
    if stamp.exists() and time.time() - stamp.stat().st_mtime < DAY:
        return
    stamp.touch()
    with os.scandir(folder) as entries:
        files = sorted((max(own.stat().st_atime, own.stat().st_mtime), own.stat().st_size, own.path) for own in entries)
    total = sum(size for _, size, _ in files)
    if total <= LARGEST:
        return
    for _, size, path in files:
        if total <= LARGEST / 2:
            break
        with contextlib.suppress(FileNotFoundError):  # another process was here
            os.unlink(path)
        total -= size


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
