"""Stochastic gradient Langevin dynamics.

    theta <- theta - h g(theta) + sqrt(2 h T) xi,    xi ~ N(0, I),  E g = grad U

The Euler step of the Langevin diffusion with an estimated gradient. Targets exp(-U/T) up to O(h): on a Gaussian with
precision lambda and gradient noise of variance V the variance is (T + h V/2) / (lambda (1 - h lambda/2)). Welling and
Teh (2011), whose epsilon is 2h here; with ``estimator=ControlVariate()`` SGLD-CV of Baker et al. (2019).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.trees import normal_like
from scirocco.core.types import Array, Gradient, Key, Params, Setting
from scirocco.integrators.law import euler_variance
from scirocco.samplers.base import Info, Sampler, at, info, require_positive, require_step_size, spread


class SGLDState(NamedTuple):
    """The parameters and the step count."""

    position: Params
    step: Array


@dataclass(frozen=True)
class SGLD(Sampler[SGLDState]):
    """Stochastic gradient Langevin dynamics; ``step_size`` is h.

    >>> import jax
    >>> sampler = SGLD(step_size=0.1)
    >>> state = sampler.init(jax.random.key(0), jax.numpy.ones(2))
    >>> state, info = sampler.step(jax.random.key(1), state, gradient=lambda theta: theta)
    >>> state.position.shape, int(state.step)
    ((2,), 1)
    """

    scalable: ClassVar[bool] = True

    step_size: Setting
    _: KW_ONLY
    temperature: Setting = 1.0

    def __post_init__(self) -> None:
        require_step_size(self.step_size)
        require_positive("temperature", self.temperature, allow_zero=True)

    def init(self, key: Key, position: Params) -> SGLDState:
        """A chain that starts at ``position``."""
        del key
        return SGLDState(position, jnp.int32(0))

    def step(self, key: Key, state: SGLDState, gradient: Gradient) -> tuple[SGLDState, Info]:
        """One Euler step of the Langevin diffusion."""
        h = spread(self.step_size, state.step, state.position)
        temperature = at(self.temperature, state.step)
        g = gradient(state.position)
        position = jax.tree.map(
            lambda x, g, h, z: x - h * g + jnp.sqrt(2 * h * temperature) * z,
            state.position, g, h, normal_like(key, state.position),
        )  # fmt: skip
        return SGLDState(position, state.step + 1), info(h, g)

    def stationary_variance(self, state: SGLDState, precision: Params, noise: Params, epoch: float = np.inf) -> Params:
        """(T + h V/2) / (lambda (1 - h lambda/2)), infinite at h lambda >= 2."""
        h = spread(self.step_size, state.step, precision)
        temperature = float(at(self.temperature, state.step))
        return jax.tree.map(
            lambda lam, v, h: euler_variance(lam, v, np.asarray(h), temperature, epoch), precision, noise, h
        )

    def injected_noise(self, state: SGLDState, like: Params) -> Params:
        """2 T / h: the variance that a gradient noise would need to do what the injected noise does."""
        temperature = at(self.temperature, state.step)
        return jax.tree.map(lambda h: 2 * temperature / h, spread(self.step_size, state.step, like))

    def drift_scale(self, state: SGLDState, like: Params) -> Params:
        """h, the step size, multiplies grad U in the recursion of the positions."""
        return spread(self.step_size, state.step, like)
