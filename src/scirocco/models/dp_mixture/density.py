"""The density of a row in a cluster whose parameters are integrated out: one kernel for all conjugate components.

With n_f the counts of the cluster's features, N_g their totals by group, m its rows, (a)_x = a (a + 1) ... (a + x - 1),

    Dirichlet    prod_f (base_f + n_f)_{x_f} / prod_g (B_g + N_g)_{x_g}
    Poisson      r^(N + B) L^x prod_f (base_f + n_f)_{x_f} / (N + B)^x,     r = (rate + m) / (rate + m + 1),
                                                                            L = (N + B) / (rate + m + 1)

B is the sum of ``base`` over a group. Counts of a multinomial are one group; a table of categorical columns has one for
each column. Rows are sequences of events: no multinomial coefficients, and no factorials of a Poisson law. Columns of
numbers (``numeric``) come beside: their densities multiply those of the features.

Weights of all clusters are multiplied factor by factor, side by side; every ``FOLD`` factors they are divided by the
largest, so that long rows neither underflow nor need a logarithm for each cluster.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from scirocco.core.compiled import inner, jit, over_blocks
from scirocco.corpora.documents import Documents
from scirocco.models.dp_mixture.numeric import (
    MOMENTS,
    NUMBERS,
    WIDTH,
    by_numbers,
    log_marginal_numbers,
    log_numbers,
    put_numbers,
    renew_all,
)
from scirocco.models.dp_mixture.rows import entries_of

FOLD = 16  # factors: each is at least about 10^-12, and 10^-192 is still a number
ROWS = 256  # rows of a block


class Law(NamedTuple):
    """A conjugate prior; ``rate`` is 0 for Dirichlet families."""

    base: np.ndarray  # by feature
    group: np.ndarray  # of each feature
    totals: np.ndarray  # of ``base`` by group
    log_gammas: np.ndarray  # of ``base``
    rate: float
    columns: np.ndarray  # (column, number): priors of columns of numbers

    @classmethod
    def of(
        cls, base: np.ndarray, group: np.ndarray, counted: np.ndarray, rate: float = 0.0,
        columns: np.ndarray | None = None,
    ) -> Law:  # fmt: skip
        """Features that are not ``counted`` stand for what was never seen, and are no part of the totals."""
        totals = np.bincount(group, weights=np.where(counted, base, 0.0)).astype(float)  # of none they are whole
        return cls(base, group, totals, gammaln(base), rate, np.empty((0, WIDTH)) if columns is None else columns)

    def with_base(self, base: np.ndarray, counted: np.ndarray) -> Law:
        """The same with another base measure."""
        return Law.of(base, self.group, counted, self.rate, self.columns)

    @property
    def lean(self) -> Law:
        """What sweeps are given: with empty arrays to hand on they take a tenth longer (splits and merges do not)."""
        return self if len(self.columns) else self._replace(columns=())  # type: ignore[arg-type]


class Tables(NamedTuple):
    """Statistics of clusters; slots without rows are empty."""

    counts: np.ndarray  # feature x slot
    totals: np.ndarray  # group x slot
    sizes: np.ndarray  # rows by slot
    moments: np.ndarray  # column x moment x slot
    profiles: np.ndarray  # column x number x slot: what follows of the moments

    @classmethod
    def empty(cls, law: Law, slots: int) -> Tables:
        """No rows anywhere."""
        columns = len(law.columns)
        moments, profiles = np.zeros((columns, MOMENTS, slots)), np.zeros((columns, NUMBERS, slots))
        renew_all(law.columns, moments, profiles)
        return cls(
            np.zeros((law.base.size, slots), np.int32), np.zeros((law.totals.size, slots)), np.zeros(slots), moments,
            profiles,
        )  # fmt: skip

    @classmethod
    def of(cls, law: Law, sizes: np.ndarray, counts: np.ndarray, moments: np.ndarray) -> Tables:
        """From what the others follow of."""
        empty = cls.empty(law, sizes.size)
        found = cls(np.ascontiguousarray(counts, np.int32), empty.totals, sizes.astype(float), moments, empty.profiles)
        np.add.at(found.totals, law.group, found.counts)
        found.renew(law)
        return found

    def renew(self, law: Law) -> None:
        """The profiles as the moments are, and the priors."""
        renew_all(law.columns, self.moments, self.profiles)

    @property
    def lean(self) -> Tables:
        """What sweeps are given, as ``Law.lean``."""
        return self if len(self.moments) else self._replace(moments=(), profiles=())  # type: ignore[arg-type]


@inner
def densities(rows: Any, i: int, law: Any, tables: Any, slots: int, w: Any) -> float:
    """``w[k]`` times the density of row i in cluster k, over a common number whose logarithm is returned."""
    starts, words, numbers = rows[:3]
    scale, factors, place, last = 0.0, 0, 0, -1
    poisson = law.rate > 0.0
    if poisson:
        scale = _by_totals(rows, i, law, tables, slots, w)
    if len(rows) > 3:
        scale += by_numbers(rows[3], i, law.columns, tables.profiles, slots, w)
    for e in range(starts[i], starts[i + 1]):
        f = words[e]
        g = law.group[f]
        place = place if g == last else 0
        last = g
        for t in range(numbers[e]):
            above, below = law.base[f] + t, law.totals[g] + (0 if poisson else place)
            for k in range(slots):
                w[k] *= (tables.counts[f, k] + above) / (tables.totals[g, k] + below)
            place += 1
            factors += 1
            if factors == FOLD:
                factors = 0
                scale += _rescaled(w, slots)
    return scale


@inner
def _log_total(rows: Any, i: int, law: Any, tables: Any, k: int) -> float:
    """What a row's total says of a cluster of Poisson rows."""
    starts, _, numbers = rows[:3]
    m, total = law.rate + tables.sizes[k], law.totals[0] + tables.totals[0, k]
    found, rate = total * math.log(m / (m + 1.0)), math.log(total / (m + 1.0))
    for e in range(starts[i], starts[i + 1]):
        found += numbers[e] * rate
    return found


