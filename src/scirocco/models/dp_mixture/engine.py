"""A Dirichlet process mixture on the runner: one chain of partitions, whose clusters change in number."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np

from scirocco.counts.chains import Chain
from scirocco.counts.packing import Arrays
from scirocco.counts.passes import PassEngine
from scirocco.counts.settling import Settling
from scirocco.models.dp_mixture import numeric
from scirocco.models.dp_mixture.clusters import Clusters, Statistics
from scirocco.models.dp_mixture.partition import PartitionLaw
from scirocco.models.dp_mixture.split_merge import MERGED, MERGES, SPLIT, SPLITS
from scirocco.run.second_half import Values
from scirocco.run.store import STATS, Variable

LABELS, SIZES, COUNTS, BASE = "labels", "sizes", "counts", "base"
MOMENTS, COLUMNS = "moments", "columns"  # of columns of numbers, where there are some: what clusters have, their priors
NUMBER, CONCENTRATION, DENSITY = "n_clusters", "concentration", "log_density"
ACCEPTED = f"{STATS}moves_accepted"


class MixtureChain(Chain):
    """A chain of partitions: rows in ``clusters`` with the law ``partition``, and the ``tally`` of its moves."""

    kept: bool
    """Whether counts are those of all allocations."""

    clusters: Clusters
    partition: PartitionLaw
    tally: np.ndarray

    @abstractmethod
    def labels(self) -> np.ndarray:
        """Clusters of all rows in their own order, the largest first."""

    @abstractmethod
    def statistics(self) -> Statistics:
        """Of the clusters in the order of ``labels``."""

    @abstractmethod
    def finish_search(self) -> None:
        """End the search for a start with what it has."""


class MixtureEngine(PassEngine[MixtureChain]):
    """Chain number ``number``; ``make`` gives its sampler at the start.

    With ``kept`` allocations sizes and counts of the clusters are stored, otherwise their weights and proportions.
    """

    watched = (NUMBER, DENSITY)

    def __init__(
        self, make: Callable[[], MixtureChain], number: int, *, draws: int, passes: float | Settling, rows: int,
        features: int, columns: int, entries: int, kept: bool,
    ) -> None:  # fmt: skip
        small, whole = np.dtype(np.float64), np.dtype(np.int32)
        variables = {
            NUMBER: Variable((), small),
            CONCENTRATION: Variable((), small),
            DENSITY: Variable((), small),
            BASE: Variable((features,), small, ("feature",)),
            LABELS: Variable((rows,), whole, ("row",)),
            SIZES: Variable((), np.dtype(np.int64) if kept else small, ragged=True),
            COUNTS: Variable((features,), whole if kept else small, ragged=True),
            ACCEPTED: Variable((), small, role="stats"),
        }
        if columns:
            variables |= {
                MOMENTS: Variable((columns, numeric.MOMENTS), small, ragged=True),
                COLUMNS: Variable((columns, numeric.WIDTH), small, ("column", "number")),
            }
        super().__init__(make, number, variables, draws=draws, passes=passes, tokens=entries)

    @staticmethod
    def _numbers(chain: MixtureChain) -> Values:
        return {
            NUMBER: np.asarray(float(chain.clusters.number)),
            CONCENTRATION: np.asarray(float(chain.partition.concentration)),
            DENSITY: np.asarray(chain.clusters.log_density(chain.partition)),
        }

    @staticmethod
    def _partition(chain: MixtureChain) -> Values:
        law, known = chain.clusters.law, chain.statistics()
        found = {BASE: law.base.copy(), LABELS: chain.labels(), SIZES: known.sizes, COUNTS: known.counts}
        return found | ({MOMENTS: known.moments, COLUMNS: law.columns.copy()} if len(law.columns) else {})

    def recorded(self, *, draw: bool) -> tuple[Values, Values]:
        """The number of clusters and the concentration are averaged; a draw has the whole partition."""
        chain, known = self.chain, self._numbers(self.chain)
        if not draw:
            return known, {}
        partition: Values = self._partition(chain) | {
            ACCEPTED: np.asarray(chain.tally[[SPLIT, MERGED]].sum() / max(1, chain.tally[[SPLITS, MERGES]].sum())),
        }  # fmt: skip
        return known, known | partition

    def leaves(self) -> Arrays:
        """The passes; if there is no draw, the partition that the search has found."""
        found = {"passes": np.asarray(float(self.work[0]))}
        if self.second_half.records:
            return found
        chain = self._make()  # another one, since the run may go on
        chain.unpack(self.chain.pack())
        chain.finish_search()
        return found | self._numbers(chain) | self._partition(chain)
