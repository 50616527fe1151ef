"""How long chains run if nobody says: until they agree.

Chains make ``first`` passes each. If then R-hat of what they watch is at most ``AGREED`` over the second half of what
each has recorded, they stop; otherwise they make twice as many, and so on up to ``most``. A chain that has made its
passes waits for the others. The decision is a function of the chains alone: neither the clock nor the number of threads
enters.
"""

from __future__ import annotations

import threading

import numpy as np

from scirocco.run import convergence

AGREED = 1.05
MOST_ENTRIES, MOST_DOUBLINGS = 10**8, 4  # entries that a chain may look at; how often the passes are doubled


class Settling:
    """What ``chains`` have watched, and how many passes they make."""

    def __init__(self, chains: int, first: float, entries: int) -> None:
        self.watched: dict[int, list[np.ndarray]] = {chain: [] for chain in range(chains)}
        self.passes = float(first)
        self.most = float(np.clip(MOST_ENTRIES / max(1, entries), first, first * 2**MOST_DOUBLINGS))
        self.over = False
        self._arrived: set[int] = set()
        self._lock = threading.Lock()

    def arrive(self, chain: int) -> None:
        """A chain has made its passes: the last one decides what happens."""
        with self._lock:
            self._arrived.add(chain)
            if len(self._arrived) < len(self.watched) or self.over:
                return
            self.over = self.passes >= self.most or self.rhat() <= AGREED
            if not self.over:
                self.passes = min(2 * self.passes, self.most)
                self._arrived.clear()

    def went_on(self, passes: float) -> None:
        """A chain that comes from a checkpoint was to make so many: the decisions before it have been made."""
        with self._lock:
            self.passes = max(self.passes, passes)

    def rhat(self) -> float:
        """The largest of what is watched, over the second half of all chains; infinite for too few records."""
        length = min(len(own) for own in self.watched.values()) // 2
        if length < convergence.LEAST_DRAWS:
            return np.inf
        values = np.array([own[-length:] for own in self.watched.values()])
        moving = np.ptp(values, axis=(0, 1)) > 0
        return float(np.max(convergence.rhat(values[..., moving]), initial=1.0))