@inner
def _by_totals(rows: Any, i: int, law: Any, tables: Any, slots: int, w: Any) -> float:
    """``w[k]`` times that, over a common number whose logarithm is returned."""
    largest = -np.inf
    for k in range(slots):
        if w[k] > 0.0:
            largest = max(largest, _log_total(rows, i, law, tables, k))
    for k in range(slots):
        if w[k] > 0.0:
            w[k] *= math.exp(_log_total(rows, i, law, tables, k) - largest)
    return largest


@inner
def _rescaled(w: Any, slots: int) -> float:
    largest = 0.0
    for k in range(slots):
        largest = max(largest, w[k])
    if largest == 0.0:
        return 0.0
    for k in range(slots):
        w[k] /= largest
    return math.log(largest)


@inner
def odds(rows: Any, i: int, law: Any, tables: Any) -> float:
    """The density of row i in the first of two clusters over that in the second."""
    starts, words, numbers = rows[:3]
    logs, ratio, factors, place, last = 0.0, 1.0, 0, 0, -1
    poisson = law.rate > 0.0
    if poisson:
        logs = _log_total(rows, i, law, tables, 0) - _log_total(rows, i, law, tables, 1)
    if len(rows) > 3:
        logs += log_numbers(rows[3], i, law.columns, tables.profiles, 0)
        logs -= log_numbers(rows[3], i, law.columns, tables.profiles, 1)
    for e in range(starts[i], starts[i + 1]):
        f = words[e]
        g = law.group[f]
        place = place if g == last else 0
        last = g
        for t in range(numbers[e]):
            above, below = law.base[f] + t, law.totals[g] + (0 if poisson else place)
            first, second = tables.totals[g, 0] + below, tables.totals[g, 1] + below
            ratio *= (tables.counts[f, 0] + above) * second / ((tables.counts[f, 1] + above) * first)
            place += 1
            factors += 1
            if factors == FOLD:
                factors = 0
                logs += math.log(ratio)
                ratio = 1.0
    return ratio if logs == 0.0 else math.exp(logs + math.log(ratio))


