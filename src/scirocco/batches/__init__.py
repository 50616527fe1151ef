"""Where data lives and how minibatches are drawn from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from scirocco.batches.arrays import Arrays
from scirocco.batches.base import Batch, Shard, Source
from scirocco.batches.draws import Batching, RandomBlocks, Shuffled, Sweeps, Weighted, WithReplacement
from scirocco.batches.frames import Labels
from scirocco.batches.grouped import grouped
from scirocco.batches.shards import Shards
from scirocco.batches.shuffle import shuffle_to
from scirocco.batches.spread import Spread
from scirocco.batches.strata import Strata
from scirocco.batches.stream import MemoryMapped, Rows, Stream
from scirocco.batches.tables import Arrow, Parquet
from scirocco.batches.tours import Tours

__all__ = [
    "Arrays",
    "Arrow",
    "Batch",
    "Batching",
    "MemoryMapped",
    "Parquet",
    "RandomBlocks",
    "Rows",
    "Shard",
    "Shards",
    "Shuffled",
    "Source",
    "Spread",
    "Strata",
    "Stream",
    "Sweeps",
    "Tours",
    "Weighted",
    "WithReplacement",
    "as_source",
    "grouped",
    "shuffle_to",
]


def as_source(data: Any, known: Mapping[str, Labels] | None = None) -> Arrays | Stream:
    """A source as it is; memory-mapped arrays and arrays in memory wrapped in theirs.

    ``known`` are the labels of columns whose codes are settled already.
    """
    if isinstance(data, Arrays):
        return data.coded(known or {})
    if isinstance(data, Stream):
        return data
    if isinstance(data, Source):
        return Rows(data)
    if any(isinstance(leaf, np.memmap) for leaf in jax.tree.leaves(data)):
        return MemoryMapped(data)
    return Arrays(data, known)
