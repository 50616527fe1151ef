"""Stochastic gradient Barker dynamics.

    theta_i <- theta_i + b_i z_i,    z_i = sqrt(2 h T) xi_i,  E xi_i^2 = 1,    b_i = +-1,  P(b_i = 1) = s(-z_i g_i / T)

with s the logistic function and E g = grad U. The gradient tilts the sign of a move, and never its length: a step that
is too long for the curvature makes the chain wide, where that of SGLD throws it out. E b z = -h g + O(h^2) and
E z^2 = 2 h T, so h is the time step of the Langevin diffusion, and the chain targets exp(-U/T) up to O(h). On a
Gaussian with precision lambda and gradient noise of variance V the variance is T/lambda (1 + E xi^4 h (lambda + V/T)/2)
to first order, and beyond it is computed (``integrators.barker``). xi is +-(sqrt(0.99) + 0.1 N(0, 1)), as the source
prefers: E xi^4 = 1.04, and SGLD has 1 in its place; or standard normal, with three times the bias.

A gradient that is known to have noise of variance V makes sharper signs, which on the average over normal noise are
nearly those of the exact gradient: z g / T is divided by sqrt(1 - (z^2 V / T^2) / 1.702^2), and where that is not
positive the sign of g decides.

Mauri and Zanella (2024), whose sigma^2 is 2 h here (with bimodal increments 1.01 sigma^2) and tau^2 is V; Livingstone
and Zanella (2022) for the exact gradient.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.checks import require_choice
from scirocco.core.trees import at_least_single, normal_like
from scirocco.core.types import Array, Gradient, Key, Params, Setting
from scirocco.integrators.barker import PROBIT, SPREAD, barker_variance
from scirocco.manifolds import FLAT
from scirocco.samplers.base import Info, Sampler, at, has_matrix, info, require_positive, require_step_size, spread
from scirocco.samplers.noise import GradientNoise

INCREMENTS = ("bimodal", "normal")


class BarkerState(NamedTuple):
    """The parameters and the step count."""

    position: Params
    step: Array


@dataclass(frozen=True)
class Barker(Sampler[BarkerState]):
    """Stochastic gradient Barker dynamics; ``step_size`` is h.

    ``increments`` are "bimodal" or "normal". ``noise_estimate`` is a ``GradientNoise``, a number for each coordinate,
    known or measured; None leaves the signs as they are.

    >>> import jax
    >>> sampler = Barker(step_size=0.1)
    >>> state = sampler.init(jax.random.key(0), jax.numpy.zeros(2))
    >>> state, info = sampler.step(jax.random.key(1), state, gradient=lambda theta: 1e9 + theta)
    >>> bool(jax.numpy.all((state.position < 0) & (state.position > -1))), int(state.step)
    (True, 1)
    """

    scalable: ClassVar[bool] = True

    independent_draws: ClassVar[bool] = True
    """The law is known for independent minibatches: of noise that sums to zero over an epoch the signs keep a part."""

    step_size: Setting
    _: KW_ONLY
    increments: str = "bimodal"
    noise_estimate: GradientNoise | None = None
    temperature: Setting = 1.0

    def __post_init__(self) -> None:
        require_step_size(self.step_size)
        require_choice("increments", self.increments, INCREMENTS)
        require_positive("temperature", self.temperature)
        noise = self.noise_estimate
        if noise is None:
            return
        if not isinstance(noise, GradientNoise):
            raise TypeError(f"noise_estimate must be a GradientNoise, such as GradientNoise(V), or None; got {noise!r}")
        if noise.full or has_matrix(noise):
            raise ValueError(
                f"noise_estimate must have a number for each coordinate, whose signs are drawn one by one, such as "
                f'GradientNoise("diagonal"); got {noise!r}'
            )
        if noise.constant:
            require_positive("noise_estimate", noise.variance, allow_zero=True)

    @property
    def law_known(self) -> bool:
        """The law below is that of signs that do not know the noise, or know it as it is."""
        return self.noise_estimate is None or self.noise_estimate.measured

    def init(self, key: Key, position: Params) -> BarkerState:
        """A chain that starts at ``position``."""
        del key
        return BarkerState(position, jnp.int32(0))

    def step(self, key: Key, state: BarkerState, gradient: Gradient) -> tuple[BarkerState, Info]:
        """A move of each coordinate, with a sign that the gradient tilts."""
        h = spread(self.step_size, state.step, state.position)
        temperature = at(self.temperature, state.step)
        g = gradient(state.position)
        lengths, signs = normal_like(key, (state.position, state.position))

        def move(x: Array, g: Array, h: Any, length: Array, sign: Array, v: Any) -> Array:
            xi = length if self.increments == "normal" else np.sqrt(1 - SPREAD**2) + SPREAD * length
            left = 1 - 2 * h * v / temperature * xi**2 / PROBIT**2
            tilt = jnp.sqrt(2 * h / temperature) * xi * g / jnp.sqrt(jnp.maximum(left, 1e-30))
            onward = jax.scipy.special.ndtr(sign) < jax.nn.sigmoid(-tilt)
            moved = x + jnp.where(onward, 1, -1) * jnp.sqrt(2 * h * temperature) * xi
            return jnp.where(jnp.isnan(tilt), jnp.nan, moved).astype(x.dtype)  # what is no gradient must not look well

        position = jax.tree.map(
            move, state.position, at_least_single(g), h, at_least_single(lengths), at_least_single(signs),
            self._noise(state, gradient),
        )  # fmt: skip
        return BarkerState(position, state.step + 1), info(h, g)

    def _noise(self, state: BarkerState, gradient: Gradient) -> Params:
        """V of each coordinate that the signs are made for."""
        noise = self.noise_estimate
        if noise is None:
            return spread(0.0, state.step, state.position)
        if noise.constant:
            return spread(noise.variance, state.step, state.position)
        return noise.at(state.position, gradient, FLAT)

    def stationary_variance(
        self, state: BarkerState, precision: Params, noise: Params, epoch: float = np.inf
    ) -> Params:
        """The variance of the chain of one coordinate; of an epoch without replacement the noise is taken as
        independent, which is more than there is."""
        del epoch
        temperature = float(at(self.temperature, state.step))
        corrected = self.noise_estimate is not None
        return jax.tree.map(
            lambda lam, v, h: barker_variance(
                lam, v, np.asarray(h), temperature, increments=self.increments, corrected=corrected
            ),
            precision, noise, spread(self.step_size, state.step, precision),
        )  # fmt: skip

    def injected_noise(self, state: BarkerState, like: Params) -> Params:
        """2 T / h: the variance that a gradient noise would need to do what the moves do."""
        temperature = at(self.temperature, state.step)
        return jax.tree.map(lambda h: 2 * temperature / h, spread(self.step_size, state.step, like))

    def drift_scale(self, state: BarkerState, like: Params) -> Params:
        """h multiplies grad U in the mean of a move, where it is small."""
        return spread(self.step_size, state.step, like)
