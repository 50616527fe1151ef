"""What every gradient sampler shares: the words of its signature and how its settings are read.

A sampler is a frozen dataclass that inherits from ``Sampler[State]``, with ``init(key, position)`` and ``step(key,
state, gradient)``. Its state is a named tuple with at least ``position`` and ``step``. ``gradient(position)`` returns
an unbiased estimate of grad U with the structure of the position; all calls within one step see the same minibatch.
One that moves on manifolds inherits from ``GeodesicSampler[State]``: its methods take a ``Geometry`` as well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeGuard, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from scirocco.batches import Batching, RandomBlocks, Shuffled
from scirocco.core.checks import numbers
from scirocco.core.parts import part
from scirocco.core.program import program_part
from scirocco.core.types import Array, Gradient, GradientWithValues, Key, Params, Setting
from scirocco.integrators.matrix import Matrix, check_fit
from scirocco.manifolds import FLAT, Euclidean, Geometry, Manifold
from scirocco.schedules import Stages


@part
@dataclass(frozen=True)
class Auto:
    """A step size that is found before the run: the largest at which no posterior sd is off by more than ``sd_error``.

    ``search`` looks for the typical set by chains, whose draws say what the mode does not; by default only where the
    posterior is far from Gaussian at the mode. ``step_size="auto"`` is ``Auto()``.

    >>> Auto(sd_error=0.02)
    Auto(sd_error=0.02, search=None)
    """

    sd_error: float = 0.05
    search: bool | None = None

    def __post_init__(self) -> None:
        if not 0 < self.sd_error < 1:
            raise ValueError(f"sd_error must lie between 0 and 1, such as 0.05 for 5 %; got {self.sd_error!r}")


def automatic(step_size: Setting) -> Auto | None:
    """The wishes of a step size that is still to be found; None for one that is given."""
    if isinstance(step_size, str):
        if step_size != "auto":
            raise TypeError(f'step_size must be a number, a schedule, a pytree of numbers or "auto"; got {step_size!r}')
        return Auto()
    return step_size if isinstance(step_size, Auto) else None


class Info(NamedTuple):
    """What one step says of itself: its mean step size and the norm of its gradient."""

    step_size: Array
    gradient_norm: Array


class Strain(NamedTuple):
    """What was measured along a direction u = P q, P being what multiplies grad U in a step; all over q'u."""

    curvature: Any  # u'Hu
    noise: Any  # the variance of u'g
    temperature: Any  # q'(theta - mean) u'g, whose expectation is T if the law is right, Gaussian or not


@runtime_checkable
class SamplerState(Protocol):
    """What the state of any sampler has; most are named tuples with more."""

    @property
    def position(self) -> Params:
        """The parameters that the sampler moves."""

    @property
    def step(self) -> Array:
        """The number of gradient steps made."""


if TYPE_CHECKING:  # ``Sampler`` alone means ``Sampler[Any]``; Python itself knows defaults from 3.13 on
    from typing_extensions import TypeVar as TypeVarWithDefault

    State = TypeVarWithDefault("State", bound=SamplerState, default=Any)
else:
    State = TypeVar("State", bound=SamplerState)


@runtime_checkable
class Dynamics(Protocol[State]):
    """What a step of a chain calls of its sampler, once the sampler knows on which geometry it moves."""

    def check(self, position: Params) -> None:
        """Reject settings that do not fit the parameters."""

    def init(self, key: Key, position: Params) -> State:
        """The state of a chain at its start."""

    def begin(self, key: Key, state: State) -> State:
        """The state before a group of inner steps."""

    def step(self, key: Key, state: State, gradient: Gradient) -> tuple[State, Info]:
        """The state after one gradient step, and what the step says of itself."""

    def stats(self, state: State) -> dict[str, Array]:
        """Numbers that are stored with each draw."""


