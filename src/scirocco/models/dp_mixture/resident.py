"""A mixture whose rows live on the workers of a cluster (``run.rounds``): "gibbs" in rounds.

    driver    weights and components given the statistics of all clusters (``given``)
    shard     u_i ~ U(0, pi_{z_i}),    z_i proportional to [pi_k > u_i] f(x_i | theta_k)    for all of its rows

and it answers the statistics of its clusters, which are sums. So the chain is exact, whatever the number of shards.
Components are broken off until the rest is below all slices u, of which the driver has none. But u_i = v_i pi_{z_i}
with v_i ~ U(0, 1) whatever the weights: a shard draws the v of the next round in advance, and answers the least of each
cluster.

Rows whose clusters this process reads (``Table.sample``) are every n-th: their labels come with each answer, and the
search on them is the start. Moves that split and merge clusters need all rows of these side by side: they are part of
the search alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scirocco.core.compiled import jit
from scirocco.core.seeds import Purpose, generator, stream_key
from scirocco.corpora.documents import Documents
from scirocco.corpora.parts import Stretches, borders
from scirocco.corpora.store import Corpus
from scirocco.counts.packing import Arrays
from scirocco.counts.resident import ResidentChain
from scirocco.models.dp_mixture.blocked_kernels import allocate, draw_levels, move_rows
from scirocco.models.dp_mixture.clusters import Clusters
from scirocco.models.dp_mixture.components import Encoding
from scirocco.models.dp_mixture.density import ROWS, Law, Tables
from scirocco.models.dp_mixture.gibbs import Blocked
from scirocco.models.dp_mixture.given import GivenClusters
from scirocco.models.dp_mixture.rows import Rows, entries_in, vars_of
from scirocco.run import checkpoint
from scirocco.run.rounds import Rounds, Shard

SAMPLE, SAMPLED = 2 * 10**6, 10**5  # entries, and rows, whose clusters are searched and read here, at the most
STORED = "rows"  # in the folder of a run: those of a table that was in memory

Source = Callable[[int], Documents]  # the rows of a shard, in the worker


# Where rows come from.


@dataclass(frozen=True)
class StoredRows:
    """Rows in files, one for each shard."""

    folder: Path

    def __call__(self, number: int) -> Documents:
        """In the worker."""
        arrays = checkpoint.read(self.folder / f"shard-{number}")[0]
        rows = Documents(arrays["starts"], arrays["words"], arrays["numbers"], int(arrays["width"]))
        return Rows(**vars_of(rows), values=arrays["values"]) if "values" in arrays else rows

    def write(self, rows: Documents, shards: int) -> None:
        """All shards, unless they were written when the run began."""
        for number in range(shards):
            place = self.folder / f"shard-{number}"
            if not checkpoint.exists(place):
                part = rows.take(slice(*borders(rows.size, shards, number)))
                arrays = vars_of(part) | ({"values": part.values} if isinstance(part, Rows) else {})
                place.mkdir(parents=True, exist_ok=True)
                checkpoint.write(place, {name: np.asarray(array) for name, array in arrays.items()}, {})


@dataclass(frozen=True)
class CodedDocuments:
    """Documents of a corpus as rows of features."""

    documents: Stretches
    encoding: Encoding

    def __call__(self, number: int) -> Documents:
        """In the worker."""
        return self.encoding.rows(self.documents(number).matrix())


@dataclass(frozen=True, eq=False)
class Table:
    """Rows that shards are made of, in memory or in a corpus; ``sample`` has every so many-th of them."""

    origin: Documents | Corpus
    sample: Documents
    every: int
    encoding: Encoding

    @classmethod
    def here(cls, rows: Documents, encoding: Encoding) -> Table:
        """Of rows in memory."""
        every = sampled_every(rows.size, entries_in(rows))
        return cls(rows, rows.take(np.arange(0, rows.size, every)), every, encoding)

    @property
    def size(self) -> int:
        """All rows."""
        return self.origin.size

    @property
    def entries(self) -> int:
        """How many a pass looks at, about."""
        return self.origin.tokens if isinstance(self.origin, Corpus) else entries_in(self.origin)

    def source(self, folder: Path, shards: int) -> Source:
        """What gives workers their rows; those in memory are written to the ``folder`` of the run by ``store``."""
        if isinstance(self.origin, Corpus):
            return CodedDocuments(Stretches(self.origin.path.absolute(), shards), self.encoding)
        return StoredRows(folder / STORED)

    def store(self, source: Source, shards: int) -> None:
        """Put rows that are in memory where workers find them."""
        if isinstance(source, StoredRows):
            assert isinstance(self.origin, Documents)
            source.write(self.origin, shards)


def sampled_every(rows: int, entries: int) -> int:
    """Of how many rows one is in the sample."""
    return max(1, -(-entries // SAMPLE), -(-rows // SAMPLED))


# Shards.


@jit
def _least_levels(labels: Any, levels: Any, least: Any) -> None:
    for i in range(labels.size):
        least[labels[i]] = min(least[labels[i]], levels[i])


@dataclass(frozen=True)
class RowShardMaker:
    """A shard at its start, of so many ``shards`` of ``size`` rows."""

    source: Source
    law: Law
    size: int
    shards: int
    every: int
    seed: int
    chain: int

    def __call__(self, number: int) -> RowShard:
        """In the worker."""
        rows, first = self.source(number), borders(self.size, self.shards, number)[0]
        shown = np.arange(-first % self.every, rows.size, self.every)
        return RowShard(rows, self.law, shown, stream_key(self.seed, Purpose.MIXTURE_SHARDS, self.chain, number))


class RowShard(Shard):
    """Rows and their clusters; labels of those that are ``shown`` are part of the answers."""

    def __init__(self, rows: Documents, law: Law, shown: np.ndarray, key: np.ndarray) -> None:
        self.clusters, self.shown, self.key = Clusters(rows, law), shown, key
        self._all, self._blocks = np.arange(rows.size), -(-rows.size // ROWS)

    def advance(self, round_number: int, message: Arrays) -> Arrays:
        """New clusters of all rows given components; their statistics, and the least of the next levels in each."""
        clusters, weights, old = self.clusters, message["weights"], self.clusters.labels.copy()
        clusters.law = clusters.law._replace(columns=message["columns"])
        clusters.make_room(weights.size)
        sliced = bool(message["sliced"])
        u = self._levels(round_number, weights) if sliced else np.zeros(old.size)
        allocate(
            self.key, 2 * round_number + 1, 0, self._blocks, self._all, clusters.entries, clusters.labels,
            message["proportions"], message["rates"], message["columns"], message["profiles"], weights, u, sliced,
        )  # fmt: skip
        move_rows(clusters.entries, self._all, old, clusters.labels, clusters.tables.lean, clusters.law.lean)
        tables, least = clusters.tables, np.full(weights.size, np.inf)
        if sliced:
            _least_levels(clusters.labels, self._levels(round_number + 1, np.ones(weights.size)), least)
        return {
            "sizes": tables.sizes.copy(), "counts": tables.counts.copy(), "moments": tables.moments.copy(),
            "least": least, "labels": clusters.labels[self.shown],
        }  # fmt: skip

    def _levels(self, round_number: int, weights: np.ndarray) -> np.ndarray:
        """Uniform below the weight of each row's cluster; 0 for rows that have none yet."""
        u, labels = np.empty(self._all.size), self.clusters.labels
        draw_levels(self.key, 2 * round_number, 0, self._blocks, self._all, labels, weights, u)
        return u

    def pack(self) -> Arrays:
        """The clusters of all rows."""
        return {"z": self.clusters.labels, "slots": np.asarray(self.clusters.slots)}

    def unpack(self, arrays: Arrays) -> None:
        """The inverse of ``pack``."""
        self.clusters.relabel(arrays["z"], int(arrays["slots"]))


