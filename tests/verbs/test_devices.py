"""Several accelerators, simulated: JAX sees four devices only in a process that is begun so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "check",
    [
        "rows_stay_where_they_are",
        "chains_on_devices_are_those_of_one",
        pytest.param("minibatches_on_devices_are_those_of_one_but_for_rounding", marks=pytest.mark.slow),
        pytest.param("what_is_refused", marks=pytest.mark.slow),
    ],
)
def test_four_devices(check):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    script = str(Path(__file__).with_name("devices.py"))
    environment = os.environ | {"XLA_FLAGS": flags}
    done = subprocess.run([sys.executable, script, check], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
