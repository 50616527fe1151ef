"""Stochastic gradient Hamiltonian Monte Carlo.

    p <- p - h A p - h g(theta) + sqrt(2 (A T - B) h) xi,    theta <- theta + h p

The underdamped Langevin dynamics with friction A; B is an estimate of what the minibatch noise adds by itself, h V/2
for a gradient variance V. Targets exp(-U/T) up to O(h); without a right B the minibatch noise heats the chain. Chen,
Fox and Guestrin (2014), whose C is A here, in their reformulation eta = h^2 and alpha = A h.

``inner_steps`` gradient steps, each on a fresh minibatch, make one step of the chain; with ``resample_momentum`` each
of these starts with a new momentum from N(0, T).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.checks import require_choice, require_count
from scirocco.core.trees import normal_like
from scirocco.core.types import Array, Gradient, Key, Params, Setting
from scirocco.integrators.langevin import INTEGRATORS
from scirocco.integrators.law import stationary_variance
from scirocco.samplers.base import Info, Sampler, at, info, kinetic_energy, require_positive, require_step_size, spread


class LangevinState(NamedTuple):
    """The parameters, their momenta and the count of gradient steps."""

    position: Params
    step: Array
    momentum: Params


@dataclass(frozen=True)
class SGHMC(Sampler):
    """SGHMC; ``step_size`` is the time step h, ``friction`` A, ``noise_estimate`` B (a number or a pytree).

    >>> SGHMC(step_size=0.01, friction=1.0, inner_steps=5).integrator
    'euler'
    """

    scalable: ClassVar[bool] = True

    step_size: Setting
    friction: Setting = 1.0
    noise_estimate: Setting = 0.0
    inner_steps: int = 1
    resample_momentum: bool = False
    integrator: str = "euler"
    temperature: Setting = 1.0

    def __post_init__(self) -> None:
        require_step_size(self.step_size)
        require_positive("friction", self.friction, allow_zero=True)
        require_positive("noise_estimate", self.noise_estimate, allow_zero=True)
        require_positive("temperature", self.temperature, allow_zero=True)
        require_count("inner_steps", self.inner_steps)
        require_choice("integrator", self.integrator, INTEGRATORS)

    def check(self, position: Params) -> None:
        """Reject a noise estimate above the friction."""
        _ = self._diffusion(jnp.int32(0), position)

    @property
    def law_known(self) -> bool:
        """The law below is that of momenta that are never redrawn."""
        return not self.resample_momentum

    def init(self, key: Key, position: Params) -> LangevinState:
        """Start at ``position`` with a momentum from N(0, T)."""
        return LangevinState(position, jnp.int32(0), self._momentum(key, jnp.int32(0), position))

    def begin(self, key: Key, state: LangevinState) -> LangevinState:
        """Before each group of inner steps: a new momentum, if asked for."""
        if not self.resample_momentum:
            return state
        return state._replace(momentum=self._momentum(key, self._time(state), state.position))

    def step(self, key: Key, state: LangevinState, gradient: Gradient) -> tuple[LangevinState, Info]:
        """One step of the integrator."""
        time = self._time(state)
        h = spread(self.step_size, time, state.position)
        position, momentum, g = INTEGRATORS[self.integrator](
            state.position, state.momentum, gradient, normal_like(key, state.position), h,
            spread(self.friction, time, state.position), self._diffusion(time, state.position),
        )  # fmt: skip
        return LangevinState(position, state.step + 1, momentum), info(h, g)

    def stats(self, state: LangevinState) -> dict[str, Array]:
        """The kinetic energy."""
        return {"kinetic_energy": kinetic_energy(state.momentum)}

    def _time(self, state: LangevinState) -> Array:
        return state.step // self.inner_steps

    def _momentum(self, key: Key, time: Array, position: Params) -> Params:
        scale = jnp.sqrt(jnp.asarray(at(self.temperature, time), jnp.float32))
        return jax.tree.map(lambda z: (scale * z).astype(z.dtype), normal_like(key, position))

    def _diffusion(self, time: Array, like: Params) -> Params:
        """A T - B, never negative."""
        temperature = at(self.temperature, time)
        excess = jax.tree.map(
            lambda a, b: a * temperature - b, spread(self.friction, time, like), spread(self.noise_estimate, time, like)
        )
        for leaf in jax.tree.leaves(excess):
            if not isinstance(leaf, jax.core.Tracer) and np.any(np.asarray(leaf) < 0):
                raise ValueError(
                    f"noise_estimate must not exceed friction * temperature; got {self.noise_estimate!r} and friction "
                    f"{self.friction!r}: raise the friction or take a smaller step"
                )
        return jax.tree.map(lambda e: jnp.maximum(e, 0.0), excess)

    def stationary_variance(
        self, state: LangevinState, precision: Params, noise: Params, epoch: float = np.inf
    ) -> Params:
        """From the linear recursion that the integrator makes on a Gaussian."""
        time = self._time(state)
        return jax.tree.map(
            lambda lam, v, h, a, d: stationary_variance(INTEGRATORS[self.integrator], lam, v, h, a, d, epoch),
            precision, noise, spread(self.step_size, time, precision), spread(self.friction, time, precision),
            self._diffusion(time, precision),
        )  # fmt: skip

    def injected_noise(self, state: LangevinState, like: Params) -> Params:
        """2 (A T - B) / h."""
        time = self._time(state)
        return jax.tree.map(lambda h, d: 2 * d / h, spread(self.step_size, time, like), self._diffusion(time, like))

    def drift_scale(self, state: LangevinState, like: Params) -> Params:
        """h^2: a kick of h by the gradient moves the position by h times that."""
        return jax.tree.map(lambda h: h * h, spread(self.step_size, self._time(state), like))
