"""Splits of one cluster in two and merges of two into one, which single rows would take for ever to make.

A move has two rows, its anchors. The first is any row of any cluster, each of t clusters as likely; for a split the
second is from the same cluster, for a merge from another, which is drawn with the probability that the first row would
have to join it. All other rows of the one or two clusters are put to either anchor's side, with prior odds rho over
1 - rho,

    sequentially    one by one in random order, each given those before it (Dahl 2005)
    and again       in ``scans`` more scans, each given all others (Jain and Neal 2004)

The last scan's probability q of the outcome enters the ratio of Metropolis and Hastings; for a merge it is that of the
split as it stands. With n rows in all, n_1 and n_2 on the sides, and g the probability of choosing the second anchor's
cluster for a merge,

    split accepted with  p(two) / p(one)  x  Beta(rho; n_1, n_2) / q  x  g t n (n - 1) / ((t + 1) n_1 n_2)

Both have odds by the sizes of the sides so far in place of rho. Then a merge of two halves of one cluster hardly ever
succeeds if they are large, since the scan would have to end at their very sizes. Here rho ~ U(0, 1) for a split and
~ Beta(n_1, n_2) for a merge, so that sizes cost nothing. They draw pairs of rows uniformly; here small clusters are
tried as often as large ones, and similar pairs more often than others.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from scirocco.core.compiled import ZERO, inner, jit
from scirocco.core.random import below, gamma, open_stream, uniform
from scirocco.models.dp_mixture.collapsed_kernels import drawn, survey
from scirocco.models.dp_mixture.density import Tables, densities, log_marginal, odds, put
from scirocco.models.dp_mixture.numeric import MOMENTS, NUMBERS, renew, renew_all

SPLITS, SPLIT, MERGES, MERGED = range(4)  # of a tally: tried, done
FIRST, SECOND, BOTH = (np.int64(side) for side in range(3))  # plain numbers would be types of their own, as is ``ZERO``


@inner
def _other_weights(rows: Any, i: int, own: int, law: Any, tables: Any, shift: float, top: int, w: Any) -> float:
    """Weights of row i for all clusters but its own; the logarithm of what they are divided by."""
    for k in range(top):
        w[k] = tables.sizes[k] + shift if tables.sizes[k] > 0 and k != own else 0.0
    return densities(rows, i, law, tables, top, w)


@inner
def _row(labels: Any, k: int, nth: int) -> int:
    """The ``nth`` row of a cluster."""
    for r in range(labels.size):
        if labels[r] == k:
            if nth == 0:
                return r
            nth -= 1
    return -1


@inner
def _nth_used(sizes: Any, nth: int) -> int:
    """The ``nth`` slot that has rows."""
    for k in range(sizes.size):
        if sizes[k] > 0:
            if nth == 0:
                return k
            nth -= 1
    return -1


@inner
def _gather(s: Any, labels: Any, first: int, second: int, i: int, nth: int, members: Any) -> Any:
    """The ``nth`` row of the second cluster, i left out, and all other rows of both in random order."""
    j, seen, n = ZERO, ZERO, ZERO
    for r in range(labels.size):
        if r == i or (labels[r] != first and labels[r] != second):
            continue
        if labels[r] == second:
            seen += 1
            if seen == nth + 1:
                j = r
                continue
        members[n] = r
        n += 1
    for q in range(n - 1, 0, -1):
        t = below(s, q + 1)
        members[q], members[t] = members[t], members[q]
    return j, n


@inner
def _scan(
    s: Any, rows: Any, members: Any, n: int, sides: Any, wanted: Any, force: bool, fresh: bool, law: Any, pair: Any,
    prior_odds: float,
) -> float:  # fmt: skip
    """Every member to one of two sides, as ``wanted`` if ``force``; the log probability of the outcome."""
    log_q = 0.0
    for q in range(n):
        r = members[q]
        if not fresh:
            put(rows, r, sides[q], -1, pair, law)
        first = odds(rows, r, law, pair) * prior_odds
        side = wanted[q] if force else np.int8(0 if uniform(s) * (1.0 + 1.0 / first) < 1.0 else 1)
        log_q -= math.log(1.0 + (1.0 / first if side == 0 else first))
        sides[q] = side
        put(rows, r, side, 1, pair, law)
    return log_q


@inner
def _divide(
    s: Any, rows: Any, i: int, j: int, members: Any, n: int, sides: Any, wanted: Any, split: bool, scans: int, law: Any,
    pair: Any, rho: float,
) -> float:  # fmt: skip
    """The members of a move on two sides, and both together; the log probability of the last scan's outcome."""
    pair.counts[:], pair.totals[:], pair.sizes[:], pair.moments[:] = 0, 0.0, 0.0, 0.0
    renew_all(law.columns, pair.moments, pair.profiles)
    put(rows, i, FIRST, 1, pair, law)
    put(rows, j, SECOND, 1, pair, law)
    log_q = 0.0
    for scan in range(scans + 1):
        force = not split and scan == scans
        log_q = _scan(s, rows, members, n, sides, wanted, force, scan == 0, law, pair, rho / (1.0 - rho))
    for f in range(pair.counts.shape[0]):
        pair.counts[f, 2] = pair.counts[f, 0] + pair.counts[f, 1]
    for g in range(pair.totals.shape[0]):
        pair.totals[g, 2] = pair.totals[g, 0] + pair.totals[g, 1]
    pair.sizes[2] = pair.sizes[0] + pair.sizes[1]
    for c in range(pair.moments.shape[0]):
        for m in range(MOMENTS):
            pair.moments[c, m, 2] = pair.moments[c, m, 0] + pair.moments[c, m, 1]
    return log_q


