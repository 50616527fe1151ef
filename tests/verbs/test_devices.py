"""Several accelerators, simulated: JAX sees four devices only in a process that is begun so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_chains_and_minibatches_on_four_devices():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    script = Path(__file__).with_name("devices.py")
    done = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | {"XLA_FLAGS": flags},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
