"""A sampler on a manifold in units of its own for each leaf, or for each point.

    (x, v) <- geodesic of time h D,    v <- v - h D Lambda grad U,    friction and noise as they are

Time runs D times as fast: what ``Preconditioned`` does in flat space with a diagonal scale, in which a sphere becomes
one of radius 1/D. A constant scale for each point of a manifold keeps the law; a linear change of variables within a
point does not exist. ``step_size="auto"`` ends here for targets on manifolds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.keys import Use, fold
from scirocco.core.program import program_part
from scirocco.core.types import Gradient, Key, Params
from scirocco.manifolds import FLAT, Geometry
from scirocco.samplers.around import Around
from scirocco.samplers.base import Info


@program_part
@dataclass(frozen=True, eq=False)
class _Faster(Geometry):
    """A geometry in which time runs faster, by a factor for each point."""

    factor: Params = None

    def flow(self, x: Params, v: Params, h: Params) -> tuple[Params, Params]:
        """Farther along the geodesic."""
        return super().flow(x, v, jax.tree.map(lambda x, h, d: jnp.asarray(h * d, x.dtype), x, h, self.factor))

    def slope(self, x: Params, gradient: Params) -> Params:
        """Steeper."""
        return jax.tree.map(lambda s, d: (s * d).astype(s.dtype), super().slope(x, gradient), self.factor)


@dataclass(frozen=True, eq=False)
class Rescaled(Around):
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

    geodesic: ClassVar[bool] = True

    sampler: Any
    scale: Params = field(metadata={"keep": True})
    dispersion: float = 0.0

    def check(self, position: Params, geometry: Geometry = FLAT) -> None:
        """What the inner sampler has to say; and whether the scale fits."""
        if not self.sampler.geodesic:
            raise ValueError(f"Rescaled is for samplers that move on manifolds; got {type(self.sampler).__name__}")
        got, want = (str(jax.tree.structure(tree)) for tree in (self.scale, position))
        if got != want:
            raise ValueError(f"scale must have the structure of the parameters, {want}; got {got}")
        self.sampler.check(position, geometry)

    def init(self, key: Key, position: Params, geometry: Geometry = FLAT) -> Any:
        """Start around ``position``."""
        away = geometry.normal(fold(key, Use.START), position)
        away = jax.tree.map(lambda u, d: (self.dispersion * d * u).astype(u.dtype), away, self.scale)
        return self.sampler.init(fold(key, Use.INIT), geometry.exponential(position, away), geometry)

    def begin(self, key: Key, state: Any, geometry: Geometry = FLAT) -> Any:
        """Before each group of inner steps."""
        return self.sampler.begin(key, state, geometry)

    def step(self, key: Key, state: Any, gradient: Gradient, geometry: Geometry = FLAT) -> tuple[Any, Info]:
        """One step of the inner sampler in faster time."""
        return self.sampler.step(key, state, gradient, _Faster(geometry.parts, factor=self.scale))

    def stats(self, state: Any, geometry: Geometry = FLAT) -> dict[str, Any]:
        """The inner sampler's."""
        return self.sampler.stats(state, geometry)

    # The law, as of ``Preconditioned``: at D^2 times precision and noise, times D^2.

    def stationary_variance(self, state: Any, precision: Params, noise: Params, epoch: float = np.inf) -> Params:
        """The inner sampler's law in its own units, in those of the parameters."""
        scaled = (
            jax.tree.map(lambda x, d: x * np.asarray(d, np.float64) ** 2, t, self.scale) for t in (precision, noise)
        )
        variance = self.sampler.stationary_variance(state, *scaled, epoch)
        return jax.tree.map(lambda v, d: np.asarray(v) * np.asarray(d, np.float64) ** 2, variance, self.scale)

    def injected_noise(self, state: Any, like: Params) -> Params:
        """The inner sampler's, in units of the parameters."""
        return jax.tree.map(
            lambda x, v, d: jnp.broadcast_to(v / d**2, jnp.shape(x)), like, self.sampler.injected_noise(state, like),
            self.scale,
        )  # fmt: skip

    def drift_scale(self, state: Any, like: Params) -> Params:
        """The inner sampler's, in units of the parameters."""
        return jax.tree.map(lambda v, d: v * d**2, self.sampler.drift_scale(state, like), self.scale)

    def settled(self, state: Any, precision: Params, noise: Params) -> Any:
        """The inner sampler's."""
        scaled = (
            jax.tree.map(lambda x, d: x * np.asarray(d, np.float64) ** 2, t, self.scale) for t in (precision, noise)
        )
        return self.sampler.settled(state, *scaled)
