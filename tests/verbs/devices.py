"""Run in a process of its own, where JAX sees four devices: chains and minibatches on several of them."""

from __future__ import annotations

import sys
import warnings

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import scirocco as sc

warnings.simplefilter("error")
ROWS = np.random.default_rng(0).normal(1.0, 1.0, (102, 2)).astype(np.float32)


def run(**more):
    target = sc.Target(lambda m: -(m @ m) / 2, lambda m, x: -((x - m) @ (x - m)) / 2, ROWS)
    settings = {"num_samples": 30, "burn_in": 5, "chains": 2, "batch_size": 10, "report": False} | more
    return sc.sample(target, sc.SGLD(1e-3), np.zeros(2, np.float32), **settings).posterior["theta"].values


def chains_on_devices_are_those_of_one():
    np.testing.assert_array_equal(run(devices=2), run(group_size=1))


def minibatches_on_devices_are_those_of_one_but_for_rounding():
    wanted = run(group_size=1, batching=sc.batches.Spread(2))
    np.testing.assert_allclose(run(devices=jax.make_mesh((2, 2), ("chains", "rows"))), wanted, atol=1e-6)


def rows_stay_where_they_are():
    """What travels between devices are sums: no more numbers than the parameters have."""
    batching = sc.batches.Spread(4)
    order = batching.order(102, 8, seed=0)
    draw = batching.bind(102, 102, 8, order, ring=True)
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    data = jax.device_put(ROWS[order], NamedSharding(mesh, PartitionSpec("rows")))

    @jax.jit
    def slope(key, data):
        batch = draw.draw(key, (), 0, data)[1]
        return batch.weights @ batch.data

    lines = slope.lower(jax.random.key(0), data).compile().as_text().splitlines()
    moved = [line for line in lines if " all-gather" in line or " all-to-all" in line or " collective-permute" in line]
    assert not moved, moved
    assert any(" all-reduce" in line for line in lines)


def what_is_refused():
    for devices, words in (
        (5, "devices must be at most 4, as many as JAX sees; got 5"),
        ("gpu", "devices must be a number, a list of jax.devices"),
        (jax.make_mesh((2,), ("x",)), 'devices must have axes called "chains" or "rows"'),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            run(devices=devices)
    with pytest.raises(ValueError, match=r"drawn by Spread\(2\); got Shuffled"):
        run(devices=jax.make_mesh((2,), ("rows",)), batching=sc.batches.Shuffled())


if __name__ == "__main__":
    assert len(jax.devices()) == 4
    globals()[sys.argv[1]]()
