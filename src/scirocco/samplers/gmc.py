"""Geodesic Monte Carlo: Hamiltonian Monte Carlo on a manifold, with a Metropolis-Hastings test.

    v ~ N(0, T) tangent at x
    L times:  v <- v - h/2 Lambda grad U,    (x, v) <- geodesic of time h,    v <- v - h/2 Lambda grad U
    accept with probability min(1, exp(-(H' - H)/T)),    H = U + v'v/2

Targets exp(-U/T) with respect to the Hausdorff measure, exactly: the reference for the stochastic gradient samplers.
Each step needs the values of all data, so ``batch_size`` is N. Byrne and Girolami (2013), whose epsilon is h; in flat
space this is Hamiltonian Monte Carlo. U' - U is summed from differences row by row, which single precision can hold.

A trajectory of a whole period of an oscillation ends where it began, and a chain of them goes nowhere. So each has a
step size of its own, uniform on [(1 - jitter) h, h] and independent of the state, which leaves the law as it is: on a
Gaussian of curvature 1 the correlation of two draws is (sin s - sin s/2) / (s/2) with s = h L and the default jitter of
1/2, which is 0 first at s = 2 pi/3.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.checks import require_count
from scirocco.core.keys import Use, fold
from scirocco.core.trees import inner
from scirocco.core.types import Array, Gradient, Key, Params, Setting
from scirocco.integrators.langevin import kick
from scirocco.manifolds import FLAT, Geometry
from scirocco.samplers.base import (
    GeodesicSampler,
    Info,
    at,
    check_constant,
    info,
    potential_difference,
    require_positive,
    require_step_size,
    spread,
)

STEPS, LONGEST = 10, 200  # of a trajectory: by default, and the most that "auto" takes
ERROR = 4.0  # d h^4, at which 4 of 5 proposals are accepted


class GMCState(NamedTuple):
    """The parameters, the step count, and the probability with which the last proposal was accepted."""

    position: Params
    step: Array
    acceptance: Array


@dataclass(frozen=True)
class GMC(GeodesicSampler[GMCState]):
    """Geodesic Monte Carlo; ``step_size`` is h, ``leapfrog_steps`` L: 10, or with "auto" as many as the posterior is
    wide. ``jitter`` is the part of h that is random; 0 for none.

    >>> import jax, jax.numpy as jnp, scirocco as sc
    >>> data = sc.manifolds.Sphere().random(jax.random.key(0), (100, 3)) + jnp.array([1.0, 0.0, 0.0])
    >>> target = sc.Target(lambda x: 0.0, lambda x, row: row @ x, data, manifold=sc.manifolds.Sphere())
    >>> trace = sc.sample(target, GMC(0.1), jnp.array([0.0, 1.0, 0.0]), num_samples=200, chains=2)
    >>> bool(trace.sample_stats.acceptance.mean() > 0.8)
    True
    """

    full_data: ClassVar[bool] = True
    scalable: ClassVar[bool] = True

    step_size: Setting
    _: KW_ONLY
    leapfrog_steps: int | None = None
    jitter: float = 0.5
    temperature: Setting = 1.0

    def __post_init__(self) -> None:
        require_step_size(self.step_size)
        if self.leapfrog_steps is not None:
            require_count("leapfrog_steps", self.leapfrog_steps)
        if isinstance(self.jitter, bool) or not isinstance(self.jitter, int | float) or not 0 <= self.jitter < 1:
            raise ValueError(f"jitter must be a number from 0 to 1, without 1; got {self.jitter!r}")
        require_positive("temperature", self.temperature)

    def check(self, position: Params, geometry: Geometry = FLAT) -> None:
        """Reject step sizes that differ within a point of a manifold."""
        check_constant("step_size", spread(self.step_size, 0, position), position, geometry)

    def init(self, key: Key, position: Params, geometry: Geometry = FLAT) -> GMCState:
        """Start at ``position``; momenta are drawn at each step."""
        del key, geometry
        return GMCState(position, jnp.int32(0), jnp.float32(1))

    def step(self, key: Key, state: GMCState, gradient: Gradient, geometry: Geometry = FLAT) -> tuple[GMCState, Info]:
        """A trajectory, and the Metropolis-Hastings test at its end."""
        temperature = at(self.temperature, state.step)
        geometry = geometry.warm(temperature)
        start, most = state.position, spread(self.step_size, state.step, state.position)
        shorter = 1 - self.jitter * jax.random.uniform(fold(key, Use.JITTER))
        h = jax.tree.map(lambda h, x: jnp.asarray(h * shorter, x.dtype), most, start)
        half = jax.tree.map(lambda h: h / 2, h)
        scale = jnp.sqrt(jnp.asarray(temperature, jnp.float32))
        momentum = jax.tree.map(lambda z: (scale * z).astype(z.dtype), geometry.normal(key, start))

        def slope(position: Params) -> Params:
            return geometry.slope(position, gradient(position))

        def leap(_: Array, carry: tuple[Params, Params, Params]) -> tuple[Params, Params, Params]:
            position, momentum, force = carry
            position, momentum = geometry.flow(position, kick(momentum, force, half), h)
            force = slope(position)
            return position, kick(momentum, force, half), force

        first = slope(start)
        end, moved, _ = jax.lax.fori_loop(0, self.leapfrog_steps or STEPS, leap, (start, momentum, first))
        potential = potential_difference(gradient, start, end) - geometry.change(end) + geometry.change(start)
        # The tangent part alone: what rounding adds to it is not energy.
        kinetic = (inner(moved, moved) - inner(momentum, momentum)) / 2
        ratio = -(potential + kinetic) / temperature
        acceptance = jnp.where(jnp.isfinite(ratio), jnp.exp(jnp.minimum(ratio, 0.0)), 0.0)
        accepted = jax.random.uniform(fold(key, Use.ACCEPT)) < acceptance
        position = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), end, start)
        return GMCState(position, state.step + 1, acceptance.astype(jnp.float32)), info(h, first)

    def tuned(self, dimension: int, smallest: float, largest: float) -> GMC:
        """A step that is accepted with probability 0.8 or so, and a trajectory as long as the posterior is wide.

        On d coordinates of curvature 1 the error of the energy is about d h^4 / 32 on average.
        """
        assert isinstance(self.step_size, int | float)
        h = min(float(self.step_size), (ERROR / dimension) ** 0.25 / np.sqrt(largest))
        steps = int(np.clip(np.ceil(2 * np.pi / (3 * h * np.sqrt(smallest))), 1, LONGEST))
        return replace(self, step_size=h, leapfrog_steps=self.leapfrog_steps or steps)

    def stats(self, state: GMCState, geometry: Geometry = FLAT) -> dict[str, Array]:
        """The probability with which the last proposal was accepted."""
        del geometry
        return {"acceptance": state.acceptance}

    def stationary_variance(self, state: GMCState, precision: Params, noise: Params, epoch: float = np.inf) -> Params:
        """T / lambda: the test removes what the steps add; infinite where no step is accepted, at h^2 lambda >= 4."""
        del noise, epoch
        temperature = float(at(self.temperature, state.step))
        h = spread(self.step_size, state.step, precision)
        return jax.tree.map(
            lambda lam, h: np.where(np.asarray(h) ** 2 * lam < 4, temperature / np.asarray(lam), np.inf), precision, h
        )

    def injected_noise(self, state: GMCState, like: Params) -> Params:
        """2 T / h^2: the noise of momenta that are new each time."""
        temperature = at(self.temperature, state.step)
        return jax.tree.map(lambda h: 2 * temperature / (h * h), spread(self.step_size, state.step, like))

    def drift_scale(self, state: GMCState, like: Params) -> Params:
        """h^2 multiplies grad U in the recursion of the positions, as for SGHMC."""
        return jax.tree.map(lambda h: h * h, spread(self.step_size, state.step, like))
