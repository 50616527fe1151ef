"""Streams of random bits that are functions of (seed, path, step, block).

A key is four words made by NumPy's ``SeedSequence`` from the seed and a path of whole numbers (the chain, the
purpose). A kernel opens a stream for a step and a block by hashing both into the key, and draws from it with
xoshiro256++ (Blackman and Vigna 2021). Its 256 bits of state make overlapping streams impossible in practice, however
many steps and blocks a run has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import uint64

from scirocco.core.compiled import inlined


@inlined
def _mixed(z: Any) -> Any:
    """The finaliser of SplitMix64: a bijection of the 64-bit words that scatters neighbours."""
    z = (z ^ (z >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> uint64(27))) * uint64(0x94D049BB133111EB)
    return z ^ (z >> uint64(31))


@inlined
def open_stream(key: Any, step: Any, block: Any) -> Any:
    """The state of the stream of a step and a block."""
    stream = np.empty(4, np.uint64)
    for i in range(4):
        word = _mixed(key[i] + uint64(step) * uint64(0x9E3779B97F4A7C15))
        stream[i] = _mixed(word + uint64(block) * uint64(0xD1342543DE82EF95) + uint64(i))
    return stream


@inlined
def next_word(s: Any) -> Any:
    """64 random bits."""
    total = s[0] + s[3]
    word = ((total << uint64(23)) | (total >> uint64(41))) + s[0]
    shifted = s[1] << uint64(17)
    s[2] ^= s[0]
    s[3] ^= s[1]
    s[1] ^= s[2]
    s[0] ^= s[3]
    s[2] ^= shifted
    s[3] = (s[3] << uint64(45)) | (s[3] >> uint64(19))
    return word


@inlined
def below(s: Any, bound: Any) -> Any:
    """A whole number from 0 to ``bound`` - 1, all equally likely; ``bound`` up to 2^32."""
    # Multiply and shift; a product whose low half falls into the uneven rest is drawn again (Lemire 2019).
    bound = uint64(bound)
    product = (next_word(s) >> uint64(32)) * bound
    low = product & uint64(0xFFFFFFFF)
    if low < bound:
        rest = uint64(0x100000000) % bound
        while low < rest:
            product = (next_word(s) >> uint64(32)) * bound
            low = product & uint64(0xFFFFFFFF)
    return np.int64(product >> uint64(32))