class Sampler(ABC, Generic[State]):
    """The grammar of a gradient sampler: a frozen dataclass of settings that inherits from this class.

    ``init`` and ``step`` must be there, and ``step_size`` and ``temperature`` among the fields. The other methods and
    attributes are hooks with defaults; whoever knows more of its sampler overrides them. Fields with numbers become
    arguments of the compiled program, so a step must not look at their values (``if self.friction > 0``).
    """

    step_size: Setting
    temperature: Setting

    inner_steps: int = 1
    """Gradient steps, each on a fresh minibatch, that make one step of the chain."""

    independent_draws: ClassVar[bool] = False
    """Whether the method relies on minibatches that are independent of each other."""

    geodesic: ClassVar[bool] = False
    """Whether it moves on manifolds, with these settings."""

    scalable: ClassVar[bool] = False
    """Whether the method keeps its law under a constant linear change of variables: it may then be preconditioned."""

    own_directions: ClassVar[bool] = False
    """Whether ``marginal`` says along which direction each parameter feels gradient noise."""

    full_data: ClassVar[bool] = False
    """Whether each step needs all data, as a Metropolis-Hastings test does, and values: a ``GradientWithValues``."""

    exact_minibatches: ClassVar[bool] = False
    """Whether the law is exact from minibatches, given that they are independent and that control variates of first
    order are centred where the chain starts: a ``GradientWithCentre``."""

    warm_up: int = 0
    """Steps in which the method still adapts, part of the burn-in."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        part(program_part(cls))

    @abstractmethod
    def init(self, key: Key, position: Params) -> State:
        """The state at the start, a named tuple with at least ``position`` and ``step``."""

    @abstractmethod
    def step(self, key: Key, state: State, gradient: Gradient) -> tuple[State, Info]:
        """One step of the dynamics: pure; ``gradient(position)`` is an unbiased estimate of grad U."""

    def check(self, position: Params) -> None:
        """Reject settings that do not fit the parameters, on the host, before any work."""

    def begin(self, key: Key, state: State) -> State:
        """The state before each group of inner steps; where momenta are redrawn, say."""
        del key
        return state

    def default_batching(self) -> Batching:
        """How minibatches are drawn if the run does not say: shuffled, or in independent blocks."""
        return RandomBlocks() if self.independent_draws else Shuffled()

    def unfinished(self, state: State) -> Array:
        """Whether the step of the chain needs more gradient steps, where their number depends on the state.

        Only asked of samplers that override it, in place of ``inner_steps``; ``state.step`` must then count gradient
        steps, because their random keys come from it.
        """
        raise NotImplementedError(f"a step of {type(self).__name__} has a fixed number of gradient steps")

    @property
    def open_ended(self) -> bool:
        """Whether ``unfinished`` says when a step of the chain is over."""
        return type(self).unfinished is not Sampler.unfinished

    def stats(self, state: State) -> dict[str, Array]:
        """Numbers that are stored with each draw, by name: kinetic energy, thermostat, ..."""
        del state
        return {}

    def fault(self, state: State) -> str:
        """What a state, averaged over chains and times, says against the law that is promised; empty for nothing."""
        del state
        return ""

    def on(self, geometry: Geometry) -> Dynamics[State]:
        """The sampler as it moves on a geometry; this one knows flat space only."""
        del geometry
        return self

    def recorded_stages(self) -> tuple[int, int]:
        """(period, explore): of every ``period`` steps the first ``explore`` are never recorded as draws.

        (1, 0), all steps, unless the temperature has stages, as those of ``schedules.cyclical`` do.
        """
        stages = self.temperature
        return (stages.period, stages.explore) if isinstance(stages, Stages) else (1, 0)

    # The law on a Gaussian, which the bias report and ``step_size="auto"`` need.

    @property
    def law_known(self) -> bool:
        """Whether the three methods below are there and hold for these settings."""
        return type(self).stationary_variance is not Sampler.stationary_variance

    def stationary_variance(self, state: State, precision: Params, noise: Params, epoch: float = np.inf) -> Params:
        """The law of the method on a Gaussian target, coordinate by coordinate.

        ``precision`` is the curvature of U, ``noise`` the variance of the gradient estimate, ``epoch`` the number of
        minibatches in an epoch without replacement (``Swept`` in sweeps, infinite for independent draws). The answer is
        the stationary variance of the position with this step size, discretisation and minibatch noise included.
        """
        raise NotImplementedError(f"{type(self).__name__} does not know its law")

    def injected_noise(self, state: State, like: Params) -> Params:
        """The injected noise, as the variance of a gradient noise that would do the same."""
        raise NotImplementedError(f"{type(self).__name__} does not know its law")

    def drift_scale(self, state: State, like: Params) -> Params:
        """What multiplies grad U of each parameter in the recursion of the positions; for compiled code too."""
        raise NotImplementedError(f"{type(self).__name__} does not know its law")

    def settled(self, state: State, precision: Params, noise: Params) -> State:
        """The state with what adapts (a thermostat, a preconditioner) where such a target will bring it."""
        del precision, noise
        return state

    def longest_step(self) -> float:
        """A step size beyond which the method fails whatever the target."""
        return np.inf

    def tuned(self, dimension: int, smallest: float, largest: float) -> Sampler[State]:
        """What follows from a step size that was found: for so many parameters, between these curvatures."""
        del dimension, smallest, largest
        return self

    def marginal(self, gradient: Params) -> Params:
        """The gradient as the marginal of each coordinate feels it."""
        return gradient

    def marginal_transposed(self, vector: Params) -> Params:
        """The transpose of the linear map ``marginal``, times a vector."""
        return vector


class GeodesicSampler(Sampler[State]):
    """A sampler that moves on manifolds: its methods take a ``Geometry`` as well, flat space by default."""

    geodesic: ClassVar[bool] = True

    @abstractmethod
    def init(self, key: Key, position: Params, geometry: Geometry = FLAT) -> State:
        """The state at the start, with tangent vectors for momenta."""

    @abstractmethod
    def step(self, key: Key, state: State, gradient: Gradient, geometry: Geometry = FLAT) -> tuple[State, Info]:
        """One step along geodesics; ``geometry.slope(x, g)`` is the tangent gradient."""

    def check(self, position: Params, geometry: Geometry = FLAT) -> None:
        """Reject settings that do not fit the parameters or their manifolds, on the host, before any work."""

    def begin(self, key: Key, state: State, geometry: Geometry = FLAT) -> State:
        """The state before each group of inner steps."""
        del key, geometry
        return state

    def stats(self, state: State, geometry: Geometry = FLAT) -> dict[str, Array]:
        """Numbers that are stored with each draw, by name."""
        del state, geometry
        return {}

    def on(self, geometry: Geometry) -> Dynamics[State]:
        """The sampler as it moves on a geometry: itself in flat space, else told the geometry in every call."""
        return self if geometry.flat else OnManifold(self, geometry)


@dataclass(frozen=True)
class OnManifold(Generic[State]):
    """A sampler that is told the geometry in every call."""

    sampler: GeodesicSampler[State]
    geometry: Geometry

    def check(self, position: Params) -> None:
        """Reject settings that do not fit the parameters on their manifolds."""
        self.sampler.check(position, self.geometry)

    def init(self, key: Key, position: Params) -> State:
        """The state of a chain at its start."""
        return self.sampler.init(key, position, self.geometry)

    def begin(self, key: Key, state: State) -> State:
        """The state before a group of inner steps."""
        return self.sampler.begin(key, state, self.geometry)

    def step(self, key: Key, state: State, gradient: Gradient) -> tuple[State, Info]:
        """The state after one gradient step, and what the step says of itself."""
        return self.sampler.step(key, state, gradient, self.geometry)

    def stats(self, state: State) -> dict[str, Array]:
        """Numbers that are stored with each draw."""
        return self.sampler.stats(state, self.geometry)


def has_law(sampler: object) -> TypeGuard[Sampler[Any]]:
    """Whether a sampler knows its own law."""
    return isinstance(sampler, Sampler) and sampler.law_known


def kinetic_energy(momentum: Params, geometry: Geometry = FLAT) -> Array:
    """p'p / 2m: T/2 when the momenta have their law, on a manifold of dimension m."""
    total = sum((jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(momentum)), start=jnp.zeros(()))
    return total / (2 * geometry.dimension(momentum))


