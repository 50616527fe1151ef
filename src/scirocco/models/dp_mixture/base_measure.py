"""Learning the base measure: a Dirichlet parameter B m for all clusters, B a number and m a point of the simplex.

The counts n_kf of a feature in a cluster came from the base in t_kf of n_kf draws of an urn (Antoniak 1974). Given t,

    t_kf = sum_{j < n_kf} Bernoulli(B m_f / (B m_f + j)),        m ~ Dirichlet(1 + sum_k t_kf)
    x_k ~ Beta(B + 1, N_k),  s_k ~ Bernoulli(N_k / (N_k + B)),   B ~ Gamma(1 + sum t - sum s, 1/B_0 - sum log x_k)

with an exponential prior of mean B_0 on B, the total that was given (Teh et al. 2006, appendix A). Each column of a
table has B and m of its own. "concentration" learns B and keeps m, "full" both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scirocco.core.compiled import jit, over_blocks
from scirocco.core.random import open_stream, uniform
from scirocco.models.dp_mixture.density import Law, Tables

WAYS = ("concentration", "full")


@jit
def _from_base(key: Any, step: int, first: int, last: int, base: Any, counts: Any, found: Any) -> None:
    for f in range(first, last):
        s = open_stream(key, step, f)
        for k in range(counts.shape[1]):
            for j in range(counts[f, k]):
                found[f] += uniform(s) * (base[f] + j) < base[f]


def learnt_base(
    law: Law, given: Law, tables: Tables, counted: np.ndarray, way: str, *, key: np.ndarray, step: int,
    rng: np.random.Generator, threads: int | None,
) -> Law:  # fmt: skip
    """A draw of the base measure given the clusters; ``given`` has the totals that are the prior means."""
    tables_from_base = np.zeros(law.base.size)
    over_blocks(
        lambda first, last: _from_base(key, step, first, last, law.base, tables.counts, tables_from_base),
        law.base.size, threads,
    )  # fmt: skip
    base = law.base.copy()
    for g, total in enumerate(law.totals):
        own = np.flatnonzero((law.group == g) & counted)
        rows = tables.totals[g][tables.totals[g] > 0]
        found = tables_from_base[own]
        apart = np.sum(rng.random(rows.size) * (rows + total) < rows)
        rate = 1 / given.totals[g] - np.log(rng.beta(total + 1, rows)).sum()
        concentration = max(rng.gamma(1 + found.sum() - apart) / rate, 1e-6)
        mean = given.base[own] / given.totals[g]
        if way == "full":
            mean = np.maximum(rng.dirichlet(1 + found), 1e-12)
        base[own] = concentration * mean / mean.sum()
        unseen = np.flatnonzero((law.group == g) & ~counted)
        base[unseen] = concentration / own.size
    return law.with_base(base, counted)