@inner
def put(rows: Any, i: int, k: int, step: int, tables: Any, law: Any) -> None:
    """Row i into cluster k (``step`` 1) or out of it (-1)."""
    starts, words, numbers = rows[:3]
    for e in range(starts[i], starts[i + 1]):
        f = words[e]
        tables.counts[f, k] += np.int32(step * numbers[e])
        tables.totals[law.group[f], k] += step * numbers[e]
    tables.sizes[k] += step
    if len(rows) > 3:
        put_numbers(rows[3], i, k, step, law.columns, tables.moments, tables.profiles)


@inner
def log_marginal(law: Any, tables: Any, k: int) -> float:
    """The logarithm of the density of all rows of cluster k."""
    found = 0.0
    for f in range(law.base.size):
        if tables.counts[f, k] > 0:
            found += math.lgamma(law.base[f] + tables.counts[f, k]) - law.log_gammas[f]
    for g in range(law.totals.size):
        total = law.totals[g]
        if law.rate > 0.0:
            found += total * math.log(law.rate) - (total + tables.totals[g, k]) * math.log(law.rate + tables.sizes[k])
        else:
            found += math.lgamma(total) - math.lgamma(total + tables.totals[g, k])
    if law.columns.shape[0] > 0:
        found += log_marginal_numbers(law.columns, tables.moments, k)
    return found


@jit
def count_rows(rows: Any, labels: Any, first: int, last: int, tables: Any, law: Any) -> None:
    """Put rows ``first`` to ``last`` where their labels say; -1 is nowhere."""
    for i in range(first, last):
        if labels[i] >= 0:
            put(rows, i, labels[i], 1, tables, law)


@jit
def log_marginals(law: Any, tables: Any) -> Any:
    """Of every slot; 0 of empty ones."""
    found = np.zeros(tables.sizes.size)
    for k in range(found.size):
        if tables.sizes[k] > 0:
            found[k] = log_marginal(law, tables, k)
    return found


@jit
def _score(rows: Any, first: int, last: int, law: Any, tables: Any, weights: Any, scores: Any) -> None:
    w = np.empty(weights.size)
    for i in range(first, last):
        for k in range(weights.size):
            w[k] = weights[k]
        scale = densities(rows, i, law, tables, weights.size, w)
        for k in range(weights.size):
            scores[i, k] = scale + math.log(w[k])


@jit
def _share_members(
    rows: Any, first: int, last: int, labels: Any, law: Any, tables: Any, urn: Any, shares: Any
) -> None:  # fmt: skip
    new = tables.sizes.size - 1
    w = np.empty(new + 1)
    for i in range(first, last):
        own = labels[i]
        put(rows, i, own, -1, tables, law)
        for k in range(new):
            w[k] = tables.sizes[k] + urn.shift
        w[new] = urn.fresh[new]
        if tables.sizes[own] == 0.0:  # alone: its cluster is the new one
            w[own], w[new] = urn.fresh[new - 1], 0.0
        densities(rows, i, law, tables, new + 1, w)
        total = w.sum()
        for k in range(new + 1):
            shares[i, k] = w[k] / total
        put(rows, i, own, 1, tables, law)


def member_shares(
    rows: Documents, labels: np.ndarray, law: Law, tables: Tables, urn: Any, threads: int | None
) -> np.ndarray:
    """The probability of every slot for each row given all others, (row, slot): the last slot is a new cluster.

    ``tables`` have the rows where ``labels`` say, and the last slot empty.
    """
    shares = np.empty((rows.size, tables.sizes.size))
    arrays, law = entries_of(rows), law.lean

    def work(first: int, last: int) -> None:
        own = Tables(*(values.copy() for values in tables))  # rows are taken out and put back
        _share_members(arrays, first * ROWS, min(rows.size, last * ROWS), labels, law, own.lean, urn, shares)

    over_blocks(work, -(-rows.size // ROWS), threads)
    return shares


def log_scores(rows: Documents, law: Law, tables: Tables, weights: np.ndarray, threads: int | None) -> np.ndarray:
    """log(weight x density) of every row in every slot, (row, slot)."""
    scores = np.empty((rows.size, weights.size))
    arrays, law, tables = entries_of(rows), law.lean, tables.lean
    over_blocks(
        lambda first, last: _score(
            arrays, first * ROWS, min(rows.size, last * ROWS), law, tables, weights, scores
        ),
        -(-rows.size // ROWS), threads,
    )  # fmt: skip
    return scores
