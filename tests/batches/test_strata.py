"""Strata minibatches: unbiased, every row of a stratum equally often, and checked."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.batches import Strata

STRATA = np.array([0] * 20 + [1] * 6 + [2] * 2)
VALUES = np.arange(28, dtype=np.float32) ** 2
TARGET = sc.Target(lambda m: jnp.zeros(()), lambda m, x: m * x, VALUES)


def kernel(rows):
    return sc.kernel(TARGET, sc.SGLD(0.1), batch_size=sum(rows), batching=Strata(STRATA, rows))


def test_the_layout_holds_each_stratum_as_a_ring():
    order = Strata(STRATA, (4, 3, 2)).order(len(STRATA), 9, seed=0)
    assert [len(part) for part in np.split(order, [23, 31])] == [20 + 3, 6 + 2, 2 + 1]
    for part, rows, members in zip(
        np.split(order, [23, 31]), (4, 3, 2), (range(20), range(20, 26), (26, 27)), strict=True
    ):
        assert sorted(part[: len(members)]) == list(members)
        np.testing.assert_array_equal(part[len(members) :], part[: rows - 1])


def test_draws_are_unbiased_and_even():
    bound = kernel((4, 3, 2))

    @jax.jit
    @jax.vmap
    def drawn(key):
        _, batch = bound.draw.draw(key, (), jnp.int32(0), bound.data_at(0))
        return batch.data, batch.weights

    data, weights = (np.asarray(a) for a in drawn(jax.random.split(jax.random.key(0), 20_000)))
    assert np.all(np.sum(data >= 26**2, axis=1) == 2)  # the stratum of two is always there
    counts = np.array([np.sum(data == v) for v in VALUES]) / len(data)
    np.testing.assert_allclose(counts, np.repeat([4 / 20, 3 / 6, 1.0], [20, 6, 2]), atol=0.015)
    estimates = np.sum(data * weights, axis=1)
    assert estimates.mean() == pytest.approx(VALUES.sum(), abs=4 * estimates.std() / np.sqrt(len(estimates)))
    assert estimates.std() > 0


def test_wrong_strata():
    for strata, rows, words in (
        (STRATA, (4, 3), "labels must lie between 0 and 1"),
        (STRATA, (4, 3, 3), r"rows must lie between 1 and the sizes of the strata, \[20, 6, 2\]"),
        (STRATA[:-1], (4, 3, 2), "one for each of the 28 examples"),
        (STRATA * 1.0, (4, 3, 2), "labels must be whole numbers"),
    ):
        with pytest.raises(ValueError, match=words):
            sc.kernel(TARGET, sc.SGLD(0.1), batch_size=sum(rows), batching=Strata(strata, rows))
    with pytest.raises(ValueError, match="rows must sum to batch_size, 8; got 9"):
        sc.kernel(TARGET, sc.SGLD(0.1), batch_size=8, batching=Strata(STRATA, (4, 3, 2)))
