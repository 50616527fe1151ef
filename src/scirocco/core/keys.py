"""Random keys for JAX without hashing: one key for every purpose and number.

    key (k0, k1), purpose p, number n    ->    (k0 xor c_p, k1 + n)

Threefry is made to turn neighbouring keys into unrelated numbers, so the keys themselves need no mixing. A call of the
generator takes a fifth of a second to compile and a fold is such a call: a step that derives its keys like this has one
call, for its noise.
"""

from __future__ import annotations

from enum import IntEnum

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.types import Array, Key

_SPREAD = 0x9E3779B9  # odd: multiples of it are distinct


class Use(IntEnum):
    """What a key within a step is for."""

    NOISE = 1
    MINIBATCH = 2
    BEGIN = 3
    BLOCKS = 4
    EPOCH = 5
    GRADIENT = 6
    SIGNS = 7
    INIT = 8
    START = 9
    ACCEPT = 10
    ESTIMATE = 11
    JITTER = 12
    LIKELIHOOD = 13


def fold(key: Key, use: Use, number: Array | int = 0) -> Key:
    """The key of a purpose and a number below 2^32."""
    words = jax.random.key_data(key)
    first = words[0] ^ jnp.uint32(use * _SPREAD & 0xFFFFFFFF)
    second = words[1] + jnp.asarray(number).astype(jnp.uint32)
    return jax.random.wrap_key_data(jnp.stack([first, second]), impl="threefry2x32")


def as_key(words: Array | np.ndarray) -> Key:
    """A key from its two words."""
    return jax.random.wrap_key_data(jnp.asarray(words, jnp.uint32), impl="threefry2x32")