def joined(answers: Sequence[Arrays]) -> Arrays:
    """Those of several shards as that of one."""
    found = {name: np.sum([answer[name] for answer in answers], axis=0, dtype=answers[0][name].dtype)
             for name in ("sizes", "counts", "moments")}  # fmt: skip
    found["least"] = np.min([answer["least"] for answer in answers], axis=0)
    return found | {"labels": np.concatenate([answer["labels"] for answer in answers])}


# The driver.


class ResidentMixture(ResidentChain[Blocked], GivenClusters):
    """Gibbs in rounds; ``start`` is a chain in memory on the sample, a ``share`` of all rows."""

    def __init__(self, rounds: Rounds, start: Blocked, share: float) -> None:
        self.seed, self.chain, self.threads = start.seed, start.chain, start.threads
        self.key = stream_key(start.seed, Purpose.MIXTURE_RESIDENT, start.chain)
        self.counted, self.given_law, self.learn_base = start.counted, start.given_law, start.learn_base
        self.partition, self.tally = start.partition, start.tally
        self.order = start.order
        self.clusters = start.clusters  # of the sample alone before the first round
        self._least = np.full(self.clusters.slots, np.inf)
        super().__init__(rounds, start, share)

    def begin_at(self, start: Blocked) -> None:
        """The statistics of the sample; rows have no slices before the first round."""
        self._least = np.full(start.clusters.slots, np.inf)

    def finish_search(self) -> None:
        """End it with what it has."""
        if self._start is not None:
            self._start.finish_search()
            self._search_over()

    def make_round(self) -> None:
        """Weights and components, then clusters of all rows, and the priors."""
        rng = generator(self.seed, Purpose.MIXTURE_RESIDENT, self.chain, self.next_call())
        given = self.draw_components(rng, self._least_slice)
        found = joined(self.rounds(given._asdict() | {"sliced": np.asarray(not self.finite)}))
        self._take(found["sizes"], found["counts"], found["moments"], found["labels"])
        self._least = found["least"]
        self.learn(int(found["sizes"].sum()))

    def _least_slice(self, weights: np.ndarray) -> float:
        used = self.clusters.used
        return float(np.min(weights[used] * self._least[used]))

    def _take(self, sizes: np.ndarray, counts: np.ndarray, moments: np.ndarray, labels: np.ndarray) -> None:
        """The statistics of all rows, and the labels of the sample in its own order."""
        self.clusters.tables = Tables.of(self.clusters.law, sizes, counts, moments)
        self.clusters.labels = labels[self.order]

    # Reading.

    def labels(self) -> np.ndarray:
        """Clusters of the sample, the largest of all rows' first."""
        found = np.empty(self.order.size, np.int32)
        found[self.order] = self.clusters.compressed()
        return found

    # Keeping.

    def pack_statistics(self) -> Arrays:
        """Statistics, labels of the sample, levels, priors."""
        clusters = self.clusters
        return {
            "sizes": clusters.tables.sizes, "counts": clusters.tables.counts, "moments": clusters.tables.moments,
            "z": clusters.labels, "least": self._least, "base": clusters.law.base, "columns": clusters.law.columns,
            "concentration": np.asarray(self.partition.concentration),
        }  # fmt: skip

    def unpack_statistics(self, arrays: Mapping[str, np.ndarray]) -> None:
        """The inverse of ``pack_statistics``."""
        self.partition.concentration = float(arrays["concentration"])
        law = self.given_law.with_base(arrays["base"].copy(), self.counted)
        self.clusters.law = law._replace(columns=arrays["columns"].copy())
        tables = (arrays[name].copy() for name in ("sizes", "counts", "moments"))
        self.clusters.tables = Tables.of(self.clusters.law, *tables)
        self.clusters.labels, self._least = arrays["z"].copy(), arrays["least"].copy()
