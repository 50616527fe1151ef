"""Uniform integers below a bound from one call of JAX's generator, where ``jax.random.randint`` makes three.

Each call takes about 0.2 s to compile. The integer is floor(u top), u being the fraction whose first 64 bits are two
random words: no integer's probability is off by more than the fraction top / 2^64 of itself.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.types import Array, Key


def integers(key: Key, shape: tuple[int, ...], top: int | np.ndarray | Array) -> Array:
    """Independent uniform integers in [0, top), top being at most 2^31.

    >>> integers(jax.random.key(0), (3,), 1)
    Array([0, 0, 0], dtype=int32)
    """
    return below(jax.random.bits(key, (2, *shape), jnp.uint32), top)


def below(words: Array, top: int | np.ndarray | Array) -> Array:
    """floor(u top) for the fractions u that begin with ``words[0]``, then ``words[1]``."""
    high, low = words
    bound = top if isinstance(top, jax.Array) else np.uint32(top)
    fraction = high * bound
    carry = fraction + _upper(low, bound) < fraction
    return (_upper(high, bound) + carry).astype(jnp.int32)


def _upper(word: Array, top: Any) -> Array:
    """The upper 32 of the 64 bits of a product, by halves."""
    a, b = word >> 16, word & 0xFFFF
    c, d = top >> 16, top & 0xFFFF
    middle = (a * d & 0xFFFF) + (b * c & 0xFFFF) + (b * d >> 16)
    return a * c + (a * d >> 16) + (b * c >> 16) + (middle >> 16)
