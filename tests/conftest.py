"""Types and shapes of the inner modules are checked at run time, and equal programs are compiled once a session."""

import hashlib
import os
import tempfile
from pathlib import Path

from jaxtyping import install_import_hook

# Set before the workers of pytest-xdist start, so that they share it: most of the time of these tests is compilation.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", tempfile.mkdtemp(prefix="scirocco-tests-"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")

# Numba does not see that a function in another file has changed: the cache is that of exactly these sources.
SOURCES = sorted((Path(__file__).parent.parent / "src").rglob("*.py"))
DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()[:16]
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"scirocco-numba-{DIGEST}"))

# Not the entry points, whose own words for wrong input are tested.
CHECKED = ["integrators", "samplers", "estimators", "batches.draws", "run.moments", "tuning"]
install_import_hook([f"scirocco.{module}" for module in CHECKED], "beartype.beartype")
