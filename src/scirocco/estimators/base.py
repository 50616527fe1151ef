"""What every gradient estimator shares.

An estimator is a frozen dataclass that inherits from ``Estimator``, with a host-side ``init`` (which may pass over all
data) and a pure ``estimate`` for compiled code. ``blank`` gives a state of the right structure without any work, for
resuming from a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from scirocco.batches import Batch
from scirocco.core.parts import part
from scirocco.core.program import program_part
from scirocco.core.types import Params
from scirocco.target import PureDensity, Target

FindMode = Callable[..., Params]
"""(target, position, held=..., **options) -> the mode."""


class Estimator:
    """The grammar of a gradient estimator; ``estimate`` must be there, the rest has defaults of an estimator without
    state.

    Fields with numbers become arguments of the compiled program.
    """

    independent_draws: ClassVar[bool] = False
    """Whether the estimate is unbiased only with minibatches that are independent of each other."""

    stochastic: ClassVar[bool] = False
    """Whether the estimate has randomness of its own beside the minibatch's: ``estimate`` then takes a ``key`` last."""

    refresh_every: int | None = None
    """Steps of the chain after which ``refresh`` is called; None for never."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        part(program_part(cls))

    def start(self, target: Target, position: Params, held: Params, find_mode: FindMode) -> Params:
        """Where the chain starts: the given position, or a centre that the estimator wants, such as the mode."""
        del target, held, find_mode
        return position

    def init(self, target: Target, position: Params, held: Params) -> Any:
        """The state for a chain that starts at ``position``, on the host; may pass over all data."""
        del target, position, held
        return ()

    def blank(self, target: Target, position: Params, held: Params) -> Any:
        """A state with the structure and shapes of ``init``'s, made without looking at the data."""
        return self.init(target, position, held)

    def estimate(
        self, target: PureDensity, state: Any, position: Params, held: Params, batch: Batch
    ) -> tuple[Params, Any]:
        """An unbiased estimate of grad U at ``position``, and the new state: pure, from the functions of the target."""
        raise NotImplementedError(f"{type(self).__name__} must say how a gradient is estimated")

    def refresh(self, target: Target, state: Any, position: Params, held: Params) -> Any:
        """The state renewed by a pass over all data, on the host."""
        del target, position, held
        return state
