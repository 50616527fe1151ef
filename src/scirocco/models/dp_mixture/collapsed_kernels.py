"""Collapsed Gibbs: each row's cluster given all others, weights and parameters integrated out (Neal 2000, algorithm 3).

p(z_i = k | others) proportional to  (n_k + shift) f(x_i | rows of k),     new: fresh_t f(x_i)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scirocco.core.compiled import ZERO, inlined, inner, jit
from scirocco.core.random import open_stream, uniform
from scirocco.models.dp_mixture.density import densities, put


@inner
def survey(sizes: Any) -> Any:
    """Clusters with rows, the slots up to the last of them, and the first empty one."""
    occupied, top, hole = ZERO, ZERO, ZERO + sizes.size
    for k in range(sizes.size):
        if sizes[k] > 0:
            occupied += 1
            top = k + 1
        elif hole == sizes.size:
            hole = k
    return occupied, top, hole


@inlined
def drawn(s: Any, w: Any, slots: int) -> int:
    """A slot with probability proportional to its weight."""
    total = 0.0
    for k in range(slots):
        total += w[k]
    level, height, last = uniform(s) * total, 0.0, ZERO
    for k in range(slots):
        if w[k] > 0.0:
            last = k
            height += w[k]
            if height > level:
                break
    return last


@jit
def sweep(
    key: Any, step: int, begin: int, end: int, rows: Any, labels: Any, law: Any, tables: Any, urn: Any
) -> int:  # fmt: skip
    """Rows ``begin`` to ``end``, one after the other; those with the label -1 come in for the first time.

    The row that was reached: an earlier one if no slot is left for a new cluster.
    """
    s = open_stream(key, step, 0)
    sizes = tables.sizes
    w = np.empty(sizes.size)
    occupied, top, hole = survey(sizes)
    for i in range(begin, end):
        if hole == sizes.size:
            return i
        old = labels[i]
        if old >= 0:
            put(rows, i, old, -1, tables, law)
            if sizes[old] == 0:
                occupied -= 1
                hole = min(hole, np.int64(old))
        slots = max(top, hole + 1)
        for k in range(slots):
            w[k] = sizes[k] + urn.shift if sizes[k] > 0 else 0.0
        w[hole] = urn.fresh[occupied]
        densities(rows, i, law, tables, slots, w)
        new = drawn(s, w, slots)
        put(rows, i, new, 1, tables, law)
        labels[i] = new
        if new == hole:
            occupied += 1
            top = max(top, hole + 1)
            while hole < sizes.size and sizes[hole] > 0:
                hole += 1
    return end
