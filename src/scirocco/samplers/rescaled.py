"""A sampler on a manifold in units of its own for each leaf, or for each point.

    (x, v) <- geodesic of time h D,    v <- v - h D Lambda grad U,    friction and noise as they are

Time runs D times as fast: what ``Preconditioned`` does in flat space with a diagonal scale, in which a sphere becomes
one of radius 1/D. A constant scale for each point of a manifold keeps the law; a linear change of variables within a
point does not exist. ``step_size="auto"`` ends here for targets on manifolds.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.keys import Use, fold
from scirocco.core.program import program_part
from scirocco.core.types import Array, Gradient, Key, Params
from scirocco.manifolds import FLAT, Geometry
from scirocco.samplers.base import GeodesicSampler, Info, State
from scirocco.samplers.wrapper import Wrapper


@program_part
@dataclass(frozen=True, eq=False)
class _Faster(Geometry):
    """A geometry in which time runs faster, by a factor for each point."""

    factor: Params = None

    def flow(self, x: Params, v: Params, h: Params) -> tuple[Params, Params]:
        """The geodesic flow over a time that is longer by the factor."""
        return super().flow(x, v, jax.tree.map(lambda x, h, d: jnp.asarray(h * d, x.dtype), x, h, self.factor))

    def slope(self, x: Params, gradient: Params) -> Params:
        """The tangent gradient times the factor: the step along it is in the faster time too."""
        return jax.tree.map(lambda s, d: (s * d).astype(s.dtype), super().slope(x, gradient), self.factor)


@dataclass(frozen=True, eq=False)
class Rescaled(Wrapper[State], GeodesicSampler[State]):
    """``sampler`` with its step size, friction and noise in units of ``scale``, a tree of positive arrays that are
    constant within the points of manifolds: posterior sds, say.

    ``dispersion`` is the spread of the first positions of the chains around the start, in these units.

    >>> import jax
    >>> from scirocco.manifolds import Sphere
    >>> from scirocco.samplers import SGHMC
    >>> sphere, x = Geometry.of(Sphere()), jnp.array([1.0, 0.0])
    >>> sampler = Rescaled(SGHMC(0.1, friction=0.0), np.array([0.01], np.float32))
    >>> state = sampler.init(jax.random.key(0), x, sphere)
    >>> after, _ = sampler.step(jax.random.key(1), state, lambda x: 0 * x, sphere)
    >>> bool(jnp.linalg.norm(after.position - x) < 0.01)
    True
    """

    sampler: Any  # what is given is looked at by ``check``
    scale: Params = field(metadata={"keep": True})
    _: KW_ONLY
    dispersion: float = 0.0

    def check(self, position: Params, geometry: Geometry = FLAT) -> None:
        """Reject a scale that does not fit the parameters, and what the inner sampler rejects."""
        if not getattr(self.sampler, "geodesic", False):
            raise ValueError(f"Rescaled is for samplers that move on manifolds; got {type(self.sampler).__name__}")
        got, want = (str(jax.tree.structure(tree)) for tree in (self.scale, position))
        if got != want:
            raise ValueError(f"scale must have the structure of the parameters, {want}; got {got}")
        self.sampler.check(position, geometry)

    def init(self, key: Key, position: Params, geometry: Geometry = FLAT) -> State:
        """Start at a point around ``position``, ``dispersion`` units away."""
        away = geometry.normal(fold(key, Use.START), position)
        away = jax.tree.map(lambda u, d: (self.dispersion * d * u).astype(u.dtype), away, self.scale)
        return self.sampler.init(fold(key, Use.INIT), geometry.exponential(position, away), geometry)

    def begin(self, key: Key, state: State, geometry: Geometry = FLAT) -> State:
        """What the inner sampler does before each group of inner steps."""
        return self.sampler.begin(key, state, geometry)

    def step(self, key: Key, state: State, gradient: Gradient, geometry: Geometry = FLAT) -> tuple[State, Info]:
        """One step of the inner sampler in faster time."""
        return self.sampler.step(key, state, gradient, _Faster(geometry.parts, factor=self.scale))

    def stats(self, state: State, geometry: Geometry = FLAT) -> dict[str, Array]:
        """The statistics of the inner sampler."""
        return self.sampler.stats(state, geometry)

    # The law, as of ``Preconditioned``: at D^2 times precision and noise, times D^2.

    def stationary_variance(self, state: State, precision: Params, noise: Params, epoch: float = np.inf) -> Params:
        """The inner sampler's law in its own units, in those of the parameters."""
        variance = self.sampler.stationary_variance(state, self._scaled(precision), self._scaled(noise), epoch)
        return jax.tree.map(lambda v, d: np.asarray(v) * np.asarray(d, np.float64) ** 2, variance, self.scale)

    def injected_noise(self, state: State, like: Params) -> Params:
        """The injected noise of the inner sampler, in units of the parameters."""
        return jax.tree.map(
            lambda x, v, d: jnp.broadcast_to(v / d**2, jnp.shape(x)), like, self.sampler.injected_noise(state, like),
            self.scale,
        )  # fmt: skip

    def drift_scale(self, state: State, like: Params) -> Params:
        """What multiplies grad U in the inner sampler, in units of the parameters."""
        return jax.tree.map(lambda v, d: v * d**2, self.sampler.drift_scale(state, like), self.scale)

    def settled(self, state: State, precision: Params, noise: Params) -> State:
        """The state of the inner sampler where a target of this precision and noise, in its units, will bring it."""
        return self.sampler.settled(state, self._scaled(precision), self._scaled(noise))

    def _scaled(self, values: Params) -> Params:
        """D^2 times the values, in double precision."""
        return jax.tree.map(lambda x, d: x * np.asarray(d, np.float64) ** 2, values, self.scale)
