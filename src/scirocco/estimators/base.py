"""What every gradient estimator shares.

An estimator is a frozen dataclass with a host-side ``init`` (which may pass over all data) and a pure ``estimate`` for
jitted code. ``blank`` gives a state of the right structure without any work, for resuming from a checkpoint. An
estimator with ``refresh_every`` is asked to ``refresh`` its state, on the host, after that many steps of the chain.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from scirocco.batches import Batch
from scirocco.target import Target
from scirocco.types import Params


@runtime_checkable
class Estimator(Protocol):
    """The grammar of a gradient estimator."""

    def start(self, target: Target, position: Params, held: Params, seed: int) -> Params:
        """Where the chain starts: the given position, or the centre that the estimator finds for itself."""

    def init(self, target: Target, position: Params, held: Params) -> Any:
        """The state for a chain that starts at ``position``."""

    def blank(self, target: Target, position: Params, held: Params) -> Any:
        """A state with the structure and shapes of ``init``'s, made without looking at the data."""

    def estimate(self, target: Target, state: Any, position: Params, held: Params, batch: Batch) -> tuple[Params, Any]:
        """An unbiased estimate of grad U at ``position``, and the new state."""


@runtime_checkable
class Refreshing(Estimator, Protocol):
    """An estimator whose state is renewed from time to time by a pass over all data."""

    @property
    def refresh_every(self) -> int:
        """Steps of the chain between two refreshes."""

    def refresh(self, target: Target, state: Any, position: Params, held: Params) -> Any:
        """The renewed state."""