@inner
def _log_chosen(rows: Any, i: int, own: int, law: Any, tables: Any, pair: Any, shift: float, top: int, w: Any) -> float:
    """After a split: the log probability that the second side would be chosen for a merge with row i."""
    scale = _other_weights(rows, i, own, law, tables, shift, top, w)
    rest = w[:top].sum()
    w[0], w[1] = 0.0, pair.sizes[1] + shift
    second = densities(rows, i, law, pair, np.int64(2), w) + math.log(w[1])
    if rest == 0.0:
        return 0.0
    against = math.log(rest) + scale - second
    return -against if against > 700.0 else -math.log1p(math.exp(against))


@inner
def _log_beta(rho: float, a: float, b: float) -> float:
    """The log density of a beta law."""
    constant = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return constant + (a - 1.0) * math.log(rho) + (b - 1.0) * math.log1p(-rho)


@inner
def _log_ratio(law: Any, pair: Any, urn: Any, merged: int) -> float:
    """log p(two clusters) - log p(one), of ``merged`` clusters with the one."""
    found = log_marginal(law, pair, FIRST) + log_marginal(law, pair, SECOND) - log_marginal(law, pair, BOTH)
    found += math.lgamma(urn.shift + pair.sizes[0]) + math.lgamma(urn.shift + pair.sizes[1])
    return found + math.log(urn.fresh[merged]) - math.lgamma(urn.shift + pair.sizes[2]) - math.lgamma(urn.shift + 1.0)


@inner
def _take(pair: Any, side: int, tables: Any, k: int, law: Any) -> None:
    """A side's statistics into slot k."""
    for f in range(tables.counts.shape[0]):
        tables.counts[f, k] = pair.counts[f, side]
    for g in range(tables.totals.shape[0]):
        tables.totals[g, k] = pair.totals[g, side]
    tables.sizes[k] = pair.sizes[side]
    for c in range(law.columns.shape[0]):
        for m in range(MOMENTS):
            tables.moments[c, m, k] = pair.moments[c, m, side]
        renew(law.columns, tables.moments, tables.profiles, c, k)


@inner
def _write(
    split: bool, pair: Any, law: Any, tables: Any, labels: Any, first: int, second: int, j: int, members: Any, n: int,
    sides: Any,
) -> None:  # fmt: skip
    """An accepted move: the second side into the empty slot ``second``, or all of ``second`` into ``first``."""
    if split:
        _take(pair, FIRST, tables, first, law)
        _take(pair, SECOND, tables, second, law)
    else:
        _take(pair, BOTH, tables, first, law)
        tables.counts[:, second], tables.totals[:, second], tables.sizes[second] = 0, 0.0, 0.0
        tables.moments[:, :, second] = 0.0
        for c in range(law.columns.shape[0]):
            renew(law.columns, tables.moments, tables.profiles, c, second)
    labels[j] = second if split else first
    for q in range(n):
        labels[members[q]] = second if split and sides[q] == 1 else first


@jit
def split_merge(
    key: Any, step: int, moves: int, scans: int, rows: Any, labels: Any, law: Any, tables: Any, urn: Any, tally: Any
) -> int:  # fmt: skip
    """So many moves; how many were made, which are fewer if no slot is left for a new cluster.

    Their number must not depend on the state, such as through the work that they make: the chain would be biased.
    """
    s, sizes, size, shift = open_stream(key, step, 0), tables.sizes, labels.size, urn.shift
    members, sides, wanted = np.empty(size, np.int64), np.empty(size, np.int8), np.empty(size, np.int8)
    w = np.empty(sizes.size)
    columns = law.columns.shape[0]
    pair = Tables(
        np.zeros((law.base.size, 3), np.int32), np.zeros((law.totals.size, 3)), np.zeros(3),
        np.zeros((columns, MOMENTS, 3)), np.zeros((columns, NUMBERS, 3)),
    )  # fmt: skip
    occupied, top, hole = survey(sizes)
    for move in range(moves):
        if hole == sizes.size:
            return move
        first = _nth_used(sizes, below(s, occupied))
        split = uniform(s) < 0.5
        if (split and sizes[first] < 2) or (not split and occupied < 2):
            continue
        i = _row(labels, first, below(s, np.int64(sizes[first])))
        second, chosen = first, 0.0
        if not split:
            _other_weights(rows, i, first, law, tables, shift, top, w)
            second = drawn(s, w, top)
            chosen = math.log(w[second] / w[:top].sum())
        j, n = _gather(s, labels, first, second, i, below(s, np.int64(sizes[second]) - split), members)
        for q in range(n):
            wanted[q] = np.int8(0 if labels[members[q]] == first else 1)
        rho = uniform(s)
        if not split:
            first_share = gamma(s, sizes[first])
            rho = min(max(first_share / (first_share + gamma(s, sizes[second])), 1e-12), 1.0 - 1e-12)
        log_q = _divide(s, rows, i, j, members, n, sides, wanted, split, scans, law, pair, rho)
        if split:
            chosen = _log_chosen(rows, i, first, law, tables, pair, shift, top, w)
        merged = occupied if split else occupied - 1
        one, two, both = pair.sizes[0], pair.sizes[1], pair.sizes[2]
        log_ratio = _log_ratio(law, pair, urn, merged) + _log_beta(rho, one, two) - log_q
        log_ratio += chosen + math.log(merged / (merged + 1.0) * both / one * (both - 1.0) / two)
        accepted = math.log(uniform(s)) < (log_ratio if split else -log_ratio)
        tally[SPLITS if split else MERGES] += 1
        if accepted:
            tally[SPLIT if split else MERGED] += 1
            _write(split, pair, law, tables, labels, first, hole if split else second, j, members, n, sides)
            occupied, top, hole = survey(sizes)
    return moves
