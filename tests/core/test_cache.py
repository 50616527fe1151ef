"""Programs in memory are forgotten before Linux kills the process for its maps of memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.core import cache


def number_of_maps() -> int:
    return cache.MAPS.read_bytes().count(b"\n")


def sampled(scale: float) -> np.ndarray:
    """Draws of a target whose functions no other target has."""
    target = sc.Target(lambda m: -(m**2) / 2, lambda m, x: -((x - m) ** 2) / scale, np.arange(10.0, dtype=np.float32))
    run = sc.sample(
        target,
        sc.SGLD(step_size=0.01),
        jnp.array(0.0),
        num_samples=5,
        burn_in=0,
        batch_size=5,
        chains=1,
        report=False,
    )
    return run.posterior["theta"].values


@pytest.mark.skipif(not cache.MAPS.exists(), reason="the system does not tell its maps of memory")
def test_programs_are_forgotten_before_maps_run_out(monkeypatch, tmp_path):
    first = sampled(2.0)
    before = number_of_maps()
    sampled(2.0)
    each = number_of_maps() - before
    assert each > 5  # what a new target costs, or there would be nothing to test

    limit = tmp_path / "most"
    limit.write_text(str(int((before + 2 * each) / cache.SHARE)))
    monkeypatch.setattr(cache, "MOST", limit)
    for _ in range(5):
        again = sampled(2.0)
        assert number_of_maps() < before + 4 * each
    np.testing.assert_array_equal(first, again)


def test_without_a_limit_nothing_is_forgotten(monkeypatch, tmp_path):
    monkeypatch.setattr(cache, "MOST", tmp_path / "none")
    assert not cache.spare_maps()


def test_what_was_used_longest_ago_is_removed_once_a_day(monkeypatch, tmp_path):
    monkeypatch.setattr(cache, "LARGEST", 250)
    now = time.time()
    for age in range(5):  # used so many days ago, whatever it was written
        (tmp_path / f"{age}-cache").write_bytes(bytes(100))
        os.utime(tmp_path / f"{age}-cache", (now - age * cache.DAY, now - 9 * cache.DAY))

    def left():
        return sorted(path.name for path in tmp_path.glob("*-cache"))

    cache.trim(tmp_path)
    assert left() == ["0-cache", "1-cache"]
    (tmp_path / "5-cache").write_bytes(bytes(100))
    cache.trim(tmp_path)  # it was done today
    assert left() == ["0-cache", "1-cache", "5-cache"]
    os.utime(tmp_path / "trimmed", (now - 2 * cache.DAY,) * 2)
    cache.trim(tmp_path)
    assert left() == ["0-cache", "5-cache"]
    cache.trim(tmp_path / "none")


def test_programs_are_kept_for_the_next_process_without_a_limit_that_reads_them_all():
    script = "import scirocco.core.program, jax; print(jax.config.jax_compilation_cache_max_size)"
    unset = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    found = subprocess.run([sys.executable, "-c", script], env=unset, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "-1"
