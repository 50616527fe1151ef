"""Allocations given weights and components: rows are independent, so that they run side by side.

    u_i ~ U(0, pi_{z_i}),    p(z_i = k) proportional to [pi_k > u_i] f(x_i | theta_k)

With slices u only finitely many of infinitely many components matter: those above the smallest of them (Walker 2007).
Where the number of components is finite, there are none, and p(z_i = k) is proportional to pi_k f(x_i | theta_k).
Components are proportions of features. A Poisson one has a total rate L too, and the factor exp(-L) L^x for a row with
x events; ``rates`` are 0 for Dirichlet families. Columns of numbers have profiles of the parameters drawn.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from scirocco.core.compiled import inner, jit
from scirocco.core.random import open_stream, uniform
from scirocco.models.dp_mixture.collapsed_kernels import drawn
from scirocco.models.dp_mixture.density import FOLD, ROWS, put
from scirocco.models.dp_mixture.numeric import by_numbers


@jit
def draw_levels(key: Any, step: int, first: int, last: int, chosen: Any, labels: Any, weights: Any, u: Any) -> None:
    """Slices of the ``chosen`` rows, blocks ``first`` to ``last`` of them; 0 for rows without a cluster."""
    for block in range(first, last):
        s = open_stream(key, step, block)
        for q in range(block * ROWS, min(u.size, (block + 1) * ROWS)):
            k = labels[chosen[q]]
            u[q] = uniform(s) * weights[k] if k >= 0 else 0.0


@inner
def products(rows: Any, i: int, components: Any, w: Any) -> None:
    """``w[k]`` times the density of row i in component k, over a common number."""
    starts, words, numbers = rows[:3]
    factors = 0
    for e in range(starts[i], starts[i + 1]):
        f = words[e]
        for _ in range(numbers[e]):
            for k in range(w.size):
                w[k] *= components[f, k]
            factors += 1
            if factors == FOLD:
                factors = 0
                largest = w.max()
                if largest > 0.0:
                    w /= largest


@inner
def _by_totals(rows: Any, i: int, rates: Any, w: Any) -> None:
    """``w[k]`` times exp(-L) L^x, over a common number."""
    starts, _, numbers = rows[:3]
    events, largest = 0.0, -np.inf
    for e in range(starts[i], starts[i + 1]):
        events += numbers[e]
    for k in range(w.size):
        if w[k] > 0.0:
            largest = max(largest, events * math.log(rates[k]) - rates[k])
    for k in range(w.size):
        if w[k] > 0.0:
            w[k] *= math.exp(events * math.log(rates[k]) - rates[k] - largest)


@jit
def allocate(
    key: Any, step: int, first: int, last: int, chosen: Any, rows: Any, labels: Any, components: Any, rates: Any,
    columns: Any, profiles: Any, weights: Any, u: Any, sliced: bool,
) -> None:  # fmt: skip
    """New labels of the ``chosen`` rows, blocks ``first`` to ``last`` of them."""
    w = np.empty(weights.size)
    for block in range(first, last):
        s = open_stream(key, step, block)
        for q in range(block * ROWS, min(chosen.size, (block + 1) * ROWS)):
            i = chosen[q]
            for k in range(w.size):
                share = weights[k] if not sliced or u[q] == 0.0 else 1.0
                w[k] = share if weights[k] > u[q] else 0.0
            if rates[0] > 0.0:
                _by_totals(rows, i, rates, w)
            if len(rows) > 3:
                by_numbers(rows[3], i, columns, profiles, w.size, w)
            products(rows, i, components, w)
            if w.sum() > 0.0:  # all densities may underflow for a row that has no cluster yet
                labels[i] = drawn(s, w, w.size)
            elif labels[i] < 0:
                labels[i] = np.argmax(weights)


@jit
def move_rows(rows: Any, chosen: Any, old: Any, labels: Any, tables: Any, law: Any) -> None:
    """The ``chosen`` rows had the labels ``old``: the statistics follow."""
    for q in range(chosen.size):
        i = chosen[q]
        if old[q] != labels[i]:
            if old[q] >= 0:
                put(rows, i, old[q], -1, tables, law)
            put(rows, i, labels[i], 1, tables, law)
