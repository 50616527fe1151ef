"""Stochastic gradient Hamiltonian Monte Carlo.

    p <- p - h A p - h g(theta) + sqrt(2 (A T - B) h) xi,    theta <- theta + h p

The underdamped Langevin dynamics with friction A; B is an estimate of what the minibatch noise adds by itself, h V/2
for a gradient variance V. Targets exp(-U/T) up to O(h); without a right B the minibatch noise heats the chain. Chen,
Fox and Guestrin (2014), whose C is A here, in their reformulation eta = h^2 and alpha = A h.

On a manifold p is a tangent vector, the drift a geodesic, and gradient and noise enter by their tangent parts; see
``sggmc``. ``inner_steps`` gradient steps, each on a fresh minibatch, make one step of the chain; with
``resample_momentum`` each of these starts with a new momentum from N(0, T).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.checks import require_choice, require_count, require_flag
from scirocco.core.trees import normal_like
from scirocco.core.types import Array, Gradient, Key, Params, Setting
from scirocco.integrators.langevin import INTEGRATORS, STRAIGHT, noise_like
from scirocco.integrators.law import stationary_variance
from scirocco.integrators.matrix import Matrix, difference
from scirocco.manifolds import FLAT, Geometry, Manifold
from scirocco.samplers.base import (
    GeodesicSampler,
    Info,
    at,
    check_constant,
    has_matrix,
    info,
    is_matrix,
    kinetic_energy,
    require_positive,
    require_step_size,
    spread,
)
from scirocco.samplers.noise import GradientNoise


class LangevinState(NamedTuple):
    """The parameters, their momenta and the count of gradient steps."""

    position: Params
    step: Array
    momentum: Params


@dataclass(frozen=True)
class SGHMC(GeodesicSampler[LangevinState]):
    """SGHMC; ``step_size`` is the time step h, ``friction`` A, a number, a pytree of numbers or of ``Matrix``.

    ``noise_estimate`` is B, a number or a pytree, or ``GradientNoise``, which knows or measures V and stands for h V/2.

    >>> SGHMC(step_size=0.01, friction=1.0, inner_steps=5).integrator
    'euler'
    """

    scalable: ClassVar[bool] = True

    step_size: Setting
    _: KW_ONLY
    friction: Setting = 1.0
    noise_estimate: Setting = 0.0
    inner_steps: int = 1
    resample_momentum: bool = False
    integrator: str = "euler"
    temperature: Setting = 1.0

    def __post_init__(self) -> None:
        require_step_size(self.step_size)
        require_positive("friction", self.friction, allow_zero=True)
        require_noise(self.noise_estimate)
        require_positive("temperature", self.temperature, allow_zero=True)
        require_flag("resample_momentum", self.resample_momentum)
        require_count("inner_steps", self.inner_steps)
        require_choice("integrator", self.integrator, INTEGRATORS)

    def check(self, position: Params, geometry: Geometry = FLAT) -> None:
        """Reject a noise estimate above the friction, and settings that differ within a point of a manifold."""
        check_constant("step_size", spread(self.step_size, 0, position), position, geometry)
        check_constant("friction", spread(self.friction, 0, position), position, geometry)
        noise = self.noise_estimate
        matrices = has_matrix((self.friction, noise)) or (isinstance(noise, GradientNoise) and noise.full)
        if self.integrator in STRAIGHT and (matrices or not geometry.flat):
            raise ValueError(
                f"integrator {self.integrator!r} is for flat space, and for frictions and noise that are numbers: it "
                f"solves drift and friction together. Use {', '.join(n for n in INTEGRATORS if n not in STRAIGHT)}"
            )
        heat = warmth(self.friction, at(self.temperature, 0), jnp.int32(0), position)
        require_excess(heat, self.noise_estimate, spread(self.step_size, 0, position), position, geometry, "friction")

    @property
    def geodesic(self) -> bool:  # type: ignore[override]
        """Whether the integrator drifts along geodesics."""
        return self.integrator not in STRAIGHT

    @property
    def independent_draws(self) -> bool:  # type: ignore[override]
        """What is taken off for the noise is that of independent minibatches; of an epoch without replacement the noise
        sums to zero, and the chain would be too cold."""
        noise = self.noise_estimate
        given = isinstance(noise, GradientNoise) or callable(noise)
        return given or any(np.any(np.asarray(leaf) != 0) for leaf in jax.tree.leaves(noise))

    @property
    def law_known(self) -> bool:
        """The law below is that of momenta that are never redrawn, and of coordinates that do not mix."""
        noise = self.noise_estimate
        known = noise.measured or noise.constant if isinstance(noise, GradientNoise) else True
        return known and not (self.resample_momentum or has_matrix(self.friction) or has_matrix(noise))

    def init(self, key: Key, position: Params, geometry: Geometry = FLAT) -> LangevinState:
        """Start at ``position`` with a momentum from N(0, T)."""
        return LangevinState(position, jnp.int32(0), self._momentum(key, jnp.int32(0), position, geometry))

    def begin(self, key: Key, state: LangevinState, geometry: Geometry = FLAT) -> LangevinState:
        """Before each group of inner steps: a new momentum, if asked for."""
        if not self.resample_momentum:
            return state
        return state._replace(momentum=self._momentum(key, self._time(state), state.position, geometry))

    def step(
        self, key: Key, state: LangevinState, gradient: Gradient, geometry: Geometry = FLAT
    ) -> tuple[LangevinState, Info]:
        """One step of the integrator: position and momentum after a time h."""
        time = self._time(state)
        h = spread(self.step_size, time, state.position)
        integrator = INTEGRATORS[self.integrator]
        position, momentum, g = integrator(
            state.position, state.momentum, gradient, normal_like(key, noise_like(integrator, state.position)), h,
            spread(self.friction, time, state.position), self._diffusion(time, state.position, geometry, gradient),
            geometry.warm(at(self.temperature, time)),
        )  # fmt: skip
        return LangevinState(position, state.step + 1, momentum), info(h, g)

    def stats(self, state: LangevinState, geometry: Geometry = FLAT) -> dict[str, Array]:
        """The kinetic energy, T/2 when the momenta have their law."""
        return {"kinetic_energy": kinetic_energy(state.momentum, geometry)}

    def _time(self, state: LangevinState) -> Array:
        return state.step // self.inner_steps

    def _momentum(self, key: Key, time: Array, position: Params, geometry: Geometry) -> Params:
        scale = jnp.sqrt(jnp.asarray(at(self.temperature, time), jnp.float32))
        return jax.tree.map(lambda z: (scale * z).astype(z.dtype), geometry.normal(key, position))

    def _diffusion(self, time: Array, like: Params, geometry: Geometry = FLAT, gradient: Gradient | None = None) -> Any:
        """A T - B; a function of the position if B is."""
        heat = warmth(self.friction, at(self.temperature, time), time, like)
        h = spread(self.step_size, time, like)
        return injected(heat, self.noise_estimate, time, h, like, geometry, gradient)

    def stationary_variance(
        self, state: LangevinState, precision: Params, noise: Params, epoch: float = np.inf
    ) -> Params:
        """The variance of the linear recursion that the integrator makes on a Gaussian."""
        time = self._time(state)
        diffusion = self._diffusion(time, precision)
        if callable(diffusion):  # measured: what the noise is said to be
            diffusion = jax.tree.map(
                lambda a, v, h: np.maximum(a - h * v / 2, 0), warmth(self.friction, at(self.temperature, time), time,
                precision), noise, spread(self.step_size, time, precision),
            )  # fmt: skip
        return jax.tree.map(
            lambda lam, v, h, a, d: stationary_variance(INTEGRATORS[self.integrator], lam, v, h, a, d, epoch),
            precision, noise, spread(self.step_size, time, precision), spread(self.friction, time, precision),
            diffusion,
        )  # fmt: skip

    def injected_noise(self, state: LangevinState, like: Params) -> Params:
        """2 (A T - B) / h: the variance that a gradient noise would need to do what the injected noise does."""
        time = self._time(state)
        diffusion = self._diffusion(time, like)
        if callable(diffusion):  # all noise together is 2 A T / h
            diffusion = warmth(self.friction, at(self.temperature, time), time, like)
        return jax.tree.map(lambda h, d: 2 * d / h, spread(self.step_size, time, like), diffusion)

    def drift_scale(self, state: LangevinState, like: Params) -> Params:
        """h^2: a kick of h by the gradient moves the position by h times that."""
        return jax.tree.map(lambda h: h * h, spread(self.step_size, self._time(state), like))


# What SGHMC and the thermostat share.


def require_noise(noise: Setting) -> None:
    """Reject a noise estimate that is neither numbers nor ``GradientNoise``."""
    if not isinstance(noise, GradientNoise):
        require_positive("noise_estimate", noise, allow_zero=True)
    elif noise.constant:
        require_positive("noise_estimate", noise.variance, allow_zero=True)


def warmth(friction: Setting, temperature: Any, time: Array, like: Params) -> Params:
    """A T, friction times temperature: all noise that there should be."""

    def one(_: Any, a: Any) -> Any:
        return Matrix(a.value * temperature) if is_matrix(a) else a * temperature

    return jax.tree.map(one, like, spread(friction, time, like))


def injected(
    heat: Params, noise: Setting, time: Array, h: Params, like: Params, geometry: Geometry, gradient: Gradient | None
) -> Any:
    """A T - B, never negative; a function of the position where B depends on it."""

    def less(position: Params, b: Params) -> Params:
        return geometry.each(difference, position, heat, b)

    known = _known(noise, time, h, like)
    if known is not None:
        return less(like, known)
    return lambda position: less(position, _half(noise.at(position, gradient, geometry), h, position))


def require_excess(heat: Params, noise: Setting, h: Params, like: Params, geometry: Geometry, name: str) -> None:
    """Reject a noise estimate that is larger than all the noise there should be, on the host."""
    known = _known(noise, jnp.int32(0), h, like)
    if known is None:
        return

    def one(m: Manifold, x: Any, a: Any, b: Any) -> None:
        if is_matrix(a) or is_matrix(b):
            left = np.linalg.eigvalsh(np.asarray(difference(m, x, a, b).value))
            negative = np.min(left) < -1e-6 * np.max(np.abs(left))
        else:
            negative = np.any(np.asarray(a) - np.asarray(b) < 0)
        if negative:
            raise ValueError(
                f"noise_estimate must not exceed {name} * temperature; got {noise!r} and {name} * temperature "
                f"{np.asarray(a.value if is_matrix(a) else a)}: raise the {name} or take a smaller step"
            )

    geometry.each(one, like, heat, known)


def _known(noise: Setting, time: Array, h: Params, like: Params) -> Params:
    """The noise estimate B, or None if it depends on the position."""
    if not isinstance(noise, GradientNoise):
        return spread(noise, time, like)
    return _half(spread(noise.variance, time, like), h, like) if noise.constant else None


def _half(variance: Params, h: Params, like: Params) -> Params:
    """h V/2: the diffusion that a gradient noise of variance V adds by itself."""

    def one(_: Any, v: Any, h: Any) -> Any:
        return Matrix(h * v.value / 2) if is_matrix(v) else h * v / 2

    return jax.tree.map(one, like, variance, h)
