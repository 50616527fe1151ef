"""What of a part is an argument of the compiled program, and what is part of it."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import scirocco as sc


@pytest.mark.parametrize("count", [3, np.int64(3), np.int32(3)])
def test_counts_are_part_of_the_program_whoever_made_them(count):
    sampler = sc.samplers.SGHMC(0.1, friction=np.float64(2.0))
    object.__setattr__(sampler, "inner_steps", count)  # past the check of types, which only tests have
    again = jax.jit(lambda part: jax.numpy.zeros(part.inner_steps) + part.friction)(sampler)
    np.testing.assert_array_equal(again, np.full(3, 2.0))
