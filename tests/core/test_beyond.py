"""Entries beyond the end of an array are noticed where a value depends on them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scirocco.core.beyond import beyond

TABLE, REGION = jnp.array([1.0, 2.0, 3.0]), np.array([0, 1, 2], np.int32)
ROWS = jnp.array([0, 2, 3, 1])
MASK = jnp.array([1.0, 1.0, 0.0, 1.0])


def rows_of(function):
    return jax.vmap(function, in_axes=(None, 0))


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (lambda p, k: p[k], [2]),
        (lambda p, k: p[jnp.asarray(REGION)[k]], [2]),  # by a table of codes
        (lambda p, k: jax.lax.cond(k > 1, lambda: p[k], lambda: 0.0), [2]),
        (lambda p, k: jax.lax.fori_loop(0, 2, lambda _, total: total + p[k], 0.0), [2]),
        (lambda p, k: jax.nn.relu(jax.jit(lambda q: q[k])(p)), [2]),
        (lambda p, k: jax.lax.custom_root(lambda x: x - p[k], 0.0, lambda f, x: p[k], lambda g, y: y / g(1.0)), [2]),
        (lambda p, k: jax.lax.custom_linear_solve(lambda x: x * p[k], 1.0, lambda f, b: b / p[k], symmetric=True), [2]),
        (lambda p, k: jnp.where(k < 3, p[k], 0.0), []),
        (lambda p, k: MASK[jnp.clip(k, 0, 2)] * p[jnp.clip(k, 0, 2)], []),
        (lambda p, k: p.at[k].get(mode="fill", fill_value=0.0), []),
        (lambda p, k: p[k - 3], []),  # from the end
        (lambda p, k: p.sum() * k, []),
    ],
    ids=["index", "table", "cond", "loop", "jit", "root", "solve", "where", "clip", "fill", "from the end", "none"],
)
def test_values_that_depend_on_entries_that_are_not_there(function, found):
    values, strange = jax.jit(lambda p, k: beyond(rows_of(function), p, k))(TABLE, ROWS)
    np.testing.assert_array_equal(values, rows_of(function)(TABLE, ROWS))
    assert np.flatnonzero(strange).tolist() == found


def test_masked_entries_do_no_harm():
    _, strange = jax.jit(lambda p: beyond(lambda p: MASK * p[ROWS], p))(TABLE)
    assert not strange.any()
