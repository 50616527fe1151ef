"""For tests and for the examples in docstrings."""

import itertools
import time
from importlib.util import find_spec

import pytest

collect_ignore = [] if find_spec("pymc") else ["src/scirocco/interop/pymc.py"]  # which nothing else imports


@pytest.fixture
def ticking(monkeypatch):
    """``ticking(seconds)``: from then on the clock goes on by so much at each look at it, and compiling takes no time.

    What a budget of time allows is then a number of looks, the same on any machine.
    """
    from scirocco.core import clock  # after the hook of tests/conftest.py

    def start(seconds):
        ticks = itertools.count()
        monkeypatch.setattr(time, "perf_counter", lambda: seconds * next(ticks))
        monkeypatch.setattr(clock, "compile_seconds", lambda: 0.0)

    return start


@pytest.fixture(autouse=True)
def _budgets_of_examples(request):
    """Examples with a budget of time end alike on any machine."""
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("ticking")(0.001)
