"""The way from what groups of chains made, in memory or on disk, to one trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from scirocco.run.description import Description, Stop
from scirocco.run.moments import Moments
from scirocco.run.ragged import concatenated, draws_of
from scirocco.run.store import Draws
from scirocco.run.trace import Trace


@dataclass(frozen=True)
class GroupResult:
    """What a group of chains has made."""

    chains: range
    count: int
    """Draws of each chain."""
    moments: Moments
    read: Callable[[], Draws]
    """Gives its draws."""
    on_disk: bool = False
    """Whether all of them are in the folder of the run, where a trace finds them when they are used."""
    newest: bool = False
    """Whether draws are numbered from the end: of more than the others have, the newest are those that are used."""
    leaves: dict[str, np.ndarray] = field(default_factory=dict)

    def draws(self, count: int) -> Draws:
        """So many draws of each chain."""
        first = self.count - count if self.newest else 0
        return {name: draws_of(values, first, first + count) for name, values in self.read().items()}


def trace_of(
    groups: Sequence[GroupResult], description: Description, folder: Path | None, *, bias: Any = None,
    stopped: Stop | None = None, seconds: float = 0.0,
) -> Trace:  # fmt: skip
    """The trace of the groups that have draws; as many draws as all of these have."""
    begun = [group for group in groups if group.count]
    count = min((group.count for group in begun), default=0)
    draws: Draws | Path
    if folder is not None and begun and all(group.on_disk for group in begun):
        draws = folder
    elif begun:
        parts = [group.draws(count) for group in begun]
        draws = {name: concatenated([part[name] for part in parts], chains=True) for name in parts[0]}
    else:
        draws = {name: variable.empty(0) for name, variable in description.variables.items()}
    return Trace(
        draws, count, Moments.joined([group.moments for group in begun]), bias=bias, stopped=stopped, seconds=seconds,
        description=description, variables=description.variables,
        chains=[chain for group in begun for chain in group.chains],
        leaves={group.chains.start: group.leaves for group in groups if group.leaves},
    )  # fmt: skip