def at(setting: Setting, step: Array | int) -> Any:
    """A setting at a step: schedules are called, everything else is constant."""
    return setting(step) if callable(setting) else setting


def spread(setting: Setting, step: Array | int, like: Params) -> Params:
    """A setting at a step, as a tree like ``like``: one number serves every leaf."""
    value = at(setting, step)
    shape: Any = jax.tree.structure(value, is_leaf=is_matrix)
    if shape == jax.tree.structure(like):
        return value
    if jax.tree_util.treedef_is_leaf(shape) and not is_matrix(value) and jnp.ndim(value) == 0:
        return jax.tree.map(lambda _: value, like)
    raise ValueError(
        f"a setting given as a pytree must have the structure of the sampled parameters, {jax.tree.structure(like)}; "
        f"got {shape}"
    )


def is_matrix(value: Any) -> bool:
    """Whether a setting is a matrix in place of a number."""
    return isinstance(value, Matrix)


def has_matrix(setting: Setting) -> bool:
    """Whether some leaf of a setting is a matrix."""
    return any(map(is_matrix, jax.tree.leaves(setting, is_leaf=is_matrix)))


def check_constant(name: str, setting: Params, position: Params, geometry: Geometry) -> None:
    """Reject a setting that differs within a point of a manifold, on the host."""

    def one(m: Manifold, x: Any, value: Any) -> None:
        if is_matrix(value):
            check_fit(name, value, m, x)
        elif not isinstance(m, Euclidean) and any(k != 1 for k in np.shape(value)[-m.point_axes :]):
            raise ValueError(
                f"{name} must be one number for each point of {m!r}, such as one number or an array with axes of "
                f"length 1 for the point's; got the shape {np.shape(value)}"
            )

    geometry.each(one, position, setting)


