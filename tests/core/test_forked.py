"""A process forked after JAX was used refuses to work instead of waiting for ever."""

from __future__ import annotations

import os
import subprocess
import sys
from textwrap import dedent

import pytest

CHILD = """
import os, warnings
import jax
from scirocco.core.forked import refuse_after_fork

refuse_after_fork()  # nothing was forked
if {used}:
    jax.numpy.ones(3).sum().block_until_ready()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # JAX's own, in the parent
    child = os.fork()
if child == 0:
    try:
        refuse_after_fork()
    except RuntimeError as error:
        os.write(1, str(error).encode())
    os._exit(0)
os.waitpid(child, 0)
refuse_after_fork()  # the parent goes on
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("used", [True, False])
def test_a_child_forked_after_use_refuses(used):
    done = subprocess.run(
        [sys.executable, "-c", dedent(CHILD).format(used=used)], capture_output=True, text=True, check=True
    )
    found = done.stdout
    assert ("forked from one that had used JAX" in found) is used
    assert ("multiprocessing.get_context('spawn')" in found) is used


LATE = """
import os, warnings
import jax

def said():
    import scirocco as sc
    try:
        sc.kernel(None, None, batch_size=1)
    except RuntimeError as error:
        return str(error)
    except TypeError:
        return "goes on"

if {used}:
    jax.numpy.ones(3).sum().block_until_ready()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # JAX's own, in the parent
    child = os.fork()
if child == 0:
    if not {used}:
        jax.numpy.ones(3).sum().block_until_ready()  # a backend of its own
    os.write(1, said().encode())
    os._exit(0)
os.waitpid(child, 0)
assert said() == "goes on"
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no other system says how many threads there are")
@pytest.mark.parametrize("used", [True, False])
def test_a_child_that_loads_the_library_after_the_fork_refuses(used):
    done = subprocess.run(
        [sys.executable, "-c", dedent(LATE).format(used=used)], capture_output=True, text=True, check=True
    )
    if used:
        assert "forked from one that had used JAX" in done.stdout
    else:
        assert done.stdout == "goes on"
