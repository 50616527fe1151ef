"""Collapsed sweeps side by side: documents x words in cells, of which those at work share no document and no word.

Words are in G groups. The share of each group in each topic is drawn, the topics within the groups are integrated out,

    s_k ~ Dirichlet(n_kg + B_g; groups g)
    p(z_di = k) proportional to (n_dk + alpha_k) s_kg (n_kw + beta_w) / (n_kg + B_g),    w in g

n_kg and B_g summing counts and ``beta`` over the words of a group. Given the shares, tokens of different groups
meet in their document alone, so that a sweep of G groups of documents in G rounds, group m at the words of group
m + round, is a Gibbs scan: exact, on as many threads as there are groups. (In rounds like these, but with the totals of
topics as they were at the beginning of each: Yan, Xu and Qi 2009.) G is decided by the data, not by the threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from scirocco.core.compiled import jit, over_blocks
from scirocco.counts.estimators import KeptCounts
from scirocco.models.lda.kernels import sweeps_kept
from scirocco.simplex.exact import draw_gammas

MOST_GROUPS = 4  # on one thread 2 cost a sweep 10 to 20 %, 4 of long documents 15 %, 8 a third
SEGMENT = 6.0  # tokens of a document in a group, at least, on average: each means another look at the document
CELL = 1000  # tokens of a cell, at least: each costs a thread's start


@jit
def _cut(starts: Any, words: Any, ends: Any, cuts: Any) -> bool:
    """Where the tokens of each document in each group of words begin; False if they are not in the order of words."""
    groups = ends.size
    for d in range(starts.size - 1):
        g, last = 0, -1
        cuts[0, d] = starts[d]
        for t in range(starts[d], starts[d + 1]):
            if words[t] < last:
                return False
            last = words[t]
            while last >= ends[g]:
                g += 1
                cuts[g, d] = t
        while g < groups:
            g += 1
            cuts[g, d] = starts[d + 1]
    return True


@jit
def _add_up(table: Any, begin: int, end: int, totals: Any) -> None:
    """The totals of the words ``begin`` to ``end`` by topic."""
    for w in range(begin, end):
        for k in range(totals.size):
            totals[k] += table[w, k]


class Cells:
    """How the tokens ``words`` of documents, which begin at ``starts``, are cut; ``groups`` None lets them decide."""

    def __init__(self, words: np.ndarray, starts: np.ndarray, width: int, groups: int | None = None) -> None:
        self.starts = starts
        if groups is None:
            groups = int(np.clip(round(words.size / max(1, starts.size - 1) / SEGMENT), 1, MOST_GROUPS))
        counts = np.cumsum(np.bincount(words, minlength=width)) if groups > 1 else np.zeros(width)
        wanted = np.searchsorted(counts, np.linspace(0, words.size, groups + 1)[1:]) + 1
        self.ends = np.unique(np.append(wanted[:-1], width))
        self.cuts = np.zeros((self.ends.size + 1, starts.size - 1), np.int32)
        if not _cut(starts, words, self.ends, self.cuts):
            self.ends, self.cuts = self.ends[-1:], np.stack([starts[:-1], starts[1:]]).astype(np.int32)

    @property
    def groups(self) -> int:
        """Of words, and of documents."""
        return self.ends.size

    def sweep(
        self, key: np.ndarray, next_call: Callable[[], int], begin: int, end: int, kept: KeptCounts,
        alpha: np.ndarray, beta: np.ndarray, threads: int | None, *, fresh: bool = False,
    ) -> None:  # fmt: skip
        """Documents ``begin`` to ``end``; ``next_call`` numbers random streams.

        ``fresh`` documents, and those after them, have no topics yet; shares are expectations then.
        """
        tokens = int(self.starts[end] - self.starts[begin])
        groups = self.groups if tokens >= CELL * self.groups**2 else 1
        cuts = self.cuts if groups == self.groups else self.cuts[[0, -1]]
        ends = self.ends[-groups:]
        firsts = np.concatenate([[0], ends[:-1]])
        priors = np.add.reduceat(beta, firsts) if groups > 1 else np.array([beta.sum()])
        small, width = beta.astype(np.float32), kept.table.shape[1]
        if groups > 1:
            totals = np.zeros((groups, kept.rows), np.int64)

            def add_up(first: int, last: int) -> None:
                for g in range(first, last):
                    _add_up(kept.table, firsts[g], ends[g], totals[g])

            over_blocks(add_up, groups, threads)
            shares = self._shares(key, next_call(), totals + priors[:, None], width, threads, fresh)
        else:
            totals, shares = kept.totals[None], np.ones((1, width), np.float32)
        call = next_call()
        borders = np.searchsorted(self.starts, np.linspace(self.starts[begin], self.starts[end], groups + 1))
        borders[0], borders[-1] = begin, end

        def work(number: int, first: int, last: int) -> None:
            for m in range(first, last):
                g = (m + number) % groups
                known = (cuts[0], cuts[-1], cuts[0], cuts[0])
                if fresh:  # what rounds before have assigned
                    known = (cuts[m], cuts[min(m + number, groups)], cuts[0], cuts[max(0, m + number - groups)])
                sweeps_kept.sweep_collapsed(
                    key, call, number * groups + m, borders[m], borders[m + 1], (cuts[g], cuts[g + 1]), known,
                    kept.codes, kept.labels, kept.table, totals[g], shares[g], alpha, small, np.float32(priors[g]),
                    kept.rows, fresh,
                )  # fmt: skip

        for number in range(groups):
            over_blocks(partial(work, number), groups, threads)
        if groups > 1:
            kept.totals[:] = totals.sum(axis=0)

    def _shares(
        self, key: np.ndarray, call: int, parameter: np.ndarray, width: int, threads: int | None, fresh: bool
    ) -> np.ndarray:  # fmt: skip
        """Of each group in each topic, groups x topics, padded."""
        found = np.zeros((len(parameter), width), np.float32)
        known = parameter if fresh else draw_gammas(key, call, parameter, threads)
        found[:, : parameter.shape[1]] = known / known.sum(axis=0)
        return found