def norm(tree: Params) -> Float[Array, ""]:
    """The Euclidean norm of all leaves together."""
    return jnp.sqrt(sum((jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(tree)), start=jnp.zeros(())))


def size(tree: Params) -> int:
    """The number of coordinates of all leaves together."""
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def info(step_size: Params, gradient: Params) -> Info:
    """The report of a step; costs nothing when nobody reads it, because XLA drops unused results."""
    leaves = jax.tree.leaves(step_size)
    mean = sum((jnp.mean(jnp.asarray(h)) for h in leaves), start=jnp.zeros(())) / len(leaves)
    return Info(mean, norm(gradient))


def potential_difference(gradient: Gradient, start: Params, end: Params) -> Array:
    """U(end) - U(start), of a gradient that knows values too."""
    if not isinstance(gradient, GradientWithValues):
        raise TypeError(
            "a Metropolis-Hastings test needs values of U: this gradient is a function without a difference"
        )
    return gradient.difference(start, end)


def require_step_size(setting: Setting) -> None:
    """Reject a step size that is neither positive and finite nor to be found."""
    if automatic(setting) is None:
        require_positive("step_size", setting)


def require_positive(name: str, setting: Setting, *, allow_zero: bool = False) -> None:
    """Reject numbers that are not positive and finite; schedules are looked at over their first steps."""
    if isinstance(setting, jax.core.Tracer):
        return  # inside a compiled search over settings
    samples = [setting(t) for t in (0, 1, 1000)] if callable(setting) else [setting]
    for sample in samples:
        for leaf in jax.tree.leaves(sample, is_leaf=is_matrix):
            try:
                value = np.linalg.eigvalsh(leaf.value) if is_matrix(leaf) else numbers(name, leaf).astype(float)
            except TypeError:
                raise TypeError(f"{name} must be a number, a schedule or a pytree of numbers; got {leaf!r}") from None
            good = np.isfinite(value) & ((value >= 0) if allow_zero else (value > 0))
            if not np.all(good):
                least = "zero or positive" if allow_zero else "positive"
                raise ValueError(f"{name} must be {least} and finite; got {leaf!r}")
    if not jax.tree.leaves(samples):
        raise TypeError(f"{name} must be a number, a schedule or a pytree of numbers; got {setting!r}")
