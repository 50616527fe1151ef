"""The stochastic gradient Nose-Hoover thermostat.

    p <- p - h xi p - h g(theta) + sqrt(2 A T h) xi_t,    theta <- theta + h p,    xi <- xi + h (p'p/n - T)

The friction xi adapts until the mean kinetic energy is right, and so absorbs minibatch noise of unknown size: in the
limit xi ~ N(A + B, T/n) with B = h V / (2 T) for isotropic gradient noise of variance V. Targets exp(-U/T). Ding et
al. (2014), Algorithm 1; their Algorithm 2 is the same chain with eta = h^2 and a = A h. ``thermostats`` says which
momenta share one, for noise that is not the same in all directions: ``samplers.thermostats``. The integrator "badodab"
is the symmetric splitting of Leimkuhler and Shang (2016). On a manifold n is its dimension, p a tangent vector; see
``geodesic_sgnht``.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.checks import require_choice, require_count
from scirocco.core.trees import normal_like
from scirocco.core.types import Array, Gradient, Key, Params, Setting
from scirocco.integrators.langevin import baoab, euler, split_friction
from scirocco.integrators.law import stationary_variance
from scirocco.integrators.thermostat import THERMOSTATS
from scirocco.manifolds import FLAT, Geometry
from scirocco.samplers.base import (
    GeodesicSampler,
    Info,
    at,
    check_constant,
    info,
    kinetic_energy,
    require_positive,
    require_step_size,
    size,
    spread,
)
from scirocco.samplers.noise import GradientNoise
from scirocco.samplers.sghmc import injected, require_excess, require_noise, warmth
from scirocco.samplers.thermostats import KINDS, AlongDirections, Thermostats


class SGNHTState(NamedTuple):
    """The parameters, the step count, the momenta and the thermostat."""

    position: Params
    step: Array
    momentum: Params
    thermostat: Params


@dataclass(frozen=True)
class SGNHT(GeodesicSampler[SGNHTState]):
    """SGNHT; ``step_size`` is the time step h, ``diffusion`` the injected noise A.

    ``thermostats`` is "one" for all coordinates, one for each "leaf" (array of parameters) or each "coordinate", a
    "matrix" for each leaf, where noise is correlated too, or ``samplers.AlongDirections``, a matrix of low rank.
    ``noise_estimate`` is as for SGHMC: what need not be injected because the gradient brings it. ``inner_steps`` steps,
    each on a fresh minibatch, make one step of the chain.

    >>> SGNHT(step_size=0.01, diffusion=1.0, integrator="badodab").thermostats
    'one'
    """

    independent_draws: ClassVar[bool] = True
    """The thermostat absorbs independent noise only. Without replacement the noise of an epoch sums to zero: it heats
    the momenta but not the positions, and at 10 batches an epoch the variance came out at 0.4 of the posterior's."""

    scalable: ClassVar[bool] = True

    step_size: Setting
    _: KW_ONLY
    diffusion: Setting = 1.0
    thermostats: Any = "one"
    integrator: str = "euler"
    temperature: Setting = 1.0
    noise_estimate: Setting = 0.0
    inner_steps: int = 1

    def __post_init__(self) -> None:
        require_step_size(self.step_size)
        require_positive("diffusion", self.diffusion, allow_zero=True)
        require_positive("temperature", self.temperature, allow_zero=True)
        require_noise(self.noise_estimate)
        if not isinstance(self.thermostats, AlongDirections):
            require_choice("thermostats", self.thermostats, KINDS)
        require_count("inner_steps", self.inner_steps)
        require_choice("integrator", self.integrator, THERMOSTATS)

    def check(self, position: Params, geometry: Geometry = FLAT) -> None:
        """Reject settings that differ within a point of a manifold, and more noise than there should be."""
        h = spread(self.step_size, 0, position)
        check_constant("step_size", h, position, geometry)
        heat = warmth(self.diffusion, at(self.temperature, 0), jnp.int32(0), position)
        require_excess(heat, self.noise_estimate, h, position, geometry, "diffusion")
        self._kind.check(position, geometry, h, self._injected(jnp.int32(0), position, geometry))

    @property
    def law_known(self) -> bool:
        """Whether the law below holds: where the noise estimate is the same everywhere."""
        return not isinstance(self.noise_estimate, GradientNoise) or self.noise_estimate.constant

    def init(self, key: Key, position: Params, geometry: Geometry = FLAT) -> SGNHTState:
        """Start at ``position`` with a momentum from N(0, T) and the thermostat at A."""
        scale = jnp.sqrt(jnp.asarray(at(self.temperature, 0), jnp.float32))
        momentum = jax.tree.map(lambda z: (scale * z).astype(z.dtype), geometry.normal(key, position))
        start = jnp.asarray(at(self.diffusion, 0), jnp.result_type(*jax.tree.leaves(position)))
        return SGNHTState(position, jnp.int32(0), momentum, self._kind.start(start, position))

    def step(
        self, key: Key, state: SGNHTState, gradient: Gradient, geometry: Geometry = FLAT
    ) -> tuple[SGNHTState, Info]:
        """One step of the integrator: position, momentum and thermostat after a time h."""
        time = self._time(state)
        h = spread(self.step_size, time, state.position)
        temperature = at(self.temperature, time)

        def heat(thermostat: Params, momentum: Params, share: float) -> Params:
            return self._kind.driven(thermostat, momentum, h, temperature, geometry, share)

        position, momentum, thermostat, g = THERMOSTATS[self.integrator](
            state.position, state.momentum, state.thermostat, gradient, normal_like(key, state.position), h,
            self._injected(time, state.position, geometry, gradient), heat,
            lambda thermostat: self._kind.friction(thermostat, state.position), geometry.warm(temperature),
        )  # fmt: skip
        return SGNHTState(position, state.step + 1, momentum, thermostat), info(h, g)

    def stats(self, state: SGNHTState, geometry: Geometry = FLAT) -> dict[str, Array]:
        """The kinetic energy, and the mean of the thermostats."""
        frictions = self._kind.along(state.thermostat, state.position)
        total = sum((jnp.sum(leaf) for leaf in jax.tree.leaves(frictions)), start=jnp.zeros(()))
        energy = kinetic_energy(state.momentum, geometry)
        return {"kinetic_energy": energy, "thermostat": total / size(frictions)}

    def _time(self, state: SGNHTState) -> Array:
        return state.step // self.inner_steps

    @property
    def _kind(self) -> Thermostats:
        return self.thermostats if isinstance(self.thermostats, AlongDirections) else KINDS[self.thermostats]

    def _injected(self, time: Array, like: Params, geometry: Geometry = FLAT, gradient: Gradient | None = None) -> Any:
        """A T - B: the diffusion that is injected, the noise estimate B taken off."""
        heat = warmth(self.diffusion, at(self.temperature, time), time, like)
        return injected(heat, self.noise_estimate, time, spread(self.step_size, time, like), like, geometry, gradient)

    def settled(self, state: SGNHTState, precision: Params, noise: Params) -> SGNHTState:
        """The thermostat where gradient noise of this variance will bring it, D = A + h V / (2 T).

        With Euler's steps it is the root of xi (1 - h xi/2) = D, where the mean kinetic energy is right; there is none,
        and no stationary law, if 2 h D > 1.
        """
        del precision
        temperature = at(self.temperature, self._time(state))
        h = spread(self.step_size, self._time(state), noise)
        own = self._injected(self._time(state), noise)
        heat = jax.tree.map(lambda v, h, d: (np.asarray(d) + h * v / 2) / temperature, noise, h, own)

        def level(heat: Any, h: Any) -> Any:
            if self.integrator != "euler":
                return heat
            return np.where(2 * h * heat < 1, (1 - np.sqrt(np.maximum(1 - 2 * h * heat, 0))) / h, np.inf)

        return state._replace(thermostat=self._kind.settled(level, heat, h))

    def longest_step(self) -> float:
        """Beyond this the thermostat itself, which swings with frequency sqrt(2 T), loses its hold."""
        speed = max(float(np.sqrt(at(self.temperature, 0))), 1e-3)
        return {"euler": 0.15, "badodab": 0.5, "split_friction": 0.5}[self.integrator] / speed

    def stationary_variance(self, state: SGNHTState, precision: Params, noise: Params, epoch: float = np.inf) -> Params:
        """The linear recursion with the friction that the thermostat has settled at."""
        scheme = {"euler": euler, "badodab": baoab, "split_friction": split_friction}[self.integrator]
        return jax.tree.map(
            lambda lam, v, h, xi, d: stationary_variance(scheme, lam, v, h, xi, d, epoch),
            precision, noise, spread(self.step_size, self._time(state), precision),
            self._kind.along(state.thermostat, precision), self._injected(self._time(state), precision),
        )  # fmt: skip

    def injected_noise(self, state: SGNHTState, like: Params) -> Params:
        """2 (A T - B) / h: the variance that a gradient noise would need to do what the injected noise does."""
        own = self._injected(self._time(state), like)
        return jax.tree.map(lambda h, d: 2 * d / h, spread(self.step_size, self._time(state), like), own)

    def drift_scale(self, state: SGNHTState, like: Params) -> Params:
        """h^2 multiplies grad U in the recursion of the positions, as for SGHMC."""
        return jax.tree.map(lambda h: h * h, spread(self.step_size, self._time(state), like))
