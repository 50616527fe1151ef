"""Uniform integers below a bound from one call of JAX's generator, where ``jax.random.randint`` makes three.

Each call takes about 0.2 s to compile. The integer is floor(u top), u being the fraction whose first 64 bits are two
random words: no integer's probability is off by more than the fraction top / 2^64 of itself.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.types import Array, Key


def integers(key: Key, shape: tuple[int, ...], top: int | np.ndarray) -> Array:
    """Independent uniform integers in [0, top), top being at most 2^31.

    >>> integers(jax.random.key(0), (3,), 1)
    Array([0, 0, 0], dtype=int32)
    """
    return below(jax.random.bits(key, (2, *shape), jnp.uint32), top)


def below(words: Array, top: int | np.ndarray) -> Array:
    """floor(u top) for the fractions u that begin with ``words[0]``, then ``words[1]``."""
    high, low = words
    fraction = high * np.uint32(top)
    carry = fraction + _upper(low, top) < fraction
    return (_upper(high, top) + carry).astype(jnp.int32)


def _upper(word: Array, top: int | np.ndarray) -> Array:
    """The upper 32 of the 64 bits of a product, by halves."""
    a, b = word >> 16, word & 0xFFFF
    c, d = np.uint32(top >> 16), np.uint32(top & 0xFFFF)
    middle = (a * d & 0xFFFF) + (b * c & 0xFFFF) + (b * d >> 16)
    return a * c + (a * d >> 16) + (b * c >> 16) + (middle >> 16)
