"""Compiled programs are kept in the user's cache folder, so that the next process need not compile them again.

XLA's own cache does the work. A folder that the user has set for JAX (``JAX_COMPILATION_CACHE_DIR``) is left alone.
``SCIROCCO_CACHE`` names another folder, or is "off".
"""

from __future__ import annotations

import os
from pathlib import Path

import jax
from platformdirs import user_cache_dir

SHORTEST = 0.0  # seconds of compilation that are worth a file: a first run has dozens of small programs
LARGEST = 2**30  # bytes; what was used longest ago goes first


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
