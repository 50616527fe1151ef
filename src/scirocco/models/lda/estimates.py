"""Estimates of the counts of the whole corpus from a minibatch S of n out of D documents.

    Plain       (D/n) sum_S E[n_d | topics]
    Controlled  C(centre) + (D/n) sum_S (E[n_d | topics] - E[n_d | centre]),    C(centre) = sum over all documents
    Remembered  A + (D/n) sum_S (E[n_d | topics] - kept_d),                     A = sum of what is kept

``Controlled`` are the control variates of SGLD-CV (Baker et al. 2019) and ``Remembered`` is SAGA, both on the counts:
the gradient of natural parameters is linear in them, and its other part needs no estimate. Differences can be below 0,
where no Dirichlet parameter can follow, so they are for samplers on natural parameters. The expectations themselves are
means over Gibbs sweeps; those of a difference share their random numbers.

Both start with a survey of all documents, part by part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from scirocco.corpora.documents import Documents
from scirocco.simplex import Counts

if TYPE_CHECKING:
    from scirocco.models.lda.stream import StreamChain

ESTIMATES = ("plain", "control_variate", "saga")


class Plain:
    """Counts of the minibatch, scaled up."""

    def counts(self, chain: StreamChain, batch: Documents, total: int, which: np.ndarray | None) -> Counts:
        """The estimate, of the words of the minibatch only."""
        del which
        columns, table = chain.swept(batch)
        scale = total / batch.size / chain.counted
        return Counts(table.T * scale, columns, min(1.0, batch.size / total))

    kept_arrays: tuple[str, ...] = ()

    def pack(self) -> dict[str, np.ndarray]:
        """What was counted in the survey and since, as arrays."""
        return {name: getattr(self, name) for name in self.kept_arrays}

    def unpack(self, arrays: dict[str, np.ndarray]) -> None:
        """The inverse of ``pack``."""
        for name in self.kept_arrays:
            setattr(self, name, arrays[name])


class Controlled(Plain):
    """Differences from the counts at fixed topics, which are known for all documents."""

    kept_arrays = ("phi", "table")

    def survey(self, chain: StreamChain, parts: Iterator[Documents]) -> Iterator[None]:
        """Fix the present topics as the centre and count everything there, one part at a time."""
        self.phi = np.ascontiguousarray(chain.draw().T, dtype=np.float32)
        self.table = np.zeros(self.phi.shape)
        for part in parts:
            columns, table = chain.swept(part, self.phi, survey=True)
            self.table[columns] += table / chain.counted
            yield

    def counts(self, chain: StreamChain, batch: Documents, total: int, which: np.ndarray | None) -> Counts:
        """The estimate, of all words."""
        del which
        columns, table = chain.swept(batch)
        _, there = chain.swept(batch, self.phi)
        estimate = self.table.copy()
        estimate[columns] += (table - there) * (total / batch.size / chain.counted)
        return Counts(estimate.T, None, min(1.0, batch.size / total), signed=True)


class Remembered(Plain):
    """Differences from what each document had when it was last seen; two bytes for each of its words and topics."""

    kept_arrays = ("kept", "table")

    def __init__(self, documents: Documents) -> None:
        self.documents = documents

    def survey(self, chain: StreamChain, parts: Iterator[Documents]) -> Iterator[None]:
        """Count everything at the present topics, one part at a time."""
        most = int(self.documents.numbers.max(initial=1)) * chain.counted
        shape = (self.documents.words.size, chain.alpha.size)
        self.kept = np.zeros(shape, np.uint16 if most < 2**16 else np.uint32)
        self.table = np.zeros((self.documents.vocabulary, chain.alpha.size))
        phi, position = np.ascontiguousarray(chain.draw().T, dtype=np.float32), 0
        for part in parts:
            found = chain.swept_entries(part, phi, survey=True)
            self.kept[position : position + part.words.size] = found
            np.add.at(self.table, part.words, found / chain.counted)
            position += part.words.size
            yield

    def counts(self, chain: StreamChain, batch: Documents, total: int, which: np.ndarray | None) -> Counts:
        """The estimate, of all words; afterwards the documents of the minibatch have their new counts."""
        assert which is not None
        chosen = np.unique(which)  # a document twice would be forgotten twice
        documents = self.documents.take(chosen) if len(chosen) < batch.size else batch
        order = chosen if len(chosen) < batch.size else which
        entries = self.documents.entries(order)
        new = chain.swept_entries(documents)
        change = np.zeros_like(self.table)
        np.add.at(change, documents.words, (new.astype(np.int64) - self.kept[entries]) / chain.counted)
        estimate = self.table + change * (total / documents.size)
        self.kept[entries] = new
        self.table += change
        return Counts(estimate.T, None, min(1.0, documents.size / total), signed=True)
