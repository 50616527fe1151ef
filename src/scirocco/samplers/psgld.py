"""Preconditioned stochastic gradient Langevin dynamics.

    V <- alpha V + (1 - alpha) g^2,    G = 1 / (eps + sqrt(V)),    theta <- theta - h G g + sqrt(2 h G T) xi

The step size of each coordinate follows the size of its gradients, as in RMSprop. Li, Chen, Carlson and Carin (2016).
While G changes with theta the dynamics needs a correction, Gamma_i = dG_i/dtheta_i, which the authors drop; so G is
adapted for ``adaptation_steps`` only and then fixed: from there on this is SGLD with step size h G, whose law is that
of SGLD. Draws from the adaptation belong to the burn-in.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.checks import require_count
from scirocco.core.trees import normal_like
from scirocco.core.types import Array, Gradient, Key, Params, Setting
from scirocco.integrators.law import euler_variance
from scirocco.samplers.base import Info, Sampler, at, info, require_positive, require_step_size, spread


class PSGLDState(NamedTuple):
    """The parameters, the step count and the running mean of squared gradients."""

    position: Params
    step: Array
    square: Params


@dataclass(frozen=True)
class PSGLD(Sampler[PSGLDState]):
    """Preconditioned SGLD; ``step_size`` is h, and h G has the units of SGLD's step size.

    >>> PSGLD(step_size=0.01).adaptation_steps
    1000
    """

    scalable: ClassVar[bool] = True

    step_size: Setting
    _: KW_ONLY
    alpha: float = 0.99
    epsilon: float = 1e-5
    adaptation_steps: int = 1000
    temperature: Setting = 1.0

    def __post_init__(self) -> None:
        require_step_size(self.step_size)
        require_positive("temperature", self.temperature, allow_zero=True)
        require_positive("epsilon", self.epsilon)
        require_count("adaptation_steps", self.adaptation_steps)
        if not 0 <= self.alpha < 1:
            raise ValueError(f"alpha must lie in [0, 1); got {self.alpha!r}")

    def init(self, key: Key, position: Params) -> PSGLDState:
        """Start at ``position`` with a running mean of (2/h)^2.

        There the noise moves a coordinate by about h a step, as the drift does. A start from nothing, corrected for its
        bias as in Adam, would throw a chain that starts at the mode, where gradients vanish, out of it.
        """
        del key
        h = spread(self.step_size, 0, position)
        square = jax.tree.map(lambda p, h: jnp.broadcast_to(4 / (h * h), p.shape).astype(p.dtype), position, h)
        return PSGLDState(position, jnp.int32(0), square)

    def _step_sizes(self, state: PSGLDState) -> Params:
        """The step size h G of every coordinate."""
        h = spread(self.step_size, state.step, state.square)
        return jax.tree.map(lambda h, v: h / (self.epsilon + jnp.sqrt(v)), h, state.square)

    def step(self, key: Key, state: PSGLDState, gradient: Gradient) -> tuple[PSGLDState, Info]:
        """One Euler step with the diagonal preconditioner."""
        g = gradient(state.position)
        adapting = state.step < self.adaptation_steps
        square = jax.tree.map(
            lambda v, g: jnp.where(adapting, self.alpha * v + (1 - self.alpha) * g * g, v), state.square, g
        )
        h = self._step_sizes(state._replace(square=square))
        temperature = at(self.temperature, state.step)
        position = jax.tree.map(
            lambda x, g, h, z: x - h * g + jnp.sqrt(2 * h * temperature) * z,
            state.position, g, h, normal_like(key, state.position),
        )  # fmt: skip
        return PSGLDState(position, state.step + 1, square), info(h, g)

    def settled(self, state: PSGLDState, precision: Params, noise: Params) -> PSGLDState:
        """The running mean where it will come to: E g^2 = lambda T + V on a Gaussian."""
        temperature = at(self.temperature, state.step)
        return state._replace(square=jax.tree.map(lambda lam, v: lam * temperature + v, precision, noise))

    def stationary_variance(self, state: PSGLDState, precision: Params, noise: Params, epoch: float = np.inf) -> Params:
        """The stationary variance of SGLD with step size h G."""
        temperature = float(at(self.temperature, state.step))
        h = self._step_sizes(state)
        return jax.tree.map(
            lambda lam, v, h: euler_variance(lam, v, np.asarray(h), temperature, epoch), precision, noise, h
        )

    def injected_noise(self, state: PSGLDState, like: Params) -> Params:
        """2 T / (h G): the variance that a gradient noise would need to do what the injected noise does."""
        del like
        temperature = at(self.temperature, state.step)
        return jax.tree.map(lambda h: 2 * temperature / h, self._step_sizes(state))

    def drift_scale(self, state: PSGLDState, like: Params) -> Params:
        """h G multiplies grad U in the recursion of the positions."""
        del like
        return self._step_sizes(state)
