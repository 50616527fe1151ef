"""Keys that are derived without hashing give streams that are uniform and unrelated to each other."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from scirocco.batches.integers import below
from scirocco.core.keys import Use, as_key, fold
from scirocco.core.seeds import Purpose, generator, key_words

COUNT = 10_000


def numbers(key, use, kind=jax.random.normal):
    """Three numbers of each of the first keys of a purpose."""
    return np.asarray(jax.vmap(lambda n: kind(fold(key, use, n), (3,)))(jnp.arange(COUNT)))


def test_neighbouring_keys_give_unrelated_numbers():
    found = []
    for seed in range(8):
        key = as_key(key_words(seed, Purpose.CHAIN_STEP, 0))
        noise, other = numbers(key, Use.NOISE), numbers(key, Use.MINIBATCH)
        words = jax.vmap(lambda n, key=key: jax.random.bits(fold(key, Use.EPOCH, n), (2,)))(jnp.arange(COUNT))
        places = np.bincount(np.asarray(jax.vmap(lambda w: below(w, 103))(words)), minlength=103)
        found += [
            stats.kstest(noise[:, 0], "norm").pvalue,
            stats.pearsonr(noise[1:, 1], noise[:-1, 1]).pvalue,  # from step to step
            stats.pearsonr(noise[:, 1], noise[:, 2]).pvalue,  # within a step
            stats.pearsonr(noise[:, 0], other[:, 0]).pvalue,  # between purposes
            stats.chisquare(places).pvalue,
        ]
    assert stats.kstest(found, "uniform").pvalue > 1e-3
    assert min(found) > 1e-4 / len(found)


def test_keys_of_chains_and_purposes_differ():
    words = {
        tuple(key_words(seed, purpose, *path))
        for seed in (0, 1) for purpose in Purpose for path in ((), (0,), (1,), (0, 0))
    }  # fmt: skip
    assert len(words) == 2 * len(Purpose) * 4
    folded = {
        tuple(np.asarray(jax.random.key_data(fold(as_key([1, 2]), use, n))).tolist()) for use in Use for n in range(3)
    }
    assert len(folded) == 3 * len(Use)
    assert generator(0, Purpose.POWER_START).random() != generator(0, Purpose.POWER_START, 0).random()
