"""Programs in memory are forgotten before Linux kills the process for its maps of memory."""

from __future__ import annotations

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
