"""How long kernels take to compile is counted, and left out of a budget of time."""

import gc
import threading

import numba
import numpy as np
import pytest

from scirocco.core.clock import Clock, compile_seconds
from scirocco.core.random import make_key, open_stream, uniform


def fresh_kernel():
    """A function that was never compiled."""
    return numba.njit(lambda x, n: x[0] * n)


def test_compiling_is_counted_and_running_is_not():
    kernel, before = fresh_kernel(), compile_seconds()
    kernel(np.ones(3), 2)
    compiled = compile_seconds()
    assert compiled > before
    kernel(np.ones(3), 2)
    assert compile_seconds() == compiled
    kernel(np.ones(3, np.float32), 2)  # other types: another version
    assert compile_seconds() > compiled


def test_threads_that_wait_for_a_kernel_count_once():
    kernel, before = fresh_kernel(), compile_seconds()
    threads = [threading.Thread(target=kernel, args=(np.ones(3), 2)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kernel.signatures) == 1
    after = compile_seconds()
    assert after > before
    kernel(np.ones(3), 2)
    assert compile_seconds() == after


def test_what_fails_to_compile_leaves_the_clock_and_the_collector_in_order():
    wrong, before = numba.njit(lambda x: x + "a"), compile_seconds()
    assert gc.isenabled()
    with pytest.raises(numba.TypingError):
        wrong(1)
    after = compile_seconds()
    assert gc.isenabled()
    assert after > before
    fresh_kernel()(np.ones(3), 2)
    assert gc.isenabled()
    assert compile_seconds() > after


def test_a_collector_that_is_off_stays_off():
    gc.disable()
    try:
        fresh_kernel()(np.ones(3), 2)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_compiling_is_no_part_of_a_budget():
    clock = Clock(budget=100.0, used=3.0)
    before = compile_seconds()
    fresh_kernel()(np.ones(3), 2)
    taken = compile_seconds() - before
    assert taken > 0.01
    assert 3.0 <= clock.used < 3.0 + 0.5 * taken
    assert clock.share == pytest.approx(0.03, abs=0.01)
    assert not clock.over
    assert Clock(budget=3.0, used=3.0).over
    assert not Clock(used=1e9).over


def test_inner_functions_can_be_called_from_python():
    stream = open_stream(make_key(0), 0, 0)
    assert 0 < uniform(stream) < 1
