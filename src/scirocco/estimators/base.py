"""What every gradient estimator shares.

An estimator is a frozen dataclass that inherits from ``Estimator``, with a host-side ``init`` (which may pass over all
data) and a pure ``estimate`` for compiled code. ``blank`` gives a state of the right structure without any work, for
resuming from a checkpoint.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from scirocco.batches import Batch
from scirocco.core.parts import part
from scirocco.core.program import program_part
from scirocco.core.types import Key, Params
from scirocco.density import PureDensity
from scirocco.target import Target

FindMode = Callable[..., Params]
"""(target, position, held=..., **options) -> the mode."""

if TYPE_CHECKING:  # ``Estimator`` alone means ``Estimator[Any]``; Python itself knows defaults from 3.13 on
    from typing_extensions import TypeVar as TypeVarWithDefault

    State = TypeVarWithDefault("State", default=Any)
else:
    State = TypeVar("State")


class Estimator(ABC, Generic[State]):
    """The grammar of a gradient estimator; ``estimate`` must be there, and ``init`` where there is a state.

    Fields with numbers become arguments of the compiled program.
    """

    independent_draws: ClassVar[bool] = False
    """Whether the estimate is unbiased only with minibatches that are independent of each other."""

    keeps_latent: ClassVar[bool] = False
    """Whether the estimate is given latent values of rows that are part of the chain, in its state."""

    refresh_every: int | None = None
    """Steps of the chain after which ``refresh`` is called; None for never."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        part(program_part(cls))

    def start(self, target: Target, position: Params, held: Params, find_mode: FindMode) -> Params:
        """Where the chain starts: the given position, or a centre that the estimator wants, such as the mode."""
        del target, held, find_mode
        return position

    def init(self, target: Target, position: Params, held: Params) -> State:
        """The state for a chain that starts at ``position``, on the host; may pass over all data."""
        del target, position, held
        empty: Any = ()
        return empty

    def blank(self, target: Target, position: Params, held: Params) -> State:
        """A state with the structure and shapes of ``init``'s, made without looking at the data."""
        return self.init(target, position, held)

    @abstractmethod
    def estimate(
        self, target: PureDensity, state: State, position: Params, held: Params, batch: Batch
    ) -> tuple[Params, State]:
        """An unbiased estimate of grad U at ``position``, and the new state: pure, from the functions of the target."""

    def anchored(self, target: PureDensity, state: State, held: Params) -> tuple[Params, Params]:
        """The fixed centre of a control variate and grad U of all data there; an error for an estimator without one."""
        raise TypeError(f"{type(self).__name__} has no fixed centre with the gradient of all data there")

    def refresh(self, target: Target, state: State, position: Params, held: Params) -> State:
        """The state renewed by a pass over all data, on the host."""
        del target, position, held
        return state


class StochasticEstimator(Estimator[State]):
    """An estimator with randomness of its own beside the minibatch's: its ``estimate`` is given a key as well."""

    @abstractmethod
    def estimate(
        self, target: PureDensity, state: State, position: Params, held: Params, batch: Batch, key: Key | None = None
    ) -> tuple[Params, State]:
        """An unbiased estimate of grad U with randomness from ``key``, and the new state; without a key an error."""
