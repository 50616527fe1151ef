"""Types and shapes of the inner modules are checked at run time, and equal programs are compiled once a session."""

import ctypes
import gc
import hashlib
import importlib
import json
import mmap
import os
import pickle
import signal
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

from at_once import AtOnce

# Who wants no byte code beside the sources has it elsewhere: without it a process compiles for seconds what it imports.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode, os.environ["PYTHONDONTWRITEBYTECODE"] = False, ""
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="scirocco-bytecode-")

# Set before the workers of pytest-xdist start, so that they share it: most of the time of these tests is compilation.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", tempfile.mkdtemp(prefix="scirocco-tests-"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
# Every core has a worker already: threads of linear algebra would wait for each other and burn what the other has. A
# process without workers has imported NumPy already, for a plugin of pytest: there only its children have one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def known(flag):
    """Whether this XLA has a flag: it ends the process at one that it does not know."""
    for path in Path(find_spec("jaxlib").origin).parent.glob("*.so"):
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as code:
            if code.find(flag.encode()) >= 0:
                return True
    return False


# Half the time of compiling. `make test-all` and `make test-quick` compile as users do, `XLA_FLAGS= make test` too.
if "XLA_FLAGS" not in os.environ:
    QUICKER = {"xla_cpu_use_fusion_emitters": "false", "xla_cpu_parallel_codegen_split_count": "1"}
    found = [f"--{flag}={value}" for flag, value in QUICKER.items() if known(flag)]
    os.environ["XLA_FLAGS"] = " ".join(["--xla_backend_optimization_level=0", *found])

# Numba does not see that a function in another file has changed: the cache is that of exactly these kernels.
SOURCES = [path.read_bytes() for path in sorted((Path(__file__).parent.parent / "src").rglob("*.py"))]
KERNELS = [text for text in SOURCES if b"numba" in text or b"scirocco.core.compiled" in text]
DIGEST = hashlib.sha256(b"".join(KERNELS)).hexdigest()[:16]
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"scirocco-numba-{DIGEST}"))

# Not the entry points, whose own words for wrong input are tested.
CHECKED = ["integrators", "samplers", "estimators", "batches.draws", "run.moments", "tuning", "gradient.program"]
install_import_hook([f"scirocco.{module}" for module in CHECKED], "beartype.beartype")

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
GENERATORS = {}


def pytest_collection_modifyitems(items):
    """Remember where the generators of modules stand once these are imported."""
    from numpy.random import Generator

    for item in items:
        module = getattr(item, "module", None)
        if isinstance(item, pytest.Function) and module not in GENERATORS:
            found = [value for value in vars(module).values() if isinstance(value, Generator)]
            GENERATORS[module] = [(generator, generator.bit_generator.state) for generator in found]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """A test has the same data whichever ran before it in this process: pytest-xdist gives them to who is idle."""
    for generator, state in GENERATORS.get(getattr(item, "module", None), ()):
        generator.bit_generator.state = state


# before the test too, whose fixtures may have drawn or have been there
pytest_runtest_call = pytest_runtest_setup


def pytest_collection_finish():
    """What was imported stays: collecting garbage need not look at it again, half a second each time.

    Nor so often: tracing makes many objects that live on, and few cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 10)


@pytest.fixture(autouse=True, scope="module")
def _spare_memory():
    """Forget compiled programs long before the process has as many memory maps as Linux allows: they are gigabytes."""
    from scirocco.core import cache  # after the hook

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "SHARE", 0.15)
        if cache.spare_maps() and sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)  # what was freed is between what was not


@pytest.fixture(autouse=True)
def _ctrl_c_raises():
    """As in a terminal; a process that was started in the background ignores it, and so would its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def compiled():
    """The programs that were compiled since."""
    import jax

    events = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: events.append(event) if event.endswith("backend_compile_duration") else None
    )
    return events


class Sending(ThreadPoolExecutor):
    """Two workers who get copies of what they are sent, as other processes do, and send copies back."""

    def submit(self, function, *given):
        return super().submit(self.copied, pickle.dumps((function, given)))

    @staticmethod
    def copied(sent):
        function, given = pickle.loads(sent)
        return pickle.loads(pickle.dumps(function(*given)))


@pytest.fixture
def sending():
    with Sending(2) as executor:
        yield executor


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes of Dask, each with its nanny, which begins another when one dies."""
    distributed = pytest.importorskip("distributed", reason="it is in the extra cluster")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as workers,
        distributed.Client(workers) as client,
    ):
        yield client


@pytest.fixture
def at_once():
    return AtOnce()


@pytest.fixture
def load(monkeypatch):
    """Import an experiment by name; they import each other by name, as scripts do."""
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module


@pytest.fixture
def play(load, monkeypatch, capsys, tmp_path):
    """Run an experiment's ``main`` in a mode and check its report: (module, results, claims)."""

    def run(name, mode="short"):
        module = load(name)
        found = module.run(mode)
        monkeypatch.setattr(module, "run", lambda mode: found)
        module.main(["--mode", mode, "--output", str(tmp_path / "pictures")])
        printed, claims = capsys.readouterr().out, module.check(found)
        assert module.table(found) in printed
        for claim in claims:
            assert f"[{claim.outcome}] {claim.claim}\n        {claim.evidence}\n" in printed
        picture = tmp_path / "pictures" / f"{name}.png"
        assert str(picture) in printed
        stored = json.loads(picture.with_suffix(".json").read_text())
        assert [tuple(claim.values()) for claim in stored["claims"]] == [tuple(claim) for claim in claims]
        assert list(stored["settings"]) == list(module.MODES[mode])
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size > 20_000
        return module, found, claims

    return run
